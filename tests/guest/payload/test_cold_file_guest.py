"""File cache that nobody comes back for is cold after its window; what is missed and read again is not."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent.core.window.cold_file import cold_file
from agent.core.window.policy import WindowPolicy
from agent.core.window.snapshot import ColdFile
from agent.sensing.machine import has_generational_lru
from tests.guest.full_tree import FullTree
from tests.guest.waiting import wait_for
from tests.guest.watching import CAPACITY_MILLICORES, SamplerName, Watched, watching

pytestmark = pytest.mark.guest

BOTH = pytest.mark.parametrize("which", ["native", "reference"])
MIB = 1024 * 1024
SWITCH = Path("/sys/kernel/mm/lru_gen/enabled")
POLICY = WindowPolicy(
    capacity_millicores=CAPACITY_MILLICORES,
    memory_window_seconds=2.0,
    cold_file_window_seconds=2.0,
    memory_max_step_seconds=1.5,
    max_gap_ratio=1.0,  # a busy machine may keep the guest from sweeping for seconds
    memory_waiting_ratio=1.0,  # the refaults alone are to speak: who reads from a disk waits for memory too
)


def read(file: str, *, mebibytes: int, skip: int = 0, then: str = "exec sleep 600") -> tuple[str, ...]:
    """Return a load that reads a part of a file twice."""
    once = f"dd if={file} of=/dev/null bs=1M skip={skip} count={mebibytes} 2>/dev/null"
    return ("sh", "-c", f"{once}; {once}; {then}")


@pytest.fixture
def file() -> str:
    """The biggest program that this tier needs anyway; dropped from the cache, so that its reader is charged for it."""
    program = shutil.which("qemu-system-x86_64")
    assert program is not None
    Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")
    return program


@pytest.fixture
def classic_lists() -> Iterator[None]:
    """File pages on an active and an inactive list, also on a kernel that keeps generations of them."""
    yield from generations(on=False)


@pytest.fixture
def generational_lists() -> Iterator[None]:
    """Pages by generations, where the kernel can do that (6.1)."""
    yield from generations(on=True)


def generations(*, on: bool) -> Iterator[None]:
    if not SWITCH.is_file():
        yield
        return
    before = SWITCH.read_text(encoding="ascii")
    SWITCH.write_text("y" if on else "n", encoding="ascii")
    yield
    SWITCH.write_text(before, encoding="ascii")


def cold_now(watched: Watched) -> ColdFile | None:
    """Sweep once; return what is cold, None = not known yet."""
    watched.sweep(slow=True)
    return cold_at(watched, time.monotonic_ns())


def cold_at(watched: Watched, monotonic_ns: int) -> ColdFile | None:
    """Return what was cold at a moment by the readings so far, None = not known then."""
    cache = cold_file(watched.rings.memory(watched.slot).pieces, POLICY, end_monotonic_ns=monotonic_ns)
    return cache if isinstance(cache, ColdFile) else None


@BOTH
@pytest.mark.usefixtures("classic_lists")
def test_file_that_was_left_is_cold_and_one_that_is_missed_is_not(
    tree: FullTree, which: SamplerName, file: str
) -> None:
    tree.make("reader")
    (tree.absolute("reader") / "memory.high").write_text(str(5 * MIB), encoding="ascii")
    tree.spawn("left", read(file, mebibytes=8))
    wait_for(lambda: tree.read_flat("left", "memory.stat")["active_file"] >= 6 * MIB, "6 MiB read a second time")
    again = f"while :; do dd if={file} of=/dev/null bs=1M skip=8 count=9 2>/dev/null; done"
    tree.spawn("reader", read(file, mebibytes=1, skip=8, then=again))
    wait_for(
        lambda: tree.read_flat("reader", "memory.stat")["workingset_refault_file"] > 0, "a page missed by the reader"
    )
    with ExitStack() as stack:
        left, reader = (stack.enter_context(watching(tree, name, which)) for name in ("left", "reader"))

        def both_are_known() -> bool:
            known = [cold_now(watched) is not None for watched in (left, reader)]
            time.sleep(0.2)  # the slow interval itself, not a wait for a condition
            return all(known)

        wait_for(both_are_known, "a window of readings")
        first_ns = int(left.rings.memory(left.slot).joined()["monotonic_ns"][0])
        assert cold_at(left, first_ns) is None  # nothing of a window had passed then
        of_left = cold_now(left)
        print(f"{which}: left {of_left}")
        assert of_left is not None
        assert of_left.refaulted_bytes == 0
        active_bytes = tree.read_flat("left", "memory.stat")["active_file"]
        assert 6 * MIB <= of_left.active_bytes <= active_bytes

        def all_is_missed() -> bool:
            of_reader = cold_now(reader)
            return of_reader is not None and of_reader.refaulted_bytes > 0 and of_reader.total_bytes == 0

        # On a busy machine it takes longer than a window to come round to all pages.
        wait_for(all_is_missed, "a window in which the reader missed all that it has")

        # The kernel takes it away, and somebody comes back for it: what was missed is cold no more.
        high = tree.absolute("left") / "memory.high"
        high.write_text(str(2 * MIB), encoding="ascii")
        wait_for(lambda: tree.read_flat("left", "memory.stat")["active_file"] < 4 * MIB, "file cache reclaimed")
        high.write_text("max", encoding="ascii")
        tree.spawn("left", read(file, mebibytes=8))
        wait_for(lambda: tree.read_flat("left", "memory.stat")["workingset_refault_file"] > 1000, "file cache missed")
        of_left = cold_now(left)
        print(f"{which}: after it was missed {of_left}")
        assert of_left is not None
        assert of_left.refaulted_bytes > 3 * MIB
        assert of_left.total_bytes < 4 * MIB


@pytest.mark.usefixtures("generational_lists")
def test_pages_that_are_kept_by_generations_do_not_tell_who_came_back(tree: FullTree, file: str) -> None:
    assert has_generational_lru() == SWITCH.is_file()
    tree.make("again")
    tree.spawn("again", read(file, mebibytes=8, then="echo read; exec sleep 600"))
    wait_for(lambda: tree.read_flat("again", "memory.stat")["file"] >= 8 * MIB, "8 MiB read")
    if not SWITCH.is_file():  # the older kernel's lists tell, and are believed
        wait_for(lambda: tree.read_flat("again", "memory.stat")["active_file"] >= 6 * MIB, "6 MiB read a second time")
