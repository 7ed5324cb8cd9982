"""What every sampler promises, asked of all three: C, plain Python and the fake."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.core.window.ring_rows import Status
from agent.core.window.sweep_pace import QuietBand
from agent.sensing.reference_sampler import ReferenceSampler
from agent.sensing.ring_file import RingFile
from agent.sensing.sampler import open_sampler
from agent.sensing.sampler_contract import CgroupGone, QuietLane, Sampler, SamplerError
from agent.sensing.state_file import RingGeometry
from tests.cgroup_files import CgroupFiles, container_path
from tests.fakes import FakeClock, FakeSampler

PATH = container_path(1)
LANE = "kubepods/cpu.pressure"


class World:
    """A sampler of one kind over a tree of plain files."""

    def __init__(self, root: Path, kind: str) -> None:
        self.files = CgroupFiles(root)
        self.inode = self.files.make(PATH)
        self.rings = RingFile.open(None, RingGeometry(max_slots=4), boot_id="boot")
        self.fake: FakeSampler | None = None
        makers: dict[str, Callable[[], Sampler]] = {
            "native": lambda: open_sampler(root, self.rings, fd_budget=100, max_lanes=4, force="native"),
            "reference": lambda: ReferenceSampler(root, self.rings, fd_budget=100, max_lanes=4),
            "fake": lambda: FakeSampler(root, self.rings, FakeClock()),
        }
        self.sampler = makers[kind]()
        if isinstance(self.sampler, FakeSampler):
            self.fake = self.sampler
        self.set_pressure(7)

    def set_pressure(self, usec: int) -> None:
        self.files.set_pressure_in(self.files.root / "kubepods", usec)
        if self.fake is not None:
            self.fake.totals[LANE] = usec

    def now_ns(self) -> int:
        return time.monotonic_ns() if self.fake is None else self.fake.clock()

    def attach(self) -> int:
        return self.rings.attach(PATH, self.inode, now_monotonic_ns=1)

    def sweep(self, *, slow: bool = False) -> tuple[int, int, tuple[int, ...]]:
        result = self.sampler.sweep(slow=slow, retry_absent=False)
        assert result.started_ns <= result.finished_ns
        return result.sampled, result.failed, tuple(result.gone)


@pytest.fixture(params=["native", "reference", "fake"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    new_world = World(tmp_path / "cgroup", request.param)
    yield new_world
    new_world.sampler.close()
    new_world.sampler.close()  # a second call is fine
    new_world.rings.close()


def test_a_sweep_writes_one_row_for_each_slot(world: World) -> None:
    slot = world.attach()
    world.sampler.add(slot, PATH, world.inode)
    assert world.sweep() == (1, 0, ())
    assert world.sweep() == (1, 0, ())
    assert len(world.rings.raw(slot)) == 2
    newest = world.rings.newest(slot)
    assert newest is not None
    assert newest["status"] == Status.OK
    assert newest["monotonic_ns"] > 0
    assert world.sampler.stats().slots == 1


def test_a_cgroup_that_is_not_there_or_another_one_is_gone(world: World) -> None:
    slot = world.attach()
    with pytest.raises(CgroupGone):
        world.sampler.add(slot, container_path(2), world.inode)
    with pytest.raises(CgroupGone):
        world.sampler.add(slot, PATH, world.inode + 1)
    assert world.sampler.stats().slots == 0


def test_a_slot_that_is_sampled_already_is_a_fault_of_the_caller(world: World) -> None:
    slot = world.attach()
    world.sampler.add(slot, PATH, world.inode)
    with pytest.raises(ValueError, match="slot"):
        world.sampler.add(slot, PATH, world.inode)


def test_a_removed_slot_is_left_alone_and_can_be_added_again(world: World) -> None:
    slot = world.attach()
    world.sampler.add(slot, PATH, world.inode)
    world.sampler.remove(slot)
    world.sampler.remove(slot)
    assert world.sweep() == (0, 0, ())
    assert len(world.rings.raw(slot)) == 0
    world.sampler.add(slot, PATH, world.inode)
    assert world.sweep() == (1, 0, ())


def test_a_lane_gives_its_total_until_it_is_removed(world: World) -> None:
    lane = world.sampler.add_lane(LANE)
    world.set_pressure(42)
    (reading,) = world.sampler.read_lanes()
    assert (reading.lane, reading.some_usec, reading.status) == (lane, 42, Status.OK)
    world.sampler.remove_lane(lane)
    assert world.sampler.read_lanes() == []


def quiet(world: World, lane: int, band: QuietBand) -> QuietLane:
    """A lane that had waited for no time, a minute ago."""
    world.set_pressure(7)
    return QuietLane(lane, world.now_ns() - 60 * 10**9, 7, band)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_quiet_lanes_are_read_on_their_grid_until_the_moment(world: World, pipe: tuple[int, int]) -> None:
    lane = quiet(world, world.sampler.add_lane(LANE), QuietBand(0.0, 0.2))
    begin_ns = world.now_ns()
    for until_ns in (begin_ns, begin_ns + 30_000_000):
        waited = world.sampler.wait_on_lanes(
            [lane], wake_fd=pipe[0], until_ns=until_ns, due_ns=begin_ns, step_ns=7_000_000
        )
        assert world.now_ns() >= until_ns
        assert list(waited.news) == []
        (newest,) = waited.quiet
        assert newest._replace(monotonic_ns=0) == lane._replace(monotonic_ns=0)
        assert newest.monotonic_ns == lane.monotonic_ns or begin_ns <= newest.monotonic_ns < until_ns
        assert (waited.due_ns - begin_ns) % 7_000_000 == 0
    if world.fake is not None:  # its clock does not run
        assert (newest.monotonic_ns, waited.due_ns) == (begin_ns + 28_000_000, begin_ns + 35_000_000)


@pytest.mark.parametrize("band", [QuietBand(0.0, 0.0), QuietBand(0.1, 1.0)])
def test_a_lane_that_is_not_quiet_ends_the_wait_with_a_reading_of_all(
    world: World, pipe: tuple[int, int], band: QuietBand
) -> None:
    number = world.sampler.add_lane(LANE)
    lane = quiet(world, number, band)
    now_ns = world.now_ns()
    waited = world.sampler.wait_on_lanes(
        [lane], wake_fd=pipe[0], until_ns=now_ns + 3600 * 10**9, due_ns=now_ns, step_ns=10**9
    )
    (reading,) = waited.news
    assert (reading.lane, reading.some_usec, reading.status) == (number, 7, Status.OK)
    assert reading.monotonic_ns >= now_ns
    assert list(waited.quiet) == [lane]
    assert waited.due_ns > now_ns


def test_a_descriptor_that_can_be_read_ends_the_wait_before_anything_is_read(
    world: World, pipe: tuple[int, int]
) -> None:
    lane = quiet(world, world.sampler.add_lane(LANE), QuietBand(0.0, 0.0))
    os.write(pipe[1], b"x")
    now_ns = world.now_ns()
    waited = world.sampler.wait_on_lanes(
        [lane], wake_fd=pipe[0], until_ns=now_ns + 3600 * 10**9, due_ns=now_ns, step_ns=10**9
    )
    assert (waited.due_ns, list(waited.quiet), list(waited.news)) == (now_ns, [lane], [])


@pytest.mark.parametrize("world", ["native", "reference"], indirect=True)  # waits of the fake take no time
def test_what_becomes_ready_in_an_epoll_within_an_epoll_ends_a_wait_that_has_begun(
    world: World, pipe: tuple[int, int]
) -> None:
    """As the loop waits: memory.events has an epoll of its own."""
    lane = quiet(world, world.sampler.add_lane(LANE), QuietBand(0.0, 0.2))
    with select.epoll() as inner, select.epoll() as outer:
        inner.register(pipe[0], select.EPOLLIN)
        outer.register(inner.fileno(), select.EPOLLIN)
        waker = threading.Timer(0.05, os.write, (pipe[1], b"x"))
        waker.start()
        now_ns = world.now_ns()
        waited = world.sampler.wait_on_lanes(
            [lane], wake_fd=outer.fileno(), until_ns=now_ns + 3600 * 10**9, due_ns=now_ns, step_ns=10_000_000
        )
        waker.join()
        assert outer.poll(0)
    assert list(waited.news) == []


@pytest.mark.parametrize(("lane", "step_ns"), [(3, 10**9), (0, 0)])
def test_there_is_no_waiting_on_a_lane_that_is_not_there_or_without_a_step(
    world: World, pipe: tuple[int, int], lane: int, step_ns: int
) -> None:
    world.sampler.add_lane(LANE)
    with pytest.raises(ValueError, match=f"{lane}"):
        world.sampler.wait_on_lanes(
            [quiet(world, lane, QuietBand(0.0, 0.2))], wake_fd=pipe[0], until_ns=1, due_ns=1, step_ns=step_ns
        )


def test_a_lane_that_cannot_be_opened_is_refused_by_name(world: World) -> None:
    with pytest.raises(SamplerError, match=r"nowhere/cpu\.pressure"):
        world.sampler.add_lane("nowhere/cpu.pressure")
