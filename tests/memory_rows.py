"""The newest memory row of one slot; the agent reads those of many at once."""

from __future__ import annotations

import numpy as np

from agent.sensing.ring_file import RingFile


def newest_memory(rings: RingFile, slot: int) -> np.void | None:
    """Return a copy of it; None = there is none yet."""
    rows = rings.memory(slot, 1).joined()
    return rows[0] if len(rows) else None
