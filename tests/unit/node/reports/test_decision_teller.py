"""How a node tells what it decided: once, in order, over outages and restarts, and what went untold is counted."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent.core.resize.decision import Action, Outcome
from agent.core.resize.told_decisions import MAX_DECISIONS_A_POST
from agent.node.orders.journal import Journal
from agent.node.reports.client import WebhookAnswer, WebhookAway
from agent.node.reports.decision_teller import (
    AGAIN_SECONDS,
    LONGEST_AGAIN_SECONDS,
    LOOK_SECONDS,
    MORE_SECONDS,
    DecisionTeller,
    TellerOptions,
)
from agent.node.reports.patient_posts import REFUSED_SECONDS
from agent.node.reports.told_decisions_file import FILE_NAME, ToldDecisionsFile
from tests.plans import ref

NOW = 1_700_000_000.0


class Poster:
    """Answers as a test wants it; 0 = nobody answers."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.status = 200
        self.retry_after_seconds: float | None = None

    def post(self, path: str, text: str) -> WebhookAnswer:
        assert path == "/v1/decisions"
        if not self.status:
            raise WebhookAway("no answer")
        self.bodies.append(json.loads(text))
        return WebhookAnswer(
            status=self.status, body=b'{"taken": 1, "refused": []}', retry_after_seconds=self.retry_after_seconds
        )

    def close(self) -> None:
        """Nothing is open."""

    def taken(self) -> list[int]:
        """The sequence numbers that were posted, in order; they are forgotten here."""
        posted = [row["sequence"] for body in self.bodies for row in body["decisions"]]
        self.bodies.clear()
        return posted


class World:
    """A state directory, its decision log and who tells of it."""

    def __init__(self, folder: Path, *, most: int = 1000) -> None:
        self.folder, self.most, self.poster = folder, most, Poster()
        self.now = NOW
        self.begin()

    def begin(self) -> None:
        """The agent's start."""
        self.journal = Journal(self.folder / "decisions", most=self.most)
        self.teller = DecisionTeller(
            TellerOptions(node="node-a", agent="1.0"),
            journal=self.journal,
            poster=self.poster,  # type: ignore[arg-type]
            file=ToldDecisionsFile(self.folder / FILE_NAME),
            unix_now=lambda: self.now,
        )

    def end(self) -> None:
        self.teller.stop()
        self.journal.close()

    def decide(self, count: int = 1, *, name: str | None = None) -> None:
        for _ in range(count):
            number = self.journal.last_sequence + 1
            self.journal.add(
                unix_seconds=self.now,
                action=Action.RESIZE,
                outcome=Outcome.WITHHELD,
                reason="paused",
                pod=ref(name or f"pod-{number}"),
            )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_each_decision_is_told_once(world: World) -> None:
    world.decide(2)
    assert world.teller.turn() == LOOK_SECONDS
    assert world.poster.taken() == [1, 2]
    assert world.teller.turn() == LOOK_SECONDS
    assert world.poster.taken() == []
    world.decide()
    world.teller.turn()
    assert world.poster.taken() == [3]


def test_what_is_said_again_is_told_again_under_its_number(world: World) -> None:
    world.decide(name="web")
    world.teller.turn()
    world.poster.taken()
    world.decide(name="web")
    world.teller.turn()
    (body,) = world.poster.bodies
    assert [(row["sequence"], row["repeats"]) for row in body["decisions"]] == [(1, 2)]


def test_more_than_a_post_takes_follows_soon(world: World) -> None:
    world.decide(MAX_DECISIONS_A_POST + 3)
    assert world.teller.turn() == MORE_SECONDS
    assert world.teller.turn() == LOOK_SECONDS
    assert world.poster.taken() == list(range(1, MAX_DECISIONS_A_POST + 4))


def test_an_outage_is_waited_out_ever_longer_and_nothing_is_lost(world: World) -> None:
    world.decide()
    world.poster.status = 0
    waits = [world.teller.turn() for _ in range(7)]
    assert waits[:3] == [AGAIN_SECONDS, 2 * AGAIN_SECONDS, 4 * AGAIN_SECONDS]
    assert waits[-1] == LONGEST_AGAIN_SECONDS
    world.decide()
    world.poster.status = 200
    world.teller.turn()
    assert world.poster.taken() == [1, 2]
    world.poster.status, world.poster.retry_after_seconds = 503, 90.0
    world.decide()
    assert world.teller.turn() == 90.0


def test_a_webhook_that_knows_no_decisions_is_left_alone_and_told_later(world: World) -> None:
    world.decide()
    world.poster.status = 404
    assert world.teller.turn() == REFUSED_SECONDS
    world.poster.status = 200
    world.poster.bodies.clear()
    world.teller.turn()
    assert world.poster.taken() == [1]


def test_a_start_goes_on_where_the_last_one_ended(world: World) -> None:
    world.decide(2)
    world.teller.turn()
    world.poster.taken()
    first = world.teller
    world.decide()
    world.end()
    world.begin()
    assert world.teller is not first
    world.teller.turn()
    assert world.poster.taken() == [3]


def test_what_the_log_let_go_untold_is_counted(tmp_path: Path) -> None:
    world = World(tmp_path, most=10)
    world.decide(4)
    world.teller.turn()
    world.poster.taken()
    world.poster.status = 0
    world.decide(16)  # 5 to 20: the log holds 11 to 20, and 5 to 10 went
    world.teller.turn()
    world.poster.status = 200
    world.teller.turn()
    (body,) = world.poster.bodies
    assert body["dropped"] == 6
    assert world.poster.taken() == list(range(11, 21))
    world.decide()
    world.teller.turn()
    assert world.poster.bodies[0]["dropped"] == 6, "they are not counted twice"
    world.end()
    world.begin()
    world.decide()
    world.teller.turn()
    assert world.poster.bodies[-1]["dropped"] == 6, "a start does not forget them"


def test_what_the_webhook_cannot_read_counts_as_dropped(world: World) -> None:
    world.decide(2)
    world.poster.status = 400
    assert world.teller.turn() == LOOK_SECONDS
    world.poster.status = 200
    world.decide()
    world.poster.bodies.clear()
    world.teller.turn()
    assert world.poster.bodies[0]["dropped"] == 2


def test_a_log_that_begins_anew_is_another_log(world: World) -> None:
    world.decide(3)
    world.teller.turn()
    (before,) = world.poster.bodies
    world.end()
    for file in world.folder.glob("decisions*"):
        file.unlink()
    world.begin()
    world.poster.bodies.clear()
    world.decide()
    world.teller.turn()
    (after,) = world.poster.bodies
    assert after["incarnation"] != before["incarnation"]
    assert [row["sequence"] for row in after["decisions"]] == [1]


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_what_a_full_disk_does_not_take_is_told_when_it_does(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as full:
        full.setattr("agent.node.orders.journal._File.append", _full)
        world.decide(2)
        assert world.teller.turn() == LOOK_SECONDS
        assert world.poster.taken() == []
    world.journal.flush()
    world.teller.turn()
    assert world.poster.taken() == [1, 2]


def test_after_a_full_disk_and_a_restart_no_number_is_told_twice(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.decide(2)
    world.teller.turn()
    with monkeypatch.context() as full:
        full.setattr("agent.node.orders.journal._File.append", _full)
        full.setattr("agent.node.reports.told_decisions_file.replace_file", _full)
        world.decide(3)
        world.teller.turn()
    world.begin()  # kill -9: what was in memory only is gone, and its numbers are given again
    world.decide()
    world.teller.turn()
    incarnations = {body["incarnation"] for body in world.poster.bodies}
    assert (len(incarnations), world.poster.taken()) == (1, [1, 2, 3])


def test_what_was_told_outlives_a_power_cut(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    on_disk: dict[str, bytes] = {}

    def fsync(descriptor: int) -> None:
        file = Path(f"/proc/self/fd/{descriptor}").readlink()
        if file.is_file():
            on_disk[file.name] = file.read_bytes()

    monkeypatch.setattr(os, "fsync", fsync)
    world.decide(3)
    world.teller.turn()
    (before,) = world.poster.bodies
    (world.folder / "decisions").write_bytes(on_disk.get("decisions", b""))  # the kernel had written no more
    world.begin()
    world.poster.bodies.clear()
    world.decide()
    world.teller.turn()
    (after,) = world.poster.bodies
    assert after["incarnation"] == before["incarnation"]
    assert world.poster.taken() == [4]


@pytest.mark.parametrize("content", [b"", b"{", b'{"format": "told_decisions"}'])
def test_a_file_that_is_not_understood_is_another_log(world: World, content: bytes) -> None:
    world.end()
    (world.folder / FILE_NAME).write_bytes(content)
    world.begin()
    world.decide()
    world.teller.turn()
    assert world.poster.taken() == [1]


def test_ages_are_those_of_the_moment_of_sending(world: World) -> None:
    world.decide()
    world.now += 40
    world.teller.turn()
    assert world.poster.bodies[0]["decisions"][0]["ageSeconds"] == 40.0
