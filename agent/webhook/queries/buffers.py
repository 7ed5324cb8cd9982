"""Answers /v1/buffers: what buffers ask for, what they were given, and what settled each number. Webhook.

From memory: of what the watch shows and what the controller's last look came to. For any thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec

from agent.core.buffers.buffer import ACTIVE_CAPACITY, Buffer, ChunkExplanation, Condition
from agent.core.buffers.provisioning import provision
from agent.core.buffers.reconciliation import is_ours
from agent.core.cluster.pod import CPU
from agent.core.numbers.quantity import format_quantity
from agent.metrics.webhook_series import WebhookMetrics
from agent.webhook.buffers.controller import BufferController, ControllerStanding
from agent.webhook.buffers.namespace_pass import NamespaceView
from agent.webhook.buffers.seen_buffer import SeenBuffer
from agent.webhook.http.access import Access, Scope
from agent.webhook.http.reader_request import ListPage, QuestionDoor, page_of
from agent.webhook.http.routes import Call, HttpAnswer, fault
from agent.webhook.queries.buffer_bodies import (
    BufferBody,
    BufferConditionBody,
    BufferControllerBody,
    BufferProvisionBody,
    BuffersBody,
    BufferWhyBody,
)
from agent.webhook.queries.ledger_bodies import scope_body


class BufferQuestions:
    """Answers ``/v1/buffers`` and ``/v1/buffers/NAMESPACE/NAME``."""

    def __init__(
        self,
        controller: BufferController,
        access: Access,
        metrics: WebhookMetrics,
        *,
        replica: str,
        namespace: str,
        leader: Callable[[], str | None],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Begin; ``replica`` is the name of this one in the election: in a cluster that of its pod."""
        self._controller, self._asking = controller, QuestionDoor(access, metrics)
        self._replica, self._namespace = replica, namespace
        self._leader, self._wall_clock = leader, wall_clock

    def buffers(self, call: Call) -> HttpAnswer:
        """List buffers: ``namespace=``, ``limit=`` and ``after=NAMESPACE/NAME`` choose."""
        return self._asking.scoped(call, self._list, namespace=call.query.get("namespace"))

    def buffer(self, call: Call) -> HttpAnswer:
        """Return one buffer, as a list of one."""
        return self._asking.scoped(call, self._one, namespace=call.names["namespace"])

    def _list(self, call: Call, scope: Scope) -> HttpAnswer:
        chosen = call.query.get("namespace")
        seen = [
            entry
            for entry in self._controller.seen()
            if chosen in (None, entry.buffer.namespace) and scope.holds(entry.buffer.namespace)
        ]
        page = page_of(call, seen, lambda entry: (entry.buffer.namespace, entry.buffer.name), "NAMESPACE/NAME")
        return self._answer(page, scope)

    def _one(self, call: Call, scope: Scope) -> HttpAnswer:
        namespace, name = call.names["namespace"], call.names["name"]
        entry = self._controller.watches.buffers.named(namespace, name)
        if entry is None:
            return fault(404, f"there is no CapacityBuffer {namespace}/{name}")
        return self._answer(ListPage(items=(entry,), total=1, next=None), scope)

    def _answer(self, page: ListPage[SeenBuffer], scope: Scope) -> HttpAnswer:
        now, standing = self._wall_clock(), self._controller.standing()
        is_whole = scope.namespaces is None
        if not is_whole:  # these name a buffer, pods and an account of namespaces that may be others'
            contested_by = None if standing.contested_by is None else "another controller"
            standing = replace(standing, contested_by=contested_by, troubles=())
        body = BuffersBody(
            controller=BufferControllerBody(
                mode=standing.mode,
                replica=self._replica if is_whole else None,
                namespace=self._namespace if is_whole else None,
                leads=standing.is_leader,
                leader=self._leader() if is_whole else None,
                paused=standing.pause_reason,
                contested_by=standing.contested_by,
                troubles=list(standing.troubles),
                dry_run=standing.has_dry_run,
            ),
            total=page.total,
            buffers=[self._buffer(entry, standing, now) for entry in page.items],
            next=page.next,
            scope=scope_body(scope),
        )
        return HttpAnswer(body=msgspec.json.encode(body))

    def _buffer(self, seen: SeenBuffer, standing: ControllerStanding, now: float) -> BufferBody:
        buffer = seen.buffer
        view = self._controller.view(buffer.namespace)
        fault = self._controller.fault(buffer.namespace)
        trouble = None if fault is None else f"its namespace could not be looked at: {fault}"
        if view is not None:
            trouble = view.troubles.get(buffer.name) or trouble
        left_alone = None
        if not is_ours(buffer):
            left_alone = "its strategy is not served by Plimsoll"
        elif standing.contested_by is not None and buffer.strategy in (None, "", ACTIVE_CAPACITY):
            left_alone = f"{standing.contested_by} writes statuses; buffers.mode: on takes over"
        return BufferBody(
            namespace=buffer.namespace,
            name=buffer.name,
            age_seconds=max(0.0, now - buffer.created_unix_seconds),
            generation=buffer.generation,
            strategy=buffer.strategy or ACTIVE_CAPACITY,
            reference=_reference(buffer),
            replicas=buffer.size.replicas,
            percentage=buffer.size.percentage,
            limits=None if buffer.size.limits is None else _quantities(buffer.size.limits),
            chunks=buffer.status.replicas,
            template=buffer.status.template_name,
            template_generation=buffer.status.template_generation,
            conditions=[_condition(condition, now) for condition in buffer.status.conditions],
            others=list(seen.others),
            left_alone=left_alone,
            trouble=trouble,
            autoscaler=self._provision(buffer),
            why=None if view is None else self._why(view, buffer, now),
        )

    def _provision(self, buffer: Buffer) -> BufferProvisionBody | None:
        """Return what an autoscaler will do that goes by the status, whoever wrote that."""
        watches = self._controller.watches
        if not watches.is_listed:
            return None
        name = buffer.status.template_name
        template = None if name is None else watches.templates.named(buffer.namespace, name)
        forecast = provision(
            buffer,
            template_generation=None if template is None else template.generation,
            strategies=(ACTIVE_CAPACITY,),
            force_safe_to_evict=False,
        )
        return BufferProvisionBody(
            status=forecast.status,
            reason=forecast.reason,
            virtual_pods=len(forecast.pods),
            first_pod=forecast.pods[0].name if forecast.pods else None,
        )

    def _why(self, view: NamespaceView, buffer: Buffer, now: float) -> BufferWhyBody | None:
        outcome = next((outcome for outcome in view.outcomes if outcome.buffer.name == buffer.name), None)
        if outcome is None:
            return None
        return why_body(
            outcome.explanation,
            sizing=view.sizing.get(buffer.name),
            ready_pods=view.ready.get(buffer.name),
            age_seconds=max(0.0, now - view.at_unix_seconds),
        )


def why_body(why: ChunkExplanation, *, sizing: str | None, ready_pods: int | None, age_seconds: float) -> BufferWhyBody:
    """Write an explanation."""
    sized, quotas = why.sizing, why.allocation
    return BufferWhyBody(
        decided_by=why.decided_by,
        shape_source=why.shape_source,
        shape_name=why.shape_name,
        sizing=sizing,
        chunk={} if why.chunk is None else _quantities(why.chunk.requests),
        scalable_replicas=why.scalable_replicas,
        by_replicas=None if sized is None else sized.by_replicas,
        by_percentage=None if sized is None else sized.by_percentage,
        by_limits=None if sized is None else sized.by_limits,
        limiting_resource=None if sized is None else sized.limiting_resource,
        filled=None if sized is None else sized.filled,
        wanted=None if sized is None else sized.replicas,
        allowed=None if quotas is None else quotas.allowed,
        by_quota={} if quotas is None else dict(sorted(quotas.by_quota.items())),
        limiting_quotas=[] if quotas is None else list(quotas.limiting),
        schedule=why.schedule,
        fault=why.fault,
        ready_pods=ready_pods,
        age_seconds=age_seconds,
    )


def _reference(buffer: Buffer) -> str:
    if buffer.template_ref is not None:
        return f"PodTemplate {buffer.template_ref}"
    return "" if buffer.scalable_ref is None else str(buffer.scalable_ref)


def _condition(condition: Condition, now: float) -> BufferConditionBody:
    since = condition.last_transition_unix_seconds
    return BufferConditionBody(
        type=condition.type,
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        age_seconds=None if since is None else max(0.0, now - since),
    )


def _quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Write amounts, CPU in thousandths and the rest in powers of two where that is shorter."""
    return {name: _quantity(name, nanos) for name, nanos in sorted(amounts.items())}


def _quantity(name: str, nanos: int) -> str:
    if name.rpartition(".")[2] == CPU:
        return format_quantity(nanos)
    return min(format_quantity(nanos), format_quantity(nanos, binary=True), key=len)
