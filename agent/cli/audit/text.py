"""How an audit looks: lines for people, JSON for programs. Face, pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from textwrap import wrap
from typing import Final

from agent.cli.text.figures import ABSENT, bytes_text, counted, millicores_text
from agent.cli.text.spans import Line, Span, Tone, clip, harmless, pad
from agent.core.cluster.pod import Partition
from agent.core.machine.audit_report import (
    CGROUP,
    AuditReport,
    Finding,
    FindingSubject,
    Sandbox,
    StaleOomScore,
    formulas,
)
from agent.core.machine.cgroup_files import CPU_MAX, CPU_WEIGHT, HUGETLB_PREFIX, MEMORY_OOM_GROUP, PIDS_MAX, CgroupLevel
from agent.core.machine.comparison import State, Target, Weights
from agent.core.machine.cpu_knobs import CpuMax

JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]

_MARKS: Final = {State.EQUAL: " ", State.DRIFTED: "!", State.NOT_THERE: "!", State.UNKNOWN: "?"}
_TONES: Final = {
    State.EQUAL: Tone.PLAIN,
    State.DRIFTED: Tone.HOT,
    State.NOT_THERE: Tone.HOT,
    State.UNKNOWN: Tone.NOTE,
}
_WIDTHS: Final = (18, 9, 22, 22)
"""Of value, state, expected and found; with the difference a line of a real finding has about 90 cells."""
_TITLES: Final = ("VALUE", "STATE", "EXPECTED", "FOUND", "DIFFERENCE")
_INDENT: Final = " " * 6
_PIPE_WIDTH: Final = 100
"""Where lists of names are folded when nobody says how wide the terminal is."""
_BYTE_FILES: Final = ("memory.max", "memory.min", "memory.low", "memory.high")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What was audited."""

    node: str | None
    """None = every pod of the file, of whatever node."""
    pods: int
    pods_file: str
    mount: str
    kubepods_path: str | None
    driver: str | None
    notes: tuple[str, ...] = ()


def audit_lines(report: AuditReport, heading: Heading, *, width: int | None, show_all: bool) -> list[Line]:
    """Lay an audit out for a person.

    Paths are cut to ``width`` cells, None = nothing is cut. Without ``show_all`` values that are equal share one line.
    """
    lines: list[Line] = [_heading_line(heading)]
    lines += [(Span(f"note: {note}", Tone.NOTE),) for note in heading.notes]
    lines += [(), (Span("    " + _columns(_TITLES).rstrip(), Tone.TITLE),)]
    for _, pod in groupby(report.findings, key=_group_key):
        for subject, values in groupby(pod, key=_subject_key):
            lines += _subject_lines(subject, list(values), width, show_all=show_all)
    lines += _beside_lines(report, width)
    lines += [(), *_summary_lines(report, show_all=show_all)]
    return lines


def _heading_line(heading: Heading) -> Line:
    whose = f"node {harmless(heading.node)}" if heading.node is not None else "all nodes"
    where = f"{heading.mount}{heading.kubepods_path}" if heading.kubepods_path else f"{heading.mount}, no kubepods"
    driver = f" (driver {heading.driver})" if heading.driver else ""
    return (
        Span(f"{counted(heading.pods, 'pod')} of {harmless(heading.pods_file)}, {whose}, {where}{driver}", Tone.DIM),
    )


def _group_key(finding: Finding) -> tuple[object, ...]:
    subject = finding.subject
    return (subject.pod_uid,) if subject.pod_uid is not None else (subject.level, subject.partition, subject.qos)


def _subject_key(finding: Finding) -> FindingSubject:
    """Return the subject without its path: a pod's class stands beside its cgroup's values."""
    return replace(finding.subject, path=None)


def _subject_lines(
    subject: FindingSubject, findings: list[Finding], width: int | None, *, show_all: bool
) -> list[Line]:
    path = next((finding.subject.path for finding in findings if finding.subject.path is not None), None)
    name, aside = _title(subject, path)
    room = max(20, width - len(name) - 4) if width is not None else None
    shown = harmless(aside) if room is None else clip(harmless(aside), room, keep_end=True)
    is_container = subject.level is CgroupLevel.CONTAINER
    lines: list[Line] = [] if is_container else [()]
    tone = Tone.PLAIN if is_container else Tone.TITLE
    lines.append((Span("  " if is_container else ""), Span(name, tone), Span(f"  {shown}", Tone.DIM)))
    equal = [finding for finding in findings if finding.state is State.EQUAL]
    for finding in findings:
        if show_all or finding.state is not State.EQUAL:
            lines += _value_lines(finding)
    if equal and not show_all:
        lines += [
            (Span(part, Tone.DIM),)
            for text in _equal_texts(equal)
            for part in wrap(
                text, width or _PIPE_WIDTH, initial_indent="    ", subsequent_indent=_INDENT, break_long_words=False
            )
        ]
    return lines


def _title(subject: FindingSubject, path: str | None) -> tuple[str, str]:
    where = path or "no cgroup"
    if subject.level is CgroupLevel.CONTAINER:
        return f"container {harmless(subject.container or ABSENT)}", _short_id(subject.container_id)
    if subject.level is CgroupLevel.POD:
        qos = f" ({subject.qos})" if subject.qos is not None else ""
        return f"{harmless(subject.namespace or '')}/{harmless(subject.pod or '')}{qos}", where
    system = "system/" if subject.partition is Partition.SYSTEM else ""
    if subject.level is CgroupLevel.TIER and subject.qos is not None:
        return f"tier {system}{subject.qos.lower()}", where
    return (f"partition {subject.partition}" if subject.level is CgroupLevel.PARTITION else "kubepods"), where


def _short_id(container_id: str | None) -> str:
    return container_id[:12] if container_id is not None else "no id"


def _columns(texts: tuple[str, ...]) -> str:
    *padded, last = texts
    return " ".join([*(pad(text, width, to_right=False) for text, width in zip(padded, _WIDTHS, strict=True)), last])


def _value_lines(finding: Finding) -> Iterator[Line]:
    texts = (
        finding.file,
        finding.state,
        target_text(finding.file, finding.expected),
        target_text(finding.file, finding.found),
        difference_text(finding),
    )
    tone = _TONES[finding.state]
    yield (Span(f"  {_MARKS[finding.state]} {_columns(texts).rstrip()}", tone),)
    if finding.note is not None:
        yield (Span(f"{_INDENT}{harmless(finding.note)}", Tone.DIM),)
    if finding.writer is not None:
        yield (Span(f"{_INDENT}next written by: {finding.writer}", Tone.DIM),)


def _equal_texts(findings: list[Finding]) -> Iterator[str]:
    names = [finding.file for finding in findings if finding.file != CGROUP]
    if names:
        yield f"{len(names)} equal: {', '.join(names)}"
    for finding in findings:
        if finding.note is not None:
            what = "no cgroup, as should be" if finding.file == CGROUP else finding.file
            yield f"{what}: {harmless(finding.note)}"


def _beside_lines(report: AuditReport, width: int | None) -> Iterator[Line]:
    titled: list[tuple[str, list[str]]] = [
        (
            "in no status (sandboxes, or started since the pods file was written)",
            [*map(_sandbox_text, report.sandboxes)],
        ),
        ("not in the pods file", [cgroup.path for cgroup in report.strangers]),
        (
            "resized since they started: oom_score_adj stays until a restart (the higher, the sooner killed)",
            [*map(_oom_score_text, report.oom_scores)],
        ),
    ]
    for title, texts in titled:
        if texts:
            yield ()
            yield (Span(f"{title}: {len(texts)}", Tone.TITLE),)
            for text in texts:
                shown = harmless(text)
                yield (Span("  " + (shown if width is None else clip(shown, width - 2, keep_end=True)), Tone.DIM),)


def _oom_score_text(stale: StaleOomScore) -> str:
    subject, score = stale.subject, stale.score
    whose = f"{subject.namespace}/{subject.pod} {subject.container}"
    return f"{whose}  {score.found}, a restart gives {score.after_restart}"


def _sandbox_text(sandbox: Sandbox) -> str:
    subject = sandbox.subject
    return f"{subject.namespace}/{subject.pod}  {_short_id(subject.container_id)}"


def _summary_lines(report: AuditReport, *, show_all: bool) -> Iterator[Line]:
    counts = ", ".join(f"{report.count(state)} {state}" for state in State)
    yield (Span(counts, Tone.TITLE if report.is_clean else Tone.HOT),)
    counts_by_formula = formulas(report)
    if counts_by_formula:
        texts = ", ".join(f"{count} {formula}" for formula, count in sorted(counts_by_formula.items()))
        yield (Span(f"cpu.weight of containers by formula: {texts}", Tone.DIM),)
    if not show_all and report.count(State.EQUAL):
        yield (Span("--all gives a line to each value that is equal", Tone.DIM),)


# Values


def target_text(file: str, target: Target | str | None) -> str:
    """Return a value for people."""
    if target is None:
        return ABSENT if file != CGROUP else "none"
    if isinstance(target, Weights):
        if target.quadratic is None or target.quadratic == target.linear:
            return str(target.linear)
        return f"{target.linear} or {target.quadratic}"
    if isinstance(target, CpuMax):
        limit = target.millicores
        return "max" if limit is None else f"{millicores_text(limit)} ({target.quota_usec}/{target.period_usec})"
    if isinstance(target, int):
        return bytes_text(target) if _is_bytes(file) else str(target)
    return harmless(str(target)) if file != CGROUP else clip(harmless(str(target)), _WIDTHS[3], keep_end=True)


def difference_text(finding: Finding) -> str:
    """Return the difference with its unit and sign; of a weight that is equal the formula it follows."""
    difference = finding.difference
    if difference is None:
        return str(finding.formula) if finding.formula is not None else ""
    sign = "-" if difference < 0 else "+"
    if finding.file == CPU_MAX:
        return f"{sign}{millicores_text(abs(difference))}" if difference else "other period"
    return sign + (bytes_text(abs(difference)) if _is_bytes(finding.file) else f"{abs(difference):.0f}")


def _is_bytes(file: str) -> bool:
    return file in _BYTE_FILES or file.startswith(HUGETLB_PREFIX)


# JSON


def audit_json(report: AuditReport, heading: Heading) -> dict[str, JsonValue]:
    """Return an audit for programs: all fields, units in their names."""
    return {
        "pods_file": heading.pods_file,
        "node": heading.node,
        "pods": heading.pods,
        "cgroup_mount": heading.mount,
        "kubepods_path": heading.kubepods_path,
        "driver": heading.driver,
        "notes": list(heading.notes),
        "summary": {state.replace(" ", "_"): report.count(state) for state in State},
        "container_weight_formulas": {str(formula): count for formula, count in sorted(formulas(report).items())},
        "findings": [_finding_json(finding) for finding in report.findings],
        "sandboxes": [_subject_json(sandbox.subject) for sandbox in report.sandboxes],
        "oom_scores": [
            {
                **_subject_json(stale.subject),
                "found_oom_score_adj": stale.score.found,
                "after_restart_oom_score_adj": stale.score.after_restart,
            }
            for stale in report.oom_scores
        ],
        "not_in_pods_file": [
            {"pod_uid": cgroup.pod_uid, "qos_class": cgroup.qos, "cgroup_path": cgroup.path}
            for cgroup in report.strangers
        ],
    }


def _subject_json(subject: FindingSubject) -> dict[str, JsonValue]:
    return {
        "level": subject.level,
        "partition": subject.partition,
        "qos_class": subject.qos,
        "namespace": subject.namespace,
        "pod": subject.pod,
        "pod_uid": subject.pod_uid,
        "container": subject.container,
        "container_id": subject.container_id,
        "cgroup_path": subject.path,
    }


def _finding_json(finding: Finding) -> dict[str, JsonValue]:
    unit = _unit(finding.file)
    return {
        **_subject_json(finding.subject),
        "value": finding.file,
        "state": finding.state.replace(" ", "_"),
        "expected": _kernel_text(finding.expected),
        "found": _kernel_text(finding.found),
        **_numbers_json("expected", finding.file, finding.expected),
        **_numbers_json("found", finding.file, finding.found),
        **({} if unit is None else {f"difference_{unit}": finding.difference}),
        **({"formula": finding.formula} if finding.file == CPU_WEIGHT else {}),
        "note": finding.note,
        "next_writer": finding.writer,
    }


def _unit(file: str) -> str | None:
    if _is_bytes(file):
        return "bytes"
    return {CPU_MAX: "millicores", CPU_WEIGHT: "weight", PIDS_MAX: "pids", MEMORY_OOM_GROUP: "flag"}.get(file)


def _kernel_text(target: Target | str | None) -> str | None:
    """Return a value as the kernel's file has it; of a weight the linear one."""
    if isinstance(target, Weights):
        return str(target.linear)
    if isinstance(target, CpuMax):
        return f"{'max' if target.quota_usec is None else target.quota_usec} {target.period_usec}"
    return None if target is None else str(target)


def _numbers_json(side: str, file: str, target: Target | str | None) -> dict[str, JsonValue]:
    """Return the numbers of a value; null = no limit, or no value: the text beside them tells which."""
    if isinstance(target, Weights):
        return {f"{side}_weight_linear": target.linear, f"{side}_weight_quadratic": target.quadratic}
    if isinstance(target, CpuMax):
        return {
            f"{side}_quota_usec": target.quota_usec,
            f"{side}_period_usec": target.period_usec,
            f"{side}_millicores": target.millicores,
        }
    unit = _unit(file)
    return {} if unit is None else {f"{side}_{unit}": target if isinstance(target, int) else None}
