"""What things cost as lines for a terminal and as CSV; a figure by a list price says so. Face, pure.

Freed, possible and needed stand beside each other and are never added up: only nodes that go change a bill.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from agent.cli.text.csv_text import csv_table
from agent.cli.text.figures import counted
from agent.cli.text.paragraphs import Page, hanging
from agent.cli.text.spans import Glyphs, Line, Span, Tone, harmless
from agent.cli.text.table import Cell, Column, render_table
from agent.core.cost.prices import month_text
from agent.webhook.queries.cost_bodies import CostBody, CostRowBody, FitBody

_NAMES: Final = {
    "namespace": (Column(key="namespace", title="NAMESPACE", is_text=True, min_width=9),),
    "workload": (
        Column(key="namespace", title="NAMESPACE", is_text=True, min_width=9),
        Column(key="kind", title="KIND", is_text=True, min_width=4, priority=20),
        Column(key="name", title="NAME", is_text=True, min_width=6, good_width=24),
    ),
    "node": (Column(key="node", title="NODE", is_text=True, min_width=8),),
    "label": (Column(key="value", title="VALUE", is_text=True, min_width=8),),
}
_PODS: Final = Column(key="pods", title="PODS", min_width=4, priority=30)
_COST: Final = Column(key="cost", title="COST", min_width=6)
_IDLE: Final = Column(key="idle", title="IDLE", min_width=6)
_PARTS: Final = (
    Column(key="cpu", title="CPU", min_width=6, priority=40),
    Column(key="memory", title="MEMORY", min_width=6, priority=40),
)
_WORTH: Final = (
    Column(key="freed", title="FREED", min_width=6, priority=10),
    Column(key="possible", title="POSSIBLE", min_width=6),
    Column(key="needed", title="NEEDED", min_width=6),
)
_NO_LABEL: Final = "(without it)"
_MOST_REASONS: Final = 20
_MOST_NAMED: Final = 20
_CSV_DIGITS: Final = Decimal("0.000001")
CSV_HEADER: Final = (
    "row",
    "currency",
    "month_hours",
    "namespace",
    "kind",
    "name",
    "node",
    "label",
    "value",
    "pods",
    "cost_month",
    "cpu_month",
    "memory_month",
    "idle_month",
    "freed_month",
    "possible_month",
    "needed_month",
    "pods_without_advice",
    "is_list_price",
    "price_source",
)


def cost_lines(body: CostBody, *, width: int, glyphs: Glyphs, has_colour: bool) -> Iterator[Line]:
    """Return the table, dearest first, and under it the cluster's sums and which nodes could go."""
    page = Page(width=width, glyphs=glyphs)
    title = f"{body.currency} a month of {body.month_hours} hours, by what pods request now"
    yield (Span(harmless(title), Tone.TITLE),)
    if body.list_price_note:
        yield (Span(harmless(f"* = {body.list_price_note}"), Tone.NOTE),)
    if body.rows:
        rows = sorted(body.rows, key=lambda row: (-Decimal(row.cost_month), row.key))
        table = render_table(
            _columns(body.by), [_cells(body.by, row) for row in rows], width=width, glyphs=glyphs, marks=not has_colour
        )
        yield table.titles
        yield from table.rows
    else:
        is_others = body.by == "node" and body.total.nodes is None
        yield (
            Span("nodes are told to who may read the whole cluster" if is_others else "no pod has a price", Tone.NOTE),
        )
    yield from hanging((), sums_text(body), page)
    total = body.total
    for count, what in (
        (total.pods_without_advice, "have no recommendation yet and count as they are"),
        (total.unpriced_pods, "are on nodes without a price, and count nowhere"),
        (total.unplaced_pods, "are on no node yet, and cost nothing"),
    ):
        if count:
            yield from hanging((), f"{counted(count, 'pod')} {what}", page, Tone.DIM)
    if total.unpriced_nodes:
        yield from hanging((), f"no capacity is known of: {harmless(_some(total.unpriced_nodes))}", page, Tone.NOTE)
    if body.fit is not None:
        yield from _fit_lines(body.fit, body, page)


def _columns(by: str) -> tuple[Column, ...]:
    idle = (_IDLE,) if by == "node" else ()
    return (*_NAMES[by], _PODS, _COST, *idle, *_PARTS, *_WORTH)


def _cells(by: str, row: CostRowBody) -> tuple[Cell, ...]:
    by_kind: dict[str, list[str | None]] = {
        "namespace": [row.namespace],
        "workload": [row.namespace, row.kind, row.name],
        "node": [row.node],
        "label": [row.value or _NO_LABEL],
    }
    idle = [] if row.idle_month is None else [row.idle_month]
    plain = [row.cost_month, *idle, row.cpu_month, row.memory_month]
    return (
        *(Cell(harmless(name or "")) for name in by_kind[by]),
        Cell(str(row.pods)),
        *(Cell(money(text, is_list_price=row.is_list_price)) for text in plain),
        Cell(money(row.freed_month, is_list_price=row.is_list_price), Tone.DIM),
        Cell(money(row.possible_month, is_list_price=row.is_list_price), Tone.GAIN),
        Cell(money(row.needed_month, is_list_price=row.is_list_price), Tone.NOTE),
    )


def sums_text(body: CostBody) -> str:
    """Return what all of it costs, and what sizing is worth."""
    total = body.total

    def monthly(text: str) -> str:
        return money(text, is_list_price=body.is_list_price)

    if total.nodes is None or total.cost_month is None or total.idle_month is None:
        words = "the namespaces seen" if body.scope is None else body.scope.words
        whole = f"{words}: {counted(total.pods, 'pod')} {monthly(total.pods_month)}"
    else:
        nodes, pods = f"{counted(total.nodes, 'node')} {monthly(total.cost_month)}", monthly(total.pods_month)
        whole = f"cluster: {nodes} = pods {pods} + idle {monthly(total.idle_month)}"
    return (
        f"{whole}; freed {monthly(total.freed_month)}, still possible {monthly(total.possible_month)}, "
        f"needed {monthly(total.needed_month)} (three figures: none is taken from another)"
    )


def _fit_lines(fit: FitBody, body: CostBody, page: Page) -> Iterator[Line]:
    tone = Tone.NOTE if fit.fault is not None else Tone.GAIN if fit.go else Tone.PLAIN
    yield from hanging((), harmless(fit_text(fit)), page, tone)
    if body.by != "node" or fit.fault is not None:
        return
    for stay in fit.stay[:_MOST_REASONS]:
        yield from hanging((Span(harmless(f"{stay.node} stays: "), Tone.DIM),), harmless(stay.reason), page, Tone.DIM)
    if len(fit.stay) > _MOST_REASONS:
        yield (Span(f"{len(fit.stay) - _MOST_REASONS} more stay; -o json has their reasons", Tone.DIM),)


def fit_text(fit: FitBody) -> str:
    """Return which nodes could go, or why that is not known."""
    if fit.fault is not None:
        return f"which nodes could go is not known: {fit.fault}"
    saves = f", {money(fit.saves_month, is_list_price=fit.is_list_price)} a month" if fit.go else ""
    named = f": {_some([node.node for node in fit.go])}" if fit.go else ""
    return (
        f"{fit.could_go} of {counted(fit.nodes, 'node')} could go if all pods requested what is recommended"
        f"{saves}{named}; the bill falls only when nodes go"
    )


def csv_text(body: CostBody) -> str:
    """Return one line per row, then what is idle and the whole cluster, or the pods that are seen of it.

    Money has six digits after the point.
    """
    head = [body.currency, Decimal(body.month_hours)]
    lines: list[list[object]] = [
        [
            "row",
            *head,
            *(row.namespace, row.kind, row.name, row.node, body.label, row.value, row.pods),
            *(_amount(text) for text in (row.cost_month, row.cpu_month, row.memory_month, row.idle_month)),
            *(_amount(text) for text in (row.freed_month, row.possible_month, row.needed_month)),
            *(row.pods_without_advice, str(row.is_list_price).lower(), row.price_source),
        ]
        for row in body.rows
    ]
    total, marked = body.total, str(body.is_list_price).lower()
    nothing = [None] * 6
    if total.idle_month is not None:
        lines.append(["idle", *head, *nothing, None, _amount(total.idle_month), *[None] * 7, marked, None])
    lines.append(
        [
            "pods" if total.cost_month is None else "total",
            *head,
            *nothing,
            total.pods,
            _amount(total.cost_month or total.pods_month),
            *(None, None, _amount(total.idle_month)),
            *(_amount(text) for text in (total.freed_month, total.possible_month, total.needed_month)),
            *(total.pods_without_advice, marked, None),
        ]
    )
    return csv_table(CSV_HEADER, lines)


def _amount(text: str | None) -> Decimal | None:
    """Return a number as CSV has it: plain digits, never an exponent."""
    return None if text is None else Decimal(text).quantize(_CSV_DIGITS)


def money(text: str, *, is_list_price: bool) -> str:
    """Write an exact amount for people, with the mark of a list price."""
    return month_text(Decimal(text)) + ("*" if is_list_price else "")


def _some(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
