"""The init step that gives the state directory to the agent: the chart's very script on real directories.

It runs as in the pod: as root with one capability.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from agent.node.reports.report_files import NUMBERING_NAME, SUFFIX
from agent.node.reports.report_queue import DIRECTORY_NAME
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
        container, _ = daemon_set["spec"]["template"]["spec"]["initContainers"]
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
            str(path.relative_to(self.state)): (path.lstat().st_uid, path.lstat().st_gid, path.lstat().st_mode & 0o7777)
            for path in every
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
    names = {name for file in (REPOSITORY / "agent/node").rglob("*.py") for name in constant.findall(file.read_text())}
    assert {"rings", "history", "decisions", "ledger", "holds"} <= names
    endings = ("", ".new", ".damaged", ".previous-boot", ".set-aside-20260101T000000Z-1", ".1", ".cruise.new")
    step.put(*(name + ending for name in names for ending in endings))
    step.put(*(f"{DIRECTORY_NAME}/{name}" for name in (NUMBERING_NAME, f"{1:012}{SUFFIX}", f"{2:012}{SUFFIX}.new")))
    done = step.run()
    assert done.returncode == 0, done.stderr
    assert step.owners() == {AGENT}


def _odd(kind: str, place: Path, outside: Path) -> None:
    """Put something there that is neither a folder nor a file of one name."""
    if kind == "link":
        place.symlink_to(outside)
    elif kind == "dangling":
        place.symlink_to(outside.with_name("none"))
    elif kind == "hard link":
        place.hardlink_to(outside)
    elif kind == "fifo":
        os.mkfifo(place)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(place))
    else:
        # Of /dev/full: harmless, should it be given away.
        os.mknod(place, {"device": stat.S_IFCHR, "block device": stat.S_IFBLK}[kind] | 0o600, os.makedev(1, 7))


@pytest.mark.parametrize("values", [{}, CGROUPS], ids=["agent", "root"])
@pytest.mark.parametrize("before", [0, AGENT])
@pytest.mark.parametrize("place", ["rings.x", f"{DIRECTORY_NAME}/{1:012}{SUFFIX}"])
@pytest.mark.parametrize("kind", ["link", "dangling", "hard link", "fifo", "socket", "device", "block device"])
def test_links_and_devices_are_never_given_to_anybody(
    step: Step, tmp_path: Path, kind: str, place: str, before: int, values: dict[str, Any]
) -> None:
    """Root's own file under a name of the agent's, above all."""
    shadow = tmp_path / "shadow"
    shadow.write_text("not ours")
    shadow.chmod(0o600)
    step.put("rings", f"{DIRECTORY_NAME}/{NUMBERING_NAME}", owner=before)
    _odd(kind, step.state / place, shadow)
    for folder in (step.state / DIRECTORY_NAME, step.state):
        os.chown(folder, before, before)
        folder.chmod(0o700)
    was = step.found()
    done = step.run(values)
    status = shadow.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (0, 0, 0o600)
    now = step.found()
    assert now[place] == was[place]
    # What the agent keeps in its own folder is left there; a file of root's changes nothing where the agent is root.
    if ("/" in place and before == AGENT) or (kind == "hard link" and values):
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode == 1
        assert f"holds what Plimsoll did not write ({place.partition('/')[0]})" in done.stderr
        assert now == was


def test_hard_links_of_what_is_the_agents_already_may_stay(step: Step, tmp_path: Path) -> None:
    """As a backup by ``cp -al`` makes them."""
    step.put("rings", owner=AGENT)
    (tmp_path / "backup").hardlink_to(step.state / "rings")
    step.own(AGENT)
    assert step.run().returncode == 0
    assert step.run(CGROUPS).returncode == 1
    assert (tmp_path / "backup").stat().st_uid == AGENT


def test_what_is_put_in_place_of_a_file_between_the_look_and_the_deed_is_not_given(step: Step, tmp_path: Path) -> None:
    """Who writes into the folder as root, a second step for instance, exchanges files all the time."""
    shadow = tmp_path / "shadow"
    shadow.write_text("not ours")
    step.put("rings")
    code = (
        "import os, sys\n"
        "place, shadow = sys.argv[1:]\n"
        "while True:\n"
        "    os.link(shadow, place + '.new'); os.replace(place + '.new', place)\n"
        "    os.close(os.open(place + '.new', os.O_CREAT | os.O_WRONLY)); os.replace(place + '.new', place)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(step.state / "rings"), str(shadow)]) as exchanging:
        try:
            for _ in range(60):
                step.run()
                assert shadow.stat().st_uid == 0
        finally:
            exchanging.kill()


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
    entries = step.found()
    assert {entries[name][0] for name in (".", "rings", DIRECTORY_NAME, f"{DIRECTORY_NAME}/{NUMBERING_NAME}")} == {0}
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
