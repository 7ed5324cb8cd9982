"""Files that somebody named, on the command line or in the settings: opened without waiting, read within a bound.

Shell, below every room but ``core``. What is no file is refused in an ``OSError`` whose ``strerror`` says so and what
is allowed: a FIFO that nobody writes to would hold a verb for ever, a device may never end. A pipe is taken where it
was handed over open: ``-`` (``/dev/stdin``), and ``/dev/fd/N``, as a shell's ``<(kubectl get pods -o json)`` gives it.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final

DOCUMENT_MOST_BYTES: Final = 128 << 20
"""Of JSON from kubectl or from Plimsoll: some 15,000 pods; read into about a gigabyte of memory."""
PAGE_MOST_BYTES: Final = 4 << 20
"""Of what is a page: a token, certificates, a kubeconfig."""

_HANDED_OVER: Final = re.compile(r"/dev/stdin|/dev/fd/\d+|/proc/(self|thread-self|\d+)/fd/\d+")
_BLOCK_BYTES: Final = 1 << 20
_ODD_KINDS: Final = (
    (stat.S_ISFIFO, errno.EINVAL, "is a FIFO"),
    (stat.S_ISSOCK, errno.EINVAL, "is a socket"),
    (stat.S_ISCHR, errno.EINVAL, "is a device"),
    (stat.S_ISBLK, errno.EINVAL, "is a device"),
)
_NOTHING: Final = os.makedev(1, 3)
"""``/dev/null``: a file without content."""


def called(path: Path) -> str:
    """Return a file's name as errors begin with it: the last part; all of the path where that would say nothing."""
    return str(path) if _HANDED_OVER.fullmatch(str(path)) or not path.name.strip(".") else path.name


def is_missing(path: Path) -> bool:
    """Return whether nothing is there; what may not be looked at may be there, and reading it says why it cannot be.

    ``Path.exists`` takes it for missing from Python 3.14 on, and raises before.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):  # the latter of a NUL in its name
        return False
    return False


def open_named(path: Path, *, takes_pipe: bool = False) -> BinaryIO:
    """Return a file open for reading.

    Args:
        takes_pipe: Also a pipe or terminal that was handed over open; reading it waits for whoever writes.

    Raises:
        OSError: It is not there, may not be read, or is no file; ``strerror`` says what it is and what is allowed.
    """
    is_handed_over = takes_pipe and _HANDED_OVER.fullmatch(str(path)) is not None
    try:
        _refuse_odd(path.stat(), path, is_handed_over=is_handed_over)  # before a device is opened, which may do things
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except ValueError as error:
        raise OSError(errno.EINVAL, "its name has a NUL in it", str(path)) from error
    with ExitStack() as undone:
        undone.callback(os.close, descriptor)
        _refuse_odd(os.fstat(descriptor), path, is_handed_over=is_handed_over)
        os.set_blocking(descriptor, True)
        file = os.fdopen(descriptor, "rb")
        undone.pop_all()
    return file


def read_named(path: Path, *, most_bytes: int, takes_pipe: bool = True) -> bytes:
    """Return the content of a file.

    Args:
        most_bytes: Of a larger one no more is read than this.

    Raises:
        OSError: As of ``open_named``; or it is larger.
    """
    blocks: list[bytes] = []
    left = most_bytes + 1
    with open_named(path, takes_pipe=takes_pipe) as file:
        left -= min(os.fstat(file.fileno()).st_size, left)  # nothing is read of what is known to be larger
        left = most_bytes + 1 if left else 0
        while left and (block := file.read(min(left, _BLOCK_BYTES))):
            blocks.append(block)
            left -= len(block)
    if not left:
        raise OSError(errno.EFBIG, f"larger than {_size_text(most_bytes)}, which is the most that is read", str(path))
    return b"".join(blocks)


def _refuse_odd(status: os.stat_result, path: Path, *, is_handed_over: bool) -> None:
    mode = status.st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    for is_it, number, what in _ODD_KINDS:
        if not is_it(mode) or (stat.S_ISCHR(mode) and status.st_rdev == _NOTHING):
            continue
        if is_handed_over and (stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and _is_terminal(path))):
            continue
        allowed = "a file, or - for standard input" if stat.S_ISFIFO(mode) else "a file"
        raise OSError(number, f"{what}; allowed: {allowed}", str(path))


def _is_terminal(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        return os.isatty(descriptor)
    finally:
        os.close(descriptor)


def _size_text(size_bytes: int) -> str:
    return f"{size_bytes >> 20} MiB" if size_bytes >= 1 << 20 else f"{size_bytes >> 10} KiB"
