"""Memory of whole pods on a kernel with the memory controller: what an ended container left, and what comes of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.core.cluster.pod import QosClass
from agent.core.recommender.recommendation import Recommendations
from agent.core.resize.why import Whys
from agent.node.files.documents import RECOMMENDATIONS, WHYS
from agent.node.sockets.control import request
from agent.sensing.cgroup_path import Driver, Runtime, container_cgroup_path
from tests.guest.kubelet_tree import MOUNT, make, remove
from tests.guest.plimsoll import running_agent
from tests.guest.waiting import DEADLINE_SECONDS, wait_for
from tests.kubepods import kubepods_root_path
from tests.pods import container, pod_json

pytestmark = pytest.mark.guest

MIB = 1 << 20
LEFT_MIB = 160
"""More than the least request that is recommended: else a small container would hide it."""
POD_UID = "77777777-eeee-4000-8000-000000000007"
APP_ID, ENDED_ID = "7a" * 32, "7b" * 32
SETTINGS = (
    *("--set", "evaluateIntervalSeconds=1"),
    *("--set", "recommend.minSpanSeconds=0"),
    *("--set", "sampling.slowIntervalSeconds=1"),
    *("--set", "metrics.perContainer=true"),
)


def path_of(container_id: str) -> Path:
    path = container_cgroup_path(
        driver=Driver.CGROUPFS,
        runtime=Runtime.CONTAINERD,
        qos=QosClass.BURSTABLE,
        pod_uid=POD_UID,
        container_id=container_id,
    )
    return MOUNT / path.lstrip("/")


def start_in(directory: Path, program: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sh", "-c", f"echo $$ >{directory}/cgroup.procs && {program}"], stderr=subprocess.DEVNULL)


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A volume in memory, as an emptyDir of medium Memory is."""
    directory = tmp_path / "volume"
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(directory)], check=True)
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Path]:
    """A pod of one container that sleeps, under a tier that limits memory; and the pods file that names it."""
    for container_id in (APP_ID, ENDED_ID):
        make(f"/{path_of(container_id).relative_to(MOUNT)}")
    (path_of(APP_ID).parent.parent / "memory.max").write_text(str(512 * MIB), encoding="ascii")
    status = {"name": "app", "containerID": f"containerd://{APP_ID}", "state": {"running": {}}}
    document = pod_json(
        container("app", {"memory": "64Mi"}),
        metadata={"uid": POD_UID},
        status={"phase": "Running", "qosClass": "Burstable", "containerStatuses": [status]},
    )
    file = tmp_path / "pods.json"
    file.write_text(json.dumps({"kind": "List", "items": [document]}))
    with start_in(path_of(APP_ID), "exec sleep 1000") as idle:
        yield file
        idle.kill()
    remove(kubepods_root_path(driver=Driver.CGROUPFS))


def test_files_that_an_ended_container_left_in_memory_are_the_pods_own_and_are_asked_for(
    pod: Path, volume: Path, tmp_path: Path
) -> None:
    socket = tmp_path / "agent.sock"

    def pods() -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = request(socket, "snapshot", {}, timeout_seconds=DEADLINE_SECONDS)["pods"]  # type: ignore[assignment]
        return answer

    def itself_bytes() -> int:
        return max((pod_figures["itself_working_set_bytes"] or 0 for pod_figures in pods()), default=0)

    def requested_bytes() -> int:
        answer: Recommendations = RECOMMENDATIONS.from_json(
            request(socket, "recommend", {}, timeout_seconds=DEADLINE_SECONDS)
        )
        return max((item.memory_bytes.request or 0 for item in answer.items if item.identity.container), default=0)

    words = ("--scope", "kubernetes", "--pods", str(pod), *SETTINGS)
    with running_agent(tmp_path / "agent.log", *words, socket=str(socket)) as agent:
        wait_for(lambda: requested_bytes() > 0, "a first recommendation")
        before = requested_bytes()
        with start_in(path_of(ENDED_ID), f"exec dd if=/dev/zero of={volume}/left bs=1M count={LEFT_MIB}") as writer:
            assert writer.wait() == 0
        path_of(ENDED_ID).rmdir()

        wait_for(lambda: itself_bytes() > 0.9 * LEFT_MIB * MIB, "what it left is the pod's own")
        wait_for(lambda: requested_bytes() > 0.9 * LEFT_MIB * MIB > before, "it is asked for")
        whys: Whys = WHYS.from_json(request(socket, "why", {"name": "web"}, timeout_seconds=DEADLINE_SECONDS))
        steps = [step.what for item in whys.items for step in item.steps]
        assert "used by the pod in none of its containers" in steps

        wait_for(
            lambda: agent.metric("plimsoll_tier_memory_limit_bytes", 'tier="kubepods/burstable"') == 512 * MIB,
            "the tier's limit",
        )
        labels = 'namespace="shop",pod="web"'
        # The page is as of the newest evaluation, what is asked for above as of now.
        wait_for(
            lambda: (agent.metric("plimsoll_pod_itself_memory_working_set_bytes", labels) or 0) > 0.9 * LEFT_MIB * MIB,
            "the page has it as the pod's own",
        )
        tier = agent.metric("plimsoll_tier_memory_peak_bytes", 'tier="kubepods/burstable"')
        assert tier is None or tier > 0.9 * LEFT_MIB * MIB

        (volume / "left").unlink()
        wait_for(lambda: itself_bytes() < 0.2 * LEFT_MIB * MIB, "once it is gone, so is what the pod has")
