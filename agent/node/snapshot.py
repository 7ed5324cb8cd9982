"""The one written form of a Snapshot: what the socket answers, ``top -o json`` prints and a client reads back.

Node. Values in, values out: no socket, no file, no clock. The shape follows the dataclasses of core.model, so that a
field added there travels without a word here; ``VERSION`` rises when a field changes its meaning or goes away.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import NoReturn, Union, get_args, get_origin, get_type_hints

from agent.core.model import Snapshot

FORMAT = "plimsoll-snapshot"
VERSION = 1

_Decoder = Callable[[object, str], object]


class SnapshotFormatError(ValueError):
    """A document that is not a snapshot of this version; the message names the place, the value and what belongs."""


def to_json(snapshot: Snapshot) -> dict[str, object]:
    """Give the document: plain dicts, lists, numbers and strings, with ``format`` and ``version`` in front."""
    document: dict[str, object] = {"format": FORMAT, "version": VERSION}
    for name in _names(Snapshot):
        document[name] = _encode(getattr(snapshot, name))
    return document


def to_bytes(snapshot: Snapshot) -> bytes:
    """Give the document as one line of ASCII JSON without a newline.

    Raises:
        ValueError: A figure is NaN or infinite: a fault of whoever made the snapshot.
    """
    return json.dumps(to_json(snapshot), allow_nan=False, separators=(",", ":")).encode("ascii")


def from_json(document: object) -> Snapshot:
    """Give the snapshot back; ``from_json(to_json(s)) == s`` for every field.

    Args:
        document: What ``json.loads`` made of the text.

    Raises:
        SnapshotFormatError: Another format or version, a field too many or too few, a value of a wrong type.
    """
    if not isinstance(document, Mapping):
        _refuse("snapshot", document, "a JSON object")
    if document.get("format") != FORMAT:
        _refuse("snapshot.format", document.get("format"), repr(FORMAT))
    if document.get("version") != VERSION:
        _refuse(
            "snapshot.version", document.get("version"), f"{VERSION} (are the agent and this command of one release?)"
        )
    body = {key: value for key, value in document.items() if key not in ("format", "version")}
    snapshot = _decoder(Snapshot)(body, "snapshot")
    if not isinstance(snapshot, Snapshot):  # for the type checker: _decoder(T) builds a T
        _refuse("snapshot", document, "a snapshot")
    return snapshot


def from_bytes(text: bytes) -> Snapshot:
    """Give the snapshot written by ``to_bytes``.

    Raises:
        SnapshotFormatError: Not JSON, or not a snapshot of this version.
    """
    try:
        document: object = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise SnapshotFormatError(f"snapshot: not JSON: {error}") from error
    return from_json(document)


def _refuse(place: str, value: object, wanted: str) -> NoReturn:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    raise SnapshotFormatError(f"{place}: {shown} is not {wanted}")


def _refuse_constant(word: str) -> NoReturn:
    raise SnapshotFormatError(f"snapshot: {word} is no figure; a missing one is null")


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _encode(value: object) -> object:
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _encode(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _encode(getattr(value, name)) for name in _names(type(value))}
    raise TypeError(f"a snapshot holds a {type(value).__name__}, which has no written form")


@cache
def _decoder(annotation: object) -> _Decoder:
    """Build the reader of one type of core.model; made once per type, kept."""
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if origin in (UnionType, Union):
        return _optional(next(part for part in arguments if part is not type(None)))
    if origin is tuple:
        return _tuple_of(arguments[0])
    if origin is Mapping:
        return _mapping_of(arguments[0], arguments[1])
    if annotation is float:
        return _read_float
    if annotation is int:
        return _read_int
    if annotation is str:
        return _read_str
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return _member_of(annotation)
    if isinstance(annotation, type) and is_dataclass(annotation):
        return _record_of(annotation)
    raise TypeError(f"core.model has a field of type {annotation!r}, which has no written form")


def _read_float(value: object, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        _refuse(place, value, "a finite number")
    return float(value)


def _read_int(value: object, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(place, value, "a whole number")
    return value


def _read_str(value: object, place: str) -> str:
    if not isinstance(value, str):
        _refuse(place, value, "a string")
    return value


def _optional(inner: object) -> _Decoder:
    read = _decoder(inner)
    return lambda value, place: None if value is None else read(value, place)


def _member_of(kind: type[StrEnum]) -> _Decoder:
    members = {member.value: member for member in kind}
    allowed = "one of " + ", ".join(members)

    def read(value: object, place: str) -> object:
        if not isinstance(value, str) or value not in members:
            _refuse(place, value, allowed)
        return members[value]

    return read


def _tuple_of(inner: object) -> _Decoder:
    read_item = _decoder(inner)

    def read(value: object, place: str) -> object:
        if not isinstance(value, list):
            _refuse(place, value, "a list")
        return tuple(read_item(item, f"{place}[{index}]") for index, item in enumerate(value))

    return read


def _mapping_of(key_kind: object, value_kind: object) -> _Decoder:
    read_key, read_value = _decoder(key_kind), _decoder(value_kind)

    def read(value: object, place: str) -> object:
        if not isinstance(value, Mapping):
            _refuse(place, value, "an object")
        return {read_key(key, place): read_value(item, f"{place}.{key}") for key, item in value.items()}

    return read


def _record_of(kind: type) -> _Decoder:
    hints = get_type_hints(kind)
    readers = tuple((name, _decoder(hints[name])) for name in _names(kind))
    known = frozenset(_names(kind))

    def read(value: object, place: str) -> object:
        if not isinstance(value, Mapping):
            _refuse(place, value, "an object")
        if value.keys() != known:
            unknown = sorted(str(key) for key in value.keys() - known)
            absent = sorted(known - value.keys())
            raise SnapshotFormatError(f"{place}: unknown fields {unknown}, absent fields {absent}")
        built: object = kind(**{name: read_field(value[name], f"{place}.{name}") for name, read_field in readers})
        return built

    return read
