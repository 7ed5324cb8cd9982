"""``plimsoll replay``: what is in a recording, and any decision over it again, at any moment of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.cli.options.settings_options import fail
from agent.cli.verbs.node import recommend, why

if TYPE_CHECKING:
    from collections.abc import Callable

_QUESTIONS: Final = {
    "recommend": (recommend.add_arguments, recommend.run, "what every container should have requested then"),
    "why": (why.add_arguments, why.run, "everything behind one recommendation at that moment"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("recording", metavar="FILE", type=Path, help="a recording made by plimsoll record")
    parser.add_argument(
        "-o",
        "--output",
        dest="contents_output",
        choices=("table", "json"),
        help="format of the summary (default: table); for recommend and why give it after their name",
    )
    _add_moment(parser, default=None)
    questions = parser.add_subparsers(
        dest="question", metavar="QUESTION", title="questions", description="without one: a summary of the recording"
    )
    for name, (declare, answer, summary) in _QUESTIONS.items():
        sub = questions.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        declare(sub)
        _add_moment(sub, default=argparse.SUPPRESS)  # or it would take back what stands before the question
        sub.set_defaults(answer=answer, refuse=getattr(sub, "refuse_unknown", parser.error))
    parser.epilog = "Exit code: 0 shown, 2 bad input (also no recording, or a damaged one)."


def _add_moment(parser: argparse.ArgumentParser, *, default: str | None) -> None:
    parser.add_argument(
        "--at",
        metavar="TIME",
        default=default,
        help="a moment of the recording: an ISO time, or 10m ago, counted from its newest reading (the default)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Return what is in it, or answer."""
    if arguments.question is None:
        return _contents(arguments)
    if arguments.contents_output is not None:
        fail(f"replay: -o is given before {arguments.question}; allowed: after it")
    answer: Callable[[argparse.Namespace], int] = arguments.answer
    return answer(arguments)  # by way of sizing_sources.sizing_source, which sees the recording


def _contents(arguments: argparse.Namespace) -> int:
    from agent.cli.simulate.recording_view import contents_lines
    from agent.cli.text.progress import progress
    from agent.cli.text.spans import harmless
    from agent.cli.top.terminal import look_from, write_json, write_lines
    from agent.node.offline.recording import Recording
    from agent.node.offline.recording_contents import CONTENTS, contents_of
    from agent.node.offline.recording_format import RecordingError

    if arguments.at is not None:
        fail(f"replay: --at goes with a question; allowed: {', '.join(_QUESTIONS)}")
    try:
        with (
            progress(sys.stderr, f"reading {harmless(arguments.recording.name)}") as bar,
            Recording(arguments.recording) as recording,
        ):
            contents = contents_of(recording, bar.show)
    except RecordingError as error:
        fail(f"replay: {error}")
    if arguments.contents_output == "json":
        write_json(CONTENTS.to_json(contents))
    else:
        look = look_from(arguments)
        lines = contents_lines(contents, width=look.width, glyphs=look.glyphs, has_colour=look.has_colour)
        write_lines(lines, has_colour=look.has_colour)
    return 0
