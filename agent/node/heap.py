"""The process's heap: one arena of malloc for all threads, and what is free in it given back to the kernel. Node.

An evaluation takes megabytes of arrays for some milliseconds each minute. glibc gives each thread an arena of its own,
and keeps what was freed below the newest allocation: without this they stay resident for good.
"""

from __future__ import annotations

import ctypes
import logging
from typing import Final

log = logging.getLogger(__name__)

M_ARENA_MAX: Final = -8
"""Of glibc's malloc.h."""


class Heap:
    """Speaks to the C library; one that is not glibc knows none of this, and then nothing is done."""

    def __init__(self, library: ctypes.CDLL | None = None) -> None:
        found = ctypes.CDLL(None) if library is None else library
        self._set_option = getattr(found, "mallopt", None)
        self._trim = getattr(found, "malloc_trim", None)

    def keep_one_arena(self) -> None:
        """Have all threads that start from now on allocate where this one does; the GIL lets one at a time anyway."""
        if self._set_option is not None and self._set_option(M_ARENA_MAX, 1) == 0:
            log.debug("malloc keeps its arenas")

    def give_back(self) -> None:
        """Give whole free pages back to the kernel: a few hundred microseconds; any thread."""
        if self._trim is not None:
            self._trim(0)
