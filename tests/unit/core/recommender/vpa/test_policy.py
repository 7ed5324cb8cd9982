from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.history.minute.minutes import OutOfMemory
from agent.core.orders.policy_options import DAY_SECONDS, ControlledValues, VpaOptions
from agent.core.recommender.policy import LimitRule, Policy, Present, Proposals, Steps
from agent.core.recommender.vpa.policy import VpaPolicy
from tests.examples import examples
from tests.policy_rows import Figures, all_rows, make_minutes, make_present

T0 = 28_334_160
"""2023-11-15T12:00Z, in minutes."""
MIB = 1 << 20
GIB = 1 << 30
MINIMUM_CPU = 25
MINIMUM_MEMORY = 250 * MIB


class Watched:
    """A policy that is told one minute after the other."""

    def __init__(self, rows: int = 1, options: VpaOptions | None = None, *, with_bounds: bool = True) -> None:
        self.policy = VpaPolicy(options or VpaOptions(), rows, with_bounds=with_bounds)
        self.minute = T0

    def minutes(self, count: int, cpu: Figures, memory: Figures | None = None) -> None:
        for _ in range(count):
            self.policy.fold(make_minutes(self.minute, cpu, memory))
            self.minute += 1

    def oom(self, request_bytes: int | None, *, usage_bytes: int | None = None, row: int = 0) -> None:
        kill = OutOfMemory(unix_seconds=self.minute * 60.0, request_bytes=request_bytes, usage_bytes=usage_bytes)
        self.policy.record_oom(row, kill)

    def answer(self, present: Present | None = None, steps: Steps | None = None) -> Proposals:
        rows = all_rows(self.policy.rows)
        present = present or make_present([None] * len(rows))
        return self.policy.recommend(rows, present, now_unix_seconds=self.minute * 60.0, steps=steps)


def bucket_end(value: float, first: float) -> float:
    """Return the end of the bucket of a value: the first of first (1.05^b - 1) / 0.05 above it."""
    end, width = first, first
    while end <= value:
        width *= 1.05
        end += width
    return end


def target_of(value: float, first: float) -> float:
    """Return the target of a usage that never changes, about: the end of its bucket and 15 % of it."""
    return 1.15 * bucket_end(value, first)


def test_it_is_a_policy() -> None:
    policy: Policy = VpaPolicy(VpaOptions(), 2)
    assert policy.name == "vpa"
    assert policy.rows == 2
    policy.grow(3)
    assert policy.rows == 3


def test_steady_usage_gives_the_end_of_its_bucket_and_15_percent() -> None:
    watched = Watched()
    watched.minutes(61, [120], [300_000_000])
    answer = watched.answer()
    # 0.12 cores: bucket ends at 0.125779: 125 millicores, + 18 of 18.75.
    assert answer.cpu_request_millicores.tolist() == [143]
    # 300 MB: bucket ends at 1e7 (1.05^19 - 1) / 0.05 = 305390039.5; + 45808505 of 45808505.9.
    assert answer.memory_request_bytes.tolist() == [351_198_544]
    # One hour is 1/24 of confidence: upper bounds x 25, lower x (1 + 0.024)^-2 = 0.95367; 143 x 0.95367 = 136.4.
    assert answer.extra["cpu_upper_bound_millicores"].tolist() == [143 * 25]
    assert answer.extra["cpu_lower_bound_millicores"].tolist() == [136]
    assert answer.extra["memory_upper_bound_bytes"].tolist() == [351_198_544 * 25]
    assert answer.extra["cpu_uncapped_target_millicores"].tolist() == [143]
    assert answer.extra["cpu_confidence_ratio"].tolist() == pytest.approx([1 / 24])
    assert answer.limit_rule is LimitRule.PROPORTIONAL
    assert not answer.has_memory_limit.any()
    assert not answer.cpu_upward_only.any()
    assert answer.cpu_peak_millicores.tolist() == answer.cpu_base_millicores.tolist() == [143]


def test_no_data_gives_no_answer() -> None:
    answer = Watched(2).answer()
    assert not answer.has_cpu.any()
    assert not answer.has_memory.any()
    assert answer.cpu_request_millicores.tolist() == [0, 0]
    assert all(figures.tolist() == [0, 0] for figures in answer.extra.values())


def test_no_rows_give_no_answers() -> None:
    answer = Watched(2).policy.recommend(all_rows(0), make_present([]), now_unix_seconds=T0 * 60.0)
    assert answer.cpu_request_millicores.size == answer.memory_request_bytes.size == 0


def test_one_sample_gives_a_target_and_bounds_without_end() -> None:
    watched = Watched()
    watched.minutes(1, [1000], [GIB])
    answer = watched.answer()
    assert answer.cpu_request_millicores[0] == pytest.approx(target_of(1.0, 0.01) * 1000, abs=2)
    assert answer.memory_request_bytes[0] == pytest.approx(target_of(GIB, 1e7), abs=2)
    assert answer.extra["cpu_upper_bound_millicores"].tolist() == [1e14]
    assert answer.extra["cpu_lower_bound_millicores"].tolist() == [MINIMUM_CPU]
    assert answer.extra["memory_upper_bound_bytes"].tolist() == [1e14]
    assert answer.extra["memory_lower_bound_bytes"].tolist() == [MINIMUM_MEMORY]


def test_memory_without_cpu_is_answered_with_no_confidence() -> None:
    watched = Watched()
    watched.minutes(120, [None], [310_000_000])
    answer = watched.answer()
    assert not answer.has_cpu[0]
    assert answer.memory_request_bytes[0] == pytest.approx(target_of(310_000_000, 1e7), abs=2)
    assert answer.extra["memory_upper_bound_bytes"].tolist() == [1e14]
    assert answer.extra["memory_confidence_ratio"].tolist() == [0]


def test_constant_zero_gives_the_pod_minimum_shared_by_the_containers() -> None:
    watched = Watched(3)
    watched.minutes(60, [0, 0, 0], [0, 0, 0])
    present = replace(make_present([None] * 3), pod_containers=np.array([1, 3, 1000]))
    answer = watched.answer(present)
    # Idle is still in the first bucket: 10 millicores and 1 of 1.5 as margin, above the shares of 8 and 0.
    assert answer.cpu_request_millicores.tolist() == [25, 11, 11]
    assert answer.memory_request_bytes.tolist() == [MINIMUM_MEMORY, 87_381_333, 11_500_000]


def test_a_gap_is_no_zero() -> None:
    watched = Watched(2)
    watched.minutes(60, [500, 500], [GIB, GIB])
    watched.minutes(120, [None, 0], [None, 0])
    watched.minutes(10, [500, 500], [GIB, GIB])
    answer = watched.answer()
    assert answer.cpu_request_millicores[0] == pytest.approx(target_of(0.5, 0.01) * 1000, abs=2)
    lower = answer.extra["cpu_lower_bound_millicores"]
    assert lower[1] == MINIMUM_CPU < lower[0]


def test_short_bursts_count_with_the_mean_of_their_minute() -> None:
    # One second of 4 cores a minute in 0.1 core else: mean (4000 + 59 x 100) / 60 = 165 millicores.
    watched = Watched()
    for _ in range(60):
        watched.policy.fold(replace(make_minutes(watched.minute, [165]), cpu_peak_millicores=np.array([4000.0])))
        watched.minute += 1
    assert watched.answer().cpu_request_millicores[0] == pytest.approx(target_of(0.165, 0.01) * 1000, abs=2)


def test_a_young_container_is_answered_beside_an_old_one() -> None:
    watched = Watched(2)
    watched.minutes(1500, [200, None], [GIB, None])
    watched.minutes(2, [200, 300], [GIB, 2 * GIB])
    answer = watched.answer()
    assert answer.has_cpu.all()
    assert answer.cpu_request_millicores[1] == pytest.approx(target_of(0.3, 0.01) * 1000, abs=2)
    upper = answer.extra["cpu_upper_bound_millicores"]
    assert upper[0] < 2.1 * answer.cpu_request_millicores[0]
    # Two samples a minute apart: 1/1440 of confidence, x 1441.
    assert upper[1] == answer.cpu_request_millicores[1] * 1441


def test_a_clock_that_steps_back_teaches_nothing_until_it_has_caught_up() -> None:
    watched = Watched()
    watched.minutes(60, [200], [GIB])
    before = watched.answer()
    watched.minute -= 30
    watched.minutes(29, [4000], [8 * GIB])  # up to the minute before the last
    assert watched.answer().cpu_request_millicores.tolist() == before.cpu_request_millicores.tolist()
    assert watched.answer().memory_request_bytes.tolist() == before.memory_request_bytes.tolist()
    watched.minutes(60, [4000], [8 * GIB])
    assert watched.answer().cpu_request_millicores[0] > before.cpu_request_millicores[0]


def test_memory_that_only_grows_is_followed_by_its_newest_peak() -> None:
    watched = Watched()
    amount = 100 * MIB
    for _ in range(600):
        watched.minutes(1, [10], [amount])
        amount += MIB
    # One window so far: its peak is the newest amount.
    assert watched.answer().memory_request_bytes[0] == pytest.approx(target_of(amount - MIB, 1e7), abs=2)


@pytest.mark.slow
def test_flat_memory_as_of_a_jvm_gives_one_figure_day_after_day() -> None:
    watched = Watched()
    figures = set()
    for _ in range(3):
        watched.minutes(1440, [100], [3 * GIB])
        figures.add(float(watched.answer().memory_request_bytes[0]))
    assert len(figures) == 1
    assert figures.pop() == pytest.approx(target_of(3 * GIB, 1e7), abs=2)


def test_a_peak_of_yesterday_stays_beside_todays() -> None:
    watched = Watched()
    watched.minutes(1440, [100], [4 * GIB])
    watched.minutes(60, [100], [GIB])
    # Today's peak weighs twice yesterday's: two thirds and one third. The percentile of 90 % is yesterday's.
    answer = watched.answer()
    assert answer.memory_request_bytes[0] == pytest.approx(target_of(4 * GIB, 1e7), abs=2)
    assert answer.extra["memory_lower_bound_bytes"][0] < 1.3 * GIB


def test_an_out_of_memory_kill_raises_memory_at_once() -> None:
    watched = Watched(2)
    watched.minutes(60, [100, 100], [900 * MIB, 900 * MIB])
    before = watched.answer().memory_request_bytes
    watched.oom(1000 * MIB)
    after = watched.answer().memory_request_bytes
    assert after[0] == pytest.approx(target_of(1200 * MIB, 1e7), abs=2)
    assert after[1] == before[1]


def test_an_out_of_memory_kill_does_not_make_its_minutes_sample_outdated() -> None:
    watched = Watched()
    watched.minutes(10, [100], [GIB])
    kill = OutOfMemory(unix_seconds=watched.minute * 60.0 + 42.7, request_bytes=GIB)
    watched.policy.record_oom(0, kill)
    watched.minutes(1, [100], [3 * GIB])
    assert watched.answer().memory_request_bytes[0] == pytest.approx(target_of(3 * GIB, 1e7), abs=2)


@pytest.mark.parametrize(
    ("request_bytes", "usage_bytes", "needed"),
    [
        (GIB, 4 * GIB, 1.2 * GIB),  # the request is what was too little
        (None, 4 * GIB, 4.8 * GIB),  # no request: what was used
        (None, None, 100 * MIB),
        (0, 4 * GIB, 100 * MIB),
    ],
)
def test_the_memory_at_a_kill_stands_in_for_a_missing_request(
    request_bytes: int | None, usage_bytes: int | None, needed: float
) -> None:
    watched = Watched()
    watched.oom(request_bytes, usage_bytes=usage_bytes)
    answer = watched.answer()
    assert not answer.has_cpu[0]
    assert answer.memory_request_bytes[0] == pytest.approx(max(target_of(needed, 1e7), MINIMUM_MEMORY), abs=2)


def test_what_was_learnt_is_dropped_after_eight_days_without_cpu() -> None:
    watched = Watched(2)
    watched.minutes(60, [100, 100], [GIB, GIB])
    watched.minute += 8 * 1440 - 1
    assert not watched.answer().has_cpu.any()
    assert not watched.answer().has_memory.any()
    watched.minutes(1, [None, 4000], [None, GIB])
    answer = watched.answer()
    assert answer.has_cpu.tolist() == [False, True]
    assert answer.extra["cpu_lower_bound_millicores"].tolist() == [0, MINIMUM_CPU]  # a first sample has no confidence


def test_forgotten_rows_know_nothing() -> None:
    watched = Watched(2)
    watched.minutes(60, [100, 100], [GIB, GIB])
    watched.policy.forget(np.array([0]))
    assert watched.answer().has_cpu.tolist() == [False, True]
    assert watched.answer().has_memory.tolist() == [False, True]


def test_rounding_whole_cores_and_cap_come_in_this_order() -> None:
    options = VpaOptions(
        round_cpu_millicores=100,
        round_memory_bytes=MIB,
        cpu_integer_post_processor_enabled=True,
        max_allowed_cpu_millicores=1500,
        max_allowed_memory_bytes=1000 * MIB,
    )
    watched = Watched(2, options)
    watched.minutes(1, [1000, 1000], [GIB, 300_000_000])
    present = replace(make_present([None] * 2), wants_whole_cores=np.array([True, False]))
    answer = watched.answer(present)
    # About 1168 millicores: rounded to 1200; to 2 cores where that is asked for, and that is capped.
    assert answer.extra["cpu_uncapped_target_millicores"].tolist() == [2000, 1200]
    assert answer.cpu_request_millicores.tolist() == [1500, 1200]
    assert answer.extra["cpu_upper_bound_millicores"].tolist() == [1500, 1500]
    # 351198544 bytes are 334.93 MiB.
    assert answer.memory_request_bytes.tolist() == [1000 * MIB, 335 * MIB]


def test_whole_cores_need_the_option() -> None:
    watched = Watched()
    watched.minutes(1, [1000])
    present = replace(make_present([None]), wants_whole_cores=np.array([True]))
    assert watched.answer(present).cpu_request_millicores[0] % 1000 != 0


def test_requests_only_keeps_limits() -> None:
    watched = Watched(options=VpaOptions(controlled_values=ControlledValues.REQUESTS_ONLY))
    assert watched.answer().limit_rule is LimitRule.KEEP


def test_without_bounds_the_answer_is_the_same_and_nothing_extra() -> None:
    with_bounds, without = Watched(2), Watched(2, with_bounds=False)
    for watched in (with_bounds, without):
        watched.minutes(90, [150, 2500], [GIB, 2 * GIB])
    assert without.answer().cpu_request_millicores.tolist() == with_bounds.answer().cpu_request_millicores.tolist()
    assert without.answer().memory_request_bytes.tolist() == with_bounds.answer().memory_request_bytes.tolist()
    assert without.answer().extra == {}


def test_a_saved_policy_answers_as_before() -> None:
    watched = Watched(2)
    watched.minutes(90, [150, 2500], [GIB, 2 * GIB])
    before = watched.answer()
    watched.policy = VpaPolicy.from_arrays(VpaOptions(), watched.policy.to_arrays())
    assert watched.answer().cpu_request_millicores.tolist() == before.cpu_request_millicores.tolist()
    assert {name: figures.tolist() for name, figures in watched.answer().extra.items()} == {
        name: figures.tolist() for name, figures in before.extra.items()
    }


def said(watched: Watched) -> dict[str, float | None]:
    steps = Steps()
    answer = watched.answer(steps=steps)
    # Asking why changes nothing.
    assert answer.cpu_request_millicores.tolist() == watched.answer().cpu_request_millicores.tolist()
    return {f"{step.resource}: {step.what}": step.value for step in steps.taken}


def test_steps_tell_every_intermediate_value() -> None:
    options = VpaOptions(
        round_cpu_millicores=5, cpu_integer_post_processor_enabled=True, max_allowed_memory_bytes=300_000_000
    )
    watched = Watched(options=options)
    watched.minutes(61, [120], [300_000_000])
    watched.oom(100 * MIB)
    steps = said(watched)
    assert steps["cpu: CPU samples"] == 61
    assert steps["cpu: first to last CPU sample"] == 3600
    assert steps["cpu: confidence"] == pytest.approx(1 / 24)
    assert steps["cpu: target: P90"] == 125
    assert steps["cpu: target: with margin"] == 143
    assert steps["cpu: target: at least the minimum"] == 143
    assert steps["cpu: target: rounded up"] == 145
    assert steps["cpu: target: whole cores"] == 145
    assert steps["cpu: lower bound: P50"] == 125
    assert steps["cpu: lower bound: widened for want of history"] == 136
    assert steps["cpu: upper bound: P95"] == 125
    assert steps["cpu: upper bound: widened for want of history"] == 3575
    assert steps["memory: end of the running window"] == DAY_SECONDS - 61 * 60
    assert steps["memory: peak of the running window: usage"] == 300_000_000
    # max(300000000 + 100 MiB, 1.2 x 300000000)
    assert steps["memory: peak of the running window: after kills"] == 300_000_000 + 100 * MIB
    assert steps["memory: target: at most what is allowed"] == 300_000_000
    assert "cpu: target: at most what is allowed" not in steps
    assert "memory: target: rounded up" not in steps


def test_steps_of_what_is_not_known_say_so() -> None:
    assert said(Watched()) == {"cpu: target": None, "memory: target": None}


minute_figures = st.lists(
    st.tuples(
        st.one_of(st.none(), st.floats(0, 64_000)),
        st.one_of(st.none(), st.integers(0, 1 << 42)),
        st.one_of(st.none(), st.none(), st.none(), st.integers(0, 1 << 42)),
        st.integers(-2, 3000),
    ),
    max_size=25,
)


def fed(figures: Sequence[tuple[float | None, int | None, int | None, int]], options: VpaOptions) -> Watched:
    """Tell minutes of CPU, memory, perhaps a kill with this request, and how many minutes pass."""
    watched = Watched(options=options)
    for cpu, memory, kill, passing in figures:
        watched.minutes(1, [cpu], [memory])
        if kill is not None:
            watched.oom(kill)
        watched.minute += passing
    return watched


@examples(60)
@given(minute_figures)
def test_answers_are_finite_whole_and_within_bounds(
    figures: list[tuple[float | None, int | None, int | None, int]],
) -> None:
    most_cpu, most_memory = 8_000, 16 * GIB
    answer = fed(
        figures, VpaOptions(max_allowed_cpu_millicores=most_cpu, max_allowed_memory_bytes=most_memory)
    ).answer()
    for resource, unit, request, has, least, most in (
        ("cpu", "millicores", answer.cpu_request_millicores, answer.has_cpu, MINIMUM_CPU, most_cpu),
        ("memory", "bytes", answer.memory_request_bytes, answer.has_memory, MINIMUM_MEMORY, most_memory),
    ):
        lower, upper = answer.extra[f"{resource}_lower_bound_{unit}"], answer.extra[f"{resource}_upper_bound_{unit}"]
        for amounts in (request, lower, upper):
            assert np.isfinite(amounts).all()
            assert (amounts == np.floor(amounts)).all()
        if has[0]:
            assert least <= lower[0] <= request[0] <= upper[0] <= most
        else:
            assert request[0] == 0


@examples(40)
@given(minute_figures, st.integers(2, 50))
def test_more_usage_never_gets_less_and_much_more_gets_about_as_much_more(
    figures: list[tuple[float | None, int | None, int | None, int]], times: int
) -> None:
    # Within 1e12 bytes, the last bucket, so that the larger figures are not cut.
    small = [(c and min(c, 10_000), m and m % 10**10, k and k % 10**10, passing) for c, m, k, passing in figures]
    large = [(c and c * times, m and m * times, k and k * times, passing) for c, m, k, passing in small]
    options = VpaOptions(pod_recommendation_min_cpu_millicores=0, pod_recommendation_min_memory_mb=0)
    less, more = fed(small, options).answer(), fed(large, options).answer()
    for before, after, first in (
        (less.cpu_request_millicores[0], more.cpu_request_millicores[0], 10.0),
        (less.memory_request_bytes[0], more.memory_request_bytes[0], 1e7),
    ):
        assert before <= after
        # A bucket is 5 % wide beyond the first: twenty times the first bucket's size is well within that.
        if before > 20 * first:
            assert after <= 1.12 * times * before


@examples(40)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 1 << 36)), min_size=1, max_size=8).flatmap(
        lambda events: st.tuples(st.just(events), st.permutations(events))
    )
)
def test_the_order_of_equal_times_does_not_matter(
    orders: tuple[list[tuple[bool, int]], list[tuple[bool, int]]],
) -> None:
    answers = []
    for events in orders:
        watched = Watched()
        watched.minutes(1, [100], [50 * MIB])
        now = T0 * 60.0
        # Usage comes before kills; among themselves they come in any order.
        for is_kill, amount in sorted(events, key=lambda event: event[0]):
            if is_kill:
                watched.policy.state.add_oom(0, amount, now)
            else:
                watched.policy.state.add_memory(all_rows(1), np.array([amount]), now)
        answers.append(watched.answer().memory_request_bytes.tolist())
    assert answers[0] == answers[1]
