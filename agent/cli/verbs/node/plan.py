"""``plimsoll plan``: what fits on this node, who gets what and why, who should go, and the steps in order."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from agent.cli.client.agent import SOCKET_OPTIONS, NoAnswerError, ask, no_answer
from agent.cli.options.row_options import add_look_options
from agent.cli.options.settings_options import add_options, fail, file_or_stdin, overrides_from, settings_from

if TYPE_CHECKING:
    from agent.core.plan.plan import Plan

_OUTPUTS: Final = ("table", "json", "csv", "patch")
_FILES: Final = ("pods", "node_file", "recommendations", "namespaces")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "-o",
        "--output",
        choices=_OUTPUTS,
        default="table",
        help="csv: a line per container; patch: a kubectl command for each step (default: table)",
    )
    parser.add_argument(
        "--what-if", action="store_true", help="plan as if every pod in mode recommend were enforced; nothing is done"
    )
    parser.add_argument("--invariants", action="store_true", help="list every invariant, not only how many hold")
    parser.add_argument(
        "-n", "--namespace", metavar="NAME", help="show only pods of this namespace; * matches anything"
    )
    parser.add_argument("--pod", metavar="NAME", help="show only this pod, by name or uid; * matches anything")
    add_look_options(parser)
    files = parser.add_argument_group("offline", "plan from files instead of asking the agent; - reads standard input")
    files.add_argument(
        "--pods", metavar="FILE", type=file_or_stdin, help="output of kubectl get pods -A -o json (or yaml)"
    )
    files.add_argument(
        "--node-file", metavar="FILE", type=file_or_stdin, help="output of kubectl get node NAME -o json"
    )
    files.add_argument(
        "--recommendations",
        metavar="FILE",
        type=file_or_stdin,
        help="output of plimsoll recommend -o json; without it every container keeps what it requests",
    )
    files.add_argument(
        "--namespaces", metavar="FILE", type=file_or_stdin, help="output of kubectl get namespaces -o json"
    )
    add_options(parser, SOCKET_OPTIONS)
    parser.epilog = "Exit code: 0 shown, 1 no answer, 2 bad input."


def run(arguments: argparse.Namespace) -> int:
    """Show the plan."""
    is_offline = any(getattr(arguments, name) is not None for name in _FILES)
    try:
        plan = _from_files(arguments) if is_offline else _from_agent(arguments)
    except NoAnswerError as error:
        return no_answer("plan", error)
    shown = _chosen(plan, arguments)
    if plan.pods and not shown.pods:
        print(f"plimsoll plan: {_none_chosen(plan, arguments)}", file=sys.stderr)
        if arguments.output == "table":
            return 0
    if arguments.output == "table":
        _print_page(plan, shown, arguments, "from files" if is_offline else "from the agent")
    else:
        _print_document(shown, arguments.output)
    return 0


def _from_agent(arguments: argparse.Namespace) -> Plan:
    from agent.node.files.documents import PLAN

    others = sorted(key for key in overrides_from(arguments) if key != "serving.socket")
    if others:
        fail(
            f"plan: {others[0]}: the agent plans with its own settings; "
            "allowed: with --pods and --node-file, or in the agent's settings"
        )
    try:
        return ask(arguments, "plan", {"what_if": arguments.what_if}, PLAN)
    except NoAnswerError as error:
        if error.is_absent:
            raise NoAnswerError(f"{error}; or plan from files: --pods FILE --node-file FILE", is_absent=True) from error
        raise


def _from_files(arguments: argparse.Namespace) -> Plan:
    from agent.cli.plan.files import PlanFiles, PlanFilesError, offline_plan

    settings = settings_from(arguments)
    if "serving.socket" in overrides_from(arguments):
        fail("plan: --socket with files: no agent is asked; allowed: one of them")
    if arguments.pods is None or arguments.node_file is None:
        fail("plan: files need both --pods FILE (kubectl get pods -A -o json) and --node-file FILE")
    files = PlanFiles(
        pods=arguments.pods,
        node=arguments.node_file,
        recommendations=arguments.recommendations,
        namespaces=arguments.namespaces,
    )
    try:
        return offline_plan(files, settings, as_enforced=arguments.what_if, now_unix_seconds=time.time())
    except PlanFilesError as error:
        fail(f"plan: {error}")


def _chosen(plan: Plan, arguments: argparse.Namespace) -> Plan:
    """Leave out pods that are not asked for; the sums stay those of the node."""
    space, name = arguments.namespace, arguments.pod
    if space is None and name is None:
        return plan

    def is_asked(namespace: str, *names: str) -> bool:
        return (space is None or _matches(namespace, space)) and (
            name is None or any(_matches(known, name) for known in names)
        )

    return replace(
        plan,
        pods=tuple(pod for pod in plan.pods if is_asked(pod.ref.namespace, pod.ref.name, pod.ref.uid)),
        evictions=tuple(
            eviction
            for eviction in plan.evictions
            if is_asked(eviction.ref.namespace, eviction.ref.name, eviction.ref.uid)
        ),
        steps=tuple(step for step in plan.steps if is_asked(step.ref.namespace, step.ref.name, step.ref.uid)),
    )


def _none_chosen(plan: Plan, arguments: argparse.Namespace) -> str:
    from agent.cli.text.spans import harmless

    called = "" if arguments.pod is None else f" is called {arguments.pod}"
    within = "" if arguments.namespace is None else f" {'' if called else 'is '}in namespace {arguments.namespace}"
    hint = f"; a part of a name needs *: --pod '{arguments.pod}*'" if called and "*" not in arguments.pod else ""
    return harmless(f"none of {len(plan.pods)} pods{called}{within}{hint}")


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name.lower(), pattern.lower())


def _print_page(plan: Plan, shown: Plan, arguments: argparse.Namespace, source: str) -> None:
    from agent.cli.plan.view import PlanLook, page_lines
    from agent.cli.top.terminal import look_from, write_lines

    asides = PlanLook(
        source=source,
        now_unix_seconds=time.time(),
        is_what_if=arguments.what_if,
        with_invariants=arguments.invariants,
    )
    look = look_from(arguments)
    lines = page_lines(plan, asides, width=look.width, glyphs=look.glyphs, shown=shown)
    write_lines(lines, has_colour=look.has_colour)


def _print_document(plan: Plan, output: str) -> None:
    from agent.cli.plan.formats import csv_text, json_text, left_out_line, patch_text
    from agent.cli.top.terminal import write_text

    write = {"json": json_text, "csv": csv_text, "patch": patch_text}
    write_text(write[output](plan))
    left_out = left_out_line(plan) if output == "patch" else None
    if left_out is not None:
        print(f"plimsoll plan: {left_out}", file=sys.stderr)
