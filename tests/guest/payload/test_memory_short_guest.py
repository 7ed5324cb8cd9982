"""Short of memory on a kernel that has memory.high: who is held back, or stalls, gets a larger limit at once."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.core.numbers.units import MIB
from agent.sensing.cgroup_path import Driver
from tests.guest.held_node import READER, HeldNode, agent_on, ask
from tests.guest.kubelet_tree import remove
from tests.guest.waiting import wait_for
from tests.kubepods import kubepods_root_path

pytestmark = pytest.mark.guest

LIMIT_MIB = 48
HELD, STALLED, CALM = range(3)
SMALL_MIB = 16
"""Of the one that stalls: less than the largest program that this tier needs anyway."""


@pytest.fixture
def node() -> Iterator[HeldNode]:
    held_node = HeldNode(limits_mib=(LIMIT_MIB, SMALL_MIB, LIMIT_MIB))
    yield held_node
    remove(kubepods_root_path(driver=Driver.CGROUPFS))


def test_who_is_held_back_or_stalls_gets_a_larger_limit_before_any_slow_reading(node: HeldNode, tmp_path: Path) -> None:
    # A file larger than the limit, read again and again: hardly more than page cache, and all of it missed. It begins
    # before the agent does, so that the agent knows from its first reading that this is no working set.
    program = shutil.which("qemu-system-x86_64")
    assert program is not None
    node.take_memory_high(STALLED)
    Path("/proc/sys/vm/drop_caches").write_text("1", encoding="ascii")
    # No plan, evaluation or slow reading is due while this takes place: nothing but the pressure can be the cause.
    settings = ("--set", "sampling.slowIntervalSeconds=600", "--set", "metrics.perContainer=true")
    with node.load(STALLED, READER.format(file=program, mebibytes=SMALL_MIB)):
        node.fill_with_pages(STALLED)
        node.freeze(STALLED, is_frozen=True)
        with agent_on(node, tmp_path, settings) as agent:
            held_seconds = node.held_seconds(HELD)
            print(f"held back at memory.high: a larger limit after {held_seconds:.2f} s")
            _, limit_bytes = node.grown[node.name(HELD)]
            assert limit_bytes > 1.5 * LIMIT_MIB * MIB
            assert node.events(HELD)["oom_kill"] == 0
            # Asked for again each second until the API server has taken it, which on a busy machine may be twice.
            assert (agent.metric("plimsoll_urgent_total", 'reason="memory_high"') or 0) >= 1

            began = time.monotonic()
            node.freeze(STALLED, is_frozen=False)
            accepted, _ = node.wait_grown(STALLED)
            print(f"stalled at its limit: a larger one after {accepted - began:.2f} s")
            assert (agent.metric("plimsoll_urgent_total", 'reason="memory_waiting"') or 0) >= 1

            # Whoever is neither is left alone; decision log and metrics say what the cause was.
            assert node.grown.keys() == {node.name(HELD), node.name(STALLED)}
            # A decision is put down once the API server's answer is read, a moment after it has taken the patch.
            wait_for(lambda: "memory.high" in reason_of(node, HELD, tmp_path), "the decision on the held one")
            wait_for(lambda: "at its limit" in reason_of(node, STALLED, tmp_path), "the decision on the stalled one")
            full = 'kind="full",resource="memory"'
            wait_for(lambda: agent.metric("plimsoll_node_pressure_ratio", full) is not None, "memory full of the node")
            assert agent.metric("plimsoll_node_pressure_ratio", 'kind="some",resource="io"') is not None
            assert agent.metric("plimsoll_node_pressure_ratio", 'kind="full",resource="io"') is not None


def reason_of(node: HeldNode, number: int, folder: Path) -> str:
    """Return what the decision log says of a pod's accepted resize."""
    items = ask(folder / "agent.sock", "events")["items"]
    mine = [item for item in items if (item["pod"] or {}).get("name") == node.name(number)]
    print(mine)
    return "; ".join(f"{item['reason']} {item['detail']}" for item in mine)
