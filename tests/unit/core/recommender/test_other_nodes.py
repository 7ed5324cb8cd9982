from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from agent.core.history.minute.minutes import OutOfMemory
from agent.core.orders.policy_options import CraneOptions, CruiseOptions, SizingOptions
from agent.core.recommender.crane.policy import CranePolicy
from agent.core.recommender.cruise.policy import CruisePolicy
from agent.core.recommender.other_nodes import elsewhere_of, raised_by_kills, same_hour_elsewhere
from agent.core.recommender.plimsoll.policy import PlimsollPolicy
from agent.core.recommender.policy import Present, Proposals, Steps
from tests.directives import peaks
from tests.policy_rows import all_rows, make_minutes, make_present

MB = 1_000_000
NOON = datetime(2026, 1, 28, 12, 0, tzinfo=UTC).timestamp()
MIDNIGHT = datetime(2026, 1, 28, 0, 30, tzinfo=UTC).timestamp()


def present(
    directive: object = None, *, cpu: float | None = 100.0, memory: float | None = 50.0 * MB, own: bool = False
) -> Present:
    """One row as it is now, with what was told of it."""
    row = make_present([cpu], [memory])
    return replace(row, elsewhere=elsewhere_of([directive], [own]))  # type: ignore[list-item]


def cruise(directive: object = None, *, steps: Steps | None = None, **fields: object) -> Proposals:
    policy = CruisePolicy(CruiseOptions(), 1)
    return policy.recommend(all_rows(1), present(directive, **fields), now_unix_seconds=NOON, steps=steps)  # type: ignore[arg-type]


def test_nothing_told_is_nothing() -> None:
    assert elsewhere_of([None, None], [False, True]) is None
    none = same_hour_elsewhere(make_present([1.0, None]), NOON, 1)
    assert (none.has_cpu.tolist(), none.has_memory.tolist()) == ([False, False], [False, False])
    proposals = cruise()
    assert raised_by_kills(proposals, make_present([100.0]), None) is proposals


@pytest.mark.parametrize(
    ("now", "neighbours", "cpu", "memory"),
    [(NOON, 0, 12, None), (NOON, 1, 13, 11), (NOON, 2, 13, 11), (MIDNIGHT, 1, 23, None), (MIDNIGHT, 0, None, None)],
)
def test_the_hour_and_its_neighbours_run_on_over_midnight(
    now: float, neighbours: int, cpu: int | None, memory: int | None
) -> None:
    directive = peaks(hours={12: (12, 0), 13: (13, 0), 11: (1, 11), 23: (23, 0)})
    directive = replace(directive, memory_hour_peaks_bytes=tuple(11 if hour == 11 else None for hour in range(24)))
    hour_peaks = same_hour_elsewhere(present(directive), now, neighbours)
    assert (float(hour_peaks.cpu_millicores[0]) if hour_peaks.has_cpu[0] else None) == cpu
    assert (float(hour_peaks.working_set_bytes[0]) if hour_peaks.has_memory[0] else None) == memory


def test_rows_of_which_nothing_is_told_stay_unknown_beside_others() -> None:
    others = elsewhere_of([None, peaks(hours={3: (7, 8)}, memory_peak_bytes=9), peaks(oom_memory_bytes=5)], [False] * 3)
    assert others is not None
    assert others.has_cpu_hours.sum() == others.has_memory_hours.sum() == 1
    assert others.cpu_hours_millicores[1, 3] == 7
    assert (others.has_memory_peak.tolist(), others.has_oom.tolist()) == ([False, True, False], [False, False, True])


def test_cruise_predicts_by_the_peaks_of_others_and_may_then_lower() -> None:
    alone = cruise()
    assert (float(alone.cpu_peak_millicores[0]), bool(alone.cpu_upward_only[0])) == (100.0, True)
    directive = peaks(hours={13: (400, 80 * MB)}, memory_peak_bytes=120 * MB)
    proposals = cruise(directive)
    assert (float(proposals.cpu_request_millicores[0]), bool(proposals.cpu_upward_only[0])) == (400.0, False)
    assert (float(proposals.cpu_base_millicores[0]), float(proposals.memory_peak_bytes[0])) == (100.0, 80.0 * MB)
    assert not proposals.memory_upward_only[0]
    assert float(proposals.memory_limit_bytes[0]) == 240.0 * MB  # 2 x the largest of seven days
    assert cruise(peaks(hours={5: (400, 80)})).cpu_upward_only[0]  # of another hour
    assert float(cruise(peaks(hours={12: (60, 1)})).cpu_request_millicores[0]) == 100.0  # never below the base


def test_a_node_that_knows_seven_days_goes_by_itself_but_for_kills() -> None:
    directive = peaks(hours={12: (400, 80 * MB)}, memory_peak_bytes=120 * MB, oom_memory_bytes=70 * MB)
    proposals = cruise(directive, own=True)
    assert (float(proposals.cpu_request_millicores[0]), bool(proposals.cpu_upward_only[0])) == (100.0, True)
    assert float(proposals.memory_base_bytes[0]) == float(proposals.memory_peak_bytes[0]) == 70.0 * MB
    assert float(proposals.memory_limit_bytes[0]) == 140.0 * MB


def test_a_kill_elsewhere_alone_makes_a_base_that_may_only_raise() -> None:
    proposals = cruise(peaks(oom_memory_bytes=70 * MB), cpu=None, memory=None)
    assert (bool(proposals.has_cpu[0]), bool(proposals.has_memory[0]), bool(proposals.memory_upward_only[0])) == (
        False,
        True,
        True,
    )
    assert float(proposals.memory_request_bytes[0]) == 70.0 * MB


def test_the_own_figures_count_where_they_are_larger() -> None:
    policy = CruisePolicy(CruiseOptions(), 1)
    policy.fold(make_minutes(int(NOON) // 60 - 5, [900.0], [90.0 * MB]))
    policy.record_oom(0, OutOfMemory(unix_seconds=NOON - 60, usage_bytes=200 * MB))
    directive = peaks(hours={12: (400, 80 * MB)}, memory_peak_bytes=60 * MB, oom_memory_bytes=70 * MB)
    proposals = policy.recommend(all_rows(1), present(directive), now_unix_seconds=NOON)
    assert float(proposals.cpu_request_millicores[0]) == 900.0
    assert (float(proposals.memory_base_bytes[0]), float(proposals.memory_limit_bytes[0])) == (200.0 * MB, 400.0 * MB)


def test_cruise_tells_what_others_saw_as_steps_of_its_own() -> None:
    steps = Steps()
    cruise(peaks(hours={12: (400, 80 * MB)}, memory_peak_bytes=120 * MB, oom_memory_bytes=70 * MB), steps=steps)
    amounts = {(step.resource, step.what): step.value for step in steps.taken}
    assert amounts["cpu", "largest at this hour +- 1 h, other nodes"] == 400.0
    assert amounts["memory", "largest at this hour +- 1 h, other nodes"] == 80.0 * MB
    assert amounts["memory", "memory at an out-of-memory kill elsewhere"] == 70.0 * MB
    assert amounts["memory", "largest of seven days, other nodes"] == 120.0 * MB
    assert amounts["cpu", "largest at this hour of the day +- 1 h, 7 days"] is None  # its own
    silent = Steps()
    cruise(steps=silent)
    assert not [step for step in silent.taken if "other nodes" in step.what or "elsewhere" in step.what]
    alone = Steps()
    CruisePolicy(CruiseOptions(neighbour_hours=0), 1).recommend(
        all_rows(1), present(peaks(hours={12: (400, 1)})), now_unix_seconds=NOON, steps=alone
    )
    assert "largest at this hour, other nodes" in {step.what for step in alone.taken}


def test_plimsoll_asks_for_no_less_than_others_saw() -> None:
    policy = PlimsollPolicy(SizingOptions(), 1)
    directive = peaks(hours={11: (400, 1)}, memory_peak_bytes=120 * MB, oom_memory_bytes=70 * MB)
    steps = Steps()
    proposals = policy.recommend(all_rows(1), present(directive), now_unix_seconds=NOON, steps=steps)
    assert (float(proposals.cpu_request_millicores[0]), bool(proposals.cpu_upward_only[0])) == (400.0, False)
    assert (float(proposals.memory_base_bytes[0]), float(proposals.memory_request_bytes[0])) == (70.0 * MB, 126.0 * MB)
    assert float(proposals.memory_limit_bytes[0]) == 240.0 * MB
    assert not proposals.memory_upward_only[0]
    notes = {(step.resource, step.what): step.note for step in steps.taken}
    assert notes["cpu", "request"] == "what other nodes saw"
    assert ("memory", "largest of seven days, other nodes") in notes
    assert ("memory", "memory at an out-of-memory kill elsewhere") in notes
    without = policy.recommend(all_rows(1), present(), now_unix_seconds=NOON)
    assert without.cpu_upward_only[0]


def test_policies_of_percentiles_are_raised_by_kills_alone() -> None:
    policy = CranePolicy(CraneOptions(), 1)
    for minute in range(3):
        policy.fold(make_minutes(int(NOON) // 60 + minute, [100.0], [50.0 * MB]))
    row = present(peaks(hours={12: (4000, 800 * MB)}, oom_memory_bytes=900 * MB))
    before = policy.recommend(all_rows(1), row, now_unix_seconds=NOON + 180)
    steps = Steps()
    after = raised_by_kills(before, row, steps)
    assert np.array_equal(after.cpu_request_millicores, before.cpu_request_millicores)
    assert float(after.memory_request_bytes[0]) == float(after.memory_peak_bytes[0]) == 900.0 * MB
    assert float(after.memory_base_bytes[0]) == 900.0 * MB
    assert [(step.resource, step.what, step.value) for step in steps.taken] == [
        ("memory", "memory at an out-of-memory kill elsewhere", 900.0 * MB)
    ]
    assert raised_by_kills(after, row, steps) is after  # once is enough
    assert float(raised_by_kills(before, row, None).memory_request_bytes[0]) == 900.0 * MB
    silent = replace(before, has_memory=np.array([False]))
    assert raised_by_kills(silent, row, None) is silent  # no answer is not made one
