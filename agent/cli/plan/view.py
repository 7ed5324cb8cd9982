"""How a plan looks in a terminal: head, containers, who is left alone, evictions, steps, invariants. Face, pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

from agent.cli.plan.sums import NOT_YET, sum_lines
from agent.cli.text.figures import ABSENT, age_text, counted
from agent.cli.text.paragraphs import Page, fact, hanging
from agent.cli.text.spans import Glyphs, Line, Span, Tone, clip_line, harmless, pad
from agent.cli.text.table import Cell, Column, render_table
from agent.cli.words.advice import CPU, MEMORY, AdviceSide
from agent.cli.words.plan import (
    POD_BUDGET,
    RESERVED_WORDS,
    SIDE_OF,
    amount,
    changes_words,
    kept_words,
    reserved_words,
    share_of,
    step_words,
)
from agent.core.orders.order import Mode
from agent.core.plan.needs.demand import KeptReason, ReservedReason
from agent.core.plan.plan import ContainerPlan, Eviction, Plan, PlanStep, PodPlan, Share
from agent.core.plan.possible_savings import protected_savings


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLook:
    """What is said beside the plan."""

    source: str
    """``from the agent`` or from which files."""
    now_unix_seconds: float
    is_what_if: bool = False
    """Pods of mode recommend are planned as if they were enforced."""
    with_invariants: bool = False
    """Each on a line of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """One container, or one pod's own budget, that is planned."""

    pod: PodPlan
    container: ContainerPlan

    @property
    def name(self) -> str:
        """Return the container's name for people."""
        return harmless(self.container.name) if self.container.name else POD_BUDGET


def rows_of(plan: Plan) -> list[PlanRow]:
    """Return what is planned: containers of pods that may be optimised, a pod's own budget before them."""
    return [
        PlanRow(pod=pod, container=container)
        for pod in plan.pods
        if pod.reserved is None
        for container in (*(() if pod.budget is None else (pod.budget,)), *pod.containers)
    ]


def page_lines(plan: Plan, look: PlanLook, *, width: int, glyphs: Glyphs, shown: Plan | None = None) -> list[Line]:
    """Return the whole answer; ``shown`` is the plan with the pods to show alone, None = all of them."""
    page, shown = Page(width=width, glyphs=glyphs), plan if shown is None else shown
    lines: list[Line] = [_title(plan, look), *_summary(plan, look, page)]
    for note in plan.notes:
        lines += hanging((Span("note ", Tone.NOTE),), note, page)
    lines += [(), *sum_lines(plan, page), ()]
    rows = rows_of(shown)
    if rows:
        lines += [*_container_lines(rows, width, glyphs), ()]
    lines += [*_reserved_lines(shown, width, glyphs), *_eviction_lines(shown.evictions, page)]
    lines += [*_step_lines(plan, shown, page), (), *_invariant_lines(plan, look, page)]
    lines += [(Span(text, Tone.DIM),) for text in _hints(plan, look)]
    return [clip_line(line, width, ellipsis=glyphs.ellipsis) for line in lines]


# Head


def _title(plan: Plan, look: PlanLook) -> Line:
    moment = datetime.fromtimestamp(plan.taken_unix_seconds, tz=UTC).astimezone()
    age = max(0.0, look.now_unix_seconds - plan.taken_unix_seconds)
    return (
        Span("plimsoll ", Tone.ACCENT),
        Span(harmless(plan.node), Tone.TITLE),
        Span("  plan" if not look.is_what_if else "  plan as if every pod in mode recommend were enforced", Tone.TITLE),
        Span(f"  {look.source}, {moment:%Y-%m-%d %H:%M:%S}, {age_text(age)} ago", Tone.DIM),
    )


def _summary(plan: Plan, look: PlanLook, page: Page) -> Iterator[Line]:
    planned = sum(pod.reserved is None for pod in plan.pods)
    protected = sum(pod.reserved is None and pod.mode is Mode.PROTECT for pod in plan.pods)
    reasons = Counter(pod.reserved for pod in plan.pods if pod.reserved is not None)
    advised = reasons.pop(ReservedReason.RECOMMEND, 0)
    word = "planned" if look.is_what_if else "enforced"
    shown = f"{protected} protected, " if protected else ""
    yield from fact(
        "pods",
        f"{len(plan.pods)}: {planned - protected} {word}, {shown}{advised} recommend only, "
        f"{sum(reasons.values())} left alone",
        page,
    )
    if reasons:
        most = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
        yield from fact("left alone", ", ".join(f"{count} {RESERVED_WORDS[why]}" for why, count in most), page)
    if protected:
        yield from fact("protect", f"{counted(protected, 'pod')} only given more; {_held_words(plan)}", page)
    credited = sum(row.container.cpu is not None and row.container.cpu.has_credit for row in rows_of(plan))
    if credited:
        yield from fact(
            "credit",
            f"{counted(credited, 'container')} asked for at the lower price of being short: starvation is answered "
            "within seconds, in place, and there is room for it",
            page,
        )
    unready = Counter(pod.reserved for pod in plan.pods if pod.mode.resizes and pod.reserved in NOT_YET)
    if not planned and unready:
        why = ", ".join(
            f"{count} {RESERVED_WORDS[reason or ReservedReason.NO_DATA]}" for reason, count in unready.items()
        )
        yield from fact(
            "nothing yet",
            f"{counted(unready.total(), 'pod')} of mode protect or enforce cannot be planned so far: {why}; a pod is "
            "planned once it runs, is plan.minAgeSeconds old and was measured for recommend.minSpanSeconds",
            page,
            Tone.NOTE,
        )
    elif not planned and advised and not look.is_what_if:
        yield from fact(
            "nothing enforced",
            "no pod of this node may be resized, so there is nothing to plan; --what-if plans as if those in mode "
            "recommend were enforced, the annotation plimsoll.dev/mode: enforce does it for good",
            page,
            Tone.NOTE,
        )


def _held_words(plan: Plan) -> str:
    """Return what pods in mode protect keep that they could do without."""
    savings = protected_savings(plan)
    held = [
        f"{side.text(value)} of {side.title}"
        for side, value in ((CPU, savings.cpu_millicores), (MEMORY, savings.memory_bytes))
        if value
    ]
    what = " and ".join(held)
    return f"{what} could be saved, which protect does not touch" if held else "none of them requests too much"


# Containers


@dataclass(frozen=True, slots=True)
class _Entry:
    column: Column
    cell: Callable[[PlanRow], Cell]
    is_shown: bool = True


def _container_lines(rows: Sequence[PlanRow], width: int, glyphs: Glyphs) -> list[Line]:
    entries = [entry for entry in _entries(rows, glyphs) if entry.is_shown]
    table = render_table(
        [entry.column for entry in entries],
        [[entry.cell(row) for entry in entries] for row in rows],
        width=width,
        glyphs=glyphs,
        marks=False,
    )
    lines, drawn = [table.groups, table.titles], iter(table.rows)
    groups = [(space, list(members)) for space, members in groupby(rows, key=lambda row: row.pod.ref.namespace)]
    for space, members in groups:
        if len(groups) > 1:
            lines.append((Span(harmless(space), Tone.TITLE), Span(f"  {counted(len(members), 'container')}", Tone.DIM)))
        lines += [next(drawn) for _ in members]
    return lines


def _entries(rows: Sequence[PlanRow], glyphs: Glyphs) -> list[_Entry]:
    return [
        _Entry(
            Column(key="name", title="NAME", min_width=12, good_width=28, is_text=True),
            lambda row: Cell(harmless(row.pod.ref.name), Tone.NOTE if row.pod.is_evicted else Tone.PLAIN),
        ),
        _Entry(
            Column(key="container", title="CONTAINER", min_width=9, good_width=14, is_text=True),
            lambda row: Cell(row.name),
        ),
        *_side_entries(CPU, "CPU", 6, rows, glyphs),
        *_side_entries(MEMORY, "MEMORY", 7, rows, glyphs),
        _Entry(
            Column(key="ranking", title="RANKING", min_width=7, priority=60, is_text=True),
            lambda row: Cell(row.pod.ranking, Tone.DIM),
        ),
        _Entry(
            Column(key="why", title="KEPT", min_width=16, good_width=60, priority=6, is_text=True),
            _why_cell,
            any(_why_cell(row).text for row in rows),
        ),
    ]


def _why_cell(row: PlanRow) -> Cell:
    if row.pod.is_evicted:
        is_given = any(
            share is not None and share.kept is KeptReason.EVICTION_PENDING
            for share in (row.container.cpu, row.container.memory)
        )
        return Cell("proposed for eviction" + (", has its part of what is free" if is_given else ""), Tone.NOTE)
    return Cell(kept_words(row.container), Tone.DIM)


def _side_entries(side: AdviceSide, group: str, width: int, rows: Sequence[PlanRow], glyphs: Glyphs) -> list[_Entry]:
    def entry(
        key: str,
        title: str,
        priority: int,
        text: Callable[[Share], str],
        tone: Callable[[Share], Tone],
        shown: bool = True,
    ) -> _Entry:
        def cell(row: PlanRow) -> Cell:
            share = share_of(side, row.container)
            return Cell(ABSENT, Tone.DIM) if share is None else Cell(text(share), tone(share))

        column = Column(
            key=f"{side.resource}{key}", title=title, group=group, min_width=max(width, len(title)), priority=priority
        )
        return _Entry(column, cell, shown)

    def plain(share: Share) -> Tone:
        return Tone.PLAIN

    def dim(share: Share) -> Tone:
        return Tone.DIM

    def limit(share: Share) -> str:
        if share.limit_applied is None or share.limit_applied == share.limit:
            return side.text(share.limit)
        return f"{side.text(share.limit)}{glyphs.becomes}{side.text(share.limit_applied)}"

    shares = [share for row in rows if (share := share_of(side, row.container)) is not None]
    return [
        entry("base", "BASE", 31, lambda share: side.text(share.base), dim),
        entry("spike", "SPIKE", 32, lambda share: side.text(share.spike), dim),
        entry("headroom", "SHARE", 33, lambda share: side.text(share.headroom), dim),
        entry("final", "FINAL", 10, lambda share: side.text(share.final), plain),
        entry("request", "REQ", 0, lambda share: side.text(share.request), plain),
        entry("applied", "AFTER", 0, lambda share: side.text(share.applied), _applied_tone),
        entry("limit", "LIMIT", 40, limit, plain, any(share.limit is not None for share in shares)),
    ]


def _applied_tone(share: Share) -> Tone:
    if share.applied is None or share.request is None or share.applied == share.request:
        return Tone.DIM
    return Tone.NOTE if share.applied > share.request else Tone.GAIN


# Below


def _reserved_lines(plan: Plan, width: int, glyphs: Glyphs) -> list[Line]:
    pods = sorted((pod for pod in plan.pods if pod.reserved is not None), key=_by_reason)
    if not pods:
        return []
    columns = [
        Column(key="name", title="NOT OPTIMISED", min_width=16, good_width=40, is_text=True),
        Column(key="workload", title="WORKLOAD", min_width=12, good_width=24, priority=60, is_text=True),
        Column(key="why", title="WHY", min_width=12, good_width=32, is_text=True),
        Column(key="cpu", title="HOLDS CPU"),
        Column(key="memory", title="MEMORY", min_width=7),
    ]
    cells = [
        [
            Cell(harmless(str(pod.ref))),
            Cell(harmless(f"{pod.workload.kind}/{pod.workload.name}"), Tone.DIM),
            Cell(reserved_words(pod.reserved or ReservedReason.OFF, pod.enforce_share), Tone.DIM),
            Cell(CPU.text(pod.cpu_counted_millicores)),
            Cell(MEMORY.text(pod.memory_counted_bytes)),
        ]
        for pod in pods
    ]
    table = render_table(columns, cells, width=width, glyphs=glyphs, marks=False)
    return [table.titles, *table.rows, ()]


def _by_reason(pod: PodPlan) -> tuple[str, str, str]:
    return (RESERVED_WORDS[pod.reserved or ReservedReason.OFF], pod.ref.namespace, pod.ref.name)


def _eviction_lines(evictions: Sequence[Eviction], page: Page) -> Iterator[Line]:
    if not evictions:
        return
    yield (Span("proposed evictions, in order", Tone.TITLE), Span("  the agent itself evicts nobody", Tone.DIM))
    for number, eviction in enumerate(evictions, 1):
        head = (_number(number), Span(f"{harmless(str(eviction.ref))}  ", Tone.NOTE))
        spike = amount(eviction.resource, eviction.spike)
        why = f"ranking {eviction.ranking}, {SIDE_OF[eviction.resource].title} spike {spike}: {eviction.reason}"
        yield from hanging(head, why, page)
    yield ()


def _step_lines(plan: Plan, shown: Plan, page: Page) -> Iterator[Line]:
    if not shown.steps:
        reason = "none of these pods has one" if plan.steps else _no_steps(plan)
        yield (Span(f"no steps: {reason}", Tone.DIM),)
        return
    yield (Span("steps, in order", Tone.TITLE), Span("  one patch each; what shrinks makes room first", Tone.DIM))
    asked = {id(step) for step in shown.steps}
    for number, step in enumerate(plan.steps, 1):
        if id(step) in asked:  # with the number it has among all
            yield from _step(number, step, page)


def _step(number: int, step: PlanStep, page: Page) -> Iterator[Line]:
    tone = Tone.HOT if step.is_urgent else Tone.ACCENT
    head = (_number(number), Span(pad(step_words(step), 12, to_right=False), tone), Span(" "))
    changes = changes_words(step.changes, page.glyphs.becomes)
    yield from hanging(head, f"{step.ref}: {changes} ({step.reason})", page)


def _no_steps(plan: Plan) -> str:
    if not plan.is_sound:
        return "an invariant does not hold, so nothing is written"
    if not any(pod.reserved is None for pod in plan.pods):
        return "no pod may be resized"
    return "every request is as planned, or kept for the reason beside it"


def _number(number: int) -> Span:
    return Span(f"{number:>3}. ", Tone.DIM)


def _invariant_lines(plan: Plan, look: PlanLook, page: Page) -> Iterator[Line]:
    broken = [result for result in plan.invariants if not result.holds]
    count = len(plan.invariants)
    if not count:
        yield (Span("no invariants were checked", Tone.NOTE),)
    elif broken:
        yield (Span(f"{len(broken)} of {count} invariants do not hold: this plan is never carried out", Tone.HOT),)
    else:
        yield (Span(f"{count} invariant{'s hold' if count > 1 else ' holds'}"),)
    for invariant in plan.invariants if look.with_invariants else broken:
        head = Span("  holds  " if invariant.holds else "  BROKEN ", Tone.DIM if invariant.holds else Tone.HOT)
        text = f"{invariant.name}: {invariant.detail}" if invariant.detail else invariant.name
        yield from hanging((head,), text, page)


def _hints(plan: Plan, look: PlanLook) -> Iterator[str]:
    if plan.steps:
        yield "-o patch gives kubectl commands; plimsoll events tells what was done of it"
    if plan.invariants and not look.with_invariants:
        yield "--invariants tells each invariant"
