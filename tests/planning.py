"""Nodes to plan: pods with demands, by hand and at random, and what the API and a kubelet make of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final
from zlib import crc32

from hypothesis import strategies as st

from agent.core.cluster.node import Node, NodeState
from agent.core.cluster.pod import CPU, MEMORY, Container, ContainerKind, ContainerStatus, Pod, Requirements
from agent.core.cluster.qos import computed_qos_class
from agent.core.cluster.versions import Gates
from agent.core.cluster.workload import Workload
from agent.core.numbers.units import MIB, NANOS_PER_MILLI, NANOS_PER_UNIT
from agent.core.orders.order import Mode, Orders, OrderSource, Ranking
from agent.core.orders.plan_options import DaemonSetGrowth, FitRule, PlanOptions
from agent.core.orders.policy_options import BoundsOptions, PolicyName
from agent.core.plan.needs.demand import (
    FREE,
    Constraint,
    ContainerDemand,
    Demand,
    KeptReason,
    PodDemand,
    ReservedReason,
)
from agent.core.plan.node_room import counted, holds_room
from agent.core.plan.plan import Plan, PlanStep
from agent.core.plan.planner import build
from agent.core.plan.pod_change import actuated, changed_pod
from agent.core.plan.pod_facts import PodFactsCache
from agent.core.recommender.policy import SeenTogether

OPEN: Final = Gates(resize=True, memory_limit_down=True, pod_level_resize=True, init_containers=True)
JOINT_SECONDS: Final = 1_700_000_000.0
"""When containers were seen to demand most together."""
EXACT: Final = BoundsOptions(
    min_memory_bytes=MIB,
    smallest_cpu_change_millicores=0,
    smallest_memory_change_bytes=0,
    smallest_change_ratio=0.0,
)
"""Every change is worth making."""


def amounts(cpu: int | None = None, memory: int | None = None) -> dict[str, int]:
    """Return nanos of millicores and bytes; None = not stated."""
    stated = {}
    if cpu is not None:
        stated[CPU] = cpu * NANOS_PER_MILLI
    if memory is not None:
        stated[MEMORY] = memory * NANOS_PER_UNIT
    return stated


def requirements(
    cpu: int | None = None, memory: int | None = None, cpu_limit: int | None = None, memory_limit: int | None = None
) -> Requirements:
    """Return requests and limits; millicores and bytes."""
    return Requirements(requests=amounts(cpu, memory), limits=amounts(cpu_limit, memory_limit))


def container(name: str = "app", *, kind: ContainerKind = ContainerKind.REGULAR, **stated: Any) -> Container:
    """Return a container; 100m and 64 MiB requested unless told."""
    flags = {
        name: stated.pop(name) for name in ("restarts_for_cpu", "restarts_for_memory", "runtime") if name in stated
    }
    return Container(
        name=name, kind=kind, resources=requirements(**(stated or {"cpu": 100, "memory": 64 * MIB})), **flags
    )


def orders(**fields: Any) -> Orders:
    """Return orders that let a pod be resized; ranking low."""
    known = {
        "mode": Mode.ENFORCE,
        "mode_source": OrderSource.CONFIGURATION,
        "policy": PolicyName.CRUISE,
        "policy_source": OrderSource.CONFIGURATION,
        "ranking": Ranking.LOW,
        "ranking_source": OrderSource.CONFIGURATION,
    }
    return Orders(**{**known, **fields})


def wanted(base: int, peak: int | None = None, **fields: Any) -> Demand:
    """Return a demand; the peak is the base unless told."""
    return Demand(base=base, peak=base if peak is None else peak, **fields)


def needs(
    name: str = "app",
    cpu: Demand | None = None,
    memory: Demand | None = None,
    kind: ContainerKind = ContainerKind.REGULAR,
) -> ContainerDemand:
    """Return what a container needs; None = not known."""
    return ContainerDemand(name=name, kind=kind, cpu=cpu, memory=memory)


def pod_demand(
    name: str = "web",
    *,
    containers: Sequence[Container] | None = None,
    demands: Iterable[ContainerDemand] = (),
    kind: str = "Deployment",
    reserved: ReservedReason | None = None,
    ranking: Ranking = Ranking.LOW,
    order: Mapping[str, Any] | None = None,
    pod: Mapping[str, Any] | None = None,
    **fields: Any,
) -> PodDemand:
    """Return a running pod of namespace ``shop`` and what it needs."""
    everyone = (container(),) if containers is None else containers
    known: dict[str, Any] = {
        "uid": f"uid-{name}",
        "namespace": "shop",
        "name": name,
        "phase": "Running",
        "containers": tuple(spec for spec in everyone if spec.kind is ContainerKind.REGULAR),
        "init_containers": tuple(spec for spec in everyone if spec.kind is not ContainerKind.REGULAR),
    }
    running_pod = Pod(**{**known, **(pod or {})})
    return PodDemand(
        pod=running_pod,
        workload=Workload(namespace="shop", kind=kind, name=name),
        orders=orders(ranking=ranking, **(order or {})),
        reserved=reserved,
        containers=tuple(demands),
        **fields,
    )


@dataclass(frozen=True, kw_only=True)
class Situation:
    """All that a plan is made from."""

    demands: tuple[PodDemand, ...]
    cpu: int = 4000
    memory: int = 4096 * MIB
    conditions: Mapping[str, str] = field(default_factory=dict)
    constraints: Mapping[str, Constraint] = field(default_factory=dict)
    gates: Gates = OPEN
    options: PlanOptions = field(default_factory=PlanOptions)
    bounds: BoundsOptions = EXACT
    joint_millicores: int | None = None
    """What the containers of which something is known demand together; None = nothing is known of any."""

    @property
    def state(self) -> NodeState:
        node = Node(name="n1", allocatable=amounts(self.cpu, self.memory), conditions=self.conditions)
        return NodeState(node=node, pods=tuple(demand.pod for demand in self.demands))

    def plan(self) -> Plan:
        return self.plan_of(self.state)

    def plan_of(self, state: NodeState, cache: PodFactsCache | None = None) -> Plan:
        return build(
            state,
            self.demands,
            constraints=self.constraints,
            gates=self.gates,
            options=self.options,
            bounds=self.bounds,
            taken_unix_seconds=1.0,
            cache=cache,
            together=None if self.joint_millicores is None else self.together,
        )

    def together(self, bases: Mapping[tuple[str, str], int]) -> SeenTogether | None:
        """Tell what containers demand together; nothing is known of every third, which counts with its base."""
        unknown = sum(base for (uid, name), base in bases.items() if crc32(f"{uid}/{name}".encode()) % 3 == 0)
        return SeenTogether(demand_millicores=float((self.joint_millicores or 0) + unknown), unix_seconds=JOINT_SECONDS)

    def after(self, steps: Iterable[PlanStep], *, is_actuated: bool = True) -> Situation:
        """Return what there is after steps, acted on by the kubelet or only taken by the API."""
        pods = {demand.pod.uid: demand.pod for demand in self.demands}
        for step in steps:
            pod = changed_pod(pods[step.ref.uid], step.changes)
            pods[step.ref.uid] = actuated(pod) if is_actuated else pod
        return replace(self, demands=tuple(replace(demand, pod=pods[demand.pod.uid]) for demand in self.demands))


def node(*demands: PodDemand, **fields: Any) -> Situation:
    """Return a node of 4 cores and 4 GiB with pods."""
    return Situation(demands=demands, **fields)


# At random. Small numbers, so that sums collide and edges are met. Drawn by a seeded generator: hypothesis would need a
# thousand draws for one node, and prefers nodes on which nothing can be done.


def _cpu(random: Random) -> int:
    return random.choice([random.randint(0, 60) * 10, random.randint(0, 600)])


def _memory(random: Random) -> int:
    return random.choice([random.randint(0, 60) * MIB, random.randint(0, 60 * MIB)])


_Amount = Callable[[Random], int]


def _one_in(random: Random, many: int) -> bool:
    return random.randrange(many) == 0


def _demand(random: Random, amount: _Amount) -> Demand | None:
    if _one_in(random, 12):
        return None
    base = amount(random)
    demand = Demand(
        base=base,
        peak=base + (0 if _one_in(random, 4) else amount(random)),
        limit=None if _one_in(random, 2) else amount(random),
        in_use=None if _one_in(random, 4) else amount(random) // 2,
        is_upward_only=_one_in(random, 8),
        is_urgent=_one_in(random, 6),
    )
    return _with_burst(random, demand, amount) if _one_in(random, 4) else demand


def _with_burst(random: Random, demand: Demand, amount: _Amount) -> Demand:
    """Return the demand with what was seen in the last seconds, or, some time later, what is remembered of it."""
    seen = 3 * amount(random)
    is_past = _one_in(random, 3)
    base = demand.base if is_past else max(demand.base, seen)
    return replace(
        demand,
        base=base,
        peak=max(demand.peak, seen),
        is_urgent=not is_past,
        sustained=demand.base,
        sustained_peak=None if _one_in(random, 4) else demand.peak,
        limit=demand.limit if is_past else None if demand.limit is None else max(demand.limit, amount(random)),
        sustained_limit=None if is_past else demand.limit,
    )


def calm(situation: Situation) -> Situation:
    """Return the node as it is without what was seen of late."""

    def calmed(demand: Demand | None) -> Demand | None:
        if demand is None or demand.sustained is None:
            return demand
        lasting = demand.sustained_peak
        if lasting is None:
            lasting = demand.sustained + demand.peak - demand.base
        return replace(
            demand,
            base=demand.sustained,
            peak=lasting,
            limit=demand.limit if demand.sustained_limit is None else demand.sustained_limit,
            is_urgent=False,
            sustained=None,
            sustained_peak=None,
            sustained_limit=None,
        )

    return replace(
        situation,
        demands=tuple(
            replace(
                demand,
                containers=tuple(
                    replace(each, cpu=calmed(each.cpu), memory=calmed(each.memory)) for each in demand.containers
                ),
            )
            for demand in situation.demands
        ),
    )


def _stated(random: Random, amount: _Amount) -> tuple[int | None, int | None]:
    """Return a request and a limit as the API lets them stand: a limit without a request is its own request."""
    if _one_in(random, 8):
        return None, None
    request = amount(random)
    shape = random.randrange(4)
    if shape < 2:
        return request, None
    return request, request if shape == 2 else request + amount(random)


def _container(random: Random, name: str, kind: ContainerKind, *, is_guaranteed: bool) -> Container:
    if is_guaranteed:
        cpu, memory = max(1, _cpu(random)), max(1, _memory(random))
        resources = requirements(cpu, memory, cpu, memory)
    else:
        (cpu_request, cpu_limit), (memory_request, memory_limit) = _stated(random, _cpu), _stated(random, _memory)
        resources = requirements(cpu_request, memory_request, cpu_limit, memory_limit)
    return Container(
        name=name,
        kind=kind,
        resources=resources,
        restarts_for_cpu=_one_in(random, 15),
        restarts_for_memory=_one_in(random, 15),
    )


def _pod_level(random: Random, containers: Sequence[Container]) -> Requirements:
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    for name, amount, nanos in ((CPU, _cpu, NANOS_PER_MILLI), (MEMORY, _memory, NANOS_PER_UNIT)):
        if _one_in(random, 3):
            continue
        request = sum(spec.resources.requests.get(name, 0) for spec in containers) + amount(random) * nanos
        requests[name] = request
        if _one_in(random, 2):
            least = max([request, *(spec.resources.limits.get(name, 0) for spec in containers)])
            limits[name] = least + (0 if _one_in(random, 2) else amount(random) * nanos)
    return Requirements(requests=requests, limits=limits)


def _pod_demand(random: Random, name: str) -> PodDemand:
    is_guaranteed = _one_in(random, 5)
    init_kinds = [
        random.choice([ContainerKind.INIT, ContainerKind.SIDECAR]) for _ in range(random.choice([0, 0, 0, 1, 2]))
    ]
    inits = [
        _container(random, f"i{place}", kind, is_guaranteed=is_guaranteed) for place, kind in enumerate(init_kinds)
    ]
    regular = [
        _container(random, f"c{place}", ContainerKind.REGULAR, is_guaranteed=is_guaranteed)
        for place in range(random.randint(1, 3))
    ]
    pod = Pod(
        uid=f"uid-{name}",
        namespace=random.choice(["blog", "shop"]),
        name=name,
        phase="Running" if not _one_in(random, 12) else random.choice(["Pending", "Succeeded", "Failed", None]),
        containers=tuple(regular),
        init_containers=tuple(inits),
        resources=_pod_level(random, [*inits, *regular]) if _one_in(random, 5) else None,
        overhead=amounts(_cpu(random), _memory(random)) if _one_in(random, 8) else {},
    )
    qos = computed_qos_class(pod)
    pod = replace(pod, recorded_qos=random.choice([None, qos, qos, qos]))
    if _one_in(random, 2):
        pod = replace(pod, statuses=_settled(pod))
    demands = [
        ContainerDemand(name=spec.name, kind=spec.kind, cpu=_demand(random, _cpu), memory=_demand(random, _memory))
        for spec in pod.sized_containers()
        if spec.kind is not ContainerKind.INIT and not _one_in(random, 20)
    ]
    return PodDemand(
        pod=pod,
        workload=Workload(
            namespace=pod.namespace,
            kind=random.choice(["Deployment", "Deployment", "StatefulSet", "DaemonSet"]),
            name=name,
        ),
        orders=orders(
            mode=Mode.RECOMMEND if _one_in(random, 15) else Mode.ENFORCE,
            ranking=random.choice([*Ranking]),
            policy=random.choice([PolicyName.CRUISE, PolicyName.VPA]),
            min_cpu_millicores=random.randint(1, 300) if _one_in(random, 6) else None,
            max_cpu_millicores=random.randint(1, 600) if _one_in(random, 6) else None,
            min_memory_bytes=random.randint(1, 40) * MIB if _one_in(random, 6) else None,
            max_memory_bytes=random.randint(1, 60 * MIB) if _one_in(random, 6) else None,
            is_restart_allowed=_one_in(random, 4),
            is_guaranteed_allowed=True,
        ),
        reserved=ReservedReason.PINNED if _one_in(random, 12) else None,
        containers=tuple(demands),
        is_cpu_frozen=_one_in(random, 15),
        is_memory_frozen=_one_in(random, 15),
        is_shrink_barred=_one_in(random, 12),
    )


def _settled(pod: Pod) -> tuple[ContainerStatus, ...]:
    """Return statuses of a pod that the kubelet has acted on, in another order than the spec's."""
    return tuple(
        ContainerStatus(name=spec.name, allocated=spec.resources.requests)
        for spec in reversed([*pod.sized_containers()])
    )


def _constraint(random: Random) -> Constraint:
    return Constraint(
        shrink=random.choice([None, KeptReason.COOL_DOWN, KeptReason.IN_FLIGHT]),
        grow=random.choice([None, KeptReason.COOL_DOWN, KeptReason.IN_FLIGHT]),
        urgent_grow=random.choice([None, None, KeptReason.IN_FLIGHT]),
        cpu_below_millicores=random.randint(1, 1500) if _one_in(random, 3) else None,
        memory_below_bytes=random.randint(1, 200 * MIB) if _one_in(random, 3) else None,
    )


def situation_of(seed: int) -> Situation:
    """Return a node with all kinds of pods; some do not hold what they have, and some cannot be helped."""
    random = Random(seed)
    names = [f"p{place}" for place in range(random.randint(0, 7))]
    demands = tuple(_pod_demand(random, name) for name in names)
    held = [counted(demand.pod) for demand in demands if holds_room(demand.pod)]
    is_exact = _one_in(random, 2)
    return Situation(
        demands=demands,
        cpu=int(sum(cpu for cpu, _ in held) * random.uniform(0.6, 2.0)) + random.randint(0, 400),
        memory=int(sum(memory for _, memory in held) * random.uniform(0.6, 2.0)) + random.randint(0, 40) * MIB,
        conditions={"MemoryPressure": "True" if _one_in(random, 8) else "False"},
        constraints={f"uid-{name}": _constraint(random) for name in names if _one_in(random, 5)},
        gates=Gates(
            resize=not _one_in(random, 20),
            memory_limit_down=not _one_in(random, 4),
            pod_level_resize=not _one_in(random, 4),
            init_containers=True,
        ),
        options=PlanOptions(
            fit_rule=FitRule.LITERAL if _one_in(random, 6) else FitRule.SHARED,
            daemon_set_growth=random.choice([*DaemonSetGrowth]),
            memory_applied=not _one_in(random, 8),
            cpu_limits_raised=_one_in(random, 2),
            memory_limits_lowered=not _one_in(random, 4),
        ),
        bounds=BoundsOptions(
            min_memory_bytes=random.choice([0, MIB, 16_000_000]),
            round_cpu_millicores=random.choice([1, 5, 10]),
            round_memory_bytes=random.choice([1, MIB]),
            smallest_cpu_change_millicores=0 if is_exact else random.randint(0, 60),
            smallest_memory_change_bytes=0 if is_exact else random.randint(0, 20 * MIB),
            smallest_change_ratio=0.0 if is_exact else random.choice([0.0, 0.05, 0.3]),
        ),
        joint_millicores=random.choice([None, 0, random.randint(0, 1500), random.randint(0, 6000)]),
    )


def protected(situation: Situation) -> Situation:
    """Return the node with each pod that is sized in mode protect instead; every third was killed lately."""
    killed = {
        demand.pod.uid: frozenset(spec.name for spec in demand.pod.containers)
        for demand in situation.demands[::3]
        if demand.orders.mode is Mode.ENFORCE
    }
    return replace(
        situation,
        demands=tuple(
            replace(demand, orders=replace(demand.orders, mode=Mode.PROTECT))
            if demand.orders.mode is Mode.ENFORCE
            else demand
            for demand in situation.demands
        ),
        constraints={
            uid: replace(situation.constraints.get(uid, FREE), killed=killed.get(uid, frozenset()))
            for uid in situation.constraints.keys() | killed.keys()
        },
    )


def lowered(situation: Situation) -> list[str]:
    """Return what a plan would lower, and whom it would evict, of pods in mode protect; and where it is not sound.

    A pod that was left out because an invariant did not hold for it counts too: the invariants would hide the fault.
    """
    plan = situation.plan()
    modes = {pod.ref.uid: pod.mode for pod in plan.pods}
    return [
        *(f"unsound: {invariant.name} {invariant.detail}" for invariant in plan.invariants if not invariant.holds),
        *(note for note in plan.notes if " does not hold for it " in note),
        *(f"{eviction.ref} is evicted" for eviction in plan.evictions if modes[eviction.ref.uid] is Mode.PROTECT),
        *(
            f"{step.ref} {change}"
            for step in plan.steps
            if modes[step.ref.uid] is Mode.PROTECT
            for change in step.changes
            if change.after <= change.before
        ),
    ]


def situations() -> st.SearchStrategy[Situation]:
    """Return nodes at random; a failure names its seed."""
    return st.integers(0, 2**32 - 1).map(situation_of)
