"""Pods are made all the time while replicas of the webhook come and go, and while their certificate is replaced.

API server, Helm, PostgreSQL and the webhook's processes are real, and so is the way: the chart's registration names a
Service, and at that Service's address new connections are led to what is ready, as kube-proxy does. The order in which
replicas come and go is the chart's strategy, played: first a new one, ready, then an old one out of the Service and
told to end. No admission may fail, and none may be let through without the webhook's answer.
"""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.chart.admission_load import MAKERS, Load, asked, load
from tests.chart.release import Release
from tests.chart.service_address import ServiceAddress, service_address
from tests.chart.webhook_replicas import Replicas
from tests.cluster.chart import NAMESPACE, RELEASE, helm
from tests.cluster.processes import wait_for
from tests.webhook.postgres import postgres_server

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(os.geteuid() != 0, reason="gives loopback an address")]

BEFORE: dict[str, Any] = {
    "webhook": {
        "postgresql": {"existingSecret": "db"},
        "replicas": 2,
        # Minutes and a day otherwise, so that slow API servers and replicas keep up.
        "settings": {"certificate": {"propagationSeconds": 1, "overlapSeconds": 1}},
    }
}
AFTER: dict[str, Any] = {**BEFORE, "mode": "enforce", "settings": {"bounds": {"memoryInUseRatio": 1.3}}}
REGISTRATION: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/plimsoll"
END: Final = "-----END CERTIFICATE-----"
SECRET: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets/plimsoll-webhook-certificate"


@pytest.fixture
def shared(release: Release) -> Iterator[Release]:
    """A release with a database for several replicas."""
    if RELEASE in helm("list", "-q", f"--kubeconfig={release.plane.kubeconfig}", f"--namespace={NAMESPACE}"):
        release.uninstall()
    release.install(BEFORE)
    yield release
    release.uninstall()


class Scene(NamedTuple):
    """What a block of ``loaded`` works with."""

    pods: Load
    replicas: Replicas
    service: ServiceAddress


@contextmanager
def loaded(release: Release, folder: Path) -> Iterator[Scene]:
    """Have replicas serve and pods be made inside the block; at its end every admission must have been answered."""
    admin = release.plane.admin
    address = admin.get(f"/api/v1/namespaces/{NAMESPACE}/services/plimsoll-webhook")["spec"]["clusterIP"]
    with ExitStack() as stack:
        database = stack.enter_context(postgres_server())
        service = stack.enter_context(service_address(address))
        replicas = Replicas(release, service, database.tcp_url(database.new_database()), folder, stack)
        for _ in range(BEFORE["webhook"]["replicas"]):
            replicas.start()
        wait_for(lambda: registered(release) != "", "it is registered")
        pods = stack.enter_context(load(release))
        begun = asked(release)["request_total"]
        # Until the API server has seen the registration, and for its first connections.
        wait_for(lambda: asked(release)["request_total"] > begun + 50, "the webhook is asked")
        first, made = asked(release), pods.made
        yield Scene(pods, replicas, service)
        pods.stopping.set()
        last = asked(release)
        assert pods.refusals == []
        assert last["request_total"] - first["request_total"] >= pods.made - made - MAKERS
        assert last["fail_open_count"] == first["fail_open_count"], (first, last)


def registered(release: Release) -> str:
    """Give what the API server trusts; "" = nothing yet."""
    client: dict[str, str] = release.plane.admin.get(REGISTRATION)["webhooks"][0]["clientConfig"]
    return base64.b64decode(client.get("caBundle", "")).decode()


def test_no_admission_fails_or_goes_unanswered_in_an_upgrade_and_a_rollback(shared: Release, tmp_path: Path) -> None:
    changes: tuple[tuple[Callable[[], None], int], ...] = (
        (partial(shared.upgrade, AFTER), 2),
        (shared.rollback, 1),
    )
    with loaded(shared, tmp_path) as (pods, replicas, _):
        for change, replaced in changes:
            change()
            pods.goes_on()
            for _ in range(replaced):
                replicas.start()
                pods.goes_on()
                replicas.end_oldest()
                pods.goes_on()


def test_no_admission_fails_or_goes_unanswered_while_certificate_and_authority_are_replaced(
    shared: Release, tmp_path: Path
) -> None:
    admin = shared.plane.admin

    def leaf() -> str | None:
        """Give the certificate that is to be served; None = there is none."""
        data = admin.get(SECRET).get("data", {})
        if "tls.crt" not in data:
            return None
        chain = base64.b64decode(data["tls.crt"]).decode()
        return chain[: chain.index(END) + len(END)]

    with loaded(shared, tmp_path) as (pods, replicas, service):
        old_bundle, old_leaf, connections = registered(shared), leaf(), service.connections()
        # What the README of the chart says to do when the key is not trusted any more.
        shared.kubectl(
            "patch", "secret", "plimsoll-webhook-certificate", f"--namespace={NAMESPACE}", "--type=json",
            '--patch=[{"op": "remove", "path": "/data"}]',
        )  # fmt: skip

        def is_served_by_all() -> bool:
            served = {ssl.get_server_certificate(("127.0.0.1", port)).strip() for port in replicas.ports()}
            return old_leaf not in served and served == {leaf()}

        wait_for(is_served_by_all, "every replica serves a new certificate", 60.0)
        pods.goes_on()
        wait_for(lambda: old_bundle not in registered(shared), "the old authority is no longer trusted", 60.0)
        assert registered(shared).count("BEGIN") == 1
        pods.goes_on()
        # The API server connects anew wherever whom it trusts has changed: what it met was the new certificate.
        assert service.connections() > connections
