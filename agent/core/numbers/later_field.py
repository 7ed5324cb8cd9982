"""Fields of a dataclass that what earlier versions wrote down has not: the default stands for them. Core, pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field
from types import MappingProxyType
from typing import Final

_KEY: Final = "later"
LATER: Final[Mapping[str, bool]] = MappingProxyType({_KEY: True})
"""The ``metadata`` of such a field, which has a default."""


def is_later(field: Field[object]) -> bool:
    """Return whether a field may be absent from what was written down."""
    return bool(field.metadata.get(_KEY))
