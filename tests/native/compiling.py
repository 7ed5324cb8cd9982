"""Compiles C for the tests, as strictly as CI does."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "native"
SEEDS = sorted(path for path in (ROOT / "tests" / "data" / "cgroup").glob("*/*") if path.name != "ORIGIN")
"""Contents of real files."""
COMPILERS = ("gcc", "clang")
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wpedantic", "-Werror")
SANITIZED = ("-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def require(program: str) -> str:
    """Return the program's path, or skip the test and say so."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed")
    return path


def compile_c(compiler: str, source: Path, output: Path, flags: Sequence[str] = ()) -> Path:
    """Compile one source, strictly; a warning is an error of the test.

    Args:
        compiler: Name of the program.
        source: A .c file; includes what it needs.
        output: What to write: an object file if it ends in .o, else a program.
        flags: Further flags.
    """
    what = ["-c"] if output.suffix == ".o" else []
    command = [require(compiler), *STRICT, *what, *flags, str(source), "-o", str(output)]
    run(command)
    return output


def run(command: Sequence[str]) -> str:
    """Run a program to its end; what it printed, or a failed test with all of that."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        pytest.fail(f"exit code {done.returncode}: {' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return done.stdout + done.stderr
