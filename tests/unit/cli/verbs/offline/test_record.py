"""The verb ``record`` on the state of an agent that has ended, and what it refuses."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from agent.cli.main import main
from agent.node.offline.recording import Recording
from agent.sensing.state_file import read_boot_id
from tests.unit.node.offline.test_state_directory import pods_file, write_state

pytestmark = pytest.mark.usefixtures("long_since_boot")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Ten minutes of one container, two minutes old."""
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=time.monotonic() - 120, pods=pods_file(tmp_path))
    return tmp_path


def record(state: Path, *words: str) -> int:
    return main(["record", "--state-dir", str(state), "-o", str(state / "r.plimsoll"), *words])


def refused(capsys: pytest.CaptureFixture[str], state: Path, *words: str) -> str:
    with pytest.raises(SystemExit) as caught:
        record(state, *words)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    *notices, line = err.splitlines()
    assert len(notices) <= 1  # that no agent is writing
    return line


def test_a_state_at_rest_is_recorded_at_once(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert record(state, "--pods", str(state / "pods.json")) == 0
    out, err = capsys.readouterr()
    assert f"{state / 'r.plimsoll'}: 1 units, 601 samples over 10m" in out
    assert err == "plimsoll record: no agent is writing here: this is the state of 2 min ago\n"
    with Recording(state / "r.plimsoll") as recording:
        manifest = recording.manifest
    assert (manifest.source, manifest.units[0].facts[0].identity.container) == ("state", "app")
    assert sorted(path.name for path in state.iterdir()) == ["history", "pods.json", "r.plimsoll", "rings"]


def test_a_filter_that_nothing_passes_gives_1_and_no_file(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert record(state, "--pod", "nobody") == 1
    assert "not a single reading of what was asked for" in capsys.readouterr().err
    assert not (state / "r.plimsoll").exists()


def test_a_file_of_the_name_is_replaced_only_by_a_whole_one(state: Path) -> None:
    (state / "r.plimsoll").write_text("before")
    assert record(state, "--pod", "nobody") == 1
    assert (state / "r.plimsoll").read_text() == "before"
    assert record(state) == 0
    Recording(state / "r.plimsoll").close()


@pytest.mark.parametrize(
    ("name", "reason"),
    [("none/r", "no such directory"), (".", "is not a regular file"), ("pipe", "is not a regular file")],
)
def test_an_output_that_cannot_be_is_refused_before_anything_is_recorded(
    state: Path, capsys: pytest.CaptureFixture[str], name: str, reason: str
) -> None:
    os.mkfifo(state / "pipe")
    with pytest.raises(SystemExit) as caught:
        main(["record", "--state-dir", str(state), "-o", str(state / name)])
    assert caught.value.code == 2
    assert reason in capsys.readouterr().err
    assert stat.S_ISFIFO((state / "pipe").stat().st_mode)


def test_a_link_stays_one_and_what_it_names_is_replaced(state: Path, tmp_path: Path) -> None:
    target = tmp_path / "there.plimsoll"
    target.write_bytes(b"old")
    link = tmp_path / "link.plimsoll"
    link.symlink_to(target)
    assert main(["record", "--state-dir", str(state), "-o", str(link)]) == 0
    assert link.is_symlink()
    assert target.read_bytes() != b"old"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--for", "soon"), "'soon' is not a duration; allowed: 90s"),
        (("--for", "31d"), "too long; allowed: up to 30d"),
        (("--self",), "--self starts sampling now and has nothing to record yet; allowed: with --for TIME"),
        (("--filter", "x=1"), "unknown key"),
        (("--pods", "none.json"), "none.json"),
    ],
)
def test_what_cannot_be_is_said_on_one_line(
    state: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], reason: str
) -> None:
    assert reason in refused(capsys, state, *words)


def test_without_a_state_the_fault_says_what_is_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, tmp_path)
    assert "rings: No such file or directory; allowed: the state directory of an agent" in line
    assert "--for TIME to sample here" in line
