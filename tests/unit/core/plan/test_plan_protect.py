"""Mode protect: who is short is given more, nothing is lowered, nobody goes; what could be saved is told."""

from __future__ import annotations

from typing import Any

import pytest

from agent.core.cluster.pod import ContainerKind, ContainerStatus
from agent.core.cluster.resource import Resource
from agent.core.numbers.units import MIB, NANOS_PER_MILLI
from agent.core.orders.container_policies import container_policies_of
from agent.core.orders.order import Mode
from agent.core.orders.plan_options import DaemonSetGrowth, PlanOptions
from agent.core.orders.policy_options import PolicyName
from agent.core.plan.needs.demand import Constraint, ContainerDemand, Demand, KeptReason, PodDemand, ReservedReason
from agent.core.plan.plan import Phase, Plan, Share
from agent.core.plan.possible_savings import PossibleSavings, possible_savings
from tests.planning import (
    EXACT,
    Situation,
    container,
    lowered,
    needs,
    node,
    pod_demand,
    protected,
    requirements,
    situation_of,
    wanted,
)

PROTECT = {"mode": Mode.PROTECT}
KILLED = {"uid-web": Constraint(killed=frozenset({"app"}))}


def web(cpu: Demand | None = None, memory: Demand | None = None, **fields: Any) -> PodDemand:
    """Return a pod in mode protect; it requests 1000m and 512 MiB unless told."""
    stated = fields.pop("stated", {"cpu": 1000, "memory": 512 * MIB})
    order = {**PROTECT, **fields.pop("order", {})}
    return pod_demand(containers=[container(**stated)], demands=[needs("app", cpu, memory)], order=order, **fields)


def short(amount: int, **fields: Any) -> Demand:
    return wanted(amount, is_urgent=True, **fields)


def share_of(plan: Plan, resource: Resource = Resource.CPU, name: str = "web") -> Share:
    [pod] = [pod for pod in plan.pods if pod.ref.name == name]
    parts = (*pod.containers, *(() if pod.budget is None else (pod.budget,)))
    share: Share | None = parts[-1].cpu if resource is Resource.CPU else parts[-1].memory
    assert share is not None
    return share


def test_a_fat_pod_stays_and_what_it_could_do_without_is_told() -> None:
    situation = node(web(wanted(100, 300), wanted(64 * MIB, 128 * MIB)))
    plan = situation.plan()
    assert plan.steps == ()
    cpu, memory = share_of(plan), share_of(plan, Resource.MEMORY)
    assert (cpu.final, cpu.applied, cpu.kept, cpu.possible) == (1000, 1000, KeptReason.PROTECT, 300)
    assert (memory.applied, memory.kept, memory.possible) == (512 * MIB, KeptReason.PROTECT, 128 * MIB)
    assert plan.is_sound
    saved = PossibleSavings(cpu_millicores=700, memory_bytes=384 * MIB)
    assert possible_savings(plan, situation.demands, EXACT)[Mode.PROTECT] == saved


def test_a_starved_pod_is_given_what_it_wants_and_keeps_it() -> None:
    situation = node(web(short(1500), wanted(512 * MIB)))
    plan = situation.plan()
    assert [(step.phase, step.is_urgent) for step in plan.steps] == [(Phase.GROW, True)]
    assert (share_of(plan).applied, share_of(plan).urgent) == (1500, 500)
    calm = node(web(wanted(200), wanted(512 * MIB), stated={"cpu": 1500, "memory": 512 * MIB}))
    assert calm.plan().steps == ()


def test_what_is_needed_and_does_not_press_is_left_to_the_next_pod() -> None:
    """No contention, no cause: it is sized upwards when it is created anew."""
    plan = node(web(wanted(1500, 2000), wanted(1024 * MIB))).plan()
    assert plan.steps == ()
    assert share_of(plan).possible is None


def test_growth_takes_free_room_alone_and_makes_nobody_go() -> None:
    fat = pod_demand("fat", containers=[container(cpu=2500)], demands=[needs("app", wanted(2500))])
    plan = node(fat, web(short(3000), stated={"cpu": 1000})).plan()
    assert plan.evictions == ()
    assert share_of(plan).applied == 1500  # 4000 - 2500
    assert share_of(plan).kept is KeptReason.NODE_FULL


def test_who_is_short_gets_the_same_share_of_what_it_needs() -> None:
    pods = [
        pod_demand(name, containers=[container(cpu=1000)], demands=[needs("app", short(4000))], order=PROTECT)
        for name in ("a", "b")
    ]
    plan = node(*pods).plan()
    assert [share_of(plan, name=name).applied for name in ("a", "b")] == [2000, 2000]


def _beside_a_floor(kind: str) -> Situation:
    """Return a node of 1000m: a has 100 and needs 1000; b has 60, needs 300, and holds that for its init container."""
    init = container("start", kind=ContainerKind.INIT, cpu=300, memory=MIB)
    need = wanted(MIB)
    b = pod_demand(
        "b",
        containers=[init, container(cpu=60, memory=MIB)],
        demands=[needs("app", short(300), need)],
        kind=kind,
        order=PROTECT,
    )
    a = pod_demand(
        "a",
        containers=[container(cpu=100, memory=MIB)],
        demands=[needs("app", short(1000), need)],
        kind=kind,
        order=PROTECT,
    )
    return node(a, b, cpu=1000)


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_what_costs_no_room_is_given_on_a_full_node_as_well(kind: str) -> None:
    """a takes all of the 600 that are free, seven tenths of its need; b has the same share, below what it holds anyway.

    Whether a has it already makes no difference.
    """
    situation = _beside_a_floor(kind)
    plan = situation.plan()
    assert [share_of(plan, name=name).applied for name in ("a", "b")] == [700, 210]
    part = situation.after(plan.steps[:1])
    rest = part.plan()
    assert [share_of(rest, name=name).applied for name in ("a", "b")] == [700, 210]
    assert part.after(rest.steps).plan().steps == ()


@pytest.mark.parametrize(("modes", "gone"), [((Mode.PROTECT, Mode.ENFORCE), ["b"]), ((Mode.PROTECT,) * 2, [])])
def test_nobody_in_it_is_proposed_to_go(modes: tuple[Mode, Mode], gone: list[str]) -> None:
    """Of 3900m each has 1900 and needs 2100."""
    both = [
        pod_demand(
            name,
            containers=[container(cpu=1900, memory=64 * MIB)],
            demands=[needs("app", wanted(2100, 2600), wanted(64 * MIB))],
            order={"mode": mode},
        )
        for name, mode in zip(("a", "b"), modes, strict=True)
    ]
    plan = node(*both, cpu=3900).plan()
    assert [eviction.ref.name for eviction in plan.evictions] == gone
    assert {step.ref.name for step in plan.steps} <= set(gone)  # who waits for its eviction gets what is free


def test_a_killed_pod_is_given_memory_and_its_limit_rises() -> None:
    memory = wanted(128 * MIB, 700 * MIB, limit=1400 * MIB)
    stated = {"memory": 512 * MIB, "memory_limit": 600 * MIB}
    still = node(web(memory=memory, stated=stated)).plan()
    assert still.steps == ()
    plan = node(web(memory=memory, stated=stated), constraints=KILLED).plan()
    share = share_of(plan, Resource.MEMORY)
    assert (share.applied, share.limit_applied) == (700 * MIB, 1400 * MIB)


def test_a_limit_is_never_lowered_and_says_so() -> None:
    memory = wanted(128 * MIB, limit=256 * MIB, in_use=64 * MIB)
    plan = node(web(memory=memory, stated={"memory": 512 * MIB, "memory_limit": 600 * MIB})).plan()
    share = share_of(plan, Resource.MEMORY)
    assert (share.limit_applied, share.limit_kept) == (600 * MIB, KeptReason.PROTECT)
    assert plan.steps == ()


def test_a_cpu_limit_is_raised_for_who_starves_alone() -> None:
    stated = {"cpu": 1000, "cpu_limit": 1200}
    assert node(web(wanted(100), stated=stated)).plan().steps == ()
    share = share_of(node(web(short(1500), stated=stated)).plan())
    assert (share.applied, share.limit_applied) == (1500, 4000)
    vpa_share = share_of(node(web(short(1500), stated=stated, order={"policy": PolicyName.VPA})).plan())
    assert (vpa_share.applied, vpa_share.limit_applied) == (1199, 1200)


def test_a_pair_moves_up_together_and_never_down() -> None:
    stated = {"memory": 512 * MIB, "memory_limit": 512 * MIB}
    fat = node(web(memory=wanted(128 * MIB, limit=256 * MIB, in_use=1), stated=stated)).plan()
    assert fat.steps == ()
    grown = share_of(node(web(memory=short(600 * MIB, limit=800 * MIB), stated=stated)).plan(), Resource.MEMORY)
    assert (grown.applied, grown.limit_applied) == (800 * MIB, 800 * MIB)


def test_a_wish_that_is_not_granted_is_no_reason_to_lower() -> None:
    """It counts with what it has, so that others may use the rest; to take the wish back is the ledger's."""
    granted = (ContainerStatus(name="app", allocated={"cpu": 400 * NANOS_PER_MILLI}),)
    for need in (wanted(100), short(600)):
        plan = node(web(need, pod={"statuses": granted}, stated={"cpu": 1000})).plan()
        assert plan.steps == ()
        assert (share_of(plan).applied, share_of(plan).kept) == (1000, KeptReason.PROTECT)
        assert plan.is_sound


@pytest.mark.parametrize(("growth", "applied"), [(DaemonSetGrowth.FITS, 1500), (DaemonSetGrowth.NEVER, 1000)])
def test_daemon_sets_grow_where_they_may(growth: DaemonSetGrowth, applied: int) -> None:
    options = PlanOptions(daemon_set_growth=growth)
    plan = node(web(short(1500), kind="DaemonSet", stated={"cpu": 1000}), options=options).plan()
    assert share_of(plan).applied == applied
    assert plan.is_sound


def test_a_budget_of_the_whole_pod_is_raised_and_not_lowered() -> None:
    def budget(cpu: Demand) -> Situation:
        return node(web(cpu, stated={"cpu": 200}, pod={"resources": requirements(cpu=1000)}))

    assert budget(wanted(100)).plan().steps == ()
    assert share_of(budget(wanted(100)).plan()).possible == 200  # its containers' requests are the least
    assert share_of(budget(short(1500)).plan()).applied == 1500


def test_nothing_is_given_to_who_states_nothing() -> None:
    plan = node(web(short(1500), stated={"memory": 64 * MIB})).plan()
    assert plan.steps == ()


def test_what_others_saw_does_not_make_it_grow() -> None:
    foreseen = wanted(100, foreseen_base=1500, foreseen_peak=2000)
    assert node(web(foreseen, stated={"cpu": 1000})).plan().steps == ()


def test_what_a_pod_does_not_state_saves_nothing() -> None:
    situation = node(web(wanted(100), stated={"cpu": 1000}), pod_demand("bare", containers=[container(memory=MIB)]))
    assert possible_savings(situation.plan(), situation.demands, EXACT)[Mode.PROTECT] == PossibleSavings(
        cpu_millicores=900
    )


def test_mode_recommend_tells_what_it_could_save_too() -> None:
    advised = pod_demand(
        containers=[
            container(cpu=1000, memory=512 * MIB),
            container("new", cpu=100, memory=MIB),
            container("unknown", cpu=100, memory=MIB),
            container("side", kind=ContainerKind.SIDECAR, memory=512 * MIB),
        ],
        demands=[
            needs("app", wanted(100, 300), wanted(600 * MIB)),
            needs("new", wanted(10, is_upward_only=True)),
            ContainerDemand(name="side", kind=ContainerKind.SIDECAR, cpu=wanted(10), memory=wanted(256 * MIB)),
        ],
        order={"mode": Mode.RECOMMEND},
        reserved=ReservedReason.RECOMMEND,
    )
    situation = node(advised, web(wanted(1000), wanted(512 * MIB)))
    savings = possible_savings(situation.plan(), situation.demands, EXACT)
    assert savings == {
        Mode.RECOMMEND: PossibleSavings(cpu_millicores=700, memory_bytes=256 * MIB),
        Mode.PROTECT: PossibleSavings(),
    }


@pytest.mark.parametrize(
    ("fields", "saved"),
    [
        ({}, (900, 448)),
        ({"is_cpu_frozen": True}, (0, 448)),
        ({"is_memory_frozen": True, "memory_frozen_containers": ("app",)}, (900, 0)),
        ({"is_cpu_frozen": True, "cpu_frozen_containers": ("proxy",)}, (900, 448)),
        ({"order": {"container_policies": [{"containerName": "app", "mode": "Off"}]}}, (0, 0)),
        ({"order": {"container_policies": [{"containerName": "*", "minAllowed": {"cpu": "400m"}}]}}, (600, 448)),
        ({"pod": {"resources": requirements(2000)}}, (0, 448)),
        ({"pod": {"resources": requirements(memory_limit=1024 * MIB)}}, (900, 0)),
    ],
)
def test_what_would_not_be_lowered_in_mode_enforce_either_saves_nothing(
    fields: dict[str, Any], saved: tuple[int, int]
) -> None:
    order: dict[str, Any] = {"mode": Mode.RECOMMEND, **fields.pop("order", {})}
    if "container_policies" in order:
        order["container_policies"] = container_policies_of(order["container_policies"])
    advised = pod_demand(
        containers=[container(cpu=1000, memory=512 * MIB)],
        demands=[needs("app", wanted(100), wanted(64 * MIB))],
        order=order,
        reserved=ReservedReason.RECOMMEND,
        **fields,
    )
    situation = node(advised)
    savings = possible_savings(situation.plan(), situation.demands, EXACT)[Mode.RECOMMEND]
    assert (savings.cpu_millicores, savings.memory_bytes // MIB) == saved


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_lowered_on_a_random_node(seed: int) -> None:
    """Others are looked at by ``test_plan_properties``, and a million by ``python -m tests.bench.protect``."""
    situation = protected(situation_of(seed))
    assert lowered(situation) == []
