"""Which reasons were logged lately: each goes to the log once an hour, whoever sends what has it. Webhook; no I/O."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

AGAIN_SECONDS: Final = 3600.0
"""After which a reason is logged once more: who is called by the alert finds it in the log of the day."""
MOST_REASONS: Final = 100
"""Logged within AGAIN_SECONDS: anybody may send reviews, and make up more. The metrics count the rest."""


class LoggedReasons:
    """The reasons that were logged within the last hour. For any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin with none; ``clock`` may be set back."""
        self._clock = clock
        self._logged: dict[str, float] = {}
        """Reasons, and when they were logged."""
        self._lock = threading.Lock()

    def is_due(self, reason: str) -> bool:
        """Return whether a reason is to be logged now, and if so record that it was."""
        now = self._clock()
        with self._lock:
            self._logged = {known: at for known, at in self._logged.items() if 0.0 <= now - at < AGAIN_SECONDS}
            if reason in self._logged or len(self._logged) >= MOST_REASONS:
                return False
            self._logged[reason] = now
            return True
