"""``plimsoll workloads --forget``: a workload's history, or what one node reported, goes from the webhook. Face.

It asks first, on a terminal; elsewhere ``--yes`` is needed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from agent.cli.client.webhook import DEFAULT_ACCOUNT, WebhookReader
from agent.cli.options.settings_options import fail
from agent.cli.text.figures import counted

if TYPE_CHECKING:
    from agent.webhook.queries.workload_bodies import ForgottenBody

FORGETTER: Final = "plimsoll/plimsoll-webhook-forgetter"
_NAMED: Final = ""
"""Of ``--forget`` alone: what is forgotten is named elsewhere."""
_MOST_LISTED: Final = 20
_DAY_SECONDS: Final = 86_400


def add_forget_options(parser: argparse.ArgumentParser) -> None:
    """Declare ``--forget`` and what belongs to it."""
    group = parser.add_argument_group(
        "forgetting",
        f"removes history that cannot be trusted; as {FORGETTER} unless --account or --token-file is given",
    )
    group.add_argument(
        "--forget",
        metavar="NAMESPACE/KIND/NAME",
        nargs="?",
        const=_NAMED,
        help="delete all history of a workload; with --node: what that node reported",
    )
    group.add_argument(
        "--node",
        metavar="NAME",
        help="with --forget: delete every hour in which this node had a part, other nodes' share in it too",
    )
    group.add_argument(
        "--since", metavar="TIME", type=_since, help="with --node: only the last 90m, 6h, 2d (default: all 14 days)"
    )
    group.add_argument("--yes", action="store_true", help="with --forget: do not ask")


def check_forgetting(arguments: argparse.Namespace) -> None:
    """Refuse what does not go together (code 2), and put the workload's name where it is looked for."""
    if arguments.forget is None:
        for flag in ("node", "since", "yes"):
            if getattr(arguments, flag):
                fail(
                    f"workloads: --{flag} is for --forget; allowed: --forget --node NAME, --forget NAMESPACE/KIND/NAME"
                )
        return
    if arguments.forget != _NAMED:
        if arguments.workload not in (None, arguments.forget):
            fail("workloads: --forget names one workload and WORKLOAD another; allowed: one of them")
        arguments.workload = arguments.forget
    if (arguments.node is None) == (arguments.workload is None):
        both = "both a workload and --node are" if arguments.node is not None else "neither a workload nor --node is"
        fail(f"workloads: --forget: {both} given; allowed: --forget NAMESPACE/KIND/NAME, --forget --node NAME")
    if arguments.node is not None and not _is_name(arguments.node):
        fail(f"workloads: --node {arguments.node!r}: is not allowed; allowed: a node's name")
    if arguments.since is not None and arguments.node is None:
        fail("workloads: --since is for a node; allowed: --forget --node NAME --since TIME")
    for flag in ("namespace", "policy", "png"):
        if getattr(arguments, flag) is not None:
            fail(f"workloads: --{flag} does not go with --forget; allowed: without it")
    if not arguments.yes and not (sys.stdin is not None and sys.stdin.isatty()):
        fail("workloads: --forget asks first, and there is no terminal to ask on; allowed: --yes")
    namespace, _, name = arguments.account.partition("/")
    if name == DEFAULT_ACCOUNT.partition("/")[2]:  # in the namespace that kubectl plimsoll was told, if it was
        arguments.account = f"{namespace}/{FORGETTER.partition('/')[2]}"


def forget(client: WebhookReader, arguments: argparse.Namespace, parts: list[str] | None) -> int:
    """Delete what is known of a workload, or of the node where ``parts`` is None, after a question; return the code."""
    from agent.webhook.queries.workload_bodies import ForgottenBody

    path = f"/v1/nodes/{arguments.node}" if parts is None else f"/v1/workloads/{'/'.join(parts)}"
    query = {} if arguments.since is None else {"sinceSeconds": str(arguments.since)}
    what = f"what node {arguments.node} reported" if parts is None else f"{parts[1]} {parts[0]}/{parts[2]}"
    if not arguments.yes:
        looked, _ = client.delete(path, ForgottenBody, {**query, "dryRun": "true"})
        for line in forgotten_lines(looked, what):
            print(line, file=sys.stderr)
        print("Forget it, in the database and in all replicas? There is no way back. [y/N] ", end="", file=sys.stderr)
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            print("nothing was forgotten", file=sys.stderr)
            return 1
    gone, body = client.delete(path, ForgottenBody, query)
    if arguments.output == "json":
        import msgspec

        print(msgspec.json.format(body).decode())
        return 0
    for line in forgotten_lines(gone, what):
        print(line)
    return 0


def forgotten_lines(body: ForgottenBody, what: str) -> Iterator[str]:
    """Return what goes or went; a line for each workload up to some twenty."""
    from agent.cli.text.spans import harmless

    verb = "would be forgotten" if body.dry_run else "forgotten"
    sums = ", ".join(
        (
            counted(len(body.workloads), "workload"),
            counted(body.containers, "container"),
            counted(body.hours, "hour"),
            counted(body.rows, "row") + " of the database",
            counted(body.reports, "report") + " not folded yet",
        )
    )
    yield f"{verb}: {harmless(what)}: {sums}"
    for workload in body.workloads[:_MOST_LISTED]:
        containers = ", ".join(workload.containers)
        yield harmless(
            f"  {workload.namespace}/{workload.kind}/{workload.name}  {containers}  {counted(workload.hours, 'hour')}"
        )
    if len(body.workloads) > _MOST_LISTED:
        yield f"  and {counted(len(body.workloads) - _MOST_LISTED, 'workload')} more"
    if body.node is not None and body.dry_run and body.workloads:
        yield "An hour counts all nodes together: what others reported of these workloads in these hours goes too."
    yield "Until an hour is known again, new pods of these come as their manifests say."
    if not body.dry_run and not body.in_memory_too:
        yield "The replica that was asked still has it in memory; it goes there within seconds, as in the others."


def _is_name(text: str) -> bool:
    return 0 < len(text) <= 253 and text.isprintable() and not set(text) & set("/% ")


def _since(text: str) -> int:
    from agent.cli.client.orders import span

    seconds = span(text)
    if seconds > 14 * _DAY_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is too long; allowed: up to 14d, or without --since")
    return max(1, int(seconds))
