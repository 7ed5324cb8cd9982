"""The command ``plimsoll`` itself, run inside the guest.

To load all that a verb needs takes ten seconds and more under emulation. So each run is a process of its own that was
forked from this one, where all is loaded once.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn
from urllib.request import urlopen

from agent.cli.main import main
from agent.cli.verb_table import VERBS
from tests.guest.waiting import DEADLINE_SECONDS, wait_for

LOADED_BY_AGENTS: Final = (
    VERBS["agent"].module,
    "agent.cli.options.shutdown",
    "agent.cli.options.startup",
    "agent.node.daemon",
    "agent.node.cluster.connection",
    "agent.node.recommender.planner",
    "agent.node.recommender.together",
    "agent.node.reports.assembly",
    "agent.node.resize.assembly",
)
"""What the verb loads when it runs, beside an API server too; with all that these load."""


def doctor_verdicts() -> dict[str, str]:
    """Return ``plimsoll doctor``'s verdict by check."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "doctor.json"
        doctor = Forked(["doctor", "-o", "json"], out, {}, loads=(VERBS["doctor"].module,))
        try:
            wait_for(lambda: doctor.exit_code() is not None, "the doctor's end")
        finally:
            doctor.kill()
        assert doctor.exit_code() in {0, 1}, out.read_text()
        return {check["name"]: check["verdict"] for check in json.loads(out.read_text())["checks"]}


class Agent:
    """A running agent, seen through its metrics page."""

    def __init__(self, metrics_url: str) -> None:
        self.metrics_url = metrics_url

    def metric(self, name: str, labels: str = "") -> float | None:
        """Return a series' value; the labels as the page writes them, a part is enough. None = there is none."""
        with urlopen(self.metrics_url, timeout=DEADLINE_SECONDS) as answer:  # noqa: S310 - our own agent on loopback
            page = answer.read().decode()
        for line in page.splitlines():
            match = re.fullmatch(r"([a-z0-9_]+)(?:\{(.*)\})? (\S+)(?: \S+)?", line)
            if match and match[1] == name and labels in (match[2] or ""):
                return float(match[3])
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
    words = ["agent", "--port", "0", "--state-dir", "none", "--socket", socket, *arguments]
    process = Forked(words, log, {} if node is None else {"NODE_NAME": node}, loads=LOADED_BY_AGENTS)
    try:

        def address() -> str | None:
            assert process.exit_code() is None, log.read_text()
            match = re.search(r"http://[0-9.]+:\d+/metrics", log.read_text())
            return match[0] if match else None

        wait_for(lambda: address() is not None, f"the agent's address in {log}")
        yield Agent(str(address()))
        process.send(signal.SIGTERM)
        wait_for(lambda: process.exit_code() is not None, "the agent's end")
        assert process.exit_code() == 0, log.read_text()
    finally:
        process.kill()


class Forked:
    """A run of the command in a process of its own, whose streams are one file."""

    def __init__(
        self, words: Sequence[str], log: Path, environment: Mapping[str, str], *, loads: Sequence[str]
    ) -> None:
        for module in loads:
            importlib.import_module(module)
        log.touch()
        self._exit_code: int | None = None
        sys.stdout.flush()  # else both would write it
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid == 0:
            _run_and_exit(words, log, environment)

    def exit_code(self) -> int | None:
        """Return it, negative after a signal; None as long as it runs."""
        if self._exit_code is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._exit_code = os.waitstatus_to_exitcode(status) if pid else None
        return self._exit_code

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        if self.exit_code() is None:
            os.kill(self._pid, number)

    def kill(self) -> None:
        """End it at once, if it runs, and wait for its end."""
        self.send(signal.SIGKILL)
        wait_for(lambda: self.exit_code() is not None, "the end of what was killed")


def _run_and_exit(words: Sequence[str], log: Path, environment: Mapping[str, str]) -> NoReturn:
    """Run the command as a program begins: the signals, the log and the streams of the tests are not its own."""
    code = 70
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        out = os.open(log, os.O_WRONLY | os.O_APPEND)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        logging.getLogger().handlers.clear()
        os.environ.update(environment)
        code = main(words)
        sys.stdout.flush()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - the tests must not go on here
        traceback.print_exc()
    finally:
        os._exit(code)
