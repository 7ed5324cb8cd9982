"""A kernel booted with psi=0: pressure is absent, all else goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.core.window.ring_rows import Has, Status
from agent.core.window.snapshot import Missing
from tests.guest.full_tree import FullTree
from tests.guest.plimsoll import doctor_verdicts
from tests.guest.watching import SamplerName, is_held, seen_where, watching

pytestmark = pytest.mark.guest

PRESSURE = Has.PRESSURE | Has.FULL | Has.MEMORY_PRESSURE | Has.IO_PRESSURE


def test_kernel_gives_no_pressure() -> None:
    assert not Path("/proc/pressure/cpu").exists()


@pytest.mark.parametrize("which", ["native", "reference"])
def test_rows_have_everything_but_pressure(tree: FullTree, which: SamplerName) -> None:
    tree.spawn("c", "busy")

    with watching(tree, "c", which) as watched:
        watched.sweep(slow=True)
        raw, memory = watched.newest(), watched.newest_memory()

    assert (raw["status"], memory["status"]) == (Status.OK, Status.OK)
    assert Has(int(raw["has"])) == Has.THROTTLED | Has.MEMORY
    assert Has(int(memory["has"])) & PRESSURE == Has(0)
    assert memory["memory_current_bytes"] > 0


def test_usage_and_throttling_are_known_and_waiting_is_missing_with_its_reason(tree: FullTree) -> None:
    tree.make("c")
    tree.write("c", "cpu.max", "20000 100000")
    tree.spawn("c", "busy")

    window = seen_where(tree, "c", is_held, seconds=3.0).window

    assert window.usage_peak_millicores is not None
    assert 100 < window.usage_peak_millicores < 400  # 20 of each 100 ms are 200 millicores
    assert window.throttled_ratio is not None
    assert window.throttled_ratio > 0.6
    assert window.waiting_ratio is None
    assert window.missing["waiting_ratio"] is Missing.NO_SIGNAL


def test_doctor_names_pressure_as_degraded_and_nothing_as_broken() -> None:
    verdicts = doctor_verdicts()

    assert {verdicts[f"PSI {resource}"] for resource in ("cpu", "memory", "io")} == {"degraded"}
    assert verdicts["memory controller"] == "OK"
    assert "broken" not in verdicts.values()
