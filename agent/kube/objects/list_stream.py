"""Lists of the API read item by item: a whole list as Python objects would cost many times its text. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from agent.absent_module import absent

with absent("typing_extensions"):  # 3 MiB for names that msgspec finds in Python's own typing as well
    import msgspec


class ListError(ValueError):
    """A text that is no list of the API, or is cut off; the message is one line."""


@dataclass(frozen=True, slots=True)
class ListHead:
    """What a list says of itself."""

    version: str | None
    """``metadata.resourceVersion``; None = it has none."""
    next_page: str | None
    """``metadata.continue``: what to ask the next page with; None = this is the last."""


class _List(msgspec.Struct):
    kind: str
    metadata: object = None
    items: list[msgspec.Raw] | None = None
    """Views of the text: nothing of it is copied, and one item at a time becomes Python objects."""


_LIST: Final = msgspec.json.Decoder(_List)


def read_list(text: bytes, take: Callable[[object], None]) -> ListHead:
    """Pass the items of a list to ``take`` one by one.

    Args:
        take: Is given each item in order; what it raises goes through.

    Returns:
        What the list says of itself.

    Raises:
        ListError: It is something else; what was handed over already is not to be believed.
    """
    try:
        page = _LIST.decode(text)
    except (ValueError, RecursionError) as error:
        raise _no_list(_fault(error)) from error
    if not page.kind.endswith("List"):
        raise _no_list(f"kind is {page.kind!r}")
    for index, item in enumerate(page.items or ()):
        try:
            value = lenient_value(item)
        except (ValueError, RecursionError) as error:
            raise _no_list(f"items[{index}]: {_fault(error)}") from error
        take(value)
    metadata = page.metadata if isinstance(page.metadata, Mapping) else {}
    return ListHead(_text(metadata.get("resourceVersion")), _text(metadata.get("continue")))


def lenient_value(text: bytes) -> object:
    """Return the value of a JSON text; what is odd in one object (no UTF-8, 1e999) must not hide the others."""
    value: object
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        value = json.loads(bytes(text).decode("utf-8", errors="replace"))
    return value


def _fault(error: ValueError | RecursionError) -> str:
    # The words of Python 3.14 are of its stack, with so many kB used of it.
    return "nested too deep" if isinstance(error, RecursionError) else str(error)


def _no_list(why: str) -> ListError:
    return ListError(f"not a list of the API: {why}"[:200])


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
