"""The init step that gives the state directory to the agent: the chart's very script on real directories.

It runs as in the pod: as root with one capability.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from agent.node.report_files import NUMBERING_NAME, SUFFIX
from agent.node.report_queue import DIRECTORY_NAME
from tests.cluster.chart import rendered
from tests.image.cache import REPOSITORY

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")

AGENT: Final = 65_532
SOMEBODY: Final = 999
CGROUPS: Final = {"podLimits": {"writeCgroups": True}}
"""With it the agent is root."""

Found = dict[str, tuple[int, int, int]]
"""Owner, group and mode by path below the state directory."""


@dataclass(frozen=True)
class Step:
    """The step on one directory."""

    state: Path

    def run(self, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        [daemon_set] = rendered(values)["agent/daemonset"]
        [container] = daemon_set["spec"]["template"]["spec"]["initContainers"]
        program, option, script, path, *arguments = container["command"]
        assert (program, option, path) == ("python3", "-Ic", "/var/lib/plimsoll")
        command = ["setpriv", "--bounding-set=-all,+chown", sys.executable, option, script, str(self.state), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def put(self, *names: str, owner: int = 0) -> None:
        """Put files there, and folders where a name ends with a slash."""
        for name in names:
            path = self.state / name
            if name.endswith("/"):
                path.mkdir()
            else:
                path.parent.mkdir(exist_ok=True)
                path.write_text("row")
                path.chmod(0o600)
            os.chown(path, owner, owner)

    def own(self, owner: int, mode: int = 0o700) -> None:
        """Give the directory itself."""
        os.chown(self.state, owner, owner)
        self.state.chmod(mode)

    def found(self) -> Found:
        every = [self.state, *self.state.rglob("*")]
        return {
            str(one.relative_to(self.state)): (one.lstat().st_uid, one.lstat().st_gid, one.lstat().st_mode & 0o7777)
            for one in every
        }

    def owners(self) -> set[int]:
        return {owner for owner, _, _ in self.found().values()}


@pytest.fixture
def step(tmp_path: Path) -> Step:
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    return Step(state)


def test_empty_directory_is_given(step: Step) -> None:
    assert step.run().returncode == 0
    assert step.found() == {".": (AGENT, AGENT, 0o700)}


def test_directory_that_is_a_file_system_of_its_own_is_given(step: Step) -> None:
    step.put("lost+found/")
    assert step.run().returncode == 0
    assert step.found()["lost+found"][0] == 0
    assert step.found()["."][0] == AGENT


def test_every_file_that_the_agent_writes_is_known(step: Step) -> None:
    """As root it is called by its name alone: from before an agent that was root, or another user."""
    constant = re.compile(r'^(?:\w+_)?FILE_NAME: Final = "([^"]+)"$', re.M)
    names = {name for file in (REPOSITORY / "agent/node").glob("*.py") for name in constant.findall(file.read_text())}
    assert {"rings", "history", "decisions", "ledger", "holds"} <= names
    endings = ("", ".new", ".damaged", ".previous-boot", ".set-aside-20260101T000000Z-1", ".1", ".cruise.new")
    step.put(*(name + ending for name in names for ending in endings))
    step.put(*(f"{DIRECTORY_NAME}/{name}" for name in (NUMBERING_NAME, f"{1:012}{SUFFIX}", f"{2:012}{SUFFIX}.new")))
    done = step.run()
    assert done.returncode == 0, done.stderr
    assert step.owners() == {AGENT}


@pytest.mark.parametrize("before", [0, AGENT])
def test_links_are_not_followed(step: Step, tmp_path: Path, before: int) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "shadow").write_text("not ours")
    step.put("rings", f"{DIRECTORY_NAME}/{NUMBERING_NAME}", owner=before)
    for link in (step.state / "history", step.state / DIRECTORY_NAME / f"{1:012}{SUFFIX}"):
        link.symlink_to(outside)
        os.chown(link, before, before, follow_symlinks=False)
    os.chown(step.state / DIRECTORY_NAME, before, before)
    step.own(before)
    done = step.run()
    assert done.returncode == 0, done.stderr
    assert step.owners() == {AGENT}
    assert {step.state.stat().st_mode & 0o777, (step.state / DIRECTORY_NAME).stat().st_mode & 0o777} == {0o700}
    assert {path.lstat().st_uid for path in (outside, outside / "shadow")} == {0}
    assert outside.stat().st_mode & 0o777 == 0o755


def test_what_is_the_agents_as_a_whole_goes_on(step: Step) -> None:
    """A recording that somebody made beside is his."""
    step.put("rings", "incident-12.plimsoll", "kept/", owner=AGENT)
    step.own(AGENT)
    before = step.found()
    assert step.run().returncode == 0
    assert step.found() == before


def test_agent_becomes_root_and_nobody_again(step: Step) -> None:
    step.put("rings", "incident-12.plimsoll", f"{DIRECTORY_NAME}/{NUMBERING_NAME}", owner=AGENT)
    os.chown(step.state / DIRECTORY_NAME, AGENT, AGENT)
    step.own(AGENT)
    for _ in range(2):
        assert step.run(CGROUPS).returncode == 0
    found = step.found()
    assert {found[name][0] for name in (".", "rings", DIRECTORY_NAME, f"{DIRECTORY_NAME}/{NUMBERING_NAME}")} == {0}
    for _ in range(2):
        assert step.run().returncode == 0
    assert step.owners() == {AGENT}


@pytest.mark.parametrize("values", [{}, CGROUPS], ids=["agent", "root"])
@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (0, ["kubelet/", "dpkg/", "rings"]),
        (0, ["rings", "history", "grafana.db"]),
        (0, ["rings/"]),
        (0, [f"{DIRECTORY_NAME}/{NUMBERING_NAME}", f"{DIRECTORY_NAME}/january.pdf"]),
        (SOMEBODY, ["rings"]),
        (SOMEBODY, ["PG_VERSION", "base/"]),
    ],
)
def test_what_holds_anything_of_somebody_else_is_refused_and_stays_as_it_is(
    step: Step, owner: int, names: list[str], values: dict[str, Any]
) -> None:
    step.put(*names, owner=owner)
    before = step.found()
    done = step.run(values)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("own-state: agent.state.hostPath /var/lib/plimsoll holds what Plimsoll did not write (")
    assert "nothing was changed; set it to a directory of its own" in line
    assert step.found() == before


def test_what_root_put_among_the_agents_is_refused(step: Step) -> None:
    step.put("rings", owner=AGENT)
    step.put("certificates/")
    step.own(AGENT)
    before = step.found()
    done = step.run()
    assert (done.returncode, step.found()) == (1, before)
    assert "(certificates)" in done.stderr


def test_closed_directory_of_somebody_else_is_refused(step: Step) -> None:
    step.put("PG_VERSION", owner=SOMEBODY)
    step.own(SOMEBODY)
    before = step.found()
    done = step.run()
    assert (done.returncode, step.found()) == (1, before)
    assert f"is user {SOMEBODY}'s and closed" in done.stderr
    assert len(done.stderr.splitlines()) == 1
