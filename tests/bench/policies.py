"""``make bench-policies``: every policy on real traces through the product's simulator; a table in markdown.

The traces are those of ../shared/traces (public data sets; see its README), or of the directory in PLIMSOLL_TRACES. The
table goes to stdout and build/bench-policies.md. A share of an instance is taken as one of 4 cores, a share of a memory
limit as one of 8 GiB.
"""

from __future__ import annotations

import csv
import gzip
import os
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.cli.simulate.runs import simulate_policies
from agent.core.numbers.units import GIB
from agent.core.orders.policy_options import PolicyName
from agent.core.recommender.simulation.figures import PolicyTotal, SimulatedOutcome, SimulatedResourceTotal, total
from agent.core.recommender.simulation.replay import ReplayRules
from agent.core.recommender.simulation.trace import TraceSet
from agent.core.recommender.simulation.trace_builder import TraceBuilder, TraceRows
from agent.settings.sections import Settings

ROOT: Final = Path(__file__).parents[2]
RESULT: Final = ROOT / "build" / "bench-policies.md"
MACHINE_CORES: Final = 4
MEMORY_LIMIT_GIB: Final = 8
WEEK_SECONDS: Final = 604_800
_OF_ONE_PERCENT: Final = MACHINE_CORES * 1000 / 100
_RULES: Final = ReplayRules()


class TracesError(Exception):
    """The traces cannot be used; the message is one line."""


def traces_directory() -> Path:
    """Find the real traces.

    Raises:
        TracesError: They are not there.
    """
    directory = Path(os.environ.get("PLIMSOLL_TRACES") or ROOT.parent / "shared" / "traces")
    if not directory.is_dir():
        raise TracesError(f"no real traces in {directory}; PLIMSOLL_TRACES names another directory")
    return directory


def cpu_trace(directory: Path) -> TraceSet:
    """Read the CPU series side by side: each is moved by whole weeks into the weeks after the earliest's first minute.

    So one run replays them all, and every hour of the day and of the week stays what it was.

    Raises:
        TracesError: There are none, or one has no ``timestamp`` or ``value`` where one is due.
    """
    paths = sorted(directory.glob("cpu/*.csv"))
    if not paths:
        raise TracesError(f"no CPU traces in {directory / 'cpu'}")
    series = [(_series_name(path), *_cpu_series(path)) for path in paths]
    start = min(times[0] for _, times, _ in series)
    moved = [times - (times[0] - start) // WEEK_SECONDS * WEEK_SECONDS for _, times, _ in series]
    names = [name for name, times, _ in series for _ in range(times.size)]
    return _built(
        directory / "cpu", np.concatenate(moved), names, cpu=np.concatenate([values for _, _, values in series])
    )


def _series_name(path: Path) -> str:
    return path.stem.replace("cpu_utilization_", "")


def _cpu_series(path: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return Unix seconds and millicores."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
        times = [datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC).timestamp() for row in rows]
        percents = [float(row["value"]) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise TracesError(f"{path}: a row is not timestamp,value: {error!r}") from error
    if not rows:
        raise TracesError(f"{path}: it has no rows")
    return np.array(times), np.array(percents) * _OF_ONE_PERCENT


def memory_trace(directory: Path) -> TraceSet:
    """Read the memory series of all containers.

    Raises:
        TracesError: They are not there, or a row is wrong.
    """
    path = directory / "memory" / "genai_serving_2026_subset.csv.gz"
    if not path.exists():
        raise TracesError(f"no memory trace {path}")
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
        times = np.array([float(row["timestamp"]) for row in rows])
        names = [row["container"] for row in rows]
        ratios = np.array([float(row["memory_ratio"]) for row in rows])
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise TracesError(f"{path}: a row is not timestamp,container,memory_ratio: {error!r}") from error
    return _built(path, times, names, memory=ratios * MEMORY_LIMIT_GIB * GIB)


def _built(
    path: Path,
    times: NDArray[np.float64],
    containers: Sequence[str],
    *,
    cpu: NDArray[np.float64] | None = None,
    memory: NDArray[np.float64] | None = None,
) -> TraceSet:
    """Lay rows on minutes by the rules of ``plimsoll simulate``."""
    order = np.argsort(times, kind="stable")
    nothing = np.zeros(times.size)
    no, yes = np.zeros(times.size, np.bool_), np.ones(times.size, np.bool_)
    builder = TraceBuilder(path.name)
    try:
        builder.add(
            TraceRows(
                time_seconds=times[order],
                containers=[containers[index] for index in order.tolist()],
                cpu_millicores=nothing if cpu is None else cpu[order],
                has_cpu=no if cpu is None else yes,
                memory_bytes=nothing if memory is None else memory[order],
                has_memory=no if memory is None else yes,
                psi=nothing,
                has_psi=no,
            )
        )
        return builder.build()
    except ValueError as error:
        raise TracesError(f"{path}: {error}") from error


def outcomes(trace: TraceSet) -> list[SimulatedOutcome]:
    """Run every policy over a trace, with all defaults, in the order of ``PolicyName``."""
    return simulate_policies(trace, list(PolicyName), Settings(), _RULES, on_progress=lambda _: None)


def _share(ratio: float | None, digits: int = 1) -> str:
    return "-" if ratio is None else f"{100 * ratio:.{digits}f} %"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(one: SimulatedResourceTotal) -> tuple[str, ...]:
    return (
        _share(one.slack_ratio),
        f"{one.unused_amount_hours:.1f}",
        f"{one.under_minutes:,} ({_share(one.under_ratio, 2)})",
        f"{one.missing_amount_hours:.2f}",
        f"{one.resizes:,}",
    )


def _reaction(one: PolicyTotal) -> str:
    steps = one.steps
    if steps.median_minutes is None:
        return "-"
    return f"{steps.covered} of {steps.steps}, {steps.median_minutes:g} (at most {steps.max_minutes}) min"


def cpu_lines(trace: TraceSet, runs: Sequence[SimulatedOutcome]) -> Iterator[str]:
    """Give the blocks of CPU: all series, then each."""
    days = trace.has_cpu.sum() / 1440
    yield f"CPU, {len(trace.containers)} series, {days:.0f} days in all; 100 % taken as {MACHINE_CORES} cores:"
    yield ""
    yield _line(
        "policy",
        "slack",
        "slack, core-hours",
        "minutes under-requested",
        "missing, core-hours",
        "resizes",
        "steps covered after",
    )
    yield _line(*["---"] * 7)
    for run in runs:
        one = total([run])
        yield _line(f"`{run.policy}`", *_cells(one.cpu), _reaction(one))
    yield ""
    yield "Each series: slack in core-hours; minutes under-requested; resizes:"
    yield ""
    yield _line("series", "days", *(f"`{run.policy}`" for run in runs))
    yield _line(*["---"] * (2 + len(runs)))
    for row, name in enumerate(trace.containers):
        figures = (
            f"{run.cpu.unused_amount_hours[row]:.1f}; {run.cpu.under_minutes[row]:,}; {run.cpu.resizes[row]:,}"
            for run in runs
        )
        yield _line(name, f"{trace.has_cpu[:, row].sum() / 1440:.0f}", *figures)


def memory_lines(trace: TraceSet, runs: Sequence[SimulatedOutcome]) -> Iterator[str]:
    """Give the block of memory."""
    hours = trace.minutes / 60
    yield f"Memory, {len(trace.containers)} containers, {hours:.0f} h; 100 % taken as {MEMORY_LIMIT_GIB} GiB:"
    yield ""
    yield _line(
        "policy",
        "slack",
        "slack, GiB-hours",
        "minutes under-requested",
        "resizes",
        "runs of minutes over the limit",
        "would-be out-of-memory kills",
    )
    yield _line(*["---"] * 7)
    for run in runs:
        one = total([run])
        slack, hours_unused, under, _, resizes = _cells(one.memory)
        yield _line(
            f"`{run.policy}`", slack, hours_unused, under, resizes, f"{one.over_limit_excursions}", f"{one.kills}"
        )


def main() -> int:
    """Run; 0 done, 2 the traces are not there."""
    try:
        directory = traces_directory()
        cpu, memory = cpu_trace(directory), memory_trace(directory)
    except TracesError as error:
        print(f"bench-policies: {error}", file=sys.stderr)
        return 2
    interval, cool_down = _RULES.decision_interval_seconds, _RULES.cool_down_seconds
    lines = [
        f"Decisions each {interval:g} s, falls not sooner than {cool_down:g} s after a change, all defaults.",
        "Slack is what was requested and not used, as a share of what was requested.",
        "",
        *cpu_lines(cpu, outcomes(cpu)),
        "",
        *memory_lines(memory, outcomes(memory)),
        "",
    ]
    text = "\n".join(lines)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
