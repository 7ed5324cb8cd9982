"""``make bench-policies``: every policy on real traces through the product's simulator; tables in markdown.

The traces are those of ../shared/traces (public data sets; see its README), or of the directory in PLIMSOLL_TRACES. The
tables go to stdout, to build/bench-policies.md and, between their two marks, into agent/README.md; every figure of
every series to build/bench-policies.csv. ``--node`` runs only the part about nodes (``tests.bench.nodes``). A share of
an instance is taken as one of 4 cores, a share of a memory limit as one of 8 GiB.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.cli.simulate.csv_rows import csv_page
from agent.cli.simulate.runs import simulate_policies
from agent.cli.simulate.text import JUDGED, SimulatedTrace, judged_cells
from agent.core.numbers.units import GIB
from agent.core.orders.policy_options import PolicyName
from agent.core.recommender.simulation.figures import PolicyTotal, SimulatedResourceTotal, total, usage_course
from agent.core.recommender.simulation.replay import ReplayRules
from agent.core.recommender.simulation.trace import TraceSet
from agent.core.recommender.simulation.trace_builder import TraceBuilder, TraceRows
from agent.settings.sections import Settings
from tests.bench.nodes import LEGEND, node_lines

ROOT: Final = Path(__file__).parents[2]
RESULT: Final = ROOT / "build" / "bench-policies.md"
README: Final = ROOT / "agent" / "README.md"
BEGIN: Final = "<!-- bench-policies: written by make bench-policies -->"
END: Final = "<!-- bench-policies: end -->"
NODE_BEGIN: Final = "<!-- bench-node: written by make bench-policies, alone with ARGS=--node -->"
NODE_END: Final = "<!-- bench-node: end -->"
MACHINE_CORES: Final = 4
MEMORY_LIMIT_GIB: Final = 8
WEEK_SECONDS: Final = 604_800
_OF_ONE_PERCENT: Final = MACHINE_CORES * 1000 / 100
_WARM_DAY_SECONDS: Final = 86_400.0
_WARM_MEMORY_SECONDS: Final = 7200.0
"""The memory series are shorter than a day."""
_NONE: Final = (("", None),)
_REACTIONS: Final = (("", None), (", reaction 60 s", 60.0), (", reaction 2 s", 2.0))
_LEGEND: Final = (
    "Slack and deficit are shares of what was used, risk is the share of the time above the request, changes are those "
    "of one container. Decisions are made from the past alone, each hour or minute of a series; a change below 5 % is "
    "not made, a request falls no sooner than 300 s after a change, the first day of each series (two hours of memory) "
    "is not judged, all options have their defaults. With a reaction, who is short of CPU gets what it uses so much "
    "later."
)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cadence:
    """One way of acting: a column of the tables."""

    title: str
    rules: ReplayRules


def cadences(warm_up_seconds: float, reactions: Sequence[tuple[str, float | None]]) -> list[Cadence]:
    """Return hourly decisions and those of each minute, with each of the reactions."""
    return [
        Cadence(
            title=f"{cadence}{reaction}",
            rules=ReplayRules(
                decision_interval_seconds=interval, warm_up_seconds=warm_up_seconds, reaction_seconds=seconds
            ),
        )
        for cadence, interval in (("hourly", 3600.0), ("each minute", 60.0))
        for reaction, seconds in reactions
    ]


def run(trace: TraceSet, cadence: Cadence) -> SimulatedTrace:
    """Run every policy over a trace, with all defaults, in the order of ``PolicyName``."""
    outcomes = simulate_policies(trace, list(PolicyName), Settings(), cadence.rules, on_progress=lambda _: None)
    return SimulatedTrace(
        path=f"{trace.name} {cadence.title}",
        notes=trace.notes,
        cpu_minutes=int(trace.has_cpu.sum()),
        memory_minutes=int(trace.has_memory.sum()),
        usage=usage_course(trace, outcomes[0].course.stretch_minutes),
        outcomes=tuple(outcomes),
    )


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _four(resource: SimulatedResourceTotal) -> str:
    return " / ".join(judged_cells(resource))


def cpu_lines(trace: TraceSet, cadences: Sequence[Cadence], runs: Sequence[SimulatedTrace]) -> Iterator[str]:
    """Give the blocks of CPU: all series under each cadence, the node, then each series at the first cadence."""
    days = trace.has_cpu.sum() / 1440
    yield f"CPU, {len(trace.containers)} series, {days:.0f} days in all; 100 % taken as {MACHINE_CORES} cores:"
    yield ""
    yield from _table(cadences, runs, lambda policy_total: _four(policy_total.cpu))
    yield ""
    yield "The same series as if they were one node: set aside and not used / share of time short / deficit, of used:"
    yield ""
    yield from _table(cadences, runs, lambda policy_total: " / ".join(judged_cells(policy_total.node_cpu)[:3]))
    yield ""
    yield f"Each series, {cadences[0].title}:"
    yield ""
    outcomes = runs[0].outcomes
    yield _line("series", "days", *(f"`{outcome.policy}`" for outcome in outcomes))
    yield _line(*["---"] * (2 + len(outcomes)))
    for row, name in enumerate(trace.containers):
        figures = (_four(outcome.cpu.of(row)) for outcome in outcomes)
        yield _line(name, f"{trace.has_cpu[:, row].sum() / 1440:.0f}", *figures)


def memory_lines(trace: TraceSet, cadences: Sequence[Cadence], runs: Sequence[SimulatedTrace]) -> Iterator[str]:
    """Give the block of memory."""
    hours = trace.minutes / 60
    yield (
        f"Memory, {len(trace.containers)} containers, {hours:.0f} h; 100 % taken as {MEMORY_LIMIT_GIB} GiB; after the "
        "four the would-be out-of-memory kills:"
    )
    yield ""
    yield from _table(cadences, runs, lambda policy_total: f"{_four(policy_total.memory)}; {policy_total.kills:,}")


def _table(
    cadences: Sequence[Cadence], runs: Sequence[SimulatedTrace], cell: Callable[[PolicyTotal], str]
) -> Iterator[str]:
    yield _line("policy", *(cadence.title for cadence in cadences))
    yield _line(*["---"] * (1 + len(cadences)))
    for place, outcome in enumerate(runs[0].outcomes):
        yield _line(f"`{outcome.policy}`", *(cell(total([each.outcomes[place]])) for each in runs))


def with_tables(readme: str, tables: str, marks: tuple[str, str] = (BEGIN, END)) -> str:
    """Return the page with the tables between their two marks.

    Raises:
        TracesError: The marks are not there.
    """
    before, begin, rest = readme.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not begin or not end:
        raise TracesError(f"no marks {marks[0]} and {marks[1]} in {README}")
    return f"{before}{begin}\n{tables}\n{end}{after}"


def _write(tables: str, marks: tuple[str, str]) -> None:
    README.write_text(with_tables(README.read_text(encoding="utf-8"), tables, marks), encoding="utf-8")
    sys.stdout.write(tables)


def _run_nodes(cpu: TraceSet) -> None:
    _write("\n".join([*textwrap.wrap(LEGEND, 120), "", *node_lines(cpu), ""]), (NODE_BEGIN, NODE_END))


def main(words: Sequence[str] = ()) -> int:
    """Run; 0 done, 2 the traces or the marks are not there."""
    parser = argparse.ArgumentParser(prog="bench-policies", description=__doc__)
    parser.add_argument("--node", action="store_true", help="only the part about nodes")
    is_node_only = parser.parse_args(words).node
    try:
        directory = traces_directory()
        cpu, memory = cpu_trace(directory), memory_trace(directory)
        for marks in ((BEGIN, END), (NODE_BEGIN, NODE_END)):
            with_tables(README.read_text(encoding="utf-8"), "", marks)
    except TracesError as error:
        print(f"bench-policies: {error}", file=sys.stderr)
        return 2
    if is_node_only:
        _run_nodes(cpu)
        return 0
    cpu_cadences, memory_cadences = cadences(_WARM_DAY_SECONDS, _REACTIONS), cadences(_WARM_MEMORY_SECONDS, _NONE)
    cpu_runs = [run(cpu, cadence) for cadence in cpu_cadences]
    memory_runs = [run(memory, cadence) for cadence in memory_cadences]
    lines = [
        *textwrap.wrap(f"Each cell: {' / '.join(JUDGED)}. {_LEGEND}", 120),
        "",
        *cpu_lines(cpu, cpu_cadences, cpu_runs),
        "",
        *memory_lines(memory, memory_cadences, memory_runs),
        "",
    ]
    text = "\n".join(lines)
    pages = [
        csv_page((each,), (), cadence.rules)
        for each, cadence in zip(cpu_runs + memory_runs, cpu_cadences + memory_cadences, strict=True)
    ]
    rows = pages[0] + "".join(page.partition("\n")[2] for page in pages[1:])
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(text, encoding="utf-8")
    RESULT.with_suffix(".csv").write_text(rows, encoding="utf-8")
    _write(text, (BEGIN, END))
    _run_nodes(cpu)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
