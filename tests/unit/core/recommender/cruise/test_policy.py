from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.history.minute.minutes import OutOfMemory
from agent.core.orders.policy_options import CruiseOptions
from agent.core.recommender.cruise.peak import predict_peak
from agent.core.recommender.cruise.policy import CruisePolicy
from agent.core.recommender.policy import LimitRule, Policy, Proposals, Step, Steps
from tests.policy_rows import Figures, all_rows, make_minutes, make_present

MB = 1_000_000
DAY_MINUTES = 1440
HOUR_MINUTES = 60
NOON = int(datetime(2026, 1, 28, 12, 0, tzinfo=UTC).timestamp()) // 60
"""A UTC minute."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """One row of the proposals; None = its mask is False."""

    cpu_request: float | None
    cpu_base: float
    cpu_peak: float
    cpu_upward_only: bool
    memory_request: float | None
    memory_base: float
    memory_peak: float
    memory_limit: float | None
    memory_upward_only: bool


def answer(proposals: Proposals, row: int = 0, options: CruiseOptions | None = None) -> Answer:
    """One row, after checking what holds for any."""
    check(proposals, options)
    has_cpu, has_memory, has_limit = (
        bool(mask[row]) for mask in (proposals.has_cpu, proposals.has_memory, proposals.has_memory_limit)
    )
    return Answer(
        cpu_request=float(proposals.cpu_request_millicores[row]) if has_cpu else None,
        cpu_base=float(proposals.cpu_base_millicores[row]),
        cpu_peak=float(proposals.cpu_peak_millicores[row]),
        cpu_upward_only=bool(proposals.cpu_upward_only[row]),
        memory_request=float(proposals.memory_request_bytes[row]) if has_memory else None,
        memory_base=float(proposals.memory_base_bytes[row]),
        memory_peak=float(proposals.memory_peak_bytes[row]),
        memory_limit=float(proposals.memory_limit_bytes[row]) if has_limit else None,
        memory_upward_only=bool(proposals.memory_upward_only[row]),
    )


def check(proposals: Proposals, options: CruiseOptions | None = None) -> None:
    """The invariants of facts/cruisekube.md section 14 that a single container's answer can break."""
    options = options or CruiseOptions()
    for field in dataclasses.fields(Proposals):
        values = getattr(proposals, field.name)
        if isinstance(values, np.ndarray) and values.dtype == np.float64:
            assert np.isfinite(values).all()  # 1
            assert (values >= 0).all()
    has_cpu, has_memory = proposals.has_cpu, proposals.has_memory
    for has, base, peak, request, least in (
        (
            has_cpu,
            proposals.cpu_base_millicores,
            proposals.cpu_peak_millicores,
            proposals.cpu_request_millicores,
            options.min_cpu_millicores,
        ),
        (
            has_memory,
            proposals.memory_base_bytes,
            proposals.memory_peak_bytes,
            proposals.memory_request_bytes,
            options.min_memory_bytes,
        ),
    ):
        assert (peak[has] >= base[has]).all()  # 2: rest is never negative
        assert (request[has] >= base[has]).all()  # 3 ...
        assert (request[has] == np.maximum(peak[has], least)).all()  # ... and passes the peak by the least alone
        assert (request[~has] == 0).all()
    has_limit = proposals.has_memory_limit
    assert (has_limit <= has_memory).all()
    assert (proposals.memory_limit_bytes[has_limit] >= proposals.memory_request_bytes[has_limit]).all()  # 6
    assert (proposals.memory_limit_bytes[~has_limit] == 0).all()
    assert (proposals.cpu_upward_only <= has_cpu).all()
    assert (proposals.memory_upward_only <= has_memory).all()


def learnt(
    minutes: Sequence[tuple[int, float | None, float | None]], options: CruiseOptions | None = None
) -> CruisePolicy:
    """A policy of one row after minutes of CPU and memory."""
    policy = CruisePolicy(options or CruiseOptions(), 1)
    for unix_minute, cpu, memory in minutes:
        policy.fold(make_minutes(unix_minute, [cpu], [memory]))
    return policy


def ask(
    policy: CruisePolicy,
    cpu: float | None,
    memory: float | None = None,
    *,
    minute: int = NOON,
    steps: Steps | None = None,
) -> Answer:
    """The answer at the start of a UTC minute."""
    present = make_present([cpu], [memory])
    return answer(policy.recommend(all_rows(1), present, now_unix_seconds=minute * 60.0, steps=steps))


# --- the rule


def test_request_is_the_peak_of_the_last_hour() -> None:
    policy = learnt([(NOON - 30, 900.0, 500.0 * MB), (NOON - 1, 100.0, 200.0 * MB)])
    reply = ask(policy, 120.0, 210.0 * MB)
    assert (reply.cpu_base, reply.cpu_peak, reply.cpu_request) == (120.0, 900.0, 900.0)
    assert (reply.memory_base, reply.memory_peak, reply.memory_request) == (210.0 * MB, 500.0 * MB, 500.0 * MB)
    assert reply.memory_limit == 1000.0 * MB  # twice the largest of seven days
    assert not reply.cpu_upward_only
    assert not reply.memory_upward_only


def test_request_is_the_peak_of_this_hour_of_the_day() -> None:
    # Seven days ago at noon; eight days ago and this morning at 9 do not count.
    policy = learnt(
        [
            (NOON - 8 * DAY_MINUTES, 5000.0, None),
            (NOON - 7 * DAY_MINUTES, 800.0, None),
            (NOON - 3 * HOUR_MINUTES, 3000.0, None),
            (NOON - 1, 100.0, None),
        ]
    )
    assert ask(policy, 120.0).cpu_request == 800.0


def test_request_counts_the_neighbour_hours_unless_told_not_to() -> None:
    minutes = [(NOON - DAY_MINUTES - 1, 800.0, None), (NOON - DAY_MINUTES + 61, 700.0, None), (NOON - 1, 100.0, None)]
    assert ask(learnt(minutes), 120.0).cpu_request == 800.0
    assert ask(learnt(minutes, CruiseOptions(neighbour_hours=0)), 120.0).cpu_request == 120.0


@pytest.mark.parametrize(("ago", "counts"), [(60, True), (61, True), (62, False)])
def test_minute_that_holds_the_far_edge_of_the_last_hour_counts(ago: int, counts: bool) -> None:
    # At noon the far edge is 11:00 sharp, which ends the minute from 10:59 (ago 61). The hour of that minute, 10, is
    # no neighbour with neighbour_hours 0, nor is 11.
    policy = learnt([(NOON - ago, 800.0, None), (NOON - 1, 100.0, None)], CruiseOptions(neighbour_hours=0))
    assert ask(policy, 120.0).cpu_request == (800.0 if counts else 120.0)


def test_length_of_the_last_prediction_is_an_option() -> None:
    options = CruiseOptions(neighbour_hours=0, last_seconds=90.0)
    minutes = [(NOON - 4, 800.0, None), (NOON - 2, 300.0, None)]
    # 90 s before noon lies in the minute from 11:58 (ago 2).
    assert ask(learnt(minutes, options), 120.0).cpu_request == 300.0


def test_base_above_every_maximum_is_the_peak() -> None:
    # A base over overlapping minutes can pass each single one by a hair; the peak is never below it.
    reply = ask(learnt([(NOON - 1, 100.0, 10.0 * MB)]), 100.5, 30.0 * MB)
    assert (reply.cpu_peak, reply.cpu_request) == (100.5, 100.5)
    assert reply.memory_request == reply.memory_limit == 30.0 * MB  # at least the request, though 2 x 10 MB is less


def test_tiny_container_has_the_least() -> None:
    reply = ask(learnt([(NOON - 1, 0.5, 5.0 * MB)]), 0.2, 5.0 * MB)
    assert (reply.cpu_request, reply.cpu_peak) == (1.0, 0.5)
    assert (reply.memory_request, reply.memory_limit, reply.memory_peak) == (16.0 * MB, 16.0 * MB, 5.0 * MB)


def test_options_set_least_and_limit() -> None:
    options = CruiseOptions(min_cpu_millicores=50, min_memory_bytes=64 * MB, memory_limit_ratio=3.0)
    proposals = learnt([(NOON - 1, 10.0, 30.0 * MB)], options).recommend(
        all_rows(1), make_present([10.0], [30.0 * MB]), now_unix_seconds=NOON * 60.0
    )
    reply = answer(proposals, options=options)
    assert (reply.cpu_request, reply.memory_request, reply.memory_limit) == (50.0, 64.0 * MB, 90.0 * MB)


def test_limit_goes_by_seven_days_whatever_the_hour() -> None:
    policy = learnt([(NOON - 3 * DAY_MINUTES - 400, None, 400.0 * MB), (NOON - 1, None, 100.0 * MB)])
    reply = ask(policy, None, 90.0 * MB)
    assert (reply.memory_request, reply.memory_limit) == (100.0 * MB, 800.0 * MB)


def test_no_limit_of_cpu_is_proposed_and_limits_that_are_there_must_not_cap() -> None:
    proposals = learnt([]).recommend(all_rows(1), make_present([5.0]), now_unix_seconds=NOON * 60.0)
    assert proposals.limit_rule is LimitRule.RAISE


# --- what is not known


def test_no_data_is_no_answer() -> None:
    reply = ask(learnt([]), None, None)
    assert (reply.cpu_request, reply.memory_request, reply.memory_limit) == (None, None, None)
    assert not reply.cpu_upward_only
    assert not reply.memory_upward_only


def test_base_without_a_single_minute_counts_but_only_upward() -> None:
    # Invariant 15: a container without prediction is still counted, with peak = base.
    reply = ask(learnt([]), 120.0, 50.0 * MB)
    assert (reply.cpu_base, reply.cpu_peak, reply.cpu_request, reply.cpu_upward_only) == (120.0, 120.0, 120.0, True)
    assert (reply.memory_request, reply.memory_limit, reply.memory_upward_only) == (50.0 * MB, None, True)


def test_minutes_of_other_hours_only_are_no_prediction() -> None:
    reply = ask(learnt([(NOON - 5 * HOUR_MINUTES, 900.0, 500.0 * MB)]), 120.0, 50.0 * MB)
    assert (reply.cpu_request, reply.cpu_upward_only) == (120.0, True)
    assert (reply.memory_request, reply.memory_upward_only) == (50.0 * MB, True)
    assert reply.memory_limit == 1000.0 * MB


def test_one_sample_is_its_own_peak() -> None:
    reply = ask(learnt([(NOON - 1, 370.0, 40.0 * MB)]), 370.0, 40.0 * MB)
    assert (reply.cpu_base, reply.cpu_request, reply.cpu_upward_only) == (370.0, 370.0, False)
    assert (reply.memory_request, reply.memory_limit) == (40.0 * MB, 80.0 * MB)


def test_window_without_base_is_no_answer_however_much_history_there_is() -> None:
    policy = learnt([(NOON - minute, 900.0, 500.0 * MB) for minute in range(3000, 0, -1)])
    reply = ask(policy, None, None)
    assert (reply.cpu_request, reply.memory_request, reply.memory_limit) == (None, None, None)
    assert (reply.cpu_peak, reply.memory_peak) == (0.0, 0.0)


def test_one_missing_resource_leaves_the_other() -> None:
    # Invariant 16, within a container.
    policy = learnt([(NOON - 1, None, 40.0 * MB)])
    assert ask(policy, None, 30.0 * MB).memory_request == 40.0 * MB
    reply = ask(policy, 120.0, 30.0 * MB)
    assert (reply.cpu_request, reply.cpu_upward_only, reply.memory_upward_only) == (120.0, True, False)


def test_gaps_leave_what_was_measured_around_them() -> None:
    policy = learnt([(NOON - 50, 900.0, 500.0 * MB), (NOON - 30, None, None), (NOON - 2, 100.0, 200.0 * MB)])
    reply = ask(policy, 120.0, 210.0 * MB)
    assert (reply.cpu_request, reply.memory_request) == (900.0, 500.0 * MB)


# --- shapes of load


def test_constant_zero_is_the_least_and_known() -> None:
    reply = ask(learnt([(NOON - minute, 0.0, 0.0) for minute in range(200, 0, -1)]), 0.0, 0.0)
    assert (reply.cpu_request, reply.memory_request, reply.memory_limit) == (1.0, 16.0 * MB, 16.0 * MB)
    assert not reply.cpu_upward_only


def test_one_second_burst_raises_the_request_by_its_minutes_largest_rate_for_an_hour_and_then_daily() -> None:
    # A second at 2000 in a minute at 100: the largest rate over 60 s is 100 + 1900 / 60 = 131.7.
    burst = 100 + 1900 / 60
    policy = learnt([(NOON + minute, burst if minute == 0 else 100.0, None) for minute in range(24 * 60)])
    assert ask(policy, 100.0, minute=NOON + 60).cpu_request == pytest.approx(burst)
    assert ask(policy, 100.0, minute=NOON + 5 * 60).cpu_request == 100.0
    assert ask(policy, 100.0, minute=NOON + 24 * 60).cpu_request == pytest.approx(burst)


def test_memory_that_only_grows_is_followed_with_twice_as_limit() -> None:
    policy = CruisePolicy(CruiseOptions(), 1)
    for minute in range(300):
        policy.fold(make_minutes(NOON + minute, [1.0], [(100.0 + minute) * MB]))
        reply = ask(policy, 1.0, (90.0 + minute) * MB, minute=NOON + minute + 1)
        assert reply.memory_request == pytest.approx((100.0 + minute) * MB, rel=1e-7)
        assert reply.memory_limit == pytest.approx(2 * (100.0 + minute) * MB, rel=1e-7)


def test_flat_memory_is_itself() -> None:
    policy = learnt([(NOON - minute, 50.0, 2048.0 * MB) for minute in range(500, 0, -1)])
    reply = ask(policy, 50.0, 2048.0 * MB)
    assert (reply.memory_base, reply.memory_peak, reply.memory_limit) == (2048.0 * MB, 2048.0 * MB, 4096.0 * MB)


# --- clock steps


def test_clock_set_back_neither_raises_nor_loses_the_last_hour() -> None:
    policy = learnt([(NOON - 5, 900.0, 500.0 * MB), (NOON - 1, 100.0, 100.0 * MB)])
    before = ask(policy, 120.0, 110.0 * MB)
    # Set back by 20 minutes: 900 lies ahead of now and counts still; minutes come again and keep the larger maximum.
    for minute in range(20, 0, -1):
        policy.fold(make_minutes(NOON - minute, [50.0], [60.0 * MB]))
        assert ask(policy, 120.0, 110.0 * MB, minute=NOON - minute + 1) == before


def test_clock_set_back_by_a_day_lets_go_of_the_minutes_ahead_within_the_hour() -> None:
    options = CruiseOptions(neighbour_hours=0)
    policy = learnt([(NOON - minute, 900.0, None) for minute in range(61, 0, -1)], options)
    now = NOON - DAY_MINUTES - 5 * HOUR_MINUTES
    for minute in range(62):
        policy.fold(make_minutes(now + minute, [100.0]))
    assert ask(policy, 100.0, minute=now + 62).cpu_request == 100.0


def test_clock_set_forward_leaves_a_gap() -> None:
    policy = learnt([(NOON - 1, 900.0, None), (NOON + 5 * HOUR_MINUTES, 100.0, None)])
    assert ask(policy, 120.0, minute=NOON + 5 * HOUR_MINUTES + 1).cpu_request == 120.0
    assert ask(policy, 120.0, minute=NOON + DAY_MINUTES).cpu_request == 900.0


# --- out-of-memory kills


def killed(policy: CruisePolicy, usage_bytes: float, minute: int = NOON - 1) -> None:
    policy.record_oom(0, OutOfMemory(unix_seconds=minute * 60.0, usage_bytes=int(usage_bytes)))


def test_out_of_memory_makes_the_base_and_the_limit() -> None:
    policy = learnt([(NOON - 1, None, 300.0 * MB)])
    killed(policy, 412 * MB)
    reply = ask(policy, None, 200.0 * MB)
    assert (reply.memory_base, reply.memory_peak, reply.memory_request) == (412.0 * MB, 412.0 * MB, 412.0 * MB)
    assert reply.memory_limit == 824.0 * MB
    assert not reply.memory_upward_only


def test_out_of_memory_below_the_predicted_peak_changes_no_peak() -> None:
    policy = learnt([(NOON - 1, None, 500.0 * MB)])
    killed(policy, 412 * MB)
    reply = ask(policy, None, 200.0 * MB)
    assert (reply.memory_base, reply.memory_peak, reply.memory_limit) == (412.0 * MB, 500.0 * MB, 1000.0 * MB)


def test_out_of_memory_with_an_empty_window_raises_only() -> None:
    # The restarted container has no window yet: what killed it is all there is, and it must not wait.
    policy = learnt([(NOON - 1, None, 300.0 * MB)])
    killed(policy, 412 * MB)
    reply = ask(policy, None, None)
    assert (reply.memory_request, reply.memory_limit, reply.memory_upward_only) == (412.0 * MB, 824.0 * MB, True)
    assert reply.cpu_request is None


def test_out_of_memory_before_the_first_minute_makes_request_and_limit_upward_only() -> None:
    policy = learnt([])
    killed(policy, 412 * MB)
    reply = ask(policy, None, None)
    assert (reply.memory_request, reply.memory_limit, reply.memory_upward_only) == (412.0 * MB, 824.0 * MB, True)


def test_out_of_memory_figure_does_not_fall_by_a_later_lower_kill_and_ends_with_its_time() -> None:
    # Invariant 18.
    policy = learnt([])
    killed(policy, 500 * MB, NOON - 2)
    killed(policy, 300 * MB, NOON - 1)
    assert ask(policy, None, 100.0 * MB).memory_base == 500.0 * MB
    assert ask(policy, None, 100.0 * MB, minute=NOON - 2 + 7 * DAY_MINUTES).memory_base == 500.0 * MB
    assert ask(policy, None, 100.0 * MB, minute=NOON - 1 + 7 * DAY_MINUTES).memory_base == 300.0 * MB
    assert ask(policy, None, 100.0 * MB, minute=NOON + 7 * DAY_MINUTES).memory_base == 100.0 * MB


def test_out_of_memory_without_figure_changes_nothing() -> None:
    policy = learnt([(NOON - 1, None, 300.0 * MB)])
    before = ask(policy, None, 200.0 * MB)
    policy.record_oom(0, OutOfMemory(unix_seconds=NOON * 60.0, request_bytes=900 * MB))
    assert ask(policy, None, 200.0 * MB) == before


# --- many rows


def test_policy_is_what_the_contract_asks() -> None:
    policy: Policy = CruisePolicy(CruiseOptions(), 3)
    assert (policy.name, policy.rows) == ("cruise", 3)


def test_rows_grow_and_forgotten_ones_know_nothing() -> None:
    policy = learnt([(NOON - 2, 900.0, 500.0 * MB)])
    killed(policy, 600 * MB)
    policy.grow(2)
    assert policy.rows == 2
    policy.fold(make_minutes(NOON - 1, [100.0, 200.0], [10.0 * MB, 20.0 * MB]))
    policy.forget(np.array([0]))
    present = make_present([50.0, 50.0], [5.0 * MB, 5.0 * MB])
    proposals = policy.recommend(all_rows(2), present, now_unix_seconds=NOON * 60.0)
    forgotten, neighbour = answer(proposals, 0), answer(proposals, 1)
    assert (forgotten.cpu_request, forgotten.cpu_upward_only, forgotten.memory_base) == (50.0, True, 5.0 * MB)
    assert (neighbour.cpu_request, neighbour.memory_request) == (200.0, 20.0 * MB)
    steps = Steps()
    policy.recommend(np.array([0]), make_present([50.0], [5.0 * MB]), now_unix_seconds=NOON * 60.0, steps=steps)
    assert steps.hours == []


figures = st.one_of(st.none(), st.floats(min_value=0, max_value=1e6, width=32))
bytes_figures = st.one_of(st.none(), st.integers(0, 2**24).map(lambda kib: kib * 1024.0))
rows_of = st.lists(st.tuples(figures, bytes_figures), min_size=3, max_size=3)
histories = st.lists(st.tuples(st.integers(0, 9 * DAY_MINUTES), rows_of), max_size=25).map(
    lambda minutes: sorted(minutes, key=lambda minute: -minute[0])
)
kill_lists = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9 * 86_400), st.integers(1, 2**34)), max_size=6)


def three_rows(
    history: list[tuple[int, list[tuple[float | None, float | None]]]],
    kills: list[tuple[int, int, int]],
    order: Sequence[int] = (0, 1, 2),
    scale: float = 1.0,
) -> CruisePolicy:
    """A policy of three rows, in some order, all usage scaled."""

    def scaled(values: list[float | None]) -> list[float | None]:
        return [None if values[row] is None else values[row] * scale for row in order]  # type: ignore[operator]

    policy = CruisePolicy(CruiseOptions(), 3)
    for ago, rows in history:
        cpu, memory = scaled([row[0] for row in rows]), scaled([row[1] for row in rows])
        policy.fold(make_minutes(NOON - 1 - ago, cpu, memory))
    for row, ago, usage in kills:
        kill = OutOfMemory(unix_seconds=NOON * 60.0 - ago, usage_bytes=round(usage * scale))
        policy.record_oom(list(order).index(row), kill)
    return policy


def bases(rows: list[tuple[float | None, float | None]], order: Sequence[int] = (0, 1, 2)) -> tuple[Figures, Figures]:
    return [rows[row][0] for row in order], [rows[row][1] for row in order]


@settings(deadline=None)
@given(histories, kill_lists, rows_of)
def test_any_answer_is_finite_and_keeps_the_invariants(
    history: list[tuple[int, list[tuple[float | None, float | None]]]],
    kills: list[tuple[int, int, int]],
    present: list[tuple[float | None, float | None]],
) -> None:
    policy = three_rows(history, kills)
    check(policy.recommend(all_rows(3), make_present(*bases(present)), now_unix_seconds=NOON * 60.0))


@settings(deadline=None)
@given(histories, kill_lists, rows_of, st.permutations([0, 1, 2]))
def test_any_answer_is_the_same_in_any_order_and_alone(
    history: list[tuple[int, list[tuple[float | None, float | None]]]],
    kills: list[tuple[int, int, int]],
    present: list[tuple[float | None, float | None]],
    order: list[int],
) -> None:
    # Invariants 16 and 23: no row's answer depends on another's data, nor on where it stands.
    plain = three_rows(history, kills)
    shuffled = three_rows(history, kills, order)
    together = plain.recommend(all_rows(3), make_present(*bases(present)), now_unix_seconds=NOON * 60.0)
    moved = shuffled.recommend(all_rows(3), make_present(*bases(present, order)), now_unix_seconds=NOON * 60.0)
    for place, row in enumerate(order):
        alone = plain.recommend(
            np.array([row]), make_present([present[row][0]], [present[row][1]]), now_unix_seconds=NOON * 60.0
        )
        assert answer(together, row) == answer(moved, place) == answer(alone)


@settings(deadline=None)
@given(histories, kill_lists, rows_of)
def test_any_answer_scales_with_usage(
    history: list[tuple[int, list[tuple[float | None, float | None]]]],
    kills: list[tuple[int, int, int]],
    present: list[tuple[float | None, float | None]],
) -> None:
    # By four, which is exact in floats; but for the least, which does not scale.
    once = three_rows(history, kills).recommend(
        all_rows(3), make_present(*bases(present)), now_unix_seconds=NOON * 60.0
    )
    larger = [tuple(None if value is None else 4 * value for value in row) for row in present]
    fourfold = three_rows(history, kills, scale=4.0).recommend(
        all_rows(3),
        make_present([cpu for cpu, _ in larger], [memory for _, memory in larger]),
        now_unix_seconds=NOON * 60.0,
    )
    assert (fourfold.cpu_peak_millicores == 4 * once.cpu_peak_millicores).all()
    assert (fourfold.memory_peak_bytes == 4 * once.memory_peak_bytes).all()
    assert (fourfold.memory_base_bytes == 4 * once.memory_base_bytes).all()


@settings(deadline=None)
@given(histories, kill_lists, rows_of, st.integers(0, 30), st.floats(0, 1e6, width=32))
def test_any_answer_is_monotone_in_usage(
    history: list[tuple[int, list[tuple[float | None, float | None]]]],
    kills: list[tuple[int, int, int]],
    present: list[tuple[float | None, float | None]],
    which: int,
    more: float,
) -> None:
    raised = [
        (ago, [tuple(None if value is None else value + more for value in row) for row in rows])
        if index == which
        else (ago, rows)
        for index, (ago, rows) in enumerate(history)
    ]
    before = three_rows(history, kills).recommend(
        all_rows(3), make_present(*bases(present)), now_unix_seconds=NOON * 60.0
    )
    after = three_rows(raised, kills).recommend(  # type: ignore[arg-type]
        all_rows(3), make_present(*bases(present)), now_unix_seconds=NOON * 60.0
    )
    assert (after.cpu_request_millicores >= before.cpu_request_millicores).all()
    assert (after.memory_request_bytes >= before.memory_request_bytes).all()
    assert (after.memory_limit_bytes >= before.memory_limit_bytes).all()


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 8 * DAY_MINUTES), st.floats(0, 1e6, width=32)), max_size=40),
    st.integers(0, 3),
)
def test_minutes_predict_what_samples_at_their_ends_predict(samples: list[tuple[int, float]], neighbours: int) -> None:
    # One rule in two forms: a sample at the very end of its minute, inside the same hour as its start.
    options = CruiseOptions(neighbour_hours=neighbours)
    minutes = sorted({NOON - 1 - ago: value for ago, value in samples}.items())
    moments = np.array([minute * 60.0 + 59.999 for minute, _ in minutes], dtype=np.float64)
    values = np.array([value for _, value in minutes], dtype=np.float64)
    now = NOON * 60.0 - 0.001  # the newest minute's sample is now; the far edge is a sample of 61 minutes ago
    expected = predict_peak(moments, values, options, now_unix_seconds=now)
    reply = ask_at(learnt([(minute, value, None) for minute, value in minutes], options), now)
    assert (reply.cpu_peak, reply.cpu_upward_only) == (expected.peak or 0.0, expected.peak is None)


def ask_at(policy: CruisePolicy, now_unix_seconds: float) -> Answer:
    return answer(policy.recommend(all_rows(1), make_present([0.0]), now_unix_seconds=now_unix_seconds))


# --- the explanation


def told(policy: CruisePolicy, cpu: float | None, memory: float | None) -> list[Step]:
    steps = Steps()
    ask(policy, cpu, memory, steps=steps)
    return steps.taken


def test_steps_tell_every_value_in_order() -> None:
    policy = learnt([(NOON - DAY_MINUTES + 5, 800.0, 300.0 * MB), (NOON - 1, 100.0, 200.0 * MB)])
    killed(policy, 412 * MB)
    figures = [(step.resource, step.what, step.value, step.unit) for step in told(policy, 120.0, 210.0 * MB)]
    assert figures == [
        ("cpu", "base: sustained demand", 120.0, "millicores"),
        ("cpu", "largest of the last 60 min", 100.0, "millicores"),
        ("cpu", "largest at this hour of the day +- 1 h, 7 days", 800.0, "millicores"),
        ("cpu", "peak", 800.0, "millicores"),
        ("cpu", "request", 800.0, "millicores"),
        ("memory", "sustained working set", 210.0 * MB, "bytes"),
        ("memory", "memory at an out-of-memory kill", 412.0 * MB, "bytes"),
        ("memory", "base: sustained demand", 412.0 * MB, "bytes"),
        ("memory", "largest of the last 60 min", 200.0 * MB, "bytes"),
        ("memory", "largest at this hour of the day +- 1 h, 7 days", 300.0 * MB, "bytes"),
        ("memory", "peak", 412.0 * MB, "bytes"),
        ("memory", "request", 412.0 * MB, "bytes"),
        ("memory", "largest of seven days", 300.0 * MB, "bytes"),
        ("memory", "limit", 824.0 * MB, "bytes"),
    ]


def test_steps_say_where_and_when_a_maximum_was() -> None:
    policy = learnt([(NOON - DAY_MINUTES + 5, 800.0, None), (NOON - DAY_MINUTES + 70, 20.0, None)])
    killed(policy, 412 * MB, NOON - 30)
    steps = Steps()
    ask(policy, 0.1, 210.0 * MB, steps=steps)
    # 12:00 and 13:00 of the day before, both within an hour of noon
    assert steps.hours == [(NOON - DAY_MINUTES) * 60, (NOON - DAY_MINUTES + 60) * 60]
    notes = {(step.resource, step.what): step.note for step in steps.taken}
    same_hour = "largest at this hour of the day +- 1 h, 7 days"
    assert notes["cpu", same_hour] == "in the hour from 2026-01-27 12:00 UTC; such hours measured: 2"
    assert notes["cpu", "largest of the last 60 min"] == "no minute measured"
    assert notes["memory", same_hour] == "no such hour measured"
    kill = "usage, else limit, at the kill of 2026-01-28 11:30 UTC; the largest of 7 days"
    assert notes["memory", "memory at an out-of-memory kill"] == kill


def test_steps_without_prediction_say_so() -> None:
    steps = told(learnt([], CruiseOptions(neighbour_hours=0)), 0.1, 5.0 * MB)
    notes = {(step.resource, step.what): (step.value, step.note) for step in steps}
    assert notes["cpu", "largest at this hour of the day, 7 days"] == (None, "no such hour measured")
    assert notes["cpu", "peak"] == (
        0.1,
        "nothing measured yet to predict from: the base, which may raise the request but not lower it",
    )
    assert notes["cpu", "request"] == (1.0, "the policy's least, 1m")
    assert notes["memory", "memory at an out-of-memory kill"] == (None, "no kill with usage or limit known in 7 days")
    assert notes["memory", "largest of seven days"] == (None, "no minute measured")
    assert notes["memory", "limit"][0] is None


def test_steps_without_base_end_where_the_answer_does() -> None:
    steps = told(learnt([(NOON - 1, 100.0, 200.0 * MB)]), None, None)
    assert ("cpu", "base: sustained demand", None) in [(s.resource, s.what, s.value) for s in steps]
    assert {step.what for step in steps}.isdisjoint({"peak", "request", "limit"})
    values = [step.value for step in steps if step.what == "largest of the last 60 min"]
    assert values == [100.0, 200.0 * MB]
