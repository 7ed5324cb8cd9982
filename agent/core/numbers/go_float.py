"""Logarithm and powers as Go computes them on amd64, to the last bit, whatever numpy or the C library would say.

Core, pure. Bucket edges, decay factors and with them every answer of the policies ``vpa`` and ``crane`` hang on the
last bit: a value that is just the start of a bucket falls into it or below it. numpy's own ``log`` and ``exp2`` differ
from Go's there, and from one processor to the next, since they choose their code by its vector instructions. Sums,
products and quotients of numpy arrays are IEEE 754 everywhere, so what is made of these alone is the same everywhere.

Source:
    FDLIBM (Sun Microsystems, 1993), e_log.c and e_exp.c, whose reductions and coefficients Go took over; Go's
    documentation of ``math``; compared bit by bit with Go 1.26 on amd64.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LN2_HIGH: Final = float.fromhex("0x1.62e42fee00000p-1")
_LN2_LOW: Final = float.fromhex("0x1.a39ef35793c76p-33")
"""ln 2 in two parts: an exponent times the high part is exact."""

_HALF_SQRT2: Final = math.sqrt(2.0) / 2.0

_LOG_EVEN: Final = (
    6.666666666666735130e-01,
    2.857142874366239149e-01,
    1.818357216161805012e-01,
    1.479819860511658591e-01,
)
_LOG_ODD: Final = (3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01)
"""Minimax coefficients of ln((1+s)/(1-s)) in s^2: those of s^2, s^6, ... and those of s^4, s^8, ..."""

_EXP: Final = (
    1.66666666666666657415e-01,
    -2.77777777770155933842e-03,
    6.61375632143793436117e-05,
    -1.65339022054652515390e-06,
    4.13813679705723846039e-08,
)
"""Minimax coefficients of r(e^r + 1)/(e^r - 1) in r^2."""

_SMALLEST_EXPONENT: Final = -1074.0


def _polynomial(coefficients: tuple[float, ...], x: Floats) -> Floats:
    """Evaluate by Horner's rule, constant first; the order of operations decides the last bit."""
    result = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        result += coefficient
        result *= x
    result += coefficients[0]
    return result


def log(values: Floats) -> Floats:
    """Return natural logarithms as Go's ``math.Log``.

    Args:
        values: Positive, finite, not denormal; any shape.
    """
    fraction, exponent = np.frexp(values)
    is_small = fraction <= _HALF_SQRT2
    k = exponent - is_small.astype(np.float64)
    f = fraction * (1.0 + is_small) - 1.0  # values = 2^k (1 + f), sqrt(1/2) < 1 + f <= sqrt(2)
    s = f / (2.0 + f)
    s2 = s * s
    s4 = s2 * s2
    remainder = s2 * _polynomial(_LOG_EVEN, s4) + s4 * _polynomial(_LOG_ODD, s4)
    half_square = 0.5 * f * f
    logarithms: Floats = k * _LN2_HIGH - ((half_square - (s * (half_square + remainder) + k * _LN2_LOW)) - f)
    return logarithms


def exp2(exponents: Floats) -> Floats:
    """Return powers of two as Go's ``math.Exp2``; 0 below the smallest number.

    Args:
        exponents: At most 1023; any shape.
    """
    k = np.trunc(exponents + np.copysign(0.5, exponents))
    t = exponents - k
    high = t * _LN2_HIGH
    low = -t * _LN2_LOW
    r = high - low
    r2 = r * r
    c = r - r2 * _polynomial(_EXP, r2)
    fraction = 1.0 - ((low - (r * c) / (2.0 - c)) - high)
    powers: Floats = np.ldexp(fraction, np.maximum(k, 2.0 * _SMALLEST_EXPONENT).astype(np.int32))
    return np.where(exponents < _SMALLEST_EXPONENT, 0.0, powers)


def whole_power(base: float, exponent: int) -> float:
    """Return ``base ** exponent`` as Go's ``math.Pow``: by squaring a fraction in [0.5, 1), powers of two kept apart.

    Args:
        base: Positive, finite.
        exponent: 1 or more.

    Raises:
        OverflowError: The power is no 64-bit float.
    """
    if exponent == 1:
        return base
    square, square_exponent = math.frexp(base)
    fraction, power_exponent = 1.0, 0
    while exponent:
        if exponent & 1:
            fraction *= square
            power_exponent += square_exponent
        square *= square
        square_exponent *= 2
        if square < 0.5:
            square += square
            square_exponent -= 1
        exponent >>= 1
    return math.ldexp(fraction, power_exponent)
