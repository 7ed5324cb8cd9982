"""``plimsoll cost``: what namespaces, workloads, nodes or labels cost a month, and which nodes could go."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from agent.cli.client.webhook import NoWebhookAnswerError, WebhookReader, add_webhook_options
from agent.cli.options.row_options import add_look_options
from agent.cli.options.settings_options import fail
from agent.cli.text.program_name import program_name

if TYPE_CHECKING:
    from agent.webhook.queries.cost_bodies import CostBody

_PAGE = 500
_BY = ("namespace", "workload", "node", "label")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("--by", choices=_BY, default="namespace", help="what a row is (default: namespace)")
    parser.add_argument("--label", metavar="KEY", help="with --by label: the key of a label of pods")
    parser.add_argument("-n", "--namespace", metavar="NAME", help="only rows of this namespace; not with --by node")
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json", "csv"),
        default="table",
        help="csv: a line per row, idle and the total at the end (default: table)",
    )
    add_look_options(parser)
    add_webhook_options(parser)
    parser.epilog = "Exit code: 0 shown, 1 no answer, 2 bad input."


def run(arguments: argparse.Namespace) -> int:
    """Show it."""
    if (arguments.by == "label") != (arguments.label is not None):
        fail("cost: --by label and --label KEY: one is not allowed without the other")
    if arguments.by == "node" and arguments.namespace is not None:
        fail("cost: --namespace is not allowed with --by node: a node is of no namespace")
    try:
        body = asked(WebhookReader(arguments), arguments.by, label=arguments.label, namespace=arguments.namespace)
    except NoWebhookAnswerError as error:
        print(f"{program_name()} cost: {error}", file=sys.stderr)
        return 1
    _show(body, arguments)
    return 0


def asked(client: WebhookReader, by: str, *, label: str | None = None, namespace: str | None = None) -> CostBody:
    """Ask for all rows, page by page; NoWebhookAnswerError = no answer came."""
    from agent.webhook.queries.cost_bodies import CostBody

    given = {"by": by, "limit": str(_PAGE), "label": label, "namespace": namespace}
    query = {name: value for name, value in given.items() if value is not None}
    whole, _ = client.get("/v1/cost", CostBody, query)
    after = whole.next
    while after is not None:
        page, _ = client.get("/v1/cost", CostBody, {**query, "after": after})
        whole.rows.extend(page.rows)
        after = page.next
    whole.next = None
    return whole


def _show(body: CostBody, arguments: argparse.Namespace) -> None:
    from agent.cli.top.terminal import look_from, write_lines, write_text
    from agent.cli.workloads.cost_view import cost_lines, csv_text

    if arguments.output == "json":
        import msgspec

        write_text(msgspec.json.format(msgspec.json.encode(body)).decode() + "\n")
    elif arguments.output == "csv":
        write_text(csv_text(body))
    else:
        look = look_from(arguments)
        lines = cost_lines(body, width=look.width, glyphs=look.glyphs, has_colour=look.has_colour)
        write_lines(list(lines), has_colour=look.has_colour)
