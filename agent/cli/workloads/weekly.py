"""A week of the cluster: what changed, what it freed, who is short, what failed, worst sizing. Face, pure.

Made of the webhook's answers. Markdown and HTML are written from the same sections, so both say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from html import escape
from typing import Final

import msgspec

from agent.cli.text.figures import age_text, bytes_text, counted, percent_text
from agent.cli.text.html_page import html_page
from agent.cli.text.markdown import plain_text, table_lines
from agent.cli.text.spans import harmless
from agent.cli.workloads.cluster_events import changes_text
from agent.cli.workloads.cost_view import fit_text, money, sums_text
from agent.cli.workloads.quality_view import cost_text, worst_first
from agent.core.history.minute.quality import PRICE, Against
from agent.core.resize.decision import Outcome
from agent.webhook.queries.cost_bodies import CostBody, CostRowBody
from agent.webhook.queries.events import EventBody, EventsBody
from agent.webhook.queries.ledger_bodies import ScopeBody
from agent.webhook.queries.standings import Severity
from agent.webhook.queries.summary import DaySumBody, NodeCountBody, StoppedBody, SummaryBody
from agent.webhook.queries.workload_bodies import RequestQualityBody, WorkloadLineBody
from agent.webhook.reports.bodies import Body, ChangeBody

DAYS: Final = 7
WEEK_SECONDS: Final = DAYS * 86_400
CHANGING: Final = "resize,revert,restore"
"""Actions that change what pods request."""
FAILED: Final = (Outcome.REJECTED, Outcome.ERROR, Outcome.INFEASIBLE, Outcome.REVERTED)
ORDERED: Final = "pause,resume,pin,unpin,restore"
"""Actions that people order."""
_SCHEMA: Final = 1
_MOST: Final = 20
"""Rows of a table: a report is read over a coffee."""
_MILLI: Final = 1000


class ChangedWorkloadBody(Body, kw_only=True):
    """A workload of which pods were resized."""

    namespace: str
    kind: str
    workload: str
    resizes: int
    pods: int
    changes: list[ChangeBody]
    """Of each amount: the first one before, and the newest after."""


class ToldBody(Body, kw_only=True):
    """Decisions of one kind, for one reason."""

    action: str
    outcome: str
    reason: str
    by: str | None
    """Who ordered it; null = nobody did."""
    count: int
    workloads: int
    newest_age_seconds: float
    detail: str
    """Of the newest."""


class WeeklyBody(Body, kw_only=True):
    """The whole report; of each list the first 20."""

    schema: int = _SCHEMA
    taken_unix_seconds: float
    days: int = DAYS
    scope: ScopeBody
    sentence: str
    stopped: list[StoppedBody]
    nodes: NodeCountBody | None
    """null = not the whole cluster is seen."""
    workloads: int
    resizes: int
    changed_workloads: int
    is_whole: bool
    """Whether all decisions of the week were looked at; else only the newest."""
    changed: list[ChangedWorkloadBody]
    """Most resizes first."""
    freed_by_day: list[DaySumBody]
    """Oldest first, as far as the ledger knows them."""
    short: int
    shortest: list[WorkloadLineBody]
    """Most kills first, then the longest above its requests."""
    failed: list[ToldBody]
    """Most often first."""
    ordered: list[ToldBody]
    worst: list[WorkloadLineBody]
    """The poorest sized first, against the requests that were in force."""
    cost: CostBody
    """With the rows of the workloads that could free most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the webhook said."""

    summary: SummaryBody
    changed: EventsBody
    failed: EventsBody
    ordered: EventsBody
    lines: Sequence[WorkloadLineBody]
    """All workloads, with their quality over seven days."""
    cost: CostBody
    """By workload."""


def weekly(answers: Answers, *, taken_unix_seconds: float) -> WeeklyBody:
    """Return the report."""
    summary = answers.summary
    newest_day = int(taken_unix_seconds // 86_400)
    changed = _changed(answers.changed.events)
    short = sorted((line for line in answers.lines if line.severity is Severity.SHORT), key=_shortest_first)
    possible = [row for row in answers.cost.rows if Decimal(row.possible_month) > 0]
    possible.sort(key=lambda row: (-Decimal(row.possible_month), row.key))
    return WeeklyBody(
        taken_unix_seconds=taken_unix_seconds,
        scope=summary.scope,
        sentence=summary.sentence,
        stopped=summary.stopped,
        nodes=summary.nodes,
        workloads=len(answers.lines),
        resizes=sum(workload.resizes for workload in changed),
        changed_workloads=len(changed),
        is_whole=all(page.next is None for page in (answers.changed, answers.failed, answers.ordered)),
        changed=changed[:_MOST],
        freed_by_day=[day for day in summary.days if day.unix_day > newest_day - DAYS],
        short=len(short),
        shortest=short[:_MOST],
        failed=_event_bodies(answers.failed.events)[:_MOST],
        ordered=_event_bodies(answers.ordered.events)[:_MOST],
        worst=worst_first(answers.lines, Against.APPLIED)[:_MOST],
        cost=msgspec.structs.replace(answers.cost, rows=possible[:_MOST], next=None),
    )


def _shortest_first(line: WorkloadLineBody) -> tuple[float, float, str, str]:
    hour = line.hour
    minutes = 0.0 if hour is None else max(hour.cpu.short_minutes or 0.0, hour.memory.short_minutes or 0.0)
    return -(line.kills_week or 0), -minutes, line.namespace, line.name


def _changed(events: Iterable[EventBody]) -> list[ChangedWorkloadBody]:
    """Return workloads by how often their pods were resized; events come newest first."""
    bodies: dict[tuple[str, str, str], ChangedWorkloadBody] = {}
    pods: dict[tuple[str, str, str], set[str | None]] = {}
    amounts: dict[tuple[str, str, str], dict[tuple[str | None, str, str], ChangeBody]] = {}
    for event in events:
        if event.namespace is None or event.kind is None or event.workload is None:
            continue
        key = event.namespace, event.kind, event.workload
        body = bodies.setdefault(
            key,
            ChangedWorkloadBody(namespace=key[0], kind=key[1], workload=key[2], resizes=0, pods=0, changes=[]),
        )
        body.resizes += event.repeats
        pods.setdefault(key, set()).add(event.pod_uid)
        for change in event.changes:
            newer = amounts.setdefault(key, {}).get((change.container, change.resource, change.field), change)
            amounts[key][change.container, change.resource, change.field] = msgspec.structs.replace(
                newer, before=change.before
            )
    for key, body in bodies.items():
        body.pods = len(pods[key])
        body.changes = list(amounts.get(key, {}).values())
    return sorted(bodies.values(), key=lambda entry: (-entry.resizes, entry.namespace, entry.kind, entry.workload))


def _event_bodies(events: Iterable[EventBody]) -> list[ToldBody]:
    """Return decisions by what they were and why; events come newest first."""
    bodies: dict[tuple[str, str, str, str | None], ToldBody] = {}
    workloads: dict[tuple[str, str, str, str | None], set[tuple[str | None, ...]]] = {}
    for event in events:
        key = event.action, event.outcome, event.reason, event.by
        body = bodies.setdefault(
            key,
            ToldBody(
                action=event.action,
                outcome=event.outcome,
                reason=event.reason,
                by=event.by,
                count=0,
                workloads=0,
                newest_age_seconds=event.age_seconds,
                detail=event.detail,
            ),
        )
        body.count += event.repeats
        if event.workload is not None:
            workloads.setdefault(key, set()).add((event.namespace, event.kind, event.workload))
    for key, body in bodies.items():
        body.workloads = len(workloads.get(key, ()))
    return sorted(bodies.values(), key=lambda entry: (-entry.count, entry.action, entry.outcome, entry.reason))


# In words


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """One part: what is said, and a table."""

    title: str
    notes: tuple[str, ...]
    columns: tuple[tuple[str, bool], ...] = ()
    """Titles, and whether a column is of words."""
    rows: tuple[tuple[str, ...], ...] = ()


def _sections(body: WeeklyBody) -> Iterator[_Section]:
    yield _Section(title=_title(body), notes=tuple(_overview(body)))
    yield _changed_section(body)
    yield _freed_section(body)
    yield _short_section(body)
    yield _failed_section(body)
    yield _worst_section(body)


def _title(body: WeeklyBody) -> str:
    return f"Plimsoll: the week to {datetime.fromtimestamp(body.taken_unix_seconds, tz=UTC):%Y-%m-%d %H:%M} UTC"


def _overview(body: WeeklyBody) -> Iterator[str]:
    yield f"Of {body.scope.words}: {body.sentence}."
    if body.nodes is not None:
        yield f"{body.nodes.reporting} of {counted(body.nodes.count, 'node')} report."
    for stop in body.stopped:
        yield f"Stopped ({stop.what}): {stop.detail}" + ("" if stop.command is None else f"; {stop.command}")
    if not body.is_whole:
        yield "There were more decisions than are looked at: counts are of the newest ones."


def _changed_section(body: WeeklyBody) -> _Section:
    resizes, workloads = counted(body.resizes, "resize"), counted(body.changed_workloads, "workload")
    rows = [
        (
            f"{workload.namespace}/{workload.kind}/{workload.workload}",
            str(workload.resizes),
            str(workload.pods),
            changes_text(workload.changes, "->"),
        )
        for workload in body.changed
    ]
    return _Section(
        title="What changed",
        notes=(f"{resizes} in place, of {workloads}." + _first(len(rows), body.changed_workloads),)
        if rows
        else ("No pod was resized.",),
        columns=(("Workload", True), ("Resizes", False), ("Pods", False), ("From the first to the newest", True)),
        rows=tuple(rows),
    )


def _freed_section(body: WeeklyBody) -> _Section:
    cost = body.cost
    notes = [
        "Freed is what was written above what is requested; these cores and GiB are free for other pods. "
        "Means of each UTC day; the newest may not be over.",
        f"{cost.currency} a month of {cost.month_hours} hours, as pods stand now: {sums_text(cost)}.",
    ]
    if cost.list_price_note:
        notes.append(f"* = {cost.list_price_note}")
    if cost.fit is not None:
        notes.append(f"{fit_text(cost.fit)}.")
    if not body.freed_by_day:
        notes.append("The ledger knows no day yet.")
    rows = tuple(
        (
            f"{datetime.fromtimestamp(day.unix_day * 86_400, tz=UTC):%a %Y-%m-%d}",
            *(_cores(amount) for amount in (day.sum.freed_cpu_millicores, day.sum.possible_cpu_millicores)),
            _cores(day.sum.needed_cpu_millicores),
            *(bytes_text(amount) for amount in (day.sum.freed_memory_bytes, day.sum.possible_memory_bytes)),
            bytes_text(day.sum.needed_memory_bytes),
            str(day.sum.kills),
        )
        for day in body.freed_by_day
    )
    return _Section(
        title="What it freed",
        notes=tuple(notes),
        columns=(
            ("Day", True),
            *((f"CPU {what}, cores", False) for what in ("freed", "still possible", "needed")),
            *((f"Memory {what}", False) for what in ("freed", "still possible", "needed")),
            ("Kills", False),
        ),
        rows=rows,
    )


def _short_section(body: WeeklyBody) -> _Section:
    rows = tuple(
        (
            _name(line),
            line.severity_words,
            "not known" if line.kills_week is None else str(line.kills_week),
            line.mode,
            "none" if line.last_action is None else _action(line.last_action),
        )
        for line in body.shortest
    )
    total = f"{body.short} of {counted(body.workloads, 'workload')} " + ("is" if body.short == 1 else "are")
    return _Section(
        title="Who is short",
        notes=(f"{total} short in the newest whole hour." + _first(len(rows), body.short),),
        columns=(("Workload", True), ("Why", True), ("Kills", False), ("Mode", True), ("Last done", True)),
        rows=rows,
    )


def _failed_section(body: WeeklyBody) -> _Section:
    rows = tuple(
        (
            f"{decision.action} {decision.outcome}".replace("_", " "),
            decision.by or "",
            decision.reason,
            str(decision.count),
            str(decision.workloads),
            f"{age_text(decision.newest_age_seconds)} ago",
            decision.detail,
        )
        for decision in (*body.failed, *body.ordered)
    )
    notes = [
        "Nothing failed." if not body.failed else "",
        "Nobody paused, pinned or restored anything." if not body.ordered else "What people ordered is below it.",
    ]
    return _Section(
        title="What failed, and what people ordered",
        notes=tuple(note for note in notes if note),
        columns=(
            *(("What", True), ("By", True), ("Why", True), ("Times", False), ("Workloads", False)),
            *(("Newest", False), ("Detail of the newest", True)),
        ),
        rows=rows,
    )


def _worst_section(body: WeeklyBody) -> _Section:
    costs = {row.key: row for row in body.cost.rows}
    named = {_name(line): line for line in body.worst}
    rows = []
    for key in dict.fromkeys((*costs, *named)):
        row, line = costs.get(key), named.get(key)
        rows.append(
            (
                key,
                *_money_cells(row),
                *(("", "", "", "") if line is None else _quality_cells(line)),
            )
        )
    notes = [
        f"Those that could free most ({body.cost.currency} a month), then the poorest sized of seven days: sizing "
        f"costs excess + {PRICE:g} x missing of what was used, the larger of CPU and memory."
    ]
    if not body.worst:
        notes.append("No node told yet how good sizing was.")
    if not rows:
        notes.append("Nothing could be freed.")
    return _Section(
        title="Worst sizing",
        notes=tuple(notes),
        columns=(
            *(("Workload", True), ("Costs", False), ("Could free", False), ("Needs", False), ("Sizing cost", False)),
            *(("Minutes above, CPU", False), ("CPU excess", False), ("Memory excess", False)),
        ),
        rows=tuple(rows),
    )


def _money_cells(row: CostRowBody | None) -> tuple[str, str, str]:
    if row is None:
        return "", "", ""
    cost, possible, needed = (
        money(text, is_list_price=row.is_list_price) for text in (row.cost_month, row.possible_month, row.needed_month)
    )
    return cost, possible, needed


def _quality_cells(line: WorkloadLineBody) -> tuple[str, str, str, str]:
    quality = line.quality
    if quality is None:
        return "", "", "", ""
    cpu: RequestQualityBody = quality.cpu.applied
    return (
        cost_text(quality, Against.APPLIED),
        percent_text(cpu.risk_ratio),
        percent_text(cpu.slack_ratio),
        percent_text(quality.memory.applied.slack_ratio),
    )


def _name(line: WorkloadLineBody) -> str:
    return f"{line.namespace}/{line.kind}/{line.name}"


def _action(event: EventBody) -> str:
    what = changes_text(event.changes, "->") or event.action.replace("_", " ")
    return f"{what} ({event.outcome}, {age_text(event.age_seconds)} ago)"


def _cores(millicores: int) -> str:
    return f"{millicores / _MILLI:.1f}"


def _first(shown: int, count: int) -> str:
    return "" if shown == count else f" The first {shown}:"


# As text


def json_text(body: WeeklyBody) -> str:
    """Return all of it as JSON."""
    return msgspec.json.format(msgspec.json.encode(body)).decode() + "\n"


def markdown(body: WeeklyBody) -> str:
    """Return it as Markdown; whatever names hold is no markup."""
    lines: list[str] = []
    for number, section in enumerate(_sections(body)):
        lines += [f"{'##' if number else '#'} {section.title}", ""]
        for note in section.notes:
            lines += [plain_text(note), ""]
        if section.rows:
            lines += [*table_lines([title for title, _ in section.columns], section.rows), ""]
    return "\n".join(lines)


# Colours are those of the page of recommendations.
_STYLE: Final = """
:root{--back:#fff;--text:#1c2530;--dim:#5d6b7a;--rule:#dfe4ea}
@media(prefers-color-scheme:dark){:root{--back:#14191f;--text:#e4e9ee;--dim:#93a1b0;--rule:#2d3742}}
body{background:var(--back);color:var(--text);font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:1200px;
padding:0 1.5rem}
h1{font-size:1.5rem;margin:0 0 .5rem}h2{font-size:1.15rem;margin:1.8rem 0 .3rem}
p{margin:.2rem 0;color:var(--dim);overflow-wrap:anywhere}h1~p:first-of-type{color:var(--text);font-size:1.05rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;margin:.6rem 0 0;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid var(--rule);vertical-align:top;white-space:nowrap}
th{font-weight:600;color:var(--dim);font-size:.86rem}th.words,td.words{text-align:left}
td.words{white-space:normal;overflow-wrap:anywhere;min-width:8rem}
"""


def html(body: WeeklyBody) -> str:
    """Return it as one HTML page that needs nothing from elsewhere and has no script."""
    parts: list[str] = []
    for number, section in enumerate(_sections(body)):
        head = "h2" if number else "h1"
        parts.append(f"<{head}>{_escaped(section.title)}</{head}>")
        parts += [f"<p>{_escaped(note)}</p>" for note in section.notes]
        if section.rows:
            parts += _html_table(section)
    return html_page(_title(body), _STYLE, parts)


def _html_table(section: _Section) -> Iterator[str]:
    classes = [" class=words" if is_words else "" for _, is_words in section.columns]
    titles = (f"<th{kind}>{_escaped(title)}</th>" for kind, (title, _) in zip(classes, section.columns, strict=True))
    yield f'<div class="wide"><table><thead><tr>{"".join(titles)}</tr></thead><tbody>'
    for row in section.rows:
        cells = (f"<td{kind}>{_escaped(cell)}</td>" for kind, cell in zip(classes, row, strict=True))
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"


def _escaped(text: str) -> str:
    return escape(harmless(" ".join(text.split())))
