"""The sampling loop: deadlines, cgroups that come and go, what is refused, the fast lane, faults and its end."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from agent.core.cluster.unit import UnitIdentity, UnitResources
from agent.core.window.sweep_pace import SkipReason
from agent.node.sampling.heartbeat import SweepHeartbeat
from agent.node.sampling.listener import Listener
from agent.node.sampling.loop import SamplingLoop, SamplingPolicy
from agent.node.sampling.pod_cgroups import PodCgroups
from agent.node.sampling.run_ends import RunEnds
from agent.node.sampling.unit_table import UnitTable
from agent.node.sampling.watched_cgroups import WatchedCgroups
from agent.sensing.discovery import Changes, Discovery
from agent.sensing.inotify import Inotify, WatchEvent
from agent.sensing.memory_events import OomKill
from agent.sensing.ring_file import RingFile
from agent.sensing.sampler_contract import FilesExhausted, LaneWait, QuietLane, SamplerError, SweepResult
from agent.sensing.state_file import RingGeometry
from tests.cgroup_files import POD_UID, CgroupFiles, container_path
from tests.fakes import NS, FakeClock, FakeSampler

PATIENCE_SECONDS = 60.0
"""How long a thread may take before the test fails; nothing is slower because of it."""
ONE, TWO, THREE = (container_path(number) for number in (1, 2, 3))
NODE_LANE, PODS_LANE = "/proc/pressure/cpu", "kubepods/cpu.pressure"
MEMORY_LANE = "kubepods/memory.pressure"
POLICY = SamplingPolicy(
    interval_seconds=1.0,
    slow_interval_seconds=10.0,
    fast_lane_hz=0.0,
    relist_seconds=30.0,
    retry_absent_seconds=60.0,
    sweep_budget_seconds=0.05,
)


@dataclass
class Heard(Listener):
    """A listener that keeps what it hears."""

    lateness_seconds: list[float | None] = field(default_factory=list)
    skipped_sweeps: dict[SkipReason, int] = field(default_factory=dict)
    changes: list[Changes] = field(default_factory=list)
    kills: list[OomKill] = field(default_factory=list)
    contentions: list[tuple[str, ...]] = field(default_factory=list)
    refusals: list[tuple[str, str]] = field(default_factory=list)
    held_back: list[str] = field(default_factory=list)
    looks: list[bool] = field(default_factory=list)
    """At each reading of the fast lane, whether tasks waited for memory."""
    failures: list[int] = field(default_factory=list)
    """Moments of failed turns on the real clock, nanoseconds."""
    news: threading.Condition = field(default_factory=threading.Condition)

    is_memory_quiet: bool = True

    def held(self, cgroup_path: str) -> None:
        self.held_back.append(cgroup_path)

    def look_at_memory(self, *, is_waited_for: bool) -> None:
        self.looks.append(is_waited_for)

    def swept(self, result: SweepResult, *, lateness_seconds: float | None) -> None:
        with self.news:
            self.lateness_seconds.append(lateness_seconds)
            self.news.notify_all()

    def skipped(self, reason: SkipReason, count: int) -> None:
        self.skipped_sweeps[reason] = self.skipped_sweeps.get(reason, 0) + count

    def changed(self, changes: Changes) -> None:
        self.changes.append(changes)

    def killed(self, kill: OomKill) -> None:
        self.kills.append(kill)

    def contention(self, lanes: tuple[str, ...]) -> None:
        self.contentions.append(lanes)

    def refused(self, path: str, error: Exception) -> None:
        self.refusals.append((path, str(error)))

    def failed(self, error: Exception) -> None:
        with self.news:
            self.failures.append(time.monotonic_ns())
            self.news.notify_all()


class Names:
    """A pod source whose answers a test changes."""

    def __init__(self) -> None:
        self.pod: str | None = None
        self.container: str | None = None
        self.has_news = False
        self.failure: Exception | None = None

    def name(self, identity: UnitIdentity) -> tuple[UnitIdentity, UnitResources]:
        if self.pod is None:
            return identity, UnitResources()
        return replace(identity, pod=self.pod, container=self.container), UnitResources(cpu_request_millicores=250)

    def refresh(self) -> bool:
        if self.failure is not None:
            raise self.failure
        had_news, self.has_news = self.has_news, False
        return had_news


class NoInotify(Inotify):
    def __init__(self) -> None:
        raise OSError(24, "Too many open files")


class DeafInotify(Inotify):
    """Is there and tells nothing."""

    def read(self) -> list[WatchEvent]:
        super().read()
        return []


class World:
    """A loop over plain files, with time that passes at once."""

    def __init__(
        self,
        root: Path,
        *,
        policy: SamplingPolicy = POLICY,
        max_slots: int = 8,
        rings: RingFile | None = None,
        inotify: type[Inotify] = Inotify,
        real_time: bool = False,
        has_pods: bool = False,
    ) -> None:
        self.files = CgroupFiles(root)
        self.files.make(f"kubepods/burstable/pod{POD_UID}")
        self.clock = FakeClock()
        self.rings = rings or RingFile.open(None, RingGeometry(max_slots=max_slots), boot_id="boot")
        self.sampler = FakeSampler(root, self.rings, self.clock)
        self.sampler.totals = {NODE_LANE: 0}
        self.discovery = Discovery(root, open_watcher=inotify)
        self.ends = RunEnds(mount=root, rings=self.rings, clock_ns=self.clock, tells_runs=False)
        self.units, self.names, self.heard = UnitTable(), Names(), Heard()
        self.pod_rings = RingFile.open(None, RingGeometry(max_slots=max_slots), boot_id="boot")
        self.pod_sampler = FakeSampler(root, self.pod_rings, self.clock)
        pods = PodCgroups(
            mount=root,
            sampler=self.pod_sampler,
            rings=self.pod_rings,
            interval_seconds=policy.slow_interval_seconds,
            containers=self.units,
            container_rings=self.rings,
            clock_ns=self.clock,
        )
        timing = {} if real_time else {"clock_ns": self.clock, "wait": self.clock.wait}
        self.loop = SamplingLoop(
            watched=WatchedCgroups(
                sampler=self.sampler,
                discovery=self.discovery,
                units=self.units,
                names=self.names,
                on_refused=self.heard.refused,
                ends=self.ends,
                pods=pods if has_pods else None,
                clock_ns=time.monotonic_ns if real_time else self.clock,
            ),
            policy=policy,
            listener=self.heard,
            memory=self.heard,
            cpu_ns=lambda: self.sampler.cpu_ns,
            **timing,  # type: ignore[arg-type]
        )

    def make(self, *paths: str) -> None:
        for path in paths:
            self.files.make(path)

    def start(self, *paths: str) -> None:
        self.make(*paths)
        self.loop.start()

    def pass_seconds(self, seconds: float) -> None:
        """Let the loop do all that is due in this time."""
        end_ns = self.sampler.woken_ns = self.clock.now_ns + round(seconds * NS)
        while self.clock.now_ns < end_ns:
            self.loop.turn()

    def watched(self) -> set[str]:
        """Paths watched, without the leading slash; table, sampler and rings must agree."""
        paths = {unit.identity.cgroup_path.lstrip("/") for unit in self.units.all()}
        assert paths == self.sampler.watched().keys()
        return paths

    def sweeps_at(self) -> list[float]:
        return [round(sweep.at_seconds - 1000.0, 6) for sweep in self.sampler.sweeps]

    def close(self) -> None:
        self.loop.close()
        self.rings.close()
        self.pod_rings.close()


Make = Callable[..., World]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    worlds: list[World] = []

    def build(**settings: object) -> World:
        world = World(tmp_path / f"cgroup{len(worlds)}", **settings)  # type: ignore[arg-type]
        worlds.append(world)
        return world

    yield build
    for world in worlds:
        world.close()


@pytest.fixture
def world(make: Make) -> World:
    return make()


# -- deadlines ---------------------------------------------------------------------------------------------------------


def test_sweeps_lie_on_absolute_deadlines_and_are_not_late(world: World) -> None:
    world.sampler.sweep_seconds = 0.04  # would add up to a whole interval within 25 sweeps
    world.start(ONE)
    world.pass_seconds(30)
    assert world.sweeps_at() == [float(second) for second in range(len(world.sampler.sweeps))]
    assert len(world.sampler.sweeps) >= 30
    assert set(world.heard.lateness_seconds) == {0.0}
    assert world.heard.skipped_sweeps == {}


def test_a_loop_that_comes_late_skips_what_has_passed_and_keeps_the_grid(world: World) -> None:
    world.start(ONE)
    world.loop.turn()
    world.clock.advance(3.5 - 0.001)  # the sweep due at 1 begins at 3.5; those due at 2 and 3 have passed
    world.pass_seconds(2)
    assert world.sweeps_at()[:4] == [0.0, 3.5, 4.0, 5.0]
    assert world.heard.lateness_seconds[1] == pytest.approx(2.5)
    assert world.heard.skipped_sweeps == {SkipReason.LATE: 2}


def test_sweeps_that_overrun_halve_the_rate_and_are_counted(world: World) -> None:
    world.sampler.sweep_seconds = 0.06  # the budget is 0.05
    world.start(ONE)
    world.pass_seconds(9)
    # Three overruns halve the rate: from the one at 2 on every other second; three more halve it again.
    assert world.sweeps_at()[:7] == [0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0][: len(world.sampler.sweeps)]
    assert world.loop.heartbeat.overruns == len(world.sampler.sweeps)
    assert world.loop.heartbeat.interval_seconds == 4.0
    assert world.heard.skipped_sweeps[SkipReason.SLOWED] >= 2


def test_sweeps_that_others_hold_up_are_late_and_no_overrun(world: World) -> None:
    world.sampler.sweep_seconds, world.sampler.cost_seconds = 1.5, 0.01
    world.start(ONE)
    world.pass_seconds(9)
    assert (world.loop.heartbeat.overruns, world.loop.heartbeat.interval_seconds) == (0, 1.0)
    assert world.sweeps_at()[:3] == [0.0, 2.0, 4.0]
    assert set(world.heard.skipped_sweeps) == {SkipReason.LATE}


def test_slow_files_are_read_each_ten_seconds_and_absent_ones_retried_each_minute(world: World) -> None:
    world.start(ONE)
    world.pass_seconds(125)
    slow = [at for at, sweep in zip(world.sweeps_at(), world.sampler.sweeps, strict=True) if sweep.is_slow]
    assert slow[:13] == [10.0 * tick for tick in range(13)]
    retries = [at for at, sweep in zip(world.sweeps_at(), world.sampler.sweeps, strict=True) if sweep.is_retry]
    assert retries == [60.0, 120.0]


def test_files_of_pods_are_retried_at_the_slow_tick_after_a_retry_that_lies_between_two(make: Make) -> None:
    world = make(policy=replace(POLICY, retry_absent_seconds=25.0), has_pods=True)
    world.start(ONE)
    world.pass_seconds(65)
    retries = [at for at, sweep in zip(world.sweeps_at(), world.sampler.sweeps, strict=True) if sweep.is_retry]
    assert retries == [25.0, 50.0]
    pods = [(round(sweep.at_seconds - 1000.0), sweep.is_retry) for sweep in world.pod_sampler.sweeps]
    assert pods[:7] == [(10 * tick, tick in (3, 5)) for tick in range(7)]


def test_the_tree_is_listed_anew_each_ten_minutes(world: World) -> None:
    world.start(ONE)
    world.pass_seconds(599)
    assert world.discovery.relists == {"start": 1}
    world.pass_seconds(602)
    assert world.discovery.relists == {"start": 1, "periodic": 2}


def test_without_inotify_the_tree_is_listed_anew_each_thirty_seconds(make: Make) -> None:
    world = make(inotify=NoInotify)
    world.start(ONE)
    world.pass_seconds(91)
    assert world.discovery.relists == {"start": 1, "periodic": 3}


def test_what_inotify_did_not_tell_is_found_within_thirty_seconds(make: Make) -> None:
    world = make(inotify=DeafInotify)
    world.start(ONE)
    world.make(TWO)
    world.pass_seconds(29)
    assert world.watched() == {ONE}
    world.pass_seconds(2)
    assert world.watched() == {ONE, TWO}
    world.files.replace(ONE)
    world.pass_seconds(31)
    assert world.watched() == {ONE, TWO}
    assert world.discovery.relists == {"start": 1}


def test_a_slow_tick_after_a_long_pause_stays_on_its_grid(world: World) -> None:
    world.start(ONE)
    world.loop.turn()
    world.clock.advance(24)
    world.pass_seconds(8)
    slow = [at for at, sweep in zip(world.sweeps_at(), world.sampler.sweeps, strict=True) if sweep.is_slow]
    assert [round(at) for at in slow] == [0, 24, 30]


# -- what is watched ---------------------------------------------------------------------------------------------------


def test_cgroups_are_watched_as_they_appear_and_forgotten_as_they_vanish(world: World) -> None:
    world.start(ONE)
    assert world.watched() == {ONE}
    slot = world.rings.retained()[ONE]

    world.make(TWO)
    world.pass_seconds(0.5)
    assert world.watched() == {ONE, TWO}

    world.files.remove(ONE)
    world.pass_seconds(0.5)
    assert world.watched() == {TWO}
    assert ONE not in world.rings.retained()
    assert [change.trigger for change in world.heard.changes] == ["start", None, None]

    world.make(THREE)  # lately freed slots are handed out first
    world.pass_seconds(0.5)
    assert world.rings.retained()[THREE] == slot


def test_another_cgroup_under_the_same_path_begins_with_empty_rings(world: World) -> None:
    world.start(ONE)
    world.pass_seconds(3)
    slot = world.rings.retained()[ONE]
    assert len(world.rings.raw(slot)) >= 3

    inode = world.files.replace(ONE)
    replaced_ns = world.clock.now_ns
    world.pass_seconds(0.5)

    unit = world.units.get("/" + ONE)
    assert unit is not None
    assert unit.inode == inode
    assert world.rings.inode(unit.slot) == inode
    assert all(world.rings.raw(unit.slot).joined()["monotonic_ns"] >= replaced_ns)
    assert world.watched() == {ONE}


def test_a_gone_cgroup_is_dropped_by_the_sweep_that_saw_it_without_inotify(make: Make) -> None:
    world = make(inotify=NoInotify)
    world.start(ONE, TWO)
    world.pass_seconds(1)
    world.files.remove(ONE)
    world.pass_seconds(1)
    assert world.watched() == {TWO}
    assert world.rings.retained().keys() == {TWO}


def test_without_inotify_a_new_cgroup_is_seen_at_the_next_listing(make: Make) -> None:
    world = make(inotify=NoInotify)
    world.start(ONE)
    world.make(TWO)
    world.pass_seconds(29)
    assert world.watched() == {ONE}
    world.pass_seconds(2)
    assert world.watched() == {ONE, TWO}


def test_full_rings_refuse_the_newcomer_once_and_take_it_when_there_is_room(make: Make) -> None:
    world = make(max_slots=1)
    world.start(ONE, TWO)
    assert world.watched() == {ONE}
    world.pass_seconds(65)  # two listings: no news
    assert [path for path, _ in world.heard.refusals] == ["/" + TWO]
    assert "1 slots" in world.heard.refusals[0][1]
    assert world.loop.refused == 1
    assert world.heard.failures == []

    world.files.remove(ONE)
    world.pass_seconds(31)
    assert world.watched() == {TWO}
    assert world.loop.refused == 0


@pytest.mark.parametrize("error", [FilesExhausted("no descriptors"), SamplerError("Permission denied")])
def test_a_cgroup_that_cannot_be_opened_does_not_keep_others_out_and_is_tried_again(
    world: World, error: SamplerError
) -> None:
    world.sampler.refusals[ONE] = error
    world.start(ONE, TWO)
    assert world.watched() == {TWO}
    assert world.rings.retained().keys() == {TWO}
    assert world.heard.refusals == [("/" + ONE, str(error))]

    world.sampler.refusals.clear()
    world.pass_seconds(31)
    assert world.watched() == {ONE, TWO}


def test_a_refused_cgroup_that_vanishes_is_not_tried_again(world: World) -> None:
    world.sampler.refusals[ONE] = FilesExhausted("no descriptors")
    world.start(ONE)
    world.files.remove(ONE)
    world.pass_seconds(1)
    assert world.loop.refused == 0


def test_a_path_too_long_for_a_slot_does_not_keep_others_out(world: World) -> None:
    deep = "/".join(["d" * 200] * 4)  # 803 bytes; a slot holds 768
    world.start(f"{deep}/{ONE}", ONE)
    assert world.watched() == {ONE}
    assert "at most 768" in world.heard.refusals[0][1]


def test_names_that_change_in_the_pod_source_reach_units_at_the_next_listing(world: World) -> None:
    world.start(ONE)
    before = world.units.get("/" + ONE)
    assert before is not None
    assert before.identity.pod is None

    world.names.pod, world.names.has_news = "web", True
    world.pass_seconds(31)
    unit = world.units.get("/" + ONE)
    assert unit is not None
    assert (unit.identity.pod, unit.resources.cpu_request_millicores) == ("web", 250)
    assert (unit.slot, unit.inode) == (before.slot, before.inode)


def test_a_container_that_lived_for_less_than_a_sweep_counts_when_its_name_is_told(world: World) -> None:
    world.start()
    world.pass_seconds(0.1)
    world.make(ONE)
    world.files.write(ONE, "memory.peak", "1048576\n")
    world.loop.turn()
    assert world.watched() == {ONE}
    world.files.write(ONE, "memory.peak", "314572800\n")
    world.ends.look()  # as the fast lane has it do: once it is gone the kernel tells nothing
    world.files.write(ONE, "memory.peak", "gone\n")
    world.files.remove(ONE)
    world.loop.turn()
    assert world.watched() == set()
    lives = world.ends.lives
    assert lives.take_until(world.clock.now_ns) == []

    world.names.pod, world.names.container, world.names.has_news = "web", "app", True
    world.loop.renew_names()
    world.loop.turn()
    [life] = lives.take_until(world.clock.now_ns)
    assert (life.unit.identity.container, life.working_set_bytes) == ("app", 300 << 20)
    assert life.ended_ns - life.started_ns < 10**9


def test_limits_are_read_when_a_cgroup_appears_and_again_each_minute(world: World) -> None:
    world.make(ONE)
    world.files.write(ONE, "cpu.max", "50000 100000\n")
    world.files.write(ONE, "memory.max", "1048576\n")
    world.start()
    unit = world.units.get("/" + ONE)
    assert unit is not None
    assert (unit.cpu_max_millicores, unit.memory_max_bytes) == (500, 1048576)  # half of each period; 1 MiB

    world.files.write(ONE, "cpu.max", "max 100000\n")
    world.files.write(ONE, "memory.max", "garbage\n")
    world.pass_seconds(61)
    unit = world.units.get("/" + ONE)
    assert unit is not None
    assert (unit.cpu_max_millicores, unit.memory_max_bytes) == (None, None)


def test_kills_are_told_by_the_slow_tick_at_the_latest(world: World) -> None:
    world.start(ONE)
    world.files.write(ONE, "memory.events", "low 0\nhigh 0\nmax 4\noom 3\noom_kill 2\n")
    world.pass_seconds(11)
    assert [(kill.path, kill.kills) for kill in world.heard.kills] == [("/" + ONE, 2)]


# -- slots of an earlier run -------------------------------------------------------------------------------------------


def earlier_run(world: World, *paths: str) -> dict[str, int]:
    """Leave slots behind as a run before this one did, with one row each."""
    slots = {}
    for path in paths:
        inode = world.files.make(path)
        slots[path] = world.rings.attach(path, inode, now_monotonic_ns=1)
        world.sampler.add(slots[path], path, inode)
    world.sampler.sweep(slow=False, retry_absent=False)
    for slot in slots.values():
        world.sampler.remove(slot)
    return slots


def test_a_cgroup_that_lived_through_a_restart_goes_on_with_its_rings(world: World) -> None:
    slots = earlier_run(world, ONE)
    world.start()
    assert world.rings.retained() == slots
    assert len(world.rings.raw(slots[ONE])) == 1


def test_slots_of_cgroups_that_died_between_two_runs_are_freed(world: World) -> None:
    earlier_run(world, ONE, TWO, THREE)
    world.files.remove(ONE)
    world.files.replace(TWO)
    world.start()
    assert world.rings.retained().keys() == {TWO, THREE}
    unit = world.units.get("/" + TWO)
    assert unit is not None
    assert len(world.rings.raw(unit.slot)) == 0


def test_slots_of_cgroups_outside_the_scope_are_kept_until_they_die_or_room_is_needed(make: Make) -> None:
    world = make(max_slots=3)
    earlier_run(world, "system.slice/a.service", "system.slice/b.service")
    world.start(ONE)
    assert world.rings.retained().keys() == {"system.slice/a.service", "system.slice/b.service", ONE}

    world.files.remove("system.slice/a.service")
    world.pass_seconds(31)
    assert world.rings.retained().keys() == {"system.slice/b.service", ONE}

    world.make(TWO, THREE)  # three of three: what nobody watches gives way
    world.pass_seconds(1)
    assert world.watched() == {ONE, TWO, THREE}
    assert world.heard.refusals == []


# -- the fast lane -----------------------------------------------------------------------------------------------------

FAST = replace(POLICY, fast_lane_hz=8.0)


def test_lanes_follow_the_pods_root(make: Make) -> None:
    world = make(policy=FAST)
    world.sampler.totals[PODS_LANE] = 0
    world.start()
    assert world.sampler.lanes() == {NODE_LANE, PODS_LANE}
    world.files.remove("kubepods")
    world.sampler.totals[PODS_LANE] = None
    world.pass_seconds(31)
    assert world.sampler.lanes() == {NODE_LANE}


def test_a_lane_whose_cgroup_died_is_opened_anew_under_the_same_path(make: Make) -> None:
    world = make(policy=FAST)
    world.sampler.totals[PODS_LANE] = None
    world.start()
    assert world.sampler.lanes() == {NODE_LANE}
    world.sampler.totals[PODS_LANE] = 5
    world.pass_seconds(31)
    assert world.sampler.lanes() == {NODE_LANE, PODS_LANE}
    world.sampler.totals[PODS_LANE] = None  # the kubelet makes its root anew: the open file is dead
    world.pass_seconds(30)
    assert world.sampler.lanes() == {NODE_LANE}
    world.sampler.totals[PODS_LANE] = 5
    world.pass_seconds(30)
    assert world.sampler.lanes() == {NODE_LANE, PODS_LANE}


def test_no_pressure_files_no_lanes_and_sampling_goes_on(make: Make) -> None:
    world = make(policy=FAST)
    world.sampler.totals.clear()
    world.start(ONE)
    world.pass_seconds(5)
    assert world.sampler.lanes() == set()
    assert len(world.sampler.sweeps) >= 5


def test_rising_contention_starts_one_sweep_early_between_the_regular_ones(make: Make) -> None:
    world = make(policy=FAST)
    world.sampler.totals[PODS_LANE] = 0
    world.start(ONE)
    world.pass_seconds(2.2)
    before = world.sweeps_at()
    assert before == [0.0, 1.0, 2.0]

    # 50 ms of waiting within a lane's 125 ms: a ratio of 0.4, the threshold is 0.2.
    world.sampler.totals[PODS_LANE] = 50_000
    world.pass_seconds(0.25)

    assert world.heard.contentions == [(PODS_LANE,)]
    early = world.sweeps_at()[3:]
    assert len(early) == 1
    assert 2.2 <= early[0] <= 2.45
    world.pass_seconds(2)
    assert world.sweeps_at()[4:6] == [3.0, 4.0]  # the deadlines did not move


def test_while_lanes_are_quiet_the_sampler_reads_them_in_one_wait_from_sweep_to_sweep(make: Make) -> None:
    world = make(policy=FAST)
    world.sampler.totals |= {PODS_LANE: 0, MEMORY_LANE: 0}
    world.start(ONE)
    world.pass_seconds(1)  # the first reading has nothing to be compared with
    turns, waits, world.sampler.woken_ns = 0, world.sampler.waits, None
    while world.clock.seconds < 1010:
        turns += 1
        world.loop.turn()
    assert world.sampler.waits - waits == turns == 9
    assert world.sweeps_at() == [float(second) for second in range(11)]
    assert len(world.heard.looks) == 11  # beside each sweep
    # Contention that goes on is no news, and quiet too, until it is over.
    world.sampler.totals[PODS_LANE] = 50_000
    world.pass_seconds(0.125)
    assert world.heard.contentions == [(PODS_LANE,)]
    waits = world.sampler.waits
    for lane in range(1, 8):
        world.sampler.totals[PODS_LANE] = 50_000 * (lane + 1)
        world.pass_seconds(0.125)
    assert world.heard.contentions == [(PODS_LANE,)]
    assert world.sampler.waits > waits


def quiet_for_a_while(make: Make) -> World:
    """Return a world 2.3 s old whose lanes are quiet, with no end of time set for its waits."""
    world = make(policy=FAST)
    world.sampler.totals |= {PODS_LANE: 0, MEMORY_LANE: 0}
    world.start(ONE)
    world.pass_seconds(2.3)
    world.sampler.woken_ns = None
    return world


def after_wait(world: World, action: Callable[[], None]) -> None:
    """Have something happen after each wait on lanes, before the loop goes on."""
    wait = world.sampler.wait_on_lanes

    def waited(lanes: Sequence[QuietLane], *, wake_fd: int, until_ns: int, due_ns: int, step_ns: int) -> LaneWait:
        brought = wait(lanes, wake_fd=wake_fd, until_ns=until_ns, due_ns=due_ns, step_ns=step_ns)
        action()
        return brought

    world.sampler.wait_on_lanes = waited  # type: ignore[method-assign]


def test_what_rose_in_a_wait_is_told_though_the_turn_fails_then(make: Make) -> None:
    world = quiet_for_a_while(make)
    world.sampler.totals[PODS_LANE] = 50_000
    after_wait(world, world.loop.renew_names)
    world.names.failure = RuntimeError("broken")
    with pytest.raises(RuntimeError, match="broken"):
        world.loop.turn()
    assert world.heard.contentions == [(PODS_LANE,)]
    assert len(world.sweeps_at()) == 4


def test_memory_that_was_waited_for_is_told_though_the_next_reading_is_due_at_once(make: Make) -> None:
    world = quiet_for_a_while(make)
    world.sampler.totals[MEMORY_LANE] = 25_000
    world.heard.looks.clear()
    after_wait(world, lambda: world.clock.advance(0.125))  # others had the CPU
    world.loop.turn()
    assert world.heard.looks == [True, False]


def test_contention_that_shows_when_a_sweep_is_due_is_told_before_that_sweep(make: Make) -> None:
    world = quiet_for_a_while(make)
    world.pass_seconds(0.65)  # the next reading is that of the sweep at 3
    told: list[int] = []
    world.heard.contention = lambda lanes: told.append(len(world.sampler.sweeps))  # type: ignore[method-assign]
    world.sampler.totals[PODS_LANE] = 50_000
    world.pass_seconds(0.1)
    assert told == [3]
    assert world.sweeps_at() == [0.0, 1.0, 2.0, 3.0]


def test_what_appears_ends_a_wait_on_quiet_lanes(make: Make) -> None:
    world = quiet_for_a_while(make)
    world.make(TWO)
    world.loop.turn()
    assert world.watched() == {ONE, TWO}
    assert world.clock.seconds == 1002.3


@pytest.mark.parametrize("news", ["young", "memory"])
def test_lanes_are_read_one_by_one_while_somebody_is_looked_at(make: Make, news: str) -> None:
    world = make(policy=FAST)
    world.start(ONE)
    world.pass_seconds(1)
    if news == "young":
        world.make(TWO)
        world.files.write(TWO, "memory.peak", "4096\n")
        world.loop.turn()
        assert world.ends.has_young
    else:
        world.heard.is_memory_quiet = False
    waits = world.sampler.waits
    world.heard.looks.clear()
    world.pass_seconds(2)
    assert world.sampler.waits == waits
    assert len(world.heard.looks) in (16, 17)


def test_memory_that_pods_wait_for_is_told_with_each_reading_and_starts_no_sweep(make: Make) -> None:
    world = make(policy=FAST)
    world.sampler.totals[MEMORY_LANE] = 10**9  # of long ago
    world.start(ONE)
    world.pass_seconds(2.25)
    assert set(world.heard.looks) == {False}
    # 25 ms of 125: the threshold is a tenth.
    world.sampler.totals[MEMORY_LANE] = 10**9 + 25_000
    world.heard.looks.clear()
    world.pass_seconds(0.125)
    assert world.heard.looks == [True]
    world.pass_seconds(0.125)
    assert world.heard.looks == [True, False]
    assert world.heard.contentions == []
    assert world.sweeps_at() == [0.0, 1.0, 2.0]


def test_who_was_held_back_at_memory_high_is_told_by_the_next_reading_of_its_events(make: Make) -> None:
    world = make()
    world.make(ONE)
    world.files.write(ONE, "memory.events", "low 0\nhigh 2\nmax 0\noom 0\noom_kill 0\n")
    world.start()
    world.pass_seconds(1)
    world.files.write(ONE, "memory.events", "low 0\nhigh 9\nmax 0\noom 0\noom_kill 0\n")
    world.pass_seconds(10)
    assert world.heard.held_back == [f"/{ONE}"]
    assert world.heard.kills == []


def test_a_lane_number_given_to_another_file_begins_with_a_baseline(make: Make) -> None:
    world = make(policy=FAST)
    world.sampler.totals = {PODS_LANE: 0}
    world.start(ONE)
    world.pass_seconds(2)
    world.sampler.totals = {PODS_LANE: None, NODE_LANE: 10**9}
    world.pass_seconds(31)
    assert world.sampler.lanes() == {NODE_LANE}
    assert world.heard.contentions == []


# -- faults and the end ------------------------------------------------------------------------------------------------


def run_in_thread(world: World) -> threading.Thread:
    thread = threading.Thread(target=world.loop.turns.run, name="sampling under test")
    thread.start()
    return thread


def end(world: World, thread: threading.Thread) -> None:
    world.loop.stop()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def test_a_fault_in_a_turn_is_told_does_not_spin_and_does_not_end_the_loop(make: Make) -> None:
    world = make(real_time=True)
    world.start(ONE)
    world.sampler.sweep_error = RuntimeError("broken")
    thread = run_in_thread(world)
    try:
        with world.heard.news:
            assert world.heard.news.wait_for(lambda: len(world.heard.failures) >= 3, PATIENCE_SECONDS)
        pauses = [later - former for former, later in zip(world.heard.failures, world.heard.failures[1:], strict=False)]
        assert min(pauses) >= 0.09 * NS  # a tenth of a second between two tries
        world.sampler.sweep_error = None
        with world.heard.news:
            assert world.heard.news.wait_for(lambda: world.heard.lateness_seconds, PATIENCE_SECONDS)
    finally:
        end(world, thread)


def test_a_stop_from_another_thread_wakes_a_loop_that_waits(make: Make) -> None:
    world = make(real_time=True, policy=replace(POLICY, interval_seconds=3600.0, relist_seconds=3600.0))
    world.start(ONE)
    thread = run_in_thread(world)
    with world.heard.news:
        assert world.heard.news.wait_for(lambda: world.heard.lateness_seconds, PATIENCE_SECONDS)
    end(world, thread)  # else it would wait for an hour


def test_news_of_names_wakes_a_loop_that_waits(make: Make) -> None:
    world = make(real_time=True, policy=replace(POLICY, interval_seconds=3600.0, relist_seconds=3600.0))
    world.start(ONE)
    named = threading.Event()
    put = world.units.put
    world.units.put = lambda unit: (put(unit), named.set())  # type: ignore[method-assign,assignment,func-returns-value]
    thread = run_in_thread(world)
    with world.heard.news:
        assert world.heard.news.wait_for(lambda: world.heard.lateness_seconds, PATIENCE_SECONDS)
    world.names.pod, world.names.has_news = "web", True
    world.loop.renew_names()
    assert named.wait(PATIENCE_SECONDS)  # else it would wait for an hour
    end(world, thread)
    unit = world.units.get("/" + ONE)
    assert unit is not None
    assert unit.identity.pod == "web"


def test_stop_and_close_may_come_twice_and_in_any_order(make: Make) -> None:
    world = make()
    world.start(ONE)
    world.loop.stop()
    world.loop.close()
    world.loop.stop()
    world.loop.close()
    assert world.sampler.is_closed


def test_a_wake_that_is_under_way_when_the_loop_is_closed_writes_into_no_other_file(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a watch of pods that an agent's end does not wait for: the number may be that of a state file by then."""
    world = make()
    world.start(ONE)
    closing = threading.Thread(target=world.loop.close)
    is_pipe: list[bool] = []

    def write(descriptor: int, content: bytes) -> int:
        closing.start()
        closing.join(0.2)  # it waits for the wake; one that does not has closed the pipe by then
        with contextlib.suppress(OSError):
            is_pipe.append(stat.S_ISFIFO(os.fstat(descriptor).st_mode))
        return len(content)

    with monkeypatch.context() as slow:
        slow.setattr(os, "write", write)
        world.loop.renew_names()
    closing.join(PATIENCE_SECONDS)
    assert is_pipe == [True]
    assert world.sampler.is_closed
    world.loop.renew_names()  # of a closed one it is nothing


def test_a_loop_that_never_started_can_be_closed(make: Make) -> None:
    make().loop.close()


# -- the heartbeat -----------------------------------------------------------------------------------------------------


def result(at_seconds: float, took_seconds: float = 0.002) -> SweepResult:
    return SweepResult(
        started_ns=round(at_seconds * NS),
        finished_ns=round((at_seconds + took_seconds) * NS),
        sampled=1,
        failed=0,
        memory_rows=0,
        gone=(),
    )


def test_heartbeat_before_the_first_sweep_knows_nothing() -> None:
    beat = SweepHeartbeat(1.0, slow_interval_seconds=10.0, sampler_name="native")
    assert (beat.sweeps, beat.lateness_p99_seconds(), beat.last_sweep_seconds, beat.last_sweep_monotonic_ns) == (
        0,
        None,
        None,
        None,
    )


def test_heartbeat_gives_the_lateness_that_99_of_100_keep_below() -> None:
    beat = SweepHeartbeat(1.0, slow_interval_seconds=10.0, sampler_name="native")
    for number in range(200):
        beat.beat(result(number), number / 1000, overran=number % 50 == 0, interval_seconds=1.0)
    assert beat.lateness_p99_seconds() == 0.198  # of 0..199 ms, 198 values lie below
    assert (beat.sweeps, beat.overruns) == (200, 4)
    assert beat.last_sweep_seconds == pytest.approx(0.002)


def test_heartbeat_remembers_the_widest_interval_as_long_as_its_rows_are_in_the_window() -> None:
    beat = SweepHeartbeat(1.0, slow_interval_seconds=10.0, sampler_name="native")
    beat.beat(result(0), 0, overran=True, interval_seconds=8.0)
    for number in range(600):
        beat.beat(result(number), 0, overran=False, interval_seconds=1.0)
    assert beat.widest_interval_seconds == 8.0
    beat.beat(result(601), 0, overran=False, interval_seconds=1.0)
    assert beat.widest_interval_seconds == 1.0
