"""A Snapshot for machines: ``-o json``, ``-o csv``, ``-o openmetrics``.

Face. Pure. Every name carries its unit. A figure that is not there is null in JSON, an empty cell with its reason in
the column ``missing`` in CSV, and no sample at all in OpenMetrics.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

from agent.cli.text.csv_text import csv_table
from agent.cli.text.spans import harmless
from agent.core.cluster.unit import UnitIdentity, UnitResources
from agent.core.window.snapshot import CpuWindow, MemoryWindow, Snapshot, UnitAdvice, UnitStatus
from agent.metrics.container_series import SERIES_PER_CONTAINER, ContainerPage, to_container_series
from agent.node.files.documents import SNAPSHOT


def json_text(snapshot: Snapshot) -> str:
    """Return the snapshot as the socket gives it, indented; ASCII, so no name can steer a terminal."""
    return json.dumps(SNAPSHOT.to_json(snapshot), indent=2, allow_nan=False) + "\n"


# CSV

_IDENTITY_FIELDS = tuple(field.name for field in fields(UnitIdentity))
_RESOURCE_FIELDS = tuple(field.name for field in fields(UnitResources))
_CPU_FIELDS = tuple(field.name for field in fields(CpuWindow) if field.name not in ("gaps", "missing"))
_MEMORY_FIELDS = tuple(field.name for field in fields(MemoryWindow) if field.name != "missing")
CSV_HEADER: tuple[str, ...] = (
    "taken_unix_seconds",
    "at_age_seconds",
    "node",
    *_IDENTITY_FIELDS,
    *_RESOURCE_FIELDS,
    "recommended_policy",
    "recommended_cpu_request_millicores",
    "recommended_cpu_withheld",
    "recommended_memory_request_bytes",
    "recommended_memory_withheld",
    "cpu_max_millicores",
    "memory_max_bytes",
    "sample_age_seconds",
    *(f"cpu_{name}" for name in _CPU_FIELDS),
    "cpu_gaps",
    *(f"memory_{name}" for name in _MEMORY_FIELDS),
    "missing",
)


def csv_text(snapshot: Snapshot) -> str:
    """Return one line per unit under a line of names."""
    return csv_table(CSV_HEADER, (_cells(snapshot, unit) for unit in snapshot.units))


def _cells(snapshot: Snapshot, unit: UnitStatus) -> list[object]:
    cpu, memory = unit.cpu, unit.memory
    reasons = [f"cpu_{name}={reason.value}" for name, reason in cpu.missing.items()]
    reasons += [f"memory_{name}={reason.value}" for name, reason in memory.missing.items()]
    row: list[object] = [snapshot.taken_unix_seconds, snapshot.at_age_seconds, snapshot.node.name]
    row += [getattr(unit.identity, name) for name in _IDENTITY_FIELDS]
    row += [getattr(unit.resources, name) for name in _RESOURCE_FIELDS]
    row += _advice_cells(unit.advice)
    row += [unit.cpu_max_millicores, unit.memory_max_bytes, unit.sample_age_seconds]
    row += [getattr(cpu, name) for name in _CPU_FIELDS]
    row.append(" ".join(f"{gap.value}={count}" for gap, count in cpu.gaps.items()))
    row += [getattr(memory, name) for name in _MEMORY_FIELDS]
    row.append(" ".join(reasons))
    return row


def _advice_cells(advice: UnitAdvice | None) -> list[object]:
    if advice is None:
        return [None] * 5
    return [
        advice.policy,
        advice.cpu_request_millicores,
        advice.cpu_withheld,
        advice.memory_request_bytes,
        advice.memory_withheld,
    ]


# OpenMetrics


@dataclass(frozen=True, slots=True)
class _Family:
    name: str
    unit: str
    help: str
    figure: Callable[[UnitStatus], float | None]


def _cores(millicores: float | None) -> float | None:
    return None if millicores is None else millicores / 1000


_MOMENT_FAMILIES: tuple[_Family, ...] = (
    _Family(
        "plimsoll_container_cpu_last_usage_cores",
        "cores",
        "CPU use between the two newest readings.",
        lambda unit: _cores(unit.cpu.last_usage_millicores),
    ),
    _Family(
        "plimsoll_container_cpu_waiting_ratio",
        "ratio",
        "Share of the CPU window in which some task waited for a CPU, own throttling taken out.",
        lambda unit: unit.cpu.waiting_ratio,
    ),
    _Family(
        "plimsoll_container_cpu_throttled_ratio",
        "ratio",
        "Throttled time per second of the CPU window, at most 1.",
        lambda unit: unit.cpu.throttled_ratio,
    ),
    _Family(
        "plimsoll_container_memory_last_working_set_bytes",
        "bytes",
        "Working set of the newest reading.",
        lambda unit: unit.memory.working_set_bytes,
    ),
    _Family(
        "plimsoll_container_sample_age_seconds",
        "seconds",
        "Age of the newest good reading at the moment of the snapshot.",
        lambda unit: unit.sample_age_seconds,
    ),
)
"""What a scrape page does not have: figures of one moment, of use in a text that is looked at once."""


def openmetrics_text(snapshot: Snapshot) -> str:
    """Return the snapshot in OpenMetrics 1.0, base units, ``# EOF`` at the end.

    The families of the agent's own page come first, written by the same code; the counters among them are left out, as
    a snapshot holds windows and no totals. Labels are those of that page, except that a cgroup outside of pods whose
    name another one has too goes by its whole path. Of two cgroups of one container (the old one lingers after a
    restart) the one read last is given.
    """
    labelled = _labelled_units(snapshot.units)
    series = [replace(to_container_series(unit), labels=labels) for labels, unit in labelled.items()]
    page = ContainerPage(max_series=SERIES_PER_CONTAINER * max(1, len(series)))
    text, _ = page.render(series, openmetrics=True)
    lines = [*_node_lines(snapshot), *text.splitlines()]
    for family in _MOMENT_FAMILIES:
        lines += _family_head(family.name, family.unit, family.help)
        for labels, unit in labelled.items():
            value = family.figure(unit)
            if value is not None:
                lines.append(f"{family.name}{{{_label_text(labels)}}} {value!r}")
    lines.append("# EOF")
    return "\n".join(lines) + "\n"


_Labels = tuple[str, str, str]


def _labelled_units(units: Sequence[UnitStatus]) -> dict[_Labels, UnitStatus]:
    chosen: dict[_Labels, UnitStatus] = {}
    for unit in units:
        labels = _labels(unit)
        if labels in chosen and not labels[1]:
            labels = (labels[0], labels[1], harmless(unit.identity.cgroup_path))
        if labels not in chosen or _age_seconds(unit) < _age_seconds(chosen[labels]):
            chosen[labels] = unit
    return chosen


def _age_seconds(unit: UnitStatus) -> float:
    return float("inf") if unit.sample_age_seconds is None else unit.sample_age_seconds


def _labels(unit: UnitStatus) -> _Labels:
    namespace, pod, container = to_container_series(unit).labels
    return (harmless(namespace), harmless(pod), harmless(container))


def _label_text(labels: _Labels) -> str:
    # harmless() has spelt newlines out; backslashes and quotes are left
    namespace, pod, container = (text.replace("\\", "\\\\").replace('"', '\\"') for text in labels)
    return f'namespace="{namespace}",pod="{pod}",container="{container}"'


def _node_lines(snapshot: Snapshot) -> list[str]:
    node = snapshot.node
    gauges: tuple[tuple[str, str, str, float | None], ...] = (
        ("plimsoll_node_cpu_usage_cores", "cores", "CPU use of the machine.", _cores(node.cpu_usage_millicores)),
        ("plimsoll_node_cpus", "", "CPUs of the machine.", node.cpus),
        ("plimsoll_node_memory_total_bytes", "bytes", "Memory of the machine.", node.memory_total_bytes),
        (
            "plimsoll_node_memory_available_bytes",
            "bytes",
            "Memory to be had without swapping.",
            node.memory_available_bytes,
        ),
    )
    lines: list[str] = []
    for name, unit, text, value in gauges:
        lines += _family_head(name, unit, text)
        lines += [] if value is None else [f"{name} {value!r}"]
    name = "plimsoll_node_pressure_ratio"
    lines += _family_head(name, "ratio", "Share of time lost to waiting (PSI).")
    for resource, kind, ratio in (
        ("cpu", "some", node.cpu_waiting_ratio),
        ("memory", "some", node.memory_waiting_ratio),
        ("memory", "full", node.memory_stalled_ratio),
        ("io", "some", node.io_waiting_ratio),
        ("io", "full", node.io_stalled_ratio),
    ):
        if ratio is not None:
            lines.append(f'{name}{{resource="{resource}",kind="{kind}"}} {ratio!r}')
    return lines


def _family_head(name: str, unit: str, text: str) -> list[str]:
    return [f"# TYPE {name} gauge", *([f"# UNIT {name} {unit}"] if unit else []), f"# HELP {name} {text}"]
