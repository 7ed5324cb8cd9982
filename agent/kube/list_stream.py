"""Lists of the API read item by item: a whole list as Python objects would cost many times its text. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_ITEMS: Final = "items"


class ListError(ValueError):
    """A text that is no list of the API, or is cut off."""


@dataclass(frozen=True, slots=True)
class ListHead:
    """What a list says of itself."""

    version: str | None
    """``metadata.resourceVersion``; None = it has none."""
    next_page: str | None
    """``metadata.continue``: what to ask the next page with; None = this is the last."""


def read_list(text: str, take: Callable[[object], None]) -> ListHead:
    """Hand over each item of a list as soon as it is parsed.

    Args:
        text: The JSON of a ``PodList`` or the like.
        take: Is given each item in order.

    Raises:
        ListError: It is something else; what was handed over already is not to be believed.
    """
    kind: object = None
    version: object = None
    next_page: object = None
    try:
        at = _expect(text, 0, "{")
        while True:
            key, at = _DECODER.raw_decode(text, _skip(text, at))
            at = _skip(text, _expect(text, at, ":"))
            if key == _ITEMS and text.startswith("[", at):
                at = _read_items(text, at + 1, take)
            else:
                value, at = _DECODER.raw_decode(text, at)
                if key == "kind":
                    kind = value
                elif key == "metadata" and isinstance(value, Mapping):
                    version, next_page = value.get("resourceVersion"), value.get("continue")
            at = _skip(text, at)
            if text.startswith("}", at):
                break
            at = _expect(text, at, ",")
    except (ValueError, RecursionError) as error:
        msg = f"not a list of the API: {error}"
        raise ListError(msg) from error
    if not isinstance(kind, str) or not kind.endswith("List"):
        msg = f"not a list of the API: kind is {kind!r}"
        raise ListError(msg[:200])
    return ListHead(_text(version), _text(next_page))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _read_items(text: str, at: int, take: Callable[[object], None]) -> int:
    at = _skip(text, at)
    if text.startswith("]", at):
        return at + 1
    while True:
        item, at = _DECODER.raw_decode(text, at)
        take(item)
        at = _skip(text, at)
        if text.startswith("]", at):
            return at + 1
        at = _skip(text, _expect(text, at, ","))


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _expect(text: str, at: int, sign: str) -> int:
    at = _skip(text, at)
    if not text.startswith(sign, at):
        msg = f"{sign} expected at character {at}"
        raise ListError(msg)
    return at + 1
