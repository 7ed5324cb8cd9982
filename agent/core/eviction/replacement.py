"""With what the replacement of an evicted pod would be admitted. Core, pure.

Admission is asked about the pod as if it were created now (``pod_admission.admit``). What it would leave as it is, the
template decides, and what that states is not known: the pod may have been resized since it was admitted. So there is an
answer only where admission has a word on every request that counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from agent.core.admission.answer import Admission, AdmissionOutcome, ContainerAdmission, LeftReason
from agent.core.admission.estimate import Estimate
from agent.core.cluster.pod import CPU, MEMORY, Container, ContainerKind, Pod
from agent.core.cluster.resource import Resource
from agent.core.eviction.proposal import Reason, Ruling
from agent.core.numbers.units import NANOS_PER_MILLI, NANOS_PER_UNIT
from agent.core.orders.annotations import STARTUP_BOOST
from agent.core.plan.pod_change import Setting

_SIZED: Final = (AdmissionOutcome.PATCHED, AdmissionOutcome.NOOP)


def to_be_created(pod: Pod) -> Pod:
    """Return a running pod as it would be created anew: bound to no node, and with its start not boosted."""
    # A boost is taken back within minutes: a pod that is evicted for it ends up with what it has now.
    return replace(pod, node_name=None, annotations={**pod.annotations, STARTUP_BOOST: "off"})


def replacement_of(pod: Pod, admission: Admission, resource: Resource) -> Pod | Ruling:
    """Return the pod with the requests of one resource that it would be admitted with, or why they are not known.

    The admission is that of ``to_be_created(pod)``.
    """
    if admission.outcome not in _SIZED:
        return Ruling(reason=Reason.NO_ESTIMATE, detail=f"its replacement would be left as it comes: {admission.why}")
    answers = {answer.name: answer for answer in admission.containers}
    sized: dict[str, Container] = {}
    for container in pod.sized_containers():
        result = _sized(container, answers.get(container.name), resource)
        if isinstance(result, Ruling):
            return result
        sized[container.name] = result
    return replace(
        pod,
        init_containers=tuple(sized[container.name] for container in pod.init_containers),
        containers=tuple(sized[container.name] for container in pod.containers),
        resources=pod.resources if admission.pod_resources is None else admission.pod_resources,
    )


def _sized(container: Container, answer: ContainerAdmission | None, resource: Resource) -> Container | Ruling:
    name, unit_nanos = (CPU, NANOS_PER_MILLI) if resource is Resource.CPU else (MEMORY, NANOS_PER_UNIT)
    stated = container.resources.requests
    if name not in stated or container.kind is ContainerKind.INIT:
        return container
    estimate = answer.estimate if answer is not None else None
    if answer is None or not isinstance(estimate, Estimate):
        why = "no history" if estimate is None else str(estimate).replace("_", " ")
        return Ruling(reason=Reason.NO_ESTIMATE, detail=f"container {container.name}: {why}")
    moves = [move for move in answer.moves if (move.resource, move.setting) == (resource, Setting.REQUEST)]
    if moves and moves[0].after is not None:
        requests: Mapping[str, int] = {**stated, name: moves[0].after * unit_nanos}
        return replace(container, resources=replace(container.resources, requests=requests))
    for note in answer.notes:
        if (note.resource, note.setting) == (resource, Setting.REQUEST) and note.left is not LeftReason.SMALL_CHANGE:
            return Ruling(reason=Reason.NO_ESTIMATE, detail=f"container {container.name}: admission would leave {note}")
    return container
