"""Recommendations on a whole cgroup v2 kernel: memory from the real controller, and what a kill changes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.core.cluster.pod import QosClass
from agent.core.recommender.recommendation import Recommendation, Recommendations
from agent.core.resize.why import Whys
from agent.node.files.documents import RECOMMENDATIONS, WHYS
from agent.node.sockets.control import request
from agent.sensing.cgroup_path import Driver, Runtime, container_cgroup_path
from tests.guest.kubelet_tree import MOUNT, make, remove
from tests.guest.plimsoll import running_agent
from tests.guest.waiting import DEADLINE_SECONDS, wait_for
from tests.kubepods import kubepods_root_path

pytestmark = pytest.mark.guest

MIB = 1 << 20
LIMIT_BYTES = 48 * MIB
POD_UID = "66666666-eeee-4000-8000-000000000006"
CONTAINER = container_cgroup_path(
    driver=Driver.CGROUPFS,
    runtime=Runtime.CONTAINERD,
    qos=QosClass.BURSTABLE,
    pod_uid=POD_UID,
    container_id="6a" * 32,
)
SETTINGS = (
    *("--set", "evaluateIntervalSeconds=1"),
    *("--set", "recommend.minSpanSeconds=0"),
    *("--set", "sampling.slowIntervalSeconds=1"),
)


@pytest.fixture
def container() -> Iterator[str]:
    """A container that sleeps and holds a few MiB, with 48 MiB at most."""
    make(CONTAINER)
    directory = MOUNT / CONTAINER.lstrip("/")
    (directory / "memory.max").write_text(str(LIMIT_BYTES), encoding="ascii")
    with start_in(directory, "exec sleep 1000") as idle:
        yield CONTAINER
        idle.kill()
    remove(kubepods_root_path(driver=Driver.CGROUPFS))


def start_in(directory: Path, program: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sh", "-c", f"echo $$ >{directory}/cgroup.procs && {program}"], stderr=subprocess.DEVNULL)


def recommended(socket: Path) -> Recommendation | None:
    """Ask the agent; None = it does not know the container yet."""
    answer: Recommendations = RECOMMENDATIONS.from_json(
        request(socket, "recommend", {}, timeout_seconds=DEADLINE_SECONDS)
    )
    items = {item.identity.cgroup_path: item for item in answer.items}
    return items.get(CONTAINER)


def explained(socket: Path) -> Whys:
    return WHYS.from_json(request(socket, "why", {"name": f"{POD_UID}/{'6a' * 32}"}, timeout_seconds=DEADLINE_SECONDS))


def test_memory_is_recommended_and_a_kill_raises_it_at_once(container: str, tmp_path: Path) -> None:
    socket = tmp_path / "agent.sock"
    with running_agent(tmp_path / "agent.log", "--scope", "kubernetes", *SETTINGS, socket=str(socket)):

        def has_memory() -> bool:
            item = recommended(socket)
            return item is not None and item.memory_bytes.request is not None

        wait_for(has_memory, "a memory recommendation")
        before = recommended(socket)
        assert before is not None
        assert before.memory_bytes.request is not None
        # A sleeping shell: some hundred KiB, so what is recommended is the least there is, rounded up to MiB.
        assert before.memory_bytes.request < 20 * MIB

        with start_in(MOUNT / container.lstrip("/"), "exec dd if=/dev/zero of=/dev/null bs=96M count=1") as hog:
            hog.wait()
        assert hog.returncode == -9

        def is_raised() -> bool:
            item = recommended(socket)
            return item is not None and (item.memory_bytes.request or 0) >= LIMIT_BYTES

        wait_for(is_raised, "more memory after the kill")
        # What it used on its way to its limit raises it as well, and the kill may be told a moment later.
        wait_for(lambda: len(explained(socket).items[0].kills) > 0, "the kill is told")
        (why,) = explained(socket).items
        (kill,) = why.kills
        # Killed at its limit, however quickly it got there.
        assert (kill.usage_bytes, kill.limit_bytes) == (LIMIT_BYTES, LIMIT_BYTES)
        assert why.recommendation.basis.oom_kills == 1
        print(f"memory request {before.memory_bytes.request} -> {why.recommendation.memory_bytes.request}")
