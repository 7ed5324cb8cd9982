"""What a recorder takes from: the state directory of an agent, or the sampling of this very process.

Node. Reads only: an agent is neither asked nor held up.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from agent.core.history.minute.minute_axis import MINUTE_SECONDS, offset_of
from agent.named_file import is_missing
from agent.node.assembly import RING_FILE_NAME, Watch
from agent.node.history.file import HISTORY_FILE_NAME, HistoryError, HistoryFile
from agent.node.recommender.loop import MINUTE_DELAY_NS
from agent.sensing.ring_file import RingFile
from agent.sensing.state_file import read_boot_id

NS: Final = 1_000_000_000
MINUTE_NS: Final = MINUTE_SECONDS * NS
SETTLED_NS: Final = 3 * NS
"""So long after a minute is due it stands in rings and history alike."""


class Offsets(NamedTuple):
    """What time it is when CLOCK_MONOTONIC is 0."""

    history_minutes: int
    """On the axis of the history, which policies go by; UTC seconds // 60."""
    wall_seconds: float
    """By the wall clock."""


class StateDirectory:
    """The state of an agent, running or not; close it."""

    def __init__(
        self,
        directory: Path,
        *,
        rings: Path | None = None,  # The directory of the rings where they are not beside the history
        silent_seconds: float = 10.0,  # An agent whose newest reading is older has ended
        wall: Callable[[], float] = time.time,  # UTC seconds
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Open the rings."""
        self._directory, self._wall, self._monotonic_ns = directory, wall, monotonic_ns
        beside = directory / RING_FILE_NAME
        self.path: Final = beside if rings is None or not is_missing(beside) else rings / RING_FILE_NAME
        self._rings = RingFile.open_readonly(self.path)
        self._inode = self.path.stat().st_ino
        self.is_of_this_boot: Final = self._rings.boot_id == read_boot_id()
        age_seconds = self.age_seconds()
        self.source = "agent" if age_seconds is not None and age_seconds <= silent_seconds else "state"

    def age_seconds(self) -> float | None:
        """Return how old the newest reading is; None = there is none, or it is of an earlier boot."""
        if not self.is_of_this_boot:
            return None
        rings = self._rings
        newest = rings.newest_rows(list(rings.retained().values()))["monotonic_ns"]
        return (self._monotonic_ns() - int(newest.max())) / NS if newest.any() else None

    def rings(self) -> RingFile:
        """Return the rings; an agent that could not go on with a file has put another in its place."""
        with contextlib.suppress(OSError):
            inode = self.path.stat().st_ino
            if inode != self._inode:
                former, self._rings = self._rings, RingFile.open_readonly(self.path)
                former.close()
                self._inode = inode
        return self._rings

    @contextlib.contextmanager
    def history(self) -> Iterator[HistoryFile]:
        """Open the history beside the agent."""
        with HistoryFile.open_readonly(self._directory / HISTORY_FILE_NAME) as history:
            yield history

    def offsets(self, *, newest_unix_minute: int | None, newest_monotonic_minute: int | None) -> Offsets:
        """Return them by the newest minute of both, which an agent writes in one go; without them, by the clocks.

        The history's is looked at first, then that of the minute rows in the rings; None = there is none.

        Raises:
            HistoryError: It is of an earlier boot, whose clocks nobody knows, and there is no history.
        """
        if not self.is_of_this_boot:
            if newest_unix_minute is None or newest_monotonic_minute is None:
                raise HistoryError(f"state file {self.path}: of an earlier boot, and without a history")
            minutes = newest_unix_minute - newest_monotonic_minute
            return Offsets(history_minutes=minutes, wall_seconds=float(minutes * MINUTE_SECONDS))
        now_ns = self._monotonic_ns()
        wall_seconds = self._wall() - now_ns / NS
        minutes = round(wall_seconds / MINUTE_SECONDS)
        if newest_unix_minute is not None and newest_monotonic_minute is not None:
            due_ns = (newest_monotonic_minute + 1) * MINUTE_NS + MINUTE_DELAY_NS
            minutes = offset_of(
                newest_unix_minute=newest_unix_minute,
                newest_monotonic_minute=newest_monotonic_minute,
                wall_offset_minutes=minutes,
                is_settled=not 0 <= now_ns - due_ns < SETTLED_NS,
            )
        return Offsets(history_minutes=minutes, wall_seconds=wall_seconds)

    def close(self) -> None:
        """Close the rings."""
        self._rings.close()


class OwnSampling:
    """This process samples by itself; the watch belongs to the caller."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.source = "self"

    def rings(self) -> RingFile:
        """Return the rings in memory."""
        return self._watch.sampling.rings

    @contextlib.contextmanager
    def history(self) -> Iterator[HistoryFile]:
        """Return the history in memory, which goes on."""
        yield self._watch.learner.history

    def offsets(self, *, newest_unix_minute: int | None, newest_monotonic_minute: int | None) -> Offsets:
        """Tell as the learner has it."""
        return Offsets(
            history_minutes=self._watch.learner.clock.unix_minute(0), wall_seconds=time.time() - time.monotonic()
        )


MeasuredNode = StateDirectory | OwnSampling
"""Rings and history of a node; its ``source`` is ``agent``, ``state`` or ``self``."""
