"""What is in a recording, whatever policy may be asked about it: span, units, rates, gaps.

Node. Values; reads the recording chunk by chunk and holds no more than a row of each unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from agent.core.recommender.unit_names import called
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import Status
from agent.core.window.snapshot import Gap
from agent.core.window.steps import PAIR_GAPS, cpu_steps
from agent.node.files.documents import Document
from agent.node.offline.recording import Recording
from agent.node.offline.recording_format import STAMPS, RowKind, Rows, gap_policy

NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitContents:
    """One unit of a recording."""

    name: str
    cgroup_path: str
    begun_unix_seconds: float | None
    """Of its oldest sample; None = it has none."""
    ended_unix_seconds: float | None
    is_gone: bool
    """It had gone before the end."""
    samples: int
    rate_hz: float | None
    """Samples a second from its oldest to its newest; None with fewer than two."""
    gaps: Mapping[Gap, int]
    """Samples and neighbouring pairs that give no rate, by reason."""
    memory_rows: int
    minutes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """All of a recording."""

    name: str
    program: str
    node: str
    cpus: int
    source: str
    begun_unix_seconds: float
    ended_unix_seconds: float
    interval_seconds: float
    file_bytes: int
    samples: int
    histories: int
    """Keys of the history that it took along."""
    history_begun_unix_seconds: float | None
    """Start of the oldest minute of the history; None = there is none."""
    history_minutes: int
    """Minutes with anything known of any key."""
    oom_kills: int
    units: tuple[UnitContents, ...]
    notes: tuple[str, ...]


CONTENTS: Final = Document(Contents, "recording-contents", 1)
"""What ``replay FILE -o json`` prints."""


@dataclass(slots=True)
class _Count:
    samples: int = 0
    memory_rows: int = 0
    minutes: int = 0
    first_ns: int | None = None
    last_ns: int = 0
    gaps: Counter[Gap] = field(default_factory=Counter)
    last_good: Rows | None = None


def contents_of(recording: Recording, on_progress: Callable[[float], None]) -> Contents:
    """Read through a recording."""
    manifest = recording.manifest
    counts = [_Count() for _ in manifest.units]
    policy = gap_policy(manifest)
    for number in range(len(manifest.row_chunks)):
        for unit, rows in recording.rows(number, RowKind.RAW):
            _count_samples(counts[unit], rows, policy)
        for unit, rows in recording.rows(number, RowKind.MEMORY):
            counts[unit].memory_rows += rows.size
        for unit, rows in recording.rows(number, RowKind.MINUTES):
            counts[unit].minutes += rows.size
        on_progress((number + 1) / len(manifest.row_chunks))
    history = recording.history()
    wall = manifest.wall_offset_seconds
    units = [
        UnitContents(
            name=called(unit.facts[-1].identity),
            cgroup_path=unit.facts[-1].identity.cgroup_path,
            begun_unix_seconds=None if count.first_ns is None else count.first_ns / NS + wall,
            ended_unix_seconds=None if count.first_ns is None else count.last_ns / NS + wall,
            is_gone=unit.gone_monotonic_ns is not None,
            samples=count.samples,
            rate_hz=_rate_hz(count),
            gaps=dict(count.gaps),
            memory_rows=count.memory_rows,
            minutes=count.minutes,
        )
        for unit, count in zip(manifest.units, counts, strict=True)
    ]
    return Contents(
        name=recording.path.name,
        program=manifest.program,
        node=manifest.node,
        cpus=manifest.cpus,
        source=manifest.source,
        begun_unix_seconds=manifest.begun_unix_seconds,
        ended_unix_seconds=manifest.ended_unix_seconds,
        interval_seconds=manifest.interval_seconds,
        file_bytes=recording.path.stat().st_size,
        samples=sum(count.samples for count in counts),
        histories=len(manifest.histories),
        history_begun_unix_seconds=float(history.unix_minutes[0] * 60) if history.unix_minutes.size else None,
        history_minutes=history.unix_minutes.size,
        oom_kills=len(manifest.kills),
        units=tuple(sorted(units, key=lambda unit: (unit.name, unit.begun_unix_seconds or 0.0))),
        notes=manifest.notes,
    )


def _count_samples(count: _Count, rows: Rows, policy: WindowPolicy) -> None:
    stamps = rows[STAMPS[RowKind.RAW]]
    count.samples += rows.size
    count.first_ns = int(stamps[0]) if count.first_ns is None else count.first_ns
    count.last_ns = int(stamps[-1])
    # The pair across two chunks belongs to both; the older row is known to be good.
    pieces = [rows] if count.last_good is None else [count.last_good, rows]
    steps = cpu_steps(pieces, policy, until_ns=count.last_ns)
    if steps.gap_code is not None:
        numbers = np.bincount(steps.gap_code, minlength=len(PAIR_GAPS) + 1)[1:].tolist()
        count.gaps.update({gap: number for gap, number in zip(PAIR_GAPS, numbers, strict=True) if number})
    parse = int(steps.failed_parse.sum())
    count.gaps.update(+Counter({Gap.PARSE: parse, Gap.READ_FAILED: steps.failed_ns.size - parse}))
    good = rows[rows["status"] == Status.OK]
    if good.size:
        count.last_good = good[-1:].copy()


def _rate_hz(count: _Count) -> float | None:
    if count.first_ns is None or count.last_ns <= count.first_ns:
        return None
    return (count.samples - 1) * NS / (count.last_ns - count.first_ns)
