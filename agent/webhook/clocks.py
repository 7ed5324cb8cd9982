"""Time and chance, as arguments: what tests put their own in the place of. Webhook; below every room."""

from __future__ import annotations

import random as system_random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """What a part goes by besides what it is told."""

    monotonic: Callable[[], float] = time.monotonic
    """Seconds that only go forward."""
    wall: Callable[[], float] = time.time
    """Unix seconds: what conditions and certificates show."""
    random: Callable[[], float] = system_random.random
    """0..1; spreads starts and waits."""


REAL_CLOCKS: Final = Clocks()
