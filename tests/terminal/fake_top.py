"""Runs the real screen over a made-up node; started inside tmux by test_top_screen.py, or by hand.

The CPU of pod web grows by 1m with each picture, and a picture of the past has its age in it: so a test sees which
moment is shown.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace

from agent.cli.top.screen import live_table
from agent.cli.top.sources import SourceError
from agent.cli.top.terminal import LiveOptions
from agent.core.window.snapshot import Snapshot
from tests.snapshots import busy_node, container, cpu_window


class FakeSource:
    """A node that changes with every picture, and fails on the third if told so."""

    def __init__(self, *, fails: bool) -> None:
        self._asked = 0
        self._fails = fails

    def __call__(self, at_age_seconds: float) -> Snapshot:
        self._asked += 1
        if self._fails and self._asked > 2:
            raise SourceError("no agent at /run/fake.sock: the socket is left over")
        ticking = container("ticking", "app", cpu=cpu_window(7000.0 + (self._asked if at_age_seconds == 0 else 0)))
        stepped = container(f"past-{round(at_age_seconds)}s", "app", cpu=cpu_window(6000.0))
        node = busy_node()
        return replace(
            node,
            units=(ticking, *([stepped] if at_age_seconds else []), *node.units),
            taken_unix_seconds=time.time() - at_age_seconds,
            at_age_seconds=at_age_seconds,
        )


if __name__ == "__main__":
    code = live_table(
        FakeSource(fails="--fails" in sys.argv),
        LiveOptions(interval_seconds=0.3, use_colour="--no-color" not in sys.argv),
    )
    if "--late-signal" in sys.argv:
        os.kill(os.getpid(), signal.SIGHUP)
    print(f"left with {code}")
    sys.exit(code)
