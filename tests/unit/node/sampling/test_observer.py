"""Snapshots from the rings, now and a while ago; minute roll-ups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.window.cpu import CpuSums
from agent.core.window.memory import MemorySums
from agent.core.window.minute_row import MinuteSums
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import Status
from agent.core.window.snapshot import Gap, Missing
from agent.node.sampling.heartbeat import SweepHeartbeat
from agent.node.sampling.observer import BATCH, MINUTE_NS, RINGS_BACKFILL_MINUTES, Observer
from agent.node.sampling.row_source import SumSource
from agent.node.sampling.unit_table import UnitTable, WatchedUnit
from agent.sensing.machine import Machine
from agent.sensing.ring_file import RingFile
from agent.sensing.ring_view import RingView
from agent.sensing.sampler_contract import SweepResult
from agent.sensing.state_file import RingGeometry
from agent.sensing.window_reader import open_window_reader
from tests.window_rows import NS, memory, minute, sample, steady

MIB = 1024 * 1024
PATH = "kubepods/burstable/podx/y"


class World:
    """An observer over rings that a test fills, 100,000 s after boot."""

    def __init__(
        self,
        geometry: RingGeometry | None = None,
        interval_seconds: float = 1.0,
        *,
        resources: UnitResources | None = None,
        leaves_out_cold_file: bool = False,
        sums: SumSource | Literal["C"] | None = "C",
    ) -> None:
        self.now_seconds = 100_000.0
        self.now_ns = 100_000 * NS
        self.rings = RingFile.open(None, geometry or RingGeometry(max_slots=2), boot_id="boot")
        self.units = UnitTable()
        self.heartbeat = SweepHeartbeat(interval_seconds, slow_interval_seconds=10.0, sampler_name="native")
        self.slot = self.rings.attach(PATH, 7, now_monotonic_ns=1)
        self.unit = WatchedUnit(
            slot=self.slot,
            inode=7,
            identity=UnitIdentity(cgroup_path="/" + PATH, kind=UnitKind.CONTAINER),
            resources=resources or UnitResources(cpu_request_millicores=250),
            cpu_max_millicores=500,
            memory_max_bytes=64 * MIB,
        )
        self.units.put(self.unit)
        self.observer = Observer(
            rings=self.rings,
            units=self.units,
            machine=Machine("worker-7"),
            heartbeat=self.heartbeat,
            windows=WindowPolicy(capacity_millicores=4000, leaves_out_cold_file=leaves_out_cold_file),
            source="agent",
            clock_ns=lambda: self.now_ns,
            sums=open_window_reader(self.rings) if sums == "C" else sums,
        )

    def readings(self, ages: range, millicores: float, **more: float) -> None:
        """Write one reading for each of these ages in seconds, oldest first."""
        at = [self.now_seconds - age for age in ages]
        for row in steady(at, millicores, **more):  # type: ignore[arg-type]
            self.rings.append_raw(self.slot, row)

    def memory_rows(self, ages: range, working_set: int, *, active: int = 0) -> None:
        for age in ages:
            row = memory(self.now_seconds - age, working_set + MIB, inactive=MIB, set_peak=working_set, active=active)
            self.rings.append_memory(self.slot, row[0])

    def beat(self, at_seconds: float, interval_seconds: float = 1.0) -> None:
        result = SweepResult(
            started_ns=round((at_seconds - 0.002) * NS),
            finished_ns=round(at_seconds * NS),
            sampled=1,
            failed=0,
            memory_rows=0,
            gone=(),
        )
        self.heartbeat.beat(result, 0.0, overran=False, interval_seconds=interval_seconds)


@pytest.fixture(params=["C", None], ids=["sums of C", "sums of core"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    new_world = World(sums=request.param)
    yield new_world
    new_world.rings.close()


def test_snapshot_now_holds_windows_identity_limits_and_the_node(world: World) -> None:
    world.readings(range(700, -1, -1), 250.0, waiting=0.1)
    world.memory_rows(range(600, -1, -10), 100 * MIB)
    world.beat(world.now_seconds - 1)

    snapshot = world.observer.snapshot(notes=["all is well"])

    assert (snapshot.source, snapshot.at_age_seconds, snapshot.notes) == ("agent", 0.0, ("all is well",))
    assert snapshot.node.name == "worker-7"
    assert (snapshot.sampler.name, snapshot.sampler.rate_hz, snapshot.sampler.units) == ("native", 1.0, 1)
    (unit,) = snapshot.units
    assert unit.identity == world.unit.identity
    assert unit.resources.cpu_request_millicores == 250
    assert (unit.cpu_max_millicores, unit.memory_max_bytes) == (500, 64 * MIB)
    assert unit.cpu.usage_p75_millicores == pytest.approx(250, rel=1e-3)
    # 250 millicores used while waiting for a tenth of the time: 250 x 1.1.
    assert unit.cpu.adjusted_p75_millicores == pytest.approx(275, rel=1e-3)
    assert unit.cpu.coverage_ratio == pytest.approx(1.0, abs=0.01)
    assert unit.memory.working_set_bytes == 100 * MIB
    assert unit.sample_age_seconds == 0.0


def test_snapshot_a_while_ago_comes_from_raw_rows_and_ends_there(world: World) -> None:
    # A load of 1000 until 300 s ago, of 100 since.
    world.readings(range(690, 299, -1), 1000.0)
    before = world.rings.newest(world.slot)
    assert before is not None
    world.readings(range(299, -1, -1), 100.0, usage0=int(before["usage_usec"]) + 100_000)

    then = world.observer.snapshot(310.0).units[0]

    assert then.cpu.last_usage_millicores == pytest.approx(1000, rel=1e-3)
    assert then.cpu.usage_p75_millicores == pytest.approx(1000, rel=1e-3)
    assert then.sample_age_seconds == 0.0
    now = world.observer.snapshot().units[0]
    assert now.cpu.last_usage_millicores == pytest.approx(100, rel=1e-3)


def test_snapshot_hours_ago_comes_from_minute_rows(world: World) -> None:
    then = world.now_ns // MINUTE_NS - 180  # three hours ago
    for number in range(then - 15, then + 5):
        row = minute(number, 400.0, peak=600.0, burst=700.0, set_peak_kib=50 * 1024)
        world.rings.append_minute(world.slot, row)
    world.readings(range(300, -1, -1), 100.0)
    world.memory_rows(range(300, -1, -10), MIB)

    unit = world.observer.snapshot(3 * 3600.0).units[0]

    assert unit.cpu.last_usage_millicores == 400.0
    assert unit.cpu.adjusted_peak_millicores == 600.0
    assert unit.cpu.usage_p75_millicores is None
    assert unit.cpu.missing["usage_p75_millicores"] is Missing.OUT_OF_RING
    assert unit.memory.working_set_peak_bytes == 50 * MIB
    assert unit.sample_age_seconds is None


def test_snapshot_before_everything_known_is_out_of_ring(world: World) -> None:
    world.readings(range(60, -1, -1), 100.0)
    world.memory_rows(range(60, -1, -10), MIB)
    unit = world.observer.snapshot(3600.0).units[0]
    assert unit.cpu.last_usage_millicores is None
    assert set(unit.cpu.missing.values()) == {Missing.OUT_OF_RING}
    assert set(unit.memory.missing.values()) == {Missing.OUT_OF_RING}


def test_snapshot_from_before_boot_is_out_of_ring_and_no_fault(world: World) -> None:
    world.readings(range(60, -1, -1), 100.0)
    world.rings.append_minute(world.slot, minute(int(world.now_ns // MINUTE_NS) - 1, 100.0))
    unit = world.observer.snapshot(world.now_seconds + 3600.0).units[0]
    assert unit.cpu.last_usage_millicores is None
    assert unit.memory.working_set_bytes is None


def test_snapshot_of_a_unit_without_a_row_says_too_few_samples(world: World) -> None:
    unit = world.observer.snapshot().units[0]
    assert unit.sample_age_seconds is None
    assert unit.cpu.missing["last_usage_millicores"] is Missing.TOO_FEW_SAMPLES


def test_age_of_a_sample_is_that_of_the_newest_good_one(world: World) -> None:
    world.readings(range(60, 29, -1), 100.0)
    for age in range(29, -1, -1):
        world.rings.append_raw(world.slot, sample(world.now_seconds - age, status=Status.IO)[0])
    (unit,) = world.observer.statuses([world.unit])
    assert unit is not None
    assert unit.sample_age_seconds == pytest.approx(30.0, abs=0.01)


def test_a_unit_whose_slot_went_to_another_cgroup_is_not_told_with_its_figures(world: World) -> None:
    world.readings(range(60, 29, -1), 100.0)
    world.rings.release(world.slot)
    # Vanished, but its slot is nobody else's: these are its own readings still.
    assert len(world.observer.snapshot().units) == 1
    assert world.rings.attach("kubepods/newcomer", 8, now_monotonic_ns=1) == world.slot
    world.readings(range(29, -1, -1), 2000.0)
    assert world.observer.statuses([world.unit]) == []
    assert world.observer.snapshot().units == ()


def test_a_view_that_the_sampler_overtook_is_read_again() -> None:
    world = World(RingGeometry(max_slots=2, raw_length=64))
    world.readings(range(200, 99, -1), 100.0)
    taken: list[RingView] = []
    real_raw = world.rings.raw

    def raw(slot: int, rows: int | None = None) -> RingView:
        view = real_raw(slot, rows)
        taken.append(view)
        if len(taken) == 1:
            newest = world.rings.newest(slot)
            assert newest is not None
            world.readings(range(99, -1, -1), 100.0, usage0=int(newest["usage_usec"]) + 100_000)
        return view

    world.rings.raw = raw  # type: ignore[method-assign]
    window = world.observer.cpu(world.slot, world.observer.policy(), world.now_ns)
    # Each second's use is the same before and after, and torn rows would show as a giant or negative rate.
    assert window.last_usage_millicores == pytest.approx(100, rel=1e-3)
    assert window.usage_peak_millicores == pytest.approx(100, rel=1e-2)
    assert not taken[0].intact()
    assert len(taken) >= 2
    world.rings.close()


# -- the policy --------------------------------------------------------------------------------------------------------


def test_policy_a_slowed_sampler_widens_what_counts_as_one_step(world: World) -> None:
    assert world.observer.policy().max_step_seconds == 5.0
    world.beat(1.0, interval_seconds=8.0)
    assert world.observer.policy().max_step_seconds == 24.0  # three sweeps at 8 s


def test_a_rate_that_came_back_does_not_turn_the_rows_from_before_into_gaps(world: World) -> None:
    # 300 s at one reading each 8 s, then 300 s at one a second.
    at = [world.now_seconds - age for age in (*range(600, 300, -8), *range(300, -1, -1))]
    for row in steady(at, 200.0):
        world.rings.append_raw(world.slot, row)
    world.beat(world.now_seconds - 300, interval_seconds=8.0)
    world.beat(world.now_seconds, interval_seconds=1.0)
    unit = world.observer.snapshot().units[0]
    assert unit.cpu.gaps == {}
    assert unit.cpu.usage_p75_millicores == pytest.approx(200, rel=1e-2)


def test_a_rate_just_halved_does_not_shorten_the_window(world: World) -> None:
    world.readings(range(690, -1, -1), 200.0)
    world.beat(world.now_seconds, interval_seconds=8.0)
    unit = world.observer.snapshot().units[0]
    assert unit.cpu.coverage_ratio == pytest.approx(1.0, abs=0.01)


# -- minutes -----------------------------------------------------------------------------------------------------------


def minutes_of(world: World) -> list[int]:
    return [int(number) for number in world.rings.minutes(world.slot).joined()["monotonic_minute"]]


def fill_minutes(world: World, first: int, last: int) -> None:
    """One reading a second from the beginning of one minute to the end of another."""
    for row in steady(range(first * 60, (last + 1) * 60 + 1), 300.0):
        world.rings.append_raw(world.slot, row)


def test_minutes_are_rolled_up_once_each(world: World) -> None:
    fill_minutes(world, 100, 101)
    assert world.observer.roll_minutes(now_ns=102 * MINUTE_NS + 5 * NS).rows == 2
    assert minutes_of(world) == [100, 101]
    row = world.rings.minutes(world.slot).joined()[-1]
    assert row["cpu_mean_millicores"] == pytest.approx(300, rel=1e-3)
    assert row["coverage_255"] == 255
    assert world.observer.roll_minutes(now_ns=102 * MINUTE_NS + 50 * NS).rows == 0
    assert minutes_of(world) == [100, 101]


def test_a_minute_that_is_not_whole_says_why(world: World) -> None:
    at = [second for second in range(100 * 60, 102 * 60 + 1) if not 6070 < second < 6080]
    for row in steady(at, 300.0):
        world.rings.append_raw(world.slot, row)
    assert world.observer.roll_minutes(now_ns=102 * MINUTE_NS + 5 * NS).gaps == {Gap.TOO_FAR_APART: 1}
    assert world.observer.roll_minutes(now_ns=103 * MINUTE_NS + 5 * NS).gaps == {}


@pytest.mark.parametrize(
    ("leaves_out", "limit_mib", "peak_mib"),
    # A container whose limit is its request asks for all of its memory.
    [(False, None, 900), (True, None, 600), (True, 2000, 600), (True, 1000, 900)],
)
def test_minutes_hold_the_memory_that_is_asked_for_and_snapshots_what_was_measured(
    leaves_out: bool, limit_mib: int | None, peak_mib: int
) -> None:
    limit_bytes = None if limit_mib is None else limit_mib * MIB
    resources = UnitResources(memory_request_bytes=1000 * MIB, memory_limit_bytes=limit_bytes)
    world = World(resources=resources, leaves_out_cold_file=leaves_out)
    world.readings(range(70, -1, -1), 250.0)
    world.memory_rows(range(1900, -1, -10), 900 * MIB, active=300 * MIB)

    assert world.observer.roll_minutes(now_ns=world.now_ns).rows == 1
    peaks_kib = world.rings.minutes(world.slot).joined()["working_set_peak_kib"]
    assert peaks_kib.tolist() == [peak_mib * 1024]
    (status,) = world.observer.snapshot().units
    cold = status.memory.cold_file
    assert cold is not None
    assert (cold.active_bytes, cold.total_bytes, cold.is_left_out) == (300 * MIB, 301 * MIB, peak_mib == 600)
    assert status.memory.working_set_bytes == 900 * MIB
    (past,) = world.observer.snapshot(at_age_seconds=20.0).units
    assert past.memory.cold_file == cold
    world.rings.close()


def test_minutes_missed_by_a_restart_are_made_up_for_from_the_ring(world: World) -> None:
    fill_minutes(world, 100, 108)
    world.rings.append_minute(world.slot, minute(102, 300.0))
    world.observer.roll_minutes(now_ns=109 * MINUTE_NS + 5 * NS)
    assert minutes_of(world) == [102, *range(103, 109)]


def test_minutes_older_than_the_ring_are_not_made_up(world: World) -> None:
    fill_minutes(world, 100, 110)
    world.rings.append_minute(world.slot, minute(10, 300.0))
    world.observer.roll_minutes(now_ns=111 * MINUTE_NS + 5 * NS)
    assert minutes_of(world) == [10, *range(111 - RINGS_BACKFILL_MINUTES, 111)]


def test_minutes_of_a_machine_just_booted_begin_with_the_first(world: World) -> None:
    fill_minutes(world, 0, 1)
    assert world.observer.roll_minutes(now_ns=2 * MINUTE_NS + 5 * NS).rows == 2
    assert minutes_of(world) == [0, 1]


def test_minutes_without_a_reading_leave_no_row(world: World) -> None:
    fill_minutes(world, 100, 100)
    world.observer.roll_minutes(now_ns=105 * MINUTE_NS + 5 * NS)
    assert minutes_of(world) == [100]


# -- ready -------------------------------------------------------------------------------------------------------------


def test_has_full_rate_window_only_after_a_whole_one(world: World) -> None:
    assert not world.observer.has_full_rate_window()
    world.beat(100.0)
    assert not world.observer.has_full_rate_window()
    world.beat(159.0)
    assert not world.observer.has_full_rate_window()
    world.beat(160.0)
    assert world.observer.has_full_rate_window()


def test_sampler_status_before_the_first_sweep_knows_no_times(world: World) -> None:
    status = world.observer.snapshot().sampler
    assert (status.lateness_p99_seconds, status.sweep_seconds, status.sweeps) == (None, None, 0)
    assert np.isclose(status.rate_hz, 1.0)


def test_memory_at_kill_is_the_limit_that_was_hit_or_what_was_read_last() -> None:
    world = World()
    for age, amount in ((3, 10), (2, 40), (1, 20)):
        row = sample(world.now_seconds - age)
        row["memory_current_bytes"] = amount * MIB
        world.rings.append_raw(world.slot, row)
    # Between two readings a container may well grow to its limit: the kernel knows that it hit it.
    assert world.observer.memory_at_kill(world.unit, limit_bytes=64 * MIB) == 64 * MIB
    # Without: the largest of the last readings, as the newest may come after the kill.
    assert world.observer.memory_at_kill(world.unit, limit_bytes=None) == 40 * MIB


def test_memory_at_kill_of_a_slot_that_went_to_another_is_not_known() -> None:
    world = World()
    other = replace(world.unit, inode=8, memory_max_bytes=None)
    assert world.observer.memory_at_kill(other, limit_bytes=None) is None
    assert World().observer.memory_at_kill(world.unit, limit_bytes=None) is None


class Overtaken:
    """Sums that the sampler was always faster than."""

    def cpu(self, slots: Sequence[int], rows: int, policy: WindowPolicy, *, end_ns: int) -> list[CpuSums | None]:
        return [None] * len(slots)

    def memory(self, slots: Sequence[int], rows: int, policy: WindowPolicy, *, end_ns: int) -> list[MemorySums | None]:
        return [None] * len(slots)

    def minute(
        self, slots: Sequence[int], raw_rows: int, memory_rows: int, policy: WindowPolicy, *, monotonic_minute: int
    ) -> list[MinuteSums | None]:
        return [None] * len(slots)


def test_slots_that_were_overtaken_are_summed_up_by_core() -> None:
    statuses, minutes = [], []
    for sums in (None, Overtaken()):
        world = World(sums=sums)
        world.readings(range(200, -1, -1), 250.0, waiting=0.1)
        world.memory_rows(range(190, -1, -10), 100 * MIB)
        statuses.append(world.observer.statuses([world.unit]))
        world.observer.roll_minutes(now_ns=world.now_ns)
        minutes.append(world.rings.minutes(world.slot).joined().tolist())
    assert statuses[0] == statuses[1]
    assert minutes[0] == minutes[1] != []


def test_more_units_than_a_batch_are_all_told_of_in_their_order() -> None:
    world = World(RingGeometry(max_slots=2 * BATCH + 2))
    for number in range(2 * BATCH):
        path = f"kubepods/burstable/pod{number}/y"
        slot = world.rings.attach(path, 10 + number, now_monotonic_ns=1)
        for age in (60, 40, 20, 0):
            world.rings.append_raw(slot, sample(world.now_seconds - age, 1000 * number * (60 - age))[0])
        identity = UnitIdentity(cgroup_path="/" + path, kind=UnitKind.CONTAINER)
        world.units.put(replace(world.unit, slot=slot, inode=10 + number, identity=identity))
    asked = list(world.units.all())
    wide = replace(world.observer.policy(), max_step_seconds=30.0)
    world.observer._windows = wide
    statuses = world.observer.statuses(asked)
    assert [status.identity for status in statuses] == [unit.identity for unit in asked]
    assert [status.cpu.last_usage_millicores for status in statuses[1:]] == [float(n) for n in range(2 * BATCH)]
