"""`plimsoll agent` as a process on real cgroups: what it answers, how it ends, what survives it."""

from __future__ import annotations

import json
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.cli.main import main
from agent.sensing.ring_file import RingFile
from tests.cgroup_files import POD_UID, container_id, container_path
from tests.kernel.agents import AgentProcess, wait_for
from tests.kernel.cgroups import CgroupTree
from tests.pods import container, pod_json

pytestmark = pytest.mark.kernel

ONE, TWO, THREE = (container_path(number) for number in (1, 2, 3))
SHORT_WINDOW = ("--set", "windows.rateWindowSeconds=2", "--interval", "0.25")
FAST = ("--interval", "0.2")


@pytest.fixture
def directory() -> Iterator[Path]:
    """A short path: a unix socket's has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-test-") as name:
        yield Path(name)


@pytest.fixture
def agents(tree: CgroupTree, directory: Path) -> Iterator[list[AgentProcess]]:
    """Agents that a test made, ended in any case."""
    processes: list[AgentProcess] = []
    yield processes
    for agent in processes:
        agent.__exit__(None, None, None)


def agent_on(tree: CgroupTree, directory: Path, processes: list[AgentProcess], *words: str) -> AgentProcess:
    agent = AgentProcess(directory, *words, cgroup_root=f"/{tree.name}")
    processes.append(agent)
    return agent


def path_in(tree: CgroupTree, path: str) -> str:
    return f"/{tree.name}/{path}"


def metrics_of(agent: AgentProcess) -> dict[str, float]:
    """Samples of a scrape: name{labels} -> value."""
    status, text = agent.get("/metrics")
    assert status == 200
    return {
        sample.name + "".join(f"{{{key}={value}}}" for key, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def readings_of(agent: AgentProcess, path: str) -> int:
    unit = agent.units().get(path)
    return 0 if unit is None else int(unit["cpu"]["readings"])


def test_agent_serves_metrics_health_readiness_and_snapshots(
    tree: CgroupTree, directory: Path, agents: list[AgentProcess]
) -> None:
    tree.spawn(ONE, "busy")
    tree.spawn(TWO)
    # One whose window is not over when it is asked, however long a busy machine takes for that.
    (directory / "young").mkdir()
    young = agent_on(tree, directory / "young", agents, "--set", "windows.rateWindowSeconds=300")
    young.start()
    status, reason = young.get("/readyz")
    assert (status, "rate window (300 s)" in reason) == (503, True)
    assert young.end() == 0
    agent = agent_on(tree, directory, agents, *SHORT_WINDOW)
    agent.start()
    wait_for(lambda: agent.get("/healthz")[0] == 200, "a sweep")
    wait_for(lambda: agent.get("/readyz")[0] == 200, "a whole rate window")

    units = agent.units()
    assert units.keys() == {path_in(tree, ONE), path_in(tree, TWO)}
    busy = units[path_in(tree, ONE)]
    assert busy["identity"]["qos"] == "Burstable"
    assert busy["identity"]["container_id"] == container_id(1)
    assert busy["identity"]["pod"] is None

    def are_told_apart() -> bool:
        now = agent.units()
        used, rested = (now[path_in(tree, path)]["cpu"]["last_usage_millicores"] for path in (ONE, TWO))
        return used is not None and rested is not None and used > 10 * rested

    # On a busy machine the loop may not run at all between two readings.
    wait_for(are_told_apart, "two readings between which the busy one ran")

    def eight_sweeps() -> dict[str, float]:
        # One that ends while the page is written is in one of its lines and not in another.
        page = metrics_of(agent)
        names = ("sweeps_total", "sweep_duration_seconds_count", "samples_total")
        sweeps, timed, taken = (page[f"plimsoll_{name}"] for name in names)
        return page if sweeps == timed >= 8 and taken == 2 * sweeps else {}

    # On a busy machine a whole window may hold fewer sweeps than it should.
    samples = wait_for(eight_sweeps, "eight sweeps, each timed and with a sample of each container")
    assert samples["plimsoll_containers{state=tracked}"] == 2
    assert samples["plimsoll_containers{state=unmatched}"] == 2  # no pods file
    assert agent.get("/nowhere")[0] == 404


def test_agent_ends_on_sigterm_with_0_and_leaves_no_socket(
    tree: CgroupTree, directory: Path, agents: list[AgentProcess]
) -> None:
    tree.spawn(ONE)
    agent = agent_on(tree, directory, agents)
    agent.start()
    assert agent.socket.exists()
    assert agent.end(signal.SIGTERM) == 0
    assert not agent.socket.exists()
    lines = [json.loads(line) for line in agent.stderr.read_text().splitlines()]
    # On a busy machine a thread may not get its turn in the half second that the agent gives it.
    assert {line["message"] for line in lines if line["level"] in ("warning", "error")} <= {
        "a thread did not end in time"
    }
    assert lines[-1]["message"] == "stopped"


def test_agent_ends_on_sigint_too(tree: CgroupTree, directory: Path, agents: list[AgentProcess]) -> None:
    agent = agent_on(tree, directory, agents)
    agent.start()
    assert agent.end(signal.SIGINT) == 0


def test_second_agent_on_the_same_state_is_refused_and_names_the_first(
    tree: CgroupTree, directory: Path, agents: list[AgentProcess]
) -> None:
    first = agent_on(tree, directory, agents)
    first.start()
    second_directory = directory / "second"
    second_directory.mkdir()
    second = AgentProcess(second_directory, "--state-dir", str(first.state), cgroup_root=f"/{tree.name}")
    code, said = second.run_to_its_end()
    assert code == 2
    (line,) = said.splitlines()
    assert f"pid {first.pid}" in line
    assert not second.socket.exists()
    assert first.get("/healthz")[0] in (200, 503)  # still there


def test_second_agent_with_rings_elsewhere_is_refused_and_leaves_those_of_the_first(
    tree: CgroupTree, directory: Path, agents: list[AgentProcess]
) -> None:
    first = agent_on(tree, directory, agents)
    first.start()
    second_directory = directory / "second"
    second_directory.mkdir()
    elsewhere = ("--set", f"state.ringsDirectory={second_directory}")
    second = AgentProcess(second_directory, "--state-dir", str(first.state), *elsewhere, cgroup_root=f"/{tree.name}")
    code, said = second.run_to_its_end()
    (line,) = said.splitlines()
    assert (code, f"pid {first.pid}" in line) == (2, True), line
    assert (first.state / "rings").exists()


def test_rings_survive_a_kill_and_go_on_in_the_same_windows(
    tree: CgroupTree, directory: Path, agents: list[AgentProcess]
) -> None:
    tree.spawn(ONE)
    agent = agent_on(tree, directory, agents, *FAST)
    agent.start()
    before = wait_for(lambda: max(0, readings_of(agent, path_in(tree, ONE)) - 4), "five readings") + 4
    agent.end(signal.SIGKILL)
    generation = generation_of(agent, tree.relative(ONE))

    agent.start()
    # More than the new process alone can have: it began just now.
    after = wait_for(lambda: readings_of(agent, path_in(tree, ONE)), "readings after the restart")
    assert after >= before
    sweeps = agent.snapshot()["sampler"]["sweeps"]
    assert readings_of(agent, path_in(tree, ONE)) > sweeps
    assert generation_of(agent, tree.relative(ONE)) == generation
    assert agent.end() == 0
    assert "set aside" not in agent.stderr.read_text()


def test_rings_lie_where_they_are_put_and_those_beside_the_history_go(
    tree: CgroupTree, directory: Path, agents: list[AgentProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    tree.spawn(ONE)
    before = agent_on(tree, directory, agents, *FAST)
    before.start()
    assert before.end() == 0
    assert (before.state / "rings").exists()
    rings = f"state.ringsDirectory={directory / 'in-memory'}"
    agent = agent_on(tree, directory, agents, *FAST, "--set", rings)
    agent.start()
    wait_for(lambda: readings_of(agent, path_in(tree, ONE)), "readings")
    assert agent.end() == 0
    assert not (agent.state / "rings").exists()
    assert (directory / "in-memory" / "rings").stat().st_size
    assert main(["recommend", f"--state-dir={agent.state}", "--set", rings, "-o", "json"]) == 0
    assert path_in(tree, ONE) in capsys.readouterr().out


def generation_of(agent: AgentProcess, relative_path: str) -> int:
    with RingFile.open_readonly(agent.state / "rings") as rings:
        return rings.generation(rings.retained()[relative_path])


def test_container_made_while_running_is_there_at_once_and_goes_with_its_cgroup(
    tree: CgroupTree, directory: Path, agents: list[AgentProcess]
) -> None:
    tree.spawn(ONE)
    # Without inotify it would be seen after an hour.
    agent = agent_on(tree, directory, agents, *FAST, "--set", "sampling.relistSeconds=3600")
    agent.start()
    tree.spawn(THREE)
    wait_for(lambda: path_in(tree, THREE) in agent.units(), "the new container")
    wait_for(lambda: readings_of(agent, path_in(tree, THREE)) >= 2, "its readings")
    tree.remove(THREE)
    wait_for(lambda: path_in(tree, THREE) not in agent.units(), "the container is gone")
    assert path_in(tree, ONE) in agent.units()
    # Its slot is given back a moment after nobody is told of it any more.
    wait_for(lambda: retained_by(agent) == {tree.relative(ONE)}, "its slot is free")


def retained_by(agent: AgentProcess) -> set[str]:
    with RingFile.open_readonly(agent.state / "rings") as rings:
        return set(rings.retained())


def pods_text(name: str, cpu: str) -> str:
    pod: dict[str, Any] = pod_json(
        container("app", {"cpu": cpu}),
        metadata={"name": name, "uid": POD_UID},
        status={"containerStatuses": [{"name": "app", "containerID": f"containerd://{container_id(1)}"}]},
    )
    return json.dumps({"kind": "List", "items": [pod]})


def test_pods_file_names_containers_and_is_read_again_when_it_changes(
    tree: CgroupTree, directory: Path, agents: list[AgentProcess]
) -> None:
    tree.spawn(ONE)
    pods = directory / "pods.json"
    pods.write_text(pods_text("web", "250m"))
    agent = agent_on(tree, directory, agents, "--pods", str(pods), "--set", "sampling.relistSeconds=1")
    agent.start()
    unit = agent.units()[path_in(tree, ONE)]
    assert (unit["identity"]["namespace"], unit["identity"]["pod"], unit["identity"]["container"]) == (
        "shop",
        "web",
        "app",
    )
    assert unit["resources"]["cpu_request_millicores"] == 250

    changed = directory / "pods.new"
    changed.write_text(pods_text("web-renamed", "500m"))
    changed.rename(pods)
    wait_for(lambda: agent.units()[path_in(tree, ONE)]["identity"]["pod"] == "web-renamed", "the new name")


def test_bad_pods_file_is_one_line_and_nothing_started(
    tree: CgroupTree, directory: Path, agents: list[AgentProcess]
) -> None:
    pods = directory / "pods.json"
    pods.write_text('{"kind": "List", "items": [{"metadata": {"name": 7}}]}')
    agent = agent_on(tree, directory, agents, "--pods", str(pods))
    code, said = agent.run_to_its_end()
    assert code == 2
    (line,) = said.splitlines()
    assert "pods.json" in line
    assert not agent.socket.exists()
    assert not (agent.state / "rings").exists()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--set", "sampling.noSuch=1"), "sampling.noSuch"),
        (("--interval", "soon"), "sampling.intervalSeconds"),
        (("--cgroup-root", "/plimsoll-not-there"), "/plimsoll-not-there"),
        (("--cgroup-mount", "/tmp"), "/tmp"),
        (("--address", "203.0.113.7"), "203.0.113.7"),
        (("--no-such-flag",), "--no-such-flag"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    tree: CgroupTree, directory: Path, agents: list[AgentProcess], words: tuple[str, ...], named: str
) -> None:
    agent = agent_on(tree, directory, agents, *words)
    code, said = agent.run_to_its_end()
    assert code == 2
    (line,) = said.splitlines()
    assert named in line


def test_corrupt_state_file_is_set_aside_told_and_replaced(
    tree: CgroupTree, directory: Path, agents: list[AgentProcess]
) -> None:
    tree.spawn(ONE)
    agent = agent_on(tree, directory, agents, *FAST)
    agent.start()
    agent.end()
    rings = agent.state / "rings"
    with rings.open("r+b") as file:
        damaged = bytearray(file.read(4096))
        damaged[20] ^= 0xFF
        file.seek(0)
        file.write(damaged)

    agent.start()
    wait_for(lambda: readings_of(agent, path_in(tree, ONE)) >= 2, "new readings")
    (aside,) = agent.state.glob("rings.set-aside-*")
    with aside.open("rb") as file:
        assert file.read(4096) == bytes(damaged)
    lines = [json.loads(line) for line in agent.stderr.read_text().splitlines()]
    # A busy machine may be warned of besides: a sweep that came late, a slow turn.
    (warning,) = [line for line in lines if "kept_as" in line]
    assert warning["level"] == "warning"
    assert warning["kept_as"] == str(aside)
    assert "checksum" in warning["reason"]
    assert any("checksum" in note for note in agent.snapshot()["notes"])
