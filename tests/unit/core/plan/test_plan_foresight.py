"""What other nodes saw of a container raises its request where there is room, and moves nobody else."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from agent.core.numbers.units import MIB
from agent.core.orders.plan_options import DaemonSetGrowth, PlanOptions
from agent.core.plan.needs.demand import Constraint, Demand, KeptReason, PodDemand
from agent.core.plan.plan import Plan
from tests.planning import Situation, container, needs, node, pod_demand, situation_of, wanted

TERABYTES = 10**13


def told(demand: Demand, base: int, peak: int | None = None) -> Demand:
    """Return a demand of which others saw more."""
    return replace(demand, foreseen_base=base, foreseen_peak=base if peak is None else peak)


def web(cpu: Demand, memory: Demand, **fields: object) -> PodDemand:
    return pod_demand("web", demands=[needs("app", cpu, memory)], **fields)  # type: ignore[arg-type]


GROWING = [pod_demand(f"p{place}", demands=[needs("app", wanted(200), wanted(200 * MIB))]) for place in range(3)]
CPU, MEMORY = wanted(100), wanted(64 * MIB)


def of_web(plan: Plan) -> tuple[int | None, int | None]:
    (pod,) = [candidate for candidate in plan.pods if candidate.ref.name == "web"]
    cpu, memory = pod.containers[0].cpu, pod.containers[0].memory
    assert cpu is not None
    assert memory is not None
    return cpu.applied, memory.applied


@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_a_peak_elsewhere_beyond_all_measure_evicts_nobody_and_stops_nobody_s_growth(resource: str) -> None:
    cpu = told(CPU, 100, 128_000) if resource == "cpu" else CPU
    memory = told(MEMORY, TERABYTES) if resource == "memory" else MEMORY
    plan, calm = node(web(cpu, memory), *GROWING).plan(), node(web(CPU, MEMORY), *GROWING).plan()
    assert plan.is_sound
    assert (plan.evictions, plan.cpu.is_infeasible, plan.memory.is_infeasible) == ((), False, False)
    others = [step for step in plan.steps if step.ref.name != "web"]
    assert others == [*calm.steps]
    # 4000 - 700 are left of CPU, 4096 - 664 of memory: half of that is the most.
    applied = of_web(plan)
    if resource == "cpu":
        assert 100 < (applied[0] or 0) <= 100 + 3300 // 2
    else:
        assert 64 * MIB < (applied[1] or 0) <= (64 + 3432 // 2) * MIB


def test_where_there_is_room_a_request_is_raised_to_what_others_saw() -> None:
    plan = node(web(told(CPU, 300), told(MEMORY, 256 * MIB))).plan()
    assert of_web(plan) == (300, 256 * MIB)
    again = node(web(told(CPU, 300), told(MEMORY, 256 * MIB)), cpu=4000).after(plan.steps)
    assert again.plan().steps == ()


def test_of_a_peak_elsewhere_a_pod_has_its_share_as_of_any() -> None:
    # The spikes are 200 of its neighbour and 200 that others saw: the largest is shared by halves.
    neighbour = pod_demand("other", demands=[needs("app", wanted(100, 300), MEMORY)])
    plan = node(web(told(CPU, 100, 300), MEMORY), neighbour).plan()
    assert of_web(plan)[0] == 200


def test_a_full_node_gives_nothing_for_it_and_says_so() -> None:
    full = pod_demand("full", containers=[container(cpu=3900, memory=64 * MIB)], demands=[])
    plan = node(web(told(CPU, 300), MEMORY), full).plan()
    assert (of_web(plan)[0], plan.evictions, plan.cpu.is_infeasible) == (100, (), False)


def test_what_one_node_sees_is_granted_first_and_the_foresight_waits() -> None:
    # "held" may not shrink now, so that 4000 - 3000 - 100 - 100 are left for 500 more of its neighbour's own need, and
    # 200 of half of what the plan would leave were "held" to fall.
    held = pod_demand("held", containers=[container(cpu=3400, memory=64 * MIB)], demands=[needs("app", CPU, MEMORY)])
    own = pod_demand("own", demands=[needs("app", wanted(500), MEMORY)])
    situation = node(web(told(CPU, 900), MEMORY), held, own)
    plan = replace(situation, constraints={"uid-held": Constraint(shrink=KeptReason.COOL_DOWN)}).plan()
    assert plan.is_sound
    assert of_web(plan)[0] == 100
    (pod,) = [candidate for candidate in plan.pods if candidate.ref.name == "web"]
    assert pod.containers[0].cpu is not None
    assert pod.containers[0].cpu.kept is KeptReason.NODE_FULL
    assert [step.ref.name for step in plan.steps] == ["own"]


def test_daemon_sets_that_never_grow_do_not_for_it_either_and_limits_bound_it() -> None:
    daemon = web(told(CPU, 300), MEMORY, kind="DaemonSet")
    assert of_web(node(daemon).plan())[0] == 300
    assert of_web(node(daemon, options=PlanOptions(daemon_set_growth=DaemonSetGrowth.NEVER)).plan())[0] == 100
    capped = web(CPU, told(MEMORY, 256 * MIB), containers=[container(cpu=100, memory=64 * MIB, memory_limit=100 * MIB)])
    assert of_web(node(capped).plan())[1] == 100 * MIB - 1
    pair = web(
        CPU,
        replace(told(wanted(64 * MIB, limit=70 * MIB), 80 * MIB), foreseen_limit=160 * MIB),
        containers=[container(cpu=100, memory=64 * MIB, memory_limit=64 * MIB)],
    )
    assert of_web(node(pair).plan())[1] == 160 * MIB


def test_a_limit_is_raised_by_what_others_saw_as_it_takes_no_room() -> None:
    demand = replace(told(wanted(64 * MIB, limit=128 * MIB), 64 * MIB), foreseen_limit=300 * MIB)
    pod = web(CPU, demand, containers=[container(cpu=100, memory=64 * MIB, memory_limit=128 * MIB)])
    (step,) = node(pod).plan().steps
    assert [(change.before, change.after) for change in step.changes] == [(128 * MIB, 300 * MIB)]


@pytest.mark.parametrize("block", range(6))
def test_on_any_node_what_others_saw_makes_nobody_go_and_the_others_grow_as_without_it(block: int) -> None:
    for seed in range(block * 100, (block + 1) * 100):
        calm = situation_of(seed)
        foreseen = _with_foresight(calm, Random(seed))
        plan, before = foreseen.plan(), calm.plan()
        assert [str(invariant) for invariant in plan.invariants if not invariant.holds] == [], seed
        assert [eviction.ref for eviction in plan.evictions] == [eviction.ref for eviction in before.evictions], seed
        assert plan.cpu.is_infeasible == before.cpu.is_infeasible, seed
        assert plan.memory.is_infeasible == before.memory.is_infeasible, seed
        named = {demand.pod.uid for demand in foreseen.demands if demand.pod.name == "p0"}
        assert [_finals(plan, uid) for uid in _uids(plan) - named] == [
            _finals(before, uid) for uid in _uids(plan) - named
        ], seed
        assert foreseen.after(plan.steps).plan().steps == (), seed


def _uids(plan: Plan) -> set[str]:
    return {pod.ref.uid for pod in plan.pods}


def _finals(plan: Plan, uid: str) -> list[tuple[int | None, ...]]:
    (pod,) = [candidate for candidate in plan.pods if candidate.ref.uid == uid]
    shares = [share for part in pod.containers for share in (part.cpu, part.memory) if share is not None]
    return [(share.final, share.applied) for share in shares]


def _with_foresight(situation: Situation, random: Random) -> Situation:
    """Let others have seen any amount of one pod's containers."""

    def seen(demand: Demand | None) -> Demand | None:
        if demand is None or demand.is_upward_only:
            return demand
        base = random.choice([demand.base, demand.base * 3, TERABYTES])
        return told(demand, base, base + random.choice([0, demand.peak, TERABYTES]))

    return replace(
        situation,
        demands=tuple(
            replace(
                demand,
                containers=tuple(
                    replace(each, cpu=seen(each.cpu), memory=seen(each.memory)) for each in demand.containers
                ),
            )
            if demand.pod.name == "p0"
            else demand
            for demand in situation.demands
        ),
    )


def test_who_is_short_now_keeps_what_that_gives_where_the_share_of_a_peak_elsewhere_is_less() -> None:
    # Of the 600 above its base that others saw half would be its share: 400, less than the 600 that it is short of.
    neighbour = pod_demand("other", demands=[needs("app", wanted(100, 700), MEMORY)])
    short = told(wanted(600, 600, sustained=100, sustained_peak=100, is_urgent=True), 100, 700)
    assert of_web(node(web(short, MEMORY), neighbour).plan())[0] == 600
