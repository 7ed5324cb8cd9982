"""CapacityBuffers as lines for a terminal: how many chunks of what, and what settled that. Face, pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from agent.cli.text.figures import ABSENT, age_text, counted
from agent.cli.text.paragraphs import Page, hanging
from agent.cli.text.spans import Glyphs, Line, Span, Tone, clip_line, harmless
from agent.cli.text.table import Cell, Column, render_table
from agent.core.buffers.conditions import NOT_READY_PREFIX
from agent.webhook.queries.buffer_bodies import (
    BufferBody,
    BufferConditionBody,
    BufferControllerBody,
    BufferProvisionBody,
    BuffersBody,
    BufferWhyBody,
)

_COLUMNS: Final = (
    Column(key="namespace", title="NAMESPACE", is_text=True, min_width=9),
    Column(key="name", title="NAME", is_text=True, min_width=6, good_width=24),
    Column(key="reference", title="OF", is_text=True, min_width=10, good_width=28, priority=40),
    Column(key="chunk", title="CHUNK", is_text=True, min_width=12, priority=30),
    Column(key="wanted", title="WANTED", min_width=6, priority=20),
    Column(key="chunks", title="CHUNKS", min_width=6),
    Column(key="decided", title="DECIDED BY", is_text=True, min_width=10, priority=10),
    Column(key="ready", title="READY", is_text=True, min_width=5),
)
_READY: Final = "ReadyForProvisioning"
_LABEL: Final = 12
_MOST_FAULTS: Final = 10
_STRATEGIES: Final = {
    "buffer.x-k8s.io/active-capacity": "active capacity: an autoscaler that reads buffers provides the room",
    "plimsoll.dev/placeholder-pods": "placeholder pods: Plimsoll keeps the room with pods of the lowest priority",
}


def list_lines(body: BuffersBody, *, width: int, glyphs: Glyphs, has_colour: bool) -> Iterator[Line]:
    """Return the table of buffers."""
    yield from _controller_lines(body.controller)
    if not body.buffers:
        yield (Span("there are no CapacityBuffers", Tone.NOTE),)
        return
    rows = [_row(buffer) for buffer in body.buffers]
    table = render_table(_COLUMNS, rows, width=width, glyphs=glyphs, marks=not has_colour)
    yield table.titles
    yield from table.rows
    yield from _fault_lines(body, Page(width=width, glyphs=glyphs))
    yield (Span(f"buffers: {body.total}; plimsoll buffers NAMESPACE/NAME says why", Tone.DIM),)


def _fault_lines(body: BuffersBody, page: Page) -> Iterator[Line]:
    faulty = [
        (buffer, ready) for buffer in body.buffers if (ready := _condition(buffer, _READY)) and ready.status != "True"
    ]
    for buffer, ready in faulty[:_MOST_FAULTS]:
        said = ready.message.removeprefix(NOT_READY_PREFIX)
        yield from hanging((Span(harmless(f"{buffer.namespace}/{buffer.name}: "), Tone.DIM),), said, page, Tone.NOTE)
    if len(faulty) > _MOST_FAULTS:
        yield (Span(f"{len(faulty) - _MOST_FAULTS} more are not ready", Tone.NOTE),)


def _row(buffer: BufferBody) -> tuple[Cell, ...]:
    why, ready = buffer.why, _condition(buffer, _READY)
    is_cut = why is not None and why.allowed is not None and why.wanted is not None and why.allowed < why.wanted
    return (
        Cell(harmless(buffer.namespace)),
        Cell(harmless(buffer.name)),
        Cell(harmless(buffer.reference) or ABSENT, Tone.DIM),
        Cell(harmless(_amounts_text(why.chunk)) if why is not None else ABSENT, Tone.DIM),
        Cell(_number(why.wanted if why is not None else None)),
        Cell(_number(buffer.chunks), Tone.NOTE if is_cut else Tone.PLAIN),
        Cell((why.decided_by if why is not None else None) or ABSENT, Tone.NOTE if is_cut else Tone.DIM),
        Cell(
            {"True": "yes", "False": "no"}.get(ready.status, ready.status) if ready is not None else ABSENT,
            Tone.HOT if ready is not None and ready.status != "True" else Tone.PLAIN,
        ),
    )


def buffer_lines(body: BuffersBody, *, width: int, glyphs: Glyphs) -> Iterator[Line]:
    """Return everything about one buffer: what it asks for, what it was given, and what settled that."""
    page = Page(width=width, glyphs=glyphs)
    for buffer in body.buffers:
        yield from _controller_lines(body.controller)
        for line in _buffer_lines(buffer, body.controller, page):
            yield clip_line(line, width, ellipsis=glyphs.ellipsis)


def _buffer_lines(buffer: BufferBody, controller: BufferControllerBody, page: Page) -> Iterator[Line]:
    yield (
        Span(harmless(f"CapacityBuffer {buffer.namespace}/{buffer.name}"), Tone.TITLE),
        Span(f"   made {age_text(buffer.age_seconds)} ago", Tone.DIM),
    )
    yield (_label("strategy"), Span(harmless(_STRATEGIES.get(buffer.strategy, buffer.strategy))))
    if buffer.left_alone is not None:
        yield from hanging((_label("left alone"),), buffer.left_alone, page, Tone.NOTE)
    yield from hanging((_label("asks for"),), _asks(buffer), page)
    why = buffer.why
    if why is not None:
        yield from _why_lines(buffer, why, page)
    else:
        known = "not looked at yet" if controller.leads and buffer.left_alone is None else "why is not known here"
        yield (_label("chunks"), Span(f"{_number(buffer.chunks)}, as the status has it; {known}"))
    if buffer.trouble is not None:
        yield from hanging((_label("trouble"),), buffer.trouble, page, Tone.NOTE)
    if buffer.template is not None:
        yield (
            _label("template"),
            Span(harmless(buffer.template)),
            Span(f"   generation {_number(buffer.template_generation)}", Tone.DIM),
        )
    for condition in buffer.conditions:
        yield from _condition_lines(condition, page)
    if buffer.autoscaler is not None:
        yield from hanging((_label("autoscaler"),), _provision_words(buffer.autoscaler), page, Tone.DIM)


def _provision_words(provision: BufferProvisionBody) -> str:
    """Return what cluster-autoscaler does next, by the status as it stands."""
    if provision.status is None:
        return f"cluster-autoscaler passes it over: {provision.reason}"
    if not provision.virtual_pods:
        return f"cluster-autoscaler makes no room for it ({provision.reason})"
    pods = counted(provision.virtual_pods, "virtual pod")
    return f"cluster-autoscaler makes room for {pods}, {provision.first_pod} and so on ({provision.reason})"


def _why_lines(buffer: BufferBody, why: BufferWhyBody, page: Page) -> Iterator[Line]:
    if why.shape_name:
        is_told = why.shape_source is None or why.shape_name.startswith(why.shape_source)
        source = "" if is_told else f" ({why.shape_source})"
        yield (_label("shape"), Span(harmless(f"{why.shape_name}{source}")))
    if why.sizing is not None:
        yield (_label("size"), Span(harmless(f"recommended: {why.sizing}")))
    if why.chunk:
        yield (_label("one chunk"), Span(harmless(_amounts_text(why.chunk))))
    for label, count, words in _steps(buffer, why):
        is_decisive = label == why.decided_by
        yield (
            _label(label),
            Span(f"{count:>6} "),
            Span(harmless(words), Tone.PLAIN if is_decisive else Tone.DIM),
            *((Span("   decides", Tone.ACCENT),) if is_decisive else ()),
        )
    if why.schedule is not None:
        yield (_label("schedule"), Span(f"{0:>6} "), Span(harmless(why.schedule)), Span("   decides", Tone.ACCENT))
    if why.fault is not None:
        yield from hanging((_label("not ready"),), why.fault, page, Tone.HOT)
    else:
        total = _total(why.chunk, buffer.chunks)
        yield (_label("chunks"), Span(f"{_number(buffer.chunks):>6} ", Tone.TITLE), Span(harmless(total), Tone.DIM))
    if why.ready_pods is not None:
        yield (_label("kept"), Span(f"{why.ready_pods:>6} "), Span("placeholder pods run", Tone.DIM))
    yield (_label("looked at"), Span(f"{age_text(why.age_seconds)} ago", Tone.DIM))


def _steps(buffer: BufferBody, why: BufferWhyBody) -> Iterator[tuple[str, str, str]]:
    """Return what each part of the spec, and each quota, allows: who, how many, why."""
    if why.by_replicas is not None:
        yield "replicas", str(why.by_replicas), "a fixed number"
    if why.by_percentage is not None:
        yield (
            "percentage",
            str(why.by_percentage),
            f"{buffer.percentage} % of {_number(why.scalable_replicas)} replicas",
        )
    elif buffer.percentage is not None and why.fault is None:
        yield "percentage", ABSENT, f"{buffer.percentage} % of nothing: no count of replicas is known"
    if why.by_limits is not None:
        words = f"fit into the limits; {why.limiting_resource} is the tightest" if why.limiting_resource else "fit"
        yield "limits", str(why.by_limits), words
    if why.filled is not None:
        yield "filled", str(why.wanted), f"left of it: {counted(why.filled, 'pod')} of its selector run already"
    for name, count in why.by_quota.items():
        is_tight = name in why.limiting_quotas
        label = "quotas" if is_tight and why.decided_by == "quotas" else "quota"
        yield label, str(count), f"fit into quota {name}{'' if is_tight else ', enough'}"


def _asks(buffer: BufferBody) -> str:
    parts = [buffer.reference or "no reference"]
    if buffer.replicas is not None:
        parts.append(counted(buffer.replicas, "replica"))
    if buffer.percentage is not None:
        parts.append(f"{buffer.percentage} % of its replicas")
    if buffer.limits is not None:
        parts.append(f"within {_amounts_text(buffer.limits) if buffer.limits else 'no limits'}")
    return ", ".join(parts)


def _total(chunk: Mapping[str, str], chunks: int | None) -> str:
    return f"of {_amounts_text(chunk)} each" if chunk and chunks else ""


def _controller_lines(controller: BufferControllerBody) -> Iterator[Line]:
    if controller.mode == "off":
        yield (Span("the controller of CapacityBuffers is off here (buffers.mode); nothing is read", Tone.NOTE),)
    elif not controller.leads:
        yield (Span(harmless(_follower_words(controller)), Tone.NOTE),)
    if controller.paused is not None:
        yield (Span(harmless(f"the cluster is paused, nothing is written: {controller.paused}"), Tone.NOTE),)
    if controller.contested_by is not None:
        words = f"stepped back: {controller.contested_by} writes statuses (buffers.mode on takes over)"
        yield (Span(harmless(words), Tone.NOTE),)
    for trouble in controller.troubles:
        yield (Span(harmless(f"not heard: {trouble}"), Tone.NOTE),)


def _follower_words(controller: BufferControllerBody) -> str:
    if controller.replica is None:
        return "who answers does not lead: it has the statuses, and no reasons; who may read all is told who leads"
    known = f"{controller.replica} does not lead: it has the statuses, and no reasons"
    if controller.leader is None:
        return f"{known}; nobody is known to lead, so nothing is looked after"
    return (
        f"{known}; ask {controller.leader}: kubectl -n {controller.namespace} port-forward pod/{controller.leader} 8443"
    )


def _condition_lines(condition: BufferConditionBody, page: Page) -> Iterator[Line]:
    is_bad = (condition.type == _READY and condition.status != "True") or (
        condition.type == "LimitedByQuotas" and condition.status == "True"
    )
    message = f": {condition.message}" if condition.message and condition.message != "ready" else ""
    since = f", for {age_text(condition.age_seconds)}" if condition.age_seconds is not None else ""
    said = f"{condition.type} {condition.status}{since} ({condition.reason}){message}"
    yield from hanging((_label("condition"),), said, page, Tone.NOTE if is_bad else Tone.DIM)


def _condition(buffer: BufferBody, kind: str) -> BufferConditionBody | None:
    return next((condition for condition in buffer.conditions if condition.type == kind), None)


def _amounts_text(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items()) or ABSENT


def _number(value: int | None) -> str:
    return ABSENT if value is None else str(value)


def _label(text: str) -> Span:
    return Span(f"  {text:<{_LABEL}}", Tone.DIM)
