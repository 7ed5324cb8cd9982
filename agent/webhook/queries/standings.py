"""How each workload stands by the newest whole hour of the ledger: short, over, fits; kept for a minute. Webhook."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agent.core.cluster.workload import Workload
from agent.core.history.workloads.usage_ledger import LedgerHour
from agent.core.numbers.amount_text import BYTES, MILLICORES, amount_text
from agent.webhook.store.entries.node_hours import DAY_HOURS
from agent.webhook.store.store import Store

KEPT_SECONDS: Final = 60.0
WEEK_HOURS: Final = 7 * DAY_HOURS
SHORT_RATIO: Final = 0.01
"""Of its pods' time: a workload whose containers used more than requested for so much of it, added up, is short."""
APART_RATIO: Final = 0.05
"""A request fits that is no further from what is recommended: smaller changes are not made."""
_MILLI: Final = 1000
_HOUR_SECONDS: Final = 3600


class Severity(StrEnum):
    """How a workload stands."""

    SHORT = "short"
    """It has too little: killed within a day, above its requests, or they are below what is recommended."""
    OVER = "over"
    """It requests more than is recommended."""
    FITS = "fits"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadStanding:
    """One workload."""

    hour: LedgerHour | None
    """The newest whole hour; None = it is not in it."""
    kills_week: int
    severity: Severity
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Standings:
    """All workloads of the newest whole hour."""

    unix_hour: int | None
    """None = the ledger has nothing yet."""
    by_workload: Mapping[Workload, WorkloadStanding]

    def of(self, workload: Workload) -> WorkloadStanding:
        """Return one; of one that is not in the hour nothing is known."""
        return self.by_workload.get(workload, _UNKNOWN)


_UNKNOWN: Final = WorkloadStanding(
    hour=None, kills_week=0, severity=Severity.UNKNOWN, words="no whole hour of it is in the ledger yet"
)


class StandingBook:
    """Reads them from the store, at most once a minute for all askers; any thread that may wait."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._kept: tuple[float, Standings] | None = None

    def now(self) -> Standings:
        """Return them.

        Raises:
            StoreAway: The database does not answer.
        """
        with self._lock:
            if self._kept is None or self._clock() - self._kept[0] >= KEPT_SECONDS:
                self._kept = self._clock(), self._read()
            return self._kept[1]

    def _read(self) -> Standings:
        hour = self._store.newest_ledger_hour()
        if hour is None:
            return Standings(unix_hour=None, by_workload={})
        week = self._store.ledger_kills(hour - WEEK_HOURS + 1)
        day = self._store.ledger_kills(hour - DAY_HOURS + 1)
        return Standings(
            unix_hour=hour,
            by_workload={
                row.workload: standing_of(row, kills_day=day.get(row.workload, 0), kills_week=week.get(row.workload, 0))
                for row in self._store.ledger_at(hour)
            },
        )


def standing_of(row: LedgerHour, *, kills_day: int, kills_week: int) -> WorkloadStanding:
    """Judge a workload by an hour, and by its kills up to it."""
    severity, words = _judged(row, kills_day)
    return WorkloadStanding(hour=row, kills_week=kills_week, severity=severity, words=words)


def _judged(row: LedgerHour, kills_day: int) -> tuple[Severity, str]:
    if kills_day:
        return Severity.SHORT, f"killed for want of memory {kills_day} times within a day"
    both = ((row.cpu, "CPU", MILLICORES), (row.memory, "memory", BYTES))
    present_seconds = row.pods_milli * _HOUR_SECONDS / _MILLI
    for amounts, name, _ in both:
        if amounts.short_seconds and amounts.short_seconds >= SHORT_RATIO * present_seconds:
            seconds = amounts.short_seconds
            return Severity.SHORT, f"used more {name} than requested for {seconds} s of container time within the hour"
    apart = [
        (name, unit, amounts.recommended - amounts.requested, amounts.requested)
        for amounts, name, unit in both
        if amounts.requested is not None and amounts.recommended is not None
    ]
    if not apart:
        return Severity.UNKNOWN, "what it requests is not told, or there is no advice yet"
    for name, unit, more, requested in apart:
        if more > APART_RATIO * requested:
            return Severity.SHORT, f"needs {amount_text(more, unit)} more {name} than it requests"
    for name, unit, more, requested in apart:
        if -more > APART_RATIO * requested:
            return Severity.OVER, f"requests {amount_text(-more, unit)} of {name} that it does not need"
    return Severity.FITS, "requests what is recommended"
