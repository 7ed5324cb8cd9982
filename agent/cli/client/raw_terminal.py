"""This process's terminal, lent to a command elsewhere: keys go there as they are; at the end all is put back. Face."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Final, NoReturn

_KEYS_BYTES: Final = 1 << 12
_PUT_BACK: Final = "\x1b[?1049l\x1b[?1l\x1b>\x1b[?25h\x1b[0m"
"""The first picture, plain keys, a cursor and no colour: what a command cannot put back that was cut off."""
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
_WIDTH_AND_HEIGHT: Final = (80, 24)


class RawTerminal:
    """Keys and size of the terminal at standard input."""

    def __init__(self, keys: int, resized: int) -> None:
        self._keys, self._resized = keys, resized
        self._size: tuple[int, int] | None = None

    def descriptors(self) -> Sequence[int]:
        """Return what tells of keys and of sizes."""
        return (self._keys, self._resized)

    def typed(self) -> bytes | None:
        """Return the keys since the last call; None = the terminal has gone."""
        import select

        poll = select.poll()
        poll.register(self._keys, select.POLLIN)
        if not poll.poll(0):
            return b""
        try:
            return os.read(self._keys, _KEYS_BYTES) or None
        except OSError:
            return None

    def size(self) -> tuple[int, int] | None:
        """Return columns and rows, where they are others than last time."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._resized, _KEYS_BYTES):
                pass
        size = shutil.get_terminal_size(_WIDTH_AND_HEIGHT)
        if size == self._size:
            return None
        self._size = size
        return size


@contextlib.contextmanager
def raw_terminal() -> Iterator[RawTerminal]:
    """Lend the terminal for the block; it is put back however the block ends, at SIGTERM and SIGHUP too."""
    keys = sys.stdin.fileno()
    before = termios.tcgetattr(keys)
    resized, resizing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    old_wakeup = signal.set_wakeup_fd(resizing, warn_on_full_buffer=False)
    handlers = {number: signal.signal(number, _end) for number in _ENDING}
    handlers[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, _ignore)
    try:
        try:
            tty.setraw(keys)
            yield RawTerminal(keys, resized)
        finally:
            _end_no_more()
    finally:
        with contextlib.suppress(OSError, termios.error):  # it may have gone
            sys.stdout.flush()
            os.write(sys.stdout.fileno(), _PUT_BACK.encode())
            termios.tcsetattr(keys, termios.TCSADRAIN, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(old_wakeup)
        os.close(resized)
        os.close(resizing)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    _end_no_more()
    raise SystemExit(128 + number)


def _end_no_more() -> None:
    """Ignore what would end it from now on: the first signal counts, and none cuts the putting back short."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Make the signal wake ``poll``."""
