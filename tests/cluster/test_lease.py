"""The election on a real API server: its conflicts, its times, its rights."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping

import pytest

from agent.kube.client.api import JSON, Api, HttpApi, Stream
from agent.kube.client.errors import Unreachable
from agent.kube.watch.lease import LeaderLease, LeaseTiming, steady_seconds
from tests.cluster.api import MERGE
from tests.cluster.control_plane import ControlPlane
from tests.cluster.processes import wait_for
from tests.cluster.webhook_rights import own_rules, webhook_api
from tests.fakes import FakeClock

pytestmark = pytest.mark.cluster

LASTING = LeaseTiming(duration_seconds=300, renew_within_seconds=240, retry_seconds=0.1)
"""It does not run out while a busy machine holds somebody up: it lasts longer than any test waits."""


class Cable:
    """The API over a cable that can be pulled."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.is_pulled = threading.Event()

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object | None = None,
        content_type: str = JSON,
        timeout_seconds: float | None = None,
    ) -> object:
        if self.is_pulled.is_set():
            raise Unreachable("the cable is pulled")
        return self._api.call(
            method, path, query=query, body=body, content_type=content_type, timeout_seconds=timeout_seconds
        )

    def stream(self, path: str, **_: object) -> Stream:
        raise AssertionError(path)


@pytest.fixture
def api(cluster: ControlPlane, namespace: str) -> HttpApi:
    return webhook_api(cluster, namespace, everywhere=[], own=own_rules())


@contextlib.contextmanager
def standing(
    api: Api, namespace: str, *names: str, clock: Callable[[], float] = steady_seconds
) -> Iterator[list[LeaderLease]]:
    replicas = [
        LeaderLease(api, namespace=namespace, name="lease", identity=name, timing=LASTING, clock=clock)
        for name in names
    ]
    for replica in replicas:
        replica.start()
    try:
        yield replicas
    finally:
        for replica in replicas:
            replica.stop()


def path(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/lease"


def leads(replica: LeaderLease) -> Callable[[], bool]:
    return lambda: replica.is_leader


def test_one_of_three_leads_and_the_next_follows_as_soon_as_it_ends(
    cluster: ControlPlane, api: HttpApi, namespace: str
) -> None:
    with standing(api, namespace, "a", "b", "c") as replicas:
        wait_for(lambda: any(replica.is_leader for replica in replicas), "somebody leads")
        (first,) = [replica for replica in replicas if replica.is_leader]
        rest = [replica for replica in replicas if replica is not first]
        spec = cluster.admin.get(path(namespace))["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == (first.identity, LASTING.duration_seconds)
        wait_for(lambda: all(replica.holder == first.identity for replica in rest), "the others know who leads")
        first.stop()
        wait_for(lambda: not first.is_leader, "it leads no more")  # `stop` gives a call under way three seconds
        # Given back: else nobody would lead for five minutes, and none of these waits lasts so long.
        wait_for(lambda: any(replica.is_leader for replica in rest), "another leads")
        assert cluster.admin.get(path(namespace))["spec"]["leaseTransitions"] >= 1
        assert len([replica for replica in rest if replica.is_leader]) == 1


def test_who_is_cut_off_stops_leading_before_the_other_begins(
    cluster: ControlPlane, api: HttpApi, namespace: str
) -> None:
    cable, clock = Cable(api), FakeClock()
    together: list[bool] = []
    with standing(cable, namespace, "a", clock=lambda: clock.seconds) as (first,):
        wait_for(leads(first), "the first leads")
        with standing(api, namespace, "b", clock=lambda: clock.seconds) as (second,):

            def is_taken() -> bool:
                if cluster.admin.get(path(namespace))["spec"]["holderIdentity"] == "a":
                    clock.advance(10.0)  # and no further, or the second would lose it again
                # In this order: who leads no more by now did not begin again, while the second may begin any moment.
                is_second = second.is_leader
                together.append(is_second and first.is_leader)
                return is_second

            wait_for(lambda: second.holder == "a", "the second has seen who leads")
            cable.is_pulled.set()
            wait_for(lambda: first.trouble == "the cable is pulled", "the first is cut off")
            assert leads(first)(), "to be cut off alone takes nothing away yet"
            wait_for(is_taken, "the second leads")
            assert not first.is_leader
            assert first.trouble == "the cable is pulled"
            cable.is_pulled.clear()
            wait_for(lambda: first.trouble is None and first.holder == "b", "the first has seen who leads")
            assert second.is_leader
            assert not any(together)


def test_what_others_write_into_the_lease_stays_and_costs_nobody_the_lead(
    cluster: ControlPlane, api: HttpApi, namespace: str
) -> None:
    with standing(api, namespace, "a") as (first,):
        wait_for(leads(first), "it leads")
        cluster.admin.patch(path(namespace), {"metadata": {"labels": {"by": "hand"}}}, MERGE)
        before = cluster.admin.get(path(namespace))["spec"]["renewTime"]
        wait_for(lambda: cluster.admin.get(path(namespace))["spec"]["renewTime"] != before, "it is renewed")
        assert first.is_leader
        assert cluster.admin.get(path(namespace))["metadata"]["labels"] == {"by": "hand"}


def test_without_the_right_nobody_leads_and_it_is_told(cluster: ControlPlane, namespace: str) -> None:
    api = webhook_api(cluster, namespace, everywhere=[], own=own_rules(lease="another"))
    with standing(api, namespace, "a") as (first,):
        wait_for(lambda: "Forbidden" in (first.trouble or ""), "the refusal is told")
        assert not first.is_leader
