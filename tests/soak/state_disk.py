"""A small file system of its own for the agent's state, so that a full disk is a full disk."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MIB: Final = 1 << 20
FILLER: Final = "filler"


class StateDisk:
    """A tmpfs; ``fill`` takes all that is free of it, ``free`` gives it back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> int:
        """Take what is free, to the last page; give how many bytes that was. Again and again, as files come and go."""
        taken = 0
        descriptor = os.open(self.folder / FILLER, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            for size in (MIB, os.sysconf("SC_PAGE_SIZE")):
                with contextlib.suppress(OSError):
                    while True:
                        taken += _written(descriptor, size)
        finally:
            os.close(descriptor)
        return taken

    def free(self) -> None:
        """Give it back."""
        (self.folder / FILLER).unlink(missing_ok=True)


def _written(descriptor: int, size: int) -> int:
    written = os.write(descriptor, bytes(size))
    if written == 0:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return written


@contextlib.contextmanager
def state_disk(folder: Path, mebibytes: int) -> Iterator[StateDisk]:
    """Mount one inside the block (root)."""
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={mebibytes}m,mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "plimsoll-soak", str(folder)], check=True)
    try:
        yield StateDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
