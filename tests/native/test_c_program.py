"""Runs test_sampler.c and test_windows.c: our C from the inside, under sanitizers and with both compilers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.native.compiling import COMPILERS, ROOT, SANITIZED, SEEDS, compile_c, run

FLAGS = pytest.mark.parametrize("flags", [SANITIZED, ("-O2",)], ids=["sanitized", "optimised"])
COUNT_ALLOCATIONS = "-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free"


@pytest.mark.parametrize("compiler", COMPILERS)
@FLAGS
def test_sampler_from_the_inside(compiler: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    source = ROOT / "tests" / "native" / "test_sampler.c"
    program = compile_c(compiler, source, tmp_path / "test_sampler", [*flags, COUNT_ALLOCATIONS])
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    said = run([str(program), str(scratch), *map(str, SEEDS)])
    counted = re.fullmatch(r"(\d+) checks, 0 failed\n", said)
    assert counted is not None, said
    assert int(counted[1]) > 3000


@pytest.mark.parametrize("compiler", COMPILERS)
@FLAGS
def test_windows_of_rings_that_hold_any_bytes(compiler: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    program = compile_c(compiler, ROOT / "tests" / "native" / "test_windows.c", tmp_path / "test_windows", flags)
    counted = re.fullmatch(r"(\d+) checks, 0 failed\n", run([str(program)]))
    assert counted is not None
    assert int(counted[1]) > 3000
