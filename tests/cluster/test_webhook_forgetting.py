"""A node's stolen token, one lie, and its undoing: real tokens and RBAC, two replicas on one PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent.cli.main import main
from tests.cluster import chart, objects
from tests.cluster.api import Json, kubeconfig
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import create_namespace, fresh_name, node_bound_token, remove_namespace
from tests.cluster.processes import wait_for
from tests.cluster.webhook_process import NAMESPACE, UNBOUNDED, WebhookProcess, agent_token, answer_of, webhook
from tests.webhook.postgres import postgres_server
from tests.webhook.report_bodies import distribution, report_body, row_body

pytestmark = pytest.mark.cluster
MIB = 1 << 20
FORGETTER = {"webhook": {"forgetter": {"enabled": True}}}


@pytest.fixture(scope="module")
def replicas(
    fenced: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[WebhookProcess, WebhookProcess, str]]:
    """Two of them with their own rights, and their database; with the chart's reader and forgetter."""
    fenced.admin.apply_all(chart.parts(*chart.WEBHOOK, values=FORGETTER))
    own = fenced.api_with_token(node_bound_token(fenced, NAMESPACE, "plimsoll-webhook", None))
    with postgres_server() as server, ExitStack() as running:
        url = server.url(server.new_database())
        started: list[WebhookProcess] = []
        for name in ("one", "other"):
            folder = tmp_path_factory.mktemp(name)
            arguments = [f"--replica={name}", "--set=cluster.lease=forgetting", "--set=plan.minAgeSeconds=0", UNBOUNDED]
            file = kubeconfig(own, folder / "kubeconfig")
            started.append(
                running.enter_context(webhook(fenced, folder, kubeconfig=file, database=url, arguments=arguments))
            )
        yield started[0], started[1], url


@pytest.fixture
def shop(fenced: ControlPlane) -> Iterator[tuple[str, dict[str, Json]]]:
    """A namespace with a Deployment of two pods, by the node on which each of them is."""
    namespace, nodes = fresh_name("shop"), [fresh_name("honest"), fresh_name("stolen")]
    create_namespace(fenced, namespace, {"plimsoll.dev/mode": "enforce"})
    deployment = {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [objects.container()]}},
        },
    }
    fenced.admin.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment)
    pods = objects.pod_path(namespace)
    wait_for(lambda: len(fenced.admin.get(pods)["items"]) == 2, "the deployment has its pods")
    placed: dict[str, Json] = {}
    for node, pod in zip(nodes, fenced.admin.get(pods)["items"], strict=True):
        objects.create_node(fenced.admin, node)
        name = pod["metadata"]["name"]
        binding = {"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
        fenced.admin.create(objects.pod_path(namespace, name, "binding"), binding)
        placed[node] = pod
    yield namespace, placed
    remove_namespace(fenced, namespace)
    for node in nodes:
        fenced.admin.delete(f"/api/v1/nodes/{node}")


def reports(plane: ControlPlane, replica: WebhookProcess, node: str, pod: Json, memory_bytes: int) -> None:
    metadata = pod["metadata"]
    row = row_body(
        namespace=metadata["namespace"],
        kind="Deployment",
        workload="web",
        pod=metadata["name"],
        podUid=metadata["uid"],
        memory=distribution(memory_bytes),
        oomKills=[],
    )
    token = agent_token(plane, node)

    def is_taken() -> bool:
        body = report_body(row, node=node, incarnation=fresh_name("i"))
        return bool(answer_of(replica.post("/v1/report", body, token))["taken"] == 1)

    wait_for(is_taken, "the watch brings the pod")


def memory_of(replica: WebhookProcess, path: str, token: str) -> int | None:
    reply = replica.get(path, token)
    if reply.status == 404:
        return None
    request_bytes: int | None = answer_of(reply)["containers"][0]["advice"].get("memoryRequestBytes")
    return request_bytes


def test_a_lie_is_undone_in_all_replicas_by_who_may_and_by_nobody_else(
    fenced: ControlPlane,
    replicas: tuple[WebhookProcess, WebhookProcess, str],
    shop: tuple[str, dict[str, Json]],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    replica, other, database = replicas
    namespace, placed = shop
    (honest, good_pod), (stolen, bad_pod) = placed.items()
    path = f"/v1/workloads/{namespace}/Deployment/web"
    reader, forgetter = (
        node_bound_token(fenced, NAMESPACE, f"plimsoll-webhook-{name}", None, audiences=("plimsoll-webhook",))
        for name in ("reader", "forgetter")
    )

    def in_both(expected: int | None) -> bool:
        return [memory_of(each, path, reader) for each in (replica, other)] == [expected, expected]

    reports(fenced, replica, honest, good_pod, 64 * MIB)
    wait_for(lambda: None not in (memory_of(replica, path, reader), memory_of(other, path, reader)), "both know it")
    before = memory_of(replica, path, reader)
    assert before is not None
    assert before < 100 * MIB
    reports(fenced, other, stolen, bad_pod, 3000 * MIB)
    wait_for(
        lambda: all((memory_of(each, path, reader) or 0) > before for each in (replica, other)), "both were lied to"
    )

    for token, status in ((reader, 403), (agent_token(fenced, stolen), 403), ("nonsense", 401)):
        for where in (path, f"/v1/nodes/{stolen}", f"/v1/nodes/{stolen}?dryRun=true"):
            assert replica.ask("DELETE", where, Authorization=f"Bearer {token}").status == status
    assert replica.ask("DELETE", path).status == 401

    looked = answer_of(replica.ask("DELETE", f"/v1/nodes/{stolen}?dryRun=true", Authorization=f"Bearer {forgetter}"))
    assert (looked["dryRun"], [work["name"] for work in looked["workloads"]]) == (True, ["web"])
    assert not in_both(before)

    arguments = [f"--webhook=https://127.0.0.1:{replica.port}", f"--kubeconfig={fenced.kubeconfig}"]
    arguments += [f"--ca-file={fenced.authority}"]
    assert main(["workloads", "--forget", "--node", stolen, "--yes", "-o", "json", *arguments]) == 0
    reply = json.loads(capsys.readouterr().out)
    assert (reply["dryRun"], reply["node"], reply["reports"] >= 1) == (False, stolen, True)
    # It waits five seconds for its memory to follow, and says so where a busy machine does not come to it by then.
    assert not reply["inMemoryToo"] or memory_of(replica, path, reader) == before, "who says so has forgotten by then"
    wait_for(lambda: in_both(before), "both forget")

    late = tmp_path / "late"
    late.mkdir()
    with webhook(
        fenced,
        late,
        database=database,
        arguments=["--replica=late", "--set=cluster.lease=forgetting", "--set=plan.minAgeSeconds=0"],
    ) as begun:
        wait_for(lambda: memory_of(begun, path, reader) == before, "one that begins later never hears of it")

    assert main(["workloads", "--forget", f"{namespace}/web", "--yes", *arguments]) == 0
    assert capsys.readouterr().out.startswith(f"forgotten: Deployment {namespace}/web: 1 workload")
    wait_for(lambda: in_both(None), "all of it is gone")
    assert replica.series('plimsoll_forget_orders_received_total{result="accepted"}') >= 3
