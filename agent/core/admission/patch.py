"""An admission as a JSON patch (RFC 6902) of the pod that was asked about. Core, pure.

The API server fails the whole creation over a patch that does not apply, so each operation goes by what the pod was
seen to have: ``replace`` and ``remove`` only what is there, ``add`` a whole object where there may be none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NotRequired, TypedDict

from agent.core.admission.answer import Admission, Move
from agent.core.cluster.pod import ContainerKind, Pod, Requirements
from agent.core.numbers.quantity import format_quantity
from agent.core.plan.pod_change import Change, Setting
from agent.core.resize.patch import quantity_text

Value = str | dict[str, str] | dict[str, dict[str, str]]

_LISTS: Final = {
    ContainerKind.REGULAR: "containers",
    ContainerKind.INIT: "initContainers",
    ContainerKind.SIDECAR: "initContainers",
}


class Operation(TypedDict):
    """One operation."""

    op: str
    path: str
    value: NotRequired[Value]


def patch_operations(admission: Admission, *, has_annotations: bool) -> list[Operation]:
    """Return the operations, in order; empty = the pod stays as it came.

    The admission is of a pod read from the very document that is to be patched; ``has_annotations`` says whether that
    has an object ``metadata.annotations``, be it empty.
    """
    operations = [operation for move in admission.moves for operation in _operations(move)]
    if admission.pod_resources is not None:
        operations.append(Operation(op="add", path="/spec/resources", value=_written(admission.pod_resources)))
    if admission.takes_pod_resources:
        operations.append(Operation(op="remove", path="/spec/resources"))
    is_learnt = admission.boost is not None and admission.boost.is_learnt
    if not operations and not admission.gave_ticket and not (is_learnt and admission.annotations):
        return []
    if has_annotations:
        operations += [
            Operation(op="add", path=f"/metadata/annotations/{_escaped(key)}", value=text)
            for key, text in admission.annotations.items()
        ]
    else:
        operations.append(Operation(op="add", path="/metadata/annotations", value=dict(admission.annotations)))
    return operations


def change_operations(pod: Pod, changes: Iterable[Change]) -> list[Operation]:
    """Return the operations that carry out changes of amounts which the pod's containers state."""
    places = {
        container.name: (container.kind, index)
        for containers in (pod.init_containers, pod.containers)
        for index, container in enumerate(containers)
    }
    return [
        Operation(
            op="replace",
            path=f"{_parent(*places[change.container], change.setting)}/{change.resource}",
            value=quantity_text(change.resource, change.after),
        )
        for change in changes
    ]


def _parent(kind: ContainerKind, index: int, setting: Setting) -> str:
    return f"/spec/{_LISTS[kind]}/{index}/resources/{'requests' if setting is Setting.REQUEST else 'limits'}"


def _operations(move: Move) -> Iterator[Operation]:
    parent = _parent(move.kind, move.index, move.setting)
    path = f"{parent}/{move.resource}"
    if move.after is None:
        yield Operation(op="remove", path=path)
        return
    text = quantity_text(move.resource, move.after)
    if move.has_others:
        yield Operation(op="replace" if move.before is not None else "add", path=path, value=text)
    else:
        yield Operation(op="add", path=parent, value={move.resource.value: text})


def _written(resources: Requirements) -> dict[str, dict[str, str]]:
    return {
        key: {name: _quantity(nanos) for name, nanos in amounts.items()}
        for key, amounts in (("requests", resources.requests), ("limits", resources.limits))
    }


def _quantity(nanos: int) -> str:
    """Write a Quantity in the shorter way: ``1Gi``, ``800M``."""
    return min(format_quantity(nanos), format_quantity(nanos, binary=True), key=len)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
