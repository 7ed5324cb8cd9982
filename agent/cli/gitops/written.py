"""Requests and limits of known workloads as files for Kustomize, Helm and kubectl, without any checkout. Face, pure."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from agent.cli.gitops.amounts import WithoutAmounts, quantity, recommended
from agent.cli.gitops.manifests import POD_SPECS
from agent.cli.gitops.resource_cells import SECTIONS, ResourceCell
from agent.cli.gitops.values_map import MappedContainer
from agent.core.admission.options import AdmissionSettings

if TYPE_CHECKING:
    from agent.webhook.queries.workload_bodies import WorkloadBody

_VERSIONS: Final = {
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "ReplicationController": "v1",
    "Rollout": "argoproj.io/v1alpha1",
}
_APPS: Final = "apps/v1"
Amounts = Mapping[str, Mapping[ResourceCell, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """What is to be written."""

    form: str
    """``history``, ``kustomize``, ``helm`` or ``ssa``."""
    settings: AdmissionSettings = field(default_factory=AdmissionSettings)
    mapped: tuple[MappedContainer, ...] = ()
    """For ``helm``: where the amounts stand."""


def history_text(bodies: Sequence[WorkloadBody]) -> str:
    """Return all that is known of workloads, as ``--history`` reads it."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode({"workloads": bodies})).decode() + "\n"


def written_text(bodies: Sequence[WorkloadBody], writing: PlannedWrite) -> tuple[str, list[str]]:
    """Return the file for Kustomize, Helm or kubectl, and a line for each workload that has no amounts in it."""
    sized: list[tuple[WorkloadBody, Amounts]] = []
    left: list[str] = []
    now = time.time()
    for body in bodies:
        try:
            sized.append((body, recommended(body, writing.settings, now)))
        except WithoutAmounts as error:
            left.append(f"left {body.namespace}/{body.kind}/{body.name}: {error}")
    if writing.form == "helm":
        return _values(sized, writing.mapped, left), left
    return (_component(sized) if writing.form == "kustomize" else _objects(sized)), left


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
    inner: dict[str, object] = {
        "containers": [{"name": name, "resources": _resources(cells)} for name, cells in amounts.items()]
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


def _values(sized: Sequence[tuple[WorkloadBody, Amounts]], mapped: Sequence[MappedContainer], left: list[str]) -> str:
    by_place = {
        (body.namespace, body.kind, body.name, name): cells
        for body, amounts in sized
        for name, cells in amounts.items()
    }
    files: dict[str, dict[str, object]] = {}
    for entry in mapped:
        cells = by_place.get((entry.namespace, entry.kind, entry.name, entry.container))
        if cells is None:
            left.append(f"left {entry.namespace}/{entry.kind}/{entry.name}/{entry.container}: nothing is recommended")
            continue
        holder = files.setdefault(entry.path, {})
        for key in entry.keys[:-1]:
            below = holder.setdefault(key, {})
            holder = below if isinstance(below, dict) else {}
        holder[entry.keys[-1]] = _resources(cells)
    return "---\n".join(_commented(files))


def _commented(files: Mapping[str, dict[str, object]]) -> Iterator[str]:
    for path, values in files.items():
        yield f"# {path}\n{_dumped(values)}"
