from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.history.minute.minutes import OutOfMemory
from agent.core.orders.policy_options import CraneOptions
from agent.core.recommender.crane.policy import CranePolicy
from agent.core.recommender.crane.specification import SpecificationError
from agent.core.recommender.policy import LimitRule, Policy, Proposals, Step, Steps
from tests.policy_rows import Figures, all_rows, make_minutes, make_present

MIB = 1 << 20
GIB = 1 << 30
START = 28_000_000
"""A UTC minute."""
WEEK_MINUTES = 7 * 24 * 60


def make_policy(rows: int = 1, **options: Any) -> CranePolicy:
    return CranePolicy(dataclasses.replace(CraneOptions(), **options), rows)


def learn(policy: Policy, cpu: Sequence[float | None], memory: Sequence[float | None], start: int = 0) -> None:
    """Fold minute after minute of one row."""
    for minute, (cpu_millicores, memory_bytes) in enumerate(zip(cpu, memory, strict=True), start=start):
        policy.fold(make_minutes(START + minute, [cpu_millicores], [memory_bytes]))


def ask(policy: Policy, rows: Sequence[int] | None = None, *, minute: int = 0, steps: Steps | None = None) -> Proposals:
    chosen = all_rows(policy.rows) if rows is None else np.array(rows, dtype=np.intp)
    present = make_present([None] * chosen.size)
    proposals = policy.recommend(chosen, present, now_unix_seconds=(START + minute) * 60.0, steps=steps)
    for field in dataclasses.fields(proposals):
        figures = getattr(proposals, field.name)
        if isinstance(figures, np.ndarray):
            assert figures.shape == chosen.shape
            assert np.isfinite(figures).all()
    assert (proposals.cpu_request_millicores >= 0).all()
    assert (proposals.memory_request_bytes >= 0).all()
    return proposals


def requests(policy: Policy, *, minute: int = 0) -> tuple[float | None, float | None]:
    """CPU and memory of the first row; None = its mask is False."""
    proposals = ask(policy, minute=minute)
    return (
        float(proposals.cpu_request_millicores[0]) if proposals.has_cpu[0] else None,
        float(proposals.memory_request_bytes[0]) if proposals.has_memory[0] else None,
    )


def kill(minute: int, request_bytes: int) -> OutOfMemory:
    return OutOfMemory(unix_seconds=(START + minute) * 60.0, request_bytes=request_bytes)


def test_recommend_without_data_cannot_say() -> None:
    policy: Policy = make_policy()
    assert requests(policy) == (None, None)
    policy.fold(make_minutes(START, [None], [None]))
    assert requests(policy) == (None, None)


def test_recommend_after_one_sample_is_its_buckets_end_with_margin() -> None:
    # 0.25 core is in the bucket up to 0.30000000000000004, x 1.15 = 0.345...; 90 MiB in the one up to 100 MiB.
    policy = make_policy()
    learn(policy, [250.0], [90.0 * MIB])
    assert requests(policy) == (345.0, 120586239.0)


def test_recommend_names_requests_only() -> None:
    policy = make_policy(2)
    policy.fold(make_minutes(START, [250.0, None], [90.0 * MIB, None]))
    proposals = ask(policy)
    assert proposals.limit_rule is LimitRule.KEEP
    assert not proposals.has_memory_limit.any()
    assert not proposals.cpu_upward_only.any()
    assert not proposals.memory_upward_only.any()
    for figures in (proposals.cpu_base_millicores, proposals.cpu_peak_millicores):
        assert figures.tolist() == proposals.cpu_request_millicores.tolist() == [345.0, 0.0]
    for figures in (proposals.memory_base_bytes, proposals.memory_peak_bytes):
        assert figures.tolist() == proposals.memory_request_bytes.tolist() == [120586239.0, 0.0]


def test_recommend_of_constant_zero_is_the_smallest_answer() -> None:
    policy = make_policy()
    learn(policy, [0.0] * 100, [0.0] * 100)
    assert requests(policy) == (114.0, 120586239.0)


def test_recommend_of_flat_memory_is_the_end_of_its_bucket_with_margin() -> None:
    # A JVM at 2050 MiB: the bucket ends at 2100 MiB = 2202009600 bytes, x 1.15 = 2532311040
    policy = make_policy()
    learn(policy, [None] * 500, [2050.0 * MIB] * 500)
    assert requests(policy) == (None, 2532311040.0)


def test_recommend_of_memory_that_only_grows_follows_it() -> None:
    policy = make_policy()
    answers = []
    for minute in range(300):
        policy.fold(make_minutes(START + minute, [0.0], [minute * 10.0 * MIB]))
        answers.append(requests(policy)[1] or 0.0)
    assert answers == sorted(answers)
    # Sum of 10 i MiB for i < 300: 99 % of it is reached at i = 298 (sum up to n is 5 n (n + 1)), in the bucket up to
    # 3000 MiB; x 1.15.
    assert answers[-1] == 3000 * MIB * 1.15 // 1


def test_recommend_of_rare_bursts_answers_with_the_burst() -> None:
    # 1 minute in 100 at 4 cores, else 10 millicores: 4 against 0.99 core, so 99 % of the weight lies in the burst.
    policy = make_policy()
    learn(policy, ([10.0] * 99 + [4050.0]) * 3, [MIB] * 300)
    assert requests(policy)[0] == 4715.0  # 4.1 x 1.15 = 4.715


def test_recommend_over_gaps_rests_on_the_minutes_that_are_known() -> None:
    whole, gappy = make_policy(), make_policy()
    learn(whole, [50.0, 350.0], [90.0 * MIB, 250.0 * MIB])
    learn(gappy, [50.0, None, None, None], [90.0 * MIB, None, None, None])
    gappy.fold(make_minutes(START + 500, [350.0], [250.0 * MIB]))
    assert requests(gappy) == requests(whole)


def test_recommend_forgets_a_burst_after_exactly_seven_days() -> None:
    policy = make_policy()
    learn(policy, [4050.0], [900.0 * MIB])
    policy.fold(make_minutes(START + WEEK_MINUTES - 1, [50.0], [90.0 * MIB]))
    assert requests(policy) == (4715.0, 1000 * MIB * 1.15 // 1)
    policy.fold(make_minutes(START + WEEK_MINUTES, [50.0], [90.0 * MIB]))
    assert requests(policy) == (114.0, 120586239.0)


def test_each_resource_has_its_own_history_length() -> None:
    policy = make_policy(cpu_model_history_seconds=3600.0, mem_model_history_seconds=7200.0)
    learn(policy, [950.0], [900.0 * MIB])
    policy.fold(make_minutes(START + 60, [50.0], [90.0 * MIB]))
    assert requests(policy) == (114.0, 1000 * MIB * 1.15 // 1)
    policy.fold(make_minutes(START + 120, [50.0], [90.0 * MIB]))
    assert requests(policy) == (114.0, 120586239.0)


def test_a_clock_that_jumps_ahead_leaves_what_came_after() -> None:
    policy = make_policy()
    learn(policy, [950.0] * 3, [900.0 * MIB] * 3)
    policy.fold(make_minutes(START + 50 * WEEK_MINUTES, [50.0], [90.0 * MIB]))
    assert requests(policy) == (114.0, 120586239.0)


def test_a_clock_that_goes_back_is_refused() -> None:
    policy = make_policy()
    learn(policy, [950.0], [900.0 * MIB])
    with pytest.raises(ValueError, match="rising order"):
        learn(policy, [50.0], [90.0 * MIB], start=-1)


def test_options_change_percentile_margin_utilisation_and_buckets() -> None:
    policy = make_policy(
        cpu_request_percentile=0.5,
        cpu_request_margin_fraction=0.0,
        cpu_target_utilization=0.5,
        cpu_histogram_bucket_size=0.01,
        cpu_histogram_max_value=1.0,
        mem_request_percentile=0.0,
        mem_request_margin_fraction=1.0,
        mem_target_utilization=0.8,
        mem_histogram_bucket_size=1.0 * MIB,
        mem_histogram_max_value=64.0 * MIB,
    )
    # CPU: 9 x 0.015 = 0.135 < 0.2 = half of 0.4 .. so the median of the mass is 0.265's bucket, up to 0.27; / 0.5
    learn(policy, [15.0] * 9 + [265.0], [2.5 * MIB] * 9 + [500.0 * MIB])
    # Memory: the lowest used bucket ends at 3 MiB; x 2 / 0.8
    assert requests(policy) == (540.0, 7.5 * MIB)
    only_large = make_policy(mem_histogram_bucket_size=1.0 * MIB, mem_histogram_max_value=64.0 * MIB)
    learn(only_large, [0.0], [500.0 * MIB])
    assert requests(only_large)[1] == 64 * MIB * 1.15 // 1  # the last bucket answers with its start


def test_an_out_of_memory_kill_raises_memory_to_its_need() -> None:
    policy = make_policy()
    learn(policy, [250.0], [90.0 * MIB])
    policy.record_oom(0, kill(0, 200 * MIB))
    assert requests(policy) == (345.0, 300.0 * MIB)
    assert requests(policy, minute=WEEK_MINUTES) == (345.0, 300.0 * MIB)
    assert requests(policy, minute=WEEK_MINUTES + 1) == (345.0, 120586239.0)


def test_an_out_of_memory_kill_never_lowers_memory() -> None:
    policy = make_policy()
    learn(policy, [250.0], [2050.0 * MIB])
    policy.record_oom(0, kill(0, 200 * MIB))
    assert requests(policy)[1] == 2532311040.0


def test_an_out_of_memory_kill_without_samples_gives_no_answer() -> None:
    policy = make_policy()
    policy.record_oom(0, kill(0, 200 * MIB))
    assert requests(policy) == (None, None)


def test_out_of_memory_settings_are_honoured() -> None:
    off = make_policy(oom_protection=False)
    short = make_policy(oom_history_seconds=60.0, oom_bump_ratio=2.0)
    for policy in (off, short):
        learn(policy, [250.0], [90.0 * MIB])
        policy.record_oom(0, kill(0, 200 * MIB))
    assert requests(off)[1] == 120586239.0
    assert requests(short, minute=1)[1] == 400.0 * MIB
    assert requests(short, minute=2)[1] == 120586239.0


@pytest.mark.parametrize(
    ("known", "needed"),
    [
        ({"request_bytes": 200 * MIB, "usage_bytes": 700 * MIB, "limit_bytes": 700 * MIB}, 300.0 * MIB),
        ({"usage_bytes": 300 * MIB, "limit_bytes": 700 * MIB}, 400.0 * MIB),
        ({"limit_bytes": 400 * MIB}, 500.0 * MIB),
        ({"request_bytes": 0}, 120586239.0),  # needs 100 MiB, less than the estimate
        ({}, 120586239.0),
    ],
)
def test_record_oom_takes_the_request_else_what_was_used_else_the_limit(known: dict[str, Any], needed: float) -> None:
    policy = make_policy()
    learn(policy, [250.0], [90.0 * MIB])
    policy.record_oom(0, OutOfMemory(unix_seconds=START * 60.0, **known))
    assert requests(policy)[1] == needed


def test_specification_rounds_up_both_after_the_out_of_memory_kill() -> None:
    policy = make_policy(specification=True)
    learn(policy, [310.0], [410.0 * MIB])
    assert requests(policy) == (500.0, 1.0 * GIB)  # 460m with 575 MiB: 0.5c offers 0.5 and 1 GiB
    policy.record_oom(0, kill(0, 1000 * MIB))
    assert requests(policy) == (1000.0, 2.0 * GIB)  # 1200 MiB: more than 0.5c offers


def test_specification_of_an_own_list_and_none_that_fits() -> None:
    policy = make_policy(specification=True, specification_config="0.125c1g,3c9g")
    learn(policy, [50.0], [90.0 * MIB])
    assert requests(policy) == (120.0, 1.0 * GIB)  # printed with two decimals
    learn(policy, [90_000.0], [90.0 * MIB], start=1)
    assert requests(policy) == (103_615.0, 120586239.0)  # 90.1 x 1.15: more than 3c


def test_specification_needs_both_resources() -> None:
    policy = make_policy(specification=True)
    learn(policy, [250.0], [None])
    assert requests(policy) == (345.0, None)


@pytest.mark.parametrize("specification", [True, False])
def test_a_bad_specification_list_is_an_error_that_names_the_entry(specification: bool) -> None:
    with pytest.raises(SpecificationError, match=r"^specification '2c': exactly two numbers are allowed"):
        make_policy(specification=specification, specification_config="1c2g,2c")


def test_rows_are_sized_by_themselves_and_in_the_order_asked() -> None:
    policy = make_policy(3)
    policy.fold(make_minutes(START, [50.0, 250.0, None], [90.0 * MIB, None, 250.0 * MIB]))
    proposals = ask(policy, [2, 0, 1])
    assert proposals.cpu_request_millicores.tolist() == [0.0, 114.0, 345.0]
    assert proposals.has_cpu.tolist() == [False, True, True]
    assert proposals.memory_request_bytes.tolist() == [361758720.0, 120586239.0, 0.0]
    assert proposals.has_memory.tolist() == [True, True, False]
    assert ask(policy, []).has_cpu.tolist() == []


def test_rows_grow_and_are_forgotten() -> None:
    policy = make_policy(0)
    policy.grow(2)
    policy.grow(1)
    assert policy.rows == 2
    policy.fold(make_minutes(START, [50.0, 250.0], [90.0 * MIB, 90.0 * MIB]))
    policy.record_oom(1, kill(0, 500 * MIB))
    policy.forget(np.array([1]))
    assert ask(policy).has_cpu.tolist() == [True, False]
    assert ask(policy).has_memory.tolist() == [True, False]
    policy.fold(make_minutes(START + 1, [50.0, 50.0], [90.0 * MIB, 90.0 * MIB]))
    assert ask(policy).memory_request_bytes.tolist() == [120586239.0, 120586239.0]


def test_recommend_explains_each_step_of_one_row() -> None:
    policy = make_policy(specification=True)
    learn(policy, [250.0] * 2, [90.0 * MIB] * 2)
    policy.record_oom(0, kill(0, 200 * MIB))
    steps = Steps()
    ask(policy, steps=steps)
    protection = "request at the kill x 1.2 or plus 100 MiB, whichever is more"
    smallest = "the smallest that holds CPU and memory"

    def step(resource: str, what: str, value: float, note: str = "", unit: str = "") -> Step:
        return Step(
            resource=resource,
            what=what,
            value=value,
            unit=unit or {"cpu": "millicores"}.get(resource, "bytes"),
            note=note,
        )

    weighing, margin = "P99, each sample weighing its value", "with margin (x 1.15) and target utilisation (/ 1)"
    assert steps.taken == [
        step("cpu", "minutes known of the last 7 days", 2.0, unit="samples"),
        step("cpu", weighing, 300.00000000000006, "upper end of its histogram bucket"),
        step("cpu", margin, 345.00000000000006, ""),
        step("cpu", "whole millicores", 345.0, "fraction cut off"),
        step("memory", "minutes known of the last 7 days", 2.0, unit="samples"),
        step("memory", weighing, 104857600.0, "upper end of its histogram bucket"),
        step("memory", margin, 120586239.99999999),
        step("memory", "whole bytes", 120586239.0, "fraction cut off"),
        step("memory", "needed after an out-of-memory kill", 300.0 * MIB, protection),
        step("cpu", "specification", 500.0, smallest),
        step("memory", "specification", 0.5 * GIB, smallest),
    ]


def test_recommend_says_what_it_does_not_know() -> None:
    steps = Steps()
    ask(make_policy(specification=True), steps=steps)
    entries = [(step.resource, step.what, step.value, step.note) for step in steps.taken]
    assert entries[0] == ("cpu", "minutes known of the last 7 days", 0.0, "")
    assert entries[3] == ("cpu", "whole millicores", None, "no samples")
    assert entries[-3:] == [
        ("memory", "needed after an out-of-memory kill", None, "no kill within crane.oomHistorySeconds"),
        ("cpu", "specification", None, "none holds CPU and memory"),
        ("memory", "specification", None, "none holds CPU and memory"),
    ]


USAGE = st.lists(
    st.tuples(st.integers(0, 50_000), st.integers(0, 64 * 1024)), min_size=1, max_size=40
)  # millicores, MiB


@settings(deadline=None)
# Shares of which p x total is exact: else, at the very edge of a bucket, rounding may decide one way, scaled the other.
@given(usage=USAGE, percentile=st.sampled_from([0.25, 0.5, 0.75, 1.0]), factor=st.integers(1, 4))
def test_recommend_is_finite_and_does_not_fall_when_all_usage_is_scaled_up(
    usage: list[tuple[int, int]], percentile: float, factor: int
) -> None:
    policy = make_policy(2, cpu_request_percentile=percentile, mem_request_percentile=percentile)
    for minute, (millicores, mib) in enumerate(usage):
        cpu: Figures = [float(millicores), float(millicores * factor)]
        policy.fold(make_minutes(START + minute, cpu, [float(mib * MIB), float(mib * MIB * factor)]))
    answer = ask(policy)
    for figures in (answer.cpu_request_millicores, answer.memory_request_bytes):
        assert figures[0] <= figures[1]
    # It scales with usage, up to a bucket on either side (100 millicores and 100 MiB, with the margin of 15 %).
    cpu_step, memory_step = 100 * 1.15 + 1, 100 * MIB * 1.15 + 1
    scaled = min(100_000.0 * 1.15, answer.cpu_request_millicores[0] * factor)
    assert abs(answer.cpu_request_millicores[1] - scaled) <= cpu_step * factor
    scaled = min(100_000.0 * MIB * 1.15, answer.memory_request_bytes[0] * factor)
    assert abs(answer.memory_request_bytes[1] - scaled) <= memory_step * factor


@settings(deadline=None)
@given(usage=USAGE, data=st.data())
def test_recommend_does_not_depend_on_the_order_of_samples(usage: list[tuple[int, int]], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(usage))
    policy = make_policy(2)
    for minute, (pair, other) in enumerate(zip(usage, shuffled, strict=True)):
        policy.fold(
            make_minutes(START + minute, [float(pair[0]), float(other[0])], [pair[1] * 1.0 * MIB, other[1] * 1.0 * MIB])
        )
    answer = ask(policy)
    assert answer.cpu_request_millicores[0] == answer.cpu_request_millicores[1]
    assert answer.memory_request_bytes[0] == answer.memory_request_bytes[1]
