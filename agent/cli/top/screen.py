"""``top`` on a terminal: keys in, pages out, with curses.

Face. What is drawn and what keys do is decided in ``screenpage`` and ``navigation``; here is only the terminal.
"""

from __future__ import annotations

import contextlib
import curses
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Final

from agent.cli.options.unit_filter import FilterError, parse_filter
from agent.cli.text.spans import Line, Span, Tone, harmless
from agent.cli.top.live_page import NO_TRAIL, CpuTrail, ScreenPage, screen_page
from agent.cli.top.look import TerminalLook
from agent.cli.top.navigation import moved, next_sort, paused, sorted_by, stepped, zoomed_in, zoomed_out
from agent.cli.top.sources import SnapshotSource, SourceError
from agent.cli.top.terminal import (
    HUNG_UP,
    LiveOptions,
    Terminal,
    find_terminal,
    is_terminal_gone,
    let_go_of_terminal,
    plain_tables,
)
from agent.cli.top.view import SortKey, Zoom
from agent.core.window.snapshot import Snapshot

_STOP_CHECK_SECONDS = 0.25
"""How soon a stop event is seen while no key comes."""
_IDLE_READS: Final = 20
"""A signal may cut a reading short, but not so many in a row."""
_TRAIL_LENGTH = 180
_PAIRS: Final = ((1, curses.COLOR_RED), (2, curses.COLOR_CYAN), (3, curses.COLOR_YELLOW), (4, curses.COLOR_GREEN))
_STEP_SECONDS: Final = {"arrow": 10.0, "shift": 60.0, "brace": 600.0}


def live_table(source: SnapshotSource, options: LiveOptions) -> int:
    """Show the node until the person leaves, ``options.stop`` is set or the terminal is gone; the source stays open.

    Returns:
        The exit code: 0; 143 after SIGTERM; 129 where the terminal went away.

    Raises:
        SourceError: No first snapshot could be had.
    """
    terminal = find_terminal(sys.stdout, os.environ, use_colour=options.use_colour)
    if not terminal.is_interactive:
        return plain_tables(source, options, terminal)
    first = source(0.0)
    with _ending_on_signals():
        try:
            with _curses_window(terminal) as window:
                return _Screen(window, source, options, terminal, first).run()
        except KeyboardInterrupt:
            return 0  # Ctrl-C is a way of leaving
        except _TerminalGoneError:
            let_go_of_terminal()
            return HUNG_UP
        except curses.error as error:
            if is_terminal_gone():
                let_go_of_terminal()
                return HUNG_UP
            print(
                f"plimsoll: this terminal (TERM={os.environ.get('TERM', '')}) cannot be drawn on: {error}",
                file=sys.stderr,
            )
    return plain_tables(source, options, terminal)


@contextlib.contextmanager
def _ending_on_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into SystemExit, so that the terminal is put back; leaves other handlers alone."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    taken: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, leave)
                taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            if signal.getsignal(number) is leave:  # SIGHUP may be ignored by now: the terminal is gone
                signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def _curses_window(terminal: Terminal) -> Iterator[curses.window]:
    # LINES and COLUMNS are what the terminal once measured (readline exports them) and would forbid resizing;
    # use_env(False) is no way out, as it makes ncurses ask nobody but terminfo
    for name in ("LINES", "COLUMNS"):
        os.unsetenv(name)
    window = curses.initscr()
    try:
        curses.noecho()
        curses.cbreak()
        window.keypad(True)
        curses.set_escdelay(25)  # ms; a lone Esc must not wait a second for the rest of a sequence
        with contextlib.suppress(curses.error):
            curses.curs_set(0)
        if terminal.has_colour and curses.has_colors():
            curses.start_color()
            curses.use_default_colors()
            for pair, colour in _PAIRS:
                curses.init_pair(pair, colour, -1)
        yield window
    finally:
        # One by one: a terminal that is gone takes none of them.
        for put_back in (lambda: curses.curs_set(1), lambda: window.keypad(False), curses.nocbreak, curses.echo):
            with contextlib.suppress(curses.error):
                put_back()
        with contextlib.suppress(curses.error):
            curses.endwin()


class _TerminalGoneError(Exception):
    """The terminal hung up, or gives nothing to read any more."""


@dataclass(slots=True)
class _SeenUnits:
    """CPU of each unit over the live pictures so far."""

    moments: deque[float] = field(default_factory=lambda: deque(maxlen=_TRAIL_LENGTH))
    figures: dict[str, deque[float | None]] = field(default_factory=dict)

    def add(self, snapshot: Snapshot, now: float) -> None:
        self.moments.append(now)
        courses: dict[str, deque[float | None]] = {}
        for unit in snapshot.units:
            path = unit.identity.cgroup_path
            trail = self.figures.get(path) or deque(maxlen=_TRAIL_LENGTH)
            trail.append(unit.cpu.last_usage_millicores)
            courses[path] = trail
        self.figures = courses

    def trail(self, path: str | None) -> CpuTrail:
        figures = self.figures.get(path or "")
        if not figures:
            return NO_TRAIL
        moments = list(self.moments)[-len(figures) :]
        return CpuTrail(millicores=tuple(figures), span_seconds=moments[-1] - moments[0])


class _Screen:
    """One run on a terminal. Times are seconds of ``time.monotonic``."""

    def __init__(
        self,
        window: curses.window,
        source: SnapshotSource,
        options: LiveOptions,
        terminal: Terminal,
        first: Snapshot,
    ) -> None:
        self._window, self._source, self._options = window, source, options
        self._glyphs = terminal.glyphs
        self._has_colour = terminal.has_colour and curses.has_colors()
        self._attributes = _attributes(self._has_colour)
        self._state = options.state
        self._snapshot = first
        self._taken_at = time.monotonic()
        self._seen = _SeenUnits()
        self._seen.add(first, self._taken_at)
        self._fault: Line = ()
        """Why the newest picture could not be had."""
        self._message: Line = ()
        """What a key came to; it stands until the next key."""
        self._typed: str | None = None
        """The filter being typed; None = keys are commands."""
        self._filter_before = ""
        self._show_help = False
        self._page: ScreenPage | None = None
        self._is_leaving = False
        self._idle_reads = 0
        """Readings in a row that ended before their time without a key."""

    def run(self) -> int:
        next_picture = self._taken_at + self._options.interval_seconds
        while not self._is_leaving:
            self._draw()
            now = time.monotonic()
            if self._options.stop is not None and self._options.stop.is_set():
                break
            if now >= next_picture:
                if not self._state.is_paused:
                    self._fetch()
                # a slow answer moves the rhythm instead of piling up requests
                next_picture = max(next_picture + self._options.interval_seconds, time.monotonic())
                continue
            wait_seconds = next_picture - now
            if self._options.stop is not None:
                wait_seconds = min(wait_seconds, _STOP_CHECK_SECONDS)
            self._window.timeout(max(1, int(wait_seconds * 1000)))
            try:
                key: int | str = self._window.get_wch()
            except curses.error:
                self._note_silence(time.monotonic() - now, wait_seconds)
                continue  # no key came in time
            self._idle_reads = 0
            self._press(key)
        return 0

    def _note_silence(self, waited_seconds: float, wait_seconds: float) -> None:
        """Leave where no key can come any more; else the same page would be drawn again and again, without a pause.

        Raises:
            _TerminalGoneError: The terminal hung up, or reading from it fails each time, as in a session that lost it.
        """
        self._idle_reads = self._idle_reads + 1 if waited_seconds < wait_seconds / 2 else 0
        if self._idle_reads >= _IDLE_READS or is_terminal_gone():
            raise _TerminalGoneError

    def _fetch(self) -> None:
        now = time.monotonic()
        age_seconds = self._state.at_age_seconds(now)
        try:
            self._snapshot = self._source(age_seconds)
        except SourceError as error:
            # the last picture stays, and its age tells that it does
            self._fault = (Span(harmless(str(error)), Tone.HOT),)
            return
        self._fault = ()
        self._taken_at = now
        if not self._state.is_paused:
            self._seen.add(self._snapshot, now)

    # -- drawing

    def _draw(self) -> None:
        height, width = self._window.getmaxyx()
        now = time.monotonic()
        since = now - self._taken_at
        late = since if since > 2 * self._options.interval_seconds + 1 else 0.0  # live, but no answer comes
        age_seconds = self._state.at_age_seconds(now) if self._state.is_paused else late
        status = self._message or self._fault
        if self._typed is not None:
            prompt = (Span("filter: ", Tone.ACCENT), Span(harmless(self._typed)), Span("_  ", Tone.ACCENT))
            status = (*prompt, *status)
        self._page = screen_page(
            self._snapshot,
            self._state,
            TerminalLook(width=self._options.width or width, glyphs=self._glyphs, has_colour=self._has_colour),
            height=height,
            age_seconds=age_seconds,
            status=status,
            trail=self._seen.trail(self._state.unit_path),
            show_help=self._show_help,
        )
        self._state = self._page.state
        self._window.erase()
        for y, line in enumerate(self._page.lines):
            self._draw_line(y, line, width, is_selected=y == self._page.selected_line)
        self._window.refresh()

    def _draw_line(self, y: int, line: Line, width: int, *, is_selected: bool) -> None:
        # the last cell of the last line cannot be written without scrolling; and a resize may come in between
        with contextlib.suppress(curses.error):
            self._window.move(y, 0)
            for span in line:
                attributes = self._attributes[span.tone]
                self._window.addstr(span.text, attributes | curses.A_REVERSE if is_selected else attributes)
            if is_selected:
                x = self._window.getyx()[1]
                self._window.addstr(" " * max(0, width - x - 1), curses.A_REVERSE)

    # -- keys

    def _press(self, key: int | str) -> None:
        if key == curses.KEY_RESIZE:
            return
        if self._typed is not None:
            self._type(self._typed, key)
            return
        self._message = ()
        if self._show_help and key not in _SCROLL_KEYS:
            self._show_help = False
            self._state = replace(self._state, first_visible=0)
            if key in ("h", "?", "\x1b", "q"):
                return
        command = _COMMANDS.get(key)
        if command is not None:
            command(self)

    def _type(self, typed: str, key: int | str) -> None:
        self._message = ()
        if key in _ENTER:
            try:
                parse_filter(typed)
            except FilterError as error:
                self._message = (Span(str(error), Tone.NOTE),)
                return
            self._typed = None
        elif key == "\x1b":
            self._typed = None
            self._state = replace(self._state, filter_text=self._filter_before)
        elif key in _BACKSPACE:
            self._typed = typed[:-1]
            self._state = replace(self._state, filter_text=self._typed)
        elif isinstance(key, str) and key.isprintable():
            self._typed = typed + key
            self._state = replace(self._state, filter_text=self._typed)

    def _leave(self) -> None:
        self._is_leaving = True

    def _open_help(self) -> None:
        self._show_help = True
        self._state = replace(self._state, first_visible=0)

    def _open_filter(self) -> None:
        if self._state.zoom is not Zoom.UNIT:
            self._filter_before = self._state.filter_text
            self._typed = self._state.filter_text

    def _pause(self) -> None:
        self._state = paused(self._state, self._taken_at)
        if not self._state.is_paused:
            self._fetch()

    def _step(self, seconds: float) -> None:
        before = self._state
        now = time.monotonic()
        if not before.is_paused:
            before = paused(before, self._taken_at)
        self._state = stepped(before, seconds, now)
        self._fetch()

    def _move(self, by: int) -> None:
        if self._show_help or self._state.zoom is Zoom.UNIT:
            self._state = replace(self._state, first_visible=max(0, self._state.first_visible + by))
        elif self._page is not None:
            self._state = moved(self._state, self._page.rows, by)

    def _move_pages(self, pages: int) -> None:
        if self._page is not None:
            self._move(pages * self._page.body_height)

    def _sort(self, key: SortKey) -> None:
        self._state = sorted_by(self._state, key)

    def _sort_next(self) -> None:
        self._state = next_sort(self._state)

    def _reverse(self) -> None:
        self._state = replace(self._state, is_reversed=not self._state.is_reversed)

    def _expand(self) -> None:
        self._state = replace(self._state, is_expanded=not self._state.is_expanded)

    def _zoom_in(self) -> None:
        if self._page is not None:
            self._state = zoomed_in(self._state, self._page.rows)

    def _zoom_out(self) -> None:
        self._state = zoomed_out(self._state)


_Command = Callable[[_Screen], None]
_ENTER: tuple[int | str, ...] = ("\n", "\r", curses.KEY_ENTER)
_BACKSPACE: tuple[int | str, ...] = ("\x7f", "\b", curses.KEY_BACKSPACE)
_SCROLL_KEYS: tuple[int | str, ...] = (
    curses.KEY_UP,
    curses.KEY_DOWN,
    curses.KEY_PPAGE,
    curses.KEY_NPAGE,
    curses.KEY_HOME,
    curses.KEY_END,
)
_FAR = 1_000_000
"""More rows than there are."""


def _stepping(seconds: float) -> _Command:
    return lambda screen: screen._step(seconds)


def _moving(rows: int) -> _Command:
    return lambda screen: screen._move(rows)


def _paging(pages: int) -> _Command:
    return lambda screen: screen._move_pages(pages)


def _sorting(key: SortKey) -> _Command:
    return lambda screen: screen._sort(key)


_COMMANDS: dict[int | str, _Command] = {
    "q": _Screen._leave,
    "h": _Screen._open_help,
    "?": _Screen._open_help,
    "p": _Screen._pause,
    " ": _Screen._pause,
    curses.KEY_LEFT: _stepping(-_STEP_SECONDS["arrow"]),
    curses.KEY_RIGHT: _stepping(_STEP_SECONDS["arrow"]),
    curses.KEY_SLEFT: _stepping(-_STEP_SECONDS["shift"]),
    curses.KEY_SRIGHT: _stepping(_STEP_SECONDS["shift"]),
    "[": _stepping(-_STEP_SECONDS["shift"]),
    "]": _stepping(_STEP_SECONDS["shift"]),
    "{": _stepping(-_STEP_SECONDS["brace"]),
    "}": _stepping(_STEP_SECONDS["brace"]),
    curses.KEY_UP: _moving(-1),
    curses.KEY_DOWN: _moving(1),
    curses.KEY_PPAGE: _paging(-1),
    curses.KEY_NPAGE: _paging(1),
    curses.KEY_HOME: _moving(-_FAR),
    curses.KEY_END: _moving(_FAR),
    "c": _sorting(SortKey.CPU),
    "m": _sorting(SortKey.MEMORY),
    "w": _sorting(SortKey.WAITING),
    "t": _sorting(SortKey.THROTTLED),
    "n": _sorting(SortKey.NAME),
    "s": _Screen._sort_next,
    "S": _Screen._reverse,
    "e": _Screen._expand,
    "/": _Screen._open_filter,
    "\x1b": _Screen._zoom_out,
    **dict.fromkeys(_ENTER, _Screen._zoom_in),
    **dict.fromkeys(_BACKSPACE, _Screen._zoom_out),
}


def _attributes(has_colour: bool) -> dict[Tone, int]:
    red, cyan, yellow, green = (curses.color_pair(pair) if has_colour else 0 for pair, _ in _PAIRS)
    return {
        Tone.PLAIN: curses.A_NORMAL,
        Tone.DIM: curses.A_DIM,
        Tone.TITLE: curses.A_BOLD,
        Tone.ACCENT: cyan or curses.A_BOLD,
        Tone.HOT: red | curses.A_BOLD,
        Tone.NOTE: yellow,
        Tone.GAIN: green,
    }
