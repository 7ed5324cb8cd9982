"""inotify, as much of it as watching a cgroup tree needs: a descriptor, watches, events.

Sensing. Own lines and not a package: the packages wrap the same three libc calls, and what matters here, the overflow
event and the errno of a refused watch, would still be ours to handle. ctypes is loaded here only.
"""

from __future__ import annotations

import ctypes
import os
import struct
from dataclasses import dataclass
from typing import Final

IN_MODIFY: Final = 0x00000002
IN_CREATE: Final = 0x00000100
IN_DELETE: Final = 0x00000200
IN_Q_OVERFLOW: Final = 0x00004000
IN_IGNORED: Final = 0x00008000
IN_ONLYDIR: Final = 0x01000000
IN_ISDIR: Final = 0x40000000

_EVENT: Final = struct.Struct("iIII")
"""wd, mask, cookie, len of the padded name that follows: struct inotify_event."""
_BUFFER_BYTES: Final = 65536
"""Over a thousand events a read; the kernel keeps 16384 by default before it overflows."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event. An overflow has the watch -1 and no name."""

    watch: int
    mask: int
    name: str = ""


class Inotify:
    """Tells of changes in directories; tests put in its place one that overflows and refuses."""

    def __init__(self) -> None:
        """Open an instance.

        Raises:
            OSError: EMFILE: no instance left for this user (fs.inotify.max_user_instances), or no descriptor.
        """
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = int(self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
        if self._fd < 0:
            raise _last_error("inotify_init1")

    def fileno(self) -> int:
        """Return a descriptor that is readable when there are events."""
        return self._fd

    def watch_directory(self, path: str) -> int:
        """Report directories made or removed in this one; the same directory always has the same number.

        Raises:
            OSError: ENOSPC: no watches left; ENOENT, ENOTDIR: not there; EACCES: not readable.
        """
        return self._add(path, IN_CREATE | IN_DELETE | IN_ONLYDIR)

    def watch_file(self, path: str) -> int:
        """Report that a file's content changed; kernfs does so for cgroup.events."""
        return self._add(path, IN_MODIFY)

    def unwatch(self, watch: int) -> None:
        """Remove a watch; one that is gone already is no error, and the kernel drops that of a removed directory."""
        self._libc.inotify_rm_watch(self._fd, watch)

    def read(self) -> list[WatchEvent]:
        """Return what is waiting, in order, a bounded part of it; never blocks."""
        try:
            # What does not fit stays readable: the caller's loop comes back, and no storm of events can hold it here.
            return parse_events(os.read(self._fd, _BUFFER_BYTES))
        except BlockingIOError:
            return []

    def close(self) -> None:
        """Close the descriptor, which drops all watches; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _add(self, path: str, mask: int) -> int:
        watch = int(self._libc.inotify_add_watch(self._fd, os.fsencode(path), mask))
        if watch < 0:
            raise _last_error(path)
        return watch


def parse_events(chunk: bytes) -> list[WatchEvent]:
    """Parse what one read returned: whole events, as the kernel promises; a cut one at the end is left out."""
    events: list[WatchEvent] = []
    offset = 0
    while offset + _EVENT.size <= len(chunk):
        watch, mask, _cookie, length = _EVENT.unpack_from(chunk, offset)
        offset += _EVENT.size
        if offset + length > len(chunk):
            break
        events.append(WatchEvent(watch, mask, os.fsdecode(chunk[offset : offset + length].split(b"\0", 1)[0])))
        offset += length
    return events


def _last_error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), what)
