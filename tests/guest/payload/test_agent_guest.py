"""The whole agent on a node-like machine: containers of a kubelet's tree, found, sampled and told of."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.core.cluster.pod import QosClass
from agent.sensing.cgroup_path import Driver, Runtime, container_cgroup_path
from tests.guest.kubelet_tree import MOUNT, make, remove
from tests.guest.plimsoll import doctor_verdicts, running_agent
from tests.guest.waiting import wait_for
from tests.kubepods import kubepods_root_path

pytestmark = pytest.mark.guest


def container(number: int) -> str:
    return container_cgroup_path(
        driver=Driver.CGROUPFS,
        runtime=Runtime.CONTAINERD,
        qos=QosClass.BURSTABLE,
        pod_uid=f"55555555-eeee-4000-8000-00000000000{number}",
        container_id=f"5{number}" * 32,
    )


def label(path: str) -> str:
    return f'container="{path.rpartition("/")[2]}"'


def start_in(path: str, program: str) -> subprocess.Popen[bytes]:
    """Start a shell line in a cgroup."""
    procs = MOUNT / path.lstrip("/") / "cgroup.procs"
    return subprocess.Popen(["sh", "-c", f"echo $$ >{procs} && {program}"], stderr=subprocess.DEVNULL)


@pytest.fixture
def calm() -> Iterator[str]:
    """A container in which nothing runs."""
    path = container(1)
    make(path)
    yield path
    remove(kubepods_root_path(driver=Driver.CGROUPFS))


@pytest.fixture
def throttled(calm: str) -> Iterator[str]:
    """A container that is busy and may use a fifth of a CPU."""
    path = calm
    (MOUNT / path.lstrip("/") / "cpu.max").write_text("20000 100000", encoding="ascii")
    with start_in(path, "exec sh -c 'ulimit -t 120; while :; do :; done'") as load:
        yield path
        load.kill()


def test_agent_tells_of_throttling_of_memory_and_of_a_kill_in_a_container_made_later(
    throttled: str, tmp_path: Path
) -> None:
    late = container(2)
    log = tmp_path / "agent.log"
    settings = ("--set", "metrics.perContainer=true", "--set", "evaluateIntervalSeconds=1")
    with running_agent(log, "--scope", "kubernetes", *settings) as agent:
        make(late)
        (MOUNT / late.lstrip("/") / "memory.max").write_text(str(32 << 20), encoding="ascii")

        def is_throttled() -> bool:
            seconds = agent.metric("plimsoll_container_cpu_throttled_seconds_total", label(throttled))
            return seconds is not None and seconds > 0

        def is_sampled() -> bool:
            return agent.metric("plimsoll_container_cpu_waiting_seconds_total", label(late)) is not None

        def kill_is_counted() -> bool:
            return agent.metric("plimsoll_oom_kills_total", 'resized_recently="false"') == 1

        wait_for(is_throttled, "throttling of the first container")
        wait_for(is_sampled, "the second container, made after the start")
        with start_in(late, "exec dd if=/dev/zero of=/dev/null bs=64M count=1") as hog:
            wait_for(kill_is_counted, "the kill")
        assert hog.returncode == -9

        def working_set_bytes() -> float | None:
            return agent.metric("plimsoll_container_memory_working_set_bytes", label(throttled))

        # Its shell may have come into the cgroup after the first slow reading, which are ten seconds apart.
        wait_for(lambda: (working_set_bytes() or 0) > 0, "a working set of the first container")
        held_bytes = working_set_bytes()

    print(f"working set {held_bytes}; {len(log.read_text().splitlines())} lines of log")
    assert held_bytes is not None
    assert 0 < held_bytes < 32 << 20


@pytest.mark.usefixtures("calm")
def test_doctor_calls_a_full_node_fit() -> None:
    verdicts = doctor_verdicts()

    wanted = ["cgroups", "cpu controller", "memory controller", "kubepods", "memory.peak"]
    wanted += ["PSI cpu", "PSI memory", "PSI io"]
    assert {name: verdicts.get(name) for name in wanted} == dict.fromkeys(wanted, "OK")
