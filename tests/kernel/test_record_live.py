"""`plimsoll record` on real cgroups: beside an agent, by itself, ended early, killed; and replays of what it wrote."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.node.offline.recording import Recording
from agent.node.offline.recording_format import RowKind
from agent.node.sockets.control import request
from agent.sensing.ring_file import RingFile
from tests.cgroup_files import container_path
from tests.kernel.agents import PATIENCE_SECONDS, REPOSITORY, AgentProcess, start_plimsoll, wait_for
from tests.kernel.cgroups import CgroupTree

pytestmark = pytest.mark.kernel

ONE, TWO, THREE = (container_path(number) for number in (1, 2, 3))
WINDOWS = ("--set", "windows.rateWindowSeconds=2", "--set", "recommend.minSpanSeconds=1", "--interval", "0.25")
"""Of the agent and of whoever records beside it."""


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="plimsoll-test-") as name:
        yield Path(name)


@pytest.fixture
def agent(tree: CgroupTree, directory: Path) -> Iterator[AgentProcess]:
    """An agent that watches a busy container and an idle one."""
    tree.spawn(ONE, "busy")
    tree.spawn(TWO)
    with AgentProcess(directory, *WINDOWS, cgroup_root=f"/{tree.name}") as process:
        wait_for(lambda: process.get("/readyz")[0] == 200, "a whole rate window")
        yield process


def plimsoll(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agent", *words], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )


def record_beside(agent: AgentProcess, path: Path, *words: str) -> list[str]:
    return ["record", "--state-dir", str(agent.state), *WINDOWS, "-o", str(path), *words]


def readings(agent: AgentProcess, tree: CgroupTree, path: str) -> int:
    """Return how many readings of a container's CPU are in the window; none of one that is not listed yet."""
    unit = agent.units().get(f"/{tree.name}/{path}")
    return int(unit["cpu"]["readings"]) if unit else 0


def answer(path: Path, *words: str) -> dict[str, Any]:
    done = plimsoll("replay", str(path), *words, "-o", "json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def figures(item: dict[str, Any]) -> dict[str, Any]:
    """All of a recommendation that does not move between taking the windows and reading the clock."""
    basis = {key: value for key, value in item["basis"].items() if not key.endswith(("age_seconds", "span_seconds"))}
    return {**item, "basis": basis}


def test_a_replay_at_the_moment_of_an_answer_gives_that_answer(agent: AgentProcess, directory: Path) -> None:
    path = directory / "r.plimsoll"

    def is_the_same() -> bool:
        # A sweep may fall between the agent's look at its windows and its look at the clock: then once more.
        live: dict[str, Any] = dict(request(agent.socket, "recommend", {}, timeout_seconds=PATIENCE_SECONDS))
        done = plimsoll(*record_beside(agent, path))
        assert done.returncode == 0, done.stderr
        at = datetime.fromtimestamp(float(live["taken_unix_seconds"]), UTC)
        replayed = answer(path, "--at", at.isoformat(), "recommend", "--set", "recommend.minSpanSeconds=1")
        assert abs(replayed["taken_unix_seconds"] - live["taken_unix_seconds"]) < 0.001
        items, expected = ([figures(item) for item in doc["items"]] for doc in (replayed, live))
        assert len(expected) == 2
        assert [item["identity"] for item in items] == [item["identity"] for item in expected]
        assert all(item["cpu_millicores"]["request"] for item in expected)
        return items == expected

    wait_for(is_the_same, "a replay with the figures of the agent")


def test_a_recorder_beside_an_agent_takes_every_row_of_who_comes_and_goes(
    agent: AgentProcess, tree: CgroupTree, directory: Path
) -> None:
    path = directory / "r.plimsoll"
    recorder = start_plimsoll(*record_beside(agent, path, "--for", "1h"), stderr=directory / "stderr")
    try:
        wait_for(lambda: list(directory.glob(".r.plimsoll.*")), "the recorder has begun")
        tree.spawn(THREE)
        wait_for(lambda: readings(agent, tree, THREE) > 1, "readings of the third container")
        assert not path.exists()
        begun, before = time.monotonic_ns(), readings(agent, tree, ONE)
        wait_for(lambda: readings(agent, tree, ONE) > max(before + 1, 20), "twenty readings, some of them new")
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait(PATIENCE_SECONDS) == 0
    finally:
        recorder.kill()
        recorder.wait()
    assert list(directory.glob(".r.plimsoll.*")) == []
    with Recording(path) as recording:
        manifest = recording.manifest
        rows = {
            unit: np.concatenate([piece for index, piece in recording.all_rows(RowKind.RAW) if index == unit])
            for unit in range(len(manifest.units))
        }
    assert manifest.source == "agent"
    assert manifest.ended_monotonic_ns >= begun
    paths = [unit.facts[0].identity.cgroup_path for unit in manifest.units]
    assert sorted(paths) == sorted(f"/{tree.name}/{path}" for path in (ONE, TWO, THREE))
    with RingFile.open_readonly(agent.state / "rings") as rings:
        for number, cgroup in enumerate(paths):
            held = rings.raw(rings.retained()[cgroup[1:]]).joined()
            held = held[held["monotonic_ns"] <= rows[number]["monotonic_ns"][-1]]
            assert rows[number].tobytes() == held.tobytes()


def test_a_recorder_that_is_killed_leaves_no_recording(agent: AgentProcess, directory: Path) -> None:
    path = directory / "r.plimsoll"
    recorder = start_plimsoll(*record_beside(agent, path, "--for", "1h"), stderr=directory / "stderr")
    wait_for(lambda: list(directory.glob(".r.plimsoll.*")), "the recorder has begun")
    recorder.kill()
    recorder.wait()
    assert not path.exists()
    assert agent.end() == 0  # it never noticed


def used_usec(tree: CgroupTree, path: str) -> int:
    lines = (tree.absolute(path) / "cpu.stat").read_text(encoding="ascii").splitlines()
    return int(dict(line.split() for line in lines)["usage_usec"])


@pytest.mark.alone  # seconds of a busy loop must be seen, whatever else wants the CPUs
def test_without_an_agent_the_recorder_samples_by_itself(tree: CgroupTree, directory: Path) -> None:
    tree.spawn(ONE, "busy")
    path, said = directory / "r.plimsoll", directory / "stderr"
    words = ("record", "--cgroup-root", f"/{tree.name}", "--state-dir", str(directory / "none"), *WINDOWS)
    recorder = start_plimsoll(*words, "--for", "1h", "-o", str(path), stderr=said)
    try:
        wait_for(lambda: list(directory.glob(".r.plimsoll.*")), "the recorder has begun")
        # How much the loop may run is the machine's affair: so much of it is recorded as tells it from an idle one.
        begun, before = time.monotonic(), used_usec(tree, ONE)
        wait_for(lambda: time.monotonic() - begun > 3 and used_usec(tree, ONE) - before > 100_000, "a loop that ran")
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait(PATIENCE_SECONDS) == 0, said.read_text()
    finally:
        recorder.kill()
        recorder.wait()
    assert "sampling here" in said.read_text()
    with Recording(path) as recording:
        assert recording.manifest.source == "self"
        (unit,) = recording.manifest.units
        assert unit.facts[0].identity.cgroup_path == f"/{tree.name}/{ONE}"
        rows = np.concatenate([piece for _, piece in recording.all_rows(RowKind.RAW)])
    first, last = (rows[index] for index in (0, -1))
    used_ns = 1000 * (int(last["usage_usec"]) - int(first["usage_usec"]))
    mean_millicores = 1000 * used_ns / (int(last["monotonic_ns"]) - int(first["monotonic_ns"]))
    assert mean_millicores > 0
    (item,) = answer(path, "recommend", "--set", "recommend.minSpanSeconds=1")["items"]
    assert item["cpu_millicores"]["request"] >= round(mean_millicores)
