"""How recommendations look in a terminal: containers by namespace and workload, totals, a legend. Face, pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import groupby
from typing import Final

from agent.cli.recommender.recommend_money import NodeMoney
from agent.cli.text.figures import ABSENT, age_text, counted
from agent.cli.text.spans import Glyphs, Line, Span, Tone, clip_line, display_width, harmless
from agent.cli.text.table import Cell, Column, render_table
from agent.cli.words.advice import (
    CPU,
    MEMORY,
    SEVERITY_TEXTS,
    SEVERITY_TONES,
    SIDES,
    URGENCY,
    WITHHELD_WORDS,
    AdviceSide,
    change_text,
    limit_text,
    reasons,
    severity_sign,
    worst,
)
from agent.cli.words.units import unit_name
from agent.core.recommender.recommendation import Recommendation, Recommendations, RequestSeverity, Withheld
from agent.core.recommender.totals import ResourceTotal, Total, totals
from agent.core.recommender.unit_names import called

NO_NAMESPACE: Final = "(no namespace)"
NOTHING: Final = "nothing is watched yet"


class Order(StrEnum):
    """What containers are ordered by. Those of a workload stay together, and so do those of a namespace."""

    SEVERITY = "severity"
    """What is in danger first."""
    NAME = "name"
    CPU = "cpu"
    """The largest change of CPU first."""
    MEMORY = "memory"
    NAMESPACE = "namespace"
    """Namespaces by name, within them what is in danger first."""


def ordered(items: Iterable[Recommendation], order: Order, *, is_reversed: bool = False) -> tuple[Recommendation, ...]:
    """Order containers; those of a namespace, and within it of a workload, stay together where the first one stands."""
    items_by_name = sorted(items, key=_by_name)
    if order is not Order.NAME:
        items_by_name.sort(key=_KEYS[order])
    if is_reversed:
        items_by_name.reverse()
    spaces: dict[str | None, dict[object, list[Recommendation]]] = {}
    for item in items_by_name:
        workload = item.workload or (item.identity.pod_uid or item.identity.cgroup_path)
        spaces.setdefault(item.identity.namespace, {}).setdefault(workload, []).append(item)
    return tuple(item for workloads in spaces.values() for members in workloads.values() for item in members)


def by_namespace(items: Iterable[Recommendation]) -> list[tuple[str, tuple[Recommendation, ...]]]:
    """Gather containers that are in order: the namespace's name for people, and its containers."""
    return [
        (NO_NAMESPACE if namespace is None else harmless(namespace), tuple(members))
        for namespace, members in groupby(items, key=lambda item: item.identity.namespace)
    ]


def _by_name(item: Recommendation) -> tuple[str, ...]:
    identity, workload = item.identity, item.workload
    return (
        identity.namespace or "",
        workload.name if workload is not None else "",
        identity.pod or identity.pod_uid or "",
        identity.container or "",
        identity.cgroup_path,
    )


def _by_danger(item: Recommendation) -> tuple[int, float]:
    return URGENCY[worst(item)], -max(_share(side, item) for side in SIDES)


def _share(side: AdviceSide, item: Recommendation) -> float:
    """Return the change as a share of the request; 0 = none, or not known."""
    now, should = side.request(item), side.advice(item).request
    return abs(should - now) / now if should is not None and now else 0.0


def _by_change(side: AdviceSide) -> Callable[[Recommendation], tuple[float, ...]]:
    def key(item: Recommendation) -> tuple[float, ...]:
        should = side.advice(item).request
        return (0, -abs(should - (side.request(item) or 0))) if should is not None else (1, 0)

    return key


_Key = Callable[[Recommendation], tuple[str | float, ...]]
_KEYS: Final[Mapping[Order, _Key]] = {
    Order.SEVERITY: _by_danger,
    Order.CPU: _by_change(CPU),
    Order.MEMORY: _by_change(MEMORY),
    Order.NAMESPACE: lambda item: (item.identity.namespace or "", *_by_danger(item)),
}


# Page


def page_lines(
    node: Recommendations,
    *,
    width: int,
    glyphs: Glyphs,
    has_colour: bool,
    empty: str = NOTHING,
    money: NodeMoney | None = None,
) -> list[Line]:
    """Return the page of recommendations that ``ordered`` put in order, ``empty`` where there are none.

    Without colour, "!" stands in front of requests that are too small. With ``money`` it says what each costs.
    """
    lines = [title_line(node), *((Span("note ", Tone.NOTE), Span(harmless(note))) for note in node.notes)]
    lines += [(Span(harmless(text), Tone.DIM),) for text in (() if money is None else money.lines)]
    lines.append(())
    if node.items:
        lines += _table_lines(node, money, width=width, glyphs=glyphs, has_colour=has_colour)
        lines += [(), *total_lines(node, width=width, glyphs=glyphs), (), *_legend(node, glyphs, width)]
        lines += _advice_lines(node)
        lines += [(Span(text, Tone.DIM),) for text in _hints(node)]
    else:
        lines.append((Span(empty, Tone.NOTE),))
    return [clip_line(line, width, ellipsis=glyphs.ellipsis) for line in lines]


_ADVICE: Final = 5
"""Sentences on runtimes that a page has room for."""
_SOURCES: Final = {"agent": "from the agent", "state": "from the state files"}


def title_line(node: Recommendations) -> Line:
    """Say whose recommendations these are, under which policy, from where and of which moment."""
    return (
        Span("plimsoll ", Tone.ACCENT),
        Span(harmless(node.node), Tone.TITLE),
        Span("  requests by policy ", Tone.DIM),
        Span(harmless(node.policy), Tone.TITLE),
        Span(f"  {origin_text(node)}", Tone.DIM),
    )


def origin_text(node: Recommendations) -> str:
    """Return from where the answer is and of which moment."""
    moment = datetime.fromtimestamp(node.taken_unix_seconds, tz=UTC).astimezone()
    return f"{_SOURCES.get(node.source, harmless(node.source))}, {moment:%Y-%m-%d %H:%M}"


@dataclass(frozen=True, slots=True)
class _Entry:
    column: Column
    cell: Callable[[Recommendation], Cell]
    is_shown: bool = True


def _table_lines(
    node: Recommendations, money: NodeMoney | None, *, width: int, glyphs: Glyphs, has_colour: bool
) -> list[Line]:
    entries = [entry for entry in _entries(node, money, glyphs, has_colour=has_colour) if entry.is_shown]
    table = render_table(
        [entry.column for entry in entries],
        [[entry.cell(item) for entry in entries] for item in node.items],
        width=width,
        glyphs=glyphs,
        marks=False,  # the sign in front and that of the request say it already
    )
    lines, rows, groups = [table.groups, table.titles], iter(table.rows), by_namespace(node.items)
    for title, members in groups:
        if len(groups) > 1:
            lines.append((Span(title, Tone.TITLE), Span(f"  {counted(len(members), 'container')}", Tone.DIM)))
        lines += [next(rows) for _ in members]
    return lines


def _entries(node: Recommendations, money: NodeMoney | None, glyphs: Glyphs, *, has_colour: bool) -> list[_Entry]:
    items = node.items

    def sign(item: Recommendation) -> Cell:
        severity = worst(item)
        return Cell(severity_sign(severity, glyphs), SEVERITY_TONES[severity])

    return [
        _Entry(Column(key="sign", title="", min_width=2, is_text=True), sign),
        _Entry(Column(key="name", title="NAME", min_width=12, good_width=28, is_text=True), _name_cell),
        _Entry(
            Column(key="container", title="CONTAINER", min_width=9, good_width=14, is_text=True),
            lambda item: Cell(unit_name(item.identity)) if _has_pod(item) else Cell(ABSENT, Tone.DIM),
            any(_has_pod(item) for item in items),
        ),
        _Entry(
            Column(key="workload", title="WORKLOAD", min_width=12, good_width=24, priority=60, is_text=True),
            _workload_cell,
            any(item.workload is not None for item in items),
        ),
        *_side_entries(CPU, "CPU", 6, items, glyphs, has_colour=has_colour),
        *_side_entries(MEMORY, "MEMORY", 7, items, glyphs, has_colour=has_colour),
        *(() if money is None else _money_entries(money)),
        _figure("oom", "OOM", "", 30, lambda item: str(item.basis.oom_kills), _kill_tone, _has_kills(items)),
        _figure("history", "HISTORY", "DATA", 70, lambda item: _span(item.basis.history_span_seconds)),
        _figure("cpuspan", "CPU", "DATA", 72, lambda item: _span(item.basis.cpu_span_seconds)),
        _figure("memspan", "MEM", "DATA", 73, lambda item: _span(item.basis.memory_span_seconds)),
        _figure("age", "AGE", "DATA", 71, lambda item: age_text(item.basis.sample_age_seconds)),
        _figure("cpuread", "READINGS", "DATA", 80, _readings),
        _Entry(
            Column(key="policy", title="POLICY", min_width=6, priority=90, is_text=True),
            lambda item: Cell(harmless(item.policy), Tone.DIM),
        ),
        _Entry(
            Column(key="why", title="WHY", min_width=16, good_width=64, priority=5, is_text=True),
            lambda item: Cell(harmless(reasons(item, node)), Tone.DIM),
        ),
    ]


def _figure(
    key: str,
    title: str,
    group: str,
    priority: int,
    text: Callable[[Recommendation], str],
    tone: Callable[[Recommendation], Tone] = lambda item: Tone.DIM,
    is_shown: bool = True,
) -> _Entry:
    column = Column(key=key, title=title, group=group, min_width=len(title), priority=priority)
    return _Entry(column, lambda item: Cell(text(item), tone(item)), is_shown)


def _side_entries(
    side: AdviceSide, group: str, width: int, items: Sequence[Recommendation], glyphs: Glyphs, *, has_colour: bool
) -> list[_Entry]:
    def column(key: str, title: str, priority: int) -> Column:
        return Column(
            key=f"{side.resource}{key}", title=title, group=group, min_width=max(width, len(title)), priority=priority
        )

    def request(item: Recommendation) -> Cell:
        return _amount(side.text(side.request(item)))

    def should(item: Recommendation) -> Cell:
        advice = side.advice(item)
        if advice.withheld is not None:
            return Cell(WITHHELD_WORDS[advice.withheld], Tone.DIM)
        mark = severity_sign(advice.severity, glyphs) if not has_colour and advice.severity in _ENDANGERED else ""
        return Cell(f"{mark}{side.text(advice.request)}", SEVERITY_TONES[advice.severity])

    def change(item: Recommendation) -> Cell:
        advice = side.advice(item)
        text = change_text(side.request(item), advice.request, side.text)
        return Cell(text, Tone.DIM if text in ("keep", ABSENT) else SEVERITY_TONES[advice.severity])

    def limit(item: Recommendation) -> Cell:
        return _amount(limit_text(side, item, glyphs))

    has_limit = any(side.limit(item) is not None or side.advice(item).limit is not None for item in items)
    return [
        _Entry(column("request", "REQ", 0), request),
        _Entry(column("should", "SHOULD", 0), should),
        _Entry(column("change", "CHANGE", 10), change),
        _Entry(column("limit", "LIMIT", 20), limit, has_limit),
    ]


def _money_entries(money: NodeMoney) -> tuple[_Entry, ...]:
    group = f"{money.prices.currency} A MONTH"
    return (
        _figure("cost", "COST", group, 8, lambda item: money.text(money.of(item).cost), lambda item: Tone.PLAIN),
        _figure("possible", "POSSIBLE", group, 8, lambda item: money.text(money.of(item).possible)),
        _figure("needed", "NEEDED", group, 8, lambda item: money.text(money.of(item).needed)),
    )


_ENDANGERED: Final = (RequestSeverity.VERY_SHORT, RequestSeverity.SHORT)


def _amount(text: str) -> Cell:
    return Cell(text, Tone.DIM if text == ABSENT else Tone.PLAIN)


def _has_pod(item: Recommendation) -> bool:
    return item.identity.pod is not None or item.identity.pod_uid is not None


def _name_cell(item: Recommendation) -> Cell:
    identity = item.identity
    if not _has_pod(item):
        return Cell(unit_name(identity), keep_end=True)
    return Cell(harmless(identity.pod or identity.pod_uid or ""))


def _workload_cell(item: Recommendation) -> Cell:
    workload = item.workload
    if workload is None:
        return Cell(ABSENT, Tone.DIM)
    # A pod without an owner is its own workload: its name stands in front already.
    text = workload.kind if workload.kind == "Pod" else f"{workload.kind}/{workload.name}"
    return Cell(harmless(text), Tone.DIM)


def _span(seconds: float) -> str:
    return age_text(seconds) if seconds else ABSENT


def _readings(item: Recommendation) -> str:
    return f"{item.basis.cpu_readings}+{item.basis.memory_readings}"


def _has_kills(items: Iterable[Recommendation]) -> bool:
    return any(item.basis.oom_kills for item in items)


def _kill_tone(item: Recommendation) -> Tone:
    return Tone.HOT if item.basis.oom_kills else Tone.DIM


# Totals


def total_lines(node: Recommendations, *, width: int, glyphs: Glyphs) -> list[Line]:
    """Return what it comes to per namespace and for the node: what to add and what can be freed, never set off."""
    sums = totals(node.items)
    rows = [*sums.namespaces, sums.node] if len(sums.namespaces) > 1 else [sums.node]
    names = [*(NO_NAMESPACE if row.namespace is None else harmless(row.namespace) for row in rows[:-1]), "node"]
    columns = [
        Column(key="name", title="TOTAL", min_width=8, good_width=20, is_text=True),
        Column(key="containers", title="CONTAINERS", priority=60),
        *_total_columns("CPU", 6),
        *_total_columns("MEMORY", 7),
        Column(key="withheld", title="WITHHELD", min_width=12, good_width=24, priority=10, is_text=True),
    ]
    cells = [
        [
            Cell(name, Tone.TITLE if total is sums.node else Tone.PLAIN),
            Cell(str(total.containers)),
            *_total_cells(CPU, total.cpu_millicores, total.containers),
            *_total_cells(MEMORY, total.memory_bytes, total.containers),
            Cell(withheld_counts(total), Tone.DIM),
        ]
        for name, total in zip(names, rows, strict=True)
    ]
    table = render_table(columns, cells, width=width, glyphs=glyphs, marks=False)
    return [table.groups, table.titles, *table.rows]


def _total_columns(group: str, width: int) -> list[Column]:
    return [
        Column(key=f"{group}{title}", title=title, group=group, min_width=width, priority=priority)
        for title, priority in (("REQ", 20), ("SHOULD", 21), ("ADD", 0), ("FREE", 0))
    ]


def _total_cells(side: AdviceSide, total: ResourceTotal, containers: int) -> list[Cell]:
    if sum(total.withheld.values()) == containers:
        nothing = Cell(ABSENT, Tone.DIM)
        return [Cell(side.text(total.current)), nothing, nothing, nothing]
    return [
        Cell(side.text(total.current)),
        Cell(side.text(total.recommended)),
        Cell(side.text(total.to_add), Tone.NOTE if total.to_add else Tone.DIM),
        Cell(side.text(total.to_free), Tone.GAIN if total.to_free else Tone.DIM),
    ]


def withheld_counts(total: Total) -> str:
    """Return how many recommendations are withheld, by reason: ``6 young``, ``CPU 1 gaps; memory 6 no signal``."""
    cpu, memory = (_counts(resource_total.withheld) for resource_total in (total.cpu_millicores, total.memory_bytes))
    if cpu == memory:
        return cpu or "none"
    return "; ".join(f"{side.title} {text}" for side, text in zip(SIDES, (cpu, memory), strict=True) if text)


def _counts(withheld: Mapping[Withheld, int]) -> str:
    return ", ".join(f"{count} {WITHHELD_WORDS[reason]}" for reason, count in sorted(withheld.items()))


# Below


def _legend(node: Recommendations, glyphs: Glyphs, width: int) -> list[Line]:
    """Explain the signs that are in the table, on as many lines as it takes."""
    there = {worst(item) for item in node.items}
    lines: list[list[Span]] = [[]]
    room = width
    for severity, text in SEVERITY_TEXTS.items():
        if severity not in there:
            continue
        spans = (Span(severity_sign(severity, glyphs), SEVERITY_TONES[severity]), Span(f" {text}   ", Tone.DIM))
        needed = sum(display_width(span.text) for span in spans)
        if needed - 3 > room and lines[-1]:
            lines.append([])
            room = width
        lines[-1] += spans
        room -= needed
    return [tuple(line) for line in lines]


def _advice_lines(node: Recommendations) -> list[Line]:
    """Return the first sentences about runtimes and HPAs, a line each, and how many more there are."""
    advice = [(called(item.identity), sentence) for item in node.items for sentence in item.runtime_advice]
    lines: list[Line] = [
        (Span("runtime ", Tone.DIM), Span(f"{harmless(name)}: {harmless(sentence)}"))
        for name, sentence in advice[:_ADVICE]
    ]
    if len(advice) > _ADVICE:
        lines.append((Span(f"runtime {len(advice) - _ADVICE} more: plimsoll why NAME/CONTAINER", Tone.DIM),))
    scaled = list(dict.fromkeys(sentence for item in node.items for sentence in item.hpa_advice))
    lines += [(Span("HPA ", Tone.DIM), Span(harmless(sentence))) for sentence in scaled[:_ADVICE]]
    if len(scaled) > _ADVICE:
        lines.append((Span(f"HPA {len(scaled) - _ADVICE} more: plimsoll why NAME/CONTAINER", Tone.DIM),))
    return lines


def _hints(node: Recommendations) -> list[str]:
    hints = ["plimsoll why NAME/CONTAINER explains a row; -o patch gives kubectl commands"]
    if all(worst(item) is RequestSeverity.UNKNOWN and _is_young(item) for item in node.items):
        hints.insert(0, f"recommendations begin after {age_text(node.min_span_seconds)} of readings")
    return hints


def _is_young(item: Recommendation) -> bool:
    return any(side.advice(item).withheld is Withheld.TOO_YOUNG for side in SIDES)
