"""From what the checkout states and what is known to edits of its files: who is changed where, who is left and why.

Face, pure. One place may serve several workloads (a base under overlays): it is changed only if all of them want the
same there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from agent.cli.gitops.amounts import ContainerChange, WithoutAmounts, quantity
from agent.cli.gitops.manifests import Instance
from agent.cli.gitops.resource_cells import CELLS, Layer, ResourceCell, for_adding, stating
from agent.cli.gitops.yaml_text import YamlTextError

_SHARED: Final = "what stands there is used by {others} too, {want}; allowed: a patch in {where} that states it"


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountChange:
    """One amount that is written otherwise."""

    workload: str
    """``shop/Deployment/web``."""
    container: str
    cell: ResourceCell
    before: str | None
    """As it is written; None = it is not."""
    after: str | None
    """None = it goes."""
    before_nanos: int | None
    after_nanos: int | None
    place: str
    """``base/web.yaml:12``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftAlone:
    """What is not changed, and why."""

    what: str
    """A workload, a container of one, or a file."""
    where: str
    why: str

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.what} ({self.where}): {self.why}" if self.where else f"{self.what}: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedWorkload:
    """One workload that is known, with what its containers should have."""

    instance: Instance
    amounts: tuple[ContainerChange, ...]


@dataclass(slots=True, kw_only=True)
class ManifestProposal:
    """What is proposed."""

    changes: list[AmountChange] = field(default_factory=list)
    left: list[LeftAlone] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """New texts, by path."""
    sized: list[SizedWorkload] = field(default_factory=list)
    """Workloads that were looked at, changed or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Action:
    """One amount in one place."""

    instance: Instance
    container: ContainerChange
    cell: ResourceCell
    layer: Layer
    place: tuple[object, ...]
    text: str | None

    @property
    def owner(self) -> tuple[int, tuple[str, str]]:
        """Return whose it is: all amounts of a container are changed together, or none."""
        return id(self.instance), self.container.key


def propose(
    instances: Sequence[Instance], sizes: Callable[[Instance], tuple[ContainerChange, ...] | None]
) -> ManifestProposal:
    """Return the edits.

    Args:
        sizes: Returns what a workload's containers should have; None = nothing is known. May raise WithoutAmounts.
    """
    proposal = ManifestProposal()
    actions: list[_Action] = []
    for instance in instances:
        try:
            amounts = sizes(instance)
            why = instance.fault
        except WithoutAmounts as error:
            amounts, why = (), instance.fault or str(error)
        if amounts is None:
            continue
        if why is not None:
            proposal.left.append(LeftAlone(what=str(instance), where=instance.where, why=why))
            continue
        proposal.sized.append(SizedWorkload(instance=instance, amounts=amounts))
        for container in amounts:
            try:
                actions += list(_actions(instance, container))  # all of a container, or nothing
            except YamlTextError as error:
                proposal.left.append(_left_container(instance, container, str(error)))
    actions = _agreed(actions, instances, proposal)
    actions = _written(actions, proposal)
    proposal.changes = [_change(action) for action in actions]
    return proposal


def _actions(instance: Instance, container: ContainerChange) -> Iterator[_Action]:
    """Return where each amount of a container is to be written, or raise YamlTextError."""
    layers = instance.containers.get(container.key, [])
    for cell, nanos in container.wanted.items():
        fault = next((layer for layer in layers if layer.fault is not None), None)
        if fault is not None:
            raise YamlTextError(f"{fault.file.path}: {fault.fault}")
        there = stating(layers, cell)
        text = None if nanos is None else quantity(cell, nanos)
        chosen = there if text is None else there[-1:]
        adding = None if there else for_adding(layers, cell)
        if not there:
            if adding is None:
                raise YamlTextError(f"{cell} has no place in it")
            chosen = [adding]
        for layer in chosen:
            yield _Action(
                instance=instance,
                container=container,
                cell=cell,
                layer=layer,
                place=(id(layer.cells[cell]),) if there else _place_for_adding(layer, cell),
                text=text,
            )


def _place_for_adding(layer: Layer, cell: ResourceCell) -> tuple[object, ...]:
    return id(layer.sections.get(cell.setting) or layer.empties.get(cell.setting) or layer.resources), cell


def _agreed(actions: list[_Action], instances: Sequence[Instance], proposal: ManifestProposal) -> list[_Action]:
    """Return the actions that nobody else who uses a place objects to; the others are left and told."""
    users = _users(instances)
    while True:
        wishes: dict[tuple[object, ...], dict[tuple[int, tuple[str, str]], str | None]] = {}
        for action in actions:
            wishes.setdefault(action.place, {})[action.owner] = action.text
        odd: dict[tuple[int, tuple[str, str]], tuple[_Action, list[Instance], bool]] = {}
        for action in actions:
            mine = wishes[action.place]
            others = [(instance, owner) for instance, owner in users.get(action.place, ()) if owner != action.owner]
            against = [instance for instance, owner in others if owner not in mine or mine[owner] != action.text]
            if against:
                is_other_wish = all((id(instance), action.container.key) in mine for instance in against)
                odd.setdefault(action.owner, (action, against, is_other_wish))
        if not odd:
            return actions
        for action, against, is_other_wish in odd.values():
            names = ", ".join(sorted({instance.where for instance in against}))
            why = _SHARED.format(
                others=names,
                want="with other amounts" if is_other_wish else "which is not known or is not changed",
                where=action.instance.where,
            )
            proposal.left.append(_left_container(action.instance, action.container, why))
        actions = [action for action in actions if action.owner not in odd]


def _users(
    instances: Iterable[Instance],
) -> Mapping[tuple[object, ...], list[tuple[Instance, tuple[int, tuple[str, str]]]]]:
    """Return by place whose amounts would change with it."""
    users: dict[tuple[object, ...], list[tuple[Instance, tuple[int, tuple[str, str]]]]] = {}
    for instance in instances:
        for key, layers in instance.containers.items():
            owner = instance, (id(instance), key)
            for cell in CELLS:
                there = stating(layers, cell)
                for layer in there:
                    # One below the winner shows when the winner goes.
                    users.setdefault((id(layer.cells[cell]),), []).append(owner)
                if not there:
                    for layer in layers:
                        for node in (
                            layer.sections.get(cell.setting),
                            layer.empties.get(cell.setting),
                            layer.resources,
                        ):
                            if node is not None:
                                users.setdefault((id(node), cell), []).append(owner)
    return users


def _written(actions: list[_Action], proposal: ManifestProposal) -> list[_Action]:
    """Edit the texts; a file that cannot be edited leaves all containers that it has a part in as they are."""
    while True:
        fault = _try_to_write(actions, proposal)
        if fault is None:
            return actions
        path, owners, why = fault
        out = {action.owner: action for action in actions if action.owner in owners}
        for action in out.values():
            proposal.left.append(_left_container(action.instance, action.container, f"{path}: {why}"))
        actions = [action for action in actions if action.owner not in owners]


_Fault = tuple[str, set[tuple[int, tuple[str, str]]], str]


def _try_to_write(actions: list[_Action], proposal: ManifestProposal) -> _Fault | None:
    """Make all edits anew; return what stands in the way, and whose it is."""
    proposal.files.clear()
    files = {action.layer.file.path: action.layer.file for action in actions}
    for file in files.values():
        file.text.forget_edits()
    groups: dict[tuple[int, ...], dict[ResourceCell, _Action]] = {}
    for action in actions:
        layer = action.layer
        nodes = layer.resources or next(iter(layer.sections.values()), None) or next(iter(layer.cells.values()))
        groups.setdefault((id(layer.text), id(nodes)), {}).setdefault(action.cell, action)
    for group in groups.values():
        first = next(iter(group.values()))
        try:
            first.layer.change({cell: action.text for cell, action in group.items()})
        except YamlTextError as error:
            places = {action.place for action in group.values()}
            return first.layer.file.path, {action.owner for action in actions if action.place in places}, str(error)
    for path, file in files.items():
        try:
            proposal.files[path] = file.text.edited()
        except YamlTextError as error:
            return path, {action.owner for action in actions if action.layer.file is file}, str(error)
    return None


def _change(action: _Action) -> AmountChange:
    layer, cell = action.layer, action.cell
    node = layer.cells.get(cell)
    at = node or layer.sections.get(cell.setting) or layer.resources
    return AmountChange(
        workload=str(action.instance),
        container=action.container.name,
        cell=cell,
        before=None if node is None else node.value,
        after=action.text,
        before_nanos=action.container.stated.get(cell),
        after_nanos=action.container.wanted[cell],
        place=layer.file.path if at is None else layer.place_of(at),
    )


def _left_container(instance: Instance, container: ContainerChange, why: str) -> LeftAlone:
    return LeftAlone(what=f"{instance}/{container.name}", where=instance.where, why=why)
