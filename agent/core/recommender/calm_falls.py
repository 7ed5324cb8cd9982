"""When a CPU request that starvation can raise again within seconds may fall. Core, pure.

Where growth is quick and cheap, each fall that comes too early is paid for by a growth, and each growth by a fall: the
request would follow every pause. So falls are asked for seldom, not soon after a growth that starvation made, and only
where they are worth it. One rule for the agent and for the simulation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.core.numbers.arrays import Bools, Floats
from agent.core.orders.plan_options import ActOptions

NEVER: Final = float("-inf")
"""The time of what has not happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalmFalls:
    """How seldom, how late and by how much at least; all 0 = at any time."""

    interval_seconds: float
    """Once in each stretch of so long, counted from midnight UTC."""
    after_growth_seconds: float
    """Not sooner than this after a growth that starvation made."""
    ratio: float
    """Not by less than this share of the request."""

    def begin_seconds(self, fell_seconds: Floats, grown_seconds: Floats) -> Floats:
        """Return from when on requests may fall again, in Unix seconds; arrays of any one shape.

        Args:
            fell_seconds: When each fell last, in Unix seconds; ``NEVER`` = it has not.
            grown_seconds: When starvation made each grow last.
        """
        begin = grown_seconds + self.after_growth_seconds
        if self.interval_seconds:
            begin = np.maximum(begin, (np.floor(fell_seconds / self.interval_seconds) + 1.0) * self.interval_seconds)
        return begin

    def is_worth(self, request: Floats | int, wanted: Floats | int) -> Bools | bool:
        """Return which falls from a request to what is wanted are large enough."""
        return wanted <= request * (1.0 - self.ratio)


def calm_falls_of(act: ActOptions) -> CalmFalls:
    """Return the rule that the settings make."""
    return CalmFalls(
        interval_seconds=act.shrink_interval_seconds,
        after_growth_seconds=act.shrink_after_growth_seconds,
        ratio=act.shrink_ratio,
    )
