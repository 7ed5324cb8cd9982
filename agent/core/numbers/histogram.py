"""Histograms of many containers at once, decaying or not: the one implementation for policies and roll-ups.

Core, pure. One row per container, one scheme for all rows. To the last bit what the Vertical Pod Autoscaler computes,
in the same order of operations, since a sum that is one bit off may end a percentile's walk one bucket further on.

A bucket is used when it holds at least epsilon. Each row knows its lowest and highest used bucket; what lies outside
(less than epsilon, a residue) stays in its bucket, counts in the total and is seen by no walk.

Decay: a sample of time t enters with its weight x 2^((t - reference) / half-life), so that nothing has to be aged in
place. The reference of a row follows when a sample is more than 100 half-lives after it.

Source:
    facts/vpa.md sections 2 and 3 (recommender/util/histogram.go and decaying_histogram.go).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Self

import numpy as np

from agent.core.numbers import go_float
from agent.core.numbers.arrays import Bools, Floats, Ints, Rows
from agent.core.numbers.bucket_scheme import BucketScheme

YEAR_ONE: Final = -62_135_596_800.0
"""0001-01-01T00:00Z in Unix seconds: where references start, and from where multiples of the half-life are counted."""

_LONGEST_DECAY_HALF_LIVES: Final = 100.0
"""A weight grows up to 2^100 before the reference moves."""

_ZERO_EXPONENT: Final = -5000.0
"""2 to this and below is 0 in a 64-bit float; keeps exponents within 32 bits."""

_COUNTED_AT_ONCE: Final = 255
"""A sum of so many booleans fits in 8 bits, which numpy adds ten times as fast as in 64."""

_FEW_STALE_RATIO: Final = 0.125
"""Up to this share of stale rows it is cheaper to sum them apart than to sum all rows."""


class Histograms:
    """Weights per bucket, for ``rows`` rows of one scheme.

    Args:
        epsilon: A bucket that holds less counts as empty; above 0.
        half_life_seconds: Age at which a sample weighs half; None = samples do not decay.

    Raises:
        ValueError: Epsilon or half-life is not positive.
    """

    def __init__(
        self, scheme: BucketScheme, *, epsilon: float, rows: int, half_life_seconds: float | None = None
    ) -> None:
        if not epsilon > 0.0:
            msg = f"epsilon {epsilon} of a histogram: positive is allowed"
            raise ValueError(msg)
        if half_life_seconds is not None and not half_life_seconds > 0.0:
            msg = f"half-life {half_life_seconds} s of a histogram: positive is allowed"
            raise ValueError(msg)
        self.scheme: Final = scheme
        self.epsilon: Final = epsilon
        self.half_life_seconds: Final = half_life_seconds
        self._half_life_seconds: Final = math.inf if half_life_seconds is None else half_life_seconds
        self._allocate(rows)

    def _allocate(self, rows: int) -> None:
        """Make all rows anew, empty."""
        # A bucket's weights of all rows lie side by side: what is done per bucket is one vector operation, and buckets
        # that nobody uses are memory that is never touched.
        self._weights: Floats = np.zeros((self.scheme.count, rows))
        self._totals: Floats = np.zeros(rows)
        self._lowest: Ints = np.full(rows, self.scheme.count - 1, dtype=np.int64)
        self._highest: Ints = np.zeros(rows, dtype=np.int64)
        self._references: Floats = np.full(rows, YEAR_ONE)
        self._may_have_residue: Bools = np.zeros(rows, dtype=np.bool_)
        # Running sums of the buckets first to last of _summed, right for the rows that are not stale.
        self._sums: Floats = np.zeros((self.scheme.count, rows))
        self._stale: Bools = np.ones(rows, dtype=np.bool_)
        self._summed = (0, -1)

    @property
    def rows(self) -> int:
        """How many histograms."""
        return self._totals.size

    def grow(self, rows: int) -> None:
        """Hold at least so many rows; the new ones are empty."""
        if rows > self.rows:
            here = np.arange(self.rows)
            held = self.take(here)
            self._allocate(rows)
            self._put(here, held, here)

    def take(self, rows: Rows) -> Histograms:
        """Return a copy that holds these rows, in this order."""
        taken = Histograms(self.scheme, epsilon=self.epsilon, rows=rows.size, half_life_seconds=self.half_life_seconds)
        taken._put(np.arange(rows.size), self, rows)
        return taken

    def _put(self, rows: Rows, other: Histograms, other_rows: Rows) -> None:
        """Write rows of other histograms over rows of these."""
        for bucket in np.flatnonzero(other._weights.any(axis=1)):
            self._weights[bucket, rows] = other._weights[bucket, other_rows]
        self._totals[rows] = other._totals[other_rows]
        self._lowest[rows] = other._lowest[other_rows]
        self._highest[rows] = other._highest[other_rows]
        self._references[rows] = other._references[other_rows]
        self._may_have_residue[rows] = other._may_have_residue[other_rows]

    def forget(self, rows: Rows) -> None:
        """Make these rows empty, as they were at first."""
        self._weights[:, rows] = 0.0
        self._totals[rows] = 0.0
        self._lowest[rows] = self.scheme.count - 1
        self._highest[rows] = 0
        self._references[rows] = YEAR_ONE
        self._may_have_residue[rows] = False
        self._stale[rows] = True

    def add(self, rows: Rows, values: Floats, weights: Floats, unix_seconds: Floats | None = None) -> None:
        """Add one sample to each of some rows.

        Args:
            rows: Which, shape ``(k,)``; each at most once.
            values: Finite, shape ``(k,)``.
            weights: Not negative, before decay, shape ``(k,)``.
            unix_seconds: When, shape ``(k,)``; needed when the histograms decay.

        Raises:
            ValueError: The histograms decay and no times are given.
        """
        decayed = self._decayed(rows, weights, unix_seconds)
        buckets = self.scheme.find(values)
        held = self._weights[buckets, rows] + decayed
        self._weights[buckets, rows] = held
        self._totals[rows] += decayed
        is_used = held >= self.epsilon
        if is_used.all():
            self._lowest[rows] = np.minimum(self._lowest[rows], buckets)
            self._highest[rows] = np.maximum(self._highest[rows], buckets)
        else:
            # The last and the first bucket leave the range as it is: they are the bounds of an empty one.
            self._lowest[rows] = np.minimum(self._lowest[rows], np.where(is_used, buckets, self.scheme.count - 1))
            self._highest[rows] = np.maximum(self._highest[rows], np.where(is_used, buckets, 0))
            self._may_have_residue[rows] |= ~is_used & (held > 0.0)
        self._stale[rows] = True

    def subtract(self, rows: Rows, values: Floats, weights: Floats, unix_seconds: Floats | None = None) -> None:
        """Remove one sample from each of some rows; arguments as of ``add``.

        A bucket or a total of which less than epsilon would be left, or less than nothing, becomes 0.

        Raises:
            ValueError: The histograms decay and no times are given.
        """
        decayed = self._decayed(rows, weights, unix_seconds)
        buckets = self.scheme.find(values)
        left = self._totals[rows] - decayed
        self._totals[rows] = np.where(left < self.epsilon, 0.0, left)
        left = self._weights[buckets, rows] - decayed
        self._weights[buckets, rows] = np.where(left < self.epsilon, 0.0, left)
        self._tighten(rows)
        self._stale[rows] = True

    def merge(self, row: int, other: Histograms, other_row: int) -> None:
        """Add all samples of a row of other histograms to a row of these; the other stays as it is.

        Raises:
            ValueError: Their schemes, epsilons or half-lives differ.
        """
        if (self.scheme, self.epsilon, self.half_life_seconds) != (
            other.scheme,
            other.epsilon,
            other.half_life_seconds,
        ):
            msg = "histograms of different schemes, epsilons or half-lives cannot be merged"
            raise ValueError(msg)
        here, there = self._references[row], other._references[other_row]
        if here < there:
            self._shift(np.array([row]), np.array([there]))
        elif there < here:
            other, other_row = other.take(np.array([other_row])), 0
            other._shift(np.array([0]), np.array([here]))
        used = other.used(other_row)
        self._weights[used, row] += other._weights[used, other_row]
        self._totals[row] += other._totals[other_row]
        self._lowest[row] = min(self._lowest[row], other._lowest[other_row])
        self._highest[row] = max(self._highest[row], other._highest[other_row])
        self._stale[row] = True

    def load(self, row: int, weights: Floats, total: float, reference_unix_seconds: float | None) -> None:
        """Add stored weights to a row and take over their reference; weights below epsilon leave the used range.

        Args:
            row: Which; what it holds already is kept and not compensated for the new reference.
            weights: Not negative, shape ``(scheme.count,)``; all 0 = nothing is added, not even the total.
            total: Of the weights as they were when stored.
            reference_unix_seconds: None = none was stored: where samples decay, the next one wipes out the row.
        """
        stored = np.flatnonzero(weights)
        if stored.size:
            self._weights[stored, row] += weights[stored]
            self._totals[row] += total
            self._lowest[row] = min(self._lowest[row], stored[0])
            self._highest[row] = max(self._highest[row], stored[-1])
            self._tighten(np.array([row]))
        if self.half_life_seconds is not None:
            self._references[row] = YEAR_ONE if reference_unix_seconds is None else reference_unix_seconds
        self._stale[row] = True

    def percentile(self, p: float, rows: Rows | None = None) -> Floats:
        """Return the end of the bucket in which a share of the weight is reached.

        Args:
            p: The share; below 0 answers the lowest used bucket, above 1 the highest.
            rows: Which; None = all.

        Returns:
            Per row the end of the bucket, of the last bucket its start; 0.0 where the row is empty.
        """
        first, last = self._sum_up(rows)
        is_below = self._sums[first : last + 1] < p * self._totals
        # Sums rise with the bucket, so where the walk ends is how many stay below. The used range bounds it.
        ends = np.full(self.rows, first, dtype=np.int64)
        for begin in range(0, last + 1 - first, _COUNTED_AT_ONCE):
            counted = is_below[begin : begin + _COUNTED_AT_ONCE].view(np.uint8)
            ends += counted.sum(axis=0, dtype=np.uint8)
        ends = np.minimum(np.maximum(ends, self._lowest), self._highest)
        answers: Floats = np.where(self.is_empty(), 0.0, self.scheme.ends[ends])
        return answers if rows is None else answers[rows]

    def reach(self, p: float, rows: Rows) -> tuple[Ints, Floats, Floats]:
        """Return for a few rows where the walk of ``percentile`` ends, without summing up the others.

        With it a caller can tell, sample by sample, whether the answer still holds.

        Args:
            rows: Which, at least one; none of them empty.

        Returns:
            Per row the bucket, the weight of the used buckets below it, and its own weight.
        """
        lowest, highest = self._lowest[rows], self._highest[rows]
        first, last = int(lowest.min()), int(highest.max())
        buckets = np.arange(first, last + 1)[:, np.newaxis]
        is_in_range = (buckets >= lowest) & (buckets <= highest)
        weights = np.where(is_in_range, self._weights[first : last + 1, rows], 0.0)
        sums = np.cumsum(weights, axis=0)
        ends = first + np.count_nonzero(sums < p * self._totals[rows], axis=0)
        ends = np.minimum(np.maximum(ends, lowest), highest)
        at = (ends - first, np.arange(rows.size))
        return ends, sums[at] - weights[at], weights[at]

    def is_empty(self, rows: Rows | None = None) -> Bools:
        """Return which rows (None = all) have no used bucket."""
        chosen = np.arange(self.rows) if rows is None else rows
        empty: Bools = self._weights[self._lowest[chosen], chosen] < self.epsilon
        return empty

    def total_weights(self, rows: Rows | None = None) -> Floats:
        """Return the decayed weight of each row (None = all), residues included."""
        return self._totals.copy() if rows is None else self._totals[rows]

    def weights(self, row: int) -> Floats:
        """Return the decayed weight per bucket of a row, residues included, shape ``(scheme.count,)``."""
        return self._weights[:, row].copy()

    def used(self, row: int) -> slice[int, int, None]:
        """Return the range of used buckets of a row; an empty row's range holds nothing."""
        return slice(int(self._lowest[row]), int(self._highest[row]) + 1, None)

    def references(self, rows: Rows | None = None) -> tuple[Floats, Bools]:
        """Return the time at which a sample would enter with its plain weight, and whether there is one.

        Returns:
            Unix seconds per row (None = all), and False where no sample came yet or the histograms do not decay.
        """
        chosen = self._references if rows is None else self._references[rows]
        has = chosen > YEAR_ONE
        return np.where(has, chosen, 0.0), has

    def to_arrays(self, rows: Rows | None = None) -> dict[str, Floats | Ints]:
        """Return all that these rows (None = all) hold, exactly, for ``from_arrays``: sparse, by name."""
        weights = self._weights.T if rows is None else self._weights[:, rows].T
        chosen = np.s_[:] if rows is None else rows
        entry_rows, entry_buckets = np.nonzero(weights)
        return {
            "entry_rows": entry_rows,
            "entry_buckets": entry_buckets,
            "entry_weights": weights[entry_rows, entry_buckets],
            "total_weights": self._totals[chosen].copy(),
            "lowest_buckets": self._lowest[chosen].copy(),
            "highest_buckets": self._highest[chosen].copy(),
            "reference_unix_seconds": self._references[chosen].copy(),
        }

    @classmethod
    def from_arrays(
        cls,
        scheme: BucketScheme,
        arrays: Mapping[str, Floats | Ints],
        *,
        epsilon: float,
        half_life_seconds: float | None = None,
    ) -> Self:
        """Make the histograms that ``to_arrays`` gave.

        Raises:
            ValueError: An array is missing, of another length, or names a row or bucket that is not there.
        """
        try:
            totals = arrays["total_weights"]
            entry_rows, entry_buckets = arrays["entry_rows"], arrays["entry_buckets"]
            histograms = cls(scheme, epsilon=epsilon, rows=totals.size, half_life_seconds=half_life_seconds)
            for buckets in (entry_buckets, arrays["lowest_buckets"], arrays["highest_buckets"]):
                if buckets.size and not 0 <= buckets.min() <= buckets.max() < scheme.count:
                    msg = f"histograms as arrays: buckets {buckets.min()} to {buckets.max()} of {scheme.count}"
                    raise ValueError(msg)
            if entry_rows.size and entry_rows.min() < 0:
                msg = f"histograms as arrays: row {entry_rows.min()}"
                raise ValueError(msg)
            histograms._weights[entry_buckets, entry_rows] = arrays["entry_weights"]
            histograms._totals[:] = totals
            histograms._lowest[:] = arrays["lowest_buckets"]
            histograms._highest[:] = arrays["highest_buckets"]
            histograms._references[:] = arrays["reference_unix_seconds"]
        except (KeyError, IndexError) as error:
            msg = f"histograms as arrays: {error}"
            raise ValueError(msg) from error
        lowest, highest = histograms._lowest[entry_rows], histograms._highest[entry_rows]
        is_outside = (entry_buckets < lowest) | (entry_buckets > highest)
        histograms._may_have_residue[entry_rows[is_outside]] = True
        return histograms

    def _decayed(self, rows: Rows, weights: Floats, unix_seconds: Floats | None) -> Floats:
        """Return the weights with which samples enter, after moving references left too far behind."""
        if self.half_life_seconds is None:
            return weights
        if unix_seconds is None:
            msg = "samples of decaying histograms need a time"
            raise ValueError(msg)
        self._follow(rows, unix_seconds)
        decayed: Floats = weights * go_float.exp2((unix_seconds - self._references[rows]) / self._half_life_seconds)
        return decayed

    def _is_late(self, references: Floats, unix_seconds: Floats) -> Bools:
        late: Bools = unix_seconds > references + self._half_life_seconds * _LONGEST_DECAY_HALF_LIVES
        return late

    def _follow(self, rows: Rows, unix_seconds: Floats) -> None:
        """Move the references that samples of these times have left too far behind."""
        late = self._is_late(self._references[rows], unix_seconds)
        if late.any():
            self._shift(rows[late], unix_seconds[late])

    def _shift(self, rows: Rows, unix_seconds: Floats) -> None:
        """Set references to the multiple of the half-life nearest to these times, and rescale the used buckets."""
        half_life_seconds = self._half_life_seconds
        since_year_one = unix_seconds - YEAR_ONE
        past = np.fmod(since_year_one, half_life_seconds)
        shifted = since_year_one - past + np.where(past + past < half_life_seconds, 0.0, half_life_seconds) + YEAR_ONE
        exponents = np.floor((self._references[rows] - shifted) / half_life_seconds + 0.5)
        factors = np.ldexp(1.0, np.maximum(exponents, _ZERO_EXPONENT).astype(np.int32))
        weights = self._weights[:, rows]
        self._weights[:, rows] = np.where(self._is_in_range(rows), weights * factors, weights)
        self._totals[rows] *= factors
        self._references[rows] = shifted
        self._tighten(rows)
        self._stale[rows] = True

    def _is_in_range(self, rows: Rows) -> Bools:
        """Return which buckets of some rows lie in the used range, shape ``(scheme.count, k)``."""
        buckets = np.arange(self.scheme.count)[:, np.newaxis]
        return (buckets >= self._lowest[rows]) & (buckets <= self._highest[rows])

    def _tighten(self, rows: Rows) -> None:
        """Shrink used ranges past buckets below epsilon, after weights have become smaller."""
        ends = np.minimum(self._weights[self._lowest[rows], rows], self._weights[self._highest[rows], rows])
        loose = rows[ends < self.epsilon]
        if not loose.size:
            return
        last = self.scheme.count - 1
        weights = self._weights[:, loose]
        is_used = weights >= self.epsilon
        holds = is_used.any(axis=0)
        self._lowest[loose] = np.where(holds, is_used.argmax(axis=0), last)
        self._highest[loose] = np.where(holds, last - is_used[::-1].argmax(axis=0), 0)
        self._may_have_residue[loose] = ((weights > 0.0) & ~is_used).any(axis=0)

    def _sum_up(self, rows: Rows | None) -> tuple[int, int]:
        """Bring the running sums of these rows (None = all) up to date; return the first and last bucket they cover."""
        first, last = int(self._lowest.min(initial=self.scheme.count)), int(self._highest.max(initial=-1))
        if (first, last) != self._summed:
            self._summed = (first, last)
            self._stale[:] = True
        stale = np.flatnonzero(self._stale) if rows is None else rows[self._stale[rows]]
        if stale.size > _FEW_STALE_RATIO * self.rows:
            self._sum_up_all(first, last)
            stale = np.flatnonzero(self._may_have_residue)
        if stale.size:
            covered = np.s_[first : last + 1]
            seen = np.where(self._is_in_range(stale)[covered], self._weights[covered, stale], 0.0)
            self._sums[covered, stale] = np.cumsum(seen, axis=0)
            self._stale[stale] = False
        return first, last

    def _sum_up_all(self, first: int, last: int) -> None:
        """Sum all rows as if none had a residue: bucket after bucket, twice as fast as one cumsum over the array."""
        self._sums[first] = self._weights[first]
        for bucket in range(first + 1, last + 1):
            np.add(self._sums[bucket - 1], self._weights[bucket], out=self._sums[bucket])
        self._stale[:] = False
