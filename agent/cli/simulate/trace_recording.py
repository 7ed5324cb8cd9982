"""A recording as a trace: its minutes, unit by unit, on the grid that a simulation replays. Face.

A minute of a unit is the minute row that the agent summed up: CPU mean, PSI-adjusted peak, waiting, peak of the working
set. Beside it stands the CPU of its raw readings, in rows of the recorder's interval: one second, as a rule. Before a
unit's first one stand the minutes of the history of seven days, where its key is this unit's alone: of these waiting is
not known, but their peaks are PSI-adjusted as well.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.history.minute.key import history_key
from agent.core.history.minute.minutes import KIB, from_codes
from agent.core.numbers.arrays import Bools
from agent.core.recommender.simulation.fine_rows import agreed, row_seconds_of, too_fine_note
from agent.core.recommender.simulation.trace import Floats32, TraceSet
from agent.core.recommender.simulation.trace_builder import MAX_CELLS, TraceTooLargeError
from agent.core.recommender.unit_names import called
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import Has, Status
from agent.core.window.steps import MILLICORES_PER_USEC_PER_NS, NS, cpu_steps
from agent.node.history.learner import is_sized
from agent.node.offline.recording import Recording
from agent.node.offline.recording_format import Manifest, RecordingError, RowKind, Rows, gap_policy

_FULL: Final = 255
_MINUTE_SECONDS: Final = 60
_HISTORY_NOTE: Final = (
    "the minutes before the readings are those of the history: waiting is not known of them, only PSI-adjusted peaks"
)


def load_recording(path: Path, *, on_progress: Callable[[float], None]) -> TraceSet:
    """Read a recording as a trace; progress is the share that is read, 0..1.

    Raises:
        RecordingError: It cannot be read, or holds no minute.
        TraceTooLargeError: It does not fit into memory.
    """
    with Recording(path) as recording:
        manifest = recording.manifest
        minutes: dict[str, list[Rows]] = defaultdict(list)
        names = _names(manifest)
        # Half of the progress is the minutes', half the readings'.
        for number in range(len(manifest.row_chunks)):
            for unit, rows in recording.rows(number, RowKind.MINUTES):
                if unit in names:
                    minutes[names[unit]].append(rows)
            on_progress((number + 1) / len(manifest.row_chunks) / 2)
        trace = _Grid(recording, names, minutes).trace()
        return _with_readings(trace, recording, names, on_progress=lambda share: on_progress((1 + share) / 2))


def _with_readings(
    trace: TraceSet, recording: Recording, names: dict[int, str], *, on_progress: Callable[[float], None]
) -> TraceSet:
    """Lay the CPU of the raw readings beside the minutes."""
    manifest = recording.manifest
    row_seconds = row_seconds_of(manifest.interval_seconds)
    if row_seconds is None:
        return trace
    rows_per_minute = _MINUTE_SECONDS // row_seconds
    shape = (trace.minutes * rows_per_minute, len(trace.containers))
    note = too_fine_note(row_seconds, *shape)
    if note is not None:
        return replace(trace, notes=(*trace.notes, note))
    first_cell = (trace.start_unix_minute - manifest.history_offset_minutes) * rows_per_minute
    readings = ReadingGrid(gap_policy(manifest), row_seconds * NS, first_cell, shape)
    columns = {name: column for column, name in enumerate(trace.containers)}
    for number in range(len(manifest.row_chunks)):
        for unit, rows in recording.rows(number, RowKind.RAW):
            if unit in names:
                readings.add(unit, columns[names[unit]], rows)
        on_progress((number + 1) / len(manifest.row_chunks))
    cpu, has_cpu = readings.rates()
    return replace(trace, fine=agreed(cpu, has_cpu, trace.cpu_millicores, trace.has_cpu))


class ReadingGrid:
    """Raw readings -> what was used in each cell of a grid, and of how much of the cell that is known."""

    def __init__(self, policy: WindowPolicy, cell_ns: int, first_cell: int, shape: tuple[int, int]) -> None:
        self._policy = policy
        self._cell_ns = cell_ns
        self._first_cell = first_cell
        self._used_usec = np.zeros(shape, dtype=np.float32)
        self._known_ns = np.zeros(shape, dtype=np.float32)
        self._last: dict[int, Rows] = {}

    def add(self, unit: int, column: int, rows: Rows) -> None:
        """Add a unit's next readings, oldest first; the first of them is paired with the last before."""
        before = self._last.get(unit)
        pieces = [rows] if before is None else [before, rows]
        steps = cpu_steps(pieces, self._policy, until_ns=int(rows["monotonic_ns"].max()))
        good = rows[rows["status"] == int(Status.OK)]
        if good.size:
            self._last[unit] = good[-1:]
        if steps.axis_ns.size < 2:
            return
        axis = steps.axis_ns - self._first_cell * self._cell_ns
        cells = self._used_usec.shape[0]
        first = max(int(axis[0] // self._cell_ns), 0)
        after = min(int(axis[-1] // self._cell_ns) + 1, cells)
        if first >= after:
            return
        # What a pair used is spread evenly over its time; a pair that is a gap adds neither.
        edges = np.arange(first, after + 1) * float(self._cell_ns)
        for grid, amounts in ((self._used_usec, steps.used_usec), (self._known_ns, steps.elapsed_ns)):
            sums = np.concatenate(([0.0], np.cumsum(np.where(steps.good, amounts, 0.0))))
            grid[first:after, column] += np.diff(np.interp(edges, axis.astype(np.float64), sums))

    def rates(self) -> tuple[Floats32, Bools]:
        """Return millicores and where they are known: in cells of which at least half is."""
        has = self._known_ns >= 0.5 * self._cell_ns
        rates = np.divide(
            self._used_usec * np.float32(MILLICORES_PER_USEC_PER_NS),
            self._known_ns,
            out=np.zeros_like(self._used_usec),
            where=has,
        )
        return rates, has


def _names(manifest: Manifest) -> dict[int, str]:
    """Return the names of the units that are sized; a container that was started anew goes on under its name."""
    last = {number: unit.facts[-1].identity for number, unit in enumerate(manifest.units)}
    return {number: called(identity) for number, identity in last.items() if is_sized(identity)}


class _Grid:
    """Minutes x containers."""

    def __init__(self, recording: Recording, names: dict[int, str], minutes: dict[str, list[Rows]]) -> None:
        manifest = recording.manifest
        self._path, self._minutes = recording.path, minutes
        self._offset = manifest.history_offset_minutes
        self._containers = tuple(dict.fromkeys(names.values()))
        self._pod_containers = {
            name: manifest.units[unit].facts[-1].belonging.pod_containers for unit, name in names.items()
        }
        history = recording.history()
        self._history_minutes = history.unix_minutes
        amounts, has = from_codes(history.codes)
        self._amounts, self._has = amounts, has
        self._own_history = _own_histories(manifest, names)

    def trace(self) -> TraceSet:
        """Lay it out."""
        first, stop = self._span()
        shape = (stop - first, len(self._containers))
        if shape[0] * shape[1] > MAX_CELLS:
            raise TraceTooLargeError(
                f"{shape[0]} minutes of {shape[1]} containers are more than {MAX_CELLS} container-minutes, which is "
                "all that is held at once; record less with --filter"
            )
        cpu, peak, psi = (np.zeros(shape, dtype=np.float32) for _ in range(3))
        memory = np.zeros(shape)
        has_cpu, has_memory = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
        uses_history = False
        for column, name in enumerate(self._containers):
            rows = np.concatenate(self._minutes[name]) if name in self._minutes else None
            begin = stop if rows is None else int(self._unix(rows).min())
            key = self._own_history.get(name)
            if key is not None:
                before = self._history_minutes < begin
                places = self._history_minutes[before] - first
                uses_history |= bool(self._has[before, :, key].any())
                cpu[places, column] = self._amounts[before, 0, key]
                peak[places, column] = self._amounts[before, 1, key]
                memory[places, column] = self._amounts[before, 2, key]
                has_cpu[places, column] = self._has[before, 0, key]
                has_memory[places, column] = self._has[before, 2, key]
            if rows is not None:
                places = self._unix(rows) - first
                known = rows["coverage_255"] > 0
                waits = (rows["has"] & int(Has.PRESSURE)) > 0
                sized = (rows["has"] & int(Has.MEMORY_STAT)) > 0
                cpu[places, column] = np.where(known, rows["cpu_mean_millicores"], 0)
                peak[places, column] = np.where(known, rows["cpu_peak_millicores"], 0)
                psi[places, column] = np.where(known & waits, rows["waiting_255"] / np.float32(_FULL), 0)
                memory[places, column] = np.where(sized, rows["working_set_peak_kib"].astype(np.float64) * KIB, 0)
                has_cpu[places, column] = known
                has_memory[places, column] = sized
        return TraceSet(
            name=self._path.name,
            containers=self._containers,
            start_unix_minute=first,
            cpu_millicores=cpu,
            has_cpu=has_cpu,
            memory_bytes=memory,
            has_memory=has_memory,
            psi=psi,
            cpu_peak_millicores=np.maximum(peak, cpu),
            pod_containers=np.array([self._pod_containers[name] for name in self._containers], dtype=np.int64),
            notes=(_HISTORY_NOTE,) if uses_history else (),
        )

    def _unix(self, rows: Rows) -> NDArray[np.int64]:
        return rows["monotonic_minute"].astype(np.int64) + self._offset

    def _span(self) -> tuple[int, int]:
        axes = [self._unix(rows) for pieces in self._minutes.values() for rows in pieces]
        keys = list(self._own_history.values())
        axes.append(self._history_minutes[self._has[:, :, keys].any(axis=(1, 2))])
        every = np.concatenate(axes)
        if not every.size:
            raise RecordingError(
                f"recording {self._path}: no whole minute in it yet; allowed: some minutes of any unit"
            )
        return int(every.min()), int(every.max()) + 1


def _own_histories(manifest: Manifest, names: dict[int, str]) -> dict[str, int]:
    """Return the number of the history of each name that shares it with no other."""
    numbers = {text: number for number, text in enumerate(manifest.histories)}
    keys: dict[str, str] = {}
    for unit, name in names.items():
        facts = manifest.units[unit].facts[-1]
        keys[name] = str(history_key(facts.identity, facts.belonging.workload))
    shared = Counter(keys.values())
    return {name: numbers[key] for name, key in keys.items() if shared[key] == 1 and key in numbers}
