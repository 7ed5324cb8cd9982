"""The command ``plimsoll`` itself, run inside the guest."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from tests.guest.waiting import DEADLINE_SECONDS, wait_for

COMMAND: Final = (sys.executable, "-m", "agent")


def doctor_verdicts() -> dict[str, str]:
    """Return ``plimsoll doctor``'s verdict by check."""
    command = [*COMMAND, "doctor", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_SECONDS)
    assert done.returncode in {0, 1}, done.stderr
    return {check["name"]: check["verdict"] for check in json.loads(done.stdout)["checks"]}


class Agent:
    """A running agent, seen through its metrics page."""

    def __init__(self, metrics_url: str) -> None:
        self.metrics_url = metrics_url

    def metric(self, name: str, labels: str = "") -> float | None:
        """Return a series' value; the labels as the page writes them, a part is enough. None = there is none."""
        with urlopen(self.metrics_url, timeout=DEADLINE_SECONDS) as answer:  # noqa: S310 - our own agent on loopback
            page = answer.read().decode()
        for line in page.splitlines():
            found = re.fullmatch(r"([a-z0-9_]+)(?:\{(.*)\})? (\S+)(?: \S+)?", line)
            if found and found[1] == name and labels in (found[2] or ""):
                return float(found[3])
        return None


@contextmanager
def running_agent(log: Path, *arguments: str, socket: str = "none", node: str | None = None) -> Iterator[Agent]:
    """Run ``plimsoll agent`` on the guest's own hierarchy; it must end cleanly when told to.

    Args:
        log: Where its log goes.
        arguments: Further words of the command.
        socket: Where it listens for questions.
        node: What its node is called; None = as the host is.
    """
    command = [*COMMAND, "agent", "--port", "0", "--state-dir", "none", "--socket", socket, *arguments]
    environment = {**os.environ, **({} if node is None else {"NODE_NAME": node})}
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, env=environment) as process:
        try:

            def address() -> str | None:
                assert process.poll() is None, log.read_text()
                found = re.search(r"http://[0-9.]+:\d+/metrics", log.read_text())
                return found[0] if found else None

            wait_for(lambda: address() is not None, f"the agent's address in {log}")
            yield Agent(str(address()))
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_SECONDS) == 0, log.read_text()
        finally:
            process.kill()
