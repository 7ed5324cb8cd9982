"""What all nodes decided and did, from the webhook: asked page by page, as a table, as JSON or as CSV."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from agent.cli.text.csv_text import csv_table
from agent.cli.text.figures import age_text
from agent.cli.text.spans import Glyphs, Line, Span, Tone, clip_line, harmless
from agent.cli.text.table import Cell, Column, render_table
from agent.cli.words.decisions import OUTCOME_TONES
from agent.core.numbers.amount_text import BYTES, MILLICORES, amount_text
from agent.core.resize.decision import Outcome

if TYPE_CHECKING:
    from agent.cli.client.webhook import WebhookReader
    from agent.webhook.queries.events import EventBody, EventsBody
    from agent.webhook.reports.bodies import ChangeBody

PAGE: Final = 500
CSV_HEADER: Final = (
    *("time", "node", "namespace", "kind", "workload", "pod", "action", "outcome", "reason", "detail"),
    *("changes", "seconds", "repeats", "by"),
)


def asked(client: WebhookReader, query: Mapping[str, str], most: int) -> EventsBody:
    """Ask for decisions, newest first, at most so many; ``next`` of the answer says whether there are more."""
    from agent.webhook.queries.events import EventsBody

    whole: EventsBody | None = None
    while True:
        held = 0 if whole is None else len(whole.events)
        more = {} if whole is None or whole.next is None else {"after": whole.next}
        page, _ = client.get("/v1/events", EventsBody, {**query, **more, "limit": str(min(PAGE, most - held))})
        if whole is None:
            whole = page
        else:
            whole.events.extend(page.events)
            whole.next = page.next
        if whole.next is None or len(whole.events) >= most:
            return whole


def notes_of(body: EventsBody) -> list[str]:
    """Return why decisions are not among these, though they may match; empty = they are all."""
    notes = ["there are more: --limit, --since"] if body.next is not None else []
    if body.dropped:
        notes.append(f"nodes had to drop {body.dropped} decisions before the webhook took them")
    return notes


def csv_text(body: EventsBody, *, now: float | None = None) -> str:
    """Return a line of names and a line per decision."""
    moment = time.time() if now is None else now
    return csv_table(
        CSV_HEADER,
        [
            (
                f"{datetime.fromtimestamp(moment - event.age_seconds, tz=UTC):%Y-%m-%dT%H:%M:%SZ}",
                *(event.node, event.namespace, event.kind, event.workload, event.pod),
                *(event.action, event.outcome, event.reason, event.detail),
                *(changes_text(event.changes, "->"), event.seconds, event.repeats, event.by),
            )
            for event in body.events
        ],
    )


def page_lines(body: EventsBody, *, width: int, glyphs: Glyphs, nothing: str) -> list[Line]:
    """Return the table; ``nothing`` stands where there are no decisions."""
    count = f"{len(body.events)} decisions of {harmless(body.scope.words)}, newest first"
    lines: list[Line] = [(Span("plimsoll events ", Tone.ACCENT), Span(count, Tone.DIM))]
    lines += [(Span("note ", Tone.NOTE), Span(note)) for note in notes_of(body)]
    lines.append(())
    if not body.events:
        return [*lines, (Span(nothing, Tone.NOTE),)]
    columns = [
        Column(key="age", title="AGE", min_width=6),
        Column(key="node", title="NODE", min_width=8, good_width=24, priority=40, is_text=True),
        Column(key="pod", title="POD", min_width=12, good_width=36, is_text=True),
        Column(key="what", title="WHAT", min_width=19, good_width=60, is_text=True),
        Column(key="outcome", title="OUTCOME", min_width=10, is_text=True),
        Column(key="by", title="BY", priority=30, is_text=True),
        Column(key="reason", title="REASON", min_width=12, good_width=32, priority=10, is_text=True),
        Column(key="detail", title="DETAIL", min_width=16, good_width=60, priority=20, is_text=True),
    ]
    table = render_table(
        columns, [_cells(event, glyphs) for event in body.events], width=width, glyphs=glyphs, marks=False
    )
    lines += [table.titles, *table.rows]
    return [clip_line(line, width, ellipsis=glyphs.ellipsis) for line in lines]


def changes_text(changes: Iterable[ChangeBody], becomes: str) -> str:
    """Return all changes: ``app CPU request 500m -> 250m; ...``; empty = there are none."""
    return "; ".join(
        f"{'pod' if change.container is None else change.container} {'CPU' if change.resource == 'cpu' else 'memory'}"
        f" {change.field} {_amount(change.before, change.resource)} {becomes} {_amount(change.after, change.resource)}"
        for change in changes
    )


def _amount(amount: int | None, resource: str) -> str:
    return "none" if amount is None else amount_text(amount, MILLICORES if resource == "cpu" else BYTES)


def _cells(event: EventBody, glyphs: Glyphs) -> list[Cell]:
    changes, action = harmless(changes_text(event.changes, glyphs.becomes)), event.action.replace("_", " ")
    what = changes if changes and event.action == "resize" else f"{action} {changes}".rstrip()
    tone = OUTCOME_TONES[Outcome(event.outcome)] if event.outcome in set(Outcome) else Tone.PLAIN
    pod = Cell("(node)", Tone.DIM) if event.pod is None else Cell(harmless(f"{event.namespace}/{event.pod}"))
    times = f" x{event.repeats}" if event.repeats > 1 else ""
    return [
        Cell(age_text(event.age_seconds)),
        Cell(harmless(event.node), Tone.DIM),
        pod,
        Cell(harmless(what)),
        Cell(harmless(event.outcome) + times, tone),
        Cell("" if event.by is None else harmless(event.by)),
        Cell("" if event.reason == event.outcome else harmless(event.reason)),
        Cell(harmless(event.detail), Tone.DIM),
    ]
