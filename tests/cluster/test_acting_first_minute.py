"""An agent's first minute: who is shrunk to what and who is left alone, who is proposed for eviction, what is reported.

Nothing falls before a whole minute has been measured, so all pods of a node share one agent and its minute.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import objects
from tests.cluster.acting_node import ActingNode
from tests.cluster.control_plane import ControlPlane
from tests.cluster.first_minute import ODD_AMOUNTS, WHOLE, FirstMinutes, Reporting
from tests.cluster.identities import create_service_account, fresh_name, node_bound_token
from tests.cluster.processes import wait_for
from tests.cluster.webhook_process import AUDIENCE, WebhookProcess, answer_of
from tests.kernel.cgroups import why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]


@pytest.fixture(scope="module")
def minutes(first_minutes: FirstMinutes) -> Iterator[FirstMinutes]:
    yield first_minutes
    first_minutes.close()


@pytest.fixture(scope="module")
def node(minutes: FirstMinutes) -> ActingNode:
    """A node with pods of every kind after its agent's first minute, when nothing is left to do."""
    node = minutes.of_every_kind
    node.wait(lambda: node.request_of("web") != "400m", "the first pod is shrunk")
    node.wait(lambda: not node.ask("plan")["steps"], "nothing is left to do")
    return node


@pytest.fixture
def too_small(minutes: FirstMinutes) -> ActingNode:
    return minutes.too_small


@pytest.fixture
def reporting(minutes: FirstMinutes) -> Reporting:
    return minutes.reporting


def test_a_request_far_too_large_is_shrunk_once_and_stays(node: ActingNode) -> None:
    assert node.request_of("web") == "1m"
    assert len(node.resizes("web")) == 1
    assert node.generation("web") == 2
    node.wait(lambda: "applied" in node.outcomes("web"), "it is applied")
    assert node.outcomes("web") == ["accepted", "applied"]
    node.settle(2)
    assert len(node.resizes("web")) == 1


def test_amounts_are_understood_in_every_spelling(node: ActingNode) -> None:
    for index, amount in enumerate(ODD_AMOUNTS):
        assert node.request_of(f"odd-{index}") == "1m", amount


def test_what_differs_by_little_is_left(node: ActingNode) -> None:
    assert node.request_of("near") == "10m"
    assert node.kept("near") == "small_change"
    assert not node.resizes("near")


def test_a_pod_that_orders_a_least_of_nothing_stops_nobody_on_its_node(node: ActingNode) -> None:
    assert node.request_of("least-of-nothing") == "1m"
    assert all(invariant["holds"] for invariant in node.ask("plan")["invariants"])


@pytest.mark.parametrize(
    ("name", "request_after"),
    [("floor", "300m"), ("ceiling", "200m"), ("vpa", "25m"), ("may-restart", "1m")],
)
def test_a_pod_is_shrunk_to_what_its_bounds_and_its_policy_say(node: ActingNode, name: str, request_after: str) -> None:
    assert node.request_of(name) == request_after
    assert len(node.resizes(name)) == 1


def test_a_cpu_limit_is_raised_at_once_as_it_cannot_be_taken_away(node: ActingNode) -> None:
    resources = node.pod("limited")["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"cpu": "1m", "memory": "64Mi"}, "limits": {"cpu": "32", "memory": "128Mi"}}
    assert len(node.resizes("limited")) == 2


def test_crane_sizes_by_its_own_buckets(node: ActingNode) -> None:
    assert node.request_of("crane") not in ("400m", "1m")
    assert len(node.resizes("crane")) == 1


def test_a_sidecar_is_sized_with_its_pod_and_an_init_container_is_left(node: ActingNode) -> None:
    spec = node.pod("meshed")["spec"]
    assert spec["initContainers"][0]["resources"]["requests"]["cpu"] == "1m"
    assert spec["containers"][0]["resources"]["requests"]["cpu"] == "1m"
    assert len(node.resizes("meshed")) == 1
    assert node.pod("prepared")["spec"]["initContainers"][0]["resources"]["requests"]["cpu"] == "400m"


def test_a_guaranteed_pod_that_asks_for_it_keeps_request_and_limit_equal(node: ActingNode) -> None:
    resources = node.pod("may-be-sized")["spec"]["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"]
    assert resources["requests"]["cpu"] == "1m"
    assert node.pod("may-be-sized")["status"]["qosClass"] == "Guaranteed"


def test_a_pods_own_budget_is_resized_where_it_carries_the_request(node: ActingNode) -> None:
    if not node.plane.version.startswith("1.37."):
        pytest.skip("pod-level resources are resized from 1.36 on")
    spec = node.pod("budgeted")["spec"]
    assert spec["resources"]["requests"]["cpu"] == "2m", "two containers of 1m each"
    assert not any(container.get("resources") for container in spec["containers"])


@pytest.mark.parametrize(
    ("name", "reserved"),
    [
        ("off", "off"),
        ("recommended", "recommend"),
        ("pinned", "pinned"),
        ("malformed", "faulty_annotation"),
        ("of-excluded", "excluded"),
        ("of-recommended", "recommend"),
        ("guaranteed", "guaranteed"),
        ("best-effort", "best_effort"),
        ("bare", "bare"),
        ("mirror", "static"),
    ],
)
def test_who_is_not_to_be_sized_is_left_and_the_plan_says_why(node: ActingNode, name: str, reserved: str) -> None:
    pod = node.planned(name)
    assert pod is not None
    assert pod["reserved"] == reserved
    assert not node.resizes(name)


def test_a_jobs_pod_is_left(node: ActingNode) -> None:
    [pod] = [entry for entry in node.ask("plan")["pods"] if entry["ref"]["name"].startswith("job-")]
    assert (pod["reserved"], pod["workload"]["kind"]) == ("job", "Job")
    assert not node.resizes(pod["ref"]["name"])


def test_a_container_that_would_be_restarted_is_left_unless_that_is_allowed(node: ActingNode) -> None:
    assert node.request_of("restarting") == "400m"
    assert node.kept("restarting") == "restart_policy"
    assert not node.resizes("restarting")


def test_a_malformed_annotation_is_told_once_and_counted(node: ActingNode) -> None:
    notices = node.events(pod="malformed")
    assert [notice["reason"] for notice in notices] == ["faulty_annotation"]
    assert "plimsoll.dev/min-cpu" in notices[0]["detail"]
    assert "'lots'" in notices[0]["detail"]
    assert node.metric("plimsoll_annotation_faults") == 1.0
    assert node.told("malformed") == ["AnnotationNotUnderstood"]


def test_events_tell_the_owners_of_those_that_were_resized_and_nobody_else(node: ActingNode) -> None:
    node.wait(lambda: node.told("web"), "the owner is told")
    assert node.told("web") == ["Resized"]
    for name in ("off", "recommended", "pinned", "bare", "near"):
        assert not node.told(name)


def test_everything_the_agent_wrote_was_a_resize_or_an_event(node: ActingNode) -> None:
    assert {call.resource for call in node.writes()} <= {"pods/resize", "events"}
    assert all(call.code < 300 for call in node.writes()), node.write_calls()


def test_what_if_shows_what_recommended_pods_would_be_given(node: ActingNode) -> None:
    steps = node.ask("plan", what_if=True)["steps"]
    names = {step["ref"]["name"] for step in steps}
    assert {"recommended", "of-recommended"} <= names
    assert not names & {"off", "pinned", "malformed", "of-excluded", "bare"}


def test_no_plan_was_unsound(node: ActingNode) -> None:
    assert node.metric("plimsoll_plans_unsound_total") == 0.0


def test_after_kill_nothing_is_sent_again_and_originals_are_known(node: ActingNode) -> None:
    before = node.write_calls()
    node.kill_agent()
    node.agent.start()
    node.wait(lambda: node.ask("plan")["pods"], "the plan knows the pods")
    node.wait_told()
    node.settle(2)
    assert [call for call in node.write_calls() if "events" not in call] == [
        call for call in before if "events" not in call
    ]
    items = {original["ref"]["name"]: original for original in node.ask("restore", all=True, dry_run=True)["items"]}
    assert {"web", "floor", "meshed", "may-be-sized", "limited"} <= items.keys()
    assert not items.keys() & {"near", "off", "pinned", "bare", "restarting"}
    assert items["web"]["changes"][0]["after"] == 400


def test_a_pod_is_restored_pinned_and_sized_again_when_it_is_unpinned(node: ActingNode) -> None:
    restored = node.ask("restore", name="web")["items"]
    assert [original["outcome"] for original in restored] == ["accepted"]
    # Of a pod that is being resized it is only a promise.
    node.wait(lambda: node.request_of("web") == "400m", "it has what it had")
    node.settle(2)
    assert node.request_of("web") == "400m"
    pod = node.planned("web")
    assert pod is not None
    assert pod["reserved"] == "pinned"
    sent = len(node.resizes("web", refused=False))
    node.ask("unpin", name="web")
    node.wait(lambda: node.request_of("web") == "1m", "it is sized again")
    assert len(node.resizes("web", refused=False)) == sent + 1  # one that met the kubelet's writing comes again


def test_all_pods_are_restored_at_once_also_while_paused(node: ActingNode) -> None:
    node.ask("pause")
    restored = {original["ref"]["name"]: original["outcome"] for original in node.ask("restore", all=True)["items"]}
    assert restored["web"] == "accepted"
    assert set(restored.values()) <= {"accepted", None}, restored
    for name in ("web", "floor", "ceiling", "vpa", "crane", "limited", "meshed", "may-restart"):
        # A pod that is being resized is restored after that: what is said at once is that it will be.
        node.wait(lambda name=name: node.request_of(name) == "400m", f"{name} has what it had")  # type: ignore[misc]
    whole = {"requests": WHOLE, "limits": WHOLE}
    node.wait(
        lambda: node.pod("may-be-sized")["spec"]["containers"][0]["resources"] == whole, "may-be-sized has what it had"
    )
    node.ask("resume")
    node.settle(2)
    assert node.request_of("web") == "400m"  # all of them are pinned


def test_restore_of_all_ends_when_it_is_done_and_not_when_it_is_promised(node: ActingNode) -> None:
    """Whoever ends the agent after it, as an uninstall does, must not lose what is still to be sent."""
    node.kubelet.actuation_seconds = 0.2
    node.ask("unpin", all=True)
    node.wait(lambda: node.request_of("web") == "1m", "it is sized again, and its kubelet is at it")
    command = [sys.executable, "-m", "agent", "restore", "--all", "--socket", str(node.agent.socket)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = ("web", "floor", "ceiling", "vpa", "crane", "limited", "meshed", "may-restart")
    assert {name: node.request_of(name) for name in names} == dict.fromkeys(names, "400m"), done.stdout


def assert_nobody_goes(node: ActingNode) -> None:
    assert {call.resource for call in node.writes()} <= {"events"}
    for pod in ("first", "second", "kept", "bare"):
        assert "deletionTimestamp" not in node.pod(pod)["metadata"]
        assert node.request_of(pod) == "400m"


def test_evictions_are_proposed_where_a_node_is_too_small_and_nobody_is_evicted(too_small: ActingNode) -> None:
    node = too_small
    [proposed] = node.wait(lambda: node.events(outcomes=["proposed"]), "an eviction is proposed")
    assert proposed["action"] == "eviction"
    assert proposed["reason"] == "cpu"
    assert proposed["pod"]["name"] == "first"
    assert "of cpu are lacking" in proposed["detail"]
    assert [eviction["ref"]["name"] for eviction in node.ask("plan")["evictions"]] == ["first"]
    node.settle(4)
    assert node.metric('plimsoll_evictions_proposed_total{resource="cpu"}') == 1.0, "said once, not each turn"
    node.wait(lambda: node.told("first"), "its owner is told")
    assert node.told("first") == ["EvictionProposed"]
    assert_nobody_goes(node)
    objects.write_node_status(node.plane.admin, node.name, {"allocatable": {"cpu": "4"}})
    node.wait(lambda: not node.ask("plan")["evictions"], "on a larger node all fit")


@pytest.fixture
def reader(reporting: Reporting) -> Iterator[str]:
    """The token of somebody who may read what the webhook learnt."""
    plane, namespace = reporting.node.plane, reporting.node.namespace
    create_service_account(plane, namespace, "reader")
    role = fresh_name("reader")
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": role}}
    rules = [{"nonResourceURLs": ["/v1/workloads/*", "/v1/nodes"], "verbs": ["get"]}]
    plane.admin.apply({**head, "kind": "ClusterRole", "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subjects = [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}]
    plane.admin.apply({**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects})
    user = f"system:serviceaccount:{namespace}:reader"
    wait_for(
        lambda: all(may_read(plane, user, path) for path in ("/v1/workloads/some", "/v1/nodes")), "the reader may read"
    )
    yield node_bound_token(plane, namespace, "reader", None, audiences=(AUDIENCE,))
    for kind in ("clusterrolebindings", "clusterroles"):
        plane.admin.delete(f"/apis/rbac.authorization.k8s.io/v1/{kind}/{role}")


def may_read(plane: ControlPlane, user: str, path: str) -> bool:
    """Return whether the server says of a user that the webhook may answer it: a right takes a moment to hold."""
    spec = {"user": user, "nonResourceAttributes": {"verb": "get", "path": path}}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = plane.admin.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def learnt(hook: WebhookProcess, namespace: str, reader: str) -> Any:
    """Return what the webhook knows of the workload; None = nothing yet."""
    reply = hook.get(f"/v1/workloads/{namespace}/Rollout/web", reader)
    return None if reply.status == 404 else answer_of(reply)


def test_what_a_node_measures_is_known_and_what_it_is_told_holds(reporting: Reporting, reader: str) -> None:
    node, hook = reporting.node, reporting.hook
    node.wait(lambda: node.metric('plimsoll_report_posts_total{result="taken"}'), "a report was taken")
    workload = node.wait(lambda: learnt(hook, node.namespace, reader), "the webhook knows the workload")
    (container,) = workload["containers"]
    assert container["container"] == "app"
    assert "HorizontalPodAutoscaler" in json.dumps(workload["applies"])
    answer = node.ask("cluster")
    assert answer["reporting"]["trouble"] is None
    assert answer["directives_age_seconds"] is not None
    # The pod is ordered more: but the HPA divides by its CPU request, so it stays.
    node.wait(lambda: '"hpa"' in json.dumps(node.ask("plan")), "the plan tells of the HPA")
    resources = node.pod("web")["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"cpu": "100m", "memory": "64Mi"}}
    # Its pods are those of the API server, with what a kubelet says of a resize that it has not allocated.
    web = node.pod("web")
    spec = {"containers": [{key: web["spec"]["containers"][0][key] for key in ("name", "image", "resources")}]}
    metadata = {"name": "web-9", "ownerReferences": web["metadata"]["ownerReferences"]}
    node.plane.admin.create(objects.pod_path(node.namespace), {"metadata": metadata, "spec": spec})
    condition = objects.deferred(1, "not enough cpu")
    objects.write_pod_status(node.plane.admin, node.namespace, "web-9", {"conditions": [condition]})

    def pending() -> Any:
        pods = answer_of(hook.get(f"/v1/workloads/{node.namespace}/Rollout/web", reader))["pods"]
        return pods if pods[0]["resizePending"] is not None else None

    told_of = node.wait(pending, "the webhook tells of a resize that is pending")
    requests = {"cpuRequestMillicores": 100, "memoryRequestBytes": 64 << 20}
    assert told_of == [
        {"pod": "web-9", "node": None, "state": "waiting", **requests, "resizePending": "Deferred: not enough cpu"},
        {"pod": "web", "node": node.name, "state": "running", **requests, "resizePending": None},
    ]
    # Killed, the agent goes on with its numbers.
    node.kill_agent()
    (mine,) = [entry for entry in answer_of(hook.get("/v1/nodes", reader))["nodes"] if entry["node"] == node.name]
    assert mine["sequence"] >= 1
    assert (mine["lostReports"], mine["workloads"]) == (0, 1)
    numbering = json.loads((node.agent.state / "reports" / "numbering").read_text())
    assert numbering["sequence"] - mine["sequence"] in (0, 1)  # 1: killed in the middle of a report
    assert (numbering["incarnation"], numbering["lost"]) == (mine["incarnation"], 0)
