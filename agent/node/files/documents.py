"""The written form of what the node tells: frozen dataclasses to JSON and back, with a format's name and version.

Node. Values in, values out: no socket, no file, no clock. The shape follows the dataclasses, so that a field added
there travels without a word here; a format's version rises when a field changes its meaning or goes away.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import Final, Generic, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from agent.core.machine.cluster_checkup import ClusterStatus
from agent.core.numbers.later_field import is_later
from agent.core.plan.plan import Plan
from agent.core.recommender.recommendation import Recommendations
from agent.core.resize.decision import Decision, Decisions
from agent.core.resize.why import Whys
from agent.core.window.snapshot import Snapshot

_Decoder = Callable[[object, str], object]
Kind = TypeVar("Kind")


class DocumentFormatError(ValueError):
    """A document of another format or version; the message names the place, the value and what belongs."""


@dataclass(frozen=True, slots=True)
class Document(Generic[Kind]):
    """One kind of document: a dataclass with a name and a version in front."""

    kind: type[Kind]
    name: str
    """The last word of ``format``, and where a fault is told to be."""
    version: int

    @property
    def format(self) -> str:
        """Return what stands under ``format``."""
        return f"plimsoll-{self.name}"

    def to_json(self, value: Kind) -> dict[str, object]:
        """Return the document: plain dicts, lists, numbers and strings."""
        kind: type = self.kind
        document: dict[str, object] = {"format": self.format, "version": self.version}
        for name in _names(kind):
            document[name] = _encode(getattr(value, name))
        return document

    def from_json(self, document: object) -> Kind:
        """Return the value back; ``from_json(to_json(value)) == value`` for every field.

        Args:
            document: What ``json.loads`` made of the text.

        Raises:
            DocumentFormatError: Another format or version, a field too many or too few, a value of a wrong type.
        """
        if not isinstance(document, Mapping):
            _refuse(self.name, document, "a JSON object")
        if document.get("format") != self.format:
            _refuse(f"{self.name}.format", document.get("format"), repr(self.format))
        if document.get("version") != self.version:
            wanted = f"{self.version} (are the agent and this command of one release?)"
            _refuse(f"{self.name}.version", document.get("version"), wanted)
        body = {key: value for key, value in document.items() if key not in ("format", "version")}
        kind: type = self.kind
        value = _decoder(kind)(body, self.name)
        if not isinstance(value, self.kind):  # for the type checker: _decoder(T) builds a T
            _refuse(self.name, document, f"a {self.name}")
        return value


SNAPSHOT: Final = Document(Snapshot, "snapshot", 1)
"""What the socket answers to ``snapshot`` and ``top -o json`` prints."""
RECOMMENDATIONS: Final = Document(Recommendations, "recommendations", 1)
"""What the socket answers to ``recommend`` and ``recommend -o json`` prints."""
WHYS: Final = Document(Whys, "explanations", 1)
"""What the socket answers to ``why`` and ``why -o json`` prints."""
PLAN: Final = Document(Plan, "plan", 1)
"""What the socket answers to ``plan`` and ``plan -o json`` prints."""
DECISION: Final = Document(Decision, "decision", 1)
"""One line of the decision log's file."""
DECISIONS: Final = Document(Decisions, "decisions", 1)
"""What the socket answers to ``events`` and ``events -o json`` prints."""
CLUSTER: Final = Document(ClusterStatus, "cluster", 1)
"""What the socket answers to ``cluster``, for ``doctor``."""


def _refuse(place: str, value: object, wanted: str) -> NoReturn:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    raise DocumentFormatError(f"{place}: {shown} is not {wanted}")


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
    raise TypeError(f"a {type(value).__name__} has no written form")


@cache
def _decoder(annotation: object) -> _Decoder:
    """Build the reader of one type; made once per type, kept."""
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
    if annotation is bool:
        return _read_bool
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return _member_of(annotation)
    if isinstance(annotation, type) and is_dataclass(annotation):
        return _record_of(annotation)
    raise TypeError(f"a document has a field of type {annotation!r}, which has no written form")


def _read_float(value: object, place: str) -> float:
    # Not isfinite, which cannot take a whole number of hundreds of digits.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
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


def _read_bool(value: object, place: str) -> bool:
    if not isinstance(value, bool):
        _refuse(place, value, "true or false")
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
    required = known - {field.name for field in fields(kind) if is_later(field)}

    def read(value: object, place: str) -> object:
        if not isinstance(value, Mapping):
            _refuse(place, value, "an object")
        if not required <= value.keys() <= known:
            unknown = sorted(str(key) for key in value.keys() - known)
            absent = sorted(required - value.keys())
            raise DocumentFormatError(f"{place}: unknown fields {unknown}, absent fields {absent}")
        built: object = kind(
            **{name: read_field(value[name], f"{place}.{name}") for name, read_field in readers if name in value}
        )
        return built

    return read
