"""What doctor says of an agent's standing in its cluster, asked at its socket."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.cli.main import main
from agent.core.machine.checkup import MachineFacts
from agent.node.files.documents import CLUSTER
from agent.node.sockets.control import ControlError, Unable
from agent.sensing import features
from tests.control_sockets import PATIENCE_SECONDS, answering
from tests.unit.core.machine.test_checkup import GOOD
from tests.unit.core.machine.test_cluster_checkup import facts


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of which everything is fit; reading the real one takes a second."""

    def read_facts(**_: object) -> MachineFacts:
        return GOOD

    monkeypatch.setattr(features, "read_facts", read_facts)
    # An agent that does not answer within two seconds is said to be silent; a busy machine may take that long.
    monkeypatch.setattr("agent.cli.verbs.node.doctor._ASK_SECONDS", PATIENCE_SECONDS)


def names(
    path: Path, answer: Mapping[str, object] | ControlError, capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[str]]:
    """Run doctor against an agent that answers so, or refuses; give the exit code and the checks it adds."""

    def cluster(arguments: Mapping[str, object]) -> Mapping[str, object]:
        if isinstance(answer, ControlError):
            raise answer
        return answer

    assert main(["doctor", "--socket", str(path), "-o", "json"]) == 0
    alone = len(json.loads(capsys.readouterr().out)["checks"])
    with answering(path, {"cluster": cluster}):
        code = main(["doctor", "--socket", str(path), "-o", "json"])
    return code, [check["name"] for check in json.loads(capsys.readouterr().out)["checks"]][alone:]


def test_an_agent_in_good_standing_adds_its_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    added = names(tmp_path / "s", CLUSTER.to_json(facts()), capsys)
    assert added == (0, ["API server", "rights", "node claim", "versions"])


def test_a_degraded_standing_is_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = names(tmp_path / "s", CLUSTER.to_json(facts(node_claim=None)), capsys)
    assert code == 1


def test_an_agent_without_a_cluster_adds_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert names(tmp_path / "s", Unable("this agent has no API server to ask"), capsys) == (0, [])
    assert main(["doctor", "--socket", "none"]) == 0


def test_an_agent_of_another_release_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert names(tmp_path / "s", {**CLUSTER.to_json(facts()), "version": 9}, capsys) == (1, ["agent"])


def test_an_agent_that_gives_no_answer_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert names(tmp_path / "s", ControlError("the answer takes too long"), capsys) == (1, ["agent"])


def test_an_agent_that_does_not_answer_in_time_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.cli.verbs.node.doctor._ASK_SECONDS", 0.1)
    path = tmp_path / "s"
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as silent:
        silent.bind(str(path))
        silent.listen()
        assert main(["doctor", "--socket", str(path)]) == 1
    told = capsys.readouterr().out
    assert f"agent at {path}: no answer to cluster within 0.1 s" in told
    assert "so:   how it stands in its cluster is not known" in told
