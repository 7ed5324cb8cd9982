"""The thread ``report``: makes a report every interval, sends it to the webhook, hands the answer on.

Node. One request at a time, reports in their order. It waits for nobody but the webhook, and nobody waits for it: what
is not taken waits in the queue. Loaded only where ``report.url`` is set.
"""

from __future__ import annotations

import logging
import random as system_random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from agent.core.model import UnitIdentity
from agent.core.report_checkup import ReportStanding
from agent.core.rollup import NodeClass, Report, RollupRow
from agent.core.rollup_pacing import (
    NS,
    drain_seconds,
    interval_start_ns,
    next_end_ns,
    node_share,
    retry_seconds,
)
from agent.core.rollup_text import kept_text, sent_text
from agent.kube.errors import CredentialsError, one_line
from agent.metrics.loop_series import LoopTurns
from agent.metrics.report_series import PostResult, ReportSeries
from agent.node.report_answers import Sent, judged
from agent.node.report_queue import Outgoing, ReportQueue
from agent.node.rolling import Roller
from agent.node.steady_clock import BootClock
from agent.node.webhook_client import WebhookAnswer, WebhookAway
from agent.settings.sections import ReportSettings
from agent.version import installed_version

log = logging.getLogger(__name__)

PATH: Final = "/v1/report"
LOOK_NS: Final = 10 * NS
"""Between two looks at who has come and gone; a container that goes gives up its rings soon after."""
SETTLE_NS: Final = 5 * NS
"""How long after its end an interval is summed up: the reading after the end, which its last pair needs, is there."""
MISSED_INTERVALS: Final = 2
"""Made up for after a restart, as far as the rings still hold them."""
FIRST_SEND_SECONDS: Final = 10.0
"""Within so many seconds of the start, by lot, what an earlier agent left is sent."""
FAILED_SECONDS: Final = 10.0
"""After a fault of this program's own."""
STOP_SECONDS: Final = 0.3
_SHOWN: Final = 200


class Poster(Protocol):
    """Who sends; ``WebhookClient`` is it."""

    @property
    def url(self) -> str:
        """Where to."""
        ...

    def post(self, path: str, text: str, headers: Mapping[str, str] | None = None) -> WebhookAnswer:
        """Send a JSON text, and wait; raises ``WebhookAway`` or ``CredentialsError``."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


class Reporter:
    """Reports; see the module's docstring."""

    def __init__(
        self,
        *,
        options: ReportSettings,
        node: str,
        node_class: Callable[[], NodeClass],
        roller: Roller,
        queue: ReportQueue,
        client: Poster,
        series: ReportSeries,
        etag: Callable[[], str | None],
        on_answer: Callable[[object], None],
        is_ready: Callable[[], bool],
        boot: BootClock,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        wall_now: Callable[[], float] = time.time,
        chance: Callable[[], float] = system_random.random,
        turns: LoopTurns,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            options: Interval and so on.
            node: This node's name.
            node_class: What it is alike to.
            roller: Makes rows.
            queue: Keeps reports.
            client: Sends them.
            series: Counts them.
            etag: Gives what the directives held are known by; None = there are none yet.
            on_answer: Is handed the parsed JSON of each answer to a report that was taken, on this thread.
            is_ready: Says whether the node's pods are known; nothing is made before.
            boot: The clock by which reports grow old.
            clock_ns: CLOCK_MONOTONIC.
            wall_now: UTC seconds.
            chance: Gives 0..1; spreads what many nodes would do at once.
            turns: Counts the thread's turns.
        """
        self._turns = turns
        self._options, self._node, self._node_class = options, node, node_class
        self._roller, self._queue, self._client, self._series = roller, queue, client, series
        self._etag, self._on_answer, self._is_ready, self._boot = etag, on_answer, is_ready, boot
        self._clock_ns, self._wall_now, self._chance = clock_ns, wall_now, chance
        self._interval_ns = int(options.interval_seconds * NS)
        now_ns = clock_ns()
        self._wall_offset_ns = int(wall_now() * NS) - now_ns
        self._last_end_ns = self._last_end(now_ns)
        self._end_ns: int | None = None
        """Of the interval under way; None = the pods are not known yet."""
        self._ready_ns: int | None = None
        """When they were first known."""
        self._look_due_ns = now_ns
        self._send_due_ns = now_ns + int(chance() * FIRST_SEND_SECONDS * NS)
        self._failures = 0
        self._trouble: Sent | None = None
        """Of the newest report sent; None = it was taken, or none was sent."""
        self._success_ns: int | None = None
        self._counted_lost = queue.lost
        self._is_losing = False
        self._was_row_refused = False
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._tell_queue()

    def _last_end(self, now_ns: int) -> int | None:
        """Give when the newest report of an earlier agent ended, if it was in this boot."""
        end = self._queue.newest_end
        seconds = None if end is None else self._boot.seconds_since(end)
        return None if seconds is None or seconds < 0 else now_ns - int(seconds * NS)

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self.run, name="report", daemon=True)
        self._thread.start()

    def run(self) -> None:
        """Loop until ``stop``; the only broad except of this thread stands here."""
        while not self._stopping.is_set():
            try:
                seconds = self.turn()
            except Exception:  # top of a thread's loop: say it, go on
                log.exception("reporting failed")
                seconds = FAILED_SECONDS
                self._turns.failed()
            else:
                self._turns.done()
            self._stopping.wait(seconds)

    def stop(self) -> bool:
        """End; False = the thread is left in a request to a webhook that does not answer. A second call is fine."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)
            if self._thread.is_alive():
                return False
        self._client.close()
        return True

    # -- asked by other parts --------------------------------------------------------------------------------------

    def killed(self, identity: UnitIdentity, *, memory_bytes: int | None, monotonic_ns: int, kills: int = 1) -> None:
        """Hear of out-of-memory kills; the sampling thread. Never waits."""
        self._roller.killed(identity, memory_bytes=memory_bytes, monotonic_ns=monotonic_ns, kills=kills)

    def standing(self) -> ReportStanding:
        """Tell how reporting goes; any thread."""
        trouble, success_ns = self._trouble, self._success_ns
        return ReportStanding(
            url=self._client.url,
            interval_seconds=self._options.interval_seconds,
            last_success_age_seconds=None if success_ns is None else (self._clock_ns() - success_ns) / NS,
            trouble=None if trouble is None else trouble.sentence,
            is_access_refused=trouble is not None
            and trouble.result in (PostResult.FORBIDDEN, PostResult.NO_CREDENTIALS),
            waiting_reports=self._queue.reports,
            lost_reports=self._queue.lost,
            queue_fault=self._queue.fault,
        )

    def notes(self) -> tuple[str, ...]:
        """Say what is degraded, one sentence each."""
        trouble, fault = self._trouble, self._queue.fault
        notes = [] if trouble is None else [f"the webhook takes no reports: {trouble.sentence}"]
        return (*notes, *(() if fault is None else (fault,)))

    # -- one turn --------------------------------------------------------------------------------------------------

    def turn(self) -> float:
        """Do what is due; give the seconds until something is again."""
        now_ns = self._clock_ns()
        if now_ns >= self._look_due_ns:
            self._look_due_ns = now_ns + LOOK_NS
            self._roller.look(now_ns)
        if self._end_ns is None:
            self._begin(now_ns)
        while self._end_ns is not None and self._end_ns + SETTLE_NS <= now_ns:
            self._make(self._end_ns, now_ns)
        if self._queue.reports and self._clock_ns() >= self._send_due_ns:
            self._send()
        due_ns = self._look_due_ns
        if self._end_ns is not None:
            due_ns = min(due_ns, self._end_ns + SETTLE_NS)
        if self._queue.reports:
            due_ns = min(due_ns, self._send_due_ns)
        return max(0.0, (due_ns - self._clock_ns()) / NS)

    def _begin(self, now_ns: int) -> None:
        """Find the end of the first interval, once the containers have their names."""
        if not self._is_ready():
            return
        if self._ready_ns is None:
            self._ready_ns = now_ns
        if now_ns - self._ready_ns < LOOK_NS:  # units are renamed some moments later
            return
        oldest_ns = now_ns - MISSED_INTERVALS * self._interval_ns
        self._end_ns = self._next_end_ns(now_ns if self._last_end_ns is None else max(self._last_end_ns, oldest_ns))
        if self._etag() is None:
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
            share=node_share(self._node),
        )

    # -- making ----------------------------------------------------------------------------------------------------

    def _make(self, end_ns: int, now_ns: int) -> None:
        """Make the report of the interval that ends here, and go on to the next."""
        self._end_ns = following_ns = max(
            self._next_end_ns(end_ns), self._next_end_ns(now_ns - MISSED_INTERVALS * self._interval_ns)
        )
        is_newest = following_ns + SETTLE_NS > now_ns
        start_ns = self._start_ns(end_ns)
        if start_ns is None and self._etag() is None and self._last_end_ns is not None:
            start_ns = self._last_end_ns
        if start_ns is None or start_ns >= end_ns:
            return
        rows = self._roller.rows(start_ns, end_ns)
        self._last_end_ns = end_ns
        if not rows and not is_newest:
            return  # an interval that nobody watched
        age_seconds = (self._clock_ns() - end_ns) / NS
        node_class = self._node_class()

        def text_of(incarnation: str, sequence: int) -> str:
            return kept_text(
                self._report(incarnation, sequence, rows, node_class, (end_ns - start_ns) / NS),
                agent=installed_version(),
            )

        self._queue.add(text_of, end=self._boot.ahead(-age_seconds), end_unix_seconds=self._wall_now() - age_seconds)
        self._tell_queue()

    def _report(
        self,
        incarnation: str,
        sequence: int,
        rows: tuple[RollupRow, ...],
        node_class: NodeClass,
        interval_seconds: float,
    ) -> Report:
        return Report(
            node=self._node,
            node_class=node_class,
            incarnation=incarnation,
            sequence=sequence,
            lost_reports=0,  # as is the age, put in at the sending
            end_age_seconds=0.0,
            interval_seconds=interval_seconds,
            rows=rows,
        )

    def _tell_queue(self) -> None:
        queue = self._queue
        self._series.set_queue(reports=queue.reports, size_bytes=queue.size_bytes)
        more = queue.lost - self._counted_lost
        if more > 0:
            self._series.count_lost(more)
            if not self._is_losing:
                log.warning("reports are lost", extra={"reports": more, "waiting": queue.reports})
            self._is_losing = True
        self._counted_lost = queue.lost

    # -- sending ---------------------------------------------------------------------------------------------------

    def _send(self) -> None:
        """Send the oldest report; one request, and no other begins before it has ended."""
        outgoing = self._queue.oldest()
        if outgoing is None:
            self._tell_queue()
            return
        sent = self._post(outgoing)
        self._series.count_post(sent.result)
        now_ns = self._clock_ns()
        if sent.is_taken:
            self._queue.taken(outgoing)
        elif sent.result is PostResult.REFUSED:
            self._queue.refused(outgoing)
        else:
            self._failures += 1
            wait_seconds = retry_seconds(
                self._failures, retry_after_seconds=sent.retry_after_seconds, chance=self._chance()
            )
            self._send_due_ns = now_ns + int(wait_seconds * NS)
            self._client.close()  # the next attempt may find another replica
            self._take_trouble(sent)
            return
        self._failures = 0
        self._send_due_ns = now_ns + int(drain_seconds(self._chance()) * NS)
        if not self._queue.reports:
            self._client.close()  # five thousand idle connections would be the webhook's to keep
        self._tell_queue()
        if sent.answer is None:
            self._take_trouble(sent)
            return
        self._success_ns = now_ns
        self._series.set_last_success(self._wall_now())
        self._count_rows(sent.answer)
        if self._trouble is not None:
            log.info("the webhook takes reports again", extra={"waiting": self._queue.reports})
        self._trouble = None
        self._is_losing = self._is_losing and self._queue.reports > 0
        self._on_answer(sent.answer)

    def _post(self, outgoing: Outgoing) -> Sent:
        text = sent_text(outgoing.kept, end_age_seconds=outgoing.end_age_seconds, lost_reports=outgoing.lost_reports)
        etag = self._etag()
        try:
            answer = self._client.post(PATH, text, {} if etag is None else {"If-None-Match": f'"{etag}"'})
        except WebhookAway as error:
            return Sent(result=PostResult.UNREACHABLE, sentence=str(error))
        except CredentialsError as error:
            return Sent(result=PostResult.NO_CREDENTIALS, sentence=str(error))
        return judged(answer, self._client.url)

    def _take_trouble(self, sent: Sent) -> None:
        if self._trouble is None:  # once per change of state; metrics tell what comes after
            log.warning(
                "the webhook takes no reports",
                extra={"result": sent.result, "cause": sent.sentence, "waiting": self._queue.reports},
            )
        self._trouble = sent

    def _count_rows(self, answer: Mapping[str, object]) -> None:
        taken, refused = answer.get("taken"), answer.get("refused")
        faults = refused if isinstance(refused, list) else []
        self._series.count_rows(taken=taken if isinstance(taken, int) else 0, refused=len(faults))
        if faults and not self._was_row_refused:
            log.warning(
                "the webhook refuses rows", extra={"rows": len(faults), "first": one_line(str(faults[0]))[:_SHOWN]}
            )
        self._was_row_refused = bool(faults)
