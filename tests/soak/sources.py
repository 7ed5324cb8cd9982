"""The older of two versions that the day is lived with: the sources of a commit, built in a folder of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.guest.machine import REPOSITORY

OLDER: Final = "3417c1d"
"""The last commit before the windows were summed in C."""


class SourcesError(Exception):
    """A commit cannot be had or built; one line."""


def built(commit: str, folder: Path) -> Path:
    """Put the sources of a commit into a folder and build their sampler; give the folder.

    Raises:
        SourcesError: git knows no such commit, or it does not build.
    """
    folder.mkdir(parents=True)
    archive = _run(["git", "-C", str(REPOSITORY), "archive", commit, "agent", "native", "setup.py", "pyproject.toml"])
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    _run([sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"], cwd=folder)
    return folder


def _run(command: list[str], cwd: Path | None = None) -> bytes:
    done = subprocess.run(command, capture_output=True, check=False, cwd=cwd)
    if done.returncode != 0:
        words = " ".join(done.stderr.decode(errors="replace").split())[-300:]
        raise SourcesError(f"soak: {' '.join(command[:5])} ended with {done.returncode}: {words}")
    return done.stdout
