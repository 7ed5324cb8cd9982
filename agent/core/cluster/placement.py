"""What decides on which nodes a pod may run, of both, as the API states it. Core, pure.

As much as the question "could this node go" takes; the scheduler knows more. What is not worked out here says so
(``PodPlacement.held_for``), so that nobody takes a guess for an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agent.core.cluster.node import Taint

PER_POD_LABELS: Final = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/job-name",
        "controller-revision-hash",
        "controller-uid",
        "job-name",
        "pod-template-generation",
        "pod-template-hash",
        "rollouts-pod-template-hash",
        "statefulset.kubernetes.io/pod-name",
    }
)
"""Labels that controllers give, another value to each pod or revision: not kept, and a selector that asks for one
counts as met."""
NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
BARRING_EFFECTS: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})


class Operator(StrEnum):
    """What a requirement asks of a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One requirement of a selector."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def is_met(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet it, as the API server and the scheduler would say."""
        value = labels.get(self.key)
        if self.operator is Operator.EXISTS:
            return value is not None
        if self.operator is Operator.DOES_NOT_EXIST:
            return value is None
        if self.operator is Operator.IN:
            return value in self.values
        if self.operator is Operator.NOT_IN:
            return value not in self.values
        number, bound = _whole(value), _whole(self.values[0] if self.values else None)
        if number is None or bound is None:
            return False
        return number > bound if self.operator is Operator.GREATER else number < bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """A label selector; without requirements it selects everything."""

    requirements: tuple[Requirement, ...] = ()

    def may_select(self, labels: Mapping[str, str]) -> bool:
        """Return whether it selects a pod of these labels; what it asks of ``PER_POD_LABELS`` counts as met."""
        return all(requirement.key in PER_POD_LABELS or requirement.is_met(labels) for requirement in self.requirements)


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """What a pod bears."""

    key: str = ""
    """Empty = any key, where ``is_any_value``."""
    value: str = ""
    effect: str = ""
    """Empty = any."""
    is_any_value: bool = False
    """Operator ``Exists``."""

    def bears(self, taint: Taint) -> bool:
        """Return whether a pod with it may run in spite of a taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key != taint.key:
            return not self.key and self.is_any_value
        return self.is_any_value or self.value == (taint.value or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAntiAffinity:
    """A required term by node: pods with which a pod must not share one."""

    selector: Selector
    namespaces: tuple[str, ...] = ()
    """Of those, by name; where nothing is chosen by labels either, of the pod's own."""
    namespace_selector: Selector | None = None
    """And of those with such labels; without requirements of all."""

    def may_mean(self, namespace: str, labels: Mapping[str, str] | None, *, own_namespace: str) -> bool:
        """Return whether it is of pods of a namespace; one whose labels are not known (None) counts as chosen."""
        if self.namespace_selector is None:
            return namespace in (self.namespaces or (own_namespace,))
        return namespace in self.namespaces or labels is None or self.namespace_selector.may_select(labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class WideAntiAffinity:
    """A required term by more than the node, or by keys of labels: from which nodes it bars pods is not worked out."""

    selector: Selector
    is_of_namespace: bool
    """Of pods of its own namespace alone; False = of any, whichever it chooses."""


Pairs = tuple[tuple[str, str], ...]
Amounts = tuple[tuple[str, int], ...]
"""Nanos by resource name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlacement:
    """What of a pod decides where it may run: the same for all pods of a template, so it is kept once."""

    labels: Pairs = ()
    """Without ``PER_POD_LABELS``."""
    node_selector: Pairs = ()
    node_terms: tuple[tuple[Requirement, ...], ...] = ()
    """Of required node affinity: one of them must be met whole; empty = any node."""
    tolerations: tuple[Toleration, ...] = ()
    apart_from: tuple[NodeAntiAffinity, ...] = ()
    """Pods with which it must not share a node."""
    widely_apart_from: tuple[WideAntiAffinity, ...] = ()
    """Pods with which it must not share more than that, such as a zone."""
    host_ports: tuple[int, ...] = ()
    other_requests: Amounts = ()
    """Besides CPU and memory."""
    stays_in_zone: bool = False
    """It has a volume, and those are mostly of one zone."""
    has_controller: bool = True
    """Something would make it anew; False = a pod that somebody made by hand."""
    is_of_node: bool = False
    """It goes with its node: of a DaemonSet, or static."""
    held_for: str = ""
    """Why it is not to be moved, or where it may run is not worked out, in words; empty = neither."""
    stage_cpu_millicores: int = 0
    """What its init containers need at most, before the others begin."""
    stage_memory_bytes: int = 0
    overhead_cpu_millicores: int = 0
    overhead_memory_bytes: int = 0
    is_written_known: bool = True
    """What its containers were written with is what the pod requested; False = it has requests of its own."""

    @property
    def parts(self) -> int:
        """Count the labels, rules and values that it is made of: what it takes to keep."""
        selectors = [term.selector for term in self.apart_from]
        selectors += [term.selector for term in self.widely_apart_from]
        selectors += [term.namespace_selector for term in self.apart_from if term.namespace_selector is not None]
        requirements = [requirement for term in self.node_terms for requirement in term]
        requirements += [requirement for selector in selectors for requirement in selector.requirements]
        plain = (self.labels, self.node_selector, self.tolerations, self.host_ports, self.other_requests, selectors)
        return (
            sum(map(len, plain))
            + sum(1 + len(requirement.values) for requirement in requirements)
            + sum(len(term.namespaces) for term in self.apart_from)
        )

    def cpu_millicores(self, containers_millicores: int) -> int:
        """Return what the pod requests in all where its containers and sidecars request so much."""
        return max(containers_millicores, self.stage_cpu_millicores) + self.overhead_cpu_millicores

    def memory_bytes(self, containers_bytes: int) -> int:
        """Return the same of memory."""
        return max(containers_bytes, self.stage_memory_bytes) + self.overhead_memory_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlacement:
    """What of a node decides which pods it takes, and by what its price is found."""

    labels: Pairs = ()
    provider_id: str = ""
    taints: tuple[Taint, ...] = ()
    """Those that keep pods away."""
    takes_pods: bool = True
    """It is Ready and not cordoned."""
    other_allocatable: Amounts = ()
    """Besides CPU and memory: ``pods``, devices, ephemeral storage."""


def _whole(text: str | None) -> int | None:
    digits = (text or "").removeprefix("-")
    return int(text or "") if digits.isascii() and digits.isdigit() and len(digits) <= 18 else None
