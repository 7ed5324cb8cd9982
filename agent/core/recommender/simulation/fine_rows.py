"""Rows of CPU that are closer together than minutes: kept while a trace is read, and laid on a grid of seconds.

Core, pure. The grid's step is a divisor of a minute, so that each minute has whole rows: the usual distance of the
trace's rows in whole seconds, or the next divisor below it. Rows further apart than ``COARSE_SECONDS`` are minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.numbers.arrays import Bools, Floats
from agent.core.recommender.simulation.row_holds import held_over, holds_of
from agent.core.recommender.simulation.trace import FineUsage, Floats32

MAX_FINE_CELLS: Final = 25_000_000
"""Rows x containers at most: about 300 MB at work, and 289 containers for a day of seconds."""
COARSE_SECONDS: Final = 45.0
"""Rows as far apart, or further, are judged as minutes."""
_MINUTE_SECONDS: Final = 60
_DIVISORS: Final = (30, 20, 15, 12, 10, 6, 5, 4, 3, 2, 1)
_LOOK_MINUTES: Final = 3
"""So many minutes of a trace tell whether it has several rows in each."""
_FINE_ROWS: Final = 1.25
"""Rows in a container's minute from which on it has several: at ``COARSE_SECONDS`` there are 1.33."""


def row_seconds_of(usual_seconds: float) -> int | None:
    """Return the step of a grid for rows of this distance; None = minutes."""
    if usual_seconds >= COARSE_SECONDS:
        return None
    return next((step for step in _DIVISORS if step <= round(usual_seconds)), 1)


def too_fine_note(row_seconds: int, rows: int, containers: int) -> str | None:
    """Return a note that rows of this step are too many to be held at once; None = they are not."""
    if rows * containers <= MAX_FINE_CELLS:
        return None
    return (
        f"its rows of {row_seconds} s are judged as minutes: {rows} of {containers} containers are more than "
        f"{MAX_FINE_CELLS}, which is all that is held at once; split the trace"
    )


def agreed(cpu: Floats32, has_cpu: Bools, minute_cpu: Floats32, minute_has: Bools) -> FineUsage:
    """Return fine rows that agree with the minutes: their shape is ``(minutes x rows of each, n)``.

    A minute that is known although none of its rows is, as those of a history are, has its mean in all of them; rows of
    a minute that is not known are none.
    """
    minutes, containers = minute_cpu.shape
    rows_per_minute = cpu.shape[0] // minutes
    by_minute = (minutes, rows_per_minute, containers)
    has = has_cpu.reshape(by_minute) & minute_has[:, None, :]
    is_bare = minute_has & ~has.any(axis=1)
    values = np.where(is_bare[:, None, :], minute_cpu[:, None, :], cpu.reshape(by_minute) * has)
    return FineUsage(
        rows_per_minute=rows_per_minute,
        cpu_millicores=values.astype(np.float32).reshape(-1, containers),
        has_cpu=(has | is_bare[:, None, :]).reshape(-1, containers),
    )


class FineRows:
    """Keeps a trace's rows of CPU while they may turn out to be closer together than minutes."""

    def __init__(self) -> None:
        self._seconds: list[Floats] = []
        self._ids: list[NDArray[np.intp]] = []
        self._cpu: list[Floats32] = []
        self._has: list[Bools] = []
        self._rows = 0
        self.is_kept = True
        """They may yet be closer together than minutes."""

    def add(self, time_seconds: Floats, ids: NDArray[np.intp], cpu_millicores: Floats, has_cpu: Bools) -> None:
        """Add rows, shape ``(k,)`` each; not to be called once they are let go of."""
        self._seconds.append(time_seconds)
        self._ids.append(ids)
        self._cpu.append(np.where(has_cpu, cpu_millicores, 0.0).astype(np.float32))
        self._has.append(has_cpu)
        self._rows += time_seconds.size

    def look(self, minutes: int, cells: int) -> None:
        """Drop all rows where they are minutes, by the minutes that have a row; of too many, too."""
        is_coarse = minutes >= _LOOK_MINUTES and self._rows < _FINE_ROWS * cells
        if is_coarse or self._rows > MAX_FINE_CELLS:
            self.is_kept = False
            self._seconds, self._ids, self._cpu, self._has = [], [], [], []

    def laid_out(self, start_unix_minute: int, minute_cpu: Floats32, minute_has: Bools) -> FineUsage | str | None:
        """Lay the rows beside the trace's minutes; None = they are minutes, a text says why they cannot be had."""
        if not self._rows or not self.is_kept:
            return None
        seconds, ids = np.concatenate(self._seconds), np.concatenate(self._ids)
        row_seconds = row_seconds_of(_usual_seconds(seconds, ids))
        if row_seconds is None:
            return None
        minutes, containers = minute_cpu.shape
        shape = (minutes * (_MINUTE_SECONDS // row_seconds), containers)
        note = too_fine_note(row_seconds, *shape)
        if note is not None:
            return note
        cells = (seconds // row_seconds).astype(np.int64) - start_unix_minute * (_MINUTE_SECONDS // row_seconds)
        has_row = np.zeros(shape, dtype=np.bool_)
        has_row[cells, ids] = True
        known = np.concatenate(self._has)
        places = (cells[known], ids[known])
        sums, counts = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.uint16)
        np.add.at(sums, places, np.concatenate(self._cpu)[known])
        np.add.at(counts, places, 1)
        np.divide(sums, counts, out=sums, where=counts > 1)
        holds = holds_of(has_row)
        length = max(shape[0], *(hold.after_cell for hold in holds))
        cpu, has = (held_over(grid, holds, length)[: shape[0]] for grid in (sums, counts > 0))
        return agreed(cpu, has, minute_cpu, minute_has)


def _usual_seconds(seconds: Floats, ids: NDArray[np.intp]) -> float:
    """Return the median distance of a container's rows; infinite where each has one."""
    order = np.argsort(ids, kind="stable")
    apart = np.diff(seconds[order])[np.diff(ids[order]) == 0]
    return float(np.median(apart)) if apart.size else float("inf")


def rows_of(fine: FineUsage | str | None) -> tuple[FineUsage | None, Sequence[str]]:
    """Return the rows, and what is to be said about them."""
    return (None, (fine,)) if isinstance(fine, str) else (fine, ())
