"""Amounts of a minute in sixteen bits: a small floating-point format without sign that never understates.

Core, pure. Five bits of exponent, eleven of mantissa, and rounding up: whole numbers below 4,096 are exact, anything
larger grows by less than 2**-11 (0.05 %). The unit is the caller's: millicores for CPU, KiB for memory.

Codes rise with their amounts, and 0 is the code of what is missing. So a part of a file that was never written reads as
missing, and the larger of two codes is the code of the larger amount.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.numbers.arrays import Bools, Floats

Codes = NDArray[np.uint16]

MISSING: Final = 0
MANTISSA_BITS: Final = 11
_ONE: Final = 1 << MANTISSA_BITS
"""The leading bit of a normal number, which is not stored."""
_HIGHEST: Final = 0xFFFF - 1
"""The last number there is a code for: codes are one more than numbers."""
LARGEST: Final = float((_ONE + (_HIGHEST & (_ONE - 1))) << ((_HIGHEST >> MANTISSA_BITS) - 1))
"""Everything larger is stored as this: 4.4e12, which in KiB is almost 4 PiB and in millicores four billion cores."""
_POWERS: Final[Floats] = 2.0 ** np.maximum(np.arange(32) - 1, 0)
"""What a unit of the mantissa is worth, by exponent."""


def encode(amounts: Floats, has: Bools) -> Codes:
    """Return the codes of amounts, of any one shape; each stands for the least amount of the format that is enough.

    Args:
        amounts: Finite and >= 0 where ``has`` is True; elsewhere they mean nothing.

    Raises:
        ValueError: An amount is negative, infinite or NaN: a fault of the caller.
    """
    amounts = np.where(has, amounts, 0.0)
    if not np.all((amounts >= 0.0) & (amounts < np.inf)):
        bad = amounts[~((amounts >= 0.0) & (amounts < np.inf))][0]
        msg = f"amount {bad}, allowed are finite numbers from 0"
        raise ValueError(msg)
    amounts = np.minimum(amounts, LARGEST)
    # An amount in [2**(k-1), 2**k) has k as its binary exponent; its mantissa is to lie in [2**11, 2**12).
    shift = np.maximum(np.frexp(amounts)[1] - (MANTISSA_BITS + 1), 0)
    # A mantissa that is rounded up to 2**12 carries into the exponent by itself, as the two stand side by side.
    number = (shift << MANTISSA_BITS) + np.ceil(np.ldexp(amounts, -shift)).astype(np.int64)
    codes: Codes = np.where(has, number + 1, MISSING).astype(np.uint16)
    return codes


def decode(codes: Codes) -> tuple[Floats, Bools]:
    """Return the amounts of codes, of the same shape, and which are there; an amount that is missing is 0."""
    has = codes != MISSING
    number = codes - has.view(np.uint8)
    exponent = number >> MANTISSA_BITS
    # Below 2**11 numbers are amounts; above, the leading bit comes back, and the exponent counts from 1.
    amounts = (number - ((np.maximum(exponent, 1) - 1) << MANTISSA_BITS)).astype(np.float64)
    amounts *= _POWERS[exponent]
    return amounts, has
