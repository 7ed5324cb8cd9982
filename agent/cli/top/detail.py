"""The page of one cgroup in ``top``: every figure of its windows with unit or reason, identity, limits, a trail.

Face. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent.cli.text.chart import sparkline
from agent.cli.text.figures import age_text, bytes_text, millicores_text, percent_text
from agent.cli.text.spans import Glyphs, Line, Span, Tone, clip_line, display_width, harmless, pad
from agent.cli.top.advice import advice_lines
from agent.cli.top.view import DEFAULT_THRESHOLDS, Alarm, Thresholds, alarms
from agent.core.cluster.unit import UnitIdentity
from agent.core.window.snapshot import CpuWindow, MemoryWindow, Missing, UnitStatus

_LABEL_WIDTH = 19
_PANEL_WIDTH = 38
"""Two panels side by side fit into the 80 columns of the smallest usual terminal."""

_REASONS: dict[Missing, str] = {
    Missing.NO_SIGNAL: "no signal",
    Missing.TOO_FEW_SAMPLES: "too few samples",
    Missing.GAPS: "too many gaps",
    Missing.OUT_OF_RING: "out of the ring",
}


def _count_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


@dataclass(frozen=True, slots=True)
class _Entry:
    field: str
    """The field's name in core.model, under which ``missing`` gives its reason."""
    label: str
    text: Callable[[float | None], str]
    alarm: Alarm | None = None


CPU_ENTRIES: tuple[_Entry, ...] = (
    _Entry("last_usage_millicores", "now", millicores_text),
    _Entry("usage_p75_millicores", "P75", millicores_text),
    _Entry("usage_peak_millicores", "peak", millicores_text),
    _Entry("burst_millicores", "burst, one tick", millicores_text),
    _Entry("adjusted_p75_millicores", "P75 x (1+waiting)", millicores_text),
    _Entry("adjusted_peak_millicores", "peak x (1+waiting)", millicores_text),
    _Entry("last_waiting_ratio", "waiting now", percent_text, Alarm.WAITING),
    _Entry("waiting_ratio", "waiting, mean", percent_text),
    _Entry("last_throttled_ratio", "throttled now", percent_text, Alarm.THROTTLED),
    _Entry("throttled_ratio", "throttled, mean", percent_text),
    _Entry("throttled_periods_ratio", "throttled periods", percent_text),
)
MEMORY_ENTRIES: tuple[_Entry, ...] = (
    _Entry("working_set_bytes", "working set", bytes_text, Alarm.MEMORY),
    _Entry("working_set_p75_bytes", "working set P75", bytes_text),
    _Entry("working_set_peak_bytes", "working set peak", bytes_text),
    _Entry("anon_bytes", "anonymous", bytes_text),
    _Entry("current_bytes", "current, with cache", bytes_text),
    _Entry("lifetime_peak_bytes", "lifetime peak", bytes_text),
    _Entry("pressure_some_ratio", "waiting for memory", percent_text),
    _Entry("pressure_full_ratio", "all tasks waiting", percent_text),
    _Entry("high_events", "held at memory.high", _count_text),
    _Entry("io_pressure_some_ratio", "waiting for disks", percent_text),
    _Entry("oom_kills", "OOM kills", _count_text, Alarm.OOM),
)


def detail_lines(
    unit: UnitStatus,
    *,
    width: int,
    glyphs: Glyphs,
    marks: bool,
    trail_millicores: Sequence[float | None] = (),
    trail_seconds: float = 0.0,
    thresholds: Thresholds = DEFAULT_THRESHOLDS,
) -> list[Line]:
    """Return the page: identity, what it should request, then CPU and memory side by side, or stacked if narrow.

    ``marks`` puts "!" before hot figures, for output without colour. The trail is the CPU use that this viewer saw,
    oldest first; where it is empty, none is drawn.
    """
    raised = alarms(unit, thresholds)
    cpu = _cpu_panel(unit, raised)
    memory = _memory_panel(unit, raised)
    if marks:
        cpu, memory = _marked(cpu), _marked(memory)
    if trail_millicores:
        memory += _trail_panel(trail_millicores, trail_seconds, glyphs)
    lines = [*_identity_lines(unit, raised, thresholds), (), *advice_lines(unit, glyphs, marks=marks)]
    if width >= 2 * _PANEL_WIDTH:
        empty: Line = ()
        for index in range(max(len(cpu), len(memory))):
            left = cpu[index] if index < len(cpu) else empty
            used = sum(display_width(span.text) for span in left)
            right = memory[index] if index < len(memory) else empty
            lines.append((*left, Span(" " * max(1, _PANEL_WIDTH + 1 - used)), *right))
    else:
        lines += [*cpu, (), *memory]
    return [clip_line(line, width, ellipsis=glyphs.ellipsis) for line in lines]


def _identity_lines(unit: UnitStatus, raised: frozenset[Alarm], thresholds: Thresholds) -> list[Line]:
    identity = unit.identity
    facts = [("kind", identity.kind.value)]
    facts += [("QoS", identity.qos.value)] if identity.qos is not None else []
    facts += [("runtime", identity.runtime)] if identity.runtime is not None else []
    first: list[Span] = []
    for label, text in facts:
        first += (Span(f"{label} ", Tone.DIM), Span(f"{harmless(text)}   "))
    first.append(Span("sample ", Tone.DIM))
    if unit.sample_age_seconds is None:
        first.append(Span("none yet", Tone.NOTE))
    else:
        stale = Alarm.AGE in raised
        first.append(Span(f"{age_text(unit.sample_age_seconds)} old", Tone.HOT if stale else Tone.PLAIN))
        if stale:
            first.append(Span(f" (over {thresholds.sample_age_seconds:g} s)", Tone.HOT))
    return [tuple(first), *_id_lines(identity)]


def _id_lines(identity: UnitIdentity) -> list[Line]:
    lines: list[Line] = []
    if identity.pod_uid is not None:
        lines.append((Span("pod uid       ", Tone.DIM), Span(harmless(identity.pod_uid))))
    if identity.container_id is not None:
        lines.append((Span("container id  ", Tone.DIM), Span(harmless(identity.container_id))))
    lines.append((Span("cgroup        ", Tone.DIM), Span(harmless(identity.cgroup_path))))
    return lines


def _cpu_panel(unit: UnitStatus, raised: frozenset[Alarm]) -> list[Line]:
    cpu, resources = unit.cpu, unit.resources
    gaps = ", ".join(f"{reason.value} {count}" for reason, count in cpu.gaps.items() if count)
    coverage = percent_text(cpu.coverage_ratio)
    return [
        (Span("CPU", Tone.TITLE), Span(f"  {_span_text(cpu.span_seconds)}, {coverage} covered", Tone.DIM)),
        *(_entry_line(entry, cpu, cpu.missing, raised) for entry in CPU_ENTRIES),
        _stated_line("request", millicores_text(resources.cpu_request_millicores)),
        _stated_line("limit", millicores_text(resources.cpu_limit_millicores)),
        _stated_line("cpu.max", millicores_text(unit.cpu_max_millicores)),
        _stated_line("readings", str(cpu.readings)),
        _plain_line("gaps", gaps or "none"),
    ]


def _memory_panel(unit: UnitStatus, raised: frozenset[Alarm]) -> list[Line]:
    memory, resources = unit.memory, unit.resources
    return [
        (Span("MEMORY", Tone.TITLE), Span(f"  {_span_text(memory.span_seconds)}", Tone.DIM)),
        *(_entry_line(entry, memory, memory.missing, raised) for entry in MEMORY_ENTRIES),
        _cold_line(memory),
        _stated_line("request", bytes_text(resources.memory_request_bytes)),
        _stated_line("limit", bytes_text(resources.memory_limit_bytes)),
        _stated_line("memory.max", bytes_text(unit.memory_max_bytes)),
        _stated_line("readings", str(memory.readings)),
    ]


def _marked(lines: list[Line]) -> list[Line]:
    """Turn the last blank before a hot figure into "!"."""
    return [
        tuple(
            Span(f"{'!' + span.text.strip():>{len(span.text)}}", span.tone) if span.tone is Tone.HOT else span
            for span in line
        )
        for line in lines
    ]


def _cold_line(memory: MemoryWindow) -> Line:
    cold = memory.cold_file
    if cold is None:
        return (_label("cold file cache"), Span("- "), Span(_reason(memory.missing.get("cold_file")), Tone.NOTE))
    span = Span(f" for {age_text(cold.window_seconds)}", Tone.DIM)
    return (*_stated_line("cold file cache", bytes_text(cold.total_bytes)), span)


def _span_text(seconds: float) -> str:
    return f"over {age_text(seconds)}"


def _entry_line(
    entry: _Entry, window: CpuWindow | MemoryWindow, missing: Mapping[str, Missing], raised: frozenset[Alarm]
) -> Line:
    value: float | None = getattr(window, entry.field)
    if value is None:
        reason = missing.get(entry.field)
        return (_label(entry.label), Span("- "), Span(_reason(reason), Tone.NOTE))
    tone = Tone.HOT if entry.alarm is not None and entry.alarm in raised else Tone.PLAIN
    return (_label(entry.label), Span(pad(entry.text(value), 8, to_right=True), tone))


def _reason(reason: Missing | None) -> str:
    return "no reason given" if reason is None else _REASONS[reason]


def _stated_line(label: str, text: str) -> Line:
    """Return a request or limit; ``-`` = not stated, which is no fault and needs no reason."""
    return (_label(label), Span(pad(text, 8, to_right=True)))


def _plain_line(label: str, text: str) -> Line:
    return (_label(label), Span(text))


def _label(label: str) -> Span:
    return Span(pad(f"{label}", _LABEL_WIDTH, to_right=False) + " ", Tone.DIM)


def _trail_panel(values: Sequence[float | None], span_seconds: float, glyphs: Glyphs) -> list[Line]:
    newest = values[-(_PANEL_WIDTH - 2) :]
    largest = max((value for value in newest if value is not None), default=None)
    shown_seconds = span_seconds * len(newest) / len(values)
    return [
        (),
        (
            Span("CPU TRAIL", Tone.TITLE),
            Span(f"  last {age_text(shown_seconds)}, top = {millicores_text(largest)}", Tone.DIM),
        ),
        (Span(sparkline(newest, glyphs.spark), Tone.ACCENT),),
    ]
