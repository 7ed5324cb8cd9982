"""How the decision log looks in a terminal: a line for each decision, newest first. Face, pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from agent.cli.text.figures import ABSENT, age_text
from agent.cli.text.spans import Glyphs, Line, Span, Tone, clip_line, harmless
from agent.cli.text.table import Cell, Column, render_table
from agent.cli.words.decisions import OUTCOME_TONES, what_text
from agent.cli.words.plan import KEPT_WORDS, RESERVED_WORDS
from agent.core.resize.decision import Decision, Decisions

NOTHING: Final = "nothing was decided so far"
_REASON_WORDS: Final = {
    **{str(key): text for key, text in KEPT_WORDS.items()},
    **{str(key): text for key, text in RESERVED_WORDS.items()},
    "unknown_annotation": "unknown annotation",
    "taint_cap": "enough nodes are tainted",
    "webhook_away": "webhook away",
}
"""Words for the reasons that are members of an enum, and some others; the rest stand as they are."""
_DAY_SECONDS: Final = 86_400.0


def page_lines(decisions: Decisions, *, width: int, glyphs: Glyphs, nothing: str = NOTHING) -> list[Line]:
    """Return the whole answer; ``nothing`` stands where there are no decisions."""
    count = f"{len(decisions.items)} of {decisions.matching} decisions" if decisions.matching else "decisions"
    source = "from the agent" if decisions.source == "agent" else "from its log"
    lines: list[Line] = [
        (
            Span("plimsoll ", Tone.ACCENT),
            Span(harmless(decisions.node), Tone.TITLE),
            Span(f"  {count}, newest first  {source}", Tone.DIM),
        ),
        *((Span("note ", Tone.NOTE), Span(harmless(note))) for note in decisions.notes),
        (),
    ]
    if not decisions.items:
        return [*lines, (Span(nothing, Tone.NOTE),)]
    has_repeats = any(item.repeats > 1 for item in decisions.items)
    repeats = [Column(key="repeats", title="TIMES", priority=30)] if has_repeats else []
    has_details = any(item.detail for item in decisions.items)
    detail = Column(key="detail", title="DETAIL", min_width=16, good_width=60, priority=20, is_text=True)
    details = [detail] if has_details else []
    columns = [
        Column(key="age", title="AGE", min_width=6),
        Column(key="time", title="TIME", min_width=8, priority=55, is_text=True),
        Column(key="pod", title="POD", min_width=12, good_width=36, is_text=True),
        Column(key="what", title="WHAT", min_width=19, good_width=60, is_text=True),
        Column(key="outcome", title="OUTCOME", min_width=10, is_text=True),
        Column(key="took", title="TOOK", priority=15),
        *repeats,
        Column(key="reason", title="REASON", min_width=12, good_width=32, priority=10, is_text=True),
        *details,
    ]
    cells = [_cells(item, decisions.taken_unix_seconds, glyphs, has_repeats, has_details) for item in decisions.items]
    table = render_table(columns, cells, width=width, glyphs=glyphs, marks=False)
    lines += [table.titles, *table.rows]
    return [clip_line(line, width, ellipsis=glyphs.ellipsis) for line in lines]


def _cells(decision: Decision, now: float, glyphs: Glyphs, has_repeats: bool, has_details: bool) -> list[Cell]:
    moment = datetime.fromtimestamp(decision.unix_seconds, tz=UTC).astimezone()
    age = max(0.0, now - decision.unix_seconds)
    pod = Cell("(node)", Tone.DIM) if decision.pod is None else Cell(harmless(str(decision.pod)))
    return [
        Cell(age_text(age)),
        Cell(f"{moment:%H:%M:%S}" if age < _DAY_SECONDS else f"{moment:%m-%d %H:%M}", Tone.DIM),
        pod,
        Cell(what_text(decision, glyphs)),
        Cell(decision.outcome, OUTCOME_TONES[decision.outcome]),
        Cell(ABSENT if decision.seconds is None else age_text(decision.seconds), Tone.DIM),
        *([Cell(f"x{decision.repeats}" if decision.repeats > 1 else "", Tone.NOTE)] if has_repeats else []),
        Cell(
            "" if decision.reason == decision.outcome else harmless(_REASON_WORDS.get(decision.reason, decision.reason))
        ),
        *([Cell(harmless(decision.detail), Tone.DIM)] if has_details else []),
    ]
