"""CapacityBuffers and what belongs to them, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from agent.core.buffers.buffer import (
    ACTIVE_CAPACITY,
    Buffer,
    BufferQuota,
    Chunk,
    Content,
    ManagedTemplate,
    NamespaceFacts,
    Pass,
    Shape,
    ShapeSource,
    SizeSpec,
)
from agent.core.buffers.reconciliation import reconcile
from agent.core.numbers.units import GIB, NANOS_PER_UNIT
from agent.kube.objects.buffer_json import pod_of_template

NOW_UNIX_SECONDS = 1_800_000_000.0


def cores(number: float) -> int:
    """Return nanos of so many cores, or of so many pieces of anything."""
    return round(number * NANOS_PER_UNIT)


def gibibytes(number: float) -> int:
    """Return nanos of memory."""
    return round(number * GIB) * NANOS_PER_UNIT


def content(
    requests: Mapping[str, str] | None = None, limits: Mapping[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    """Return the content of a template with one container."""
    resources = {key: dict(value) for key, value in (("requests", requests), ("limits", limits)) if value is not None}
    return {"spec": {"containers": [{"name": "app", "resources": resources}], **spec}}


def make_buffer(name: str = "web", *, size: SizeSpec | None = None, **fields: Any) -> Buffer:
    """Return a buffer on a template that wants one chunk, unless told otherwise."""
    stated: dict[str, Any] = {
        "namespace": "shop",
        "name": name,
        "uid": f"uid-{name}",
        "generation": 3,
        "created_unix_seconds": 1_700_000_000.0,
        "strategy": ACTIVE_CAPACITY,
        "template_ref": "small",
        "size": SizeSpec(replicas=1) if size is None else size,
    }
    return Buffer(**{**stated, **fields})


def make_shape(of: Content | None = None, **fields: Any) -> Shape:
    """Return the shape of a template of one core."""
    stated: dict[str, Any] = {
        "content": content({"cpu": "1"}) if of is None else of,
        "source": ShapeSource.POD_TEMPLATE,
        "source_name": "PodTemplate small",
    }
    return Shape(**{**stated, **fields})


def make_chunk(**requests: int) -> Chunk:
    """Return a chunk by its requests in nanos; one core unless told otherwise."""
    return Chunk(requests=requests or {"cpu": cores(1)})


def make_quota(name: str = "quota", *, cpu: float = 10, used: float = 0, **fields: Any) -> BufferQuota:
    """Return a quota of cores."""
    return BufferQuota(**{"name": name, "hard": {"cpu": cores(cpu)}, "used": {"cpu": cores(used)}, **fields})


def facts_of(*buffers: Buffer, **fields: Any) -> NamespaceFacts:
    """Return the facts of a namespace in which each buffer's reference comes to one core."""
    return NamespaceFacts(**{"buffers": buffers, "shapes": {buffer.name: make_shape() for buffer in buffers}, **fields})


def pass_over(facts: NamespaceFacts, now_unix_seconds: float = NOW_UNIX_SECONDS) -> Pass:
    """Make one pass."""
    return reconcile(facts, read_pod=pod_of_template, now_unix_seconds=now_unix_seconds)


def carried_out(facts: NamespaceFacts, result: Pass) -> NamespaceFacts:
    """Return the facts after an API has taken all templates that a pass ordered."""
    templates = dict(facts.templates)
    for order in result.orders:
        before = templates.get(order.template_name)
        templates[order.template_name] = ManagedTemplate(
            name=order.template_name,
            generation=1 if before is None else before.generation + 1,
            content=order.content,
            owner_uid=order.buffer.uid,
        )
    written = facts.written | {order.buffer.name for order in result.orders}
    return replace(facts, templates=templates, written=written)


def settled(facts: NamespaceFacts, now_unix_seconds: float = NOW_UNIX_SECONDS) -> tuple[Pass, NamespaceFacts]:
    """Pass over a namespace until nothing is ordered any more."""
    while True:
        result = pass_over(facts, now_unix_seconds)
        if not result.orders:
            return result, facts
        facts = carried_out(facts, result)


def read_again(facts: NamespaceFacts, result: Pass) -> NamespaceFacts:
    """Return the facts of a later pass, in which the statuses have been written."""
    statuses = {outcome.buffer.name: outcome.status for outcome in result.outcomes}
    return replace(facts, buffers=with_statuses(facts.buffers, statuses), written=frozenset())


def with_statuses(buffers: Iterable[Buffer], statuses: Mapping[str, Any]) -> tuple[Buffer, ...]:
    """Return the buffers with new statuses, by name."""
    return tuple(replace(buffer, status=statuses.get(buffer.name, buffer.status)) for buffer in buffers)
