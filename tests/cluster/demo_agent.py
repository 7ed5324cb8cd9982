"""The agent of ``make cluster``: on real cgroups, with the chart's rights behind the chart's fence, and in a hurry."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from agent.node.sockets.control import ControlError, request
from tests.cluster import fence
from tests.cluster.api import kubeconfig
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import node_bound_token
from tests.cluster.processes import Process
from tests.kernel.cgroups import CgroupTree

SETTINGS: Final[Mapping[str, object]] = {
    "act.mode": "enforce",
    "recommend.policy": "cruise",
    "act.growCoolDownSeconds": 5,
    "act.shrinkCoolDownSeconds": 60,
    "plan.replanSeconds": 5,
    "plan.minAgeSeconds": 0,
    "evaluateIntervalSeconds": 5,
    "recommend.minSpanSeconds": 10,
    "windows.cpuWindowSeconds": 60,
    "windows.rateWindowSeconds": 5,
    "serving.port": 0,
}
"""So that a person sees something happen; on a node the defaults are calmer, and lower nothing in the first hour."""
TOKEN_SECONDS: Final = 7 * 86_400
"""Nobody renews it."""
RESTART_SECONDS: Final = 5.0


class DemoAgent:
    """The agent as a child that is started again when it ends, as a DaemonSet would; a context manager.

    Args:
        plane: The cluster; rights and fence must be in force.
        node: Its node's name.
        tree: Its node's cgroups.
        directory: For its state, its socket and its log.
        settings: Further ones.
    """

    def __init__(
        self, plane: ControlPlane, node: str, tree: CgroupTree, directory: Path, settings: Mapping[str, object]
    ) -> None:
        self.socket, self.state = directory / "agent.sock", directory / "state"
        token = node_bound_token(plane, fence.NAMESPACE, fence.ACCOUNT, node, seconds=TOKEN_SECONDS)
        credentials = kubeconfig(plane.api_with_token(token), directory / "agent.kubeconfig")
        self._log = directory / "agent.log"
        self._command = (
            *(sys.executable, "-m", "agent", "agent", "--node", node, "--kubeconfig", str(credentials)),
            *("--cgroup-mount", str(tree.mount), "--cgroup-root", f"/{tree.name}"),
            *("--state-dir", str(self.state), "--socket", str(self.socket)),
            *(word for key, value in {**SETTINGS, **settings}.items() for word in ("--set", f"{key}={value}")),
        )
        self._process: Process | None = None
        self._began_seconds = 0.0

    def __enter__(self) -> Self:
        self._start().wait_until(self._answers, "the agent answers")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.stop()

    def revive(self) -> None:
        """Start it again if it has ended, and say so."""
        assert self._process is not None
        if self._process.is_running() or time.monotonic() < self._began_seconds + RESTART_SECONDS:
            return
        print(f"cluster: the agent has ended and is started again; its log is {self._log}", flush=True)
        self._process.stop()
        self._start()

    def metrics_url(self) -> str:
        """Return where its metrics are."""
        return str(request(self.socket, "ping")["metrics"])

    def _start(self) -> Process:
        self._began_seconds = time.monotonic()
        self._process = Process("plimsoll agent", self._command, self._log)
        return self._process

    def _answers(self) -> bool:
        try:
            self.metrics_url()
        except ControlError:
            return False
        return True
