"""The resources that are sized, and the largest amount of one that is believed."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

LARGEST: Final = float(1 << 53)
"""Whole numbers are exact in a float up to here: 9 PB of memory, 9e12 cores. Larger answers are cut to it."""


class Resource(StrEnum):
    """What is bounded, as ``Step.resource`` spells it."""

    CPU = "cpu"
    MEMORY = "memory"

    @property
    def unit(self) -> str:
        """Return the unit as ``Step.unit`` spells it."""
        return "millicores" if self is Resource.CPU else "bytes"
