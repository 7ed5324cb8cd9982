from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.core.buffers.buffer import PROVISIONING, BufferStatus, Condition
from agent.core.buffers.placeholder_condition import provisioning_of
from agent.core.buffers.placeholders import RoomStanding
from tests.placeholders import BUFFER

NOW = 1_800_000_000.7


def standing(**fields: Any) -> RoomStanding:
    usual: dict[str, Any] = {
        "wanted": 3,
        "asked": 3,
        "ready": 3,
        "waiting": 0,
        "waiting_words": "",
        "starting": 0,
        "changing": 0,
    }
    return RoomStanding(**{**usual, **fields})


@pytest.mark.parametrize(
    ("fields", "status", "reason", "message"),
    [
        ({}, "True", "RoomKept", "3 of 3 placeholder pods keep their room"),
        (
            {"wanted": None, "asked": None},
            "False",
            "NotReadyForProvisioning",
            "the buffer is not ready for provisioning; the 3 placeholder pods that there are stay",
        ),
        (
            {"wanted": None, "asked": None, "ready": 0},
            "False",
            "NotReadyForProvisioning",
            "the buffer is not ready for provisioning",
        ),
        ({"wanted": 0, "asked": 0, "ready": 0}, "False", "BufferIsEmpty", "no chunk is asked for"),
        (
            {"wanted": 0, "asked": 3, "ready": 0},
            "False",
            "NothingRequested",
            "a chunk requests nothing, so there is no room to keep",
        ),
        (
            {"ready": 1, "refusal": "exceeded quota: q", "hold_until_unix_seconds": NOW},
            "False",
            "PlaceholdersRefused",
            "1 of 3 placeholder pods keep their room; 2 refused: exceeded quota: q",
        ),
        (
            {"ready": 1, "hold_until_unix_seconds": 1_800_000_030.5},
            "False",
            "PlaceholdersGaveWay",
            "1 of 3 placeholder pods keep their room; 2 gave way, made again at 08:00:30 UTC",
        ),
        (
            {"ready": 1, "waiting": 2, "waiting_words": "0/1 nodes are available: 1 Insufficient cpu."},
            "False",
            "PlaceholdersWaiting",
            "1 of 3 placeholder pods keep their room; 2 wait for a node: 0/1 nodes are available: 1 Insufficient cpu.",
        ),
        (
            {"ready": 2, "waiting": 1},
            "False",
            "PlaceholdersWaiting",
            "2 of 3 placeholder pods keep their room; 1 wait for a node",
        ),
        (
            {"ready": 0, "starting": 1, "changing": 1},
            "False",
            "PlaceholdersStarting",
            "0 of 3 placeholder pods keep their room; 1 to be made; 1 starting; 1 being resized or replaced",
        ),
        (
            {"asked": 800},
            "False",
            "TooManyReplicas",
            "3 of 3 placeholder pods keep their room; 800 are asked for, more than placeholders.mostPodsPerBuffer"
            " allows",
        ),
        ({"refusal": "long ago"}, "True", "RoomKept", "3 of 3 placeholder pods keep their room"),
    ],
)
def test_the_condition_says_how_the_room_is_kept(
    fields: dict[str, Any], status: str, reason: str, message: str
) -> None:
    condition = provisioning_of(BUFFER, standing(**fields), now_unix_seconds=NOW)
    assert (condition.type, condition.status, condition.reason, condition.message) == (
        PROVISIONING,
        status,
        reason,
        message,
    )
    assert (condition.observed_generation, condition.last_transition_unix_seconds) == (1, 1_800_000_000.0)


def test_a_pause_is_told_before_all_else() -> None:
    condition = provisioning_of(BUFFER, standing(), now_unix_seconds=NOW, pause_reason="upgrade until noon")
    assert (condition.status, condition.reason) == ("False", "Paused")
    assert condition.message == "paused: upgrade until noon; the 3 placeholder pods that there are stay"


def test_a_long_refusal_is_cut() -> None:
    condition = provisioning_of(BUFFER, standing(ready=2, refusal="x" * 1000), now_unix_seconds=NOW)
    assert condition.message.endswith("x...")
    assert len(condition.message) < 400


def test_the_time_of_change_moves_with_the_status_alone() -> None:
    def after(status: str) -> float | None:
        before = Condition(type=PROVISIONING, status=status, reason="RoomKept", last_transition_unix_seconds=5.0)
        buffer = replace(BUFFER, status=BufferStatus(conditions=(before,)))
        return provisioning_of(buffer, standing(), now_unix_seconds=NOW).last_transition_unix_seconds

    assert after("True") == 5.0
    assert after("False") == 1_800_000_000.0
