"""The agent's rights and fence, as the chart has them, on a real server: what a node's token reaches, and what not."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from agent.core.orders.annotations import ORIGINAL_RESOURCES
from agent.core.resize.event_rate import EventReason
from agent.core.resize.originals import annotation_text, original_of
from agent.kube.objects.pod_json import pod_from_json
from tests.cluster import chart, fence, objects
from tests.cluster.api import APPLY, JSON_PATCH, MERGE, Api, ApiError, Json
from tests.cluster.audit import AuditLog
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import (
    create_namespace,
    create_service_account,
    ensure_default_account,
    fresh_name,
    is_allowed,
    node_bound_token,
    remove_namespace,
)
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
    """Return the message of the 403 that a call must meet."""
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
    # The account is that of every agent: others may be at work on nodes of their own.
    [write] = [call for call in log.writes(fence.USER) if two.node_a in (call.node, call.name) or call.name == pod]
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
    ensure_default_account(cluster, protected)
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
    remove_namespace(cluster, quiet)


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
    remove_namespace(cluster, quiet)


def test_patch_cannot_talk_itself_free_of_the_mode(cluster: ControlPlane, two: Two, namespace: str) -> None:
    pod = make_pod(cluster, namespace, two.node_a, mode="off")
    body = MORE_CPU | {"metadata": {"annotations": {"plimsoll.dev/mode": "enforce"}}}
    assert "mode is off" in refusal(lambda: objects.resize(two.agent_a, namespace, pod, body))


def needs_falling_memory_limits(cluster: ControlPlane) -> None:
    if int(cluster.version.split(".")[1]) < 34:
        pytest.skip(f"an API server of {cluster.version} refuses to lower any memory limit, before the fence is asked")


def test_pod_switched_off_may_be_given_its_original_resources_back_and_no_others(
    cluster: ControlPlane, two: Two, namespace: str
) -> None:
    needs_falling_memory_limits(cluster)
    # Spelt otherwise than the API does, and with the spaces of a person: 0.1 = 100m, 65536Ki = 64Mi.
    text = '{"containers": {"app": {"requests": {"cpu": "0.1", "memory": "65536Ki"}, "limits": {"memory": "128Mi"}}}}'
    pod = make_pod(cluster, namespace, two.node_a, original_resources=text)
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
    pod = pod_from_json(admin.create(objects.pod_path(namespace), manifest))
    text = annotation_text(original_of(pod, kept_unix_seconds=0.0))
    proxy_up: Json = {"initContainers": [{"name": "proxy", "resources": {"requests": {"cpu": "60m"}}}]}
    pod_up: Json = {"resources": {"requests": {"cpu": "1200m"}}}
    objects.resize(admin, namespace, name, {"spec": proxy_up | pod_up})
    admin.patch(path, {"metadata": {"annotations": {"plimsoll.dev/mode": "off", ORIGINAL_RESOURCES: text}}})

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


LEAPS: dict[str, tuple[Json, Json, str]] = {
    "a limit to next to nothing": (
        {"limits": {"cpu": "8", "memory": "16Gi"}, "requests": {"cpu": "4", "memory": "8Gi"}},
        {"limits": {"cpu": "2m", "memory": "2Mi"}, "requests": {"cpu": "1m", "memory": "1Mi"}},
        "container app",
    ),
    "a CPU limit to next to nothing": (
        {"limits": {"cpu": "8"}, "requests": {"cpu": "4"}},
        {"limits": {"cpu": "2m"}, "requests": {"cpu": "1m"}},
        "container app",
    ),
    "a limit to no end": (
        {"limits": {"cpu": "200m", "memory": "128Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}},
        {"limits": {"cpu": "1000", "memory": "10Ti"}},
        "container app",
    ),
    "a first CPU request": ({"requests": {"memory": "64Mi"}}, {"requests": {"cpu": "60"}}, "container app"),
    "a first memory request": ({"requests": {"cpu": "100m"}}, {"requests": {"memory": "500Gi"}}, "container app"),
    "a first limit far above": ({"requests": {"cpu": "100m"}}, {"limits": {"cpu": "11"}}, "container app"),
    "a first limit far below": (
        {"requests": {"cpu": "4"}},
        {"requests": {"cpu": "5m"}, "limits": {"cpu": "5m"}},
        "container app",
    ),
}


@pytest.mark.parametrize("leap", LEAPS)
def test_limits_and_first_amounts_that_leap_are_refused(
    cluster: ControlPlane, two: Two, namespace: str, leap: str
) -> None:
    before, after, part = LEAPS[leap]
    if leap == "a limit to next to nothing":
        needs_falling_memory_limits(cluster)
    name = leaping_pod(cluster, two, namespace, before["requests"], limits=before.get("limits"))
    body = objects.resize_body(app=after)
    message = refusal(lambda: objects.resize(two.agent_a, namespace, name, body))
    assert f"{part} would change by more than a factor of 100" in message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"limits": {"cpu": "8"}, "requests": {"cpu": "4"}}, {"limits": {"cpu": "50m"}, "requests": {"cpu": "25m"}}),
        # An idle Guaranteed pod comes down to next to nothing: from less than a hundred times a tenth of the floor.
        (
            {"limits": {"cpu": "350m", "memory": "64Mi"}, "requests": {"cpu": "350m", "memory": "64Mi"}},
            {"limits": {"cpu": "1m"}, "requests": {"cpu": "1m"}},
        ),
        ({"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}}, {"limits": {"memory": "90Gi"}}),
        ({"requests": {"memory": "64Mi"}}, {"requests": {"cpu": "10"}}),
        ({"requests": {"cpu": "100m"}}, {"requests": {"memory": "9Gi"}}),
        ({"requests": {"cpu": "2"}}, {"limits": {"cpu": "16"}}),
    ],
)
def test_limits_and_first_amounts_within_the_factor_are_not(
    cluster: ControlPlane, two: Two, namespace: str, before: Json, after: Json
) -> None:
    name = leaping_pod(cluster, two, namespace, before["requests"], limits=before.get("limits"))
    objects.resize(two.agent_a, namespace, name, objects.resize_body(app=after))


@pytest.mark.parametrize(
    ("stated", "after", "is_refused"),
    [
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "400"}}, True),
        ({"limits": {"cpu": "1"}}, {"requests": {"memory": "400Gi"}}, True),
        ({"limits": {"memory": "1Gi"}}, {"limits": {"cpu": "101"}}, True),
        ({"limits": {"memory": "1Gi"}}, {"limits": {"cpu": "20"}}, False),  # the containers request one
        ({"limits": {"cpu": "2"}}, {"limits": {"memory": "50Gi"}}, False),
    ],
)
def test_amounts_of_the_pod_level_count_too(
    control_plane_1_37: ControlPlane, two: Two, namespace: str, stated: Json, after: Json, *, is_refused: bool
) -> None:
    admin, name = control_plane_1_37.admin, fresh_name("level")
    container = objects.container("app", requests={"cpu": "1", "memory": "1Gi"})
    give_room(control_plane_1_37, two)
    admin.create(objects.pod_path(namespace), objects.pod(name, two.node_a, container, resources=stated))
    body = {"spec": {"resources": after}}
    if is_refused:
        message = refusal(lambda: objects.resize(two.agent_a, namespace, name, body))
        assert "the pod as a whole would change by more than a factor of 100" in message
    else:
        objects.resize(two.agent_a, namespace, name, body)


def test_what_a_pod_came_with_is_put_back_over_any_factor(cluster: ControlPlane, two: Two, namespace: str) -> None:
    text = '{"containers":{"app":{"requests":{"cpu":"20"}}}}'
    name = leaping_pod(cluster, two, namespace, {"cpu": "100m"}, original_resources=text)
    objects.resize(two.agent_a, namespace, name, objects.resize_body(app={"requests": {"cpu": "20"}}))


def give_room(cluster: ControlPlane, two: Two) -> None:
    room = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    cluster.admin.patch(f"/api/v1/nodes/{two.node_a}/status", {"status": {"allocatable": room, "capacity": room}})


def leaping_pod(
    cluster: ControlPlane, two: Two, namespace: str, requests: Json, *, limits: Json | None = None, **annotations: str
) -> str:
    """Make a pod on a node that is large enough."""
    give_room(cluster, two)
    name = fresh_name("leap")
    named = {f"plimsoll.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    container = objects.container("app", requests=requests, **({"limits": limits} if limits else {}))
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
    for kind, name in (("nodes", two.node_a), ("namespaces", namespace)):
        [document] = two.agent_a.items(f"/api/v1/{kind}", fieldSelector=f"metadata.name={name}")
        assert document["metadata"]["name"] == name
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


def broken(event: Json, **fields: object) -> Json:
    """Return an Event with other fields; those of `metadata` and `regarding` are put over the Event's own."""
    return {**event, **{key: {**event.get(key, {}), **v} if isinstance(v, dict) else v for key, v in fields.items()}}


ELSEWHERE: dict[str, Json] = {
    "a finalizer": {"metadata": {"finalizers": ["evil.example/held"]}},
    "an owner": {
        "metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "some"}]},
    },
    "a label": {"metadata": {"labels": {"app": "web"}}},
    "an annotation": {"metadata": {"annotations": {"a": "b"}}},
    "of a node": {"regarding": {"kind": "Node"}},
    "of a pod that is not named": {"regarding": {"name": ""}},
    "of no pod's uid": {"regarding": {"uid": ""}},
    "of a part of a pod": {"regarding": {"fieldPath": "spec.containers{app}"}},
    "of something else as well": {"related": {"kind": "Pod", "namespace": "kube-system", "name": "etcd"}},
    "a reason of its own": {"reason": "Failed"},
    "an action of its own": {"action": "Kill"},
}


@pytest.mark.parametrize("what", ELSEWHERE)
def test_event_that_is_more_than_words_about_a_pod_is_refused(two: Two, namespace: str, what: str) -> None:
    event = fence.event(fresh_name("told"), namespace, two.node_a)
    message = refusal(lambda: two.agent_a.create(fence.event_path(namespace), broken(event, **ELSEWHERE[what])))
    assert "ValidatingAdmissionPolicy 'plimsoll-agent-events'" in message


def test_event_is_given_nothing_more_later(two: Two, namespace: str) -> None:
    path, name = fence.event_path(namespace), fresh_name("told")
    two.agent_a.create(path, fence.event(name, namespace, two.node_a))
    for more in ({"finalizers": ["evil.example/held"]}, {"labels": {"app": "web"}}):
        assert "plimsoll" in refusal(partial(two.agent_a.patch, f"{path}/{name}", {"metadata": more}, MERGE))


@pytest.mark.parametrize("protected", ["kube-system", "plimsoll"])
def test_nothing_is_told_in_protected_namespaces(two: Two, protected: str) -> None:
    event = fence.event(fresh_name("told"), protected, two.node_a)
    message = refusal(lambda: two.agent_a.create(fence.event_path(protected), event))
    assert f"nothing is told of pods of namespace {protected}" in message


def test_fence_lists_the_reasons_and_actions_that_the_agent_has() -> None:
    policy = chart.rendered()["fence/events"][0]
    [listed] = [rule["expression"] for rule in policy["spec"]["validations"] if "object.?reason" in rule["expression"]]
    lists = [set(re.findall(r"'(\w+)'", literal)) for literal in re.findall(r"\[[^]]*\]", listed)]
    assert lists == [{str(reason) for reason in EventReason}, {reason.action for reason in EventReason}]


# Beside CPU and memory


HELD: dict[str, Json] = {
    "labels": {"metadata": {"labels": {"app": "other"}}},
    "annotations": {"metadata": {"annotations": {"plimsoll.dev/mode": "enforce"}}},
    "finalizers": {"metadata": {"finalizers": ["evil.example/held"]}},
    "status": {"status": {"phase": "Failed"}},
    "another node": {"spec": {"nodeName": "other"}},
    "deadline": {"spec": {"activeDeadlineSeconds": 1}},
    "grace period": {"spec": {"terminationGracePeriodSeconds": 10**9}},
    "image": {"spec": {"containers": [{"name": "app", "image": "evil"}]}},
    "environment": {"spec": {"containers": [{"name": "app", "env": [{"name": "A", "value": "b"}]}]}},
    "command": {"spec": {"containers": [{"name": "app", "command": ["sh"]}]}},
    "privileges": {"spec": {"containers": [{"name": "app", "securityContext": {"privileged": True}}]}},
    "a debug container": {"spec": {"ephemeralContainers": [{"name": "debug", "image": "evil"}]}},
    "how it is resized": {
        "spec": {
            "containers": [
                {"name": "app", "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}
            ]
        },
    },
    "disk": {"spec": {"containers": [{"name": "app", "resources": {"requests": {"ephemeral-storage": "1Gi"}}}]}},
    "a device": {"spec": {"containers": [{"name": "app", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}},
    "a claim": {"spec": {"containers": [{"name": "app", "resources": {"claims": [{"name": "x"}]}}]}},
    "a new container": {"spec": {"containers": [{"name": "more", "image": "evil"}]}},
}


@pytest.mark.parametrize("what", HELD)
def test_resize_changes_nothing_but_cpu_and_memory(cluster: ControlPlane, two: Two, namespace: str, what: str) -> None:
    pod = make_pod(cluster, namespace, two.node_a)
    path = objects.pod_path(namespace, pod)
    before = cluster.admin.get(path)
    body = HELD[what]
    with contextlib.suppress(ApiError):
        objects.resize(two.agent_a, namespace, pod, body)
    after = cluster.admin.get(path)
    assert (after["spec"], after["status"]) == (before["spec"], before["status"])
    for key in ("labels", "annotations", "finalizers"):
        assert after["metadata"].get(key) == before["metadata"].get(key)


@pytest.mark.parametrize(
    ("verb", "resource", "group"),
    [
        ("create", "serviceaccounts/token", ""),
        ("impersonate", "users", ""),
        ("impersonate", "serviceaccounts", ""),
        ("create", "pods", ""),
        ("delete", "pods", ""),
        ("deletecollection", "pods", ""),
        ("patch", "pods", ""),
        ("patch", "pods/status", ""),
        ("patch", "pods/ephemeralcontainers", ""),
        ("create", "pods/eviction", ""),
        ("create", "pods/exec", ""),
        ("get", "pods/exec", ""),
        ("create", "pods/attach", ""),
        ("create", "pods/portforward", ""),
        ("create", "pods/binding", ""),
        ("get", "nodes/proxy", ""),
        ("get", "nodes/metrics", ""),
        ("patch", "nodes/status", ""),
        ("delete", "nodes", ""),
        ("list", "secrets", ""),
        ("list", "configmaps", ""),
        ("create", "events", ""),
        ("delete", "events", "events.k8s.io"),
        ("create", "certificatesigningrequests", "certificates.k8s.io"),
        ("update", "leases", "coordination.k8s.io"),
        ("patch", "validatingadmissionpolicies", "admissionregistration.k8s.io"),
        ("patch", "clusterroles", "rbac.authorization.k8s.io"),
    ],
)
def test_agent_has_no_right_that_it_does_not_use(two: Two, verb: str, resource: str, group: str) -> None:
    resource, _, subresource = resource.partition("/")
    assert not is_allowed(two.agent_a, verb, resource, group=group, subresource=subresource)


@pytest.mark.parametrize(
    ("amounts", "is_raised"),
    [
        ({"requests": {"cpu": "250m"}, "limits": {"memory": "256Mi"}}, True),
        ({"requests": {"cpu": "50m"}}, False),
        ({"limits": {"memory": "96Mi"}}, False),
        ({"requests": {"cpu": "250m"}, "limits": {"memory": "96Mi"}}, False),
        ({"limits": {"cpu": "4"}}, False),  # a first limit takes away
    ],
)
def test_in_mode_protect_nothing_is_lowered(
    cluster: ControlPlane, two: Two, namespace: str, amounts: Json, *, is_raised: bool
) -> None:
    if amounts.get("limits") == {"memory": "96Mi"}:
        needs_falling_memory_limits(cluster)
    pod = make_pod(cluster, namespace, two.node_a, mode="protect")
    attempt = partial(objects.resize, two.agent_a, namespace, pod, objects.resize_body(app=amounts))
    if is_raised:
        attempt()
    else:
        assert "mode is protect, so nothing of it may be lowered" in refusal(attempt)


def test_in_mode_protect_a_wish_that_was_not_granted_is_taken_back(
    cluster: ControlPlane, two: Two, namespace: str
) -> None:
    pod = make_pod(cluster, namespace, two.node_a, mode="protect")
    objects.resize(two.agent_a, namespace, pod, MORE_CPU)
    back = partial(objects.resize, two.agent_a, namespace, pod, objects.resize_body(app={"requests": {"cpu": "100m"}}))
    assert "mode is protect" in refusal(back)
    status = {"name": "app", "image": "x", "imageID": "", "ready": True, "restartCount": 0, "resources": ORIGINAL}
    objects.write_pod_status(cluster.admin, namespace, pod, {"containerStatuses": [status]})
    below = objects.resize_body(app={"requests": {"cpu": "99m"}})
    assert "mode is protect" in refusal(partial(objects.resize, two.agent_a, namespace, pod, below))
    back()


@pytest.mark.parametrize(
    ("count", "is_restore"), [(20, True), (60, True), (120, True), (60, False), (120, False), (250, False)]
)
def test_pods_of_many_containers_stay_within_the_servers_budget(
    cluster: ControlPlane, two: Two, namespace: str, count: int, *, is_restore: bool
) -> None:
    """Every container changes at once, with limits, beside an annotation of 200 kB."""
    give_room(cluster, two)
    names = [f"container-number-{at}-of-{count}" for at in range(count)]
    amounts = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "20m", "memory": "32Mi"}}
    originals = {name: {"requests": {"cpu": "12m", "memory": "16Mi"}, "limits": {"cpu": "20m"}} for name in names}
    text = json.dumps({"containers": originals}, separators=(",", ":"))
    annotations = {
        ORIGINAL_RESOURCES: text,
        "plimsoll.dev/mode": "off" if is_restore else "enforce",
        "x": "y" * 200_000,
    }
    pod = fresh_name("many")
    containers = [objects.container(name, **amounts) for name in names]
    cluster.admin.create(
        objects.pod_path(namespace), objects.pod(pod, two.node_a, *containers, annotations=annotations)
    )
    after = {"requests": {"cpu": "12m"}} if is_restore else {"requests": {"cpu": "11m"}, "limits": {"cpu": "30m"}}
    objects.resize(two.agent_a, namespace, pod, objects.resize_body(**dict.fromkeys(names, after)))
    leap = objects.resize_body(**{names[-1]: {"limits": {"cpu": "60"}}})
    assert "plimsoll: " in refusal(partial(objects.resize, two.agent_a, namespace, pod, leap))


# The PriorityClass


def test_class_is_for_the_releases_own_pods(cluster: ControlPlane, two: Two, namespace: str) -> None:
    make_classes(cluster, namespace)
    manifest = objects.pod(fresh_name("web"), None, priorityClassName="plimsoll")
    for owner in (cluster.admin, tenant(cluster, namespace)):
        message = refusal(partial(owner.create, objects.pod_path(namespace), manifest))
        assert "PriorityClass plimsoll is for Plimsoll's own pods" in message
    others = manifest | {"spec": manifest["spec"] | {"priorityClassName": "plimsoll-placeholder"}}
    cluster.admin.create(objects.pod_path(namespace), others)


def test_controllers_make_pods_of_the_class_for_the_release_alone(
    cluster: ControlPlane, two: Two, namespace: str
) -> None:
    make_classes(cluster, namespace)
    ensure_default_account(cluster, fence.NAMESPACE)
    name = fresh_name("sets")
    template = objects.pod("x", None, priorityClassName="plimsoll", nodeSelector={"kubernetes.io/hostname": two.node_a})
    template["spec"].pop("terminationGracePeriodSeconds")
    template["metadata"] = {"labels": {"app": name}}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": {k: template[k] for k in ("metadata", "spec")}}
    for place in (fence.NAMESPACE, namespace):
        cluster.admin.create(f"/apis/apps/v1/namespaces/{place}/daemonsets", {"metadata": {"name": name}, "spec": spec})

    def made(place: str) -> bool:
        return bool(cluster.admin.items(objects.pod_path(place), labelSelector=f"app={name}"))

    wait_for(lambda: made(fence.NAMESPACE), "the release's own pods are made")

    def refused() -> bool:
        events = cluster.admin.items(f"/api/v1/namespaces/{namespace}/events", fieldSelector="reason=FailedCreate")
        return any("PriorityClass plimsoll is for" in event["message"] for event in events)

    wait_for(refused, "the controller is refused elsewhere")
    assert not made(namespace)
    for place in (fence.NAMESPACE, namespace):
        cluster.admin.delete(f"/apis/apps/v1/namespaces/{place}/daemonsets/{name}")


def make_classes(cluster: ControlPlane, namespace: str) -> None:
    for priority_class in chart.rendered()["cluster/priorities"]:
        name = priority_class["metadata"]["name"]
        path = f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}"
        cluster.admin.patch(path, priority_class, APPLY, fieldManager="tests", force="true")
        wait_for(partial(knows_class, cluster, namespace, name), "the server's own watch has brought the class")


def knows_class(cluster: ControlPlane, namespace: str, name: str) -> bool:
    """Try a pod of the class out; whether it may be made is another question."""
    probe = objects.pod(fresh_name("probe"), None, priorityClassName=name)
    try:
        cluster.admin.create(objects.pod_path(namespace), probe, dryRun="All")
    except ApiError as error:
        return "no PriorityClass" not in error.message
    return True


def tenant(cluster: ControlPlane, namespace: str) -> Api:
    """Return the API as somebody whose one right is pods in his namespace."""
    create_service_account(cluster, namespace, "tenant")
    group = "rbac.authorization.k8s.io"
    head = {"apiVersion": f"{group}/v1", "metadata": {"name": "tenant", "namespace": namespace}}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "get"]}]
    cluster.admin.apply({**head, "kind": "Role", "rules": rules})
    subjects = [{"kind": "ServiceAccount", "name": "tenant", "namespace": namespace}]
    reference = {"apiGroup": group, "kind": "Role", "name": "tenant"}
    cluster.admin.apply({**head, "kind": "RoleBinding", "roleRef": reference, "subjects": subjects})
    api = cluster.api_with_token(node_bound_token(cluster, namespace, "tenant", None))
    wait_for(lambda: is_allowed(api, "create", "pods", namespace=namespace), "the tenant may make pods")
    return api


# The taint


def test_who_wrote_what_of_the_node_is_not_forgotten(cluster: ControlPlane, two: Two) -> None:
    path = f"/api/v1/nodes/{two.node_a}"
    before = len(cluster.admin.get(path)["metadata"]["managedFields"])
    assert before > 0
    for emptied in ("[]", "[{}]"):
        patch = {"metadata": {"managedFields": json.loads(emptied)}}
        assert "may not be emptied" in refusal(partial(two.agent_a.patch, path, patch, MERGE))
    assert len(cluster.admin.get(path)["metadata"]["managedFields"]) == before


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
    for name in ("plimsoll-agent-resizes", "plimsoll-agent-taint", "plimsoll-agent-events", "plimsoll-priority"):
        path = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{name}"
        wait_for(partial(is_checked, cluster, path), f"{name} is checked")
        assert cluster.admin.get(path)["status"]["typeChecking"].get("expressionWarnings", []) == []
