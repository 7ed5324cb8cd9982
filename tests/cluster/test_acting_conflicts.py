"""Others write the same pods, and the agent is killed at any moment: nothing is lost, nothing is sent twice."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from tests.cluster import objects
from tests.cluster.acting_node import ActingNode
from tests.cluster.api import ApiError
from tests.kernel.cgroups import why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]

PODS = [f"pod-{index}" for index in range(6)]


@contextlib.contextmanager
def bumping(node: ActingNode, name: str, pause_seconds: float) -> Iterator[None]:
    """Have somebody write the pod's status again and again inside the block, as controllers do."""
    ended = threading.Event()
    faults: list[Exception] = []

    def bump() -> None:
        path = f"{objects.pod_path(node.namespace, name)}/status"
        count = 0
        while not ended.wait(pause_seconds):
            count += 1
            condition = {"type": "tests/bumped", "status": "True", "message": str(count)}
            try:
                node.plane.admin.patch(path, {"status": {"conditions": [condition]}})
            except (OSError, ApiError) as error:  # told at the block's end
                faults.append(error)
                return

    thread = threading.Thread(target=bump)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert not faults


def test_a_pod_whose_status_changes_all_the_time_is_resized_once_for_each_wish(node: ActingNode) -> None:
    node.run_wanting("web")
    with bumping(node, "web", 0.05):
        node.start_agent()
        for wish in ("300m", "400m", "500m", "600m"):
            node.order("web", min_cpu=wish)
            node.wait(lambda wish=wish: node.request_of("web") == wish, f"it has {wish}")  # type: ignore[misc]
        node.wait(lambda: node.outcomes("web")[-1:] == ["applied"], "it is applied")
        node.settle()
    done = node.resizes("web", refused=False)
    assert len(done) <= 4
    assert node.generation("web") == 1 + len(done)
    conflicts = [call for call in node.resizes("web") if call.code != 200]
    assert {call.code for call in conflicts} <= {409}
    assert node.outcomes("web").count("conflict") <= len(conflicts)


def test_a_resize_by_somebody_else_keeps_what_the_agent_does_not_order(node: ActingNode) -> None:
    node.run_wanting("web")
    node.start_agent()
    node.wait(lambda: "applied" in node.outcomes("web"), "it is grown")
    theirs = objects.resize_body(app={"requests": {"cpu": "150m", "memory": "96Mi"}})
    objects.resize(node.plane.admin, node.namespace, "web", theirs)
    node.wait(lambda: node.request_of("web") == "300m", "it is grown again")
    # As long as the other's is under way the agent's own is put off, which may be told too.
    node.wait(
        lambda: [outcome for outcome in node.outcomes("web") if outcome != "withheld"] == ["accepted", "applied"] * 2,
        "it is applied",
    )
    node.settle()
    assert node.request_of("web", "memory") == "96Mi"
    assert len(node.resizes("web")) == 2
    [original] = node.ask("restore", name="web", dry_run=True)["items"]
    assert [change["after"] for change in original["changes"]] == [100, 64 << 20]


def test_a_kill_in_the_middle_of_several_loses_nothing_and_repeats_nothing(node: ActingNode) -> None:
    for name in PODS:
        node.run_wanting(name)
    node.start_agent()
    node.wait(lambda: node.resizes(refused=False), "it has begun")
    node.kill_agent()
    at_kill = {call.name for call in node.resizes(refused=False)}
    node.agent.start()
    node.touch(*PODS)  # what was under way at the kill and never came through is else waited for, for two minutes
    node.wait(lambda: all(node.request_of(name) == "300m" for name in PODS), "all are grown")
    node.wait_told()
    node.settle()
    assert [node.generation(name) for name in PODS] == [2] * len(PODS)
    # The server may have given up the one whose caller was killed; that one is sent again.
    # One that met our touch wrote nothing, and may come again beside it.
    again = [name for name in PODS if sum(call.code != 409 for call in node.resizes(name)) > 1]
    assert len(again) <= 1, node.write_calls()
    assert all(len(node.resizes(name, refused=False)) <= 1 for name in PODS), node.write_calls()
    known = {original["ref"]["name"] for original in node.ask("restore", all=True, dry_run=True)["items"]}
    assert known == set(PODS) >= at_kill


def test_a_kill_right_after_each_patch_repeats_none_and_cool_downs_outlive_it(node: ActingNode) -> None:
    node.run_wanting("web")
    node.run_wanting("cooling")
    node.start_agent()
    for wish in ("300m", "400m"):
        node.order("web", min_cpu=wish)
        node.wait(lambda wish=wish: node.request_of("web") == wish, f"it has {wish}")  # type: ignore[misc]
        node.kill_agent()
        node.agent.start()
        node.touch("web", "cooling")
    node.wait_known("web")
    node.wait(lambda: node.request_of("cooling") == "300m", "the other one is grown too")
    node.settle()
    assert node.generation("web") == 3
    assert len(node.resizes("web", refused=False)) <= 2
    node.agent.end()
    assert node.generation("cooling") == 2
    before = node.resizes("cooling")  # one of a caller that was killed the server may have given up, and took the next
    node.start_agent(act__growCoolDownSeconds=3600)
    node.wait_known("cooling")
    node.order("cooling", min_cpu="900m")
    node.wait(lambda: node.kept("cooling") == "cooldown", "it cools down from before the kill")
    assert node.request_of("cooling") == "300m"
    node.kill_agent()
    node.agent.start()
    node.wait(lambda: node.kept("cooling") == "cooldown", "and over it")
    node.wait_told()
    node.settle()
    assert node.resizes("cooling") == before, node.write_calls()
