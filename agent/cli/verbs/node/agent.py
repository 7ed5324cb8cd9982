"""``plimsoll agent``: the DaemonSet's process. Watches, serves metrics and the socket, draws nothing."""

from __future__ import annotations

import argparse
import signal

from agent.cli.options.settings_options import (
    CGROUP_OPTIONS,
    KUBERNETES_OPTIONS,
    SAMPLING_OPTIONS,
    SERVING_OPTIONS,
    add_options,
    settings_from,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add_options(parser, KUBERNETES_OPTIONS, CGROUP_OPTIONS, SAMPLING_OPTIONS, SERVING_OPTIONS)


def run(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT."""
    from agent.cli.options.shutdown import Ending
    from agent.cli.options.startup import started
    from agent.node import log_format as logs
    from agent.node.daemon import Agent

    settings = settings_from(arguments)
    logs.setup(settings.logging.level, settings.logging.format)
    with (
        Ending(signal.SIGTERM, signal.SIGINT) as ending,
        started(lambda: Agent(settings, source="agent", acts=True)),
    ):
        ending.wait()
    return 0
