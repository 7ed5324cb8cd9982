"""How long an agent is waited for that has just begun; tests/chart has the rest on a real API server."""

from __future__ import annotations

import time

import pytest

from agent.cli.client import retire as retire_restoring
from agent.cli.client.retire import BEGINNING_SECONDS, PAUSES_SECONDS, AgentPod, ClusterRestore
from agent.kube.client.credentials import Credentials
from agent.kube.client.pod_exec import CommandEnd
from tests.fake_api import FakeApi

AGENT = AgentPod(name="agent-x", uid="u", node="node-a", has_ended=False, is_ending=False, is_unready=False)


@pytest.mark.parametrize(
    ("codes", "is_done"),
    [
        ([2] * (len(PAUSES_SECONDS) + 2) + [0], True),
        ([2] * 99, False),
    ],
    ids=["slow to begin", "never ready"],
)
def test_an_agent_that_has_just_begun_is_waited_for_within_bounds(
    monkeypatch: pytest.MonkeyPatch, codes: list[int], is_done: bool
) -> None:
    left = list(codes)
    paused: list[float] = []
    monkeypatch.setattr(retire_restoring, "agents_of", lambda *_: [AGENT])
    monkeypatch.setattr(
        retire_restoring, "execute", lambda *_, **__: CommandEnd(output="", code=left.pop(0), fault=None)
    )
    monkeypatch.setattr(time, "sleep", paused.append)
    restoring = ClusterRestore(
        FakeApi(lambda _: {}), Credentials(server="", origin=""), "plimsoll", time.monotonic() + 1e6
    )
    restoring.run()
    assert restoring.has_failed is not is_done
    assert len(codes) - len(left) == (len(codes) if is_done else len(PAUSES_SECONDS) + len(BEGINNING_SECONDS) + 1)
    assert paused == [*PAUSES_SECONDS, *BEGINNING_SECONDS][: len(codes) - len(left) - 1]


def test_one_that_cannot_be_reached_is_not_waited_for_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def broken(*_: object, **__: object) -> CommandEnd:
        asked.append(1)
        return CommandEnd(output="", code=None, fault="cut off")

    monkeypatch.setattr(retire_restoring, "agents_of", lambda *_: [AGENT])
    monkeypatch.setattr(retire_restoring, "execute", broken)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    restoring = ClusterRestore(
        FakeApi(lambda _: {}), Credentials(server="", origin=""), "plimsoll", time.monotonic() + 1e6
    )
    restoring.run()
    assert len(asked) == len(PAUSES_SECONDS) + 1
    assert restoring.unreached == (AGENT,)
