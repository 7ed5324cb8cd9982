"""``plimsoll recommend``: what every container of this node should request, and why; or why that may not be said."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.cli.client.sizing_sources import STATE_OPTIONS, SizingError, sizing_source
from agent.cli.options.policy_options import add_policy_options
from agent.cli.options.row_options import add_filter_options, add_look_options, filter_text
from agent.cli.options.settings_options import add_options, fail

if TYPE_CHECKING:
    from agent.core.recommender.recommendation import Recommendations

_ORDERS = ("severity", "name", "cpu", "memory", "namespace")
_OUTPUTS = ("table", "json", "yaml", "csv", "html", "patch")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "-o",
        "--output",
        choices=_OUTPUTS,
        default="table",
        help="csv: a line per container; html: one page; patch: kubectl commands (default: table)",
    )
    parser.add_argument(
        "--policy",
        dest="setting recommend.policy",
        metavar="NAME",
        help="cruise, vpa, crane or plimsoll; one other than the agent's is computed here from its state files",
    )
    parser.add_argument(
        "--sort",
        choices=_ORDERS,
        default="severity",
        help="order of namespaces and of rows: severity = most urgent first, cpu and memory = largest change first, "
        "namespace = namespaces by name, most urgent rows first (default: severity)",
    )
    parser.add_argument("--reverse", action="store_true", help="reverse the order")
    add_filter_options(parser)
    add_look_options(parser)
    add_options(parser, STATE_OPTIONS)
    add_policy_options(parser)
    parser.epilog = "Exit code: 0 shown, 1 no answer, 2 bad input."


def run(arguments: argparse.Namespace) -> int:
    """Recommend."""
    from agent.cli.options.unit_filter import FilterError, parse_filter
    from agent.cli.recommender.recommend_view import NOTHING, Order, ordered

    text = filter_text(arguments)
    try:
        holds = parse_filter(text)
    except FilterError as error:
        fail(f"recommend: {error}")
    try:
        with sizing_source(arguments, "recommend") as source:
            everything = source.recommendations()
    except SizingError as error:
        print(f"plimsoll recommend: {error}", file=sys.stderr)
        return 1
    items = ordered(
        (item for item in everything.items if holds(item.identity)),
        Order(arguments.sort),
        is_reversed=arguments.reverse,
    )
    chosen = replace(everything, items=items)
    nothing = f"nothing passes the filter {text!r}: 0 of {len(everything.items)}" if everything.items else NOTHING
    if arguments.output == "table":
        _print_table(chosen, arguments, nothing)
    elif arguments.output == "patch":
        _print_patches(chosen)
    else:
        _print_document(chosen, arguments.output)
    if not items and arguments.output != "table":
        print(f"plimsoll recommend: {nothing}", file=sys.stderr)
    return 0


def _print_table(chosen: Recommendations, arguments: argparse.Namespace, nothing: str) -> None:
    from agent.cli.recommender.recommend_view import page_lines
    from agent.cli.top.terminal import look_from, write_lines

    look = look_from(arguments)
    lines = page_lines(chosen, width=look.width, glyphs=look.glyphs, has_colour=look.has_colour, empty=nothing)
    write_lines(lines, has_colour=look.has_colour)


def _print_document(chosen: Recommendations, output: str) -> None:
    from agent.cli.recommender.recommend_formats import csv_text, json_text, yaml_text
    from agent.cli.recommender.recommend_html import page
    from agent.cli.top.terminal import write_text

    write = {"json": json_text, "yaml": yaml_text, "csv": csv_text, "html": page}
    write_text(write[output](chosen))


def _print_patches(chosen: Recommendations) -> None:
    from agent.cli.recommender.recommend_formats import left_out_lines, patch_text
    from agent.cli.top.terminal import write_text

    write_text(patch_text(chosen))
    for line in left_out_lines(chosen):
        print(f"plimsoll recommend: {line}", file=sys.stderr)
