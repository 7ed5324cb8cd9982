"""The agent's rights and fence, as the chart has them, on a real server: what a node's token reaches, and what not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from agent.core.annotations import ORIGINAL_RESOURCES
from agent.core.originals import annotation_text, original_of
from agent.kube.convert import pod_from_json
from tests.cluster import fence, objects
from tests.cluster.api import JSON_PATCH, MERGE, Api, ApiError, Json
from tests.cluster.audit import AuditLog
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import create_namespace, create_service_account, fresh_name
from tests.cluster.processes import wait_for

pytestmark = pytest.mark.cluster

MORE_CPU = objects.resize_body(app={"requests": {"cpu": "250m"}})
ORIGINAL: Json = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}


@dataclass(frozen=True)
class Two:
    """Two nodes with an agent each, and the API as each of them sees it."""

    node_a: str
    node_b: str
    agent_a: Api
    agent_b: Api
    agent_unbound: Api


@pytest.fixture(scope="module")
def two(cluster: ControlPlane) -> Two:
    fence.install(cluster)
    nodes = fresh_name("a"), fresh_name("b")
    for node in nodes:
        objects.create_node(cluster.admin, node)
    return Two(*nodes, *(fence.agent_api(cluster, node) for node in (*nodes, None)))


def refusal(call: Callable[[], object]) -> str:
    """Give the message of the 403 that a call must meet."""
    with pytest.raises(ApiError) as error:
        call()
    assert error.value.status == 403, error.value
    return error.value.message


def make_pod(cluster: ControlPlane, namespace: str, node: str, **annotations: str) -> str:
    name = fresh_name("web")
    named = {f"plimsoll.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    manifest = objects.pod(name, node, objects.container(**ORIGINAL), annotations=named)
    cluster.admin.create(objects.pod_path(namespace), manifest)
    return name


# Pods


def test_agent_resizes_a_pod_of_its_own_node(cluster: ControlPlane, two: Two, namespace: str) -> None:
    pod = make_pod(cluster, namespace, two.node_a)
    log = AuditLog(cluster.audit_log)
    after = objects.resize(two.agent_a, namespace, pod, MORE_CPU)
    assert after["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "250m"
    [write] = log.writes(fence.USER)
    assert (write.resource, write.node) == ("pods/resize", two.node_a)


def test_agent_is_refused_a_pod_of_another_node(cluster: ControlPlane, two: Two, namespace: str) -> None:
    pod = make_pod(cluster, namespace, two.node_a)
    message = refusal(lambda: objects.resize(two.agent_b, namespace, pod, MORE_CPU))
    assert "only pods of the own node may be resized" in message
    assert two.node_a in message
    assert two.node_b in message


def test_token_that_names_no_node_may_resize_nothing(cluster: ControlPlane, two: Two, namespace: str) -> None:
    bound, unbound = make_pod(cluster, namespace, two.node_a), fresh_name("unbound")
    cluster.admin.create(objects.pod_path(namespace), objects.pod(unbound, None))
    for pod in (bound, unbound):  # the second is on no node either: two absences are not a match
        assert "own node" in refusal(partial(objects.resize, two.agent_unbound, namespace, pod, MORE_CPU))


@pytest.mark.parametrize("protected", ["kube-system", "kube-public", "kube-node-lease", "plimsoll"])
def test_agent_is_refused_protected_namespaces(cluster: ControlPlane, two: Two, protected: str) -> None:
    account = f"/api/v1/namespaces/{protected}/serviceaccounts/default"
    if not cluster.admin.exists(account):
        create_service_account(cluster, protected, "default")
    pod = make_pod(cluster, protected, two.node_a)
    message = refusal(lambda: objects.resize(two.agent_a, protected, pod, MORE_CPU))
    assert f"pods of namespace {protected} are never resized" in message
    cluster.admin.delete(objects.pod_path(protected, pod), gracePeriodSeconds="0")


@pytest.mark.parametrize("mode", ["off", "recommend", "Enforce", ""])
def test_agent_is_refused_a_pod_whose_mode_is_not_enforce(
    cluster: ControlPlane, two: Two, namespace: str, mode: str
) -> None:
    pod = make_pod(cluster, namespace, two.node_a, mode=mode)
    assert f"mode is {mode}" in refusal(lambda: objects.resize(two.agent_a, namespace, pod, MORE_CPU))


def test_mode_of_the_namespace_counts_where_the_pod_has_none(cluster: ControlPlane, two: Two) -> None:
    quiet = fresh_name("quiet")
    create_namespace(cluster, quiet, {"plimsoll.dev/mode": "recommend"})
    silent, own_word = make_pod(cluster, quiet, two.node_a), make_pod(cluster, quiet, two.node_a, mode="enforce")
    assert "mode is recommend" in refusal(lambda: objects.resize(two.agent_a, quiet, silent, MORE_CPU))
    objects.resize(two.agent_a, quiet, own_word, MORE_CPU)
    cluster.admin.delete(f"/api/v1/namespaces/{quiet}")


@pytest.mark.parametrize(("annotation", "is_enforced"), [(None, False), ("enforce", True)])
def test_label_of_the_namespace_counts_where_it_has_no_annotation(
    cluster: ControlPlane, two: Two, annotation: str | None, is_enforced: bool
) -> None:
    quiet = fresh_name("quiet")
    stated = {} if annotation is None else {"plimsoll.dev/mode": annotation}
    create_namespace(cluster, quiet, stated, labels={"plimsoll.dev/mode": "off"})
    pod = make_pod(cluster, quiet, two.node_a)
    if is_enforced:
        objects.resize(two.agent_a, quiet, pod, MORE_CPU)
    else:
        assert "mode is off" in refusal(lambda: objects.resize(two.agent_a, quiet, pod, MORE_CPU))
    cluster.admin.delete(f"/api/v1/namespaces/{quiet}")


def test_patch_cannot_talk_itself_free_of_the_mode(cluster: ControlPlane, two: Two, namespace: str) -> None:
    pod = make_pod(cluster, namespace, two.node_a, mode="off")
    body = MORE_CPU | {"metadata": {"annotations": {"plimsoll.dev/mode": "enforce"}}}
    assert "mode is off" in refusal(lambda: objects.resize(two.agent_a, namespace, pod, body))


def test_pod_switched_off_may_be_given_its_original_resources_back_and_no_others(
    cluster: ControlPlane, two: Two, namespace: str
) -> None:
    # Spelt otherwise than the API does, and with the spaces of a person: 0.1 = 100m, 65536Ki = 64Mi.
    kept = '{"containers": {"app": {"requests": {"cpu": "0.1", "memory": "65536Ki"}, "limits": {"memory": "128Mi"}}}}'
    pod = make_pod(cluster, namespace, two.node_a, original_resources=kept)
    path = objects.pod_path(namespace, pod)
    objects.resize(
        two.agent_a,
        namespace,
        pod,
        objects.resize_body(app={"requests": {"cpu": "250m", "memory": "96Mi"}, "limits": {"memory": "256Mi"}}),
    )
    cluster.admin.patch(path, {"metadata": {"annotations": {"plimsoll.dev/mode": "off"}}})
    for other in (
        {"requests": {"cpu": "101m"}},
        {"requests": {"memory": "128Mi"}},  # an amount of the annotation, but of the limit
        {"requests": {"cpu": "100m", "memory": "65Mi"}},
        {"requests": {"memory": "64Mi"}, "limits": {"memory": "64Mi"}},
        {"requests": {"cpu": "100m"}, "limits": {"cpu": "100m"}},  # there was no such limit
    ):
        body = objects.resize_body(app=other)
        assert "original resources" in refusal(partial(objects.resize, two.agent_a, namespace, pod, body))
    # In two steps, as the agent does it: a memory limit falls by itself.
    objects.resize(two.agent_a, namespace, pod, objects.resize_body(app={"requests": ORIGINAL["requests"]}))
    objects.resize(two.agent_a, namespace, pod, objects.resize_body(app={"limits": ORIGINAL["limits"]}))
    assert cluster.admin.get(path)["spec"]["containers"][0]["resources"] == ORIGINAL


def test_restore_counts_every_container_and_the_pod_level(
    control_plane_1_37: ControlPlane, two: Two, namespace: str
) -> None:
    admin, name = control_plane_1_37.admin, fresh_name("many")
    manifest = objects.pod(
        name,
        two.node_a,
        objects.container("app", requests={"cpu": "100m"}),
        objects.container("pod", requests={"cpu": "10m"}),  # named to be mistaken for the pod level
        initContainers=[
            objects.container("proxy", requests={"cpu": "50m", "memory": "32Mi"}) | {"restartPolicy": "Always"}
        ],
        resources={"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}},
    )
    path = objects.pod_path(namespace, name)
    # The annotation as the agent's own code writes it: what one writes the other must find.
    made = pod_from_json(admin.create(objects.pod_path(namespace), manifest))
    kept = annotation_text(original_of(made, kept_unix_seconds=0.0))
    proxy_up: Json = {"initContainers": [{"name": "proxy", "resources": {"requests": {"cpu": "60m"}}}]}
    pod_up: Json = {"resources": {"requests": {"cpu": "1200m"}}}
    objects.resize(admin, namespace, name, {"spec": proxy_up | pod_up})
    admin.patch(path, {"metadata": {"annotations": {"plimsoll.dev/mode": "off", ORIGINAL_RESOURCES: kept}}})

    proxy_back: Json = {"initContainers": [{"name": "proxy", "resources": {"requests": {"cpu": "50m"}}}]}
    for wrong in (
        {"initContainers": [{"name": "proxy", "resources": {"requests": {"cpu": "55m"}}}]},
        proxy_back | {"resources": {"requests": {"cpu": "1100m"}}},
        proxy_back | {"containers": [{"name": "pod", "resources": {"requests": {"cpu": "1"}}}]},
    ):
        body = {"spec": wrong}
        assert "original resources" in refusal(partial(objects.resize, two.agent_a, namespace, name, body))
    back = {"spec": proxy_back | {"resources": {"requests": {"cpu": "1"}}}}
    assert objects.resize(two.agent_a, namespace, name, back)["spec"]["resources"]["requests"]["cpu"] == "1"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"cpu": "200m"}, {"cpu": "21"}),
        ({"cpu": "1m"}, {"cpu": "11"}),
        ({"cpu": "21"}, {"cpu": "200m"}),
        ({"memory": "128Mi"}, {"memory": "13Gi"}),
        ({"memory": "13Gi"}, {"memory": "128Mi"}),
        ({"cpu": "200m", "memory": "200Mi"}, {"cpu": "210m", "memory": "200Gi"}),  # Mi taken for Gi
    ],
)
def test_request_that_leaps_is_refused(cluster: ControlPlane, two: Two, namespace: str, old: Json, new: Json) -> None:
    name = leaping_pod(cluster, two, namespace, old)
    body = objects.resize_body(app={"requests": new})
    message = refusal(lambda: objects.resize(two.agent_a, namespace, name, body))
    assert "container app would change by more than a factor of 100" in message
    objects.resize(cluster.admin, namespace, name, body)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"cpu": "1m"}, {"cpu": "10"}),  # counts as 100m
        ({"cpu": "10"}, {"cpu": "1m"}),
        ({"cpu": "200m"}, {"cpu": "20"}),
        ({"memory": "1Mi"}, {"memory": "9Gi"}),
        ({"cpu": "200m"}, {"memory": "100Gi"}),  # kept, and none before
    ],
)
def test_request_within_the_factor_is_not(
    cluster: ControlPlane, two: Two, namespace: str, old: Json, new: Json
) -> None:
    name = leaping_pod(cluster, two, namespace, old | ({"memory": "2Gi"} if "memory" not in old else {}))
    objects.resize(two.agent_a, namespace, name, objects.resize_body(app={"requests": new}))


def test_what_a_pod_came_with_is_put_back_over_any_factor(cluster: ControlPlane, two: Two, namespace: str) -> None:
    kept = '{"containers":{"app":{"requests":{"cpu":"20"}}}}'
    name = leaping_pod(cluster, two, namespace, {"cpu": "100m"}, original_resources=kept)
    objects.resize(two.agent_a, namespace, name, objects.resize_body(app={"requests": {"cpu": "20"}}))


def leaping_pod(cluster: ControlPlane, two: Two, namespace: str, requests: Json, **annotations: str) -> str:
    """Make a pod on a node that is large enough."""
    room = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    cluster.admin.patch(f"/api/v1/nodes/{two.node_a}/status", {"status": {"allocatable": room, "capacity": room}})
    name = fresh_name("leap")
    named = {f"plimsoll.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    container = objects.container("app", requests=requests)
    cluster.admin.create(objects.pod_path(namespace), objects.pod(name, two.node_a, container, annotations=named))
    return name


def test_agent_has_no_other_right_over_pods(cluster: ControlPlane, two: Two, namespace: str) -> None:
    pod = make_pod(cluster, namespace, two.node_a)
    path = objects.pod_path(namespace, pod)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
    attempts: dict[str, Callable[[], object]] = {
        "patch": lambda: two.agent_a.patch(path, {"metadata": {"labels": {"x": "y"}}}),
        "delete": lambda: two.agent_a.delete(path),
        "evict": lambda: two.agent_a.create(f"{path}/eviction", eviction),
        "status": lambda: objects.write_pod_status(two.agent_a, namespace, pod, {"phase": "Failed"}),
        "secrets": lambda: two.agent_a.get(f"/api/v1/namespaces/{namespace}/secrets"),
        "proxy": lambda: two.agent_a.get(f"/api/v1/nodes/{two.node_a}/proxy/pods"),
    }
    for what, attempt in attempts.items():
        assert "cannot" in refusal(attempt), what


def test_agent_reads_what_it_needs_and_writes_events(cluster: ControlPlane, two: Two, namespace: str) -> None:
    make_pod(cluster, namespace, two.node_a)
    pods = two.agent_a.items("/api/v1/pods", fieldSelector=f"spec.nodeName={two.node_a}")
    assert namespace in {pod["metadata"]["namespace"] for pod in pods}
    assert two.agent_a.get(f"/api/v1/nodes/{two.node_a}")
    assert two.agent_a.get(f"/api/v1/namespaces/{namespace}")
    path = fence.event_path(namespace)
    two.agent_a.create(path, fence.event("told", namespace, two.node_a))
    again = {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}
    assert two.agent_a.patch(f"{path}/told", {"series": again})["series"]["count"] == 2
    for who in (two.agent_b, two.agent_unbound):
        speaking_for_a = fence.event("other", namespace, two.node_a)
        assert "only Events of the own node" in refusal(partial(who.create, path, speaking_for_a))
        assert "only Events of the own node" in refusal(partial(who.patch, f"{path}/told", {"series": again}))
    nameless = fence.event("nameless", namespace, "")
    with pytest.raises(ApiError):  # by the fence or, later, by the API's own rules
        two.agent_unbound.create(path, nameless)
    of_another_program = fence.event("kubelet", namespace, two.node_a) | {"reportingController": "kubelet"}
    assert "only Events of the own node" in refusal(partial(two.agent_a.create, path, of_another_program))


# The taint


def test_agent_sets_and_takes_away_its_taint_beside_others(cluster: ControlPlane, two: Two) -> None:
    other = fence.taint("NoSchedule", "example.com/other")
    fence.set_taints(cluster.admin, two.node_a, [other])
    for effect in ("NoSchedule", "PreferNoSchedule"):
        after = fence.set_taints(two.agent_a, two.node_a, [other, fence.taint(effect)])
        assert after["spec"]["taints"] == [other, fence.taint(effect)]
    assert fence.set_taints(two.agent_a, two.node_a, [other])["spec"]["taints"] == [other]
    strategic = {"spec": {"taints": [other, fence.taint("NoSchedule")]}}
    assert len(two.agent_a.patch(f"/api/v1/nodes/{two.node_a}", strategic)["spec"]["taints"]) == 2


@pytest.mark.parametrize("agent", ["agent_b", "agent_unbound"])
def test_other_agents_are_refused_the_taint(cluster: ControlPlane, two: Two, agent: str) -> None:
    fence.set_taints(cluster.admin, two.node_a, [])
    message = refusal(lambda: fence.set_taints(getattr(two, agent), two.node_a, [fence.taint("NoSchedule")]))
    assert "only the own node may be tainted" in message


def test_own_taint_may_not_throw_pods_off(cluster: ControlPlane, two: Two) -> None:
    fence.set_taints(cluster.admin, two.node_a, [])
    message = refusal(lambda: fence.set_taints(two.agent_a, two.node_a, [fence.taint("NoExecute")]))
    assert "NoSchedule or PreferNoSchedule only" in message


def test_no_other_taint_may_be_added_changed_or_taken_away(cluster: ControlPlane, two: Two) -> None:
    other = fence.taint("NoSchedule", "example.com/other")
    fence.set_taints(cluster.admin, two.node_a, [other])
    for taints in (
        [],
        [other | {"effect": "NoExecute"}],
        [other, fence.taint("NoSchedule", "example.com/third")],
        [other | {"value": "changed"}, fence.taint("NoSchedule")],
    ):
        message = refusal(partial(fence.set_taints, two.agent_a, two.node_a, taints))
        assert "no taint but" in message


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"unschedulable": True}},
        {"spec": {"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"]}},
        {"spec": {"providerID": "elsewhere://x"}},
        {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
        {"metadata": {"labels": {"kubernetes.io/os": None}}},
        {"metadata": {"labels": None}},
        {"metadata": {"annotations": {"x": "y"}}},
        {"metadata": {"finalizers": ["example.com/kept"]}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "x"}]}},
    ],
)
def test_nothing_else_of_the_own_node_may_change(cluster: ControlPlane, two: Two, patch: Json) -> None:
    fence.set_taints(cluster.admin, two.node_a, [])
    message = refusal(lambda: two.agent_a.patch(f"/api/v1/nodes/{two.node_a}", patch, MERGE))
    assert "nothing of a node but its overload taint" in message


def test_field_of_the_own_node_may_not_be_taken_away(cluster: ControlPlane, two: Two) -> None:
    path = f"/api/v1/nodes/{two.node_a}"
    cluster.admin.patch(path, {"spec": {"unschedulable": True}}, MERGE)
    message = refusal(lambda: two.agent_a.patch(path, {"spec": {"unschedulable": None}}, MERGE))
    assert "nothing of a node but its overload taint" in message
    cluster.admin.patch(path, {"spec": {"unschedulable": None}}, MERGE)


def test_status_in_a_patch_of_the_node_comes_to_nothing(cluster: ControlPlane, two: Two) -> None:
    stated = cluster.admin.get(f"/api/v1/nodes/{two.node_a}")["status"]["allocatable"]["cpu"]
    patch = [{"op": "replace", "path": "/status/allocatable/cpu", "value": "65"}]
    after = two.agent_a.patch(f"/api/v1/nodes/{two.node_a}", patch, JSON_PATCH)
    assert after["status"]["allocatable"]["cpu"] == stated
    message = refusal(lambda: two.agent_a.patch(f"/api/v1/nodes/{two.node_a}/status", patch, JSON_PATCH))
    assert "cannot patch resource" in message


# Others


def test_fence_holds_nobody_but_the_agent(cluster: ControlPlane, two: Two, namespace: str) -> None:
    pod = make_pod(cluster, namespace, two.node_a, mode="off")
    objects.resize(cluster.admin, namespace, pod, MORE_CPU)


def is_checked(cluster: ControlPlane, path: str) -> bool:
    return "typeChecking" in cluster.admin.get(path).get("status", {})


def test_server_finds_no_fault_in_the_expressions(cluster: ControlPlane, two: Two) -> None:
    for name in ("plimsoll-agent-resizes", "plimsoll-agent-taint", "plimsoll-agent-events"):
        path = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{name}"
        wait_for(partial(is_checked, cluster, path), f"{name} is checked")
        assert cluster.admin.get(path)["status"]["typeChecking"].get("expressionWarnings", []) == []
