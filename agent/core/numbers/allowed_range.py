"""What may stand in a setting, as marks in a type's annotation: ``Annotated[float, Between(0, 1)]``. Core, pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Between:
    """The range of a number, both ends allowed."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Unset:
    """What a setting is when nothing sets it, in words, and whether ``none`` switches it off."""

    default: str
    none_means: str | None = None


class Words:
    """Words that stand for numbers of a setting, beside numbers themselves: ``Words(lean=10.0, safe=200.0)``."""

    __slots__ = ("values",)

    def __init__(self, **values: float) -> None:
        self.values = values

    def __str__(self) -> str:
        """Return them with their numbers: ``lean (10), safe (200)``."""
        return ", ".join(f"{word} ({value:g})" for word, value in self.values.items())
