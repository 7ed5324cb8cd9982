"""Tells cffi how to build agent.sensing._sampler from the sources and public headers in native; setup.py calls it."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ["native/sampler.c", "native/windows.c"]
HEADERS = ("sampler.h", "windows.h")
"""What Python may call, in the order in which they build on each other."""
DEPENDS = sorted(f"native/{path.name}" for path in (ROOT / "native").glob("*.h"))
"""Paths are relative to the root, from which setup.py runs: setuptools refuses absolute ones in an sdist."""


def to_cdef(header: str) -> str:
    """Return the part of the header that cffi reads.

    Args:
        header: The text of a public header.

    Returns:
        What stands between the two cffi marks; the values of macros are left to the compiler.

    Raises:
        ValueError: A mark is missing.
    """
    marked = re.search(r"/\* cffi:begin \*/(.*)/\* cffi:end \*/", header, re.DOTALL)
    if marked is None:
        msg = "a header in native: the marks /* cffi:begin */ and /* cffi:end */ are missing"
        raise ValueError(msg)
    return re.sub(r"^(#define \w+) .*$", r"\1 ...", marked.group(1), flags=re.MULTILINE)


def make_builder() -> FFI:
    """Return the builder of the extension; PLIMSOLL_CFLAGS adds compiler flags."""
    ffi = FFI()
    for header in HEADERS:
        ffi.cdef(to_cdef((ROOT / "native" / header).read_text(encoding="utf-8")))
    ffi.set_source(
        "agent.sensing._sampler",
        "".join(f'#include "{header}"\n' for header in HEADERS),
        sources=SOURCES,
        depends=DEPENDS,
        include_dirs=["native"],
        # No -Werror here: a warning of a compiler we have not met must not keep anyone from installing.
        # No fused multiplications: windows are to be what agent/core/window makes of the same rows, bit by bit.
        extra_compile_args=[
            *("-O2", "-std=c11", "-Wall", "-Wextra", "-ffp-contract=off"),
            *shlex.split(os.environ.get("PLIMSOLL_CFLAGS", "")),
        ],
        # Without a compiler the install goes on, and agent/sensing/reference_sampler.py samples, slower: see setup.py.
        optional=True,
    )
    return ffi


ffibuilder = make_builder()
