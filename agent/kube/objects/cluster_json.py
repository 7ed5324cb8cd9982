"""Kubernetes JSON of the whole cluster to shapes of the house: autoscalers, ranges, quotas, places of pods. Pure.

As in ``pod_json``, foreign data are checked here, a ConvertError names the path, and what nobody asks for is not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import intern
from types import MappingProxyType
from typing import Final

from agent.core.autoscalers.preserved_target import MovableTargets, PreservedError, movable_percents, parse_preserved
from agent.core.cluster.facts import FrozenAxes, LimitRangeItem, NodeAmounts, PodPlace, Quota, WrittenContainer
from agent.core.cluster.hpa import (
    CONTAINER_RESOURCE_METRIC,
    RESOURCE_METRIC,
    TARGET_TYPES,
    UTILIZATION,
    HpaMetric,
    UtilizationTarget,
    frozen_axes,
    utilization_targets,
)
from agent.core.cluster.placement import NodePlacement
from agent.core.cluster.pod import CPU, MEMORY, RESIZE_PENDING, RUNNING, ContainerKind, OwnerReference, Pod, TopOwner
from agent.core.cluster.versions import RESIZE, parse_version
from agent.core.cluster.vpa import RECOMMENDER, VpaObject
from agent.core.cluster.workload import (
    CRON_JOB_KIND,
    JOB_KIND,
    RUN_KINDS,
    Workload,
    controller_name,
    no_job_owner,
    with_top_owner,
    workload_of,
)
from agent.core.history.reports.rollup import INSTANCE_TYPE_LABEL, NodeClass
from agent.core.machine.pod_limits import POD_LEVEL
from agent.core.numbers.units import NANOS_PER_UNIT
from agent.core.orders.annotations import HPA_PRESERVE, POLICY
from agent.core.resize.originals import Original, OriginalError, annotated_original
from agent.core.window.overload import OVERLOAD_TAINT_KEY
from agent.kube.objects.json_reader import ConvertError, Reader
from agent.kube.objects.placement_json import PodContainers, node_placement_from_json, placed_pod_from_json
from agent.kube.objects.vpa_json import recommenders_of, vpa_from_json

MOST_PENDING_CHARACTERS: Final = 300
"""Of what a kubelet says of a resize that waits."""
_MILLIS_PER_UNIT: Final = 1000
_WINDOWS: Final = "windows"
NOT_UNDERSTOOD: Final = "not understood"
_ALWAYS: Final = "Always"
"""restartPolicy of an init container that is a sidecar."""
VPA_OFF: Final = "Off"
"""updateMode of a VerticalPodAutoscaler that only advises."""
_METRIC_KEYS: Final = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}
_USUAL_METRICS: Final = (HpaMetric(type=RESOURCE_METRIC, resource=CPU, target_type=UTILIZATION, target_percent=80),)
"""What the API server puts where none are stated: CPU at 80 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaler:
    """A HorizontalPodAutoscaler, as far as sizing asks."""

    target: Workload | str
    """A namespace = which of its workloads is not understood, so it may be any."""
    frozen: FrozenAxes
    """Both axes where the metrics or the target are not understood."""
    targets: tuple[UtilizationTarget, ...] = ()
    """Those that are shares of requests, as far as they are stated."""
    movable: MovableTargets | None = None
    """Those that Plimsoll may move; None = it is not understood."""
    fault: str | None = None
    """What is not understood; None = all is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerticalAutoscaler:
    """A VerticalPodAutoscaler."""

    name: str
    """For words: ``VerticalPodAutoscaler shop/web``."""
    target: Workload | str
    """A namespace = which of its workloads is not understood, so it may be any."""
    acts: bool
    """It changes pods: its updateMode is another than ``Off``, or not understood."""
    fault: str | None = None
    """What is not understood; None = all is."""
    own: VpaObject | None = None
    """It names the recommender ``plimsoll``, and is understood; None = somebody else recommends, or it was not asked
    for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRange:
    """The items of one LimitRange."""

    namespace: str
    items: tuple[LimitRangeItem, ...]
    fault: str | None = None
    """What is not understood, so that it may refuse anything; None = all is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceQuota:
    """A ResourceQuota, and where it holds."""

    namespace: str
    quota: Quota
    fault: str | None = None
    """What is not understood, so that it may refuse anything; None = all is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """A node, as far as the webhook asks."""

    name: str
    node_class: NodeClass | None
    """None = its capacity is not reported yet."""
    is_overloaded: bool
    """It carries Plimsoll's own taint."""
    capacity: NodeAmounts | None
    """All that it has; None = not reported yet, or not both CPU and memory."""
    allocatable: NodeAmounts | None
    """What of it pods may request; None = as above."""
    takes_pod_resources: bool | None
    """Its kubelet takes pods with resources of their own; None = it runs Windows, where no pod may have them. False
    also where the version is not stated or odd."""
    resizes_in_place: bool | None
    """Its kubelet resizes pods while they run; None and False as above."""
    placement: NodePlacement = field(default_factory=NodePlacement)
    """By what its price is found, and which pods it takes."""
    kubelet_version: str | None = None
    """As it says, ``v1.34.1``; None = it does not."""


JobOwner = Callable[[str, str], TopOwner | None]
"""Whom a Job (namespace, name) belongs to, itself if to nobody; None = not known."""


def pod_place_from_json(
    document: object, *, group_by: Sequence[str] = (), job_owner: JobOwner = no_job_owner
) -> PodPlace:
    """Read where a pod is and whom it belongs to; ``group_by`` and ``job_owner`` as for ``with_top_owner``."""
    top = Reader(document, "")
    metadata = top.child("metadata")
    pod = Pod(
        uid=metadata.required_text("uid"),
        namespace=metadata.text("namespace") or "default",
        name=metadata.required_text("name"),
        labels=metadata.texts("labels"),
        annotations=metadata.texts("annotations"),
        owners=tuple(
            OwnerReference(
                kind=owner.required_text("kind"),
                name=owner.required_text("name"),
                uid="",
                is_controller=owner.flag("controller"),
            )
            for owner in metadata.items("ownerReferences")
        ),
        is_terminating=metadata.has("deletionTimestamp"),
    )
    if any(owner.kind == JOB_KIND for owner in pod.owners):  # of a hundred thousand pods few are
        pod = replace(pod, created_unix_seconds=metadata.unix_seconds("creationTimestamp"))
    pod = with_top_owner(pod, group_by=group_by, job_owner=job_owner)
    spec = top.child("spec")
    workload = workload_of(pod)
    original = _original_of(pod)
    has_written = original is not None and all(amount.container for amount in original.amounts)
    containers = PodContainers.of(spec)
    placed = placed_pod_from_json(top, containers, has_written=has_written)
    return PodPlace(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        node=spec.text("nodeName"),
        workload=workload,
        is_running=top.child("status").text("phase") == RUNNING,
        is_terminating=pod.is_terminating,
        containers=_written_containers(containers, original) or None,
        controller=controller_name(pod) if workload.kind in RUN_KINDS else None,
        policy=pod.annotations.get(POLICY),
        cpu_request_millicores=placed.cpu_millicores,
        memory_request_bytes=placed.memory_bytes,
        placement=placed.placement,
        resize_pending=_resize_pending(top.child("status")),
    )


def _resize_pending(status: Reader) -> str | None:
    for condition in status.items("conditions"):
        if condition.text("type") == RESIZE_PENDING and condition.text("status") == "True":
            words = (condition.text("reason"), condition.text("message"))
            return ": ".join(word for word in words if word is not None)[:MOST_PENDING_CHARACTERS] or "not said why"
    return None


def _original_of(pod: Pod) -> Original | None:
    try:
        return annotated_original(pod)
    except OriginalError:
        return None


def _written_containers(containers: PodContainers, original: Original | None) -> tuple[WrittenContainer, ...]:
    """Read the containers in order of name, with the requests that their author wrote: those before any sizing."""
    originals = {amount.container: amount for amount in original.amounts} if original is not None else {}
    written: list[WrittenContainer] = []
    for group, kind in ((containers.main, ContainerKind.REGULAR), (containers.init, ContainerKind.INIT)):
        for container in group:
            name = container.whole.required_text("name")
            if name in originals:
                was = originals[name]
                cpu, memory, limit = was.cpu_request_millicores, was.memory_request_bytes, was.memory_limit_bytes
            else:
                requests, limits = container.requests, container.limits
                cpu = -(-requests.quantity(CPU) * _MILLIS_PER_UNIT // NANOS_PER_UNIT) if requests.has(CPU) else None
                memory = -(-requests.quantity(MEMORY) // NANOS_PER_UNIT) if requests.has(MEMORY) else None
                limit = -(-limits.quantity(MEMORY) // NANOS_PER_UNIT) if limits.has(MEMORY) else None
            is_sidecar = kind is ContainerKind.INIT and container.whole.text("restartPolicy") == _ALWAYS
            written.append(
                WrittenContainer(
                    name=intern(name),
                    cpu_request_millicores=cpu,
                    memory_request_bytes=memory,
                    memory_limit_bytes=limit,
                    kind=ContainerKind.SIDECAR if is_sidecar else kind,
                )
            )
    return tuple(sorted(written, key=lambda container: container.name))


def node_facts_from_json(document: object) -> NodeFacts:
    """Read a node.

    Source:
        KEP-2837: ``spec.resources`` is on by default from 1.34. An older kubelet runs such a pod without the limits,
        or refuses it (PodLevelResourcesNotSupported). KEP-1287: pods are resized in place by default from 1.33.
    """
    top = Reader(document, "")
    metadata, status = top.child("metadata"), top.child("status")
    capacity = status.child("capacity")
    cpus = capacity.quantity(CPU) // NANOS_PER_UNIT if capacity.has(CPU) else 0
    instance_type = metadata.texts("labels").get(INSTANCE_TYPE_LABEL)
    info = status.child("nodeInfo")
    version = parse_version(info.text("kubeletVersion"))
    is_windows = info.text("operatingSystem") == _WINDOWS
    return NodeFacts(
        name=metadata.required_text("name"),
        node_class=NodeClass(instance_type=instance_type or None, cpus=cpus) if cpus > 0 else None,
        is_overloaded=any(taint.text("key") == OVERLOAD_TAINT_KEY for taint in top.child("spec").items("taints")),
        capacity=_node_amounts(capacity),
        allocatable=_node_amounts(status.child("allocatable")),
        takes_pod_resources=None if is_windows else version is not None and version >= POD_LEVEL,
        resizes_in_place=None if is_windows else version is not None and version >= RESIZE,
        placement=node_placement_from_json(top),
        kubelet_version=info.text("kubeletVersion") or None,
    )


def _node_amounts(stated: Reader) -> NodeAmounts | None:
    """Read what is stated of CPU and memory, rounded down; None = not both are stated above 0."""
    if not (stated.has(CPU) and stated.has(MEMORY)):
        return None
    cpu_millicores = stated.quantity(CPU) * _MILLIS_PER_UNIT // NANOS_PER_UNIT
    memory_bytes = stated.quantity(MEMORY) // NANOS_PER_UNIT
    if cpu_millicores <= 0 or memory_bytes <= 0:
        return None
    return NodeAmounts(cpu_millicores=cpu_millicores, memory_bytes=memory_bytes)


def autoscaler_from_json(document: object) -> Autoscaler:
    """Read a HorizontalPodAutoscaler of autoscaling/v2; what is not understood of its spec frees no workload.

    Raises:
        ConvertError: It has no name: nobody can be told what is wrong.
    """
    top = Reader(document, "")
    namespace, name = _named(top)
    named = f"HorizontalPodAutoscaler {namespace}/{name}"
    target: Workload | str = namespace
    try:
        spec = top.child("spec")
        target = _target(spec, "scaleTargetRef", namespace)
        metrics = tuple(_metric(entry) for entry in spec.items("metrics")) if spec.has("metrics") else _USUAL_METRICS
    except ConvertError as error:
        doubted = f"{named} ({NOT_UNDERSTOOD})"
        return Autoscaler(target=target, frozen=FrozenAxes(cpu_for=doubted, memory_for=doubted), fault=str(error))
    return Autoscaler(
        target=target,
        frozen=frozen_axes(named, metrics),
        targets=utilization_targets(named, metrics),
        movable=_movable(top.child("metadata"), metrics),
    )


def _movable(metadata: Reader, metrics: Sequence[HpaMetric]) -> MovableTargets | None:
    try:
        uid = metadata.required_text("uid")
        text = metadata.texts("annotations").get(HPA_PRESERVE)
    except ConvertError:
        return None
    targets = MovableTargets(
        namespace=metadata.text("namespace") or "default",
        name=metadata.required_text("name"),
        uid=uid,
        percents=movable_percents(metrics),
        kept={},
    )
    try:
        return targets if text is None else replace(targets, kept=parse_preserved(text))
    except PreservedError as error:
        return replace(targets, fault=str(error))


def vertical_autoscaler_from_json(document: object, *, takes_own: bool = False) -> VerticalAutoscaler:
    """Read a VerticalPodAutoscaler of autoscaling.k8s.io/v1; one that states no updateMode, or an odd one, acts.

    With ``takes_own`` those of the recommender ``plimsoll`` are read whole.
    """
    top = Reader(document, "")
    namespace, name = _named(top)
    named = f"VerticalPodAutoscaler {namespace}/{name}"
    target: Workload | str = namespace
    try:
        spec = top.child("spec")
        target = _target(spec, "targetRef", namespace)
        acts = spec.child("updatePolicy").text("updateMode") != VPA_OFF
        own = vpa_from_json(document) if takes_own and RECOMMENDER in recommenders_of(document) else None
    except ConvertError as error:
        return VerticalAutoscaler(name=f"{named} ({NOT_UNDERSTOOD})", target=target, acts=True, fault=str(error))
    return VerticalAutoscaler(name=named, target=target, acts=acts, own=own)


def limit_range_from_json(document: object) -> LimitRange:
    """Read a LimitRange; one that is not understood may refuse anything.

    Raises:
        ConvertError: It has no name: nobody can be told what is wrong.
    """
    top = Reader(document, "")
    namespace, name = _named(top)
    try:
        items = tuple(
            LimitRangeItem(
                name=name,
                type=item.required_text("type"),
                min=item.amounts("min"),
                max=item.amounts("max"),
                default=item.amounts("default"),
                max_limit_request_ratio=item.amounts("maxLimitRequestRatio"),
            )
            for item in top.child("spec").items("limits")
        )
    except ConvertError as error:
        return LimitRange(namespace=namespace, items=(), fault=f"LimitRange {name} is {NOT_UNDERSTOOD}: {error}")
    return LimitRange(namespace=namespace, items=items)


def quota_from_json(document: object) -> NamespaceQuota:
    """Read a ResourceQuota; as ``limit_range_from_json``."""
    top = Reader(document, "")
    namespace, name = _named(top)
    try:
        spec = top.child("spec")
        selecting = spec.child("scopeSelector").items("matchExpressions")
        exists = [scope.required_text("scopeName") for scope in selecting if scope.text("operator") == "Exists"]
        quota = Quota(
            name=name,
            hard=spec.amounts("hard"),
            used=top.child("status").amounts("used"),
            scopes=tuple(dict.fromkeys([*spec.listed_texts("scopes"), *exists])),
        )
    except ConvertError as error:
        fault = f"ResourceQuota {name} is {NOT_UNDERSTOOD}: {error}"
        return NamespaceQuota(namespace=namespace, quota=Quota(name=name), fault=fault)
    return NamespaceQuota(namespace=namespace, quota=quota)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedJob:
    """A Job, and whom its runs belong to."""

    namespace: str
    name: str
    owner: TopOwner


def owned_job_from_json(document: object) -> OwnedJob:
    """Read whom a Job belongs to: its CronJob, also where somebody started the run by hand; else itself."""
    top = Reader(document, "")
    namespace, name = _named(top)
    cron_jobs = (
        owner.required_text("name")
        for owner in top.child("metadata").items("ownerReferences")
        if owner.required_text("kind") == CRON_JOB_KIND
    )
    cron_job = next(cron_jobs, None)
    owner = TopOwner(kind=JOB_KIND, name=name) if cron_job is None else TopOwner(kind=CRON_JOB_KIND, name=cron_job)
    return OwnedJob(namespace=namespace, name=name, owner=owner)


def named_from_json(document: object) -> str:
    """Read the name of an object of which it only counts that it is there."""
    return Reader(document, "").child("metadata").required_text("name")


def config_from_json(document: object) -> Mapping[str, str]:
    """Read a ConfigMap's data."""
    return MappingProxyType(Reader(document, "").texts("data"))


def _named(top: Reader) -> tuple[str, str]:
    metadata = top.child("metadata")
    return metadata.text("namespace") or "default", metadata.required_text("name")


def _target(spec: Reader, key: str, namespace: str) -> Workload:
    target = spec.child(key)
    return Workload(namespace=namespace, kind=target.required_text("kind"), name=target.required_text("name"))


def _metric(entry: Reader) -> HpaMetric:
    kind = entry.required_text("type")
    if kind not in _METRIC_KEYS:  # of a newer release: it may divide by any request
        raise entry.error("type", kind, ", ".join(_METRIC_KEYS))
    source = entry.child(_METRIC_KEYS[kind])
    target = source.child("target")
    target_type = target.text("type") or UTILIZATION
    if kind not in (RESOURCE_METRIC, CONTAINER_RESOURCE_METRIC):
        return HpaMetric(type=kind, resource=source.text("name"), target_type=target_type)
    if target_type not in TARGET_TYPES:
        raise target.error("type", target_type, ", ".join(TARGET_TYPES))
    percent = target.whole("averageUtilization") if target_type == UTILIZATION else None
    return HpaMetric(
        type=kind,
        resource=source.required_text("name"),
        target_type=target_type,
        target_percent=percent if percent is not None and percent > 0 else None,
        container=source.text("container") if kind == CONTAINER_RESOURCE_METRIC else None,
    )
