"""Rows of a trace as they come -> the regular grid of ``TraceSet``. Core, pure.

A row counts for the minute of its time. Several rows of one container in one minute give the mean of CPU and psi and
the largest memory; their CPU is kept row by row beside that (``fine_rows``). Rows further apart than a minute hold
(``row_holds``). An empty value is a gap as long as its row holds. No row is left out: what cannot be taken is a
``TraceFault``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.numbers.arrays import Bools, Floats, Ints
from agent.core.recommender.simulation.fine_rows import FineRows, rows_of
from agent.core.recommender.simulation.row_holds import Hold, Kind, held_over, holds_of
from agent.core.recommender.simulation.trace import Floats32, TraceSet

MAX_CELLS: Final = 50_000_000
"""Minutes x containers of one trace at most: about 1 GB, and 4,900 containers for a week."""
LARGEST_TIME_SECONDS: Final = 1e11
"""In the year 5138; a larger time is one in milliseconds or finer."""
LARGEST_MILLICORES: Final = 1e9
LARGEST_BYTES: Final = float(1 << 53)
"""Whole numbers are exact in a float up to here."""
LONGEST_MINUTES: Final = 10 * 366 * 1440
"""Ten years; a row further away than that from others has a wrong time."""
LONGEST_NAME: Final = 1024
_SECONDS: Final = 60


class TraceFault(ValueError):  # noqa: N818 - a fault of the data, as its reader names it
    """A row that cannot be taken: which, which column, and the rule it breaks."""

    def __init__(self, index: int, column: str, rule: str) -> None:
        super().__init__(f"column {column}: {rule}")
        self.index = index
        """In the rows that were handed over, from 0."""
        self.column = column
        self.rule = rule


class TraceTooLargeError(ValueError):
    """The grid would not fit into memory; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRows:
    """Some rows in the order of the trace; shape ``(k,)`` each. Beside a False mask any number may stand."""

    time_seconds: Floats
    """Unix seconds, UTC."""
    containers: Sequence[str]
    cpu_millicores: Floats
    has_cpu: Bools
    memory_bytes: Floats
    has_memory: Bools
    psi: Floats
    has_psi: Bools


class TraceBuilder:
    """Builds a trace from rows, some at a time; holds no more than the grid."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._ids: dict[str, int] = {}
        self._last_seconds = np.full(0, -np.inf)
        self._start_minute = 0
        self._minutes = 0
        self._psi_rows = 0
        self._no_psi_rows = 0
        nothing = (0, 0)
        self._has_row = np.zeros(nothing, dtype=np.bool_)
        self._cpu_sum = np.zeros(nothing, dtype=np.float32)
        self._cpu_rows = np.zeros(nothing, dtype=np.uint16)
        self._memory = np.zeros(nothing)
        self._has_memory = np.zeros(nothing, dtype=np.bool_)
        self._psi_sum = np.zeros(nothing, dtype=np.float32)
        self._fine = FineRows()

    def add(self, rows: TraceRows) -> None:
        """Add rows.

        Raises:
            TraceFault: One of them breaks a rule; the first that does, in the order of the trace.
            TraceTooLargeError: All of them together need too much memory.
        """
        if not len(rows.containers):
            return
        faults = list(_value_faults(rows))
        ids = self._ids_of(rows.containers)
        if not faults or min(fault.index for fault in faults) > 0:
            faults += self._order_faults(rows.time_seconds, ids, rows.containers)
        if faults:
            raise min(faults, key=lambda fault: fault.index)
        minutes = (rows.time_seconds // _SECONDS).astype(np.int64)
        self._check_span(minutes, rows.time_seconds)
        self._make_room(int(minutes.min()), int(minutes.max()))
        places = (minutes - self._start_minute, ids)
        self._has_row[places] = True
        with_cpu = tuple(axis[rows.has_cpu] for axis in places)
        np.add.at(self._cpu_sum, with_cpu, rows.cpu_millicores[rows.has_cpu].astype(np.float32))
        np.add.at(self._cpu_rows, with_cpu, 1)
        with_memory = tuple(axis[rows.has_memory] for axis in places)
        np.maximum.at(self._memory, with_memory, np.ceil(rows.memory_bytes[rows.has_memory]))
        self._has_memory[with_memory] = True
        with_both = rows.has_psi & rows.has_cpu
        np.add.at(self._psi_sum, tuple(axis[with_both] for axis in places), rows.psi[with_both].astype(np.float32))
        self._psi_rows += int(with_both.sum())
        self._no_psi_rows += int((rows.has_cpu & ~rows.has_psi).sum())
        if self._fine.is_kept:
            self._fine.add(rows.time_seconds, ids, rows.cpu_millicores, rows.has_cpu)
            self._fine.look(self._minutes, int(self._has_row.sum()))

    def _ids_of(self, containers: Sequence[str]) -> NDArray[np.intp]:
        known = self._ids
        for name in dict.fromkeys(containers):
            known.setdefault(name, len(known))
        new = len(known) - self._last_seconds.size
        if new:
            self._last_seconds = np.concatenate((self._last_seconds, np.full(new, -np.inf)))
        return np.fromiter(map(known.__getitem__, containers), np.intp, len(containers))

    def _order_faults(self, time_seconds: Floats, ids: NDArray[np.intp], containers: Sequence[str]) -> list[TraceFault]:
        """Find the first row whose time does not rise above its container's row before."""
        order = np.argsort(ids, kind="stable")
        sorted_ids, sorted_seconds = ids[order], time_seconds[order]
        begins = np.concatenate(([True], sorted_ids[1:] != sorted_ids[:-1]))
        before = np.concatenate(([-np.inf], sorted_seconds[:-1]))
        before[begins] = self._last_seconds[sorted_ids[begins]]
        wrong = order[~(sorted_seconds > before)]
        if wrong.size:
            first = int(wrong.min())
            earlier = float(before[np.flatnonzero(order == first)[0]])
            time, who = float(time_seconds[first]), shown_text(containers[first])
            what = "stands twice" if time == earlier else f"comes after {earlier:.15g}"
            return [TraceFault(first, "time", f"{time:.15g} {what} for container {who}; allowed: rising times")]
        ends = np.concatenate((begins[1:], [True]))
        self._last_seconds[sorted_ids[ends]] = sorted_seconds[ends]
        return []

    def _check_span(self, minutes: Ints, time_seconds: Floats) -> None:
        """Find the first row that makes the trace absurdly long."""
        # What was there before counts as one more row in front.
        before = np.array(
            [self._start_minute, self._start_minute + self._minutes - 1] if self._minutes else [], np.int64
        )
        all_minutes = np.concatenate((before, minutes))
        span = np.maximum.accumulate(all_minutes) - np.minimum.accumulate(all_minutes)
        if span[-1] > LONGEST_MINUTES:
            first = int((span > LONGEST_MINUTES).argmax()) - before.size
            rule = f"{time_seconds[first]:.15g} lies years away from the rows before; allowed: ten years in one trace"
            raise TraceFault(first, "time", rule)

    def _make_room(self, first_minute: int, last_minute: int) -> None:
        """Make the grid hold these minutes and all containers known by now."""
        first = min(first_minute, self._start_minute) if self._minutes else first_minute
        after = max(last_minute + 1, self._start_minute + self._minutes)
        minutes, containers = after - first, len(self._ids)
        _check_size(minutes, containers)
        shift = self._start_minute - first if self._minutes else 0
        room = self._has_row.shape
        if shift or minutes > room[0] or containers > room[1]:
            shape = (
                room[0] if minutes <= room[0] else minutes + minutes // 2,
                room[1] if containers <= room[1] else containers + containers // 2,
            )
            target = slice(shift, shift + self._minutes)
            self._has_row = _moved(self._has_row, shape, target)
            self._cpu_sum = _moved(self._cpu_sum, shape, target)
            self._cpu_rows = _moved(self._cpu_rows, shape, target)
            self._memory = _moved(self._memory, shape, target)
            self._has_memory = _moved(self._has_memory, shape, target)
            self._psi_sum = _moved(self._psi_sum, shape, target)
        self._start_minute, self._minutes = first, minutes

    def build(self) -> TraceSet:
        """Return the grid; call it once, after the last row of at least one."""
        containers = len(self._ids)
        part = (slice(0, self._minutes), slice(0, containers))
        holds = holds_of(self._has_row[part])
        minutes = max((hold.after_cell for hold in holds), default=0)
        _check_size(minutes, containers)
        cpu_rows = self._cpu_rows[part]
        cpu = _divided(self._cpu_sum[part], cpu_rows)
        psi = _divided(self._psi_sum[part], cpu_rows) if self._psi_rows else None
        self._cpu_sum = self._psi_sum = np.zeros((0, 0), dtype=np.float32)
        cpu, has_cpu = held_over(cpu, holds, minutes), held_over(cpu_rows > 0, holds, minutes)
        fine, fine_notes = rows_of(self._fine.laid_out(self._start_minute, cpu, has_cpu))
        return TraceSet(
            name=self._name,
            containers=tuple(self._ids),
            start_unix_minute=self._start_minute,
            cpu_millicores=cpu,
            has_cpu=has_cpu,
            memory_bytes=held_over(self._memory[part], holds, minutes),
            has_memory=held_over(self._has_memory[part], holds, minutes),
            psi=None if psi is None else held_over(psi, holds, minutes),
            row_minutes=int(np.median([hold.usual_cells for hold in holds] or [1])),
            fine=fine,
            pod_containers=_pod_containers(tuple(self._ids)),
            notes=(*self._notes(holds), *fine_notes),
        )

    def _notes(self, holds: Sequence[Hold]) -> list[str]:
        notes: list[str] = []
        usual = Counter(hold.usual_cells for hold in holds)
        coarse = {minutes: count for minutes, count in usual.items() if minutes > 1}
        if coarse:
            intervals = ", ".join(f"{minutes} min ({count} containers)" for minutes, count in sorted(coarse.items()))
            notes.append(
                f"rows further apart than a minute hold until the next one: {intervals}; peaks inside are unseen"
            )
        has_cpu = self._cpu_rows[: self._minutes, : len(self._ids)] > 0
        if has_cpu.any() and not self._has_memory.any():
            notes.append("it tells of no memory")
        if self._has_memory.any() and not has_cpu.any():
            notes.append("it tells of no CPU")
        if self._psi_rows and self._no_psi_rows:
            notes.append(f"psi is empty in {self._no_psi_rows} rows with CPU: taken as 0")
        return notes


def shown_text(text: str) -> str:
    """Write foreign text for an error: quoted, on one line, not endless."""
    quoted = ascii(text)
    return quoted if len(quoted) <= 80 else quoted[:77] + "..."


def _moved(old: NDArray[Kind], shape: tuple[int, int], target: slice[int, int, None]) -> NDArray[Kind]:
    """Return a larger grid that holds the old one's used minutes at ``target``."""
    # Pages that nobody writes to are never there, so room in advance costs nothing.
    new = np.zeros(shape, dtype=old.dtype)
    new[target, : old.shape[1]] = old[: target.stop - target.start]
    return new


def _check_size(minutes: int, containers: int) -> None:
    if minutes * containers > MAX_CELLS:
        msg = (
            f"{minutes} minutes of {containers} containers are more than {MAX_CELLS} container-minutes, "
            "which is all that is held at once; split the trace, or look for a wrong time in it"
        )
        raise TraceTooLargeError(msg)


def _value_faults(rows: TraceRows) -> list[TraceFault]:
    faults: list[TraceFault] = []

    def look(column: str, wrong: Bools, values: Floats, rule: str) -> None:
        if wrong.any():
            index = int(wrong.argmax())
            faults.append(TraceFault(index, column, f"{values[index]:.15g} {rule}"))

    time = rows.time_seconds
    look("time", ~np.isfinite(time), time, "is not finite; allowed: Unix seconds or ISO 8601")
    look("time", time < 0, time, "is negative; allowed: Unix seconds or ISO 8601")
    look("time", time > LARGEST_TIME_SECONDS, time, "is in milliseconds or finer; allowed: Unix seconds")
    names = {name: rule for name in dict.fromkeys(rows.containers) if (rule := _name_rule(name)) is not None}
    if names:
        index, name = next((index, name) for index, name in enumerate(rows.containers) if name in names)
        faults.append(TraceFault(index, "container", f"{shown_text(name)} {names[name]}"))
    for column, values, has, largest, unit in (
        ("cpu_millicores", rows.cpu_millicores, rows.has_cpu, LARGEST_MILLICORES, "millicores"),
        ("memory_bytes", rows.memory_bytes, rows.has_memory, LARGEST_BYTES, "bytes"),
        ("psi", rows.psi, rows.has_psi, 1.0, "a ratio"),
    ):
        allowed = f"allowed: {unit} from 0 to {largest:.16g}, or empty for a gap"
        look(column, has & ~np.isfinite(values), values, f"is not finite; {allowed}")
        look(column, has & (values < 0), values, f"is negative; {allowed}")
        look(column, has & (values > largest) & np.isfinite(values), values, f"is too large; {allowed}")
    return faults


def _name_rule(name: str) -> str | None:
    if not name.strip():
        return "is empty; allowed: a container's name"
    if len(name) > LONGEST_NAME:
        return f"is too long; allowed: {LONGEST_NAME} characters"
    if not name.isprintable():
        return "has characters that cannot be printed; allowed: printable ones"
    return None


def _divided(sums: Floats32, counts: NDArray[np.uint16]) -> Floats32:
    """Return the means in place of the sums; 0 where there is nothing."""
    return np.divide(sums, counts, out=sums, where=counts > 1)


def _pod_containers(containers: Sequence[str]) -> Ints | None:
    """Count the containers of each one's pod where names are ``namespace/pod/container``; None = nowhere."""
    pods = [name.rpartition("/")[0] if name.count("/") == 2 else None for name in containers]
    if not any(pods):
        return None
    counts = Counter(pods)
    return np.array([counts[pod] if pod else 1 for pod in pods], dtype=np.int64)
