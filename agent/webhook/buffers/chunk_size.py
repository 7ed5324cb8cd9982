"""The size of a chunk as Plimsoll would give it to a new pod of its workload: admission's own answer. Webhook.

Worked out here and not by a dry run through our own registration, which may not be installed, or not for the namespace.
What admission writes into annotations (when, from what) is left out: it would make another template each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from agent.core.admission.answer import Admission, AdmissionOutcome
from agent.core.admission.patch import Operation, change_operations, patch_operations
from agent.core.buffers.buffer import Content, ScalableRef
from agent.core.cluster.pod import OwnerReference, Pod
from agent.core.orders.annotations import PREFIX
from agent.core.plan.needs.given_boost import boost_from, standing_changes, without_boost
from agent.kube.objects.json_reader import ConvertError
from agent.kube.objects.pod_json import pod_from_json
from agent.webhook.buffers.seams import SizedChunk

SIZING: Final = f"{PREFIX}buffer-sizing"
"""On a CapacityBuffer: ``recommended``, or ``template``, which is the same as none."""
RECOMMENDED: Final = "recommended"
AS_TEMPLATE: Final = "template"
ALLOWED: Final = f"{RECOMMENDED} or {AS_TEMPLATE}"
_NO_NAME: Final = "chunk"


class AdmissionSizer:
    """A ``Sizer`` that asks admission."""

    def __init__(self, admission: Callable[[Pod, str | None], Admission], *, is_ready: Callable[[], bool]) -> None:
        """Begin; ``admission`` tells what becomes of a pod that may go to any node (None)."""
        self._admission, self._is_ready = admission, is_ready

    def __call__(self, content: Content, namespace: str, workload: ScalableRef | None, /) -> SizedChunk:
        """Size a chunk; see ``Sizer``."""
        if not self._is_ready():
            return SizedChunk(content=content, words="the history is not read yet", is_final=False)
        try:
            pod = _pod(content, namespace)
        except ConvertError as error:
            return SizedChunk(content=content, words=f"not sized: {error}")
        owners = pod.owners
        if workload is not None:
            # A ReplicaSet's maker is found by the pod's own label, as at admission.
            owners = (OwnerReference(kind=workload.kind, name=workload.name, uid="", is_controller=True),)
        if not any(owner.is_controller for owner in owners):
            return SizedChunk(content=content, words="not sized: a PodTemplate belongs to no workload with a history")
        boost = boost_from(pod)
        if boost is not None:
            # A live pod that starts: a new one is boosted over what this one is to run with, not over what it has now.
            content = patched(content, change_operations(pod, standing_changes(pod, boost)))
            pod = without_boost(pod, boost)
        admission = self._admission(replace(pod, owners=owners), None)
        operations = [
            patch_operation
            for patch_operation in patch_operations(admission, has_annotations=True)
            if patch_operation["path"].startswith("/spec/")
        ]
        if admission.outcome is not AdmissionOutcome.PATCHED or not operations:
            return SizedChunk(content=content, words=admission.why)
        return SizedChunk(content=patched(content, operations), words=admission.why)


def _pod(content: Content, namespace: str) -> Pod:
    """Read a chunk as a pod that is being created: with the labels and annotations that orders are read from."""
    metadata = _object(content.get("metadata"))
    named = {"name": _NO_NAME, "uid": _NO_NAME, "namespace": namespace}
    labels_and_annotations = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
    return pod_from_json({"metadata": {**labels_and_annotations, **named}, "spec": content.get("spec")})


def patched(content: Content, operations: Sequence[Operation]) -> Content:
    """Carry operations of admission out on a copy: ``add``, ``replace`` and ``remove`` of members of objects."""
    for operation in operations:
        content = _changed(content, _steps(operation["path"]), operation)
    return content


def _steps(path: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]


def _changed(owner: Mapping[str, object], steps: Sequence[str], operation: Operation) -> Mapping[str, object]:
    step, further = steps[0], steps[1:]
    copied = dict(owner)
    if not further:
        if operation["op"] == "remove":
            copied.pop(step, None)
        else:
            copied[step] = operation["value"]
        return copied
    inner = owner.get(step)
    if isinstance(inner, list):
        index, rest = int(further[0]), further[1:]
        items = list(inner)
        items[index] = _changed(_object(items[index]), rest, operation)
        copied[step] = items
    else:
        copied[step] = _changed(_object(inner), further, operation)
    return copied


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
