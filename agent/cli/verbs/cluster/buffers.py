"""``plimsoll buffers``: the cluster's CapacityBuffers; of one, where each of its numbers comes from."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from agent.cli.client.webhook import NoWebhookAnswerError, WebhookReader, add_webhook_options
from agent.cli.options.row_options import add_look_options
from agent.cli.options.settings_options import fail
from agent.cli.text.program_name import program_name

if TYPE_CHECKING:
    from agent.webhook.queries.buffer_bodies import BuffersBody

_PAGE = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("buffer", metavar="NAMESPACE/NAME", nargs="?", help="show one buffer, with the reasons")
    parser.add_argument("-n", "--namespace", metavar="NAME", help="list only this namespace")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="(default: table)")
    add_look_options(parser)
    add_webhook_options(parser)
    parser.epilog = "Exit code: 0 shown, 1 no answer, 2 bad input."


def run(arguments: argparse.Namespace) -> int:
    """Show the list, or one."""
    path = "/v1/buffers"
    if arguments.buffer is not None:
        namespace, slash, name = str(arguments.buffer).partition("/")
        if not slash and arguments.namespace is not None:  # as kubectl has it
            namespace, name = arguments.namespace, arguments.buffer
        elif arguments.namespace is not None:
            fail("buffers: --namespace is for the list; allowed: without NAMESPACE/NAME, which names its own")
        if not namespace or not name or "/" in name:
            fail(f"buffers: {arguments.buffer}: is not allowed; allowed: NAMESPACE/NAME, for instance shop/room")
        path = f"{path}/{namespace}/{name}"
    try:
        client = WebhookReader(arguments)
        body = _asked(client, path, None if arguments.buffer is not None else arguments.namespace)
    except NoWebhookAnswerError as error:
        print(f"{program_name()} buffers: {error}", file=sys.stderr)
        return 1
    _show(body, arguments)
    return 0


def _asked(client: WebhookReader, path: str, namespace: str | None) -> BuffersBody:
    from agent.webhook.queries.buffer_bodies import BuffersBody

    query = {"limit": str(_PAGE), **({"namespace": namespace} if namespace else {})}
    whole: BuffersBody | None = None
    while True:
        page, _ = client.get(path, BuffersBody, query if path == "/v1/buffers" else None)
        if whole is None:
            whole = page
        else:
            whole.buffers.extend(page.buffers)
        if page.next is None:
            whole.next = None
            return whole
        query["after"] = page.next


def _show(body: BuffersBody, arguments: argparse.Namespace) -> None:
    from agent.cli.top.terminal import look_from, write_lines, write_text
    from agent.cli.workloads.buffers_view import buffer_lines, list_lines

    if arguments.output == "json":
        import msgspec

        write_text(msgspec.json.format(msgspec.json.encode(body)).decode() + "\n")
        return
    look = look_from(arguments)
    if arguments.buffer is None:
        lines = list_lines(body, width=look.width, glyphs=look.glyphs, has_colour=look.has_colour)
    else:
        lines = buffer_lines(body, width=look.width, glyphs=look.glyphs)
    write_lines(list(lines), has_colour=look.has_colour)
