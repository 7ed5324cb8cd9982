"""What the webhook says of workloads, as lines for a terminal. Face, pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from agent.cli.text.chart import sparkline
from agent.cli.text.figures import age_text, bytes_text, counted, millicores_text
from agent.cli.text.spans import Glyphs, Line, Span, Tone, clip_line, harmless
from agent.cli.text.table import Cell, Column, render_table
from agent.cli.workloads.quality_view import quality_texts
from agent.core.admission.estimate import EstimateSource
from agent.core.orders.order import Mode
from agent.webhook.queries.workload_bodies import (
    AdviceBody,
    ContainerBody,
    FromBody,
    HourBody,
    PastRunBody,
    ShareBody,
    SideBody,
    SpreadBody,
    StatisticsBody,
    WorkloadBody,
    WorkloadLineBody,
)

_COLUMNS: Final = (
    Column(key="namespace", title="NAMESPACE", is_text=True, min_width=9),
    Column(key="kind", title="KIND", is_text=True, min_width=4, priority=30),
    Column(key="name", title="NAME", is_text=True, min_width=8, good_width=30),
    Column(key="containers", title="CONTAINERS", is_text=True, min_width=10, priority=60),
    Column(key="mode", title="MODE", is_text=True, min_width=7, priority=20),
    Column(key="cpu", title="CPU", min_width=6),
    Column(key="memory", title="MEMORY", min_width=7),
    Column(key="history", title="HISTORY", min_width=7, priority=40),
    Column(key="newest", title="NEWEST", min_width=6, priority=10),
)
_MISSING: Final = {
    "not_loaded": "not worked out yet; ask again in a minute",
    "too_young": "its history is too young",
    "too_few_runs": "fewer runs of it have ended than jobs.leastRuns",
    "unknown_container": "nothing is known of this container",
    "unknown_workload": "nothing is known of this workload",
}
RESIZING: Final = frozenset(mode for mode in Mode if mode.resizes)
STALE_SECONDS: Final = 900.0
"""Three reports that did not come."""
_LABEL: Final = 11
_MOST_PODS: Final = 10


def list_lines(
    workloads: Sequence[WorkloadLineBody], *, total: int, width: int, glyphs: Glyphs, has_colour: bool
) -> Iterator[Line]:
    """Return the table of workloads: what a pod created now would request, how long and how lately it is known."""
    if not workloads:
        yield (Span("nothing was reported yet" if not total else f"none of {total} workloads fit", Tone.NOTE),)
        return
    rows = [
        (
            Cell(harmless(workload.namespace)),
            Cell(harmless(workload.kind), Tone.DIM),
            Cell(harmless(workload.name)),
            Cell(harmless(", ".join(workload.containers)), Tone.DIM),
            Cell(harmless(workload.mode), Tone.GAIN if workload.mode in RESIZING else Tone.DIM),
            Cell(millicores_text(workload.cpu_request_millicores)),
            Cell(bytes_text(workload.memory_request_bytes)),
            Cell(age_text(workload.history_seconds)),
            Cell(
                age_text(workload.newest_age_seconds),
                Tone.NOTE if workload.newest_age_seconds > STALE_SECONDS else Tone.PLAIN,
            ),
        )
        for workload in workloads
    ]
    table = render_table(_COLUMNS, rows, width=width, glyphs=glyphs, marks=not has_colour)
    yield table.titles
    yield from table.rows
    shown = f"{len(workloads)} of {total}" if len(workloads) < total else f"{total}"
    yield (Span(f"workloads: {shown}; CPU and memory as the policy would request them, before bounds", Tone.DIM),)


def workload_lines(workload: WorkloadBody, *, width: int, glyphs: Glyphs) -> Iterator[Line]:
    """Return everything about one workload: advice and why, history by hour, where it is from."""
    name = harmless(f"{workload.kind} {workload.namespace}/{workload.name}")
    known = f"known for {age_text(workload.history_seconds)}, newest {age_text(workload.newest_age_seconds)} ago"
    yield (Span(name, Tone.TITLE), Span(f"   {known}", Tone.DIM))
    applies = workload.applies
    yield (
        Span("mode ", Tone.DIM),
        Span(harmless(applies.mode.value or "-"), Tone.GAIN if applies.mode.value in RESIZING else Tone.PLAIN),
        Span(f" ({harmless(applies.mode.source)}), policy ", Tone.DIM),
        Span(harmless(applies.policy.value or "-")),
        Span(f" ({harmless(applies.policy.source)})", Tone.DIM),
    )
    if applies.share is not None:
        share = harmless(applies.share.value or "-")
        yield (Span("enforced share ", Tone.DIM), Span(share), Span(f" ({harmless(applies.share.source)})", Tone.DIM))
    for note in notes(workload):
        yield (Span(harmless(note), Tone.NOTE),)
    if workload.share is not None:
        for line in _share_lines(workload.share):
            yield clip_line(line, width, ellipsis=glyphs.ellipsis)
    for line in _pod_lines(workload):
        yield clip_line(line, width, ellipsis=glyphs.ellipsis)
    for container in workload.containers:
        yield ()
        for line in _container_lines(container, width=width, glyphs=glyphs):
            yield clip_line(line, width, ellipsis=glyphs.ellipsis)


_GROUP_COLUMNS: Final = ("", "pods", "kills", "restarts", "not Ready", "waits for CPU", "throttled")


def _share_lines(share: ShareBody) -> Iterator[Line]:
    """Return both groups of a workload's pods, one below the other."""
    yield ()
    title = f"enforced share of {harmless(share.share)}, the last {age_text(share.window_seconds)}"
    yield (Span(title, Tone.TITLE),)
    yield (Span("".join(f"{name:>14}" for name in _GROUP_COLUMNS), Tone.DIM),)
    for group in share.groups:
        ratios = (group.unready_ratio, group.waiting_ratio, group.throttled_ratio)
        cells = (
            "enforced" if group.enforced else "others",
            str(group.pods),
            str(group.kills),
            str(group.restarts),
            *("-" if ratio is None else f"{ratio:.1%}" for ratio in ratios),
        )
        yield (Span("".join(f"{cell:>14}" for cell in cells)),)


def _pod_lines(workload: WorkloadBody) -> Iterator[Line]:
    """Return its first pods, a line each: those whose resize is pending stand first."""
    if not workload.pods:
        return
    yield ()
    yield (Span(counted(workload.pods_total or len(workload.pods), "pod"), Tone.TITLE),)
    for pod in workload.pods[:_MOST_PODS]:
        amounts = f"CPU {millicores_text(pod.cpu_request_millicores)}, memory {bytes_text(pod.memory_request_bytes)}"
        place = f"on {harmless(pod.node)}" if pod.node is not None else "not bound to a node"
        state = "" if pod.state == "running" else f", {pod.state}"
        line = (Span(f"  {harmless(pod.pod)}  "), Span(f"{place}{state}; ", Tone.DIM), Span(f"requests {amounts}"))
        yield (
            line
            if pod.resize_pending is None
            else (
                *line,
                Span(f"; resize pending: {harmless(pod.resize_pending)}", Tone.NOTE),
            )
        )
    if (workload.pods_total or 0) > _MOST_PODS:
        yield (Span(f"  {_MOST_PODS} of {workload.pods_total}; -o json has up to 100", Tone.DIM),)


def notes(workload: WorkloadBody) -> Iterator[str]:
    """Return what holds the sizes of a workload, a sentence each."""
    applies = workload.applies
    if applies.pause.value is not None:
        yield f"the cluster is paused ({applies.pause.source}): {applies.pause.value}"
    if applies.left_alone_for is not None:
        yield f"left alone: {applies.left_alone_for} sets its requests"
    for axis, holder, containers, preserved in (
        ("CPU", applies.cpu_frozen_for, applies.cpu_frozen_containers, applies.cpu_preserved),
        ("memory", applies.memory_frozen_for, applies.memory_frozen_containers, applies.memory_preserved),
    ):
        if holder is not None and preserved is not None:
            yield f"{axis} is sized, and {holder} follows: {preserved}"
        elif holder is not None:
            whose = "" if containers is None else f" of {', '.join(containers)}"
            yield f"{axis}{whose} is not changed: {holder} scales on it"
    yield from workload.hpa_advice
    if applies.share_taken_back is not None:
        why = applies.share_taken_back_for or "its pods fared worse than the others"
        yield f"the enforced share of {applies.share_taken_back} is taken back: {why}; order another share to go on"
    if applies.stop_shrinking_seconds is not None:
        why = applies.stop_shrinking_for or "it was killed out of memory"
        yield f"only grows for another {age_text(applies.stop_shrinking_seconds)}: {why}"
    if applies.rules_fault is not None:
        yield f"the cluster's rules are not understood, the last good ones hold: {applies.rules_fault}"
    if workload.statistics_fault is not None:
        yield f"no percentiles: {workload.statistics_fault}"


def _container_lines(container: ContainerBody, *, width: int, glyphs: Glyphs) -> Iterator[Line]:
    yield (Span(f"container {harmless(container.container)}", Tone.TITLE),)
    yield from _advice_lines(container.advice)
    room = max(width - _LABEL - 30, 8)
    yield from _course(container.hours, "CPU", lambda hour: hour.cpu_millicores, millicores_text, room, glyphs)
    yield from _course(container.hours, "memory", lambda hour: hour.memory_bytes, bytes_text, room, glyphs)
    if container.statistics is not None:
        yield from _statistics_lines(container.statistics)
    for run in container.runs:
        yield _run_line(run)
    yield from _start_lines(container)
    for label, text in quality_texts(container.quality):
        yield (_label(label), Span(text))
    for side in (*container.classes, *container.nodes):
        yield from _side_lines(side)


def _advice_lines(advice: AdviceBody) -> Iterator[Line]:
    if advice.missing is not None:
        reason = _MISSING.get(advice.missing, advice.missing)
        yield (_label("request"), Span(f"none by {advice.policy}: {reason}", Tone.NOTE))
        return
    if advice.source == EstimateSource.RUNS:
        yield from _advice_of_runs(advice)
        return
    of_pods = "" if advice.pods is None else f", of {counted(advice.pods, 'pod')}"
    stood_in = "" if advice.stands_in_for is None else f" until {advice.stands_in_for} is worked out"
    yield (
        _label("request"),
        Span(f"CPU {millicores_text(advice.cpu_request_millicores)}, memory {bytes_text(advice.memory_request_bytes)}"),
        Span(f"   by {advice.policy}{stood_in}{of_pods}", Tone.DIM),
    )
    base = f"{millicores_text(advice.cpu_base_millicores)} and {bytes_text(advice.memory_base_bytes)}"
    seen = [
        f"seven-day maximum {millicores_text(advice.cpu_max_millicores)} and {bytes_text(advice.memory_max_bytes)}",
        f"P75 of the newest hour {base}",
    ]
    if advice.oom_memory_bytes is not None:
        seen.append(f"killed at {bytes_text(advice.oom_memory_bytes)}")
    yield (_label("why"), Span("; ".join(seen)))
    if advice.imported_hours:
        hours = counted(advice.imported_hours, "hour")
        note = f"{hours} of seven days were imported: peaks between scrapes are not seen, 10 % is added"
        yield (_label(""), Span(note, Tone.NOTE))


def _advice_of_runs(advice: AdviceBody) -> Iterator[Line]:
    memory = max(advice.memory_request_bytes or 0, advice.oom_memory_bytes or 0) or None
    yield (
        _label("request"),
        Span(f"CPU {millicores_text(advice.cpu_request_millicores)}, memory {bytes_text(memory)}"),
        Span(f"   by its last {counted(advice.pods or 0, 'run')}", Tone.DIM),
    )
    seen = [f"largest need {bytes_text(advice.memory_max_bytes)} and a margin"]
    if advice.oom_memory_bytes is not None:
        seen.append(f"one was killed: {bytes_text(advice.oom_memory_bytes)} until a run gets through with more")
    yield (_label("why"), Span("; ".join(seen)))


def _run_line(run: PastRunBody) -> Line:
    took = f"{age_text(run.ended_age_seconds)} ago, took {age_text(run.duration_seconds)}"
    used = f"CPU {millicores_text(run.cpu_mean_millicores)}, memory {bytes_text(run.memory_peak_bytes)}"
    exit_text = "" if run.exit_code is None else f", exit {run.exit_code}"
    line = (_label("run"), Span(f"{harmless(run.run)}  "), Span(f"{took}; ", Tone.DIM), Span(f"{used}{exit_text}"))
    if run.memory_at_kill_bytes is None:
        return line
    return (*line, Span(f"; killed for want of memory at {bytes_text(run.memory_at_kill_bytes)}", Tone.NOTE))


def _start_lines(container: ContainerBody) -> Iterator[Line]:
    """Return what is known of its starts, which count nowhere else."""
    if not container.starts:
        return
    took = [start.duration_seconds for start in container.starts]
    used = [start.cpu_largest_millicores for start in container.starts if start.cpu_largest_millicores is not None]
    span = age_text(min(took)) if min(took) == max(took) else f"{age_text(min(took))} to {age_text(max(took))}"
    text = f"the last {counted(len(took), 'start')} took {span}"
    if used:
        text += f" and used at most {millicores_text(round(max(used)))}"
    boost = "too few to boost the next by"
    if container.start_cpu_millicores is not None:
        boost = f"the next needs {millicores_text(container.start_cpu_millicores)}"
    yield (_label("starts"), Span(text), Span(f"; {boost}; left out of all other figures", Tone.DIM))


def _statistics_lines(statistics: StatisticsBody) -> Iterator[Line]:
    """Return the percentiles of all pods' samples, and how far apart pods and nodes are."""
    for label, signal, text in (
        ("CPU", statistics.cpu, millicores_text),
        (
            "CPU + waits",
            statistics.cpu_adjusted if statistics.cpu_adjusted != statistics.cpu else None,
            millicores_text,
        ),
        ("memory", statistics.memory, bytes_text),
    ):
        if signal is None:
            continue
        amounts = signal.p50, signal.p75, signal.p95, signal.p99, signal.max
        shown = zip(("P50", "P75", "P95", "P99", "max"), amounts, strict=True)
        yield (
            _label(label),
            Span("  ".join(f"{name} {text(amount)}" for name, amount in shown)),
            Span(f"   {counted(signal.samples, 'sample')} of all pods, {statistics.hours}h", Tone.DIM),
        )
    spreads = (
        (f"means of {counted(statistics.pods, 'pod')}", statistics.pod_cpu_millicores, statistics.pod_memory_bytes),
        ("P75 by nodes", statistics.node_cpu_millicores, statistics.node_memory_bytes),
    )
    parts = [
        f"{what} {' and '.join(ranges)}"
        for what, cpu, memory in spreads
        if (ranges := [*_range(cpu, millicores_text), *_range(memory, bytes_text)])
    ]
    if parts:
        yield (_label("spread"), Span("; ".join(parts), Tone.DIM))


def _range(spread: SpreadBody | None, text: Callable[[float | None], str]) -> Iterator[str]:
    if spread is not None:
        yield f"{text(spread.least)} to {text(spread.largest)}"


def _course(
    hours: Sequence[HourBody],
    label: str,
    value: Callable[[HourBody], int | None],
    text: Callable[[float | None], str],
    room: int,
    glyphs: Glyphs,
) -> Iterator[Line]:
    """Draw the newest hours as a sparkline, one cell an hour; hours without a figure are holes."""
    if not hours:
        return
    by_hour = {hour_body.unix_hour: value(hour_body) for hour_body in hours}
    last = max(by_hour)
    first = max(min(by_hour), last - room + 1)
    course = [by_hour.get(hour) for hour in range(first, last + 1)]
    known = [amount for amount in course if amount is not None]
    if not known:
        return
    yield (
        _label(label),
        Span(sparkline(course, glyphs.spark), Tone.ACCENT),
        Span(f" {len(course)}h, {text(min(known))} to {text(max(known))}", Tone.DIM),
    )


def _side_lines(side: SideBody) -> Iterator[Line]:
    place = f"node {side.node}" if side.node is not None else f"on {side.instance_type or 'nodes'} of {side.cpus} CPUs"
    base = f"P75 {millicores_text(side.cpu_base_millicores)}, {bytes_text(side.memory_base_bytes)}"
    yield (
        _label(""),
        Span(f"{harmless(place)}: {counted(side.pods, 'pod')}, {base}", Tone.DIM),
        Span(f", newest {age_text(side.newest_age_seconds)} ago", Tone.DIM),
    )
    kills = sum(kill.count for kill in side.kills)
    if kills:
        newest = min(kill.age_seconds for kill in side.kills)
        yield (_label(""), Span(f"{counted(kills, 'out-of-memory kill')}, the newest {age_text(newest)} ago", Tone.HOT))


def _label(text: str) -> Span:
    return Span(f"  {text:<{_LABEL}}", Tone.DIM)


def policy_lines(workload: WorkloadBody, *, width: int, glyphs: Glyphs) -> Iterator[Line]:
    """Return what applies to a workload, a line each, with where it comes from."""
    for line in _policy_lines(workload):
        yield clip_line(line, width, ellipsis=glyphs.ellipsis)


def _policy_lines(workload: WorkloadBody) -> Iterator[Line]:
    yield (Span(harmless(f"{workload.kind} {workload.namespace}/{workload.name}"), Tone.TITLE),)
    applies = workload.applies
    rows: list[tuple[str, str, str]] = [
        ("mode", applies.mode.value or "-", applies.mode.source),
        ("policy", applies.policy.value or "-", applies.policy.source),
        *(() if applies.share is None else (("share", applies.share.value or "-", applies.share.source),)),
        *(() if applies.windows is None else _windows(applies.windows)),
        ("pause", applies.pause.value or "no", applies.pause.source),
        *((bound.name, bound.value, bound.source) for bound in applies.bounds),
        *(
            ("" if number else "profile", f"{setting.name} {setting.value}", setting.source)
            for number, setting in enumerate(applies.profile)
        ),
        ("HPA", *_held("CPU", applies.cpu_frozen_for, applies.cpu_frozen_containers, applies.cpu_preserved)),
        ("", *_held("memory", applies.memory_frozen_for, applies.memory_frozen_containers, applies.memory_preserved)),
        ("VPA", "left alone" if applies.left_alone_for else "none", applies.left_alone_for or ""),
        ("running", "not known" if applies.replicas is None else counted(applies.replicas, "pod"), ""),
    ]
    if applies.share_taken_back is not None:
        rows.append(("taken back", f"share {applies.share_taken_back}", applies.share_taken_back_for or ""))
    if applies.stop_shrinking_seconds is not None:
        why = applies.stop_shrinking_for or "an out-of-memory kill"
        rows.append(("shrinking", f"not for {age_text(applies.stop_shrinking_seconds)}", why))
    for label, value, source in rows:
        yield (_label(label), Span(f"{harmless(value):<16} "), Span(harmless(source), Tone.DIM))
    if applies.rules_fault is not None:
        yield (_label("rules"), Span(harmless(applies.rules_fault), Tone.HOT))
    yield (Span("  a pod's own annotations win over mode, policy and bounds", Tone.DIM),)


def _windows(windows: FromBody) -> Iterator[tuple[str, str, str]]:
    """Return each window by itself: together they are longer than a line."""
    for number, part in enumerate((windows.value or "-").strip(" ;").split(";")):
        yield ("", part.strip(), "") if number else ("windows", part.strip(), windows.source)


def _held(axis: str, holder: str | None, containers: Sequence[str] | None, preserved: str | None) -> tuple[str, str]:
    if holder is None:
        return f"{axis} free", ""
    if preserved is not None:
        return f"{axis} followed", f"{preserved} ({holder})"
    whose = "" if containers is None else f" of {', '.join(containers)}"
    return f"{axis}{whose} frozen", holder
