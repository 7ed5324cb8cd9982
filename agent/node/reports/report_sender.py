"""Sends the reports that wait, oldest first, and hands the webhook's answers on. Node; on the thread ``report``."""

from __future__ import annotations

import logging
import random as system_random
import time
from collections.abc import Callable, Mapping
from typing import Final

from agent.core.history.reports.rollup_json import sent_text
from agent.core.history.reports.rollup_schedule import NS, drain_seconds, retry_seconds
from agent.core.machine.cluster_checkup import ReportStanding
from agent.kube.client.errors import CredentialsError, one_line
from agent.metrics.report_series import PostResult, ReportSeries
from agent.node.reports.client import WebhookAway, WebhookClient
from agent.node.reports.report_answers import Sent, judged
from agent.node.reports.report_queue import Outgoing, ReportQueue

log = logging.getLogger(__name__)

PATH: Final = "/v1/report"
FIRST_SEND_SECONDS: Final = 10.0
"""Within so many seconds of the start, by lot, what an earlier agent left is sent."""
_SHOWN: Final = 200


class ReportSender:
    """Sends; see the module's docstring. Of one thread, but for what says otherwise."""

    def __init__(
        self,
        *,
        queue: ReportQueue,
        client: WebhookClient,
        series: ReportSeries,
        etag: Callable[[], str | None],  # Gives what the directives held are known by; None = there are none yet
        # Is handed the parsed JSON of each answer to a report that was taken, or why there is none
        on_answer: Callable[[object], None],
        clock_ns: Callable[[], int] = time.monotonic_ns,
        wall_now: Callable[[], float] = time.time,  # UTC seconds
        chance: Callable[[], float] = system_random.random,  # Gives 0..1; spreads what many nodes would do at once
    ) -> None:
        self._queue, self._client, self._series = queue, client, series
        self._etag, self._on_answer = etag, on_answer
        self._clock_ns, self._wall_now, self._chance = clock_ns, wall_now, chance
        self._due_ns = clock_ns() + int(chance() * FIRST_SEND_SECONDS * NS)
        self._failures = 0
        self._trouble: Sent | None = None
        """Of the newest report sent; None = it was taken, or none was sent."""
        self._success_ns: int | None = None
        self._reported_until_ns: int | None = None
        self._counted_lost = queue.lost
        self._is_losing = False
        self._was_row_refused = False
        self.on_taken: Callable[[], None] = lambda: None
        """Called after each report that was taken; set before the first is sent."""
        self.tell_queue()

    @property
    def due_ns(self) -> int | None:
        """When the next one may be sent; None = none waits."""
        return self._due_ns if self._queue.reports else None

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    # -- asked by other parts; any thread --------------------------------------------------------------------------

    def reported_until_seconds(self) -> float | None:
        """Return up to when (CLOCK_MONOTONIC) the webhook knows what was measured; None = nothing since the start."""
        until_ns = self._reported_until_ns
        return None if until_ns is None else until_ns / NS

    def standing(self, interval_seconds: float) -> ReportStanding:
        """Return how reporting goes; the interval is that of reports."""
        trouble, success_ns = self._trouble, self._success_ns
        return ReportStanding(
            url=self._client.url,
            interval_seconds=interval_seconds,
            last_success_age_seconds=None if success_ns is None else (self._clock_ns() - success_ns) / NS,
            trouble=None if trouble is None else trouble.sentence,
            is_access_refused=trouble is not None
            and trouble.result in (PostResult.FORBIDDEN, PostResult.NO_CREDENTIALS),
            waiting_reports=self._queue.reports,
            lost_reports=self._queue.lost,
            queue_fault=self._queue.fault,
        )

    def notes(self) -> tuple[str, ...]:
        """Return what is degraded, one sentence each."""
        trouble, fault = self._trouble, self._queue.fault
        notes = [] if trouble is None else [f"the webhook takes no reports: {trouble.sentence}"]
        return (*notes, *(() if fault is None else (fault,)))

    # -- one turn --------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Send the oldest report, if one may be sent now; one request, and no other begins before it has ended."""
        if not self._queue.reports or self._clock_ns() < self._due_ns:
            return
        outgoing = self._queue.oldest()
        if outgoing is None:
            self.tell_queue()
            return
        end_ns = self._clock_ns() - int(outgoing.end_age_seconds * NS)
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
            self._due_ns = now_ns + int(wait_seconds * NS)
            self._client.close()  # the next attempt may find another replica
            self._take_trouble(sent)
            return
        self._failures = 0
        self._due_ns = now_ns + int(drain_seconds(self._chance()) * NS)
        if not self._queue.reports:
            self._client.close()  # five thousand idle connections would be the webhook's to keep
        self.tell_queue()
        if sent.answer is None:
            self._take_trouble(sent)
            return
        self._success_ns = now_ns
        self._reported_until_ns = max(end_ns, self._reported_until_ns or end_ns)
        self._series.set_last_success(self._wall_now())
        self._count_rows(sent.answer)
        if self._trouble is not None:
            log.info("the webhook takes reports again", extra={"waiting": self._queue.reports})
        self._trouble = None
        self._is_losing = self._is_losing and self._queue.reports > 0
        self._on_answer(sent.sentence if sent.is_cut else sent.answer)
        self.on_taken()

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
            log.warning("the webhook refuses rows", extra={"rows": len(faults), "first": _fault_text(faults[0])})
        self._was_row_refused = bool(faults)

    def tell_queue(self) -> None:
        """Record in metrics and log how many wait, and how many were lost."""
        queue = self._queue
        self._series.set_queue(reports=queue.reports, size_bytes=queue.size_bytes)
        more = queue.lost - self._counted_lost
        if more > 0:
            self._series.count_lost(more)
            if not self._is_losing:
                log.warning("reports are lost", extra={"reports": more, "waiting": queue.reports})
            self._is_losing = True
        self._counted_lost = queue.lost


def _fault_text(fault: object) -> str:
    """Return in one line what the webhook says of a row; it may be any JSON."""
    match fault:
        case {"row": int(row), "reason": str(reason)}:
            text = f"row {row}: {reason}"
        case _:
            text = str(fault)
    return one_line(text)[:_SHOWN]
