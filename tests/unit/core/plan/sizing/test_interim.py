"""What pods have while some are proposed for eviction and are still there; every number is derived beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.pod import ContainerKind, Pod, PodCondition
from agent.core.numbers.units import MIB
from agent.core.orders.order import Ranking
from agent.core.plan.needs.demand import Constraint, Demand, KeptReason, PodDemand
from agent.core.plan.plan import Plan, Share
from tests.examples import examples
from tests.planning import (
    EXACT,
    OPEN,
    Situation,
    container,
    needs,
    node,
    pod_demand,
    requirements,
    situation_of,
    wanted,
)

MEMORY = wanted(64 * MIB)


def app(name: str, base: int, peak: int | None = None, *, request: int = 100, **fields: Any) -> PodDemand:
    """Return a pod of one container that needs some CPU and has enough memory."""
    urgent = {key: fields.pop(key) for key in ("is_urgent", "sustained", "sustained_peak") if key in fields}
    fields.setdefault("containers", [container(cpu=request, memory=64 * MIB)])
    return pod_demand(name, demands=[needs("app", wanted(base, peak, **urgent), MEMORY)], **fields)


def shares(plan: Plan, place: int = 0) -> dict[str, Share]:
    """Return the CPU of one container of each pod."""
    return {
        pod.ref.name: share
        for pod in plan.pods
        if place < len(pod.containers) and (share := pod.containers[place].cpu) is not None
    }


def applied(plan: Plan, place: int = 0) -> list[int | None]:
    return [share.applied for _, share in sorted(shares(plan, place).items())]


def going(plan: Plan) -> list[str]:
    return [eviction.ref.name for eviction in plan.evictions]


def stays(situation: Situation) -> bool:
    """Return whether the plan is sound, and planning again after it was applied asks for the same and for no step."""
    plan = situation.plan()
    again = situation.after(plan.steps).plan()
    return plan.is_sound and again.steps == () and going(again) == going(plan)


def leads_to_one_end(situation: Situation) -> bool:
    """Return whether the plan ends the same when it is made again after any of its steps, and nobody else should go."""
    plan = situation.plan()
    end = specs(situation.after(plan.steps))
    for length in range(1, len(plan.steps)):
        part = situation.after(plan.steps[:length])
        rest = part.plan()
        if going(rest) != going(plan) or specs(part.after(rest.steps)) != end:
            return False
    return True


def specs(situation: Situation) -> list[Pod]:
    return [replace(demand.pod, statuses=()) for demand in situation.demands]


def helped(base: int, pressing: int) -> Demand:
    """Return what is needed by one that is short now, and has no spike."""
    return wanted(pressing, sustained=base, sustained_peak=base, is_urgent=True)


# Who has what.


def test_where_the_bases_fit_and_the_spike_does_not_all_have_their_bases() -> None:
    # 3 x 500 + the spike of 500 do not fit into 1500, so a should go; until it does there is nothing above the bases.
    situation = node(*(app(name, 500, 1000) for name in "abc"), cpu=1500)
    plan = situation.plan()
    assert (going(plan), applied(plan)) == (["a"], [500, 500, 500])
    reasons = {step.ref.name: step.reason for step in plan.steps}
    part = "its part of what is free until the proposed evictions"
    assert reasons == {"a": "what it needs, and its share of the node's spike", "b": part, "c": part}
    # The plan's own figures are those of its end, without a: 2 x 500 and the spike of 500 shared by two.
    assert [(share.final, share.kept) for share in shares(plan).values()] == [
        (500, None),
        (750, KeptReason.EVICTION_PENDING),
        (750, KeptReason.EVICTION_PENDING),
    ]
    assert plan.notes == (
        "1 pod is proposed for eviction: until it goes, what is free is shared over all that lack it",
    )
    assert stays(situation)
    gone = replace(situation, demands=situation.demands[1:]).plan()
    assert (applied(gone), gone.notes) == ([750, 750], ())


def test_where_the_bases_do_not_fit_all_have_the_same_part_of_them() -> None:
    # a and b should go. 1200 are shared by bases of 500, 500 and 1000: 0.6 of each, exactly.
    situation = node(app("a", 500, 1000), app("b", 500, 1000), app("c", 1000, 1100), cpu=1200)
    plan = situation.plan()
    assert (going(plan), applied(plan)) == (["a", "b"], [300, 300, 600])
    assert {share.kept for share in shares(plan).values()} == {KeptReason.EVICTION_PENDING}
    assert plan.notes[0].startswith("2 pods are proposed for eviction: until they go, ")
    assert stays(situation)


def test_whoever_lacks_most_rises_first() -> None:
    # 1200 - 100 - 450 - 100 = 550 are free, and b has nine tenths of its base already: a and c get 275 each.
    situation = node(app("a", 500, 1000), app("b", 500, 1000, request=450), app("c", 500, 1000), cpu=1200)
    plan = situation.plan()
    assert (going(plan), applied(plan)) == (["a", "b"], [375, 450, 375])
    assert stays(situation)


def test_a_starving_server_is_not_left_with_nothing_while_small_ones_take_what_is_free() -> None:
    # The server should go, as its spike is the largest. Of 4000 are free 4000 - 1000 - 3 x 200 = 2400; the bases are
    # 2800 and 3 x 600, so all four have 4000 / 4600 of them: 2434 and 3 x 521, and one more.
    situation = node(
        app("server", 2800, 3800, request=1000, is_urgent=True, sustained=2800),
        *(app(name, 600, 800, request=200) for name in "abc"),
    )
    plan = situation.plan()
    assert (going(plan), applied(plan)) == (["server"], [521, 521, 521, 2435])
    assert (plan.steps[0].ref.name, plan.steps[0].reason) == ("server", "it is short now")
    assert stays(situation)


def test_the_headroom_of_others_is_given_back_for_a_base() -> None:
    # b cannot go and has 1000 for a base of 400 and a spike of 600. a lacks 900, and b's spike is not sure to come.
    calm = app("b", 400, 1000, request=1000, ranking=Ranking.NO_EVICTION)
    situation = node(app("a", 1000, 1700), calm, cpu=1300)
    plan = situation.plan()
    assert (going(plan), applied(plan)) == (["a"], [900, 400])
    assert shares(plan)["b"].final == 1000
    assert stays(situation)


def test_what_presses_is_helped_from_what_the_bases_leave() -> None:
    # Both bases are 500, b is short of 300 more now. 1300 - 200 are free: 800 for the bases, then b's 300.
    # What a may come to need has to wait.
    burst = app("b", 800, 800, sustained=500, sustained_peak=700, is_urgent=True)
    plan = node(app("a", 500, 1000), burst, cpu=1300).plan()
    assert (going(plan), applied(plan)) == (["a"], [500, 800])


# What makes proposals stay the same.


def test_one_that_is_proposed_is_never_given_all_that_its_successor_would_ask_for() -> None:
    # a has no spike: with its whole base of 500 its successor would be admitted with no more than that.
    situation = node(app("a", 500), app("b", 300, 900, request=300, ranking=Ranking.HIGH), cpu=1000)
    plan = situation.plan()
    assert (going(plan), applied(plan)) == (["a"], [499, 300 + 200])
    assert stays(situation)


def test_of_several_containers_the_last_ones_give_up_what_is_too_much() -> None:
    both = [container("one", cpu=100, memory=MIB), container("two", cpu=299, memory=MIB)]
    demands = [needs("one", wanted(300), MEMORY), needs("two", wanted(300), MEMORY)]
    pod = pod_demand("a", containers=both, demands=demands)
    situation = node(pod, app("b", 300, 900, request=300, ranking=Ranking.HIGH), cpu=1199, bounds=FIVES)
    plan = situation.plan()
    # 600 in all, less a unit of 5: two gives what it would be given, 1, and one the other 4.
    assert (going(plan), applied(plan)[0], applied(plan, 1)) == (["a"], 296, [299])
    assert stays(situation)


FIVES = replace(EXACT, round_cpu_millicores=5)


def test_one_that_is_proposed_does_not_fall() -> None:
    # a goes for want of CPU and holds 400 MiB of memory for 64.
    situation = node(
        app("a", 500, 1000, containers=[container(cpu=100, memory=400 * MIB)]), app("b", 500, 900), cpu=1100
    )
    plan = situation.plan()
    memory = plan.pods[0].containers[0].memory
    assert (going(plan), memory is not None and (memory.applied, memory.kept)) == (
        ["a"],
        (400 * MIB, KeptReason.EVICTION_PENDING),
    )
    assert stays(situation)


def test_one_that_others_go_for_gives_what_is_above_its_peak() -> None:
    # With less than its peak, 1000, a would be the next to go, and b would stay. What is above is free for b and c:
    # 1600 - 1000 - 200 = 400, of which each has 200 more.
    situation = node(app("a", 500, 1000, request=1400), app("b", 500, 1000), app("c", 500, 1000), cpu=1600)
    plan = situation.plan()
    assert (going(plan), applied(plan)) == (["b"], [1000, 300, 300])
    assert shares(plan)["a"].kept is KeptReason.EVICTION_PENDING
    assert stays(situation)


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ((900, 900), [500, 500]),  # each has more than its lasting peak
        ((1400, 400), [1400, 400]),  # one has less: were the other to fall, the pod would be the next to go
    ],
)
def test_of_several_containers_none_falls_below_its_peak_and_none_at_all_beside_one_that_is(
    requests: tuple[int, int], expected: list[int]
) -> None:
    both = [container(name, cpu=cpu, memory=MIB) for name, cpu in zip(("one", "two"), requests, strict=True)]
    demands = [needs(name, wanted(200, 500), wanted(MIB)) for name in ("one", "two")]
    pod = pod_demand("a", containers=both, demands=demands)
    others = [app(name, 500, 1000, ranking=Ranking.MEDIUM) for name in "bc"]
    situation = node(pod, *others, cpu=1700)
    plan = situation.plan()
    assert going(plan) == ["b"]
    assert [share.applied for share in (shares(plan)["a"], shares(plan, 1)["a"])] == expected
    assert stays(situation)


def test_one_whose_turn_does_not_come_falls_like_any_other() -> None:
    # a holds 1800 for a peak of 1000, but it would go after b in any case: all have their bases, and their share of the
    # 300 that are left for spikes of 300, 300, 500 and 500.
    both = [container(name, cpu=cpu, memory=MIB) for name, cpu in (("one", 1400), ("two", 400))]
    demands = [needs(name, wanted(200, 500), wanted(MIB)) for name in ("one", "two")]
    situation = node(
        pod_demand("a", containers=both, demands=demands), *(app(name, 500, 1000) for name in "bc"), cpu=1700
    )
    plan = situation.plan()
    assert going(plan) == ["b"]
    assert [share.applied for share in (shares(plan)["a"], shares(plan, 1)["a"])] == [256, 256]
    assert stays(situation)
    assert leads_to_one_end(situation)


# Wherever it is interrupted, it ends the same.


def test_who_falls_does_not_depend_on_what_was_granted_of_a_part_before() -> None:
    # 845 - 500 - 300 = 45 are left above the bases, all for a's spike, and would be a small change beyond its base. a
    # rises first, by 400 of the 405 that are free; b, which holds 40 more than it needs, falls then as it would have.
    bounds = replace(EXACT, smallest_cpu_change_millicores=50)
    a = app("a", 500, 1000, is_urgent=True, sustained=500, sustained_peak=1000)
    situation = node(a, app("b", 300, request=340, ranking=Ranking.NO_EVICTION), cpu=845, bounds=bounds)
    plan = situation.plan()
    assert (going(plan), applied(plan), [step.ref.name for step in plan.steps]) == (["a"], [500, 300], ["a", "b"])
    assert stays(situation)
    assert leads_to_one_end(situation)


def test_what_is_kept_for_a_container_that_has_to_wait_is_not_given_to_one_beside_it() -> None:
    # p holds 600 in any case, for its init container: 400 of that are the base of one, which waits, and 200 that of
    # two, which would have 600. 1100 are the bases of p and a: were two to have 500, the next plan would leave a less.
    parts = [
        container("start", kind=ContainerKind.INIT, cpu=600, memory=MIB),
        container("one", cpu=100, memory=MIB),
        container("two", cpu=100, memory=MIB),
    ]
    demands = [needs("one", wanted(400), wanted(MIB)), needs("two", helped(200, 600), wanted(MIB))]
    p = pod_demand("p", containers=parts, demands=demands, ranking=Ranking.NO_EVICTION)
    situation = node(app("a", 500, 1000), p, cpu=1100, constraints={"uid-p": Constraint(grow=KeptReason.COOL_DOWN)})
    plan = situation.plan()
    assert (going(plan), applied(plan)[0]) == (["a"], 500)
    by_name = {part.name: part.cpu for part in plan.pods[1].containers}
    one, two = by_name["one"], by_name["two"]
    assert one is not None
    assert two is not None
    assert (one.applied, one.kept, two.applied, two.kept) == (
        100,
        KeptReason.COOL_DOWN,
        200,
        KeptReason.EVICTION_PENDING,
    )
    assert stays(situation)
    assert leads_to_one_end(situation)


@pytest.mark.parametrize("seed", [192247, 196609, 197965, 200310, 204826, 206143, 211834, 314156])
def test_nodes_on_which_an_interrupted_plan_led_elsewhere(seed: int) -> None:
    """Random nodes as they are made today; each of the reasons is a test of its own above."""
    situation = situation_of(seed)
    assert going(situation.plan())
    assert stays(situation)
    assert leads_to_one_end(situation)


# Nobody is harmed meanwhile, however long an eviction is refused.


_WAIT = 3
"""Plans for which one that was resized has to wait, as cool-downs let it."""
_SETTLED = 40
"""Plans after which a node stands still: each of its pods was resized a few times at most."""


@pytest.mark.parametrize("seed", [11, 61, 381])
def test_while_an_eviction_is_refused_for_hours_a_node_comes_to_rest(seed: int) -> None:
    situation = refused(seed)
    plan = situation.plan()
    proposed = going(plan)
    waiting: dict[str, int] = {}
    written = []
    for turn in range(200):
        cooling = Constraint(grow=KeptReason.COOL_DOWN, shrink=KeptReason.COOL_DOWN)
        held = {uid: cooling for uid, until in waiting.items() if turn < until}
        plan = replace(situation, constraints=held).plan()
        assert plan.is_sound
        assert going(plan) == proposed
        assert harmed(plan) == []
        for step in plan.steps[:1]:  # one at a time, and everybody else is planned anew
            situation = situation.after([step])
            waiting[step.ref.uid] = turn + _WAIT
            written.append(turn)
    assert written, "there was something to do"
    assert max(written) < _SETTLED
    assert situation.plan().steps == ()


def refused(seed: int) -> Situation:
    """Return a random node on which a pod should go, and nothing but that stands in anybody's way."""
    return replace(situation_of(seed), constraints={}, gates=OPEN)


def harmed(plan: Plan) -> list[str]:
    """Return who is brought below its base, or falls at all while it should go."""
    victims = []
    for pod in plan.pods:
        containers = (*pod.containers, *(() if pod.budget is None else (pod.budget,)))
        for part in (share for holder in containers for share in (holder.cpu, holder.memory) if share is not None):
            after, before = part.applied or 0, part.request or 0
            if after < before and (pod.is_evicted or after < part.base):
                victims.append(f"{pod.ref} {part}")
    return victims


# What stands in the way.


@pytest.mark.parametrize("reason", [KeptReason.COOL_DOWN, KeptReason.IN_FLIGHT])
def test_the_part_of_one_that_has_to_wait_is_kept_for_it(reason: KeptReason) -> None:
    situation = node(*(app(name, 500, 1000) for name in "abc"), cpu=1200)
    held = replace(situation, constraints={"uid-c": Constraint(grow=reason)})
    assert applied(held.plan()) == [400, 400, 100]
    assert shares(held.plan())["c"].kept is reason
    part = held.after(held.plan().steps)
    assert applied(replace(part, constraints={}).plan()) == [400, 400, 400]


def test_the_part_of_one_that_was_refused_as_much_is_not_given_to_others_either() -> None:
    situation = node(*(app(name, 500, 1000) for name in "abc"), cpu=1200)
    refused = replace(situation, constraints={"uid-c": Constraint(cpu_below_millicores=300)})
    plan = refused.plan()
    assert (applied(plan), shares(plan)["c"].kept) == ([400, 400, 100], KeptReason.INFEASIBLE)


def test_a_part_that_is_a_small_change_is_left_and_kept() -> None:
    # 1200 are shared by 3 x 500: 400 each. For b that is 30 more than it has.
    bounds = replace(EXACT, smallest_cpu_change_millicores=50)
    situation = node(
        app("a", 500, 1000), app("b", 500, 1000, request=370), app("c", 500, 1000), cpu=1200, bounds=bounds
    )
    plan = situation.plan()
    assert (applied(plan), shares(plan)["b"].kept) == ([400, 370, 400], KeptReason.SMALL_CHANGE)
    assert stays(situation)


def test_one_whose_resize_is_infeasible_is_left_alone_while_it_is_proposed() -> None:
    pending = PodCondition(type="PodResizePending", status="True", reason="Infeasible")
    plan = node(app("a", 500, 1000, pod={"conditions": (pending,)}), app("b", 500, 900), cpu=1100).plan()
    assert (going(plan), applied(plan)[0], shares(plan)["a"].kept) == (["a"], 100, KeptReason.NODE_FULL)


def test_a_resource_that_is_infeasible_is_not_shared_out() -> None:
    # Both a and b should go, and c alone does not fit.
    pods = [app("a", 500, 1000), app("b", 500, 1000), app("c", 1500, ranking=Ranking.NO_EVICTION)]
    plan = node(*pods, cpu=1200, bounds=replace(EXACT)).plan()
    assert (going(plan), applied(plan)) == (["a", "b"], [100, 100, 100])
    assert plan.cpu.is_infeasible
    assert not any(change.resource.value == "cpu" for step in plan.steps for change in step.changes)


def test_an_api_server_that_resizes_nothing_shares_nothing_out() -> None:
    gates = replace(OPEN, resize=False, reasons=("too old",))
    plan = node(*(app(name, 500, 1000) for name in "abc"), cpu=1500, gates=gates).plan()
    assert (going(plan), plan.notes, plan.steps) == (["a"], ("too old",), ())


def test_limits_of_one_that_is_proposed_rise_and_do_not_fall() -> None:
    stated = requirements(100, 64 * MIB, 200, 256 * MIB)
    pod = {"containers": (replace(container(), resources=stated),)}
    for limit, after in ((512 * MIB, 512 * MIB), (128 * MIB, 256 * MIB)):
        memory = wanted(64 * MIB, limit=limit, in_use=10 * MIB)
        proposed = pod_demand("a", demands=[needs("app", wanted(500, 1000), memory)], pod=pod)
        plan = node(proposed, app("b", 500, 900), cpu=1100).plan()
        share = plan.pods[0].containers[0].memory
        assert going(plan) == ["a"]
        assert share is not None
        assert share.limit_applied == after
        # What throttles it is put out of the way, and 100 of headroom are shared by 500 and 400.
        assert (applied(plan)[0], shares(plan)["a"].limit_applied) == (556, 1100)
        assert plan.is_sound


def test_a_rest_too_small_to_be_asked_for_by_itself_holds_up_nothing() -> None:
    # Of 450 above the bases, one has 100 for its spike, which would be a small change by itself, and two has 350; both
    # together do not fit beside what c holds until it may fall.
    bounds = replace(EXACT, smallest_cpu_change_millicores=120)
    both = [container(name, cpu=100, memory=MIB) for name in ("one", "two")]
    demands = [needs("one", wanted(300, 400), wanted(MIB)), needs("two", wanted(300, 650), wanted(MIB))]
    pod = pod_demand("a", containers=both, demands=demands, ranking=Ranking.NO_EVICTION)
    late = app("c", 100, request=190, ranking=Ranking.NO_EVICTION)
    situation = node(pod, app("b", 500, 1000), late, cpu=1640, bounds=bounds)
    held = replace(situation, constraints={"uid-c": Constraint(shrink=KeptReason.COOL_DOWN)})
    assert stays(held)


# Always.


_SMALL_PODS = st.tuples(
    st.integers(1, 60), st.integers(0, 60), st.integers(1, 60), st.sampled_from([*Ranking]), st.booleans()
)


@examples(150)
@given(st.lists(_SMALL_PODS, min_size=2, max_size=6), st.floats(0.3, 1.1))
def test_nobody_is_brought_further_than_one_that_is_proposed_and_lacks(
    pods: list[tuple[int, int, int, Ranking, bool]], share: float
) -> None:
    apps = [
        app(f"p{place}", base * 10, (base + spike) * 10, request=request * 10, ranking=ranking, is_urgent=is_urgent)
        for place, (base, spike, request, ranking, is_urgent) in enumerate(pods)
    ]
    least = sum(request * 10 for _, _, request, *_ in pods)
    situation = node(*apps, cpu=max(least, int(share * sum(base * 10 for base, *_ in pods))))
    plan = situation.plan()
    assert stays(situation)
    lacking = [own for name, own in shares(plan).items() if name in going(plan) and (own.applied or 0) < own.base - 1]
    risen = [own for own in shares(plan).values() if (own.applied or 0) > (own.request or 0)]
    if plan.cpu.is_infeasible:
        assert risen == []
        return
    for own in lacking:
        for other in risen:  # rounded down by less than 1m
            assert min(other.applied or 0, other.base) * own.base <= ((own.applied or 0) + 1) * other.base
