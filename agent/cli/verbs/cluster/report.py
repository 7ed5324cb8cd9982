"""``plimsoll report``: the week in one file to mail: what changed, what it freed, who is short, what failed."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.client.webhook import NoWebhookAnswerError, WebhookReader, add_webhook_options
from agent.cli.options.settings_options import fail
from agent.cli.text.program_name import program_name

if TYPE_CHECKING:
    from agent.cli.workloads.weekly import WeeklyBody

_MOST_DECISIONS = 20_000
"""Of each kind that are looked at, newest first: forty questions."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("--weekly", action="store_true", required=True, help="of the last seven days")
    parser.add_argument(
        "-o",
        "--output",
        choices=("md", "html", "json"),
        default="md",
        help="html: one page that needs nothing from elsewhere (default: md)",
    )
    parser.add_argument(
        "--file", metavar="FILE", type=Path, help="write it there, whole or not at all (default: standard output)"
    )
    add_webhook_options(parser)
    parser.epilog = "Exit code: 0 written, 1 no answer, 2 bad input."


def run(arguments: argparse.Namespace) -> int:
    """Write it."""
    from agent.cli.text.output_files import OutputError, check_output, put_output
    from agent.cli.top.terminal import write_text

    try:
        if arguments.file is not None:
            check_output(arguments.file)
        text = _text(_asked(WebhookReader(arguments)), arguments.output)
        if arguments.file is None:
            write_text(text)
        else:
            put_output(arguments.file, text.encode())
    except OutputError as error:
        fail(f"report: --file {error}")
    except NoWebhookAnswerError as error:
        print(f"{program_name()} report: {error}", file=sys.stderr)
        return 1
    return 0


def _asked(client: WebhookReader) -> WeeklyBody:
    from agent.cli.verbs.cluster.cost import asked as asked_cost
    from agent.cli.verbs.cluster.workloads import all_lines
    from agent.cli.workloads.cluster_events import asked as asked_events
    from agent.cli.workloads.weekly import CHANGING, FAILED, ORDERED, WEEK_SECONDS, Answers, weekly
    from agent.core.history.minute.quality import QualityWindow
    from agent.core.resize.decision import Outcome
    from agent.webhook.queries.summary import SummaryBody

    since = {"sinceSeconds": str(WEEK_SECONDS)}
    summary, _ = client.get("/v1/summary", SummaryBody)
    answers = Answers(
        summary=summary,
        changed=asked_events(client, {**since, "action": CHANGING, "outcome": Outcome.APPLIED}, _MOST_DECISIONS),
        failed=asked_events(client, {**since, "outcome": ",".join(FAILED)}, _MOST_DECISIONS),
        ordered=asked_events(client, {**since, "action": ORDERED}, _MOST_DECISIONS),
        lines=all_lines(client, None, quality=QualityWindow.WEEK)[0],
        cost=asked_cost(client, "workload"),
    )
    return weekly(answers, taken_unix_seconds=time.time())


def _text(body: WeeklyBody, output: str) -> str:
    from agent.cli.workloads.weekly import html, json_text, markdown

    return {"md": markdown, "html": html, "json": json_text}[output](body)
