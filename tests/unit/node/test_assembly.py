"""Where an agent puts its rings."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from agent.node.assembly import make_directory_of_rings
from agent.sensing.state_file import RingError
from agent.settings import StateSettings, sections


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's own state directory, whose rings belong into a directory that cannot be made."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(sections, "STATE_DIRECTORY", tmp_path / "state")
    monkeypatch.setattr(sections, "RUNTIME_DIRECTORY", tmp_path / "file" / "run")
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


def test_rings_that_may_not_lie_in_memory_lie_beside_the_history(state: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert make_directory_of_rings(StateSettings(directory=state)) == state
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "Not a directory" in record.__dict__["cause"]
    assert "state.ringsDirectory" in record.__dict__["mend"]


def test_rings_go_where_they_were_asked_for_or_nowhere(state: Path, tmp_path: Path) -> None:
    assert make_directory_of_rings(StateSettings(directory=None)) is None
    asked = tmp_path / "asked"
    assert make_directory_of_rings(StateSettings(directory=state, rings_directory=asked)) == asked
    assert asked.is_dir()
    with pytest.raises(RingError, match=r"Not a directory; allowed: one that can be written, by state\.ringsDirectory"):
        make_directory_of_rings(StateSettings(directory=state, rings_directory=tmp_path / "file" / "asked"))
