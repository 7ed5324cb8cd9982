"""What a script would do: open, read and parse three files of each cgroup once a second, nothing kept and none of ours.

``python -I -S plain_reader.py ROOT LIST_FILE``, the arguments as those of tests/bench/preads.c.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path


def read_keys(text: str) -> dict[str, int]:
    """Parse lines of a key and a number: cpu.stat."""
    return {key: int(value) for key, value in (line.split() for line in text.splitlines())}


def read_pressure(text: str) -> dict[str, dict[str, float]]:
    """Parse ``some avg10=0.00 avg60=0.00 avg300=0.00 total=0`` and ``full`` alike: cpu.pressure."""
    return {
        kind: {key: float(value) for key, value in (field.split("=") for field in fields)}
        for kind, *fields in (line.split() for line in text.splitlines())
    }


def read_cgroup(directory: str) -> dict[str, object]:
    """Read what is there of one cgroup."""
    contents: dict[str, object] = {}
    for name, parse in (("cpu.stat", read_keys), ("cpu.pressure", read_pressure), ("memory.current", int)):
        try:
            with open(f"{directory}/{name}") as file:
                contents[name] = parse(file.read())
        except FileNotFoundError:
            continue
    return contents


def main(root: str, list_file: str) -> None:
    """Read for ever."""
    directories = [f"{root}/{path}" for path in Path(list_file).read_text().split()]
    due = time.monotonic()
    while True:
        for directory in directories:
            read_cgroup(directory)
        due += 1.0
        time.sleep(max(due - time.monotonic(), 0.0))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
