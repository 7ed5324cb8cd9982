"""What every pod of a node needs, as the planner takes it: who may be sized, and base and peak of each container.

Core, pure. Values only. Millicores or bytes, whole numbers; missing is None beside a reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from agent.core.cluster.pod import ContainerKind, Pod
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.orders.order import Orders
from agent.core.orders.windows import Waits
from agent.core.plan.needs.given_boost import GivenBoost
from agent.core.plan.pod_change import Setting
from agent.core.recommender.calm_falls import CalmFalls
from agent.core.recommender.recommendation import Withheld
from agent.core.window.memory_shortage import MemoryShort


class ReservedReason(StrEnum):
    """Why a pod may not be optimised: its requests are taken off the node as they stand. Also a metric label."""

    OFF = "off"
    RECOMMEND = "recommend"
    """Mode recommend: sized on paper only."""
    NOT_IN_SHARE = "not_in_share"
    """Mode enforce, but not in the enforced share of its workload: sized on paper only."""
    SHARE_TAKEN_BACK = "share_taken_back"
    """The enforced share of its workload fared worse than the others, and is enforced no more (directive)."""
    EXCLUDED = "excluded"
    """Its namespace is one of ``act.excludedNamespaces``."""
    NAMESPACE_UNKNOWN = "namespace_unknown"
    """The API server has not told of its namespace, or that is not understood: what it orders is not known."""
    FAULTY_ANNOTATION = "faulty_annotation"
    PINNED = "pinned"
    """``plimsoll pin``."""
    PLACEHOLDER = "placeholder"
    """It keeps room for a CapacityBuffer, or carries the label of those that do."""
    STATIC = "static"
    """A static pod or the mirror of one: the API refuses to resize it."""
    BARE = "bare"
    """Nothing controls it."""
    JOB = "job"
    """A Job or CronJob: it ends."""
    UNKNOWN_OWNER = "unknown_owner"
    """Its controller is of a kind that ``plan.managedKinds`` does not name."""
    GUARANTEED = "guaranteed"
    """Of class Guaranteed, and not asked for."""
    BEST_EFFORT = "best_effort"
    """It has no request, and a resize cannot give it the first."""
    EXCLUSIVE_CPUS = "exclusive_cpus"
    """Guaranteed with whole cores: a static CPU manager would give it CPUs of its own."""
    DEVICES = "devices"
    """It holds GPUs or other devices, whose CPUs are chosen with them."""
    WINDOWS = "windows"
    TOO_YOUNG = "too_young"
    """Younger than ``plan.minAgeSeconds``."""
    NOT_RUNNING = "not_running"
    """Bound, but not running yet."""
    TERMINATING = "terminating"
    NO_DATA = "no_data"
    """Nothing was measured of any container."""
    HPA = "hpa"
    """A HorizontalPodAutoscaler scales on both of its resources (directive of the webhook)."""
    VPA = "vpa"
    """A VerticalPodAutoscaler sizes it (directive of the webhook)."""
    LEFT_OUT = "left_out"
    """It cannot be planned soundly as it is; the plan's notes say why, and the rest of the node goes on."""


class KeptReason(StrEnum):
    """Why a container's request or limit is not moved to what was planned. Also a metric label."""

    SMALL_CHANGE = "small_change"
    COOL_DOWN = "cooldown"
    UPWARD_ONLY = "warm_up"
    """No prediction yet, an out-of-memory kill after a shrink, or a Job that runs: only upward."""
    GAPS = "gaps"
    """No prediction because its window has gaps, or nothing was measured."""
    QOS = "qos"
    """It would change the pod's QoS class."""
    HPA = "hpa"
    NOT_STATED = "not_stated"
    """No request to resize."""
    NODE_FULL = "node_full"
    """The node does not fit: the plan is infeasible for this resource."""
    RESTART_POLICY = "restart_policy"
    """The container would be restarted, which nobody allowed."""
    TOO_OLD = "too_old"
    """API server or kubelet is too old for this step, or the node does not declare the feature."""
    IN_USE = "in_use"
    """A memory limit is not lowered: too little margin over what is in use, or that is not known, or pressure."""
    INFEASIBLE = "infeasible"
    """The kubelet or the API server has answered "never" to as much."""
    IN_FLIGHT = "in_flight"
    """A resize of this pod is under way."""
    POD_LEVEL = "pod_level"
    """The pod's own budget carries this resource."""
    NOT_APPLIED = "policy"
    """``plan.memoryApplied`` is off, or ``bounds.controlledResources`` leaves it out."""
    PAUSED = "paused"
    BUDGET = "budget"
    """No resize left in this minute."""
    DEFERRED = "deferred"
    """The kubelet has put the pod's last resize off."""
    LIMIT_RANGE = "rejected"
    """The API server has refused as much (LimitRange, ResourceQuota, admission); waiting before another try."""
    CALM = "calm"
    """It has credit for seconds, and fell too lately, or grew too lately for want of CPU."""
    SMALL_FALL = "small_fall"
    """It has credit for seconds, and would fall by less than ``act.shrinkRatio``."""
    READ_AT_START = "read_at_start"
    """A memory limit is not lowered: the runtime in the container sized its heap by it at its start."""
    HEAP = "heap"
    """A memory limit is not lowered below the fixed heap of what runs in the container, and a quarter of it."""
    BOOSTED = "boosted"
    """It has more CPU while it starts, which is taken back when the start is over."""
    WINDOW = "window"
    """Outside the times in which it may be shrunk or restarted (``plimsoll.dev/windows``)."""
    PROTECT = "protect"
    """Mode protect: it is only given more, and that when it is short."""
    TIER_FULL = "tier_full"
    """A QoS tier's own memory limit leaves no room for it, or would fall below what the tier uses."""
    EVICTION_PENDING = "eviction_pending"
    """Pods are proposed for eviction, it or others, and still here: until they go it has its part of what is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One resource of one container; millicores or bytes. 0 <= base <= peak."""

    base: int
    peak: int
    """Largest demand expected."""
    limit: int | None = None
    """What its limit should become; None = it stays."""
    in_use: int | None = None
    """Memory only: memory.current, page cache included, now; None = not known, then a limit is never lowered."""
    is_upward_only: bool = False
    """There is no prediction yet that could lower the request."""
    is_urgent: bool = False
    """Measured in the last seconds under pressure: cool-downs after a grow do not hold it up."""
    short: MemoryShort | None = None
    """Memory only: what showed that it is urgent, where that was more than its size."""
    sustained: int | None = None
    """The base without what was seen in the last seconds, which alone makes nobody go. None = base."""
    sustained_peak: int | None = None
    """The peak without what was seen of late. None = above ``sustained`` by as much as peak is above base."""
    sustained_limit: int | None = None
    """The limit without it, 0 = none was advised. None = limit."""
    held: int | None = None
    """Memory only: the least that a request may be by what is in use, or by a fixed heap that it has room for now;
    which wins over the most allowed."""
    is_limit_young: bool = False
    """Memory only: not measured for long enough to lower a limit, nor a request that is one as well."""
    is_limit_read: bool = False
    """Memory only: its limit would fall, had the runtime in the container not read it at its start."""
    foreseen_base: int | None = None
    """The base by what other nodes saw as well, which only raises a request as far as there is room after everybody
    else's needs: nobody goes or waits for it. None = they saw nothing more."""
    foreseen_peak: int | None = None
    """The peak by it, at least ``foreseen_base``; None with that."""
    foreseen_limit: int | None = None
    """The limit by it; None = limit."""
    is_limit_proportional: bool = False
    """The limit keeps its ratio to the request, and so to what is granted of the request that it was advised with."""
    calm_falls: CalmFalls | None = None
    """CPU only: it has credit for seconds, and falls by this rule; None = it has none, and falls as all do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Urgent:
    """What one container has wanted in the last seconds, under pressure. None = that resource is not urgent."""

    cpu_millicores: int | None = None
    """usage x (1 + waiting)."""
    cpu_waiting_ratio: float | None = None
    memory_bytes: int | None = None
    """Working set, close to the limit."""
    memory_limit_bytes: int | None = None
    """What its limit should become at least."""
    memory_short: MemoryShort | None = None
    """What shows that memory is short, where that is more than its size; the size then is a plateau, not the demand."""
    memory_waiting_ratio: float | None = None
    """Share of the last seconds in which it waited for memory, where that is much; after a shrink it is too much."""
    is_past: bool = False
    """It was seen within the last hour, not the last minutes: a peak, no sustained demand, and nothing is urgent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerDemand:
    """One regular container or sidecar."""

    name: str
    kind: ContainerKind
    cpu: Demand | None
    """None = no prediction: its request counts as it stands and stays."""
    memory: Demand | None
    cpu_withheld: Withheld | None = None
    memory_withheld: Withheld | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDemand:
    """One pod bound to the node."""

    pod: Pod
    workload: Workload
    orders: Orders
    reserved: ReservedReason | None
    """None = it may be optimised."""
    containers: tuple[ContainerDemand, ...] = ()
    """In the spec's order, sidecars first; empty for a reserved pod that nothing is known of."""
    is_cpu_frozen: bool = False
    """An HPA scales on CPU: its CPU requests count as they stand."""
    is_memory_frozen: bool = False
    cpu_frozen_containers: tuple[str, ...] | None = None
    """The only containers that this is about; None = all, and the pod's own budget."""
    memory_frozen_containers: tuple[str, ...] | None = None
    boost: GivenBoost | None = None
    """More CPU that it was given for its start and still has; None = none."""
    is_shrink_barred: bool = False
    """It may only grow: an out-of-memory kill came soon after a shrink, or it runs to an end."""
    waits: Waits = field(default_factory=dict)
    """How it may not be disturbed now, and until when; none of a pod that is left alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """What stands in the way of changing one pod at the moment; the plan keeps what it may not move."""

    shrink: KeptReason | None = None
    """Why its requests and limits may not fall now; None = they may."""
    grow: KeptReason | None = None
    """Why they may not rise now."""
    urgent_grow: KeptReason | None = None
    """Why they may not rise even for an urgent demand (infeasible, or a resize that must come to its end first); a
    cool-down is no reason."""
    rising: frozenset[tuple[str, Resource, Setting]] = frozenset()
    """What a resize that is under way raises already, by container (empty = the pod's own budget): more of it waits
    for the end of that, however urgent it is."""
    cpu_below_millicores: int | None = None
    """The pod's requests in all must stay below this: as much was infeasible. None = nothing is known."""
    memory_below_bytes: int | None = None
    calm_until_seconds: float | None = None
    """From when on CPU with credit may fall, in Unix seconds; None = now."""
    killed: frozenset[str] = frozenset()
    """Containers that were killed for want of memory lately."""


FREE: Final = Constraint()
"""Nothing stands in the way."""
