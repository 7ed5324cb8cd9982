"""YAML as tests read it: by libyaml where PyYAML has it, ten times as quick as in Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import yaml

_LOADER: Final[type[Any]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(text: str) -> Any:
    """Return the one document of a text; None = it is empty."""
    return yaml.load(text, Loader=_LOADER)  # noqa: S506 - safe, either of them


def load_all(text: str) -> Iterator[Any]:
    """Give the documents of a text; None for each that is empty."""
    return yaml.load_all(text, Loader=_LOADER)
