"""memory.events on real cgroups. Those with something in them need a memory controller: tests/guest has one."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.sensing.memory_events import MemoryEvents, WatchResult
from tests.kernel.cgroups import CgroupTree

pytestmark = pytest.mark.kernel


def test_memory_events_without_a_memory_controller_is_absent(tree: CgroupTree) -> None:
    tree.make("a")
    if (tree.absolute("a") / "memory.events").exists():
        pytest.skip("this machine has a memory controller")
    events = MemoryEvents(Path(tree.mount))
    try:
        assert events.add(f"/{tree.relative('a')}") is WatchResult.ABSENT
        assert events.add(f"/{tree.relative('none')}") is WatchResult.GONE
        assert events.drain() == []
    finally:
        events.close()
