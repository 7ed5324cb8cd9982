"""`plimsoll recommend` on real cgroups: beside a running agent, and from what it has left behind."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.core.history.minute.key import history_key
from agent.core.numbers.quantity import parse_quantity
from agent.core.numbers.units import NANOS_PER_UNIT
from agent.node.history.file import HistoryFile
from agent.node.sampling.pods_file import PodsFile
from agent.sensing.cgroup_path import identify
from tests.cgroup_files import POD_UID, container_id, container_path
from tests.kernel.agents import PATIENCE_SECONDS, REPOSITORY, AgentProcess, wait_for
from tests.kernel.cgroups import CgroupTree
from tests.pods import container, pod_json
from tests.policy_rows import make_minutes

pytestmark = pytest.mark.kernel

BUSY, IDLE = container_path(1), container_path(2)
SHORT = ("--set", "windows.rateWindowSeconds=2", "--set", "recommend.minSpanSeconds=2")
QUICK = ("--interval", "0.25", "--set", "evaluateIntervalSeconds=1", *SHORT)
HISTORY_MINUTES = 10
USED_MILLICORES = 300.0


@pytest.fixture
def directory() -> Iterator[Path]:
    """A short path: a unix socket's has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-test-") as name:
        yield Path(name)


@pytest.fixture
def pods(directory: Path) -> Path:
    """A pod of two containers: `busy` requests far less than a busy loop takes, `idle` far more than a sleep."""
    path = directory / "pods.json"
    pod = pod_json(
        container("busy", {"cpu": "10m", "memory": "64Mi"}),
        container("idle", {"cpu": "2", "memory": "64Mi"}),
        metadata={"name": "web", "uid": POD_UID},
        status={
            "containerStatuses": [
                {"name": name, "containerID": f"containerd://{container_id(number)}"}
                for number, name in ((1, "busy"), (2, "idle"))
            ]
        },
    )
    path.write_text(json.dumps({"kind": "List", "items": [pod]}))
    return path


@pytest.fixture
def agent(tree: CgroupTree, directory: Path, pods: Path) -> Iterator[AgentProcess]:
    tree.spawn(BUSY, "busy")
    tree.spawn(IDLE)
    with AgentProcess(directory, *QUICK, "--pods", str(pods), cgroup_root=f"/{tree.name}") as process:
        yield process


def recommend(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the verb; again where the agent, on a busy machine, did not answer within the verb's five seconds."""

    def ask() -> subprocess.CompletedProcess[str] | None:
        done = subprocess.run(
            [sys.executable, "-m", "agent", "recommend", *words],
            cwd=REPOSITORY,
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        return None if ": no answer to recommend within " in done.stderr else done

    done = wait_for(ask, "an answer of the agent")
    assert done is not None
    return done


def items_of(*words: str) -> dict[str, dict[str, Any]]:
    """Container -> what is recommended for it."""
    done = recommend("-o", "json", *words)
    assert done.returncode == 0, done.stderr
    return {item["identity"]["container"]: item for item in json.loads(done.stdout)["items"]}


def write_history(path: Path, pods: Path, cgroup: str) -> None:
    """Leave ten minutes of a container as an agent before would have; no test has the time to wait for one."""
    source = PodsFile(pods)
    identity = identify(f"/{cgroup}")
    assert identity is not None
    named, _ = source.name(identity)
    path.parent.mkdir(mode=0o700)
    with HistoryFile.open(path, max_rows=64) as history:
        row = history.row_of(history_key(named, source.belonging(named).workload))
        first = int(time.time() // 60) - HISTORY_MINUTES - 1
        for minute in range(first, first + HISTORY_MINUTES):
            cpu: list[float | None] = [None] * history.rows
            cpu[row] = USED_MILLICORES
            history.append(make_minutes(minute, cpu))


def test_a_running_agent_recommends_within_seconds_and_the_patch_names_what_differs(
    agent: AgentProcess,
) -> None:
    asked = ("--socket", str(agent.socket))
    # The first looks come too early for an answer: why, is told.
    # On a busy machine the loop may hardly run in the first window: it needs more than it requests once it has run.
    recommendations = wait_for(lambda: short_of_cpu(items_of(*asked)), "recommendations for both, more for the loop")
    busy, idle = recommendations["busy"], recommendations["idle"]
    assert busy["cpu_millicores"]["severity"] in ("short", "very_short")
    assert (busy["workload"]["kind"], busy["resources"]["cpu_request_millicores"]) == ("Pod", 10)
    # It is lowered as soon as a minute has ended, which may be now: until then there is no prediction.
    assert idle["cpu_millicores"]["request"] <= 2000
    assert idle["cpu_millicores"]["severity"] in ("good", "large_saving")

    done = recommend("-o", "patch", *asked)
    assert done.returncode == 0
    (comment,) = (line for line in done.stdout.splitlines()[1:] if line.startswith("#"))
    assert comment.startswith("# shop/web: busy CPU 10m to ")
    (command,) = (line for line in done.stdout.splitlines() if line.startswith("kubectl "))
    words = shlex.split(command)
    assert words[:8] == ["kubectl", "patch", "pod", "web", "--namespace", "shop", "--subresource", "resize"]
    patched = {spec["name"]: spec["resources"] for spec in json.loads(words[-1])["spec"]["containers"]}
    assert parse_quantity(patched["busy"]["requests"]["cpu"]) * 1000 > 10 * NANOS_PER_UNIT  # 1000m are written as 1

    # Other options are tried on the agent's own state, under its settings and with its names.
    tried = items_of(*asked, "--bounds-min-cpu-millicores", "5000")
    assert {name: item["cpu_millicores"]["request"] for name, item in tried.items()} == {"busy": 5000, "idle": 5000}

    advice = wait_for(lambda: unit_named(agent, "busy")["advice"], "an evaluation")
    assert (advice["policy"], advice["min_span_seconds"]) == ("plimsoll", 2.0)


def short_of_cpu(items: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    requests = {name: item["cpu_millicores"]["request"] for name, item in items.items()}
    return items if all(requests.values()) and requests.get("busy", 0) > 10 else {}


def unit_named(agent: AgentProcess, name: str) -> dict[str, Any]:
    return next(unit for unit in agent.units().values() if unit["identity"]["container"] == name)


def test_too_young_is_told_with_what_is_known_and_what_is_wanted(tree: CgroupTree, directory: Path, pods: Path) -> None:
    tree.spawn(BUSY, "busy")
    with AgentProcess(directory, "--interval", "0.25", "--pods", str(pods), cgroup_root=f"/{tree.name}") as agent:
        wait_for(lambda: unit_named(agent, "busy")["cpu"]["readings"], "a reading")
        done = recommend("--socket", str(agent.socket), "--width", "120")
    assert done.returncode == 0
    assert "too young: " in done.stdout
    assert " of 10m00s" in done.stdout
    assert "recommendations begin after 10m00s of readings" in done.stdout


def test_a_stopped_agent_leaves_enough_to_recommend_by_any_policy(
    tree: CgroupTree, directory: Path, pods: Path
) -> None:
    tree.spawn(BUSY)
    state = directory / "state"
    began = time.monotonic()
    write_history(state / "history", pods, tree.relative(BUSY))
    agent = AgentProcess(directory, *QUICK, "--pods", str(pods), cgroup_root=f"/{tree.name}")
    with agent:
        wait_for(lambda: unit_named(agent, "busy")["cpu"]["usage_p75_millicores"] is not None, "a rate")
        assert agent.end() == 0
    most_ended = int((time.monotonic() - began) // 60) + 1

    options = ("--state-dir", str(state), "--pods", str(pods), *SHORT)
    (own,) = items_of(*options).values()
    assert own["policy"] == "plimsoll"
    # And one more for each minute after whose end the agent lived on for five seconds.
    assert HISTORY_MINUTES <= own["basis"]["history_minutes"] <= HISTORY_MINUTES + most_ended
    # It sleeps now; its peak of the last hour is 300 m, which the history's rounding keeps to half a percent.
    assert own["cpu_millicores"]["request"] == pytest.approx(USED_MILLICORES, rel=0.01)

    (vpa,) = items_of(*options, "--policy", "vpa").values()
    assert vpa["policy"] == "vpa"
    # P90 of samples that are all 300 m is the end of their bucket, at most 5 % above; then come 15 % of margin.
    assert USED_MILLICORES * 1.15 <= vpa["cpu_millicores"]["request"] <= USED_MILLICORES * 1.15 * 1.05 + 1
    (median,) = items_of(*options, "--policy", "vpa", "--vpa-recommendation-margin-fraction", "0").values()
    assert median["cpu_millicores"]["request"] < vpa["cpu_millicores"]["request"]


def test_no_state_directory_is_1_and_one_line(directory: Path) -> None:
    done = recommend("--state-dir", str(directory / "none"))
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert str(directory / "none") in line
