"""Requests and limits of known workloads as files for Kustomize, Helm and kubectl, without any checkout. Face, pure."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from agent.cli.gitops.amounts import (
    FiguresOutOfReach,
    RecommendedAmounts,
    WithoutAmounts,
    gone_containers,
    kinds_of,
    list_of,
    quantity,
    recommended,
)
from agent.cli.gitops.manifests import LISTS, POD_SPECS
from agent.cli.gitops.resource_cells import SECTIONS, ResourceCell
from agent.cli.gitops.values_map import MappedContainer
from agent.core.admission.options import AdmissionSettings
from agent.core.cluster.pod import ContainerKind

if TYPE_CHECKING:
    from agent.webhook.queries.workload_bodies import WorkloadBody

_VERSIONS: Final = {
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "ReplicationController": "v1",
    "Rollout": "argoproj.io/v1alpha1",
}
_APPS: Final = "apps/v1"
_UNPLACED: Final = (
    "the webhook does not tell whether it stands in containers or initContainers, as it knows no pod with it or is "
    "older than that; allowed: plimsoll gitops"
)
_REORDERED: Final = "a patch might change the order in which init containers start; allowed: plimsoll gitops"
_UNLIMITED: Final = (
    "its memory: one node alone told of more than counts, and the webhook does not tell which limit stands, as it "
    "knows no pod with it or is older than that; allowed: plimsoll gitops"
)
_PASSING: Final = (_UNPLACED, _UNLIMITED)
_GONE: Final = "no pod has it now"
Amounts = Mapping[str, Mapping[ResourceCell, int]]


class NothingWritten(Exception):  # noqa: N818
    """A file without amounts would take back those that one before it holds; one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """What is to be written."""

    form: str
    """``history``, ``kustomize``, ``helm`` or ``ssa``."""
    settings: AdmissionSettings = field(default_factory=AdmissionSettings)
    mapped: tuple[MappedContainer, ...] = ()
    """For ``helm``: where the amounts stand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftAmounts:
    """A workload, a container or its memory that is not written, and why."""

    whose: str
    why: str
    is_passing: bool = False
    """A file that was made before may hold amounts for it, and this one would take them back: of what has no pod or no
    figures at the moment."""

    def __str__(self) -> str:
        return f"left {self.whose}: {self.why}"


def history_text(bodies: Sequence[WorkloadBody]) -> str:
    """Return all that is known of workloads, as ``--history`` reads it."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode({"workloads": bodies})).decode() + "\n"


def written_text(bodies: Sequence[WorkloadBody], writing: PlannedWrite) -> tuple[str, list[LeftAmounts]]:
    """Return the file for Kustomize, Helm or kubectl, and each workload or container that is left.

    Raises:
        NothingWritten: Nothing is known, or nothing is to change on the cluster.
    """
    if not bodies:
        raise NothingWritten("nothing is written: the webhook knows of no workload; keep the file of before")
    pause = next((body.applies.pause for body in bodies if body.applies.pause.value is not None), None)
    if pause is not None:
        why = f"the cluster is paused ({pause.source}): {pause.value}"
        raise NothingWritten(f"nothing is written: {why}; keep the file of before")
    sized: list[tuple[WorkloadBody, RecommendedAmounts]] = []
    left: list[LeftAmounts] = []
    now = time.time()
    for body in bodies:
        try:
            sized.append((body, recommended(body, writing.settings, now)))
        except WithoutAmounts as error:
            is_passing = isinstance(error, FiguresOutOfReach)
            left.append(LeftAmounts(whose=_whose(body), why=str(error), is_passing=is_passing))
    if writing.form == "helm":
        return _values(sized, writing.mapped, left), left
    placed = list(_placed(sized, writing.form, left))
    return (_component(placed) if writing.form == "kustomize" else _objects(placed)), left


def _left(whose: str, why: str) -> LeftAmounts:
    return LeftAmounts(whose=whose, why=why, is_passing=why in _PASSING)


def _whose(body: WorkloadBody) -> str:
    return f"{body.namespace}/{body.kind}/{body.name}"


def _placed(
    sized: Sequence[tuple[WorkloadBody, RecommendedAmounts]], form: str, left: list[LeftAmounts]
) -> Iterator[tuple[WorkloadBody, Amounts]]:
    """Return workloads without the containers that a patch would put into another place than theirs."""
    for body, of_body in sized:
        amounts, kinds = of_body.by_container, kinds_of(body)
        sidecars = [name for name in amounts if kinds.get(name) is ContainerKind.SIDECAR]
        # Kustomize puts what a patch names first; a server-side apply keeps its place, but orders several as it does.
        is_order_kept = form == "ssa" and len(sidecars) <= 1
        faults = {
            **{name: _UNPLACED for name in amounts if name not in kinds},
            **{name: _REORDERED for name in sidecars if not is_order_kept},
        }
        whys = {
            **dict.fromkeys(gone_containers(body), _GONE),
            **dict.fromkeys(of_body.without_memory, _UNLIMITED),
            **faults,
        }
        left += [_left(f"{_whose(body)}/{name}", why) for name, why in whys.items()]
        placed = {name: cells for name, cells in amounts.items() if name not in faults}
        if placed:
            yield body, placed


def _dumped(value: object) -> str:
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False)
    return text


def _objects(sized: Sequence[tuple[WorkloadBody, Amounts]]) -> str:
    # Without force it is refused: whoever wrote the amounts that stand owns them.
    head = (
        "# kubectl apply --server-side --force-conflicts --field-manager plimsoll -f FILE\n"
        "# Objects of plain kubectl apply: first kubectl apply --server-side what their author wrote, or all their\n"
        "# fields would become plimsoll's.\n"
    )
    return head + "---\n".join(_dumped(_object(body, amounts, has_namespace=True)) for body, amounts in sized)


def _component(sized: Sequence[tuple[WorkloadBody, Amounts]]) -> str:
    """Return a Component: workloads that an overlay does not have are passed over, as each patch has a target."""
    lines = [
        "# kustomization.yaml of a directory of its own, which an overlay names under components:",
        "apiVersion: kustomize.config.k8s.io/v1alpha1",
        "kind: Component",
        "patches:" if sized else "patches: []",
    ]
    for body, amounts in sized:
        target = _dumped({"kind": body.kind, "name": body.name}).splitlines()
        patch = _dumped(_object(body, amounts, has_namespace=False)).splitlines()
        lines += ["  - target:", *(f"      {line}" for line in target)]
        lines += ["    patch: |-", *(f"      {line}" for line in patch)]
    return "\n".join(lines) + "\n"


def _object(body: WorkloadBody, amounts: Amounts, *, has_namespace: bool) -> dict[str, object]:
    kinds = kinds_of(body)
    inner: dict[str, object] = {
        list_name: containers
        for list_name in LISTS
        if (
            containers := [
                {"name": name, "resources": _resources(cells)}
                for name, cells in amounts.items()
                if list_of(kinds[name]) == list_name
            ]
        )
    }
    for key in reversed(POD_SPECS[body.kind]):
        inner = {key: inner}
    metadata = {"name": body.name, **({"namespace": body.namespace} if has_namespace else {})}
    return {"apiVersion": _VERSIONS.get(body.kind, _APPS), "kind": body.kind, "metadata": metadata, **inner}


def _resources(cells: Mapping[ResourceCell, int]) -> dict[str, dict[str, str]]:
    resources: dict[str, dict[str, str]] = {}
    for cell, nanos in cells.items():
        resources.setdefault(SECTIONS[cell.setting], {})[cell.resource.value] = quantity(cell, nanos)
    return resources


def _values(
    sized: Sequence[tuple[WorkloadBody, RecommendedAmounts]], mapped: Sequence[MappedContainer], left: list[LeftAmounts]
) -> str:
    by_place = {(_whose(body), name): cells for body, amounts in sized for name, cells in amounts.by_container.items()}
    without_memory = {(_whose(body), name) for body, amounts in sized for name in amounts.without_memory}
    gone = {(_whose(body), name) for body, _ in sized for name in gone_containers(body)}
    files: dict[str, dict[str, object]] = {}
    for entry in mapped:
        key = f"{entry.namespace}/{entry.kind}/{entry.name}", entry.container
        cells = by_place.get(key)
        place = f"{'.'.join(entry.keys)} ({entry.path})"
        whys = [_UNLIMITED] if key in without_memory else []
        if cells is None:
            whys = whys or [_GONE if key in gone else "nothing is recommended"]
        elif any(step.isascii() and step.isdigit() for step in entry.keys):
            whys = [f"{place} may stand in a list, which values replace as a whole; allowed: plimsoll gitops --map"]
        elif not _put(files.setdefault(entry.path, {}), entry.keys, _resources(cells)):
            whys = [f"values of another container stand at {place}; allowed: a place of its own"]
        left += [_left("/".join(key), why) for why in whys]
    return "---\n".join(_commented(files))


def _put(values: dict[str, object], keys: Sequence[str], resources: object) -> bool:
    """Write resources at their place; return whether they stand there, and nothing else did."""
    holder = values
    for key in keys[:-1]:
        below = holder.setdefault(key, {})
        if not isinstance(below, dict):
            return False
        holder = below
    return holder.setdefault(keys[-1], resources) == resources


def _commented(files: Mapping[str, dict[str, object]]) -> Iterator[str]:
    for path, values in files.items():
        yield f"# {path}\n{_dumped(values)}"
