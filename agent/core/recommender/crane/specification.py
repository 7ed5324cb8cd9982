"""Specifications of the policy ``crane``: the pairs of CPU and memory that a recommendation may be rounded up to.

Core, pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Final

import numpy as np

from agent.core.numbers.arrays import Bools, Floats
from agent.core.numbers.units import GIB

_NUMBER: Final = re.compile(r"[0-9.]+")


class SpecificationError(ValueError):
    """An entry of a specification list that is no pair of numbers; the message is one line and names it."""


@dataclass(frozen=True, slots=True, order=True)
class Specification:
    """One pair on offer. Sorts by CPU, then memory."""

    cpu_cores: float
    memory_gib: float


DEFAULT_SPECIFICATIONS: Final = tuple(
    Specification(cpu_cores, float(memory_gib))
    for cpu_cores, steps in (
        (0.25, (0.25, 0.5, 1)),
        (0.5, (0.5, 1)),
        (1.0, (1, 2, 4, 8)),
        (2.0, (2, 4, 8, 16)),
        (4.0, (4, 8, 16, 32)),
        (8.0, (8, 16, 32, 64)),
        (16.0, (32, 64, 128)),
        (32.0, (64, 128, 256)),
        (64.0, (128, 256)),
    )
    for memory_gib in steps
)
"""Crane's own list: recommendation/recommender/resource/resource_spec.go."""


def parse_specifications(text: str) -> tuple[Specification, ...]:
    """Read a list such as ``1c2g,0.5c1g``: cores, then GiB; sort it by CPU, then memory.

    Only the numbers of an entry count, whatever stands between and around them, as in Crane.

    Raises:
        SpecificationError: An entry (an empty one, too) does not hold exactly two numbers.
    """
    return tuple(sorted(_parse_specification(entry) for entry in text.split(",")))


def _parse_specification(entry: str) -> Specification:
    wrong = SpecificationError(
        f"specification {entry!r}: exactly two numbers are allowed, cores and GiB, as in 1c2g or 0.5c1g"
    )
    numbers = _NUMBER.findall(entry)
    if len(numbers) != 2:
        raise wrong
    try:
        cpu_cores, memory_gib = map(float, numbers)
    except ValueError as error:  # such as 1.2.3
        raise wrong from error
    if not (math.isfinite(cpu_cores) and math.isfinite(memory_gib)):  # hundreds of digits
        raise wrong
    return Specification(cpu_cores, memory_gib)


class Specifications:
    """A list to round up to.

    Crane prints what it chose with two decimals and reads that text back as a quantity, so a step of 0.125 core becomes
    120 millicores and one that prints as 0.00 is as good as none; a memory step of no whole bytes is rounded up.
    """

    def __init__(self, specifications: Sequence[Specification]) -> None:
        # A step of no CPU is never chosen: Crane goes on looking after it.
        offered = sorted(specification for specification in specifications if specification.cpu_cores > 0)
        self._cpu_cores: Floats = np.array([specification.cpu_cores for specification in offered], dtype=np.float64)
        self._memory_gib: Floats = np.array([specification.memory_gib for specification in offered], dtype=np.float64)
        self._cpu_millicores: Floats = np.array([_printed(cores, 1000) for cores in self._cpu_cores], dtype=np.float64)
        self._memory_bytes: Floats = np.array([_printed(gib, GIB) for gib in self._memory_gib], dtype=np.float64)

    def normalise(self, cpu_millicores: Floats, memory_bytes: Floats) -> tuple[Floats, Floats, Bools]:
        """Round pairs up to the smallest CPU step that offers enough memory, and its smallest such memory.

        Whole numbers, shape ``(n,)``; where no specification fits, which comes third, the amounts are those given.
        """
        if not self._cpu_cores.size:
            return cpu_millicores, memory_bytes, np.zeros(cpu_millicores.shape, dtype=np.bool_)
        fits = (self._cpu_cores >= cpu_millicores[:, None] / 1000.0) & (self._memory_gib >= memory_bytes[:, None] / GIB)
        chosen = np.argmax(fits, axis=1)  # the first: they are sorted
        chosen_millicores, chosen_bytes = self._cpu_millicores[chosen], self._memory_bytes[chosen]
        has_fit = fits.any(axis=1) & (chosen_millicores > 0) & (chosen_bytes > 0)
        cpu_millicores = np.where(has_fit, chosen_millicores, cpu_millicores)
        return cpu_millicores, np.where(has_fit, chosen_bytes, memory_bytes), has_fit


def _printed(amount: float, units: int) -> int:
    """Return an amount in smaller units, after printing it with two decimals; rounded up."""
    return int((Decimal(f"{amount:.2f}") * units).to_integral_value(ROUND_CEILING))
