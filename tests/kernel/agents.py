"""The real agent as a process of its own, and waiting for what it should come to."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlsplit

from agent.node.sockets.control import ControlError, request
from tests.dying import dying_with_us

REPOSITORY: Final = Path(__file__).parents[2]
PATIENCE_SECONDS: Final = 60.0
"""Until a wait is a failure; nothing is slower because of it."""

Answer = TypeVar("Answer")


def wait_for(ask: Callable[[], Answer], what: str, *, seconds: float = PATIENCE_SECONDS) -> Answer:
    """Ask again and again until the answer is true; give it.

    Fifty times a second at first, ten times after two seconds: each question costs whoever is asked.
    """
    began = time.monotonic()
    while True:
        answer = ask()
        if answer:
            return answer
        waited = time.monotonic() - began
        if waited > seconds:
            msg = f"after {seconds:g} s still not: {what}; last answer {answer!r}"
            raise AssertionError(msg)
        time.sleep(min(max(0.02, waited / 20), 0.1))


def start_plimsoll(
    *words: str, stderr: Path, prefix: Sequence[str] = (), module: str = "agent", **more: Any
) -> subprocess.Popen[bytes]:
    """Start the command from this checkout, deaf and mute but for stderr; a prefix is a program that becomes it.

    It dies with the thread that calls this, see ``dying``.
    """
    environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}  # one that hangs says by SIGABRT what its threads are at
    with stderr.open("ab") as log:
        return subprocess.Popen(
            [*prefix, *dying_with_us(sys.executable, "-m", module, *words)],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
            **{"env": environment, **more},
        )


class AgentProcess:
    """`plimsoll agent` on one part of the tree; a context manager that ends it in any case."""

    def __init__(self, directory: Path, *words: str, cgroup_root: str, module: str = "agent") -> None:
        self._module = module
        self.state = directory / "state"
        self.socket = directory / "agent.sock"
        self.stderr = directory / "stderr"
        self.stderr.touch()
        self._words = (
            "agent",
            *("--cgroup-root", cgroup_root),
            *("--state-dir", str(self.state)),
            *("--socket", str(self.socket)),
            *("--port", "0"),
            *words,
        )
        self.process: subprocess.Popen[bytes] | None = None
        self.metrics_url = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.process = start_plimsoll(*self._words, stderr=self.stderr, module=self._module)
        answer = wait_for(self._ping, f"the agent answers; it said: {self.stderr.read_text()}")
        self.metrics_url = str(answer["metrics"])

    def run_to_its_end(self) -> tuple[int, str]:
        """Start it where it must refuse; give exit code and what it said."""
        before = len(self.stderr.read_text())
        process = start_plimsoll(*self._words, stderr=self.stderr, module=self._module)
        try:
            code = process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()
            process.wait()
        return code, self.stderr.read_text()[before:]

    def _ping(self) -> dict[str, object]:
        assert self.process is not None
        if self.process.poll() is not None:
            msg = f"the agent ended with {self.process.returncode}: {self.stderr.read_text()}"
            raise AssertionError(msg)
        try:
            return dict(request(self.socket, "ping"))
        except ControlError:
            return {}

    def end(self, signal_number: int = signal.SIGTERM) -> int:
        """Send a signal and give the exit code."""
        assert self.process is not None
        os.kill(self.process.pid, signal_number)
        return self.process.wait(PATIENCE_SECONDS)

    def snapshot(self, at_age_seconds: float = 0.0) -> dict[str, Any]:
        asked = {"at_age_seconds": at_age_seconds}
        return dict(request(self.socket, "snapshot", asked, timeout_seconds=PATIENCE_SECONDS))

    def units(self) -> dict[str, dict[str, Any]]:
        """Units of now by cgroup path."""
        return {unit["identity"]["cgroup_path"]: unit for unit in self.snapshot()["units"]}

    def get(self, path: str) -> tuple[int, str]:
        """GET a path of the metrics server; give status and body."""
        where = urlsplit(self.metrics_url)
        assert where.hostname is not None
        connection = http.client.HTTPConnection(where.hostname, where.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()
