"""Both samplers on real cgroups: groups that vanish, return, lose their pressure files; and C against Python."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pytest

from agent.core.window.ring_rows import Has, Status
from agent.sensing.ring_file import RingFile
from agent.sensing.sampler import open_sampler
from agent.sensing.sampler_contract import CgroupGone, Sampler, SweepResult
from agent.sensing.state_file import RingGeometry
from tests.kernel.cgroups import CgroupTree
from tests.memory_rows import newest_memory

pytestmark = pytest.mark.kernel

Kind = Literal["native", "reference"]
KINDS: list[Kind] = ["native", "reference"]
PATIENCE_SECONDS = 60.0
"""After this a wait for a condition is a failure; conditions come in milliseconds."""


@dataclass
class Watch:
    """One sampler with rings of its own over the tree."""

    tree: CgroupTree
    kind: Kind
    geometry: RingGeometry = field(default_factory=lambda: RingGeometry(max_slots=64))
    fd_budget: int = 2000

    def __post_init__(self) -> None:
        self.rings = RingFile.open(None, self.geometry, boot_id="this")
        self.sampler: Sampler = open_sampler(
            self.tree.mount, self.rings, fd_budget=self.fd_budget, max_lanes=4, force=self.kind
        )

    def add(self, path: str) -> int:
        relative, inode = self.tree.relative(path), self.tree.inode(path)
        slot = self.rings.attach(relative, inode, now_monotonic_ns=time.monotonic_ns())
        self.sampler.add(slot, relative, inode)
        return slot

    def sweep(self, *, slow: bool = False, retry: bool = False) -> SweepResult:
        return self.sampler.sweep(slow=slow, retry_absent=retry)

    def newest(self, slot: int) -> np.void:
        row = self.rings.newest(slot)
        assert row is not None
        return row

    def has(self, slot: int) -> Has:
        return Has(int(self.newest(slot)["has"]))

    def close(self) -> None:
        self.sampler.close()
        self.rings.close()


@pytest.fixture(params=KINDS)
def watch(request: pytest.FixtureRequest, tree: CgroupTree) -> Iterator[Watch]:
    watcher = Watch(tree, request.param)
    yield watcher
    watcher.close()


def counters(row: np.void) -> tuple[int, ...]:
    """All of a row but its stamp."""
    return tuple(int(value) for value in row.tolist()[1:])


def test_native_and_reference_agree_on_one_live_tree(tree: CgroupTree) -> None:
    """Counters that stand still between two readings of one sampler must be what the other reads in between."""
    for path, load in {"busy": "busy", "two/busy": "busy", "asleep": "sleep"}.items():
        tree.spawn(path, load)
    tree.make("empty/inner")
    paths = ["", "busy", "two", "two/busy", "asleep", "empty", "empty/inner"]
    native, reference = Watch(tree, "native"), Watch(tree, "reference")
    try:
        slots = {path: (native.add(path), reference.add(path)) for path in paths}
        used = slots["busy"][0]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:  # until the loads have really run
            native.sweep()
            if native.newest(used)["usage_usec"] > 100_000:
                break
            assert time.monotonic() < deadline
        compare_moving(native, reference, slots)
        for path in ("busy", "two/busy", "asleep"):
            tree.freeze(path)
        compared: set[str] = set()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while compared != set(paths):
            before, between, after = read_three(native, reference, slots)
            for path in paths:
                if before[path] == after[path]:
                    assert between[path] == before[path], path
                    compared.add(path)
            assert time.monotonic() < deadline, f"never stood still: {set(paths) - compared}"
        assert counters(native.newest(used))[0] > 100_000
        assert native.has(used) & (Has.PRESSURE | Has.FULL) == Has.PRESSURE | Has.FULL
    finally:
        native.close()
        reference.close()


Slots = dict[str, tuple[int, int]]
Readings = dict[str, tuple[tuple[int, ...], tuple[int, ...]]]


def read_three(native: Watch, reference: Watch, slots: Slots) -> tuple[Readings, Readings, Readings]:
    """Samples and memory rows by path: native, then reference, then native again."""

    def read(watch: Watch, side: int) -> Readings:
        assert watch.sweep(slow=True).failed == 0
        readings: Readings = {}
        for path, both in slots.items():
            memory = newest_memory(watch.rings, both[side])
            assert memory is not None
            readings[path] = (counters(watch.newest(both[side])), counters(memory))
        return readings

    return read(native, 0), read(reference, 1), read(native, 0)


def compare_moving(native: Watch, reference: Watch, slots: Slots) -> None:
    """While loads run, what the reference reads lies between two readings of the native one."""
    moved = rounds = 0
    deadline = time.monotonic() + PATIENCE_SECONDS
    while rounds < 20 or moved == 0:  # on a loaded machine the loads may not run for a while
        assert time.monotonic() < deadline, "no counter moved"
        rounds += 1
        before, between, after = read_three(native, reference, slots)
        for path in slots:
            assert before[path][0][-1] == between[path][0][-1]  # has
            for low, middle, high in zip(before[path][0], between[path][0], after[path][0], strict=True):
                assert low <= middle <= high
                moved += low < high


def test_removed_group_is_gone_and_the_others_go_on(watch: Watch, tree: CgroupTree) -> None:
    tree.make("a")
    tree.make("b")
    a, b = watch.add("a"), watch.add("b")
    assert watch.sweep().sampled == 2
    tree.remove("a")
    result = watch.sweep(slow=True)
    assert (result.sampled, result.failed, list(result.gone)) == (1, 0, [a])
    assert watch.rings.raw(a).head == 1  # its rings stay as they were
    assert watch.rings.raw(b).head == 2
    assert watch.sampler.stats().slots == 1
    assert watch.sampler.stats().errors["cpu.stat", "gone"] == 1
    assert list(watch.sweep().gone) == []


def test_group_removed_between_discovery_and_add_is_gone(watch: Watch, tree: CgroupTree) -> None:
    tree.make("a")
    inode = tree.inode("a")
    tree.remove("a")
    with pytest.raises(CgroupGone):
        watch.sampler.add(0, tree.relative("a"), inode)
    tree.make("a")  # another took its name
    assert tree.inode("a") != inode
    with pytest.raises(CgroupGone):
        watch.sampler.add(0, tree.relative("a"), inode)


def test_same_name_made_again_is_a_new_series(watch: Watch, tree: CgroupTree) -> None:
    load = tree.spawn("a", "busy")
    old = watch.add("a")
    watch.sweep()
    generation, inode = watch.rings.generation(old), tree.inode("a")
    assert load.poll() is None
    tree.remove("a")
    tree.make("a")
    assert tree.inode("a") != inode
    assert list(watch.sweep().gone) == [old]  # the old descriptors are dead although the path is there
    new = watch.add("a")
    watch.sweep()
    assert (new, watch.rings.generation(new)) != (old, generation)
    assert watch.rings.raw(new).head == 1
    assert watch.newest(new)["usage_usec"] == 0  # nothing ever ran in it
    assert watch.rings.retained() == {tree.relative("a"): new}


def test_pressure_switched_off_is_absent_and_comes_back_with_a_retry(watch: Watch, tree: CgroupTree) -> None:
    tree.spawn("a", "busy")
    slot = watch.add("a")
    watch.sweep(slow=True)
    assert Has.PRESSURE in watch.has(slot)
    tree.write("a", "cgroup.pressure", "0")
    result = watch.sweep(slow=True)
    assert (result.sampled, list(result.gone)) == (1, [])  # ENODEV on a pressure file is not the end of the group
    assert Has.PRESSURE not in watch.has(slot)
    assert watch.newest(slot)["cpu_some_usec"] == 0
    assert watch.sampler.stats().errors["cpu.pressure", "absent"] == 1
    used = watch.newest(slot)["usage_usec"]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while watch.newest(slot)["usage_usec"] <= used:  # cpu.stat goes on
        watch.sweep(retry=True)
        assert time.monotonic() < deadline
    assert Has.PRESSURE not in watch.has(slot)
    tree.write("a", "cgroup.pressure", "1")
    watch.sweep()
    assert Has.PRESSURE not in watch.has(slot)  # asked again each minute, not each second
    watch.sweep(retry=True)
    assert Has.PRESSURE in watch.has(slot)


def test_lane_of_a_removed_group_is_absent(watch: Watch, tree: CgroupTree) -> None:
    tree.make("a")
    lane = watch.sampler.add_lane(tree.relative("a/cpu.pressure"))
    node = watch.sampler.add_lane("/proc/pressure/cpu")
    assert [reading.status for reading in watch.sampler.read_lanes()] == [Status.OK, Status.OK]
    tree.remove("a")
    readings = {reading.lane: reading for reading in watch.sampler.read_lanes()}
    assert (readings[lane].status, readings[lane].some_usec) == (Status.ABSENT, None)
    assert readings[node].status is Status.OK


CHURNED = 2000
ALIVE = 100


def test_two_thousand_groups_made_and_removed_during_sampling(tree: CgroupTree) -> None:
    """A thread makes and removes groups without asking; the sampler is always late for some and never minds."""
    watch = Watch(tree, "native", RingGeometry(max_slots=2 * ALIVE, raw_length=8, memory_length=4, minute_length=4))
    tree.make("churn")
    stays = tree.make("stays")
    assert stays.is_dir()
    slot_of_stays = watch.add("stays")
    files_before = len(os.listdir("/proc/self/fd"))
    kept_before = watch.sampler.stats().open_files
    directories: queue.Queue[tuple[str, int] | None] = queue.Queue(maxsize=ALIVE)

    def churn() -> None:
        alive: list[str] = []
        for number in range(CHURNED):
            path = f"churn/{number % (CHURNED // 2)}"  # every name comes twice
            directory = tree.make(path)
            directories.put((path, directory.stat().st_ino))
            alive.append(path)
            if len(alive) > ALIVE:
                tree.absolute(alive.pop(0)).rmdir()
        for path in alive:
            tree.absolute(path).rmdir()
        directories.put(None)

    worker = threading.Thread(target=churn)
    worker.start()
    watched: set[int] = set()
    added = missed = gone = sweeps = 0
    deadline = time.monotonic() + 2 * PATIENCE_SECONDS
    running = True
    while running or watched:
        assert time.monotonic() < deadline
        for _ in range(10):
            try:
                item = directories.get(block=False)
            except queue.Empty:
                break
            if item is None:
                running = False
                break
            path, inode = tree.relative(item[0]), item[1]
            slot = watch.rings.attach(path, inode, now_monotonic_ns=time.monotonic_ns())
            try:
                watch.sampler.add(slot, path, inode)
            except CgroupGone:
                watch.rings.release(slot)
                missed += 1
            else:
                watched.add(slot)
                added += 1
        result = watch.sweep(slow=sweeps % 5 == 0, retry=sweeps % 7 == 0)
        sweeps += 1
        assert result.failed == 0
        for slot in result.gone:
            watch.rings.release(slot)
            watched.remove(slot)
            gone += 1
    worker.join()
    assert added + missed == CHURNED
    assert gone == added > CHURNED // 2  # most were seen alive
    assert watch.rings.raw(slot_of_stays).head == sweeps
    assert watch.rings.retained() == {tree.relative("stays"): slot_of_stays}
    # memory.pressure and io.pressure of "stays" were opened when first read.
    assert watch.sampler.stats().open_files == kept_before + 2
    watch.close()
    assert len(os.listdir("/proc/self/fd")) < files_before


LOW_LIMIT_PROGRAM = """
import os, resource, sys
from pathlib import Path
from agent.sensing.state_file import RingGeometry
from agent.sensing.ring_file import RingFile
from agent.sensing.sampler import open_sampler

mount, kind, *paths = sys.argv[1:]
rings = RingFile.open(None, RingGeometry(max_slots=64), boot_id="this")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
sampler = open_sampler(Path(mount), rings, fd_budget=10_000, max_lanes=1, force=kind)
slots = []
for path in paths:
    inode = os.stat(Path(mount) / path).st_ino
    slots.append(rings.attach(path, inode, now_monotonic_ns=1))
    sampler.add(slots[-1], path, inode)
for number in range(5):
    result = sampler.sweep(slow=number % 2 == 0, retry_absent=number == 3)
    assert (result.sampled, result.failed) == (len(paths), 0), result
for slot in slots:
    assert rings.newest(slot)["has"] & 4, slot
stats = sampler.stats()
assert stats.open_files < 64, stats
assert sum(count for (_, cause), count in stats.errors.items() if cause == "limit") > 0, stats
sampler.close()
print("ok", len(slots))
"""


@pytest.mark.parametrize("kind", KINDS)
def test_low_open_file_limit_falls_back_to_opening_for_each_read(tree: CgroupTree, kind: Kind) -> None:
    # 40 groups want a directory and two fast files each: 120 descriptors, of 64 less what Python has open.
    paths = [f"group{number}" for number in range(40)]
    for path in paths:
        tree.make(path)
    done = subprocess.run(
        [sys.executable, "-c", LOW_LIMIT_PROGRAM, str(tree.mount), kind, *(tree.relative(path) for path in paths)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert (done.stdout, done.stderr) == ("ok 40\n", "")
