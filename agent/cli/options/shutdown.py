"""How a verb with threads is told to end: by signals that are heard without an exception.

What a handler raises lands wherever the main thread is at that moment. In a destructor, or in the callback of a weak
reference, of which importing has one, Python drops it, and nobody ends; on the way into a ``threading.Condition``,
since Python 3.14 into any lock, it leaves that held for ever (CPython issues 74174 and 148874), and nobody can end. A
handler that sets a ``threading.Event`` may meet the event's own lock held below itself. And no handler runs in
time for a signal that comes after Python looked for signals last and before the main thread sleeps on a lock: of those
that come just then one in a thousand was heard at the end of the wait, or never. So Python's own part of a handler,
which runs at once, writes the signal's number into a pipe, and the main thread waits for that.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
import weakref
from types import FrameType, TracebackType
from typing import Final, Protocol, Self

_NO_FILE: Final = -1
"""Where Python writes no signals."""


class Stop(Protocol):
    """What a loop looks at: whether it is to end. A ``threading.Event`` is one too."""

    def is_set(self) -> bool:
        """Return whether to end."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait so many seconds at most, None = for ever, until it is to end; return whether it is."""


class Ending:
    """The end of a verb, by one of some signals or by ``end``; one thread waits, the main one.

    A context manager: handlers are as before afterwards. The first signal counts; what comes after it changes nothing,
    so that nobody leaves halfway out.
    """

    def __init__(self, *numbers: signal.Signals) -> None:
        self.number: signal.Signals | None = None
        """The signal that was heard first; None = none yet, or it was ended without."""
        self._numbers: Final = numbers
        self._before: dict[signal.Signals, object] = {}
        self._is_set = False
        self._wakeup_before = _NO_FILE
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        weakref.finalize(self, _close, self._wake_read, self._wake_write)

    def __enter__(self) -> Self:
        self._wakeup_before = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in self._numbers:
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            # None = it was installed by something that is not Python, and cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._wakeup_before)

    def end(self, number: signal.Signals | None = None) -> None:
        """End it without a signal, or as if one had come; from any thread."""
        if not self._is_set:
            self.number = number
        self._is_set = True
        with contextlib.suppress(BlockingIOError):  # full: who waits wakes anyway
            os.write(self._wake_write, bytes(1))

    def is_set(self) -> bool:
        """Return whether to end."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait so many seconds at most, None = for ever, until it is to end; return whether it is."""
        until_seconds = None if timeout is None else time.monotonic() + timeout
        woken = select.poll()
        woken.register(self._wake_read, select.POLLIN)
        while not self._is_set:  # a signal that is another's wakes too
            left_seconds = None if until_seconds is None else max(0.0, until_seconds - time.monotonic())
            if not woken.poll(None if left_seconds is None else left_seconds * 1000):
                break
            for number in os.read(self._wake_read, select.PIPE_BUF):
                if number in self._numbers:
                    self.end(signal.Signals(number))
        return self._is_set

    def _hear(self, number: int, _: FrameType | None) -> None:
        self.end(signal.Signals(number))


def _close(*files: int) -> None:
    for file in files:
        os.close(file)
