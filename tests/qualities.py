"""How good sizing was, made by hand for tests of what keeps, sends and shows it."""

from __future__ import annotations

import numpy as np

from agent.core.history.minute.quality import QUALITY_FIELDS, RESOURCE_FIELDS
from agent.core.history.minute.quality_ledger import JudgedMinute, QualityLedger, StandingRequests
from agent.core.numbers.arrays import Floats

GIB = 1 << 30
Told = tuple[tuple[float, ...], ...]


def told(
    *,
    minutes: float = 100.0,
    above: float = 10.0,
    missing: float = 50.0,
    excess: float = 500.0,
    peak_under: float = 5.0,
) -> Told:
    """Return the figures of three windows: CPU against the recommended request and its peaks; nothing else judged.

    1,000 CPU-seconds are used, and the peaks of two hours are 100 together.
    """
    cpu = [minutes, above, 1000.0, missing, excess, *[0.0] * 5, 2.0, 100.0, 10.0, peak_under]
    row = (*cpu, *[0.0] * RESOURCE_FIELDS)
    assert len(row) == QUALITY_FIELDS
    return (row, row, row)


def two_hours(first_unix_minute: int, *, rows: int, judged: tuple[int, ...] = (0,)) -> QualityLedger:
    """Return a ledger that judged 130 minutes from the beginning of an hour on.

    Each row used 600m and 1 GiB; 500m and 2 GiB were recommended, 1000m and 0.5 GiB applied; the peaks that were
    predicted are the recommended requests.
    """
    ledger = QualityLedger(rows)
    count = len(judged)
    known = np.ones(count, dtype=np.bool_)

    def requests(recommended: float, applied: float) -> StandingRequests:
        return StandingRequests(
            recommended=np.full(count, recommended),
            has_recommended=known,
            applied=np.full(count, applied),
            has_applied=known,
            peak=np.full(count, recommended),
            has_peak=known,
        )

    def all_of(amount: float) -> Floats:
        return np.full(count, amount)

    for minute in range(130):
        ledger.fold(
            JudgedMinute(
                unix_minute=first_unix_minute + minute,
                rows=np.array(judged, dtype=np.intp),
                covered_seconds=all_of(60.0),
                cpu_usage_millicores=all_of(600.0),
                cpu_peak_millicores=all_of(600.0),
                has_cpu=known,
                working_set_bytes=all_of(1.0 * GIB),
                has_memory=known,
                cpu=requests(500.0, 1000.0),
                memory=requests(2.0 * GIB, 0.5 * GIB),
            )
        )
    return ledger
