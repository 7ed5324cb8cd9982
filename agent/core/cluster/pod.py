"""A pod as the API tells of it, cut down to what sizing, auditing and naming need. Core, pure.

Amounts are mappings from resource name to nanos (billionths of a core, byte or piece: see ``units``). A name that is
absent is absent; 0 is an amount.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import Final

from agent.core.cluster.runtime_profile import RuntimeProfile
from agent.core.numbers.later_field import LATER
from agent.core.numbers.units import to_millis, to_units


class QosClass(StrEnum):
    """The quality-of-service class of a pod, spelt as the API spells it."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


class Partition(StrEnum):
    """The part of ``kubepods`` a pod sits in, on nodes with a system partition (KEP-5894)."""

    DEFAULT = "default"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PodRef:
    """Which pod. The uid tells a pod from its successor of the same name."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        """Return ``namespace/name``."""
        return f"{self.namespace}/{self.name}"


CPU = "cpu"
MEMORY = "memory"
HUGEPAGES_PREFIX = "hugepages-"

CONFIG_SOURCE_ANNOTATION = "kubernetes.io/config.source"
CONFIG_HASH_ANNOTATION = "kubernetes.io/config.hash"
CONFIG_MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
HOLDING_ANNOTATIONS: Final[Mapping[str, str]] = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""By which the autoscalers are told that a pod is not to be moved; who wrote one means every mover."""
OTHERS_ANNOTATIONS: Final = frozenset(
    {CONFIG_SOURCE_ANNOTATION, CONFIG_HASH_ANNOTATION, CONFIG_MIRROR_ANNOTATION, *HOLDING_ANNOTATIONS}
)
"""Those of others that are asked for by name; no more of them are kept."""
_API_SOURCE = "api"
NODE_KIND = "Node"
_CONFIG_HASH: Final = re.compile(r"[0-9a-f]{32}")

SYSTEM_CRITICAL_PRIORITY = 2_000_000_000
"""The least priority that Kubernetes keeps for itself (twice the highest a user may define)."""
NODE_CRITICAL_CLASS = "system-node-critical"

RESIZE_PENDING = "PodResizePending"
INFEASIBLE = "Infeasible"

RUNNING = "Running"
"""A pod's phase: bound, and at least one container runs or is being restarted."""
ENDED_PHASES = frozenset({"Succeeded", "Failed"})
"""No container runs, and none will: what it requested is free."""
WINDOWS = "windows"
OOM_KILLED = "OOMKilled"


class ContainerKind(StrEnum):
    """What a container is within its pod."""

    REGULAR = "regular"
    INIT = "init"
    SIDECAR = "sidecar"
    """An init container with restartPolicy Always: it goes on running beside the regular ones."""
    EPHEMERAL = "ephemeral"
    """A debug container; it never has resources."""


class ContainerState(StrEnum):
    """What a container is doing."""

    WAITING = "waiting"
    RUNNING = "running"
    TERMINATED = "terminated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """Requests and limits as a spec states them; nanos."""

    requests: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)

    @property
    def cpu_request_millicores(self) -> int | None:
        """Return the CPU request, rounded up; None = not stated."""
        return _millis(self.requests, CPU)

    @property
    def cpu_limit_millicores(self) -> int | None:
        """Return the CPU limit, rounded up; None = not stated."""
        return _millis(self.limits, CPU)

    @property
    def memory_request_bytes(self) -> int | None:
        """Return the memory request, rounded up; None = not stated."""
        return _units(self.requests, MEMORY)

    @property
    def memory_limit_bytes(self) -> int | None:
        """Return the memory limit, rounded up; None = not stated."""
        return _units(self.limits, MEMORY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """Requests and limits as a status reports them in force; nanos. None = not reported, unlike an empty mapping."""

    requests: Mapping[str, int] | None = None
    limits: Mapping[str, int] | None = None


def image_hash_of(image: str) -> int:
    """Return the hash of an image's name, 63 bits: enough to see that it is another one."""
    return int.from_bytes(blake2b(image.encode(errors="surrogatepass"), digest_size=8).digest(), "big") >> 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container of a pod's spec."""

    name: str
    kind: ContainerKind
    resources: Requirements = field(default_factory=Requirements)
    restarts_for_cpu: bool = False
    """resizePolicy RestartContainer: a resize of its CPU restarts it."""
    restarts_for_memory: bool = False
    image_hash: int | None = None
    """Of its image as the spec names it (``image_hash_of``); None = it names none."""
    runtime: RuntimeProfile | None = None
    """What its language runtime takes of memory by its own flags; None = no runtime that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Termination:
    """How a container's run ended."""

    exit_code: int
    reason: str | None = None
    """``OOMKilled``, ``Error``, ``Completed``, ..."""
    finished_unix_seconds: float | None = None
    container_id: str | None = None
    """Of the container that ended, the bare id; None = not told."""

    @property
    def is_oom_kill(self) -> bool:
        """Return whether the kernel killed it for want of memory, as the runtime saw it."""
        return self.reason == OOM_KILLED


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStatus:
    """One container of a pod's status."""

    name: str
    container_id: str | None = None
    """The bare id, without ``containerd://``; None = not made yet."""
    runtime: str | None = None
    """The scheme in front of the id, as the runtime calls itself."""
    state: ContainerState | None = None
    restart_count: int = 0
    is_ready: bool = False
    is_started: bool | None = None
    """Its startup probe and postStart hook are through; None = not reported."""
    started_unix_seconds: float | None = None
    """When the run that goes on now began; None = it does not run."""
    termination: Termination | None = None
    """How the run ended, of a terminated container."""
    last_termination: Termination | None = None
    """How the run before this one ended; None = there was none, or it is forgotten."""
    allocated: Mapping[str, int] | None = None
    """Requests the kubelet has granted; nanos. None = not reported."""
    actual: Reported | None = None
    """What the runtime has in force; None = not reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerReference:
    """Who made the pod."""

    kind: str
    name: str
    uid: str
    is_controller: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopOwner:
    """Whom a pod stands for where its controller is not the last word."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCondition:
    """One condition of a pod's status."""

    type: str
    status: str
    reason: str | None = None
    message: str | None = None
    observed_generation: int | None = None
    """The pod's generation that it speaks of; None = not reported (before 1.34 the server drops it)."""
    last_transition_unix_seconds: float | None = None
    """When its status last changed, to the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimOverhead:
    """What a device claim costs besides what it maps; nanos. None = nothing of the kind."""

    resource: str
    per_pod: int | None = None
    per_container: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAllocatableClaim:
    """A device claim that is paid out of the node's allocatable (gate DRANodeAllocatableResources)."""

    containers: tuple[str, ...] = ()
    mapping: tuple[tuple[str, int], ...] = ()
    """Resource name and nanos."""
    overhead: tuple[ClaimOverhead, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod."""

    uid: str
    namespace: str
    name: str
    resource_version: str | None = None
    """Which writing of the object this is; None = not from the API."""
    generation: int | None = None
    """Rises by one with each change of the spec, an accepted resize included."""
    observed_generation: int | None = None
    """status.observedGeneration: the spec that the kubelet speaks of; None = not reported (before 1.34 the server
    drops it)."""
    created_unix_seconds: float | None = None
    started_unix_seconds: float | None = None
    """When the kubelet took it on; None = it has not."""
    node_name: str | None = None
    phase: str | None = None
    is_terminating: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[OwnerReference, ...] = ()
    top_owner: TopOwner | None = field(default=None, metadata=LATER)
    """Its group by labels, or whom its Job belongs to, where that was read; None = its controller alone tells."""
    priority: int | None = None
    priority_class: str | None = None
    operating_system: str | None = None
    """As spec.os or the node selector says; None = neither does."""
    has_memory_volumes: bool = False
    """An emptyDir of medium Memory: what is written there counts as its containers' memory."""
    has_resource_claims: bool = False
    """Devices by dynamic resource allocation; those by a device plug-in are extended resources in the requests."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    """Init containers and sidecars in the order of the spec, which is the order of starting."""
    ephemeral_containers: tuple[Container, ...] = ()
    resources: Requirements | None = None
    """Pod-level resources; None = the spec has no such section."""
    overhead: Mapping[str, int] = field(default_factory=dict)
    """What the RuntimeClass adds; nanos."""

    recorded_qos: QosClass | None = None
    """status.qosClass: frozen at creation, and what every component goes by."""
    statuses: tuple[ContainerStatus, ...] = ()
    """Of the regular containers, then of the init containers."""
    ephemeral_statuses: tuple[ContainerStatus, ...] = ()
    allocated: Mapping[str, int] | None = None
    """status.allocatedResources of the pod; nanos. None = not reported."""
    actual: Reported | None = None
    """status.resources of the pod; None = not reported."""
    conditions: tuple[PodCondition, ...] = ()
    claims: tuple[NodeAllocatableClaim, ...] = ()

    def sized_containers(self) -> Iterator[Container]:
        """Return the containers that can have resources: init containers first, then the regular ones."""
        yield from self.init_containers
        yield from self.containers

    def container(self, name: str) -> Container | None:
        """Find a container of any kind by name; None = there is none."""
        everyone = (*self.containers, *self.init_containers, *self.ephemeral_containers)
        return next((container for container in everyone if container.name == name), None)

    def condition(self, type_name: str) -> PodCondition | None:
        """Find a condition that is in force (status True); None = there is none."""
        in_force = (condition for condition in self.conditions if condition.status == "True")
        return next((condition for condition in in_force if condition.type == type_name), None)

    def status_of(self, name: str) -> ContainerStatus | None:
        """Find the status of a regular or init container by name; None = there is none."""
        return next((status for status in self.statuses if status.name == name), None)

    @property
    def has_pod_level_resources(self) -> bool:
        """Return whether pod-level requests or limits name a resource that is supported there."""
        return self.resources is not None and any(
            is_pod_level_resource(name) for name in (*self.resources.requests, *self.resources.limits)
        )

    @property
    def has_pod_level_requests(self) -> bool:
        """Return whether pod-level requests name a resource that is supported there."""
        return self.resources is not None and any(is_pod_level_resource(name) for name in self.resources.requests)

    @property
    def is_resize_infeasible(self) -> bool:
        """Return whether the kubelet has answered the newest resize with "never"."""
        pending = next((condition for condition in self.conditions if condition.type == RESIZE_PENDING), None)
        return pending is not None and pending.reason == INFEASIBLE

    @property
    def is_windows(self) -> bool:
        """Return whether it runs on Windows, where nothing is resized."""
        return self.operating_system == WINDOWS

    @property
    def is_static(self) -> bool:
        """Return whether the pod is the API's mirror of one from the kubelet's own files, or the kubelet's copy of one.

        Annotations alone say nothing: anybody who may make a pod may write them. A mirror also has this node for its
        controller. The admission plugin NodeRestriction holds a kubelet to that, and to its own node: no kubelet can
        make a mirror for another node. Who is no kubelet can still make such an object, but the kubelet never runs it,
        reports no status of it, and deletes it; ``pod_index.cgroup_owners`` tells the two apart where needed. In the
        kubelet's own list a static pod has the hash for its uid, which the API server gives to no pod.

        Source:
            ``admitPodCreate`` of plugin/pkg/admission/noderestriction; ``CreateMirrorPod`` of pkg/kubelet/pod.
        """
        config_hash = self._config_hash
        if config_hash is None:
            return False
        if CONFIG_MIRROR_ANNOTATION in self.annotations:
            return self.owning_node is not None
        source = self.annotations.get(CONFIG_SOURCE_ANNOTATION, _API_SOURCE)
        return source != _API_SOURCE and self.uid == config_hash

    @property
    def owning_node(self) -> OwnerReference | None:
        """Return the reference to the pod's own node as its controller; None = anything else, or nothing."""
        for owner in self.owners:
            if owner.is_controller and owner.kind == NODE_KIND and owner.name == self.node_name:
                return owner
        return None

    @property
    def is_node_critical(self) -> bool:
        """Return whether the node cannot do without it.

        As the kubelet sees it: unlike in ``is_static``, annotations alone are enough for it.

        Source:
            ``IsNodeCriticalPod`` of pkg/kubelet/types: a critical pod (static, mirror, or of a priority kept for the
            system) of class system-node-critical.
        """
        has_critical_priority = self.priority is not None and self.priority >= SYSTEM_CRITICAL_PRIORITY
        is_called_static = (
            CONFIG_MIRROR_ANNOTATION in self.annotations
            or self.annotations.get(CONFIG_SOURCE_ANNOTATION, _API_SOURCE) != _API_SOURCE
        )
        return (is_called_static or has_critical_priority) and self.priority_class == NODE_CRITICAL_CLASS

    @property
    def cgroup_uid(self) -> str:
        """Return the id in the name of the pod's cgroup: of a static pod its configuration's hash, else the uid."""
        config_hash = self._config_hash
        return config_hash if config_hash is not None and self.is_static else self.uid

    @property
    def _config_hash(self) -> str | None:
        """Return the hash that the annotations state, if it has the form of one; never that of another pod's uid."""
        stated = self.annotations.get(CONFIG_HASH_ANNOTATION, self.annotations.get(CONFIG_MIRROR_ANNOTATION, ""))
        return stated if is_config_hash(stated) else None


def is_config_hash(uid: str) -> bool:
    """Return whether an id is a static pod's: 32 hex digits, where the API server's uids have dashes."""
    return _CONFIG_HASH.fullmatch(uid) is not None


def has_ended(pod: Pod) -> bool:
    """Return whether a pod has ended for good; one whose phase is not known has not."""
    return pod.phase in ENDED_PHASES


def is_pod_level_resource(name: str) -> bool:
    """Return whether pod-level resources may name it: cpu, memory and huge pages may."""
    return name in (CPU, MEMORY) or name.startswith(HUGEPAGES_PREFIX)


def _millis(amounts: Mapping[str, int], name: str) -> int | None:
    return to_millis(amounts[name]) if name in amounts else None


def _units(amounts: Mapping[str, int], name: str) -> int | None:
    return to_units(amounts[name]) if name in amounts else None
