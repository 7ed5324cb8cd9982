"""Answers /v1/events: what all nodes decided and did, newest first, of what the asker may see. Webhook."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from typing import Final

import msgspec

from agent.core.history.reports.rollup import SCHEMA_VERSION
from agent.core.resize.decision import Action, Outcome
from agent.metrics.webhook_series import WebhookMetrics
from agent.webhook.http.access import WHOLE_CLUSTER, Access, Scope
from agent.webhook.http.reader_request import BadQuestionError, QuestionDoor, limit_of, tagged
from agent.webhook.http.routes import Call, HttpAnswer
from agent.webhook.queries.ledger_bodies import ScopeBody, scope_body
from agent.webhook.reports.bodies import Body, ChangeBody
from agent.webhook.store.records.decisions import KEPT_SECONDS, DecisionChoice, DecisionPlace, StoredDecision
from agent.webhook.store.store import Store

RETENTION_DAYS: Final = round(KEPT_SECONDS / 86_400)
_CHANGES: Final = msgspec.json.Decoder(list[ChangeBody])
ANOTHERS: Final = "(another namespace's)"
_OBJECT: Final = re.compile(r"(?<![\w./-])([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)/[\w.-]+")
"""What may be an object by its namespace and name; kinds have capitals, and annotations dots."""
_MOST_TEXT: Final = 253
_MOST_DIGITS: Final = 18


class EventBody(Body, kw_only=True):
    """What a node decided or did, or what somebody ordered there; null = it is about the node, or not known."""

    id: str
    age_seconds: float
    """Since it was said last."""
    node: str
    sequence: int
    action: str
    outcome: str
    reason: str
    detail: str
    namespace: str | None
    kind: str | None
    workload: str | None
    pod: str | None
    pod_uid: str | None
    by: str | None
    """Who asked for it, as the node's control socket knows them; null = nobody did, or the agent does not tell."""
    changes: list[ChangeBody]
    seconds: float | None
    """From the patch to this outcome; null = not a matter of time."""
    repeats: int
    """How often the same was said in a row."""


class EventsBody(Body, kw_only=True):
    """A page of them, newest first."""

    schema: int = SCHEMA_VERSION
    scope: ScopeBody
    events: list[EventBody]
    next: str | None
    """What to ask for as ``after``; null = this is the last page."""
    retention_days: int = RETENTION_DAYS
    dropped: int | None = None
    """Decisions that nodes had to drop untold, of the logs they write now; null = not the whole cluster is seen."""


class EventQuestions:
    """Answers ``/v1/events``; any thread that may wait."""

    def __init__(
        self, access: Access, store: Store, metrics: WebhookMetrics, *, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._asking, self._store, self._wall_clock = QuestionDoor(access, metrics), store, wall_clock

    def events(self, call: Call) -> HttpAnswer:
        """List decisions; a query chooses by what ``choice_of`` reads, ``limit=`` and ``after=`` page."""
        return self._asking.scoped(call, self._events, namespace=call.query.get("namespace"))

    def _events(self, call: Call, scope: Scope) -> HttpAnswer:
        now = self._wall_clock()
        limit, choice = limit_of(call), choice_of(call, scope, now)
        decisions = self._store.decisions(choice, limit + 1)
        shown = decisions[:limit]
        is_whole = scope.namespaces is None
        body = EventsBody(
            scope=scope_body(scope),
            events=[event_body(decision, now, scope) for decision in shown],
            next=_place_text(shown[-1]) if len(decisions) > limit else None,
            dropped=sum(log.dropped for log in self._store.decision_logs()) if is_whole else None,
        )
        return tagged(call, msgspec.json.encode(body), now)


def event_body(decision: StoredDecision, now_unix_seconds: float, scope: Scope = WHOLE_CLUSTER) -> EventBody:
    """Return a decision as it is told; what its words name of namespaces that may not be seen is left out."""
    workload = decision.workload
    return EventBody(
        id=str(decision.id),
        age_seconds=max(now_unix_seconds - decision.unix_seconds, 0.0),
        node=decision.node,
        sequence=decision.sequence,
        action=decision.action,
        outcome=decision.outcome,
        reason=_of_scope(decision.reason, scope),
        detail=_of_scope(decision.detail, scope),
        namespace=None if workload is None else workload.namespace,
        kind=None if workload is None else workload.kind,
        workload=None if workload is None else workload.name,
        pod=decision.pod,
        pod_uid=decision.pod_uid,
        by=decision.asked_by,
        changes=_CHANGES.decode(decision.changes),
        seconds=decision.seconds,
        repeats=decision.repeats,
    )


def _of_scope(text: str, scope: Scope) -> str:
    if scope.namespaces is None:
        return text
    return _OBJECT.sub(lambda match: match[0] if scope.holds(match[1]) else ANOTHERS, text)


def choice_of(call: Call, scope: Scope, now_unix_seconds: float) -> DecisionChoice:
    """Return what a query asks for, of what may be seen.

    Raises:
        BadQuestionError: It is not understood.
    """
    query = call.query
    for name in ("namespace", "workload", "pod", "node"):
        if len(query.get(name, "")) > _MOST_TEXT or "\0" in query.get(name, ""):
            raise BadQuestionError(f"{name}: {query[name][:60]!r} is not allowed; allowed: a name")
    namespaces = scope.namespaces
    if "namespace" in query:
        namespaces = frozenset({query["namespace"]}) if scope.holds(query["namespace"]) else frozenset()
    kind, _, name = query.get("workload", "").rpartition("/")
    return DecisionChoice(
        namespaces=namespaces,
        workload_kind=kind or None,
        workload_name=name or None,
        pod=query.get("pod") or None,
        node=query.get("node") or None,
        actions=_words(query.get("action"), "action", Action),
        outcomes=_words(query.get("outcome"), "outcome", Outcome),
        since_unix_seconds=_since(query.get("sinceSeconds"), now_unix_seconds),
        after=_place(query.get("after")),
    )


def newest_events(store: Store, scope: Scope, now_unix_seconds: float, limit: int) -> list[EventBody]:
    """Return the newest decisions that somebody may see."""
    choice = replace(DecisionChoice(), namespaces=scope.namespaces)
    return [event_body(decision, now_unix_seconds, scope) for decision in store.decisions(choice, limit)]


def _words(text: str | None, name: str, kind: type[StrEnum]) -> frozenset[str]:
    if not text:
        return frozenset()
    words = text.split(",")
    for word in words:
        if word not in set(kind):
            raise BadQuestionError(f"{name}: {word[:60]!r} is not allowed; allowed: {', '.join(kind)}")
    return frozenset(words)


def _since(text: str | None, now_unix_seconds: float) -> float | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and 1 <= int(text) <= KEPT_SECONDS):
        raise BadQuestionError(f"sinceSeconds: {text[:60]!r} is not allowed; allowed: 1 to {KEPT_SECONDS:.0f}")
    return now_unix_seconds - int(text)


def _place_text(decision: StoredDecision) -> str:
    return f"{decision.unix_seconds!r}-{decision.id}"


def _place(text: str | None) -> DecisionPlace | None:
    if text is None:
        return None
    seconds, dash, number = text.partition("-")
    is_number = number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS
    try:
        if dash and is_number and 0 <= float(seconds) < 1e12 and len(text) < 60:
            return DecisionPlace(unix_seconds=float(seconds), id=int(number))
    except ValueError:
        pass
    raise BadQuestionError(f"after: {text[:60]!r} is not allowed; allowed: next of the page before")
