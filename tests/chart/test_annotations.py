"""The README's table of annotations: every one that the program reads or writes, and no other."""

from __future__ import annotations

import importlib
import pkgutil
import re

import agent
from agent.core.orders.annotations import KNOWN, PREFIX
from tests.image.cache import REPOSITORY

NO_ANNOTATIONS = {
    "agent": "the agent, as Events name who reports",
    "buffers": "the controller of buffers, as Events name who reports",
    "placeholder": "a label of placeholder pods",
    "buffer-uid": "a label of placeholder pods",
    "placeholder-pods": "a strategy of buffers",
    "managed": "a label of VerticalPodAutoscalers that Plimsoll made",
}
"""What else begins with the prefix, and what it is."""


def documented() -> set[str]:
    """Return the names in the first column: ``PREFIXa``, ``b`` there stands for ``PREFIXb`` too."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| annotation \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.M)
    cells = [row.split("|")[1] for row in table.splitlines()]
    return {name.removeprefix(PREFIX) for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def in_the_program() -> set[str]:
    """Return every constant of a module that is a name of ours."""
    names = set()
    for module in pkgutil.walk_packages(agent.__path__, "agent."):
        # Programs, and what alembic alone may load, name none.
        if module.name.endswith("__main__") or ".migrations." in module.name:
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, str) and re.fullmatch(re.escape(PREFIX) + r"[a-z-]+", value):
                names.add(value.removeprefix(PREFIX))
    return names


def test_the_table_has_every_annotation_and_no_other() -> None:
    assert documented() == in_the_program() - NO_ANNOTATIONS.keys()
    assert {name.removeprefix(PREFIX) for name in KNOWN} <= documented()


def test_what_is_called_no_annotation_is_there() -> None:
    assert in_the_program() >= NO_ANNOTATIONS.keys()
