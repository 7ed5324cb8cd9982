"""The process's memory: one arena of malloc for all threads, and what nobody needs given back to the kernel.

Shell, below every room but ``core``. An agent's evaluation takes megabytes of arrays for some milliseconds each minute,
and so do the webhook's lists of pods and its folds. glibc gives each thread an arena of its own, and keeps what was
freed below the newest allocation: without this they stay resident for good. So do pages of Python, numpy and OpenSSL
that the start alone has read.
"""

from __future__ import annotations

import ctypes
import logging
import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

M_ARENA_MAX: Final = -8
"""Of glibc's malloc.h, as the next two."""
M_MMAP_THRESHOLD: Final = -3
M_TRIM_THRESHOLD: Final = -1
LARGE_BYTES: Final = 512 * 1024
"""Beyond the 256 KiB that asyncio takes for each TLS connection: agents make one per report, and to map such a buffer
and touch it takes 80 us."""
FREE_TOP_BYTES: Final = 1024 * 1024
"""Kept free at the heap's end, so that what one report takes is not fetched anew for the next."""
MADV_COLD: Final = 20
"""Of the kernel's mman.h, since 5.4; Python 3.11 has no name for it."""
SMAPS: Final = Path("/proc/self/smaps")


class Heap:
    """Speaks to the C library; one that is not glibc knows none of this, and then nothing is done."""

    def __init__(self, library: ctypes.CDLL | None = None) -> None:
        libc = ctypes.CDLL(None) if library is None else library
        self._set_option = getattr(libc, "mallopt", None)
        self._trim = getattr(libc, "malloc_trim", None)
        self._advise = getattr(libc, "madvise", None)

    def keep_one_arena(self) -> None:
        """Make all threads that start from now on allocate where this one does; the GIL lets one at a time anyway."""
        if self._set_option is not None and self._set_option(M_ARENA_MAX, 1) == 0:
            log.debug("malloc keeps its arenas")

    def map_large(self) -> None:
        """Make each large block a mapping of its own, which the kernel has back as soon as it is freed.

        glibc begins so, but takes what is as large as the largest block that was ever freed from the heap: after one
        list of pods that is everything, and among what is kept there it leaves holes of its size.
        """
        if self._set_option is not None:
            for option, size_bytes in ((M_MMAP_THRESHOLD, LARGE_BYTES), (M_TRIM_THRESHOLD, FREE_TOP_BYTES)):
                if self._set_option(option, size_bytes) == 0:
                    log.debug("malloc keeps its bounds")

    def give_back(self) -> None:
        """Release whole free pages to the kernel: a few hundred microseconds; any thread."""
        if self._trim is not None:
            self._trim(0)

    def give_back_code(self, smaps: Path = SMAPS) -> None:
        """Release pages of programs and libraries; those that are needed come back at the first touch.

        The kernel counts them as inactive file memory from then on, which no limit and no kubelet holds against a pod.
        Only before other threads start: one that loads a library meanwhile would lose what its loader has written.
        """
        if self._advise is None:
            return
        try:
            mappings = list(untouched(smaps.read_text(encoding="utf-8", errors="replace").splitlines()))
        except OSError as error:
            log.debug("pages of libraries are kept", extra={"cause": str(error)})
            return
        for start, length_bytes in mappings:
            for advice in (MADV_COLD, mmap.MADV_DONTNEED):
                self._advise(ctypes.c_void_p(start), ctypes.c_size_t(length_bytes), advice)


def untouched(smaps: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield address and bytes of each private mapping of a file that is not writable, and never was written to.

    Args:
        smaps: Lines of /proc/PID/smaps.

    Source:
        Documentation/filesystems/proc.rst: ``Anonymous`` is what was written to and so is no file's any more, ``Swap``
        what of it was swapped out.
    """
    candidate: tuple[int, int] | None = None
    for line in smaps:
        key, *words = line.split()
        if not key.endswith(":"):  # start-end permissions offset device inode path
            start, end = (int(address, 16) for address in key.split("-"))
            is_file = len(words) > 4 and words[4].startswith("/")
            candidate = (start, end - start) if is_file and words[0] in {"r--p", "r-xp"} else None
        elif key == "Anonymous:" and words[0] != "0":
            candidate = None
        elif key == "Swap:" and words[0] == "0" and candidate is not None:  # stands after Anonymous
            yield candidate
