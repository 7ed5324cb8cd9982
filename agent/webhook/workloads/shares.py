"""Workloads of which a share is enforced: how both groups fare, and what was taken back of whom. Webhook; any thread.

Every replica follows the log of reports, and comes to the same end; whoever is first writes it down, and all read that
each second. How groups fare is in memory alone: after a restart it is known from the part of the log that was not
folded yet.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Final, Protocol

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import SampledReport, SampledRow
from agent.core.history.workloads.share_groups import GroupFare, ShareGroups, share_sample
from agent.core.history.workloads.workload_setback import SetbackKind, WorkloadSetback
from agent.core.orders.enforce_share import TakenBack
from agent.core.orders.guard_options import GuardOptions

log = logging.getLogger(__name__)

MOST_WORKLOADS: Final = 5000
"""With an enforced share; those beyond are not compared."""
OLDEST_SECONDS: Final = 3600.0
"""Of a group's newest row: then the workload is forgotten."""
_Key = tuple[Workload, SetbackKind]


class SetbackSource(Protocol):
    """Where what was taken back is kept for good."""

    def take_setback(self, setback: WorkloadSetback) -> None:
        """Keep it."""

    def setbacks(self) -> list[WorkloadSetback]:
        """Return all."""


class WorkloadShares:
    """The state of each enforced share: what both groups reported, and whether the share was taken back."""

    def __init__(self, options: GuardOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._groups: dict[Workload, ShareGroups] = {}
        self._known: Mapping[_Key, WorkloadSetback] = {}
        self._unkept: dict[_Key, WorkloadSetback] = {}

    # -- the thread that follows the log ---------------------------------------------------------------------------

    def take(self, report: SampledReport, received_unix_seconds: float) -> None:
        """Record what a report of the log says of both groups."""
        ended = received_unix_seconds - report.end_age_seconds
        touched: set[Workload] = set()
        with self._lock:
            for row in report.rows:
                self._take_setback(row, ended)
                sample = share_sample(row, ended)
                if sample is None or (row.workload not in self._groups and len(self._groups) >= MOST_WORKLOADS):
                    continue
                groups = self._groups.setdefault(row.workload, ShareGroups())
                groups.take(sample, window_seconds=self._options.share_window_seconds)
                touched.add(row.workload)
            for workload in touched:
                self._judge(workload, ended)

    def forget(self, workload: Workload) -> None:
        """Forget what the log said so far of a workload; what was taken back of it goes from the source."""
        with self._lock:
            self._groups.pop(workload, None)
            for kind in SetbackKind:
                self._unkept.pop((workload, kind), None)

    def follow(self, source: SetbackSource, now_unix_seconds: float, *, is_caught_up: bool = True) -> None:
        """Write down what is to be taken back, and read what was.

        While ``is_caught_up`` is False, nothing is written: what follows in the log may forget it.
        """
        with self._lock:
            unkept = list(self._unkept.items()) if is_caught_up else []
        for key, setback in unkept:
            source.take_setback(setback)
            with self._lock:
                self._unkept.pop(key, None)
        known = {(setback.workload, setback.kind): setback for setback in source.setbacks()}
        with self._lock:
            for key in known.keys() - self._known.keys():
                _tell(known[key])
            self._known = known
            self._groups = {
                workload: groups
                for workload, groups in self._groups.items()
                if now_unix_seconds - groups.last_unix_seconds < OLDEST_SECONDS
            }

    def _take_setback(self, row: SampledRow, ended: float) -> None:
        if row.setback is None or not self._options.active:
            return
        at = ended - row.setback.age_seconds
        key = (row.workload, SetbackKind.SHRINK)
        before = self._unkept.get(key) or self._known.get(key)
        if before is None or before.at_unix_seconds < at:
            self._unkept[key] = WorkloadSetback(
                workload=row.workload, kind=SetbackKind.SHRINK, at_unix_seconds=at, reason=row.setback.reason
            )

    def _judge(self, workload: Workload, ended: float) -> None:
        groups, key = self._groups[workload], (workload, SetbackKind.SHARE)
        before, share = self._unkept.get(key) or self._known.get(key), groups.share
        if share is None or (before is not None and before.share == share):
            return
        reason = groups.why_taken_back(self._options)
        if reason is not None:
            self._unkept[key] = WorkloadSetback(
                workload=workload,
                kind=SetbackKind.SHARE,
                at_unix_seconds=ended,
                reason=f"its pods fared worse: {reason}",
                share=share,
            )

    # -- what others ask -------------------------------------------------------------------------------------------

    def taken_back(self, workload: Workload) -> TakenBack | None:
        """Return the share of a workload that is enforced no more; None = there is none."""
        setback = self._known.get((workload, SetbackKind.SHARE))
        return None if setback is None else TakenBack(share=setback.share, reason=setback.reason)

    def shrink_setback(self, workload: Workload) -> WorkloadSetback | None:
        """Return the newest shrink of a workload that was taken back; None = there was none."""
        return self._known.get((workload, SetbackKind.SHRINK))

    def fares(self, workload: Workload) -> tuple[str, tuple[GroupFare, ...]] | None:
        """Return a workload's share, and how both groups fared; None = no node told of a share."""
        with self._lock:
            groups = self._groups.get(workload)
            return None if groups is None or groups.share is None else (groups.share, groups.fares())

    def taken_back_count(self) -> int:
        """Count the workloads whose share was taken back."""
        return sum(kind is SetbackKind.SHARE for _, kind in self._known)


def _tell(setback: WorkloadSetback) -> None:
    what = "an enforced share" if setback.kind is SetbackKind.SHARE else "a shrink"
    log.warning(
        "taken back as pods fared worse",
        extra={"what": what, "workload": str(setback.workload), "share": setback.share, "reason": setback.reason},
    )
