"""Names for what the cgroup tree shows only as ids: joins watched cgroups with the pods of a pod source. Core, pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from agent.core.cluster.pod import ContainerKind, Pod
from agent.core.cluster.qos import pod_qos_class
from agent.core.cluster.runtime_profile import RuntimeProfile
from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.cluster.workload import Workload, workload_of
from agent.core.numbers.later_field import LATER

WHOLE_CORES_ANNOTATION: Final = "vpa-post-processor.kubernetes.io/{container}_integerCPU"
"""The Vertical Pod Autoscaler's own: ``true`` asks for whole CPU cores."""

_IN_PODS = frozenset({UnitKind.CONTAINER, UnitKind.SANDBOX})


def cgroup_owners(pods: Collection[Pod], *, node_uid: str | None = None) -> dict[str, Pod]:
    """Return the pod of each cgroup, by the id in its name: a uid, or the hash of a static pod's configuration.

    A uid is the API server's and always counts; a hash is an annotation's, so it never stands for a pod with that uid.
    Where two mirrors state one hash, the one of which a kubelet reports containers has it: it reports none of a mirror
    that it did not make. Mirrors are found under their own uid too.

    Args:
        node_uid: Of the Node object, which owns the mirrors; None = not known, the name in them has to do.
    """
    owners = {pod.uid: pod for pod in pods}
    for pod in sorted((pod for pod in pods if pod.is_static), key=_genuine_first):
        if _is_of_node(pod, node_uid):
            owners.setdefault(pod.cgroup_uid, pod)
    return owners


def _genuine_first(pod: Pod) -> tuple[bool, float, str]:
    is_reported = any(status.container_id is not None for status in pod.statuses)
    created = pod.created_unix_seconds
    return not is_reported, math.inf if created is None else created, pod.uid


def _is_of_node(pod: Pod, node_uid: str | None) -> bool:
    owner = pod.owning_node
    return owner is None or node_uid is None or owner.uid == node_uid


class PodIndex:
    """The pods of a source, found by what a cgroup path tells."""

    def __init__(self, pods: Iterable[Pod] = (), *, node_uid: str | None = None) -> None:
        pods = tuple(pods)
        self._by_uid = cgroup_owners(pods, node_uid=node_uid)
        self._by_container: dict[str, tuple[Pod, str]] = {}
        for pod in pods:
            for status in (*pod.statuses, *pod.ephemeral_statuses):
                if status.container_id is not None:
                    self._by_container[status.container_id] = (pod, status.name)
                # One that was replaced before any status named it is told of as the run before.
                last = status.last_termination
                if last is not None and last.container_id is not None:
                    self._by_container.setdefault(last.container_id, (pod, status.name))

    def pod(self, pod_uid: str) -> Pod | None:
        """Find a pod by its uid or, if it is static, by its configuration's hash; None = not in this source."""
        return self._by_uid.get(pod_uid)

    def container(self, container_id: str) -> tuple[Pod, str] | None:
        """Find a container's pod and its name by its id; None = no status names it."""
        return self._by_container.get(container_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Belonging:
    """Where a container belongs, as far as sizing asks."""

    workload: Workload | None = None
    """None = not known, or it has no pod."""
    pod_containers: int = 1
    """Containers that run side by side in its pod, itself included."""
    wants_whole_cores: bool = False
    container_kind: ContainerKind | None = None
    """None = not known, or it has no pod."""
    image_hash: int | None = field(default=None, metadata=LATER)
    """Of the image that its spec names; None = not known, or it has no pod."""
    pod_created_unix_seconds: float | None = field(default=None, metadata=LATER)
    runtime: RuntimeProfile | None = field(default=None, metadata=LATER)
    """What its language runtime takes of memory by its own flags; None = not known."""
    has_pod_level_requests: bool = field(default=False, metadata=LATER)
    """Its pod states requests of its own."""
    container_place: int | None = field(default=None, metadata=LATER)
    """Its place in the pod's spec, init containers first; None = not known, or it has no pod."""


def belonging(identity: UnitIdentity, index: PodIndex) -> Belonging:
    """Find what a joined container belongs to; an own workload of one container for what no pod is known of."""
    pod = index.pod(identity.pod_uid) if identity.pod_uid is not None else None
    if pod is None or identity.container is None:
        return Belonging()
    beside = sum(init_container.kind is ContainerKind.SIDECAR for init_container in pod.init_containers)
    container = pod.container(identity.container)
    annotation = WHOLE_CORES_ANNOTATION.format(container=identity.container)
    return Belonging(
        workload=workload_of(pod),
        pod_containers=max(len(pod.containers) + beside, 1),
        wants_whole_cores=pod.annotations.get(annotation) == "true",
        container_kind=None if container is None else container.kind,
        image_hash=None if container is None else container.image_hash,
        pod_created_unix_seconds=pod.created_unix_seconds,
        runtime=None if container is None else container.runtime,
        has_pod_level_requests=pod.has_pod_level_requests,
        container_place=next(
            (place for place, sized in enumerate(pod.sized_containers()) if sized.name == identity.container), None
        ),
    )


def join(identity: UnitIdentity, index: PodIndex) -> tuple[UnitIdentity, UnitResources]:
    """Return the names and the resources that its pod states for a watched cgroup.

    A container that no status of its pod names is the pod's sandbox. So is, until the source is read again, one that
    has started since: a source is only ever as fresh as its last reading.

    Returns:
        The identity with namespace, pod, container, kind and QoS class filled as far as known, and the resources of the
        spec; all as they came, and no resources, for what belongs to no pod or to a pod the source does not have.
    """
    if identity.kind not in _IN_PODS:
        return identity, UnitResources()
    container = index.container(identity.container_id) if identity.container_id is not None else None
    by_uid = index.pod(identity.pod_uid) if identity.pod_uid is not None else None
    # The path's uid outranks the id: two pods of one source never share a container.
    pod = by_uid if by_uid is not None else container[0] if container is not None and identity.pod_uid is None else None
    if pod is None:
        return identity, UnitResources()
    named = replace(
        identity,
        pod_uid=identity.pod_uid if identity.pod_uid is not None else pod.cgroup_uid,
        namespace=pod.namespace,
        pod=pod.name,
        qos=identity.qos if identity.qos is not None else pod_qos_class(pod),
    )
    if container is None or container[0].uid != pod.uid:
        return replace(named, kind=UnitKind.SANDBOX, container=None), UnitResources()
    name = container[1]
    return replace(named, kind=UnitKind.CONTAINER, container=name), resources_of(pod, name)


def resources_of(pod: Pod, container_name: str) -> UnitResources:
    """Return what the spec states for one container; nothing for a debug container or an unknown name."""
    container = pod.container(container_name)
    if container is None or container.kind is ContainerKind.EPHEMERAL:
        return UnitResources()
    stated = container.resources
    return UnitResources(
        cpu_request_millicores=stated.cpu_request_millicores,
        cpu_limit_millicores=stated.cpu_limit_millicores,
        memory_request_bytes=stated.memory_request_bytes,
        memory_limit_bytes=stated.memory_limit_bytes,
    )
