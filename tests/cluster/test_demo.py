"""``make cluster`` as a newcomer has it: an agent that resizes real loads, and nothing left when it ends."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import psutil
import pytest

from agent.node.sockets.control import request
from tests.cluster import fence
from tests.cluster.audit import AuditLog, Call
from tests.dying import dying_with_us
from tests.kernel.agents import REPOSITORY, wait_for
from tests.kernel.cgroups import cgroup2_mount, why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]

PATIENCE_SECONDS: Final = 120.0


class Demo:
    """The demo as a process."""

    def __init__(self, output: Path, *options: str) -> None:
        self._output = output
        with output.open("wb") as said:
            self.process = subprocess.Popen(
                dying_with_us(sys.executable, "-m", "tests.cluster.demo", *options),
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def said(self) -> str:
        return self._output.read_text()

    def environment(self) -> Path:
        """The file of the line ``. FILE``; waits for it."""

        def found() -> re.Match[str] | None:
            assert self.process.poll() is None, self.said()
            return re.search(r"^  \. (\S+)$", self.said(), re.MULTILINE)

        match = wait_for(found, "the demo says how to use it", seconds=PATIENCE_SECONDS)
        assert match is not None
        return Path(match[1])

    def cgroups(self) -> list[Path]:
        """Its directory below the mount; none = it has none (any more)."""
        mount = cgroup2_mount()
        assert mount is not None
        return list(mount.glob(f"plimsoll-test-{self.process.pid}-*"))


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    demonstration = Demo(tmp_path / "said", "--webhook")
    try:
        yield demonstration
    finally:
        demonstration.process.terminate()
        demonstration.process.wait(PATIENCE_SECONDS)


def run_in(environment: Path, command: str) -> str:
    """Run a line of the guide in a shell as a newcomer would; give what it prints."""
    words = ["sh", "-ec", f". {environment}; {command}"]
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS).stdout


def resized(audit: AuditLog, start: str) -> list[Call]:
    """The agent's accepted resizes of pods whose name starts so."""
    writes = audit.writes(fence.USER, refused=False)
    return [call for call in writes if call.resource == "pods/resize" and call.name.startswith(start)]


def has_reported(socket: Path) -> bool:
    """Whether the webhook has taken a report of the agent; a minute may pass until then."""
    with urlopen(str(request(socket, "ping", timeout_seconds=PATIENCE_SECONDS)["metrics"])) as answer:  # noqa: S310 - our own agent on loopback
        page = answer.read().decode()
    return re.search(r'^plimsoll_report_posts_total\{result="taken"\} [1-9]', page, re.MULTILINE) is not None


def test_demo_resizes_takes_in_a_new_deployment_and_leaves_nothing_after_sigterm(demo: Demo) -> None:
    environment = demo.environment()
    audit = AuditLog(environment.parent / "audit.log", from_start=True)
    wait_for(lambda: resized(audit, "api-"), f"the starved pod is grown; {demo.said()}", seconds=PATIENCE_SECONDS)
    run_in(environment, "kubectl create deployment mine --image=mine")
    # A question to the agent costs next to nothing, a program that asks it a second of CPU.
    socket = environment.parent / "agent.sock"
    wait_for(
        lambda: "mine-" in json.dumps(request(socket, "snapshot", timeout_seconds=PATIENCE_SECONDS)),
        "it runs",
        seconds=PATIENCE_SECONDS,
    )
    asked = "plimsoll top --once --pod 'mine-*' -o csv"
    wait_for(lambda: ",mine-" in run_in(environment, asked), "its load is seen", seconds=PATIENCE_SECONDS)
    run_in(environment, "kubectl delete deployment mine")
    to_it = wait_for(lambda: re.search(r"^  (to_it=.+)$", demo.said(), re.MULTILINE), "the way to the webhook is said")
    assert to_it is not None
    wait_for(lambda: has_reported(socket), "the agent has reported", seconds=PATIENCE_SECONDS)
    asked = f"{to_it[1]}; plimsoll workloads default/Deployment/api $to_it || true"
    wait_for(lambda: "container app" in run_in(environment, asked), "the webhook hears of it", seconds=PATIENCE_SECONDS)
    [cgroup] = demo.cgroups()
    left = {process.pid: process for process in psutil.Process(demo.process.pid).children(recursive=True)}
    assert "kube-apiserver" in {process.name() for process in left.values()}
    demo.process.terminate()
    assert demo.process.wait(PATIENCE_SECONDS) == 0, demo.said()
    assert not cgroup.exists()
    assert not environment.parent.exists()
    assert [process for process in left.values() if process.is_running()] == []


def test_demo_killed_leaves_nothing(demo: Demo) -> None:
    directory = demo.environment().parent
    children = psutil.Process(demo.process.pid).children(recursive=True)
    demo.process.kill()
    demo.process.wait()
    wait_for(lambda: not demo.cgroups(), "the cgroups are gone")
    wait_for(lambda: not directory.exists(), "the directory is gone")
    assert psutil.wait_procs(children, timeout=PATIENCE_SECONDS)[1] == []
