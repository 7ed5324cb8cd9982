"""``plimsoll workloads``: what all nodes learnt of the cluster's workloads; of one, why, and its history by hour.

``--worst`` lists where sizing is poor; ``--forget`` undoes a poisoning.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.client.forget import add_forget_options, check_forgetting, forget
from agent.cli.client.webhook import PAGE, NotKnownError, NoWebhookAnswerError, WebhookReader, add_webhook_options
from agent.cli.options.row_options import add_look_options
from agent.cli.options.settings_options import add_options, fail
from agent.cli.text.program_name import program_name
from agent.cli.verbs.cluster.webhook import SETTINGS_LISTER
from agent.core.history.minute.quality import PRICE, Against, QualityWindow

if TYPE_CHECKING:
    from agent.cli.gitops.written import PlannedWrite
    from agent.webhook.queries.workload_bodies import WorkloadBody, WorkloadLineBody

WRITTEN = ("history", "kustomize", "helm", "ssa")
"""Outputs that are files for other programs."""
_WORST = 20
_MOST_DIGITS = 9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add_workload_argument(parser, nargs="?")
    parser.add_argument("-n", "--namespace", metavar="NAME", help="list only this namespace")
    parser.add_argument(
        "--worst",
        metavar="COUNT",
        type=_count,
        nargs="?",
        const=_WORST,
        help=f"list where sizing was poorest: by slack + {PRICE:g} x deficit, the larger of CPU and memory "
        f"(COUNT: {_WORST})",
    )
    parser.add_argument(
        "--window", choices=tuple(QualityWindow), help=f"with --worst: over how long (default: {QualityWindow.DAY})"
    )
    parser.add_argument(
        "--against",
        choices=tuple(Against),
        help=f"with --worst: which request usage is held against (default: {Against.RECOMMENDED})",
    )
    parser.add_argument("--policy", metavar="NAME", help="with WORKLOAD: what this policy would recommend")
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json", *WRITTEN),
        default="table",
        help="(default: table); history = all of each workload, which plimsoll gitops reads; kustomize, helm, ssa = "
        "requests and limits as a Component of Kustomize, as values (by --map), as objects for server-side apply",
    )
    parser.add_argument(
        "--map",
        metavar="FILE",
        type=Path,
        help="with -o helm: YAML that says which values are whose, as of plimsoll gitops",
    )
    parser.add_argument("--png", metavar="FILE", type=Path, help="with WORKLOAD: draw its hours into this PNG file")
    add_look_options(parser)
    add_forget_options(parser)
    add_webhook_options(parser)
    add_options(parser, lister=SETTINGS_LISTER)
    parser.epilog = (
        "Exit code: 0 shown or deleted, 1 no answer, not deleted, amounts left out for want of a pod or of figures of "
        "today, or none written as the cluster is paused or nothing is known, 2 bad input."
    )


def add_workload_argument(parser: argparse.ArgumentParser, *, nargs: str | None = None) -> None:
    """Declare which workload is meant."""
    parser.add_argument(
        "workload",
        metavar="WORKLOAD",
        nargs=nargs,
        help="NAMESPACE/KIND/NAME, or NAMESPACE/NAME where only one workload has that name",
    )


def _count(text: str) -> int:
    count = int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else 0
    if not count:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: a whole number from 1")
    return count


def run(arguments: argparse.Namespace) -> int:
    """Show the list, or one; or have something forgotten."""
    check_forgetting(arguments)
    is_written = arguments.output in WRITTEN
    if is_written and (arguments.worst is not None or arguments.policy is not None or arguments.forget is not None):
        fail(f"workloads: -o {arguments.output} is of workloads as they are; not allowed: --worst, --policy, --forget")
    if (arguments.output == "helm") != (arguments.map is not None):
        fail("workloads: -o helm and --map belong together; allowed: -o helm --map FILE")
    if arguments.output == "kustomize" and arguments.workload is None and arguments.namespace is None:
        fail("workloads: -o kustomize is for one namespace; allowed: with --namespace NAME, or WORKLOAD")
    if arguments.workload is None and (arguments.png is not None or arguments.policy is not None):
        fail("workloads: --png and --policy are for one workload; allowed: with WORKLOAD")
    if arguments.workload is not None and arguments.worst is not None:
        fail("workloads: --worst is for the list; allowed: without WORKLOAD")
    if arguments.worst is None and (arguments.window is not None or arguments.against is not None):
        fail("workloads: --window and --against choose what --worst goes by; allowed: with --worst")
    if arguments.workload is not None and arguments.namespace is not None:
        fail("workloads: --namespace is for the list; allowed: without WORKLOAD, which names its own")
    try:
        if arguments.png is not None:
            from agent.cli.text.png_plots import check_picture

            check_picture(arguments.png)
        written = _writing(arguments) if is_written else None
        client = WebhookReader(arguments)
        if arguments.forget is not None:
            return forget(client, arguments, None if arguments.workload is None else _parts_of(client, arguments))
        if arguments.worst is not None:
            return _worst(client, arguments)
        if written is not None:
            return _write(client, arguments, written)
        if arguments.workload is None:
            return _list(client, arguments)
        workload, body = one_workload(client, arguments)
        return _show(workload, body, arguments)
    except NoWebhookAnswerError as error:
        print(f"{program_name()} workloads: {error}", file=sys.stderr)
        return 1
    except _picture_error() as error:
        fail(f"workloads: --png {error}")


def one_workload(client: WebhookReader, arguments: argparse.Namespace) -> tuple[WorkloadBody, bytes]:
    """Ask for the workload that was named; NoWebhookAnswerError = it is not known, or nobody answers."""
    from agent.webhook.queries.workload_bodies import WorkloadBody

    parts = _parts_of(client, arguments)
    policy = getattr(arguments, "policy", None)
    return client.get(f"/v1/workloads/{'/'.join(parts)}", WorkloadBody, {"policy": policy} if policy else None)


def _parts_of(client: WebhookReader, arguments: argparse.Namespace) -> list[str]:
    """Return namespace, kind and name of the workload that was named."""
    parts = str(arguments.workload).split("/")
    if len(parts) not in (2, 3) or not all(parts):
        fail(
            f"{arguments.verb}: {arguments.workload}: is not allowed; allowed: NAMESPACE/KIND/NAME or NAMESPACE/NAME, "
            "for instance shop/Deployment/web"
        )
    if len(parts) == 2:
        return _found_by_name(client, *parts)
    return parts


def _found_by_name(client: WebhookReader, namespace: str, name: str) -> list[str]:
    kinds = [workload.kind for workload in all_lines(client, namespace)[0] if workload.name == name]
    if not kinds:
        raise NotKnownError(f"nothing is known of a workload {namespace}/{name}")
    if len(kinds) > 1:
        raise NoWebhookAnswerError(
            f"{namespace}/{name}: {', '.join(kinds)} have this name; allowed: NAMESPACE/KIND/NAME"
        )
    return [namespace, kinds[0], name]


def _writing(arguments: argparse.Namespace) -> PlannedWrite:
    """Read what it takes to write workloads for other programs; what cannot be used is one line and code 2."""
    from agent.cli.gitops.written import PlannedWrite

    if arguments.output == "history":
        return PlannedWrite(form=arguments.output)
    from agent.cli.verbs.cluster.gitops import admission_settings, mapped_of

    return PlannedWrite(form=arguments.output, settings=admission_settings(arguments), mapped=mapped_of(arguments))


def _write(client: WebhookReader, arguments: argparse.Namespace, writing: PlannedWrite) -> int:
    """Print workloads for other programs; of what has no amounts, why not, on stderr."""
    from agent.cli.gitops.known import whole_workload
    from agent.cli.gitops.written import NothingWritten, history_text, written_text
    from agent.cli.text.spans import harmless
    from agent.cli.top.terminal import write_text

    if arguments.workload is not None:
        namespace, kind, name = _parts_of(client, arguments)
        keys = [(namespace, kind, name)]
    else:
        keys = [(line.namespace, line.kind, line.name) for line in all_lines(client, arguments.namespace)[0]]
    bodies = [body for body in (whole_workload(client, key) for key in keys) if body is not None]
    if arguments.workload is not None and not bodies:
        raise NotKnownError(f"nothing is known of a workload {'/'.join(keys[0])}")
    try:
        text, left = (history_text(bodies), []) if writing.form == "history" else written_text(bodies, writing)
    except NothingWritten as error:
        print(harmless(f"{program_name()} workloads: {error}"), file=sys.stderr)
        return 1
    for line in left:
        print(harmless(f"{program_name()} workloads: {line}"), file=sys.stderr)
    write_text(text)
    return int(any(line.is_passing for line in left))


def all_lines(
    client: WebhookReader, namespace: str | None, *, quality: QualityWindow | None = None
) -> tuple[list[WorkloadLineBody], int]:
    """Ask for the whole list, page by page; return it with its length, or raise NoWebhookAnswerError."""
    from agent.webhook.queries.workload_bodies import WorkloadsBody

    lines: list[WorkloadLineBody] = []
    query = {"limit": str(PAGE), **({"namespace": namespace} if namespace else {})}
    if quality is not None:
        query["quality"] = quality
    while True:
        page, _ = client.get("/v1/workloads", WorkloadsBody, query)
        lines += page.workloads
        if page.next is None:
            return lines, page.total
        query["after"] = page.next


def _list(client: WebhookReader, arguments: argparse.Namespace) -> int:
    from agent.cli.top.terminal import look_from, write_lines, write_text
    from agent.cli.workloads.view import list_lines

    lines, total = all_lines(client, arguments.namespace)
    if arguments.output == "json":
        import msgspec

        write_text(msgspec.json.format(msgspec.json.encode(lines)).decode() + "\n")
        return 0
    look = look_from(arguments)
    table = list_lines(lines, total=total, width=look.width, glyphs=look.glyphs, has_colour=look.has_colour)
    write_lines(list(table), has_colour=look.has_colour)
    return 0


def _worst(client: WebhookReader, arguments: argparse.Namespace) -> int:
    from agent.cli.top.terminal import look_from, write_lines, write_text
    from agent.cli.workloads.quality_view import worst_first, worst_lines

    window = QualityWindow(arguments.window or QualityWindow.DAY)
    against = Against(arguments.against or Against.RECOMMENDED)
    lines, total = all_lines(client, arguments.namespace, quality=window)
    worst = worst_first(lines, against)
    if arguments.output == "json":
        import msgspec

        write_text(msgspec.json.format(msgspec.json.encode(worst[: arguments.worst])).decode() + "\n")
        return 0
    look = look_from(arguments)
    table = worst_lines(
        worst[: arguments.worst],
        against,
        window,
        judged=len(worst),
        total=total,
        width=look.width,
        glyphs=look.glyphs,
        has_colour=look.has_colour,
    )
    write_lines(list(table), has_colour=look.has_colour)
    return 0


def _show(workload: WorkloadBody, body: bytes, arguments: argparse.Namespace) -> int:
    from agent.cli.top.terminal import look_from, write_lines, write_text
    from agent.cli.workloads.view import workload_lines

    if arguments.png is not None:
        from agent.cli.workloads.picture import draw_workload

        draw_workload(workload, arguments.png)
    if arguments.output == "json":
        import msgspec

        write_text(msgspec.json.format(body).decode() + "\n")
        return 0
    look = look_from(arguments)
    write_lines(list(workload_lines(workload, width=look.width, glyphs=look.glyphs)), has_colour=look.has_colour)
    return 0


def _picture_error() -> type[Exception]:
    from agent.cli.text.png_plots import PictureError

    return PictureError
