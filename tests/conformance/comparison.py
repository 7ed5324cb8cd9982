"""Compares what a case expects with what came out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STARTS_WITH = "_starts_with"
"""End of a key that asks for the beginning of a text only: ``message_starts_with`` is about ``message``."""
ERROR = "error"
"""Expected to be true, it asks for some error, whatever its words."""


class ToleranceError(ValueError):
    """A tolerance that is neither a number nor an object of ``abs`` and ``rel``."""


class Tolerance:
    """How far a number may be off: by the larger of an absolute and a relative amount; 0 = exact."""

    def __init__(self, absolute: float = 0.0, relative: float = 0.0) -> None:
        self.absolute = absolute
        self.relative = relative

    @classmethod
    def of(cls, value: Any) -> Tolerance:
        if _is_number(value) and value >= 0:
            return cls(absolute=float(value))
        if isinstance(value, Mapping) and set(value) <= {"abs", "rel"} and all(map(_is_number, value.values())):
            return cls(absolute=float(value.get("abs", 0.0)), relative=float(value.get("rel", 0.0)))
        raise ToleranceError(f"tolerance {value!r} is not allowed (0, a number, or an object of abs and rel)")

    def accepts(self, expected: float, got: float) -> bool:
        if expected == got or float(expected) == float(got):  # a large double may be written as a whole number
            return True
        allowed = max(self.absolute, self.relative * abs(expected))
        return allowed > 0 and abs(got - expected) <= allowed


def is_as_expected(expected: Any, got: Any, tolerance: Tolerance) -> bool:
    """Return whether all that ``expected`` lists is so in ``got``; what it does not list is not compared."""
    if isinstance(expected, Mapping):
        # An object that lists nothing asks for nothing, not even for an object.
        if not expected and got is None:
            return True
        return isinstance(got, Mapping) and all(
            _is_entry_as_expected(key, value, got, tolerance) for key, value in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(got, list | tuple)
            and len(got) == len(expected)
            and all(is_as_expected(item, other, tolerance) for item, other in zip(expected, got, strict=True))
        )
    if expected is None and isinstance(got, Mapping):
        # An object that says nothing of anything is as good as none.
        return bool(got) and all(value is None for value in got.values())
    if _is_number(expected):
        return _is_number(got) and tolerance.accepts(expected, got)
    return type(expected) is type(got) and bool(expected == got)


def _is_entry_as_expected(key: str, expected: Any, got: Mapping[str, Any], tolerance: Tolerance) -> bool:
    if key.endswith(STARTS_WITH) and key not in got:
        text = got.get(key.removesuffix(STARTS_WITH))
        return isinstance(text, str) and isinstance(expected, str) and text.startswith(expected)
    if key == ERROR and expected is True and isinstance(got.get(key), str):
        return bool(got[key])
    return key in got and is_as_expected(expected, got[key], tolerance)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
