"""Undoes a poisoning at somebody's order: what a workload's history says, or what one node reported, is forgotten.

Webhook; any thread that may wait. It needs a right of its own: RBAC's verb ``delete`` on the path. The database forgets
at once; every replica's memory, this one's too, when it meets the order in the log, within seconds.
"""

from __future__ import annotations

import logging
import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from agent.core.cluster.workload import Workload
from agent.core.history.workloads.hour_peaks import HOUR_SECONDS, hour_of
from agent.core.history.workloads.sketch_key import parse_key
from agent.metrics.call_result import CallKind
from agent.metrics.webhook_series import WebhookMetrics
from agent.webhook.http.access import Access
from agent.webhook.http.reader_request import BadQuestionError, QuestionDoor
from agent.webhook.http.routes import Call, HttpAnswer, fault
from agent.webhook.queries.workload_bodies import ForgottenBody, ForgottenWorkloadBody
from agent.webhook.store.shapes import ForgetWish, Forgotten
from agent.webhook.store.store import Store
from agent.webhook.workloads.shapes import MergedHistory

log = logging.getLogger(__name__)

WAIT_SECONDS: Final = 5.0
"""For this replica's memory to forget too, before the answer says that it has not yet."""
MOST_SINCE_SECONDS: Final = 14 * 86_400
_NAME: Final = re.compile(r"[^/%\s\x00-\x1f\x7f-\x9f]{1,253}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetParts:
    """Who takes part."""

    access: Access
    store: Store
    merged: Callable[[Workload], MergedHistory | None]
    """What this replica has in memory of a workload; None = nothing."""
    ordered: Callable[[], None]
    """Told that there is news in the log."""
    wait_for: Callable[[int, float], bool]
    """Waits until this replica's memory has come to an entry of the log, for so many seconds at most."""


class Forgetter:
    """Answers ``DELETE`` of ``/v1/workloads/...`` and ``/v1/nodes/NODE``; ``dryRun=true`` only says what would go."""

    def __init__(
        self, parts: ForgetParts, metrics: WebhookMetrics, *, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._parts, self._metrics, self._wall_clock = parts, metrics, wall_clock
        self._asking = QuestionDoor(parts.access, metrics, kind=CallKind.FORGETTING, verb="delete")

    def forget(self, call: Call) -> HttpAnswer:
        """Forget what the path names: a workload, or a node's word."""
        return self._asking.answered(call, self._node if "node" in call.names else self._workload)

    def _workload(self, call: Call) -> HttpAnswer:
        if "sinceSeconds" in call.query:
            raise BadQuestionError("sinceSeconds: is not allowed here; allowed: for a node")
        namespace, kind, name = (_named(call.names, part) for part in ("namespace", "kind", "name"))
        workload = Workload(namespace=namespace, kind=kind, name=name)
        history = self._parts.merged(workload)
        missing = f"nothing is known of {kind} {namespace}/{name}"
        wish = ForgetWish(asked_by=self._asked_by(call), workload=workload)
        return self._answered(call, wish, history, missing)

    def _node(self, call: Call) -> HttpAnswer:
        node = _named(call.names, "node")
        since_hour = 0
        if "sinceSeconds" in call.query:
            since_hour = hour_of(self._wall_clock() - _seconds(call.query["sinceSeconds"]))
        wish = ForgetWish(asked_by=self._asked_by(call), node=node, since_unix_hour=since_hour)
        return self._answered(call, wish, None, f"nothing is known of a node {node}")

    def _answered(self, call: Call, wish: ForgetWish, history: MergedHistory | None, missing: str) -> HttpAnswer:
        is_dry_run = _flag(call.query, "dryRun")
        deletion = self._parts.store.would_forget(wish)
        if not deletion.is_known and history is None:
            return fault(404, missing)
        is_applied = False
        if not is_dry_run:
            deletion = self._parts.store.forget(wish, now_unix_seconds=self._wall_clock())
            assert deletion.id is not None  # noqa: S101 - it was written
            self._parts.ordered()
            is_applied = self._parts.wait_for(deletion.id, WAIT_SECONDS)
        body = _body(wish, deletion, history, is_dry_run=is_dry_run, is_applied=is_applied)
        if not is_dry_run:
            self._metrics.count_forgotten(deletion.rows)
            log.warning(
                "history forgotten",
                extra={
                    "asked_by": wish.asked_by,
                    "what": f"node {wish.node}" if wish.workload is None else str(wish.workload),
                    "since_unix_hour": wish.since_unix_hour,
                    "workloads": len(body.workloads),
                    "hours": body.hours,
                    "rows": body.rows,
                    "reports": body.reports,
                },
            )
        return HttpAnswer(body=msgspec.json.encode(body))

    def _asked_by(self, call: Call) -> str:
        return self._parts.access.caller(call.authorization).username


def _body(
    wish: ForgetWish, deletion: Forgotten, history: MergedHistory | None, *, is_dry_run: bool, is_applied: bool
) -> ForgottenBody:
    hours: dict[Workload, set[int]] = defaultdict(set)
    containers: dict[Workload, set[str]] = defaultdict(set)
    if wish.workload is not None:  # also where no hours are left of it
        containers[wish.workload] = set()
    for text, of_key in deletion.hours.items():
        key = parse_key(text)
        hours[key.workload] |= of_key
        containers[key.workload].add(key.container)
    if history is not None:
        for container in history.containers:
            containers[history.workload].add(container.container)
            hours[history.workload].update(peak.hour_unix_seconds // HOUR_SECONDS for peak in container.hours)
    workloads = [
        ForgottenWorkloadBody(
            namespace=workload.namespace,
            kind=workload.kind,
            name=workload.name,
            containers=sorted(containers[workload]),
            hours=len(hours[workload]),
        )
        for workload in sorted(containers)
    ]
    return ForgottenBody(
        dry_run=is_dry_run,
        node=wish.node,
        workloads=workloads,
        containers=sum(len(workload.containers) for workload in workloads),
        hours=sum(workload.hours for workload in workloads),
        rows=deletion.rows,
        reports=deletion.reports,
        in_memory_too=is_applied,
    )


def _named(names: Mapping[str, str], part: str) -> str:
    text = names[part]
    if not _NAME.fullmatch(text) or not text.isprintable():
        raise BadQuestionError(f"{part}: {text[:60]!r} is not allowed; allowed: a name as Kubernetes has it")
    return text


def _flag(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name, "false")
    if text not in ("true", "false"):
        raise BadQuestionError(f"{name}: {text[:60]!r} is not allowed; allowed: true, false")
    return text == "true"


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 0 < int(text) <= MOST_SINCE_SECONDS):
        raise BadQuestionError(f"sinceSeconds: {text[:60]!r} is not allowed; allowed: 1 to {MOST_SINCE_SECONDS}")
    return int(text)
