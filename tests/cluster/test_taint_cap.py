"""The cap on tainted nodes with a real API server, a real webhook and the agent's own keeper, asker and token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.core.cluster.node import Node, Taint
from agent.core.orders.plan_options import OverloadOptions
from agent.kube.client.api import HttpApi
from agent.kube.client.kubeconfig import from_kubeconfig
from agent.node.keepers.keeper import KeeperTerms
from agent.node.keepers.overload_taint import READ_SECONDS, OverloadKeeper
from agent.node.reports.client import WebhookClient
from agent.node.reports.taint_asker import TaintAsker
from tests.cluster import objects
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import create_namespace, create_service_account, fresh_name
from tests.cluster.processes import wait_for
from tests.cluster.webhook_process import NAMESPACE, WebhookProcess, agent_token, answer_of, webhook

pytestmark = pytest.mark.cluster


@pytest.fixture
def nodes(fenced: ControlPlane) -> Iterator[tuple[str, str]]:
    names = fresh_name("node"), fresh_name("node")
    for name in names:
        objects.create_node(fenced.admin, name)
    yield names
    for name in names:
        fenced.admin.delete(f"/api/v1/nodes/{name}")


@pytest.fixture
def hook(fenced: ControlPlane, tmp_path: Path) -> Iterator[WebhookProcess]:
    """A replica that lets one node be tainted, however many there are, and holds a place for as short as it can."""
    if not fenced.admin.exists(f"/api/v1/namespaces/{NAMESPACE}"):
        create_namespace(fenced, NAMESPACE)
    if not fenced.admin.exists(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/plimsoll-agent"):
        create_service_account(fenced, NAMESPACE, "plimsoll-agent")
    (tmp_path / "webhook").mkdir()
    options = ["--set=arbiter.taintedNodesRatio=0.001", "--set=arbiter.taintGrantSeconds=30"]
    with webhook(fenced, tmp_path / "webhook", arguments=options) as replica:
        yield replica


class OverloadedNode:
    """The keeper of a node whose load is as told."""

    def __init__(self, plane: ControlPlane, hook: WebhookProcess, name: str, folder: Path) -> None:
        self.plane, self.name, self.load = plane, name, 2.0
        self.told: list[tuple[str, str, str]] = []
        self.answers: list[str] = []
        self._now = 0.0
        token = folder / f"{name}.token"
        token.write_text(agent_token(plane, name))
        client = WebhookClient(
            f"https://127.0.0.1:{hook.port}", token_file=token, ca_file=plane.authority, timeout_seconds=10.0
        )
        self.keeper = OverloadKeeper(
            api=HttpApi(from_kubeconfig(plane.kubeconfig)),
            node_name=name,
            options=OverloadOptions(taint=True),
            node=self.seen,
            load_per_cpu=lambda: self.load,
            waiting_ratio=lambda: 0.5,
            terms=KeeperTerms(may_write=lambda: None, tell=self._tell),
            # Its clock is the keeper's: the node's time passes as fast as the test likes.
            permission=TaintAsker(
                node=name, poster=client, count=self.answers.append, clock=lambda: self._now
            ).permission,
        )

    @property
    def path(self) -> str:
        return f"/api/v1/nodes/{self.name}"

    def seen(self) -> Node:
        document: Mapping[str, Any] = self.plane.admin.get(self.path)
        taints = document["spec"].get("taints") or []
        return Node(
            name=self.name,
            resource_version=document["metadata"]["resourceVersion"],
            taints=tuple(Taint(key=taint["key"], effect=taint["effect"]) for taint in taints),
        )

    def turn(self) -> bool:
        """Take a turn; say whether the node carries the taint after it."""
        self.keeper.tick(self._now)
        self._now += READ_SECONDS
        return bool(self.seen().taints)

    def _tell(self, **decision: Any) -> None:
        self.told.append((decision["action"], decision["outcome"], decision["reason"]))


def test_the_second_node_is_not_tainted_before_the_first_one_is_free(
    fenced: ControlPlane, hook: WebhookProcess, nodes: tuple[str, str], tmp_path: Path
) -> None:
    first, second = (OverloadedNode(fenced, hook, name, tmp_path) for name in nodes)
    for node in (first, second):  # in this order: the place is the first one's
        wait_for(
            lambda node=node: answer_of(hook.post("/v1/taint", *question(fenced, node.name)))["reason"]  # type: ignore[misc]
            != "unknown_node",
            "the webhook's watch has brought the node",
        )
    wait_for(first.turn, "the first node is tainted")
    assert first.told == [("taint", "done", "overloaded")]

    wait_for(lambda: second.turn() or bool(second.told), "the second one is answered")
    assert second.told == [("taint", "withheld", "taint_cap")]
    assert second.seen().taints == ()
    assert set(second.answers) == {"refused"}
    wait_for(lambda: hook.series("plimsoll_cluster_tainted_nodes") == 1.0, "the webhook's watch has brought the taint")
    assert hook.series("plimsoll_cluster_tainted_nodes_limit") == 1.0
    assert hook.series('plimsoll_taints_judged_total{reason="taint_cap"}') >= 1.0


def test_a_node_asks_for_itself_alone(fenced: ControlPlane, hook: WebhookProcess, nodes: tuple[str, str]) -> None:
    body, _ = question(fenced, nodes[0])
    assert hook.post("/v1/taint", body, agent_token(fenced, nodes[1])).status == 403
    assert hook.post("/v1/taint", body, None).status == 401


def test_without_the_webhook_there_is_no_taint(
    fenced: ControlPlane, hook: WebhookProcess, nodes: tuple[str, str], tmp_path: Path
) -> None:
    node = OverloadedNode(fenced, hook, nodes[0], tmp_path)
    hook.process.stop()
    wait_for(lambda: node.turn() or bool(node.told), "an answer, or that there is none")
    assert node.told == [("taint", "withheld", "webhook_away")]
    assert node.seen().taints == ()


def question(plane: ControlPlane, node: str) -> tuple[dict[str, Any], str]:
    return {"schema": 1, "node": node}, agent_token(plane, node)
