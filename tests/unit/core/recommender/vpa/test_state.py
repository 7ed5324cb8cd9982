from __future__ import annotations

import numpy as np
import pytest

from agent.core.orders.policy_options import DAY_SECONDS, VpaOptions
from agent.core.recommender.vpa.state import VpaState
from tests.policy_rows import all_rows

ROW = all_rows(1)
NOON = 1_700_049_600.0  # 2023-11-15T12:00Z


def learnt_state() -> VpaState:
    state = VpaState(VpaOptions(), 3)
    for minute in range(200):
        time = NOON + 60.0 * minute
        state.add_cpu(np.array([0, 2]), np.array([100 + minute, 7]), time)
        state.add_memory(np.array([0, 1]), np.array([10**8 + minute * 10**6, 10**9]), time)
    state.add_oom(1, 2 * 10**9, NOON + 13_000.0)
    return state


def answers(state: VpaState) -> list[list[float]]:
    rows = all_rows(state.rows)
    ask = (state.cpu_percentile, state.memory_percentile)
    return [percentile(p, rows).tolist() for percentile in ask for p in (0.5, 0.9)]


def test_a_saved_state_comes_back_whole_and_goes_on_as_before() -> None:
    state = learnt_state()
    saved = state.to_arrays()
    restored = VpaState.from_arrays(VpaOptions(), saved)
    assert answers(restored) == answers(state)
    # The running window and its peaks are there: more of the same day replaces a peak instead of adding one.
    for each in (state, restored):
        assert each.add_memory(ROW, np.array([5 * 10**8]), NOON + 20_000.0).all()
        assert each.add_oom(1, 10**9, NOON + 20_000.0)
        assert not each.add_memory(np.array([1]), np.array([10**9]), NOON + 19_999.0).any()
    assert answers(restored) == answers(state)
    for name, array in state.to_arrays().items():
        assert (restored.to_arrays()[name] == array).all(), name
    assert not (saved["memory_last_unix_seconds"] == state.memory.last_unix_seconds).all()  # a copy, not a view


@pytest.mark.parametrize(
    "name",
    ["learnt", "learnt_since_unix_seconds", "cpu_counts", "memory_oom_peak_bytes", "cpu_histogram_weights"],
)
def test_a_saved_state_with_an_array_missing_or_short_is_refused(name: str) -> None:
    saved = learnt_state().to_arrays()
    with pytest.raises(ValueError, match="state of the policy vpa"):
        VpaState.from_arrays(VpaOptions(), {key: array for key, array in saved.items() if key != name})
    with pytest.raises(ValueError, match="state of the policy vpa"):
        VpaState.from_arrays(VpaOptions(), {**saved, name: saved[name][:1]})


def test_rows_of_a_saved_state_may_be_left_out_and_put_elsewhere() -> None:
    state = learnt_state()
    arrays = VpaState(VpaOptions(), 4).to_arrays()
    for name, saved in state.to_arrays().items():
        arrays[name][[3, 0]] = saved[[0, 1]]
    moved = VpaState.from_arrays(VpaOptions(), arrays)
    for before, after in zip(answers(state), answers(moved), strict=True):
        assert after == [before[1], 0.0, 0.0, before[0]]


def test_a_saved_state_with_histograms_of_other_rows_is_refused() -> None:
    three, two = learnt_state().to_arrays(), VpaState(VpaOptions(), 2).to_arrays()
    mixed = {name: (three if "histogram" in name else two)[name] for name in three}
    with pytest.raises(ValueError, match="histograms of 3 and 3 rows for 2"):
        VpaState.from_arrays(VpaOptions(), mixed)


def test_state_expires_eight_days_after_the_last_cpu_sample() -> None:
    state = VpaState(VpaOptions(), 2)
    state.add_cpu(ROW, np.array([100]), NOON)
    for day in range(9):
        state.add_memory(ROW, np.array([100]), NOON + day * DAY_SECONDS)  # memory keeps nothing alive
    assert state.expired(NOON + 8 * DAY_SECONDS - 1).tolist() == [False, False]
    assert state.expired(NOON + 8 * DAY_SECONDS).tolist() == [True, False]
    assert state.expired(NOON + 8 * DAY_SECONDS, np.array([1, 0])).tolist() == [False, True]


def test_state_without_cpu_samples_expires_eight_days_after_its_first_sample() -> None:
    state = VpaState(VpaOptions(), 1)
    state.add_oom(0, 100, NOON)
    state.add_memory(ROW, np.array([100]), NOON + 7 * DAY_SECONDS)
    assert state.expired(NOON + 8 * DAY_SECONDS - 1).tolist() == [False]
    assert state.expired(NOON + 8 * DAY_SECONDS).tolist() == [True]


def test_a_refused_kill_teaches_nothing() -> None:
    state = VpaState(VpaOptions(), 1)
    state.add_memory(ROW, np.array([10**8]), NOON)
    before = answers(state)
    assert not state.add_oom(0, 10**9, NOON - 2 * DAY_SECONDS)
    assert answers(state) == before


def test_percentiles_follow_what_is_added_forgotten_and_grown() -> None:
    state = learnt_state()
    state.memory_percentile(0.9, all_rows(3))
    state.add_memory(ROW, np.array([9 * 10**9]), NOON + 15_000.0)
    # 9e9 lies in the bucket that ends at 1e7 (1.05^79 - 1) / 0.05 = 9.24e9.
    assert state.memory_percentile(0.9, ROW)[0] == pytest.approx(1e7 * (1.05**79 - 1) / 0.05)
    state.forget(ROW)
    assert state.memory_percentile(0.9, ROW).tolist() == [0.0]
    assert state.cpu_percentile(0.9, np.array([0, 2])).tolist() == [0.0, 0.01]
    state.grow(5)
    assert state.rows == 5
    assert state.cpu_percentile(0.9, np.array([4, 2])).tolist() == [0.0, 0.01]
    state.grow(4)
    assert state.rows == 5
