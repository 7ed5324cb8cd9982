from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from agent.core.history.minute.minutes import OutOfMemory
from agent.core.orders.policy_options import SizingOptions
from agent.core.recommender.plimsoll.policy import PlimsollPolicy
from agent.core.recommender.policy import LimitRule, Policy, Proposals, Steps
from tests.examples import examples
from tests.generated_traces import START_UNIX_MINUTE
from tests.policy_rows import Figures, all_rows, make_minutes, make_present

HOUR = 60
DAY = 1440
MIB = 1 << 20
MIDNIGHT = START_UNIX_MINUTE
"""A Monday's, in UTC."""
RISE = 1.06
"""What small rises are made whole to, and a little."""


def new(rows: int = 1, price: float = SizingOptions().price) -> PlimsollPolicy:
    return PlimsollPolicy(SizingOptions(price=price), rows)


def learn(
    policy: PlimsollPolicy,
    usage: Iterable[Figures],
    *,
    start: int = MIDNIGHT,
    memory: Sequence[Figures] | None = None,
    stride: int = 1,
) -> int:
    """Fold minutes of all rows, ``stride`` apart; give the minute after them."""
    minute = start
    for index, figures in enumerate(usage):
        policy.fold(make_minutes(minute, figures, None if memory is None else memory[index]))
        minute += stride
    return minute


def ask(
    policy: PlimsollPolicy,
    minute: int,
    *,
    cpu: Figures = (1.0,),
    memory: Figures | None = None,
    steps: Steps | None = None,
) -> Proposals:
    """Ask for the first rows at the start of a minute."""
    rows = all_rows(len(cpu))
    proposals = policy.recommend(rows, make_present(cpu, memory), now_unix_seconds=minute * 60.0, steps=steps)
    for field in dataclasses.fields(Proposals):
        values = getattr(proposals, field.name)
        if isinstance(values, np.ndarray) and values.dtype == np.float64:
            assert np.isfinite(values).all()
            assert (values >= 0).all()
    limited = proposals.has_memory_limit
    assert (proposals.memory_limit_bytes >= proposals.memory_request_bytes)[limited].all()
    assert (proposals.cpu_peak_millicores >= proposals.cpu_base_millicores)[proposals.has_cpu].all()
    assert (proposals.memory_peak_bytes >= proposals.memory_base_bytes)[proposals.has_memory].all()
    return proposals


def cpu_request(policy: PlimsollPolicy, minute: int, base: float = 1.0) -> float:
    return float(ask(policy, minute, cpu=[base]).cpu_request_millicores[0])


def noisy(minutes: int, level: float, *, seed: int = 1, deviation: float = 0.1) -> NDArray[np.float64]:
    return level * np.exp(np.random.default_rng(seed).normal(0.0, deviation, minutes))


def test_plimsoll_policy_is_a_policy() -> None:
    policy: Policy = new(3)
    assert policy.name == "plimsoll"
    assert policy.rows == 3


def test_recommend_nothing_learnt_and_no_base_has_no_answer() -> None:
    proposals = ask(new(), MIDNIGHT, cpu=[None], memory=[None])
    assert not proposals.has_cpu[0]
    assert not proposals.has_memory[0]
    assert not proposals.has_memory_limit[0]
    assert proposals.limit_rule is LimitRule.RAISE


def test_recommend_nothing_learnt_gives_the_base_upward_only() -> None:
    proposals = ask(new(), MIDNIGHT, cpu=[80.0], memory=[5.0 * MIB])
    assert proposals.cpu_request_millicores[0] == 80.0
    assert proposals.cpu_upward_only[0]
    assert proposals.memory_request_bytes[0] == 5.0 * MIB
    assert proposals.memory_upward_only[0]
    assert not proposals.has_memory_limit[0]


def test_recommend_one_sample_is_asked_for_as_it_is_upward_only() -> None:
    policy = new()
    minute = learn(policy, [[200.0]], memory=[[100.0 * MIB]])
    proposals = ask(policy, minute, cpu=[150.0], memory=[100.0 * MIB])
    assert proposals.cpu_request_millicores[0] == 200.0
    assert proposals.cpu_upward_only[0]
    assert proposals.memory_request_bytes[0] == 105 * MIB  # the least margin, 5 %
    assert proposals.memory_limit_bytes[0] == 200 * MIB
    assert not proposals.memory_upward_only[0]


def test_recommend_may_lower_after_an_hour_of_minutes_also_over_the_turn_of_an_hour() -> None:
    policy = new()
    minute = learn(policy, [[100.0]] * 59, start=MIDNIGHT + 30)
    assert ask(policy, minute).cpu_upward_only[0]
    minute = learn(policy, [[100.0]], start=minute)
    assert not ask(policy, minute).cpu_upward_only[0]


def test_recommend_the_first_hour_keeps_the_largest_seen() -> None:
    policy = new()
    minute = learn(policy, [[900.0], *[[100.0]] * 40])
    assert cpu_request(policy, minute) == 900.0


def test_recommend_learnt_but_no_base_has_no_cpu_answer() -> None:
    policy = new()
    minute = learn(policy, [[100.0]] * 100)
    assert not ask(policy, minute, cpu=[None]).has_cpu[0]


def test_recommend_base_above_the_answer_is_the_request() -> None:
    policy = new()
    minute = learn(policy, [[100.0]] * 100)
    assert cpu_request(policy, minute, base=500.0) == 500.0


def test_recommend_constant_zero_is_zero() -> None:
    policy = new()
    minute = learn(policy, [[0.0]] * 300, memory=[[0.0]] * 300)
    proposals = ask(policy, minute, cpu=[0.0], memory=[0.0])
    assert proposals.cpu_request_millicores[0] == 0.0
    assert proposals.memory_request_bytes[0] == 0.0
    assert proposals.has_cpu[0]


@pytest.mark.parametrize("price", [1.0, 60.0, 1000.0])
def test_recommend_constant_usage_asks_for_itself_from_the_first_minute_on(price: float) -> None:
    policy = new(price=price)
    for minute in range(MIDNIGHT, MIDNIGHT + 3 * HOUR, 7):
        policy.fold(make_minutes(minute, [1000.0]))
        assert cpu_request(policy, minute + 1) == 1000.0


def test_recommend_step_up_is_covered_in_the_next_minute() -> None:
    policy = new()
    minute = learn(policy, ([value] for value in noisy(DAY // 2, 100.0)))
    assert cpu_request(policy, minute) < 160.0
    minute = learn(policy, [[900.0]], start=minute)
    assert cpu_request(policy, minute) >= 900.0


@pytest.mark.parametrize(("to", "within_hours"), [(0.25, 24), (0.5, 36), (0.7, 72)])
def test_recommend_step_down_is_followed_within_days(to: float, within_hours: int) -> None:
    policy = new()
    minute = learn(policy, ([value] for value in noisy(6 * DAY // 5, 1000.0, deviation=0.05)), stride=5)
    after = noisy(within_hours * HOUR // 5, 1000.0 * to, seed=2, deviation=0.05)
    minute = learn(policy, ([value] for value in after), start=minute, stride=5)
    assert cpu_request(policy, minute) < 1000.0 * to * 1.25  # 5 % of noise reaches 16 % up in a day


def test_recommend_burst_that_came_once_is_let_go_of() -> None:
    policy = new(price=10.0)
    minute = learn(policy, [[100.0]] * DAY)
    minute = learn(policy, [[2000.0]] * 5, start=minute)
    minute = learn(policy, [[100.0]] * 14, start=minute)
    assert cpu_request(policy, minute) >= 2000.0  # the last 15 minutes hold one of the burst still
    minute = learn(policy, [[100.0]] * DAY, start=minute)
    assert cpu_request(policy, minute) < 200.0


def test_recommend_follows_peaks_not_means() -> None:
    policy = new()
    for minute in range(MIDNIGHT, MIDNIGHT + 300):
        known = make_minutes(minute, [300.0])
        policy.fold(dataclasses.replace(known, cpu_usage_millicores=np.array([200.0])))
    assert cpu_request(policy, MIDNIGHT + 300) == 300.0


def nights(days: int) -> NDArray[np.float64]:
    """Return minutes, each fifth: 10 millicores, and 200 for half an hour from two o'clock each night."""
    usage = np.full(days * DAY // 5, 10.0)
    usage[np.arange(usage.size) % (DAY // 5) // 6 == 4] = 200.0
    return usage


@pytest.fixture(scope="module")
def night_worker() -> tuple[PlimsollPolicy, int]:
    policy = new()
    return policy, learn(policy, ([value] for value in nights(5)), stride=5)


def test_recommend_nightly_job_is_reserved_for_at_night_only(night_worker: tuple[PlimsollPolicy, int]) -> None:
    policy, midnight = night_worker
    assert cpu_request(policy, midnight + 2 * HOUR) >= 200.0
    policy = new()
    noon = learn(policy, ([value] for value in nights(6)[: -DAY // 10]), stride=5)
    assert cpu_request(policy, noon) < 20.0


def test_recommend_period_is_learnt_in_three_days() -> None:
    policy = new()
    minute = learn(policy, ([value] for value in nights(3)), stride=5)
    assert cpu_request(policy, minute + 2 * HOUR) >= 200.0


def test_recommend_at_another_hour_changes_nothing(night_worker: tuple[PlimsollPolicy, int]) -> None:
    policy, midnight = night_worker
    before = cpu_request(policy, midnight)
    for hours in (2, 30, -1, -40):
        cpu_request(policy, midnight + hours * HOUR)
    assert cpu_request(policy, midnight) == before


def test_recommend_asked_each_minute_or_never_before_is_the_same() -> None:
    usage = noisy(2 * DAY, 100.0, deviation=0.4)
    asked, silent = new(), new()
    for index, value in enumerate(usage):
        asked.fold(make_minutes(MIDNIGHT + index, [value]))
        silent.fold(make_minutes(MIDNIGHT + index, [value]))
        if index % 19 == 0 or index % HOUR in (0, 58, 59):
            cpu_request(asked, MIDNIGHT + index + 1)
            cpu_request(asked, MIDNIGHT + index + 2)  # also an hour before its last minute is learnt
    minute = MIDNIGHT + usage.size
    assert cpu_request(asked, minute - 1) == cpu_request(silent, minute - 1)
    assert cpu_request(asked, minute) == cpu_request(silent, minute)


def test_recommend_hours_without_a_minute_are_passed_over() -> None:
    policy = new()
    minute = learn(policy, ([value] for value in noisy(HOUR * 5, 100.0)))
    before = cpu_request(policy, minute)
    minute = learn(policy, [[100.0]], start=minute + 5 * HOUR)
    assert cpu_request(policy, minute) == pytest.approx(before, rel=0.3)


def test_recommend_after_a_gap_what_was_used_before_it_is_not_of_the_hour_before() -> None:
    policy = new()
    minute = learn(policy, [[100.0]] * (DAY + 9 * HOUR + 45))
    minute = learn(policy, [[900.0]] * 15, start=minute)
    minute = learn(policy, [[100.0]] * 20, start=minute + 5 * HOUR)
    assert cpu_request(policy, minute) == 100.0


def test_recommend_small_falls_within_a_day_are_not_asked_for() -> None:
    policy, minute, requests = new(), MIDNIGHT, []
    for value in noisy(3 * DAY, 1000.0, deviation=0.05):
        minute = learn(policy, [[value]], start=minute)
        if minute % HOUR == 0 and minute > MIDNIGHT + 2 * DAY:
            requests.append(cpu_request(policy, minute))
    assert len(set(requests)) <= 4


def test_recommend_gap_changes_nothing_until_minutes_come_again() -> None:
    policy = new(2)
    minute = learn(policy, ([value, value] for value in noisy(DAY, 100.0)))
    before = cpu_request(policy, minute)
    # Row 0 is not measured for ten minutes of the running hour; row 1 is.
    minute = learn(policy, [[None, 100.0]] * 10, start=minute)
    assert 100.0 <= cpu_request(policy, minute) <= before


def test_recommend_usage_after_a_restart_at_zero_is_finite_and_falls() -> None:
    policy = new()
    minute = learn(policy, [[800.0]] * (DAY // 5), stride=5)
    minute = learn(policy, [[0.0]] * (2 * DAY // 5), start=minute, stride=5)
    assert cpu_request(policy, minute, base=0.0) < 100.0


@pytest.mark.parametrize("step_minutes", [-3 * DAY, -90, -1, 90, 3 * DAY, 400 * DAY])
def test_recommend_after_a_clock_step_covers_what_is_used_now(step_minutes: int) -> None:
    policy = new()
    minute = learn(policy, [[300.0]] * (DAY // 2), memory=[[64.0 * MIB]] * (DAY // 2))
    ask(policy, minute)
    minute = learn(policy, [[350.0]] * 70, start=minute + step_minutes, memory=[[65.0 * MIB]] * 70)
    proposals = ask(policy, minute, cpu=[350.0], memory=[65.0 * MIB])
    assert 350.0 <= proposals.cpu_request_millicores[0] <= 400.0
    assert proposals.memory_request_bytes[0] >= 65.0 * MIB


def hostile(kind: str) -> NDArray[np.float64]:
    """Return a week and two days of every fifth minute that no rule can foresee."""
    random = np.random.default_rng(4)
    count = 9 * DAY // 5
    if kind == "walk":
        return np.clip(300.0 * np.exp(np.cumsum(random.normal(0.0, 0.02, count))), 5.0, 4000.0)
    usage = noisy(count, 100.0, seed=5)
    if kind == "spike":
        usage[[count // 9 * 2, count // 9 * 8]] = 4000.0
    else:
        usage[random.random(count) < 0.3] = np.nan
    return usage


@pytest.mark.parametrize(("kind", "slack"), [("walk", 3.0), ("spike", 6.0), ("gaps", 0.6)])
@pytest.mark.slow
def test_hostile_series_cost_bounded_slack(kind: str, slack: float) -> None:
    policy, usage, minute = new(), hostile(kind), MIDNIGHT
    unused = used = request = 0.0
    for index, value in enumerate(usage):
        known = None if np.isnan(value) else float(value)
        if known is not None and index > DAY // 5:
            unused, used = unused + max(request - known, 0.0), used + known
        policy.fold(make_minutes(minute, [known]))
        minute += 5
        if minute % HOUR == 0:
            request = cpu_request(policy, minute)
    assert unused <= slack * used


def test_memory_that_only_grows_is_under_requested_rarely() -> None:
    policy, minute, under, request = new(), MIDNIGHT, 0, 0.0
    for step in range(DAY):
        used = (512.0 + np.floor(step / 14.4)) * MIB  # 100 MiB a day by steps of a MiB
        under += used > request > 0.0
        policy.fold(make_minutes(minute, [1.0], [used]))
        minute += 1
        request = float(ask(policy, minute, memory=[used]).memory_request_bytes[0])
        assert request >= used
    assert under == 0


def test_memory_that_leaps_each_hour_is_given_the_next_leap() -> None:
    policy, minute = new(), MIDNIGHT
    for step in range(8):
        minute = learn(policy, [[1.0]] * HOUR, start=minute, memory=[[100.0 * MIB * 1.15**step]] * HOUR)
    request = float(ask(policy, minute, memory=[1.0]).memory_request_bytes[0])
    assert request == pytest.approx(100 * MIB * 1.15**8, rel=0.02)


def test_memory_flat_as_of_a_jvm_is_asked_for_with_the_least_margin() -> None:
    policy = new()
    minute = learn(policy, [[50.0]] * DAY, memory=[[2048.0 * MIB]] * DAY)
    proposals = ask(policy, minute, memory=[2048.0 * MIB])
    assert proposals.memory_request_bytes[0] == pytest.approx(2048 * MIB * 1.05)
    assert proposals.memory_limit_bytes[0] == 4096 * MIB


def test_memory_peak_counts_for_seven_days_and_no_longer() -> None:
    policy = new()
    policy.fold(make_minutes(MIDNIGHT, [1.0], [900.0 * MIB]))
    later = MIDNIGHT + 1
    minute = learn(policy, [[1.0]] * 7 * 24, start=later, memory=[[100.0 * MIB]] * 7 * 24, stride=HOUR) - HOUR
    assert ask(policy, minute, memory=[100.0 * MIB]).memory_request_bytes[0] >= 900 * MIB
    minute = learn(policy, [[1.0]] * 3, start=minute + HOUR, memory=[[100.0 * MIB]] * 3, stride=HOUR)
    assert ask(policy, minute, memory=[100.0 * MIB]).memory_request_bytes[0] < 120 * MIB


def test_record_oom_memory_is_at_least_what_was_used_at_the_kill_for_seven_days() -> None:
    policy = new()
    minute = learn(policy, [[1.0]] * 10, memory=[[100.0 * MIB]] * 10)
    policy.record_oom(0, OutOfMemory(unix_seconds=minute * 60.0, usage_bytes=300 * MIB, limit_bytes=256 * MIB))
    proposals = ask(policy, minute, memory=[100.0 * MIB])
    assert proposals.memory_request_bytes[0] == 300 * MIB
    assert proposals.memory_limit_bytes[0] == 600 * MIB
    later = ask(policy, minute + 7 * DAY + 1, memory=[100.0 * MIB])
    assert later.memory_request_bytes[0] < 300 * MIB


def test_record_oom_without_a_base_answers_for_memory_upward_only() -> None:
    policy = new()
    policy.record_oom(0, OutOfMemory(unix_seconds=MIDNIGHT * 60.0, usage_bytes=300 * MIB))
    proposals = ask(policy, MIDNIGHT, cpu=[None], memory=[None])
    assert proposals.has_memory[0]
    assert proposals.memory_upward_only[0]
    assert proposals.memory_limit_bytes[0] == 600 * MIB


def test_a_higher_price_asks_for_no_less() -> None:
    usage = noisy(4 * DAY // 5, 300.0, deviation=0.5)
    requests = []
    for price in (1.0, 10.0, 60.0, 200.0, 1000.0):
        policy = new(price=price)
        requests.append(cpu_request(policy, learn(policy, ([value] for value in usage), stride=5)))
    assert requests == sorted(requests)
    assert requests[-1] > requests[0]
    assert requests[-1] <= usage.max() * RISE


@examples(20)
@given(usage=st.lists(st.floats(16.0, 4000.0, width=16), min_size=1, max_size=300), power=st.integers(1, 8))
def test_recommend_scales_with_usage(usage: list[float], power: int) -> None:
    factor = 2.0**power  # a power of two changes no digit
    policy = new(2)
    memory = [[value * MIB, value * factor * MIB] for value in usage]
    minute = learn(policy, ([value, value * factor] for value in usage), memory=memory, stride=7)
    proposals = ask(policy, minute, cpu=[usage[-1], usage[-1] * factor], memory=[1.0, factor])
    request, scaled = proposals.cpu_request_millicores
    assert scaled == pytest.approx(request * factor)
    request, scaled = proposals.memory_request_bytes
    assert scaled == pytest.approx(request * factor)


@examples(40)
@given(
    usage=st.lists(st.one_of(st.none(), st.floats(0.0, 1e6)), min_size=1, max_size=200),
    memory=st.lists(st.one_of(st.none(), st.integers(0, 1 << 45)), min_size=1, max_size=200),
)
def test_recommend_is_finite_covers_the_newest_minute_and_never_asks_for_the_unseen(
    usage: list[float | None], memory: list[int | None]
) -> None:
    length = min(len(usage), len(memory))
    policy = new()
    minute = learn(policy, ([value] for value in usage[:length]), memory=[[value] for value in memory[:length]])
    proposals = ask(policy, minute, cpu=[0.0], memory=[0.0])
    newest = usage[length - 1]
    request = float(proposals.cpu_request_millicores[0])
    if newest is not None:
        assert request >= newest * (1 - 1e-7) - 1e-30  # single precision
    assert request <= max((value for value in usage[:length] if value is not None), default=0.0) * RISE + 1e-30
    assert proposals.memory_request_bytes[0] >= max((size for size in memory[:length] if size is not None), default=0)


@examples(25)
@given(data=st.data())
def test_fold_parts_of_one_minute_in_any_order_learn_the_same(data: st.DataObject) -> None:
    parts = data.draw(
        st.lists(
            st.tuples(st.integers(0, 300), st.one_of(st.none(), st.floats(0.0, 5000.0)), st.integers(0, 1 << 40)),
            min_size=1,
            max_size=80,
        )
    )
    shuffled = sorted(data.draw(st.permutations(parts)), key=lambda part: part[0])
    answers = []
    for order in (sorted(parts, key=lambda part: part[0]), shuffled):
        policy = new()
        for minute, cpu, memory in order:
            policy.fold(make_minutes(MIDNIGHT + minute, [cpu], [float(memory)]))
        steps = Steps()
        proposals = ask(policy, MIDNIGHT + 301, cpu=[0.0], memory=[0.0], steps=steps)
        answers.append((proposals.cpu_request_millicores[0], proposals.memory_request_bytes[0], steps.taken))
    assert answers[0] == answers[1]


def test_rows_know_nothing_of_each_other_when_grown_forgotten_and_asked_in_any_order() -> None:
    usage = np.stack([noisy(DAY, 100.0, seed=1), noisy(DAY, 900.0, seed=2), noisy(DAY, 300.0, seed=3)], axis=1)
    alone = []
    for column in range(3):
        policy = new()
        end = learn(policy, usage[:, [column]].tolist(), memory=(usage[:, [column]] * MIB).tolist())
        alone.append(ask(policy, end, memory=[1.0]))
    together = new(2)
    half = DAY // 2
    # Row 0 first stands for another container; row 2 comes later.
    learn(together, [[5000.0, 7000.0]] * half, start=MIDNIGHT - half, memory=[[1.0, 2.0]] * half)
    ask(together, MIDNIGHT, cpu=[1.0, 1.0])
    together.forget(np.array([0, 1]))
    together.grow(3)
    together.grow(2)
    assert together.rows == 3
    end = learn(together, usage.tolist(), memory=(usage * MIB).tolist())
    rows = np.array([2, 0, 1])
    answer = together.recommend(rows, make_present([1.0] * 3, [1.0] * 3), now_unix_seconds=end * 60.0)
    for place, row in enumerate(rows):
        assert answer.cpu_request_millicores[place] == alone[row].cpu_request_millicores[0]
        assert answer.memory_request_bytes[place] == alone[row].memory_request_bytes[0]


@pytest.mark.parametrize("after_minutes", [0, 7 * HOUR + 23, 23 * HOUR + 59])
def test_rebuilt_from_what_the_history_keeps_it_answers_the_same_bit_for_bit(after_minutes: int) -> None:
    from agent.core.history.minute.table import RING_MINUTES

    stride = 7
    time = np.arange(0, 11 * DAY + after_minutes, stride)[:, np.newaxis]
    shape = 1.0 + 0.8 * np.sin(2 * np.pi * time / DAY)
    usage = 300.0 * shape * np.exp(np.random.default_rng(9).normal(0.0, 0.3, (time.size, 12)))
    memory = np.maximum.accumulate(usage, axis=0) * MIB * (1.0 + time / DAY / 10)
    ring_rows = RING_MINUTES // stride
    whole, rebuilt = new(12), new(12)
    begin = learn(whole, usage[:-ring_rows].tolist(), memory=memory[:-ring_rows].tolist(), stride=stride)
    for minute in range(begin - 2 * DAY, begin, 500):
        ask(whole, minute)
    end = learn(whole, usage[-ring_rows:].tolist(), start=begin, memory=memory[-ring_rows:].tolist(), stride=stride)
    learn(rebuilt, usage[-ring_rows:].tolist(), start=begin, memory=memory[-ring_rows:].tolist(), stride=stride)
    asked = [1.0] * 12
    before, after = ask(whole, end, cpu=asked, memory=asked), ask(rebuilt, end, cpu=asked, memory=asked)
    assert before.cpu_request_millicores.tolist() == after.cpu_request_millicores.tolist()
    assert before.memory_request_bytes.tolist() == after.memory_request_bytes.tolist()


def held_bytes(thing: object, seen: set[int]) -> int:
    """Return the bytes of all arrays that an object of core holds."""
    if id(thing) in seen:
        return 0
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        return thing.nbytes
    if isinstance(thing, tuple):
        return sum(held_bytes(part, seen) for part in thing)
    fields = dict(getattr(thing, "__dict__", {}))
    fields |= {name: getattr(thing, name) for name in getattr(type(thing), "__slots__", ())}
    module = type(thing).__module__
    return sum(held_bytes(part, seen) for part in fields.values()) if module.startswith("agent.") else 0


def test_plimsoll_policy_holds_at_most_18_kb_per_row() -> None:
    policy, rows = new(250), [100.0] * 250
    minute = learn(policy, [rows] * 150, stride=HOUR)
    ask(policy, minute, cpu=rows)
    # What the hours themselves say is worked out for some rows at a time, and given up.
    assert 10_000 < held_bytes(policy, set()) / 250 < 18_000


def base_of(policy: PlimsollPolicy, minute: int, window: float) -> float:
    return float(ask(policy, minute, cpu=[window]).cpu_base_millicores[0])


def test_base_is_what_three_in_four_minutes_of_such_hours_stayed_within() -> None:
    policy = new()
    # A third of each hour at 400m, the rest at 100m: three in four stay within 400m, half of them within 100m.
    hour = [[400.0] if minute < 20 else [100.0] for minute in range(HOUR)]
    minute = learn(policy, hour * 24)
    assert base_of(policy, minute, 100.0) == 400.0
    shorter = new()
    # A tenth of each hour: sustained is 100m, whatever the burst is.
    minute = learn(shorter, [[400.0] if minute < 6 else [100.0] for minute in range(HOUR)] * 24)
    assert base_of(shorter, minute, 100.0) == 100.0
    assert cpu_request(shorter, minute, base=100.0) == 400.0


def test_base_is_no_less_than_the_window_and_no_more_than_the_answer() -> None:
    policy = new(price=1.0)
    minute = learn(policy, [[100.0]] * DAY)
    assert base_of(policy, minute, 30.0) == 100.0
    assert base_of(policy, minute, 130.0) == 130.0
    bursts = new(price=1.0)
    minute = learn(bursts, [[400.0] if minute < 16 else [100.0] for minute in range(HOUR)] * 24)
    proposals = ask(bursts, minute, cpu=[50.0])
    assert proposals.cpu_base_millicores[0] <= proposals.cpu_request_millicores[0]


def test_base_before_any_hour_is_over_is_the_window_s() -> None:
    policy = new()
    minute = learn(policy, [[300.0]] * 30)
    assert base_of(policy, minute, 80.0) == 80.0
