"""Waiting inside the guest: for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

DEADLINE_SECONDS: Final = 600.0
"""For conditions that come within a second on real hardware; emulation on a busy machine is slow. 60 s were too few for
a ``doctor`` whose machine had eight processes to each CPU, 300 s for an agent that was to start beside as many."""


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds.

    Raises:
        TimeoutError: It did not within ``DEADLINE_SECONDS``.
    """
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            msg = f"not within {DEADLINE_SECONDS:.0f} s: {what}"
            raise TimeoutError(msg)
        time.sleep(0.02)
