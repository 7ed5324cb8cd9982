"""What stays in memory is put aside from Python's collector of cycles, which would walk it again and again. Webhook.

A full collection stops all threads: a tenth of a second and more for the index of a large cluster. It comes by itself
whenever a quarter has been added to what is looked through, and each report adds for the time that it is worked on. So
what is there is frozen once it was loaded, again when it has grown, and, garbage among it, looked through each hour.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

GROWTH_ENTRIES: Final = 1000
"""Rows of history, pods and nodes; some ten thousand objects, which are looked through in a few milliseconds."""
WHOLE_SECONDS: Final = 3600.0


class Settling:
    """Freezes what stays; one thread."""

    def __init__(
        self, entries: Callable[[], int], give_back: Callable[[], None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin; ``give_back`` gives the kernel what memory is free once the garbage has gone."""
        self._entries, self._give_back, self._clock = entries, give_back, clock
        self._frozen_entries = 0
        self._whole_due_seconds = clock() + WHOLE_SECONDS

    def look(self) -> bool:
        """Freeze again where that is due; False = that was all."""
        if self._clock() >= self._whole_due_seconds:
            gc.unfreeze()
            self.settle()
            self._whole_due_seconds = self._clock() + WHOLE_SECONDS
        elif self._entries() - self._frozen_entries >= GROWTH_ENTRIES:
            self.settle()
        return False

    def settle(self) -> None:
        """Freeze what is there, after what is garbage of it has gone."""
        started = time.perf_counter()
        self._frozen_entries = self._entries()
        gc.collect()
        gc.freeze()
        self._give_back()
        milliseconds = 1000 * (time.perf_counter() - started)
        log.debug("settled", extra={"entries": self._frozen_entries, "milliseconds": round(milliseconds, 1)})
