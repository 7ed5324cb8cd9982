"""oom_score_adj after a resize: what the start said, and what a restart would say."""

from __future__ import annotations

from typing import Any

from agent.core.cluster.pod import Pod
from agent.core.machine.oom_score import OomScore, oom_score, score_since_start
from agent.core.numbers.units import GIB, MIB
from tests.pods import container, make_pod

NODE_BYTES = 8 * GIB


def web(memory: str | None = "1Gi", **spec: Any) -> Pod:
    requests = {"cpu": "100m"} if memory is None else {"memory": memory}
    return make_pod(container("app", requests), status={"phase": "Running", "qosClass": "Burstable"}, **spec)


def test_a_container_that_was_made_smaller_keeps_the_score_of_its_start() -> None:
    # 4 GiB of 8 GiB: 1000 - 500; 1 GiB: 1000 - 125
    assert score_since_start(web(), "app", {"app": 4 * GIB}, NODE_BYTES) == OomScore(found=500, after_restart=875)


def test_scores_that_are_one_and_containers_that_are_not_there_give_nothing() -> None:
    assert score_since_start(web(), "app", {"app": GIB}, NODE_BYTES) is None
    assert score_since_start(web(), "app", {}, NODE_BYTES) is None  # put in since the originals were taken down
    assert score_since_start(web(), "log", {"app": 4 * GIB}, NODE_BYTES) is None


def test_a_request_that_was_added_since_counts_as_none_before() -> None:
    assert score_since_start(web(), "app", {"app": None}, NODE_BYTES) == OomScore(found=999, after_restart=875)


def test_the_pods_own_request_counts_by_what_it_was() -> None:
    pod = web(None, resources={"requests": {"memory": "2Gi"}, "limits": {"memory": "4Gi"}})
    score = score_since_start(pod, "app", {"app": None, "": 1 * GIB}, NODE_BYTES)
    # All of the pod's request is its only container's: 1 GiB, then 2 GiB.
    assert score == OomScore(found=875, after_restart=750)


def test_what_is_allocated_counts_and_not_what_is_asked_for() -> None:
    status = {"name": "app", "allocatedResources": {"memory": f"{512 * MIB}"}, "state": {"running": {}}}
    pod = make_pod(container("app", {"memory": "1Gi"}), status={"qosClass": "Burstable", "containerStatuses": [status]})
    assert oom_score(pod, pod.containers[0], NODE_BYTES) == 938  # 1000 - 512000 // 8192 = 938
