"""The loads of ``plimsoll run --demo``: one small program, started once per container inside its cgroup.

Run as a script without site packages, so that six of them weigh little: CGROUP_DIRECTORY MODE ARGUMENTS...
"""

from __future__ import annotations

import os
import sys
import time
from typing import Final

PERIOD_SECONDS: Final = 0.1
PAGE_BYTES: Final = 4096
MIB: Final = 1024 * 1024


def _spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def steady(ratio: float) -> None:
    """Use this share of one CPU, evenly."""
    while True:
        began = time.monotonic()
        _spin(PERIOD_SECONDS * ratio)
        time.sleep(max(0.0, PERIOD_SECONDS - (time.monotonic() - began)))


def bursty(busy_seconds: float, idle_seconds: float) -> None:
    """Use a whole CPU for a while, then nothing for a while."""
    while True:
        _spin(busy_seconds)
        time.sleep(idle_seconds)


def pinned(ratio: float) -> None:
    """Want this share of the machine's last CPU; two such loads above 0.5 wait for each other."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    steady(ratio)


def growing(mib_a_second: float, most_mib: float) -> None:
    """Hold ever more memory, up to a bound, then let go and begin anew."""
    while True:
        held: list[bytearray] = []
        while len(held) < most_mib:
            block = bytearray(MIB)
            for offset in range(0, MIB, PAGE_BYTES):
                block[offset] = 1  # touched, so that it is charged
            held.append(block)
            time.sleep(1.0 / mib_a_second)


def main(words: list[str]) -> None:
    """Enter the cgroup, then load it until killed."""
    directory, mode, *arguments = words
    try:
        with open(os.path.join(directory, "cgroup.procs"), "w") as procs:
            procs.write("0")
    except OSError:  # removed again already: the demo ended as it began
        return
    numbers = [float(argument) for argument in arguments]
    match mode:
        case "steady":
            steady(*numbers)
        case "bursty":
            bursty(*numbers)
        case "pinned":
            pinned(*numbers)
        case "growing":
            growing(*numbers)
        case _:
            sys.exit(f"demo_load: no mode {mode}; allowed: steady, bursty, pinned, growing")


if __name__ == "__main__":
    main(sys.argv[1:])
