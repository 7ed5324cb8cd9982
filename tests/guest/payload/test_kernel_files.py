"""What this tier rests on: the guest's kernel gives what the developer's hybrid machine does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guest.full_tree import FullTree
from tests.guest.waiting import wait_for

pytestmark = pytest.mark.guest

MIB = 1024 * 1024


def test_root_has_the_controllers_a_kubelet_needs() -> None:
    available = Path("/sys/fs/cgroup/cgroup.controllers").read_text(encoding="ascii").split()

    assert {"cpu", "memory", "io", "pids"} <= set(available)


def test_memory_files_are_there_and_agree_with_each_other(tree: FullTree) -> None:
    tree.spawn("c", "sleep")
    # A member from its first instruction, it is charged once its program has touched pages.
    wait_for(lambda: int(tree.read("c", "memory.current")) > 0, "the first page charged")

    current = int(tree.read("c", "memory.current"))
    peak = int(tree.read("c", "memory.peak"))
    stat = tree.read_flat("c", "memory.stat")

    assert 0 < current <= peak
    # What is charged is anonymous, of files, or the kernel's own; the last is counted in batches of pages per CPU.
    assert stat["anon"] + stat["file"] + stat["kernel"] == pytest.approx(current, abs=MIB)


def test_pressure_files_have_some_and_full_lines(tree: FullTree) -> None:
    tree.make("c")

    for resource in ("cpu", "memory", "io"):
        lines = tree.read("c", f"{resource}.pressure").splitlines()
        assert [line.split()[0] for line in lines] == ["some", "full"]
