"""Memory as the sampler sees it on a kernel that has the memory controller."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from agent.core.window.ring_rows import Has, Status
from tests.guest.full_tree import FullTree
from tests.guest.waiting import wait_for
from tests.guest.watching import SamplerName, watching

pytestmark = pytest.mark.guest

MIB = 1024 * 1024
BOTH = pytest.mark.parametrize("which", ["native", "reference"])
MEMORY_SIGNALS = (
    Has.MEMORY | Has.MEMORY_STAT | Has.MEMORY_PEAK | Has.MEMORY_PRESSURE | Has.IO_PRESSURE | Has.MEMORY_EVENTS
)


def hold(mebibytes: int) -> tuple[str, ...]:
    """Return a load that takes and keeps memory of its own."""
    program = f"held = bytearray(b'x') * ({mebibytes} << 20); import signal; signal.pause()"
    return (sys.executable, "-I", "-S", "-c", program)


def read_file_then_sleep(file: str, mebibytes: int) -> tuple[str, ...]:
    """Return a load that reads a file once: pages of the cache nobody comes back to, so inactive."""
    return ("sh", "-c", f"dd if={file} of=/dev/null bs=1M count={mebibytes} 2>/dev/null; exec sleep 600")


@BOTH
def test_working_set_is_memory_current_less_inactive_file_as_read_directly(tree: FullTree, which: SamplerName) -> None:
    # The biggest program that this tier needs anyway; dropped from the cache, so that its pages are charged to "c".
    big_file = shutil.which("qemu-system-x86_64")
    assert big_file is not None
    Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")
    tree.spawn("c", read_file_then_sleep(big_file, 12))
    wait_for(lambda: tree.read_flat("c", "memory.stat")["inactive_file"] >= 8 * MIB, "8 MiB of inactive file pages")
    tree.freeze("c")

    with watching(tree, "c", which) as watched:
        before = int(tree.read("c", "memory.current")), tree.read_flat("c", "memory.stat")["inactive_file"]
        watched.sweep(slow=True)
        after = int(tree.read("c", "memory.current")), tree.read_flat("c", "memory.stat")["inactive_file"]
        row = watched.newest_memory()

    assert (row["status"], Has(int(row["has"])) & MEMORY_SIGNALS) == (Status.OK, MEMORY_SIGNALS)
    assert min(before[0], after[0]) <= row["memory_current_bytes"] <= max(before[0], after[0])
    assert min(before[1], after[1]) <= row["inactive_file_bytes"] <= max(before[1], after[1])
    working_set_bytes = int(row["memory_current_bytes"]) - int(row["inactive_file_bytes"])
    assert row["working_set_peak_bytes"] == max(working_set_bytes, 0)
    # Page cache is most of what this group has, and none of its working set.
    assert working_set_bytes < int(row["memory_current_bytes"]) - 8 * MIB
    print(f"{which}: current {row['memory_current_bytes']}, inactive_file {row['inactive_file_bytes']}")


@BOTH
def test_growth_gone_before_the_slow_tick_is_in_the_working_set_peak(tree: FullTree, which: SamplerName) -> None:
    tree.make("c")
    with watching(tree, "c", which) as watched:
        watched.sweep(slow=True)
        tree.spawn("c", hold(44))
        wait_for(lambda: tree.read_flat("c", "memory.stat")["anon"] >= 40 * MIB, "40 MiB taken")
        watched.sweep(slow=False)  # a new high of memory.current: memory.stat is read at once
        tree.kill("c")
        wait_for(lambda: int(tree.read("c", "memory.current")) < 20 * MIB, "memory given back")
        watched.sweep(slow=True)
        row = watched.newest_memory()

    assert row["memory_current_bytes"] < 20 * MIB
    assert row["working_set_peak_bytes"] >= 40 * MIB
    assert row["memory_peak_bytes"] >= 40 * MIB


@BOTH
def test_growth_that_no_sweep_saw_is_in_the_lifetime_peak(tree: FullTree, which: SamplerName) -> None:
    tree.make("c")
    with watching(tree, "c", which) as watched:
        watched.sweep(slow=True)
        tree.spawn("c", hold(44))
        wait_for(lambda: tree.read_flat("c", "memory.stat")["anon"] >= 40 * MIB, "40 MiB taken")
        tree.kill("c")
        watched.sweep(slow=True)
        row = watched.newest_memory()

    assert row["memory_peak_bytes"] == int(tree.read("c", "memory.peak"))
    assert row["memory_peak_bytes"] >= 40 * MIB
