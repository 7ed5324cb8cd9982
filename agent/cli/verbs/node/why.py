"""``plimsoll why``: everything behind one recommendation, on one page per container; also as a picture."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.cli.client.sizing_sources import STATE_OPTIONS, SizingError, UnknownName, sizing_source
from agent.cli.options.policy_options import add_policy_options, policy_names
from agent.cli.options.settings_options import add_options, fail
from agent.cli.words.moments import age_argument

if TYPE_CHECKING:
    from agent.core.orders.policy_options import PolicyName
    from agent.core.resize.why import Whys

_PIPE_WIDTH: Final = 120
"""Columns where there is no terminal to ask: sentences are read."""
_LEAST_WIDTH: Final = 60
_MOST_WIDTH: Final = 1000
_MINUTE_SECONDS: Final = 60.0
_LONGEST_SECONDS: Final = 7 * 86_400.0
"""As long as the history is."""
_DEFAULT_SINCE: Final = "24h"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.usage = "%(prog)s [OPTION ...] POD[/CONTAINER]"  # all options are a page of their own
    parser.add_argument(
        "name",
        metavar="POD[/CONTAINER]",
        help="also NAMESPACE/POD[/CONTAINER], a pod's uid, its workload, the beginning of its name, a pattern with *, "
        "a cgroup path or its last part; a pod stands for all its containers",
    )
    parser.add_argument(
        "--plot", action="store_true", help="draw usage, pressure, request and recommendation in the terminal"
    )
    parser.add_argument(
        "--png", metavar="FILE", type=Path, help="write the same as a picture; an existing file is replaced"
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=_since,
        help=f"how far back --plot and --png go; with -o json: add the minutes of this time; 6h, 2d, up to 7d "
        f"(default: {_DEFAULT_SINCE})",
    )
    parser.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="json has every figure (default: table)"
    )
    parser.add_argument(
        "--policy", metavar="NAME", type=_policy, dest="setting recommend.policy", help="answer as this policy would"
    )
    parser.add_argument(
        "--width", metavar="COLUMNS", type=_width, help=f"default: the terminal's width; {_PIPE_WIDTH} in a pipe"
    )
    parser.add_argument(
        "--no-color", action="store_true", help="no colour; the default in a pipe and where NO_COLOR is set"
    )
    add_options(parser, STATE_OPTIONS)
    add_policy_options(parser)
    parser.epilog = "Exit code: 0 shown, 1 no answer, 2 bad input (also an unknown name)."


def _policy(text: str) -> PolicyName:
    names = policy_names(text)
    if len(names) > 1:
        raise argparse.ArgumentTypeError(f"{text!r} names several; allowed: one policy")
    return names[0]


def _since(text: str) -> float:
    seconds = age_argument(text)
    if not _MINUTE_SECONDS <= seconds <= _LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: from 1m to 7d ago")
    return seconds


def _width(text: str) -> int:
    width = int(text) if text.isascii() and text.isdigit() else -1
    if not _LEAST_WIDTH <= width <= _MOST_WIDTH:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed; allowed: a whole number from {_LEAST_WIDTH} to {_MOST_WIDTH}"
        )
    return width


def run(arguments: argparse.Namespace) -> int:
    """Return why."""
    is_json = arguments.output == "json"
    if is_json and arguments.plot:
        fail("why: --plot with -o json: a plot is not JSON; allowed: one of them, or --png")
    if arguments.png is not None:
        from agent.cli.text.png_plots import PictureError, check_picture

        try:
            check_picture(arguments.png)
        except PictureError as error:
            fail(f"why: --png {error}")
    try:
        whys = _read_whys(arguments)
    except UnknownName as error:
        fail(f"why: {error}")
    except SizingError as error:
        print(f"plimsoll why: {error}", file=sys.stderr)
        return 1
    if is_json:
        from agent.cli.top.terminal import write_json
        from agent.node.files.documents import WHYS

        write_json(WHYS.to_json(whys))
    else:
        _print_pages(whys, arguments)
    return 0 if arguments.png is None else _draw(whys, arguments.png)


def _draw(whys: Whys, path: Path) -> int:
    from agent.cli.text.png_plots import NothingToDraw, PictureError, draw_picture

    try:
        draw_picture(whys, path)
    except PictureError as error:
        print(f"plimsoll why: --png {error}", file=sys.stderr)
        return 1 if isinstance(error, NothingToDraw) else 3
    return 0


def _read_whys(arguments: argparse.Namespace) -> Whys:
    seconds = arguments.since
    if seconds is None and (arguments.plot or arguments.png is not None):
        seconds = _since(_DEFAULT_SINCE)
    with sizing_source(arguments, "why") as source:
        return source.explanations(arguments.name, seconds or 0.0)


def _print_pages(whys: Whys, arguments: argparse.Namespace) -> None:
    from agent.cli.recommender.why_view import page_lines
    from agent.cli.text.paragraphs import Page
    from agent.cli.text.spans import Line
    from agent.cli.top.terminal import find_terminal, write_lines

    terminal = find_terminal(sys.stdout, os.environ, use_colour=not arguments.no_color)
    columns = shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns
    page = Page(width=arguments.width or max(columns, _LEAST_WIDTH), glyphs=terminal.glyphs)
    lines: list[Line] = []
    for item in whys.items:
        lines += [*([(), ()] if lines else []), *page_lines(item, page, with_chart=arguments.plot)]
    write_lines(lines, has_colour=terminal.has_colour)
