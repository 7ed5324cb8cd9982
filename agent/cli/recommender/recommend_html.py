"""Recommendations as one HTML page that needs nothing from elsewhere. Face, pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from agent.cli.recommender.recommend_view import NOTHING, by_namespace, origin_text, withheld_counts
from agent.cli.text.figures import ABSENT, age_text, counted
from agent.cli.text.html_page import html_page
from agent.cli.text.spans import UNICODE, harmless
from agent.cli.words.advice import (
    CPU,
    MEMORY,
    SEVERITY_TEXTS,
    WITHHELD_WORDS,
    AdviceSide,
    change_text,
    limit_text,
    reason,
    severity_sign,
    worst,
)
from agent.cli.words.units import unit_name
from agent.core.recommender.recommendation import Recommendation, Recommendations, RequestSeverity
from agent.core.recommender.totals import ResourceTotal, Total, totals

# Colours are those of the simulation's report; what is short is never told by colour alone.
_STYLE: Final = """
:root{--back:#fff;--text:#1c2530;--dim:#5d6b7a;--rule:#dfe4ea;--card:#f5f7f9;--short:#c1121f;--some:#9a5b00;
--gain:#00704f;--bar:#aab6c3}
@media(prefers-color-scheme:dark){:root{--back:#14191f;--text:#e4e9ee;--dim:#93a1b0;--rule:#2d3742;--card:#1b222a;
--short:#ff6b6b;--some:#f2b45c;--gain:#3fc79a;--bar:#566473}}
body{background:var(--back);color:var(--text);font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:1640px;
padding:0 1.5rem}
h1{font-size:1.5rem;margin:0 0 .3rem;overflow-wrap:anywhere}
p{margin:.2rem 0;color:var(--dim)}p.note{color:var(--some)}
.cards{display:flex;flex-wrap:wrap;gap:1rem;margin:1.2rem 0}
.card{background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:.7rem 1.1rem;min-width:15rem}
.card b{font-size:1.25rem;font-variant-numeric:tabular-nums}.card b.small{font-size:1rem;font-weight:400}
.card span{color:var(--dim)}
table{border-collapse:collapse;margin:.4rem 0 1rem;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.22rem .5rem;text-align:right;border-bottom:1px solid var(--rule);vertical-align:top;white-space:nowrap}
th{font-weight:600;color:var(--dim);font-size:.86rem}th.left,td.left{text-align:left}
th.group{font-size:1.15rem;color:var(--text);padding-top:1.6rem}th.group small{font-weight:400;color:var(--dim)}
td.name{white-space:normal;overflow-wrap:anywhere;min-width:13rem}td.why{white-space:normal;min-width:15rem}
td.name small,td.why,td.dim,td.data{color:var(--dim)}td small{display:block;font-size:.84rem}
tr.sides td:not([rowspan]){border-bottom:0;padding-bottom:0}
.badge{display:inline-block;min-width:7.8rem;font-size:.86rem}
.very_short{color:var(--short);font-weight:700}.short,.unset{color:var(--some)}
.saving,.large_saving{color:var(--gain)}.unknown,.dim{color:var(--dim)}
.bar{display:inline-block;width:4rem;height:.55rem;border:1px solid var(--rule);border-radius:3px;position:relative;
overflow:hidden;margin-left:.5rem}
.bar i{position:absolute;inset:0 auto 0 0;background:var(--bar)}
.bar u{position:absolute;top:0;bottom:0;width:2px;margin-left:-1px;background:currentColor}
@media(max-width:900px){table{display:block;overflow-x:auto}}
"""


def page(node: Recommendations) -> str:
    """Return the page of recommendations that ``recommend_view.ordered`` put in order."""
    title = f"{harmless(node.node)}: what its containers should request"
    sums = totals(node.items)
    body = [
        f"<h1>{escape(title)}</h1>",
        f"<p>Policy <b>{escape(harmless(node.policy))}</b>, {escape(origin_text(node))}. Recommended after "
        f"{age_text(node.min_span_seconds)} of readings, from readings no older than "
        f"{age_text(node.max_age_seconds)}.</p>",
        *(f'<p class="note">{escape(harmless(note))}</p>' for note in node.notes),
        *(_cards(sums.node) if node.items else [f"<p>{NOTHING}</p>"]),
    ]
    body += _table(node, sums.namespaces) if node.items else []
    if node.items:
        body.append(
            "<p>Bars: grey is the request of now, the line what it should be. What may fall is free for others; "
            "what to add and what to free are never set off against each other.</p>"
        )
    return html_page(title, _STYLE, body)


# Totals


def _cards(total: Total) -> list[str]:
    cards = [
        (f"{side.title[0].upper()}{side.title[1:]} {what}", side.text(amount), tone if amount else "dim")
        for side, sums in _sides(total)
        if sum(sums.withheld.values()) < total.containers
        for what, amount, tone in (("to add", sums.to_add, "short"), ("to free", sums.to_free, "saving"))
    ]
    cards.append(("Containers", str(total.containers), "all"))
    cards.append(("Withheld", withheld_counts(total), "small dim"))
    texts = (
        f'<div class="card"><span>{escape(title)}</span><br><b class="{tone}">{escape(text)}</b></div>'
        for title, text, tone in cards
    )
    return ['<div class="cards">', *texts, "</div>"]


def _total_text(total: Total) -> str:
    texts = [
        f"{side.title} {side.text(sums.current)} requested, "
        f"add {side.text(sums.to_add)}, free {side.text(sums.to_free)}"
        for side, sums in _sides(total)
        if sum(sums.withheld.values()) < total.containers
    ]
    return "; ".join([*texts, f"withheld: {withheld_counts(total)}"])


def _sides(total: Total) -> tuple[tuple[AdviceSide, ResourceTotal], ...]:
    return (CPU, total.cpu_millicores), (MEMORY, total.memory_bytes)


# Containers

_TITLES: Final = (
    ("Severity", True),
    ("Container", True),
    ("Resource", True),
    ("Request", False),
    ("Should", False),
    ("", False),
    ("Change", False),
    ("Limit", False),
    ("Why", True),
    ("Readings", True),
)
"""And whether the column is of words."""


def _table(node: Recommendations, namespaces: Sequence[Total]) -> list[str]:
    by_name = {namespace.namespace: namespace for namespace in namespaces}
    heads = "".join(f"<th{' class=left' if is_left else ''}>{title}</th>" for title, is_left in _TITLES)
    lines = [f"<table><thead><tr>{heads}</tr></thead>"]
    for name, items in by_namespace(node.items):
        total = by_name[items[0].identity.namespace]
        about = f"{counted(len(items), 'container')}; {_total_text(total)}"
        lines.append(
            f'<tbody><tr><th class="left group" colspan="{len(_TITLES)}">{escape(name)}'
            f"<small><br>{escape(about)}</small></th></tr>"
        )
        lines += [row for item in items for row in _rows(node, item)]
        lines.append("</tbody>")
    return [*lines, "</table>"]


def _rows(node: Recommendations, item: Recommendation) -> list[str]:
    """Return two lines: CPU with who it is, then memory."""
    severity = worst(item)
    badge = f'<span class="badge {severity}">{_severity_text(severity)}</span>'
    who = f'<td class="left" rowspan="2">{badge}</td><td class="left name" rowspan="2">{_name(item)}</td>'
    basis = item.basis
    cpu = f"{basis.cpu_readings} in {age_text(basis.cpu_span_seconds)}"
    memory = f"{basis.memory_readings} in {age_text(basis.memory_span_seconds)}"
    return [
        f'<tr class="sides">{who}{_cells(CPU, node, item)}<td class="left data">{cpu}</td></tr>',
        f'<tr>{_cells(MEMORY, node, item)}<td class="left data">{memory}</td></tr>',
    ]


def _severity_text(severity: RequestSeverity) -> str:
    return f"{escape(severity_sign(severity, UNICODE))} {escape(SEVERITY_TEXTS[severity])}"


def _name(item: Recommendation) -> str:
    identity, workload = item.identity, item.workload
    pod = harmless(identity.pod or identity.pod_uid or "")
    name = f"{pod}/{unit_name(identity)}" if pod else unit_name(identity)
    owner = [] if workload is None else [f"{harmless(workload.kind)} {harmless(workload.name)}"]
    return f"{escape(name)}<small>{escape('; '.join([*owner, *_age_texts(item)]))}</small>"


def _age_texts(item: Recommendation) -> Iterator[str]:
    basis = item.basis
    yield f"history {age_text(basis.history_span_seconds)}" if basis.history_minutes else "no history yet"
    yield (
        f"newest {age_text(basis.sample_age_seconds)} old" if basis.sample_age_seconds is not None else "no reading yet"
    )
    if basis.oom_kills:
        yield f"{basis.oom_kills} out-of-memory kill{'s' if basis.oom_kills != 1 else ''}"


def _cells(side: AdviceSide, node: Recommendations, item: Recommendation) -> str:
    advice, now = side.advice(item), side.request(item)
    should = side.text(advice.request) if advice.withheld is None else WITHHELD_WORDS[advice.withheld]
    change = change_text(now, advice.request, side.text)
    return (
        f'<td class="left dim">{side.title}</td><td>{escape(side.text(now))}</td>'
        f'<td class="{advice.severity}">{escape(should)}</td><td class="{advice.severity}">{_bar(now, advice.request)}'
        f'</td><td class="{"dim" if change in ("keep", ABSENT) else advice.severity}">{escape(change)}</td>'
        f"<td>{escape(limit_text(side, item, UNICODE))}</td>"
        f'<td class="left why">{escape(harmless(reason(side, item, node)))}</td>'
    )


def _bar(now: int | None, should: int | None) -> str:
    largest = max(now or 0, should or 0)
    if should is None or not largest:
        return ""
    filled, line = 100 * (now or 0) / largest, 100 * should / largest
    return f'<span class="bar"><i style="width:{filled:.0f}%"></i><u style="left:{line:.0f}%"></u></span>'
