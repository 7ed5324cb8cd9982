"""What stdout is, and ``top`` on it without moving the cursor: one table, or one after another.

Face. Loads no curses: ``top --once`` and pipes need none.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TextIO

from agent.cli.options.shutdown import Stop
from agent.cli.text.spans import ASCII, UNICODE, Glyphs, Line, ansi_text, line_text
from agent.cli.top.look import TerminalLook
from agent.cli.top.page import page_lines
from agent.cli.top.sources import SnapshotSource, SourceError
from agent.cli.top.view import ViewState, build_rows
from agent.core.window.snapshot import Snapshot

_PIPE_WIDTH = 160
"""Columns where there is no terminal to ask."""
HUNG_UP: Final = 128 + signal.SIGHUP
"""The exit code where the terminal went away, with a signal or without: who is told to ignore it, or is in another
session, gets none."""
LOOK_SECONDS: Final = 0.25
"""Between two looks at whether the terminal is still there, while nothing is written."""
_STANDARD = (0, 1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """How a live table begins and goes on."""

    state: ViewState = field(default_factory=ViewState)
    interval_seconds: float = 1.0
    """Between two pictures on a terminal."""
    plain_interval_seconds: float = 10.0
    """Between two tables where there is no terminal."""
    use_colour: bool = True
    """False = ``--no-color``; a pipe, TERM=dumb and NO_COLOR take colour away as well."""
    width: int | None = None
    """Columns; None = as the terminal has."""
    limit: int = 0
    """Rows of a plain table; 0 = all."""
    stop: Stop | None = None
    """When set, the table ends as on ``q``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """What stdout is."""

    is_interactive: bool
    """Keys can be read and the cursor moved."""
    has_colour: bool
    glyphs: Glyphs


def find_terminal(stream: TextIO, environment: Mapping[str, str], *, use_colour: bool) -> Terminal:
    """Read what stdout and the environment allow."""
    is_terminal = stream.isatty()
    is_smart = is_terminal and environment.get("TERM", "dumb") not in ("", "dumb")
    encoding = (stream.encoding or "ascii").lower().replace("-", "").replace("_", "")
    return Terminal(
        is_interactive=is_smart and sys.stdin.isatty(),
        # no-color.org: present and not empty
        has_colour=is_smart and use_colour and not environment.get("NO_COLOR"),
        glyphs=UNICODE if encoding.startswith("utf8") else ASCII,
    )


def is_terminal_gone(*descriptors: int) -> bool:
    """Return whether a terminal has hung up: nobody will read, type, or interrupt any more.

    It tells so at once and for ever. A pipe or a file at its end does not count, as a service has those. Looks at
    standard input and output unless others are named.
    """
    poll = select.poll()
    for descriptor in descriptors or (0, 1):
        poll.register(descriptor, 0)  # hang-ups and errors are told unasked
    return any(events & (select.POLLHUP | select.POLLERR) and _is_terminal(fd) for fd, events in poll.poll(0))


def _is_terminal(descriptor: int) -> bool:
    """Return whether a descriptor is a terminal's, one that has hung up too: of that ``isatty`` says no."""
    try:
        return os.isatty(descriptor) or os.major(os.fstat(descriptor).st_rdev) in _TERMINAL_MAJORS
    except OSError:
        return False


_TERMINAL_MAJORS = frozenset({4, 5, *range(136, 144)})
"""Consoles and serial lines, /dev/tty, and the slaves of pseudo-terminals: devices.txt of the kernel."""


def let_go_of_terminal() -> None:
    """Let whatever is still written to a terminal that is gone go nowhere, so that the way out is not cut short.

    Nor by the signal: the kernel wakes who reads from the terminal before it sends one, and shells may pass it on late.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        for descriptor in _STANDARD:
            if _is_terminal(descriptor):
                os.dup2(nowhere, descriptor)
    finally:
        os.close(nowhere)


def print_page(snapshot: Snapshot, state: ViewState, options: LiveOptions, terminal: Terminal) -> None:
    """Print one table to stdout; a filter in ``state`` that cannot be understood is a FilterError."""
    width = options.width or terminal_width()
    look = TerminalLook(width=width, glyphs=terminal.glyphs, has_colour=terminal.has_colour)
    lines = page_lines(snapshot, build_rows(snapshot, state), state, look, limit=options.limit)
    write_lines(lines, has_colour=look.has_colour)


def look_from(arguments: argparse.Namespace) -> TerminalLook:
    """Return how stdout looks, as ``--width`` and ``--no-color`` want it where a verb has them."""
    terminal = find_terminal(sys.stdout, os.environ, use_colour=not getattr(arguments, "no_color", False))
    width: int = getattr(arguments, "width", None) or terminal_width()
    return TerminalLook(width=width, glyphs=terminal.glyphs, has_colour=terminal.has_colour)


def terminal_width() -> int:
    """Return the columns of the terminal, or those of a pipe."""
    return shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns


def write_lines(lines: Sequence[Line], *, has_colour: bool) -> None:
    """Write lines to stdout; signs that its encoding does not have are spelt out."""
    text = "".join((ansi_text(line) if has_colour else line_text(line)) + "\n" for line in lines)
    write_text(text)


def write_json(document: object) -> None:
    """Write a document of plain values to stdout, indented."""
    print(json.dumps(document, indent=2, allow_nan=False))


def write_text(text: str) -> None:
    """Write text to stdout; signs that its encoding does not have are spelt out."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def plain_tables(source: SnapshotSource, options: LiveOptions, terminal: Terminal) -> int:
    """Print one table after another until ``options.stop``, Ctrl-C or the end of the terminal; return the exit code.

    Raises:
        SourceError: No first snapshot could be had.
    """
    stop: Stop = options.stop or threading.Event()
    snapshot = source(0.0)
    try:
        while True:
            print_page(snapshot, options.state, options, terminal)
            if _is_ended(stop, options.plain_interval_seconds):
                return 0
            if is_terminal_gone(1):
                let_go_of_terminal()
                return HUNG_UP
            write_text("\n")
            with contextlib.suppress(SourceError):  # the next one may come; this one repeats with its age
                snapshot = source(0.0)
    except KeyboardInterrupt:
        return 0
    except OSError as error:
        if error.errno != errno.EIO or not is_terminal_gone(1):
            raise
        let_go_of_terminal()
        return HUNG_UP


def _is_ended(stop: Stop, seconds: float) -> bool:
    """Wait for the next table, not longer than the terminal is there; return whether to end before.

    Who writes to a file may have left the terminal on purpose: there nothing is looked for.
    """
    if not sys.stdout.isatty():
        return stop.wait(seconds)
    until = time.monotonic() + seconds
    while (left_seconds := until - time.monotonic()) > 0 and not is_terminal_gone(1):
        if stop.wait(min(left_seconds, LOOK_SECONDS)):
            return True
    return stop.is_set()
