"""Pods are made all the time while replicas of the webhook come and go, and while their certificate is replaced.

API server, Helm, PostgreSQL and the webhook's processes are real, and so is the way: the chart's registration names a
Service, and at that Service's address new connections are led to what is ready, as kube-proxy does. The order in which
replicas come and go is the chart's strategy, played: first a new one, ready, then an old one out of the Service and
told to end. No admission may fail, and none may be let through without the webhook's answer.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import ssl
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.archives import extract_all
from tests.chart.admission_load import MAKERS, Load, asked, load
from tests.chart.release import Release
from tests.chart.service_address import ServiceAddress, service_address
from tests.chart.webhook_replicas import Replicas
from tests.cluster.chart import CHART, NAMESPACE, RELEASE, helm
from tests.cluster.processes import wait_for
from tests.webhook.postgres import postgres_server

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(os.geteuid() != 0, reason="gives loopback an address")]

EARLIER_CHART: Final = Path(__file__).parents[1] / "data" / "charts" / "plimsoll-21afabb.tgz"
"""The chart as it first landed on main, by its commit; made by ``helm package``."""
SHARED: dict[str, Any] = {
    "webhook": {
        "postgresql": {"existingSecret": "db"},
        "replicas": 2,
        # Minutes otherwise, so that slow API servers keep up. Replicas have a day for it, as in a real cluster.
        "settings": {"certificate": {"propagationSeconds": 1}},
    }
}
BRIEF: dict[str, Any] = {
    "webhook": {**SHARED["webhook"], "settings": {"certificate": {"propagationSeconds": 1, "overlapSeconds": 1}}}
}
"""The same, for when all replicas have the new certificate: the old authority goes."""
CHANGED: dict[str, Any] = {**SHARED, "mode": "enforce", "settings": {"bounds": {"memoryInUseRatio": 1.3}}}
REGISTRATION: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/plimsoll"
END: Final = "-----END CERTIFICATE-----"
SECRET: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets/plimsoll-webhook-certificate"


@pytest.fixture
def empty(release: Release) -> Iterator[Release]:
    """Nothing is installed; what a test installs is gone after it."""

    def uninstall() -> None:
        if RELEASE in helm("list", "-q", f"--kubeconfig={release.plane.kubeconfig}", f"--namespace={NAMESPACE}"):
            release.uninstall()

    uninstall()
    yield release
    uninstall()


def patient(chart: Path, folder: Path) -> Path:
    """Return a copy of a chart by which the API server waits for the webhook five times as long.

    Who hangs up is found at once all the same; a busy machine may stand still for the chart's own two seconds.
    """
    copy = folder / f"patient-{chart.stem}"
    if chart.is_dir():
        shutil.copytree(chart, copy)
    else:
        with tarfile.open(chart) as packed:
            extract_all(packed, copy)
        copy /= "plimsoll"
    registration = copy / "templates" / "webhook" / "registration.yaml"
    text, count = re.subn(r"timeoutSeconds: 2$", "timeoutSeconds: 10", registration.read_text(), flags=re.M)
    assert count == 1
    registration.write_text(text)
    return copy


class Scene(NamedTuple):
    """What a block of ``loaded`` works with."""

    pods: Load
    replicas: Replicas
    service: ServiceAddress

    def all_are_answered(self, count: int = 20) -> None:
        """Wait until so many more pods were made, and find that the webhook was asked about each."""
        before = asked(self.pods.release)
        self.pods.goes_on(count)
        after = asked(self.pods.release)
        assert after["request_total"] - before["request_total"] >= count - MAKERS, (before, after)
        assert after["fail_open_count"] == before["fail_open_count"], (before, after)


@contextmanager
def loaded(release: Release, folder: Path, *, replicas: int, is_shared: bool = True) -> Iterator[Scene]:
    """Have replicas serve and pods be made inside the block; none may be refused."""
    admin = release.plane.admin
    address = admin.get(f"/api/v1/namespaces/{NAMESPACE}/services/plimsoll-webhook")["spec"]["clusterIP"]
    with ExitStack() as stack:
        database = str(folder / "webhook.db")
        if is_shared:
            server = stack.enter_context(postgres_server())
            database = server.tcp_url(server.new_database())
        service = stack.enter_context(service_address(address))
        running = Replicas(release, service, database, folder, stack)
        for _ in range(replicas):
            running.start()
        wait_for(lambda: registered(release) != "", "it is registered")
        pods = stack.enter_context(load(release))
        begun = asked(release)["request_total"]
        # Until the API server has seen the registration, and for its first connections.
        wait_for(lambda: asked(release)["request_total"] > begun + 50, "the webhook is asked")
        yield Scene(pods, running, service)
        pods.stopping.set()
        assert pods.refusals == []


@contextmanager
def answered(release: Release, folder: Path) -> Iterator[Scene]:
    """Have two replicas serve and pods be made inside the block; the webhook must have judged each."""
    with loaded(release, folder, replicas=SHARED["webhook"]["replicas"]) as scene:
        first, pods_before = asked(release), scene.pods.made
        yield scene
        scene.pods.stopping.set()
        pods_after = scene.pods.made  # read before the page: about each of these the webhook was asked by then
        last = asked(release)
        assert last["request_total"] - first["request_total"] >= pods_after - pods_before - MAKERS
        assert last["fail_open_count"] == first["fail_open_count"], (first, last)


def registered(release: Release) -> str:
    """Return what the API server trusts; "" = nothing yet."""
    client: dict[str, str] = release.plane.admin.get(REGISTRATION)["webhooks"][0]["clientConfig"]
    return base64.b64decode(client.get("caBundle", "")).decode()


def test_no_admission_fails_or_goes_unanswered_in_an_upgrade_and_a_rollback(empty: Release, tmp_path: Path) -> None:
    empty.install(SHARED, patient(EARLIER_CHART, tmp_path))
    changes: tuple[tuple[Callable[[], None], int], ...] = (
        (partial(empty.upgrade, CHANGED, patient(CHART, tmp_path)), 2),
        (empty.rollback, 1),
    )
    with answered(empty, tmp_path) as (pods, replicas, _):
        for change, replaced in changes:
            change()
            pods.goes_on()
            for _ in range(replaced):
                replicas.start()
                pods.goes_on()
                replicas.end_oldest()
                pods.goes_on()


def test_the_only_replica_on_sqlite_is_replaced_and_every_pod_is_made(empty: Release, tmp_path: Path) -> None:
    empty.install(chart=patient(CHART, tmp_path))
    with loaded(empty, tmp_path, replicas=1, is_shared=False) as scene:
        scene.all_are_answered()
        # The chart's strategy where only one may have the file: the old one first, and nobody until the next is ready.
        scene.replicas.end_oldest()
        before = asked(empty)["fail_open_count"]
        scene.pods.goes_on()
        assert asked(empty)["fail_open_count"] > before
        scene.replicas.start()
        scene.pods.goes_on()
        scene.all_are_answered()


def test_no_admission_fails_or_goes_unanswered_while_certificate_and_authority_are_replaced(
    empty: Release, tmp_path: Path
) -> None:
    chart = patient(CHART, tmp_path)
    empty.install(SHARED, chart)
    admin = empty.plane.admin

    def leaf() -> str | None:
        """Return the certificate that is to be served; None = there is none."""
        data = admin.get(SECRET).get("data", {})
        if "tls.crt" not in data:
            return None
        chain = base64.b64decode(data["tls.crt"]).decode()
        return chain[: chain.index(END) + len(END)]

    with answered(empty, tmp_path) as (pods, replicas, service):
        old_bundle, old_leaf, connections = registered(empty), leaf(), service.connections()
        # What the README of the chart says to do when the key is not trusted any more.
        empty.kubectl(
            "patch", "secret", "plimsoll-webhook-certificate", f"--namespace={NAMESPACE}", "--type=json",
            '--patch=[{"op": "remove", "path": "/data"}]',
        )  # fmt: skip

        def served() -> set[str]:
            return {ssl.get_server_certificate(("127.0.0.1", port)).strip() for port in replicas.ports()}

        def are_both_trusted() -> bool:
            # Read before the bundle: what is served has been trusted before it was.
            certificates = served()
            bundle = registered(empty)
            assert certificates == {old_leaf} or bundle.count("BEGIN") == 2, "a new certificate before its authority"
            return old_bundle in bundle and bundle.count("BEGIN") == 2

        wait_for(are_both_trusted, "the new authority is trusted beside the old one")
        wait_for(lambda: are_both_trusted() and served() == {leaf()} != {old_leaf}, "all serve a new certificate")
        pods.goes_on()
        empty.upgrade(BRIEF, chart)
        for _ in range(SHARED["webhook"]["replicas"]):
            replicas.start()
            replicas.end_oldest()
        wait_for(lambda: old_bundle not in registered(empty), "the old authority is no longer trusted")
        assert registered(empty).count("BEGIN") == 1
        pods.goes_on()
        # The API server connects anew wherever whom it trusts has changed: what it met was the new certificate.
        assert service.connections() > connections
