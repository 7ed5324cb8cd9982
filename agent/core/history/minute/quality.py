"""How good sizing was: what was used against the requests that stood when it was used. Core, pure; values only.

A minute is judged by what was known before it began: the recommendation and the applied request of that moment, never
those of now. **Risk** is the share of judged minutes with more usage than request, **deficit** what was used above the
request over all that was used, **slack** what was requested above the usage over the same. CPU is the minute's mean in
CPU-seconds, memory the working set's peak in byte-hours. The **peak error** holds a predicted peak against the largest
demand seen in the UTC hour that began with that prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # numpy is not loaded for those who only show
    from agent.core.numbers.arrays import Floats

HOUR_SECONDS: Final = 3600
DAY_SECONDS: Final = 86_400
PRICE: Final = 60.0
"""What being short costs when as much idle costs 1: the price of the judge's table of rules (sizing facts, 4)."""


class Against(StrEnum):
    """Which request usage is held against; also a metric label."""

    RECOMMENDED = "recommended"
    APPLIED = "applied"


class QualityWindow(StrEnum):
    """Over how long; also a metric label."""

    HOUR = "1h"
    DAY = "1d"
    WEEK = "7d"

    @property
    def seconds(self) -> int:
        """Return how long that is."""
        return {"1h": HOUR_SECONDS, "1d": DAY_SECONDS, "7d": 7 * DAY_SECONDS}[self.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestQuality:
    """Usage of one resource against one request; amounts are CPU-seconds of CPU and byte-hours of memory."""

    judged_minutes: float
    """Minutes of a container in which usage and request were known."""
    above_minutes: float
    """Of them, those with more usage than request."""
    used_amount: float
    missing_amount: float
    """Used above the request."""
    excess_amount: float
    """Requested above the usage."""

    @property
    def risk_ratio(self) -> float | None:
        """Return the share of minutes above the request; None = none was judged."""
        return self.above_minutes / self.judged_minutes if self.judged_minutes > 0 else None

    @property
    def deficit_ratio(self) -> float | None:
        """Return what was missing over what was used; None = nothing was used."""
        return self.missing_amount / self.used_amount if self.used_amount > 0 else None

    @property
    def slack_ratio(self) -> float | None:
        """Return what was in excess over what was used; None = nothing was used."""
        return self.excess_amount / self.used_amount if self.used_amount > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakQuality:
    """Predicted peaks of one resource against those seen, summed over hours; millicores or bytes."""

    judged_hours: float
    """UTC hours that began with a prediction and were measured almost whole."""
    seen_amount: float
    over_amount: float
    """Predicted above what was seen."""
    under_amount: float
    """Seen above what was predicted."""

    @property
    def over_ratio(self) -> float | None:
        """Return by how much predictions were too large; None = no peak was seen."""
        return self.over_amount / self.seen_amount if self.seen_amount > 0 else None

    @property
    def under_ratio(self) -> float | None:
        """Return by how much predictions were too small; None = no peak was seen."""
        return self.under_amount / self.seen_amount if self.seen_amount > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceQuality:
    """One resource."""

    recommended: RequestQuality
    applied: RequestQuality
    peak: PeakQuality

    def against(self, against: Against) -> RequestQuality:
        """Return the quality of one of the two requests."""
        return self.recommended if against is Against.RECOMMENDED else self.applied


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingQuality:
    """Both resources over one window."""

    cpu: ResourceQuality
    memory: ResourceQuality


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityWindows:
    """The three windows, each up to the newest judged minute."""

    hour: SizingQuality
    day: SizingQuality
    week: SizingQuality

    def over(self, window: QualityWindow) -> SizingQuality:
        """Return one of them."""
        return {QualityWindow.HOUR: self.hour, QualityWindow.DAY: self.day, QualityWindow.WEEK: self.week}[window]


# As numbers in a row: how they are summed up, kept and sent. What is added later stands at the end.

REQUEST_FIELDS: Final = 5
PEAK_FIELDS: Final = 4
RESOURCE_FIELDS: Final = 2 * REQUEST_FIELDS + PEAK_FIELDS
QUALITY_FIELDS: Final = 2 * RESOURCE_FIELDS
"""CPU, then memory; of each the recommended request, the applied one, the peak: fields in the classes' order."""
PEAK_OFFSET: Final = 2 * REQUEST_FIELDS
WINDOWS: Final = tuple(QualityWindow)


def to_windows(figures: Floats | Sequence[Sequence[float]]) -> QualityWindows:
    """Return the values of figures of shape ``(3, QUALITY_FIELDS)``, or more fields, which are not looked at."""
    hour, day, week = (_to_quality([float(figure) for figure in row]) for row in figures)
    return QualityWindows(hour=hour, day=day, week=week)


def _to_quality(figures: Sequence[float]) -> SizingQuality:
    return SizingQuality(
        cpu=_to_resource(figures[:RESOURCE_FIELDS]), memory=_to_resource(figures[RESOURCE_FIELDS:QUALITY_FIELDS])
    )


def _to_resource(figures: Sequence[float]) -> ResourceQuality:
    hours, seen, over, under = figures[PEAK_OFFSET:]
    return ResourceQuality(
        recommended=_to_request(figures[:REQUEST_FIELDS]),
        applied=_to_request(figures[REQUEST_FIELDS:PEAK_OFFSET]),
        peak=PeakQuality(judged_hours=hours, seen_amount=seen, over_amount=over, under_amount=under),
    )


def _to_request(figures: Sequence[float]) -> RequestQuality:
    minutes, above, used, missing, excess = figures
    return RequestQuality(
        judged_minutes=minutes, above_minutes=above, used_amount=used, missing_amount=missing, excess_amount=excess
    )
