"""Where pods may run, what they request in all, and disruption budgets: Kubernetes JSON to values. Pure.

What is odd here makes no pod unknown: its placement says that it is not understood, so that nothing is decided by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import Final, NamedTuple

from agent.core.cluster.node import Taint
from agent.core.cluster.placement import (
    BARRING_EFFECTS,
    PER_POD_LABELS,
    Amounts,
    NodeAntiAffinity,
    NodePlacement,
    Operator,
    Pairs,
    PodPlacement,
    Requirement,
    Selector,
    Toleration,
    WideAntiAffinity,
)
from agent.core.cluster.pod import CPU, HOLDING_ANNOTATIONS, MEMORY, NODE_KIND, is_pod_level_resource
from agent.core.cluster.workload import DAEMON_SET_KIND
from agent.core.cost.fit import DisruptionBudget
from agent.core.numbers.units import NANOS_PER_UNIT
from agent.kube.objects.json_reader import ConvertError, Reader

HOST_NAME_LABEL: Final = "kubernetes.io/hostname"
_MILLIS_PER_UNIT: Final = 1000
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_DEFAULT_SCHEDULER: Final = "default-scheduler"
_GIVEN_TOLERATIONS: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Every pod is given these for five minutes; a node that is not Ready takes no pods anyway."""
_NOT_WORKED_OUT: Final = "which is not worked out"
_READY: Final = "Ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPod:
    """What a pod's containers request together, and what decides where it runs."""

    cpu_millicores: int
    """Of containers and sidecars; the pod's own where it states that. Without init containers and overhead."""
    memory_bytes: int
    placement: PodPlacement


class ContainerReaders(NamedTuple):
    """A container of a pod, and what of it is asked for more than once."""

    whole: Reader
    requests: Reader
    limits: Reader

    @classmethod
    def of(cls, spec: Reader, key: str) -> list[ContainerReaders]:
        """Find all of a pod's ``spec`` under ``containers`` or ``initContainers``."""
        readers = []
        for container in spec.items(key):
            resources = container.child("resources")
            readers.append(cls(container, resources.child("requests"), resources.child("limits")))
        return readers


@dataclass(frozen=True, slots=True)
class PodContainers:
    """The containers of a pod."""

    main: list[ContainerReaders]
    init: list[ContainerReaders]

    @classmethod
    def of(cls, spec: Reader) -> PodContainers:
        """Find them in a pod's ``spec``."""
        return cls(ContainerReaders.of(spec, "containers"), ContainerReaders.of(spec, "initContainers"))


def placed_pod_from_json(top: Reader, containers: PodContainers, *, has_written: bool) -> PlacedPod:
    """Read a pod; ``has_written`` = what its containers were written with is known although it has its own requests."""
    try:
        return _placed(top, containers, has_written)
    except ConvertError as error:
        return PlacedPod(
            cpu_millicores=0,
            memory_bytes=0,
            placement=PodPlacement(held_for=f"is not understood: {error}", is_written_known=False),
        )


def _placed(top: Reader, containers: PodContainers, has_written: bool) -> PlacedPod:
    metadata, spec = top.child("metadata"), top.child("spec")
    cpu, stage_cpu = _running_and_stage(containers, _cpu)
    memory, stage_memory = _running_and_stage(containers, _memory)
    own = spec.child("resources").child("requests")
    if own.has(CPU):
        cpu, stage_cpu = _cpu(own), 0
    if own.has(MEMORY):
        memory, stage_memory = _memory(own), 0
    overhead = spec.child("overhead")
    owners = [owner for owner in metadata.items("ownerReferences") if owner.flag("controller")]
    kinds = {owner.text("kind") for owner in owners}
    labels = {key: value for key, value in metadata.texts("labels").items() if key not in PER_POD_LABELS}
    terms, by_name = _node_terms(spec)
    apart, widely_apart, held = _apart_from(spec)
    is_of_node = DAEMON_SET_KIND in kinds or NODE_KIND in kinds
    volumes = spec.items("volumes")
    placement = PodPlacement(
        labels=_pairs(labels),
        node_selector=_pairs(spec.texts("nodeSelector")),
        node_terms=() if is_of_node else terms,
        tolerations=() if is_of_node else _tolerations(spec),
        apart_from=apart,
        widely_apart_from=widely_apart,
        host_ports=tuple(
            sorted(
                {
                    port.whole("hostPort") or 0
                    for container in (*containers.main, *containers.init)
                    for port in container.whole.items("ports")
                }
                - {0}
            )
        ),
        other_requests=_other_requests(containers, own),
        stays_in_zone=any(volume.has("persistentVolumeClaim") or volume.has("ephemeral") for volume in volumes),
        has_controller=bool(owners),
        is_of_node=is_of_node,
        held_for="" if is_of_node else _held_for(metadata, spec) or by_name or held,
        stage_cpu_millicores=stage_cpu,
        stage_memory_bytes=stage_memory,
        overhead_cpu_millicores=_cpu(overhead),
        overhead_memory_bytes=_memory(overhead),
        is_written_known=has_written or not (own.has(CPU) or own.has(MEMORY)),
    )
    return PlacedPod(cpu_millicores=cpu, memory_bytes=memory, placement=placement)


def node_placement_from_json(top: Reader) -> NodePlacement:
    """Read a node's labels, taints and what else it offers."""
    spec, status = top.child("spec"), top.child("status")
    ready = [condition.text("status") for condition in status.items("conditions") if condition.text("type") == _READY]
    allocatable = status.child("allocatable")
    return NodePlacement(
        labels=_pairs(top.child("metadata").texts("labels")),
        provider_id=spec.text("providerID") or "",
        taints=tuple(
            Taint(key=taint.required_text("key"), value=taint.text("value"), effect=effect)
            for taint in spec.items("taints")
            if (effect := taint.text("effect") or "") in BARRING_EFFECTS
        ),
        takes_pods=not spec.flag("unschedulable") and ready == ["True"],
        other_allocatable=_others(allocatable),
    )


def disruption_budget_from_json(document: object) -> DisruptionBudget:
    """Read a PodDisruptionBudget; one whose status is behind its spec allows nothing, as for the API server."""
    top = Reader(document, "")
    metadata, status = top.child("metadata"), top.child("status")
    is_current = (status.whole("observedGeneration") or 0) >= (metadata.whole("generation") or 0)
    return DisruptionBudget(
        namespace=metadata.text("namespace") or "default",
        name=metadata.required_text("name"),
        selector=_selector(top.child("spec"), "selector"),
        allows=(status.whole("disruptionsAllowed") or 0) if is_current else 0,
    )


def _selector(parent: Reader, key: str) -> Selector | None:
    """Read a label selector; None = it is not stated, and selects nothing."""
    if not parent.has(key):
        return None
    stated = parent.child(key)
    return Selector(
        requirements=(
            *(
                Requirement(key=intern(name), operator=Operator.IN, values=(value,))
                for name, value in sorted(stated.texts("matchLabels").items())
            ),
            *_requirements(stated, "matchExpressions"),
        )
    )


def _requirements(parent: Reader, key: str) -> tuple[Requirement, ...]:
    requirements = []
    for item in parent.items(key):
        operator = item.choice("operator", Operator)
        if operator is None:
            raise item.error("operator", None, ", ".join(Operator))
        values = tuple(item.listed_texts("values"))
        requirements.append(Requirement(key=intern(item.required_text("key")), operator=operator, values=values))
    return tuple(requirements)


def _node_terms(spec: Reader) -> tuple[tuple[tuple[Requirement, ...], ...], str]:
    """Read required node affinity; a term without requirements is met by no node, as the API has it."""
    if not spec.has("affinity"):  # of most pods
        return (), ""
    stated = spec.child("affinity").child("nodeAffinity").child(_REQUIRED)
    terms = []
    for item in stated.items("nodeSelectorTerms"):
        if item.items("matchFields"):
            return (), f"asks for a node by its name, {_NOT_WORKED_OUT}"
        requirements = _requirements(item, "matchExpressions")
        if requirements:
            terms.append(requirements)
    if stated.items("nodeSelectorTerms") and not terms:
        return (), "asks for a node that there cannot be"
    return tuple(terms), ""


def _apart_from(spec: Reader) -> tuple[tuple[NodeAntiAffinity, ...], tuple[WideAntiAffinity, ...], str]:
    """Read required anti-affinity: by node, wider; and what is not worked out."""
    if not spec.has("affinity"):
        return (), (), ""
    affinity = spec.child("affinity")
    held = (
        f"must be near other pods (podAffinity), {_NOT_WORKED_OUT}"
        if affinity.child("podAffinity").items(_REQUIRED)
        else ""
    )
    by_node, wide = [], []
    for term in affinity.child("podAntiAffinity").items(_REQUIRED):
        selector = _selector(term, "labelSelector")
        namespaces, chosen = tuple(term.listed_texts("namespaces")), _selector(term, "namespaceSelector")
        is_by_keys = term.has("matchLabelKeys") or term.has("mismatchLabelKeys")
        if term.text("topologyKey") != HOST_NAME_LABEL or is_by_keys:
            held = held or f"must be apart from other pods by more than the node (podAntiAffinity), {_NOT_WORKED_OUT}"
            if selector is not None:
                is_of_namespace = not namespaces and chosen is None
                wide.append(WideAntiAffinity(selector=selector, is_of_namespace=is_of_namespace))
        elif selector is not None:
            by_node.append(NodeAntiAffinity(selector=selector, namespaces=namespaces, namespace_selector=chosen))
    return tuple(by_node), tuple(wide), held


def _held_for(metadata: Reader, spec: Reader) -> str:
    annotations = metadata.texts("annotations")
    for key, value in HOLDING_ANNOTATIONS.items():
        if annotations.get(key) == value:
            return f"is not to be moved (annotation {key})"
    if any(spread.text("whenUnsatisfiable") == "DoNotSchedule" for spread in spec.items("topologySpreadConstraints")):
        return f"must be spread (topologySpreadConstraints), {_NOT_WORKED_OUT}"
    if spec.items("resourceClaims"):
        return f"claims devices (resourceClaims), {_NOT_WORKED_OUT}"
    scheduler = spec.text("schedulerName") or _DEFAULT_SCHEDULER
    return "" if scheduler == _DEFAULT_SCHEDULER else f"is placed by scheduler {scheduler}, whose rules are not known"


def _tolerations(spec: Reader) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            key=toleration.text("key") or "",
            value=toleration.text("value") or "",
            effect=toleration.text("effect") or "",
            is_any_value=toleration.text("operator") == "Exists",
        )
        for toleration in spec.items("tolerations")
        if toleration.text("key") not in _GIVEN_TOLERATIONS
    )


def _running_and_stage(containers: PodContainers, amount_of: Callable[[Reader], int]) -> tuple[int, int]:
    """Return what containers and sidecars request together, and what the largest stage before they run does."""
    sidecars = stage = 0
    for container in containers.init:
        amount = amount_of(container.requests)
        stage = max(stage, sidecars + amount)
        if container.whole.text("restartPolicy") == "Always":
            sidecars += amount
    return sum(amount_of(container.requests) for container in containers.main) + sidecars, stage


def _other_requests(containers: PodContainers, own: Reader) -> Amounts:
    """Return what a pod requests besides CPU and memory, before it runs or then, whichever is more.

    Huge pages that it states as a whole stand for those of its containers.
    """
    running: Counter[str] = Counter()
    stage: Counter[str] = Counter()
    for container in containers.init:
        for name, amount in _others(container.requests):
            stage[name] = max(stage[name], running[name] + amount)
            if container.whole.text("restartPolicy") == "Always":
                running[name] += amount
    for container in containers.main:
        running.update(dict(_others(container.requests)))
    overrides = {name: amount for name, amount in _others(own) if is_pod_level_resource(name)}
    return tuple(sorted({**(running | stage), **overrides}.items()))


def _others(stated: Reader) -> Amounts:
    names = [name for name in stated.contents() if name not in (CPU, MEMORY)]
    return tuple((intern(name), stated.quantity(name)) for name in sorted(names))


def _cpu(stated: Reader) -> int:
    return -(-stated.quantity(CPU) * _MILLIS_PER_UNIT // NANOS_PER_UNIT) if stated.has(CPU) else 0


def _memory(stated: Reader) -> int:
    return -(-stated.quantity(MEMORY) // NANOS_PER_UNIT) if stated.has(MEMORY) else 0


def _pairs(labels: Mapping[str, str]) -> Pairs:
    return tuple(_pair(key, value) for key, value in sorted(labels.items()))


@lru_cache(maxsize=8192)
def _pair(key: str, value: str) -> tuple[str, str]:
    """Return a label; the same one where several have it, as thousands of nodes and pods do."""
    return intern(key), value
