"""What a node posts: its reports, taken row by row and answered with directives; its proposals and its questions.

Webhook. Runs in worker threads: it asks the API server about tokens and waits for the database. A report is answered
with 200 only when the database has it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import msgspec

from agent.core.cluster.facts import NodeAmounts, PodPlace
from agent.core.cluster.pod import PodRef
from agent.core.cluster.workload import CRON_JOB_KIND, JOB_KIND, RUN_KINDS, Workload, run_name
from agent.core.eviction.proposal import EvictionReply, PodAmounts, Proposal
from agent.core.eviction.taint_cap import TaintRuling
from agent.core.history.reports.directive import Directives
from agent.core.history.reports.directive_json import directives_to_json
from agent.core.history.reports.rollup import SCHEMA_VERSION, Report, RollupRow
from agent.core.history.reports.rollup_merge import merged_row, weighed_row
from agent.core.history.workloads.hour_sketch import ReportInterval
from agent.core.history.workloads.job_run import JobRun
from agent.core.history.workloads.node_peaks import node_number
from agent.metrics.call_result import CallKind, CallResult
from agent.metrics.webhook_series import WebhookMetrics
from agent.settings.webhook_sections import AccessSettings
from agent.webhook.cluster.facts import ClusterFacts
from agent.webhook.entity_tag import is_held
from agent.webhook.http.access import NEW_POD_SECONDS, Access, Caller, Denied, Sender, workload_of
from agent.webhook.http.routes import Call, HttpAnswer, fault
from agent.webhook.reports.bodies import (
    AmountsBody,
    DecisionBody,
    DecisionsBody,
    DecisionsReplyBody,
    ProposalsBody,
    RefusedRowBody,
    RepliesBody,
    ReplyBody,
    RunBody,
    RunsBody,
    RunsReplyBody,
    TaintQuestionBody,
    TaintReplyBody,
    fault_text,
)
from agent.webhook.reports.decoder import (
    PIECE_ROWS,
    DecodedReport,
    NewerSchema,
    NotAReport,
    ReportTooLarge,
    decode_report,
    unpacked,
)
from agent.webhook.reports.directives import NotKnownYet
from agent.webhook.store.entries.remembered_pods import RememberedPods
from agent.webhook.store.records.decisions import KEPT_SECONDS, MOST_A_DAY, DecisionLogState, StoredDecision
from agent.webhook.store.shapes import AppendOutcome, NewReport, PodsRaced, PodsRead, StoreAway, plain_text
from agent.webhook.store.store import Store
from agent.webhook.workloads.shapes import NO_TURN

log = logging.getLogger(__name__)

STORE_RETRY_SECONDS: Final = 10.0
READY_RETRY_SECONDS: Final = 5.0
MOST_INCARNATIONS: Final = 20_000
TURNS: Final = 64
"""Locks that the nodes share: far more than there are workers."""
TRIES: Final = 3
"""Of one report, where other replicas take some of the same node at the same moment."""
COVERED_RATIO: Final = 1.05
"""Of an interval: what the rows of one container of a pod, started anew within it, may cover together."""
IN_DOUBT: Final = NodeAmounts(cpu_millicores=4000, memory_bytes=16 << 30)
"""What a node is taken to have while the cluster states the capacity of none: a small one. Where others are known, a
node that is not (a watch brings it within a second) is taken to have as little as any of them."""
_PROPOSALS: Final = msgspec.json.Decoder(ProposalsBody)
_TAINT_QUESTION: Final = msgspec.json.Decoder(TaintQuestionBody)
_RUNS: Final = msgspec.json.Decoder(RunsBody)
_DECISIONS: Final = msgspec.json.Decoder(DecisionsBody)
_RATE_SLACK: Final = 1.1
"""A counter and a clock are not read at the same moment."""
_Body = TypeVar("_Body")


@dataclass(frozen=True, slots=True, kw_only=True)
class PostParts:
    """What posts are handed on to."""

    access: Access
    store: Store
    facts: ClusterFacts
    encode: Callable[[Report], bytes]
    """The accepted rows as the log keeps them."""
    directives: Callable[[str], Directives]
    """All that a node is to be told."""
    arbitrate: Callable[[str, Sequence[Proposal]], Sequence[EvictionReply]]
    """The verdicts on a node's proposals, in their order."""
    taint: Callable[[str], TaintRuling]
    """Whether a node may carry the overload taint."""
    taint_seconds: float
    """For how long a grant of it holds."""
    followed: Callable[[], None]
    """Told that runs of Jobs were kept: whoever follows them may look now."""
    appended: Callable[[int, Report], None]
    """Told of a report that was kept, and its id in the log: whoever follows the log may look now."""
    turn: AbstractContextManager[object] = NO_TURN
    """Held while a report is worked on, and not while anybody is asked or waited for."""
    breathe: Callable[[], None] = lambda: None
    """Called between pieces of that work: others may go first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _OwnRows:
    """What of a report is the node's own to say."""

    report: Report
    """With one row for each container of a pod."""
    taken: int
    refused: list[RefusedRowBody]
    foreign: int
    """How many of those are refused as they are not the node's to tell."""
    over_hour: frozenset[int]
    """Those refused as no more of the hour is left to tell; of a report that came before, by itself."""
    is_late: bool
    """All are refused: the node told of later time before."""
    containers: Mapping[str, Iterable[str]]
    """Names of the pods' containers, by uid."""


class Posts:
    """Answers ``/v1/report``, ``/v1/runs``, ``/v1/evictions`` and ``/v1/taint``; for any thread."""

    def __init__(
        self,
        parts: PostParts,
        settings: AccessSettings,
        metrics: WebhookMetrics,
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._parts = parts
        self._settings = settings
        self._metrics = metrics
        self._wall_clock = wall_clock
        self._turns = tuple(threading.Lock() for _ in range(TURNS))
        self._lost_lock = threading.Lock()
        self._lost: OrderedDict[tuple[str, str], int] = OrderedDict()

    def known(self, kind: CallKind, authorization: str | None) -> Sender | HttpAnswer | None:
        """Return from memory who posts, or why it is not let in; None = ``entering`` must be asked."""
        try:
            return self._parts.access.known_sender(authorization)
        except Denied as denied:
            return self._denied(kind, denied)

    def entering(self, kind: CallKind, authorization: str | None) -> Sender | HttpAnswer:
        """Find out who posts, before the body is read: what strangers send must not take the place of what agents do.

        As ``known``, but it may ask the API server.
        """
        self._parts.breathe()
        try:
            return self._parts.access.sender(authorization)
        except Denied as denied:
            return self._denied(kind, denied)

    def _denied(self, kind: CallKind, denied: Denied) -> HttpAnswer:
        self._metrics.count_call(kind, denied.result)
        return fault(denied.status, denied.reason, retry_after_seconds=denied.retry_after_seconds)

    def report(self, call: Call) -> HttpAnswer:
        """Handle a report."""
        started = time.perf_counter()
        received = self._wall_clock()
        result, answer = self._guarded(call, lambda: self._taken(call, received, started))
        self._metrics.count_call(CallKind.REPORT, result)
        return answer

    def evictions(self, call: Call) -> HttpAnswer:
        """Judge proposals."""
        result, answer = self._guarded(call, lambda: self._judged(call))
        self._metrics.count_call(CallKind.EVICTIONS, result)
        return answer

    def taint(self, call: Call) -> HttpAnswer:
        """Return whether a node may taint itself."""
        result, answer = self._guarded(call, lambda: self._tainting(call))
        self._metrics.count_call(CallKind.TAINT, result)
        return answer

    def runs(self, call: Call) -> HttpAnswer:
        """Record runs of Jobs that have ended; the answer names those that were refused."""
        result, answer = self._guarded(call, lambda: self._run_taken(call, self._wall_clock()))
        self._metrics.count_call(CallKind.RUNS, result)
        return answer

    def decisions(self, call: Call) -> HttpAnswer:
        """Record what a node decided and did; the answer names the rows that were refused."""
        result, answer = self._guarded(call, lambda: self._decisions_taken(call, self._wall_clock()))
        self._metrics.count_call(CallKind.DECISIONS, result)
        return answer

    def _guarded(self, call: Call, work: Callable[[], tuple[CallResult, HttpAnswer]]) -> tuple[CallResult, HttpAnswer]:
        try:
            _check_media(call)
            return work()
        except Denied as denied:
            text = fault(denied.status, denied.reason, retry_after_seconds=denied.retry_after_seconds)
            return denied.result, text
        except ReportTooLarge as error:
            return CallResult.TOO_LARGE, fault(413, str(error))
        except NewerSchema as error:
            return CallResult.MALFORMED, fault(415, str(error))  # with 400 the agent would throw it away
        except NotAReport as error:
            return CallResult.MALFORMED, fault(400, str(error))
        except _OtherMedia as error:
            return CallResult.MALFORMED, fault(415, str(error))
        except StoreAway as error:
            log.warning("the database is away: a report is put off", extra={"cause": str(error)})
            return CallResult.STORE_AWAY, fault(503, "the database is away", retry_after_seconds=STORE_RETRY_SECONDS)
        except Exception:
            log.exception("a post failed", extra={"path": call.path})
            return CallResult.ERROR, fault(500, "failed; see the webhook's log")

    def _admitted(self, call: Call, kind: CallKind) -> Sender:
        sender = call.sender or self._parts.access.sender(call.authorization)
        self._parts.access.admit(sender.node, kind)
        if not self._parts.facts.is_complete:
            reason = "which pods run where is not known yet"
            raise Denied(503, CallResult.NOT_READY, reason, retry_after_seconds=READY_RETRY_SECONDS)
        return sender

    def _text(self, call: Call) -> bytes:
        return unpacked(
            call.body, (call.content_encoding or "").strip().lower(), most_bytes=self._settings.unpacked_bytes
        )

    # Reports

    def _taken(self, call: Call, received: float, started: float) -> tuple[CallResult, HttpAnswer]:
        caller, node = self._admitted(call, CallKind.REPORT)
        with self._parts.turn:
            text = self._text(call)
        self._parts.access.charge(node, CallKind.REPORT, len(text))
        with self._parts.turn:
            decoded = decode_report(
                text,
                most_rows=self._settings.rows,
                cpus_of=self._cpus_of,
                memory_of=lambda _: self._capacity(node)[1],
                pause=self._parts.breathe,
            )
        self._parts.access.check_node(node, decoded.report.node)
        self._parts.access.check_known(caller, decoded.report.rows, end_age_seconds=decoded.report.end_age_seconds)
        # One report of a node at a time: what is taken of one depends on what was taken of those before it. Within this
        # process they wait for each other; the store says where another replica took one in between.
        with self._turns[node_number(node) % len(self._turns)]:
            for _ in range(TRIES):
                try:
                    return self._store_report(call, caller, node, decoded, received, started)
                except PodsRaced as raced:
                    reason = str(raced)
        raise Denied(503, CallResult.STORE_AWAY, reason, retry_after_seconds=READY_RETRY_SECONDS)

    def _store_report(
        self, call: Call, caller: Caller, node: str, decoded: DecodedReport, received: float, started: float
    ) -> tuple[CallResult, HttpAnswer]:
        store = self._parts.store
        before = store.pods_of(node)
        pods = RememberedPods(
            node,
            lambda: before,
            now_unix_seconds=received,
            last_heard=lambda: store.last_heard(node),
        )
        with self._parts.turn:
            own = self._own_rows(caller, node, decoded, pods, received)
        with self._parts.turn:
            report, refused, foreign = own.report, own.refused, own.foreign
            # What the cluster says of the node, where it is known: else one token could speak for nodes of any class.
            report = replace(report, node_class=self._parts.facts.node_class(node) or report.node_class)
            new = NewReport(
                node=node,
                incarnation=report.incarnation,
                sequence=report.sequence,
                lost_reports=report.lost_reports,
                received_unix_seconds=received,
                rows=len(report.rows),
                payload=self._parts.encode(report),
                pods=None if own.is_late else pods.with_rows(report.rows, own.containers),
                builds_on=None if own.is_late else PodsRead(before),
            )
        self._parts.breathe()
        appended = store.append(new)
        if appended.id is not None:
            self._parts.appended(appended.id, report)
            self._count_lost(node, report)
            self._metrics.count_report(
                seconds=time.perf_counter() - started,
                taken=own.taken,
                out_of_bounds=len(refused) - foreign,
                foreign=foreign,
            )
        with self._parts.turn:
            answer = self._answer(call, node, own, appended)
        return CallResult.REPEATED if appended.repeated else CallResult.ACCEPTED, answer

    def _capacity(self, node: str) -> tuple[int, int]:
        known = self._parts.facts.capacity(node) or IN_DOUBT
        return max(known.cpu_millicores // 1000, 1), known.memory_bytes

    def _cpus_of(self, node: str) -> int | None:
        node_class = self._parts.facts.node_class(node)
        return self._capacity(node)[0] if node_class is None else node_class.cpus

    def _own_rows(
        self, caller: Caller, node: str, decoded: DecodedReport, pods: RememberedPods, received: float
    ) -> _OwnRows:
        """Leave out what the node may not say; of each container of a pod one row remains."""
        access, sent = self._parts.access, decoded.report
        refused = [RefusedRowBody(row=refusal.row, reason=refusal.reason) for refusal in decoded.refused]
        interval = ReportInterval.of(
            received_unix_seconds=received,
            end_age_seconds=sent.end_age_seconds,
            interval_seconds=sent.interval_seconds,
        )
        late = pods.begin(interval)
        foreign = 0
        rows_by_container: dict[tuple[str, str], list[tuple[int, RollupRow]]] = {}
        places: dict[str, PodPlace | None] = {}
        for number, row in zip(decoded.numbers, sent.rows, strict=True):
            if number % PIECE_ROWS == PIECE_ROWS - 1:
                self._parts.breathe()
            if row.pod_uid not in places:  # a pod has several rows
                places[row.pod_uid] = access.place_of(row.pod_uid, pods.place)
            place = places[row.pod_uid]
            reason = access.row_fault(caller, node, row, place)
            workload = workload_of(row, place)
            row = row if workload == row.workload else replace(row, workload=workload)
            if reason is not None:
                foreign += 1
            elif late is not None:
                reason = late
            else:
                same = rows_by_container.setdefault((row.pod_uid, row.container), [])
                covered = row.covered_seconds + sum(container_row.covered_seconds for _, container_row in same)
                if same and covered > sent.interval_seconds * COVERED_RATIO:
                    reason = f"container: {covered:.0f} s of this pod's were covered in {sent.interval_seconds:g} s"
                else:
                    same.append((number, row))
            if reason is not None:
                refused.append(RefusedRowBody(row=number, reason=reason))
        rows: list[RollupRow] = []
        taken = 0
        over_hour: set[int] = set()
        for same in rows_by_container.values():
            row = weighed_row(merged_row([container_row for _, container_row in same]))
            reason = pods.cover(row)
            if reason is not None:
                refused += [RefusedRowBody(row=number, reason=reason) for number, _ in same]
                over_hour.update(number for number, _ in same)
                continue
            rows.append(row)
            taken += len(same)
        refused.sort(key=lambda refusal: refusal.row)
        return _OwnRows(
            report=replace(sent, rows=tuple(rows)),
            taken=taken,
            refused=refused,
            foreign=foreign,
            over_hour=frozenset(over_hour),
            is_late=late is not None,
            containers={uid: names for uid, place in places.items() if (names := _names_of(place)) is not None},
        )

    def _count_lost(self, node: str, report: Report) -> None:
        """Count what the node lost since this process last heard of it."""
        key = (node, report.incarnation)
        with self._lost_lock:
            before = self._lost.pop(key, report.lost_reports)
            self._lost[key] = max(before, report.lost_reports)
            while len(self._lost) > MOST_INCARNATIONS:
                self._lost.popitem(last=False)
        if report.lost_reports > before:
            self._metrics.count_lost(report.lost_reports - before)

    def _answer(self, call: Call, node: str, own: _OwnRows, appended: AppendOutcome) -> HttpAnswer:
        etag = ""  # nothing to tell
        directives_json: dict[str, object] | None = None
        try:
            directives = self._parts.directives(node)
            etag = directives.etag
            if not is_held(call.if_none_match, f'"{etag}"'):
                directives_json = directives_to_json(directives)
        except NotKnownYet as error:
            log.debug("no directives yet", extra={"node": node, "cause": str(error)})
        except Exception:  # the report is kept: that must be said, whatever else is wrong
            log.exception("no directives", extra={"node": node})
        taken, refused = own.taken, own.refused
        if appended.repeated:
            taken += len(own.over_hour)
            refused = [refusal for refusal in refused if refusal.row not in own.over_hour]
        body = {
            "schema": SCHEMA_VERSION,
            "taken": taken,
            "refused": refused,
            "repeated": appended.repeated,
            "etag": etag,
            "directives": directives_json,
        }
        headers = {"ETag": f'"{etag}"'} if etag else {}
        return HttpAnswer(body=msgspec.json.encode(body), headers=headers)

    # Runs

    def _run_taken(self, call: Call, received: float) -> tuple[CallResult, HttpAnswer]:
        caller, node = self._admitted(call, CallKind.RUNS)
        body = _decoded(_RUNS, self._text(call))
        access = self._parts.access
        access.check_node(node, body.node)
        before = self._parts.store.pods_of(node)
        pods = RememberedPods(
            node, lambda: before, now_unix_seconds=received, last_heard=lambda: self._parts.store.last_heard(node)
        )
        cpus, memory_bytes = self._capacity(node)
        access.check_known(caller, [_claim(run) for run in body.runs], end_age_seconds=0.0)
        taken: list[JobRun] = []
        refused: list[RefusedRowBody] = []
        for number, run in enumerate(body.runs):
            claim = _claim(run)
            place = access.place_of(run.pod_uid, pods.place)
            reason = access.row_fault(caller, node, claim, place)
            if place is None:  # the agent's own pod may be new; it has not ended
                refused.append(RefusedRowBody(row=number, reason=reason or f"podUid: no pod {run.pod_uid} is known"))
                continue
            workload = self._owner_of(place)
            if reason is None and (workload.kind in RUN_KINDS) is run.start:
                reason = f"kind: a {workload.kind} has no {'starts' if run.start else 'runs'}"
            if reason is None:
                reason = _beyond(run, most_millicores=cpus * 1000 * _RATE_SLACK, most_bytes=memory_bytes)
            if reason is not None:
                refused.append(RefusedRowBody(row=number, reason=reason))
            else:
                taken.append(_to_run(run, place, workload, node=node_number(node), received=received))
        if taken:
            self._parts.store.take_runs(taken)
            self._parts.followed()
        answer = msgspec.json.encode(RunsReplyBody(taken=len(taken), refused=refused))
        return CallResult.ACCEPTED, HttpAnswer(body=answer)

    def _owner_of(self, place: PodPlace) -> Workload:
        """Return whose a pod's run is: what its Job says, where Jobs are read, goes before names; a group before both.

        The Job may have been brought after its pod.
        """
        if place.controller is None or place.workload.kind not in (JOB_KIND, CRON_JOB_KIND):
            return place.workload
        owner = self._parts.facts.job_owner(place.namespace, place.controller)
        return (
            place.workload if owner is None else Workload(namespace=place.namespace, kind=owner.kind, name=owner.name)
        )

    # Decisions

    def _decisions_taken(self, call: Call, received: float) -> tuple[CallResult, HttpAnswer]:
        _, node = self._admitted(call, CallKind.DECISIONS)
        text = self._text(call)
        self._parts.access.charge(node, CallKind.DECISIONS, len(text))
        body = _decoded(_DECISIONS, text)
        self._parts.access.check_node(node, body.node)
        store = self._parts.store
        before = store.pods_of(node)
        pods = RememberedPods(
            node, lambda: before, now_unix_seconds=received, last_heard=lambda: store.last_heard(node)
        )
        rows: list[StoredDecision] = []
        numbers: list[int] = []
        refused: list[RefusedRowBody] = []
        for number, decision in enumerate(body.decisions):
            place, reason = self._pod_of(node, decision, pods)
            if reason is None and decision.age_seconds > KEPT_SECONDS:
                reason = f"ageSeconds: {decision.age_seconds:.0f}; allowed: up to {KEPT_SECONDS:.0f}"
            if reason is not None:
                refused.append(RefusedRowBody(row=number, reason=reason))
                continue
            rows.append(_to_decision(decision, place, node=node, incarnation=body.incarnation, received=received))
            numbers.append(number)
        state = DecisionLogState(
            node=node,
            incarnation=body.incarnation,
            agent=plain_text(body.agent),
            dropped=body.dropped,
            received_unix_seconds=received,
        )
        taken_count = store.take_decisions(state, rows)
        reason = f"more than {MOST_A_DAY} decisions of node {node} today"
        refused += [RefusedRowBody(row=number, reason=reason) for number in numbers[taken_count:]]
        answer = msgspec.json.encode(DecisionsReplyBody(taken=taken_count, refused=refused))
        return CallResult.ACCEPTED, HttpAnswer(body=answer)

    def _pod_of(self, node: str, decision: DecisionBody, pods: RememberedPods) -> tuple[PodPlace | None, str | None]:
        """Return the pod that a decision is about, None = the node itself; or why the node may not say so.

        Whose pod it is, the webhook knows by itself: a node decides for pods that are or were there, and for no other.
        """
        if decision.pod_uid is None:
            is_bare = decision.namespace is None and decision.pod is None
            return None, None if is_bare else "podUid: is missing; allowed: namespace, pod and podUid, or none of them"
        place = self._parts.access.place_of(decision.pod_uid, pods.place)
        if place is None and decision.age_seconds < NEW_POD_SECONDS + self._parts.facts.pods_age_seconds():
            reason = f"pod {decision.namespace}/{decision.pod} is not known yet"  # as ``check_known`` has it
            raise Denied(503, CallResult.NOT_READY, reason, retry_after_seconds=READY_RETRY_SECONDS)
        if place is None:
            return None, f"podUid: no pod {decision.pod_uid} is known"
        if place.node != node:
            return None, f"podUid: the pod is not on node {node}"
        if (place.namespace, place.name) != (decision.namespace, decision.pod):
            return None, "pod: the uid is another pod's"
        return place, None

    # Proposals

    def _judged(self, call: Call) -> tuple[CallResult, HttpAnswer]:
        _, node = self._admitted(call, CallKind.EVICTIONS)
        body = _decoded(_PROPOSALS, self._text(call))
        self._parts.access.check_node(node, body.node)
        proposals = [
            Proposal(
                ref=PodRef(namespace=proposal.namespace, name=proposal.pod, uid=proposal.pod_uid),
                want=proposal.reason,
                order=proposal.order,
                ranking=proposal.ranking,
                requested=_amounts(proposal.requested),
                needed=_amounts(proposal.needed),
            )
            for proposal in body.proposals
        ]
        replies = self._parts.arbitrate(node, proposals)
        answers = [
            ReplyBody(pod_uid=reply.pod_uid, verdict=reply.ruling.verdict, reason=str(reply.ruling))
            for reply in replies
        ]
        return CallResult.ACCEPTED, HttpAnswer(body=msgspec.json.encode(RepliesBody(answers=answers)))

    # Questions

    def _tainting(self, call: Call) -> tuple[CallResult, HttpAnswer]:
        _, node = self._admitted(call, CallKind.TAINT)
        body = _decoded(_TAINT_QUESTION, self._text(call))
        self._parts.access.check_node(node, body.node)
        ruling = self._parts.taint(node)
        reply = TaintReplyBody(
            granted=ruling.is_granted,
            reason=ruling.reason,
            detail=ruling.detail,
            seconds=self._parts.taint_seconds if ruling.is_granted else 0.0,
        )
        return CallResult.ACCEPTED, HttpAnswer(body=msgspec.json.encode(reply))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    """The pod that a run is said to be of."""

    workload: Workload
    container: str
    pod: str
    pod_uid: str
    pod_age_seconds: float | None


def _names_of(place: PodPlace | None) -> tuple[str, ...] | None:
    """Return the names of a pod's containers; None = they are not known."""
    known = None if place is None else place.containers
    return None if known is None else tuple(container.name for container in known)


def _claim(run: RunBody) -> _Claim:
    return _Claim(
        workload=Workload(namespace=run.namespace, kind=run.kind, name=run.workload),
        container=run.container,
        pod=run.pod,
        pod_uid=run.pod_uid,
        pod_age_seconds=run.duration_seconds + run.ended_age_seconds,
    )


def _beyond(run: RunBody, *, most_millicores: float, most_bytes: int) -> str | None:
    """Return which figure is more than the node has; None = none is."""
    for name in ("cpu_mean_millicores", "cpu_p75_millicores", "cpu_largest_millicores"):
        if (getattr(run, name) or 0.0) > most_millicores:
            return f"{name}: {getattr(run, name):g} of {most_millicores:g} that the node has"
    for name in ("memory_peak_bytes", "memory_need_bytes", "memory_at_kill_bytes"):
        if (getattr(run, name) or 0) > most_bytes:
            return f"{name}: {getattr(run, name)} of {most_bytes} that the node has"
    return None


def _to_run(run: RunBody, place: PodPlace, workload: Workload, *, node: int, received: float) -> JobRun:
    """Return a run under the name that the webhook knows: else one pod could stand for many runs."""
    return JobRun(
        workload=workload,
        container=run.container,
        run=place.name if run.start else run_name(workload, pod=place.name, controller=place.controller),
        ended_unix_seconds=received - run.ended_age_seconds,
        duration_seconds=run.duration_seconds,
        cpu_seconds=run.cpu_seconds,
        cpu_mean_millicores=run.cpu_mean_millicores,
        cpu_p75_millicores=run.cpu_p75_millicores,
        cpu_largest_millicores=run.cpu_largest_millicores,
        memory_peak_bytes=run.memory_peak_bytes,
        memory_need_bytes=run.memory_need_bytes,
        memory_at_kill_bytes=run.memory_at_kill_bytes,
        exit_code=run.exit_code,
        cpu_node=node,
        memory_node=node,
    )


def _to_decision(
    decision: DecisionBody, place: PodPlace | None, *, node: str, incarnation: str, received: float
) -> StoredDecision:
    return StoredDecision(
        node=node,
        incarnation=incarnation,
        sequence=decision.sequence,
        unix_seconds=received - decision.age_seconds,
        action=decision.action.value,
        outcome=decision.outcome.value,
        reason=plain_text(decision.reason),
        detail=plain_text(decision.detail),
        workload=None if place is None else place.workload,
        pod=None if place is None else place.name,
        pod_uid=None if place is None else place.uid,
        changes=msgspec.json.encode(decision.changes).decode(),
        seconds=decision.seconds,
        repeats=decision.repeats,
        asked_by=None if decision.by is None else plain_text(decision.by),
    )


def _decoded(decoder: msgspec.json.Decoder[_Body], text: bytes) -> _Body:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise NotAReport(fault_text(error)) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotAReport(f"the body is no JSON: {str(error)[:200]}") from error


class _OtherMedia(Exception):  # noqa: N818
    """A body of a kind that is not read."""


def _check_media(call: Call) -> None:
    kind = (call.content_type or "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise _OtherMedia("Content-Type: this kind is not read; allowed: application/json")
    if (call.content_encoding or "identity").strip().lower() not in ("gzip", "identity"):
        raise _OtherMedia("Content-Encoding: this one is not read; allowed: gzip, identity")


def _amounts(body: AmountsBody) -> PodAmounts:
    return PodAmounts(cpu_millicores=body.cpu_millicores, memory_bytes=body.memory_bytes)
