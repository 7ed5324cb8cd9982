from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.resource import LARGEST
from agent.core.cluster.runtime_profile import LanguageRuntime
from agent.core.orders.policy_options import BoundsOptions, ControlledResources
from agent.core.recommender.bounds import BoundedAnswer, apply, bounds_of
from agent.core.recommender.policy import CurrentAmounts, LimitRule, Proposals, Steps
from agent.core.recommender.recommendation import Bound
from tests.examples import examples
from tests.subjects import MI, floats, proposals, stated

PLAIN = BoundsOptions(
    min_memory_bytes=0,
    round_memory_bytes=1,
    smallest_cpu_change_millicores=0,
    smallest_memory_change_bytes=0,
    smallest_change_ratio=0.0,
)
"""Nothing but the rules that cannot be switched off; the least CPU stays at 1 millicore."""


def options(**fields: Any) -> BoundsOptions:
    return replace(PLAIN, **fields)


def joined(kind: Any, values: list[Any], **others: Any) -> Any:
    """Return several rows as one value of arrays."""
    left = ("limit_rule", "has_credit", "extra", "heap_floor_bytes", "limit_readers", "memory_seen_bytes")
    names = [field.name for field in fields(kind) if field.name not in left]
    return kind(**{name: np.concatenate([getattr(value, name) for value in values]) for name in names}, **others)


def cpu(answer: BoundedAnswer) -> tuple[float | None, float | None, tuple[Bound, ...]]:
    return (
        answer.cpu_request_millicores[0] if answer.has_cpu[0] else None,
        answer.cpu_limit_millicores[0] if answer.has_cpu_limit[0] else None,
        bounds_of(int(answer.cpu_bounds[0])),
    )


def memory(answer: BoundedAnswer) -> tuple[float | None, float | None, tuple[Bound, ...]]:
    return (
        answer.memory_request_bytes[0] if answer.has_memory[0] else None,
        answer.memory_limit_bytes[0] if answer.has_memory_limit[0] else None,
        bounds_of(int(answer.memory_bounds[0])),
    )


@pytest.mark.parametrize(
    ("proposed", "given_options", "request_millicores", "bounds"),
    [
        (233.2, options(), 234, ()),  # whole millicores, rounded up; that alone is no bound
        (250.00000000000003, options(), 250, ()),  # 0.25 cores x 1000 with float noise
        (3.0, options(min_cpu_millicores=10), 10, (Bound.MIN,)),
        (3000.0, options(max_cpu_millicores=2000), 2000, (Bound.MAX,)),
        (3.0, options(min_cpu_millicores=100, max_cpu_millicores=50), 50, (Bound.MIN, Bound.MAX)),
        (201.0, options(round_cpu_millicores=50), 250, (Bound.ROUNDED,)),
        (250.0, options(round_cpu_millicores=50), 250, ()),
        # 250 would pass the most allowed: the most allowed itself, which is no multiple
        (201.0, options(round_cpu_millicores=50, max_cpu_millicores=240), 240, (Bound.ROUNDED,)),
        (0.0, options(), 1, (Bound.MIN,)),
        (1e300, options(), LARGEST, (Bound.MAX,)),
    ],
)
def test_cpu_request_passes_least_most_and_rounding_in_order(
    proposed: float, given_options: BoundsOptions, request_millicores: float, bounds: tuple[Bound, ...]
) -> None:
    assert cpu(apply(proposals(cpu=proposed), stated(), given_options)) == (request_millicores, None, bounds)


@pytest.mark.parametrize(
    ("proposed", "working_set", "given_options", "request_bytes", "bounds"),
    [
        (100.0, 150, options(), 150, (Bound.IN_USE,)),
        (100.0, 150, options(memory_in_use_ratio=1.5), 225, (Bound.IN_USE,)),
        (100.0, 50, options(), 100, ()),
        (100.0, None, options(), 100, ()),
        # Memory in use outweighs the most allowed, and rounding has nothing to add to it.
        (500.0, 150, options(max_memory_bytes=120, round_memory_bytes=100), 150, (Bound.MAX, Bound.IN_USE)),
        (101.0, 50, options(round_memory_bytes=100), 200, (Bound.ROUNDED,)),
        (0.0, None, options(), 1, (Bound.MIN,)),  # a request of 0 would be none
    ],
)
def test_memory_request_is_never_below_memory_in_use(
    proposed: float,
    working_set: int | None,
    given_options: BoundsOptions,
    request_bytes: int,
    bounds: tuple[Bound, ...],
) -> None:
    answer = apply(proposals(memory=proposed), stated(working_set=working_set), given_options)

    assert memory(answer) == (request_bytes, None, bounds)


def test_defaults_raise_memory_to_16_mb_and_whole_mib() -> None:
    answer = apply(proposals(cpu=0.2, memory=5e6), stated(), BoundsOptions())

    # 16,000,000 bytes are 15.26 MiB, so 16 MiB.
    assert memory(answer) == (16 * MI, None, (Bound.MIN, Bound.ROUNDED))
    assert cpu(answer) == (1, None, (Bound.MIN,))


def test_without_prediction_a_request_may_rise_and_never_falls() -> None:
    held = apply(proposals(cpu=100, upward_only=True), stated(cpu=300), PLAIN)
    risen = apply(proposals(cpu=500, upward_only=True), stated(cpu=300), PLAIN)
    unset = apply(proposals(cpu=100, upward_only=True), stated(), PLAIN)
    over_the_most = apply(proposals(cpu=100, upward_only=True), stated(cpu=300), options(max_cpu_millicores=200))

    assert cpu(held) == (300, None, (Bound.UPWARD_ONLY,))
    assert cpu(risen) == (500, None, ())
    assert cpu(unset) == (100, None, ())
    assert cpu(over_the_most) == (300, None, (Bound.UPWARD_ONLY,))


@pytest.mark.parametrize(
    ("rule", "request_now", "limit_now", "proposed", "answer"),
    [
        # keep: the request stays below the limit; one unit below where they differ, so that a Burstable pod stays one
        (LimitRule.KEEP, 100, 500, 300, (300, None, ())),
        (LimitRule.KEEP, 100, 500, 900, (499, None, (Bound.LIMIT, Bound.QOS))),
        (LimitRule.KEEP, 100, 500, 500, (499, None, (Bound.QOS,))),
        (LimitRule.KEEP, 500, 500, 900, (500, None, (Bound.LIMIT,))),
        (LimitRule.KEEP, 500, 500, 300, (300, None, ())),
        (LimitRule.KEEP, None, 500, 900, (500, None, (Bound.LIMIT,))),
        # raise: the limit follows the request upward only
        (LimitRule.RAISE, 100, 500, 300, (300, None, ())),
        (LimitRule.RAISE, 100, 500, 900, (900, 901, (Bound.LIMIT_RAISED,))),
        (LimitRule.RAISE, 500, 500, 900, (900, 900, (Bound.LIMIT_RAISED,))),
        (LimitRule.RAISE, 500, 500, 300, (300, None, ())),
        (LimitRule.RAISE, 100, None, 900, (900, None, ())),
        # proportional: 500 x 300 / 100
        (LimitRule.PROPORTIONAL, 100, 500, 300, (300, 1500, ())),
        (LimitRule.PROPORTIONAL, 100, 500, 50, (50, 250, ())),
        (LimitRule.PROPORTIONAL, 500, 500, 300, (300, 300, ())),
        (LimitRule.PROPORTIONAL, None, 500, 300, (300, 300, ())),
        (LimitRule.PROPORTIONAL, 0, 500, 300, (300, 300, ())),
        (LimitRule.PROPORTIONAL, 100, None, 300, (300, None, ())),
        (LimitRule.PROPORTIONAL, 100, 500, 100, (100, None, ())),
        # floor(3 x 1 / 2) = 1 would be the request itself
        (LimitRule.PROPORTIONAL, 2, 3, 1, (1, 2, (Bound.LIMIT_RAISED,))),
        # a limit of 0 is none
        (LimitRule.KEEP, 100, 0, 900, (900, None, ())),
    ],
)
def test_limit_rule_decides_who_gives_way(
    rule: LimitRule,
    request_now: int | None,
    limit_now: int | None,
    proposed: int,
    answer: tuple[float, float | None, tuple[Bound, ...]],
) -> None:
    now = stated(cpu=request_now, cpu_limit=limit_now)

    assert cpu(apply(proposals(cpu=proposed, rule=rule), now, PLAIN)) == answer


def test_proportional_limit_is_exact_beyond_what_a_float_product_holds() -> None:
    # 3,000,000,001 x 5,000,000,003 / 2,000,000,003 is 1.5e19 / 2e9: the product has 64 bits, a float 53.
    now = stated(memory=2_000_000_003, memory_limit=3_000_000_001, current=1)

    answer = apply(proposals(memory=5_000_000_003, rule=LimitRule.PROPORTIONAL), now, PLAIN)

    assert answer.memory_limit_bytes[0] == 3_000_000_001 * 5_000_000_003 // 2_000_000_003


def test_limits_of_the_largest_amount_are_cut_without_overflow() -> None:
    now = stated(memory=1, memory_limit=2.0**63, current=1)

    answer = apply(proposals(memory=1000, rule=LimitRule.PROPORTIONAL), now, PLAIN)

    assert memory(answer) == (1000, LARGEST, ())


@pytest.mark.parametrize(
    ("request_now", "limit_now", "current", "named", "answer"),
    [
        (100, 500, 50, 800, (200, 800, ())),
        (100, 500, 50, 300, (200, 300, ())),
        # the policy's limit is below the request
        (100, 500, 50, 150, (200, 201, (Bound.LIMIT_RAISED,))),
        # lowered no further than memory in use, page cache included; not at all when that is not known
        (100, 500, 400, 300, (200, 400, (Bound.IN_USE,))),
        (100, 500, 900, 300, (200, None, (Bound.IN_USE,))),
        (100, 500, None, 300, (200, None, (Bound.IN_USE,))),
        (100, 500, None, 800, (200, 800, ())),
        # none is added
        (100, None, 50, 800, (200, None, ())),
        # equal to its limit: both become the policy's limit
        (500, 500, 50, 400, (400, 400, (Bound.QOS,))),
        (500, 500, 450, 400, (450, 450, (Bound.IN_USE, Bound.QOS))),
        (500, 500, None, 400, (500, None, (Bound.IN_USE, Bound.QOS))),
        # infinite is not a limit
        (100, 500, 50, float("inf"), (200, None, ())),
    ],
)
def test_memory_limit_that_the_policy_names(
    request_now: int, limit_now: int | None, current: int | None, named: float, answer: Any
) -> None:
    now = stated(memory=request_now, memory_limit=limit_now, current=current)

    assert memory(apply(proposals(memory=200, memory_limit=named, rule=LimitRule.RAISE), now, PLAIN)) == answer


def test_memory_limit_without_prediction_is_not_lowered() -> None:
    now = stated(memory=100, memory_limit=500, current=50)

    answer = apply(proposals(memory=200, memory_limit=300, rule=LimitRule.RAISE, upward_only=True), now, PLAIN)

    assert memory(answer) == (200, None, (Bound.UPWARD_ONLY,))


def test_limit_that_stands_for_the_request_is_not_lowered_without_prediction() -> None:
    now = stated(memory=None, memory_limit=500, current=50)

    answer = apply(proposals(memory=200, memory_limit=300, rule=LimitRule.RAISE, upward_only=True), now, PLAIN)

    assert memory(answer) == (500, None, (Bound.UPWARD_ONLY,))


def test_memory_limit_that_differs_little_stays() -> None:
    now = stated(memory=100, memory_limit=500, current=50)
    bounds = options(smallest_memory_change_bytes=20)

    assert memory(apply(proposals(memory=200, memory_limit=519), now, bounds)) == (200, None, ())
    assert memory(apply(proposals(memory=200, memory_limit=520), now, bounds)) == (200, 520, ())


def test_memory_limit_is_rounded_up_like_the_request() -> None:
    now = stated(memory=1 * MI, memory_limit=5 * MI, current=1)

    answer = apply(proposals(memory=2 * MI, memory_limit=7.5 * MI), now, options(round_memory_bytes=MI))

    assert memory(answer) == (2 * MI, 8 * MI, ())


@pytest.mark.parametrize("rule", [LimitRule.KEEP, LimitRule.RAISE])
@pytest.mark.parametrize("proposed", [100, 900])
def test_guaranteed_pod_moves_request_and_limit_together(rule: LimitRule, proposed: int) -> None:
    now = stated(cpu=500, cpu_limit=500, memory=500, memory_limit=500, current=50, is_guaranteed=True)

    answer = apply(proposals(cpu=proposed, memory=proposed, rule=rule), now, PLAIN)

    assert cpu(answer) == (proposed, proposed, (Bound.QOS,))
    assert memory(answer) == (proposed, proposed, (Bound.QOS,))


def test_guaranteed_pod_whose_request_stays_keeps_its_limit() -> None:
    now = stated(cpu=500, cpu_limit=500, is_guaranteed=True)

    answer = apply(proposals(cpu=495), now, options(smallest_cpu_change_millicores=10))

    assert cpu(answer) == (500, None, (Bound.SMALL_CHANGE,))


def test_guaranteed_pod_takes_the_policys_limit_up_to_the_most_allowed() -> None:
    now = stated(memory=500, memory_limit=500, current=50, is_guaranteed=True)

    answer = apply(proposals(memory=300, memory_limit=600), now, options(max_memory_bytes=550))

    assert memory(answer) == (550, 550, (Bound.QOS,))


def test_best_effort_pod_is_given_a_figure_and_nothing_to_set() -> None:
    answer = apply(proposals(cpu=300, memory=400, memory_limit=800), stated(), PLAIN)

    assert cpu(answer) == (300, None, ())
    assert memory(answer) == (400, None, ())


@pytest.mark.parametrize(
    ("request_now", "proposed", "given_options", "answer"),
    [
        (500, 509, options(smallest_cpu_change_millicores=10), (500, (Bound.SMALL_CHANGE,))),
        (500, 510, options(smallest_cpu_change_millicores=10), (510, ())),
        (500, 491, options(smallest_cpu_change_millicores=10), (500, (Bound.SMALL_CHANGE,))),
        # 5 % of 1000 is 50
        (1000, 1049, options(smallest_change_ratio=0.05), (1000, (Bound.SMALL_CHANGE,))),
        (1000, 1050, options(smallest_change_ratio=0.05), (1050, ())),
        # what is not allowed is not kept
        (1005, 2000, options(smallest_cpu_change_millicores=10, max_cpu_millicores=1000), (1000, (Bound.MAX,))),
        (5, 1, options(smallest_cpu_change_millicores=10, min_cpu_millicores=8), (8, (Bound.MIN,))),
        (None, 5, options(smallest_cpu_change_millicores=10), (5, ())),
    ],
)
def test_small_change_keeps_the_present_request(
    request_now: int | None, proposed: int, given_options: BoundsOptions, answer: Any
) -> None:
    request, limit, bounds = cpu(apply(proposals(cpu=proposed), stated(cpu=request_now), given_options))

    assert (request, bounds) == answer
    assert limit is None


def test_small_change_does_not_keep_a_request_below_memory_in_use() -> None:
    bounds = options(smallest_memory_change_bytes=100)

    below = apply(proposals(memory=90), stated(memory=95, working_set=99), bounds)
    above = apply(proposals(memory=90), stated(memory=105, working_set=99), bounds)

    assert memory(below) == (99, None, (Bound.IN_USE,))
    assert memory(above) == (105, None, (Bound.IN_USE, Bound.SMALL_CHANGE))


@pytest.mark.parametrize(
    ("controlled", "has_cpu", "has_memory"),
    [
        (ControlledResources.BOTH, True, True),
        (ControlledResources.CPU, True, False),
        (ControlledResources.MEMORY, False, True),
    ],
)
def test_resource_that_is_not_controlled_gets_no_answer(
    controlled: ControlledResources, has_cpu: bool, has_memory: bool
) -> None:
    now = stated(cpu=1, cpu_limit=2, memory=1, memory_limit=2)

    answer = apply(proposals(cpu=0.5, memory=9, rule=LimitRule.RAISE), now, options(controlled_resources=controlled))

    assert (cpu(answer) == (None, None, ())) is not has_cpu
    assert (memory(answer) == (None, None, ())) is not has_memory


@pytest.mark.parametrize("nonsense", [float("nan"), float("inf"), float("-inf")])
def test_answer_that_is_not_finite_counts_as_none_and_harms_no_other_row(nonsense: float) -> None:
    broken = joined(Proposals, [proposals(cpu=nonsense), proposals(cpu=300)], limit_rule=LimitRule.KEEP)
    now = joined(CurrentAmounts, [stated(cpu=100), stated(cpu=100)])

    answer = apply(broken, now, PLAIN)

    assert answer.has_cpu.tolist() == [False, True]
    assert answer.cpu_request_millicores.tolist() == [0, 300]


def test_steps_tell_each_rule_with_what_was_before() -> None:
    steps = Steps()
    now = stated(cpu=100, cpu_limit=500, memory=100, memory_limit=500, current=450, working_set=1)

    apply(proposals(cpu=900, memory=200, memory_limit=300), now, PLAIN, steps=steps)

    assert [(step.resource, step.what, step.value, step.unit, step.before) for step in steps.taken] == [
        ("cpu", "request lowered to the limit, which stays", 500, "millicores", 900),
        ("cpu", "request changed to keep the QoS class", 499, "millicores", 500),
        ("memory", "limit held by the memory in use", 450, "bytes", 300),
    ]


def test_steps_say_when_a_limit_stays_because_memory_in_use_is_not_known() -> None:
    steps = Steps()
    now = stated(memory=100, memory_limit=500)

    apply(proposals(memory=200, memory_limit=300), now, PLAIN, steps=steps)

    (step,) = steps.taken
    assert (step.what, step.value, step.before) == ("limit held by the memory in use", 500, 300)
    assert step.note == "not lowered while memory in use is not known"


def test_steps_say_nothing_of_a_resource_without_an_answer() -> None:
    steps = Steps()

    apply(proposals(), stated(cpu=100), PLAIN, steps=steps)

    assert steps.taken == []


def test_bounds_of_names_each_bit_in_the_order_of_application() -> None:
    assert bounds_of(0) == ()
    assert bounds_of((1 << len(Bound)) - 1) == tuple(Bound)


# -- properties --------------------------------------------------------------------------------------------------------

amounts = st.integers(1, 4_000)
fractions = st.floats(0, 5_000, allow_nan=False)
maybe = st.none() | amounts


@st.composite
def statements(draw: st.DrawFn) -> CurrentAmounts:
    """What the API would let stand: requests up to their limits; a Guaranteed pod states all four, equal."""
    is_guaranteed = draw(st.booleans())
    figures: dict[str, Any] = {}
    for name in ("cpu", "memory"):
        request, limit = draw(maybe), draw(maybe)
        if is_guaranteed:
            request = limit = draw(amounts)
        elif limit is not None and request is not None:
            request, limit = min(request, limit), max(request, limit)
        figures |= {name: request, f"{name}_limit": limit}
    keeps_limit = draw(st.booleans())
    return stated(
        **figures, working_set=draw(maybe), current=draw(maybe), is_guaranteed=is_guaranteed, keeps_limit=keeps_limit
    )


@st.composite
def answers(draw: st.DrawFn) -> Proposals:
    has_own = draw(st.booleans())
    return proposals(
        cpu=draw(st.none() | fractions),
        memory=draw(st.none() | fractions),
        memory_limit=draw(fractions) if has_own else None,
        rule=draw(st.sampled_from(LimitRule)),
        upward_only=draw(st.booleans()),
    )


rules = st.builds(
    BoundsOptions,
    min_cpu_millicores=st.integers(1, 100),
    max_cpu_millicores=st.none() | st.integers(50, 4_000),
    min_memory_bytes=st.integers(0, 100),
    max_memory_bytes=st.none() | st.integers(50, 4_000),
    round_cpu_millicores=st.sampled_from([1, 10, 256]),
    round_memory_bytes=st.sampled_from([1, 10, 256]),
    smallest_cpu_change_millicores=st.sampled_from([0, 10, 500]),
    smallest_memory_change_bytes=st.sampled_from([0, 10, 500]),
    smallest_change_ratio=st.sampled_from([0.0, 0.05, 1.0]),
    memory_in_use_ratio=st.sampled_from([1.0, 1.1]),
)


def after(now: CurrentAmounts, answer: BoundedAnswer) -> CurrentAmounts:
    """Return what is stated once the answer is applied as a resize can: nothing is added."""
    fields: dict[str, Any] = {}
    for name, unit in (("cpu", "millicores"), ("memory", "bytes")):
        for kind in ("request", "limit"):
            key = f"{name}_{kind}_{unit}"
            has = getattr(answer, f"has_{name}" if kind == "request" else f"has_{name}_limit")
            fields[key] = np.where(has & getattr(now, f"has_{name}_{kind}"), getattr(answer, key), getattr(now, key))
    return replace(now, **fields)


@pytest.mark.slow
@given(answers(), statements(), rules)
@examples(600)
def test_applying_an_applied_answer_changes_nothing(
    proposed: Proposals, now: CurrentAmounts, given_options: BoundsOptions
) -> None:
    first = apply(proposed, now, given_options)
    second = apply(proposed, after(now, first), given_options)

    assert second.cpu_request_millicores == first.cpu_request_millicores
    assert second.memory_request_bytes == first.memory_request_bytes
    assert not second.has_cpu_limit.any()
    assert not second.has_memory_limit.any()


@pytest.mark.slow
@given(answers(), statements(), rules)
@examples(600)
def test_answer_is_whole_and_within_bounds_and_what_results_is_valid(
    proposed: Proposals, now: CurrentAmounts, given_options: BoundsOptions
) -> None:
    answer = apply(proposed, now, given_options)
    then = after(now, answer)

    for name, unit in (("cpu", "millicores"), ("memory", "bytes")):
        request: float = getattr(answer, f"{name}_request_{unit}")[0]
        limit: float = getattr(then, f"{name}_limit_{unit}")[0]
        marks = bounds_of(int(getattr(answer, f"{name}_bounds")[0]))
        assert request == int(request)
        if not getattr(answer, f"has_{name}")[0]:
            assert (request, marks) == (0, ())
            continue
        least = getattr(given_options, f"min_{name}_{unit}")
        most = getattr(given_options, f"max_{name}_{unit}") or LARGEST
        held = {Bound.IN_USE, Bound.UPWARD_ONLY} & set(marks)
        assert request <= most or held
        assert request >= min(least, most) or {Bound.LIMIT, Bound.QOS} & set(marks)
        if getattr(now, f"has_{name}_limit")[0] and getattr(now, f"has_{name}_request")[0]:
            was_equal = getattr(now, f"{name}_limit_{unit}")[0] == getattr(now, f"{name}_request_{unit}")[0]
            assert request <= limit
            assert was_equal or request < limit
            assert request == limit or not now.is_guaranteed[0]
    if answer.has_memory[0] and answer.has_memory_limit[0] and now.has_memory_current[0]:
        lowest = now.memory_current_bytes[0] * given_options.memory_in_use_ratio
        assert answer.memory_limit_bytes[0] >= min(lowest, now.memory_limit_bytes[0])
    if answer.has_memory[0] and now.has_working_set[0] and not now.has_memory_limit[0]:
        assert answer.memory_request_bytes[0] >= now.working_set_bytes[0]


@given(st.lists(fractions, min_size=2, max_size=8), rules, maybe)
def test_answer_rises_with_the_proposal_where_nothing_is_stated(
    proposed: list[float], given_options: BoundsOptions, working_set: int | None
) -> None:
    now = stated(working_set=working_set)

    results = [apply(proposals(cpu=value, memory=value), now, given_options) for value in sorted(proposed)]

    requests = [(answer.cpu_request_millicores[0], answer.memory_request_bytes[0]) for answer in results]
    assert [request for request, _ in requests] == sorted(request for request, _ in requests)
    assert [request for _, request in requests] == sorted(request for _, request in requests)


@given(st.lists(st.tuples(answers(), statements()), min_size=1, max_size=6), rules, st.sampled_from(LimitRule))
def test_rows_do_not_depend_on_each_other(
    rows: list[tuple[Proposals, CurrentAmounts]], given_options: BoundsOptions, rule: LimitRule
) -> None:
    together = apply(
        joined(Proposals, [proposed for proposed, _ in rows], limit_rule=rule),
        joined(CurrentAmounts, [now for _, now in rows]),
        given_options,
    )

    for index, (proposed, now) in enumerate(rows):
        alone = apply(replace(proposed, limit_rule=rule), now, given_options)
        for field in fields(BoundedAnswer):
            assert getattr(together, field.name)[index] == getattr(alone, field.name)[0], field.name


# What a runtime takes by its own flags


@pytest.mark.parametrize(
    ("request_now", "proposed", "most", "expected", "bounds"),
    [
        (None, 300, None, 1250, (Bound.HEAP,)),  # a heap of 1,000 and a quarter
        (2000, 300, None, 1250, (Bound.HEAP,)),
        (1250, 300, None, 1250, (Bound.HEAP,)),
        (1250, 1400, None, 1400, ()),
        # Raised no further than the most allowed, and not lowered below what it needs.
        (100, 300, 800, 800, (Bound.HEAP,)),
        (1000, 300, 800, 1000, (Bound.HEAP,)),
        (5000, 300, 800, 1250, (Bound.HEAP,)),
    ],
)
def test_a_request_is_not_below_a_fixed_heap_and_what_is_beside_it(
    request_now: float | None, proposed: float, most: int | None, expected: float, bounds: tuple[Bound, ...]
) -> None:
    now = stated(memory=request_now, heap_floor=1250)

    assert memory(apply(proposals(memory=proposed), now, options(max_memory_bytes=most))) == (expected, None, bounds)


def test_a_request_holds_what_was_used_beside_a_fixed_heap() -> None:
    asked = replace(proposals(memory=300), memory_peak_bytes=np.array([1600.0]))

    assert memory(apply(asked, stated(heap_floor=1250), PLAIN))[0] == 1600
    assert memory(apply(asked, stated(heap_floor=0), PLAIN))[0] == 300  # a row beside it, of no fixed heap


def test_a_request_below_a_fixed_heap_is_raised_however_small_the_change() -> None:
    coarse_options = options(smallest_change_ratio=0.5)

    assert memory(apply(proposals(memory=300), stated(memory=1240, heap_floor=1250), coarse_options))[0] == 1250


@pytest.mark.parametrize(
    ("request_now", "limit", "named", "expected"),
    [
        (2000, 4000, 600, (1250, 1251, (Bound.HEAP, Bound.LIMIT_RAISED))),
        (2000, 4000, 3000, (1250, 3000, (Bound.HEAP,))),
        (None, 4000, 600, (1250, 1250, (Bound.HEAP,))),  # to Kubernetes the limit is the request
        # It was below that already: it follows the request.
        (500, 1000, 600, (1250, 1251, (Bound.HEAP, Bound.LIMIT_RAISED))),
        (4000, 4000, 600, (1250, 1250, (Bound.HEAP,))),
    ],
)
def test_a_limit_is_not_below_a_fixed_heap_and_a_quarter(
    request_now: float | None, limit: float, named: float, expected: tuple[float, float, tuple[Bound, ...]]
) -> None:
    now = stated(memory=request_now, memory_limit=limit, current=10, heap_floor=1250)
    asked = proposals(memory=300, memory_limit=named, rule=LimitRule.RAISE)

    assert memory(apply(asked, now, PLAIN)) == expected


@pytest.mark.parametrize(
    ("request_now", "expected"),
    [
        # Below the most allowed of 800 the request does not pass it; the limit keeps what the heap needs.
        (700, (800, 1250, (Bound.HEAP, Bound.LIMIT_RAISED))),
        (4000, (1250, 1250, (Bound.HEAP,))),
    ],
)
def test_a_limit_holds_the_heap_where_the_request_may_not(
    request_now: float, expected: tuple[float, float, tuple[Bound, ...]]
) -> None:
    now = stated(memory=request_now, memory_limit=4000, current=10, heap_floor=1250, is_guaranteed=request_now == 4000)
    asked = proposals(memory=300, memory_limit=600, rule=LimitRule.RAISE)

    assert memory(apply(asked, now, options(max_memory_bytes=800))) == expected


@pytest.mark.parametrize(
    ("request_now", "named", "expected"),
    [
        (2000, 600, (300, None, (Bound.READ_AT_START,))),
        (4000, 600, (4000, None, (Bound.QOS, Bound.READ_AT_START))),
    ],
)
def test_a_limit_that_was_read_at_start_is_not_lowered(
    request_now: float, named: float, expected: tuple[float, float | None, tuple[Bound, ...]]
) -> None:
    now = stated(memory=request_now, memory_limit=4000, current=10, limit_reader=LanguageRuntime.JAVA)
    asked, steps = proposals(memory=300, memory_limit=named, rule=LimitRule.RAISE), Steps()

    assert memory(apply(asked, now, PLAIN, steps=steps)) == expected
    notes = [(step.what, step.note) for step in steps.taken if "not lowered" in step.what]
    what = "request" if request_now == 4000 else "limit"
    assert notes == [(f"{what} not lowered", "java reads its limit at start")]


READS: dict[str, Any] = {"limit_reader": LanguageRuntime.JAVA}
FIXED: dict[str, Any] = {"heap_floor": 1250}
OWN, WITH_IT = LimitRule.RAISE, LimitRule.PROPORTIONAL
UNFILLED = (Bound.LIMIT_UNFILLED,)


@pytest.mark.parametrize(
    ("heap", "rule", "asked", "seen", "expected"),
    [
        # Of 4,000 bytes 3,800 are nearly all.
        (READS, OWN, (300, 5000), 3800, (300, None, UNFILLED)),
        (FIXED, OWN, (300, 5000), 3800, (1250, None, (Bound.HEAP, Bound.LIMIT_UNFILLED))),
        (READS, OWN, (300, 5000), 3801, (300, 5000, ())),  # short of it: the raise is used after a restart
        (FIXED, OWN, (2000, 5000), 3801, (2000, 5000, ())),
        (READS, OWN, (300, 5000), 0, (300, 5000, ())),  # nothing was seen yet
        ({}, OWN, (300, 5000), 100, (300, 5000, ())),  # no heap of its own
        ({"heap_floor": 4001}, OWN, (300, 5000), 100, (4001, 5000, (Bound.HEAP,))),  # the heap does not fit
        # A margin over what was seen passes the limit: the request, too, ends there.
        (READS, OWN, (4500, 5000), 3000, (3999, None, UNFILLED)),
        (READS, WITH_IT, (3000, None), 2500, (3000, None, UNFILLED)),  # 6,000 in proportion
        (READS, WITH_IT, (3000, None), 3900, (3000, 6000, ())),
        (READS, WITH_IT, (3000, None), None, (3000, None, UNFILLED)),  # by the peak, which is the request here
        (READS, WITH_IT, (3900, None), None, (3900, 7800, ())),
        # In use now is more than was seen before: the figures are of two moments.
        ({**READS, "working_set": 4100}, OWN, (300, 5000), 3000, (4100, 5000, (Bound.IN_USE,))),
    ],
)
def test_a_limit_is_not_raised_in_the_hope_that_a_heap_sized_at_its_start_will_use_it(
    heap: dict[str, Any],
    rule: LimitRule,
    asked: tuple[float, float | None],
    seen: float | None,
    expected: tuple[float, float | None, tuple[Bound, ...]],
) -> None:
    now = stated(memory=2000, memory_limit=4000, current=10, **heap)
    wish = proposals(memory=asked[0], memory_limit=asked[1], memory_seen=seen, rule=rule)
    steps = Steps()

    assert memory(apply(wish, now, PLAIN, steps=steps)) == expected
    notes = {step.note for step in steps.taken if "not raised" in step.what}  # of request and limit alike
    note = "its heap was sized at the start, and no more than 95% of it was ever used"
    assert notes == ({note} if Bound.LIMIT_UNFILLED in expected[2] else set())


def test_a_limit_that_is_the_request_too_is_not_raised_either_but_for_the_least_allowed() -> None:
    now = stated(memory=4000, memory_limit=4000, current=10, is_guaranteed=True, **READS)
    wish = proposals(memory=4500, memory_limit=5000, memory_seen=3000, rule=LimitRule.RAISE)

    assert memory(apply(wish, now, PLAIN)) == (4000, None, UNFILLED)
    assert memory(apply(wish, now, options(min_memory_bytes=4200)))[:2] == (5000, 5000)


def test_what_was_seen_is_asked_of_each_row_by_itself() -> None:
    rows = [proposals(memory=300, memory_limit=5000, rule=LimitRule.RAISE) for _ in range(3)]
    asked = joined(Proposals, rows, limit_rule=LimitRule.RAISE, memory_seen_bytes=floats(100, 3900, 100))
    plain = [stated(memory=2000, memory_limit=4000, current=10)] * 3
    now = joined(CurrentAmounts, plain, limit_readers=[LanguageRuntime.JAVA, LanguageRuntime.JAVA, None])

    assert apply(asked, now, PLAIN).memory_limit_bytes.tolist() == [0, 5000, 5000]


@given(
    proposed=st.integers(0, 5000),
    named=st.none() | st.integers(1, 9000),
    request_now=st.none() | st.integers(1, 5000),
    limit=st.none() | st.integers(1, 9000),
    floor=st.integers(0, 6000),
    most=st.none() | st.integers(1, 6000),
    rule=st.sampled_from(LimitRule),
    is_guaranteed=st.booleans(),
    reader=st.sampled_from([None, LanguageRuntime.JAVA]),
    seen=st.none() | st.integers(0, 9000),
)
@examples(100)
def test_a_heap_is_held_and_asking_again_changes_nothing(
    proposed: int,
    named: int | None,
    request_now: int | None,
    limit: int | None,
    floor: int,
    most: int | None,
    rule: LimitRule,
    is_guaranteed: bool,
    reader: LanguageRuntime | None,
    seen: int | None,
) -> None:
    if limit is not None and (is_guaranteed or (request_now or 0) > limit):
        request_now = limit
    asked = proposals(memory=proposed, memory_limit=named, memory_seen=seen, rule=rule)
    held: dict[str, Any] = {"current": 1, "is_guaranteed": is_guaranteed, "heap_floor": floor, "limit_reader": reader}
    request, new_limit, _ = memory(
        apply(asked, stated(memory=request_now, memory_limit=limit, **held), options(max_memory_bytes=most))
    )
    after = limit if new_limit is None else new_limit
    again = apply(asked, stated(memory=request, memory_limit=after, **held), options(max_memory_bytes=most))

    assert request is not None
    assert memory(again)[:2] == (request, None)
    if limit is not None and after is not None:
        assert after >= min(floor, limit)
        assert reader is None or after >= limit
        assert request <= after
        if (floor or reader) and seen and seen <= limit * 0.95 and floor <= limit:
            assert after <= limit
    if request_now is not None and (limit is None or rule is not LimitRule.KEEP):
        assert request >= min(floor, request_now)
