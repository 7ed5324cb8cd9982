"""The ledger of quality: each minute against what stood when it began, in sums that move on with time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from agent.core.history.minute.quality import QualityWindows, to_windows
from agent.core.history.minute.quality_ledger import JudgedMinute, QualityLedger, StandingRequests

MINUTE = 28_000_800
"""Of a UTC hour's, and a day's, beginning."""
GIB = 1 << 30


def standing(
    recommended: Sequence[float | None], applied: Sequence[float | None], peak: Sequence[float | None]
) -> StandingRequests:
    """Return what stands; None = nothing."""

    def column(amounts: Sequence[float | None]) -> tuple[np.ndarray, np.ndarray]:
        return (
            np.array([amount or 0.0 for amount in amounts]),
            np.array([amount is not None for amount in amounts], dtype=np.bool_),
        )

    (a, has_a), (b, has_b), (c, has_c) = column(recommended), column(applied), column(peak)
    return StandingRequests(recommended=a, has_recommended=has_a, applied=b, has_applied=has_b, peak=c, has_peak=has_c)


def minute(
    unix_minute: int,
    *,
    rows: Sequence[int] = (0,),
    cpu: Sequence[float | None] = (200.0,),
    peak: Sequence[float] | None = None,
    memory: Sequence[float | None] | None = None,
    covered_seconds: float = 60.0,
    cpu_requests: StandingRequests | None = None,
    memory_requests: StandingRequests | None = None,
) -> JudgedMinute:
    """Return a minute of containers, each with 250m recommended, 100m applied and a predicted peak of 300m."""
    count = len(rows)
    memory = [None] * count if memory is None else memory
    return JudgedMinute(
        unix_minute=unix_minute,
        rows=np.array(rows, dtype=np.intp),
        covered_seconds=np.full(count, covered_seconds),
        cpu_usage_millicores=np.array([amount or 0.0 for amount in cpu]),
        cpu_peak_millicores=np.array([amount or 0.0 for amount in (cpu if peak is None else peak)]),
        has_cpu=np.array([amount is not None for amount in cpu], dtype=np.bool_),
        working_set_bytes=np.array([amount or 0.0 for amount in memory]),
        has_memory=np.array([amount is not None for amount in memory], dtype=np.bool_),
        cpu=cpu_requests or standing([250.0] * count, [100.0] * count, [300.0] * count),
        memory=memory_requests or standing([None] * count, [None] * count, [None] * count),
    )


def quality(ledger: QualityLedger, unix_minute: int, row: int = 0) -> QualityWindows:
    """Return the windows of a row."""
    return to_windows(ledger.windows(unix_minute, np.array([row], dtype=np.intp))[0])


def test_fold_holds_usage_against_both_requests() -> None:
    """200m used for a minute are 12 CPU-seconds: 3 in excess of 250m, 6 missing at 100m."""
    ledger = QualityLedger(1)
    ledger.fold(minute(MINUTE))
    cpu = quality(ledger, MINUTE).hour.cpu
    assert (cpu.recommended.judged_minutes, cpu.recommended.above_minutes) == (1.0, 0.0)
    assert (cpu.applied.judged_minutes, cpu.applied.above_minutes) == (1.0, 1.0)
    assert cpu.recommended.used_amount == cpu.applied.used_amount == pytest.approx(12.0)
    assert (cpu.recommended.missing_amount, cpu.recommended.excess_amount) == pytest.approx((0.0, 3.0))
    assert (cpu.applied.missing_amount, cpu.applied.excess_amount) == pytest.approx((6.0, 0.0))


def test_fold_counts_memory_in_byte_hours() -> None:
    """2 GiB in use for a minute above a request of 1 GiB are a sixtieth of a GiB-hour missing."""
    ledger = QualityLedger(1)
    requests = standing([GIB], [None], [None])
    ledger.fold(minute(MINUTE, cpu=[None], memory=[2.0 * GIB], memory_requests=requests))
    memory = quality(ledger, MINUTE).hour.memory
    assert memory.recommended.missing_amount == pytest.approx(GIB / 60)
    assert memory.recommended.used_amount == pytest.approx(2 * GIB / 60)
    assert memory.applied.judged_minutes == 0.0
    assert quality(ledger, MINUTE).hour.cpu.recommended.judged_minutes == 0.0


def test_fold_counts_amounts_for_the_time_that_was_covered() -> None:
    """A container that was there for half of the minute used half of it; the minute counts whole."""
    ledger = QualityLedger(1)
    ledger.fold(minute(MINUTE, covered_seconds=30.0))
    recommended = quality(ledger, MINUTE).hour.cpu.recommended
    assert (recommended.judged_minutes, recommended.used_amount) == pytest.approx((1.0, 6.0))


def test_usage_at_the_request_is_not_above() -> None:
    """Above is strict."""
    ledger = QualityLedger(1)
    ledger.fold(minute(MINUTE, cpu=[250.0]))
    assert quality(ledger, MINUTE).hour.cpu.recommended.above_minutes == 0.0


def test_containers_of_one_row_add_up() -> None:
    """Two pods of a workload on a node: two minutes of a container each minute."""
    ledger = QualityLedger(2)
    ledger.fold(minute(MINUTE, rows=(1, 1), cpu=(200.0, 300.0)))
    recommended = quality(ledger, MINUTE, 1).hour.cpu.recommended
    assert (recommended.judged_minutes, recommended.above_minutes) == (2.0, 1.0)
    assert (recommended.missing_amount, recommended.excess_amount) == pytest.approx((3.0, 3.0))
    assert quality(ledger, MINUTE, 0).week.cpu.recommended.judged_minutes == 0.0
    assert to_windows(ledger.total(MINUTE)).hour == quality(ledger, MINUTE, 1).hour


def test_a_minute_is_judged_once() -> None:
    """What is not after the newest is left out."""
    ledger = QualityLedger(1)
    ledger.fold(minute(MINUTE + 1))
    ledger.fold(minute(MINUTE + 1))
    ledger.fold(minute(MINUTE))
    assert quality(ledger, MINUTE + 1).week.cpu.applied.judged_minutes == 1.0


def test_windows_move_on() -> None:
    """An hour of six ten minutes, a day of 24 hours, a week of seven days; a place is used again."""
    ledger = QualityLedger(1)
    for number in range(120):
        ledger.fold(minute(MINUTE + number))
    windows = quality(ledger, MINUTE + 119)
    assert windows.hour.cpu.applied.judged_minutes == 60.0
    assert windows.day.cpu.applied.judged_minutes == windows.week.cpu.applied.judged_minutes == 120.0
    later = quality(ledger, MINUTE + 119 + 60)
    assert later.hour.cpu.applied.judged_minutes == 0.0
    assert later.day.cpu.applied.judged_minutes == 120.0
    assert quality(ledger, MINUTE + 24 * 60).day.cpu.applied.judged_minutes == 60.0
    assert quality(ledger, MINUTE + 6 * 1440).week.cpu.applied.judged_minutes == 120.0
    ledger.fold(minute(MINUTE + 7 * 1440))
    at_last = quality(ledger, MINUTE + 7 * 1440)
    assert at_last.week.cpu.applied.judged_minutes == at_last.hour.cpu.applied.judged_minutes == 1.0
    assert len(ledger.windows(MINUTE + 7 * 1440)) == 1


def hour_of(ledger: QualityLedger, first: int, peaks: Sequence[float], *, predicted: float | None = 300.0) -> None:
    """Fold an hour with its peaks, and the first minute of the next."""
    stands = standing([250.0], [100.0], [predicted])
    for number, peak in enumerate((*peaks, 1.0)):
        ledger.fold(minute(first + number, peak=(peak,), cpu_requests=stands))


def test_peak_of_an_hour_is_held_against_what_was_predicted_at_its_beginning() -> None:
    """300m predicted, 400m seen: 100m too small, told when the hour is over."""
    ledger = QualityLedger(1)
    hour_of(ledger, MINUTE, [200.0] * 30 + [400.0] + [200.0] * 29)
    peak = quality(ledger, MINUTE + 60).hour.cpu.peak
    assert (peak.judged_hours, peak.seen_amount, peak.over_amount, peak.under_amount) == (1.0, 400.0, 0.0, 100.0)
    assert quality(ledger, MINUTE + 60).hour.memory.peak.judged_hours == 0.0


def test_peak_that_was_predicted_too_large_is_over() -> None:
    """300m predicted, 200m seen."""
    ledger = QualityLedger(1)
    hour_of(ledger, MINUTE, [200.0] * 60)
    peak = quality(ledger, MINUTE + 60).day.cpu.peak
    assert (peak.seen_amount, peak.over_amount, peak.under_amount) == (200.0, 100.0, 0.0)


def test_peak_is_not_judged_without_a_prediction_or_a_whole_hour() -> None:
    """What was not seen may have been the peak; what was predicted later knew of it."""
    begun_late = QualityLedger(1)
    hour_of(begun_late, MINUTE + 1, [200.0] * 59)
    nothing_predicted = QualityLedger(1)
    hour_of(nothing_predicted, MINUTE, [200.0] * 60, predicted=None)
    with_a_gap = QualityLedger(1)
    for number in (*range(50), 60):
        with_a_gap.fold(minute(MINUTE + number))
    for ledger in (begun_late, nothing_predicted, with_a_gap):
        assert quality(ledger, MINUTE + 60).week.cpu.peak.judged_hours == 0.0


def test_peak_of_an_hour_counts_where_the_hour_was() -> None:
    """An agent that was away for three hours does not tell an old peak as that of the last hour."""
    ledger = QualityLedger(1)
    for number in (*range(60), 240):
        ledger.fold(minute(MINUTE + number))
    windows = quality(ledger, MINUTE + 240)
    assert (windows.hour.cpu.peak.judged_hours, windows.day.cpu.peak.judged_hours) == (0.0, 1.0)


def test_rows_come_and_are_forgotten() -> None:
    """A row that comes to stand for another knows nothing."""
    ledger = QualityLedger(1)
    ledger.grow(3)
    ledger.grow(2)
    assert ledger.rows == 3
    ledger.fold(minute(MINUTE, rows=(2,)))
    ledger.forget(np.array([2], dtype=np.intp))
    assert not ledger.windows(MINUTE).any()


def test_a_row_takes_four_kilobytes() -> None:
    """37 sums of 28 figures, and the hour under way."""
    assert QualityLedger(1000).nbytes == 1000 * 4168


def test_state_comes_back_in_other_rows() -> None:
    """Also the hour under way is judged as if there had been no restart."""
    before = QualityLedger(2)
    for number in range(30):
        before.fold(minute(MINUTE + number, rows=(0, 1), cpu=(200.0, 50.0)))
    after = QualityLedger(1)
    after.take_arrays(before.to_arrays(), np.array([1], dtype=np.intp), np.array([0], dtype=np.intp))
    for ledger, rows in ((before, (0, 1)), (after, (0,))):
        for number in range(30, 61):
            ledger.fold(minute(MINUTE + number, rows=rows, cpu=(50.0,) * len(rows)))
    assert quality(after, MINUTE + 60, 0) == quality(before, MINUTE + 60, 1)
    assert quality(after, MINUTE + 60).hour.cpu.peak.judged_hours == 1.0


def test_state_of_another_version_is_refused() -> None:
    """Nothing is taken of it."""
    ledger = QualityLedger(1)
    arrays = ledger.to_arrays()
    nothing = np.zeros(0, dtype=np.intp)
    with pytest.raises(ValueError, match="allowed"):
        ledger.take_arrays({**arrays, "figures": arrays["figures"][:, :5]}, nothing, nothing)
    with pytest.raises(ValueError, match="allowed"):
        ledger.take_arrays({**arrays, "numbers": arrays["numbers"][:5]}, nothing, nothing)
