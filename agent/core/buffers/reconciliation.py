"""One pass over the CapacityBuffers of a namespace: what has been found out goes in, what is to be written comes out.

Core, pure. The pass is made over again once the managed templates that it orders stand, so that numbers always go by
what the API returned. Over its own result it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from agent.core.buffers.buffer import (
    ACTIVE_CAPACITY,
    LIMITED_BY_QUOTAS,
    OUR_STRATEGIES,
    PLACEHOLDER_PODS,
    Buffer,
    BufferOutcome,
    BufferSizing,
    BufferStatus,
    Chunk,
    ChunkExplanation,
    ChunkRule,
    Condition,
    Content,
    ManagedTemplate,
    NamespaceFacts,
    NotSized,
    OrderKind,
    Pass,
    PodReader,
    QuotaAllocation,
    Shape,
    TemplateOrder,
    Unresolved,
)
from agent.core.buffers.chunks import size
from agent.core.buffers.conditions import SIZING_PREFIX, limited, merged, not_ready, ready
from agent.core.buffers.dedication import unfilled
from agent.core.buffers.quotas import QuotaClaim, allocate
from agent.core.buffers.template import chunk_of, is_same_content, managed_content, managed_template_name

NO_REFERENCE = "neither podTemplateRef nor scalableRef is set"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    buffer: Buffer
    fault: str | None = None
    """None = nothing is wrong so far."""
    requeue: bool = False
    shape: Shape | None = None
    template: ManagedTemplate | None = None
    order: TemplateOrder | None = None
    chunk: Chunk | None = None
    sizing: BufferSizing | None = None
    schedule: str | None = None
    is_held: bool = False
    """It keeps what its status says, whatever that came from."""

    def failed(self, fault: str, *, requeue: bool) -> _Draft:
        return replace(self, fault=fault, requeue=requeue)


def reconcile(facts: NamespaceFacts, *, read_pod: PodReader, now_unix_seconds: float) -> Pass:
    """Return what the buffers of one namespace should look like.

    As long as there are orders for templates there are no outcomes. Once each has been carried out, or has failed, and
    the facts say so, the next call gives the outcomes.
    """
    ours, others = _sorted_by_strategy(facts.buffers)
    drafts = [_drafted(buffer, facts, read_pod) for buffer in ours]
    orders = _first_of_each_name(draft.order for draft in drafts if draft.order is not None)
    if orders:
        return Pass(orders=orders, outcomes=(), passed_over=others)
    claims = [_claim(draft, facts) for draft in drafts]
    allocations = allocate(claims, facts.quotas)
    outcomes = tuple(
        _outcome(draft, allocation, facts.provisioning.get(draft.buffer.name), now_unix_seconds)
        for draft, allocation in zip(drafts, allocations.buffers, strict=True)
    )
    return Pass(
        orders=(),
        outcomes=outcomes,
        passed_over=others,
        faults=allocations.faults,
        requeue=bool(allocations.faults) or any(outcome.requeue for outcome in outcomes),
    )


def is_ours(buffer: Buffer) -> bool:
    """Return whether a buffer's strategy is one that we serve; none stated is the default one."""
    return not buffer.strategy or buffer.strategy in OUR_STRATEGIES


def reported_strategy(strategy: str | None) -> str | None:
    """Return what a status says of a spec's strategy: an empty one means the default, an absent one stays absent."""
    return ACTIVE_CAPACITY if strategy == "" else strategy


def _sorted_by_strategy(buffers: Iterable[Buffer]) -> tuple[list[Buffer], tuple[Buffer, ...]]:
    """Return our buffers and the others, in the order of quotas; what is being deleted is neither."""
    in_order = sorted(
        (buffer for buffer in buffers if not buffer.is_terminating),
        key=lambda buffer: (buffer.created_unix_seconds, buffer.name),
    )
    return [buffer for buffer in in_order if is_ours(buffer)], tuple(
        buffer for buffer in in_order if not is_ours(buffer)
    )


def _drafted(buffer: Buffer, facts: NamespaceFacts, read_pod: PodReader) -> _Draft:
    draft = _Draft(buffer=buffer, schedule=facts.inactive.get(buffer.name))
    if buffer.fault is not None:
        return draft.failed(buffer.fault, requeue=False)
    if buffer.template_ref is None and buffer.scalable_ref is None:
        return draft.failed(NO_REFERENCE, requeue=False)
    if buffer.name in facts.held:
        return _held(draft, facts, read_pod)
    shape = facts.shapes.get(buffer.name, Unresolved(reason="its reference has not been looked up"))
    if isinstance(shape, Unresolved):
        return draft.failed(shape.reason, requeue=True)
    draft = replace(draft, shape=shape)
    try:
        draft = _with_template(draft, managed_content(shape.content, read_pod), facts)
    except ValueError as error:
        return draft.failed(f"{shape.source_name} is not understood: {error}", requeue=True)
    filled = facts.filled.get(buffer.name)
    return draft if draft.template is None else _sized(draft, draft.template, read_pod, filled)


def _held(draft: _Draft, facts: NamespaceFacts, read_pod: PodReader) -> _Draft:
    """Leave a buffer what it was given: what it takes of quotas is told by the template that stands."""
    draft = replace(draft, is_held=True, requeue=True)
    template = facts.templates.get(managed_template_name(draft.buffer.name))
    if template is None or template.owner_uid != draft.buffer.uid:
        return draft
    try:
        return replace(draft, chunk=chunk_of(template.content, read_pod))
    except ValueError:
        return draft


def _with_template(draft: _Draft, content: Content, facts: NamespaceFacts) -> _Draft:
    buffer = draft.buffer
    name = managed_template_name(buffer.name)
    if buffer.name in facts.write_faults:
        return draft.failed(f"PodTemplate {name} is not written: {facts.write_faults[buffer.name]}", requeue=True)
    standing = facts.templates.get(name)
    if standing is None:
        if buffer.name in facts.written:
            return draft.failed(f"PodTemplate {name} is gone, and may not be written again yet", requeue=True)
        order = TemplateOrder(kind=OrderKind.CREATE, buffer=buffer, template_name=name, content=content)
        return replace(draft, order=order)
    if standing.owner_uid != buffer.uid:
        fault = f"PodTemplate {name} stands already and is not this buffer's: delete it, or rename the buffer"
        return draft.failed(fault, requeue=True)
    if buffer.name in facts.written or is_same_content(standing.content, content):
        return replace(draft, template=standing)
    order = TemplateOrder(
        kind=OrderKind.REPLACE,
        buffer=buffer,
        template_name=name,
        content=content,
        resource_version=standing.resource_version,
    )
    return replace(draft, order=order)


def _sized(draft: _Draft, template: ManagedTemplate, read_pod: PodReader, filled: int | None) -> _Draft:
    try:
        chunk = chunk_of(template.content, read_pod)
    except ValueError as error:
        return replace(draft, template=None).failed(f"PodTemplate {template.name}: {error}", requeue=True)
    replicas = None if draft.shape is None else draft.shape.scalable_replicas
    sizing = size(draft.buffer.size, chunk.requests, replicas)
    draft = replace(draft, chunk=chunk)
    if isinstance(sizing, NotSized):
        return draft.failed(f"{SIZING_PREFIX}{sizing.reason}", requeue=False)
    return replace(draft, sizing=unfilled(sizing, filled))


def _first_of_each_name(orders: Iterable[TemplateOrder]) -> tuple[TemplateOrder, ...]:
    """Leave one order for each name: two long names of buffers may be cut to the same, and the older is first."""
    first: dict[str, TemplateOrder] = {}
    for order in orders:
        first.setdefault(order.template_name, order)
    return tuple(first.values())


def _claim(draft: _Draft, facts: NamespaceFacts) -> QuotaClaim:
    """Return what a buffer asks of quotas; one that is kept empty or is not sized asks nothing."""
    buffer, chunk = draft.buffer, draft.chunk
    wanted = None
    if draft.is_held:
        wanted = buffer.status.replicas
    elif draft.sizing is not None and draft.schedule is None:
        wanted = draft.sizing.replicas
    if chunk is None or wanted is None:
        return QuotaClaim(wanted=None, chunk=chunk)
    if buffer.strategy != PLACEHOLDER_PODS:
        return QuotaClaim(wanted=wanted, chunk=chunk)
    if facts.placeholder_class is not None:
        chunk = replace(chunk, priority_class=facts.placeholder_class)
    return QuotaClaim(wanted=wanted, chunk=chunk, held=facts.placeholder_usage.get(buffer.name, {}))


def _outcome(
    draft: _Draft, allocation: QuotaAllocation | None, provisioning: Condition | None, now_unix_seconds: float
) -> BufferOutcome:
    buffer, sizing, template = draft.buffer, draft.sizing, draft.template
    provided = [provisioning] if provisioning is not None and buffer.strategy == PLACEHOLDER_PODS else []
    if draft.is_held:
        conditions_kept = merged(buffer.status.conditions, provided, withdrawn=(), now_unix_seconds=now_unix_seconds)
        status = replace(buffer.status, conditions=conditions_kept)
        return BufferOutcome(
            buffer=buffer, status=status, explanation=ChunkExplanation(chunk=draft.chunk), requeue=True
        )
    replicas = None
    decided_by = None
    if sizing is not None:
        replicas, decided_by = sizing.replicas, sizing.decided_by
        if draft.schedule is not None:
            replicas, decided_by = 0, ChunkRule.SCHEDULE
        elif allocation is not None and allocation.allowed < allocation.wanted:
            replicas, decided_by = allocation.allowed, ChunkRule.QUOTAS
    wanted = [_readiness(draft)]
    withdrawn = []
    if allocation is not None:
        wanted.append(limited(buffer.generation, allocation))
    else:
        # Kept, it would go on telling of a number of chunks that is no longer so.
        withdrawn.append(LIMITED_BY_QUOTAS)
    conditions = [*wanted, *provided]
    status = BufferStatus(
        template_name=None if template is None else template.name,
        template_generation=None if template is None else template.generation,
        replicas=replicas,
        strategy=reported_strategy(buffer.strategy),
        conditions=merged(buffer.status.conditions, conditions, withdrawn=withdrawn, now_unix_seconds=now_unix_seconds),
    )
    shape = draft.shape
    explanation = ChunkExplanation(
        decided_by=decided_by,
        shape_source=None if shape is None else shape.source,
        shape_name="" if shape is None else shape.source_name,
        scalable_replicas=None if shape is None else shape.scalable_replicas,
        chunk=draft.chunk,
        sizing=sizing,
        allocation=allocation,
        schedule=draft.schedule,
        fault=draft.fault,
    )
    return BufferOutcome(buffer=buffer, status=status, explanation=explanation, requeue=draft.requeue)


def _readiness(draft: _Draft) -> Condition:
    generation = draft.buffer.generation
    return ready(generation, schedule=draft.schedule) if draft.fault is None else not_ready(generation, draft.fault)
