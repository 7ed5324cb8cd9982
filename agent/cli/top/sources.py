"""Where ``top`` gets its Snapshots from: a running agent's socket, or its own sampling.

Face. The seam is ``SnapshotSource``; the view and the screen know nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agent.core.window.snapshot import Snapshot
from agent.node.files.documents import SNAPSHOT, DocumentFormatError

SnapshotSource = Callable[[float], Snapshot]
"""Returns the node as it is (0) or was so many seconds ago; SourceError = none could be had this time."""


class SourceError(Exception):
    """No snapshot came; the message says from where, why, and what to do. The next call may well succeed."""


def socket_source(socket_path: Path) -> SnapshotSource:
    """Return snapshots of a running agent, one request each: an agent that restarts meanwhile is found again."""

    def snapshot(at_age_seconds: float) -> Snapshot:
        from agent.node.sockets.control import ControlError, request

        try:
            answer = request(socket_path, "snapshot", {"at_age_seconds": at_age_seconds})
            return SNAPSHOT.from_json(answer)
        except ControlError as error:  # it names the socket
            raise SourceError(str(error)) from error
        except DocumentFormatError as error:
            raise SourceError(f"agent at {socket_path} gave no snapshot: {error}") from error

    return snapshot
