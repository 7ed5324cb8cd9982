"""What cannot wait for the next evaluation: after each sweep, a look at the containers that may be resized.

Node. ``look`` runs on the sampling thread: some array operations over the newest rows, nothing else. The rules are
``core.urgency``'s; who is looked at is told by the acting thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from agent.core.cluster.unit import UnitKind
from agent.core.numbers.arrays import Floats
from agent.core.orders.plan_options import ActOptions
from agent.core.plan.needs.demand import ReservedReason, Urgent
from agent.core.plan.needs.urgent_needs import larger
from agent.core.window.urgency import LEAST_ELAPSED_NS, Rows, memory_waiting, starvation, working_sets
from agent.node.recommender.planner import PlannedNode
from agent.node.resize.memory_shortages import MemoryShortages
from agent.node.sampling.unit_table import UnitTable
from agent.sensing.ring_file import RingFile

ContainerKey = tuple[str, str]
"""Pod uid and container name."""

NOTHING: Final[Mapping[ContainerKey, Urgent]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmContainer:
    """One container that may be resized, as it stands."""

    slot: int
    inode: int
    pod_uid: str
    container: str
    cpu_request_millicores: int | None
    """None = it has none to raise."""
    memory_limit_bytes: int | None
    """In force; None = none, or not to be raised."""
    cgroup_path: str | None = None
    """None = not known: it is not looked at between sweeps."""

    @property
    def key(self) -> ContainerKey:
        """Return pod uid and container name."""
        return self.pod_uid, self.container


def alarm_containers(planned: PlannedNode, units: UnitTable) -> list[AlarmContainer]:
    """Return the containers that a plan may move: they are looked at until the next plan."""
    # Of a pod of which nothing is predicted yet, hunger is seen all the same, and it may grow by that.
    sized = (None, ReservedReason.NO_DATA)
    managed = {uid: demand for uid, demand in planned.demands.items() if demand.reserved in sized}
    watched: list[AlarmContainer] = []
    for unit in units.all():
        identity = unit.identity
        demand = managed.get(identity.pod_uid or "")
        if demand is None or identity.container is None or identity.kind is not UnitKind.CONTAINER:
            continue
        container = demand.pod.container(identity.container)
        if container is None:
            continue
        watched.append(
            AlarmContainer(
                slot=unit.slot,
                inode=unit.inode,
                pod_uid=demand.pod.uid,
                container=container.name,
                cpu_request_millicores=container.resources.cpu_request_millicores,
                memory_limit_bytes=container.resources.memory_limit_bytes,
                cgroup_path=identity.cgroup_path,
            )
        )
    return watched


class _LastReadings:
    """Those of the look before; shared by all arrays of the same containers, as a look may go on with older ones."""

    def __init__(self) -> None:
        self.rows: Rows | None = None
        self.memory_rows: Rows | None = None


class _AlarmRows:
    """Those looked at, as arrays; made anew when they change."""

    def __init__(self, watched: Sequence[AlarmContainer], rings: RingFile) -> None:
        self.watched = [container for container in watched if rings.inode(container.slot) == container.inode]
        self.slots = [container.slot for container in self.watched]
        self.inodes = [container.inode for container in self.watched]
        self.request_millicores: Floats = _column([container.cpu_request_millicores for container in self.watched])
        self.limit_bytes: Floats = _column([container.memory_limit_bytes for container in self.watched])
        self.by_path = {container.cgroup_path: container for container in self.watched if container.cgroup_path}
        self.last = _LastReadings()


def _column(values: Sequence[int | None]) -> Floats:
    """Return the amounts; infinite where there is none, so that nothing passes it."""
    return np.array([math.inf if value is None else float(value) for value in values])


class Alarms:
    """Watches for starvation, full memory and waiting for it; see the module's docstring."""

    def __init__(
        self,
        *,
        rings: RingFile,
        options: ActOptions,
        memory_limit_ratio: float,  # A memory limit becomes this x the working set
        capacity_millicores: int,
        on_alarm: Callable[[Mapping[ContainerKey, Urgent]], None],  # Is told, on the sampling thread; quick
        shortages: MemoryShortages | None = None,  # None = nobody is looked at between sweeps
    ) -> None:
        self._rings, self._options, self._limit_ratio = rings, options, memory_limit_ratio
        self._capacity_millicores, self._on_alarm = capacity_millicores, on_alarm
        self._shortages = shortages
        self._looked = _AlarmRows((), rings)
        self._contended_ns: int | None = None

    def contended(self, since_ns: int) -> None:
        """Record that contention has begun, for the next look; the sampling thread.

        Args:
            since_ns: How long ago at most.
        """
        self._contended_ns = since_ns

    def follow(self, watched: Sequence[AlarmContainer]) -> None:
        """Watch these from now on; any thread. The same ones again keep their last readings."""
        fresh = _AlarmRows(watched, self._rings)
        looked = self._looked
        if (fresh.slots, fresh.inodes) == (looked.slots, looked.inodes):
            fresh.last = looked.last
        self._looked = fresh

    def look(self) -> None:
        """Compare the newest readings with those before, and tell of what is urgent."""
        looked = self._looked
        contended_ns, self._contended_ns = self._contended_ns, None
        if not looked.slots:
            return
        rows = self._rings.newest_rows(looked.slots)
        last = looked.last
        before = last.rows
        alarms: dict[ContainerKey, Urgent] = {}
        if before is None:
            last.rows = rows
        elif int(rows["monotonic_ns"].max()) - int(before["monotonic_ns"].max()) >= LEAST_ELAPSED_NS:
            last.rows = rows
            self._starved(looked, before, rows, contended_ns, alarms)
        self._filled(looked, rows, alarms)
        self._stalled(looked, alarms)
        self._fell_short(looked, rows, alarms)
        self._tell(looked, alarms)

    def held(self, cgroup_path: str) -> None:
        """Record that a cgroup's tasks were held back at its memory.high; the sampling thread."""
        if self._shortages is not None and cgroup_path in self._looked.by_path:
            self._shortages.held(cgroup_path)

    @property
    def is_memory_quiet(self) -> bool:
        """Return whether nobody is looked at between two sweeps; the sampling thread."""
        return self._shortages is None or not self._looked.by_path or self._shortages.is_quiet

    def look_at_memory(self, *, is_waited_for: bool) -> None:
        """Check, between two sweeps, who is short of memory by a bound of its own; the sampling thread.

        Args:
            is_waited_for: Tasks of some pod have waited for memory since the look before.
        """
        shortages, looked = self._shortages, self._looked
        if shortages is None or not looked.by_path:
            return
        if is_waited_for:
            shortages.waited()
        if shortages.is_quiet:
            return
        alarms: dict[ContainerKey, Urgent] = {}
        self._fell_short(looked, self._rings.newest_rows(looked.slots), alarms)
        self._tell(looked, alarms)

    def _tell(self, looked: _AlarmRows, alarms: dict[ContainerKey, Urgent]) -> None:
        # A slot may have gone to another cgroup since the list was made; asked after reading, and only of those found.
        places = {container.key: container for container in looked.watched if container.key in alarms}
        alarms = {key: urgent for key, urgent in alarms.items() if self._is_there(places[key])}
        if alarms:
            self._on_alarm(alarms)

    def _is_there(self, watched: AlarmContainer) -> bool:
        return self._rings.inode(watched.slot) == watched.inode

    def _starved(
        self,
        looked: _AlarmRows,
        before: Rows,
        rows: Rows,
        contended_ns: int | None,
        alarms: dict[ContainerKey, Urgent],
    ) -> None:
        if not self._options.urgent_waiting_ratio:
            return
        seen = starvation(before, rows, capacity_millicores=self._capacity_millicores, contended_ns=contended_ns)
        is_urgent = seen.is_known & (seen.waiting_ratio >= self._options.urgent_waiting_ratio)
        is_urgent &= seen.demand_millicores > looked.request_millicores
        for index in np.flatnonzero(is_urgent).tolist():
            alarms[looked.watched[index].key] = Urgent(
                cpu_millicores=math.ceil(seen.demand_millicores[index] * (1.0 + self._options.urgent_headroom_ratio)),
                cpu_waiting_ratio=float(seen.waiting_ratio[index]),
            )

    def _filled(self, looked: _AlarmRows, rows: Rows, alarms: dict[ContainerKey, Urgent]) -> None:
        threshold = self._options.urgent_memory_ratio * looked.limit_bytes
        # The counter with all page cache first: it is at hand, and only what passes there can pass without the cache.
        if not (rows["memory_current_bytes"] >= threshold).any():
            return
        sizes, is_known = working_sets(rows, self._rings.newest_memory_rows(looked.slots))
        for index in np.flatnonzero(is_known & (sizes >= threshold)).tolist():
            key, size = looked.watched[index].key, int(sizes[index])
            limit_bytes = math.ceil(self._limit_ratio * size)
            alarms[key] = replace(alarms.get(key, Urgent()), memory_bytes=size, memory_limit_bytes=limit_bytes)

    def _stalled(self, looked: _AlarmRows, alarms: dict[ContainerKey, Urgent]) -> None:
        """Report those that wait for memory; between two slow readings, as the rings have no quicker ones."""
        rows = self._rings.newest_memory_rows(looked.slots)
        before = looked.last.memory_rows
        if before is not None and (rows["monotonic_ns"] == before["monotonic_ns"]).all():
            return
        looked.last.memory_rows = rows
        if before is None:
            return
        waiting, is_known = memory_waiting(before, rows)
        for index in np.flatnonzero(is_known & (waiting >= self._options.revert_memory_waiting_ratio)).tolist():
            key = looked.watched[index].key
            alarms[key] = replace(alarms.get(key, Urgent()), memory_waiting_ratio=float(waiting[index]))
        if self._shortages is not None and (is_known & (waiting >= self._options.urgent_memory_waiting_ratio)).any():
            self._shortages.waited()

    def _fell_short(self, looked: _AlarmRows, rows: Rows, alarms: dict[ContainerKey, Urgent]) -> None:
        """Report those that are held back at memory.high, or wait for memory at their limit."""
        if self._shortages is None or self._shortages.is_quiet:
            return
        is_full = rows["memory_current_bytes"] >= self._options.urgent_memory_ratio * looked.limit_bytes
        full = [path for index in np.flatnonzero(is_full).tolist() if (path := looked.watched[index].cgroup_path)]
        for path, shortage in self._shortages.look(looked.by_path, full).items():
            key = looked.by_path[path].key
            seen = Urgent(
                memory_bytes=shortage.working_set_bytes,
                memory_limit_bytes=shortage.limit_bytes,
                memory_short=shortage.cause,
            )
            before = alarms.get(key, Urgent())
            alarms[key] = replace(larger(before, seen), memory_waiting_ratio=before.memory_waiting_ratio)
