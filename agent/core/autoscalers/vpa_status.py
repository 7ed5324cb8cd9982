"""The status of a VerticalPodAutoscaler: what its pods are recommended, why not, and who acts on it. Core, pure.

The target is what a new pod would request, so that whoever plans by it (Karpenter, VPA's own updater) is right. The
lower bound is the sustained demand, the upper bound the largest of seven days, and the uncapped target what the policy
says before bounds, limits and the namespace's ranges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from agent.core.admission.answer import Admission, AdmissionOutcome, ContainerAdmission, LeftReason
from agent.core.admission.estimate import Estimate
from agent.core.admission.sizes import cpu_wish, memory_wish
from agent.core.autoscalers.vpa_orders import VpaOrders
from agent.core.cluster.pod import Container, Pod
from agent.core.cluster.resource import Resource
from agent.core.cluster.vpa import RecommendedContainerResources, VpaCondition, VpaObject, VpaStatus
from agent.core.orders.order import Mode, Orders
from agent.core.plan.pod_change import Setting

LEAST_MOVE_RATIO: Final = 0.05
"""A status whose amounts all moved by less stays as it is."""
CONFIDENT_SECONDS: Final = 86_400.0
RECOMMENDATION_PROVIDED: Final = "RecommendationProvided"
LOW_CONFIDENCE: Final = "LowConfidence"
NO_PODS_MATCHED: Final = "NoPodsMatched"
CONFIG_UNSUPPORTED: Final = "ConfigUnsupported"
SIZED_BY_PLIMSOLL: Final = "SizedByPlimsoll"
"""Of ours alone: whether Plimsoll acts on the object, and if not, who or what is before it."""
OWN_CONDITIONS: Final = (
    RECOMMENDATION_PROVIDED,
    LOW_CONFIDENCE,
    NO_PODS_MATCHED,
    CONFIG_UNSUPPORTED,
    SIZED_BY_PLIMSOLL,
)
TRUE, FALSE = "True", "False"
_LONGEST_MESSAGE: Final = 2048
_ANSWERED: Final = (AdmissionOutcome.PATCHED, AdmissionOutcome.NOOP)
_NOT_RECOMMENDED: Final = frozenset(
    {
        LeftReason.NO_FIGURE,
        LeftReason.NOT_STATED,
        LeftReason.NOT_APPLIED,
        LeftReason.HPA,
        LeftReason.DAEMON_SET,
        LeftReason.POD_BUDGET,
    }
)
"""Why a request is none of ours: what a new pod requests then, its template says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VpaView:
    """What is known of an object's pods."""

    orders: VpaOrders
    pod: Pod | None = None
    """One of them, as it was written; None = there are none."""
    admission: Admission | None = None
    """What a new one would be given, were it sized whatever its mode; None = it could not be asked."""
    standing: Admission | None = None
    """What the first of an enforced share is given that is created now; None = it could not be asked."""
    held_by: VpaObject | None = None
    """The older object that counts for the same workload; None = this one does."""


def status_of(view: VpaView, *, now_unix_seconds: float) -> VpaStatus:
    """Return the status that an object should have."""
    vpa = view.orders.vpa
    recommended = () if view.pod is None else _recommended(view, view.pod)
    conditions = tuple(_conditions(view, recommended))
    return VpaStatus(
        containers=recommended,
        conditions=_merged(vpa.status.conditions, conditions, now_unix_seconds),
        observed_generation=vpa.generation,
    )


def is_worth_writing(before: VpaStatus, after: VpaStatus) -> bool:
    """Return whether a status differs by enough: an amount by a twentieth, a condition, a container, the generation.

    A status without containers leaves what was recommended.
    """
    if before.observed_generation != after.observed_generation:
        return True
    if [_said(condition) for condition in before.conditions] != [_said(condition) for condition in after.conditions]:
        return True
    if not after.containers:
        return False
    if [advice.container for advice in before.containers] != [advice.container for advice in after.containers]:
        return True
    return any(
        _has_moved(old, new)
        for was, now in zip(before.containers, after.containers, strict=True)
        for old, new in zip(_amounts(was), _amounts(now), strict=True)
    )


def _said(condition: VpaCondition) -> tuple[str, str, str, str]:
    return condition.type, condition.status, condition.reason, condition.message


def _amounts(advice: RecommendedContainerResources) -> tuple[Mapping[Resource, int], ...]:
    return advice.target, advice.lower_bound, advice.upper_bound, advice.uncapped_target


def _has_moved(old: Mapping[Resource, int], new: Mapping[Resource, int]) -> bool:
    if old.keys() != new.keys():
        return True
    return any(abs(new[resource] - old[resource]) >= max(old[resource], 1) * LEAST_MOVE_RATIO for resource in new)


def _recommended(view: VpaView, pod: Pod) -> tuple[RecommendedContainerResources, ...]:
    admission, standing = view.admission, view.standing
    if admission is None or admission.outcome not in _ANSWERED or standing is None or standing.orders is None:
        return ()
    stated = {container.name: container for container in pod.sized_containers()}
    all_advice = [
        _of_container(answer, answer.estimate, stated[answer.name], standing.orders)
        for answer in admission.containers
        if isinstance(answer.estimate, Estimate) and answer.name in stated
    ]
    return tuple(sorted((advice for advice in all_advice if advice.target), key=lambda advice: advice.container))


def _of_container(
    answer: ContainerAdmission, estimate: Estimate, container: Container, orders: Orders
) -> RecommendedContainerResources:
    target: dict[Resource, int] = {}
    lower, upper, uncapped = dict(target), dict(target), dict(target)
    policy = orders.container_policies.of(answer.name)
    for resource in Resource:
        request = _request(answer, container, resource)
        if request is None or not policy.sizes(resource):
            continue
        is_cpu = resource is Resource.CPU
        base = estimate.cpu_base_millicores if is_cpu else estimate.memory_base_bytes
        most = estimate.cpu_max_millicores if is_cpu else estimate.memory_max_bytes
        wish = cpu_wish(estimate) if is_cpu else memory_wish(estimate, policy)
        target[resource] = request
        lower[resource] = min(request, _within(base, request, answer.name, resource, orders))
        upper[resource] = max(request, _within(most, request, answer.name, resource, orders))
        uncapped[resource] = request if wish is None else wish
    return RecommendedContainerResources(
        container=answer.name, target=target, lower_bound=lower, upper_bound=upper, uncapped_target=uncapped
    )


def _request(answer: ContainerAdmission, container: Container, resource: Resource) -> int | None:
    """Return what a new pod's container requests; None = nothing that is ours to say."""
    for note in answer.notes:
        if (note.resource, note.setting) == (resource, Setting.REQUEST) and note.left in _NOT_RECOMMENDED:
            return None
    for move in answer.moves:
        if (move.resource, move.setting) == (resource, Setting.REQUEST):
            return move.after
    stated = container.resources
    return (stated.cpu_request_millicores if resource is Resource.CPU else stated.memory_request_bytes) or None


def _within(amount: int | None, otherwise: int, container: str, resource: Resource, orders: Orders) -> int:
    if amount is None:
        return otherwise
    least, most = orders.bounds_of(container, resource)
    raised = max(amount, least or 0)
    return raised if most is None else min(raised, most)


def _conditions(view: VpaView, recommended: tuple[RecommendedContainerResources, ...]) -> Iterable[VpaCondition]:
    provided, reason, message = _provided(view, recommended)
    yield VpaCondition(type=RECOMMENDATION_PROVIDED, status=provided, reason=reason, message=_cut(message))
    if _is_young(view, recommended):
        words = "less than a day of history"
        yield VpaCondition(type=LOW_CONFIDENCE, status=TRUE, reason="ShortHistory", message=words)
    if view.pod is None:
        words = f"no pod of {_target(view)} is known; what was recommended last stays"
        yield VpaCondition(type=NO_PODS_MATCHED, status=TRUE, reason="NoPods", message=_cut(words))
    if view.orders.faults:
        words = "; ".join(view.orders.faults)
        yield VpaCondition(type=CONFIG_UNSUPPORTED, status=TRUE, reason="NotHonoured", message=_cut(words))
    acts, reason, message = _acting(view)
    yield VpaCondition(type=SIZED_BY_PLIMSOLL, status=TRUE if acts else FALSE, reason=reason, message=_cut(message))


def _provided(view: VpaView, recommended: tuple[RecommendedContainerResources, ...]) -> tuple[str, str, str]:
    if recommended:
        return TRUE, "Recommended", ""
    if view.pod is None:
        return FALSE, "NoPods", "there is no pod to recommend for"
    if view.admission is None:
        return FALSE, "NotAsked", "what a new pod would request is not known yet"
    if view.admission.outcome is AdmissionOutcome.EXCLUDED:
        return FALSE, "NotSized", view.admission.why
    if view.admission.outcome is AdmissionOutcome.ERROR:
        return FALSE, "LeftAsItCame", view.admission.why
    missing = [
        f"{answer.name}: {str(answer.estimate or 'not sized').replace('_', ' ')}"
        for answer in view.admission.containers
        if not isinstance(answer.estimate, Estimate)
    ]
    return FALSE, "NoHistory", "; ".join(missing) or "no container of its pods is sized"


def _is_young(view: VpaView, recommended: tuple[RecommendedContainerResources, ...]) -> bool:
    names = {advice.container for advice in recommended}
    answers = view.admission.containers if view.admission is not None else ()
    return any(
        answer.estimate.history_seconds < CONFIDENT_SECONDS
        for answer in answers
        if answer.name in names and isinstance(answer.estimate, Estimate)
    )


def _acting(view: VpaView) -> tuple[bool, str, str]:
    """Return whether Plimsoll sizes the pods, a reason and words."""
    orders, standing = view.orders, view.standing
    if view.held_by is not None:
        return False, "OtherObject", f"{view.held_by} is for the same {_target(view)}, and older"
    if orders.left_to is not None:
        return False, "LeftToVpa", f"left to {orders.left_to}, which go by this status; Plimsoll sizes nothing here"
    if standing is None or standing.orders is None:
        return False, "NoPods", "there is no pod whose orders could be read"
    ordered = standing.orders
    by = orders.name if ordered.mode_source.name == "AUTOSCALER" else f"the {ordered.mode_source}"
    if ordered.faults:
        return False, "NotUnderstood", "; ".join(map(str, ordered.faults))
    if ordered.mode in (Mode.OFF, Mode.RECOMMEND):
        return False, f"Mode{str(ordered.mode).capitalize()}", f"mode {ordered.mode} by {by}"
    if standing.outcome is AdmissionOutcome.EXCLUDED:
        return False, "NotSized", standing.why
    if ordered.mode_source.name == "AUTOSCALER" and orders.at_admission != orders.on_nodes:
        return True, "AtAdmission", "new pods are sized, and those that run stay as they are"
    return True, f"Mode{str(ordered.mode).capitalize()}", f"mode {ordered.mode} by {by}"


def _target(view: VpaView) -> str:
    target = view.orders.vpa.target
    return f"{target.kind} {target.name}"


def _merged(
    before: Iterable[VpaCondition], wanted: tuple[VpaCondition, ...], now_unix_seconds: float
) -> tuple[VpaCondition, ...]:
    """Keep the conditions of others; a time of transition moves only with the status, in whole seconds as the API's."""
    old = {condition.type: condition for condition in before}
    others = [condition for condition in old.values() if condition.type not in OWN_CONDITIONS]
    ours = [
        replace(
            condition,
            last_transition_unix_seconds=was.last_transition_unix_seconds
            if (was := old.get(condition.type)) is not None and was.status == condition.status
            else float(int(now_unix_seconds)),
        )
        for condition in wanted
    ]
    return (*others, *ours)


def _cut(message: str) -> str:
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[: _LONGEST_MESSAGE - 3]}..."
