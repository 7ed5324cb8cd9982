"""The names and forms that users build on, held to what is kept: a change of one is wanted, or it is a fault.

A wanted change is taken by ``.venv/bin/python -m tests.goldens accept``; the diff of tests/data/goldens/surface then
tells a reviewer what users meet.
"""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import pytest

from tests.goldens.command import Tree
from tests.goldens.places import SURFACE
from tests.goldens.surface import surface_of

FILES = sorted(path.name for path in SURFACE.iterdir())
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def surface() -> dict[str, str]:
    return surface_of(Tree(ROOT, Path(sys.executable)))


def test_the_kept_files_are_those_that_are_written(surface: dict[str, str]) -> None:
    assert sorted(surface) == FILES


@pytest.mark.parametrize("name", FILES)
def test_no_name_and_no_form_changes_by_accident(surface: dict[str, str], name: str) -> None:
    golden_lines = (SURFACE / name).read_text(encoding="utf-8").splitlines()
    changed = list(difflib.unified_diff(golden_lines, surface[name].splitlines(), "kept", "now", lineterm="", n=0))
    assert not changed, "\n".join([*changed[:30], "if it is wanted: .venv/bin/python -m tests.goldens accept"])
