"""Evictions on a real server with real disruption budgets and the controller that counts them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent.core.cluster.pod import PodRef
from agent.kube.calls.eviction import EvictionKind, evict
from agent.kube.client.api import HttpApi
from tests.cluster import fence, objects
from tests.cluster.api import Json
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import create_service_account, fresh_name, node_bound_token
from tests.cluster.processes import wait_for
from tests.cluster.resizing import client

pytestmark = pytest.mark.cluster

ELSE = "00000000-0000-0000-0000-000000000000"


class Place:
    """A namespace with an account that may evict there, as the webhook's will."""

    def __init__(self, plane: ControlPlane, namespace: str, node: str) -> None:
        self.plane, self.namespace, self.node = plane, namespace, node
        self.budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
        create_service_account(plane, namespace, "evictor")
        rule = {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}
        rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
        plane.admin.create(f"{rbac}/roles", {"metadata": {"name": "evictor"}, "rules": [rule]})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "evictor"}
        subject = {"kind": "ServiceAccount", "name": "evictor", "namespace": namespace}
        binding = {"metadata": {"name": "evictor"}, "roleRef": role, "subjects": [subject]}
        plane.admin.create(f"{rbac}/rolebindings", binding)
        self.evictor: HttpApi = client(plane, node_bound_token(plane, namespace, "evictor", None))
        missing = PodRef(namespace=namespace, name="none", uid=ELSE)
        wait_for(lambda: evict(self.evictor, missing).kind is EvictionKind.GONE, "the role is in force")

    def pod(self, app: str) -> PodRef:
        """Create a running, ready pod."""
        manifest = objects.pod(fresh_name(app), self.node, labels={"app": app}, terminationGracePeriodSeconds=30)
        pod = self.plane.admin.create(objects.pod_path(self.namespace), manifest)
        name = pod["metadata"]["name"]
        objects.write_pod_status(self.plane.admin, self.namespace, name, objects.running_status(pod))
        return PodRef(namespace=self.namespace, name=name, uid=pod["metadata"]["uid"])

    def budget(self, name: str, app: str, minimum: int, *, pods: int = 1) -> str:
        """Create a disruption budget and wait until the controller has counted so many pods as healthy."""
        spec = {"minAvailable": minimum, "selector": {"matchLabels": {"app": app}}}
        self.plane.admin.create(self.budgets, {"metadata": {"name": name}, "spec": spec})
        path = f"{self.budgets}/{name}"
        wait_for(lambda: self._is_counted(path, pods), f"budget {name} is counted")
        return path

    def _is_counted(self, path: str, pods: int) -> bool:
        budget = self.plane.admin.get(path)
        status = budget.get("status", {})
        counted = (status.get("observedGeneration"), status.get("currentHealthy"))
        return bool(counted == (budget["metadata"]["generation"], pods))

    def is_there(self, ref: PodRef) -> bool:
        """Return whether the pod is there and nobody deletes it."""
        path = objects.pod_path(ref.namespace, ref.name)
        return self.plane.admin.exists(path) and "deletionTimestamp" not in self.read(ref)["metadata"]

    def read(self, ref: PodRef) -> Json:
        """Read the pod."""
        return self.plane.admin.get(objects.pod_path(ref.namespace, ref.name))


@pytest.fixture
def place(cluster: ControlPlane, namespace: str, node_name: str) -> Iterator[Place]:
    objects.create_node(cluster.admin, node_name)
    stage = Place(cluster, namespace, node_name)
    yield stage
    stage.evictor.close()


def test_evicted_pod_goes_and_its_status_says_why(place: Place) -> None:
    ref = place.pod("web")
    answer = evict(place.evictor, ref, grace_period_seconds=7)
    assert (answer.kind, answer.message) == (EvictionKind.ACCEPTED, "")
    pod = place.read(ref)
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 7
    [target] = [condition for condition in pod["status"]["conditions"] if condition["type"] == "DisruptionTarget"]
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")
    # Asked again while it is going, nothing more happens.
    assert evict(place.evictor, ref).kind is EvictionKind.ACCEPTED


def test_dry_run_evicts_nobody_and_takes_nothing_off_the_budget(place: Place) -> None:
    ref = place.pod("web")
    path = place.budget("spare", "web", 0)
    before = place.plane.admin.get(path)["status"]
    assert before["disruptionsAllowed"] == 1
    assert evict(place.evictor, ref, is_dry_run=True).kind is EvictionKind.ACCEPTED
    assert place.is_there(ref)
    assert place.plane.admin.get(path)["status"] == before


def test_budget_that_allows_none_says_so_by_name(place: Place) -> None:
    ref = place.pod("web")
    place.budget("tight", "web", 1)
    for is_dry_run in (True, False):
        answer = evict(place.evictor, ref, is_dry_run=is_dry_run)
        assert (answer.kind, answer.budget) == (EvictionKind.BUDGET, "tight")
        assert answer.message == "The disruption budget tight needs 1 healthy pods and has 1 currently"
        assert answer.retry_after_seconds is None
    assert place.is_there(ref)


def test_budget_lets_one_go_and_holds_the_next(place: Place) -> None:
    pods = [place.pod("web"), place.pod("web")]
    place.budget("one-less", "web", 1, pods=2)
    kinds = [evict(place.evictor, ref).kind for ref in pods]
    # The controller may not have counted the first one yet when the second is asked for.
    assert kinds[0] is EvictionKind.ACCEPTED
    assert kinds[1] in (EvictionKind.BUDGET, EvictionKind.STALE_BUDGET)
    assert [place.is_there(ref) for ref in pods] == [False, True]


def test_budget_not_counted_since_it_changed_is_stale(place: Place) -> None:
    ref = place.pod("web")
    path = place.budget("changing", "web", 0)
    controllers = place.plane.processes()["kube-controller-manager"]
    controllers.pause()
    try:
        place.plane.admin.patch(path, {"spec": {"minAvailable": 1}}, "application/merge-patch+json")
        answer = evict(place.evictor, ref)
    finally:
        controllers.resume()
    assert (answer.kind, answer.retry_after_seconds) == (EvictionKind.STALE_BUDGET, 10.0)
    assert "still being processed" in answer.message
    assert place.is_there(ref)


def test_two_budgets_for_one_pod_are_told_from_a_broken_server(place: Place) -> None:
    ref = place.pod("web")
    place.budget("first", "web", 0)
    place.budget("second", "web", 0)
    answer = evict(place.evictor, ref)
    assert answer.kind is EvictionKind.SEVERAL_BUDGETS
    assert "more than one PodDisruptionBudget" in answer.message
    assert place.is_there(ref)


def test_budget_with_too_many_unconfirmed_evictions_is_broken(place: Place) -> None:
    ref = place.pod("web")
    path = place.budget("flooded", "web", 0)
    controllers = place.plane.processes()["kube-controller-manager"]
    controllers.pause()
    try:
        budget = place.plane.admin.get(path)
        budget["status"]["disruptedPods"] = {f"pod-{index}": objects.now() for index in range(2001)}
        place.plane.admin.replace(f"{path}/status", budget)
        answer = evict(place.evictor, ref)
    finally:
        controllers.resume()
    assert answer.kind is EvictionKind.BROKEN_BUDGET
    assert place.is_there(ref)


def test_successor_of_the_same_name_stays(place: Place) -> None:
    ref = place.pod("web")
    answer = evict(place.evictor, PodRef(namespace=ref.namespace, name=ref.name, uid=ELSE))
    assert answer.kind is EvictionKind.REPLACED
    assert ELSE in answer.message
    assert place.is_there(ref)


def test_pod_that_is_gone_is_gone(place: Place) -> None:
    ref = place.pod("web")
    place.plane.admin.delete(objects.pod_path(ref.namespace, ref.name), gracePeriodSeconds="0")
    assert evict(place.evictor, ref).kind is EvictionKind.GONE


def test_node_agent_may_not_evict(place: Place) -> None:
    fence.install(place.plane)
    agent = client(place.plane, node_bound_token(place.plane, fence.NAMESPACE, fence.ACCOUNT, place.node))
    ref = place.pod("web")
    answer = evict(agent, ref)
    agent.close()
    assert answer.kind is EvictionKind.FORBIDDEN
    assert 'cannot create resource "pods/eviction"' in answer.message
    assert place.is_there(ref)


def test_hanging_server_is_unknown_and_a_stopped_one_unavailable(place: Place) -> None:
    ref = place.pod("web")
    with place.plane.freeze():
        assert evict(place.evictor, ref, is_dry_run=True, timeout_seconds=0.3).kind is EvictionKind.UNKNOWN
    with place.plane.outage():
        assert evict(place.evictor, ref).kind is EvictionKind.UNAVAILABLE
    assert place.is_there(ref)
