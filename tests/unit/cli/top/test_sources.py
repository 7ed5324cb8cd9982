from __future__ import annotations

from pathlib import Path

import pytest

from agent.cli.top.sources import SourceError, socket_source
from agent.node.files.documents import SNAPSHOT
from agent.node.sockets import control
from tests.snapshots import busy_node


def test_socket_source_asks_for_a_moment_and_gives_the_agents_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def request(*arguments: object) -> dict[str, object]:
        asked.append(arguments)
        return SNAPSHOT.to_json(busy_node())

    monkeypatch.setattr(control, "request", request)
    source = socket_source(Path("/run/x.sock"))
    assert source(30.0) == busy_node()
    assert asked == [(Path("/run/x.sock"), "snapshot", {"at_age_seconds": 30.0})]


def test_socket_source_without_an_agent_says_so_on_one_line(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no agent at") as caught:
        socket_source(tmp_path / "none.sock")(0.0)
    assert "\n" not in str(caught.value)


def test_socket_source_names_an_agent_of_another_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "request", lambda *_: {**SNAPSHOT.to_json(busy_node()), "version": 2})
    with pytest.raises(SourceError, match=r"x.sock gave no snapshot: snapshot.version: 2 is not 1"):
        socket_source(Path("/run/x.sock"))(0.0)
