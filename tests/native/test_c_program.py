"""Runs tests/native/test_sampler.c: the sampler from the inside, under sanitizers and with both compilers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.native.compiling import COMPILERS, ROOT, SANITIZED, SEEDS, compile_c, run

COUNT_ALLOCATIONS = "-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free"


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("flags", [SANITIZED, ("-O2",)], ids=["sanitized", "optimised"])
def test_sampler_from_the_inside(compiler: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    source = ROOT / "tests" / "native" / "test_sampler.c"
    program = compile_c(compiler, source, tmp_path / "test_sampler", [*flags, COUNT_ALLOCATIONS])
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    said = run([str(program), str(scratch), *map(str, SEEDS)])
    counted = re.fullmatch(r"(\d+) checks, 0 failed\n", said)
    assert counted is not None, said
    assert int(counted[1]) > 3000
