"""All workloads that a checkout states: by Kustomizations, by a map of Helm values, as plain manifests. Face."""

from __future__ import annotations

from agent.cli.gitops.checkout import Checkout
from agent.cli.gitops.kustomize import FILE_NAMES, Kustomizations
from agent.cli.gitops.manifests import Instance, documents_of, instance_of
from agent.cli.gitops.proposal import LeftAlone
from agent.cli.gitops.values_map import MappedContainer, values_instances
from agent.cli.gitops.yaml_text import YamlTextError


def instances_of(checkout: Checkout, mapped: tuple[MappedContainer, ...]) -> list[Instance]:
    """Return the workloads; what cannot be read is told in the checkout's ``left``."""
    kustomizations = Kustomizations(checkout.file, checkout.kustomizations)
    instances = kustomizations.instances()
    checkout.left.extend(_fault(fault) for fault in kustomizations.faults)
    instances += values_instances(mapped, checkout.file)
    used = kustomizations.used | {entry.path for entry in mapped}
    for path in checkout.paths:
        if path not in used and path.rpartition("/")[2] not in FILE_NAMES:
            instances += _plain(checkout, path)
    return instances


def _fault(text: str) -> LeftAlone:
    what, _, why = text.partition(": ")
    return LeftAlone(what=what, where="", why=why)


def _plain(checkout: Checkout, path: str) -> list[Instance]:
    file = checkout.file(path)
    if file is None:
        return []
    try:
        candidates = [instance_of(file, node, path) for node in documents_of(file.text)]
    except YamlTextError as error:
        checkout.left.append(LeftAlone(what=path, where="", why=str(error)))
        return []
    instances = [instance for instance in candidates if instance is not None]
    if not instances:
        checkout.forget(path)
    return instances
