"""A node as its state files have it: for commands that ask while no agent runs, or for another policy than the agent's.

Node. Reads only, and without locks: an agent may be writing meanwhile. "Now" is the moment of the newest reading.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Final, Self

from agent.core.history.minute.key import history_key
from agent.node.history.clock import HistoryClock, newest_minute
from agent.node.history.file import HISTORY_FILE_NAME, HistoryError, HistoryFile
from agent.node.history.learner import NamedPods, is_sized
from agent.node.offline.recorder_sources import StateDirectory
from agent.node.recommender.still_node import StillMeasured, StillNode
from agent.node.reports.directives_file import FILE_NAME as DIRECTIVES_FILE
from agent.node.reports.directives_file import Directions
from agent.node.sampling.pods_file import NoPods, PodsFile
from agent.node.sampling.unit_table import UnitTable, WatchedUnit, identity_at
from agent.sensing.machine import has_generational_lru, node_name
from agent.sensing.state_file import RingError
from agent.settings import Settings

NS: Final = 1_000_000_000
SILENT_SECONDS: Final = 60.0
"""A state whose newest reading is this old is told to be of the past."""


def _strangers(history: HistoryFile, units: UnitTable, pods: NamedPods) -> tuple[str, ...]:
    """Return a warning where a history is not that of the units, as far as their names are known."""
    keys = history.keys()
    known = (history_key(unit.identity, pods.belonging(unit.identity).workload) for unit in units.all())
    if not keys or any(key in keys for key in known):
        return ()
    return ("the history stands under other names: answers do not know it; --pods gives the names of pods",)


class StateError(Exception):
    """There is no state to answer from; one line that says where, why and what to do."""


class RestingNode(StillNode):
    """The state directory of an agent; close it, or use it as a context manager."""

    def __init__(self, settings: Settings) -> None:
        """Open the files and let the policy learn.

        Raises:
            StateError: There are none, or they hold nothing.
            PodsFileError: The pods file is not understood.
        """
        directory = settings.state.directory
        if directory is None:
            raise StateError("the state is kept in memory only (state.directory none): nothing to read; start an agent")
        with ExitStack() as self._stack:
            try:
                self._build(settings)
            except (RingError, HistoryError) as error:
                fault = str(error).partition("; ")[0]
                allowed = (
                    "the state directory of an agent (--state-dir), with the rings in it or in state.ringsDirectory"
                )
                raise StateError(f"{fault}; allowed: {allowed}") from error
            self._stack = self._stack.pop_all()

    def _build(self, settings: Settings) -> None:
        directory = settings.state.directory
        assert directory is not None  # noqa: S101  # the constructor has looked
        measured = StateDirectory(directory, rings=settings.state.directory_of_rings)
        self._stack.callback(measured.close)
        rings = measured.rings()
        history = HistoryFile.open_readonly(directory / HISTORY_FILE_NAME)
        self._stack.callback(history.close)
        pods = PodsFile(settings.pods_file) if settings.pods_file else NoPods()
        units = UnitTable()
        newest_ns = 0
        for path, slot in sorted(rings.retained().items(), key=lambda each: each[1]):
            identity = identity_at(path)
            newest = rings.newest(slot)
            if newest is not None:
                newest_ns = max(newest_ns, int(newest["monotonic_ns"]))
            if is_sized(identity):
                identity, resources = pods.name(identity)
                units.put(WatchedUnit(slot=slot, inode=rings.inode(slot), identity=identity, resources=resources))
        if not newest_ns:
            raise StateError(f"state file {measured.path}: no reading in it; start an agent")
        # The history's own time, which an agent keeps whatever the wall clock does.
        offsets = measured.offsets(
            newest_unix_minute=history.newest_unix_minute,
            newest_monotonic_minute=newest_minute(rings, rings.retained().values()),
        )
        clock = HistoryClock(
            # Of the history of this very state: nothing is appended, so there is nothing to go on after.
            newest_unix_minute=None,
            offset_minutes=offsets.history_minutes,
            wall=lambda: offsets.wall_seconds + newest_ns / NS,
            monotonic_ns=lambda: newest_ns,
        )
        directions = Directions(directory / DIRECTIVES_FILE, is_expected=settings.report.url is not None, now=clock.now)
        age_seconds = time.time() - (newest_ns / NS + offsets.wall_seconds)
        silent = f"no agent is writing here: this is the state of {age_seconds / 60:.0f} min ago"
        super().__init__(
            settings=settings,
            measured=StillMeasured(
                rows=rings,
                units=units,
                history=history,
                pods=pods,
                clock=clock,
                end_monotonic_ns=newest_ns,
                interval_seconds=settings.sampling.interval_seconds,
                slow_interval_seconds=settings.sampling.slow_interval_seconds,
                tells_file_use=not has_generational_lru(),
            ),
            node=settings.node_name or node_name(),
            source="state",
            notes=(
                *((silent,) if age_seconds > SILENT_SECONDS else ()),
                *((history.damage,) if history.damage is not None else ()),
                *_strangers(history, units, pods),
            ),
            directed=directions.now,
        )

    def close(self) -> None:
        """Close the files; a second call is fine."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
