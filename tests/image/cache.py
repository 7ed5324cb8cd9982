"""Where the image's parts are kept between builds, and how one gets there whole.

All lies below ``${XDG_CACHE_HOME:-~/.cache}/plimsoll/image``, in folders named by a digest of what they were made from.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
LAST_LINES: Final = 15
"""How much of a program's words an error carries."""

Progress = Callable[[str], None]


class ImageError(Exception):
    """The image cannot be built; the first line says what is missing and what mends it."""


def silent(_line: str) -> None:
    """Tell nobody."""


def cache_root() -> Path:
    """Return the folder of all parts; need not exist."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "plimsoll" / "image"


def folder_made(target: Path, fill: Callable[[Path], None]) -> Path:
    """Return a folder, filled once: it has its name only when it is complete, whoever else makes it at the same time.

    Args:
        target: Its place.
        fill: Fills the empty folder it is given, on the same file system.
    """
    if target.is_dir():
        return target
    with locked(target):
        if target.is_dir():
            return target
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=target.parent) as unfinished:
            folder = Path(unfinished) / "made"
            folder.mkdir()
            fill(folder)
            folder.rename(target)
    return target


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Hold the lock of one folder; the kernel lets go of it however the holder ends."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def drop_old(folder: Path, keep: int) -> None:
    """Remove all but the newest folders below ``folder``."""
    folders = sorted(folder.glob("[!.]*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in folders[keep:]:
        shutil.rmtree(old, ignore_errors=True)
        old.with_name(f".{old.name}.lock").unlink(missing_ok=True)


def run(command: Sequence[str | Path], folder: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Run a program and give what it printed; its words become the error's.

    Raises:
        ImageError: It is not there, or failed.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C.UTF-8", **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise ImageError(f"image: {words[0]} not found") from error
    if done.returncode != 0:
        lines = f"{done.stdout}\n{done.stderr}".strip().splitlines()[-LAST_LINES:]
        shown = "\n".join(f"  {line}" for line in lines)
        raise ImageError(f"image: {' '.join(words[:4])} ... ended with {done.returncode}:\n{shown}")
    return done.stdout
