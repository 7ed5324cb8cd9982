"""An agent killed at any moment loses the row it was writing, and nothing else."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from agent.core.window.ring_rows import MINUTE_ROW, Status
from agent.sensing.ring_file import RingFile
from agent.sensing.sampler import open_sampler
from agent.sensing.state_file import RingGeometry
from tests.kernel.cgroups import CgroupTree

pytestmark = pytest.mark.kernel

GEOMETRY = RingGeometry(max_slots=8, raw_length=64, memory_length=16, minute_length=8)
BOOT = "this-boot"
GROUPS = ("a", "b/c", "d")
MOST_TURNS = 4
LONGEST_SECONDS = 0.01
"""A kill falls this long at most after the child has told of that many turns: before, into and after its beginning."""


def sample_forever(path: Path, tree: CgroupTree, kind: str, turns: int) -> None:
    """What an agent does to its rings, as fast as it goes; a slot comes and goes as well. Tells each turn by a byte."""
    with RingFile.open(path, GEOMETRY, boot_id=BOOT) as rings:
        if rings.set_aside is not None or rings.damaged_slots:
            os._exit(3)
        sampler = open_sampler(
            tree.mount, rings, fd_budget=100, max_lanes=1, force="native" if kind == "native" else "reference"
        )
        slots = []
        for group in GROUPS:
            relative, inode = tree.relative(group), tree.inode(group)
            slots.append(rings.attach(relative, inode, now_monotonic_ns=time.monotonic_ns()))
            sampler.add(slots[-1], relative, inode)
        minute = np.zeros((), MINUTE_ROW)
        count = 0
        while True:
            sampler.sweep(slow=count % 3 == 0, retry_absent=count % 50 == 0)
            for slot in slots:
                minute["monotonic_minute"] = rings.minutes(slot).head + 1
                rings.append_minute(slot, minute)
            passing = rings.attach("passing", count + 1, now_monotonic_ns=time.monotonic_ns())
            if count % 2:
                rings.release(passing)
            if count < MOST_TURNS:
                os.write(turns, b".")
            count += 1


def run_and_kill(child: Callable[[int], None], *, after_turns: int = 0, after_seconds: float) -> None:
    """Fork, run, wait for what it tells of its turns, SIGKILL. A child that ends by itself is a failure."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        try:
            child(write_end)
        except BaseException:  # noqa: BLE001 - nothing of the test run may go on in the child
            os._exit(2)
        os._exit(1)
    os.close(write_end)
    with open(read_end, "rb", buffering=0) as turns:
        for _ in range(after_turns):
            turns.read(1)
        time.sleep(after_seconds)  # the moment is the test's subject: there is no condition to wait for
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), f"the child ended by itself: {os.waitstatus_to_exitcode(status)}"


class Ledger:
    """What was seen after each kill: slots stay, heads never fall, all rows below a head are whole."""

    def __init__(self) -> None:
        self.slots: dict[str, int] = {}
        self.heads: dict[tuple[str, str], int] = {}
        self.grown = 0
        self.rows = 0

    def check(self, path: Path, groups: list[str]) -> None:
        with RingFile.open_readonly(path) as rings:
            retained = rings.retained()
            for group, slot in self.slots.items():
                assert retained[group] == slot
            self.slots = {group: retained[group] for group in groups if group in retained}
            for group, slot in self.slots.items():
                assert rings.generation(slot) >= 1
                for ring, view in {"raw": rings.raw(slot), "memory": rings.memory(slot)}.items():
                    rows = view.joined()
                    assert {int(status) for status in rows["status"]} <= {Status.OK}
                    stamps = rows["monotonic_ns"].astype(np.int64)
                    assert (np.diff(stamps) > 0).all()
                    assert len(rows) == 0 or 0 < stamps[0] <= stamps[-1] <= time.monotonic_ns()
                    self.note(group, ring, view.head, len(rows))
                usage = rings.raw(slot).joined()["usage_usec"].astype(np.int64)
                assert (np.diff(usage) >= 0).all()
                minutes = rings.minutes(slot)
                head = minutes.head
                # The writer numbers its minutes by the head: a row that does not fit was half written.
                numbers = minutes.joined()["monotonic_minute"].tolist()
                assert numbers == list(range(head - len(numbers) + 1, head + 1))
                self.note(group, "minute", head, len(numbers))

    def note(self, group: str, ring: str, head: int, rows: int) -> None:
        before = self.heads.get((group, ring), 0)
        assert head >= before
        self.grown += head > before
        self.rows += rows
        self.heads[group, ring] = head


@pytest.mark.parametrize(("kind", "kills"), [("native", 200), ("reference", 40)])
def test_rings_survive_kills_at_random_moments(tree: CgroupTree, tmp_path: Path, kind: str, kills: int) -> None:
    for group in GROUPS:
        tree.make(group)
    tree.spawn("a", "busy")
    path = tmp_path / "rings"
    RingFile.open(path, GEOMETRY, boot_id=BOOT).close()
    generator = random.Random(20261121)
    ledger = Ledger()
    for _ in range(kills):
        run_and_kill(
            lambda turns: sample_forever(path, tree, kind, turns),
            after_turns=generator.randint(0, MOST_TURNS),
            after_seconds=generator.uniform(0.0, LONGEST_SECONDS),
        )
        ledger.check(path, [tree.relative(group) for group in GROUPS])
    assert ledger.grown > 3 * kills  # nine rings: four kills of five found each of them longer than before
    assert ledger.rows > 1000
    with RingFile.open(path, GEOMETRY, boot_id=BOOT) as rings:  # and an agent goes on with all of it
        assert rings.set_aside is None
        assert rings.damaged_slots == 0
        assert ledger.slots.items() <= rings.retained().items()
    assert [file.name for file in tmp_path.iterdir()] == ["rings"]


def test_file_whose_making_was_killed_is_begun_without_a_word(tree: CgroupTree, tmp_path: Path) -> None:
    tree.make("a")
    generator = random.Random(20261121)
    path = tmp_path / "rings"

    def make(_: int) -> None:
        RingFile.open(path, GEOMETRY, boot_id=BOOT)
        signal.pause()

    for _ in range(40):
        path.unlink(missing_ok=True)
        run_and_kill(make, after_seconds=generator.uniform(0.0, 0.004))
        with RingFile.open(path, GEOMETRY, boot_id=BOOT) as rings:
            assert rings.set_aside is None
            assert rings.retained() == {}
    assert [file.name for file in tmp_path.iterdir()] == ["rings"]
