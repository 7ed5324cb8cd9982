"""The keys of the settings as data, read from the dataclasses: names, types, ranges, help."""

from __future__ import annotations

import functools
import math
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, get_args, get_type_hints
from urllib.parse import urlsplit

from agent.core.numbers.allowed_range import Between, Unset, Words
from agent.core.orders.profile import PROFILE_VALUES, value_text
from agent.settings.sections import Settings, camel

PREFIX: Final = "PLIMSOLL_"
RELATIVE_FILES: Final = ("pods_file", "kubeconfig")
"""Files that a person names may be relative to where they stand."""
_OBJECT_PLACE: Final = re.compile(r"[a-z0-9][-a-z0-9]{0,62}/[a-z0-9][-a-z0-9.]{0,252}")
"""A namespace and a name below it, as Kubernetes spells them."""
SOCKET_PATH_MAX_BYTES: Final = 107
"""``sun_path`` of unix(7) is 108 bytes with its NUL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What a field's annotation says of it."""

    owner: type
    section: str
    name: str
    kind: type
    optional: bool
    between: Between | None
    unset: Unset | None
    words: Words | None = None

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return PREFIX + (f"{self.section}_" if self.section else "").upper() + self.name.upper()

    @property
    def is_object_place(self) -> bool:
        """Return whether it names an object of a namespace."""
        return self.name == "cluster_pause_config_map"

    @property
    def is_webhook_url(self) -> bool:
        """Return whether it is where the agent reports to."""
        return (self.section, self.name) == ("report", "url")

    def to_value(self, raw: object, *, is_text: bool) -> object:
        """Turn what a source holds into the field's type, or raise ValueError (its text, if any, is the reason)."""
        if self.unset and raw == "none" and self.unset.none_means:
            return None
        if issubclass(self.kind, StrEnum):
            if isinstance(raw, bool):  # how YAML reads on and off
                raw = "on" if raw else "off"
            if raw not in list(self.kind):
                raise ValueError
            return self.kind(str(raw))
        if self.kind is bool:
            if is_text and isinstance(raw, str):
                raw = {"true": True, "1": True, "false": False, "0": False}.get(raw.strip().lower(), raw)
            if not isinstance(raw, bool):
                raise ValueError
            return raw
        if self.words and isinstance(raw, str) and raw in self.words.values:
            return self.words.values[raw]
        if self.kind in (int, float):
            return self._to_number(raw, is_text=is_text)
        if not isinstance(raw, str) or not raw or "\0" in raw:
            raise ValueError
        return self._to_path(raw) if self.kind is Path else self._to_text(raw)

    def _to_number(self, raw: object, *, is_text: bool) -> int | float:
        if is_text and isinstance(raw, str):
            try:
                raw = int(raw) if self.kind is int else float(raw)
            except ValueError:
                raise ValueError from None
        if isinstance(raw, bool) or not isinstance(raw, (int, float)):
            raise ValueError  # noqa: TRY004 - a wrong value of a setting, whatever its type
        # The range first: a whole number too large for a float is outside any, and isfinite cannot take it.
        if (self.between and not self.between.low <= raw <= self.between.high) or not math.isfinite(raw):
            raise ValueError
        if self.kind is int:
            if raw != int(raw):
                raise ValueError
            return int(raw)
        return float(raw)

    def _to_path(self, raw: str) -> Path:
        if not raw.startswith("/"):
            if self.name not in RELATIVE_FILES:
                raise ValueError("not absolute")
            return Path(raw)
        if self.name == "socket" and len(os.fsencode(raw)) > SOCKET_PATH_MAX_BYTES:
            raise ValueError(f"longer than {SOCKET_PATH_MAX_BYTES} bytes")
        return Path(raw)

    def _to_text(self, raw: str) -> str:
        if self.name == "root" and (not raw.startswith("/") or ".." in raw.split("/")):
            raise ValueError
        if self.is_webhook_url and not _is_https(raw):
            raise ValueError
        if any(character.isspace() for character in raw):
            raise ValueError
        if self.is_object_place and not _OBJECT_PLACE.fullmatch(raw):
            raise ValueError
        return raw

    def allowed(self) -> str:
        """Return in words what may stand here."""
        if issubclass(self.kind, StrEnum):
            return ", ".join(self.kind)
        if self.kind is bool:
            return "true, false"
        if self.between:
            noun = "a whole number" if self.kind is int else "a number"
            noun += f" from {shown(self.between.low)} to {shown(self.between.high)}"
            noun += f", {self.words}" if self.words else ""
            return noun + (f", none ({self.unset.none_means})" if self.unset and self.unset.none_means else "")
        noun = (
            "a path"
            if self.name in RELATIVE_FILES
            else "an absolute path"
            if self.kind is Path
            else "text without spaces"
        )
        if self.name == "root":
            noun = "an absolute path inside the tree, without .."
        if self.is_object_place:
            noun = "NAMESPACE/NAME"
        if self.is_webhook_url:
            noun = "https://HOST[:PORT][/PATH]"
        if self.unset:
            noun += ", auto" + (f", none ({self.unset.none_means})" if self.unset.none_means else "")
        return noun


def _is_https(text: str) -> bool:
    """Return whether a text is an https URL without user, query or fragment: a token is sent there, and only there."""
    try:
        address = urlsplit(text)
        port = address.port
        (address.hostname or "").encode("idna")  # a name that no resolver takes: an empty label, or too long a one
    except ValueError:
        return False
    plain = not (address.query or address.fragment or "@" in address.netloc)
    return address.scheme == "https" and bool(address.hostname) and port != 0 and plain


@functools.cache
def keys(root: type = Settings) -> dict[str, Key]:
    """Return every setting of a dataclass of sections by its key in the file; read from the dataclasses once."""
    specs: dict[str, Key] = {}
    for section_name, kind in get_type_hints(root, include_extras=True).items():
        if is_dataclass(kind) and isinstance(kind, type):
            for name, annotation in get_type_hints(kind, include_extras=True).items():
                specs[f"{camel(section_name)}.{camel(name)}"] = _key_of(kind, section_name, name, annotation)
        else:
            specs[camel(section_name)] = _key_of(root, "", section_name, kind)
    return specs


def _key_of(owner: type, section: str, name: str, annotation: object) -> Key:
    marks: tuple[object, ...] = getattr(annotation, "__metadata__", ())
    bare = getattr(annotation, "__origin__", annotation) if marks else annotation
    kinds = [kind for kind in get_args(bare) if kind is not type(None)]
    kind = kinds[0] if kinds else bare
    if not isinstance(kind, type):
        raise TypeError(f"{owner.__name__}.{name}: a setting of type {annotation!r} is not understood")
    return Key(
        owner=owner,
        section=section,
        name=name,
        kind=kind,
        optional=bool(kinds),
        between=next((mark for mark in marks if isinstance(mark, Between)), None),
        unset=next((mark for mark in marks if isinstance(mark, Unset)), None),
        words=next((mark for mark in marks if isinstance(mark, Words)), None),
    )


def _default_of(spec: Key) -> object:
    return next(field_.default for field_ in fields(spec.owner) if field_.name == spec.name)


def shown(value: object) -> str:
    """Write a value as the file would hold it, on one line and not endless."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return str(int(value))
    if value is None:
        return "nothing"
    try:
        text = str(value) if isinstance(value, (StrEnum, Path, int, float)) else repr(value)
    except ValueError:  # Python writes no whole number of more than 4300 digits, and YAML has them in hexadecimal
        return "a number of thousands of digits"
    return text if len(text) <= 80 else text[:77] + "..."


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDoc:
    """One setting as help shows it."""

    key: str
    variable: str
    default: str
    allowed: str
    text: str
    of_profile: tuple[tuple[str, str], ...] = ()
    """Profile and what it sets instead of the default."""

    @property
    def by_profile(self) -> str:
        """Return the same in words: ``; profile document: literal``; empty = no profile sets it."""
        return "".join(f"; profile {profile}: {value}" for profile, value in self.of_profile)


@functools.cache
def describe_settings(root: type = Settings) -> tuple[SettingDoc, ...]:
    """List every setting with its names, default, allowed values and reason, in the order of the file."""
    specs = keys(root)
    texts = _field_docstrings({spec.owner.__module__ for spec in specs.values()})
    return tuple(
        SettingDoc(
            key=key,
            variable=spec.variable,
            default=spec.unset.default if spec.unset else shown(_default_of(spec)),
            allowed=spec.allowed(),
            text=texts[spec.owner.__name__, spec.name],
            of_profile=tuple(
                (profile, value_text(values[key])) for profile, values in PROFILE_VALUES.items() if key in values
            ),
        )
        for key, spec in specs.items()
    )


def settings_help(root: type = Settings) -> str:
    """Write ``describe_settings`` as text for a terminal, two lines and a reason for each setting."""
    return "\n".join(
        f"{doc.key}  ({doc.variable})\n"
        f"    default {doc.default}{doc.by_profile}; allowed: {doc.allowed}\n"
        f"    {doc.text}"
        for doc in describe_settings(root)
    )


def _field_docstrings(modules: Iterable[str]) -> dict[tuple[str, str], str]:
    """Read the docstring under each field from the sources of the dataclasses; Python keeps none at run time."""
    import ast  # for help texts only
    import inspect

    texts: dict[tuple[str, str], str] = {}
    sources = (inspect.getsource(sys.modules[module]) for module in sorted(modules))
    for statement in (node for source in sources for node in ast.parse(source).body):
        if not isinstance(statement, ast.ClassDef):
            continue
        for member, following in zip(statement.body, statement.body[1:], strict=False):
            if (
                isinstance(member, ast.AnnAssign)
                and isinstance(member.target, ast.Name)
                and isinstance(following, ast.Expr)
                and isinstance(following.value, ast.Constant)
                and isinstance(following.value.value, str)
            ):
                texts[statement.name, member.target.id] = " ".join(following.value.value.split())
    return texts
