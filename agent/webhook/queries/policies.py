"""Answers /v1/policy: what applies to each workload, and what said so. Webhook; from memory, but for who may ask."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from agent.core.cluster.facts import ClusterRules
from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import SCHEMA_VERSION
from agent.metrics.webhook_series import WebhookMetrics
from agent.webhook.cluster.facts import ClusterFacts
from agent.webhook.http.access import Access, Scope
from agent.webhook.http.reader_request import BadQuestionError, QuestionDoor, page_of, tagged
from agent.webhook.http.routes import Call, HttpAnswer
from agent.webhook.queries.effective_policy import Applying
from agent.webhook.queries.ledger_bodies import ScopeBody, scope_body
from agent.webhook.queries.workload_bodies import AppliesBody, BoundBody, FromBody
from agent.webhook.queries.workload_list import MOST_SOUGHT, PATTERN
from agent.webhook.queries.workloads import require_read
from agent.webhook.reports.bodies import Body
from agent.webhook.workloads.index import WorkloadIndex


class PolicyLineBody(Body, kw_only=True):
    """One workload."""

    namespace: str
    kind: str
    name: str
    applies: AppliesBody


class PoliciesBody(Body, kw_only=True):
    """A page of workloads, and what holds for all of them."""

    schema: int = SCHEMA_VERSION
    scope: ScopeBody
    pause: FromBody
    rules_fault: str | None
    profile: list[BoundBody]
    faults: list[str]
    """What is not understood of the cluster's objects; empty where not the whole cluster is seen."""
    total: int
    workloads: list[PolicyLineBody]
    next: str | None


class PolicyQuestions:
    """Answers ``/v1/policy``; any thread that may wait."""

    def __init__(
        self,
        access: Access,
        histories: WorkloadIndex,
        facts: ClusterFacts,
        applying: Applying,
        applies: Callable[[Workload, ClusterRules, float], AppliesBody],
        metrics: WebhookMetrics,
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Begin; ``applies`` says what holds for one workload."""
        self._asking, self._histories, self._facts = QuestionDoor(access, metrics), histories, facts
        self._applying, self._applies, self._wall_clock = applying, applies, wall_clock

    def policy(self, call: Call) -> HttpAnswer:
        """List what applies: ``namespace=``, ``q=``, ``limit=`` and ``after=NAMESPACE/KIND/NAME`` choose."""
        return self._asking.scoped(call, self._policy, namespace=call.query.get("namespace"))

    def _policy(self, call: Call, scope: Scope) -> HttpAnswer:
        require_read(self._facts, self._histories)
        now, rules = self._wall_clock(), self._facts.rules()
        sought, namespace = call.query.get("q", "").lower(), call.query.get("namespace")
        if len(sought) > MOST_SOUGHT:
            raise BadQuestionError(f"q: {len(sought)} characters; allowed: at most {MOST_SOUGHT}")
        chosen = [
            workload
            for seen in self._histories.workloads()
            for workload in (seen.workload,)
            if scope.holds(workload.namespace)
            and namespace in (None, workload.namespace)
            and sought in f"{workload.namespace}/{workload.name}".lower()
        ]
        page = page_of(call, chosen, lambda workload: (workload.namespace, workload.kind, workload.name), PATTERN)
        body = PoliciesBody(
            scope=scope_body(scope),
            pause=self._applying.pause(rules),
            rules_fault=rules.fault,
            profile=list(self._applying.profile()),
            faults=list(self._facts.faults()) if scope.namespaces is None else [],
            total=page.total,
            workloads=[
                PolicyLineBody(
                    namespace=workload.namespace,
                    kind=workload.kind,
                    name=workload.name,
                    applies=self._applies(workload, rules, now),
                )
                for workload in page.items
            ],
            next=page.next,
        )
        return tagged(call, msgspec.json.encode(body), now)
