"""Who is looked at between two sweeps, and for how long a share of the time is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.core.orders.plan_options import ActOptions
from agent.core.window.memory_shortage import MemoryShort
from agent.node.resize.memory_shortages import MemoryShortages
from agent.sensing.spot_readings import read_memory, read_memory_waiting_usec

NS = 1_000_000_000
MIB = 1 << 20


class Cgroup:
    """One cgroup's files, and a clock."""

    def __init__(self, mount: Path) -> None:
        self.directory = mount / "c"
        self.directory.mkdir()
        self.now_ns = 100 * NS
        self.shortages = MemoryShortages(
            mount=mount, options=ActOptions(), limit_ratio=2.0, clock_ns=lambda: self.now_ns
        )
        self.write(current=64 * MIB)
        self.waited(0)

    def write(self, *, current: int, limit: str = str(64 * MIB), high: str = "max", inactive: int = 0) -> None:
        (self.directory / "memory.current").write_text(f"{current}\n")
        (self.directory / "memory.stat").write_text(f"anon 5\ninactive_file {inactive}\n")
        (self.directory / "memory.max").write_text(f"{limit}\n")
        (self.directory / "memory.high").write_text(f"{high}\n")

    def waited(self, usec: int) -> None:
        text = f"some avg10=0 avg60=0 avg300=0 total={usec}\nfull avg10=0 avg60=0 avg300=0 total=0\n"
        (self.directory / "memory.pressure").write_text(text)

    def look(self, *, seconds: float = 0.0, usec: int | None = None, is_full: bool = True) -> list[MemoryShort]:
        """Look again after so long, when it has waited for so long in all."""
        self.now_ns += int(seconds * NS)
        if usec is not None:
            self.waited(usec)
        return [shortage.cause for shortage in self.shortages.look(["/c"], ["/c"] if is_full else []).values()]


@pytest.fixture
def cgroup(tmp_path: Path) -> Cgroup:
    return Cgroup(tmp_path)


def test_nothing_is_looked_at_while_nobody_waits_or_is_held_back(cgroup: Cgroup) -> None:
    quiet = [cgroup.shortages.is_quiet]
    cgroup.shortages.waited()
    quiet.append(cgroup.shortages.is_quiet)
    cgroup.now_ns += NS
    quiet.append(cgroup.shortages.is_quiet)
    assert quiet == [True, False, True]


def test_what_stalls_throughout_is_told_before_a_second_is_over(cgroup: Cgroup) -> None:
    cgroup.shortages.waited()
    assert cgroup.look(usec=50_000_000) == []  # what was before the first look says nothing
    assert cgroup.look(seconds=0.25, usec=50_250_000) == [MemoryShort.STALLED]


def test_what_stalls_a_tenth_of_the_time_is_told_after_a_second_and_less_is_not(cgroup: Cgroup) -> None:
    for quarter, usec in enumerate((0, 24_000, 48_000, 72_000, 96_000, 120_000, 144_000)):
        cgroup.shortages.waited()
        assert cgroup.look(seconds=0.25, usec=usec) == [], quarter  # 24 ms in 250: 9.6 %
    for _ in range(4):
        cgroup.shortages.waited()
        usec += 26_000
        causes = cgroup.look(seconds=0.25, usec=usec)
    assert causes == [MemoryShort.STALLED]


def test_who_is_not_at_its_limit_is_not_read(cgroup: Cgroup) -> None:
    cgroup.shortages.waited()
    assert cgroup.look(usec=0, is_full=False) == []
    assert cgroup.look(seconds=0.5, usec=500_000, is_full=False) == []


def test_held_back_counts_for_a_second_and_without_a_limit_of_its_own(cgroup: Cgroup) -> None:
    cgroup.write(current=30 * MIB, limit="max", high=str(32 * MIB))
    cgroup.shortages.held("/c")
    cgroup.shortages.held("/stranger")
    assert cgroup.look(is_full=False) == [MemoryShort.HELD]
    assert cgroup.look(seconds=1.0, is_full=False) == []  # told already, a moment ago
    assert cgroup.look(seconds=1.5, is_full=False) == []  # and no longer news
    assert cgroup.shortages.is_quiet
    cgroup.shortages.held("/c")
    assert cgroup.look(is_full=False) == [MemoryShort.HELD]


def test_what_is_gone_or_not_understood_is_no_shortage(cgroup: Cgroup) -> None:
    cgroup.shortages.waited()
    cgroup.shortages.held("/c")
    (cgroup.directory / "memory.current").write_text("nonsense\n")
    assert cgroup.look() == []
    assert read_memory(cgroup.directory) is None
    (cgroup.directory / "memory.pressure").unlink()
    assert cgroup.look() == []
    assert read_memory_waiting_usec(cgroup.directory) is None
    assert read_memory(cgroup.directory / "gone") is None
