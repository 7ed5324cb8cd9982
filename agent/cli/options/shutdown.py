"""How a verb with threads is told to end: by signals that are heard without an exception.

What a handler raises lands wherever the main thread is at that moment. In a destructor, or in the callback of a weak
reference, of which importing has one, Python drops it, and nobody ends; on the way into a ``threading.Condition``,
since Python 3.14 into any lock, it leaves that held for ever (CPython issues 74174 and 148874), and nobody can end. A
handler that sets a ``threading.Event`` may meet the event's own lock held below itself. So a handler here notes, and
puts into a queue that is made for it.
"""

from __future__ import annotations

import contextlib
import queue
import signal
from types import FrameType, TracebackType
from typing import Final, Protocol, Self


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
        # Its put is written in C and takes no lock that a handler could find held.
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        for number in self._numbers:
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            # None = it was installed by something that is not Python, and cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # type: ignore[arg-type]

    def end(self, number: signal.Signals | None = None) -> None:
        """End it without a signal, or as if one had come; from any thread."""
        if not self._is_set:
            self.number = number
        self._is_set = True
        self._wake.put(None)

    def is_set(self) -> bool:
        """Return whether to end."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait so many seconds at most, None = for ever, until it is to end; return whether it is."""
        if not self._is_set:
            with contextlib.suppress(queue.Empty):
                self._wake.get(timeout=timeout)
        return self._is_set

    def _hear(self, number: int, _: FrameType | None) -> None:
        self.end(signal.Signals(number))
