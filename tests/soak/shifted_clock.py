"""Starts ``plimsoll`` of a tree of sources, unmodified, on a wall clock that is off: by what a file says just now.

Run as a script: FILE TREE ARGUMENTS... The file holds one little-endian double, seconds; whoever writes to it sets the
clock. Only this process's ``time.time`` and ``time.time_ns`` are off: monotonic clocks go on, as they do on a machine
whose clock is set.
"""

from __future__ import annotations

import mmap
import runpy
import struct
import sys
import time
from pathlib import Path
from typing import Final

OFFSET: Final = struct.Struct("<d")
NS: Final = 1_000_000_000


def set_clock(file: Path, offset_seconds: float) -> None:
    """Set the clock of whoever runs by this file; made where it is not there."""
    if not file.exists():
        file.write_bytes(OFFSET.pack(offset_seconds))
        return
    with file.open("r+b") as content:
        content.write(OFFSET.pack(offset_seconds))


def shift(file: Path) -> None:
    """Have this process's wall clock be off by what the file says, from now on."""
    with file.open("rb") as content:
        offset = mmap.mmap(content.fileno(), OFFSET.size, access=mmap.ACCESS_READ)
    true_time, true_time_ns = time.time, time.time_ns

    def offset_seconds() -> float:
        (seconds,) = OFFSET.unpack(offset[: OFFSET.size])
        return float(seconds)

    time.time = lambda: true_time() + offset_seconds()
    time.time_ns = lambda: true_time_ns() + int(offset_seconds() * NS)


def main() -> None:
    """Become the agent."""
    file, tree, *arguments = sys.argv[1:]
    sys.path[0] = tree  # the sources' own folder in the place of this script's
    shift(Path(file))
    sys.argv = ["plimsoll", *arguments]
    runpy.run_module("agent", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
