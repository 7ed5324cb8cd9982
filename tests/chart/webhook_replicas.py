"""The webhook's replicas as processes, behind the address of the chart's Service."""

from __future__ import annotations

import os
import signal
import ssl
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from tests.chart.release import Release
from tests.chart.service_address import ServiceAddress
from tests.cluster.api import kubeconfig
from tests.cluster.chart import NAMESPACE
from tests.cluster.identities import node_bound_token
from tests.cluster.processes import Process, free_ports, wait_for

REPOSITORY: Final = Path(__file__).parents[2]
GRACE_SECONDS: Final = 15.0
"""The chart's 20, less what the kubelet waits before it tells a pod to end."""


class Replicas:
    """The webhook's processes, under what the release holds at their start; the Service leads to those ready."""

    def __init__(
        self, release: Release, service: ServiceAddress, database: str, folder: Path, stack: ExitStack
    ) -> None:
        self._release, self._service, self._database, self._folder = release, service, database, folder
        self._stack = stack
        self._running: list[tuple[int, Process]] = []
        self._count = 0

    def start(self) -> None:
        """Start one more, and lead to it once it is ready."""
        plane, name = self._release.plane, f"webhook-{self._count}"
        self._count += 1
        settings = self._folder / f"{name}.yaml"
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/plimsoll-webhook"
        settings.write_text(plane.admin.get(path)["data"]["settings.yaml"])
        own = plane.api_with_token(node_bound_token(plane, NAMESPACE, "plimsoll-webhook", None))
        (port,) = free_ports(1, "127.0.0.1")
        command = [
            "env", "-C", str(REPOSITORY), f"PLIMSOLL_DATABASE_URL={self._database}",
            f"PLIMSOLL_CLUSTER_REPLICA={name}", sys.executable, "-m", "agent", "webhook", f"--settings={settings}",
            f"--kubeconfig={kubeconfig(own, self._folder / f'{name}.kubeconfig')}", f"--listen=127.0.0.1:{port}",
        ]  # fmt: skip
        process = Process(name, command, self._folder / f"{name}.log")
        self._stack.callback(process.stop)
        process.wait_until(lambda: is_ready(port), "it is ready")
        self._running.append((port, process))
        self._lead()

    def end_oldest(self) -> None:
        """Take the oldest out of the Service and tell it to end, as the kubelet does."""
        _, process = self._running.pop(0)
        self._lead()
        os.kill(process.pid, signal.SIGTERM)
        wait_for(lambda: not process.is_running(), "it ends within the grace period of its pod", GRACE_SECONDS)

    def ports(self) -> tuple[int, ...]:
        """Return where those that the Service leads to listen, the oldest first."""
        return tuple(port for port, _ in self._running)

    def _lead(self) -> None:
        self._service.lead_to(*self.ports())


def is_ready(port: int) -> bool:
    # As the kubelet's probes: the certificate is not looked at.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urlopen(f"https://127.0.0.1:{port}/readyz", timeout=5, context=context):
            return True
    except OSError:
        return False
