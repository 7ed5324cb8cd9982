"""Kubernetes JSON to pods of the house. Pure: text and files are others' business.

Foreign data enters here, so a value is an ``object`` until it is checked. A ConvertError names the path to the value,
the value, and what is allowed there. What sizing does not need is passed over unread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from agent.core.cluster.launch import Launch, LimitReference, TextBudget, profile_of
from agent.core.cluster.node import Namespace, Node, Taint
from agent.core.cluster.pod import (
    CPU,
    MEMORY,
    OTHERS_ANNOTATIONS,
    ClaimOverhead,
    Container,
    ContainerKind,
    ContainerState,
    ContainerStatus,
    NodeAllocatableClaim,
    OwnerReference,
    Pod,
    PodCondition,
    QosClass,
    Reported,
    Requirements,
    Termination,
    image_hash_of,
)
from agent.core.cluster.pod_index import WHOLE_CORES_ANNOTATION
from agent.core.cluster.runtime_profile import LanguageRuntime
from agent.core.cluster.workload import no_job_owner, with_top_owner
from agent.core.numbers.units import NANOS_PER_UNIT
from agent.core.orders.annotations import PREFIX, runtimes_ordered
from agent.kube.objects.json_reader import Reader

POD_KIND = "Pod"
LIST_KINDS = ("PodList", "List")
NODE_KIND = "Node"
NAMESPACE_KINDS = ("Namespace", "PartialObjectMetadata")

_LIMIT_REFERENCE = "limits.memory"
_RUNS_ON = (ContainerKind.REGULAR, ContainerKind.SIDECAR)
"""Those that are sized."""
_RESTART_CONTAINER = "RestartContainer"
_MEMORY_MEDIUM = "Memory"
_OS_LABELS = ("kubernetes.io/os", "beta.kubernetes.io/os")
_ASKED_PREFIXES = (PREFIX, WHOLE_CORES_ANNOTATION.partition("{")[0])
"""Of annotations. A pod's may be 256 KiB together: what nobody asks for would be held for as long as the pod is there.
Labels are kept whatever their names, up to ``MOST_LABELS``: any may be the one by which pods are grouped."""
MOST_LABELS: Final = 250
"""Of a pod. An API server keeps 40,000, which are seven megabytes here: some dozen such pods would fill the agent."""
MOST_OTHER_OWNERS: Final = 10
"""Beside the one that controls a pod."""


def pods_from_json(document: object, where: str = "") -> tuple[Pod, ...]:
    """Read a Pod, a PodList or a List of pods."""
    top = _Reader(document, where)
    kind = top.text("kind") or ("List" if top.has("items") else None)
    if kind in LIST_KINDS:
        return tuple(item.pod() for item in top.items("items"))
    if kind != POD_KIND:
        raise top.error("kind", kind, "Pod, PodList or List")
    return (top.pod(),)


def pod_from_json(document: object, where: str = "", *, group_by: Sequence[str] = ()) -> Pod:
    """Read one pod, with or without its ``kind``; ``group_by`` as for ``with_top_owner``."""
    pod = _Reader(document, where).pod()
    return with_top_owner(pod, group_by=group_by, job_owner=no_job_owner) if group_by else pod


def node_from_json(document: object, where: str = "") -> Node:
    """Read one node, with or without its ``kind``."""
    return _Reader(document, where).node()


def namespace_from_json(document: object, where: str = "") -> Namespace:
    """Read one namespace, whole or as its metadata alone (PartialObjectMetadata), with or without its ``kind``."""
    return _Reader(document, where).namespace()


def namespaces_from_json(document: object, where: str = "") -> tuple[Namespace, ...]:
    """Read a Namespace, or a NamespaceList or List of them, as ``kubectl get namespaces -o json`` prints."""
    top = _Reader(document, where)
    if top.text("kind") in ("NamespaceList", "List") or (top.text("kind") is None and top.has("items")):
        return tuple(item.namespace() for item in top.items("items"))
    return (top.namespace(),)


class _Reader(Reader):
    """One object of the API."""

    def requirements(self, key: str) -> Requirements:
        child = self.child(key)
        return Requirements(requests=child.amounts("requests"), limits=child.amounts("limits"))

    def reported(self, key: str) -> Reported:
        child = self.child(key)
        return Reported(
            requests=child.optional("requests", child.amounts), limits=child.optional("limits", child.amounts)
        )

    def annotations(self) -> dict[str, str]:
        return {
            name: text
            for name, text in self.texts("annotations").items()
            if name.startswith(_ASKED_PREFIXES) or name in OTHERS_ANNOTATIONS
        }

    def container(self, kind: ContainerKind, runtimes: Mapping[str, LanguageRuntime], budget: TextBudget) -> Container:
        if kind is ContainerKind.INIT and self.text("restartPolicy") == "Always":
            kind = ContainerKind.SIDECAR
        restarting = {
            policy.text("resourceName")
            for policy in self.items("resizePolicy")
            if policy.text("restartPolicy") == _RESTART_CONTAINER
        }
        image, name = self.text("image"), self.required_text("name")
        return Container(
            name=name,
            kind=kind,
            resources=self.requirements("resources"),
            restarts_for_cpu=CPU in restarting,
            restarts_for_memory=MEMORY in restarting,
            image_hash=image_hash_of(image) if image else None,
            runtime=profile_of(self.launch(name, image), runtimes.get(name, runtimes.get("")), budget)
            if kind in _RUNS_ON
            else None,
        )

    def launch(self, container: str, image: str | None) -> Launch:
        """Return how a container is started; what is no text is passed over, and shown in no error."""
        environment: dict[str, str | LimitReference | None] = {}
        for variable in self.items("env"):
            name = variable.any_text("name")
            if name is None:
                continue
            environment[name] = variable.any_text("value")
            if not variable.has("valueFrom"):
                environment[name] = environment[name] or ""
                continue
            source = variable.child("valueFrom").child("resourceFieldRef")
            if source.text("resource") == _LIMIT_REFERENCE and source.text("containerName") in (None, container):
                divisor = source.quantity("divisor") // NANOS_PER_UNIT if source.has("divisor") else 1
                environment[name] = LimitReference(max(divisor, 1))  # 0 stands for 1, as the API server fills it in
        return Launch(
            command=self.any_texts("command"), args=self.any_texts("args"), environment=environment, image=image
        )

    def termination(self, key: str) -> Termination | None:
        if not self.has(key):
            return None
        child = self.child(key)
        _, container_id = child.container_id()
        return Termination(
            exit_code=child.whole("exitCode") or 0,
            reason=child.text("reason"),
            finished_unix_seconds=child.unix_seconds("finishedAt"),
            container_id=container_id,
        )

    def container_id(self) -> tuple[str | None, str | None]:
        """Return the runtime's name and the bare id of ``RUNTIME://ID``; None = not told."""
        runtime, separator, container_id = (self.text("containerID") or "").partition("://")
        return (runtime, container_id or None) if separator else (None, runtime or None)

    def container_status(self) -> ContainerStatus:
        runtime, container_id = self.container_id()
        states = self.child("state")
        return ContainerStatus(
            name=self.required_text("name"),
            container_id=container_id,
            runtime=runtime,
            state=next((state for state in ContainerState if states.has(state)), None),
            restart_count=self.whole("restartCount") or 0,
            is_ready=self.flag("ready"),
            is_started=self.optional("started", self.flag),
            started_unix_seconds=states.child("running").unix_seconds("startedAt"),
            termination=states.termination("terminated"),
            last_termination=self.child("lastState").termination("terminated"),
            allocated=self.optional("allocatedResources", self.amounts),
            actual=self.optional("resources", self.reported),
        )

    def claim(self) -> NodeAllocatableClaim:
        return NodeAllocatableClaim(
            containers=tuple(self.listed_texts("containers")),
            mapping=tuple(
                (entry.required_text("name"), entry.quantity("quantity"))
                for entry in self.items("mapping")
                if entry.has("quantity")
            ),
            overhead=tuple(
                ClaimOverhead(
                    resource=entry.required_text("name"),
                    per_pod=entry.optional("perPod", entry.quantity),
                    per_container=entry.optional("perContainer", entry.quantity),
                )
                for entry in self.items("overhead")
            ),
        )

    def pod(self) -> Pod:
        kind = self.text("kind")
        if kind not in (None, POD_KIND):
            raise self.error("kind", kind, POD_KIND)
        metadata, spec, status = self.child("metadata"), self.child("spec"), self.child("status")
        annotations, budget = metadata.annotations(), TextBudget()
        runtimes = runtimes_ordered(annotations)
        return Pod(
            uid=metadata.required_text("uid"),
            namespace=metadata.text("namespace") or "default",
            name=metadata.required_text("name"),
            resource_version=metadata.text("resourceVersion"),
            generation=metadata.whole("generation"),
            observed_generation=status.whole("observedGeneration"),
            created_unix_seconds=metadata.unix_seconds("creationTimestamp"),
            started_unix_seconds=status.unix_seconds("startTime"),
            node_name=spec.text("nodeName"),
            phase=status.text("phase"),
            is_terminating=metadata.has("deletionTimestamp"),
            labels=dict(islice(metadata.texts("labels").items(), MOST_LABELS)),
            annotations=annotations,
            owners=metadata.owners(),
            priority=spec.whole("priority"),
            priority_class=spec.text("priorityClassName"),
            operating_system=spec.operating_system(),
            has_memory_volumes=any(
                volume.child("emptyDir").text("medium") == _MEMORY_MEDIUM for volume in spec.items("volumes")
            ),
            has_resource_claims=bool(spec.items("resourceClaims")),
            containers=tuple(
                item.container(ContainerKind.REGULAR, runtimes, budget) for item in spec.items("containers")
            ),
            init_containers=tuple(
                item.container(ContainerKind.INIT, runtimes, budget) for item in spec.items("initContainers")
            ),
            ephemeral_containers=tuple(
                item.container(ContainerKind.EPHEMERAL, runtimes, budget) for item in spec.items("ephemeralContainers")
            ),
            resources=spec.optional("resources", spec.requirements),
            overhead=spec.amounts("overhead"),
            recorded_qos=status.choice("qosClass", QosClass),
            statuses=tuple(
                item.container_status()
                for key in ("containerStatuses", "initContainerStatuses")
                for item in status.items(key)
            ),
            ephemeral_statuses=tuple(item.container_status() for item in status.items("ephemeralContainerStatuses")),
            allocated=status.optional("allocatedResources", status.amounts),
            actual=status.optional("resources", status.reported),
            conditions=tuple(
                PodCondition(
                    type=condition.required_text("type"),
                    status=condition.text("status") or "Unknown",
                    reason=condition.text("reason"),
                    message=condition.text("message"),
                    observed_generation=condition.whole("observedGeneration"),
                    last_transition_unix_seconds=condition.unix_seconds("lastTransitionTime"),
                )
                for condition in status.items("conditions")
            ),
            claims=tuple(item.claim() for item in status.items("nodeAllocatableResourceClaimStatuses")),
        )

    def owners(self) -> tuple[OwnerReference, ...]:
        """Return a pod's owners by its metadata: of many the controller first, and some of the others."""
        owners = [
            OwnerReference(
                kind=owner.required_text("kind"),
                name=owner.required_text("name"),
                uid=owner.required_text("uid"),
                is_controller=owner.flag("controller"),
            )
            for owner in self.items("ownerReferences")
        ]
        if len(owners) <= MOST_OTHER_OWNERS:
            return tuple(owners)
        others = [owner for owner in owners if not owner.is_controller][:MOST_OTHER_OWNERS]
        return (*(owner for owner in owners if owner.is_controller), *others)

    def operating_system(self) -> str | None:
        """Return which system a pod's spec asks for."""
        selector = self.child("nodeSelector")
        named = (self.child("os").text("name"), *(selector.text(label) for label in _OS_LABELS))
        return next((name for name in named if name is not None), None)

    def node(self) -> Node:
        kind = self.text("kind")
        if kind not in (None, NODE_KIND):
            raise self.error("kind", kind, NODE_KIND)
        metadata, spec, status = self.child("metadata"), self.child("spec"), self.child("status")
        system = status.child("nodeInfo")
        return Node(
            name=metadata.required_text("name"),
            uid=metadata.text("uid"),
            resource_version=metadata.text("resourceVersion"),
            labels=metadata.texts("labels"),
            annotations=metadata.annotations(),
            taints=tuple(
                Taint(
                    key=taint.required_text("key"),
                    effect=taint.required_text("effect"),
                    value=taint.text("value"),
                )
                for taint in spec.items("taints")
            ),
            capacity=status.amounts("capacity"),
            allocatable=status.amounts("allocatable"),
            kubelet_version=system.text("kubeletVersion"),
            operating_system=system.text("operatingSystem"),
            declared_features=frozenset(status.listed_texts("declaredFeatures"))
            if status.has("declaredFeatures")
            else None,
            conditions={
                condition.required_text("type"): condition.text("status") or "Unknown"
                for condition in status.items("conditions")
            },
            resize_preemption_disabled_for=tuple(
                spec.child("podPreemptionPolicy").listed_texts("disableResizePreemption")
            ),
        )

    def namespace(self) -> Namespace:
        kind = self.text("kind")
        if kind not in (None, *NAMESPACE_KINDS):
            raise self.error("kind", kind, " or ".join(NAMESPACE_KINDS))
        metadata = self.child("metadata")
        return Namespace(
            name=metadata.required_text("name"), labels=metadata.texts("labels"), annotations=metadata.annotations()
        )
