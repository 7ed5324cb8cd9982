"""What the containers of a new pod are given together: fitted to the pod's own budget, ranges, quotas and QoS class.

Core, pure. Whatever does not fit is left as it came, one resource at a time, and it is said why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agent.core.admission.answer import AdmissionFacts, ContainerAdmission, LeftReason, Move
from agent.core.admission.estimate import Estimate, NoEstimate
from agent.core.admission.limit_ranges import UNIT_NANOS, quota_fault, range_fault
from agent.core.admission.sizes import ContainerSide, stated_amounts
from agent.core.cluster.effective_resources import container_requests, pod_requests
from agent.core.cluster.facts import NodeAmounts
from agent.core.cluster.pod import Container, ContainerKind, Pod, QosClass, Requirements
from agent.core.cluster.pod_defaults import KNOWN_POD_LEVEL, Defaulting, classes_at_creation
from agent.core.cluster.qos import computed_qos_class
from agent.core.cluster.resource import Resource
from agent.core.plan.pod_change import Setting

POD_RESOURCES: Final = "spec.resources"
_FILLED_IN: Final = "spec.resources as the API server fills it in"


@dataclass(slots=True, kw_only=True)
class Draft:
    """One container while it is worked on."""

    container: Container
    index: int
    """In its list of the spec."""
    sides: Mapping[Resource, ContainerSide]
    estimate: Estimate | NoEstimate | None = None

    @property
    def is_changed(self) -> bool:
        """Return whether anything differs."""
        return any(side.is_changed for side in self.sides.values())

    def copied(self) -> Draft:
        """Return one that can be worked on without this one."""
        return replace(self, sides={resource: side.copied() for resource, side in self.sides.items()})

    def on(self, container: Container) -> Draft:
        """Return the same end from another beginning: the container as it is shown now."""
        if container is self.container:
            return self
        twin = replace(self.copied(), container=container)
        for resource, (request, limit) in stated_amounts(container.resources).items():
            side = twin.sides[resource]
            side.request_before, side.limit_before = request, limit
        return twin

    def answer(self) -> ContainerAdmission:
        """Return what became of it."""
        return ContainerAdmission(
            name=self.container.name,
            kind=self.container.kind,
            estimate=self.estimate,
            moves=tuple(self._moves()),
            notes=tuple(dict.fromkeys(note for side in self.sides.values() for note in side.notes)),
        )

    def _moves(self) -> Iterator[Move]:
        stated = self.container.resources
        for resource, side in self.sides.items():
            for setting, before, after, amounts in (
                (Setting.REQUEST, side.request_before, side.request, stated.requests),
                (Setting.LIMIT, side.limit_before, side.limit, stated.limits),
            ):
                if before != after:
                    yield Move(
                        kind=self.container.kind,
                        index=self.index,
                        container=self.container.name,
                        resource=resource,
                        setting=setting,
                        before=before,
                        after=after,
                        has_others=bool(amounts),
                    )


def with_drafts(pod: Pod, drafts: Sequence[Draft], resources: Requirements | None = None) -> Pod:
    """Return the pod as it would be; containers without a draft stay, and so does the budget if none is given."""
    changed = {(draft.container.kind, draft.index): draft for draft in drafts if draft.is_changed}

    def built(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(
            container if draft is None else replace(container, resources=_resources(container.resources, draft))
            for index, container in enumerate(containers)
            for draft in (changed.get((container.kind, index)),)
        )

    return replace(
        pod,
        containers=built(pod.containers),
        init_containers=built(pod.init_containers),
        resources=pod.resources if resources is None else resources,
        recorded_qos=None,
    )


def _resources(stated: Requirements, draft: Draft) -> Requirements:
    """Return what a container states after its draft; what did not change keeps its last nano."""
    requests, limits = dict(stated.requests), dict(stated.limits)
    for resource, side in draft.sides.items():
        for amounts, before, after in (
            (requests, side.request_before, side.request),
            (limits, side.limit_before, side.limit),
        ):
            if before == after:
                continue
            if after is None:
                del amounts[resource.value]
            else:
                amounts[resource.value] = after * UNIT_NANOS[resource]
    return Requirements(requests=requests, limits=limits)


def fit_pod_budget(pod: Pod, drafts: Sequence[Draft], budget: Requirements | None) -> None:
    """Keep the containers within the pod's own requests and limits: growth that they do not hold is left out.

    The budget itself belongs to whoever wrote it. One that the pod is to be given stands for that which it has not.
    """
    stated = pod.resources or budget or Requirements()
    for resource in Resource:
        held = stated.requests.get(resource.value, stated.limits.get(resource.value))
        if held is not None and container_requests(with_drafts(pod, drafts)).get(resource.value, 0) > held:
            for draft in drafts:
                draft.sides[resource].revert_growth(Setting.REQUEST, LeftReason.POD_BUDGET, POD_RESOURCES)


def fit_node(pod: Pod, drafts: Sequence[Draft], facts: AdmissionFacts, resources: Requirements | None = None) -> None:
    """Leave out growth with which no node could run the pod: whoever saw such a figure did not see it on a node.

    A limit above what a node has is as good as none, so it grows no further than that.
    """
    if facts.room is None:
        return
    requests = pod_requests(with_drafts(pod, drafts, resources))
    for resource, most in _room(facts.room).items():
        # What is left out of one resource moves no request of the other.
        if requests.get(resource.value, 0) > most * UNIT_NANOS[resource]:
            for draft in drafts:
                draft.sides[resource].revert_growth(Setting.REQUEST, LeftReason.NODE, "")
        for draft in drafts:
            side = draft.sides[resource]
            if side.limit is None or side.limit <= max(most, side.limit_before or 0):
                continue
            if most < (side.request or 0):
                side.revert_growth(Setting.LIMIT, LeftReason.NODE, "")
            else:
                side.note(Setting.LIMIT, LeftReason.NODE)
                side.limit = max(most, side.limit_before or 0)


def _room(room: NodeAmounts) -> dict[Resource, int]:
    return {Resource.CPU: room.cpu_millicores, Resource.MEMORY: room.memory_bytes}


def node_fault(before: Pod, after: Pod, facts: AdmissionFacts) -> Resource | None:
    """Return the resource of which no node can allocate what a pod would request; None = as it came, or a node can."""
    was, is_now = pod_requests(before), pod_requests(after)
    for resource, most in _room(facts.room).items() if facts.room is not None else ():
        if is_now.get(resource.value, 0) > max(most * UNIT_NANOS[resource], was.get(resource.value, 0)):
            return resource
    return None


def cap_limits(drafts: Sequence[Draft], budget: Mapping[Resource, int]) -> None:
    """Lower the limits of containers to those that their pod has or is to be given, as the API wants; requests stay."""
    for draft in drafts:
        if draft.container.kind is ContainerKind.INIT:
            continue
        for resource, most in budget.items():
            side = draft.sides[resource]
            if side.limit is not None and side.limit > most >= (side.request or 0):
                side.note(Setting.LIMIT, LeftReason.POD_BUDGET, POD_RESOURCES)
                side.limit = most


def fit_namespace(
    pod: Pod, drafts: Sequence[Draft], facts: AdmissionFacts, resources: Requirements | None = None
) -> None:
    """Leave out what quotas have no room for, with the workload's further pods, then what LimitRanges would refuse."""
    if facts.quotas:
        for resource in Resource:
            for setting in Setting:
                after = with_drafts(pod, drafts, resources)
                holder = quota_fault(pod, after, facts.quotas, resource, setting, pods=pods_of(drafts, facts))
                if holder is not None:
                    for draft in drafts:
                        draft.sides[resource].revert_growth(setting, LeftReason.QUOTA, holder)
    for resource in Resource if facts.limit_ranges else ():
        holder = range_fault(with_drafts(pod, drafts, resources), facts.limit_ranges, resource)
        if holder is not None:
            for draft in drafts:
                draft.sides[resource].revert(LeftReason.LIMIT_RANGE, holder)


def pods_of(drafts: Sequence[Draft], facts: AdmissionFacts) -> int:
    """Return how many pods the workload has: those that run, or more that told of themselves in the newest hour.

    Of a workload whose pods are all replaced at once, or that was scaled to nothing, only the history tells.
    """
    counts = [draft.estimate.pods for draft in drafts if isinstance(draft.estimate, Estimate)]
    return max([facts.replicas or 0, *counts])


def fit_class(pod: Pod, drafts: Sequence[Draft], facts: AdmissionFacts) -> None:
    """Leave as it came what would give the pod another QoS class, and no more than that takes."""
    defaultings = defaultings_of(facts)
    fault = class_fault(pod, with_drafts(pod, drafts), defaultings)
    if fault is None:
        return

    def is_enough(take_back: Callable[[ContainerSide, str], None]) -> bool:
        tried = [draft.copied() for draft in drafts]
        _take_back(tried, take_back, fault)
        return class_fault(pod, with_drafts(pod, tried), defaultings) is None

    _take_back(drafts, next(filter(is_enough, _CLASS_TRIES), _everything), fault)


def _take_back(drafts: Sequence[Draft], take_back: Callable[[ContainerSide, str], None], fault: ClassFault) -> None:
    for draft in drafts:
        for side in draft.sides.values():
            take_back(side, fault.by)


def _limits_that_grow(side: ContainerSide, by: str) -> None:
    side.revert_growth(Setting.LIMIT, LeftReason.QOS, by)


def _cpu(side: ContainerSide, by: str) -> None:
    if side.resource is Resource.CPU:
        side.revert(LeftReason.QOS, by)


def _everything(side: ContainerSide, by: str) -> None:
    side.revert(LeftReason.QOS, by)


_CLASS_TRIES: Final = (_limits_that_grow, _cpu)
"""What is taken back, the least first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassFault:
    """The QoS class would be another."""

    before: QosClass
    after: QosClass
    is_filled_in: bool
    """Only by what the API server fills into the pod's own resources."""

    @property
    def by(self) -> str:
        """Return who is to blame, for a note; empty = nobody by name."""
        return _FILLED_IN if self.is_filled_in else ""

    def __str__(self) -> str:
        """Return ``the QoS class would change from Burstable to Guaranteed``."""
        return f"the QoS class would change from {self.before} to {self.after}"


def class_fault(before: Pod, after: Pod, defaultings: Sequence[Defaulting] = KNOWN_POD_LEVEL) -> ClassFault | None:
    """Return how the QoS class would change; None = it stays, whichever of these API servers stores the pod."""
    pairs = zip(classes_at_creation(before, defaultings), classes_at_creation(after, defaultings), strict=True)
    changed = next(((was, is_now) for was, is_now in pairs if was is not is_now), None)
    if changed is None:
        return None
    as_seen = computed_qos_class(before), computed_qos_class(after)
    return ClassFault(before=changed[0], after=changed[1], is_filled_in=as_seen[0] is as_seen[1])


def defaultings_of(facts: AdmissionFacts) -> tuple[Defaulting, ...]:
    """Return what the API server may fill in; of its version is known whether pods have resources of their own."""
    return KNOWN_POD_LEVEL if facts.knows_pod_level_resources else (Defaulting.DROPPED, *KNOWN_POD_LEVEL)


def fault_of(before: Pod, after: Pod, facts: AdmissionFacts, *, is_class_judged: bool = False) -> str | None:
    """Return what must not be of a pod that is about to be patched; None = all holds.

    Args:
        is_class_judged: The pod is given resources of its own, and the QoS class that they make was found well.
    """
    fault = None if is_class_judged else class_fault(before, after, defaultings_of(facts))
    if fault is not None:
        return str(fault)
    for container in after.sized_containers():
        for name, request in container.resources.requests.items():
            if request > container.resources.limits.get(name, request):
                return f"container {container.name}: the {name} request would be above its limit"
    lacking = node_fault(before, after, facts)
    if lacking is not None:
        return f"no node can allocate the {lacking} that it would request"
    for resource in Resource:
        holder = range_fault(after, facts.limit_ranges, resource)
        if holder is not None and range_fault(before, facts.limit_ranges, resource) is None:
            return f"{holder} would refuse its {resource}"
    return _budget_fault(after)


def _budget_fault(pod: Pod) -> str | None:
    if pod.resources is None:
        return None
    asked = container_requests(pod)
    for resource in Resource:
        request, limit = pod.resources.requests.get(resource.value), pod.resources.limits.get(resource.value)
        held = limit if request is None else request
        if held is not None and asked.get(resource.value, 0) > held:
            return f"{POD_RESOURCES} would hold less {resource} than its containers request"
        if limit is not None and any(
            container.resources.limits.get(resource.value, 0) > limit for container in pod.containers
        ):
            return f"{POD_RESOURCES} would hold less {resource} than a container's limit"
    return None
