"""Files for ``plimsoll admission``: pods, or workloads by their templates; and what is known of them. Face."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.core.numbers.document_text import DocumentTextError, decoded, json_value, yaml_values
from agent.kube.objects.json_reader import ConvertError, Reader
from agent.kube.objects.pod_template import PODS_ALLOWED, member, pods_of
from agent.named_file import DOCUMENT_MOST_BYTES, called, read_named

if TYPE_CHECKING:
    from agent.core.admission.estimate import Estimate
    from agent.core.cluster.facts import NodeAmounts
    from agent.core.cluster.node import Namespace
    from agent.core.cluster.pod import Pod

_NAMESPACES_ALLOWED: Final = "the output of kubectl get namespaces -o json"
_NODES_ALLOWED: Final = "the output of kubectl get nodes -o json"
_HISTORY_ALLOWED: Final = "the output of plimsoll workloads -o json of one workload, or a list of estimates"


class AdmissionFilesError(ValueError):
    """A file that cannot be used; one line: file, place, value, what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPod:
    """One pod to admit."""

    document: Mapping[str, object]
    """As an API server would show it to a webhook."""
    pod: Pod
    node: str | None
    """The one node that it can go to."""


def load_asked_pods(path: Path) -> tuple[AskedPod, ...]:
    """Read the pods of a file, in its order; a workload gives one."""
    from agent.kube.objects.pod_json import pod_from_json
    from agent.kube.objects.target_node import node_named

    asked = []
    try:
        for index, document in enumerate(_documents(path)):
            for pod_document in pods_of(document, f"document {index + 1}"):
                pod = pod_from_json(pod_document)
                asked.append(AskedPod(document=pod_document, pod=pod, node=node_named(pod_document.get("spec"))))
    except ConvertError as error:
        raise AdmissionFilesError(f"{called(path)}: {error}") from error
    if not asked:
        raise AdmissionFilesError(f"{called(path)}: no pod in it; allowed: {PODS_ALLOWED}")
    return tuple(asked)


def load_namespaces(path: Path) -> dict[str, Namespace]:
    """Read what ``kubectl get namespaces -o json`` (or ``-o yaml``) prints."""
    from agent.kube.objects.pod_json import namespaces_from_json

    try:
        documents = _documents(path)
        if not documents:
            raise AdmissionFilesError(f"{called(path)}: nothing in it; allowed: {_NAMESPACES_ALLOWED}")
        return {namespace.name: namespace for document in documents for namespace in namespaces_from_json(document)}
    except ConvertError as error:
        raise AdmissionFilesError(f"{called(path)}: {error}") from error


def load_nodes(path: Path) -> dict[str, NodeAmounts]:
    """Read what nodes can allocate, by name, from what ``kubectl get nodes -o json`` (or ``-o yaml``) prints."""
    from agent.kube.objects.cluster_json import node_facts_from_json

    allocatable: dict[str, NodeAmounts] = {}
    try:
        for index, document in enumerate(_documents(path)):
            top = Reader(document, f"document {index + 1}")
            items = member(document, "items")
            for item in items if isinstance(items, list) else [document]:
                kind = member(item, "kind")
                if kind != "Node":
                    raise top.error("kind", kind, _NODES_ALLOWED)
                node = node_facts_from_json(item)
                if node.allocatable is not None:
                    allocatable[node.name] = node.allocatable
    except ConvertError as error:
        raise AdmissionFilesError(f"{path.name}: {error}") from error
    if not allocatable:
        raise AdmissionFilesError(f"{path.name}: no node says what it can allocate; allowed: {_NODES_ALLOWED}")
    return allocatable


def items_of(path: Path, kind: str, allowed: str) -> list[object]:
    """Read the objects of one kind in what ``kubectl get KIND -o json`` (or ``-o yaml``) prints; there may be none."""
    objects: list[object] = []
    try:
        documents = _documents(path)
        if not documents:
            raise AdmissionFilesError(f"{called(path)}: nothing in it; allowed: {allowed}")
        for index, document in enumerate(documents):
            top = Reader(document, f"document {index + 1}")
            items = member(document, "items")
            for item in items if isinstance(items, list) else [document]:
                if member(item, "kind") != kind:
                    raise top.error("kind", member(item, "kind"), allowed)
                objects.append(item)
    except ConvertError as error:
        raise AdmissionFilesError(f"{called(path)}: {error}") from error
    return objects


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownContainer:
    """What a file knows of one container of a workload."""

    namespace: str
    kind: str
    name: str
    container: str
    node: str | None
    """Of a DaemonSet: whose node's history it is of; None = of all nodes, or of nodes alike."""
    estimate: Estimate


def load_history(path: Path) -> tuple[KnownContainer, ...]:
    """Read estimates from JSON.

    A workload as ``/v1/workloads/...`` gives it, several as ``{"workloads": [...]}``, or estimates alone as
    ``{"estimates": [{"namespace", "kind", "name", "container", "source", "policy", ...}]}``.
    """
    try:
        documents = _documents(path)
        if len(documents) != 1:
            raise AdmissionFilesError(f"{called(path)}: {len(documents)} documents; allowed: {_HISTORY_ALLOWED}")
        top = _EstimateReader(documents[0], "")
        if top.has("estimates"):
            return tuple(estimate.known() for estimate in top.items("estimates"))
        if not top.has("workloads") and not top.has("containers"):
            raise top.error("containers", None, _HISTORY_ALLOWED)
        workloads = top.items("workloads") if top.has("workloads") else [top]
        return tuple(known for workload in workloads for known in workload.of_workload())
    except ConvertError as error:
        raise AdmissionFilesError(f"{called(path)}: {error}") from error


class _EstimateReader(Reader):
    """A workload, or one estimate."""

    def of_workload(self) -> Iterator[KnownContainer]:
        """Read what is advised for the containers of a workload; those without advice are left out."""
        for container in self.items("containers"):
            advice = container.child("advice")
            if not advice.has("missing"):
                yield self._known(container.required_text("container"), advice)

    def known(self) -> KnownContainer:
        """Read an estimate that names its workload."""
        return self._known(self.required_text("container"), self)

    def _known(self, container: str, figures: _EstimateReader) -> KnownContainer:
        return KnownContainer(
            namespace=self.required_text("namespace"),
            kind=self.required_text("kind"),
            name=self.required_text("name"),
            container=container,
            node=figures.text("node"),
            estimate=figures.estimate(),
        )

    def estimate(self) -> Estimate:
        """Read the figures."""
        from agent.core.admission.estimate import Estimate, EstimateSource
        from agent.core.orders.policy_options import PolicyName

        return Estimate(
            source=self.choice("source", EstimateSource) or EstimateSource.WORKLOAD,
            policy=self.choice("policy", PolicyName) or PolicyName.PLIMSOLL,
            cpu_request_millicores=self.amount("cpuRequestMillicores"),
            memory_request_bytes=self.amount("memoryRequestBytes"),
            cpu_max_millicores=self.amount("cpuMaxMillicores"),
            memory_max_bytes=self.amount("memoryMaxBytes"),
            oom_memory_bytes=self.amount("oomMemoryBytes"),
            cpu_base_millicores=self.amount("cpuBaseMillicores"),
            memory_base_bytes=self.amount("memoryBaseBytes"),
            history_seconds=self.seconds("historySeconds"),
            pods=self.amount("pods") or 0,
            newest_age_seconds=self.seconds("newestAgeSeconds"),
            memory_alone_bytes=self.amount("memoryAloneBytes"),
        )

    def amount(self, key: str) -> int | None:
        """Return a whole number that is not negative; None = not known."""
        value = self.whole(key)
        if value is not None and value < 0:
            raise self.error(key, value, "a whole number from 0 on, or null")
        return value

    def seconds(self, key: str) -> float:
        """Return a duration; one that is missing is 0: nothing is known of it."""
        value = self._value.get(key)
        if value is None:
            return 0.0
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise self.error(key, value, "seconds from 0 on")
        return float(value)


def _documents(path: Path) -> list[object]:
    try:
        text = decoded(read_named(path, most_bytes=DOCUMENT_MOST_BYTES))
        if text.lstrip().startswith("{"):
            return [json_value(text)]
        return [document for document in yaml_values(text) if document is not None]
    except OSError as error:
        raise AdmissionFilesError(f"{called(path)}: cannot be read: {error.strerror or error} ({path})") from error
    except DocumentTextError as error:
        raise AdmissionFilesError(f"{called(path)}: {error}") from error
