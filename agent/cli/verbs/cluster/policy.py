"""``plimsoll policy``: what applies to a workload - mode, policy, bounds, HPA, VPA - and where each comes from."""

from __future__ import annotations

import argparse
import sys

from agent.cli.client.webhook import NoWebhookAnswerError, WebhookReader, add_webhook_options
from agent.cli.options.row_options import add_look_options
from agent.cli.text.program_name import program_name
from agent.cli.verbs.cluster.workloads import add_workload_argument, one_workload


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add_workload_argument(parser)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="(default: table)")
    add_look_options(parser)
    add_webhook_options(parser)
    parser.epilog = "Exit code: 0 shown, 1 no answer, 2 bad input."


def run(arguments: argparse.Namespace) -> int:
    """Show it."""
    from agent.cli.top.terminal import look_from, write_lines, write_text

    try:
        workload, _ = one_workload(WebhookReader(arguments), arguments)
    except NoWebhookAnswerError as error:
        print(f"{program_name()} policy: {error}", file=sys.stderr)
        return 1
    if arguments.output == "json":
        import msgspec

        write_text(msgspec.json.format(msgspec.json.encode(workload.applies)).decode() + "\n")
        return 0
    from agent.cli.workloads.view import policy_lines

    look = look_from(arguments)
    write_lines(list(policy_lines(workload, width=look.width, glyphs=look.glyphs)), has_colour=look.has_colour)
    return 0
