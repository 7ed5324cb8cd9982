"""Takes over what a node measures, as it comes, and writes it into a recording.

Node. The rings hold eleven minutes of readings: polled every few seconds, nothing is missed. What waits to be written
is bounded, whatever the number of units and the length of the recording.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Final

import numpy as np

from agent.core.cluster.unit import UnitIdentity
from agent.core.history.minute.key import HistoryKey, history_key
from agent.core.history.minute.minute_codec import Codes
from agent.core.history.minute.minutes import to_codes
from agent.node.history.file import HistoryError, HistoryFile
from agent.node.history.learner import is_sized
from agent.node.offline.recorder_sources import MeasuredNode
from agent.node.offline.recording_format import (
    DTYPES,
    STAMPS,
    Manifest,
    RecordedKill,
    RecordedUnit,
    RecordingError,
    RowKind,
    Rows,
    UnitFacts,
)
from agent.node.offline.recording_writer import RecordingWriter
from agent.node.sampling.pods_file import NoPods, PodsFile
from agent.node.sampling.unit_table import identity_at
from agent.sensing.ring_file import RingFile
from agent.sensing.ring_view import RingView
from agent.settings import Settings
from agent.settings.sections import camel
from agent.version import installed_version

NS: Final = 1_000_000_000
WAITING_BYTES: Final = 8 << 20
"""Rows that wait to be written at most, and one unit's more; ten minutes of 200 units."""
HISTORY_CELLS: Final = 1 << 18
"""Minutes x keys of a chunk of the history: 1.5 MiB."""
OVERLAP_ROWS: Final = 8
"""Rows looked at again, for those that come between two looks."""
_STEP_NS: Final = 10_000_000
"""To which times between two rows are rounded."""
_UNMATCHED: Final = (
    "without the history: it stands under other names, so the agent knows of pods that the recorder was not told of"
)
RHYTHM_TOLERANCE: Final = 0.2
"""Stamps jitter, and a few sweeps come early."""


class NothingToRecord(RecordingError):  # noqa: N818 - a state of the world, named as one
    """Not a single reading of what was wanted."""


@dataclass(slots=True)
class _Unit:
    """One cgroup being recorded."""

    number: int
    path: str
    inode: int
    facts: list[UnitFacts]
    heads: dict[RowKind, int] = field(default_factory=dict)
    """How many rows were written when it was last looked at."""
    newest: dict[RowKind, int] = field(default_factory=dict)
    """Stamp of the newest row that was taken over."""
    slot: int = -1
    generation: int = -1
    gone_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMachine:
    """The node that is recorded."""

    name: str
    cpus: int


class Recorder:
    """Follows rings; see the module's docstring. One thread."""

    def __init__(
        self,
        *,
        writer: RecordingWriter,
        measured: MeasuredNode,
        settings: Settings,
        pods: PodsFile | NoPods,
        holds: Callable[[UnitIdentity], bool],  # Which units are wanted
        machine: RecordedMachine,
        waiting_bytes: int = WAITING_BYTES,  # Rows that wait are written when they are more
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Take the history over, and what the rings hold now.

        Raises:
            RecordingError: It cannot be written.
            RingError: The rings are gone.
        """
        self._writer, self._measured, self._settings = writer, measured, settings
        self._pods, self._holds, self._clock_ns = pods, holds, clock_ns
        self._machine = machine
        self._units: list[_Unit] = []
        self._present: dict[tuple[str, int], _Unit] = {}
        self._unwanted: set[tuple[str, int]] = set()
        self._waiting: dict[RowKind, dict[int, list[Rows]]] = {kind: defaultdict(list) for kind in RowKind}
        self._waiting_bytes, self._most_waiting_bytes = 0, waiting_bytes
        self._steps: dict[RowKind, Counter[int]] = {kind: Counter() for kind in RowKind}
        """Times between two rows of a unit, and how often they were: a busy node's are uneven, so all count."""
        self._newest_minute: int | None = None
        self._keys: dict[HistoryKey, int] = {}
        self._history_until: int | None = None
        self._notes: list[str] = []
        self.samples = 0
        """Taken over so far."""
        self.begun_ns: int | None = None
        """Stamp of the oldest sample; None = there was none yet."""
        self.ended_ns = 0
        self.poll()
        self._take_history()

    @property
    def units(self) -> int:
        """How many units there were so far."""
        return len(self._units)

    def poll(self) -> None:
        """Take over what has come since the last call.

        Raises:
            RecordingError: It cannot be written.
            RingError: The rings are gone.
        """
        rings = self._measured.rings()
        has_news = self._pods.refresh()
        if has_news:
            self._unwanted.clear()
        slots: dict[tuple[str, int], int] = {}
        for path, slot in rings.retained().items():
            generation = rings.generation(slot)
            key = (path, rings.inode(slot))
            if rings.generation(slot) == generation and key not in self._unwanted:
                slots[key] = slot
        for key in [key for key in self._present if key not in slots]:
            unit = self._present.pop(key)
            self._take_rows(rings, unit)  # its slot keeps the last rows until another gets it
            unit.gone_ns = unit.newest.get(RowKind.RAW, self._clock_ns())
        for key, slot in slots.items():
            unit_now = self._present.get(key) or self._new_unit(key)
            if unit_now is None:
                continue
            if has_news:
                self._name_again(unit_now)
            if (unit_now.slot, unit_now.generation) != (slot, rings.generation(slot)):
                unit_now.slot, unit_now.generation = slot, rings.generation(slot)
                unit_now.heads.clear()
            self._take_rows(rings, unit_now)

    def _new_unit(self, key: tuple[str, int]) -> _Unit | None:
        facts = self._facts(key[0], since_ns=0)
        if not self._holds(facts.identity):
            self._unwanted.add(key)
            return None
        unit = _Unit(number=len(self._units), path=key[0], inode=key[1], facts=[facts])
        self._units.append(unit)
        self._present[key] = unit
        return unit

    def _facts(self, path: str, *, since_ns: int) -> UnitFacts:
        identity, resources = self._pods.name(identity_at(path))
        return UnitFacts(
            since_monotonic_ns=since_ns,
            identity=identity,
            resources=resources,
            belonging=self._pods.belonging(identity),
        )

    def _name_again(self, unit: _Unit) -> None:
        facts = self._facts(unit.path, since_ns=self._clock_ns())
        before = unit.facts[-1]
        if (facts.identity, facts.resources, facts.belonging) != (before.identity, before.resources, before.belonging):
            unit.facts.append(facts)

    def _take_rows(self, rings: RingFile, unit: _Unit) -> None:
        """Take the new rows of one unit over."""
        views = {RowKind.RAW: rings.raw, RowKind.MEMORY: rings.memory, RowKind.MINUTES: rings.minutes}
        for kind, view_of in views.items():
            rows = _new_rows(partial(view_of, unit.slot), unit, kind)
            if rings.generation(unit.slot) != unit.generation:  # after use: another cgroup stands there by now
                return
            if rows.size:
                self._keep(unit, kind, rows)
        if self._waiting_bytes > self._most_waiting_bytes:
            self._write_rows()

    def _keep(self, unit: _Unit, kind: RowKind, rows: Rows) -> None:
        stamps = rows[STAMPS[kind]].astype(np.int64)
        newest = unit.newest[kind] = int(stamps[-1])
        self._steps[kind].update(np.rint(np.diff(stamps) / _STEP_NS).astype(np.int64).tolist())
        if kind is RowKind.RAW:
            self.samples += rows.size
            oldest = int(stamps[0])
            self.begun_ns = oldest if self.begun_ns is None else min(self.begun_ns, oldest)
            self.ended_ns = max(self.ended_ns, newest)
        elif kind is RowKind.MINUTES:
            self._newest_minute = max(self._newest_minute or 0, newest)
        self._waiting[kind][unit.number].append(rows)
        self._waiting_bytes += rows.nbytes

    def _write_rows(self) -> None:
        self._writer.add_rows(
            {
                kind: [(unit, np.concatenate(pieces)) for unit, pieces in sorted(by_unit.items())]
                for kind, by_unit in self._waiting.items()
            }
        )
        self._waiting = {kind: defaultdict(list) for kind in RowKind}
        self._waiting_bytes = 0

    # -- history ---------------------------------------------------------------------------------------------------

    def _take_history(self) -> tuple[RecordedKill, ...]:
        """Write what the history has come to hold of all units so far; give the kills it remembers."""
        former, until = set(self._keys.values()), self._history_until
        for unit in self._units:
            facts = unit.facts[-1]
            if is_sized(facts.identity):
                self._keys.setdefault(history_key(facts.identity, facts.belonging.workload), len(self._keys))
        try:
            with self._measured.history() as history:
                self._history_until = history.newest_unix_minute
                rows = history.keys()
                known = {self._keys[key]: row for key, row in rows.items() if key in self._keys}
                self._write_history(history, {key: row for key, row in known.items() if key not in former}, 0)
                since = 0 if until is None else until + 1
                self._write_history(history, {key: row for key, row in known.items() if key in former}, since)
                self._notes = [_UNMATCHED] if rows and self._keys and not known else []
                numbers = {row: number for number, row in known.items()}
                return tuple(
                    RecordedKill(history=numbers[row], kill=kill) for row, kill in history.kills() if row in numbers
                )
        except HistoryError as error:
            self._notes = [f"without what was measured before: {error}"]
            return ()

    def _write_history(self, history: HistoryFile, wanted: dict[int, int], from_minute: int) -> None:
        """Write the minutes of some keys (number -> row), from one on."""
        if not wanted:
            return
        rows = np.array(list(wanted.values()), dtype=np.intp)
        most = max(HISTORY_CELLS // rows.size, 1)
        axis: list[int] = []
        minute_codes: list[Codes] = []

        def write() -> None:
            if axis:
                self._writer.add_history(list(wanted), np.array(axis, dtype=np.int64), np.stack(minute_codes))
            axis.clear()
            minute_codes.clear()

        for minutes in history.stream(from_minute):
            codes = to_codes(minutes)[:, rows]
            if codes.any():
                axis.append(minutes.unix_minute)
                minute_codes.append(codes)
            if len(axis) >= most:
                write()
        write()

    # -- the end ---------------------------------------------------------------------------------------------------

    def finish(self) -> int:
        """Take over what has come since, and give the recording its name.

        Returns:
            Bytes of the file.

        Raises:
            NothingToRecord: There was no reading at all.
            RecordingError: It cannot be written.
            RingError: The rings are gone.
            HistoryError: They are of an earlier boot, and nothing tells when that was.
        """
        self.poll()
        kills = self._take_history()
        # The rings once more, after the history: which minute of one is which of the other depends on the order.
        self.poll()
        self._write_rows()
        if self.begun_ns is None:
            raise NothingToRecord(f"recording {self._writer.path}: not a single reading of what was asked for")
        sampling, windows = self._settings.sampling, self._settings.windows
        offsets = self._measured.offsets(
            newest_unix_minute=self._history_until, newest_monotonic_minute=self._newest_minute
        )
        return self._writer.finish(
            Manifest(
                program=installed_version(),
                node=self._machine.name,
                cpus=self._machine.cpus,
                source=self._measured.source,
                boot_id=self._measured.rings().boot_id,
                begun_unix_seconds=self.begun_ns / NS + offsets.wall_seconds,
                ended_unix_seconds=self.ended_ns / NS + offsets.wall_seconds,
                begun_monotonic_ns=self.begun_ns,
                ended_monotonic_ns=self.ended_ns,
                history_offset_minutes=offsets.history_minutes,
                interval_seconds=self._rhythm_seconds(RowKind.RAW, sampling.interval_seconds),
                slow_interval_seconds=self._rhythm_seconds(RowKind.MEMORY, sampling.slow_interval_seconds),
                windows={camel(field.name): float(getattr(windows, field.name)) for field in fields(windows)},
                units=tuple(
                    RecordedUnit(inode=unit.inode, facts=tuple(unit.facts), gone_monotonic_ns=unit.gone_ns)
                    for unit in self._units
                ),
                histories=tuple(str(key) for key in self._keys),
                kills=kills,
                row_chunks=(),
                history_chunks=(),
                notes=tuple(self._notes),
            )
        )

    def _rhythm_seconds(self, kind: RowKind, configured_seconds: float) -> float:
        """Return the time between two rows: as it is set here, unless the agent's is another."""
        steps = self._steps[kind]
        if not steps:
            return configured_seconds
        seconds = max(_median(steps), 1) * _STEP_NS / NS
        is_near = abs(seconds - configured_seconds) <= RHYTHM_TOLERANCE * configured_seconds
        return configured_seconds if is_near else seconds


def _median(counted: Counter[int]) -> int:
    """Return the value in the middle of what was counted."""
    before, half = 0, counted.total() / 2
    for value in sorted(counted):
        before += counted[value]
        if before >= half:
            break
    return value


def _new_rows(view_of: Callable[[int | None], RingView], unit: _Unit, kind: RowKind) -> Rows:
    """Return the rows that a unit has got since it was last looked at."""
    view = view_of(None)
    before = unit.heads.get(kind)
    if before is not None:
        if view.head == before:
            return np.zeros(0, dtype=DTYPES[kind])
        # The writer goes on meanwhile: what comes between the two looks would push as many new rows out of the view.
        view = view_of(view.head - before + OVERLAP_ROWS)
    unit.heads[kind] = view.head
    rows: Rows = view.joined()
    return rows[rows[STAMPS[kind]] > unit.newest.get(kind, -1)]
