"""Keeps how good sizing was, of each row of the history: sums of ten minutes, of hours and of days, in rings.

Core, pure. 37 sums of 28 figures, and the prediction of the hour that is under way: 4,168 bytes a row, however many
containers share it. A window is made of whole sums and the one under way: the last hour of 50 to 60 minutes, the last
day of 23 to 24 hours, the last week of 6 to 7 days.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.history.minute.quality import (
    PEAK_FIELDS,
    PEAK_OFFSET,
    QUALITY_FIELDS,
    REQUEST_FIELDS,
    RESOURCE_FIELDS,
)
from agent.core.numbers.arrays import Bools, Floats, Ints, Rows, distinct

HOUR_MINUTES: Final = 60
_LEVELS: Final = ((10, 6), (60, 24), (1440, 7))
"""Minutes of a sum, and how many of them there are: for an hour, a day and a week."""
_SUMS: Final = sum(count for _, count in _LEVELS)
_NOTHING: Final = -1
"""As the number of a sum that holds nothing yet."""
LEAST_PEAK_MINUTES: Final = 55
"""Of an hour, known, before its largest demand is held against a prediction: what was not seen may have been it."""
_CPU_SECONDS: Final = 1 / 1000.0
"""CPU-seconds in a millicore-second."""
_BYTE_HOURS: Final = 1 / 3600.0
"""Byte-hours in a byte-second."""

QualityArray = NDArray[np.float32]
SavedArray = NDArray[np.float64] | NDArray[np.float32] | NDArray[np.int64] | NDArray[np.bool_] | NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingRequests:
    """What stood for one resource of some containers when a minute began; shape ``(n,)`` each, 0 beside False."""

    recommended: Floats
    has_recommended: Bools
    applied: Floats
    has_applied: Bools
    peak: Floats
    """Predicted."""
    has_peak: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedMinute:
    """What some containers used in a minute, and what stood when it began; shape ``(n,)`` each."""

    unix_minute: int
    rows: Rows
    """Of the history; several containers may have the same."""
    covered_seconds: Floats
    """Of the minute, in which the container was measured."""
    cpu_usage_millicores: Floats
    """Mean."""
    cpu_peak_millicores: Floats
    """Largest rate, PSI-adjusted."""
    has_cpu: Bools
    working_set_bytes: Floats
    """Peak."""
    has_memory: Bools
    cpu: StandingRequests
    memory: StandingRequests


class QualityLedger:
    """Rings of quality sums, a row for each row of the history. One thread at a time."""

    def __init__(self, rows: int) -> None:
        self._figures: QualityArray = np.zeros((rows, _SUMS, QUALITY_FIELDS), dtype=np.float32)
        self._numbers: Ints = np.full(_SUMS, _NOTHING, dtype=np.int64)
        """Which ten minutes, hour or day each sum is of, counted from 1970."""
        self._newest_unix_minute = _NOTHING
        self._peak_unix_hour = _NOTHING
        """Which the three below are of."""
        self._predicted: QualityArray = np.zeros((rows, 2), dtype=np.float32)
        """CPU and memory; 0 = nothing was predicted."""
        self._seen: QualityArray = np.zeros((rows, 2), dtype=np.float32)
        self._seen_minutes: QualityArray = np.zeros((rows, 2), dtype=np.float32)

    @property
    def rows(self) -> int:
        """Return of how many rows something can be kept."""
        return len(self._figures)

    @property
    def nbytes(self) -> int:
        """Return the memory that it takes."""
        return sum(array.nbytes for array in (self._figures, self._predicted, self._seen, self._seen_minutes))

    def grow(self, rows: int) -> None:
        """Make room for so many rows; those that come know nothing."""
        more = rows - self.rows
        if more > 0:
            self._figures = np.concatenate([self._figures, np.zeros((more, *self._figures.shape[1:]), np.float32)])
            nothing = np.zeros((more, 2), dtype=np.float32)
            self._predicted, self._seen, self._seen_minutes = (
                np.concatenate([array, nothing]) for array in (self._predicted, self._seen, self._seen_minutes)
            )

    def forget(self, rows: Rows) -> None:
        """Let rows know nothing: they have come to stand for others."""
        for array in (self._figures, self._predicted, self._seen, self._seen_minutes):
            array[rows] = 0.0

    # -- judging ----------------------------------------------------------------------------------------------------

    def fold(self, minute: JudgedMinute) -> None:
        """Judge a minute; one that is not after the newest is left out."""
        if minute.unix_minute <= self._newest_unix_minute:
            return
        self._newest_unix_minute = minute.unix_minute
        self._fold_peaks(minute)
        columns = [
            *_request_columns(
                minute.cpu_usage_millicores * _CPU_SECONDS, minute, minute.has_cpu, minute.cpu, _CPU_SECONDS
            ),
            *_request_columns(
                minute.working_set_bytes * _BYTE_HOURS, minute, minute.has_memory, minute.memory, _BYTE_HOURS
            ),
        ]
        self._add(minute.unix_minute, minute.rows, columns)

    def _add(self, unix_minute: int, rows: Rows, columns: list[Floats | None]) -> None:
        """Add to the sums that hold a minute; a column that is None adds nothing."""
        sums = np.zeros((self.rows, QUALITY_FIELDS), dtype=np.float32)
        for field, column in enumerate(columns):
            if column is not None:
                sums[:, field] = np.bincount(rows, weights=column, minlength=self.rows)
        first = 0
        for minutes, count in _LEVELS:
            number = unix_minute // minutes
            place = first + number % count
            first += count
            if self._numbers[place] != number:
                self._figures[:, place] = 0.0
                self._numbers[place] = number
            self._figures[:, place] += sums

    def _fold_peaks(self, minute: JudgedMinute) -> None:
        hour = minute.unix_minute // HOUR_MINUTES
        if self._peak_unix_hour not in (_NOTHING, hour):
            self._close_hour()
        sides = (
            (minute.cpu_peak_millicores, minute.has_cpu, minute.cpu),
            (minute.working_set_bytes, minute.has_memory, minute.memory),
        )
        if minute.unix_minute % HOUR_MINUTES == 0:
            self._peak_unix_hour = hour
            for array in (self._predicted, self._seen, self._seen_minutes):
                array[:] = 0.0
            for resource, (_, _, standing) in enumerate(sides):
                has = standing.has_peak
                np.maximum.at(self._predicted[:, resource], minute.rows[has], standing.peak[has].astype(np.float32))
        if self._peak_unix_hour == hour:
            for resource, (seen, has, _) in enumerate(sides):
                rows = minute.rows[has]
                np.maximum.at(self._seen[:, resource], rows, seen[has].astype(np.float32))
                self._seen_minutes[distinct(rows), resource] += 1.0

    def _close_hour(self) -> None:
        """Hold what was predicted for the hour against what was seen in it."""
        columns: list[Floats | None] = [None] * QUALITY_FIELDS
        for resource in range(2):
            predicted = self._predicted[:, resource].astype(np.float64)
            seen = self._seen[:, resource].astype(np.float64)
            judged = (predicted > 0.0) & (self._seen_minutes[:, resource] >= LEAST_PEAK_MINUTES)
            error = np.where(judged, predicted - seen, 0.0)
            place = resource * RESOURCE_FIELDS + PEAK_OFFSET
            columns[place : place + PEAK_FIELDS] = [
                judged.astype(np.float64),
                np.where(judged, seen, 0.0),
                np.maximum(error, 0.0),
                np.maximum(-error, 0.0),
            ]
        last_minute = self._peak_unix_hour * HOUR_MINUTES + HOUR_MINUTES - 1
        self._peak_unix_hour = _NOTHING
        self._add(last_minute, np.arange(self.rows, dtype=np.intp), columns)

    # -- asking -----------------------------------------------------------------------------------------------------

    def windows(self, unix_minute: int, rows: Rows | None = None) -> Floats:
        """Return the figures of the three windows up to a minute, shape ``(rows, 3, QUALITY_FIELDS)``.

        Args:
            unix_minute: The newest that counts, as a rule that of now.
            rows: Of these rows; None = of all.
        """
        return self._windows_of(self._figures if rows is None else self._figures[rows], unix_minute)

    def total(self, unix_minute: int) -> Floats:
        """Return the same of all rows together, shape ``(3, QUALITY_FIELDS)``."""
        sums = self._figures.sum(axis=0, dtype=np.float64)
        answer: Floats = self._windows_of(sums[np.newaxis], unix_minute)[0]
        return answer

    def _windows_of(self, figures: QualityArray | Floats, unix_minute: int) -> Floats:
        answer = np.zeros((len(figures), len(_LEVELS), QUALITY_FIELDS))
        first = 0
        for level, (minutes, count) in enumerate(_LEVELS):
            numbers, newest = self._numbers[first : first + count], unix_minute // minutes
            counts = np.flatnonzero((numbers > newest - count) & (numbers <= newest)) + first
            answer[:, level] = figures[:, counts].sum(axis=1, dtype=np.float64)
            first += count
        return answer

    # -- over a restart ---------------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, QualityArray | Ints]:
        """Return the state as arrays; the first axis of all but ``numbers`` and ``moments`` is the row."""
        return {
            "figures": self._figures.copy(),
            "predicted": self._predicted.copy(),
            "seen": self._seen.copy(),
            "seen_minutes": self._seen_minutes.copy(),
            "numbers": self._numbers.copy(),
            "moments": np.array([self._newest_unix_minute, self._peak_unix_hour], dtype=np.int64),
        }

    def take_arrays(self, arrays: Mapping[str, SavedArray], saved_rows: Rows, rows: Rows) -> None:
        """Restore a state that was saved.

        Args:
            arrays: Of ``to_arrays``.
            saved_rows: Those of its rows that are still there.
            rows: Which rows they are now.

        Raises:
            ValueError: The arrays are those of another version; nothing is taken.
        """
        wanted = {name: array.shape[1:] for name, array in self.to_arrays().items()}
        dims = {name: array.shape[1:] for name, array in arrays.items()}
        if dims != wanted or arrays["numbers"].size != _SUMS or arrays["moments"].size != 2:
            msg = f"arrays {', '.join(sorted(dims))} of shapes {list(dims.values())}; allowed: {list(wanted.values())}"
            raise ValueError(msg)
        self._figures[rows] = arrays["figures"][saved_rows]
        self._predicted[rows] = arrays["predicted"][saved_rows]
        self._seen[rows] = arrays["seen"][saved_rows]
        self._seen_minutes[rows] = arrays["seen_minutes"][saved_rows]
        self._numbers = arrays["numbers"].astype(np.int64)
        self._newest_unix_minute, self._peak_unix_hour = arrays["moments"].astype(np.int64).tolist()


def _request_columns(
    used: Floats, minute: JudgedMinute, has_usage: Bools, standing: StandingRequests, unit: float
) -> list[Floats | None]:
    """Return the columns of one resource: of the recommended request, of the applied one, none of the peak."""
    columns: list[Floats | None] = []
    for request, has in (
        (standing.recommended, standing.has_recommended),
        (standing.applied, standing.has_applied),
    ):
        judged = has_usage & has
        more = np.where(judged, used - request * unit, 0.0)
        columns += [
            judged.astype(np.float64),
            (more > 0.0).astype(np.float64),
            np.where(judged, used, 0.0) * minute.covered_seconds,
            np.maximum(more, 0.0) * minute.covered_seconds,
            np.maximum(-more, 0.0) * minute.covered_seconds,
        ]
    return [*columns, *[None] * (RESOURCE_FIELDS - 2 * REQUEST_FIELDS)]
