"""`plimsoll run --demo` on real cgroups: what it shows, and that nothing of it is left, however it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.cli.demo.tree import LOADS
from agent.node.sockets.control import ControlError, request
from tests.kernel.agents import PATIENCE_SECONDS, start_plimsoll, wait_for
from tests.kernel.cgroups import cgroup2_mount, why_not

pytestmark = pytest.mark.kernel

NOBODY = "65534"


class Demo:
    """One `plimsoll run --demo`, its tree and its traces."""

    def __init__(self, directory: Path, *words: str) -> None:
        mount = cgroup2_mount()
        assert mount is not None
        self.directory = directory
        self.socket = directory / "agent.sock"
        self.stderr = directory / "stderr"
        self.process = start_plimsoll(
            *("run", "--demo", "--port", "0", "--socket", str(self.socket), *words),
            stderr=self.stderr,
            env={**os.environ, "TMPDIR": str(directory)},
        )
        self._mount, self._name = mount, f"plimsoll-demo-{self.process.pid}-"

    def trees(self) -> list[Path]:
        """The demo's part of the cgroup tree, if it is there."""
        return list(self._mount.glob(f"{self._name}*"))

    def units(self) -> list[dict[str, Any]]:
        """Units of now; none as long as nobody answers."""
        assert self.process.poll() is None, self.stderr.read_text()
        try:
            asked = {"at_age_seconds": 0.0}
            answer: Any = request(self.socket, "snapshot", asked, timeout_seconds=PATIENCE_SECONDS)
        except ControlError:
            return []
        return list(answer["units"])

    def recommended_millicores(self) -> dict[str, int]:
        """What containers should request by now, by container; those without a recommendation are left out."""
        by_container = {unit["identity"]["container"]: (unit["advice"] or {}) for unit in self.units()}
        requests = {name: advice.get("cpu_request_millicores") for name, advice in by_container.items()}
        return {name: millicores for name, millicores in requests.items() if millicores is not None}

    def wait_until_it_runs(self) -> None:
        wait_for(
            lambda: len(self.units()) == len(LOADS) and all(unit["cpu"]["readings"] for unit in self.units()),
            "all containers of the demo are sampled",
        )

    def processes(self) -> list[str]:
        """Command lines of all processes that name the demo's tree: loads and janitor."""
        commands = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue  # it ended meanwhile
            if self._name in words:
                commands.append(words)
        return commands

    def assert_nothing_is_left(self) -> None:
        wait_for(lambda: not self.trees(), "the cgroups are removed")
        wait_for(lambda: not self.processes(), "no load and no janitor is left")
        wait_for(lambda: not list(self.directory.glob("plimsoll-demo-*")), "the scratch directory is removed")

    def clean(self) -> None:
        self.process.kill()
        self.process.wait()
        self.assert_nothing_is_left()


@pytest.fixture
def demos() -> Iterator[list[Demo]]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    runs: list[Demo] = []
    yield runs
    for demo in runs:
        demo.clean()


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="plimsoll-test-") as name:
        yield Path(name)


def test_demo_ends_by_itself(directory: Path, demos: list[Demo]) -> None:
    demo = Demo(directory, "--for", "1")
    demos.append(demo)
    assert demo.process.wait(PATIENCE_SECONDS) == 0
    # A normal end waits for the janitor: it is all gone by now.
    assert demo.trees() == []
    assert demo.processes() == []
    demo.assert_nothing_is_left()
    said = demo.stderr.read_text()
    assert "metrics at http" in said  # it came as far as that
    assert "Traceback" not in said


def test_demo_shows_its_pods_by_name(directory: Path, demos: list[Demo]) -> None:
    # The fixture ends it: no time of its own runs out while it is asked.
    demo = Demo(directory, "--interval", "0.25")
    demos.append(demo)
    demo.wait_until_it_runs()
    assert {(unit["identity"]["pod"], unit["identity"]["container"]) for unit in demo.units()} == {
        (load.pod, load.container) for load in LOADS
    }
    assert {unit["identity"]["namespace"] for unit in demo.units()} == {"demo"}
    assert {unit["identity"]["kind"] for unit in demo.units()} == {"container"}
    for unit in demo.units():
        load = next(load for load in LOADS if load.container == unit["identity"]["container"])
        assert unit["identity"]["qos"] == load.qos
        assert (unit["resources"]["cpu_request_millicores"] is None) == (load.cpu_request is None)

    def seen() -> dict[str, Any]:
        by_container = {unit["identity"]["container"]: unit["cpu"] for unit in demo.units()}
        figures = [by_container[name] for name in ("left", "right", "web", "api") if name in by_container]
        return by_container if len(figures) == 4 and all(each["readings"] >= 8 for each in figures) else {}

    def are_as_made(cpu: dict[str, Any]) -> bool:
        left, right, web = (cpu[name]["waiting_ratio"] for name in ("left", "right", "web"))
        if left is None:
            return True
        # Two loads of 0.9 each on one CPU: each waits for about half of its time; the steady one has room.
        is_waiting = right is not None and web is not None and min(left, right) > 0.2 and left > web
        return is_waiting and (cpu["left"]["throttled_ratio"] is None or (cpu["api"]["throttled_ratio"] or 0) > 0)

    # A busy machine starts one load long after another, and lets the steady one wait too for a while.
    cpu = wait_for(
        lambda: figures if (figures := seen()) and are_as_made(figures) else {}, "loads that wait as they are made to"
    )
    assert cpu["left"]["throttled_ratio"] in (0, None)
    assert "Traceback" not in demo.stderr.read_text()


def test_demo_recommends_by_the_short_windows_that_it_names(directory: Path, demos: list[Demo]) -> None:
    demo = Demo(directory)
    demos.append(demo)
    # Twenty seconds of readings, and an evaluation after them, on top of a start.
    wait_for(lambda: len(demo.recommended_millicores()) == len(LOADS), "advice for every container", seconds=180.0)
    # Nobody was measured for as long as an agent waits before its first recommendation.
    assert max(unit["cpu"]["span_seconds"] for unit in demo.units()) < 600
    assert "first recommendation after 20 s instead of 600 s" in demo.stderr.read_text()


@pytest.mark.parametrize(
    ("number", "codes"),
    [
        (signal.SIGINT, {0, 130}),  # once a table is shown it is a way of leaving; before that nothing was shown
        (signal.SIGTERM, {143}),
        (signal.SIGHUP, {129}),
        (signal.SIGKILL, {-9}),
    ],
    ids=lambda value: value.name if isinstance(value, signal.Signals) else "",
)
def test_demo_leaves_nothing_behind(
    directory: Path, demos: list[Demo], number: signal.Signals, codes: set[int]
) -> None:
    demo = Demo(directory)
    demos.append(demo)
    demo.wait_until_it_runs()
    assert len(demo.processes()) == len(LOADS) + 1  # and the janitor
    os.kill(demo.process.pid, number)
    assert demo.process.wait(PATIENCE_SECONDS) in codes
    demo.assert_nothing_is_left()
    assert "Traceback" not in demo.stderr.read_text()


@pytest.mark.parametrize(
    ("number", "codes"),
    # 0: the table was there before the signal.
    [(signal.SIGINT, {0, 130}), (signal.SIGTERM, {143}), (signal.SIGKILL, {-9})],
    ids=lambda value: value.name if isinstance(value, signal.Signals) else "",
)
def test_demo_ended_while_it_is_being_built_leaves_nothing_behind(
    directory: Path, demos: list[Demo], number: signal.Signals, codes: set[int]
) -> None:
    demo = Demo(directory)
    demos.append(demo)
    wait_for(demo.trees, "the tree begins")
    os.kill(demo.process.pid, number)
    assert demo.process.wait(PATIENCE_SECONDS) in codes
    demo.assert_nothing_is_left()


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv (util-linux)")
def test_demo_without_root_is_one_line_and_exit_2(directory: Path, demos: list[Demo]) -> None:
    directory.chmod(0o777)
    stderr = directory / "stderr"
    process = start_plimsoll(
        *("run", "--demo", "--port", "0", "--socket", "none", "--state-dir", "none"),
        stderr=stderr,
        # Nobody, but free to read: the interpreter may lie in a home directory.
        prefix=(
            *("setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"),
            *("--inh-caps", "-all,+dac_read_search", "--ambient-caps", "-all,+dac_read_search"),
            *("--bounding-set", "-all,+dac_read_search"),
        ),
        env={**os.environ, "TMPDIR": str(directory), "HOME": str(directory)},
    )
    try:
        assert process.wait(PATIENCE_SECONDS) == 2
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
    (line,) = stderr.read_text().splitlines()
    assert "root" in line
    wait_for(lambda: not list(directory.glob("plimsoll-demo-*")), "the scratch directory is removed")
