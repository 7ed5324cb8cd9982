"""values.schema.json, made of values.yaml, of ``value_rules`` and of the program's own settings with their ranges."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

from agent.settings import Settings
from agent.settings.keys import Key, keys
from agent.webhook.settings import WebhookSettings
from tests.chart.documented_values import documented_values
from tests.chart.value_rules import RULES, Schema

_WORD = r"^\S+$"
_IN_POLICIES = {
    # References and names as the API server takes them: no quotes, as they stand in the fence's expressions.
    "placeholders.image": r"^[^\s\"'`\\]+$",
    "placeholders.priorityClass": "^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$",
}
"""Patterns of settings that the chart puts into policies; the program takes any word."""


def values_schema() -> Schema:
    """Return the whole schema; every object in it is closed."""
    top: Schema = _closed()
    top["properties"]["global"] = {"type": "object", "description": "Of a parent chart; nothing is read from it."}
    for value in documented_values():
        place = top
        for key in value.path[:-1]:
            # A section that is left empty loses its defaults, and templates would speak of nil pointers.
            place["required"] = sorted({*place.get("required", []), key})
            place = place["properties"].setdefault(key, _closed())
        rule = RULES.get(value.key) or {"type": "boolean" if isinstance(value.default, bool) else "string"}
        place["properties"][value.path[-1]] = {"description": value.text, **rule}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart plimsoll",
        **top,
        "$defs": {"settings": settings_schema(Settings), "webhookSettings": settings_schema(WebhookSettings)},
    }


def settings_schema(root: type) -> Schema:
    """Return the schema of a program's settings file."""
    schema = _closed()
    for name, key in keys(root).items():
        section, dot, last = name.rpartition(".")
        place = schema["properties"].setdefault(section, _closed()) if dot else schema
        made_of = setting_schema(key)
        place["properties"][last] = made_of | ({"pattern": _IN_POLICIES[name]} if name in _IN_POLICIES else {})
    return schema


def setting_schema(key: Key) -> Schema:
    """Return the schema of one setting: what ``Key.to_value`` takes from a file."""
    schema = _typed(key)
    if key.unset is None:
        return schema
    words: list[Any] = [None, "auto", *(["none"] if key.unset.none_means else [])]
    return {"anyOf": [schema, {"enum": words}]}


def _typed(key: Key) -> Schema:
    if issubclass(key.kind, StrEnum):
        # As YAML 1.1 reads a bare on or off.
        bare = [value for word, value in (("on", True), ("off", False)) if word in list(key.kind)]
        return {"enum": [*(str(word) for word in key.kind), *bare]}
    if key.kind is bool:
        return {"type": "boolean"}
    if key.kind in (int, float):
        schema: Schema = {"type": "integer" if key.kind is int else "number"}
        if key.between is not None:
            schema |= {"minimum": key.between.low, "maximum": key.between.high}
        return {"anyOf": [schema, {"enum": list(key.words.values)}]} if key.words else schema
    return {"type": "string", "pattern": "^/" if key.kind is Path else _WORD}


def _closed() -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": {}}
