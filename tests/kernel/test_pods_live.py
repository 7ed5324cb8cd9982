"""Whole pods and QoS tiers on real cgroups: measured by the C sampler, beside their containers and less them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cgroup_files import POD_UID, container_path
from tests.kernel.agents import REPOSITORY, AgentProcess, wait_for
from tests.kernel.cgroups import CgroupTree
from tests.kernel.test_agent_live import metrics_of
from tests.pods import container, pod_json

pytestmark = pytest.mark.kernel

ONE, TWO = container_path(1), container_path(2)
POD = ONE.rpartition("/")[0]
QUICK = (
    *("--interval", "0.2"),
    *("--set", "sampling.slowIntervalSeconds=1"),
    *("--set", "windows.rateWindowSeconds=2"),
    *("--set", "sampling.relistSeconds=1"),
    *("--set", "evaluateIntervalSeconds=1"),
    *("--set", "metrics.perContainer=true"),
)

Json = dict[str, Any]


@pytest.fixture
def agent(tree: CgroupTree) -> Iterator[AgentProcess]:
    """An agent on a tree with one pod of two containers, which a pods file names."""
    ids = {path.rpartition("/")[2]: name for path, name in ((ONE, "app"), (TWO, "idle"))}
    statuses = [
        {"name": name, "containerID": f"containerd://{container_id}", "state": {"running": {}}}
        for container_id, name in ids.items()
    ]
    pod = pod_json(
        container("app", {"memory": "64Mi"}),
        container("idle"),
        metadata={"uid": POD_UID},
        status={"phase": "Running", "qosClass": "Burstable", "containerStatuses": statuses},
    )
    with tempfile.TemporaryDirectory(prefix="plimsoll-test-") as name:
        pods = Path(name) / "pods.json"
        pods.write_text(json.dumps({"kind": "List", "items": [pod]}))
        tree.make(ONE)
        tree.spawn(TWO)
        process = AgentProcess(Path(name), "--pods", str(pods), *QUICK, cgroup_root=f"/{tree.name}")
        with process:
            yield process


def table_of(agent: AgentProcess) -> str:
    """Return what `plimsoll top` shows; nothing where a busy machine kept the agent from answering in its time."""
    words = (sys.executable, "-m", "agent", "top", "--once", "--socket", str(agent.socket))
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, check=False, text=True)
    assert done.returncode == 0 or ": no answer to " in done.stderr, done.stderr
    return done.stdout


def pod_of(agent: AgentProcess) -> Json:
    pods: list[Json] = agent.snapshot()["pods"]
    assert len(pods) == 1
    return pods[0]


def test_a_pod_is_measured_as_a_whole_and_what_runs_in_none_of_its_containers_apart(
    tree: CgroupTree, agent: AgentProcess
) -> None:
    tree.spawn(f"{POD}/helper", "busy")  # what no runtime knows as a container

    # The two are known from different readings, and either may be known first.
    pod = wait_for(
        lambda: (
            figures
            if ((figures := pod_of(agent))["itself_cpu_millicores"] or 0) > 5
            and figures["whole"]["cpu"]["waiting_ratio"] is not None
            else {}
        ),
        "the pod's own CPU, and how long it waited",
    )

    identity = pod["whole"]["identity"]
    assert identity["cgroup_path"] == f"/{tree.name}/{POD}"
    assert (identity["kind"], identity["pod"], identity["namespace"]) == ("pod", "web", "shop")
    assert [tier["identity"]["cgroup_path"] for tier in agent.snapshot()["tiers"]] == [
        f"/{tree.name}/kubepods",
        f"/{tree.name}/kubepods/burstable",
    ]
    once = wait_for(lambda: table_of(agent), "an answer of the agent within the verb's five seconds")
    tiers = [line.split()[0] for line in once.splitlines() if line.startswith("kubepods")]
    assert tiers == ["kubepods", "kubepods/burstable"]
    assert "pod itself" in once

    def are_told() -> bool:
        series = metrics_of(agent)
        used = (
            "plimsoll_pod_itself_cpu_usage_cores{namespace=shop}{pod=web}",
            "plimsoll_tier_cpu_usage_cores{quantile=1}{tier=kubepods/burstable}",
        )
        # On a busy machine the loop may not run at all between two readings.
        is_used = all(series.get(name, 0) > 0 for name in used)
        return is_used and any(name.startswith("plimsoll_pod_cpu_usage_cores") for name in series)

    wait_for(are_told, "series of the pod and of tiers, with what they used")


def test_cpu_of_a_container_is_its_own_and_not_its_pods(tree: CgroupTree, agent: AgentProcess) -> None:
    tree.spawn(ONE, "busy")

    def is_the_containers() -> bool:
        pod = pod_of(agent)
        itself, peak = pod["itself_cpu_millicores"], pod["whole"]["cpu"]["usage_peak_millicores"] or 0
        # What is left to the pod are the moments between two reads of the same tick, weighed against seconds. They are
        # long where the machine lets the agent wait between the two.
        return itself is not None and peak > 5 and itself < 0.25 * peak

    wait_for(is_the_containers, "the pod's CPU, hardly any of it its own")


def test_a_container_that_ends_leaves_its_pod_no_time_of_its(tree: CgroupTree, agent: AgentProcess) -> None:
    tree.spawn(ONE, "busy")
    wait_for(lambda: (pod_of(agent)["whole"]["cpu"]["usage_peak_millicores"] or 0) > 5, "the pod's CPU")
    tree.kill(ONE)
    tree.remove(ONE)
    wait_for(lambda: len(agent.snapshot()["units"]) == 1, "the container has gone")

    pod = wait_for(
        lambda: figures if (figures := pod_of(agent))["itself_cpu_millicores"] is not None else {}, "readings anew"
    )

    assert pod["itself_cpu_millicores"] < 20
    assert metrics_of(agent)["plimsoll_cgroups_removed_total{level=container}"] == 1


def test_pods_and_tiers_that_come_and_go_are_counted(tree: CgroupTree, agent: AgentProcess) -> None:
    wait_for(lambda: agent.snapshot()["pods"], "the pod")
    before = metrics_of(agent)
    assert before["plimsoll_cgroups_created_total{level=pod}"] == 0, "what was there at the start did not come"

    tree.make("kubepods/besteffort/pod00000000-0000-4000-8000-000000000002")
    wait_for(lambda: len(agent.snapshot()["pods"]) == 2, "another pod")
    tree.remove("kubepods/besteffort")
    wait_for(lambda: len(agent.snapshot()["pods"]) == 1, "it has gone")
    # Its tier goes a moment later.
    wait_for(lambda: metrics_of(agent)["plimsoll_cgroups_removed_total{level=tier}"] > 0, "so has its tier")

    after = metrics_of(agent)
    for level in ("pod", "tier"):
        assert after[f"plimsoll_cgroups_created_total{{level={level}}}"] == 1
        assert after[f"plimsoll_cgroups_removed_total{{level={level}}}"] == 1
