"""Where ``top`` gets its Snapshots from: a running agent's socket, or its own sampling.

Face. The seam is ``SnapshotSource``; the view and the screen know nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from agent.core.window.snapshot import Snapshot
from agent.node.files.documents import SNAPSHOT, DocumentFormatError


class SourceError(Exception):
    """No snapshot came; the message says from where, why, and what to do. The next call may well succeed."""


class SnapshotSource(Protocol):
    """Something that knows the node, now and a while ago."""

    def snapshot(self, at_age_seconds: float) -> Snapshot:
        """Return the node as it is (0) or was so many seconds ago; SourceError = none could be had this time."""

    def close(self) -> None:
        """Let go of everything; may be called twice."""


class SocketSource:
    """Snapshots of a running agent, one request each: an agent that restarts meanwhile is found again."""

    def __init__(self, socket_path: Path) -> None:
        self._socket_path = socket_path

    def snapshot(self, at_age_seconds: float) -> Snapshot:
        """Ask the agent; SourceError also where it refuses, or its answer is no snapshot of this release."""
        from agent.node.sockets.control import ControlError, request

        try:
            answer = request(self._socket_path, "snapshot", {"at_age_seconds": at_age_seconds})
            return SNAPSHOT.from_json(answer)
        except ControlError as error:  # it names the socket
            raise SourceError(str(error)) from error
        except DocumentFormatError as error:
            raise SourceError(f"agent at {self._socket_path} gave no snapshot: {error}") from error

    def close(self) -> None:
        """Nothing is held between requests."""


class CallSource:
    """Snapshots of an observer inside this process."""

    def __init__(self, take: Callable[[float], Snapshot], *, close: Callable[[], None] = lambda: None) -> None:
        self._take = take
        self._close = close

    def snapshot(self, at_age_seconds: float) -> Snapshot:
        """Ask the observer."""
        return self._take(at_age_seconds)

    def close(self) -> None:
        """Let go of the observer as its maker has asked for."""
        self._close()
