"""The candidates of ``forecast``, what each would have cost so far, and which of them speaks. Core, pure.

A **candidate** is a look-back, a season and a margin: it asks for margin x the larger of the last minutes' maximum and
the season's level. All candidates run along for every row, each with the request that would be **in force** if it were
followed: a rise at once, a fall not sooner than five minutes after the last change, and no change that the bounds'
defaults find too small. So each has a record of minutes it would have left under-requested and of what it would have
wasted, newer ones weighing more. The cheapest speaks among those that kept within the allowed share of minutes.

The allowed share follows what came of it (online conformal calibration): every minute under-requested lowers it by a
tenth, every other raises it so much that both balance when ``exceed_ratio`` is met.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.core.history.hour_peaks import WEEK_HOURS
from agent.core.numbers.arrays import Bools, Floats, Ints, Rows
from agent.core.orders.policy_options import BoundsOptions, ForecastOptions
from agent.core.recommender.forecast.season import MINUTES_PER_HOUR, Season, Singles

LOOK_MINUTES: Final = (15, 60)
"""A rise is covered at once, and kept so long. 60 is the rule of peaks; 15 lets go after three of the five-minute means
that slower sources give."""
MARGINS: Final = (1.0, 1.03, 1.1)
"""Nothing, half of the smallest change (5 %), twice of it."""
CANDIDATES: Final = len(LOOK_MINUTES) * len(Season) * len(MARGINS)
PEAKS_RULE: Final = int(np.ravel_multi_index((1, Season.LARGEST, 0), (len(LOOK_MINUTES), len(Season), len(MARGINS))))
"""The candidate that is cruise's rule."""
MOST_GENEROUS: Final = CANDIDATES - 1
PEAKS_EXCEED_RATIO: Final = ForecastOptions().exceed_ratio
"""At this ``exceed_ratio`` the rule of peaks is compared with minute for minute."""
HALF_LIFE_HOURS: Final = 48.0
"""Of the record. Two days tell a share of 0.5 % from about twenty minutes, and let a new way of life win in one."""
STRICTNESS_STEP: Final = 0.1
"""What one minute under-requested adds to the strictness; ten of them make the allowed share a third."""
STRICTNESS_MOST: Final = 2.0
"""The allowed share stays within a seventh and seven times ``exceed_ratio``, so that it comes back within days."""
COOL_DOWN_MINUTES: Final = 5
_ACTING: Final = BoundsOptions()
_LOOK, _SEASON, _MARGIN = (
    axis.ravel() for axis in np.indices((len(LOOK_MINUTES), len(Season), len(MARGINS)), dtype=np.intp)
)
_FACTOR: Final = np.array(MARGINS)[_MARGIN]
_OWN: Final = CANDIDATES
"""Beside the candidates' records stands the one of what was really answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateChoice:
    """Who speaks for one row, and why; shares and sums are those of the record, newer minutes weighing more."""

    look_minutes: int
    season: Season
    margin: float
    minutes: float
    """Length of the record."""
    allowed_ratio: float
    exceeded_ratio: float
    slack_millicores: float
    strictness: float
    is_learning: bool
    """Too few minutes to tell the share at all: the most generous speaks."""
    is_within: bool
    """Some candidate keeps within the allowed share."""
    is_compared: bool
    """The rule of peaks would have left fewer minutes, and candidates must be as good as it."""
    week_minutes: int
    week_exceeded: int
    week_exceeded_by_peaks: int


def candidate_needs(looks: Singles, levels: Singles) -> Singles:
    """Return what every candidate asks for, shape ``(candidates, n)``, by looks ``(2, n)`` and levels ``(5, n)``."""
    larger = np.maximum(looks[:, np.newaxis], levels)
    needs: Singles = larger[:, :, np.newaxis] * np.array(MARGINS, dtype=np.float32)[:, np.newaxis]
    return needs.reshape(CANDIDATES, looks.shape[1])


class Candidates:
    """Records and choices of all rows; 1.5 kB per row."""

    def __init__(self, options: ForecastOptions, rows: int) -> None:
        self._options = options
        both = (CANDIDATES + 1, rows)
        self._in_force = np.zeros(both, dtype=np.float32)
        self._changed_tick = np.zeros(both, dtype=np.int32)
        self._exceeded = np.zeros(both, dtype=np.float32)
        self._slack = np.zeros(both, dtype=np.float32)
        self._minutes = np.zeros(rows)
        self._strictness = np.zeros(rows)
        self._is_sized = np.zeros(rows, dtype=np.bool_)
        self._choice = np.full(rows, MOST_GENEROUS)
        self._week = WeekCounts(rows)
        self._tick = 0
        self._newest: int | None = None

    def grow(self, rows: int) -> None:
        """Grow to at least so many rows; the new ones are empty."""
        more = max(rows - self._minutes.size, 0)
        both = ((0, 0), (0, more))
        self._in_force = np.pad(self._in_force, both)
        self._changed_tick = np.pad(self._changed_tick, both)
        self._exceeded = np.pad(self._exceeded, both)
        self._slack = np.pad(self._slack, both)
        self._minutes = np.pad(self._minutes, (0, more))
        self._strictness = np.pad(self._strictness, (0, more))
        self._is_sized = np.pad(self._is_sized, (0, more))
        self._choice = np.pad(self._choice, (0, more), constant_values=MOST_GENEROUS)
        self._week.grow(rows)

    def forget(self, rows: Rows) -> None:
        """Clear these rows."""
        self._exceeded[:, rows] = 0.0
        self._slack[:, rows] = 0.0
        self._minutes[rows] = 0.0
        self._strictness[rows] = 0.0
        self._is_sized[rows] = False
        self._choice[rows] = MOST_GENEROUS
        self._week.forget(rows)

    def settle(self, unix_minute: int, demand: Singles, has: Bools, needs: Singles) -> None:
        """Judge all candidates by one minute, choose, and put in force what they ask for after it; ``(n,)`` each."""
        self._pass_time(unix_minute)
        known = has & self._is_sized
        exceeds = (demand > self._in_force) & known
        self._exceeded += exceeds
        self._slack += np.maximum(self._in_force - demand, 0.0) * known
        self._minutes += known
        self._week.add(known, exceeds[_OWN], exceeds[PEAKS_RULE])
        ratio = self._options.exceed_ratio
        step = np.where(exceeds[_OWN], STRICTNESS_STEP, -STRICTNESS_STEP * ratio / (1.0 - ratio))
        self._strictness = np.where(
            known, np.clip(self._strictness + step, -STRICTNESS_MOST, STRICTNESS_MOST), self._strictness
        )
        self._choose()
        own = needs[self._choice, np.arange(self._choice.size)]
        self._put_in_force(np.concatenate((needs, own[np.newaxis])), has)

    def _pass_time(self, unix_minute: int) -> None:
        hour = unix_minute // MINUTES_PER_HOUR
        if self._newest is not None:
            passed = unix_minute - self._newest
            self._tick += min(max(passed, 1), COOL_DOWN_MINUTES)
            hours = hour - self._newest // MINUTES_PER_HOUR
            if hours > 0:
                keep = 0.5 ** (min(hours, WEEK_HOURS) / HALF_LIFE_HOURS)
                self._exceeded *= np.float32(keep)
                self._slack *= np.float32(keep)
                self._minutes *= keep
        self._week.turn_to(hour)
        self._newest = unix_minute

    def _limits(self) -> tuple[Floats, Floats, Bools]:
        """Return the allowed share, how much of ``_exceeded`` that allows, and what the rule of peaks is compared with.

        One minute more than was seen is put to a candidate's account: what was never seen is not yet impossible.
        """
        allowed = self._options.exceed_ratio * np.exp(-self._strictness)
        limits = allowed * self._minutes - 1.0
        scale = self._options.exceed_ratio / PEAKS_EXCEED_RATIO
        compared = self._week.own > self._week.by_peaks * scale
        if not self._options.no_more_than_peaks:
            compared = np.zeros_like(compared)
        limits = np.where(compared, np.minimum(limits, self._exceeded[PEAKS_RULE] * scale), limits)
        return allowed, limits, compared

    def _choose(self) -> None:
        _, limits, _ = self._limits()
        exceeded, slack = self._exceeded[:CANDIDATES], self._slack[:CANDIDATES]
        within = exceeded <= limits.astype(np.float32)
        self._choice = np.argmin(np.where(within, slack, np.float32(np.inf)), axis=0)
        rest = np.flatnonzero(~np.logical_or.reduce(within, axis=0))
        if rest.size:
            few, cost = exceeded[:, rest], slack[:, rest]
            fewest = np.argmin(np.where(few == few.min(axis=0), cost, np.float32(np.inf)), axis=0)
            is_learning = self._minutes[rest] * self._options.exceed_ratio < 1.0
            self._choice[rest] = np.where(is_learning, MOST_GENEROUS, fewest)

    def _put_in_force(self, wanted: Singles, has: Bools) -> None:
        now = self._in_force
        change = wanted - now
        least = np.maximum(
            now * np.float32(_ACTING.smallest_change_ratio), np.float32(_ACTING.smallest_cpu_change_millicores)
        )
        moves = (change >= least) | ((-change >= least) & (self._tick - self._changed_tick >= COOL_DOWN_MINUTES))
        moves = (moves | ~self._is_sized) & has
        np.copyto(self._in_force, wanted, where=moves)
        np.copyto(self._changed_tick, np.int32(self._tick), where=moves)
        self._is_sized |= has

    def wanted(self, rows: Rows, looks: Singles, levels: Singles) -> Floats:
        """Return what the chosen candidates ask for, shape ``(k,)``; ``looks`` and ``levels`` are of these rows."""
        choice = self._choice[rows]
        columns = np.arange(rows.size)
        larger = np.maximum(looks[_LOOK[choice], columns], levels[_SEASON[choice], columns])
        # Single precision times a margin in double: the product of what stands in the sketches, not rounded again.
        wanted: Floats = larger.astype(np.float64) * _FACTOR[choice]
        return wanted

    def choice(self, row: int) -> CandidateChoice:
        """Return who speaks for a row."""
        allowed, limits, compared = (figures[row] for figures in self._limits())
        chosen = int(self._choice[row])
        minutes = float(self._minutes[row])
        return CandidateChoice(
            look_minutes=LOOK_MINUTES[_LOOK[chosen]],
            season=Season(_SEASON[chosen]),
            margin=float(_FACTOR[chosen]),
            minutes=minutes,
            allowed_ratio=float(allowed),
            exceeded_ratio=float(self._exceeded[chosen, row]) / max(minutes, 1.0),
            slack_millicores=float(self._slack[chosen, row]) / max(minutes, 1.0),
            strictness=float(self._strictness[row]),
            is_learning=minutes * self._options.exceed_ratio < 1.0,
            is_within=bool(self._exceeded[chosen, row] <= np.float32(limits)),
            is_compared=bool(compared),
            week_minutes=int(self._week.minutes[row]),
            week_exceeded=int(self._week.own[row]),
            week_exceeded_by_peaks=int(self._week.by_peaks[row]),
        )


class WeekCounts:
    """Minutes of the last seven days, hour by hour: all, those under-requested, those so under the rule of peaks."""

    def __init__(self, rows: int) -> None:
        # An hour that the clock repeats counts on; 16 bits hold a thousand of them.
        self._counts = np.zeros((3, WEEK_HOURS, rows), dtype=np.uint16)
        self._totals = np.zeros((3, rows), dtype=np.int64)
        self._hour: int | None = None

    def grow(self, rows: int) -> None:
        """Grow to at least so many rows; the new ones have counted nothing."""
        more = max(rows - self._totals.shape[1], 0)
        self._counts = np.pad(self._counts, ((0, 0), (0, 0), (0, more)))
        self._totals = np.pad(self._totals, ((0, 0), (0, more)))

    def forget(self, rows: Rows) -> None:
        """Reset the counts of these rows."""
        self._counts[:, :, rows] = 0
        self._totals[:, rows] = 0

    def turn_to(self, hour: int) -> None:
        """Begin another hour since the epoch; hours older than seven days no longer count."""
        if self._hour is not None and hour > self._hour:
            stale = np.arange(max(self._hour + 1, hour - WEEK_HOURS + 1), hour + 1) % WEEK_HOURS
            self._totals -= self._counts[:, stale].sum(axis=1, dtype=np.int64)
            self._counts[:, stale] = 0
        self._hour = hour

    def add(self, minutes: Bools, own: Bools, by_peaks: Bools) -> None:
        """Count one minute of all rows, in the hour turned to."""
        seen = np.stack((minutes, own, by_peaks))
        self._counts[:, (self._hour or 0) % WEEK_HOURS] += seen
        self._totals += seen

    @property
    def minutes(self) -> Ints:
        """Minutes counted, shape ``(n,)``."""
        minutes: Ints = self._totals[0]
        return minutes

    @property
    def own(self) -> Ints:
        """Those with more usage than was answered for."""
        minutes: Ints = self._totals[1]
        return minutes

    @property
    def by_peaks(self) -> Ints:
        """Those with more usage than the rule of peaks would have answered for."""
        minutes: Ints = self._totals[2]
        return minutes
