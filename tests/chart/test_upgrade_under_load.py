"""Pods are made all the time while Helm upgrades and rolls back and one replica of the webhook after the other ends.

API server, Helm, PostgreSQL and the webhook's processes are real, and so is the way: the chart's registration names a
Service, and at that Service's address new connections are led to what is ready, as kube-proxy does. The order in which
replicas come and go is the chart's strategy, played: first a new one, ready, then an old one out of the Service and
told to end. No admission may fail, and none may be let through without the webhook's answer.
"""

from __future__ import annotations

import os
import re
import signal
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import pytest

from tests.chart.release import Release
from tests.chart.service_address import ServiceAddress, service_address
from tests.cluster import objects
from tests.cluster.api import ApiError, kubeconfig
from tests.cluster.chart import NAMESPACE, RELEASE, helm
from tests.cluster.identities import create_namespace, node_bound_token
from tests.cluster.processes import Process, free_ports, wait_for
from tests.webhook.postgres import postgres_server

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(os.geteuid() != 0, reason="gives loopback an address")]

REPOSITORY = Path(__file__).parents[2]
SHOP: Final = "upgraded-shop"
MAKERS: Final = 2
BEFORE: dict[str, Any] = {"webhook": {"postgresql": {"existingSecret": "db"}, "replicas": 2}}
AFTER: dict[str, Any] = {**BEFORE, "mode": "enforce", "settings": {"bounds": {"memoryInUseRatio": 1.3}}}
REGISTRATION: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/plimsoll"
GRACE_SECONDS: Final = 15.0
"""The chart's 20, less what the kubelet waits before it tells a pod to end."""
HOOK: Final = "pods.plimsoll.dev"


@dataclass(slots=True)
class Load:
    """Pods that are made again and again, on trial: the API server asks the webhook and stores nothing."""

    release: Release
    made: int = 0
    refusals: list[str] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        manifest = objects.pod("load", None, objects.container(requests={"cpu": "100m"}))
        while not self.stopping.is_set():
            try:
                self.release.plane.admin.create(objects.pod_path(SHOP), manifest, dryRun="All")
            except (ApiError, OSError) as error:
                with self.lock:
                    self.refusals.append(str(error))
            else:
                with self.lock:
                    self.made += 1

    def goes_on(self, count: int = 20) -> None:
        """Wait until so many more were made."""
        target = self.made + count
        wait_for(lambda: self.made >= target, f"{count} more pods are made", 120.0)


@contextmanager
def load(release: Release) -> Iterator[Load]:
    """Have several make pods inside the block."""
    made = Load(release)
    threads = [threading.Thread(target=made.run) for _ in range(MAKERS)]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        made.stopping.set()
        for thread in threads:
            thread.join()


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
            "env", "--unset=PLIMSOLL_KUBERNETES", "-C", str(REPOSITORY), f"PLIMSOLL_DATABASE_URL={self._database}",
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

    def _lead(self) -> None:
        self._service.lead_to(*(port for port, _ in self._running))


def is_ready(port: int) -> bool:
    # As the kubelet's probes: the certificate is not looked at.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urlopen(f"https://127.0.0.1:{port}/readyz", timeout=5, context=context):
            return True
    except OSError:
        return False


@pytest.fixture
def shared(release: Release) -> Iterator[Release]:
    """A release with a database for several replicas."""
    if RELEASE in helm("list", "-q", f"--kubeconfig={release.plane.kubeconfig}", f"--namespace={NAMESPACE}"):
        release.uninstall()
    if not release.plane.admin.exists(f"/api/v1/namespaces/{SHOP}"):
        create_namespace(release.plane, SHOP)
        account = f"/api/v1/namespaces/{SHOP}/serviceaccounts/default"
        wait_for(lambda: release.plane.admin.exists(account), "pods may be made there")
    release.install(BEFORE)
    yield release
    release.uninstall()
    release.plane.admin.delete(f"/api/v1/namespaces/{SHOP}")


def asked(release: Release) -> dict[str, float]:
    """Give how often the API server asked the webhook, and how often it went on without an answer."""
    connection, answer = release.plane.admin.open("GET", "/metrics", None, "", None)
    try:
        page = answer.read().decode()
    finally:
        connection.close()
    counts = {}
    for name in ("apiserver_admission_webhook_request_total", "apiserver_admission_webhook_fail_open_count"):
        values = re.findall(rf'^{name}{{[^}}]*name="{re.escape(HOOK)}"[^}}]*}} (\S+)$', page, re.M)
        counts[name.removeprefix("apiserver_admission_webhook_")] = sum(map(float, values))
    return counts


def test_no_admission_fails_or_goes_unanswered_in_an_upgrade_and_a_rollback(shared: Release, tmp_path: Path) -> None:
    admin = shared.plane.admin
    address = admin.get(f"/api/v1/namespaces/{NAMESPACE}/services/plimsoll-webhook")["spec"]["clusterIP"]
    with ExitStack() as stack:
        database = stack.enter_context(postgres_server())
        service = stack.enter_context(service_address(address))
        replicas = Replicas(shared, service, database.tcp_url(database.new_database()), tmp_path, stack)
        for _ in range(BEFORE["webhook"]["replicas"]):
            replicas.start()
        wait_for(lambda: "caBundle" in admin.get(REGISTRATION)["webhooks"][0]["clientConfig"], "it is registered")
        pods = stack.enter_context(load(shared))
        # Until the API server has seen the registration, and for its first connections.
        wait_for(lambda: asked(shared)["request_total"] > 50, "the webhook is asked")
        first, made = asked(shared), pods.made
        changes: tuple[tuple[Callable[[], None], int], ...] = (
            (partial(shared.upgrade, AFTER), 2),
            (shared.rollback, 1),
        )
        for change, replaced in changes:
            change()
            pods.goes_on()
            for _ in range(replaced):
                replicas.start()
                pods.goes_on()
                replicas.end_oldest()
                pods.goes_on()
        pods.stopping.set()
        last = asked(shared)
        assert pods.refusals == []
        assert last["request_total"] - first["request_total"] >= pods.made - made - MAKERS
        assert last["fail_open_count"] == first["fail_open_count"], (first, last)
