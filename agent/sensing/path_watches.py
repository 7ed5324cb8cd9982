"""Watches of inotify by path: which number stands for which path, and what happens when the user's run out.

Sensing. What is to be watched is ``discovery``'s to say. One thread at a time.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Container

from agent.sensing.inotify import Inotify, WatchEvent


class PathWatches:
    """The watches of one mount. Without inotify all calls are fine and nothing is ever told."""

    def __init__(self, mount: str, open_watcher: Callable[[], Inotify]) -> None:
        self._mount, self._open_watcher = mount, open_watcher
        self.why_none: str | None = None
        """Why inotify is not used (any more); None = it is."""
        self._watcher: Inotify | None = None
        self._paths: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self.open()

    def open(self) -> None:
        """Open inotify where it is not: watches may have come free. ``fileno`` is another then."""
        if self._watcher is not None:
            return
        try:
            self._watcher = self._open_watcher()
        except OSError as error:
            self.why_none = f"inotify: {error.strerror}"
        else:
            self.why_none = None

    def __len__(self) -> int:
        return len(self._paths)

    def fileno(self) -> int | None:
        """Return the descriptor; None = there is none."""
        return None if self._watcher is None else self._watcher.fileno()

    def read(self) -> list[WatchEvent]:
        """Return what inotify has to tell."""
        return [] if self._watcher is None else self._watcher.read()

    def path_of(self, number: int) -> str | None:
        """Return the path behind a number; None = nobody's any more."""
        return self._paths.get(number)

    def add(self, path: str, *, is_file: bool) -> bool:
        """Watch a directory or a file; False = it is not watched. Without watches left all are given back."""
        if self._watcher is None:
            return False
        try:
            add = self._watcher.watch_file if is_file else self._watcher.watch_directory
            number = add(self._mount + path)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                # Half the tree watched would look like all of it, and what is held here others may need.
                self.close()
                self.why_none = "inotify: no watches left (fs.inotify.max_user_watches)"
            return False
        # The same directory has the same number; another number means that the old directory is gone.
        old = self._numbers.get(path)
        if old is not None and old != number:
            self._paths.pop(old, None)
        self._paths[number] = path
        self._numbers[path] = number
        return True

    def forget(self, number: int) -> None:
        """Forget a watch that the kernel took away."""
        path = self._paths.pop(number)
        if self._numbers.get(path) == number:
            del self._numbers[path]

    def keep(self, wanted: Container[str]) -> None:
        """Remove the watches of all other paths."""
        for path in [path for path in self._numbers if path not in wanted]:
            number = self._numbers.pop(path)
            self._paths.pop(number, None)
            if self._watcher is not None:
                self._watcher.unwatch(number)

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None
        self._paths.clear()
        self._numbers.clear()
