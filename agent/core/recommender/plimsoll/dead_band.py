"""Answers that change seldom: small falls are not asked for, small rises are asked for whole. Core, pure.

An answer is compared with the one of the hour's beginning, and that with the hour before's, from midnight (UTC) on. A
fall of less than a tenth is not worth a change, and so the former answer stands. A rise that bounds would find too
small to be made is made as large as they want: else a flat series would lie a little above its request for days.

The chain begins anew each midnight, so that it follows from the hours that the history keeps.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from agent.core.numbers.arrays import Floats
from agent.core.orders.policy_options import BoundsOptions

FALL_RATIO: Final = 0.9
"""From this share of the answer before on, what is asked for stays."""
RISE_RATIO: Final = 1.001 + BoundsOptions().smallest_change_ratio
"""A rise is at least so large; a thousandth beyond what the bounds make, for what rounding takes."""


def follow(said: Floats, wanted: Floats) -> Floats:
    """Return what is answered after another answer, shape ``(n,)`` each; 0 = nothing was answered before."""
    held = np.where((wanted <= said) & (wanted > FALL_RATIO * said), said, wanted)
    followed: Floats = np.where((wanted > said) & (wanted < RISE_RATIO * said), RISE_RATIO * said, held)
    return followed
