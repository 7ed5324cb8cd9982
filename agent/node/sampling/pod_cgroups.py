"""The cgroups of whole pods and of the QoS tiers: sampled like containers, at each slow tick, into rings of their own.

Node; on the sampling thread, but for what says otherwise. They have a sampler and rings of their own, so that a full
node's containers are read no later for them, and what is kept of containers on disk stays as it is. These rings are in
memory only: windows of minutes are soon full again, and nothing is learnt from them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.window.pod_itself import NOT_MEASURED, OWN_READING, PodItself, TickRows, own_readings, pods_itself
from agent.named_file import is_missing
from agent.node.sampling.heartbeat import SweepHeartbeat
from agent.node.sampling.moved_events import MovedEvents
from agent.node.sampling.unit_table import UnitTable, WatchedUnit
from agent.sensing.cgroup_path import parse_cgroup_path
from agent.sensing.ring_file import RingFile
from agent.sensing.sampler_contract import Sampler, SamplerError
from agent.sensing.spot_readings import read_limits
from agent.sensing.state_file import RingError

KEPT_READINGS: Final = 7
"""Of what a pod uses in none of its containers: six steps, a minute at the usual slow tick."""


class PodCgroups:
    """Slots, sampler and rings of pods and QoS tiers, followed by the pods that are there."""

    def __init__(
        self,
        *,
        mount: Path,
        sampler: Sampler,  # Of these cgroups alone; closed by whoever opened it, as the rings are
        rings: RingFile,
        interval_seconds: float,  # Between two sweeps, each of which reads all
        containers: UnitTable,
        container_rings: RingFile,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._mount, self._sampler, self._clock_ns = mount, sampler, clock_ns
        self._containers, self._container_rings = containers, container_rings
        self.rings: Final = rings
        """Any thread may read."""
        self.units: Final = UnitTable()
        """Of kind ``pod`` and ``tier``; any thread may ask."""
        self.heartbeat: Final = SweepHeartbeat(
            interval_seconds, slow_interval_seconds=interval_seconds, sampler_name=sampler.name
        )
        self.created: Final[Counter[UnitKind]] = Counter()
        """Cgroups that came since the first look, by kind; any thread may read both."""
        self.removed: Final[Counter[UnitKind]] = Counter()
        self.refused = 0
        """Those that are there and could not be watched at the last look."""
        self._has_looked = False
        self._own = np.zeros((rings.geometry.max_slots, KEPT_READINGS), dtype=OWN_READING)
        self._ticks = 0
        self._moved = MovedEvents(rings)
        self._members: _Members | None = None

    # -- what is watched -------------------------------------------------------------------------------------------

    def follow(self, pods: Mapping[str, str], tiers: Iterable[str]) -> None:
        """Watch these and no others.

        Args:
            pods: UID -> path below the mount, with a leading slash.
            tiers: Paths of ``kubepods`` and of the levels between it and the pods.
        """
        wanted = dict.fromkeys(tiers, UnitKind.TIER) | dict.fromkeys(pods.values(), UnitKind.POD)
        known = {unit.identity.cgroup_path for unit in self.units.all()}
        for path in known - wanted.keys():
            self._forget(path)
        refused = 0
        for path, kind in wanted.items():
            if path not in known:
                refused += not self._watch(_identity(path, kind))
        self.refused = refused
        self._has_looked = True

    def container_gone(self, path: str) -> None:
        """Begin anew what its pod uses in none of its containers: the time that this one has used stays the pod's."""
        pod = self.units.get(path.rpartition("/")[0])
        if pod is not None:
            self._own[pod.slot] = 0

    def read_limits(self) -> None:
        """Read anew what the kernel holds each to."""
        self.units.take_limits(self._sampler.read_limits())

    def _watch(self, identity: UnitIdentity) -> bool:
        """Begin to sample a cgroup; False = it is there and cannot be sampled for now."""
        path = identity.cgroup_path.lstrip("/")
        try:
            inode = (self._mount / path).stat().st_ino
        except OSError:
            return True  # gone again: normal
        try:
            slot = self.rings.attach(path, inode, now_monotonic_ns=self._clock_ns())
        except RingError:
            return False
        try:
            self._sampler.add(slot, path, inode)
        except SamplerError:
            self.rings.release(slot)
            return is_missing(self._mount / path)
        self._own[slot] = 0
        limits = read_limits(self._mount / path)
        unit = WatchedUnit(slot=slot, inode=inode, identity=identity, resources=UnitResources(), **limits._asdict())
        self.units.put(unit)
        self.created[identity.kind] += self._has_looked
        return True

    def _forget(self, path: str) -> None:
        unit = self.units.drop(path)
        if unit is not None:
            self._sampler.remove(unit.slot)
            self.rings.release(unit.slot)
            self.removed[unit.identity.kind] += 1

    # -- readings --------------------------------------------------------------------------------------------------

    def sweep(self, *, retry_absent: bool, knows_all_containers: bool) -> None:
        """Read all of them once; right after a slow sweep over the containers, whose rows are taken off the pods'.

        Args:
            retry_absent: Try absent files again.
            knows_all_containers: Every container that is there is watched: else what it uses would count as its pod's.
        """
        result = self._sampler.sweep(slow=True, retry_absent=retry_absent)
        for slot in result.gone:
            unit = self.units.in_slot(slot)
            if unit is not None:
                self._forget(unit.identity.cgroup_path)
        self.heartbeat.beat(result, 0.0, overran=False, interval_seconds=self.heartbeat.base_interval_seconds)
        self._ticks += 1
        if knows_all_containers:
            self._take_own_readings()
        else:
            self._own[:, self._ticks % KEPT_READINGS] = 0

    def moved_events(self) -> list[str]:
        """Return the paths of those whose ``memory.events`` moved since the last call; after ``sweep``."""
        return self._moved.paths(self.units.all())

    def itself(self, units: Sequence[WatchedUnit]) -> list[PodItself]:
        """Return what each of some pods of ``units`` uses in none of its containers; any thread may ask."""
        own_usages = pods_itself(self._own[[unit.slot for unit in units]])
        return [
            # Asked after the readings were copied.
            own if self.rings.inode(unit.slot) == unit.inode else NOT_MEASURED
            for unit, own in zip(units, own_usages, strict=True)
        ]

    def _take_own_readings(self) -> None:
        containers, units = self._containers.all(), self.units.all()
        if self._members is None or containers is not self._members.containers or units is not self._members.units:
            self._members = _members(containers, units)
        members = self._members
        if not members.pod_slots:
            return
        self._own[members.pod_slots, self._ticks % KEPT_READINGS] = own_readings(
            _newest(self.rings, members.pod_slots),
            _newest(self._container_rings, members.container_slots),
            members.pod_of,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Members:
    """Which container is in which pod, of these containers and these pods and tiers."""

    containers: tuple[WatchedUnit, ...]
    units: tuple[WatchedUnit, ...]
    pod_slots: list[int]
    container_slots: list[int]
    pod_of: NDArray[np.intp]
    """The place of each container's pod in ``pod_slots``."""


def _members(containers: tuple[WatchedUnit, ...], units: tuple[WatchedUnit, ...]) -> _Members:
    pods = [unit for unit in units if unit.identity.kind is UnitKind.POD]
    place_of = {unit.identity.cgroup_path: place for place, unit in enumerate(pods)}
    # Under a driver mismatch a container lies elsewhere: it is none of its pod's cgroup.
    places = [(unit.slot, place_of.get(unit.identity.cgroup_path.rpartition("/")[0])) for unit in containers]
    inside = [(slot, place) for slot, place in places if place is not None]
    return _Members(
        containers=containers,
        units=units,
        pod_slots=[unit.slot for unit in pods],
        container_slots=[slot for slot, _ in inside],
        pod_of=np.array([place for _, place in inside], dtype=np.intp),
    )


def _newest(rings: RingFile, slots: list[int]) -> TickRows:
    return TickRows(raw=rings.newest_rows(slots), memory=rings.newest_memory_rows(slots))


def _identity(path: str, kind: UnitKind) -> UnitIdentity:
    parsed = parse_cgroup_path(path)
    return UnitIdentity(cgroup_path=path, kind=kind, qos=parsed.qos, pod_uid=parsed.pod_uid)
