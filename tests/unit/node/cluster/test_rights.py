"""May this agent write? Asked of a server that is a function; the real one is asked in tests/cluster."""

from __future__ import annotations

import pytest

from agent.kube.client.own_rights import Purpose
from agent.node.cluster.rights import ASK_AGAIN_SECONDS, ASK_MISSING_SECONDS, ASK_UNREACHABLE_SECONDS, Rights
from tests.turns import NODE, Server

RESIZE = "not allowed: patch pods/resize: without it nothing is resized"
EVENTS = "not allowed: create events (events.k8s.io): without it no Kubernetes Events tell of resizes"
TAINT = "not allowed: patch nodes: without it an overloaded node is not tainted"


class Room:
    def __init__(self, *, needs_claim: bool = True, unused: frozenset[Purpose] = frozenset()) -> None:
        self.server = Server()
        self.told: list[str] = []
        self.rights = Rights(self.server, node=NODE, needs_claim=needs_claim, unused=unused, tell=self.told.append)
        self.now = 1000.0

    def is_known(self) -> bool:
        return self.rights.is_known

    def ask(self, after: float = 0.0) -> int:
        """Ask where it is time to; give the number of calls."""
        self.now += after
        before = len(self.server.calls)
        self.rights.ask(self.now)
        return len(self.server.calls) - before


def test_nothing_is_allowed_before_the_server_has_answered() -> None:
    room = Room()
    assert not room.is_known()
    assert room.rights.standing is None
    assert room.rights.faults() == ("the API server has not said yet what this agent may do",)
    assert not any(room.rights.may(purpose) for purpose in Purpose)
    room.server.is_away = True
    assert room.ask() == 1
    assert not room.is_known()
    assert room.ask(after=ASK_UNREACHABLE_SECONDS - 0.1) == 0
    room.server.is_away = False
    assert room.ask(after=0.1) > 1
    assert room.is_known()
    assert room.rights.faults() == ()
    assert all(room.rights.may(purpose) for purpose in Purpose)
    assert room.told == []


def test_what_is_missing_is_named_one_by_one_and_once() -> None:
    room = Room()
    room.server.missing = {"patch pods/resize", "create events", "patch nodes"}
    room.ask()
    assert room.told == [RESIZE, TAINT, EVENTS]
    assert room.rights.faults() == (RESIZE,)  # the others stand in nobody's way
    assert not room.rights.may(Purpose.RESIZE)
    assert not room.rights.may(Purpose.EVENTS)
    assert room.rights.may(Purpose.WATCH)
    room.ask(after=ASK_MISSING_SECONDS)
    assert len(room.told) == 3
    room.server.missing = {"create events"}
    room.ask(after=ASK_MISSING_SECONDS)
    assert room.told[3:] == [EVENTS]  # something else is missing than before
    assert room.rights.faults() == ()
    room.server.missing.clear()
    room.ask(after=ASK_MISSING_SECONDS)
    room.server.missing = {"create events"}
    room.ask(after=ASK_AGAIN_SECONDS)
    assert room.told[4:] == [EVENTS]


def test_asked_again_now_and_then_sooner_while_something_is_missing_and_at_once_when_told() -> None:
    room = Room()
    calls = room.ask()
    assert room.ask(after=ASK_AGAIN_SECONDS - 1.0) == 0
    assert room.ask(after=1.0) == calls
    room.server.missing = {"patch pods/resize"}
    room.rights.ask_soon()
    assert room.ask() == calls
    assert room.ask(after=ASK_MISSING_SECONDS - 1.0) == 0
    assert room.ask(after=1.0) == calls


def test_server_that_goes_away_leaves_what_it_said_last() -> None:
    room = Room()
    room.ask()
    room.server.is_away = True
    room.ask(after=ASK_AGAIN_SECONDS)
    assert room.rights.faults() == ()
    assert room.ask(after=ASK_UNREACHABLE_SECONDS) == 1


@pytest.mark.parametrize(
    ("claim", "needs_claim", "words"),
    [
        (None, True, "the agent's token names no node, so nothing is written"),
        (None, False, None),
        (NODE, True, None),
        ("other", True, "the agent's token is of node other, but it is told to be on worker-7"),
        ("other", False, "the agent's token is of node other, but it is told to be on worker-7"),
    ],
)
def test_token_of_another_node_or_of_none(claim: str | None, needs_claim: bool, words: str | None) -> None:
    room = Room(needs_claim=needs_claim)
    room.server.claim = claim
    room.ask()
    assert room.rights.standing is not None
    assert room.rights.standing.claim == claim
    if words is None:
        assert room.rights.faults() == tuple(room.told) == ()
    else:
        [fault] = room.rights.faults()
        assert fault.startswith(words)
        assert room.told == [fault]
        assert room.ask(after=ASK_MISSING_SECONDS) > 0


def test_what_the_agent_is_not_to_do_is_not_asked_for() -> None:
    room = Room(unused=frozenset({Purpose.TAINT, Purpose.EVENTS}))
    room.server.missing = {"create events", "patch nodes", "get nodes"}
    room.ask()
    assert room.told == []
    resources = [
        body["spec"]["resourceAttributes"]["resource"]
        for body in (call.body for call in room.server.calls)
        if "spec" in body
    ]
    assert "events" not in resources
    assert resources.count("nodes") == 2  # list and watch
