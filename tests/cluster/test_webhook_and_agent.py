"""A real agent and a real webhook: what the node measured is known centrally, and what the webhook says is obeyed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import objects
from tests.cluster.acting_node import ActingNode, acting_node
from tests.cluster.api import Json
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import create_namespace, create_service_account, fresh_name, node_bound_token
from tests.cluster.webhook_process import AUDIENCE, NAMESPACE, WebhookProcess, agent_token, answer_of, webhook
from tests.kernel.cgroups import why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]


@pytest.fixture
def node(fenced: ControlPlane, namespace: str, node_name: str, tmp_path: Path) -> Iterator[ActingNode]:
    with acting_node(fenced, namespace, node_name, tmp_path) as made:
        yield made


@pytest.fixture
def reader(fenced: ControlPlane, namespace: str) -> Iterator[str]:
    """The token of somebody who may read what the webhook learnt."""
    create_service_account(fenced, namespace, "reader")
    role = fresh_name("reader")
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": role}}
    rules = [{"nonResourceURLs": ["/v1/workloads/*", "/v1/nodes"], "verbs": ["get"]}]
    fenced.admin.apply({**head, "kind": "ClusterRole", "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subjects = [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}]
    fenced.admin.apply({**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects})
    yield node_bound_token(fenced, namespace, "reader", None, audiences=(AUDIENCE,))
    for kind in ("clusterrolebindings", "clusterroles"):
        fenced.admin.delete(f"/apis/rbac.authorization.k8s.io/v1/{kind}/{role}")


def learnt(hook: WebhookProcess, namespace: str, reader: str) -> Any:
    """Give what the webhook knows of the workload; None = nothing yet."""
    reply = hook.get(f"/v1/workloads/{namespace}/Rollout/web", reader)
    return None if reply.status == 404 else answer_of(reply)


def autoscaler(namespace: str) -> Json:
    resource = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
    return {
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web"},
            "maxReplicas": 5,
            "metrics": [{"type": "Resource", "resource": resource}],
        },
    }


def test_what_a_node_measures_is_known_and_what_it_is_told_holds(
    fenced: ControlPlane, node: ActingNode, namespace: str, reader: str, tmp_path: Path
) -> None:
    if not fenced.admin.exists(f"/api/v1/namespaces/{NAMESPACE}"):
        create_namespace(fenced, NAMESPACE)
    if not fenced.admin.exists(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/plimsoll-agent"):
        create_service_account(fenced, NAMESPACE, "plimsoll-agent")
    fenced.admin.create(f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers", autoscaler(namespace))
    node.run_pod("web", objects.container(requests={"cpu": "100m"}), load="busy")
    token = tmp_path / "token"
    token.write_text(agent_token(fenced, node.name))
    folder = tmp_path / "webhook"
    folder.mkdir()
    with webhook(fenced, folder) as hook:
        node.start_agent(
            report__url=f"https://127.0.0.1:{hook.port}",
            report__tokenFile=token,
            report__caFile=fenced.authority,
            report__intervalSeconds=60,
        )
        node.wait(lambda: node.metric('plimsoll_report_posts_total{result="taken"}') == 1.0, "a report was taken")
        node.wait(lambda: learnt(hook, namespace, reader), "the webhook knows the workload")
        workload = learnt(hook, namespace, reader)
        (container,) = workload["containers"]
        assert container["container"] == "app"
        assert "HorizontalPodAutoscaler" in json.dumps(workload["applies"])
        (mine,) = [one for one in answer_of(hook.get("/v1/nodes", reader))["nodes"] if one["node"] == node.name]
        assert (mine["sequence"], mine["lostReports"], mine["workloads"]) == (1, 0, 1)
        told = node.ask("cluster")
        assert told["reporting"]["trouble"] is None
        assert told["directives_age_seconds"] is not None
        # The pod is busy and would grow: the HPA divides by its CPU request, so it stays.
        node.wait(lambda: '"hpa"' in json.dumps(node.ask("plan")), "the plan tells of the HPA")
        assert node.plane.admin.get(objects.pod_path(namespace, "web"))["spec"]["containers"][0]["resources"] == {
            "requests": {"cpu": "100m"}
        }
    # Killed, the agent goes on with its numbers.
    node.kill_agent()
    kept = json.loads((node.agent.state / "reports" / "numbering").read_text())
    assert (kept["sequence"], kept["incarnation"], kept["lost"]) == (1, mine["incarnation"], 0)
