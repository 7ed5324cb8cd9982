"""The report of a simulation as one HTML page that needs nothing from elsewhere. Face. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from itertools import cycle
from typing import TYPE_CHECKING, Final

import numpy as np

from agent.cli.simulate.text import (
    JUDGED,
    SimulatedTrace,
    amount_text,
    judged_cells,
    ratio_text,
    span_text,
    told_figures,
)
from agent.cli.text.figures import bytes_text, millicores_text, percent_text
from agent.cli.text.html_page import html_page
from agent.cli.text.spans import harmless
from agent.cli.text.svg_chart import (
    ChartBar,
    ChartPoint,
    Curve,
    area_path,
    bars,
    chart,
    points,
    time_axis,
    value_axis,
)
from agent.core.orders.policy_options import PolicyName
from agent.core.recommender.simulation.figures import (
    PolicyTotal,
    ResourceFigures,
    SimulatedOutcome,
    SimulatedResourceTotal,
    total,
    undominated,
)

if TYPE_CHECKING:
    from agent.core.numbers.arrays import Bools
    from agent.core.recommender.simulation.trace import Floats32

_COLOURS: Final = (
    ("#0072b2", "#5ab4e6"),
    ("#c25100", "#f28c4b"),
    ("#00805c", "#3fc79a"),
    ("#a8457f", "#e58fc0"),
    ("#7a6000", "#d9bd4e"),
    ("#5b4bb5", "#a99cf0"),
)
"""Of policies in their order, on white and on black."""
_POLICY_COLOURS: Final = tuple(zip(PolicyName, cycle(_COLOURS), strict=False))
_STYLE: Final = (
    """
:root{--back:#fff;--text:#1c2530;--dim:#5d6b7a;--rule:#dfe4ea;--usage:#aab6c3;--missing:#c1121f;--note:#c25100;
--best:#e8f3ec;"""
    + "".join(f"--{name}:{light};" for name, (light, _) in _POLICY_COLOURS)
    + """}
@media(prefers-color-scheme:dark){:root{--back:#14191f;--text:#e4e9ee;--dim:#93a1b0;--rule:#2d3742;--usage:#566473;
--missing:#ff6b6b;--note:#f28c4b;--best:#1d3328;"""
    + "".join(f"--{name}:{dark};" for name, (_, dark) in _POLICY_COLOURS)
    + """}}
body{background:var(--back);color:var(--text);font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:1640px;
padding:0 1.5rem}
h1{font-size:1.5rem;margin:0 0 .3rem}h2{font-size:1.2rem;margin:2.5rem 0 .3rem;overflow-wrap:anywhere}
h3{font-size:1rem;margin:1.6rem 0 .3rem;overflow-wrap:anywhere}
p{margin:.2rem 0;max-width:110ch;color:var(--dim)}p.note{color:var(--note)}
table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}
th,td{padding:.18rem .9rem;text-align:right;border-bottom:1px solid var(--rule)}
th:first-child,td:first-child{text-align:left;padding-left:0}tr.group td{font-weight:600;padding-top:.8rem}
td.best{background:var(--best);font-weight:600}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(340px,1fr));gap:.8rem 1.2rem}
figure{margin:0}figcaption{font-size:.86rem;color:var(--dim)}figcaption b{color:var(--text)}
svg{width:100%;height:auto;display:block}svg.bars{max-width:760px}
.grid{stroke:var(--rule)}.mark,.label{fill:var(--dim);font-size:11px}.label{fill:var(--text)}
.usage{fill:var(--usage)}.slack{opacity:.55}.missing{fill:var(--missing)}
path.line{fill:none;stroke-width:1.6;stroke-linejoin:round}path.front{fill:none;stroke:var(--dim);stroke-dasharray:3 3}
path.limit{stroke-dasharray:4 3;stroke-width:1.1}
"""
    + "".join(
        f"path.{name}{{stroke:var(--{name})}}rect.{name},circle.{name},.key.{name}{{fill:var(--{name})}}"
        for name in PolicyName
    )
)


def page(simulated: Sequence[SimulatedTrace], alls: Sequence[PolicyTotal], rules: str) -> str:
    """Return the page.

    Args:
        simulated: Every trace with its outcomes.
        alls: Every policy in sum over the traces.
        rules: How the agent acted, in a sentence.
    """
    body = ["<h1>Plimsoll: policies compared</h1>", f"<p>Rules: {escape(rules)}.</p>"]
    body.append(
        "<p>Slack is what was requested and not used; missing is what was used above the request. Minutes before a "
        "policy's first answer are unsized and belong to neither. In bars, grey is used, the policy's colour is slack, "
        "red is missing. Slack and deficit of used are shares of what was used, risk is the share of the time above "
        "the request; the node is all containers of a trace in sum. Plots show the largest value of each stretch: grey "
        "is usage, the line the request, dashes the memory limit.</p>"
    )
    if len(simulated) > 1:
        body += [f"<h2>All {len(simulated)} traces</h2>", *_comparison(alls)]
    for index, trace in enumerate(simulated):
        body.append(f"<h2>{escape(harmless(trace.path))}</h2><p>{escape(span_text(trace))}</p>")
        body += [f'<p class="note">{escape(note)}</p>' for note in trace.notes]
        body += _comparison([total((outcome,)) for outcome in trace.outcomes])
        body += _series(trace.outcomes)
        body += _containers(trace, f"t{index}")
    return html_page("Plimsoll: policies compared", _STYLE, body)


def _comparison(totals: Sequence[PolicyTotal]) -> list[str]:
    lines = ["<table><tr><th></th>" + "".join(f"<th>{escape(policy.policy)}</th>" for policy in totals) + "</tr>"]
    for title, group in told_figures(totals).items():
        lines.append(f'<tr class="group"><td colspan="{len(totals) + 1}">{escape(title)}</td></tr>')
        for figure in group:
            best = figure.best(totals)
            cells = "".join(
                f"<td{' class=best' if index in best else ''}>{escape(figure.text(policy))}</td>"
                for index, policy in enumerate(totals)
            )
            lines.append(f"<tr><td>{escape(figure.title)}</td>{cells}</tr>")
    lines.append("</table>")
    lines += _pareto(totals)
    for title, unit, part in _RESOURCES:
        if any(part(policy).known_minutes for policy in totals):
            lines += [
                f"<h3>{title}: used, slack and missing</h3>",
                bars(title, [_bar(policy, unit, part) for policy in totals]),
            ]
    return lines


def _pareto(totals: Sequence[PolicyTotal]) -> list[str]:
    """Draw slack against deficit of CPU: further left and further down is better."""
    front = undominated(totals)
    placed = [
        ChartPoint(
            label=f"{policy.policy} {ratio_text(slack)} / {ratio_text(deficit)}",
            x=slack,
            y=deficit,
            style=policy.policy,
            is_front=place in front,
        )
        for place, policy in enumerate(totals)
        if (slack := policy.cpu.slack_of_used_ratio) is not None and (deficit := policy.cpu.deficit_ratio) is not None
    ]
    if len(placed) < 2:
        return []
    title = "CPU: slack against deficit"
    x = value_axis(max(point.x for point in placed), ratio_text)
    y = value_axis(max(point.y for point in placed), ratio_text)
    return [
        f"<h3>{title}</h3><p>Further left is less idle, further down is less short; no other policy is both for those "
        "that the dashed line joins.</p>",
        points(title, placed, x, y, ("slack of used", "deficit of used")),
    ]


def _series(outcomes: Sequence[SimulatedOutcome]) -> list[str]:
    """Return a table of each container's four figures under each policy: of those that used most."""
    lines: list[str] = []
    for title, part in _FIGURES:
        figures = [part(outcome) for outcome in outcomes]
        used = np.max([figure.used_amount_hours for figure in figures], axis=0)
        known = np.flatnonzero(used > 0)
        if not known.size:
            continue
        chosen = known[np.argsort(-used[known], kind="stable")][:_MOST_SERIES].tolist()
        left = f"; the {_MOST_SERIES} of {known.size:,} that used most" if known.size > len(chosen) else ""
        lines.append(f"<h3>{title} of each container: {' / '.join(JUDGED)}{left}</h3>")
        lines.append("<table><tr><th></th>" + "".join(f"<th>{escape(each.policy)}</th>" for each in outcomes) + "</tr>")
        for row in chosen:
            cells = "".join(f"<td>{escape(' / '.join(judged_cells(figure.of(row))))}</td>" for figure in figures)
            lines.append(f"<tr><td>{escape(harmless(outcomes[0].containers[row]))}</td>{cells}</tr>")
        lines.append("</table>")
    return lines


_MOST_SERIES: Final = 200
_FIGURES: Final[tuple[tuple[str, Callable[[SimulatedOutcome], ResourceFigures]], ...]] = (
    ("CPU", lambda outcome: outcome.cpu),
    ("Memory", lambda outcome: outcome.memory),
)
_RESOURCES: Final[tuple[tuple[str, str, Callable[[PolicyTotal], SimulatedResourceTotal]], ...]] = (
    ("CPU", "core-hours", lambda total: total.cpu),
    ("Memory", "GiB-hours", lambda total: total.memory),
)


def _bar(policy: PolicyTotal, unit: str, part: Callable[[PolicyTotal], SimulatedResourceTotal]) -> ChartBar:
    resource = part(policy)
    return ChartBar(
        label=policy.policy,
        parts=(
            (resource.used_amount_hours - resource.missing_amount_hours, "usage"),
            (resource.unused_amount_hours, f"slack {policy.policy}"),
            (resource.missing_amount_hours, "missing"),
        ),
        text=f"slack {amount_text(resource.unused_amount_hours)} {unit} ({percent_text(resource.slack_ratio)}), "
        f"missing {amount_text(resource.missing_amount_hours)}",
    )


# Containers


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resource:
    """How one resource is told of."""

    title: str
    unit: str
    value_text: Callable[[float], str]
    is_binary: bool
    figures: Callable[[SimulatedOutcome], ResourceFigures]
    request: Callable[[SimulatedOutcome], Floats32]
    limit: Callable[[SimulatedOutcome], Floats32 | None]
    usage: Floats32
    has_usage: Bools


def _containers(trace: SimulatedTrace, mark: str) -> list[str]:
    cpu = _Resource(
        title="CPU",
        unit="core-hours",
        value_text=millicores_text,
        is_binary=False,
        figures=lambda outcome: outcome.cpu,
        request=lambda outcome: outcome.course.cpu_request_millicores,
        limit=lambda _: None,
        usage=trace.usage.cpu_millicores,
        has_usage=trace.usage.has_cpu,
    )
    memory = _Resource(
        title="memory",
        unit="GiB-hours",
        value_text=bytes_text,
        is_binary=True,
        figures=lambda outcome: outcome.memory,
        request=lambda outcome: outcome.course.memory_request_bytes,
        limit=lambda outcome: outcome.course.memory_limit_bytes,
        usage=trace.usage.memory_bytes,
        has_usage=trace.usage.has_memory,
    )
    lines: list[str] = []
    for resource in (cpu, memory):
        for row, reason in _chosen(trace.outcomes, resource).items():
            name = escape(harmless(trace.outcomes[0].containers[row]))
            lines.append(f"<h3>{name}: {resource.title}, {reason}</h3>")
            lines += _charts(trace.outcomes, resource, row, f"{mark}{resource.title}{row}")
    return lines


def _chosen(outcomes: Sequence[SimulatedOutcome], resource: _Resource) -> dict[int, str]:
    """Choose containers to look at: the worst over all policies, and a typical one."""
    unused = np.sum([resource.figures(outcome).unused_amount_hours for outcome in outcomes], axis=0)
    missing = np.sum([resource.figures(outcome).missing_amount_hours for outcome in outcomes], axis=0)
    known = np.flatnonzero(unused + missing > 0)
    if not known.size:
        return {}
    chosen = {int(unused.argmax()): "the most slack"}
    if missing.any():
        row = int(missing.argmax())
        chosen[row] = f"{chosen[row]} and the most missing" if row in chosen else "the most missing"
    typical = int(known[np.argsort(unused[known], kind="stable")[known.size // 2]])
    chosen.setdefault(typical, "a typical one: median slack")
    return chosen


def _charts(outcomes: Sequence[SimulatedOutcome], resource: _Resource, row: int, mark: str) -> list[str]:
    first = outcomes[0]
    stretch = float(first.course.stretch_minutes)
    usage, has_usage = resource.usage[:, row], resource.has_usage[:, row]
    # A limit may be far above all else: it shall not press the rest flat.
    largest = max(float(usage.max()), *(float(resource.request(each)[:, row].max()) for each in outcomes))
    x = time_axis(first.start_unix_minute, first.minutes, _moment(first.minutes))
    y = value_axis(largest, resource.value_text, binary=resource.is_binary)
    area = f'<path id="{mark}" class="usage" d="{area_path(usage, has_usage, stretch, x, y)}"/>'
    lines = ['<div class="charts">']
    for outcome in outcomes:
        curves = [Curve(values=resource.request(outcome)[:, row], style=f"line {outcome.policy}")]
        limit = resource.limit(outcome)
        if limit is not None:
            shown = limit[:, row] * (limit[:, row] <= y.end) * (limit[:, row] != resource.request(outcome)[:, row])
            curves.append(Curve(values=shown, style=f"line limit {outcome.policy}"))
        title = f"{outcome.policy}: {resource.title} usage and request of {harmless(outcome.containers[row])}"
        lines.append(
            f"<figure>{chart(title, area, curves, stretch, x, y)}"
            f"<figcaption>{_caption(outcome, resource, row)}</figcaption></figure>"
        )
        area = f'<use href="#{mark}"/>'
    lines.append("</div>")
    return lines


def _caption(outcome: SimulatedOutcome, resource: _Resource, row: int) -> str:
    figures = resource.figures(outcome).of(row)
    return (
        f"<b>{escape(outcome.policy)}</b>: slack {amount_text(figures.unused_amount_hours)} {resource.unit} "
        f"({percent_text(figures.slack_ratio)}), under-requested {figures.under_minutes:,} min, "
        f"{figures.resizes:,} resizes"
    )


def _moment(minutes: int) -> Callable[[int], str]:
    form = "%H:%M" if minutes <= 1440 else "%d %b" if minutes > 4 * 1440 else "%d %b %H:%M"
    return lambda unix_minute: datetime.fromtimestamp(unix_minute * 60, UTC).strftime(form)
