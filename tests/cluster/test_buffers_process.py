"""``plimsoll webhook`` looks after buffers with the chart's rights, and ``plimsoll buffers`` says why."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import pytest

from tests.cluster import chart
from tests.cluster.api import Json, kubeconfig
from tests.cluster.audit import AuditLog
from tests.cluster.buffers import Buffers, content, install_crd
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import granted, is_allowed, node_bound_token
from tests.cluster.processes import wait_for
from tests.cluster.webhook_process import NAMESPACE, WebhookProcess, webhook

pytestmark = pytest.mark.cluster

RIGHTS = {"buffers": {"enabled": True}}
USER = f"system:serviceaccount:{NAMESPACE}:plimsoll-webhook"


@pytest.fixture(scope="module")
def served(cluster: ControlPlane) -> ControlPlane:
    install_crd(cluster)
    return cluster


@pytest.fixture(scope="module")
def process(served: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookProcess]:
    folder = tmp_path_factory.mktemp("buffers")
    served.admin.apply_all(chart.parts("cluster/namespace", *chart.WEBHOOK))
    own = served.api_with_token(node_bound_token(served, NAMESPACE, "plimsoll-webhook", None))
    with granted(served, chart.parts("webhook/rights-buffers", values=RIGHTS)):
        buffers = partial(is_allowed, own, "watch", "capacitybuffers", group="autoscaling.x-k8s.io")
        wait_for(buffers, "its rights are in force")
        with webhook(served, folder, kubeconfig=kubeconfig(own, folder / "webhook.kubeconfig")) as hook:
            yield hook


def plimsoll(served: ControlPlane, process: WebhookProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agent", "buffers", *arguments]
    where = [
        f"--webhook=https://127.0.0.1:{process.port}",
        f"--kubeconfig={served.kubeconfig}",
        f"--ca-file={served.authority}",
    ]
    return subprocess.run([*command, *where], capture_output=True, text=True, check=False)


def test_the_charts_rights_suffice_and_the_face_says_why(
    served: ControlPlane, process: WebhookProcess, namespace: str
) -> None:
    log = AuditLog(served.audit_log)
    room = Buffers(served, namespace)
    room.template("shape", content(cpu="500m", memory="1Gi"))
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    room.admin.create(path, {"metadata": {"name": "tight"}, "spec": {"hard": {"requests.cpu": "1500m"}}})
    # Until it is counted the server refuses every pod, on trial too.
    wait_for(lambda: "hard" in room.admin.get(f"{path}/tight").get("status", {}), "the quota is counted")
    labels = {"app": "web"}
    spec = {
        "replicas": 3,
        "selector": {"matchLabels": labels},
        "template": content(labels=labels, cpu="10m", memory="64Mi"),
    }
    room.admin.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", {"metadata": {"name": "web"}, "spec": spec})
    wait_for(lambda: len(room.admin.items(f"/api/v1/namespaces/{namespace}/pods")) == 3, "its pods are there")
    room.create("fixed", podTemplateRef={"name": "shape"}, replicas=3, limits={"memory": "5Gi"})
    room.create("share", scalableRef={"apiGroup": "apps", "kind": "Deployment", "name": "web"}, percentage=50)
    room.create("other", podTemplateRef={"name": "shape"}, replicas=1, provisioningStrategy="other.test/warm")
    room.await_replicas("share", 2)
    room.await_replicas("fixed", 2)
    refused = [str(call) for call in log.calls(USER) if call.is_denied]
    assert refused == []

    # A status is there before the look that wrote it is over, which is what the face tells of.
    def is_told() -> bool:
        told = plimsoll(served, process, "-n", namespace, "-o", "json")
        known = {buffer["name"]: buffer for buffer in json.loads(told.stdout)["buffers"]} if not told.returncode else {}
        return (
            all((known.get(name, {}).get("why") or {}).get("allowed") == 2 for name in ("fixed", "share"))
            and known.get("other", {}).get("leftAlone") is not None
        )

    wait_for(is_told, "the face tells of all three")

    # 5Gi are five times 1Gi; of 1500m three pods of 10m leave room for two times 500m.
    answer = plimsoll(served, process, f"{namespace}/fixed", "--no-color", "--width=120")
    assert answer.returncode == 0, answer.stderr
    assert "PodTemplate shape" in answer.stdout
    assert "cpu 500m, memory 1Gi" in answer.stdout
    lines = {line.split()[0]: line for line in answer.stdout.splitlines() if line.strip()}
    assert lines["replicas"].split()[1] == "3"
    assert lines["limits"].split()[1] == "5"
    assert lines["quotas"].split()[1] == "2"
    assert "decides" in lines["quotas"]
    assert "fit into quota tight" in lines["quotas"]

    every = plimsoll(served, process, "-n", namespace, "-o", "json")
    document: Json = json.loads(every.stdout)
    by_name = {buffer["name"]: buffer for buffer in document["buffers"]}
    assert by_name["share"]["why"]["byPercentage"] == 2
    assert by_name["share"]["why"]["scalableReplicas"] == 3
    assert by_name["other"]["leftAlone"] == "its strategy is not served by Plimsoll"
    assert by_name["fixed"]["why"]["decidedBy"] == "quotas"
    assert document["controller"]["leads"]

    table = plimsoll(served, process, "-n", namespace, "--no-color", "--width=140")
    assert [line.split()[1] for line in table.stdout.splitlines()[1:4]] == ["fixed", "other", "share"]
    assert plimsoll(served, process, f"{namespace}/nobody").returncode == 1
    assert plimsoll(served, process, "nobody").returncode == 2


def test_the_metrics_tell_of_it(served: ControlPlane, process: WebhookProcess, namespace: str) -> None:
    room = Buffers(served, namespace)
    room.template("shape")
    room.create("b", podTemplateRef={"name": "shape"}, replicas=3)
    room.await_replicas("b", 3)
    labels = f'{{buffer="b",namespace="{namespace}"}}'

    def is_told() -> bool:
        text = process.get("/metrics").body.decode()
        return f"plimsoll_buffer_allowed_chunks{labels} 3.0" in text

    wait_for(is_told, "it is told")
    assert process.series(f"plimsoll_buffer_wanted_chunks{labels}") == 3
    assert process.series('plimsoll_buffer_reconciles_total{result="error"}') == 0
    assert process.series('plimsoll_buffer_writes_total{what="status"}') >= 1
