"""The loop of a thread: waits until a turn is due, takes it, counts it, backs off after a fault, ends when asked to.

Shell, below every room but ``core``. The broad ``except`` of a thread stands here and nowhere else: a fault in one turn
must not end the loop for good. What a fault means (log lines, a note for ``doctor``) is the owner's to say.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol


class TurnCounts(Protocol):
    """Counts the turns of one loop; ``metrics.loop_series.LoopTurns`` is one."""

    def done(self) -> None:
        """Count a turn that came to its end."""

    def failed(self) -> None:
        """Count a turn that raised."""


class Turns:
    """A daemon thread that takes turns until ``stop``. Every method but ``run`` may be called from any thread.

    ``wake`` and ``stop`` also from a signal handler: the condition's lock is reentrant.
    """

    def __init__(
        self,
        name: str,
        turn: Callable[[], float | None],
        *,
        failed: Callable[[Exception], float],
        counts: TurnCounts | None = None,
        last: Callable[[], None] | None = None,
        spacing_seconds: float = 0.0,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            turn: Does what is due and returns the seconds until the next turn: 0 = at once, None = not before ``wake``.
            failed: Told what a turn raised, inside the ``except`` block, so that ``log.exception`` works. Returns the
                seconds to back off: ``wake`` does not cut them short, as a fault that repeats at once must not spin.
            counts: Counts the turns; None = nobody does.
            last: Called on the thread when it ends.
            spacing_seconds: ``wake`` starts no turn sooner after the last one: for turns that cost something even where
                there is little to do.
        """
        self.name = name
        self._turn, self._failed, self._counts, self._last = turn, failed, counts, last
        self._spacing_seconds = spacing_seconds
        self._condition = threading.Condition()
        self._is_woken = False
        self._is_stopping = False
        self._thread: threading.Thread | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether the loop was asked to end; a long turn looks at it in between."""
        return self._is_stopping

    def start(self, after_seconds: float = 0.0) -> None:
        """Start the thread; its first turn comes after so many seconds, or at ``wake``."""
        thread = threading.Thread(target=self.run, args=(after_seconds,), name=self.name, daemon=True)
        thread.start()
        self._thread = thread  # last: another thread may call join meanwhile, and one not started cannot be joined

    def wake(self) -> None:
        """Request the next turn now, or when the spacing is over; one that is under way is followed by another."""
        with self._condition:
            self._is_woken = True
            self._condition.notify()

    def stop(self) -> None:
        """Ask the loop to end after the turn that is under way; ``join`` waits for it."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify()

    def join(self, timeout_seconds: float) -> bool:
        """Wait until the thread has ended; False = it hangs in a turn and ends with the process.

        One that is just being started counts as ended: after ``stop`` it takes no turn.
        """
        if self._thread is None:
            return True
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def run(self, after_seconds: float = 0.0) -> None:
        """Take turns until ``stop``, on the calling thread."""
        seconds: float | None = after_seconds
        is_failed = False
        # A turn that is due at once takes no lock: the sampling thread comes round many times a second.
        while not self._is_stopping and (seconds == 0.0 or self._wait(seconds, is_wakeable=not is_failed)):
            self._is_woken = False
            try:
                seconds = self._turn()
            except Exception as error:  # noqa: BLE001 - the top of a thread's loop: its owner logs it, the loop goes on
                is_failed, seconds = True, self._failed(error)
                if self._counts is not None:
                    self._counts.failed()
            else:
                is_failed = False
                if self._counts is not None:
                    self._counts.done()
        if self._last is not None:
            self._last()

    def _wait(self, seconds: float | None, *, is_wakeable: bool) -> bool:
        with self._condition:
            if is_wakeable and self._spacing_seconds > 0.0:
                spacing = self._spacing_seconds if seconds is None else min(self._spacing_seconds, seconds)
                self._condition.wait_for(lambda: self._is_stopping, spacing)
                seconds = None if seconds is None else seconds - spacing
            self._condition.wait_for(lambda: self._is_stopping or (is_wakeable and self._is_woken), seconds)
            return not self._is_stopping
