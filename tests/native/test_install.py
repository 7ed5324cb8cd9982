"""Building and installing: cffi reads the header itself, and without a compiler the install goes on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from native.build_sampler import DEPENDS, to_cdef
from tests.native.compiling import NATIVE, ROOT


def test_cdef_leaves_values_to_the_compiler_and_keeps_the_rest() -> None:
    header = (NATIVE / "sampler.h").read_text(encoding="utf-8")
    cdef = to_cdef(header)
    macros = re.findall(r"^#define (PL_\w+) (.*)$", cdef, flags=re.MULTILINE)
    assert len(macros) == len(re.findall(r"^#define PL_", header, flags=re.MULTILINE))
    assert {value for _, value in macros} == {"..."}
    assert "#include" not in cdef
    assert "int pl_sweep(" in cdef


def test_cdef_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="cffi:begin"):
        to_cdef("int pl_open(void);")


def test_extension_is_rebuilt_when_any_file_changes_that_it_is_made_of() -> None:
    assert {f"native/{path.name}" for path in NATIVE.glob("*.h")} == set(DEPENDS)


def copy_tree(target: Path) -> Path:
    """What setup.py needs, without anything built."""
    for name in ("setup.py", "pyproject.toml"):
        shutil.copy(ROOT / name, target / name)
    for name in ("README.md", "LICENSE"):  # pyproject.toml names them; their text does not matter here
        (target / name).write_text("\n", encoding="utf-8")
    unbuilt = shutil.ignore_patterns("*.so", "*.o", "__pycache__")
    shutil.copytree(NATIVE, target / "native", ignore=unbuilt)
    shutil.copytree(ROOT / "agent", target / "agent", ignore=unbuilt)
    return target


def build_in_place(tree: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=tree,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_without_a_compiler_the_build_succeeds_and_says_so_loudly(tmp_path: Path) -> None:
    tree = copy_tree(tmp_path)
    done = build_in_place(tree, CC="/nonexistent/cc")
    assert done.returncode == 0, done.stderr
    assert "the C sampler was NOT built" in done.stderr
    assert "python3-dev" in done.stderr
    assert list(tree.glob("agent/**/*.so")) == []


def test_without_python_headers_the_build_succeeds_and_says_so_loudly(tmp_path: Path) -> None:
    tree = copy_tree(tmp_path)
    done = build_in_place(tree, CFLAGS='-DPy_PYTHON_H -include "/nonexistent/Python.h"')
    assert done.returncode == 0, done.stderr
    assert "the C sampler was NOT built" in done.stderr


def test_build_is_one_extension_for_all_later_pythons(tmp_path: Path) -> None:
    tree = copy_tree(tmp_path)
    done = build_in_place(tree)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tree.glob("agent/sensing/*.so")] == ["_sampler.abi3.so"]
    assert "warning:" not in done.stderr
