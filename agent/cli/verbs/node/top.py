"""``plimsoll top``: a live table of pods and containers, from a running agent or, without one, by sampling itself."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from agent.cli.client.agent import SOCKET_OPTIONS
from agent.cli.options.row_options import add_filter_options, add_look_options, filter_text
from agent.cli.options.settings_options import CGROUP_OPTIONS, add_options, fail, settings_from
from agent.cli.options.shutdown import Stop
from agent.cli.options.unit_filter import FilterError, parse_filter
from agent.cli.top.navigation import OLDEST_SECONDS
from agent.cli.top.screen import live_table
from agent.cli.top.sources import SnapshotSource, SourceError, socket_source
from agent.cli.top.terminal import LiveOptions, find_terminal, print_page, write_text
from agent.cli.top.view import SortKey, ViewState, select_units, sort_rows, unit_row
from agent.cli.words.moments import age_argument
from agent.core.window.snapshot import Snapshot, UnitStatus

_FIRST_FIGURES_SECONDS = 3.0
"""How long ``--once`` waits for the first rates when it samples by itself: three ticks."""
_FIRST_FIGURES_STEP_SECONDS = 0.1
_LEAST_INTERVAL_SECONDS = 0.1
_MOMENTS = 'now, "90s ago", "10m ago", "1h30m ago", or an ISO time such as 2026-11-21T14:05:00Z'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("--once", action="store_true", help="print one table and exit; in a pipe this is the default")
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json", "csv", "openmetrics"),
        help="print once in this format; json and csv have one record per container, with units in the names",
    )
    parser.add_argument(
        "--at", metavar="TIME", type=_moment, default=0.0, help=f"a moment of the last 24 h: {_MOMENTS}"
    )
    parser.add_argument(
        "--self", action="store_true", dest="samples_itself", help="sample in this process even if an agent runs"
    )
    parser.add_argument(
        "--interval", metavar="SECONDS", type=_interval, default=1.0, help="time between two updates (default: 1)"
    )
    add_view_options(parser)
    add_options(parser, CGROUP_OPTIONS, SOCKET_OPTIONS)
    parser.epilog = "Exit code: 0 shown, 1 no snapshot, 2 bad input."


def add_view_options(parser: argparse.ArgumentParser) -> None:
    """Declare what shapes the table, the same for ``top`` and ``run``."""
    parser.add_argument(
        "--sort",
        choices=[key.value for key in SortKey],
        default=SortKey.CPU.value,
        help="largest first, names from A to Z, unknown values last (default: cpu)",
    )
    parser.add_argument("--reverse", action="store_true", help="reverse the order")
    add_filter_options(parser)
    parser.add_argument(
        "--limit", metavar="N", type=_count, default=0, help="print at most N rows; 0 = all (default: 0)"
    )
    parser.add_argument(
        "--pods-only",
        action="store_false",
        dest="is_expanded",
        help="hide the containers below their pods (key e)",
    )
    add_look_options(parser)


def view_state_from(arguments: argparse.Namespace) -> ViewState:
    """Return the view asked for; a filter that cannot be understood is one line on stderr and code 2."""
    text = filter_text(arguments)
    try:
        parse_filter(text)
    except FilterError as error:
        fail(str(error))
    return ViewState(
        sort=SortKey(arguments.sort),
        is_reversed=arguments.reverse,
        filter_text=text,
        is_expanded=arguments.is_expanded,
    )


def live_options_from(arguments: argparse.Namespace) -> LiveOptions:
    """Return the live table asked for; ``--interval`` of ``top`` is its rhythm, ``run`` has that of its sampling."""
    return LiveOptions(
        state=view_state_from(arguments),
        use_colour=not arguments.no_color,
        width=arguments.width,
        limit=arguments.limit,
    )


def run(arguments: argparse.Namespace) -> int:
    """Show the node."""
    options = replace(live_options_from(arguments), interval_seconds=arguments.interval)
    asked_once = bool(arguments.once or arguments.output is not None or arguments.at > 0)
    terminal = find_terminal(sys.stdout, os.environ, use_colour=options.use_colour)
    try:
        with _open_source(arguments) as source:
            if not asked_once and terminal.is_interactive:
                return live_table(source, options)
            snapshot = source(arguments.at)
    except SourceError as error:
        print(f"plimsoll top: {error}", file=sys.stderr)
        return 1
    if arguments.output in (None, "table"):
        print_page(snapshot, options.state, options, terminal)
        return 0
    from agent.cli.top.formats import csv_text, json_text, openmetrics_text

    write: dict[str, Callable[[Snapshot], str]] = {
        "json": json_text,
        "csv": csv_text,
        "openmetrics": openmetrics_text,
    }
    write_text(write[arguments.output](chosen_part(snapshot, options.state, limit=options.limit)))
    return 0


def chosen_part(snapshot: Snapshot, state: ViewState, *, limit: int) -> Snapshot:
    """Return the snapshot with the units that are chosen, and of the pods those that have one; all if all are."""
    units = chosen_units(snapshot, state, limit=limit)
    if len(units) == len(snapshot.units):
        return replace(snapshot, units=units)
    uids = {unit.identity.pod_uid for unit in units}
    pods = tuple(pod for pod in snapshot.pods if pod.whole.identity.pod_uid in uids)
    return replace(snapshot, units=units, pods=pods)


def chosen_units(snapshot: Snapshot, state: ViewState, *, limit: int) -> tuple[UnitStatus, ...]:
    """Return the units that filter and limit leave, in the order of the sort; containers are not grouped by pod."""
    by_path = {unit.identity.cgroup_path: unit for unit in select_units(snapshot, state.filter_text)}
    rows = sort_rows((unit_row(unit) for unit in by_path.values()), state.sort, is_reversed=state.is_reversed)
    ordered = tuple(by_path[row.unit_path] for row in rows if row.unit_path is not None)
    return ordered[:limit] if limit else ordered


# Sources


@contextlib.contextmanager
def _open_source(arguments: argparse.Namespace) -> Iterator[SnapshotSource]:
    """Open the agent's socket, or this process's own sampling where no agent answers or ``--self`` was said."""
    from agent.node.sockets.control import ControlError, NoAgent, request

    settings = settings_from(arguments)
    socket_path = settings.serving.socket
    socket_was_named = getattr(arguments, "setting serving.socket", None) is not None
    if arguments.samples_itself and socket_was_named:
        fail("--self and --socket together: one asks an agent, the other asks none; allowed: one of them")
    if not arguments.samples_itself and socket_path is not None:
        source = socket_source(socket_path)
        try:
            request(socket_path, "ping", {})
        except NoAgent as error:
            if socket_was_named:
                raise SourceError(str(error)) from error
            _refuse_past(arguments)
            print(f"plimsoll top: no agent at {socket_path}; sampling here", file=sys.stderr)
        except ControlError as error:
            raise SourceError(str(error)) from error
        else:
            _refuse_own_sampling_options(arguments)
            yield source
            return
    _refuse_past(arguments)
    with self_source(arguments) as source_here:
        yield source_here


def _refuse_past(arguments: argparse.Namespace) -> None:
    if arguments.at > 0:
        raise SourceError(
            "--at needs a running agent: sampling in this process begins only now; start an agent with plimsoll run"
        )


def _refuse_own_sampling_options(arguments: argparse.Namespace) -> None:
    """Leave with code 2 where options are given that only sampling in this process can honour: an agent has its own."""
    given = [option.flag for option in CGROUP_OPTIONS if getattr(arguments, f"setting {option.key}", None) is not None]
    if given:
        fail(
            f"{', '.join(given)}: the running agent answers by its own settings; "
            "add --self, or set them where the agent is started"
        )


@contextlib.contextmanager
def self_source(arguments: argparse.Namespace) -> Iterator[SnapshotSource]:
    """Sample in this process, in memory only: beside a running agent it neither reads nor touches its rings."""
    from agent.cli.options.startup import started
    from agent.node.assembly import Watch

    settings = settings_from(arguments)
    settings = replace(settings, state=replace(settings.state, directory=None))
    with started(lambda: Watch(settings, source="self")) as watch:
        wait_for_first_figures(watch.snapshot, threading.Event())
        yield watch.snapshot


def wait_for_first_figures(source: SnapshotSource, stop: Stop) -> None:
    """Wait until some unit and the node have a rate, which takes two readings; not for ever: there may be no unit."""
    deadline = time.monotonic() + _FIRST_FIGURES_SECONDS
    while time.monotonic() < deadline:
        snapshot = source(0.0)
        has_rate = any(unit.cpu.last_usage_millicores is not None for unit in snapshot.units)
        if has_rate and snapshot.node.cpu_usage_millicores is not None:
            return
        if stop.wait(_FIRST_FIGURES_STEP_SECONDS):
            return


# Arguments


def _count(text: str) -> int:
    return int(_number(text, least=0, words="a whole number, 0 = all", whole=True))


def _moment(text: str) -> float:
    seconds = age_argument(text)
    if seconds > OLDEST_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is too long ago; allowed: up to 24h; plimsoll why NAME --since 7d --plot goes further back"
        )
    return seconds


def _interval(text: str) -> float:
    return _number(text, least=_LEAST_INTERVAL_SECONDS, words=f"seconds from {_LEAST_INTERVAL_SECONDS} to 3600")


def _number(text: str, *, least: float, words: str, whole: bool = False) -> float:
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        value = -1.0
    if not least <= value <= (1_000_000 if whole else 3600):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: {words}")
    return value
