"""How containers fared over a time, and whether that is worse than how others did, or they before. Core, pure.

Little is no proof: nothing is judged of less time than is asked for, shares of the time must differ by a margin, and
restarts must be several and several times as frequent. What is not known of one of the two is not compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agent.core.orders.guard_options import GuardOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Fare:
    """How some containers fared, all together."""

    seconds: float
    """Of containers, that were looked at."""
    restarts: int = 0
    kills: int = 0
    """For want of memory."""
    unready_seconds: float = 0.0
    """Of containers whose pod was not Ready."""
    cpu_seconds: float = 0.0
    """Of containers, that their CPU was measured."""
    waiting_seconds: float | None = None
    """For CPU, without throttling; None = not known of all of them."""
    throttled_seconds: float | None = None
    """By their own CPU limit; None = not known of all of them."""

    @property
    def unready_ratio(self) -> float | None:
        """Return the share of the time that they were not Ready; None = nothing was seen."""
        return _share(self.unready_seconds, self.seconds)

    @property
    def waiting_ratio(self) -> float | None:
        """Return the share of the time that they waited for CPU; None = not known."""
        return _share(self.waiting_seconds, self.cpu_seconds)

    @property
    def throttled_ratio(self) -> float | None:
        """Return the share of the time that they were throttled; None = not known."""
        return _share(self.throttled_seconds, self.cpu_seconds)


def together(fares: Iterable[Fare]) -> Fare:
    """Return the sum; nothing seen where there is none."""
    every = list(fares)
    return Fare(
        seconds=sum(fare.seconds for fare in every),
        restarts=sum(fare.restarts for fare in every),
        kills=sum(fare.kills for fare in every),
        unready_seconds=sum(fare.unready_seconds for fare in every),
        cpu_seconds=sum(fare.cpu_seconds for fare in every),
        waiting_seconds=_sum(fare.waiting_seconds for fare in every),
        throttled_seconds=_sum(fare.throttled_seconds for fare in every),
    )


def worse(fare: Fare, other: Fare, options: GuardOptions, *, least_seconds: float, than: str) -> str | None:
    """Return in what containers fare worse than others, in words; None = in nothing, or it cannot be told.

    Args:
        fare: How those fare that were changed.
        other: What is compared with.
        options: The margins.
        least_seconds: Of each of both, above 0, for a judgement.
        than: What the others are called: ``before``, ``in the other pods``.
    """
    if fare.seconds < least_seconds or other.seconds < least_seconds:
        return None
    for what, count, other_count in (
        ("restarts", fare.restarts, other.restarts),
        ("out-of-memory kills", fare.kills, other.kills),
    ):
        is_frequent = count / fare.seconds >= options.restart_ratio * other_count / other.seconds
        if count >= options.least_restarts and is_frequent:
            return f"{what}: {count} in {_hours(fare)}, {other_count} in {_hours(other)} {than}"
    shares = [("not Ready", fare.unready_ratio, other.unready_ratio, options.unready_margin_ratio)]
    if fare.cpu_seconds >= least_seconds and other.cpu_seconds >= least_seconds:
        shares += [
            ("waiting for CPU", fare.waiting_ratio, other.waiting_ratio, options.waiting_margin_ratio),
            ("throttled", fare.throttled_ratio, other.throttled_ratio, options.throttled_margin_ratio),
        ]
    for what, ratio, its_ratio, margin in shares:
        if ratio is not None and its_ratio is not None and ratio - its_ratio >= margin:
            return f"{what} {ratio:.0%} of the time, {its_ratio:.0%} {than}"
    return None


def _share(part: float | None, whole: float) -> float | None:
    return None if part is None or whole <= 0.0 else part / whole


def _sum(every: Iterable[float | None]) -> float | None:
    known = list(every)
    return None if None in known or not known else sum(seconds for seconds in known if seconds is not None)


def _hours(fare: Fare) -> str:
    return f"{fare.seconds / 3600:.1f} container-hours"
