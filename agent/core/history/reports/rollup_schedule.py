"""When intervals of reports end, and when a report is tried again. Core, pure; time and chance are arguments.

Ends of intervals lie on a grid that each node moves by a share of its own: thousands of nodes then report evenly over
the interval, and one node always at the same moments, over restarts too.
"""

from __future__ import annotations

import zlib
from typing import Final

NS: Final = 1_000_000_000
FIRST_RETRY_SECONDS: Final = 5.0
LONGEST_RETRY_SECONDS: Final = 300.0
LONGEST_RETRY_AFTER_SECONDS: Final = 3600.0
"""What a webhook asks for beyond this is a mistake."""
DRAIN_SECONDS: Final = 2.5
"""Between two reports of a queue, on average: an hour is sent within half a minute, a day within twelve. The webhook
takes 30 a minute of one node."""


def node_share(node: str) -> float:
    """Return a node's place in the interval, 0..1: by its name, so always the same."""
    return zlib.crc32(node.encode()) / 2**32


def next_end_ns(after_ns: int, *, interval_ns: int, wall_offset_ns: int, share: float) -> int:
    """Return the first end of an interval after a moment of CLOCK_MONOTONIC.

    Args:
        wall_offset_ns: The wall clock less CLOCK_MONOTONIC as it was at the start; a clock that is set later moves
            nothing.
        share: The node's, 0..1.
    """
    shift_ns = int(share * interval_ns) - wall_offset_ns
    return ((after_ns - shift_ns) // interval_ns + 1) * interval_ns + shift_ns


def interval_start_ns(end_ns: int, *, interval_ns: int, last_end_ns: int | None) -> int | None:
    """Return where the interval begins that ends here: where the last one ended, so that no second is told twice.

    Returns:
        None when the last one ended less than half an interval before: the next end takes it in.
    """
    if last_end_ns is None or end_ns - last_end_ns > interval_ns * 3 // 2:
        return end_ns - interval_ns
    return last_end_ns if end_ns - last_end_ns >= interval_ns // 2 else None


def retry_seconds(failures: int, *, retry_after_seconds: float | None, chance: float) -> float:
    """Return how long to wait after a failure: twice as long after each, and never all nodes alike.

    Args:
        failures: In a row, this one included.
        retry_after_seconds: What the webhook asks for; None = nothing. It is never asked sooner.
        chance: 0..1, by lot.
    """
    longest = min(FIRST_RETRY_SECONDS * 2.0 ** min(failures - 1, 30), LONGEST_RETRY_SECONDS)
    own = longest * (0.5 + chance / 2.0)
    if retry_after_seconds is None:
        return own
    asked = min(max(retry_after_seconds, 0.0), LONGEST_RETRY_AFTER_SECONDS)
    return max(own, asked + chance * min(max(asked, FIRST_RETRY_SECONDS) / 2.0, LONGEST_RETRY_SECONDS))


def drain_seconds(chance: float) -> float:
    """Return how long to wait before the next report of a queue; ``chance`` is 0..1, by lot."""
    return DRAIN_SECONDS * (0.5 + chance)
