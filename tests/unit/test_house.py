"""The rule of the house: every room says what it is, none is too full, and a name means one thing."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

import agent

pytestmark = pytest.mark.slow  # all of agent/ is parsed

AGENT: Final = Path(agent.__file__).parent
MOST_MODULES: Final = 20
"""In one folder: more are not seen at a glance."""
MOST_PARAMETERS: Final = 8
"""Of a constructor."""


@cache
def modules() -> dict[Path, ast.Module]:
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(AGENT.rglob("*.py"))}


def constructors() -> Iterator[tuple[str, ast.FunctionDef]]:
    for tree in modules().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield from (
                    (node.name, method)
                    for method in node.body
                    if isinstance(method, ast.FunctionDef) and method.name == "__init__"
                )


def test_no_folder_has_too_many_modules() -> None:
    counts = Counter(file.parent for file in modules() if file.name != "__init__.py")
    assert {str(folder): count for folder, count in counts.items() if count > MOST_MODULES} == {}


def test_each_room_says_what_it_is_what_it_may_import_and_what_it_never_does() -> None:
    texts = {
        file.parent: ast.get_docstring(tree) or "" for file, tree in modules().items() if file.name == "__init__.py"
    }
    assert {file.parent for file in modules()} == texts.keys()
    rooms = {folder: text for folder, text in texts.items() if folder != AGENT}
    assert [str(folder) for folder, text in rooms.items() if len(text.splitlines()) < 3] == []


def test_a_public_class_has_its_name_to_itself() -> None:
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for file, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(file.relative_to(AGENT)))
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


def test_no_constructor_takes_too_many_parameters() -> None:
    counts = [
        (name, len(constructor.args.posonlyargs) + len(constructor.args.args) - 1 + len(constructor.args.kwonlyargs))
        for name, constructor in constructors()
    ]
    assert counts
    assert [(name, count) for name, count in counts if count > MOST_PARAMETERS] == []
