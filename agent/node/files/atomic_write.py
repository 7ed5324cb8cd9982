"""Small files that are replaced whole: after a crash there is the old content or the new, never half of one. Node."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def replace_file(path: Path, *parts: bytes | memoryview) -> None:
    """Write aside (as ``<name>.new``, for its owner alone), sync, rename, and sync the directory.

    Raises:
        OSError: It cannot be written. What stood there before still does, unless only the directory could not be
            synced: then the new content is there, and a crash of the machine may lose it.
    """
    fresh = path.with_name(f"{path.name}.new")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)  # a full disk is not to be kept full by what was never finished
        raise
    sync(path.parent)  # the new name too is to survive a crash of the machine


def sync(path: Path) -> None:
    """Wait until the disk has what was written to a file, or the names in a directory.

    Raises:
        OSError: It is not there, or the disk fails.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
