"""``python -m tests.tools``: what `make test` needs beyond packages, made once; what is there already is left alone.

Said before anything is made: what is missing and how long it takes; then a line as each begins, with what is left.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.chart import operator_kinds
from tests.cluster import binaries
from tests.guest import kernel

Progress = Callable[[str], None]
KERNEL_SECONDS: Final = 40
DEFINITIONS_SECONDS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One thing that is made once."""

    name: str
    seconds: int
    """What it takes on two cores with cold caches; measured where nothing else ran."""
    is_there: Callable[[], bool]
    make: Callable[[Progress], object]


def tools() -> list[Tool]:
    """Return all, in the order in which they are made."""
    known = binaries.programs()
    return [
        Tool(
            name="the guest's kernel",
            seconds=KERNEL_SECONDS,
            is_there=lambda: kernel.find_prepared(kernel.cache_root(), kernel.recipe_digest()) is not None,
            make=kernel.ensure,
        ),
        *(program_tool(known[name]) for name in binaries.FOR_TESTS),
        Tool(
            name="the definitions of operators' kinds",
            seconds=DEFINITIONS_SECONDS,
            is_there=operator_kinds.are_there,
            make=operator_kinds.ensure_definitions,
        ),
    ]


def program_tool(program: binaries.Program) -> Tool:
    """Return one of the cluster's programs as a tool."""
    return Tool(
        name=f"{program.name} {program.version}",
        seconds=program.seconds,
        is_there=lambda: binaries.find(program.name) is not None,
        make=lambda progress: binaries.ensure([program.name], progress=progress),
    )


def make_missing(
    wanted: Sequence[Tool],
    say: Progress,
    *,
    clock: Callable[[], float] = time.monotonic,
    details: Progress | None = None,
) -> None:
    """Make what is missing, and tell how far it is.

    Args:
        wanted: All tools.
        say: Is given each line.
        clock: Seconds, of any beginning.
        details: Is given what the makers themselves tell; None = nobody is.
    """
    missing = [tool for tool in wanted if not tool.is_there()]
    if not missing:
        return
    names = ", ".join(tool.name for tool in missing)
    left = sum(tool.seconds for tool in missing)
    say(f"missing: {names}; about {minutes(left)} on two cores, once")
    for number, tool in enumerate(missing, 1):
        say(f"{number}/{len(missing)} {tool.name}: about {minutes(tool.seconds)}, {minutes(left)} for all that is left")
        began = clock()
        tool.make(details or (lambda _line: None))
        left -= tool.seconds
        say(f"{number}/{len(missing)} {tool.name}: done in {clock() - began:.0f} s")


def minutes(seconds: int) -> str:
    """Return a time for people who wait: ``half a minute``, ``7 minutes``."""
    whole = round(seconds / 60)
    if whole == 0:
        return "half a minute" if seconds > 20 else "some seconds"
    return f"{whole} minute{'s' if whole > 1 else ''}"


def main() -> int:
    """Make what is missing; 1 when something cannot be made."""

    def say(line: str) -> None:
        print(f"plimsoll: tools: {line}", flush=True)

    try:
        make_missing(tools(), say, details=lambda line: print(f"    {line}", flush=True))
    except (binaries.BinaryError, kernel.GuestError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
