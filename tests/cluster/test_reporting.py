"""A real agent reports to an HTTPS server in place of the webhook: real pods, real cgroups, a real token file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.webhook.report_decoding import decode_report, unpacked
from tests.cluster import objects
from tests.cluster.acting_node import ActingNode, acting_node
from tests.cluster.control_plane import ControlPlane
from tests.kernel.cgroups import why_not
from tests.webhook_server import Answer, Request, WebhookServer, authority

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]


@pytest.fixture
def node(fenced: ControlPlane, namespace: str, node_name: str, tmp_path: Path) -> Iterator[ActingNode]:
    with acting_node(fenced, namespace, node_name, tmp_path) as made:
        yield made


def taken(request: Request) -> Answer:
    rows = len(request.document["rows"])
    answer = {"schema": 1, "taken": rows, "refused": [], "repeated": False, "etag": "e1"}
    return Answer(body=json.dumps({**answer, "directives": {"pauseReason": None, "workloads": []}}).encode())


def test_a_new_node_reports_its_containers_soon_and_takes_what_it_is_told(node: ActingNode, tmp_path: Path) -> None:
    made = node.run_pod("web", objects.container(requests={"cpu": "100m"}), load="busy")
    token = tmp_path / "token"
    token.write_text("of-this-node")
    with WebhookServer(taken) as server:
        node.start_agent(
            report__url=server.url,
            report__tokenFile=token,
            report__caFile=authority("webhook").certificate,
            report__intervalSeconds=60,
        )
        node.wait(lambda: server.requests, "the first report")
        request = server.requests[0]
        node.wait(lambda: node.metric('plimsoll_report_posts_total{result="taken"}') == 1.0, "it was taken")
    assert request.headers["authorization"] == "Bearer of-this-node"
    decoded = decode_report(unpacked(request.packed, "gzip", most_bytes=1 << 20), most_rows=10)
    report = decoded.report
    assert (report.node, report.sequence, decoded.refused) == (node.name, 1, ())
    assert 5 <= report.end_age_seconds < 30
    (row,) = report.rows
    assert (row.workload.kind, row.container, row.pod) == ("Rollout", "app", "web")
    assert row.pod_uid == made["metadata"]["uid"]
    assert row.pod_age_seconds is not None
    assert row.cpu is not None
    assert row.cpu.max > 50
    told = node.ask("cluster")
    assert told["reporting"]["url"] == server.url
    assert told["reporting"]["trouble"] is None
    assert told["reporting"]["last_success_age_seconds"] is not None
    assert told["directives_age_seconds"] is not None
    # killed, the agent goes on with its numbers
    node.kill_agent()
    kept = json.loads((node.agent.state / "reports" / "numbering").read_text())
    assert (kept["sequence"], kept["incarnation"], kept["lost"]) == (1, report.incarnation, 0)
