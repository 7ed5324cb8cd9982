"""The tests' own cluster: it comes up as the real thing, goes away and returns, and says who wrote what."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from tests.cluster import objects
from tests.cluster.api import Api, ApiError, _idle
from tests.cluster.audit import AuditLog
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import (
    create_namespace,
    create_service_account,
    fresh_name,
    node_bound_token,
    pod_bound_token,
    remove_namespace,
    whoami,
)
from tests.cluster.processes import Process, wait_for

pytestmark = pytest.mark.cluster

NODE_NAME = "authentication.kubernetes.io/node-name"


def test_server_says_the_version_it_was_built_as(cluster: ControlPlane) -> None:
    assert cluster.admin.get("/version")["gitVersion"] == f"v{cluster.version}"


def test_built_kubectl_reads_through_the_admin_kubeconfig(cluster: ControlPlane) -> None:
    command = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}", "get", "namespaces", "-o", "name"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "namespace/kube-system" in answer.stdout.split()


def test_everything_listens_on_loopback_only(cluster: ControlPlane) -> None:
    listening = [
        connection.laddr
        for process in cluster.processes().values()
        for connection in psutil.Process(process.pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(listening) == 3  # etcd's two and the API server's
    assert {address.ip for address in listening} == {"127.0.0.1"}


def test_new_node_is_ready_for_pods(cluster: ControlPlane, node_name: str) -> None:
    node = objects.create_node(cluster.admin, node_name)
    assert "taints" not in node["spec"]
    assert node["status"]["allocatable"]["cpu"] == "4"
    assert cluster.admin.get(f"/api/v1/nodes/{node_name}")["spec"] == node["spec"]


def test_token_bound_to_a_node_names_it_and_an_unbound_one_names_none(
    cluster: ControlPlane, namespace: str, node_name: str
) -> None:
    objects.create_node(cluster.admin, node_name)
    create_service_account(cluster, namespace, "agent")
    bound = whoami(cluster.api_with_token(node_bound_token(cluster, namespace, "agent", node_name)))
    unbound = whoami(cluster.api_with_token(node_bound_token(cluster, namespace, "agent", None)))
    assert bound["username"] == unbound["username"] == f"system:serviceaccount:{namespace}:agent"
    assert bound["extra"][NODE_NAME] == [node_name]
    assert NODE_NAME not in unbound["extra"]


def test_token_of_a_pod_names_the_node_that_the_pod_is_bound_to(
    cluster: ControlPlane, namespace: str, node_name: str
) -> None:
    objects.create_node(cluster.admin, node_name)
    cluster.admin.create(objects.pod_path(namespace), objects.pod("web", node_name))
    info = whoami(cluster.api_with_token(pod_bound_token(cluster, namespace, "default", "web")))
    assert info["extra"][NODE_NAME] == [node_name]
    assert info["extra"]["authentication.kubernetes.io/pod-name"] == ["web"]


def test_resize_is_accepted_and_raises_the_generation_by_one(
    cluster: ControlPlane, namespace: str, node_name: str
) -> None:
    objects.create_node(cluster.admin, node_name)
    before = cluster.admin.create(objects.pod_path(namespace), objects.pod("web", node_name))
    after = objects.resize(cluster.admin, namespace, "web", objects.resize_body(app={"requests": {"cpu": "250m"}}))
    assert after["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "250m", "memory": "64Mi"}
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1


def test_resize_cannot_write_annotations(cluster: ControlPlane, namespace: str, node_name: str) -> None:
    # So whoever keeps a pod's original requests in an annotation needs a right that the agent does not have.
    objects.create_node(cluster.admin, node_name)
    cluster.admin.create(objects.pod_path(namespace), objects.pod("web", node_name))
    body = objects.resize_body(app={"requests": {"cpu": "250m"}}) | {"metadata": {"annotations": {"kept": "100m"}}}
    after = objects.resize(cluster.admin, namespace, "web", body)
    assert "kept" not in after["metadata"].get("annotations", {})


def test_resize_beyond_the_node_is_refused_at_once_on_1_37(
    control_plane_1_37: ControlPlane, namespace: str, node_name: str
) -> None:
    admin = control_plane_1_37.admin
    objects.create_node(admin, node_name, cpu="2")
    admin.create(objects.pod_path(namespace), objects.pod("web", node_name))
    with pytest.raises(ApiError) as refusal:
        objects.resize(admin, namespace, "web", objects.resize_body(app={"requests": {"cpu": "3"}}))
    assert (refusal.value.status, refusal.value.causes) == (403, ["NodeCapacity"])


def test_stopped_server_refuses_and_returns_with_address_and_data(cluster: ControlPlane, namespace: str) -> None:
    url = cluster.url
    with cluster.outage(), pytest.raises(ConnectionRefusedError):
        cluster.admin.get("/readyz")
    assert cluster.url == url
    assert cluster.admin.exists(f"/api/v1/namespaces/{namespace}")


def test_paused_server_takes_connections_and_answers_nothing(cluster: ControlPlane) -> None:
    impatient = Api(
        server=cluster.url, authority=cluster.authority, identity=cluster.admin.identity, timeout_seconds=0.2
    )
    with cluster.freeze(), pytest.raises(TimeoutError):
        impatient.open("GET", "/readyz", None, "", None)  # by a connection of its own
    wait_for(cluster.is_ready, "the resumed server answers")


def test_a_connection_is_kept_for_the_next_request_and_not_beyond_an_outage(cluster: ControlPlane) -> None:
    def kept() -> int:
        """Return the port of this thread's connection: other threads of this process may have some of their own."""
        cluster.admin.get("/readyz")
        connection = _idle().take(cluster.admin._key)
        assert connection is not None
        _idle().keep(cluster.admin._key, connection)
        return int(connection.sock.getsockname()[1])

    def established() -> set[int]:
        mine = psutil.Process().net_connections("inet")
        return {link.laddr.port for link in mine if link.status == psutil.CONN_ESTABLISHED}

    before = kept()
    assert kept() == before
    assert before in established()
    with cluster.outage():
        assert before not in established()
    assert kept() != before


def test_a_namespace_goes_at_once_with_all_in_it_and_with_nothing_else(cluster: ControlPlane, namespace: str) -> None:
    other = fresh_name("test")
    create_namespace(cluster, other)
    for each in (namespace, other):
        cluster.admin.create(f"/api/v1/namespaces/{each}/configmaps", {"metadata": {"name": namespace}})
        cluster.admin.create(objects.pod_path(each), objects.pod("web", None))
    with cluster.admin.watch(objects.pod_path(other)) as events:
        remove_namespace(cluster, other)
        assert "DELETED" in (event["type"] for event in events)
    wait_for(lambda: not cluster.admin.exists(f"/api/v1/namespaces/{other}"), "the namespace is gone")
    there = {pod["metadata"]["namespace"] for pod in cluster.admin.items("/api/v1/pods")}
    assert (namespace in there, other in there) == (True, False)
    assert not cluster.admin.exists(f"/api/v1/namespaces/{other}/configmaps/{namespace}")
    assert cluster.admin.exists(f"/api/v1/namespaces/{namespace}/configmaps/{namespace}")


def test_audit_tells_writes_from_reads_questions_and_dry_runs(
    cluster: ControlPlane, namespace: str, node_name: str
) -> None:
    objects.create_node(cluster.admin, node_name)
    cluster.admin.create(objects.pod_path(namespace), objects.pod("web", node_name))
    user = f"writer-of-{namespace}"
    api = cluster.api_as(user, ["system:masters"])
    log = AuditLog(cluster.audit_log)
    body = objects.resize_body(app={"requests": {"cpu": "250m"}})

    api.get(objects.pod_path(namespace, "web"))
    whoami(api)
    objects.resize(api, namespace, "web", body, dryRun="All")
    assert log.writes(user) == []

    objects.resize(api, namespace, "web", body)
    with pytest.raises(ApiError):
        objects.resize(api, namespace, "no-such-pod", body)
    assert [str(call) for call in log.writes(user)] == [
        f"patch pods/resize {namespace}/web 200",
        f"patch pods/resize {namespace}/no-such-pod 404",
    ]
    assert len(log.writes(user, refused=False)) == 1
    assert log.writes(user)[0].body == body
    assert log.count(user) == {"get pods": 1, "create selfsubjectreviews": 1, "patch pods/resize": 3}


def test_log_of_audit_counts_a_watch_once(cluster: ControlPlane, namespace: str) -> None:
    user = f"watcher-of-{namespace}"
    api = cluster.api_as(user, ["system:masters"])
    log = AuditLog(cluster.audit_log)
    with api.watch(objects.pod_path(namespace), timeoutSeconds="1") as events:
        assert list(events) == []  # the server ends it after its second
    assert log.count(user) == {"watch pods": 1}


def test_program_that_fails_says_so_with_the_end_of_its_log(tmp_path: Path) -> None:
    process = Process("failing", ["sh", "-c", "echo first; echo why >&2; exit 3"], tmp_path / "log")
    with pytest.raises(Exception, match=r"(?s)failing ended with 3 before it was ready.*first.*why"):
        process.wait_until(lambda: False, "it was ready")


def test_children_end_when_the_starter_is_killed(tmp_path: Path) -> None:
    script = f"""
        import pathlib, signal
        from tests.cluster.processes import Process
        child = Process("sleeper", ["sleep", "600"], pathlib.Path({str(tmp_path / "log")!r}))
        print(child.pid, flush=True)
        signal.pause()
    """
    starter = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    with starter.stdout:
        child = int(starter.stdout.readline())
    proc = Path(f"/proc/{child}")
    # Not before the program itself runs: setpriv has asked the kernel by then.
    wait_for(lambda: (proc / "cmdline").read_text().startswith("sleep"), "the child runs")
    starter.kill()
    starter.wait()

    def is_gone() -> bool:
        try:
            return " Z " in (proc / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):  # the latter where it goes while it is read
            return True

    wait_for(is_gone, "the child is gone")
