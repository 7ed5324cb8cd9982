"""``plimsoll ui``: the cluster's page in a browser, through a forward and a token of its own, until Ctrl-C."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from agent.cli.client.kubeconfig import add_context, add_installed_in, forwarded
from agent.cli.client.webhook import DEFAULT_URL, FORWARD, NoWebhookAnswerError, WebhookReader, add_webhook_options
from agent.cli.options.settings_options import fail
from agent.cli.text.program_name import program_name

_MOST_PORT = 65_535
_NOT_FOUND = 404


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("--no-browser", action="store_true", help="print the address only, and open nothing")
    parser.add_argument(
        "--port",
        metavar="NUMBER",
        type=_port,
        default=0,
        help="port of 127.0.0.1 to listen on, for instance for ssh -L (default: any free one)",
    )
    add_webhook_options(parser)
    group = parser.add_argument_group("cluster", "without --webhook the page comes through a forward of its own")
    add_context(group)
    add_installed_in(group)
    parser.epilog = "Ends with Ctrl-C. Exit code: 0 ended, 1 no webhook answers, 2 bad input."


def _port(text: str) -> int:
    port = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_PORT)) else -1
    if not 0 <= port <= _MOST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: 0 to {_MOST_PORT}, 0 = any free one")
    return port


def run(arguments: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    from agent.cli.text.spans import harmless

    try:
        if arguments.webhook != DEFAULT_URL or getattr(arguments, FORWARD, None) is not None:
            return _serve(arguments)
        with forwarded(arguments):
            return _serve(arguments)
    except NoWebhookAnswerError as error:
        print(harmless(f"{program_name()} ui: {error}"), file=sys.stderr)
        return 1


def _serve(arguments: argparse.Namespace) -> int:
    from agent.cli.client.page_door import PageDoor
    from agent.cli.options.shutdown import Ending

    reader = WebhookReader(arguments)
    if reader.passed("/ui/", {}).status == _NOT_FOUND:
        raise NoWebhookAnswerError("this webhook has no page: it is of an older release; upgrade the chart first")
    try:
        door = PageDoor(reader.passed, port=arguments.port)
    except OSError as error:
        fail(f"ui: --port {arguments.port}: cannot be had: {error.strerror or error}")
    with Ending(signal.SIGINT, signal.SIGTERM) as ending:
        door.start()
        try:
            print(f"the cluster's page: {door.url}\nthe address is good once; Ctrl-C ends it", flush=True)
            if not arguments.no_browser:
                _open(door.url)
            ending.wait()
        finally:
            door.close()
    return 0


def _open(url: str) -> None:
    """Open a browser where there is a screen for one: without, Python would start one inside the terminal."""
    import webbrowser

    has_screen = sys.platform != "linux" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")
    )
    if not has_screen or not webbrowser.open(url):
        print("no browser was found here: open the address in one", file=sys.stderr)
