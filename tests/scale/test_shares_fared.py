"""A slowdown of the enforced pods alone: measured by a real agent, judged by a real webhook, taken back by the agent.

It takes two CPUs for minutes, so it is no part of ``make test``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import fence, objects
from tests.cluster.acting_node import OWNER, ActingNode, fresh_node
from tests.cluster.binaries import version_under_test
from tests.cluster.control_plane import control_plane
from tests.cluster.first_minute import UNHURRIED
from tests.cluster.identities import create_namespace, create_service_account
from tests.cluster.webhook_process import NAMESPACE, agent_token, webhook
from tests.kernel.cgroups import why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.slow,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]

WEB = {**OWNER, "name": "web"}
OTHERS = ("web-1", "web-2", "web-3")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ActingNode]:
    """A node on a control plane of its own, with the agent's rights and fence in force."""
    version = version_under_test()
    with control_plane(version, directory=tmp_path / "plane") as plane:
        fence.install(plane)
        (tmp_path / "node").mkdir()
        with fresh_node(plane, tmp_path / "node") as acting_node:
            yield acting_node


def run(node: ActingNode, name: str, ticket: int) -> None:
    """Run a pod of the workload that asks for 100 millicores and is ordered at least 300."""
    given = json.dumps({"ticket": ticket, "unixSeconds": int(time.time())})
    app = objects.container(requests={"cpu": "100m", "memory": "64Mi"})
    node.run_pod(name, app, owner=WEB, orders={"min-cpu": "300m", "enforce-share": "10%", "share-ticket": given})


def test_a_slowdown_of_the_enforced_pods_takes_the_share_back_within_five_minutes(
    node: ActingNode, tmp_path: Path
) -> None:
    plane, folder = node.plane, tmp_path / "webhook"
    folder.mkdir()
    if not plane.admin.exists(f"/api/v1/namespaces/{NAMESPACE}"):
        create_namespace(plane, NAMESPACE)
    if not plane.admin.exists(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/plimsoll-agent"):
        create_service_account(plane, NAMESPACE, "plimsoll-agent")
    token = tmp_path / "token"
    token.write_text(agent_token(plane, node.name))
    run(node, "web-0", 5)
    for number, name in enumerate(OTHERS):
        run(node, name, 5000 + number)
    with webhook(plane, folder, arguments=("--set=guard.shareWindowSeconds=60",)) as hook:
        node.start_agent(
            report__url=f"https://127.0.0.1:{hook.port}",
            report__tokenFile=token,
            report__caFile=plane.authority,
            report__intervalSeconds=60,
            **UNHURRIED,
        )
        node.wait(lambda: node.request_of("web-0") == "300m", "the enforced pod is resized")
        assert hook.series("plimsoll_shares_taken_back") == 0
        node.starve("web-0")
        began = time.monotonic()
        # As long as ``node.wait`` waits at most; reports come each minute here.
        node.wait(lambda: node.request_of("web-0") == "100m", "it has what it had")
        print(f"taken back {time.monotonic() - began:.0f} s after the slowdown began")
        assert hook.series("plimsoll_shares_taken_back") == 1
    assert (node.planned("web-0") or {})["reserved"] == "share_taken_back"
    (why,) = node.ask("why", name="web-0")["items"]
    assert any("taken back: its pods fared worse: waiting for CPU" in sentence for sentence in why["acted"]["told"])
    assert {node.request_of(name) for name in OTHERS} == {"100m"}
    assert {call.name for call in node.resizes()} == {"web-0"}
