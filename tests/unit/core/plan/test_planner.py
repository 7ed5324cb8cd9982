"""Plans of nodes made by hand; every expected number is derived in a comment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.core.cluster.node import NodeState
from agent.core.cluster.pod import ContainerKind, ContainerStatus, QosClass, Requirements
from agent.core.cluster.resource import Resource
from agent.core.cluster.runtime_profile import LanguageRuntime, RuntimeProfile
from agent.core.cluster.versions import Gates
from agent.core.numbers.units import MIB
from agent.core.orders.container_policies import ContainerPolicies, ContainerPolicy
from agent.core.orders.order import Mode, Ranking
from agent.core.orders.plan_options import DaemonSetGrowth, FitRule, PlanOptions
from agent.core.orders.policy_options import BoundsOptions, ControlledResources, PolicyName
from agent.core.plan import planner as planner
from agent.core.plan.invariants import Examination
from agent.core.plan.needs.demand import Constraint, KeptReason, PodDemand, ReservedReason
from agent.core.plan.plan import (
    MOST_TOLD_BYTES,
    MOST_TOLD_MILLICORES,
    Invariant,
    Phase,
    Plan,
    PlanStep,
    PodPlan,
    Share,
    node_sums,
)
from agent.core.plan.pod_change import Setting
from agent.core.recommender.recommendation import Withheld
from agent.core.window.memory_shortage import MemoryShort
from tests.planning import (
    EXACT,
    OPEN,
    amounts,
    container,
    needs,
    node,
    pod_demand,
    requirements,
    wanted,
)

MEMORY = wanted(64 * MIB)
"""Just what a container requests unless told."""
CPU = wanted(100)


def app(name: str, base: int = 100, peak: int | None = None, **fields: Any) -> Any:
    """Return a pod of one container that requests 100m and 64 MiB and needs some CPU."""
    demand = {key: fields.pop(key) for key in ("is_urgent", "is_upward_only", "limit") if key in fields}
    return pod_demand(name, demands=[needs("app", wanted(base, peak, **demand), MEMORY)], **fields)


def pod_of(plan: Plan, name: str) -> PodPlan:
    return next(pod for pod in plan.pods if pod.ref.name == name)


def cpu_of(plan: Plan, name: str = "web", place: int = 0) -> Share:
    share = pod_of(plan, name).containers[place].cpu
    assert share is not None
    return share


def memory_of(plan: Plan, name: str = "web", place: int = 0) -> Share:
    share = pod_of(plan, name).containers[place].memory
    assert share is not None
    return share


def told(step: PlanStep) -> list[tuple[str, str, str, int, int]]:
    return [
        (change.container, change.resource.value, change.setting.value, change.before, change.after)
        for change in step.changes
    ]


def order(plan: Plan) -> list[tuple[str, str]]:
    return [(step.phase.value, step.ref.name) for step in plan.steps]


# What is told of it to who looks at many nodes.


def test_sums_hold_what_all_pods_request_now_and_what_they_are_to_request() -> None:
    # All request 100m and 64 MiB. Bases 1000 + 500 + 500 = 2000m; on top the largest spike, 3000 - 1000 = 2000m.
    plan = node(app("a", 1000, 3000), app("b", 500, 1500), app("c", 500, 1500), cpu=8000).plan()
    cpu, memory = node_sums(plan).cpu, node_sums(plan).memory
    assert (cpu.allocatable, cpu.requested, cpu.reserved, cpu.base, cpu.planned) == (8000, 300, 0, 2000, 4000)
    assert (cpu.headroom, cpu.free, cpu.is_infeasible) == (2000, 4000, False)
    assert (memory.requested, memory.base, memory.planned) == (192 * MIB, 192 * MIB, 192 * MIB)


def test_sums_of_a_node_that_is_too_small_say_by_how_much() -> None:
    apps = [app(name, base, ranking=Ranking.NO_EVICTION) for name, base in (("a", 1000), ("b", 500))]
    sums = node_sums(node(*apps, cpu=1200).plan()).cpu
    assert (sums.is_infeasible, sums.free) == (True, 1200 - 1500)


def test_amounts_that_no_node_has_are_told_as_the_largest_that_can_be() -> None:
    plan = node(app("a", 1000), cpu=8000).plan()
    huge = replace(
        plan, cpu=replace(plan.cpu, final_total=1 << 70, reserved=-5), memory=replace(plan.memory, base_total=1 << 70)
    )
    sums = node_sums(huge)
    assert (sums.cpu.planned, sums.cpu.reserved) == (MOST_TOLD_MILLICORES, 0)
    assert (sums.memory.base, sums.memory.headroom) == (MOST_TOLD_BYTES, 0)


# What is shared out.


def test_spikes_of_2_1_and_1_cores_share_the_largest() -> None:
    plan = node(app("a", 1000, 3000), app("b", 500, 1500), app("c", 500, 1500), cpu=8000).plan()
    assert [cpu_of(plan, name).final for name in "abc"] == [2000, 1000, 1000]
    assert (plan.cpu.base_total, plan.cpu.headroom, plan.cpu.final_total) == (2000, 2000, 4000)
    assert plan.is_sound


def test_what_others_hold_is_not_available_and_what_has_ended_holds_nothing() -> None:
    plan = node(
        app("a", 200),
        app("off", reserved=ReservedReason.OFF),
        app("leaving", reserved=ReservedReason.TERMINATING, pod={"is_terminating": True}),
        app("done", pod={"phase": "Failed"}),
        cpu=1000,
    ).plan()
    # allocatable 1000 - 100 of each of the two that may not be optimised
    assert (plan.cpu.reserved, plan.cpu.available) == (200, 800)
    assert [pod.ref.name for pod in plan.pods] == ["a", "leaving", "off"]
    assert pod_of(plan, "off").containers == ()


def test_a_reserved_pod_counts_with_the_largest_of_spec_allocated_and_actual() -> None:
    status = ContainerStatus(name="app", allocated=amounts(300, 64 * MIB))
    plan = node(app("off", reserved=ReservedReason.OFF, pod={"statuses": (status,)}), cpu=1000).plan()
    assert plan.cpu.reserved == 300


def test_overhead_and_init_floors_count_as_reserved() -> None:
    init = container("setup", kind=ContainerKind.INIT, cpu=250, memory=MIB)
    plan = node(
        pod_demand(
            containers=[init, container()],
            demands=[needs("app", wanted(80), MEMORY)],
            pod={"overhead": amounts(30, 0)},
        ),
        cpu=1000,
    ).plan()
    # The pod holds max(80, 250) + 30 = 280: 80 by its base and 200 beyond.
    assert (plan.cpu.reserved, plan.cpu.available, plan.cpu.base_total) == (200, 800, 80)


def test_a_sidecar_counts_beside_the_init_containers_after_it() -> None:
    sidecar = container("log", kind=ContainerKind.SIDECAR, cpu=40, memory=MIB)
    init = container("setup", kind=ContainerKind.INIT, cpu=250, memory=MIB)
    demands = [needs("log", wanted(40), wanted(MIB), ContainerKind.SIDECAR), needs("app", wanted(80), MEMORY)]
    plan = node(pod_demand(containers=[sidecar, init, container()], demands=demands), cpu=1000).plan()
    # The init stage needs 250 + 40, the running pod 40 + 80: 290 - 120 are beyond the bases.
    assert (plan.cpu.base_total, plan.cpu.reserved) == (120, 170)


def test_a_pod_that_nobody_speaks_of_is_reserved() -> None:
    situation = node(app("a"))
    state = replace(situation.state, pods=(*situation.state.pods, app("b").pod))
    plan = situation.plan_of(state)
    assert pod_of(plan, "b").reserved is ReservedReason.NO_DATA
    assert plan.cpu.reserved == 100


def test_a_demand_for_a_pod_that_is_gone_is_passed_over() -> None:
    situation = node(app("a"), app("b"))
    assert len(situation.plan_of(replace(situation.state, pods=situation.state.pods[:1])).pods) == 1


@pytest.mark.parametrize(
    ("mode", "reason"), [(Mode.OFF, ReservedReason.OFF), (Mode.RECOMMEND, ReservedReason.RECOMMEND)]
)
def test_a_pod_that_is_not_enforced_is_reserved_whoever_forgot_to_say_so(mode: Mode, reason: ReservedReason) -> None:
    plan = node(app("a", 500, order={"mode": mode})).plan()
    assert pod_of(plan, "a").reserved is reason
    assert plan.steps == ()


def test_bounds_of_the_pod_hold_before_sharing_and_the_most_wins() -> None:
    plan = node(app("a", 10, 2000, order={"min_cpu_millicores": 700, "max_cpu_millicores": 500})).plan()
    share = cpu_of(plan, "a")
    assert (share.base, share.final, share.peak) == (500, 500, 500)


def test_base_and_peak_are_rounded_up_and_the_final_to_the_nearest() -> None:
    bounds = replace(EXACT, round_cpu_millicores=10)
    plan = node(app("a", 101, 141), app("b", 11, 92), bounds=bounds).plan()
    a, b = cpu_of(plan, "a"), cpu_of(plan, "b")
    assert ((a.base, a.peak), (b.base, b.peak)) == ((110, 150), (20, 100))
    # headroom 80 in the ratio 40 to 80: 26.7 and 53.3 on top of 110 and 20, that is 136.7 and 73.3
    assert (a.final, b.final) == (140, 70)


def test_rounding_never_hands_out_more_than_there_is() -> None:
    bounds = replace(EXACT, round_cpu_millicores=10)
    plan = node(*(app(name, 100, 130) for name in "ab"), cpu=230, bounds=bounds).plan()
    # 15 each would be rounded up to 20 each, of a headroom of 30: the first is rounded down.
    assert [cpu_of(plan, name).final for name in "ab"] == [110, 120]
    assert plan.cpu.final_total == plan.cpu.available == 230


def test_a_container_without_a_prediction_counts_with_its_request_and_stays() -> None:
    demand = pod_demand(demands=[needs("app", None, wanted(32 * MIB))])
    plan = node(demand).plan()
    share = cpu_of(plan)
    assert (share.base, share.peak, share.final, share.kept) == (100, 100, 100, KeptReason.GAPS)
    assert told(plan.steps[0]) == [("app", "memory", "request", 64 * MIB, 32 * MIB)]


def test_a_container_that_nobody_speaks_of_stays_and_is_said_to_be_without_data() -> None:
    share = cpu_of(node(pod_demand(demands=[needs("other", CPU, MEMORY)])).plan())
    assert (share.kept, share.withheld) == (KeptReason.GAPS, Withheld.NO_DATA)


def test_a_prediction_that_may_only_raise_has_no_claim_to_a_spike() -> None:
    plan = node(app("low", 30, 500, is_upward_only=True), app("high", 250, 900, is_upward_only=True)).plan()
    low, high = cpu_of(plan, "low"), cpu_of(plan, "high")
    assert (low.base, low.peak, low.applied, low.kept) == (100, 100, 100, KeptReason.UPWARD_ONLY)
    assert (high.base, high.peak, high.applied, high.kept) == (250, 250, 250, None)
    assert plan.cpu.headroom == 0


def test_a_request_that_is_not_stated_is_never_added_but_its_need_counts() -> None:
    plan = node(
        pod_demand(containers=[container(memory=64 * MIB)], demands=[needs("app", wanted(300), MEMORY)]), cpu=1000
    ).plan()
    share = cpu_of(plan)
    assert (share.request, share.final, share.applied, share.kept) == (None, 300, None, KeptReason.NOT_STATED)
    assert plan.cpu.base_total == 300
    assert plan.cpu.applied_total == 0
    assert plan.steps == ()


def test_nothing_stated_and_nothing_known_has_no_share() -> None:
    plan = node(pod_demand(containers=[container(memory=64 * MIB)], demands=[needs("app", None, MEMORY)])).plan()
    assert pod_of(plan, "web").containers[0].cpu is None


# Who goes.


def crowded(**fields: Any) -> Any:
    """Return three pods of base 500 and peak 1000 on a node for two of them: 1000 + 500 fit into 1500."""
    return node(*(app(name, 500, 1000) for name in "abc"), cpu=1500, **fields)


def test_the_first_by_name_goes_where_all_else_is_equal_and_says_why() -> None:
    plan = crowded().plan()
    assert [(eviction.ref.name, eviction.resource, eviction.spike) for eviction in plan.evictions] == [
        ("a", Resource.CPU, 500)
    ]
    assert plan.evictions[0].reason == "500m of cpu are lacking; next by ranking low and spike 500m"
    assert pod_of(plan, "a").is_evicted
    assert [cpu_of(plan, name).final for name in "bc"] == [750, 750]
    assert not plan.cpu.is_infeasible


def test_the_room_of_a_pod_proposed_for_eviction_is_not_counted_on() -> None:
    plan = crowded().plan()
    # a holds its base of 500 until it is gone, and so do b and c: more than 1500 there is not (``test_interim``).
    assert order(plan) == [("grow", "a"), ("grow", "b"), ("grow", "c")]
    assert [cpu_of(plan, name).applied for name in "abc"] == [500, 500, 500]
    left = replace(crowded(), demands=crowded().demands[1:]).plan()
    assert [cpu_of(left, name).applied for name in "bc"] == [750, 750]


def test_memory_is_asked_first_and_its_evictions_count_for_cpu() -> None:
    big = needs("app", wanted(500, 1000), wanted(600 * MIB, 700 * MIB))
    plan = node(*(pod_demand(name, demands=[big]) for name in "abc"), cpu=1500, memory=1400 * MIB).plan()
    assert [(eviction.ref.name, eviction.resource) for eviction in plan.evictions] == [("a", Resource.MEMORY)]


@pytest.mark.parametrize("fields", [{"kind": "DaemonSet"}, {"ranking": Ranking.NO_EVICTION}])
def test_daemon_sets_and_no_eviction_stay_and_the_node_is_infeasible(fields: dict[str, Any]) -> None:
    pods = [app(name, 500, 1000, containers=[container(cpu=600, memory=64 * MIB)], **fields) for name in "abc"]
    plan = node(*pods, cpu=1200).plan()
    assert plan.evictions == ()
    assert plan.cpu.is_infeasible
    assert plan.cpu.headroom == 0
    assert plan.steps == ()
    assert plan.notes == ("cpu does not fit and nobody else may go: no cpu is resized",)


def test_an_infeasible_resource_does_not_hold_up_the_other() -> None:
    both = [needs("app", wanted(900), wanted(32 * MIB))]
    plan = node(*(pod_demand(name, demands=both, ranking=Ranking.NO_EVICTION) for name in "ab"), cpu=1000).plan()
    assert (plan.cpu.is_infeasible, plan.memory.is_infeasible) == (True, False)
    assert {change.resource for step in plan.steps for change in step.changes} == {Resource.MEMORY}
    assert cpu_of(plan, "a").kept is KeptReason.NODE_FULL


def test_a_pod_whose_successor_would_ask_for_no_more_stays() -> None:
    full = app("a", 500, 1000, containers=[container(cpu=1000, memory=64 * MIB)])
    plan = node(full, app("b", 500, 1000), app("c", 500, 1000), cpu=1500).plan()
    assert [eviction.ref.name for eviction in plan.evictions] == ["b"]
    # It is not shrunk either while others go: with less than its peak it would be the next to go instead of them.
    assert (cpu_of(plan, "a").applied, cpu_of(plan, "a").kept) == (1000, KeptReason.EVICTION_PENDING)


@pytest.mark.parametrize(
    "fields",
    [
        {"options": PlanOptions(memory_applied=False)},
        {"bounds": replace(EXACT, controlled_resources=ControlledResources.CPU)},
    ],
)
def test_of_a_resource_that_is_only_looked_at_no_prediction_is_needed(fields: Any) -> None:
    unmeasured = pod_demand("a", demands=[needs("app", wanted(500, 1000), None)])
    plan = node(unmeasured, app("b", 500, 1000, ranking=Ranking.HIGH), cpu=1400, **fields).plan()
    assert [(eviction.ref.name, eviction.resource) for eviction in plan.evictions] == [("a", Resource.CPU)]


@pytest.mark.parametrize("is_upward_only", [True, False])
def test_a_pod_without_a_prediction_stays(is_upward_only: bool) -> None:
    cpu = wanted(500, 1000, is_upward_only=True) if is_upward_only else wanted(500, 1000)
    unknown = pod_demand("a", demands=[needs("app", cpu, MEMORY if is_upward_only else None)])
    plan = node(unknown, app("b", 500, 1000), app("c", 500, 1000), cpu=1400).plan()
    assert "a" not in [eviction.ref.name for eviction in plan.evictions]
    assert plan.evictions != ()


def test_the_literal_rule_reserves_every_pod_s_spike() -> None:
    # 500 + 500 for the pod, and 500 once more.
    literal = PlanOptions(fit_rule=FitRule.LITERAL)
    assert node(app("a", 500, 1000), cpu=1499, options=literal).plan().evictions != ()
    assert node(app("a", 500, 1000), cpu=1500, options=literal).plan().evictions == ()


def test_memory_that_is_only_looked_at_makes_nobody_go_and_is_not_written() -> None:
    big = [needs("app", wanted(200), wanted(900 * MIB))]
    plan = node(
        *(pod_demand(name, demands=big) for name in "ab"),
        memory=1000 * MIB,
        options=PlanOptions(memory_applied=False),
    ).plan()
    assert plan.evictions == ()
    assert (plan.memory.is_infeasible, plan.memory.is_applied) == (False, False)
    assert memory_of(plan, "a").kept is KeptReason.NOT_APPLIED
    assert {change.resource for step in plan.steps for change in step.changes} == {Resource.CPU}


@pytest.mark.parametrize("controlled", [ControlledResources.CPU, ControlledResources.MEMORY])
def test_what_the_bounds_leave_out_is_only_looked_at(controlled: ControlledResources) -> None:
    both = pod_demand(demands=[needs("app", wanted(200), wanted(128 * MIB))])
    plan = node(both, bounds=replace(EXACT, controlled_resources=controlled)).plan()
    assert [change.resource.value for step in plan.steps for change in step.changes] == [controlled.value]


# DaemonSets.


def daemon(name: str, base: int, peak: int, **fields: Any) -> Any:
    return app(name, base, peak, kind="DaemonSet", **fields)


def test_a_daemon_set_shrinks_but_never_grows_where_it_may_not() -> None:
    never = PlanOptions(daemon_set_growth=DaemonSetGrowth.NEVER)
    plan = node(daemon("big", 300, 600), daemon("small", 40, 90), options=never).plan()
    assert (cpu_of(plan, "big").final, cpu_of(plan, "big").peak) == (100, 100)
    assert (cpu_of(plan, "small").final, plan.cpu.headroom) == (40, 0)


def test_daemon_sets_grow_into_what_is_left_up_to_their_peaks() -> None:
    plan = node(daemon("d", 300, 600), app("a", 500, 1000), cpu=4000).plan()
    assert cpu_of(plan, "d").final == 600
    assert cpu_of(plan, "d").spike == 0


def test_daemon_sets_are_raised_to_one_level_of_their_bases_first() -> None:
    # 1000 of a, 100 + 100 of the daemons: 500 are left. At three quarters of their bases of 600 and 400 they hold
    # 450 and 300, which takes 550; at 7/10 they hold 420 and 280, which takes 500.
    plan = node(daemon("d", 600, 900), daemon("e", 400, 400), app("a", 500, 1000), cpu=1700).plan()
    assert (cpu_of(plan, "d").final, cpu_of(plan, "e").final) == (420, 280)
    assert plan.evictions == ()


def test_daemon_sets_share_what_is_left_above_their_bases_by_their_spikes() -> None:
    # Bases 200 and 200 take 200 of the 500 left; 300 remain for spikes of 400 and 200: three quarters... of 600 half.
    plan = node(daemon("d", 200, 600), daemon("e", 200, 400), app("a", 500, 1000), cpu=1700).plan()
    assert (cpu_of(plan, "d").final, cpu_of(plan, "e").final) == (400, 300)


def test_a_daemon_set_that_has_grown_gives_its_growth_back_when_others_need_the_room() -> None:
    grown = daemon("d", 200, 600, containers=[container(cpu=600, memory=64 * MIB)])
    plan = node(grown, app("a", 500, 1000), cpu=1300).plan()
    # base 200 + 500 + largest spike 500 = 1200: 100 are left for it above its base
    assert cpu_of(plan, "d").final == 300
    assert plan.evictions == ()


def test_a_daemon_set_does_not_grow_into_memory_of_a_pod_that_goes_for_want_of_cpu() -> None:
    going = pod_demand("a", demands=[needs("app", wanted(900, 1000), wanted(500 * MIB))])
    growing = pod_demand("d", kind="DaemonSet", demands=[needs("app", CPU, wanted(300 * MIB))])
    plan = node(going, growing, cpu=1000, memory=700 * MIB).plan()
    assert [eviction.resource for eviction in plan.evictions] == [Resource.CPU]
    # 700 - 500 as long as it is there: otherwise it would go for want of memory the next time.
    assert memory_of(plan, "d").final == 200 * MIB


def test_a_daemon_set_that_states_nothing_has_no_claim() -> None:
    bare = pod_demand("d", kind="DaemonSet", containers=[container(memory=MIB)], demands=[needs("app", CPU, MEMORY)])
    plan = node(bare).plan()
    assert plan.cpu.base_total == 0


# What stands in the way.


def kept(demand: Any, **fields: Any) -> KeptReason | None:
    plan = node(demand, **fields).plan()
    assert plan.steps == ()
    return cpu_of(plan, demand.pod.name).kept


def test_a_small_change_is_not_made() -> None:
    bounds = BoundsOptions()
    assert kept(app("a", 109), bounds=bounds) is KeptReason.SMALL_CHANGE
    assert node(app("a", 110), bounds=bounds).plan().steps != ()


def test_a_small_change_is_made_where_the_bounds_do_not_allow_what_is_there() -> None:
    plan = node(app("a", 100, order={"min_cpu_millicores": 105}), bounds=BoundsOptions()).plan()
    assert told(plan.steps[0]) == [("app", "cpu", "request", 100, 105)]


def test_small_shrinks_are_made_where_others_need_their_room_the_largest_first() -> None:
    pods = [app("a", 92), app("b", 95), app("c", 99), app("d", 110)]
    # Kept, they would hold 300 + 110 of 405: the largest of the three, 8, is enough.
    plan = node(*pods, cpu=405, bounds=BoundsOptions()).plan()
    assert order(plan) == [("shrink", "a"), ("grow", "d")]
    assert cpu_of(plan, "b").kept is KeptReason.SMALL_CHANGE
    # Of 397 two are needed.
    plan = node(*pods, cpu=397, bounds=BoundsOptions()).plan()
    assert order(plan) == [("shrink", "a"), ("shrink", "b"), ("grow", "d")]


def test_small_shrinks_that_are_not_enough_are_all_made() -> None:
    held = Constraint(shrink=KeptReason.COOL_DOWN)
    pods = [app("a", 92), app("b", 10), app("c", 180)]
    plan = node(*pods, cpu=300, bounds=BoundsOptions(), constraints={"uid-b": held}).plan()
    assert order(plan) == [("shrink", "a")]
    assert cpu_of(plan, "c").kept is KeptReason.NODE_FULL


def test_a_pod_that_may_not_shrink_keeps_what_it_has_and_growth_waits_in_order() -> None:
    held = Constraint(shrink=KeptReason.COOL_DOWN)
    pods = [app("big", 100, containers=[container(cpu=800, memory=64 * MIB)]), app("x", 250), app("y", 200)]
    plan = node(*pods, cpu=1150, constraints={"uid-big": held}).plan()
    # 800 + 100 + 100 are held: 150 are free for x, and then nothing for y.
    assert order(plan) == [("grow", "x")]
    assert cpu_of(plan, "big").kept is KeptReason.COOL_DOWN
    assert cpu_of(plan, "y").kept is KeptReason.NODE_FULL
    assert plan.cpu.applied_total == 1150
    assert order(node(*pods, cpu=1149, constraints={"uid-big": held}).plan()) == [("grow", "y")]
    urgent = [pods[0], pods[1], app("y", 200, is_urgent=True)]
    assert order(node(*urgent, cpu=1150, constraints={"uid-big": held}).plan()) == [("grow", "y")]


def test_a_pod_in_cool_down_does_not_grow_unless_it_is_urgent() -> None:
    held = {"uid-a": Constraint(grow=KeptReason.COOL_DOWN)}
    assert kept(app("a", 300), constraints=held) is KeptReason.COOL_DOWN
    plan = node(app("a", 300, is_urgent=True), constraints=held).plan()
    assert (plan.steps[0].is_urgent, plan.steps[0].reason) == (True, "it is short now")
    flight = {"uid-a": Constraint(grow=KeptReason.COOL_DOWN, urgent_grow=KeptReason.IN_FLIGHT)}
    assert kept(app("a", 300, is_urgent=True), constraints=flight) is KeptReason.IN_FLIGHT


def test_what_a_resize_under_way_raises_already_is_not_raised_further_and_the_rest_is() -> None:
    under_way = Constraint(
        shrink=KeptReason.IN_FLIGHT,
        grow=KeptReason.IN_FLIGHT,
        rising=frozenset({("app", Resource.MEMORY, Setting.REQUEST)}),
    )
    memory = wanted(100 * MIB, is_urgent=True, short=MemoryShort.HELD, limit=256 * MIB)
    plan = node(
        limited(wanted(300, is_urgent=True), memory, memory_limit=128 * MIB), constraints={"uid-web": under_way}
    ).plan()
    assert memory_of(plan).kept is KeptReason.IN_FLIGHT
    assert [told(step) for step in plan.steps] == [
        [("app", "cpu", "request", 100, 300), ("app", "memory", "limit", 128 * MIB, 256 * MIB)]
    ]


def test_as_much_as_was_infeasible_is_not_asked_for_again() -> None:
    assert kept(app("a", 300), constraints={"uid-a": Constraint(cpu_below_millicores=300)}) is KeptReason.INFEASIBLE
    assert node(app("a", 299), constraints={"uid-a": Constraint(cpu_below_millicores=300)}).plan().steps != ()
    more = pod_demand("a", demands=[needs("app", CPU, wanted(100 * MIB))])
    below = {"uid-a": Constraint(memory_below_bytes=100 * MIB)}
    assert memory_of(node(more, constraints=below).plan(), "a").kept is KeptReason.INFEASIBLE


def test_a_barred_workload_only_grows() -> None:
    assert kept(app("a", 50, is_shrink_barred=True)) is KeptReason.UPWARD_ONLY
    assert node(app("a", 150, is_shrink_barred=True)).plan().steps != ()


@pytest.mark.parametrize(("resource", "flag"), [("cpu", "is_cpu_frozen"), ("memory", "is_memory_frozen")])
def test_a_resource_that_an_hpa_scales_on_counts_as_it_stands(resource: str, flag: str) -> None:
    frozen: dict[str, Any] = {flag: True}
    both = pod_demand(demands=[needs("app", wanted(200), wanted(128 * MIB))], **frozen)
    plan = node(both).plan()
    assert resource not in [change.resource.value for step in plan.steps for change in step.changes]
    share = cpu_of(plan) if resource == "cpu" else memory_of(plan)
    assert share.kept is KeptReason.HPA
    assert share.final == share.request


@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_a_resource_of_one_container_that_an_hpa_scales_on_leaves_the_others_free(resource: str) -> None:
    frozen: dict[str, Any] = {f"is_{resource}_frozen": True, f"{resource}_frozen_containers": ("app",)}
    both = pod_demand(
        containers=[container(), container("proxy")],
        demands=[needs(name, wanted(200), wanted(128 * MIB)) for name in ("app", "proxy")],
        **frozen,
    )
    plan = node(both).plan()
    changed = {(change.container, change.resource.value) for step in plan.steps for change in step.changes}
    assert changed == {("app", "cpu"), ("app", "memory"), ("proxy", "cpu"), ("proxy", "memory")} - {("app", resource)}
    share = cpu_of(plan) if resource == "cpu" else memory_of(plan)
    assert (share.kept, share.final) == (KeptReason.HPA, share.request)


def scaled(**fields: Any) -> PodDemand:
    """Return a pod of 100m and at most 200m, whose CPU requests an HPA divides by; it would want 150m."""
    stated = {"cpu": 100, "cpu_limit": 200, "memory": 64 * MIB, **fields.pop("stated", {})}
    known = {"containers": [container(**stated)], "demands": [needs("app", fields.pop("cpu", wanted(150)), MEMORY)]}
    return pod_demand(**{**known, **fields}, is_cpu_frozen=True)


def test_where_an_hpa_keeps_the_cpu_request_the_limit_is_put_out_of_the_way() -> None:
    plan = node(scaled()).plan()
    assert [told(step) for step in plan.steps] == [[("app", "cpu", "limit", 200, 4000)]]
    share = cpu_of(plan)
    assert (share.kept, share.applied, share.limit_applied, share.limit_kept) == (KeptReason.HPA, 100, 4000, None)
    urgent = node(scaled(cpu=wanted(900, is_urgent=True), order={"mode": Mode.PROTECT})).plan()
    assert [told(step) for step in urgent.steps] == [[("app", "cpu", "limit", 200, 4000)]]
    equal = scaled(stated={"cpu": 200})
    assert cpu_of(node(equal).plan()).limit_applied == 4000, "the pod is Burstable by its memory, and stays so"


@pytest.mark.parametrize(
    "fields",
    [
        {"order": {"policy": PolicyName.VPA}},
        {"order": {"mode": Mode.PROTECT}},
        {"order": {"container_policies": ContainerPolicies(policies=(ContainerPolicy(are_limits_kept=True),))}},
        {"order": {"container_policies": ContainerPolicies(policies=(ContainerPolicy(is_off=True),))}},
        {"stated": {"restarts_for_cpu": True}},
        {"cpu": None},
        {"stated": {"cpu_limit": 4000}},
        {"stated": {"cpu_limit": None}},
        {"stated": {"cpu": 200, "memory_limit": 64 * MIB}},
    ],
    ids=["policy", "protect", "requests-only", "off", "restart", "unknown", "out-of-the-way", "none", "guaranteed"],
)
def test_the_limit_of_a_request_that_an_hpa_divides_by_stays_where_any_limit_would(fields: dict[str, Any]) -> None:
    plan = node(scaled(**fields)).plan()
    assert [change for step in plan.steps for change in step.changes if change.resource is Resource.CPU] == []
    assert cpu_of(plan).kept is KeptReason.HPA


def test_a_budget_stays_where_an_hpa_scales_on_one_of_its_containers() -> None:
    demand = budgeted(is_cpu_frozen=True, cpu_frozen_containers=("other",))
    assert budget_of(node(demand).plan()).kept is KeptReason.HPA


def test_a_container_that_would_restart_is_left_alone_unless_that_is_allowed() -> None:
    restarting = [container(cpu=100, memory=64 * MIB, restarts_for_cpu=True)]
    assert kept(app("a", 300, containers=restarting)) is KeptReason.RESTART_POLICY
    allowed = app("a", 300, containers=restarting, order={"is_restart_allowed": True})
    assert node(allowed).plan().steps != ()
    memory = [container(cpu=100, memory=64 * MIB, restarts_for_memory=True)]
    share = memory_of(node(pod_demand(containers=memory, demands=[needs("app", CPU, wanted(MIB))])).plan())
    assert share.kept is KeptReason.RESTART_POLICY


def test_a_pod_whose_recorded_class_is_not_what_its_spec_says_is_left_alone() -> None:
    assert kept(app("a", 300, pod={"recorded_qos": QosClass.GUARANTEED})) is KeptReason.QOS


def test_nothing_is_resized_where_server_or_kubelet_is_too_old_and_the_plan_says_so() -> None:
    old = Gates(
        resize=False, memory_limit_down=False, pod_level_resize=False, init_containers=False, reasons=("too old",)
    )
    plan = node(app("a", 300), gates=old).plan()
    assert plan.steps == ()
    assert plan.notes == ("too old",)
    assert (cpu_of(plan, "a").final, cpu_of(plan, "a").kept) == (300, KeptReason.TOO_OLD)


# Limits.


def limited(cpu: Any = CPU, memory: Any = MEMORY, *, policy: PolicyName = PolicyName.CRUISE, **stated: int) -> Any:
    resources: dict[str, Any] = {"cpu": 100, "memory": 64 * MIB, **stated}
    return pod_demand(
        containers=[container(**resources)], demands=[needs("app", cpu, memory)], order={"policy": policy}
    )


def test_a_cpu_limit_is_raised_to_the_node_under_policies_that_set_none() -> None:
    plan = node(limited(cpu_limit=200)).plan()
    assert [told(step) for step in plan.steps] == [[("app", "cpu", "limit", 200, 4000)]]
    assert (plan.steps[0].phase, plan.steps[0].reason) == (Phase.GROW, "its limit")
    assert node(limited(cpu_limit=5000)).plan().steps == ()  # above the node already: never lowered


@pytest.mark.parametrize("fields", [{"options": PlanOptions(cpu_limits_raised=False)}, {"policy": PolicyName.VPA}])
def test_a_cpu_limit_that_stays_caps_the_request_below_it(fields: dict[str, Any]) -> None:
    policy = fields.pop("policy", PolicyName.CRUISE)
    plan = node(limited(wanted(300, 500), cpu_limit=200, policy=policy), **fields).plan()
    share = cpu_of(plan)
    # One below, so that request and limit go on to differ.
    assert (share.base, share.peak, share.applied, share.limit_applied) == (199, 199, 199, 200)


def test_a_request_equal_to_a_limit_that_stays_is_not_parted_from_it_for_one_unit() -> None:
    plan = node(
        app(
            "web",
            300,
            containers=[container(cpu=200, cpu_limit=200, memory=64 * MIB)],
            order={"policy": PolicyName.VPA},
        )
    ).plan()
    assert plan.steps == ()
    assert cpu_of(plan).kept is KeptReason.QOS


def test_a_cpu_limit_of_the_policy_s_own_rises_and_falls_with_the_request() -> None:
    plan = node(limited(wanted(50, limit=100), cpu_limit=200, policy=PolicyName.VPA)).plan()
    assert [told(step) for step in plan.steps] == [
        [("app", "cpu", "request", 100, 50), ("app", "cpu", "limit", 200, 100)]
    ]
    plan = node(limited(wanted(300, limit=150), cpu_limit=200, policy=PolicyName.VPA)).plan()
    # The policy's limit is below the request: the limit stays above it all the same.
    assert told(plan.steps[0]) == [("app", "cpu", "request", 100, 300), ("app", "cpu", "limit", 200, 301)]


def test_a_cpu_limit_that_the_policy_has_no_word_for_is_out_of_the_way_in_one_plan() -> None:
    # cruise advises one above the request that it asks for, as a limit must not be below it.
    plan = node(limited(wanted(650, limit=651), cpu_limit=480), cpu=4000).plan()
    assert told(plan.steps[0]) == [("app", "cpu", "request", 100, 650), ("app", "cpu", "limit", 480, 4000)]


@pytest.mark.parametrize(
    ("wish", "limit_wish", "room", "limit_after"),
    [
        (300, 600, 1000, 600),  # all that was advised is granted
        (300, 600, 150, 300),  # of 200 more there is room for 50: the limit follows what is granted
        (300, 600, 100, 200),  # for nothing
        (50, 100, 1000, 100),
        (50, 140, 1000, 140),  # the policy holds it up
    ],
)
def test_a_limit_in_proportion_goes_by_what_is_granted_of_the_request(
    wish: int, limit_wish: int, room: int, limit_after: int
) -> None:
    """Else each plan would multiply it anew, as the next advice is in proportion to it."""
    demand = replace(wanted(wish, limit=limit_wish), is_limit_proportional=True)
    pod = pod_demand(
        kind="DaemonSet",
        containers=[container(cpu=100, memory=64 * MIB, cpu_limit=200)],
        demands=[needs("app", demand, MEMORY)],
        order={"policy": PolicyName.VPA},
    )
    plan = node(pod, cpu=room, options=PlanOptions(daemon_set_growth=DaemonSetGrowth.FITS)).plan()
    assert cpu_of(plan).limit_applied == limit_after


def test_a_memory_limit_rises_with_the_growth_and_falls_by_itself_at_the_end() -> None:
    plan = node(limited(memory=wanted(96 * MIB, limit=192 * MIB), memory_limit=128 * MIB)).plan()
    assert [(step.phase, len(step.changes)) for step in plan.steps] == [(Phase.GROW, 2)]
    shrink = wanted(32 * MIB, limit=64 * MIB, in_use=40 * MIB)
    plan = node(limited(memory=shrink, memory_limit=128 * MIB)).plan()
    assert [told(step) for step in plan.steps] == [
        [("app", "memory", "request", 64 * MIB, 32 * MIB)],
        [("app", "memory", "limit", 128 * MIB, 64 * MIB)],
    ]
    assert plan.steps[1].phase is Phase.LIMIT_DOWN
    assert plan.steps[1].reason == "its memory limit is far above what it needs"


@pytest.mark.parametrize(
    ("fields", "in_use", "expected"),
    [
        ({}, None, KeptReason.IN_USE),
        ({}, 60 * MIB, KeptReason.IN_USE),  # x 1.25 is above 64 MiB
        ({"conditions": {"MemoryPressure": "True"}}, MIB, KeptReason.IN_USE),
        ({"gates": replace(OPEN, memory_limit_down=False)}, MIB, KeptReason.TOO_OLD),
        ({"options": PlanOptions(memory_limits_lowered=False)}, MIB, KeptReason.NOT_APPLIED),
        ({"constraints": {"uid-web": Constraint(shrink=KeptReason.COOL_DOWN)}}, MIB, KeptReason.COOL_DOWN),
        ({"bounds": BoundsOptions(smallest_memory_change_bytes=70 * MIB)}, MIB, KeptReason.SMALL_CHANGE),
    ],
)
def test_a_memory_limit_is_not_lowered_where_it_may_not(
    fields: dict[str, Any], in_use: int | None, expected: KeptReason
) -> None:
    demand = limited(memory=wanted(64 * MIB, limit=64 * MIB, in_use=in_use), memory_limit=128 * MIB)
    plan = node(demand, **fields).plan()
    assert plan.steps == ()
    assert memory_of(plan).limit_kept is expected


def test_a_limit_does_not_rise_in_a_cool_down_nor_for_a_daemon_set_that_may_not_grow() -> None:
    plan = node(limited(cpu_limit=200), constraints={"uid-web": Constraint(grow=KeptReason.COOL_DOWN)}).plan()
    assert (cpu_of(plan).limit_kept, plan.steps) == (KeptReason.COOL_DOWN, ())
    never = PlanOptions(daemon_set_growth=DaemonSetGrowth.NEVER)
    held = daemon("d", 100, 100, containers=[container(cpu=100, cpu_limit=200, memory=64 * MIB)])
    plan = node(held, options=never).plan()
    assert (cpu_of(plan, "d").limit_kept, plan.steps) == (KeptReason.NOT_APPLIED, ())


def test_a_memory_limit_that_stays_caps_the_request() -> None:
    share = memory_of(node(limited(memory=wanted(500 * MIB), memory_limit=128 * MIB)).plan())
    assert (share.final, share.limit_applied) == (128 * MIB - 1, 128 * MIB)


def test_a_memory_request_equal_to_its_limit_moves_with_it_to_what_the_limit_should_be() -> None:
    plan = node(limited(memory=wanted(80 * MIB, limit=200 * MIB), memory_limit=64 * MIB)).plan()
    assert told(plan.steps[0]) == [
        ("app", "memory", "request", 64 * MIB, 200 * MIB),
        ("app", "memory", "limit", 64 * MIB, 200 * MIB),
    ]
    down = limited(memory=wanted(10 * MIB, limit=32 * MIB, in_use=MIB), memory_limit=64 * MIB)
    plan = node(down).plan()
    # By itself, among what falls: room for others appears.
    assert [(step.phase, len(step.changes)) for step in plan.steps] == [(Phase.SHRINK, 2)]
    blind = limited(memory=wanted(10 * MIB, limit=32 * MIB), memory_limit=64 * MIB)
    share = memory_of(node(blind).plan())
    assert (share.applied, share.kept, share.limit_kept) == (64 * MIB, KeptReason.IN_USE, KeptReason.IN_USE)


def test_a_guaranteed_pod_moves_request_and_limit_together_and_holds_its_peak_by_itself() -> None:
    whole: dict[str, Any] = {"cpu": 100, "cpu_limit": 100, "memory": 64 * MIB, "memory_limit": 64 * MIB}
    guaranteed = pod_demand(
        containers=[container(**whole)], demands=[needs("app", wanted(150, 300), wanted(48 * MIB, in_use=MIB))]
    )
    plan = node(guaranteed).plan()
    assert [told(step) for step in plan.steps] == [
        [("app", "memory", "request", 64 * MIB, 48 * MIB), ("app", "memory", "limit", 64 * MIB, 48 * MIB)],
        [("app", "cpu", "request", 100, 300), ("app", "cpu", "limit", 100, 300)],
    ]
    assert plan.is_sound


# A pod's own budget.


BUDGETED = wanted(300, 500)


def budgeted(cpu: Any = BUDGETED, memory: Any = MEMORY, **fields: Any) -> Any:
    containers = [container("app"), container("proxy", cpu=50, memory=MIB)]
    demands = [needs("app", cpu, memory), needs("proxy", wanted(100, 200), wanted(MIB))]
    resources = fields.pop("resources", requirements(1000))
    return pod_demand(containers=containers, demands=demands, pod={"resources": resources}, **fields)


def budget_of(plan: Plan, resource: Resource = Resource.CPU) -> Share:
    budget = pod_of(plan, "web").budget
    assert budget is not None
    share = budget.cpu if resource is Resource.CPU else budget.memory
    assert share is not None
    return share


def test_a_budget_is_planned_for_its_containers_bases_and_the_largest_spike_among_them() -> None:
    plan = node(budgeted()).plan()
    share = budget_of(plan)
    # 300 + 100, and 200 once
    assert (share.base, share.peak, share.applied) == (400, 600, 600)
    assert [told(step) for step in plan.steps] == [[("", "cpu", "request", 1000, 600)]]
    assert plan.steps[0].changes[0].kind is None
    assert cpu_of(plan).kept is KeptReason.POD_LEVEL
    assert pod_of(plan, "web").budget is not None
    assert pod_of(plan, "web").containers[0].memory is not None


def test_a_budget_is_never_below_what_its_containers_request() -> None:
    # They need 10 + 100, and a spike of 100; they request 100 + 50.
    share = budget_of(node(budgeted(wanted(10))).plan())
    assert (share.base, share.applied) == (150, 210)


def test_a_budget_is_left_where_it_cannot_be_resized() -> None:
    plan = node(budgeted(), gates=replace(OPEN, pod_level_resize=False)).plan()
    assert (budget_of(plan).kept, budget_of(plan).base, plan.steps) == (KeptReason.TOO_OLD, 1000, ())


def test_a_budget_of_which_nothing_or_only_a_part_is_known_does_not_fall() -> None:
    partly = node(budgeted(None)).plan()
    assert (budget_of(partly).applied, budget_of(partly).kept) == (1000, KeptReason.UPWARD_ONLY)
    nothing = pod_demand(demands=[needs("app", None, MEMORY)], pod={"resources": requirements(1000)})
    assert budget_of(node(nothing).plan()).kept is KeptReason.GAPS


def test_a_budget_is_frozen_by_an_hpa_and_never_stated_first() -> None:
    assert budget_of(node(budgeted(is_cpu_frozen=True)).plan()).kept is KeptReason.HPA
    zero = budgeted(resources=Requirements(requests=amounts(0), limits={}))
    budget = pod_of(node(zero).plan(), "web").budget
    assert budget is not None
    assert budget.cpu is None


def test_a_budget_with_a_limit_alone_counts_as_it_stands() -> None:
    plan = node(budgeted(resources=requirements(cpu_limit=1000))).plan()
    assert pod_of(plan, "web").budget is None
    assert (cpu_of(plan).final, cpu_of(plan).kept) == (100, KeptReason.POD_LEVEL)


def test_a_budget_s_limits_follow_its_requests() -> None:
    # CPU is raised out of the way; memory follows as far as it has to, and one further as they differ today.
    resources = requirements(1000, 100 * MIB, 1500, 110 * MIB)
    plan = node(budgeted(memory=wanted(150 * MIB), resources=resources)).plan()
    assert told(plan.steps[0]) == [
        ("", "cpu", "request", 1000, 600),
        ("", "cpu", "limit", 1500, 4000),
        ("", "memory", "request", 100 * MIB, 151 * MIB),
        ("", "memory", "limit", 110 * MIB, 151 * MIB + 1),
    ]
    assert budget_of(plan, Resource.MEMORY).limit_applied == 151 * MIB + 1
    assert budget_of(plan).limit_applied == 4000
    vpa = node(budgeted(wanted(2000), resources=resources, order={"policy": PolicyName.VPA})).plan()
    assert (budget_of(vpa).applied, budget_of(vpa).limit_applied) == (2200, 2201)  # 2000 + 100, and a spike of 100


def test_a_guaranteed_budget_moves_with_its_limit_and_holds_the_peak() -> None:
    plan = node(budgeted(resources=requirements(1000, 200 * MIB, 1000, 200 * MIB))).plan()
    share = budget_of(plan)
    assert (share.base, share.applied, share.limit_applied) == (600, 600, 600)
    assert budget_of(plan, Resource.MEMORY).kept is KeptReason.IN_USE  # what is in use is not known
    known = budgeted(memory=wanted(64 * MIB, in_use=MIB), resources=requirements(1000, 200 * MIB, 1000, 200 * MIB))
    both = replace(
        known,
        containers=(known.containers[0], needs("proxy", wanted(100, 200), wanted(MIB, in_use=MIB))),
    )
    share = budget_of(node(both).plan(), Resource.MEMORY)
    assert (share.applied, share.limit_applied) == (65 * MIB, 65 * MIB)


def test_a_budget_s_limit_that_would_restart_a_container_stays() -> None:
    restarting = replace(container("app"), restarts_for_cpu=True)
    base = budgeted(wanted(2000), resources=requirements(1000, cpu_limit=1500))
    pod = replace(base.pod, containers=(restarting, base.pod.containers[1]))
    share = budget_of(node(replace(base, pod=pod)).plan())
    assert (share.applied, share.limit_applied) == (1499, 1500)
    whole = requirements(1000, 200 * MIB, 1000, 200 * MIB)
    guaranteed = replace(base, pod=replace(pod, resources=whole))
    assert budget_of(node(guaranteed).plan()).kept is KeptReason.RESTART_POLICY
    allowed = replace(guaranteed, orders=replace(guaranteed.orders, is_restart_allowed=True))
    assert budget_of(node(allowed).plan()).applied == 2200


# Steps.


def test_what_falls_comes_before_what_rises_into_its_room() -> None:
    big = app("z", 100, containers=[container(cpu=900, memory=64 * MIB)])
    plan = node(big, app("a", 300), cpu=1000).plan()
    assert order(plan) == [("shrink", "z"), ("grow", "a")]
    assert [step.reason for step in plan.steps] == [
        "it requests more than it needs",
        "what it needs, and its share of the node's spike",
    ]


def test_a_pod_that_falls_and_rises_takes_one_step_where_room_is_free_and_two_where_not() -> None:
    both = pod_demand("a", demands=[needs("app", wanted(300), wanted(32 * MIB))])
    plan = node(both).plan()
    assert [(step.phase, len(step.changes)) for step in plan.steps] == [(Phase.SHRINK, 2)]
    assert plan.steps[0].reason == "more of one and less of another, by what it needs and its share of the node's spike"
    other = app("b", 100, containers=[container(cpu=900, memory=64 * MIB)])
    plan = node(both, other, cpu=1000).plan()
    assert order(plan) == [("shrink", "a"), ("shrink", "b"), ("grow", "a")]


def test_an_urgent_step_into_free_room_is_the_first_of_all() -> None:
    big = app("a", 100, containers=[container(cpu=900, memory=64 * MIB)])
    plan = node(big, app("z", 300, is_urgent=True)).plan()
    assert order(plan) == [("grow", "z"), ("shrink", "a")]
    waiting = node(big, app("y", 200), app("z", 300, is_urgent=True), cpu=1100).plan()
    assert order(waiting) == [("shrink", "a"), ("grow", "z"), ("grow", "y")]


def test_free_room_is_given_away_once_and_the_next_urgent_pod_waits_for_what_falls() -> None:
    big = app("a", 100, containers=[container(cpu=900, memory=64 * MIB)])
    urgent = [app(name, 300, is_urgent=True) for name in "yz"]
    # 1100 are held and 300 are free: enough for one growth by 200.
    assert order(node(big, *urgent, cpu=1400).plan()) == [("grow", "y"), ("shrink", "a"), ("grow", "z")]


def test_memory_grows_before_cpu_alone() -> None:
    more = pod_demand("z", demands=[needs("app", CPU, wanted(128 * MIB))])
    assert order(node(app("a", 300), more).plan()) == [("grow", "z"), ("grow", "a")]


@pytest.mark.parametrize(
    ("short", "words"),
    [(MemoryShort.HELD, "held back at memory.high"), (MemoryShort.STALLED, "wait for memory at its limit")],
)
def test_the_memory_limit_alone_of_who_is_short_by_it_is_raised_first_and_in_cool_down(
    short: MemoryShort, words: str
) -> None:
    memory = wanted(64 * MIB, is_urgent=True, short=short, limit=256 * MIB)
    held = limited(memory=memory, memory_limit=128 * MIB)
    other = app("a", 300)
    plan = node(other, held, constraints={"uid-web": Constraint(grow=KeptReason.COOL_DOWN)}).plan()
    assert [(step.ref.name, step.phase, step.is_urgent) for step in plan.steps] == [
        ("web", Phase.GROW, True),
        ("a", Phase.GROW, False),
    ]
    assert told(plan.steps[0]) == [("app", "memory", "limit", 128 * MIB, 256 * MIB)]
    assert words in plan.steps[0].reason


def test_who_is_short_of_memory_and_only_shrinks_otherwise_is_told_as_ever() -> None:
    memory = wanted(64 * MIB, is_urgent=True, short=MemoryShort.HELD, limit=128 * MIB)
    plan = node(limited(wanted(50), memory, memory_limit=128 * MIB)).plan()
    assert [(step.phase, step.reason) for step in plan.steps] == [(Phase.SHRINK, "it requests more than it needs")]


def test_no_step_changes_the_limit_alone_of_an_urgent_pod_first() -> None:
    urgent = limited(wanted(100, is_urgent=True), cpu_limit=200)
    plan = node(urgent).plan()
    assert [(step.phase, step.is_urgent) for step in plan.steps] == [(Phase.GROW, False)]
    assert plan.steps[0].changes[0].setting is Setting.LIMIT


# Doubt.


def test_without_a_node_there_is_a_plan_to_look_at_and_nothing_to_do() -> None:
    situation = node(app("a", 300))
    plan = situation.plan_of(NodeState(node=None, pods=situation.state.pods))
    assert (plan.node, plan.steps, plan.evictions) == ("", (), ())
    assert plan.notes == ("nothing is done: the node is not known",)
    assert plan.is_sound


def test_a_node_that_tells_no_allocatable_is_not_touched() -> None:
    situation = node(app("a", 300))
    known = situation.state.node
    assert known is not None
    plan = situation.plan_of(replace(situation.state, node=replace(known, allocatable={})))
    assert plan.notes == ("nothing is done: the node does not tell what it can allocate",)
    assert plan.steps == ()


def test_what_is_not_complete_or_not_understood_stops_every_step() -> None:
    situation = node(app("a", 300))
    state = replace(situation.state, is_complete=False, unreadable_pods=("shop/x: why", "shop/y: why"))
    plan = situation.plan_of(state)
    assert plan.steps == ()
    assert plan.notes == (
        "nothing is done: not everything about the node has been read yet",
        "nothing is done: pods are not understood, and nobody can count what they hold: shop/x: why; shop/y: why",
    )
    many = replace(situation.state, unreadable_pods=tuple("abcde"))
    assert situation.plan_of(many).notes[0].endswith("hold: a; b; c and 2 more")


def test_a_plan_that_breaks_its_own_invariants_is_not_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(plan: Plan, state: NodeState) -> Examination:
        invariants = (
            Invariant(name="one", holds=True),
            Invariant(name="two", holds=False, detail="here"),
            Invariant(name="three", holds=False),
        )
        return Examination(invariants=invariants, pods={})

    monkeypatch.setattr(planner, "examine", found)
    plan = crowded().plan()
    assert (plan.steps, plan.evictions, plan.is_sound) == ((), (), False)
    assert plan.notes[-1] == (
        "nothing is done: the plan breaks its own invariants, which is a fault of Plimsoll: two (here); three"
    )


def test_an_empty_node_has_an_empty_plan() -> None:
    plan = node().plan()
    assert (plan.pods, plan.steps, plan.cpu.headroom, plan.is_sound) == ((), (), 0, True)


# What was seen in the last seconds.


def burst(name: str, base: int, seen: int, *, request: int = 700, spike: int = 100, **fields: Any) -> Any:
    """Return a pod that needs some CPU, and has wanted much more in the last seconds."""
    cpu = wanted(seen, seen, is_urgent=True, sustained=base, sustained_peak=base + spike)
    return pod_demand(
        name, containers=[container(cpu=request, memory=64 * MIB)], demands=[needs("app", cpu, MEMORY)], **fields
    )


def calm_pod(name: str, base: int = 700, peak: int = 800, request: int = 700, **fields: Any) -> Any:
    return app(name, base, peak, containers=[container(cpu=request, memory=64 * MIB)], **fields)


def test_a_burst_makes_nobody_go_and_is_given_what_is_left() -> None:
    # Five bases of 700 and a spike of 100, of which each has 20, leave 900 of 4500; p0 wants 2000.
    plan = node(burst("p0", 700, 2000), *(calm_pod(f"p{place}") for place in range(1, 5)), cpu=4500).plan()
    assert plan.evictions == ()
    share = cpu_of(plan, "p0")
    assert (share.base, share.headroom, share.urgent, share.final, share.peak) == (700, 20, 900, 1620, 2000)
    assert (share.applied, share.kept) == (1620, KeptReason.NODE_FULL)
    assert [cpu_of(plan, f"p{place}").final for place in range(1, 5)] == [720] * 4
    assert plan.cpu.final_total == plan.cpu.available == 4500
    assert plan.is_sound


def test_a_burst_of_which_all_fits_is_given_all_and_nobody_is_told_that_the_node_is_full() -> None:
    share = cpu_of(node(burst("p0", 700, 2000)).plan(), "p0")
    assert (share.final, share.applied, share.kept, share.urgent) == (2000, 2000, None, 1200)


def test_what_is_left_is_shared_by_what_is_lacking() -> None:
    # 2 x 300 of 1700: 1100 are left for 1000 and 3000 that are lacking: 27.5 % of each.
    pods = [burst(name, 300, seen, request=300, spike=0) for name, seen in (("a", 1300), ("b", 3300))]
    plan = node(*pods, cpu=1700).plan()
    assert [cpu_of(plan, name).urgent for name in "ab"] == [275, 825]
    assert node(*pods, cpu=600).plan().steps == ()


def test_a_burst_without_room_takes_nothing_from_who_is_short() -> None:
    # It requests 500 more than is sustained, wants more than that, and nothing is left: it keeps what it has.
    plan = node(burst("a", 100, 2000, request=600, spike=0), calm_pod("b", 400, 400, 400), cpu=500).plan()
    share = cpu_of(plan, "a")
    assert (share.final, share.applied, share.kept) == (100, 600, KeptReason.NODE_FULL)


def test_starved_pods_are_granted_as_much_as_the_node_has_now() -> None:
    held = {"uid-big": Constraint(shrink=KeptReason.COOL_DOWN)}
    pods = [calm_pod("big", 100, 100, 800), app("x", 250), app("y", 400, is_urgent=True)]
    plan = node(*pods, cpu=1150, constraints=held).plan()
    # 800 + 100 + 100 are held: 150 are free, of 300 that y wants; nothing is left for x.
    assert order(plan) == [("grow", "y")]
    share = cpu_of(plan, "y")
    assert (share.final, share.applied, share.kept) == (400, 250, KeptReason.NODE_FULL)
    rounded = node(*pods, cpu=1150, constraints=held, bounds=replace(EXACT, round_cpu_millicores=20)).plan()
    assert cpu_of(rounded, "y").applied == 240
    # Not for less than the smallest change.
    little = node(*pods, cpu=1040, constraints=held, bounds=replace(EXACT, smallest_cpu_change_millicores=41)).plan()
    assert little.steps == ()


def test_daemon_sets_grow_into_what_a_burst_leaves() -> None:
    # Bases of 300 and 100 leave 600 of 1000; the burst takes 400 of them.
    plan = node(burst("a", 300, 700, request=300, spike=0), daemon("d", 100, 900), cpu=1000).plan()
    assert (cpu_of(plan, "a").final, cpu_of(plan, "d").final) == (700, 300)
    assert plan.is_sound


def test_a_part_is_given_to_the_units_that_are_urgent_one_after_the_other() -> None:
    containers = [container(name, cpu=100, memory=MIB) for name in "abc"]
    demands = [
        needs("a", wanted(300), wanted(MIB)),
        needs("b", wanted(200, is_urgent=True), wanted(MIB)),
        needs("c", wanted(300, is_urgent=True), wanted(MIB)),
    ]
    held = {"uid-big": Constraint(shrink=KeptReason.COOL_DOWN)}
    pods = [calm_pod("big", 100, 100, 800), pod_demand("w", containers=containers, demands=demands)]
    plan = node(*pods, cpu=1250, constraints=held).plan()
    shares = [cpu_of(plan, "w", place) for place in range(3)]
    assert [share.applied for share in shares] == [100, 200, 150]
    assert [share.kept for share in shares] == [KeptReason.NODE_FULL, None, KeptReason.NODE_FULL]


def test_a_part_below_the_floor_of_an_init_container_costs_nothing() -> None:
    init = container("setup", kind=ContainerKind.INIT, cpu=250, memory=MIB)
    sidecar = container("log", kind=ContainerKind.SIDECAR, cpu=50, memory=MIB)
    last = container("last", kind=ContainerKind.INIT, cpu=120, memory=MIB)
    demands = [
        needs("log", wanted(200, is_urgent=True), wanted(MIB), ContainerKind.SIDECAR),
        needs("app", wanted(800, is_urgent=True), MEMORY),
    ]
    held = {"uid-big": Constraint(shrink=KeptReason.COOL_DOWN)}
    pods = [
        calm_pod("big", 100, 100, 900),
        pod_demand("w", containers=[init, sidecar, last, container()], demands=demands),
    ]
    plan = node(*pods, cpu=1150, constraints=held).plan()
    # The pod holds 250 for its first init container: up to that both may grow, whatever is lacking otherwise. The
    # sidecar also runs beside the last one.
    assert [cpu_of(plan, "w", place).applied for place in range(2)] == [130, 120]
    assert plan.is_sound


def test_a_burst_of_a_while_ago_takes_part_in_sharing_and_makes_nobody_go() -> None:
    cpu = wanted(500, 2000, sustained=500, sustained_peak=600)
    plan = node(pod_demand("a", demands=[needs("app", cpu, MEMORY)]), app("b", 300, 600), cpu=1200).plan()
    # 400 are left above the bases, for spikes of 1500 and 300.
    assert plan.evictions == ()
    assert [cpu_of(plan, name).final for name in "ab"] == [833, 367]
    assert (plan.cpu.spike_largest, plan.cpu.headroom) == (1500, 400)


def test_a_peak_that_is_not_told_apart_is_as_far_above_what_is_sustained_as_above_the_base() -> None:
    cpu = wanted(2000, 2300, is_urgent=True, sustained=500)
    share = cpu_of(node(pod_demand("a", demands=[needs("app", cpu, MEMORY)]), cpu=1000).plan(), "a")
    assert (share.base, share.spike, share.final) == (500, 300, 1000)


def test_what_was_seen_without_a_prediction_is_given_as_far_as_there_is_room_and_counts_no_less_later() -> None:
    cpu = wanted(900, 900, is_urgent=True, is_upward_only=True, sustained=100, sustained_peak=100)
    situation = node(pod_demand("a", demands=[needs("app", cpu, MEMORY)]), calm_pod("b", 300, 300, 300), cpu=800)
    plan = situation.plan()
    assert (cpu_of(plan, "a").base, cpu_of(plan, "a").final) == (100, 500)
    again = situation.after(plan.steps).plan()
    assert (cpu_of(again, "a").base, cpu_of(again, "a").final, again.steps) == (500, 500, ())
    assert again.evictions == ()


def test_a_burst_makes_no_small_change_worth_making() -> None:
    pods = [calm_pod("a", 92, 92, 100), burst("b", 100, 900, request=100, spike=0)]
    plan = node(*pods, cpu=500, bounds=BoundsOptions()).plan()
    assert cpu_of(plan, "a").kept is KeptReason.SMALL_CHANGE
    # 500 - 92 - 100 are left for it, and 8 of them are held by a.
    assert (cpu_of(plan, "b").final, cpu_of(plan, "b").applied) == (408, 400)


def test_a_memory_limit_that_presses_makes_nobody_go_where_it_is_the_request_as_well() -> None:
    memory = wanted(100 * MIB, is_urgent=True, limit=400 * MIB, sustained=90 * MIB, sustained_limit=0)
    pods = [limited(memory=memory, memory_limit=64 * MIB), app("b")]
    plan = node(*pods, memory=300 * MIB).plan()
    assert plan.evictions == ()
    share = memory_of(plan)
    assert (share.base, share.applied, share.limit_applied) == (90 * MIB, 236 * MIB, 236 * MIB)


def test_a_burst_of_a_budget_s_container_is_the_budget_s() -> None:
    seen = wanted(3000, is_urgent=True, sustained=300, sustained_peak=500)
    share = budget_of(node(budgeted(seen), cpu=2000).plan())
    # 300 + 100 are sustained, and 200 once; 3000 + 100 press.
    assert (share.base, share.spike, share.final, share.urgent) == (400, 200, 2000, 1400)
    assert share.kept is KeptReason.NODE_FULL


# What cannot be.


@pytest.mark.parametrize("resources", [requirements(1000), requirements(memory=256 * MIB), requirements()])
def test_a_pod_with_a_budget_is_left_alone_by_servers_that_cannot_resize_budgets(resources: Requirements) -> None:
    demand = budgeted(memory=wanted(128 * MIB), resources=resources)
    plan = node(demand, gates=replace(OPEN, pod_level_resize=False)).plan()
    assert plan.steps == ()
    every = pod_of(plan, "web")
    shares = [
        share
        for part in (*every.containers, *((every.budget,) if every.budget else ()))
        for share in (part.cpu, part.memory)
    ]
    assert {share.kept for share in shares if share is not None} == {KeptReason.TOO_OLD}
    assert all(share.final == share.request for share in shares if share is not None)
    assert node(demand).plan().steps != ()


def test_no_memory_limit_is_raised_above_what_the_node_has() -> None:
    leaking = limited(memory=wanted(64 * MIB, limit=1 << 50), memory_limit=128 * MIB)
    assert memory_of(node(leaking, memory=512 * MIB).plan()).limit_applied == 512 * MIB
    beyond = limited(memory=wanted(64 * MIB, limit=1 << 50), memory_limit=1024 * MIB)
    assert node(beyond, memory=512 * MIB).plan().steps == ()  # it stays where it is


def test_changes_of_a_step_come_in_the_order_of_the_spec() -> None:
    sidecar = container("log", kind=ContainerKind.SIDECAR, cpu=100, memory=64 * MIB)
    demands = [
        needs("app", wanted(150), wanted(32 * MIB)),
        needs("log", wanted(40), wanted(96 * MIB), ContainerKind.SIDECAR),
    ]
    (step,) = node(pod_demand(containers=[sidecar, container("app")], demands=demands)).plan().steps
    assert [change.container for change in step.changes] == ["log", "log", "app", "app"]


# One rule for both: never below what is in use, and no limit falls before its container was measured for long enough.


def test_more_memory_in_use_than_the_most_allowed_keeps_what_is_in_use_and_is_told() -> None:
    memory = wanted(600 * MIB, held=600 * MIB)
    pod = pod_demand(
        containers=[container(cpu=100, memory=1024 * MIB)],
        demands=[needs("app", CPU, memory)],
        order={"max_memory_bytes": 128 * MIB},
    )
    plan = node(pod).plan()
    (change,) = plan.steps[0].changes
    assert (change.before, change.after) == (1024 * MIB, 600 * MIB)
    assert plan.notes == (
        "shop/web app: more memory is in use, or its fixed heap, than the most allowed, so it keeps that",
    )
    many = [replace(pod, pod=replace(pod.pod, uid=f"u{place}", name=f"p{place}")) for place in range(7)]
    assert node(*many, memory=8192 * MIB).plan().notes[-1] == "2 more containers use more memory so"


@pytest.mark.parametrize("is_pod_level", [False, True])
def test_a_young_guaranteed_pod_keeps_its_memory_limit_and_an_older_one_does_not(*, is_pod_level: bool) -> None:
    def limit_after(*, is_young: bool) -> int | None:
        memory = wanted(64 * MIB, in_use=10 * MIB, is_limit_young=is_young)
        stated = requirements(100, 512 * MIB, 100, 512 * MIB)
        inside = (
            container() if is_pod_level else container(cpu=100, memory=512 * MIB, cpu_limit=100, memory_limit=512 * MIB)
        )
        pod = pod_demand(
            containers=[inside],
            demands=[needs("app", CPU, memory)],
            order={"is_guaranteed_allowed": True},
            pod={"resources": stated} if is_pod_level else {},
        )
        plan = node(pod).plan()
        part = plan.pods[0].budget if is_pod_level else plan.pods[0].containers[0]
        assert part is not None
        assert part.memory is not None
        assert part.memory.kept is (KeptReason.UPWARD_ONLY if is_young else None)
        return part.memory.limit_applied

    assert limit_after(is_young=True) == 512 * MIB
    assert limit_after(is_young=False) == 64 * MIB


# Runtimes


def of_java(**profile: Any) -> Any:
    """Return a pair of 64 MiB that would fall to 32 MiB."""
    runtime = RuntimeProfile(runtime=LanguageRuntime.JAVA, **profile)
    whole = container(cpu=100, memory=64 * MIB, memory_limit=64 * MIB, runtime=runtime)
    down = wanted(10 * MIB, limit=32 * MIB, in_use=MIB)
    return pod_demand(containers=[whole], demands=[needs("app", wanted(100), down)])


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ({"limit_share_ratio": 0.25}, (64 * MIB, KeptReason.READ_AT_START, KeptReason.READ_AT_START)),
        (
            {"heap_bytes": 30 * MIB},
            (64 * MIB, KeptReason.HEAP, KeptReason.HEAP),
        ),  # 37.5 MiB with a quarter, and 32 are not
        ({"heap_bytes": 20 * MIB}, (32 * MIB, None, None)),
        ({}, (32 * MIB, None, None)),
    ],
)
def test_a_memory_limit_is_not_lowered_below_a_heap_nor_where_it_was_read_at_start(
    profile: dict[str, Any], expected: tuple[int, KeptReason | None, KeptReason | None]
) -> None:
    share = memory_of(node(of_java(**profile)).plan())

    assert (share.applied, share.kept, share.limit_kept) == expected


@pytest.mark.parametrize(
    ("profile", "kept"),
    [
        (None, None),
        (RuntimeProfile(runtime=LanguageRuntime.JAVA, limit_share_ratio=0.25), KeptReason.READ_AT_START),
    ],
)
def test_the_limit_of_a_whole_pod_is_not_lowered_where_one_of_its_containers_read_it(
    profile: RuntimeProfile | None, kept: KeptReason | None
) -> None:
    known = budgeted(memory=wanted(64 * MIB, in_use=MIB), resources=requirements(1000, 200 * MIB, 1000, 200 * MIB))
    app = replace(known.pod.containers[0], runtime=profile)
    demand = replace(
        known,
        pod=replace(known.pod, containers=(app, *known.pod.containers[1:])),
        containers=(known.containers[0], needs("proxy", wanted(100, 200), wanted(MIB, in_use=MIB))),
    )
    share = budget_of(node(demand).plan(), Resource.MEMORY)

    assert (share.kept, share.limit_applied) == (kept, 200 * MIB if kept else 65 * MIB)


def test_a_limit_that_would_fall_had_it_not_been_read_at_start_says_why_it_stays() -> None:
    for is_read, reason in ((True, KeptReason.READ_AT_START), (False, None)):
        down = wanted(32 * MIB, in_use=MIB, is_limit_read=is_read)
        share = memory_of(node(limited(memory=down, memory_limit=128 * MIB)).plan())
        assert (share.applied, share.limit_applied, share.limit_kept) == (32 * MIB, 128 * MIB, reason)


def test_who_is_short_grows_at_once_to_what_is_left_beside_an_init_container() -> None:
    # The pod holds 500 for its init container. Bases are 200 and 100, the headroom is the spike of 500, so the finals
    # are 800 and leave 400 of 1200; with those the bases are 700, and beside the spike they fit as well.
    init = container("setup", kind=ContainerKind.INIT, cpu=500, memory=MIB)
    short = wanted(1000, sustained=100, sustained_peak=100, is_urgent=True, is_upward_only=True)
    situation = node(
        pod_demand(
            containers=[init, container(cpu=200, memory=MIB), container("new", cpu=100, memory=MIB)],
            demands=[needs("app", wanted(200, 700), wanted(MIB)), needs("new", short, wanted(MIB))],
        ),
        cpu=1200,
    )
    plan = situation.plan()
    assert [cpu_of(plan, place=place).applied for place in range(2)] == [700, 500]
    assert plan.is_sound
    assert situation.after(plan.steps).plan().steps == ()
