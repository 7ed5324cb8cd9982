"""``plimsoll run``: the whole agent on this machine, with a live table in front; ``--demo`` gives it loads to watch."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import threading
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.cli.options.settings_options import (
    CGROUP_OPTIONS,
    SAMPLING_OPTIONS,
    SERVING_OPTIONS,
    add_options,
    fail,
    settings_from,
)
from agent.cli.options.shutdown import Ending
from agent.cli.top.screen import live_table
from agent.cli.top.terminal import HUNG_UP, LiveOptions, find_terminal, is_terminal_gone, let_go_of_terminal
from agent.cli.verbs.node.top import add_view_options, live_options_from, wait_for_first_figures

if TYPE_CHECKING:
    from agent.core.window.snapshot import Snapshot
    from agent.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "--demo",
        action="store_true",
        help="make a kubelet-like tree of real cgroups with real loads, watch it with short windows, and remove it on "
        "exit (needs root)",
    )
    parser.add_argument("--for", dest="for_seconds", metavar="SECONDS", type=_seconds, help="end after so many seconds")
    add_view_options(parser)
    add_options(parser, CGROUP_OPTIONS, SAMPLING_OPTIONS, SERVING_OPTIONS)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; allowed: seconds above 0, such as 30")
    return seconds


def _demo_settings(arguments: argparse.Namespace) -> Settings:
    """Return the settings of a demo: it has short windows, and leaves port and socket to an agent that runs here.

    Raises:
        SystemExit: An option that a demo cannot honour; one line, code 2.
    """
    from agent.cli.demo.tree import SETTINGS
    from agent.node.sockets.control import ControlError, NoAgent, request

    own = ("cgroup.root", "podsFile")
    given = [
        option.flag
        for option in CGROUP_OPTIONS
        if option.key in own and getattr(arguments, f"setting {option.key}", None)
    ]
    if given:
        fail(f"{', '.join(given)} with --demo: it watches the tree it makes; allowed: one without the other")
    settings = settings_from(
        arguments, serving__port="0", **{key.replace(".", "__"): value for key, value in SETTINGS.items()}
    )
    if settings.serving.socket is not None and getattr(arguments, "setting serving.socket", None) is None:
        try:
            request(settings.serving.socket, "ping", {})
        except NoAgent:
            return settings
        except ControlError:
            pass  # somebody is there, and in no mood to answer
        settings = replace(settings, serving=replace(settings.serving, socket=None))
    return settings


def run(arguments: argparse.Namespace) -> int:
    """Watch until the person quits, Ctrl-C, SIGTERM, SIGHUP, or ``--for`` has passed.

    Returns:
        0, of Ctrl-C too once a table is shown; 128 and the signal's number of any other signal, and before that.
    """
    settings = _demo_settings(arguments) if arguments.demo else settings_from(arguments)
    with Ending(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as ending:
        options = replace(live_options_from(arguments), stop=ending)
        is_shown = _show(settings, options, ending, demo=arguments.demo, for_seconds=arguments.for_seconds)
    if ending.number is None or (is_shown and ending.number is signal.SIGINT):
        return 0
    return 128 + ending.number


def _show(settings: Settings, options: LiveOptions, ending: Ending, *, demo: bool, for_seconds: float | None) -> bool:
    """Begin all and show it until the end; return whether it came as far as to a table."""
    from agent.cli.options.startup import started
    from agent.node import log_format as logs
    from agent.node.daemon import Agent

    is_screen = find_terminal(sys.stdout, os.environ, use_colour=options.use_colour).is_interactive
    held = io.StringIO()
    with ExitStack() as stack:
        if is_screen:
            # A line on stderr would be drawn over the screen: what goes wrong is told when the screen is gone.
            stack.callback(lambda: _tell(held.getvalue()))
        logs.setup("warning", "text", held if is_screen else None)
        more_notes = _demo_notes(settings) if demo else ()
        if demo:
            settings = _with_demo(settings, stack)
        if ending.is_set():
            return False
        agent = stack.enter_context(started(lambda: Agent(settings, source="demo" if demo else "agent")))
        print(f"plimsoll: metrics at {agent.metrics_url}", file=sys.stderr)
        for note in (*more_notes, *agent.watch.notes.sentences()):
            print(f"plimsoll: {note}", file=sys.stderr)
        if for_seconds is not None:
            timer = threading.Timer(for_seconds, ending.end)
            timer.daemon = True
            timer.start()
            stack.callback(timer.cancel)

        def snapshot(at_age_seconds: float) -> Snapshot:
            agent_snapshot = agent.watch.snapshot(at_age_seconds)
            return replace(agent_snapshot, notes=(*more_notes, *agent_snapshot.notes))

        if not is_screen:
            wait_for_first_figures(snapshot, ending)  # a first table full of dashes tells nothing
        if ending.is_set():
            return False
        if live_table(snapshot, options) == HUNG_UP:
            ending.end(signal.SIGHUP)  # as where the signal comes
        return True


def _tell(text: str) -> None:
    if is_terminal_gone(2):
        let_go_of_terminal()
    print(text, end="", file=sys.stderr)


def _demo_notes(settings: Settings) -> tuple[str, ...]:
    from agent.cli.demo.tree import shorter_times_note

    note = shorter_times_note(settings, usual=type(settings)())
    return () if note is None else (note,)


def _with_demo(settings: Settings, stack: ExitStack) -> Settings:
    from agent.cli.demo.tree import DemoError, DemoTree
    from agent.sensing.machine import MachineError, find_cgroup_mount

    try:
        tree = stack.enter_context(DemoTree(find_cgroup_mount(settings.cgroup.mount)))
    except (DemoError, MachineError) as error:
        fail(str(error))
    return replace(
        settings,
        cgroup=replace(settings.cgroup, root=tree.cgroup_root),
        pods_file=tree.pods_file,
        # Its cgroups end with it: there is nothing to keep.
        state=replace(settings.state, directory=None),
    )
