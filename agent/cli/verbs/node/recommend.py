"""``plimsoll recommend``: what every container of this node should request, and why; or why that may not be said."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.client.sizing_sources import STATE_OPTIONS, SizingError, sizing_source
from agent.cli.options.policy_options import add_policy_options
from agent.cli.options.row_options import add_filter_options, add_look_options, filter_text
from agent.cli.options.settings_options import add_options, fail

if TYPE_CHECKING:
    from agent.cli.recommender.recommend_money import NodeMoney
    from agent.core.cost.price_sheet import PriceSheet
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
    parser.add_argument(
        "--prices",
        metavar="FILE",
        type=Path,
        help="say what each costs a month, by hourly prices of nodes in OpenCost's columns (CSV; the row whose "
        "metadata.name is this node, else list prices); of a running agent's node",
    )
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
    sheet = None if arguments.prices is None else _sheet(arguments)
    try:
        with sizing_source(arguments, "recommend") as source:
            everything = source.recommendations()
        money = None if sheet is None else _money(arguments, sheet, everything.node)
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
        _print_table(chosen, arguments, nothing, money)
    elif arguments.output == "patch":
        _print_patches(chosen)
    else:
        _print_document(chosen, arguments.output, money)
    if not items and arguments.output != "table":
        print(f"plimsoll recommend: {nothing}", file=sys.stderr)
    return 0


def _sheet(arguments: argparse.Namespace) -> PriceSheet:
    from agent.core.cost.price_sheet import MOST_SHEET_BYTES, SheetError, parse_sheet
    from agent.named_file import called, read_named

    path: Path = arguments.prices
    if getattr(arguments, "recording", None) is not None:
        fail("recommend: --prices is of a running agent's node; not allowed: a recording")
    if arguments.output in ("html", "patch"):
        fail(f"recommend: --prices is not in -o {arguments.output}; allowed: table, json, yaml, csv")
    try:
        return parse_sheet(read_named(path, most_bytes=MOST_SHEET_BYTES).decode(), called(path))
    except (OSError, UnicodeDecodeError) as error:
        fail(f"recommend: --prices {path}: {getattr(error, 'strerror', None) or 'no UTF-8'}")
    except SheetError as error:
        fail(f"recommend: --prices {error}")


def _money(arguments: argparse.Namespace, sheet: PriceSheet, node: str) -> NodeMoney:
    """Price the node by its cores and memory, which its agent tells; SizingError = it does not."""
    from agent.cli.client.agent import NoAnswerError, ask
    from agent.cli.recommender.recommend_money import money_of
    from agent.node.files.documents import SNAPSHOT

    try:
        machine = ask(arguments, "snapshot", {}, SNAPSHOT, told_as="recommend").node
    except NoAnswerError as error:
        raise SizingError(f"--prices: what the node has is not told: {error}") from error
    if machine.name != node:
        raise SizingError(f"--prices: the agent is of node {machine.name}, and what is recommended of node {node}")
    return money_of(sheet, node, cpus=machine.cpus, memory_bytes=machine.memory_total_bytes)


def _print_table(chosen: Recommendations, arguments: argparse.Namespace, nothing: str, money: NodeMoney | None) -> None:
    from agent.cli.recommender.recommend_view import page_lines
    from agent.cli.top.terminal import look_from, write_lines

    look = look_from(arguments)
    lines = page_lines(
        chosen, width=look.width, glyphs=look.glyphs, has_colour=look.has_colour, empty=nothing, money=money
    )
    write_lines(lines, has_colour=look.has_colour)


def _print_document(chosen: Recommendations, output: str, money: NodeMoney | None) -> None:
    from agent.cli.recommender.recommend_formats import csv_text, json_text, yaml_text
    from agent.cli.recommender.recommend_html import page
    from agent.cli.top.terminal import write_text

    if output == "html":
        write_text(page(chosen))
        return
    write_text({"json": json_text, "yaml": yaml_text, "csv": csv_text}[output](chosen, money))


def _print_patches(chosen: Recommendations) -> None:
    from agent.cli.recommender.recommend_formats import left_out_lines, patch_text
    from agent.cli.top.terminal import write_text

    write_text(patch_text(chosen))
    for line in left_out_lines(chosen):
        print(f"plimsoll recommend: {line}", file=sys.stderr)
