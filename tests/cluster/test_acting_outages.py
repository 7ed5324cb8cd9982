"""The API server is cut off, frozen, stopped, or has forgotten: sampling goes on, nothing is written twice or lost."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cluster import fence, objects
from tests.cluster.acting_node import ActingNode, acting_node
from tests.cluster.api import MERGE, ApiError
from tests.cluster.binaries import KUBERNETES
from tests.cluster.control_plane import ControlPlane, control_plane
from tests.cluster.cut_wire import wire
from tests.cluster.identities import create_namespace, create_service_account, fresh_name
from tests.kernel.cgroups import why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
    pytest.mark.filterwarnings(r"ignore:Exception ignored in. <ssl\.SSLSocket:pytest.PytestUnraisableExceptionWarning"),
]

STALE_SECONDS = 8
LIVELY_SECONDS = 1.0


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A server that may be stopped, with the agent's rights and fence; controllers would be slow to return."""
    version = os.environ.get("PLIMSOLL_KUBERNETES", KUBERNETES)
    with control_plane(version, directory=tmp_path_factory.mktemp("fragile"), with_controllers=False) as plane:
        create_service_account(plane, "default", "default")
        fence.install(plane)
        yield plane


@pytest.fixture
def node(fragile: ControlPlane, tmp_path: Path) -> Iterator[ActingNode]:
    namespace, name = fresh_name("test"), fresh_name("node")
    create_namespace(fragile, namespace)
    with acting_node(fragile, namespace, name, tmp_path) as made:
        yield made


def wanting(node: ActingNode, name: str) -> None:
    """Run a pod that is ordered three times what it asks for."""
    app = objects.container(requests={"cpu": "100m", "memory": "64Mi"})
    node.run_pod(name, app, orders={"min-cpu": "300m"})


@contextlib.contextmanager
def lively(node: ActingNode) -> Iterator[None]:
    """Have node, namespace and one pod written again and again inside the block, as on a cluster that is in use.

    Where nothing happens at all the API server is heard once a minute, which is longer than these tests wait.
    """
    ended = threading.Event()
    admin = node.plane.admin
    paths = (f"/api/v1/nodes/{node.name}", f"/api/v1/namespaces/{node.namespace}")

    def write() -> None:
        count = 0
        while not ended.wait(LIVELY_SECONDS):
            count += 1
            body = {"metadata": {"labels": {"tests/count": str(count)}}}
            pods = (objects.pod_path(node.namespace, name) for name in ("web", "hungry"))
            for path in (*paths, *pods):
                with contextlib.suppress(OSError, ApiError):  # it is away, or another writer was first
                    admin.patch(path, body, MERGE)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def sweeps(node: ActingNode) -> float:
    return node.metric("plimsoll_sweeps_total") or 0.0


def wait_for_sweeps(node: ActingNode, count: int = 8) -> None:
    """Wait until the containers have been read so often more."""
    before = sweeps(node)
    node.wait(lambda: sweeps(node) >= before + count, f"{count} more sweeps")


def withheld(node: ActingNode) -> bool:
    return any("nothing was heard of the API server" in note for note in node.ask("plan")["notes"])


def starve(node: ActingNode, name: str) -> None:
    """Give a pod something to do, and others beside it that take the CPU."""
    path = node.cgroup_of(node.pod(name))
    for _ in range(3):
        node.tree.spawn("others", "busy")
    node.tree.spawn(path, "busy")


def test_a_server_that_is_away_for_longer_than_is_believed_in(node: ActingNode) -> None:
    wanting(node, "web")
    wanting(node, "hungry")
    with lively(node):
        node.start_agent(act__staleSeconds=STALE_SECONDS)
        node.wait(lambda: node.outcomes("hungry")[-1:] == ["applied"], "it grows")
        node.wait(lambda: node.outcomes("web")[-1:] == ["applied"], "it grows")
        starving = node.cgroup_of(node.pod("hungry"))
        before = len(node.resizes())
        with node.plane.outage():
            for _ in range(3):
                node.tree.spawn("others", "busy")
            node.tree.spawn(starving, "busy")
            node.wait(lambda: withheld(node), "it says that nothing is heard")
            wait_for_sweeps(node)
            assert any("Connection refused" in note for note in node.ask("plan")["notes"])
            assert node.agent.get("/healthz")[0] == 200
        node.order("web", min_cpu="400m")
        # The watches may wait for up to 45 s by then.
        node.wait(lambda: node.request_of("web") == "400m", "it acts again", seconds=120)
        node.wait(lambda: node.request_of("hungry") != "300m", "what starved meanwhile is grown")
        node.tree.kill("others")
        node.settle(2)
        # Others write the pods all the time: one may be refused by a conflict and come again.
        assert len(node.resizes("web", refused=False)) == 2
        for name in ("web", "hungry"):
            assert node.generation(name) == 1 + len(node.resizes(name, refused=False))
        assert len(node.resizes()) > before
        assert {call.code for call in node.resizes()} <= {200, 409}


def test_a_frozen_server_gets_no_second_patch_for_a_wish_that_it_may_have_taken(node: ActingNode) -> None:
    wanting(node, "hungry")
    wanting(node, "web")
    node.start_agent(act__staleSeconds=3600, kubernetes__requestTimeoutSeconds=1)
    node.wait(lambda: node.outcomes("hungry")[-1:] == ["applied"], "it grows")
    node.wait(lambda: node.outcomes("web")[-1:] == ["applied"], "it grows")
    starving = node.cgroup_of(node.pod("hungry"))
    with node.plane.freeze():
        for _ in range(3):
            node.tree.spawn("others", "busy")
        node.tree.spawn(starving, "busy")
        node.wait(lambda: "error" in node.outcomes("hungry"), "no answer comes to a patch")
        wait_for_sweeps(node)
        assert node.ask("plan")["pods"]  # it is not held up by who waits for the server
    node.tree.kill("others")
    node.touch("hungry")  # the wish is else waited for, for two minutes
    node.wait(lambda: node.request_of("hungry") != "300m", "the wish is done in the end")
    node.order("web", min_cpu="400m")
    node.wait(lambda: node.request_of("web") == "400m", "others go on")
    node.settle(2)
    assert node.generation("hungry") == 1 + len(node.resizes("hungry", refused=False))
    changes = [call.body and call.body["spec"] for call in node.resizes("hungry", refused=False)]
    assert all(one != other for one, other in pairwise(changes)), changes


def test_a_cut_watch_goes_on_and_one_whose_version_is_forgotten_lists_anew(node: ActingNode) -> None:
    wanting(node, "first")
    with wire(node.plane.url) as line:
        api = fence.agent_api(node.plane, node.name)
        node.start_agent_as(dataclasses.replace(api, server=line.url))
        node.wait(lambda: node.outcomes("first")[-1:] == ["applied"], "it is grown")
        line.cut()
        wanting(node, "second")
        node.wait(lambda: node.request_of("second") == "300m", "a pod from after the cut is grown")
        with line.down():
            wanting(node, "third")
            node.plane.admin.delete(objects.pod_path(node.namespace, "first"), gracePeriodSeconds="0")
            with node.plane.outage():
                pass  # a restarted server remembers no event from before its start: older versions are too old (410)
        node.wait(lambda: node.request_of("third") == "300m", "a pod from before the new list is grown")
        node.wait(lambda: node.planned("first") is None, "who is gone is forgotten")
        node.settle(2)
    assert [len(node.resizes(name)) for name in ("first", "second", "third")] == [1, 1, 1]


def test_a_kill_while_a_patch_is_unanswered_repeats_nothing(node: ActingNode) -> None:
    wanting(node, "hungry")
    node.start_agent(kubernetes__requestTimeoutSeconds=30)
    node.wait(lambda: node.outcomes("hungry")[-1:] == ["applied"], "it grows")
    starving = node.cgroup_of(node.pod("hungry"))
    ledger = node.agent.state / "ledger"
    with node.plane.freeze():
        for _ in range(3):
            node.tree.spawn("others", "busy")
        node.tree.spawn(starving, "busy")
        node.wait(lambda: '"state":"sent"' in ledger.read_text(), "a patch is under way")
        node.kill_agent()
    node.tree.kill("others")
    node.agent.start()
    node.wait_known("hungry")
    node.wait_told()
    node.settle(3)
    # Of a caller that is gone the audit log has no 200, whatever became of the call.
    wishes = {json.dumps(call.body and call.body["spec"]) for call in node.resizes("hungry") if call.code != 409}
    assert node.generation("hungry") <= 1 + len(wishes)
