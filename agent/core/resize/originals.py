"""What a pod requested before Plimsoll resized it, and the steps that give it back. Core, pure.

Kept in the agent's own state before a pod's first resize; the webhook writes the same into an annotation at admission,
and where that is there, it wins: it is older.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from agent.core.cluster.pod import CPU, MEMORY, ContainerKind, Pod, PodRef, QosClass, Requirements
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import workload_of
from agent.core.numbers.quantity import QuantityError, parse_quantity
from agent.core.numbers.units import NANOS_PER_MILLI, NANOS_PER_UNIT
from agent.core.orders.annotations import ORIGINAL_RESOURCES
from agent.core.plan.needs.given_boost import standing_boost, without_boost
from agent.core.plan.plan import Phase, PlanStep
from agent.core.plan.pod_change import Change, Setting, number_of, pod_numbers
from agent.core.resize.answer import AnswerKind, is_passing

ALLOWED: Final = '{"containers": {"NAME": {"requests": {"cpu": "100m"}, "limits": {}}}, "pod": {...}}'
REASON: Final = "original requests put back"
MOST_STEPS: Final = 2
_LONGEST_QUANTITY: Final = 64
"""No sensible one is longer; an annotation may hold 256 KiB of digits."""


class OriginalError(ValueError):
    """An annotation with originals that is not understood; one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalAmounts:
    """One container, or the pod's own budget; None = not stated."""

    container: str
    """Its name; empty = the pod's own budget."""
    cpu_request_millicores: int | None = None
    cpu_limit_millicores: int | None = None
    memory_request_bytes: int | None = None
    memory_limit_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """What one pod had."""

    ref: PodRef
    kept_unix_seconds: float | None
    """When the agent kept it; None = it stands in the pod's annotation."""
    amounts: tuple[OriginalAmounts, ...]


def original_of(pod: Pod, *, kept_unix_seconds: float) -> Original:
    """Return what a pod states now: of what can be resized, in the order of the spec, its own budget last.

    What it has more while it starts is no original.
    """
    boost = standing_boost(pod)
    pod = pod if boost is None else without_boost(pod, boost)
    amounts = tuple(_amounts(name, numbers) for name, numbers in pod_numbers(pod).items())
    return Original(ref=ref_of(pod), kept_unix_seconds=kept_unix_seconds, amounts=amounts)


def annotated_original(pod: Pod) -> Original | None:
    """Read the annotation, or raise OriginalError; None = the pod has none."""
    text = pod.annotations.get(ORIGINAL_RESOURCES)
    if text is None:
        return None
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OriginalError(f"{ORIGINAL_RESOURCES}: not JSON; allowed: {ALLOWED}") from error
    content = _mapping(document, "")
    for key in content:
        if key not in ("containers", "pod"):
            raise OriginalError(f"{ORIGINAL_RESOURCES}: {key[:60]!r} is not known; allowed: containers, pod")
    containers = _mapping(content.get("containers", {}), "containers")
    amounts = [_read_amounts(name, value, f"containers.{name[:60]}") for name, value in containers.items()]
    if "pod" in content:
        amounts.append(_read_amounts("", content["pod"], "pod"))
    return Original(ref=ref_of(pod), kept_unix_seconds=None, amounts=tuple(amounts))


def with_added(first: Original, later: Original) -> Original:
    """Return the first originals, and of the later ones those of containers that the first do not name.

    A sidecar that was put into a pod after its originals were taken down has none among the first.
    """
    named = {stated.container for stated in first.amounts}
    return replace(
        first, amounts=(*first.amounts, *(stated for stated in later.amounts if stated.container not in named))
    )


def with_first(now: Original, first: Original, *, gave_budget: bool) -> Original:
    """Return what a pod states now, and in its place what it stated first, of all that it has still.

    With ``gave_budget`` the pod's own resources were given to it since: what they are is no original.
    """
    was = {amount.container: amount for amount in first.amounts}
    amounts = [was.get(amount.container, amount) for amount in now.amounts]
    if gave_budget and "" not in was:
        amounts = [amount for amount in amounts if amount.container]
    return replace(now, amounts=tuple(amounts))


def annotation_text(original: Original) -> str:
    """Write originals as the annotation has them; ``annotated_original`` reads the same back."""
    parts = {stated.container: _written(stated) for stated in original.amounts}
    budget = parts.pop("", None)
    document: dict[str, object] = {"containers": parts}
    if budget is not None:
        document["pod"] = budget
    return json.dumps(document, separators=(",", ":"))


def restore_changes(pod: Pod, original: Original) -> tuple[Change, ...]:
    """Return what differs from the original, of what both state; a resize can neither add nor take away.

    An original of 0 counts as not stated, as to Kubernetes: the step that went back to it would be refused as a whole.
    """
    kinds: dict[str, ContainerKind] = {container.name: container.kind for container in pod.sized_containers()}
    now = pod_numbers(pod)
    return tuple(
        Change(
            container=was.container,
            kind=kinds.get(was.container),
            resource=resource,
            setting=setting,
            before=before,
            after=after,
        )
        for was in original.amounts
        if was.container in now
        for resource in Resource
        for setting in Setting
        for before in (number_of(now[was.container], resource, setting),)
        for after in (number_of(requirements_of(was), resource, setting),)
        if before is not None and after and before != after
    )


def restore_steps(pod: Pod, original: Original) -> tuple[PlanStep, ...]:
    """Return the steps that put the original requests and limits back, in order; empty = they stand already.

    Memory limits that fall come last and by themselves, since a refusal must not hold up the rest. A Guaranteed pod has
    one step, as its requests must equal its limits at every moment.
    """
    changes = restore_changes(pod, original)
    last = [] if pod.recorded_qos is QosClass.GUARANTEED else [change for change in changes if _is_limit_down(change)]
    first = [change for change in changes if change not in last]
    grows = any(change.after > change.before for change in first)
    steps = ((Phase.GROW if grows else Phase.SHRINK, first), (Phase.LIMIT_DOWN, last))
    return tuple(
        PlanStep(ref=ref_of(pod), workload=workload_of(pod), phase=phase, changes=tuple(some), reason=REASON)
        for phase, some in steps
        if some
    )


def steps_left(promised_steps: int, kind: AnswerKind) -> int:
    """Return how many steps of a promised restore may still be sent after an answer to one; 0 = the promise is over.

    Each that is taken counts, so that whoever changes a pod back each time is not fought. A no to the wish ends the
    promise, as it ends what is asked for at once; what says nothing of the wish does not.
    """
    if is_passing(kind):
        return promised_steps
    return promised_steps - 1 if kind in (AnswerKind.ACCEPTED, AnswerKind.NO_CHANGE) else 0


def ref_of(pod: Pod) -> PodRef:
    """Return how a plan refers to a pod."""
    return PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)


def _is_limit_down(change: Change) -> bool:
    is_limit = change.resource is Resource.MEMORY and change.setting is Setting.LIMIT
    return is_limit and change.after < change.before


def _amounts(name: str, stated: Requirements) -> OriginalAmounts:
    return OriginalAmounts(
        container=name,
        cpu_request_millicores=stated.cpu_request_millicores,
        cpu_limit_millicores=stated.cpu_limit_millicores,
        memory_request_bytes=stated.memory_request_bytes,
        memory_limit_bytes=stated.memory_limit_bytes,
    )


def requirements_of(amounts: OriginalAmounts) -> Requirements:
    """Return the amounts as a spec states them."""
    return Requirements(
        requests=_stated(amounts.cpu_request_millicores, amounts.memory_request_bytes),
        limits=_stated(amounts.cpu_limit_millicores, amounts.memory_limit_bytes),
    )


def _stated(cpu_millicores: int | None, memory_bytes: int | None) -> dict[str, int]:
    cpu = {} if cpu_millicores is None else {CPU: cpu_millicores * NANOS_PER_MILLI}
    return cpu if memory_bytes is None else {**cpu, MEMORY: memory_bytes * NANOS_PER_UNIT}


def _written(amounts: OriginalAmounts) -> dict[str, dict[str, str]]:
    requests = {CPU: _quantity(amounts.cpu_request_millicores, "m"), MEMORY: _quantity(amounts.memory_request_bytes)}
    limits = {CPU: _quantity(amounts.cpu_limit_millicores, "m"), MEMORY: _quantity(amounts.memory_limit_bytes)}
    written = {"requests": requests, "limits": limits}
    return {key: {name: text for name, text in part.items() if text is not None} for key, part in written.items()}


def _quantity(amount: int | None, suffix: str = "") -> str | None:
    return None if amount is None else f"{amount}{suffix}"


def _read_amounts(name: str, value: object, place: str) -> OriginalAmounts:
    content = _mapping(value, place)
    requests, limits = (_nanos(content.get(key, {}), f"{place}.{key}") for key in ("requests", "limits"))
    return _amounts(name, Requirements(requests=requests, limits=limits))


def _nanos(value: object, place: str) -> dict[str, int]:
    amounts = {}
    for name, text in _mapping(value, place).items():
        where = f"{place}.{name[:60]}"
        try:
            amounts[name] = parse_quantity(str(text)[:_LONGEST_QUANTITY])
        except QuantityError as error:
            raise OriginalError(f"{ORIGINAL_RESOURCES}: {where}: {error}") from error
        if amounts[name] < 0 or len(str(text)) > _LONGEST_QUANTITY:
            raise OriginalError(f"{ORIGINAL_RESOURCES}: {where}: {str(text)[:60]!r} is out of range")
    return amounts


def _mapping(value: object, place: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        where = f" {place}:" if place else ""
        raise OriginalError(f"{ORIGINAL_RESOURCES}:{where} {str(value)[:60]!r} is no object; allowed: {ALLOWED}")
    return value
