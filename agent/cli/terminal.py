"""What stdout is, and ``top`` on it without moving the cursor: one table, or one after another.

Face. Loads no curses: ``top --once`` and pipes need none.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TextIO

from agent.cli.ending import Stop
from agent.cli.frame import page_lines
from agent.cli.look import Look
from agent.cli.sources import SnapshotSource, SourceError
from agent.cli.spans import ASCII, UNICODE, Glyphs, Line, ansi_text, line_text
from agent.cli.topview import ViewState, build_rows
from agent.core.model import Snapshot

_PIPE_WIDTH = 160
"""Columns where there is no terminal to ask."""


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
    banner: str = ""
    """A line for people, shown with the notes: where metrics are served, for instance."""
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
    """Look at stdout and the environment."""
    is_terminal = stream.isatty()
    is_smart = is_terminal and environment.get("TERM", "dumb") not in ("", "dumb")
    encoding = (stream.encoding or "ascii").lower().replace("-", "").replace("_", "")
    return Terminal(
        is_interactive=is_smart and sys.stdin.isatty(),
        # no-color.org: present and not empty
        has_colour=is_smart and use_colour and not environment.get("NO_COLOR"),
        glyphs=UNICODE if encoding.startswith("utf8") else ASCII,
    )


def print_page(snapshot: Snapshot, state: ViewState, options: LiveOptions, terminal: Terminal) -> None:
    """Print one table to stdout.

    Raises:
        FilterError: The filter in ``state`` cannot be understood.
    """
    width = options.width or terminal_width()
    look = Look(width=width, glyphs=terminal.glyphs, has_colour=terminal.has_colour)
    shown = with_banner(snapshot, options.banner)
    write_lines(
        page_lines(shown, build_rows(shown, state), state, look, limit=options.limit), has_colour=look.has_colour
    )


def terminal_width() -> int:
    """Give the columns of the terminal, or those of a pipe."""
    return shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns


def write_lines(lines: Sequence[Line], *, has_colour: bool) -> None:
    """Write lines to stdout; signs that its encoding does not have are spelt out."""
    text = "".join((ansi_text(line) if has_colour else line_text(line)) + "\n" for line in lines)
    write_text(text)


def write_text(text: str) -> None:
    """Write text to stdout; signs that its encoding does not have are spelt out."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def plain_tables(source: SnapshotSource, options: LiveOptions, terminal: Terminal) -> int:
    """Print one table after another until ``options.stop`` is set or Ctrl-C; give the exit code 0.

    Raises:
        SourceError: No first snapshot could be had.
    """
    stop: Stop = options.stop or threading.Event()
    snapshot = source.snapshot(0.0)
    try:
        while True:
            print_page(snapshot, options.state, options, terminal)
            if stop.wait(options.plain_interval_seconds):
                return 0
            write_text("\n")
            with contextlib.suppress(SourceError):  # the next one may come; this one repeats with its age
                snapshot = source.snapshot(0.0)
    except KeyboardInterrupt:
        return 0


def with_banner(snapshot: Snapshot, banner: str) -> Snapshot:
    """Put the banner in front of the notes; an empty one changes nothing."""
    return replace(snapshot, notes=(banner, *snapshot.notes)) if banner else snapshot
