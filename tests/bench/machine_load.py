"""What else the machine did while something was measured: beside each figure, so that nobody trusts a busy hour's.

What this process and all below it used is its own; the rest of the CPUs' busy time is the others'. What the host of a
virtual machine took (steal) is the others' too, and told apart.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

WORTHLESS_RATIO: Final = 0.10
"""Of the machine's CPU time, taken by others. A thread meets them on its CPU about as often as that CPU is theirs: from
one time in ten on, a mean and a p99 are as much theirs as ours, and the goals lie no further than a tenth from what is
measured on a quiet machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTimes:
    """CPU time of a whole machine, all its CPUs together, and of it that of one's own processes; seconds."""

    all_seconds: float
    """Idle time too."""
    busy_seconds: float
    steal_seconds: float
    own_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineLoad:
    """What others took of the machine's CPU time."""

    others_ratio: float
    steal_ratio: float

    @property
    def is_worthless(self) -> bool:
        """Whether timings measured meanwhile say more of the others than of what was measured."""
        return self.others_ratio + self.steal_ratio > WORTHLESS_RATIO

    def figures(self, part: str) -> dict[str, float]:
        """Return the figures as they stand in build/bench.json."""
        return {
            f"others_cpu_percent_of_machine_{part}": round(100 * self.others_ratio, 1),
            f"steal_percent_of_machine_{part}": round(100 * self.steal_ratio, 1),
        }

    def taken(self) -> str:
        """Return what others took in words."""
        return f"others took {self.others_ratio:.1%} of the machine's CPU time, its host {self.steal_ratio:.1%}"

    def __str__(self) -> str:
        """Return the sentence that stands beside the figures."""
        if not self.is_worthless:
            return self.taken()
        return f"{self.taken()}: above {WORTHLESS_RATIO:.0%}, TIMINGS ARE WORTHLESS (counts and sizes are not)"


class LoadMeter:
    """Measures from its making on."""

    def __init__(self) -> None:
        self._before = read_cpu_times()

    def load(self) -> MachineLoad:
        """Return the load since the meter was made."""
        return load_between(self._before, read_cpu_times())


def load_between(before: CpuTimes, after: CpuTimes) -> MachineLoad:
    """Return what others took between two readings; nothing where no time passed."""
    passed = after.all_seconds - before.all_seconds
    if passed <= 0:
        return MachineLoad(others_ratio=0.0, steal_ratio=0.0)
    busy = after.busy_seconds - before.busy_seconds
    own = after.own_seconds - before.own_seconds
    # Work and ticks are counted by different clocks of the kernel's, and its count of idle time may go back a little: a
    # moment's figures may lie outside by a tick or two.
    return MachineLoad(
        others_ratio=_bounded((busy - own) / passed),
        steal_ratio=_bounded((after.steal_seconds - before.steal_seconds) / passed),
    )


def _bounded(ratio: float) -> float:
    return min(max(ratio, 0.0), 1.0)


def read_cpu_times() -> CpuTimes:
    """Read the machine's CPU times, and those of this process with all that it started."""
    text = Path("/proc/stat").read_text(encoding="ascii")
    return parse_cpu_times(text, ticks_per_second=os.sysconf("SC_CLK_TCK"), own_seconds=_own_seconds())


def parse_cpu_times(text: str, *, ticks_per_second: int, own_seconds: float) -> CpuTimes:
    """Parse /proc/stat; its first line is the sum of all CPUs.

    Source:
        proc(5): user nice system idle iowait irq softirq steal guest guest_nice; the last two are in the first two.
    """
    user, nice, system, idle, iowait, irq, softirq, steal = (
        int(field) / ticks_per_second for field in text.partition("\n")[0].split()[1:9]
    )
    busy = user + nice + system + irq + softirq
    return CpuTimes(
        all_seconds=busy + idle + iowait + steal, busy_seconds=busy, steal_seconds=steal, own_seconds=own_seconds
    )


def _own_seconds() -> float:
    """Return the CPU time of this process and its descendants; those that ended and were waited for are in it.

    One that left the tree (a daemon) counts as one of the others.
    """
    own = psutil.Process()
    seconds = 0.0
    for process in [own, *own.children(recursive=True)]:
        try:
            seconds += sum(process.cpu_times()[:4])  # user, system, and both of children waited for
        except psutil.NoSuchProcess:  # it ended meanwhile, and is in its parent's
            continue
    return seconds
