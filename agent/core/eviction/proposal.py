"""A proposed eviction, its answer and the reasons, as values. Core, pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from agent.core.cluster.pod import PodRef
from agent.core.cluster.resource import Resource

MAX_PROPOSALS: Final = 100
"""In one call; a node has 110 pods, and a plan that wants more of them gone is of no use."""


class Want(StrEnum):
    """For want of what a pod should go."""

    CPU = "cpu"
    MEMORY = "memory"
    OUT_OF_MEMORY = "oom"
    """It was killed for want of memory and cannot be given more where it is."""

    @property
    def resource(self) -> Resource:
        """Return the resource that its replacement must have more of."""
        return Resource.CPU if self is Want.CPU else Resource.MEMORY


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAmounts:
    """Of a whole pod, CPU in millicores, memory in bytes; None = not stated."""

    cpu_millicores: int | None = None
    memory_bytes: int | None = None

    def of(self, resource: Resource) -> int | None:
        """Return one of them."""
        return self.cpu_millicores if resource is Resource.CPU else self.memory_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A node asks that one of its pods be evicted. What it says of amounts and ranking is told on, never relied on."""

    ref: PodRef
    want: Want
    order: int = 0
    """Its place in the node's plan, from 0."""
    ranking: str | None = None
    requested: PodAmounts = field(default_factory=PodAmounts)
    """What the pod requests now, as the node sees it."""
    needed: PodAmounts = field(default_factory=PodAmounts)
    """What the pod is expected to need at its peak."""


class Verdict(StrEnum):
    """What comes of a proposal. Also a metric label."""

    GRANTED = "granted"
    """The API server took the eviction."""
    RECOMMENDED = "recommended"
    """It would have been asked for; the webhook only recommends."""
    REFUSED = "refused"
    """Not this pod, as long as it is what it is."""
    LATER = "later"
    """Not now: budgets, doubts, somebody away."""


class Reason(StrEnum):
    """Why, in one word from a closed set; a metric label. Reasons that ``ReservedReason`` has too are spelt alike."""

    EVICTED = "evicted"
    WOULD_EVICT = "would_evict"

    # Refused.
    UNKNOWN_POD = "unknown_pod"
    """No such pod is known on that node."""
    OTHER_NODE = "other_node"
    TERMINATING = "terminating"
    NOT_RUNNING = "not_running"
    GONE = "gone"
    """It is away, or another pod has its name now."""
    UNREADABLE = "unreadable"
    """The API server's answer about the pod is not understood."""
    TOO_MANY = "too_many"
    """Beyond the proposals that one call may have."""
    PROTECTED = "protected"
    """Its namespace, or its priority kept for the system."""
    HELD = "held"
    """An annotation of another tool says that it must not be evicted."""
    NOT_MANAGED = "not_managed"
    """What it is: static, bare, a Job, of an unknown owner, BestEffort, with devices, on Windows."""
    DAEMON_SET = "daemon_set"
    GUARANTEED = "guaranteed"
    NO_EVICTION = "no_eviction"
    MODE = "mode"
    """It is not in mode enforce: protect evicts nobody."""
    FAULTY_ANNOTATION = "faulty_annotation"
    NOT_APPLIED = "not_applied"
    """Memory is not applied, so it evicts nobody."""
    VPA = "vpa"
    """Somebody else sets its requests."""
    HPA = "hpa"
    """An HPA scales on that resource: admission would not change it."""
    NO_ESTIMATE = "no_estimate"
    """Nobody knows with what its replacement would be admitted."""
    NOT_MORE = "not_more"
    """Its replacement would be admitted with no more than it has: it would return to the same place."""
    SINGLE_REPLICA = "single_replica"
    ALREADY_EVICTED = "already_evicted"
    FORBIDDEN = "forbidden"
    """The API server or a policy of it refuses."""

    # Later.
    PAUSED = "paused"
    FACTS_UNKNOWN = "facts_unknown"
    """What the webhook knows of the cluster is not whole, or too old."""
    STORE_AWAY = "store_away"
    API_AWAY = "api_away"
    TOO_YOUNG = "too_young"
    REPLICAS_UNKNOWN = "replicas_unknown"
    READ_BUDGET = "read_budget"
    CLUSTER_BUDGET = "cluster_budget"
    NAMESPACE_BUDGET = "namespace_budget"
    NODE_BUDGET = "node_budget"
    WORKLOAD_BUDGET = "workload_budget"
    REPLICAS_SHARE = "replicas_share"
    """Too many of its workload are missing already."""
    UNDER_WAY = "under_way"
    """An eviction of this pod has been begun and its end is not known yet."""
    BACKING_OFF = "backing_off"
    """The API server refused lately, or could not carry it out."""
    DISRUPTION_BUDGET = "disruption_budget"
    PLACEHOLDER = "placeholder"
    """A placeholder pod of the node goes instead."""
    WINDOW = "window"
    """Outside the times in which it may be evicted (``plimsoll.dev/windows``)."""
    OUT_OF_TIME = "out_of_time"
    """The call has lasted long enough: the rest of its proposals waits."""

    @property
    def verdict(self) -> Verdict:
        """Return the verdict that it stands for."""
        if self is Reason.EVICTED:
            return Verdict.GRANTED
        if self is Reason.WOULD_EVICT:
            return Verdict.RECOMMENDED
        return Verdict.LATER if self in _LATER else Verdict.REFUSED


_LATER: Final = frozenset(
    {
        Reason.WINDOW,
        Reason.PAUSED,
        Reason.FACTS_UNKNOWN,
        Reason.STORE_AWAY,
        Reason.API_AWAY,
        Reason.TOO_YOUNG,
        Reason.REPLICAS_UNKNOWN,
        Reason.READ_BUDGET,
        Reason.CLUSTER_BUDGET,
        Reason.NAMESPACE_BUDGET,
        Reason.NODE_BUDGET,
        Reason.WORKLOAD_BUDGET,
        Reason.REPLICAS_SHARE,
        Reason.UNDER_WAY,
        Reason.BACKING_OFF,
        Reason.DISRUPTION_BUDGET,
        Reason.PLACEHOLDER,
        Reason.OUT_OF_TIME,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """A reason with its sentence."""

    reason: Reason
    detail: str
    """One line for people: what, and by which figure or setting."""

    @property
    def verdict(self) -> Verdict:
        """Return the verdict."""
        return self.reason.verdict

    def __str__(self) -> str:
        """Return what the answer on the wire says as ``reason``: ``namespace_budget: 3 evictions ...``."""
        return f"{self.reason}: {self.detail}" if self.detail else str(self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionReply:
    """The answer to one proposal."""

    pod_uid: str
    ruling: Ruling
