"""Our C compiles without a warning under both compilers, and holds what its header promises about itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.native.compiling import COMPILERS, NATIVE, ROOT, compile_c, require, run

ALLOWED_CALLS = {
    *("calloc", "free"),  # pl_open and pl_close; the C tests show that nothing else allocates
    *("open", "open64", "openat", "openat64", "close", "fstat", "fstat64", "pread", "pread64", "clock_gettime"),
    "ppoll",  # between sweeps
    *("memchr", "memcmp", "bcmp", "memcpy", "memset", "__errno_location", "__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_"),
}
"""All that our C may need from outside: no stdio, no strto*, no locale, no threads, no Python."""
EXPORTS = {"sampler.c": 14, "windows.c": 5}
"""How many functions each source gives."""


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("level", ["-O0", "-O2", "-O3"])
@pytest.mark.parametrize("source", EXPORTS)
def test_source_compiles_without_a_warning(compiler: str, level: str, source: str, tmp_path: Path) -> None:
    compile_c(compiler, NATIVE / source, tmp_path / "built.o", [level, "-fPIC"])


@pytest.mark.parametrize("header", sorted(path.name for path in NATIVE.glob("*.h")))
def test_header_stands_on_its_own(header: str, tmp_path: Path) -> None:
    source = tmp_path / "alone.c"
    source.write_text(f'#define _GNU_SOURCE\n#include "{header}"\nextern int something;\n', encoding="ascii")
    # Static functions that nobody uses in this file are what a header of static functions is made of.
    compile_c(
        "gcc", source, tmp_path / "alone.o", [f"-I{NATIVE}", "-Wno-unused-function", "-Wno-unused-const-variable"]
    )


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("source", EXPORTS)
def test_source_needs_only_these_functions_and_keeps_no_globals(compiler: str, source: str, tmp_path: Path) -> None:
    # Without -fPIC and the like, tables of pointers are read-only data, as they are once loaded.
    built = compile_c(compiler, NATIVE / source, tmp_path / "built.o", ["-O2", "-fno-pie"])
    symbols = [line.split() for line in run([require("nm"), str(built)]).splitlines()]
    assert {words[-1] for words in symbols if words[-2] == "U"} <= ALLOWED_CALLS
    # B, C, D: zeroed, common and initialised data that could be written; small letters are static ones.
    assert [words[-1] for words in symbols if words[-2] in "BbCcDdGgSs"] == []
    exported = {words[-1] for words in symbols if words[-2] == "T"}
    assert len(exported) == EXPORTS[source]
    assert all(name.startswith("pl_") for name in exported)


@pytest.mark.parametrize("source", sorted((ROOT / "tests" / "bench").glob("*.c")), ids=lambda path: path.name)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_benchmark_programs_compile_without_a_warning(compiler: str, source: Path, tmp_path: Path) -> None:
    compile_c(compiler, source, tmp_path / source.stem, ["-O2"])
