"""The thread ``report``: makes a report every interval, sends it to the webhook, hands the answer on.

Node. One request at a time, reports in their order. It waits for nobody but the webhook, and nobody waits for it: what
is not taken waits in the queue. Loaded only where ``report.url`` is set.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from agent.core.cluster.pod import Pod
from agent.core.cluster.unit import UnitIdentity
from agent.core.history.reports.rollup import NodeClass, NodeSums, Report, RollupRow
from agent.core.history.reports.rollup_json import kept_text
from agent.core.history.reports.rollup_schedule import NS, interval_start_ns, next_end_ns, node_share
from agent.core.machine.cluster_checkup import ReportStanding
from agent.metrics.loop_series import LoopTurns
from agent.node.files.steady_clock import BootClock
from agent.node.reports.newcomers import Newcomers
from agent.node.reports.report_queue import ReportQueue
from agent.node.reports.report_sender import ReportSender
from agent.node.reports.roller import Roller
from agent.settings.sections import ReportSettings
from agent.turns import Turns
from agent.version import installed_version

log = logging.getLogger(__name__)

LOOK_NS: Final = 10 * NS
"""Between two looks at who has come and gone; a container that goes gives up its rings soon after."""
SETTLE_NS: Final = 5 * NS
"""How long after its end an interval is summed up: the reading after the end, which its last pair needs, is there."""
MISSED_INTERVALS: Final = 2
"""Made up for after a restart, as far as the rings still hold them."""
FAILED_SECONDS: Final = 10.0
"""After a fault of this program's own."""
STOP_SECONDS: Final = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportClocks:
    """The clocks of reporting."""

    boot: BootClock
    """By which reports grow old."""
    clock_ns: Callable[[], int] = time.monotonic_ns
    wall_now: Callable[[], float] = time.time
    """UTC seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedNode:
    """What a report says of its node."""

    name: str
    node_class: Callable[[], NodeClass]
    is_ready: Callable[[], bool]
    """Whether the node's pods are known; nothing is reported before."""
    etag: Callable[[], str | None]
    """What the directives held are known by; None = there are none yet."""
    newcomers: Newcomers
    """Workloads of which nothing was told yet."""
    sums: Callable[[], NodeSums | None] = lambda: None
    """How full the node is by its newest plan; None = there is none."""


class Reporter:
    """Takes the turns of the thread ``report``."""

    def __init__(
        self,
        *,
        options: ReportSettings,
        node: ReportedNode,
        roller: Roller,
        queue: ReportQueue,
        sender: ReportSender,
        clocks: ReportClocks,
        counts: LoopTurns,
    ) -> None:
        self._options, self._node, self._roller, self._queue, self._sender = options, node, roller, queue, sender
        self._boot, self._clock_ns, self._wall_now = clocks.boot, clocks.clock_ns, clocks.wall_now
        self._interval_ns = int(options.interval_seconds * NS)
        now_ns = self._clock_ns()
        self._wall_offset_ns = int(self._wall_now() * NS) - now_ns
        self._last_end_ns = self._last_end(now_ns)
        self._end_ns: int | None = None
        """Of the interval under way; None = the pods are not known yet."""
        self._ready_ns: int | None = None
        """When they were first known."""
        self._look_due_ns = now_ns
        self._hastened_ns: int | None = None
        """What was measured until then is to be told before its time; kept, as reports that are made answer it."""
        self._wanting = threading.Lock()
        self._may_be_short = False
        self.turns: Final = Turns("report", self.turn, failed=self._failed, counts=counts)

    def _last_end(self, now_ns: int) -> int | None:
        """Return when the newest report of an earlier agent ended, if it was in this boot."""
        end = self._queue.newest_end
        seconds = None if end is None else self._boot.seconds_since(end)
        return None if seconds is None or seconds < 0 else now_ns - int(seconds * NS)

    # -- life ------------------------------------------------------------------------------------------------------

    def _failed(self, _: Exception) -> float:
        log.exception("reporting failed")
        return FAILED_SECONDS

    def stop(self) -> bool:
        """End; False = the thread is left in a request to a webhook that does not answer. A second call is fine."""
        self.turns.stop()
        if not self.turns.join(STOP_SECONDS):
            return False
        self._sender.close()
        return True

    # -- asked by other parts --------------------------------------------------------------------------------------

    def set_back(self, pod: Pod, reason: str) -> None:
        """Handle that a pod's shrink is taken back as it fares worse; any thread. Never waits."""
        now_ns = self._clock_ns()
        self._roller.set_back(pod.uid, reason, monotonic_ns=now_ns)
        self.hasten(now_ns / NS)  # until there is a report of it, a restart of the agent would lose it

    def killed(self, identity: UnitIdentity, *, memory_bytes: int | None, monotonic_ns: int, kills: int = 1) -> None:
        """Handle out-of-memory kills; the sampling thread. Never waits."""
        self._roller.killed(identity, memory_bytes=memory_bytes, monotonic_ns=monotonic_ns, kills=kills)

    def hasten(self, until_seconds: float) -> None:
        """Request a report of what was measured until a moment (CLOCK_MONOTONIC) before its time; any thread.

        One report is made of it, whether it can be sent or not: asking again for the same makes no other.
        """
        self._want(int(until_seconds * NS))
        self.turns.wake()

    def _want(self, until_ns: int) -> None:
        # Of several askers the latest moment stands: a report of it tells what the others want, too.
        with self._wanting:
            self._hastened_ns = until_ns if self._hastened_ns is None else max(self._hastened_ns, until_ns)

    @property
    def last_end_ns(self) -> int | None:
        """Return when (CLOCK_MONOTONIC) the newest report ended, or that of an agent before; None = not known."""
        return self._last_end_ns

    def reported_until_seconds(self) -> float | None:
        """Return up to when (CLOCK_MONOTONIC) the webhook knows what was measured; None = nothing since the start."""
        return self._sender.reported_until_seconds()

    def when_taken(self, call: Callable[[], None]) -> None:
        """Register a listener for each report that was taken, on this thread; before ``start``."""
        self._sender.on_taken = call

    def standing(self) -> ReportStanding:
        """Return how reporting goes; any thread."""
        return self._sender.standing(self._options.interval_seconds)

    def notes(self) -> tuple[str, ...]:
        """Return what is degraded, one sentence each."""
        return self._sender.notes()

    # -- one turn --------------------------------------------------------------------------------------------------

    def turn(self) -> float:
        """Do what is due; give the seconds until something is again."""
        now_ns = self._clock_ns()
        if now_ns >= self._look_due_ns:
            self._look_due_ns = now_ns + LOOK_NS
            self._roller.look(now_ns)
            if self._end_ns is not None and self._node.etag() is not None:
                self._node.newcomers.look(now_ns)
        if self._end_ns is None:
            self._begin(now_ns)
        elif self._node.newcomers.is_due(now_ns):
            self._want(now_ns)
        if self._end_ns is not None and self._is_hastened(self._end_ns):
            self._end_ns, self._may_be_short = min(self._end_ns, self._clock_ns()), True
        while self._end_ns is not None and self._end_ns + SETTLE_NS <= now_ns:
            self._make(self._end_ns, now_ns)
        self._sender.turn()
        due_ns = self._look_due_ns
        if self._end_ns is not None:
            due_ns = min(due_ns, self._end_ns + SETTLE_NS)
        for other_ns in (self._sender.due_ns, self._node.newcomers.due_ns):
            if other_ns is not None:
                due_ns = min(due_ns, other_ns)
        return max(0.0, (due_ns - self._clock_ns()) / NS)

    def _is_hastened(self, end_ns: int) -> bool:
        """Return whether the interval that would end there holds what was asked for, and no report made does."""
        wanted_ns, last_ns = self._hastened_ns, self._last_end_ns
        return wanted_ns is not None and end_ns >= wanted_ns and (last_ns is None or last_ns < wanted_ns)

    def _begin(self, now_ns: int) -> None:
        """Find the end of the first interval, once the containers have their names."""
        if not self._node.is_ready():
            return
        if self._ready_ns is None:
            self._ready_ns = now_ns
        if now_ns - self._ready_ns < LOOK_NS:  # units are renamed some moments later
            return
        oldest_ns = now_ns - MISSED_INTERVALS * self._interval_ns
        self._end_ns = self._next_end_ns(now_ns if self._last_end_ns is None else max(self._last_end_ns, oldest_ns))
        if self._node.etag() is None:
            # Nothing was ever told to this node, and acting waits for it: the first report does not wait its time.
            self._end_ns = min(self._end_ns, now_ns)
        self._roller.begin(self._start_ns(self._end_ns) or self._last_end_ns or now_ns)

    def _start_ns(self, end_ns: int) -> int | None:
        return interval_start_ns(end_ns, interval_ns=self._interval_ns, last_end_ns=self._last_end_ns)

    def _next_end_ns(self, after_ns: int) -> int:
        return next_end_ns(
            after_ns,
            interval_ns=self._interval_ns,
            wall_offset_ns=self._wall_offset_ns,
            share=node_share(self._node.name),
        )

    # -- making ----------------------------------------------------------------------------------------------------

    def _make(self, end_ns: int, now_ns: int) -> None:
        """Make the report of the interval that ends here, and go on to the next."""
        self._end_ns = following_ns = max(
            self._next_end_ns(end_ns), self._next_end_ns(now_ns - MISSED_INTERVALS * self._interval_ns)
        )
        is_newest = following_ns + SETTLE_NS > now_ns
        start_ns = self._start_ns(end_ns)
        if start_ns is None and (self._may_be_short or self._node.etag() is None):
            start_ns = self._last_end_ns
        self._may_be_short = False
        if start_ns is None or start_ns >= end_ns:
            return
        rows = self._roller.rows(start_ns, end_ns)
        self._last_end_ns = end_ns
        if not rows and not is_newest:
            return  # an interval that nobody watched
        age_seconds = (self._clock_ns() - end_ns) / NS
        node_class = self._node.node_class()

        def text_of(incarnation: str, sequence: int) -> str:
            return kept_text(
                self._report(incarnation, sequence, rows, node_class, (end_ns - start_ns) / NS),
                agent=installed_version(),
            )

        self._queue.add(text_of, end=self._boot.ahead(-age_seconds), end_unix_seconds=self._wall_now() - age_seconds)
        self._sender.tell_queue()

    def _report(
        self,
        incarnation: str,
        sequence: int,
        rows: tuple[RollupRow, ...],
        node_class: NodeClass,
        interval_seconds: float,
    ) -> Report:
        return Report(
            node=self._node.name,
            node_class=node_class,
            incarnation=incarnation,
            sequence=sequence,
            lost_reports=0,  # as is the age, put in at the sending
            end_age_seconds=0.0,
            interval_seconds=interval_seconds,
            rows=rows,
            plan=self._node.sums(),
            tells_plan=True,
        )
