"""Which workloads there are, and in which rows the histories of their containers are. Webhook.

Whoever calls holds the index' lock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from sys import intern
from typing import Final

from agent.core.cluster.workload import Workload
from agent.core.history.reports.directive_json import MOST_CONTAINERS
from agent.core.history.reports.rollup import NodeClass
from agent.core.history.workloads.imported import is_imported
from agent.core.history.workloads.peak_rings import NodeNumbers, Slots
from agent.core.history.workloads.sketch_key import SketchKey
from agent.webhook.workloads.rows import RowTable
from agent.webhook.workloads.shapes import IndexOptions

IMPORTED_RATIO: Final = 0.75
"""Of the rows by class, in use up to which imported hours are taken into memory."""


@dataclass(slots=True)
class ContainerEntry:
    """Where a container's history is."""

    name: str
    classes: tuple[tuple[NodeClass, int], ...] = ()
    nodes: dict[str, int] | None = None
    """Of DaemonSets: row by node."""
    imported: int | None = None
    """The row of hours that were imported, in the table by class; None = there are none."""

    @property
    def rows(self) -> tuple[int, ...]:
        """Return all rows by class."""
        return tuple(row for _, row in self.classes)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is known of it."""
        return not self.classes and not self.nodes and self.imported is None


@dataclass(slots=True)
class WorkloadEntry:
    """A workload and its containers."""

    workload: Workload
    by_name: dict[str, ContainerEntry] = field(default_factory=dict)

    @property
    def containers(self) -> tuple[ContainerEntry, ...]:
        """Return them in order of name; `MOST_CONTAINERS` at most."""
        return tuple(self.by_name[name] for name in sorted(self.by_name))

    def find(self, name: str) -> ContainerEntry | None:
        """Return the container of a name; None = it has none."""
        return self.by_name.get(name)


class Entries:
    """All workloads, the tables of rows, and the hours and nodes that these are numbered by."""

    def __init__(self, options: IndexOptions) -> None:
        self.slots: Final = Slots()
        self.numbers: Final = NodeNumbers()
        self.by_class: Final = RowTable(max_rows=options.max_rows, slots=self.slots, has_leaders=True)
        self.by_node: Final = RowTable(max_rows=options.max_node_rows, slots=self.slots, has_leaders=False)
        self.known: Final[dict[Workload, WorkloadEntry]] = {}
        self._classes: dict[NodeClass, NodeClass] = {}
        self._most_with_imported = int(options.max_rows * IMPORTED_RATIO)

    def open_hour(self, unix_hour: int) -> None:
        """Let the rings hold an hour, unless they hold a later one in its place."""
        if not self.slots.is_too_old(unix_hour) and not self.slots.is_open(unix_hour):
            if not self.slots.is_fresh(unix_hour):  # at a start all are, and clearing them would take half a second
                self.by_class.rings.clear(unix_hour)
                self.by_node.rings.clear(unix_hour)
            self.slots.open(unix_hour)

    def interned(self, node_class: NodeClass) -> NodeClass:
        """Return the one object that stands for a class."""
        return self._classes.setdefault(node_class, node_class)

    def entry(self, workload: Workload) -> WorkloadEntry:
        """Find a workload, or begin one without containers."""
        entry = self.known.get(workload)
        if entry is None:
            names = intern(workload.namespace), intern(workload.kind), workload.name
            workload = Workload(namespace=names[0], kind=names[1], name=names[2])
            entry = self.known[workload] = WorkloadEntry(workload)
        return entry

    @staticmethod
    def container(entry: WorkloadEntry, name: str) -> ContainerEntry | None:
        """Find a container, or begin one without rows; None = its workload has as many as are kept."""
        container = entry.find(name)
        if container is None and len(entry.by_name) < MOST_CONTAINERS:
            container = ContainerEntry(intern(name))
            entry.by_name[container.name] = container
        return container

    def class_row(self, container: ContainerEntry, node_class: NodeClass) -> int | None:
        """Find or begin the row of a class; None = there is no room."""
        for known, row in container.classes:
            if known is node_class or known == node_class:  # mostly it is interned
                return row
        given = self.by_class.give()
        if given is not None:
            classes = (*container.classes, (self.interned(node_class), given))
            container.classes = tuple(sorted(classes, key=_class_order))
        return given

    def node_row(self, container: ContainerEntry, node: str) -> int | None:
        """Find or begin the row of a node; None = there is no room."""
        if container.nodes is None:
            container.nodes = {}
        row = container.nodes.get(node)
        if row is None:
            row = self.by_node.give()
            if row is not None:
                container.nodes[intern(node)] = row
        return row

    def imported_row(self, container: ContainerEntry) -> int | None:
        """Find or begin the row of imported hours; None = there is no room but what is kept for agents' own."""
        if container.imported is None and self.by_class.rings.rows < self._most_with_imported:
            container.imported = self.by_class.give()
        return container.imported

    def row_of(self, key: SketchKey) -> tuple[RowTable, int] | None:
        """Find or begin the row of a sketch; None = there is no room."""
        container = self.container(self.entry(key.workload), key.container)
        if container is None:
            return None
        if isinstance(key.place, str):
            table, row = self.by_node, self.node_row(container, key.place)
        elif is_imported(key):
            table, row = self.by_class, self.imported_row(container)
        else:
            table, row = self.by_class, self.class_row(container, key.place)
        return None if row is None else (table, row)

    def forget(self, workload: Workload) -> None:
        """Forget a workload with all its rows; nothing happens if it is not known."""
        entry = self.known.pop(workload, None)
        for container in () if entry is None else entry.containers:
            for _, row in container.classes:
                self.by_class.take_back(row)
            for row in (container.nodes or {}).values():
                self.by_node.take_back(row)
            if container.imported is not None:
                self.by_class.take_back(container.imported)
            container.classes, container.nodes, container.imported = (), None, None  # somebody may still hold it

    def forget_row(self, key: SketchKey) -> None:
        """Forget one row, and what is left of its container and workload if it was the last; it may be unknown."""
        entry = self.known.get(key.workload)
        container = None if entry is None else entry.find(key.container)
        if entry is None or container is None:
            return
        if isinstance(key.place, str):
            row = (container.nodes or {}).get(key.place)
            if row is not None and container.nodes is not None:
                del container.nodes[key.place]
                self.by_node.take_back(row)
        else:
            for node_class, row in container.classes:
                if node_class == key.place:
                    container.classes = tuple(class_row for class_row in container.classes if class_row[1] != row)
                    self.by_class.take_back(row)
        if container.is_empty:
            del entry.by_name[container.name]
        if not entry.by_name:
            del self.known[key.workload]

    def expire(self, workload: Workload, oldest_unix_seconds: int) -> bool:
        """Forget the rows of a workload that ended before; True = none is left, and it is forgotten itself."""
        entry = self.known[workload]
        for container in entry.containers:
            self._expire(container, oldest_unix_seconds)
            if container.is_empty:
                del entry.by_name[container.name]
        if entry.by_name:
            return False
        del self.known[workload]
        return True

    def _expire(self, container: ContainerEntry, oldest_unix_seconds: int) -> None:
        for class_row in container.classes:
            if self.by_class.last[class_row[1]] < oldest_unix_seconds:
                container.classes = tuple(other for other in container.classes if other is not class_row)
                self.by_class.take_back(class_row[1])
        for node, row in list((container.nodes or {}).items()):
            if self.by_node.last[row] < oldest_unix_seconds and container.nodes is not None:
                del container.nodes[node]
                self.by_node.take_back(row)
        if container.imported is not None and self.by_class.last[container.imported] < oldest_unix_seconds:
            self.by_class.take_back(container.imported)
            container.imported = None

    def span(self, entry: WorkloadEntry) -> tuple[float, float]:
        """Return from when to when a workload is known, Unix seconds."""
        firsts, lasts = self.by_class.first, self.by_class.last
        node_firsts, node_lasts = self.by_node.first, self.by_node.last
        times: list[tuple[int, int]] = []
        for container in entry.by_name.values():
            times += [(firsts.item(row), lasts.item(row)) for row in container.rows]
            if container.imported is not None:
                times.append((firsts.item(container.imported), lasts.item(container.imported)))
            if container.nodes:
                times += [(node_firsts.item(row), node_lasts.item(row)) for row in container.nodes.values()]
        if not times:
            return 0.0, 0.0
        return float(min(first for first, _ in times)), float(max(last for _, last in times))


def _class_order(known: tuple[NodeClass, int]) -> tuple[int, str]:
    return known[0].cpus, known[0].instance_type or ""
