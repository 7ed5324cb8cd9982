"""The agent's eyes on a real API server: what it sees, and what it does when the server goes, lags or refuses."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import agent.kube.client.api as api_module
from agent.core.cluster.node import Namespace, Taint
from agent.core.cluster.pod import (
    RUNNING,
    Container,
    ContainerKind,
    ContainerState,
    Pod,
    QosClass,
    Requirements,
    image_hash_of,
)
from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.kube.client.api import STRATEGIC_MERGE_PATCH, HttpApi, server_version
from agent.kube.client.credentials import Credentials
from agent.kube.client.errors import ApiError, KubeError, Unreachable
from agent.kube.client.kubeconfig import from_kubeconfig
from agent.kube.client.own_rights import identity, missing_permissions, node_claim
from agent.kube.watch.reflector import WatchPace
from agent.node.cluster.view import ClusterView
from tests.cluster.api import JSON_PATCH, MERGE, STRATEGIC, Json
from tests.cluster.audit import AuditLog
from tests.cluster.control_plane import ControlPlane
from tests.cluster.cut_wire import wire
from tests.cluster.fence import ACCOUNT, NAMESPACE, USER, install
from tests.cluster.identities import create_service_account, fresh_name, node_bound_token
from tests.cluster.objects import (
    container,
    create_node,
    deferred,
    pod,
    pod_path,
    resize_body,
    running_status,
    write_pod_status,
)
from tests.cluster.processes import wait_for
from tests.cluster.resizing import wait_resizable

pytestmark = [
    pytest.mark.cluster,
    # CPython's wrap_socket forgets to close a socket that was reset between connect and handshake (a killed server's
    # backlog); the collector does, and says so.
    pytest.mark.filterwarnings(r"ignore:Exception ignored in. <ssl\.SSLSocket:pytest.PytestUnraisableExceptionWarning"),
]

QUICK = WatchPace(start_spread_seconds=0.0, first_wait_seconds=0.05, longest_wait_seconds=0.3)


@pytest.fixture(scope="module")
def rights(cluster: ControlPlane) -> None:
    install(cluster)


@pytest.fixture
def node(cluster: ControlPlane, node_name: str, rights: None) -> str:
    create_node(cluster.admin, node_name)
    return node_name


@pytest.fixture
def token(cluster: ControlPlane, node: str) -> str:
    return node_bound_token(cluster, NAMESPACE, ACCOUNT, node)


@pytest.fixture
def api(cluster: ControlPlane, token: str) -> HttpApi:
    return client(cluster, token)


def client(cluster: ControlPlane, token: str, *, server: str | None = None, timeout_seconds: float = 5.0) -> HttpApi:
    return HttpApi(
        Credentials(server=server or cluster.url, origin="tests", ca_file=cluster.authority, token=token),
        timeout_seconds=timeout_seconds,
    )


class News:
    """Counts how often the planner was woken."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@contextlib.contextmanager
def watching(api: HttpApi, node: str, news: News | None = None, pace: WatchPace = QUICK) -> Iterator[ClusterView]:
    view = ClusterView(api, node, on_news=news, pace=pace)
    view.start()
    try:
        yield view
    finally:
        view.stop()


def complete(view: ClusterView, *pods: Json, with_node: bool = False) -> ClusterView:
    """Wait until everything has been listed, with these pods as they were answered at least, and the whole node.

    A first list is of the server's cache, which may be a moment behind: what it lacks, the watch brings.
    """

    def is_complete() -> bool:
        state = view.state()
        versions = {live_pod.uid: int(live_pod.resource_version or 0) for live_pod in state.pods}
        return (
            state.is_complete
            and all(
                versions.get(document["metadata"]["uid"], 0) >= int(document["metadata"]["resourceVersion"])
                for document in pods
            )
            and (not with_node or is_node_whole(view))
        )

    wait_for(is_complete, "everything has been listed, and what was made just before is seen")
    return view


def is_node_whole(view: ClusterView) -> bool:
    """Return whether the node is seen as ``create_node`` left it: it writes three times."""
    node = view.state().node
    return node is not None and "Ready" in node.conditions and not node.taints


def names(view: ClusterView) -> list[str]:
    return [live_pod.name for live_pod in view.state().pods]


def only_pod(view: ClusterView) -> Pod:
    (live_pod,) = view.state().pods
    return live_pod


def create_pod(cluster: ControlPlane, namespace: str, manifest: Json) -> Json:
    document: Json = cluster.admin.create(pod_path(namespace), manifest)
    return document


def delete_pod(cluster: ControlPlane, namespace: str, name: str) -> None:
    cluster.admin.delete(pod_path(namespace, name), gracePeriodSeconds="0")


def counts(view: ClusterView, name: str = "pods") -> dict[str, int]:
    return next(dataclasses.asdict(status.counts) for status in view.statuses() if status.name == name)


# -- what is seen ----------------------------------------------------------------------------------------------------


def test_the_view_shows_pods_of_its_own_node_only_and_follows_them(
    cluster: ControlPlane, api: HttpApi, node: str, namespace: str
) -> None:
    before = create_pod(cluster, namespace, pod("before", node))
    create_pod(cluster, namespace, pod("elsewhere", f"{node}-other"))
    audit = AuditLog(cluster.audit_log)
    with watching(api, node) as view:
        complete(view, before)
        assert names(view) == ["before"]
        create_pod(cluster, namespace, pod("after", node))
        create_pod(cluster, namespace, pod("elsewhere-too", f"{node}-other"))
        create_pod(cluster, namespace, pod("last", node))
        wait_for(lambda: "last" in names(view), "the last pod is seen")
        assert names(view) == ["after", "before", "last"]
        delete_pod(cluster, namespace, "before")
        wait_for(lambda: "before" not in names(view), "the deletion is seen")
        state = view.state()
        assert state.server_version == f"v{cluster.version}"
        assert state.age_seconds is not None
        assert state.unreadable_pods == ()
    # By this token: a view of a test before may still have been in a call.
    own = [call for call in audit.calls(USER) if call.node == node]
    calls = [call for call in own if call.resource in ("pods", "nodes")]
    assert {call.verb for call in calls} == {"list", "watch"}
    assert all(f"Selector=spec.nodeName%3D{node}" in call.uri for call in calls if call.resource == "pods")
    assert all(f"Selector=metadata.name%3D{node}" in call.uri for call in calls if call.resource == "nodes")
    assert all(call.user_agent.startswith("plimsoll/") for call in calls)
    assert [call for call in own if call.is_write] == []


def test_the_node_is_seen_with_amounts_taints_and_features_and_goes_when_deleted(
    cluster: ControlPlane, api: HttpApi, node: str
) -> None:
    with watching(api, node) as view:
        complete(view, with_node=True)
        seen = view.state().node
        assert seen is not None
        assert (seen.name, seen.operating_system, seen.kubelet_version) == (node, "linux", "v1.37.1")
        assert (seen.allocatable_cpu_millicores, seen.allocatable_memory_bytes) == (4000, 8 * 2**30)
        assert seen.conditions["Ready"] == "True"
        taint = {"key": "example.com/x", "effect": "NoSchedule", "value": "y"}
        cluster.admin.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": [taint]}}, MERGE)

        def has_taint() -> bool:
            now = view.state().node
            return now is not None and Taint(key="example.com/x", effect="NoSchedule", value="y") in now.taints

        wait_for(has_taint, "the taint is seen")
        cluster.admin.delete(f"/api/v1/nodes/{node}")
        wait_for(lambda: view.state().node is None, "the node is gone")


def test_namespaces_are_seen_with_their_annotations(
    cluster: ControlPlane, api: HttpApi, node: str, namespace: str
) -> None:
    with watching(api, node) as view:
        complete(view)
        metadata = {"annotations": {"plimsoll.dev/mode": "enforce"}}
        cluster.admin.patch(f"/api/v1/namespaces/{namespace}", {"metadata": metadata}, MERGE)

        def found() -> Namespace | None:
            return view.state().namespaces.get(namespace)

        def annotated() -> Namespace | None:
            there = found()
            return there if there is not None and there.annotations == metadata["annotations"] else None

        wait_for(lambda: annotated() is not None, "the annotation is seen")
        seen = found()
        assert seen is not None
        assert seen.labels["kubernetes.io/metadata.name"] == namespace


def test_a_real_pod_is_read_with_every_field(cluster: ControlPlane, api: HttpApi, node: str, namespace: str) -> None:
    app = container("app", requests={"cpu": "100m", "memory": "64Mi"}, limits={"memory": "128Mi"})
    app["resizePolicy"] = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    proxy = container("proxy", requests={"cpu": "50m"}) | {"restartPolicy": "Always"}
    manifest = pod(
        "web",
        node,
        app,
        labels={"app": "web"},
        annotations={"note": "x", "karpenter.sh/do-not-disrupt": "true"},
        initContainers=[container("setup"), proxy],
        os={"name": "linux"},
        volumes=[{"name": "cache", "emptyDir": {"medium": "Memory"}}],
        resources={"requests": {"cpu": "500m", "memory": "256Mi"}},
    )
    document = create_pod(cluster, namespace, manifest)
    status = running_status(document)
    status["containerStatuses"][0] |= {
        "restartCount": 1,
        "lastState": {
            "terminated": {
                "exitCode": 137,
                "reason": "OOMKilled",
                "startedAt": "2026-01-31T12:00:00Z",
                "finishedAt": "2026-01-31T12:00:05Z",
            }
        },
    }
    status["conditions"].append(deferred(1, "not now"))
    written = write_pod_status(cluster.admin, namespace, "web", status, pod=document)
    with watching(api, node) as view:
        seen = only_pod(complete(view, written))
    now = time.time()
    assert seen.uid == document["metadata"]["uid"]
    assert (seen.namespace, seen.node_name, seen.phase) == (namespace, node, "Running")
    assert (seen.phase, seen.is_terminating) == (RUNNING, False)
    generation = 1 if cluster.tells_generations else None
    assert (seen.generation, seen.observed_generation) == (1, generation)
    assert seen.resource_version is not None
    assert int(seen.resource_version) > int(document["metadata"]["resourceVersion"])
    assert seen.created_unix_seconds == pytest.approx(now, abs=300)
    assert seen.started_unix_seconds == pytest.approx(now, abs=300)
    assert (seen.labels, seen.annotations) == ({"app": "web"}, {"karpenter.sh/do-not-disrupt": "true"})
    assert (seen.operating_system, seen.has_memory_volumes, seen.has_resource_claims) == ("linux", True, False)
    assert seen.recorded_qos is QosClass.BURSTABLE
    own = Requirements(requests={"cpu": 500_000_000, "memory": 256 * 2**20 * 10**9})
    assert seen.resources == (own if int(cluster.version.split(".")[1]) >= 34 else None)
    assert seen.containers == (
        Container(
            name="app",
            kind=ContainerKind.REGULAR,
            resources=Requirements(
                requests={"cpu": 100_000_000, "memory": 64 * 2**20 * 10**9},
                limits={"memory": 128 * 2**20 * 10**9},
            ),
            restarts_for_memory=True,
            image_hash=image_hash_of(app["image"]),
        ),
    )
    assert [(init_container.name, init_container.kind) for init_container in seen.init_containers] == [
        ("setup", ContainerKind.INIT),
        ("proxy", ContainerKind.SIDECAR),
    ]
    running = seen.status_of("app")
    assert running is not None
    assert (running.state, running.is_ready, running.is_started) == (ContainerState.RUNNING, True, True)
    assert running.started_unix_seconds == pytest.approx(now, abs=300)
    assert running.allocated == {"cpu": 100_000_000, "memory": 64 * 2**20 * 10**9}
    assert running.last_termination is not None
    assert running.last_termination.is_oom_kill
    assert running.last_termination.exit_code == 137
    # date -u -d 2026-01-31T12:00:05Z +%s
    assert running.last_termination.finished_unix_seconds == 1_769_860_805
    ended = seen.status_of("setup")
    assert ended is not None
    assert ended.termination is not None
    assert (ended.state, ended.termination.reason) == (ContainerState.TERMINATED, "Completed")
    pending = seen.condition("PodResizePending")
    assert pending is not None
    assert (pending.reason, pending.message, pending.observed_generation) == ("Deferred", "not now", generation)
    assert pending.last_transition_unix_seconds == pytest.approx(now, abs=300)


def test_the_view_names_containers_as_a_pods_file_does(
    cluster: ControlPlane, api: HttpApi, node: str, namespace: str
) -> None:
    with watching(api, node) as view:
        complete(view, with_node=True)
        view.refresh()
        document = create_pod(cluster, namespace, pod("web", node))
        status = running_status(document)
        write_pod_status(cluster.admin, namespace, "web", status, pod=document)
        identity_of_path = UnitIdentity(
            cgroup_path="/kubepods/x",
            kind=UnitKind.CONTAINER,
            pod_uid=document["metadata"]["uid"],
            container_id=status["containerStatuses"][0]["containerID"].removeprefix("containerd://"),
        )
        wait_for(lambda: view.name(identity_of_path)[0].container == "app", "the container has its name")
        named, resources = view.name(identity_of_path)
        assert (named.namespace, named.pod, resources.cpu_request_millicores) == (namespace, "web", 100)
        workload = view.belonging(named).workload
        assert workload is not None
        assert workload.name == "web"
        assert view.refresh()
        assert not view.refresh()
        assert view.age_seconds is not None


def test_pods_that_are_too_large_to_be_held_at_once_are_listed_a_few_at_a_time(
    cluster: ControlPlane, api: HttpApi, node: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_module, "LONGEST_LINE_BYTES", 6 << 20)
    large = container() | {"env": [{"name": "TEXT", "value": "x" * 1_200_000}]}
    names = [f"large-{number}" for number in range(7)]
    for name in names:
        create_pod(cluster, namespace, pod(name, node, large))
    with watching(api, node) as view:
        complete(view)
        assert [each.name for each in view.state().pods] == names
        wait_for(lambda: counts(view)["watches"] == 1, "pods are watched")  # a list is counted after it is seen
        assert [(status.counts.lists, status.trouble) for status in view.statuses() if status.name == "pods"] == [
            (1, None)
        ]
        create_pod(cluster, namespace, pod("after", node, large))
        wait_for(lambda: "after" in [each.name for each in view.state().pods], "the watch goes on from the list")


def test_a_change_that_nobody_reads_wakes_nobody(
    cluster: ControlPlane, api: HttpApi, node: str, namespace: str
) -> None:
    document = create_pod(cluster, namespace, pod("web", node))
    running = write_pod_status(cluster.admin, namespace, "web", running_status(document), pod=document)
    with watching(api, node) as view:
        complete(view, running, with_node=True)
        wait_for(lambda: counts(view)["watches"] == 1, "pods are watched")
        view.refresh()
        events = counts(view)["events"]
        written = write_pod_status(cluster.admin, namespace, "web", {"message": "nobody reads this"})
        wait_for(lambda: only_pod(view).resource_version == written["metadata"]["resourceVersion"], "it is seen")
        assert counts(view)["events"] == events + 1
        # News are not counted here: the namespaces of other tests, on their way out, bring some too.
        assert not view.refresh()
        write_pod_status(cluster.admin, namespace, "web", {"phase": "Failed"})
        wait_for(lambda: only_pod(view).phase == "Failed", "the phase is seen")
        assert view.refresh()


def test_the_answer_to_a_patch_is_in_the_view_at_once_and_stays(
    cluster: ControlPlane, token: str, node: str, namespace: str
) -> None:
    document = create_pod(cluster, namespace, pod("web", node, container(requests={"cpu": "100m"})))
    write_pod_status(cluster.admin, namespace, "web", running_status(document), pod=document)
    metadata = {"annotations": {"plimsoll.dev/mode": "enforce"}}
    old = cluster.admin.patch(pod_path(namespace, "web"), {"metadata": metadata}, MERGE)
    direct = client(cluster, token)
    wait_resizable(cluster, namespace, "web", cpu="150m")
    with wire(cluster.url) as line, watching(client(cluster, token, server=line.url), node) as view:
        complete(view, old)
        wait_for(lambda: counts(view)["watches"] == 1, "pods are watched")
        with line.down():  # the watch cannot bring it
            body = resize_body(app={"requests": {"cpu": "150m"}})
            answer = direct.call(
                "PATCH", pod_path(namespace, "web", "resize"), body=body, content_type=STRATEGIC_MERGE_PATCH
            )
            view.put(answer)
            assert only_pod(view).containers[0].resources.cpu_request_millicores == 150
            view.put(old)
            assert only_pod(view).containers[0].resources.cpu_request_millicores == 150
            events = counts(view)["events"]  # before the line is up again: the watch may be quick
        wait_for(lambda: counts(view)["events"] > events, "the watch brings it too")
        assert only_pod(view).containers[0].resources.cpu_request_millicores == 150
        # A deleted pod does not come back by a late answer.
        delete_pod(cluster, namespace, "web")
        wait_for(lambda: names(view) == [], "the pod is gone")
        view.put(answer)
        assert names(view) == []


# -- when the server goes --------------------------------------------------------------------------------------------


def test_a_cut_watch_goes_on_where_it_was_without_a_new_list(
    cluster: ControlPlane, token: str, node: str, namespace: str
) -> None:
    made = [create_pod(cluster, namespace, pod(name, node)) for name in ("stays", "goes")]
    with wire(cluster.url) as line, watching(client(cluster, token, server=line.url), node) as view:
        complete(view, *made)
        wait_for(lambda: counts(view)["watches"] == 1, "pods are watched")
        with line.down():
            delete_pod(cluster, namespace, "goes")
            create_pod(cluster, namespace, pod("comes", node))
            wait_for(lambda: all(status.trouble for status in view.statuses()), "every watch knows that it is cut")
            assert names(view) == ["goes", "stays"]
            assert view.state().is_complete
        wait_for(lambda: names(view) == ["comes", "stays"], "what happened meanwhile is seen")
        wait_for(lambda: not any(status.trouble for status in view.statuses()), "every watch is back")
        assert counts(view)["lists"] == 1
        assert counts(view)["expired"] == 0


def admin_client(cluster: ControlPlane, *, server: str | None = None, timeout_seconds: float = 5.0) -> HttpApi:
    pair = cluster.client_certificate("agent", ["system:masters"])
    credentials = Credentials(
        server=server or cluster.url,
        origin="tests",
        ca_file=cluster.authority,
        certificate_file=pair.certificate,
        key_file=pair.key,
    )
    return HttpApi(credentials, timeout_seconds=timeout_seconds)


def test_state_stays_through_an_outage_and_is_right_after_it(fragile: ControlPlane) -> None:
    node, namespace = fresh_name("node"), "default"
    made = [create_pod(fragile, namespace, pod(name, node)) for name in ("one", "two")]
    with watching(admin_client(fragile), node) as view:
        complete(view, *made)
        with fragile.outage():
            refused = f"no answer from {fragile.url}: Connection refused"
            wait_for(
                lambda: all(refused in (status.trouble or "") for status in view.statuses()), "the outage is noticed"
            )
            assert names(view) == ["one", "two"]
            age = view.state().age_seconds
            assert age is not None
            wait_for(lambda: (view.state().age_seconds or 0.0) > age, "the age grows")
        create_pod(fragile, namespace, pod("three", node))
        delete_pod(fragile, namespace, "one")
        wait_for(lambda: names(view) == ["three", "two"], "the view is right again")


def test_a_version_that_the_server_no_longer_has_leads_to_a_new_list(fragile: ControlPlane) -> None:
    node, namespace = fresh_name("node"), "default"
    create_pod(fragile, namespace, pod("first", node))
    with wire(fragile.url) as line, watching(admin_client(fragile, server=line.url), node) as view:
        complete(view)
        wait_for(lambda: counts(view)["watches"] == 1, "pods are watched")
        with line.down():
            create_pod(fragile, namespace, pod("second", node))
            delete_pod(fragile, namespace, "first")
            with fragile.outage():
                pass  # a restarted server remembers no event from before its start: older versions are too old (410)
        wait_for(lambda: names(view) == ["second"], "listed anew")
        wait_for(lambda: counts(view)["lists"] > 1, "it is counted")  # after it is seen
        assert counts(view)["expired"] == 1
        assert counts(view)["lists"] == 2


def test_a_frozen_server_neither_empties_the_view_nor_holds_up_the_stop(fragile: ControlPlane) -> None:
    node = fresh_name("node")
    made = create_pod(fragile, "default", pod("web", node))
    hasty = dataclasses.replace(QUICK, silence_seconds=0.5)
    with watching(admin_client(fragile, timeout_seconds=0.5), node, pace=hasty) as view:
        complete(view, made)
        patient = ClusterView(admin_client(fragile, timeout_seconds=120.0), node, pace=QUICK)
        with fragile.freeze():
            patient.start()
            wait_for(
                lambda: all("timed out" in (status.trouble or "") for status in view.statuses()),
                "the silence is noticed",
            )
            assert names(view) == ["web"]
            patient.stop()
            assert not any(
                reflector.join(0.0) for _, reflector in patient._all
            )  # it did not wait for them: they hang in connections
        wait_for(lambda: not any(status.trouble for status in view.statuses()), "every watch is back")


# -- who asks --------------------------------------------------------------------------------------------------------


def test_a_renewed_token_file_is_taken_with_the_next_request(
    cluster: ControlPlane, node: str, namespace: str, tmp_path: Path
) -> None:
    create_service_account(cluster, namespace, "first")
    create_service_account(cluster, namespace, "second")
    # As the kubelet does it: a new directory, and one symbolic link that is swapped.
    for account in ("first", "second"):
        (tmp_path / account).mkdir()
        (tmp_path / account / "token").write_text(node_bound_token(cluster, namespace, account, node) + "\n")
    (tmp_path / "data").symlink_to("first")
    (tmp_path / "token").symlink_to("data/token")
    credentials = Credentials(
        server=cluster.url, origin="tests", ca_file=cluster.authority, token_file=tmp_path / "token"
    )
    api = HttpApi(credentials)
    assert identity(api).username == f"system:serviceaccount:{namespace}:first"
    (tmp_path / "data_new").symlink_to("second")
    (tmp_path / "data_new").rename(tmp_path / "data")
    assert identity(api).username == f"system:serviceaccount:{namespace}:second"
    (tmp_path / "data").unlink()
    assert identity(api).username == f"system:serviceaccount:{namespace}:second"


def test_a_refused_token_is_told_without_being_shown(cluster: ControlPlane, node: str) -> None:
    api = client(cluster, "very-secret-token")
    with pytest.raises(ApiError) as refused:
        api.call("GET", "/api/v1/pods")
    assert (refused.value.status, refused.value.reason) == (401, "Unauthorized")
    assert str(refused.value) == "GET /api/v1/pods: 401 Unauthorized: Unauthorized"
    with watching(api, node) as view:
        wait_for(lambda: all(status.trouble for status in view.statuses()), "every watch knows")
        assert not view.state().is_complete
        assert "very-secret-token" not in " ".join(str(status) for status in view.statuses())


def test_missing_rights_are_named_one_by_one(cluster: ControlPlane, api: HttpApi, node: str, namespace: str) -> None:
    assert missing_permissions(api) == ()
    create_service_account(cluster, namespace, "nobody")
    nobody = client(cluster, node_bound_token(cluster, namespace, "nobody", node))
    assert [str(refusal.permission) for refusal in missing_permissions(nobody)] == [
        "list pods",
        "watch pods",
        "list nodes",
        "watch nodes",
        "list namespaces",
        "watch namespaces",
        "patch pods/resize",
        "get nodes",
        "patch nodes",
        "create events (events.k8s.io)",
        "patch events (events.k8s.io)",
    ]
    with watching(nobody, node) as view:
        wait_for(lambda: all(status.trouble for status in view.statuses()), "every watch knows")
        trouble = view.statuses()[0].trouble
        assert trouble is not None
        assert trouble.startswith("GET /api/v1/pods: 403 Forbidden: pods is forbidden: User ")


def test_the_node_claim_is_that_of_the_token(cluster: ControlPlane, api: HttpApi, node: str) -> None:
    assert node_claim(api) == node
    assert node_claim(client(cluster, node_bound_token(cluster, NAMESPACE, ACCOUNT, None))) is None


def test_an_administrators_kubeconfig_works_and_certificates_say_who_it_is(cluster: ControlPlane) -> None:
    credentials = from_kubeconfig(cluster.kubeconfig)
    api = HttpApi(credentials)
    assert identity(api).username == "admin"
    assert server_version(api) == f"v{cluster.version}"
    assert "PRIVATE" not in repr(credentials)


def test_a_server_that_is_not_trusted_gets_no_request(
    cluster: ControlPlane, node: str, token: str, tmp_path: Path
) -> None:
    other = tmp_path / "ca.crt"
    other.write_text(cluster.client_certificate("somebody").certificate.read_text())
    api = HttpApi(Credentials(server=cluster.url, origin="tests", ca_file=other, token=token))
    audit = AuditLog(cluster.audit_log)
    with pytest.raises(Unreachable) as refused:
        api.call("POST", "/api/v1/namespaces", body={})
    assert not refused.value.may_have_been_done
    assert "certificate" in str(refused.value)
    assert [call for call in audit.calls(USER) if call.node == node] == []


def test_refusals_come_with_reason_causes_and_message(
    cluster: ControlPlane, api: HttpApi, node: str, namespace: str
) -> None:
    document = create_pod(cluster, namespace, pod("web", node, container(requests={"cpu": "100m"})))
    write_pod_status(cluster.admin, namespace, "web", running_status(document), pod=document)
    path = pod_path(namespace, "web", "resize")
    body = {"metadata": {"resourceVersion": "1"}} | resize_body(app={"requests": {"cpu": "110m"}})
    with pytest.raises(ApiError) as stale:
        api.call("PATCH", path, body=body, content_type=STRATEGIC)
    assert (stale.value.status, stale.value.reason) == (409, "Conflict")
    with pytest.raises(ApiError) as invalid:
        api.call(
            "PATCH", path, body=[{"op": "remove", "path": "/spec/containers/0/resources"}], content_type=JSON_PATCH
        )
    assert invalid.value.status == 422
    assert invalid.value.causes
    assert "\n" not in str(invalid.value)
    with pytest.raises(KubeError):
        api.call("GET", "/api/v1/pods/secrets/of/others")
    if cluster.version < "1.36":
        pytest.skip("older servers take what can never fit, and let the kubelet say so")
    wait_resizable(cluster, namespace, "web", cpu="110m")  # before, the node is not found
    with pytest.raises(ApiError) as too_much:
        api.call("PATCH", path, body=resize_body(app={"requests": {"cpu": "90"}}), content_type=STRATEGIC)
    assert too_much.value.status == 403
    assert [cause.reason for cause in too_much.value.causes] == ["NodeCapacity"]
