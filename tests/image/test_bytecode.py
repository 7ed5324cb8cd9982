"""What the image's modules are compiled to."""

from __future__ import annotations

import ast
import marshal
import sys
from pathlib import Path
from typing import Any

from tests.image.bytecode import compile_below, without_docstrings

TEXT = '''"""A module."""

class Bare:
    """Says something."""

class Holds:
    """Says more."""

    place = "kept"

    def method(self):
        """Only words."""

async def answer(asked):
    """Answer."""
    assert asked, "kept too"
    return "kept as well"
'''


def run(code: Any) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "read"}
    exec(code, names)  # noqa: S102 - our own text
    return names


def test_docstrings_are_taken_out_and_nothing_else() -> None:
    names = run(compile(without_docstrings(ast.parse(TEXT)), "read", "exec"))
    assert names.get("__doc__") is None
    assert [names[name].__doc__ for name in ("Bare", "Holds", "answer")] == [None] * 3
    assert names["Holds"]().method() is names["Holds"].method.__doc__ is None
    assert names["Holds"].place == "kept"
    assert {"kept too", "kept as well"} <= set(names["answer"].__code__.co_consts)


def test_our_own_modules_keep_their_docstrings(tmp_path: Path) -> None:
    for folder in ("agent/rooms", "numpy"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "module.py").write_text(TEXT)
    assert compile_below(tmp_path, tmp_path) == 2
    tag = sys.implementation.cache_tag
    docs = [
        run(marshal.loads((tmp_path / folder / f"__pycache__/module.{tag}.pyc").read_bytes()[16:])).get("__doc__")  # noqa: S302
        for folder in ("agent/rooms", "numpy")
    ]
    assert docs == ["A module.", None]
