"""A kernel booted with cgroup_disable=memory, as many Raspberry Pi images are: memory is absent, CPU goes on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agent.core.window.memory import memory_window
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import Has, Status
from agent.core.window.snapshot import Missing
from tests.guest.full_tree import FullTree
from tests.guest.plimsoll import doctor_verdicts
from tests.guest.watching import CAPACITY_MILLICORES, SamplerName, seen_where, watching

pytestmark = pytest.mark.guest

MEMORY = Has.MEMORY | Has.MEMORY_STAT | Has.MEMORY_PEAK | Has.MEMORY_EVENTS


def test_kernel_gives_no_memory_controller() -> None:
    assert "memory" not in Path("/sys/fs/cgroup/cgroup.controllers").read_text(encoding="ascii").split()


@pytest.mark.parametrize("which", ["native", "reference"])
def test_rows_have_cpu_and_pressure_but_no_memory(tree: FullTree, which: SamplerName) -> None:
    tree.spawn("c", "busy")

    with watching(tree, "c", which) as watched:
        watched.sweep(slow=True)
        raw = watched.newest()
        memory_rows = watched.rings.memory(watched.slot, 1).joined()

    assert raw["status"] == Status.OK
    assert Has(int(raw["has"])) == Has.THROTTLED | Has.PRESSURE | Has.FULL
    assert all(Has(int(row["has"])) & MEMORY == Has(0) for row in memory_rows)


def test_cpu_is_known_and_memory_is_missing_with_its_reason(tree: FullTree) -> None:
    tree.spawn("c", "busy")
    policy = WindowPolicy(capacity_millicores=CAPACITY_MILLICORES)

    window = seen_where(tree, "c", lambda seen: seen.rate("usage_usec") > 0.6, seconds=3.0).window
    with watching(tree, "c") as watched:
        watched.sweep(slow=True)
        watched.sweep(slow=True)
        memory = memory_window(watched.rings.memory(watched.slot).pieces, policy, end_monotonic_ns=time.monotonic_ns())

    print(memory)
    assert window.usage_peak_millicores is not None
    assert window.usage_peak_millicores > 500  # one busy loop: near 1000, less what the test itself takes
    assert memory.working_set_bytes is None
    assert memory.missing["working_set_bytes"] is Missing.NO_SIGNAL


def test_doctor_names_the_memory_controller_as_degraded_and_nothing_as_broken() -> None:
    verdicts = doctor_verdicts()

    assert verdicts["memory controller"] == "degraded"
    assert {verdicts[f"PSI {resource}"] for resource in ("cpu", "memory", "io")} == {"OK"}
    assert "broken" not in verdicts.values()
