"""What is known of the memory of a container that ended before it was looked at long enough. Core, pure.

It may have lived for less than a sweep. The kernel keeps the most that was charged to it, file cache included; what the
cache was of it is read as that grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.window.minute_row import KIB
from agent.core.window.ring_rows import MEMORY_ROW, MINUTE_ROW, Has, Status
from agent.core.window.steps import column

STEP_SHARE: Final = 16
STEP_BYTES: Final = 4 << 20
"""Cache is read again when the peak has grown by this much and by this share: some sixty times on the way to 1 GiB."""
_EMPTY: Final = np.zeros(0, dtype=MEMORY_ROW)


def peak_step_bytes(peak_bytes: int) -> int:
    """Return by how much a peak must grow until what it is made of is worth another reading."""
    return max(peak_bytes // STEP_SHARE, STEP_BYTES)


def cache_in_peak_bytes(peak_bytes: int, *, current_bytes: int, inactive_file_bytes: int) -> int | None:
    """Return how much of a peak was cache that the kernel would have given back; None = this reading does not tell.

    It tells only while as much is charged as at the peak: cache that came after something was freed is no part of it.

    Args:
        peak_bytes: Read just before the others.
    """
    return inactive_file_bytes if current_bytes >= peak_bytes - peak_step_bytes(peak_bytes) else None


def short_life_bytes(
    memory_pieces: Sequence[NDArray[np.void]], *, peak_bytes: int | None, cache_bytes: int | None
) -> int | None:
    """Return the largest working set that a container may have had; None = nothing is known.

    Without a peak (kernels before 5.19) it is the largest that was read.

    Args:
        memory_pieces: MEMORY_ROW rows of it.
        peak_bytes: The most that was charged to it; None = not known.
        cache_bytes: What of that was cache, as last told; what was charged after that reading is taken to be none.
    """
    has = column(memory_pieces, "has", _EMPTY).astype(np.uint32)
    is_good = column(memory_pieces, "status", _EMPTY) == int(Status.OK)
    chosen = is_good & ((has & np.uint32(Has.MEMORY_STAT)) > 0)
    known = column(memory_pieces, "working_set_peak_bytes", _EMPTY)[chosen].tolist()
    if peak_bytes is not None:
        known.append(max(peak_bytes - (cache_bytes or 0), 0))
    return max(known, default=None)


def short_life_minute(working_set_bytes: int, *, monotonic_minute: int) -> NDArray[np.void]:
    """Return the MINUTE_ROW of a container that has ended, shape ``(1,)``; nothing is known of its CPU."""
    row = np.zeros(1, dtype=MINUTE_ROW)
    row["monotonic_minute"] = monotonic_minute
    row["working_set_peak_kib"] = min(-(-working_set_bytes // KIB), 2**32 - 1)
    row["has"] = int(Has.MEMORY_STAT)
    return row
