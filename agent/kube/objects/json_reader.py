"""Typed reading of JSON or YAML from outside; an error names the path to a value, the value, and what is allowed.

Pure: text and files are others' business. ``pod_json`` and its neighbours know what stands where.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, Self, TypeVar

from agent.core.numbers.quantity import ALLOWED, QuantityError, cut_quantity

_T = TypeVar("_T")
_Choice = TypeVar("_Choice", bound=StrEnum)

_OBJECTS: Final = (dict, Mapping)
"""A dict first: asking one whether it is a Mapping takes longer."""
_LARGEST: Final = 1e300
"""Of a number that is to be reckoned with."""
_TIME_FORM: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)\Z", re.ASCII)


class ConvertError(ValueError):
    """A value that is not what the Kubernetes API would give; the message is one line."""


class Reader:
    """One object of the document, and where it stands there."""

    __slots__ = ("_above", "_name", "_value")

    def __init__(self, value: object, name: str, above: Reader | None = None) -> None:
        """Begin at an object; ``name`` is its path, from the object above it where there is one."""
        self._name, self._above = name, above
        if not isinstance(value, _OBJECTS):
            msg = f"{self._path or 'document'}: {shown(value)} is not an object"
            raise ConvertError(msg)
        for key in value:
            if not isinstance(key, str):
                msg = f"{self._path or 'document'}: key {shown(key)} is not allowed (a text)"
                raise ConvertError(msg)
        self._value: Mapping[str, object] = value

    @property
    def _path(self) -> str:
        # Put together when an error asks: a list of pods has millions of objects, and few faults.
        return self._name if self._above is None else self._above.at(self._name)

    def at(self, key: str) -> str:
        """Return the path to a key of this object."""
        path = self._path
        return f"{path}.{key}" if path else key

    def error(self, key: str, value: object, allowed: str) -> ConvertError:
        """Make the error for a value; None = it is missing."""
        if value is None:
            return ConvertError(f"{self.at(key)}: missing ({allowed})")
        return ConvertError(f"{self.at(key)}: {shown(value)} is not allowed ({allowed})")

    def contents(self) -> Mapping[str, object]:
        """Return the object as it came."""
        return self._value

    def has(self, key: str) -> bool:
        """Return whether there is a value; null is none."""
        return self._value.get(key) is not None

    def text(self, key: str) -> str | None:
        """Return a text; absent, null and empty are the same to the API."""
        value = self._value.get(key)
        if value is not None and not isinstance(value, str):
            raise self.error(key, value, "a text")
        return value or None

    def any_text(self, key: str) -> str | None:
        """Return a text that may be a secret: what is no text is passed over, and in no error; None = there is none."""
        value = self._value.get(key)
        return value if isinstance(value, str) else None

    def any_texts(self, key: str) -> list[str]:
        """Return the texts of a list of such; an absent one is empty."""
        value = self._value.get(key)
        return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []

    def required_text(self, key: str) -> str:
        """Return a text that must be there."""
        value = self.text(key)
        if value is None:
            raise self.error(key, None, "a text that is not empty")
        return value

    def whole(self, key: str) -> int | None:
        """Return a whole number; None = absent."""
        value = self._value.get(key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise self.error(key, value, "a whole number")

    def number(self, key: str) -> float | None:
        """Return a finite number; None = absent."""
        value = self._value.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
            raise self.error(key, value, "a finite number")
        return float(value)

    def wholes(self, key: str) -> dict[str, int]:
        """Return an object of whole numbers; an absent one is empty."""
        child = self.child(key)
        return {name: child.whole(name) or 0 for name in child._value}

    def flag(self, key: str) -> bool:
        """Return true or false; absent is false."""
        value = self._value.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise self.error(key, value, "true or false")

    def choice(self, key: str, kind: type[_Choice]) -> _Choice | None:
        """Return one of a closed set of texts; None = absent."""
        value = self.text(key)
        if value is None:
            return None
        try:
            return kind(value)
        except ValueError:
            raise self.error(key, value, ", ".join(kind)) from None

    def child(self, key: str) -> Self:
        """Return an object; an absent one is empty."""
        value = self._value.get(key)
        return type(self)({} if value is None else value, key, self)

    def items(self, key: str) -> list[Self]:
        """Return the objects of a list; an absent one is empty."""
        value = self._value.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(key, value, "a list")
        return [type(self)(item, f"{key}[{index}]", self) for index, item in enumerate(value)]

    def texts(self, key: str) -> dict[str, str]:
        """Return an object of texts, such as labels; an absent one is empty."""
        child = self.child(key)
        return {name: child.text(name) or "" for name in child._value}

    def quantity(self, key: str) -> int:
        """Return a Quantity in nanos; it must be there."""
        value = self._value.get(key)
        if not isinstance(value, str):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise self.error(key, value, ALLOWED)
            value = str(value)
        try:
            return cut_quantity(value)  # as the API server's own Value() is
        except QuantityError as error:
            msg = f"{self.at(key)}: {error}"
            raise ConvertError(msg) from None

    def amounts(self, key: str) -> dict[str, int]:
        """Return an object of Quantities in nanos; an absent one is empty."""
        child = self.child(key)
        return {name: child.quantity(name) for name in child._value}

    def optional(self, key: str, read: Callable[[str], _T]) -> _T | None:
        """Read what is there; None = absent."""
        return read(key) if self.has(key) else None

    def listed_texts(self, key: str) -> list[str]:
        """Return a list of texts; an absent one is empty."""
        value = self._value.get(key) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(key, value, "a list of texts")
        return value

    def unix_seconds(self, key: str) -> float | None:
        """Return a time, which ``whole_time`` can write; the API writes RFC 3339."""
        value = self.text(key)
        if value is None:
            return None
        try:
            moment = datetime.fromisoformat(value) if _TIME_FORM.match(value) else None
            seconds = None if moment is None else moment.timestamp()
            if seconds is not None:
                datetime.fromtimestamp(seconds, UTC)  # in UTC, or rounded, it may be in year 0 or 10,000
        except (ValueError, OverflowError):
            seconds = None
        if seconds is None:
            raise self.error(key, value, "a time such as 2026-01-31T12:00:00Z")
        return seconds


def whole_time(unix_seconds: float) -> str:
    """Return a time as the API writes a Time: in whole seconds."""
    # Not strftime: its %Y writes year 1 with one digit.
    return datetime.fromtimestamp(unix_seconds, UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def micro_time(unix_seconds: float) -> str:
    """Return a time as the API writes a MicroTime."""
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def shown(value: object) -> str:
    """Return a value as part of an error, at most 80 characters; no more of it is written than that."""
    text = repr(value[:81]) if isinstance(value, str) else _SHORT.repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


_SHORT: Final = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxdict, _SHORT.maxlist, _SHORT.maxstring, _SHORT.maxlong, _SHORT.maxother = 3, 8, 8, 80, 80, 80
