"""Starvation between two sweeps, and the working set between two slow readings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agent.core.window.ring_rows import MEMORY_ROW, SAMPLE, Has, Status
from agent.core.window.urgency import Rows, memory_waiting, starvation, working_sets

NS = 1_000_000_000


def row(**fields: Any) -> Rows:
    sample = np.zeros(1, dtype=SAMPLE)
    sample["has"] = int(Has.PRESSURE | Has.THROTTLED | Has.MEMORY)
    for name, value in fields.items():
        sample[name] = value
    return sample


def starved(before: Rows, after: Rows) -> tuple[float, float, bool]:
    shortage = starvation(before, after, capacity_millicores=4000)
    return float(shortage.demand_millicores[0]), float(shortage.waiting_ratio[0]), bool(shortage.is_known[0])


def test_starvation_is_usage_and_what_was_waited_for() -> None:
    # Half a core used in half a second, 0.2 s of it waited: 1000 m x 1.4.
    before = row(monotonic_ns=NS, usage_usec=100, cpu_some_usec=50)
    after = row(monotonic_ns=NS + NS // 2, usage_usec=500_100, cpu_some_usec=200_050)
    demand, waiting, is_known = starved(before, after)
    assert (round(demand, 6), round(waiting, 6), is_known) == (1400.0, 0.4, True)


def test_starvation_that_has_just_begun_counts_from_its_beginning() -> None:
    before = row(monotonic_ns=NS)
    # 0.1 s waited within the last quarter of a second; over the whole second that were a tenth.
    after = row(monotonic_ns=2 * NS, usage_usec=100_000, cpu_some_usec=100_000)
    shortage = starvation(before, after, capacity_millicores=4000, contended_ns=NS // 4)
    assert float(shortage.waiting_ratio[0]) == pytest.approx(0.4)
    assert float(shortage.demand_millicores[0]) == pytest.approx(140.0)


def test_starvation_waiting_for_the_own_limit_is_none() -> None:
    before = row(monotonic_ns=NS)
    # 800 ms throttled in 10 of 10 periods: all of the wait is its own.
    after = row(
        monotonic_ns=2 * NS,
        usage_usec=200_000,
        cpu_some_usec=800_000,
        throttled_usec=800_000,
        nr_periods=10,
        nr_throttled=10,
    )
    demand, waiting, is_known = starved(before, after)
    assert (round(demand, 6), waiting, is_known) == (200.0, 0.0, True)
    # The sum over CPUs says 0.8 s, but one period in ten: 0.1 s at most.
    after["nr_throttled"] = 1
    assert starved(before, after)[1] == pytest.approx(0.7)


def test_starvation_nobody_wants_more_than_the_node_has() -> None:
    after = row(monotonic_ns=2 * NS, usage_usec=9_000_000, cpu_some_usec=1_000_000)
    assert starved(row(monotonic_ns=NS), after)[0] == 4000.0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"status": int(Status.GONE)}, {}),
        ({}, {"status": int(Status.PARSE)}),
        ({}, {"has": int(Has.MEMORY)}),
        ({}, {"monotonic_ns": NS + 100_000_000}),
        ({}, {"monotonic_ns": 12 * NS}),
        ({"usage_usec": 5}, {}),
        ({"cpu_some_usec": 5}, {}),
    ],
)
def test_starvation_is_not_known_where_the_pair_says_nothing(before: dict[str, int], after: dict[str, int]) -> None:
    pair = row(**{"monotonic_ns": NS, **before}), row(**{"monotonic_ns": 2 * NS, **after})
    assert not starved(*pair)[2]


def test_working_sets_take_off_the_file_pages_last_seen() -> None:
    rows = np.concatenate([row(memory_current_bytes=100), row(memory_current_bytes=30), row(has=0)])
    memory = np.zeros(3, dtype=MEMORY_ROW)
    memory["has"] = int(Has.MEMORY_STAT)
    memory["inactive_file_bytes"] = 40
    sizes, is_known = working_sets(rows, memory)
    assert sizes.tolist() == [60.0, 0.0, 0.0]
    assert is_known.tolist() == [True, True, False]
    memory["has"] = 0
    assert not working_sets(rows, memory)[1].any()


def test_memory_waiting_is_the_share_of_the_time_between_two_readings() -> None:
    before, after = np.zeros(3, dtype=MEMORY_ROW), np.zeros(3, dtype=MEMORY_ROW)
    for rows in (before, after):
        rows["has"] = [int(Has.MEMORY_PRESSURE), int(Has.MEMORY_PRESSURE), 0]
    before["monotonic_ns"], after["monotonic_ns"] = NS, 11 * NS
    after["memory_some_usec"] = [2_500_000, 99_000_000, 5]
    ratios, is_known = memory_waiting(before, after)
    assert ratios[:2].tolist() == [0.25, 1.0]
    assert is_known.tolist() == [True, True, False]
    before["memory_some_usec"] = 99_000_001
    assert not memory_waiting(before, after)[1].any()
