"""Whose memory.events moved, by the rows of the rings."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest

from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.window.ring_rows import MEMORY_ROW, Has, Status
from agent.node.sampling.moved_events import MovedEvents
from agent.node.sampling.pod_cgroups import PodCgroups
from agent.node.sampling.pods_file import NoPods
from agent.node.sampling.unit_table import UnitTable, WatchedUnit
from agent.node.sampling.watched_cgroups import WatchedCgroups
from agent.sensing.discovery import Discovery
from agent.sensing.memory_events import MemoryEvents, OomKill
from agent.sensing.reference_sampler import ReferenceSampler
from agent.sensing.ring_file import RingFile
from agent.sensing.state_file import RingGeometry
from tests.cgroup_files import CgroupFiles, container_path


@pytest.fixture
def rings() -> Iterator[RingFile]:
    with RingFile.open(None, RingGeometry(max_slots=4, memory_length=4), boot_id="boot") as opened:
        yield opened


def watched(rings: RingFile, path: str, inode: int) -> WatchedUnit:
    return WatchedUnit(
        slot=rings.attach(path, inode, now_monotonic_ns=1),
        inode=inode,
        identity=UnitIdentity(cgroup_path=path, kind=UnitKind.CONTAINER),
        resources=UnitResources(),
    )


def tell(
    rings: RingFile,
    unit: WatchedUnit,
    *,
    kills: int = 0,
    high: int = 0,
    has: Has = Has.MEMORY_EVENTS,
    status: Status = Status.OK,
) -> None:
    row = np.zeros(1, MEMORY_ROW)
    row["oom_kill"], row["high_events"], row["has"], row["status"] = kills, high, has, status
    rings.append_memory(unit.slot, row)


def test_moved_are_those_whose_counts_differ_from_the_row_before(rings: RingFile) -> None:
    one, two, three = (watched(rings, f"/{number}", number) for number in (1, 2, 3))
    moved = MovedEvents(rings)
    for unit in (one, two, three):
        tell(rings, unit, kills=5, high=7)
    assert moved.paths((one, two, three)) == ["/1", "/2", "/3"]  # new: nobody knows what was before
    for unit, kills, high in ((one, 5, 7), (two, 6, 7), (three, 5, 8)):
        tell(rings, unit, kills=kills, high=high)
    assert moved.paths((one, two, three)) == ["/2", "/3"]
    assert moved.paths((one, two, three)) == []


def test_moved_are_those_of_which_no_row_tells(rings: RingFile) -> None:
    bare, unreadable, gone = (watched(rings, f"/{number}", number) for number in (1, 2, 3))
    moved = MovedEvents(rings)
    tell(rings, unreadable, has=Has(0))
    tell(rings, gone, status=Status.IO)
    units = (bare, unreadable, gone)
    assert moved.paths(units) == moved.paths(units) == ["/1", "/2", "/3"]


def test_moved_is_what_was_not_told_for_a_while(rings: RingFile) -> None:
    unit = watched(rings, "/1", 1)
    moved = MovedEvents(rings)
    tell(rings, unit)
    assert moved.paths((unit,)) == ["/1"]
    tell(rings, unit, has=Has(0))
    assert moved.paths((unit,)) == ["/1"]
    tell(rings, unit)
    assert moved.paths((unit,)) == ["/1"]
    assert moved.paths((unit,)) == []


def test_another_cgroup_in_a_slot_is_new(rings: RingFile) -> None:
    moved = MovedEvents(rings)
    for inode in (1, 2):
        unit = watched(rings, f"/{inode}", inode)
        tell(rings, unit, kills=3)
        assert moved.paths((unit,)) == [f"/{inode}"]
        assert moved.paths((unit,)) == []
        rings.release(unit.slot)
    assert moved.paths(()) == []


@pytest.mark.parametrize("seed", range(8))
def test_no_count_that_rose_is_missed_and_none_that_stands_is_told(rings: RingFile, seed: int) -> None:
    choose = random.Random(seed)
    units = tuple(watched(rings, f"/{number}", number) for number in (1, 2, 3, 4))
    counts = {unit.slot: [choose.randrange(3), 2**32 - choose.randrange(1, 3)] for unit in units}
    moved = MovedEvents(rings)
    paths: set[str] = set()
    for _ in range(60):
        rose = set()
        for unit in units:
            for which in (0, 1):
                if choose.random() < 0.2:
                    counts[unit.slot][which] = (counts[unit.slot][which] + choose.randrange(1, 3)) % 2**32
                    rose.add(unit.identity.cgroup_path)
            tell(rings, unit, kills=counts[unit.slot][0], high=counts[unit.slot][1])
        now = set(moved.paths(units))
        assert now == (rose if paths else {f"/{number}" for number in (1, 2, 3, 4)})
        paths |= now


@pytest.mark.parametrize(
    ("pod_slots", "is_asked_again"),
    [
        (None, True),  # no pod is sampled: no row tells of it
        (2, True),  # the two levels above the pod take all slots
        (3, False),
    ],
)
def test_a_slow_tick_reads_the_events_of_those_whose_rows_moved_or_that_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pod_slots: int | None, is_asked_again: bool
) -> None:
    files = CgroupFiles(tmp_path)
    paths = [container_path(number) for number in (1, 2)]
    for path in paths:
        files.make(path)
    pod = "/" + paths[0].rpartition("/")[0]
    with ExitStack() as stack:
        rings = stack.enter_context(RingFile.open(None, RingGeometry(max_slots=4), boot_id="boot"))
        sampler = stack.enter_context(ReferenceSampler(tmp_path, rings, fd_budget=100, max_lanes=0))
        discovery = stack.enter_context(closing(Discovery(tmp_path)))
        units, pods = UnitTable(), None
        if pod_slots is not None:
            pod_rings = stack.enter_context(RingFile.open(None, RingGeometry(max_slots=pod_slots), boot_id="boot"))
            pods = PodCgroups(
                mount=tmp_path,
                sampler=stack.enter_context(ReferenceSampler(tmp_path, pod_rings, fd_budget=100, max_lanes=0)),
                rings=pod_rings,
                interval_seconds=10.0,
                containers=units,
                container_rings=rings,
            )
        cgroups = WatchedCgroups(
            sampler=sampler,
            discovery=discovery,
            units=units,
            names=NoPods(),
            on_refused=lambda path, error: pytest.fail(f"{path}: {error}"),
            pods=pods,
        )
        assert cgroups.poll_events() == []  # nothing to read it from
        events = cgroups.events = stack.enter_context(closing(MemoryEvents(tmp_path)))
        cgroups.apply(discovery.relist("start"))
        polled: list[set[str]] = []
        poll = events.poll

        def note(moved: Iterable[str]) -> list[OomKill]:
            asked = list(moved)
            polled.append(set(asked))
            return poll(asked)

        monkeypatch.setattr(events, "poll", note)

        def tick() -> list[tuple[str, int]]:
            sampler.sweep(slow=True, retry_absent=False)
            cgroups.sweep_pods(retry_absent=False)
            return [(kill.path, kill.kills) for kill in cgroups.poll_events()]

        files.write(paths[0], "memory.events", "low 0\nhigh 0\nmax 1\noom 1\noom_kill 1\n")
        assert tick() == [(f"/{paths[0]}", 1)]  # before its first row, and told all the same
        assert tick() == []
        files.write(paths[1], "memory.events", "low 0\nhigh 4\nmax 1\noom 1\noom_kill 2\n")
        assert tick() == [(f"/{paths[1]}", 2)]
        assert events.take_held() == (f"/{paths[1]}",)
        assert {f"/{path}" for path in paths} | {pod} <= polled[0]
        again = {pod} if is_asked_again else set()
        assert polled[1:] == [again, again | {f"/{paths[1]}"}]
