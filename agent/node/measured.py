"""What a recorder takes from: the state directory of an agent, or the sampling of this very process.

Node. Reads only: an agent is neither asked nor held up.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

from agent.core.minute_axis import MINUTE_SECONDS, offset_of
from agent.node.histories import HistoryFile
from agent.node.watching import HISTORY_FILE_NAME, MINUTE_DELAY_NS, RING_FILE_NAME, Watch
from agent.sensing.rings import RingFile, read_boot_id

NS: Final = 1_000_000_000
MINUTE_NS: Final = MINUTE_SECONDS * NS
SETTLED_NS: Final = 3 * NS
"""So long after a minute is due it stands in rings and history alike."""


class Measured(Protocol):
    """Rings and history of a node."""

    source: str
    """``agent``, ``state`` or ``self``."""

    def rings(self) -> RingFile:
        """Give the rings; other ones than before when an agent has begun anew."""
        ...

    def history(self) -> contextlib.AbstractContextManager[HistoryFile]:
        """Open the history as it is now.

        Raises:
            HistoryError: It cannot be read.
        """
        ...

    def wall_offset_seconds(self, newest_monotonic_minute: int | None) -> float:
        """Give the wall clock minus CLOCK_MONOTONIC of the rings' boot.

        Args:
            newest_monotonic_minute: Of the minute rows in the rings; None = there are none.
        """
        ...

    def history_offset_minutes(self, newest_monotonic_minute: int | None) -> int:
        """Give the minutes of the history minus those of CLOCK_MONOTONIC."""
        ...


class StateDirectory:
    """The state of an agent, running or not; close it."""

    def __init__(
        self,
        directory: Path,
        *,
        wall: Callable[[], float] = time.time,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Open the rings.

        Raises:
            RingError: There are none, or they cannot be read.
        """
        self._directory, self._wall, self._monotonic_ns = directory, wall, monotonic_ns
        self._path: Final = directory / RING_FILE_NAME
        self._rings = RingFile.open_readonly(self._path)
        self._inode = self._path.stat().st_ino
        self.is_of_this_boot: Final = self._rings.boot_id == read_boot_id()
        self.source = "state"
        if self.is_live():
            self.source = "agent"

    def age_seconds(self) -> float | None:
        """Tell how old the newest reading is; None = there is none, or it is of an earlier boot."""
        if not self.is_of_this_boot:
            return None
        rings = self._rings
        newest = rings.newest_rows(list(rings.retained().values()))["monotonic_ns"]
        return (self._monotonic_ns() - int(newest.max())) / NS if newest.any() else None

    def is_live(self, within_seconds: float = 10.0) -> bool:
        """Tell whether an agent is writing."""
        age_seconds = self.age_seconds()
        return age_seconds is not None and age_seconds <= within_seconds

    def rings(self) -> RingFile:
        """Give the rings; an agent that could not go on with a file has put another in its place."""
        with contextlib.suppress(OSError):
            inode = self._path.stat().st_ino
            if inode != self._inode:
                former, self._rings = self._rings, RingFile.open_readonly(self._path)
                former.close()
                self._inode = inode
        return self._rings

    @contextlib.contextmanager
    def history(self) -> Iterator[HistoryFile]:
        """Open the history beside the agent."""
        with HistoryFile.open_readonly(self._directory / HISTORY_FILE_NAME) as history:
            yield history

    def wall_offset_seconds(self, newest_monotonic_minute: int | None) -> float:
        """Give it by this machine's clocks, or by the history of an earlier boot."""
        if self.is_of_this_boot:
            return self._wall() - self._monotonic_ns() / NS
        return float(self.history_offset_minutes(newest_monotonic_minute) * MINUTE_SECONDS)

    def history_offset_minutes(self, newest_monotonic_minute: int | None) -> int:
        """Give it by the newest minute of both, which an agent writes in one go."""
        wall_minutes = round((self._wall() - self._monotonic_ns() / NS) / MINUTE_SECONDS)
        if newest_monotonic_minute is None:
            return wall_minutes
        with self.history() as history:
            newest_unix_minute = history.newest_unix_minute
        due_ns = (newest_monotonic_minute + 1) * MINUTE_NS + MINUTE_DELAY_NS
        return offset_of(
            newest_unix_minute=newest_unix_minute,
            newest_monotonic_minute=newest_monotonic_minute,
            wall_offset_minutes=wall_minutes,
            is_settled=not 0 <= self._monotonic_ns() - due_ns < SETTLED_NS,
        )

    def close(self) -> None:
        """Let go of the rings."""
        self._rings.close()


class OwnSampling:
    """This process samples by itself; the watch belongs to the caller."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.source = "self"

    def rings(self) -> RingFile:
        """Give the rings in memory."""
        return self._watch.rings

    @contextlib.contextmanager
    def history(self) -> Iterator[HistoryFile]:
        """Give the history in memory, which goes on."""
        yield self._watch.learner.history

    def wall_offset_seconds(self, newest_monotonic_minute: int | None) -> float:
        """Give it by this machine's clocks."""
        return time.time() - time.monotonic()

    def history_offset_minutes(self, newest_monotonic_minute: int | None) -> int:
        """Give it as the learner has it."""
        return self._watch.learner.clock.unix_minute(0)
