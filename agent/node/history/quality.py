"""How good sizing was on this node: what stood at each minute is kept until the minute is judged, and judged once.

Node. The control thread says what stands and judges; any thread may ask. It calls core and holds no rule. The sums
outlive restarts: they are saved each hour and at the end, so that an agent that is killed loses an hour of them at
most. What stood is not kept: minutes without an agent, and the first one or two after its start, are not judged.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.core.cluster.workload import Workload
from agent.core.history.minute.key import KeyKind
from agent.core.history.minute.minutes import KIB
from agent.core.history.minute.quality import QualityWindows, to_windows
from agent.core.history.minute.quality_ledger import JudgedMinute, QualityLedger, StandingRequests
from agent.core.numbers.arrays import Bools, Floats, Rows
from agent.core.recommender.recommendation import Advice, Recommendation
from agent.core.window.minute_row import minute_table
from agent.core.window.ring_rows import Has
from agent.node.history.clock import MINUTE_SECONDS
from agent.node.history.file import HistoryError, HistoryFile
from agent.node.history.learner import Place, Row

log = logging.getLogger(__name__)

STATE_NAME: Final = "quality"
KEPT_STANDINGS: Final = 3
"""Of the minutes that may still be judged: the one that ends, the one under way, the one that follows."""
_MINUTE_NS: Final = 60_000_000_000
_FULL: Final = 255
_FIELDS: Final = 6
"""Of what stands: recommended, applied and peak of CPU; the same of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """What stood from a moment on; figures and masks of shape ``(n, 6)``."""

    places: Mapping[str, int]
    """By cgroup path."""
    figures: Floats
    has: Bools


class QualityKeeper:
    """Judges the minutes of a node; see the module's docstring. A ``RowFollower``."""

    def __init__(self, history: HistoryFile) -> None:
        self._history = history
        self._lock = threading.Lock()
        """Held for milliseconds; nothing else is asked for under it."""
        self._ledger = QualityLedger(history.rows)
        self._standings: dict[int, _Standing] = {}
        """By the first whole monotonic minute of which it stood at the beginning."""
        self._newest_unix_minute: int | None = None
        self._node: Floats | None = None
        self._anew_because = self._load()

    # -- judging ----------------------------------------------------------------------------------------------------

    def stand(self, items: Sequence[Recommendation], taken_monotonic_ns: int) -> None:
        """Record what is recommended and applied from now on; minutes that begin later are judged by it."""
        if self._anew_because is not None:  # told once the agent is at work: one that cannot begin says why in one line
            log.info("the quality of sizing begins anew", extra={"cause": self._anew_because})
            self._anew_because = None
        places = {item.identity.cgroup_path: place for place, item in enumerate(items)}
        figures, has = np.zeros((len(items), _FIELDS)), np.zeros((len(items), _FIELDS), dtype=np.bool_)
        for place, item in enumerate(items):
            resources = item.resources
            row = (
                *_standing_of(item.cpu_millicores, resources.cpu_request_millicores),
                *_standing_of(item.memory_bytes, resources.memory_request_bytes),
            )
            for field, amount in enumerate(row):
                if amount is not None:
                    figures[place, field], has[place, field] = amount, True
        first_minute = -(-taken_monotonic_ns // _MINUTE_NS)
        newest = max(self._standings, default=None)
        shared: Mapping[str, int] = places
        if newest is not None and self._standings[newest].places == places:
            shared = self._standings[newest].places  # one mapping is kept, not one for each moment
        self._standings[first_minute] = _Standing(places=shared, figures=figures, has=has)
        for old in sorted(self._standings)[:-KEPT_STANDINGS]:
            del self._standings[old]

    def judge(self, unix_minute: int, monotonic_minute: int, placed_rows: Sequence[tuple[Place, Row]]) -> None:
        """Hold a minute's usage against what stood when it began; units that were not there then are left out."""
        since = max((minute for minute in self._standings if minute <= monotonic_minute), default=None)
        if since is None:
            return
        standing = self._standings[since]
        known = [
            (place.row, index, row)
            for place, row in placed_rows
            if (index := standing.places.get(place.identity.cgroup_path)) is not None
        ]
        if known:
            judged = _judged(unix_minute, known, standing)
            with self._lock:
                self._ledger.fold(judged)
                self._newest_unix_minute = unix_minute
                self._node = self._ledger.total(unix_minute)

    def take_rows(self, rows: int, reused: Rows) -> None:
        """Make room for so many rows, and forget those that came to stand for others."""
        with self._lock:
            self._ledger.grow(rows)
            self._ledger.forget(reused)

    # -- asking -----------------------------------------------------------------------------------------------------

    def of_node(self) -> Floats | None:
        """Return the sums over all containers, shape ``(3, fields)``; None = no minute was judged yet."""
        return self._node

    def of_rows(self, rows: Rows) -> Floats | None:
        """Return the figures of rows of the history, shape ``(n, 3, fields)``; None = no minute was judged yet."""
        with self._lock:
            if self._newest_unix_minute is None or (rows.size and int(rows.max()) >= self._ledger.rows):
                return None
            return self._ledger.windows(self._newest_unix_minute, rows)

    def of_row(self, row: int) -> QualityWindows | None:
        """Return the quality of one row of the history; None = no minute of it was judged."""
        figures = self.of_rows(np.array([row], dtype=np.intp))
        return None if figures is None or not figures[0].any() else to_windows(figures[0])

    def figures_by_workload(self) -> Mapping[tuple[Workload, str], Floats]:
        """Return the figures of each container of a workload that has any, shape ``(3, fields)`` each."""
        rows = {
            (Workload(namespace=key.parts[0], kind=key.parts[1], name=key.parts[2]), key.parts[3]): row
            for key, row in self._history.keys().items()
            if key.kind is KeyKind.WORKLOAD and key.digest is None
        }
        figures = self.of_rows(np.array(list(rows.values()), dtype=np.intp))
        if figures is None:
            return {}
        return {name: row for name, row in zip(rows, figures, strict=True) if row.any()}

    # -- over a restart ---------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Keep the sums beside the history."""
        if not self._history.is_writable or self._newest_unix_minute is None:
            return
        with self._lock:
            arrays = self._ledger.to_arrays()
        try:
            self._history.save_state(STATE_NAME, arrays)
        except HistoryError as error:
            log.warning("the quality of sizing is not kept", extra={"cause": str(error)})

    def _load(self) -> str | None:
        """Restore the sums that were kept; return why there are none, None = they are taken up."""
        saved = self._history.load_state(STATE_NAME)
        if isinstance(saved, str):
            return saved
        try:
            self._ledger.take_arrays(saved.arrays, saved.saved_rows, saved.rows)
        except (IndexError, ValueError) as error:  # whole, but of another version
            return str(error)
        self._newest_unix_minute = self._history.newest_unix_minute
        if self._newest_unix_minute is not None:
            self._node = self._ledger.total(self._newest_unix_minute)
        return None


def _standing_of(advice: Advice, applied: int | None) -> tuple[float | None, ...]:
    return advice.request, applied, advice.peak


def _judged(unix_minute: int, known: Sequence[tuple[int, int, Row]], standing: _Standing) -> JudgedMinute:
    """Bring the rows of a minute and what stood for them into arrays."""
    table = minute_table(row for _, _, row in known)
    indices = np.array([index for _, index, _ in known], dtype=np.intp)
    figures, has = standing.figures[indices], standing.has[indices]
    coverage = table["coverage_255"]
    usage = table["cpu_mean_millicores"].astype(np.float64)
    return JudgedMinute(
        unix_minute=unix_minute,
        rows=np.array([row for row, _, _ in known], dtype=np.intp),
        # Where only memory was measured nothing tells for how long: the whole minute counts.
        covered_seconds=np.where(coverage > 0, coverage / _FULL, 1.0) * MINUTE_SECONDS,
        cpu_usage_millicores=usage,
        cpu_peak_millicores=np.maximum(table["cpu_peak_millicores"].astype(np.float64), usage),
        has_cpu=coverage > 0,
        working_set_bytes=table["working_set_peak_kib"].astype(np.float64) * KIB,
        has_memory=(table["has"] & int(Has.MEMORY_STAT)) > 0,
        cpu=_requests(figures[:, :3], has[:, :3]),
        memory=_requests(figures[:, 3:], has[:, 3:]),
    )


def _requests(figures: Floats, has: Bools) -> StandingRequests:
    return StandingRequests(
        recommended=figures[:, 0],
        has_recommended=has[:, 0],
        applied=figures[:, 1],
        has_applied=has[:, 1],
        peak=figures[:, 2],
        has_peak=has[:, 2],
    )
