"""values.yaml as data: every value with its default and the comment above it, which is its documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests import yaml_texts
from tests.chart.value_rules import RULES
from tests.cluster.chart import CHART

VALUES: Final = CHART / "values.yaml"
_KEY: Final = re.compile(r"^(?P<indent> *)(?P<key>[A-Za-z]\w*):")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentedValue:
    """One value that can be set."""

    path: tuple[str, ...]
    default: Any
    text: str
    """Empty = nothing is said of it."""

    @property
    def key(self) -> str:
        return ".".join(self.path)


def documented_values(file: Path = VALUES) -> list[DocumentedValue]:
    """Return every value in the order of the file. What has a rule of its own is one value, whatever it contains."""
    content = yaml_texts.load(file.read_text())
    texts = dict(_comments(file.read_text()))
    return [
        DocumentedValue(path=path, default=default, text=texts.get(path, "")) for path, default in _leaves(content, ())
    ]


def _leaves(content: dict[str, Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in content.items():
        path = (*above, key)
        if isinstance(value, dict) and value and ".".join(path) not in RULES:
            yield from _leaves(value, path)
        else:
            yield path, value


def _comments(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    path: list[str] = []
    lines: list[str] = []
    for line in text.splitlines():
        if line.strip().startswith("#"):
            lines.append(line.strip().lstrip("#").strip())
            continue
        match = _KEY.match(line)
        if match:
            depth = len(match["indent"]) // 2
            path[depth:] = [match["key"]]
            yield tuple(path), " ".join(lines)
        lines.clear()
