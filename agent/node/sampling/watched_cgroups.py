"""Which cgroups are watched: each that was found has a slot of the rings, the sampler, memory.events and its names.

Node; on the sampling thread. It keeps rings, sampler, events and the table of units in step with what discovery finds;
when anything is read is the loop's business.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, Protocol

from agent.core.cluster.unit import UnitIdentity, UnitResources
from agent.node.sampling.moved_events import MovedEvents
from agent.node.sampling.pod_cgroups import PodCgroups
from agent.node.sampling.run_ends import RunEnds
from agent.node.sampling.unit_table import UnitTable, WatchedUnit
from agent.sensing.discovery import Changes, Discovery, FoundCgroup
from agent.sensing.memory_events import MemoryEvents, OomKill
from agent.sensing.sampler_contract import CgroupGone, Sampler, SamplerError
from agent.sensing.spot_readings import read_limits
from agent.sensing.state_file import RingError, RingsFull


class PodNames(Protocol):
    """Who gives units their pod's name; see ``node.pods``."""

    def name(self, identity: UnitIdentity) -> tuple[UnitIdentity, UnitResources]:
        """Return the identity with names filled in where known, and the stated requests and limits."""

    def refresh(self) -> bool:
        """Check for news; True = names may have changed."""


class WatchedCgroups:
    """The watched cgroups and their slots. On the sampling thread; ``refused`` may be asked by any."""

    def __init__(
        self,
        *,
        sampler: Sampler,
        discovery: Discovery,
        units: UnitTable,  # Filled here for the other threads
        names: PodNames,
        on_refused: Callable[[str, Exception], None],  # Hears of a cgroup that cannot be watched for now, once
        pods: PodCgroups | None = None,  # Of whole pods and tiers; None = those are not sampled
        ends: RunEnds | None = None,  # Keeps what is left of containers that go; None = nobody asks for it
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.mount: Final = discovery.mount
        self.sampler: Final = sampler
        self.discovery: Final = discovery
        self.units: Final = units
        self._rings, self._names, self._on_refused, self._clock_ns = sampler.rings, names, on_refused, clock_ns
        self._pod_cgroups = pods
        self.ends: Final = ends
        self.events: MemoryEvents | None = None
        """None = memory.events cannot be polled, or not yet."""
        self._moved = MovedEvents(sampler.rings)
        self._pods: set[str] = set()
        self._refused: dict[str, FoundCgroup] = {}

    @property
    def refused(self) -> int:
        """How many cgroups should be watched and cannot be for now."""
        return len(self._refused)

    def apply(self, changes: Changes) -> None:
        """Follow what came and went."""
        for path in changes.vanished:
            self.forget(path)
        self._follow_pods()
        for cgroup in changes.appeared:
            self._watch(cgroup, is_new=changes.trigger != "start")

    def watch_missing(self) -> None:
        """Watch those that are there and are not: refused, or left behind by a failure in the midst of a change."""
        for cgroup in self.discovery.units():
            if self.units.get(cgroup.path) is None:
                self._watch(cgroup)

    def sweep_pods(self, *, retry_absent: bool) -> None:
        """Read whole pods and tiers; right after a slow sweep over the containers."""
        if self._pod_cgroups is not None:
            is_whole = not self._refused and not self.discovery.dropped
            self._pod_cgroups.sweep(retry_absent=retry_absent, knows_all_containers=is_whole)

    def poll_events(self) -> list[OomKill]:
        """Return kills that no event told of; right after a slow sweep and ``sweep_pods``.

        Only files are read again of which no row is known, or whose row tells something new.
        """
        if self.events is None:
            return []
        moved = self._moved.paths(self.units.all())  # in any case: so the next ones are told from these
        if self._pod_cgroups is not None:
            moved += self._pod_cgroups.moved_events()
        return self.events.poll([*moved, *self._unsampled_pods()])

    def _unsampled_pods(self) -> Iterable[str]:
        if self._pod_cgroups is None:
            return self._pods
        if not self._pod_cgroups.refused:
            return ()
        return self._pods.difference(unit.identity.cgroup_path for unit in self._pod_cgroups.units.all())

    def forget(self, path: str) -> None:
        """Stop watching a cgroup; one that is not watched is fine."""
        self._refused.pop(path, None)
        unit = self.units.get(path)
        if unit is None:
            return
        if self._pod_cgroups is not None:
            self._pod_cgroups.container_gone(path)  # first: who is told of one container less asks what its pod has
        self.units.drop(path)
        if self.ends is not None:
            self.ends.went(unit)
        self.sampler.remove(unit.slot)
        self._rings.release(unit.slot)
        if self.events is not None:
            self.events.remove(path)

    def free_gone(self) -> None:
        """Free slots that an earlier run left, whose cgroups are gone and are no unit of now."""
        self._free_unwatched(self._is_gone)

    def rename(self) -> None:
        """Take over names and resources from the pod source where it has news."""
        if not self._names.refresh():
            return
        if self.ends is not None:
            self.ends.lives.rename(self._names.name)
        for unit in self.units.all():
            identity, resources = self._names.name(unit.identity)
            if (identity, resources) != (unit.identity, unit.resources):
                # What is requested has changed: so may have, by now or soon, what the kernel holds to.
                limits = read_limits(f"{self.mount}{identity.cgroup_path}")
                self.units.put(replace(unit, identity=identity, resources=resources, **limits._asdict()))

    def read_limits(self) -> None:
        """Read anew what the kernel holds each unit to."""
        self.units.take_limits(self.sampler.read_limits())
        if self._pod_cgroups is not None:
            self._pod_cgroups.read_limits()

    def watch_events(self) -> None:
        """Watch what could not be before: a controller may have been switched on, a descriptor have come free."""
        if self.events is not None:
            for path in (*self._pods, *(unit.identity.cgroup_path for unit in self.units.all())):
                self.events.add(path)

    def _watch(self, cgroup: FoundCgroup, *, is_new: bool = False) -> None:
        relative_path = cgroup.path.lstrip("/")
        try:
            slot = self._attach(relative_path, cgroup.inode)
        except RingError as error:  # no room, or a path longer than a slot can hold
            self._refuse(cgroup, error)
            return
        try:
            self.sampler.add(slot, relative_path, cgroup.inode)
        except CgroupGone:
            self._refused.pop(cgroup.path, None)
            self._rings.release(slot)
            return
        except SamplerError as error:  # out of files, or not ours to open
            self._rings.release(slot)
            self._refuse(cgroup, error)
            return
        self._refused.pop(cgroup.path, None)
        identity, resources = self._names.name(cgroup.identity)
        limits = read_limits(f"{self.mount}{cgroup.path}")
        unit = WatchedUnit(slot=slot, inode=cgroup.inode, identity=identity, resources=resources, **limits._asdict())
        self.units.put(unit)
        if self.ends is not None:
            self.ends.came(unit, is_new=is_new)
        if self.events is not None:
            self.events.add(cgroup.path)

    def _attach(self, relative_path: str, inode: int) -> int:
        """Return a slot; when there is none, cgroups that are not watched any more give up theirs and their history."""
        try:
            return self._rings.attach(relative_path, inode, now_monotonic_ns=self._clock_ns())
        except RingsFull:
            self._free_unwatched(lambda _path, _slot: True)
            return self._rings.attach(relative_path, inode, now_monotonic_ns=self._clock_ns())

    def _free_unwatched(self, is_free: Callable[[str, int], bool]) -> None:
        """Free slots that an earlier run left and no unit of now wants, where this holds for path and slot."""
        wanted = {cgroup.path.lstrip("/") for cgroup in self.discovery.units()}
        for path, slot in self._rings.retained().items():
            if path not in wanted and is_free(path, slot):
                self._rings.release(slot)

    def _is_gone(self, path: str, slot: int) -> bool:
        if self._is_there(path, slot):
            return False
        if self.ends is not None:
            self.ends.left(f"/{path}", slot)
        return True

    def _is_there(self, path: str, slot: int) -> bool:
        try:
            return (self.mount / path).stat().st_ino == self._rings.inode(slot)
        except OSError:
            return False

    def _refuse(self, cgroup: FoundCgroup, error: Exception) -> None:
        is_news = cgroup.path not in self._refused
        self._refused[cgroup.path] = cgroup
        if is_news:
            self._on_refused(cgroup.path, error)

    def _follow_pods(self) -> None:
        """Follow the pods' own memory.events: after a kill the container's cgroup may be gone at once."""
        by_uid = self.discovery.pod_paths()
        if self._pod_cgroups is not None:
            self._pod_cgroups.follow(by_uid, self.discovery.tier_paths())
        if self.events is None:
            return
        pods = set(by_uid.values())
        for path in self._pods - pods:
            self.events.remove(path)
        for path in pods - self._pods:
            self.events.add(path)
        self._pods = pods
