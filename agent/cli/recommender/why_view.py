"""The page of ``plimsoll why``: one container, its answer, everything that led to it, what would change it.

Face. Pure. What the answer rests on is drawn by ``why_figures``.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from agent.cli.recommender.why_actions import acted_lines
from agent.cli.recommender.why_figures import cpu_lines, data_lines, hour_lines, kill_lines, memory_lines
from agent.cli.recommender.why_quality import quality_lines
from agent.cli.text.chart import chart_lines, plots_of
from agent.cli.text.figures import ABSENT, age_text
from agent.cli.text.paragraphs import Page, flow, hanging
from agent.cli.text.spans import Glyphs, Line, Span, Tone, clip, clip_line, display_width, harmless, pad
from agent.cli.words.advice import CPU, MEMORY, SEVERITY_TEXTS, SEVERITY_TONES, SIDES, AdviceSide, change_text
from agent.core.numbers.amount_text import amount_text
from agent.core.recommender.policy import Step
from agent.core.recommender.recommendation import Advice, Withheld
from agent.core.recommender.runtime_advice import runtime_words
from agent.core.recommender.unit_names import called
from agent.core.resize.why import Why

_WITHHELD_WORDS: Final = {
    Withheld.NO_DATA: "no data",
    Withheld.TOO_YOUNG: "too young",
    Withheld.GAPS: "too many gaps",
    Withheld.NO_SIGNAL: "no signal",
    Withheld.STALE: "stale",
    Withheld.NOT_CONTROLLED: "left out by the settings",
}
_NAMES: Final = {CPU: "CPU", MEMORY: "Memory"}
"""Also what a sentence of ``Explanation.changes`` begins with."""
_WHAT_WIDTH: Final = 46
_VALUE_WIDTH: Final = 12


def page_lines(item: Why, page: Page, *, with_chart: bool) -> list[Line]:
    """Return the page of one container, with a chart of its usage at the end if asked for."""
    lines = [*_head(item, page), (), *_advice_lines(item, page)]
    for section in (
        data_lines(item, page),
        cpu_lines(item),
        memory_lines(item, page),
        hour_lines(item, page),
        kill_lines(item, page),
        quality_lines(item.quality, page),
        *(_step_lines(item, side, page) for side in SIDES),
        _runtime_lines(item, page),
        _hpa_lines(item, page),
        acted_lines(item, page),
        _change_lines(item, page),
        _note_lines(item, page),
        _chart(item, page) if with_chart else [],
    ):
        if section:
            lines += [(), *section]
    return [clip_line(line, page.width, ellipsis=page.glyphs.ellipsis) for line in lines]


def _head(item: Why, page: Page) -> Iterator[Line]:
    answer = item.recommendation
    identity = answer.identity
    name = called(identity)
    yield (Span(harmless(name), Tone.TITLE),)
    facts = []
    if answer.workload is not None:
        facts.append(("workload", f"{answer.workload.kind} {answer.workload.namespace}/{answer.workload.name}"))
    facts.append(("policy", answer.policy))
    facts.append(("QoS", identity.qos.value) if identity.qos is not None else ("kind", identity.kind.value))
    if answer.container_kind is not None:
        facts.append(("container", answer.container_kind.value))
    facts.append(("as of", f"{datetime.fromtimestamp(item.taken_unix_seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"))
    facts.append(("source", item.source))
    yield from flow([(Span(f"{what} ", Tone.DIM), Span(harmless(text))) for what, text in facts], page)
    if name != identity.cgroup_path:
        room = page.width - len("cgroup ")
        path = clip(harmless(identity.cgroup_path), room, ellipsis=page.glyphs.ellipsis, keep_end=True)
        yield (Span("cgroup ", Tone.DIM), Span(path))


# The answer


def _advice_lines(item: Why, page: Page) -> Iterator[Line]:
    """Return requests and limits as they are and as they should be; of one withheld why and what it waits for."""
    answer = item.recommendation
    titles = ("", "REQUEST", "RECOMMENDED", "CHANGE", "LIMIT", "RECOMMENDED")
    rows: list[tuple[list[str], Tone, str]] = []
    for side in SIDES:
        advice = side.advice(answer)
        cells = [
            _NAMES[side],
            side.text(side.request(answer)),
            side.text(advice.request),
            change_text(side.request(answer), advice.request, side.text),
            side.text(side.limit(answer)),
            _new_limit(side, item),
        ]
        rows.append((cells, SEVERITY_TONES[advice.severity], _verdict(advice)))
    widths = [max(display_width(cells[index]) for cells in (titles, *(row[0] for row in rows))) for index in range(6)]
    yield tuple(
        Span(pad(title, width, to_right=index > 0) + "  ", Tone.DIM)
        for index, (title, width) in enumerate(zip(titles, widths, strict=True))
    )
    for cells, tone, verdict in rows:
        tones = (Tone.TITLE, Tone.PLAIN, tone, tone, Tone.PLAIN, Tone.PLAIN)
        yield (
            *(
                Span(pad(cell, width, to_right=index > 0) + "  ", tones[index])
                for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
            ),
            Span(verdict, tone),
        )
    for side in SIDES:
        if side.advice(answer).withheld is not None:
            for sentence in _sentences(item, side):
                yield from hanging((Span(f"{_NAMES[side]}: ", Tone.NOTE),), sentence, page, Tone.NOTE)


def _new_limit(side: AdviceSide, item: Why) -> str:
    advice = side.advice(item.recommendation)
    if advice.limit is not None:
        return side.text(advice.limit)
    return ABSENT if side.limit(item.recommendation) is None or advice.withheld is not None else "keep"


def _verdict(advice: Advice) -> str:
    if advice.withheld is not None:
        return f"withheld: {_WITHHELD_WORDS[advice.withheld]}"
    return SEVERITY_TEXTS[advice.severity]


def _sentences(item: Why, side: AdviceSide) -> list[str]:
    start = f"{_NAMES[side]}: "
    return [sentence.removeprefix(start) for sentence in item.changes if sentence.startswith(start)]


# How it came about


def _step_lines(item: Why, side: AdviceSide, page: Page) -> list[Line]:
    """Return the steps of one resource in their order; those of bounds with what they changed from what to what."""
    steps = [step for step in item.steps if step.resource == side.resource]
    if not steps:
        return []
    lines: list[Line] = [
        (
            Span(f"STEPS, {_NAMES[side]}", Tone.TITLE),
            Span(f"  policy {harmless(item.recommendation.policy)}, then the bounds", Tone.DIM),
        )
    ]
    widest = max(display_width(_what(step)) for step in steps)
    width = min(widest, _WHAT_WIDTH, max(page.width - _VALUE_WIDTH - 30, 20))
    for step in steps:
        is_bound = step.before is not None
        tone = Tone.NOTE if is_bound else Tone.TITLE if step.what.startswith("recommended") else Tone.PLAIN
        what = _what(step)
        value = Span(pad(_value(step.value, step.unit), _VALUE_WIDTH, to_right=True), tone)
        name = Span(pad(what, width, to_right=False), tone)
        if display_width(what) > width:  # a line of its own, the value below it
            lines.append((Span(f"  {what}", tone),))
            name = Span(" " * width)
        lines += hanging((Span("  "), name, value, Span("  ")), _note(step, page.glyphs), page, Tone.DIM)
    return lines


def _what(step: Step) -> str:
    return harmless(step.what)


def _note(step: Step, glyphs: Glyphs) -> str:
    if step.before is None:
        return step.note
    change = f"{_value(step.before, step.unit)} {glyphs.becomes} {_value(step.value, step.unit)}"
    return f"{change}; {step.note}" if step.note else change


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return ABSENT
    return age_text(value) if unit == "seconds" and value >= 0 else amount_text(value, unit)


def _runtime_lines(item: Why, page: Page) -> list[Line]:
    """Return what its language runtime takes of memory by its own flags, and what would be better."""
    profile = item.recommendation.runtime
    if profile is None:
        return []
    lines: list[Line] = [(Span("RUNTIME", Tone.TITLE), Span(f"  {harmless(runtime_words(profile))}", Tone.DIM))]
    for sentence in item.recommendation.runtime_advice:
        lines += hanging((Span("  "),), sentence, page)
    return lines


def _hpa_lines(item: Why, page: Page) -> list[Line]:
    """Return what its autoscalers' targets mean if the request is changed."""
    sentences = item.recommendation.hpa_advice
    lines: list[Line] = [(Span("HPA", Tone.TITLE),)] if sentences else []
    for sentence in sentences:
        lines += hanging((Span("  "),), sentence, page)
    return lines


def _change_lines(item: Why, page: Page) -> list[Line]:
    """Return what would change the answer; what a withheld one waits for stands with it already."""
    lines: list[Line] = []
    for side in SIDES:
        if side.advice(item.recommendation).withheld is None:
            for sentence in _sentences(item, side):
                lines += hanging((Span("  "), Span(f"{_NAMES[side]}: ", Tone.DIM)), sentence, page)
    return [(Span("WHAT WOULD CHANGE IT", Tone.TITLE),), *lines] if lines else []


def _note_lines(item: Why, page: Page) -> list[Line]:
    return [line for note in item.notes for line in hanging((Span("note ", Tone.NOTE),), note, page)]


def _chart(item: Why, page: Page) -> list[Line]:
    lines: list[Line] = []
    for plot in plots_of(item):
        lines += [*([()] if lines else []), *chart_lines(plot, width=page.width, glyphs=page.glyphs)]
    return lines or [(Span("no minute measured in this time: nothing to draw", Tone.NOTE),)]
