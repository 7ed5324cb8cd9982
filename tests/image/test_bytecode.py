"""What the image's modules are compiled to."""

from __future__ import annotations

import marshal
import sys
from pathlib import Path
from typing import Any

from tests.image.bytecode import compile_below

TEXT = '''"""A module."""

def answer(asked):
    """Answer."""
    assert asked, "asserted"
    return "kept"
'''


def run(code: Any) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "read"}
    exec(code, names)  # noqa: S102 - our own text
    return names


def compiled(folder: Path) -> bytes:
    return (folder / f"__pycache__/module.{sys.implementation.cache_tag}.pyc").read_bytes()[16:]


def test_others_modules_are_compiled_without_docstrings_and_assertions_and_ours_with_both(tmp_path: Path) -> None:
    for folder in ("agent/rooms", "numpy"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "module.py").write_text(TEXT)
    assert compile_below(tmp_path, tmp_path) == 2
    ours, theirs = (run(marshal.loads(compiled(tmp_path / folder))) for folder in ("agent/rooms", "numpy"))  # noqa: S302
    assert (ours["__doc__"], ours["answer"].__doc__) == ("A module.", "Answer.")
    assert (theirs.get("__doc__"), theirs["answer"].__doc__) == (None, None)
    assert "asserted" in ours["answer"].__code__.co_consts
    assert "asserted" not in theirs["answer"].__code__.co_consts
    assert theirs["answer"](False) == "kept"
