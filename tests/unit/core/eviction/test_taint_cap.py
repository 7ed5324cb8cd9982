"""How many nodes may carry the overload taint, and the question and its answer on the wire."""

from __future__ import annotations

import json

import pytest

from agent.core.eviction.options import ArbiterOptions
from agent.core.eviction.taint_cap import (
    TaintAnswer,
    TaintReason,
    cap_ruling,
    most_tainted,
    taint_answer_of,
    taint_text,
)

TENTH = ArbiterOptions(tainted_nodes_ratio=0.1)


@pytest.mark.parametrize(("nodes", "most"), [(0, 0), (1, 1), (9, 1), (10, 1), (19, 1), (20, 2), (5000, 500)])
def test_the_share_is_rounded_down_and_at_least_one(nodes: int, most: int) -> None:
    assert most_tainted(nodes, TENTH) == most


def test_a_share_of_nothing_is_nothing() -> None:
    assert most_tainted(5000, ArbiterOptions(tainted_nodes_ratio=0.0)) == 0


def test_who_is_tainted_and_who_is_about_to_be_fill_the_places() -> None:
    free = cap_ruling("c", nodes=20, tainted={"a"}, granted={"a"}, options=TENTH)
    full = cap_ruling("c", nodes=20, tainted={"a"}, granted={"b"}, options=TENTH)
    assert (free.reason, free.is_granted) == (TaintReason.GRANTED, True)
    assert (full.reason, full.is_granted) == (TaintReason.CAP, False)
    assert full.detail == "2 of 20 nodes are tainted or about to be, at most 2 may (arbiter.taintedNodesRatio)"


def test_who_holds_a_place_does_not_stand_in_its_own_way() -> None:
    assert cap_ruling("b", nodes=20, tainted={"a"}, granted={"b"}, options=TENTH).is_granted
    # Tainted beyond the cap (it was lower before): what is there is the node's own to take away.
    assert cap_ruling("a", nodes=10, tainted={"a", "b", "c"}, granted=(), options=TENTH).is_granted


def test_the_question_names_the_node() -> None:
    assert json.loads(taint_text("node-a")) == {"schema": 1, "node": "node-a"}


def answer(**changed: object) -> bytes:
    return json.dumps({"granted": True, "reason": "granted", "detail": "a\nb", "seconds": 120, **changed}).encode()


def test_an_answer_is_read_on_one_line() -> None:
    assert taint_answer_of(answer()) == TaintAnswer(is_granted=True, reason="granted", detail="a b", seconds=120.0)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        answer(granted="yes"),
        answer(granted=1),
        answer(reason=None),
        answer(detail=4),
        answer(seconds=True),
        answer(seconds="120"),
        answer(seconds=-1),
        answer(seconds=1e9),
        answer(seconds=float("nan")),
    ],
)
def test_what_is_no_answer_grants_nothing(text: bytes) -> None:
    assert taint_answer_of(text) is None
