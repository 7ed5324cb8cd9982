"""Files that verbs write because a person named them: looked at before the work, put in their place whole after it."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


class OutputError(Exception):
    """The file cannot be written; one line that names it, why, and what is allowed."""


def check_output(path: Path) -> None:
    """Raise OutputError where a file could not be put; before the work.

    A directory, a device or a pipe is there, or there is no directory for it.
    """
    try:
        # Path.exists hides names that are too long since Python 3.14, and links that go round, as resolve since 3.13.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if not stat.S_ISREG(path.stat().st_mode):
                raise OutputError(f"{path}: is not a regular file; allowed: a file, or a new name")
        parent = path.resolve().parent
        if not parent.is_dir():
            raise OutputError(f"{path}: no such directory; allowed: a file in an existing directory")
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: its directory is not writable; allowed: a file in a writable directory")


def put_output(path: Path, content: bytes) -> None:
    """Write a file whole: what was there stays until then; a link stays one."""
    target = path.resolve()
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with beside.open("xb") as file, contextlib.ExitStack() as undone:
            undone.callback(beside.unlink, missing_ok=True)
            file.write(content)
            file.flush()  # a full disk shows now
            beside.replace(target)
            undone.pop_all()
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error
