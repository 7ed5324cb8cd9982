"""What admission answers: what changes in a new pod, what is left as it is and why. Core, pure. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from agent.core.admission.estimate import Estimate, NoEstimate
from agent.core.cluster.facts import FrozenAxes, LimitRangeItem, NodeAmounts, Quota
from agent.core.cluster.node import Namespace
from agent.core.cluster.pod import ContainerKind, Requirements
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.numbers.amount_text import amount_text
from agent.core.orders.enforce_share import TakenBack
from agent.core.orders.order import Orders
from agent.core.plan.needs.given_boost import GivenBoost
from agent.core.plan.pod_change import Setting


class AdmissionOutcome(StrEnum):
    """How an admission came out. Also a metric label."""

    PATCHED = "patched"
    NOOP = "noop"
    """Nothing differs, or what differs may not be changed."""
    NO_HISTORY = "no_history"
    EXCLUDED = "excluded"
    """It is not to be sized: by order, or by what it is."""
    ERROR = "error"
    """Admitted unchanged because something was not understood or went wrong."""
    DENIED = "denied"
    """Its pod limits contradict its own requests."""


class LeftReason(StrEnum):
    """Why an amount is not what the history asks for."""

    NO_FIGURE = "no_figure"
    """The history says nothing of this resource."""
    NOT_STATED = "not_stated"
    """No request: none is added."""
    NOT_APPLIED = "policy"
    """``plan.memoryApplied`` or ``bounds.controlledResources`` leaves it out."""
    HPA = "hpa"
    DAEMON_SET = "daemon_set"
    """Of a DaemonSet, and it may not grow here, or the history is not of this node or its class."""
    SMALL_CHANGE = "small_change"
    REQUEST_STAYS = "request_stays"
    """A memory limit moves together with its request, and that stays or moves by little."""
    LIMIT = "limit"
    """Lowered to the limit, which stays."""
    QOS = "qos"
    """It would change the pod's QoS class."""
    LIMIT_RANGE = "limit_range"
    QUOTA = "quota"
    POD_BUDGET = "pod_budget"
    """The pod's own resources would not hold it."""
    MAX_MEMORY = "max_memory"
    """A memory limit, held to as many times the largest memory allowed as limits are of requests."""
    RUNTIME = "runtime"
    """Held up by what its language runtime takes by its own flags: a fixed heap, or a share of its limit."""
    UNFILLED = "runtime_unfilled"
    """A memory limit, not raised: its runtime sized its heap by flags or by the limit, and the limit was never nearly
    reached."""
    PROTECT = "protect"
    """Mode protect: nothing becomes less than the pod came with."""
    NODE = "node"
    """No node could run the pod."""


LEFT_WORDS: Mapping[LeftReason, str] = {
    LeftReason.NO_FIGURE: "the history has no figure",
    LeftReason.NOT_STATED: "no request to change",
    LeftReason.NOT_APPLIED: "left out by the configuration",
    LeftReason.HPA: "an HPA scales on it",
    LeftReason.DAEMON_SET: "DaemonSet: only its node's own history may change it",
    LeftReason.SMALL_CHANGE: "the change is too small",
    LeftReason.REQUEST_STAYS: "it moves with the request, which stays or nearly so",
    LeftReason.LIMIT: "held by the limit, which stays",
    LeftReason.QOS: "QoS class kept",
    LeftReason.LIMIT_RANGE: "held by a LimitRange",
    LeftReason.QUOTA: "held by a ResourceQuota",
    LeftReason.MAX_MEMORY: "held by the largest memory allowed",
    LeftReason.RUNTIME: "held up by its runtime's heap",
    LeftReason.UNFILLED: "its runtime would fill more of any limit, and never nearly reached this one",
    LeftReason.PROTECT: "mode protect: never lowered",
    LeftReason.NODE: "no node can allocate so much",
    LeftReason.POD_BUDGET: "held by the pod's own resources",
}
"""The same for people."""


NOT_KNOWN: Final = NodeAmounts(cpu_millicores=0, memory_bytes=0)
"""As long as no node says what it can allocate nothing grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionFacts:
    """What the cluster says of the pod's surroundings."""

    namespace: Namespace | None
    """None = not known: what it orders is not known either, and nothing is done."""
    frozen: FrozenAxes = field(default_factory=FrozenAxes)
    left_alone_for: str | None = None
    """``VerticalPodAutoscaler shop/web`` that sets this workload's requests."""
    limit_ranges: tuple[LimitRangeItem, ...] = ()
    quotas: tuple[Quota, ...] = ()
    """What they count as used holds what is known to come of pods that were just admitted."""
    replicas: int | None = None
    """Pods of the workload that run; None = not known, or there is no quota."""
    bounds_fault: str | None = None
    """A LimitRange or ResourceQuota of the namespace is not understood, and why: what it would refuse is not known."""
    pause_reason: str | None = None
    """The cluster is paused."""
    rule: Mapping[str, str] = field(default_factory=dict)
    """What the cluster's rules order for the workload (``orders.cluster_rules``), by annotation."""
    autoscaler: Mapping[str, str] = field(default_factory=dict)
    """What a VerticalPodAutoscaler of ours orders for it (``autoscalers.vpa_orders``), by annotation."""
    share_ticket: int | None = None
    """The ticket that the pod is given where a share of its workload is enforced; None = the hash of its uid counts."""
    share_taken_back: TakenBack | None = None
    """The share of the workload that is enforced no more; None = there is none."""
    room: NodeAmounts | None = None
    """What the node can allocate that the pod is bound for, else the most that any node can of each resource: a pod
    that asks for more is never run. ``NOT_KNOWN`` = no node says; None = there is no cluster to ask."""
    knows_pod_level_resources: bool | None = None
    """The API server and all kubelets take ``spec.resources``; None = not known."""
    resizes_in_place: bool | None = None
    """The API server and all kubelets resize pods while they run; None = there is no cluster to ask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One amount of one container; millicores or bytes."""

    kind: ContainerKind
    index: int
    """In the pod's list of init containers or of containers, whichever ``kind`` stands in."""
    container: str
    resource: Resource
    setting: Setting
    before: int | None
    """None = not stated."""
    after: int | None
    """None = taken away. Differs from ``before``."""
    has_others: bool
    """The container states requests (or limits, whichever this is) of other names, or of this one."""

    def __str__(self) -> str:
        """Return ``memory limit 600MiB -> 512MiB``."""
        unit = self.resource.unit
        shown = ["none" if amount is None else amount_text(amount, unit) for amount in (self.before, self.after)]
        what = self.resource.value if self.setting is Setting.REQUEST else f"{self.resource} limit"
        return f"{what} {shown[0]} -> {shown[1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Why an amount is left, or is less than the history asks for."""

    resource: Resource
    setting: Setting
    left: LeftReason
    by: str = ""
    """Who holds it: an HPA, a LimitRange, a quota; empty = nobody by name."""

    def __str__(self) -> str:
        """Return ``CPU: an HPA scales on it (HorizontalPodAutoscaler shop/web)``."""
        what = self.resource.value if self.setting is Setting.REQUEST else f"{self.resource} limit"
        return f"{what}: {LEFT_WORDS[self.left]}{f' ({self.by})' if self.by else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerAdmission:
    """One container."""

    name: str
    kind: ContainerKind
    estimate: Estimate | NoEstimate | None
    """None = its history was not asked for."""
    moves: tuple[Move, ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The answer for one pod."""

    outcome: AdmissionOutcome
    why: str
    workload: Workload
    orders: Orders | None = None
    containers: tuple[ContainerAdmission, ...] = ()
    pod_resources: Requirements | None = None
    """``spec.resources`` that the pod is given; None = it stays as it is."""
    takes_pod_resources: bool = False
    """``spec.resources`` is taken off: it was given before another webhook changed the pod, and does not hold now."""
    pod_limits: str = ""
    """What became of ``plimsoll.dev/pod-limits``; empty = it has none."""
    boost: GivenBoost | None = None
    """More CPU that it is given while it starts, which is in the moves; None = none."""
    startup_boost: str = ""
    """What became of ``plimsoll.dev/startup-boost``; empty = nobody asks for it, or the pod is left alone."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Added when anything changes, or the pod's start is to be learnt; a ticket also when nothing else does."""
    gave_ticket: bool = False
    """The pod is given a ticket of an enforced share, which is in the annotations."""
    grown: Mapping[str, int] = field(default_factory=dict)
    """What quotas of the namespace will count more than the pod came with, by their names; nanos. Empty = nothing, or
    there is no quota."""
    warnings: tuple[str, ...] = ()
    """For who creates the pod."""
    denial: str | None = None

    @property
    def moves(self) -> tuple[Move, ...]:
        """Return all changes, in the order of the spec."""
        return tuple(move for container in self.containers for move in container.moves)
