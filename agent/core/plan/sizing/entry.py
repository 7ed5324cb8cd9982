"""The planner's working values: pods with what shares a node's room, read from what is demanded. Core, pure.

A **unit** is what has one request and one limit of one resource: a container, or a pod's own budget where
``spec.resources`` carries the resource. A **side** is one resource of one pod, an **entry** one pod that may be
optimised. They are filled in from stage to stage and never leave the planner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.core.cluster.pod import ContainerKind
from agent.core.cluster.resource import Resource
from agent.core.cluster.versions import Gates
from agent.core.cluster.workload import DAEMON_SET_KIND
from agent.core.orders.order import Mode
from agent.core.orders.plan_options import PlanOptions
from agent.core.plan.needs.demand import Constraint, Demand, KeptReason, PodDemand
from agent.core.plan.pod_facts import PodFacts
from agent.core.plan.sizing.container_sizing import Edges
from agent.core.recommender.recommendation import Withheld
from agent.core.window.memory_shortage import MemoryShort


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRules:
    """What holds for every pod of this plan."""

    options: PlanOptions
    gates: Gates
    cpu: Edges
    memory: Edges
    allocatable_cpu_millicores: int
    allocatable_memory_bytes: int


class Unit:
    """One request and limit of one resource."""

    # Defaults stand in the class: of the thousand units of a full node most never leave them.
    fixed: KeptReason | None = None
    """Why it is not planned at all: it counts as it stands."""
    is_pair = False
    """Its request is its limit as well, and they move together."""
    is_capped = False
    """Its limit stays, so its request is planned below that."""
    is_limit_fixed = False
    edges: Edges | None = None
    """Its own bounds; None = those of its side."""
    is_limit_raised = False
    """The limit, which cannot be taken away, is put out of the way."""
    is_lifted = False
    """It would be lower if there were a prediction."""
    limit_wish: int | None = None
    """What the policy would have as a limit; None = it stays."""
    spike = 0
    """What it takes part in sharing with."""
    lasting_spike = 0
    """The same without what was seen of late: who must go is decided by it."""
    pressing = 0
    """What it would have at once, beyond what is sustained; no more than its base = nothing presses."""
    origin: int | None = None
    """Without a prediction: what its base would be if it might fall."""
    headroom = 0
    urgent = 0
    kept: KeptReason | None = None
    limit_kept: KeptReason | None = None
    waits_until_seconds: float | None = None
    """Until when its fall is held calmly, in Unix seconds; None = it is not."""
    granted: int | None = None
    """Its request without what is only wished for, where that is less; None = all of it is granted."""
    foreseen_base: int | None = None
    """What its base would be by what others saw as well, within the bounds; None = the same."""
    foreseen_peak = 0
    foresight = 0
    """What it was given for that, of what nobody else needs."""
    is_held_over_most = False
    """What is in use is more than the most allowed, and wins."""
    own_limit_wish: int | None = None
    """The wish for a limit without it."""
    wanted_base = 0
    """What a DaemonSet's container would have as its base if it might grow."""
    possible: int | None = None
    """In mode protect: the lower request that would do; None = none would."""
    is_restarted = False
    """A change restarts its container, which is allowed. Of a budget's limit the write gate knows."""
    is_limit_protected = False
    """In mode protect: its limit would be lower, or away."""

    def __init__(
        self,
        name: str,
        kind: ContainerKind,
        request: int | None,
        limit: int | None,
        demand: Demand | None,
        withheld: Withheld | None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.demand = demand
        self.request = request
        """None = not stated; so is an explicit 0, as to Kubernetes."""
        self.withheld = withheld
        self.limit = self.limit_applied = limit
        self.base = self.peak = self.final = self.applied = request or 0

    @property
    def lasting_peak(self) -> int:
        """Return its peak without what was seen of late."""
        return self.base + self.lasting_spike

    @property
    def sustained(self) -> int:
        """Return its base, however much of it was granted so far.

        Of a DaemonSet's, what that may become; without a prediction also what presses, as such a request stays.
        """
        return max(self.base, min(self.wanted_base, self.peak), 0 if self.origin is None else self.pressing)


class Side:
    """One resource of one pod."""

    __slots__ = (
        "base_sum",
        "counted",
        "edges",
        "inside",
        "is_moving",
        "is_predicted",
        "is_pressed",
        "is_spared",
        "lasting_spike",
        "literal_total",
        "overhead",
        "resource",
        "spike",
        "stages",
        "total",
        "units",
    )

    def __init__(
        self,
        resource: Resource,
        edges: Edges,
        units: list[Unit],
        counted: int,
        stages: Sequence[tuple[int, int]],
        overhead: int,
    ) -> None:
        self.resource = resource
        self.edges = edges
        self.units = units
        """What shares: the containers, or the pod's budget alone."""
        self.inside: list[Unit] = []
        """Containers below a budget: shown only."""
        self.stages: Sequence[tuple[int, int]] = stages
        """Of each init container that ends: its request, and how many of the first units run beside it."""
        self.overhead = overhead
        self.counted = counted
        """What the pod holds now, as the scheduler counts."""
        self.is_predicted = True
        self.is_moving = False
        """A request is to change."""
        self.is_pressed = False
        """A unit would have more at once than what is sustained."""
        self.is_spared = False
        """Others go, and this pod does not for one reason only: its successor would ask for no more than it has."""
        self.total = self.literal_total = self.base_sum = self.spike = self.lasting_spike = 0

    def held(self, amounts: Sequence[int]) -> int:
        """Return what the pod would hold with such requests, one per unit, as the scheduler counts."""
        total = sum(amounts)
        for request, before in self.stages:
            total = max(total, request + sum(amounts[:before]))
        return total + self.overhead

    def most_at(self, place: int, amounts: Sequence[int], held: int) -> int:
        """Return the most that one unit could request without the pod holding more than this."""
        room = held - self.overhead
        most = room - sum(amounts) + amounts[place]
        for request, before in self.stages:
            if place < before:
                most = min(most, room - request - sum(amounts[:before]) + amounts[place])
        return most

    @property
    def admitted(self) -> int:
        """Return what a pod in its place would be admitted with: only what is stated is, by its lasting peak."""
        return sum(unit.lasting_peak for unit in self.units if unit.request is not None)

    def held_applied(self) -> int:
        """Return what it holds after all steps."""
        if self.stages:
            return self.held([unit.applied for unit in self.units])
        total = self.overhead
        for unit in self.units:
            total += unit.applied
        return total


class PodEntry:
    """One pod that may be optimised."""

    __slots__ = (
        "constraint",
        "cpu",
        "demand",
        "evicted_for",
        "is_daemon",
        "is_infeasible",
        "is_urgent",
        "memory",
        "name",
        "only_rises",
        "pod",
        "ref",
        "short",
    )

    def __init__(self, demand: PodDemand, facts: PodFacts, constraint: Constraint) -> None:
        self.demand = demand
        self.pod = facts.pod
        self.constraint = constraint
        self.ref = facts.ref
        self.name = facts.name
        self.is_daemon = demand.workload.kind == DAEMON_SET_KIND
        self.only_rises = demand.orders.mode is Mode.PROTECT
        """It is given more where it is short, and nothing else."""
        self.evicted_for: Resource | None = None
        self.is_urgent = False
        self.short: MemoryShort | None = None
        """What showed that one of its containers is short of memory, where that was more than its size."""
        self.is_infeasible = facts.is_infeasible
        """The kubelet has answered "never" to what its spec asks for now."""
        self.cpu: Side
        self.memory: Side

    @property
    def is_evicted(self) -> bool:
        """Return whether it is proposed to go."""
        return self.evicted_for is not None

    @property
    def is_wish_left(self) -> bool:
        """Return whether after all steps its spec would still ask for more than is granted, of any container."""
        return any(
            unit.granted is not None and unit.applied > unit.granted
            for side in (self.cpu, self.memory)
            for unit in (*side.units, *side.inside)
            if unit.applied == unit.request
        )

    def side(self, resource: Resource) -> Side:
        """Return one resource."""
        return self.cpu if resource is Resource.CPU else self.memory
