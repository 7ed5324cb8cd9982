"""The API server is cut off, frozen, stopped, or has forgotten: sampling goes on, nothing is written twice or lost."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cluster import fence, objects
from tests.cluster.acting_node import ActingNode, fresh_node
from tests.cluster.api import MERGE, ApiError
from tests.cluster.binaries import version_under_test
from tests.cluster.chart import NAMESPACE
from tests.cluster.control_plane import ControlPlane, control_plane
from tests.cluster.cut_wire import wire
from tests.cluster.identities import create_service_account
from tests.kernel.cgroups import why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
    pytest.mark.filterwarnings(r"ignore:Exception ignored in. <ssl\.SSLSocket:pytest.PytestUnraisableExceptionWarning"),
]

STALE_SECONDS = 3
LIVELY_SECONDS = 0.5
HUNGRY = "10m"
"""What the hungry pod asks for."""


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A server that may be stopped, with the agent's rights and fence; controllers would be slow to return."""
    version = version_under_test()
    with control_plane(version, directory=tmp_path_factory.mktemp("fragile"), with_controllers=False) as plane:
        create_service_account(plane, "default", "default")
        fence.install(plane)
        yield plane


@pytest.fixture
def node(fragile: ControlPlane, tmp_path: Path) -> Iterator[ActingNode]:
    with fresh_node(fragile, tmp_path) as machine:
        yield machine


def run_hungry(node: ActingNode) -> None:
    """Run a pod that will starve as soon as it has something to do, however busy the machine is with other things."""
    node.run_pod("hungry", objects.container(requests={"cpu": HUNGRY, "memory": "64Mi"}))


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


def notes(node: ActingNode, words: str) -> list[str]:
    """Notes of the plan of now with these words."""
    return [note for note in node.ask("plan")["notes"] if words in note]


def withheld(node: ActingNode) -> bool:
    return bool(notes(node, "nothing was heard of the API server"))


def test_a_server_that_is_away_for_longer_than_is_believed_in(node: ActingNode) -> None:
    node.run_wanting("web")
    run_hungry(node)
    with lively(node):
        node.start_agent(act__staleSeconds=STALE_SECONDS)
        node.wait(lambda: node.outcomes("web")[-1:] == ["applied"], "it grows")
        node.wait_known("hungry")
        assert not node.resizes("hungry")
        with node.plane.outage():
            node.starve("hungry")
            node.wait(lambda: withheld(node), "it says that nothing is heard")
            node.wait_for_sweeps()
            node.wait(lambda: notes(node, "Connection refused"), "it says why")
            assert node.agent.get("/healthz")[0] == 200
        node.order("web", min_cpu="400m")
        node.wait(lambda: node.request_of("web") == "400m", "it acts again")
        node.wait(lambda: node.request_of("hungry") != HUNGRY, "what starved meanwhile is grown")
        node.tree.kill("others")
        node.settle()
        node.agent.end()  # who starved may be resized further as its usage moves: count when no more can come
        # Others write the pods all the time: one may be refused by a conflict and come again.
        assert len(node.resizes("web", refused=False)) == 2
        for name in ("web", "hungry"):
            assert node.generation(name) == 1 + len(node.resizes(name, refused=False))
        assert {call.code for call in node.resizes()} <= {200, 409}


def test_a_frozen_server_gets_no_second_patch_for_a_wish_that_it_may_have_taken(node: ActingNode) -> None:
    run_hungry(node)
    node.run_wanting("web")
    node.start_agent(act__staleSeconds=3600, kubernetes__requestTimeoutSeconds=4)
    node.wait(lambda: node.outcomes("web")[-1:] == ["applied"], "it grows")
    node.wait_known("hungry")
    with node.plane.freeze():
        node.starve("hungry")
        node.wait(lambda: "error" in node.outcomes("hungry"), "no answer comes to a patch")
        node.wait_for_sweeps()
        assert node.ask("plan")["pods"]  # it is not held up by who waits for the server
    node.tree.kill("others")
    node.touch("hungry")  # the wish is else waited for, for two minutes
    node.wait(lambda: node.request_of("hungry") != HUNGRY, "the wish is done in the end")
    node.order("web", min_cpu="400m")
    node.wait(lambda: node.request_of("web") == "400m", "others go on")
    node.settle()
    node.agent.end()  # it may be resized further as its usage moves: count when no more can come
    resizes = node.resizes("hungry")
    done = [call for call in resizes if call.code == 200]
    # What the agent gave up, in the freeze or since it took four seconds, may have been done, and has no 200.
    given_up = [call for call in resizes if call.code not in (200, 409)]
    assert len(done) <= node.generation("hungry") - 1 <= len(done) + len(given_up), node.write_calls()
    changes = [call.body and call.body["spec"] for call in done]
    assert all(change != other for change, other in pairwise(changes)), changes


def test_a_cut_watch_goes_on_and_one_whose_version_is_forgotten_lists_anew(node: ActingNode) -> None:
    node.run_wanting("first")
    with wire(node.plane.url) as line:
        api = fence.agent_api(node.plane, node.name)
        node.start_agent_as(dataclasses.replace(api, server=line.url))
        node.wait(lambda: node.outcomes("first")[-1:] == ["applied"], "it is grown")
        line.cut()
        node.run_wanting("second")
        node.wait(lambda: node.request_of("second") == "300m", "a pod from after the cut is grown")
        with line.down():
            node.run_wanting("third")
            node.plane.admin.delete(objects.pod_path(node.namespace, "first"), gracePeriodSeconds="0")
            with node.plane.outage():
                pass  # a restarted server remembers no event from before its start: older versions are too old (410)
        node.wait(lambda: node.request_of("third") == "300m", "a pod from before the new list is grown")
        node.wait(lambda: node.planned("first") is None, "who is gone is forgotten")
        node.settle()
    assert [len(node.resizes(name)) for name in ("first", "second", "third")] == [1, 1, 1]


def test_while_the_server_is_away_the_mounted_pause_counts_and_afterwards_the_watch_is_ahead_again(
    node: ActingNode,
) -> None:
    maps = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    mounted = node.directory / "cluster" / "pause"
    mounted.parent.mkdir()
    node.plane.admin.create(maps, {"metadata": {"name": "plimsoll"}, "data": {"pause": "before"}})

    def reason() -> str | None:
        pause: str | None = node.ask("cluster")["cluster_pause"]
        return pause

    try:
        with wire(node.plane.url) as line:
            api = dataclasses.replace(fence.agent_api(node.plane, node.name), server=line.url)
            place = f"{NAMESPACE}/plimsoll"
            node.start_agent_as(api, clusterPauseFile=mounted, clusterPauseConfigMap=place)
            node.wait(lambda: reason() == "before", "the pause is heard")
            with line.down():
                node.wait(lambda: notes(node, "the API server is not heard"), "it is not heard")
                assert reason() == "before"
                node.plane.admin.patch(f"{maps}/plimsoll", {"data": {"pause": None}}, MERGE)
                mounted.write_text("by the mount")
            node.wait(lambda: reason() == "by the mount", "the watch tells of its end, and the mount of another")
            mounted.unlink()
            assert reason() is None
            line.cut()
            node.plane.admin.patch(f"{maps}/plimsoll", {"data": {"pause": "after"}}, MERGE)
            node.wait(lambda: reason() == "after", "a watch that was cut goes on")
    finally:
        node.plane.admin.delete(f"{maps}/plimsoll")


def test_a_kill_while_a_patch_is_unanswered_repeats_nothing(node: ActingNode) -> None:
    run_hungry(node)
    node.start_agent(kubernetes__requestTimeoutSeconds=30)
    node.wait_known("hungry")
    node.wait_told()
    ledger = node.agent.state / "ledger"
    with node.plane.freeze():
        node.starve("hungry")
        node.wait(lambda: ledger.exists() and '"state":"sent"' in ledger.read_text(), "a patch is under way")
        node.kill_agent()
    node.tree.kill("others")
    node.agent.start()
    node.wait_known("hungry")
    node.wait_told()
    node.settle()
    node.agent.end()  # as above
    # Of a caller that is gone the audit log has no 200, whatever became of the call.
    wishes = {json.dumps(call.body and call.body["spec"]) for call in node.resizes("hungry") if call.code != 409}
    assert node.generation("hungry") <= 1 + len(wishes)
