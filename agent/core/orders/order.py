"""What people have ordered for a pod: mode, policy, ranking, bounds; and from where each order comes. Core, pure.

An order stands in the pod's annotations, else in those of its namespace, else, a mode, in its namespace's label, else
in a VerticalPodAutoscaler of the recommender ``plimsoll``, else in the cluster's rules, else in the configuration. The
agent and the webhook read them through this one code. Names and
values are listed in ``annotations``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from agent.core.cluster.resource import Resource
from agent.core.numbers.later_field import LATER
from agent.core.orders.container_policies import ContainerPolicies
from agent.core.orders.enforce_share import EnforceShare
from agent.core.orders.policy_options import PolicyName
from agent.core.orders.startup_boost import StartupBoost


class Mode(StrEnum):
    """What may be done for a workload."""

    OFF = "off"
    """Nothing: its requests are reserved as they stand, and it is not measured into decisions."""
    RECOMMEND = "recommend"
    """Figures, metrics and ``why``; no write of any kind."""
    PROTECT = "protect"
    """Only more: who starves for CPU, is close to its memory limit or was killed at it is given more in place, and new
    pods are sized upwards from what they came with. Nothing is lowered, nobody is evicted."""
    ENFORCE = "enforce"
    """Requests are resized in place."""

    @property
    def resizes(self) -> bool:
        """Return whether pods in this mode are written at all, be it upwards only."""
        return self in (Mode.PROTECT, Mode.ENFORCE)


class Ranking(StrEnum):
    """Who goes first when a node does not fit. The words count: low goes first, then medium, then high."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    NO_EVICTION = "no-eviction"


class RunningJobs(StrEnum):
    """What may be done with the pods of Jobs, CronJobs and groups while they run."""

    KEEP = "keep"
    """Nothing: they are sized when they are created."""
    GROW = "grow"
    """Requests and limits may rise in place, and never fall."""


class OrderSource(StrEnum):
    """Where an order comes from."""

    POD = "pod annotation"
    SPEC = "pod spec"
    """Flags of its containers' runtimes: a fault of them alone."""
    NAMESPACE = "namespace annotation"
    NAMESPACE_LABEL = "namespace label"
    AUTOSCALER = "VPA object"
    """A VerticalPodAutoscaler of the recommender ``plimsoll``, told by the webhook."""
    CLUSTER = "cluster rule"
    """Of the ConfigMap, told by the webhook."""
    CONFIGURATION = "configuration"
    RULE = "rule"
    """Of Plimsoll itself: excluded namespaces, DaemonSets are never evicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An annotation, a rule or a runtime's flag that is not understood. Its pod is treated as ``off``."""

    key: str
    value: str | None
    """None = it is not shown: of a container's environment, it may be a secret."""
    allowed: str
    source: OrderSource

    def __str__(self) -> str:
        """Return the sentence for people."""
        if self.value is None:
            return f"{self.source} {self.key}: {self.allowed}"
        shown = self.value if len(self.value) <= 60 else f"{self.value[:57]}..."
        return f"{self.source} {self.key}: {shown!r} is not allowed ({self.allowed})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What holds for one pod."""

    mode: Mode
    mode_source: OrderSource
    policy: PolicyName
    policy_source: OrderSource
    ranking: Ranking
    ranking_source: OrderSource
    min_cpu_millicores: int | None = None
    """None = as ``bounds`` says; as for the three below."""
    max_cpu_millicores: int | None = None
    min_memory_bytes: int | None = None
    max_memory_bytes: int | None = None
    is_restart_allowed: bool = False
    """A resize may restart containers whose resizePolicy says RestartContainer."""
    is_guaranteed_allowed: bool = False
    """A Guaranteed pod may be sized: requests and limits together."""
    faults: tuple[Fault, ...] = ()
    jobs: RunningJobs = field(default=RunningJobs.KEEP, metadata=LATER)
    startup_boost: StartupBoost | None = field(default=None, metadata=LATER)
    """More CPU while its containers start; None = nobody asks for it."""
    startup_boost_source: OrderSource = field(default=OrderSource.CONFIGURATION, metadata=LATER)
    enforce_share: EnforceShare | None = field(default=None, metadata=LATER)
    """In mode enforce only this share of the workload's pods is; None = all are."""
    enforce_share_source: OrderSource = field(default=OrderSource.CONFIGURATION, metadata=LATER)

    container_policies: ContainerPolicies = field(default_factory=ContainerPolicies, metadata=LATER)
    """How containers are sized one by one; what they leave open is as the bounds above say."""
    container_policies_source: OrderSource = field(default=OrderSource.CONFIGURATION, metadata=LATER)
    windows: str | None = field(default=None, metadata=LATER)
    """When it may be disturbed, as it was written and can be read (``windows``); None = at any time."""
    windows_source: OrderSource = field(default=OrderSource.CONFIGURATION, metadata=LATER)

    def bounds_of(self, container: str, resource: Resource) -> tuple[int | None, int | None]:
        """Return the least and the most request of a container that are ordered, millicores or bytes; None = none is.

        What an annotation says of all containers wins over what an object or a rule says of one.
        """
        is_cpu = resource is Resource.CPU
        least = self.min_cpu_millicores if is_cpu else self.min_memory_bytes
        most = self.max_cpu_millicores if is_cpu else self.max_memory_bytes
        if not self.container_policies.policies:
            return least, most
        own_least, own_most = self.container_policies.of(container).edges(resource)
        if self.container_policies_source in (OrderSource.POD, OrderSource.NAMESPACE):
            return (least if own_least is None else own_least), (most if own_most is None else own_most)
        return (own_least if least is None else least), (own_most if most is None else most)

    @property
    def share_in_force(self) -> EnforceShare | None:
        """Return the share of the workload that is enforced; None = all of it is, or nobody by the mode."""
        return self.enforce_share if self.mode is Mode.ENFORCE else None
