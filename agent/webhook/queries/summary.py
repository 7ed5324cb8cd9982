"""Answers /v1/summary: what is wasted, who is short, what is stopped and why, what was done last. Webhook."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from agent.core.history.reports.rollup import SCHEMA_VERSION
from agent.core.history.workloads.hour_peaks import HOUR_SECONDS
from agent.core.numbers.units import GIB
from agent.metrics.webhook_series import WebhookMetrics
from agent.webhook.cluster.facts import ClusterFacts
from agent.webhook.http.access import Access, Scope
from agent.webhook.http.reader_request import QuestionDoor, tagged
from agent.webhook.http.routes import Call, HttpAnswer
from agent.webhook.queries.effective_policy import Applying
from agent.webhook.queries.events import EventBody, newest_events
from agent.webhook.queries.ledger_bodies import LedgerSumBody, ScopeBody, added, scope_body, sum_body
from agent.webhook.queries.standings import Severity, StandingBook, Standings
from agent.webhook.queries.workloads import SILENT_SECONDS
from agent.webhook.reports.bodies import Body
from agent.webhook.store.entries.node_hours import DAY_HOURS
from agent.webhook.store.records.usage_ledger import LedgerSum
from agent.webhook.store.shapes import NodeMark, StoreAway
from agent.webhook.store.store import Store
from agent.webhook.workloads.index import WorkloadIndex

MOST_ACTIONS: Final = 10
MOST_NAMESPACES: Final = 500
DAYS: Final = 14
SUMS_SECONDS: Final = 60.0
"""For which the sums of a scope are kept: they change once an hour."""
MOST_SUMS: Final = 32
_MILLICORES: Final = 1000
_PIECE: Final = 100


class NamespaceSumBody(Body, kw_only=True):
    """One namespace in the newest whole hour."""

    namespace: str
    hour: LedgerSumBody


class DaySumBody(Body, kw_only=True):
    """One UTC day, as far as its hours are known."""

    unix_day: int
    """Days since 1970."""
    sum: LedgerSumBody


class NodeCountBody(Body, kw_only=True):
    """The cluster's nodes."""

    count: int
    reporting: int
    silent: int
    """No report of them came within a quarter of an hour."""
    cpu_allocatable_millicores: int | None
    """Of all nodes; null = one of them does not state it."""
    memory_allocatable_bytes: int | None


class WorkloadCountBody(Body, kw_only=True):
    """Workloads by how they stand in the newest whole hour, and by mode."""

    total: int
    short: int
    over: int
    fits: int
    unknown: int
    by_mode: dict[str, int]


class StoppedBody(Body, kw_only=True):
    """What is not done at the moment, and why."""

    what: str
    """pause, leader, history, database, watch, rules or nodes."""
    detail: str
    command: str | None = None
    """What ends it; null = it ends by itself, or only a look at the cluster tells."""


class SummaryBody(Body, kw_only=True):
    """The cluster at a glance, as far as the asker may see it."""

    schema: int = SCHEMA_VERSION
    scope: ScopeBody
    sentence: str
    hour: LedgerSumBody | None
    """The newest whole hour; null = the ledger has none yet, or the database is away."""
    hour_age_seconds: float | None
    """Since its end."""
    namespaces: list[NamespaceSumBody]
    """By name; of more than 500 those that request most."""
    days: list[DaySumBody]
    """Oldest first."""
    nodes: NodeCountBody | None
    """null = not the whole cluster is seen, or the database is away."""
    workloads: WorkloadCountBody
    """Of those that are known: ``stopped`` says where that is not all."""
    stopped: list[StoppedBody]
    actions: list[EventBody]
    """Newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryParts:
    """What is summed up."""

    access: Access
    store: Store
    histories: WorkloadIndex
    facts: ClusterFacts
    applying: Applying
    standings: StandingBook
    leader: Callable[[], str | None]
    """Which replica leads; None = none is known to."""
    config_map: str
    """``NAMESPACE/NAME``, for words."""
    pause: Callable[[], None] = lambda: None
    """Called between pieces of work of some ten milliseconds, to let others run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sums:
    """What the ledger says of a scope."""

    by_namespace: dict[str, LedgerSum]
    days: list[DaySumBody]


class SummaryQuestions:
    """Answers ``/v1/summary``; any thread that may wait."""

    def __init__(
        self,
        parts: SummaryParts,
        metrics: WebhookMetrics,
        *,
        wall_clock: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts, self._asking = parts, QuestionDoor(parts.access, metrics)
        self._wall_clock, self._clock = wall_clock, clock
        self._kept: dict[frozenset[str] | None, tuple[float, int | None, _Sums]] = {}

    def summary(self, call: Call) -> HttpAnswer:
        """Sum up what the asker may see."""
        return self._asking.scoped(call, self._summary)

    def _summary(self, call: Call, scope: Scope) -> HttpAnswer:
        now, parts = self._wall_clock(), self._parts
        is_loaded = parts.histories.is_loaded  # before it is counted: what is loaded meanwhile may be missing there
        stopped = self._stopped(scope, is_loaded=is_loaded)
        standings = Standings(unix_hour=None, by_workload={})
        sums: _Sums | None = None
        actions: list[EventBody] = []
        nodes: NodeCountBody | None = None
        try:
            standings = parts.standings.now()
            sums = self._sums(scope, standings.unix_hour, now)
            actions = newest_events(parts.store, scope, now, MOST_ACTIONS)
            if scope.namespaces is None:
                nodes = self._nodes(parts.store.nodes(), now, stopped)
        except StoreAway:
            detail = "the database is away: nothing is known of past hours, and agents' reports wait on their nodes"
            stopped.append(StoppedBody(what="database", detail=detail))
        hour, total = standings.unix_hour, None if sums is None else added(sums.by_namespace.values())
        workloads = self._count(scope, standings)
        body = SummaryBody(
            scope=scope_body(scope),
            sentence=_sentence(total, workloads if is_loaded else None),
            hour=None if total is None else sum_body(total, hour),
            hour_age_seconds=None if total is None or hour is None else max(now - (hour + 1) * HOUR_SECONDS, 0.0),
            namespaces=[] if sums is None else _namespaces(sums.by_namespace, hour),
            days=[] if sums is None else sums.days,
            nodes=nodes,
            workloads=workloads,
            stopped=stopped,
            actions=actions,
        )
        return tagged(call, msgspec.json.encode(body), now)

    def _sums(self, scope: Scope, hour: int | None, now: float) -> _Sums | None:
        """Return the ledger's sums, those of a minute ago where the hour is still the same."""
        if hour is None:
            return None
        entry = self._kept.get(scope.namespaces)
        if entry is not None and entry[1] == hour and self._clock() - entry[0] < SUMS_SECONDS:
            return entry[2]
        store, today = self._parts.store, int(now // HOUR_SECONDS) // DAY_HOURS
        by_day: defaultdict[int, list[LedgerSum]] = defaultdict(list)
        for (_, day), day_sum in store.ledger_sums_by_day(range(today - DAYS + 1, today + 1), scope.namespaces).items():
            by_day[day].append(day_sum)
        totals = {day: added(every) for day, every in sorted(by_day.items())}
        sums = _Sums(
            by_namespace=store.ledger_sums(hour, scope.namespaces),
            days=[
                DaySumBody(unix_day=day, sum=sum_body(total, None))
                for day, total in totals.items()
                if total is not None
            ],
        )
        if len(self._kept) >= MOST_SUMS:
            self._kept.clear()
        self._kept[scope.namespaces] = self._clock(), hour, sums
        return sums

    def _count(self, scope: Scope, standings: Standings) -> WorkloadCountBody:
        rules, applying = self._parts.facts.rules(), self._parts.applying
        by_severity: Counter[Severity] = Counter()
        by_mode: Counter[str] = Counter()
        for number, seen in enumerate(self._parts.histories.workloads()):
            if number % _PIECE == _PIECE - 1:
                self._parts.pause()
            if scope.holds(seen.workload.namespace):
                by_severity[standings.of(seen.workload).severity] += 1
                by_mode[applying.mode(seen.workload, rules).value or ""] += 1
        return WorkloadCountBody(
            total=by_severity.total(),
            short=by_severity[Severity.SHORT],
            over=by_severity[Severity.OVER],
            fits=by_severity[Severity.FITS],
            unknown=by_severity[Severity.UNKNOWN],
            by_mode=dict(sorted(by_mode.items())),
        )

    def _nodes(self, marks: list[NodeMark], now: float, stopped: list[StoppedBody]) -> NodeCountBody:
        heard = {mark.node for mark in marks if now - mark.last_received_unix_seconds <= SILENT_SECONDS}
        known = self._parts.facts.nodes_known()
        silent = sorted(node.name for node in known if node.name not in heard)
        if silent:
            names = ", ".join(silent[:3]) + (f" and {len(silent) - 3} more" if len(silent) > 3 else "")
            detail = f"{len(silent)} of {len(known)} nodes have not reported for a quarter of an hour: {names}"
            command = "kubectl get pods --all-namespaces -l app.kubernetes.io/component=agent -o wide"
            stopped.append(StoppedBody(what="nodes", detail=detail, command=command))
        amounts = [node.allocatable for node in known]
        stated = [amount for amount in amounts if amount is not None]
        is_whole = bool(stated) and len(stated) == len(amounts)
        return NodeCountBody(
            count=len(known),
            reporting=len(known) - len(silent),
            silent=len(silent),
            cpu_allocatable_millicores=sum(amount.cpu_millicores for amount in stated) if is_whole else None,
            memory_allocatable_bytes=sum(amount.memory_bytes for amount in stated) if is_whole else None,
        )

    def _stopped(self, scope: Scope, *, is_loaded: bool) -> list[StoppedBody]:
        parts, rules = self._parts, self._parts.facts.rules()
        namespace, _, name = parts.config_map.partition("/")
        command = f"kubectl -n {namespace} edit configmap {name}"
        stopped: list[StoppedBody] = []
        if rules.pause_reason is not None:
            detail = f"the whole cluster is paused: {rules.pause_reason}"
            stopped.append(StoppedBody(what="pause", detail=detail, command=command))
        if not is_loaded:
            detail = (
                "histories are being read from the database: not all workloads are counted, and there is no advice yet"
            )
            stopped.append(StoppedBody(what="history", detail=detail))
        if not parts.facts.is_complete:
            detail = (
                "the cluster's pods, HPAs and VPAs are not all read yet: what is counted of nodes and modes is not all"
            )
            stopped.append(StoppedBody(what="watch", detail=detail))
        if scope.namespaces is not None:
            return stopped
        if rules.fault is not None:
            detail = f"the cluster's rules are not understood, the last good ones hold: {rules.fault}"
            stopped.append(StoppedBody(what="rules", detail=detail, command=command))
        if parts.leader() is None:
            detail = "no replica leads: reports wait in the log, and nothing is folded or evicted"
            stopped.append(StoppedBody(what="leader", detail=detail))
        return stopped + [
            StoppedBody(what="watch", detail=f"{source.name} cannot be watched: {source.trouble}")
            for source in parts.facts.statuses()
            if source.trouble is not None
        ]


def _namespaces(sums: dict[str, LedgerSum], hour: int | None) -> list[NamespaceSumBody]:
    chosen = sums
    if len(sums) > MOST_NAMESPACES:
        largest = sorted(sums, key=lambda name: sums[name].cpu.requested or 0, reverse=True)[:MOST_NAMESPACES]
        chosen = {name: sums[name] for name in largest}
    return [NamespaceSumBody(namespace=name, hour=sum_body(chosen[name], hour)) for name in sorted(chosen)]


def _sentence(total: LedgerSum | None, workloads: WorkloadCountBody | None) -> str:
    """Return the summary in one sentence; without workloads where not all are known."""
    if total is None:
        return "no whole hour is in the ledger yet: it is put down a quarter of an hour after its end"
    short = "how many workloads are short is not known yet"
    if workloads is not None:
        short = f"{workloads.short} workload{' is' if workloads.short == 1 else 's are'} short"
    if total.without_requested == total.workloads or total.without_recommended == total.workloads:
        return f"what is asked and not needed is not known yet; {short}"
    cores, gib = total.cpu_margins.possible / _MILLICORES, total.memory_margins.possible / GIB
    return f"{cores:.1f} cores and {gib:.1f} GiB are requested and not needed; {short}"
