"""The page of ``top`` as lines: header, table, footer; the same for the live screen and for ``--once``.

Face. Pure: everything that depends on the terminal comes in ``TerminalLook``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import chain

from agent.cli.text.figures import age_text, bytes_text, millicores_text, milliseconds_text, percent_text
from agent.cli.text.spans import Glyphs, Line, Span, Tone, clip, clip_line, display_width, harmless
from agent.cli.top.advice import young_notes
from agent.cli.top.look import TerminalLook
from agent.cli.top.table import table_of
from agent.cli.top.view import TopRow, ViewState, Zoom
from agent.cli.words.units import pod_key, unit_name
from agent.core.window.snapshot import Missing, Snapshot, UnitStatus

_BAR_WIDTH = 12


# Header


def place_text(snapshot: Snapshot, state: ViewState, glyphs: Glyphs) -> str:
    """Return where one is: node » pod » container."""
    crumbs = [harmless(snapshot.node.name)]
    unit = find_unit(snapshot, state.unit_path) if state.zoom is Zoom.UNIT else None
    if unit is not None and (unit.identity.pod or unit.identity.pod_uid):
        crumbs.append(_pod_name(unit))
    elif state.zoom is not Zoom.NODE and state.pod is not None:
        named = next((unit for unit in snapshot.units if pod_key(unit.identity) == state.pod), None)
        crumbs.append(harmless(state.pod.removeprefix("pod:")) if named is None else _pod_name(named))
    if unit is not None:
        crumbs.append(unit_name(unit.identity))
    return f" {glyphs.crumb} ".join(crumbs)


def _pod_name(unit: UnitStatus) -> str:
    identity = unit.identity
    if identity.pod is None:
        return harmless(identity.pod_uid or "")
    return harmless(f"{identity.namespace}/{identity.pod}" if identity.namespace else identity.pod)


def find_unit(snapshot: Snapshot, path: str | None) -> UnitStatus | None:
    """Return the container, pod or tier of this cgroup path; None = it is not in the picture."""
    everything = chain(snapshot.units, snapshot.tiers, (pod.whole for pod in snapshot.pods))
    return next((unit for unit in everything if unit.identity.cgroup_path == path), None)


def title_line(snapshot: Snapshot, state: ViewState, look: TerminalLook, *, age_seconds: float) -> Line:
    """Return the first line: where, which moment and how long ago that is by now, from which source."""
    moment = datetime.fromtimestamp(snapshot.taken_unix_seconds, tz=UTC).astimezone()
    clock = f"{moment:%H:%M:%S}" if age_seconds < 43200 else f"{moment:%Y-%m-%d %H:%M:%S}"
    if state.is_paused:
        when = Span(f"PAUSED {clock}, {age_text(age_seconds)} ago", Tone.NOTE)
    elif age_seconds > 0:
        when = Span(f"{clock}, {age_text(age_seconds)} ago", Tone.NOTE)
    else:
        when = Span(clock, Tone.TITLE)
    source = {"agent": "from the agent", "self": "sampled here", "demo": "demo"}.get(snapshot.source, snapshot.source)
    right = (when, Span(f"  {harmless(source)}", Tone.DIM))
    room = look.width - sum(display_width(span.text) for span in right) - 1
    brand = "plimsoll "
    # the end of the place tells most: which container
    place = clip(
        place_text(snapshot, state, look.glyphs), room - len(brand), ellipsis=look.glyphs.ellipsis, keep_end=True
    )
    left = (Span(brand, Tone.ACCENT), Span(place, Tone.TITLE))
    gap = room + 1 - sum(display_width(span.text) for span in left)
    return (*left, Span(" " * max(1, gap)), *right)


def cpu_line(snapshot: Snapshot, look: TerminalLook) -> Line:
    """Return the node's CPU: use, share of all CPUs, waiting, load."""
    node = snapshot.node
    used = node.cpu_usage_millicores
    ratio = None if used is None or node.cpus <= 0 else used / (node.cpus * 1000)
    return (
        Span("CPU ", Tone.TITLE),
        *_bar(ratio, look.glyphs),
        Span(f" {percent_text(ratio):>5}  "),
        Span(f"{millicores_text(used)} of {node.cpus} CPUs"),
        Span("   waiting ", Tone.DIM),
        Span(percent_text(node.cpu_waiting_ratio)),
        Span("   load ", Tone.DIM),
        Span(f"{node.load_1m:.2f}"),
        Span("   up ", Tone.DIM),
        Span(age_text(node.uptime_seconds)),
        *_of_now(snapshot),
    )


def memory_line(snapshot: Snapshot, look: TerminalLook) -> Line:
    """Return the node's memory: what is not available, share of all, waiting."""
    node = snapshot.node
    used = node.memory_total_bytes - node.memory_available_bytes
    ratio = used / node.memory_total_bytes if node.memory_total_bytes > 0 else None
    return (
        Span("MEM ", Tone.TITLE),
        *_bar(ratio, look.glyphs),
        Span(f" {percent_text(ratio):>5}  "),
        Span(f"{bytes_text(used)} of {bytes_text(node.memory_total_bytes)}"),
        Span("   waiting ", Tone.DIM),
        Span(percent_text(node.memory_waiting_ratio)),
        *_of_now(snapshot),
    )


def _of_now(snapshot: Snapshot) -> Line:
    """Say that the machine's own figures are kept for no moment but the present one."""
    return (Span("   (now)", Tone.NOTE),) if snapshot.at_age_seconds > 0 else ()


def _bar(ratio: float | None, glyphs: Glyphs) -> Line:
    filled = 0 if ratio is None else min(_BAR_WIDTH, round(ratio * _BAR_WIDTH))
    return (Span(glyphs.filled * filled, Tone.ACCENT), Span(glyphs.empty * (_BAR_WIDTH - filled), Tone.DIM))


def sampler_line(snapshot: Snapshot, look: TerminalLook) -> Line:
    """Return how well the sampling goes, and how old the newest sample is."""
    sampler = snapshot.sampler
    newest = min(
        (unit.sample_age_seconds for unit in snapshot.units if unit.sample_age_seconds is not None), default=None
    )
    stale = newest is not None and newest >= look.thresholds.sample_age_seconds
    overruns: Line = (Span(f"   {sampler.overruns} overruns", Tone.NOTE),) if sampler.overruns else ()
    mark = "!" if stale and not look.has_colour else ""
    return (
        Span("SMP ", Tone.TITLE),
        Span(f"{harmless(sampler.name)} {sampler.rate_hz:g} Hz"),
        Span("   units ", Tone.DIM),
        Span(str(sampler.units)),
        Span("   newest ", Tone.DIM),
        Span("none yet" if newest is None else f"{mark}{age_text(newest)} old", Tone.HOT if stale else Tone.PLAIN),
        Span("   late p99 ", Tone.DIM),
        Span(milliseconds_text(sampler.lateness_p99_seconds)),
        Span("   sweep ", Tone.DIM),
        Span(milliseconds_text(sampler.sweep_seconds)),
        *overruns,
    )


_CAUSES = {
    Missing.NO_SIGNAL: "no signal from this kernel",
    Missing.TOO_FEW_SAMPLES: "too few samples",
    Missing.GAPS: "too many gaps",
    Missing.OUT_OF_RING: "before the rings begin",
}


def absence_line(snapshot: Snapshot) -> Line:
    """Return why figures of the table are ``-``; empty when none is."""
    texts: list[str] = []
    readers: tuple[tuple[str, Callable[[UnitStatus], float | None], Callable[[UnitStatus], Missing | None]], ...] = (
        ("CPU", lambda u: u.cpu.last_usage_millicores, lambda u: u.cpu.missing.get("last_usage_millicores")),
        ("P75", lambda u: u.cpu.usage_p75_millicores, lambda u: u.cpu.missing.get("usage_p75_millicores")),
        ("waiting", lambda u: u.cpu.last_waiting_ratio, lambda u: u.cpu.missing.get("last_waiting_ratio")),
        ("throttled", lambda u: u.cpu.last_throttled_ratio, lambda u: u.cpu.missing.get("last_throttled_ratio")),
        ("memory", lambda u: u.memory.working_set_bytes, lambda u: u.memory.missing.get("working_set_bytes")),
    )
    by_cause: dict[tuple[str, int], list[str]] = {}
    for name, value, reason in readers:
        absent = [unit for unit in snapshot.units if value(unit) is None]
        if not absent:
            continue
        reasons = [why for unit in absent if (why := reason(unit)) is not None]
        commonest = max(sorted(set(reasons)), key=reasons.count) if reasons else None
        cause = "no reason given" if commonest is None else _CAUSES[commonest]
        by_cause.setdefault((cause, len(absent)), []).append(name)
    for (cause, count), names in by_cause.items():
        scope = "" if count == len(snapshot.units) else f" of {count}/{len(snapshot.units)}"
        texts.append(f"{', '.join(names)}{scope}: {cause}")
    return (Span("-   ", Tone.TITLE), Span("; ".join(texts), Tone.NOTE)) if texts else ()


# Footer


def threshold_line(look: TerminalLook) -> Line:
    """Return from where on figures are red."""
    limits, sign = look.thresholds, look.glyphs.at_least
    name = Span("red ", Tone.HOT) if look.has_colour else Span("! ", Tone.HOT)
    return (
        name,
        Span(
            f"waiting {sign}{percent_text(limits.waiting_ratio)}, "
            f"throttled {sign}{percent_text(limits.throttled_ratio)}, "
            f"wset {sign}{percent_text(limits.working_set_of_limit_ratio)} of limit, "
            f"age {sign}{limits.sample_age_seconds:g}s, OOM kill, request much too small",
            Tone.DIM,
        ),
    )


def note_lines(snapshot: Snapshot) -> list[Line]:
    """Return what is degraded, a line each; and when recommendations begin, as long as there is none."""
    return [(Span("note ", Tone.NOTE), Span(harmless(note))) for note in (*young_notes(snapshot), *snapshot.notes)]


def empty_text(snapshot: Snapshot, state: ViewState) -> str:
    """Return why the table has no rows."""
    if state.filter_text:
        return f"nothing passes the filter {harmless(state.filter_text)!r}: 0 of {len(snapshot.units)} units"
    if state.zoom is Zoom.POD:
        return "this pod is not in the picture at this moment; esc goes back"
    return "no cgroup is watched yet"


def page_lines(
    snapshot: Snapshot, rows: Sequence[TopRow], state: ViewState, look: TerminalLook, *, limit: int = 0
) -> list[Line]:
    """Return the whole page for ``--once``; of ``limit`` rows (0 = all) what is left out is said."""
    shown = rows[:limit] if limit else rows
    title = title_line(snapshot, state, look, age_seconds=snapshot.at_age_seconds)
    lines = [title, cpu_line(snapshot, look), memory_line(snapshot, look)]
    lines.append(sampler_line(snapshot, look))
    absence = absence_line(snapshot)
    lines += [absence] if absence else []
    lines.append(())
    if shown:
        table = table_of(shown, state, look)
        lines += [table.groups, table.titles, *table.rows]
    else:
        lines.append((Span(empty_text(snapshot, state), Tone.NOTE),))
    if len(shown) < len(rows):
        lines.append((Span(f"{len(rows) - len(shown)} more rows (--limit 0 shows all)", Tone.DIM),))
    lines += [(), threshold_line(look), *note_lines(snapshot)]
    return [clip_line(line, look.width, ellipsis=look.glyphs.ellipsis) for line in lines]
