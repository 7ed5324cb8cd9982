"""``plimsoll simulate``: replays traces through policies and tells which would have served best."""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.options.policy_options import add_policy_options, policy_names
from agent.cli.options.settings_options import add_options, fail, settings_from
from agent.cli.text.output_files import OutputError, check_output, put_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.cli.simulate.text import SimulatedTrace
    from agent.cli.text.spans import Line, Tone
    from agent.cli.top.look import TerminalLook
    from agent.core.recommender.simulation.figures import PolicyTotal
    from agent.core.recommender.simulation.replay import ReplayRules
    from agent.settings import Settings

_MINUTE_SECONDS = 60
_ROW = "row"
_NEVER = "never"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    from agent.core.orders.policy_options import PolicyName

    all_policies = ",".join(PolicyName)
    parser.usage = "%(prog)s [OPTION ...] TRACE [TRACE ...]"  # all options are a page of their own
    parser.add_argument(
        "traces",
        nargs="+",
        metavar="TRACE",
        type=Path,
        help="CSV, JSON Lines (both also .gz) or Parquet with the columns time, container, cpu_millicores, "
        "memory_bytes and, if known, psi (share of time waiting for CPU, 0..1); or a recording (plimsoll record)",
    )
    parser.add_argument(
        "--policy",
        metavar="NAMES",
        type=policy_names,
        default=all_policies,
        help=f"policies to compare, separated by commas (default: {all_policies})",
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a report with plots as one HTML page, too")
    parser.add_argument(
        "--csv",
        metavar="FILE",
        type=Path,
        help="write every figure of every container, of their sum and of the node as CSV, too",
    )
    rules = parser.add_argument_group("rules", "how the agent acts in the simulation")
    rules.add_argument(
        "--cpu-request", metavar="QUANTITY", type=_millicores, help="every CPU request at the start (default: none)"
    )
    rules.add_argument(
        "--memory-request", metavar="QUANTITY", type=_bytes, help="every memory request at the start (default: none)"
    )
    rules.add_argument(
        "--memory-limit-ratio",
        metavar="RATIO",
        type=_limit_ratio,
        default=1.0,
        help="memory limit as a multiple of the request, where the policy names no limit (default: 1, as the limit is "
        "advised to be the request, since memory cannot be taken back)",
    )
    rules.add_argument(
        "--decision-interval",
        metavar="SECONDS",
        type=_interval,
        default=float(_MINUTE_SECONDS),
        help="time between two decisions, in whole minutes from a container's first on, such as 5m or 1h; or "
        "row: at the end of each of its rows, in whole minutes (default: 60). A change smaller than "
        "--bounds-smallest-change-ratio (0.05 = 5 %%) is not made",
    )
    rules.add_argument(
        "--reaction",
        metavar="DURATION",
        type=_reaction,
        default=None,
        help="how soon a container that uses more CPU than its request is given what it uses, as urgent growth does: "
        "seconds, 2s, 1m, 1h or never (default: never). plimsoll then asks for less, at sizing.priceInPlace, as on a "
        "node. Judged in the trace's own rows, down to seconds",
    )
    rules.add_argument(
        "--warm-up",
        metavar="SECONDS",
        type=_seconds,
        default=0.0,
        help="each container's first so many seconds are lived through and not judged (default: 0)",
    )
    rules.add_argument(
        "--shrink-interval",
        metavar="SECONDS",
        type=_seconds,
        help="with --reaction, falls of CPU under a policy that asks for less then (plimsoll) come once in so long at "
        "most; 0 = with each decision (default: act.shrinkIntervalSeconds, 3600)",
    )
    rules.add_argument(
        "--shrink-after-growth",
        metavar="SECONDS",
        type=_seconds,
        help="least time between a growth by --reaction and such a fall; --cool-down holds all the same (default: "
        "act.shrinkAfterGrowthSeconds, 10800)",
    )
    rules.add_argument(
        "--shrink-ratio",
        metavar="RATIO",
        type=_share,
        help="such a fall by a smaller share of the request is not made (default: act.shrinkRatio, 0.3)",
    )
    rules.add_argument(
        "--cool-down",
        metavar="SECONDS",
        type=_seconds,
        default=300.0,
        help="least time between a container's last change and a fall of its request (default: 300)",
    )
    add_options(parser)
    add_policy_options(parser)


def _millicores(text: str) -> int:
    return _amount(text, per_unit=1000, allowed="a quantity above 0 such as 250m or 1.5", most=10**9)


def _bytes(text: str) -> int:
    return _amount(text, per_unit=1, allowed="a quantity above 0 such as 256Mi", most=1 << 53)


def _amount(text: str, *, per_unit: int, allowed: str, most: int) -> int:
    from agent.core.numbers.quantity import QuantityError, parse_quantity
    from agent.core.numbers.units import NANOS_PER_UNIT

    try:
        amount = -(-parse_quantity(text) * per_unit // NANOS_PER_UNIT)
    except QuantityError:
        amount = 0
    if not 0 < amount <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: {allowed}")
    return amount


def _limit_ratio(text: str) -> float:
    return _number(text, least=1.0, most=100.0, allowed="a number from 1 to 100")


def _seconds(text: str) -> float:
    return _duration(text, least=0.0, most=7 * 86_400.0, allowed="0 s to 7 days such as 300, 300s, 5m or 1h")


def _share(text: str) -> float:
    return _number(text, least=0.0, most=1.0, allowed="a number from 0 to 1")


def _interval(text: str) -> float | None:
    """Parse whole minutes in seconds; None = each row."""
    if text == _ROW:
        return None
    allowed = f"whole minutes from 60 s to 1 day such as 60, 5m or 1h, or {_ROW}"
    seconds = _duration(text, least=_MINUTE_SECONDS, most=86_400.0, allowed=allowed)
    if seconds % _MINUTE_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: {allowed}")
    return seconds


def _reaction(text: str) -> float | None:
    """Parse a duration of up to a day; None = never."""
    if text == _NEVER:
        return None
    return _duration(text, least=0.0, most=86_400.0, allowed=f"0 s to 1 day such as 2s, 60s, 1m or 60, or {_NEVER}")


def _duration(text: str, *, least: float, most: float, allowed: str) -> float:
    """Parse seconds, or a number with s, m or h behind it."""
    unit = {"s": 1, "m": 60, "h": 3600}.get(text[-1:])
    if unit is None:
        return _number(text, least=least, most=most, allowed=allowed)
    return unit * _number(text[:-1], least=least / unit, most=most / unit, allowed=allowed, said=text)


def _number(text: str, *, least: float, most: float, allowed: str, said: str | None = None) -> float:
    """Parse a number; ``said`` is what the person wrote where ``text`` is a part of it."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(f"{said or text!r} is not allowed; allowed: {allowed}")
    return number


def run(arguments: argparse.Namespace) -> int:
    """Replay all traces, then tell."""
    from agent.cli.simulate.runs import SimulationError
    from agent.cli.simulate.text import report_json, rules_text
    from agent.cli.simulate.trace_files import TraceFileError
    from agent.cli.top.terminal import look_from, write_json
    from agent.core.recommender.simulation.figures import total

    settings = settings_from(arguments)
    rules = rules_from(arguments, settings)
    for flag, path in _outputs(arguments):
        try:
            check_output(path)
        except OutputError as error:
            fail(f"simulate: {flag} {error}")
    try:
        simulated = [_simulate(path, arguments, settings, rules) for path in arguments.traces]
    except TraceFileError as error:
        fail(f"simulate: {error}")
    except SimulationError as error:
        print(f"plimsoll simulate: {error}", file=sys.stderr)
        return 3
    alls = [total([trace.outcomes[index] for trace in simulated]) for index in range(len(simulated[0].outcomes))]
    if arguments.output == "json":
        write_json(report_json(simulated, alls, rules))
    else:
        _print_table(simulated, alls, rules_text(rules, settings.bounds), look_from(arguments))
    for flag, path in _outputs(arguments):
        try:
            put_output(path, _page(flag, simulated, alls, rules, settings).encode("utf-8"))
        except OutputError as error:  # the table is told all the same
            print(f"plimsoll simulate: {flag} {error}", file=sys.stderr)
            return 3
    return 0


def _outputs(arguments: argparse.Namespace) -> list[tuple[str, Path]]:
    """Return the files that are asked for beside the table, each with its flag."""
    asked = (("--html", arguments.html), ("--csv", arguments.csv))
    return [(flag, path) for flag, path in asked if path is not None]


def _page(
    flag: str, simulated: Sequence[SimulatedTrace], alls: Sequence[PolicyTotal], rules: ReplayRules, settings: Settings
) -> str:
    if flag == "--csv":
        from agent.cli.simulate.csv_rows import csv_page

        return csv_page(simulated, alls, rules)
    from agent.cli.simulate.html import page
    from agent.cli.simulate.text import rules_text

    return page(simulated, alls, rules_text(rules, settings.bounds))


def rules_from(arguments: argparse.Namespace, settings: Settings) -> ReplayRules:
    """Return how the agent acts: from the command line and the settings."""
    from agent.core.recommender.simulation.replay import ReplayRules

    windows, act = settings.windows, settings.act
    return ReplayRules(
        decision_interval_seconds=arguments.decision_interval,
        cool_down_seconds=arguments.cool_down,
        min_span_seconds=settings.recommend.min_span_seconds,
        cpu_window_seconds=windows.cpu_window_seconds,
        memory_window_seconds=windows.memory_window_seconds,
        percentile=windows.percentile,
        max_gap_ratio=windows.max_gap_ratio,
        cpu_request_millicores=arguments.cpu_request,
        memory_request_bytes=arguments.memory_request,
        memory_limit_ratio=arguments.memory_limit_ratio,
        reaction_seconds=arguments.reaction,
        warm_up_seconds=arguments.warm_up,
        shrink_interval_seconds=_given(arguments.shrink_interval, act.shrink_interval_seconds),
        shrink_after_growth_seconds=_given(arguments.shrink_after_growth, act.shrink_after_growth_seconds),
        shrink_ratio=_given(arguments.shrink_ratio, act.shrink_ratio),
        headroom=settings.plan.headroom,
    )


def _given(flag: float | None, setting: float) -> float:
    return setting if flag is None else flag


def _simulate(path: Path, arguments: argparse.Namespace, settings: Settings, rules: ReplayRules) -> SimulatedTrace:
    from agent.cli.simulate.runs import simulate_policies
    from agent.cli.simulate.text import SimulatedTrace
    from agent.cli.simulate.trace_files import load_trace
    from agent.cli.text.progress import progress
    from agent.cli.text.spans import harmless
    from agent.core.recommender.simulation.figures import usage_course

    name = harmless(path.name)
    with progress(sys.stderr, f"reading {name}") as bar:
        trace = load_trace(path, on_progress=bar.show)
    with progress(sys.stderr, f"simulating {name}") as bar:
        outcomes = simulate_policies(trace, arguments.policy, settings, rules, on_progress=bar.show)
    return SimulatedTrace(
        path=str(path),
        notes=trace.notes,
        cpu_minutes=int(trace.has_cpu.sum()),
        memory_minutes=int(trace.has_memory.sum()),
        usage=usage_course(trace, outcomes[0].course.stretch_minutes),
        outcomes=tuple(outcomes),
    )


def _print_table(
    simulated: Sequence[SimulatedTrace], alls: Sequence[PolicyTotal], rules: str, look: TerminalLook
) -> None:
    from agent.cli.simulate.text import comparison_lines, front_text, series_lines, span_text
    from agent.cli.text.spans import Span, Tone, harmless
    from agent.cli.top.terminal import write_lines
    from agent.core.recommender.simulation.figures import total

    lines: list[Line] = []
    for trace in simulated:
        lines.append((Span(harmless(trace.path), Tone.TITLE),))
        lines += wrapped(span_text(trace), look.width)
        for note in trace.notes:
            lines += wrapped(f"note: {note}", look.width, Tone.NOTE)
        lines.append(())
        lines += comparison_lines([total((outcome,)) for outcome in trace.outcomes])
        each = series_lines(trace.outcomes)
        lines += [(), *each] if each else []
        lines.append(())
    if len(simulated) > 1:
        lines.append((Span(f"all {len(simulated)} traces", Tone.TITLE),))
        lines += comparison_lines(alls)
        lines.append(())
    front = front_text(alls)
    if front is not None:
        lines += wrapped(front, look.width)
    lines += wrapped(f"rules: {rules}", look.width)
    write_lines(lines, has_colour=look.has_colour)


def wrapped(text: str, width: int, tone: Tone | None = None) -> list[Line]:
    """Break a sentence into lines of the terminal's width."""
    from agent.cli.text.spans import Span, Tone

    return [(Span(line, tone or Tone.PLAIN),) for line in textwrap.wrap(text, width)]
