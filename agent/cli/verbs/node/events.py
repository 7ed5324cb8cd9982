"""``plimsoll events``: what was decided and done on this node, or with ``--cluster`` on all of them, newest first."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.cli.client.agent import SOCKET_OPTIONS, NoAnswerError, ask, no_answer
from agent.cli.client.webhook import add_webhook_options
from agent.cli.options.row_options import add_look_options
from agent.cli.options.settings_options import Option, add_options, fail, overrides_from, settings_from
from agent.cli.words.moments import age_argument

if TYPE_CHECKING:
    from agent.core.resize.decision import Decisions

_DEFAULT_LIMIT: Final = 40
_MOST: Final = 10_000
_KEPT_SECONDS: Final = 30 * 86_400
"""For which the webhook keeps what nodes tell it; it refuses to be asked of more."""
_STATE_OPTIONS: Final = (
    Option("--state-dir", "state.directory", "DIR", "read the log in this state directory of an agent"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    from agent.core.resize.decision import Action, Outcome

    parser.add_argument("-n", "--namespace", metavar="NAME", help="only pods of this namespace; * matches anything")
    parser.add_argument(
        "--limit",
        metavar="N",
        type=_limit,
        default=_DEFAULT_LIMIT,
        help=f"show at most N; 0 = all that are kept, with --cluster the newest {_MOST} (default: {_DEFAULT_LIMIT})",
    )
    parser.add_argument(
        "--pod", metavar="NAME", help="only this pod, by name, namespace/name or uid; * matches anything"
    )
    parser.add_argument(
        "--action", metavar="NAMES", type=_words(Action), help=f"only these, separated by commas: {', '.join(Action)}"
    )
    parser.add_argument(
        "--outcome",
        metavar="NAMES",
        type=_words(Outcome),
        help=f"only these, separated by commas: {', '.join(Outcome)}",
    )
    parser.add_argument(
        "--all", action="store_true", help="every decision about a resize, not only the newest outcome of each"
    )
    parser.add_argument(
        "--since", metavar="TIME", type=age_argument, help='show nothing older: 10m, 2h, "1d ago", an ISO time'
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json", "csv"),
        default="table",
        help="json and csv have every field of every decision (default: table); csv with --cluster",
    )
    parser.add_argument(
        "--cluster", action="store_true", help="of all nodes, as they told the webhook, for 30 days; asks the webhook"
    )
    parser.add_argument(
        "--workload", metavar="NAME", help="with --cluster: only pods of this workload: NAME or KIND/NAME"
    )
    parser.add_argument("--node", metavar="NAME", help="with --cluster: only this node")
    add_look_options(parser)
    add_webhook_options(parser)
    add_options(parser, SOCKET_OPTIONS, _STATE_OPTIONS)
    parser.epilog = (
        "Without an agent the log in its state directory is read. Exit code: 0 shown, 1 no answer, 2 bad input."
    )


def _limit(text: str) -> int:
    limit = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else -1
    if not 0 <= limit <= _MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: a whole number from 0 to {_MOST}")
    return limit


def _words(kind: type[StrEnum]) -> Callable[[str], tuple[str, ...]]:
    allowed = tuple(member.value for member in kind)

    def read(text: str) -> tuple[str, ...]:
        words = tuple(word.strip() for word in text.split(","))
        for word in words:
            if word not in allowed:
                raise argparse.ArgumentTypeError(f"{word!r} is not allowed; allowed: {', '.join(allowed)}")
        return words

    return read


def run(arguments: argparse.Namespace) -> int:
    """Show decisions."""
    if arguments.cluster:
        return _of_cluster(arguments)
    for name, given in (("--workload", arguments.workload), ("--node", arguments.node)):
        if given is not None:
            fail(f"events: {name} is of all nodes; allowed: with --cluster")
    if arguments.output == "csv":
        fail("events: -o csv is of all nodes; allowed: with --cluster, or -o json")
    try:
        decisions = _read_decisions(arguments)
    except NoAnswerError as error:
        return no_answer("events", error)
    if arguments.output == "json":
        from agent.cli.top.terminal import write_json
        from agent.node.files.documents import DECISIONS

        write_json(DECISIONS.to_json(decisions))
    else:
        _print_table(decisions, arguments)
    return 0


def _of_cluster(arguments: argparse.Namespace) -> int:
    """Show what all nodes decided, as the webhook has it."""
    from agent.cli.client.webhook import NoWebhookAnswerError, WebhookReader
    from agent.cli.text.program_name import program_name
    from agent.cli.top.terminal import look_from, write_lines, write_text
    from agent.cli.workloads.cluster_events import asked, csv_text, notes_of, page_lines

    if arguments.all:
        fail("events: --cluster shows every decision as it is; allowed: without --all")
    if arguments.namespace is not None and "*" in arguments.namespace:
        fail(f"events: --namespace {arguments.namespace}: is not allowed; allowed: one namespace with --cluster")
    query = {
        "namespace": arguments.namespace,
        "workload": arguments.workload,
        "pod": arguments.pod,
        "node": arguments.node,
        "action": arguments.action and ",".join(arguments.action),
        "outcome": arguments.outcome and ",".join(arguments.outcome),
        "sinceSeconds": None if arguments.since is None else str(min(max(round(arguments.since), 1), _KEPT_SECONDS)),
    }
    try:
        body = asked(
            WebhookReader(arguments),
            {name: value for name, value in query.items() if value is not None},
            arguments.limit or _MOST,
        )
    except NoWebhookAnswerError as error:
        print(f"{program_name()} events: {error}", file=sys.stderr)
        return 1
    if arguments.output == "json":
        import msgspec

        write_text(msgspec.json.format(msgspec.json.encode(body)).decode() + "\n")
    elif arguments.output == "csv":
        for note in notes_of(body):
            print(f"{program_name()} events: {note}", file=sys.stderr)
        write_text(csv_text(body))
    else:
        look = look_from(arguments)
        lines = page_lines(body, width=look.width, glyphs=look.glyphs, nothing=_nothing(arguments))
        write_lines(lines, has_colour=look.has_colour)
    return 0


def _read_decisions(arguments: argparse.Namespace) -> Decisions:
    from agent.node.files.documents import DECISIONS

    given = overrides_from(arguments)
    if "state.directory" in given:
        return _from_file(arguments, settings_from(arguments).state.directory)
    asked: dict[str, object] = {
        "limit": arguments.limit or None,
        "pod": arguments.pod,
        "namespace": arguments.namespace,
        "actions": arguments.action and list(arguments.action),
        "outcomes": arguments.outcome and list(arguments.outcome),
        "since_seconds": arguments.since,
        "newest_outcomes": _is_told_short(arguments) or None,
    }
    try:
        return ask(arguments, "events", {key: value for key, value in asked.items() if value is not None}, DECISIONS)
    except NoAnswerError as error:
        if not error.is_absent or "serving.socket" in given:
            raise
        decisions = _from_file(arguments, settings_from(arguments).state.directory)
        print(f"plimsoll events: {error}; reading its log", file=sys.stderr)
        return decisions


def _is_told_short(arguments: argparse.Namespace) -> bool:
    return not arguments.all and arguments.output == "table"


def _from_file(arguments: argparse.Namespace, directory: Path | None) -> Decisions:
    """Read the log of an agent that may be gone, and change nothing."""
    from agent.core.resize.decision import Action, Decisions, Outcome, newest_outcomes
    from agent.named_file import is_missing
    from agent.node.orders.journal import FILE_NAME, DecisionFilter, read_journal

    if directory is None:
        raise NoAnswerError("state.directory is none: there is no log to read; allowed: --state-dir DIR")
    path, now = directory / FILE_NAME, time.time()
    if is_missing(path):
        raise NoAnswerError(f"no agent to ask, and no log at {path}; allowed: --state-dir DIR of an agent")
    choice = DecisionFilter(
        pod=arguments.pod,
        namespace=arguments.namespace,
        actions=frozenset(Action(word) for word in arguments.action or ()),
        outcomes=frozenset(Outcome(word) for word in arguments.outcome or ()),
        since_unix_seconds=None if arguments.since is None else now - arguments.since,
    )
    try:
        logged = read_journal(path)
    except OSError as error:
        raise NoAnswerError(f"{path}: cannot be read: {error.strerror or error}") from error
    shown = newest_outcomes(logged) if _is_told_short(arguments) else logged
    chosen = tuple(decision for decision in shown if choice.holds(decision))
    return Decisions(
        taken_unix_seconds=now,
        node=str(path),
        source="journal",
        items=chosen[: arguments.limit or None],
        matching=len(chosen),
    )


def _print_table(decisions: Decisions, arguments: argparse.Namespace) -> None:
    from agent.cli.plan.events_view import page_lines
    from agent.cli.top.terminal import look_from, write_lines

    look = look_from(arguments)
    lines = page_lines(decisions, width=look.width, glyphs=look.glyphs, nothing=_nothing(arguments))
    write_lines(lines, has_colour=look.has_colour)


def _nothing(arguments: argparse.Namespace) -> str:
    """Print that no decision matches, with what was asked for."""
    from agent.cli.plan.events_view import NOTHING
    from agent.cli.text.figures import age_text
    from agent.cli.text.spans import harmless

    about = []
    if arguments.pod is not None:
        about.append(f"about a pod called {arguments.pod}")
    if arguments.namespace is not None:
        about.append(f"{'' if about else 'about a pod '}in namespace {arguments.namespace}")
    if arguments.action:
        about.append(f"of action {' or '.join(arguments.action)}")
    if arguments.outcome:
        about.append(f"with outcome {' or '.join(arguments.outcome)}")
    if arguments.since is not None:
        about.append(f"of the last {age_text(arguments.since)}")
    if not about:
        return NOTHING
    hints = []
    if arguments.pod is not None and "*" not in arguments.pod:
        hints.append(f"a part of a name needs *: --pod '{arguments.pod}*'")
    if arguments.outcome and not arguments.all and not arguments.cluster:
        hints.append("--all has the outcomes before the newest, too")
    return harmless(f"no decision {' '.join(about)}" + "".join(f"; {hint}" for hint in hints))
