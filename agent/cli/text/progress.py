"""A bar on stderr for what takes long: only on a terminal, and only after a moment. Face."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Final, TextIO

from agent.cli.text.spans import clip

_PATIENCE_SECONDS: Final = 0.5
"""What is done sooner needs no bar."""
_BETWEEN_SECONDS: Final = 0.1
_CELLS: Final = 24


class Progress:
    """One line that is drawn over and over, and wiped at the end."""

    def __init__(self, stream: TextIO, what: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._what = what
        self._clock = clock
        self._is_shown = stream.isatty()
        self._began = self._drawn = clock()
        self._is_drawn = False

    def show(self, share: float) -> None:
        """Draw that so much is done, 0..1; most calls do nothing."""
        now = self._clock()
        if not self._is_shown or now - self._began < _PATIENCE_SECONDS or now - self._drawn < _BETWEEN_SECONDS:
            return
        self._drawn, self._is_drawn = now, True
        filled = round(share * _CELLS)
        left = "" if share < 0.05 else f"  {(now - self._began) * (1 - share) / share:.0f}s left"
        line = f"{self._what} [{'#' * filled}{'.' * (_CELLS - filled)}] {share * 100:3.0f}%{left}"
        # One column stays free: a full line would wrap on some terminals.
        self._stream.write("\r\x1b[K" + clip(line, shutil.get_terminal_size().columns - 1, ellipsis=""))
        self._stream.flush()

    def wipe(self) -> None:
        """Take the line away."""
        if self._is_drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._is_drawn = False


@contextlib.contextmanager
def progress(stream: TextIO, what: str) -> Iterator[Progress]:
    """Return a bar that is gone afterwards, whatever happens."""
    bar = Progress(stream, what)
    try:
        yield bar
    finally:
        bar.wipe()
