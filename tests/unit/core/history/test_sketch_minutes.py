from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agent.core.history.hour_sketch import HourSketch, ReportInterval
from agent.core.history.sketch_minutes import covered_minutes, unfold
from tests.webhook.workload_reports import MIB, NOON, row

HOUR = NOON // 3600


def sketch(
    samples: list[float] | None, *, adjusted: list[float] | None = None, memory: list[float] | None = None,
    first: int = 0, last: int = 3600,
) -> HourSketch:  # fmt: skip
    made = HourSketch()
    interval = ReportInterval(start_unix_seconds=NOON + first, end_unix_seconds=NOON + last, unix_hour=HOUR)
    made.add(row(cpu=samples, adjusted=adjusted, memory=memory), interval, 1)
    return made


samples = st.lists(st.floats(min_value=0.0, max_value=20_000.0), min_size=1, max_size=60)


@given(samples)
def test_minutes_have_the_hours_maximum_and_its_distribution_to_a_bucket(values: list[float]) -> None:
    unfolded = unfold(HOUR, {0: sketch(values, memory=[64.0 * MIB])}, 1)
    minutes = np.sort(unfolded.cpu_usage_millicores[0])
    assert unfolded.has_cpu.all()
    largest = max(values)
    assert largest <= minutes[-1] <= largest + 0.001
    # The k-th of sixty minutes stands for the sample at the same rank; both lie in one bucket, so 5 % or 1m apart.
    ranked = np.sort(values)[np.ceil((np.arange(60) + 0.5) / 60 * len(values)).astype(int) - 1]
    assert (np.abs(minutes[:-1] - ranked[:-1]) <= ranked[:-1] * 0.055 + 1.1).all()


def test_rows_without_a_sketch_are_gaps() -> None:
    unfolded = unfold(HOUR, {1: sketch([100.0])}, 3)
    assert unfolded.has_cpu.any(axis=1).tolist() == [False, True, False]
    assert not unfolded.has_memory.any()
    assert unfolded.minute(7).unix_minute == HOUR * 60 + 7
    assert unfolded.minute(7).cpu_usage_millicores.shape == (3,)


def test_memory_alone_is_unfolded_too() -> None:
    unfolded = unfold(HOUR, {0: sketch(None, memory=[64.0 * MIB, 65.5 * MIB])}, 1)
    assert not unfolded.has_cpu.any()
    assert unfolded.has_memory.all()
    assert unfolded.working_set_bytes.max() == 65.5 * MIB
    assert (unfolded.working_set_bytes % 1 == 0).all()


def test_peaks_are_of_the_adjusted_samples_and_no_less_than_usage() -> None:
    unfolded = unfold(HOUR, {0: sketch([100.0, 200.0], adjusted=[150.0, 300.0])}, 1)
    assert unfolded.cpu_usage_millicores.max() == 200.0
    assert unfolded.cpu_peak_millicores.max() == 300.0
    assert (unfolded.cpu_peak_millicores >= unfolded.cpu_usage_millicores).all()


def test_an_hour_known_in_part_has_as_many_minutes() -> None:
    half = sketch([100.0], first=1800, last=2400)
    assert sorted(covered_minutes(HOUR, half).tolist()) == list(range(30, 40))
    assert unfold(HOUR, {0: half}, 1).has_cpu.sum() == 10


def test_an_interval_over_the_edge_stays_within_its_hour_and_leaves_a_minute() -> None:
    assert sorted(covered_minutes(HOUR, sketch([1.0], first=-100, last=170)).tolist()) == [0, 1, 2]
    assert covered_minutes(HOUR, sketch([1.0], first=3599, last=3720)).tolist() == [59]
    assert covered_minutes(HOUR, sketch([1.0], first=60, last=60)).tolist() == [1]


def test_neighbouring_quantiles_are_scattered() -> None:
    minutes = covered_minutes(HOUR, sketch([1.0])).tolist()
    assert sorted(minutes) == list(range(60))
    assert min(abs(one - other) for one, other in pairwise(minutes)) > 20
