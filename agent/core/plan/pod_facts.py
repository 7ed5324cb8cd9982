"""What a plan reads out of each pod, kept from plan to plan as long as the pod is the same object. Core, pure.

Pods do not change; one that has changed is another object. So whatever follows from a pod alone is read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from agent.core.cluster.pod import CPU, MEMORY, ContainerKind, Pod, PodRef, QosClass
from agent.core.cluster.qos import computed_qos_class
from agent.core.numbers.units import NANOS_PER_MILLI, NANOS_PER_UNIT
from agent.core.plan.node_room import counted, granted_pod, holds_room


class StatedAmounts(NamedTuple):
    """One resource of one container; millicores or bytes, None = not stated (so is an explicit 0, as to Kubernetes)."""

    name: str
    kind: ContainerKind
    request: int | None
    limit: int | None
    restarts: bool
    """A resize of this resource restarts it."""
    granted: int | None
    """The request without what is only wished for; ``request`` unless a resize was asked for and not granted."""


class StatedSide(NamedTuple):
    """One resource of one pod."""

    containers: tuple[StatedAmounts, ...]
    """Those that go on running, sidecars first."""
    stages: tuple[tuple[int, int], ...]
    """Of each init container that ends and requests some: its request, and how many of the first run beside it."""
    overhead: int
    is_pod_level: bool
    """The pod's own budget carries the resource."""
    granted_budget: int | None = None
    """What of that budget's request is more than a wish; None = there is none, or nothing is stated."""
    rounded_nanos: tuple[int, ...] = ()
    """What rounding up added to the request of each of the containers; empty = nothing, nor to any of them."""
    overhead_nanos: int = 0


class PodFacts(NamedTuple):
    """What follows from one pod alone."""

    pod: Pod
    ref: PodRef
    name: tuple[str, str, str]
    """Namespace, name and uid: the order of a plan."""
    holds_room: bool
    counted: tuple[int, int]
    """What it holds of its node as the scheduler counts; millicores and bytes."""
    in_force: tuple[int, int]
    """The same without what is only wished for: a resize that the kubelet has not granted makes nobody go."""
    is_infeasible: bool
    """The kubelet has answered its newest resize with "never": while its spec asks for that, no resize passes."""
    is_guaranteed: bool
    is_class_kept: bool
    """Its recorded class, where there is one, is what its spec says."""
    cpu: StatedSide
    memory: StatedSide


class PodFactsCache:
    """The facts of the pods of the last plan. Any thread may use it: what another puts there is as true."""

    def __init__(self) -> None:
        self._facts: dict[str, PodFacts] = {}

    def facts_of(self, pods: Iterable[Pod]) -> Sequence[PodFacts]:
        """Return the facts of each pod, in order, and forget all others."""
        known, every = self._facts, list[PodFacts]()
        for pod in pods:
            facts = known.get(pod.uid)
            every.append(facts if facts is not None and facts.pod is pod else facts_of(pod))
        self._facts = {facts.ref.uid: facts for facts in every}
        return every


def facts_of(pod: Pod) -> PodFacts:
    """Read one pod."""
    qos = _qos_class(pod)
    granted = granted_pod(pod)
    held = counted(pod)
    return PodFacts(
        pod=pod,
        ref=PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid),
        name=(pod.namespace, pod.name, pod.uid),
        holds_room=holds_room(pod),
        counted=held,
        in_force=held if granted is pod else counted(granted),
        is_infeasible=pod.is_resize_infeasible,
        is_guaranteed=qos is QosClass.GUARANTEED,
        is_class_kept=pod.recorded_qos is None or pod.recorded_qos is qos,
        cpu=_side(pod, granted, CPU, NANOS_PER_MILLI),
        memory=_side(pod, granted, MEMORY, NANOS_PER_UNIT),
    )


def _side(pod: Pod, granted: Pod, name: str, nanos: int) -> StatedSide:
    stated: list[StatedAmounts] = []
    stages: list[tuple[int, int]] = []
    every = (*granted.init_containers, *granted.containers) if granted is not pod else None
    for place, container in enumerate(
        (*pod.init_containers, *pod.containers) if pod.init_containers else pod.containers
    ):
        resources = container.resources
        request = -(-resources.requests.get(name, 0) // nanos) or None
        if container.kind is ContainerKind.INIT:
            if request is not None:
                stages.append((request, len(stated)))
            continue
        limit = -(-resources.limits.get(name, 0) // nanos) or None if resources.limits else None
        restarts = container.restarts_for_cpu if name == CPU else container.restarts_for_memory
        given = request if every is None else -(-every[place].resources.requests.get(name, 0) // nanos) or None
        stated.append(StatedAmounts(container.name, container.kind, request, limit, restarts, given))
    level, budget = pod.resources, granted.resources
    rounded = [
        -container.resources.requests.get(name, 0) % nanos
        for container in (*pod.init_containers, *pod.containers)
        if container.kind is not ContainerKind.INIT
    ]
    return StatedSide(
        containers=tuple(stated),
        stages=tuple(stages),
        overhead=-(-pod.overhead.get(name, 0) // nanos) if pod.overhead else 0,
        is_pod_level=level is not None and (name in level.requests or name in level.limits),
        granted_budget=-(-budget.requests.get(name, 0) // nanos) or None if budget is not None else None,
        rounded_nanos=tuple(rounded) if any(rounded) else (),
        overhead_nanos=pod.overhead.get(name, 0) if pod.overhead else 0,
    )


def _qos_class(pod: Pod) -> QosClass:
    """Compute the class; of nearly every pod the first container says that it is Burstable."""
    if pod.resources is None and pod.containers:
        first = pod.containers[0].resources
        requests, limits = first.requests, first.limits
        if requests.get(CPU, 0) != limits.get(CPU, 0) or requests.get(MEMORY, 0) != limits.get(MEMORY, 0):
            return QosClass.BURSTABLE
    return computed_qos_class(pod)
