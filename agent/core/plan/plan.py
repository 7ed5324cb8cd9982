"""The plan of one node, as values: what fits, who gets what, who should go, and the steps in order. Core, pure.

``planner.build`` makes it, ``invariants.check`` states what must hold of it, the agent carries it out.
Millicores for CPU, bytes for memory; whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from agent.core.cluster.pod import ContainerKind, PodRef
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import NodeSums, ResourceSums
from agent.core.numbers.later_field import LATER
from agent.core.orders.order import Mode, Ranking
from agent.core.plan.needs.demand import KeptReason, ReservedReason
from agent.core.plan.pod_change import Change
from agent.core.recommender.recommendation import Withheld

MOST_TOLD_MILLICORES: Final = 10**9
"""In sums for others: no node has more."""
MOST_TOLD_BYTES: Final = 1 << 60


@dataclass(slots=True, kw_only=True)  # not frozen: a thousand are made at once, and that takes twice as long
class Share:
    """One resource of one container (or of a pod's own budget) in the plan."""

    base: int
    """Sustained; what was seen in the last seconds apart."""
    peak: int
    spike: int
    """What it takes part in sharing with, >= 0: peak - base, but for what is urgent."""
    headroom: int
    """Its share of the node's spike headroom."""
    final: int
    """base + headroom, rounded, + urgent: the request to have. base <= final <= peak."""
    request: int | None
    """As the spec states it now; None = not stated."""
    applied: int | None
    """The request after all steps; differs from ``final`` where ``kept`` says why."""
    limit: int | None
    limit_applied: int | None
    """The limit after all steps."""
    kept: KeptReason | None = None
    limit_kept: KeptReason | None = None
    withheld: Withheld | None = None
    """Why there is no prediction; then base, peak and final are the request."""
    urgent: int = 0
    """What it was given of the room that nobody else has a claim to, since it is short now."""
    waits_until_unix_seconds: float | None = None
    """Until when its fall is held, where ``kept`` is ``calm``."""
    has_credit: bool = False
    """Of CPU: starvation is answered within seconds, so that it asks for less and falls calmly."""
    possible: int | None = field(default=None, metadata=LATER)
    """In mode protect: the lower request that would do, which is not set; None = none, or it is not held by that."""


@dataclass(slots=True, kw_only=True)  # not frozen, as Share
class ContainerPlan:
    """One container; None = the resource has no share in the plan (not stated and nothing known)."""

    name: str
    kind: ContainerKind
    cpu: Share | None
    memory: Share | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """One pod bound to the node."""

    ref: PodRef
    workload: Workload
    mode: Mode
    ranking: Ranking
    reserved: ReservedReason | None
    cpu_counted_millicores: int
    """What it holds of the node now, as the scheduler counts: the largest of spec, allocated and actual."""
    memory_counted_bytes: int
    containers: tuple[ContainerPlan, ...] = ()
    budget: ContainerPlan | None = None
    """The pod's own budget where ``spec.resources`` carries a resource; its name is empty."""
    is_evicted: bool = False
    enforce_share: str | None = field(default=None, metadata=LATER)
    """``10 %``: the share of its workload that is enforced; None = all of it is, or nobody by the mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointSpike:
    """The spike of all pods that are planned, as one."""

    amount: int
    """How far they are expected above the sum of their bases at the same time."""
    seen_unix_seconds: float
    """Start of the five minutes in which they demanded that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePlan:
    """The sum of the node for one resource."""

    resource: Resource
    allocatable: int
    reserved: int
    """Of pods that may not be optimised, and of what others hold beyond their containers (overhead, init floors)."""
    available: int
    """allocatable - reserved; may be negative."""
    base_total: int
    spike_largest: int
    headroom: int
    """Shared out: the largest spike, where it fits; what is seen together, where that is more, as far as it fits."""
    final_total: int
    applied_total: int
    """Of the requests after all steps, of the pods that may be optimised."""
    is_infeasible: bool
    """It does not fit and nobody else may go: nothing is written for this resource."""
    is_applied: bool = True
    """False = this resource is only looked at."""
    spike_total: int = 0
    """Of all spikes: nobody is given more than its own, so the headroom is never more than this."""
    joint: JointSpike | None = None
    """None = what the pods demanded together is not known, or the headroom does not go by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """A proposal: the agent itself evicts nobody."""

    ref: PodRef
    workload: Workload
    resource: Resource
    """For want of which."""
    ranking: Ranking
    spike: int
    """Of that resource, the largest of its containers."""
    reason: str
    is_out_of_memory: bool = False
    """It was killed for want of memory and cannot be given more here; the plan goes on with it."""


class Phase(StrEnum):
    """The place of a step in the order that keeps the node safe after every prefix."""

    SHRINK = "shrink"
    """Requests fall; room appears once the kubelet has actuated."""
    GROW = "grow"
    """Requests and limits rise."""
    LIMIT_DOWN = "limit_down"
    """Memory limits fall, by themselves: a refusal must not hold up the rest of a pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """One resize of one pod: one patch."""

    ref: PodRef
    workload: Workload
    phase: Phase
    changes: tuple[Change, ...]
    reason: str
    """One sentence for people: ``share of the node's spike``, ``waiting for CPU 43 % of the last second``."""
    is_urgent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """One thing that must hold of every plan, and whether it does."""

    name: str
    """Short and stable: ``base <= final <= peak``."""
    holds: bool
    detail: str = ""
    """Where it does not hold, or what was compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of one node at one moment."""

    taken_unix_seconds: float
    node: str
    cpu: ResourcePlan
    memory: ResourcePlan
    pods: tuple[PodPlan, ...]
    """Sorted by namespace and name."""
    evictions: tuple[Eviction, ...]
    steps: tuple[PlanStep, ...]
    """In order; empty = nothing to do."""
    invariants: tuple[Invariant, ...] = ()
    notes: tuple[str, ...] = ()
    """What is degraded, and why nothing may be written where that is so; one sentence each."""

    @property
    def is_sound(self) -> bool:
        """Return whether every invariant holds; a plan of which one does not is never carried out."""
        return all(invariant.holds for invariant in self.invariants)

    def resource(self, resource: Resource) -> ResourcePlan:
        """Return the sum of one resource."""
        return self.cpu if resource is Resource.CPU else self.memory


def node_sums(plan: Plan) -> NodeSums:
    """Return how full the node is by a plan, for who looks at many nodes."""

    def sums(resource: ResourcePlan, requested: int, most: int) -> ResourceSums:
        def bounded_amount(amount: int) -> int:  # a pod may state any amount
            return min(max(amount, 0), most)

        return ResourceSums(
            allocatable=bounded_amount(resource.allocatable),
            requested=bounded_amount(requested),
            reserved=bounded_amount(resource.reserved),
            base=bounded_amount(resource.base_total),
            planned=bounded_amount(resource.final_total),
            is_infeasible=resource.is_infeasible,
        )

    return NodeSums(
        cpu=sums(plan.cpu, sum(pod.cpu_counted_millicores for pod in plan.pods), MOST_TOLD_MILLICORES),
        memory=sums(plan.memory, sum(pod.memory_counted_bytes for pod in plan.pods), MOST_TOLD_BYTES),
    )


def waiting_for_windows(plan: Plan) -> dict[PodRef, float | None]:
    """Return the pods of which something waits for its window, and the soonest end of that, Unix seconds.

    None = no such time is in sight.
    """
    waiting: dict[PodRef, float | None] = {}
    for pod in plan.pods:
        containers = pod.containers if pod.budget is None else (*pod.containers, pod.budget)
        moments = [
            share.waits_until_unix_seconds
            for container in containers
            for share in (container.cpu, container.memory)
            if share is not None and KeptReason.WINDOW in (share.kept, share.limit_kept)
        ]
        if moments:
            waiting[pod.ref] = min((moment for moment in moments if moment is not None), default=None)
    return waiting
