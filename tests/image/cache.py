"""Where the image's parts are kept between builds, and how one gets there whole.

All lies below ``${XDG_CACHE_HOME:-~/.cache}/plimsoll/image``, in folders named by a digest of what they were made from.
"""

from __future__ import annotations

import contextlib
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

    No checkout's ``drop_old`` takes it away while this process lives.

    Args:
        target: Its place.
        fill: Fills the empty folder it is given, on the same file system.
    """
    _use(target)
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


_USED: Final[dict[Path, int]] = {}
"""Of the folders that this process uses: descriptors of a file each, on which it holds a shared lock until it ends."""


def _use(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    name = _used_name(target)
    while target not in _USED:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if _is_of(name, descriptor):
            _USED[target] = descriptor
        else:  # it was removed with the folder meanwhile
            os.close(descriptor)


def _used_name(target: Path) -> Path:
    return target.with_name(f".{target.name}.used")


def _is_of(name: Path, descriptor: int) -> bool:
    """Return whether a name is that of an open file."""
    try:
        return os.path.samestat(name.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def drop_old(folder: Path, keep: int) -> None:
    """Remove all but the newest folders below ``folder``, and but those that somebody uses, in another checkout too."""
    made: dict[Path, float] = {}
    for path in folder.glob("[!.]*"):
        with contextlib.suppress(FileNotFoundError):  # somebody else drops it
            made[path] = path.stat().st_mtime
    for old in sorted(made, key=made.__getitem__, reverse=True)[keep:]:
        name = _used_name(old)
        with name.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(old, ignore_errors=True)
            old.with_name(f".{old.name}.lock").unlink(missing_ok=True)
            name.unlink(missing_ok=True)


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
