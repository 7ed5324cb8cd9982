"""The webhook's own certificate on a real API server: made once, registered, rotated, healed; Secrets of others."""

from __future__ import annotations

import base64
import contextlib
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Final

import pytest

from agent.kube.client.api import HttpApi
from agent.kube.watch.reflector import WatchPace
from agent.webhook.certificates.certificates import Certificates
from agent.webhook.certificates.material import Material
from agent.webhook.certificates.options import CertificateOptions, CertificateSource
from agent.webhook.certificates.rotation import DAY_SECONDS, RotationStep, after_step
from agent.webhook.clocks import Clocks
from tests.cluster import chart
from tests.cluster.api import MERGE, Json
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import fresh_name
from tests.cluster.processes import READY_SECONDS, wait_for
from tests.cluster.webhook_rights import configuration_rules, own_rules, webhook_api
from tests.tls_clients import is_trusted, served, serving

pytestmark = pytest.mark.cluster

QUICK = WatchPace(start_spread_seconds=0.0, first_wait_seconds=0.05, longest_wait_seconds=0.3)
PATH: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
SECRET: Final = "certificate"  # noqa: S105  its name
PROPAGATION_SECONDS: Final = 0.3
"""What a registration gets to spread: who asked for it no longer ago knows the authority of what is served."""


class Site:
    """A namespace with an account, the chart's webhook configuration, and replicas that keep a certificate."""

    def __init__(self, cluster: ControlPlane, namespace: str, name: str) -> None:
        self.cluster, self.namespace, self.name = cluster, namespace, name
        self.host = f"plimsoll-webhook.{namespace}.svc"
        self.secret_path = f"/api/v1/namespaces/{namespace}/secrets/{SECRET}"
        self.leader = "a"
        self.now_offset_seconds = 0.0
        self.authority_path = f"/api/v1/namespaces/{namespace}/configmaps/plimsoll-webhook-authority"
        metadata = {"name": "plimsoll-webhook-authority"}
        body: Json = {"metadata": metadata, "data": {"kept": "by somebody"}}
        cluster.admin.create(self.authority_path.rpartition("/")[0], body)
        self.api: HttpApi = webhook_api(cluster, namespace, everywhere=configuration_rules(name), own=own_rules())

    def create_configuration(self) -> None:
        (manifest,) = chart.parts(*chart.REGISTRATION)
        manifest["metadata"]["name"] = self.name
        # Asks nobody: these tests look at the field alone.
        selector = {"matchLabels": {"nothing": "matches"}}
        manifest["webhooks"][0]["namespaceSelector"] = selector
        self.cluster.admin.create(PATH, manifest)

    def bundle(self) -> bytes:
        """Return what an API server trusts now."""
        webhook = self.cluster.admin.get(f"{PATH}/{self.name}")["webhooks"][0]
        return base64.b64decode(webhook["clientConfig"].get("caBundle", ""))

    def secret(self) -> dict[str, bytes]:
        data: dict[str, str] = self.cluster.admin.get(self.secret_path)["data"]
        return {key: base64.b64decode(value) for key, value in data.items()}

    def create_secret(self, data: dict[str, bytes]) -> None:
        """Put one there as an administrator would."""
        body = {key: base64.b64encode(value).decode() for key, value in data.items()}
        manifest = {"metadata": {"name": SECRET}, "type": "kubernetes.io/tls", "data": body}
        self.cluster.admin.create(self.secret_path.rpartition("/")[0], manifest)

    def told(self) -> Json:
        """Return what stands in the ConfigMap from which agents know whom to trust."""
        data: Json = self.cluster.admin.get(self.authority_path)["data"]
        return data

    def write_secret(self, data: dict[str, bytes], **more: Json) -> None:
        body = {"data": {key: base64.b64encode(value).decode() for key, value in data.items()}, **more}
        self.cluster.admin.patch(self.secret_path, body, MERGE)

    @contextlib.contextmanager
    def replicas(self, *names: str, **options: object) -> Iterator[list[Certificates]]:
        """Run replicas; the one that ``leader`` names leads."""
        chosen = CertificateOptions(secret=SECRET, configuration=self.name, **options)  # type: ignore[arg-type]
        running = [self._replica(name, chosen) for name in names]
        for replica in running:
            replica.start()
        try:
            yield running
        finally:
            for replica in running:
                replica.stop()

    def _replica(self, name: str, options: CertificateOptions) -> Certificates:
        return Certificates(
            options,
            namespace=self.namespace,
            api=self.api,
            is_leader=lambda: self.leader == name,
            pace=QUICK,
            look_seconds=0.05,
            clocks=Clocks(wall=lambda: time.time() + self.now_offset_seconds),
        )


@pytest.fixture
def site(cluster: ControlPlane, namespace: str) -> Iterator[Site]:
    webhook_site = Site(cluster, namespace, fresh_name("webhook"))
    webhook_site.create_configuration()
    yield webhook_site
    cluster.admin.delete(f"{PATH}/{webhook_site.name}")


def settled(site: Site, *replicas: Certificates) -> None:
    """Wait until all serve the Secret's certificate, and its authorities are registered."""

    def is_settled() -> bool:
        statuses = [replica.status() for replica in replicas]
        return (
            all(replica.wait(0.0) for replica in replicas)
            and all((status.is_registered, status.fault) == (True, None) for status in statuses)
            and len({status.expires_unix_seconds for status in statuses}) == 1
        )

    try:
        wait_for(is_settled, "all serve one certificate that is registered")
    except TimeoutError as error:
        raise AssertionError(f"{error}: {[replica.status() for replica in replicas]}") from error


def made(site: Site, *, days: float = 90.0, host: str | None = None) -> Material:
    return after_step(
        RotationStep.MAKE_ALL,
        None,
        names=(host or site.host,),
        now_unix_seconds=time.time(),
        options=CertificateOptions(leaf_days=days),
    )


def secret_of(material: Material) -> dict[str, bytes]:
    """As cert-manager writes it: without the authority's key."""
    return {"tls.crt": material.chain_pem, "tls.key": material.key_pem, "ca.crt": material.bundle_pem}


def without_authorities(material: Material) -> dict[str, bytes]:
    """As ``kubectl create secret tls`` writes it."""
    return {"tls.crt": material.chain_pem, "tls.key": material.key_pem}


def await_told(site: Site, bundle: bytes) -> None:
    """Wait until agents are told to trust these authorities."""
    content = {"ca.crt": bundle.decode(), "kept": "by somebody"}
    wait_for(lambda: site.told() == content, "agents are told whom to trust")


# -- built in --------------------------------------------------------------------------------------------------------


def test_the_leader_makes_one_certificate_for_all_and_registers_its_authority_alone(site: Site) -> None:
    before = site.cluster.admin.get(f"{PATH}/{site.name}")
    with site.replicas("a", "b", "c", further_names="127.0.0.1") as replicas:
        settled(site, *replicas)
        certificates = set()
        for replica in replicas:
            with serving(replica.served_context()) as port:
                for name in (site.host, "127.0.0.1", "plimsoll-webhook"):
                    certificates.add(served(port, site.bundle(), name))
        assert len(certificates) == 1
        # What agents mount holds no key, and nobody else's key of the map is touched.
        await_told(site, site.bundle())
        after = site.cluster.admin.get(f"{PATH}/{site.name}")
        assert after["webhooks"][0]["clientConfig"].pop("caBundle")
        assert after["webhooks"] == before["webhooks"]  # nothing but that field
        secret = site.cluster.admin.get(site.secret_path)
        assert (secret["type"], sorted(secret["data"])) == ("Opaque", ["ca.crt", "ca.key", "tls.crt", "tls.key"])


def test_who_does_not_lead_makes_and_registers_nothing(site: Site) -> None:
    site.leader = "nobody"
    with site.replicas("a", "b") as (first, second):
        wait_for(lambda: "does not exist" in (first.status().fault or ""), "the missing Secret is told")
        assert not first.wait(0.0)
        assert not site.cluster.admin.exists(site.secret_path)
        site.leader = "b"
        second.wake()
        settled(site, first, second)


def test_the_leaf_is_renewed_in_its_time_and_every_replica_takes_it_up(site: Site) -> None:
    # Two thirds of its 90 days ago, so that what is made then and now is good to a client of today.
    site.now_offset_seconds = -61 * DAY_SECONDS
    with site.replicas("a", "b") as replicas, serving(replicas[1].served_context()) as port:
        settled(site, *replicas)
        old, bundle = served(port, site.bundle(), site.host), site.bundle()
        site.now_offset_seconds = 0.0
        wait_for(lambda: served(port, bundle, site.host) != old, "the new one is served")
        settled(site, *replicas)
        assert [replica.status().reloads for replica in replicas] == [2, 2]
        assert site.bundle() == bundle


def test_the_authority_is_replaced_while_every_client_that_knows_the_registration_gets_through(site: Site) -> None:
    site.now_offset_seconds = -61 * DAY_SECONDS
    lives = {"authority_days": 90.0, "leaf_days": 80.0}
    # In the overlap, from the making of the new leaf on, the other replica has to take it up: it ends when that is so.
    options = {**lives, "propagation_seconds": PROPAGATION_SECONDS, "overlap_seconds": DAY_SECONDS}
    failures: list[str] = []
    passed: list[bytes] = []
    stop = threading.Event()
    with site.replicas("a", "b", **options) as replicas, serving(replicas[1].served_context()) as port:
        settled(site, *replicas)
        old = site.bundle()
        old_leaf = served(port, old, site.host)

        def load() -> None:
            """Connect without a pause; what is trusted is up to 0.2 s old, as in an API server."""
            while not stop.is_set():
                asked_seconds = time.monotonic()
                bundle = site.bundle()
                until = time.monotonic() + 0.2
                while time.monotonic() < until:
                    if is_trusted(port, bundle, site.host):
                        passed.append(bundle)
                    # A thread that was held up trusts what is older than a registration takes to spread.
                    elif time.monotonic() - asked_seconds < PROPAGATION_SECONDS:
                        failures.append(f"handshake {len(passed)}, bundle {len(set(passed))}")

        def await_passed(bundle: bytes) -> None:
            wait_for(lambda: bundle in passed, "somebody who trusts these authorities gets through")

        thread = threading.Thread(target=load, daemon=True)
        thread.start()
        try:
            await_passed(old)
            site.now_offset_seconds = 0.0
            wait_for(lambda: site.bundle().count(b"BEGIN") == 2, "the new one is trusted beside it")
            both = site.bundle()
            wait_for(lambda: served(port, both, site.host) != old_leaf, "the new leaf is served")
            await_passed(both)
            assert site.bundle() == both
            site.now_offset_seconds = DAY_SECONDS
            wait_for(lambda: old not in site.bundle() and site.bundle().count(b"BEGIN") == 1, "the old one is dropped")
            settled(site, *replicas)
            await_passed(site.bundle())
        finally:
            stop.set()
            thread.join()
        assert not failures
        assert old in both
        assert len(set(passed)) == 3  # with the old one, with both, with the new one; hundreds on a quiet machine
        assert not is_trusted(port, old, site.host)


def test_what_an_upgrade_takes_away_from_the_registration_is_put_back(site: Site) -> None:
    with site.replicas("a") as (replica,):
        settled(site, replica)
        bundle = site.bundle()
        for value in ("", base64.b64encode(made(site).bundle_pem).decode()):
            body = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": value}]
            site.cluster.admin.patch(f"{PATH}/{site.name}", body, "application/json-patch+json")
            wait_for(lambda: site.bundle() == bundle, "the bundle is back")


def test_a_missing_registration_is_told_and_mended_when_it_comes(site: Site) -> None:
    site.cluster.admin.delete(f"{PATH}/{site.name}")
    with site.replicas("a") as (replica,):
        wait_for(lambda: replica.wait(0.0) and "no MutatingWebhookConf" in (replica.status().fault or ""), "it is told")
        assert replica.status().is_served
        site.create_configuration()
        settled(site, replica)


@pytest.mark.parametrize("what", ["removed", "spoilt", "foreign"])
def test_a_secret_that_is_removed_or_spoilt_is_made_anew_and_nobody_is_cut_off(site: Site, what: str) -> None:
    with (
        site.replicas("a", "b", propagation_seconds=PROPAGATION_SECONDS) as replicas,
        serving(replicas[1].served_context()) as port,
    ):
        settled(site, *replicas)
        bundle, before = site.bundle(), site.secret()
        old = served(port, bundle, site.host)
        if what == "removed":
            site.cluster.admin.delete(site.secret_path)
        elif what == "spoilt":
            site.write_secret({"tls.crt": b"rubbish"})
        else:
            site.write_secret({**secret_of(made(site, host="elsewhere.svc")), "ca.key": b""})

        def is_mended() -> bool:
            asked_seconds = time.monotonic()
            try:
                return served(port, site.bundle(), site.host) != old
            except ssl.SSLError:
                # Cut off may be only who was held up: who asked longer ago than a registration takes to spread.
                assert time.monotonic() - asked_seconds >= PROPAGATION_SECONDS
                return False

        wait_for(is_mended, "a new certificate by a new authority is served")
        settled(site, *replicas)
        # The old one stays trusted for the overlap: another replica may still serve what it signed.
        assert bundle in site.bundle()
        assert site.secret()["ca.key"] != before["ca.key"]


def test_a_missing_right_is_told(cluster: ControlPlane, namespace: str) -> None:
    site = Site(cluster, namespace, fresh_name("webhook"))
    site.create_configuration()
    site.api = webhook_api(cluster, fresh(cluster), everywhere=[], own=own_rules())
    try:
        with site.replicas("a") as (replica,):
            wait_for(lambda: "Forbidden" in (replica.status().fault or ""), "the refusal is told")
            assert not replica.wait(0.0)
    finally:
        cluster.admin.delete(f"{PATH}/{site.name}")


def fresh(cluster: ControlPlane) -> str:
    from tests.cluster.identities import create_namespace

    name = fresh_name("test")
    create_namespace(cluster, name)
    return name


# -- of others -------------------------------------------------------------------------------------------------------


def test_a_secret_of_somebody_else_is_taken_up_and_never_written(site: Site) -> None:
    first, second = made(site), made(site)
    secrets = f"/api/v1/namespaces/{site.namespace}/secrets"
    with site.replicas("a", source=CertificateSource.SECRET) as (replica,):
        assert not replica.wait(0.05)
        empty = {"tls.crt": "", "tls.key": ""}
        site.cluster.admin.create(secrets, {"metadata": {"name": SECRET}, "type": "kubernetes.io/tls", "data": empty})
        with serving(replica.served_context()) as port:
            site.write_secret(secret_of(first))
            assert replica.wait(READY_SECONDS)
            assert is_trusted(port, first.bundle_pem, site.host)
            site.write_secret(secret_of(made(site, host="elsewhere.svc")))
            wait_for(lambda: "is not for" in (replica.status().fault or ""), "the wrong one is told")
            assert is_trusted(port, first.bundle_pem, site.host)
            site.write_secret(secret_of(second))
            wait_for(lambda: is_trusted(port, second.bundle_pem, site.host), "the next is served")
        # What is served is changed first; its thread may be held up before it says so.
        wait_for(lambda: replica.status().fault is None, "nothing is wrong any more")
        status = replica.status()
        assert (status.fault, status.is_registered, status.reloads) == (None, None, 2)
        assert site.bundle() == b""
        assert site.secret() == secret_of(second)
        await_told(site, second.bundle_pem)


def test_a_secret_without_authorities_is_served_and_told_until_it_has_them(site: Site) -> None:
    material = made(site)
    site.create_secret(without_authorities(material))
    with (
        site.replicas("a", "b", source=CertificateSource.SECRET) as (leader, other),
        serving(leader.served_context()) as port,
    ):
        fault = f"Secret {SECRET} has no ca.crt: agents are told nobody to trust"
        wait_for(lambda: leader.status().fault == fault, "it is told")
        assert is_trusted(port, material.bundle_pem, site.host)
        assert leader.status().is_served  # so admissions are answered, and it is ready
        assert site.told() == {"kept": "by somebody"}
        # Who leads tells it, and nobody else.
        site.leader = "b"
        wait_for(lambda: (leader.status().fault, other.status().fault) == (None, fault), "who leads tells it")
        site.write_secret({"ca.crt": material.bundle_pem})
        await_told(site, material.bundle_pem)
        wait_for(lambda: other.status().fault is None, "nothing is wrong any more")


def test_authorities_that_somebody_else_tells_agents_are_left_alone_and_judged(site: Site) -> None:
    first, second = made(site), made(site)
    content = {"ca.crt": second.bundle_pem.decode(), "kept": "by somebody"}
    site.cluster.admin.patch(site.authority_path, {"data": content}, MERGE)
    version = site.cluster.admin.get(site.authority_path)["metadata"]["resourceVersion"]
    site.create_secret(without_authorities(first))
    with site.replicas("a", source=CertificateSource.SECRET) as (replica,):
        fault = (
            f"Secret {SECRET} has no ca.crt: ConfigMap plimsoll-webhook-authority tells agents to trust somebody else"
        )
        wait_for(lambda: replica.status().fault == fault, "it is told")
        site.write_secret(without_authorities(second))
        wait_for(lambda: replica.status().fault is None, "they are those of what is served now")
        assert (replica.status().is_served, replica.status().reloads) == (True, 2)
    after = site.cluster.admin.get(site.authority_path)
    assert (after["data"], after["metadata"]["resourceVersion"]) == (content, version)
