"""What the webhook told, taken, kept and read back."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agent.core.history.reports.directive import Directives
from agent.core.history.reports.directive_json import directives_to_json
from agent.core.plan.needs.directives import STALE_SECONDS
from agent.node.reports.directives_file import CONFIRMED_KEPT_SECONDS, Directions
from tests.directives import WEB, directive

NOW = 1_700_000_000.0
VPA = "VerticalPodAutoscaler shop/web"


def answer(*workloads: Any, etag: str | None = "one", pause: str | None = None) -> dict[str, Any]:
    """An answer that tells everything anew."""
    directives = Directives(etag="", pause_reason=pause, workloads=workloads)
    return {"schema": 1, "taken": 3, "refused": [], "etag": etag, "directives": directives_to_json(directives)}


def same(etag: str | None = "one") -> dict[str, Any]:
    """An answer that tells nothing new."""
    return {"schema": 1, "taken": 3, "etag": etag, "directives": None}


@dataclass
class Room:
    path: Path | None
    now: float = NOW
    changes: list[str | None] = field(default_factory=list)

    def open(self, *, is_expected: bool = True) -> Directions:
        directions = Directions(self.path, is_expected=is_expected, now=lambda: self.now)
        directions.changed = lambda: self.changes.append(directions.etag)
        return directions


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path / "directives")


def test_nothing_is_held_before_the_first_answer(room: Room) -> None:
    directions = room.open()
    assert directions.is_awaited
    assert (directions.etag, directions.now().directives, directions.pause_reason()) == (None, None, None)
    assert "has told nothing yet" in directions.notes()[0]


def test_an_answer_holds_at_once_and_over_a_restart_with_its_age(room: Room) -> None:
    room.open().take(answer(directive(left_alone_for=VPA, stop_shrinking_seconds=900.0), pause="upgrade"))
    room.now += 600.0
    again = room.open()
    directives = again.now()
    assert (again.etag, again.is_awaited, again.notes(), again.pause_reason()) == ("one", False, (), "upgrade")
    assert (directives.age_seconds, directives.told_seconds) == (600.0, 600.0)
    assert directives.by_workload[WEB].left_alone_for == VPA
    assert directives.shrink_barred_seconds(WEB) == 300.0
    assert room.changes == ["one"]


def test_that_nothing_changed_is_an_answer_of_its_own(room: Room) -> None:
    directions = room.open()
    directions.take(answer(directive(stop_shrinking_seconds=3000.0)))
    room.now += 700.0
    directions.take(same())
    directives = directions.now()
    assert (directives.age_seconds, directives.told_seconds) == (0.0, 700.0)
    assert directives.shrink_barred_seconds(WEB) == 2300.0
    assert room.changes == ["one"]  # nobody need plan anew


def test_a_confirmation_is_written_now_and_then(room: Room) -> None:
    directions = room.open()
    directions.take(answer())
    for seconds in (CONFIRMED_KEPT_SECONDS - 1, CONFIRMED_KEPT_SECONDS):
        room.now = NOW + seconds
        directions.take(same())
        expected = seconds if seconds < CONFIRMED_KEPT_SECONDS else 0.0
        assert room.open().now().age_seconds == expected


@pytest.mark.parametrize("etag", ["two", "", None])
def test_nothing_told_under_another_etag_confirms_nothing(room: Room, etag: str | None) -> None:
    directions = room.open()
    directions.take(same(etag))  # a webhook that has not read the cluster yet
    assert directions.is_awaited
    directions.take(answer(directive(left_alone_for=VPA)))
    room.now += 60.0
    directions.take(same(etag))
    assert directions.now().age_seconds == 60.0
    assert directions.now().by_workload[WEB].left_alone_for == VPA


def test_new_directives_replace_the_old_as_a_whole(room: Room) -> None:
    directions = room.open()
    directions.take(answer(directive(left_alone_for=VPA), pause="upgrade"))
    directions.take(answer(etag="two"))
    for copy in (directions, room.open()):
        assert (copy.etag, copy.pause_reason(), copy.now().by_workload) == ("two", None, {})
    assert room.changes == ["one", "two"]


@pytest.mark.parametrize(
    "bad",
    [
        None,
        [],
        "directives",
        {"etag": 3, "directives": None},
        {"etag": "x", "directives": []},
        {"etag": None, "directives": {}},
        {"etag": "x", "directives": {"workloads": {}}},
        "https://webhook answered with more than is read",
    ],
)
def test_an_answer_that_is_not_understood_changes_nothing_and_is_said_once(
    room: Room, bad: object, caplog: pytest.LogCaptureFixture
) -> None:
    directions = room.open()
    directions.take(answer(directive(left_alone_for=VPA)))
    with caplog.at_level(logging.WARNING):
        directions.take(bad)
        directions.take(bad)
    assert len(caplog.records) == 1
    assert directions.now().by_workload[WEB].left_alone_for == VPA
    assert "not understood, what was told before holds" in directions.notes()[0]
    directions.take(same())
    assert directions.notes() == ()


def test_a_pause_holds_although_the_rest_of_the_answer_is_not_understood(room: Room) -> None:
    directions = room.open()
    bad = {"etag": "x", "directives": {"pauseReason": "upgrade", "workloads": {}}}
    directions.take(bad)
    assert directions.is_awaited  # nothing is written before the first answer anyway
    directions.take(answer(directive(left_alone_for=VPA)))
    directions.take(bad)
    assert (directions.pause_reason(), directions.etag) == ("upgrade", "one")
    assert directions.now().by_workload[WEB].left_alone_for == VPA
    assert room.changes == ["one", "one"]


def test_what_cannot_be_read_is_left_out_and_told_and_no_restraint_is_lost_by_it(room: Room) -> None:
    directions = room.open()
    directions.take(answer(directive(left_alone_for=VPA)))
    api = {"namespace": "shop", "kind": "Deployment", "name": "api", "cpuFrozenFor": "HorizontalPodAutoscaler shop/api"}
    directions.take({"etag": "two", "directives": {"workloads": [{"namespace": "shop"}, api]}})
    by_workload = directions.now().by_workload
    assert by_workload[WEB].left_alone_for == VPA
    assert by_workload[replace(WEB, name="api")].cpu_frozen_for == api["cpuFrozenFor"]
    assert directions.notes() == ("directives: 1 values were too many or not understood and are left out",)
    directions.take(answer(etag="three"))
    assert (directions.now().by_workload, directions.notes()) == ({}, ())


def test_old_directives_hold_and_say_so(room: Room) -> None:
    directions = room.open()
    directions.take(answer(directive(left_alone_for=VPA)))
    room.now += STALE_SECONDS + 1
    (note,) = directions.notes()
    assert note.startswith("the webhook has told nothing for 24 h")
    assert directions.now().by_workload[WEB].left_alone_for == VPA


def test_a_clock_that_went_back_makes_no_age_negative(room: Room) -> None:
    directions = room.open()
    directions.take(answer())
    room.now -= 1e6
    assert (directions.now().age_seconds, directions.now().told_seconds) == (0.0, 0.0)


def spoil(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text, encoding="utf-8")


def edit(**fields: Any) -> Callable[[Path], object]:
    return lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), **fields}), encoding="utf-8")


@pytest.mark.parametrize(
    "damage",
    [
        spoil(""),
        spoil("{"),
        spoil("[]"),
        spoil("[" * 100_000),
        edit(version=2),
        edit(format="plimsoll-holds"),
        edit(toldUnixSeconds=None),
        edit(confirmedUnixSeconds=-1),
        edit(confirmedUnixSeconds=True),
        edit(directives=None),
        edit(etag=None),
        edit(directives={"workloads": 3}),
    ],
)
def test_a_damaged_file_is_as_if_nothing_had_been_told_and_the_next_answer_mends_it(
    room: Room, damage: Callable[[Path], object]
) -> None:
    room.open().take(answer(directive(left_alone_for=VPA)))
    assert room.path is not None
    damage(room.path)
    directions = room.open()
    assert directions.is_awaited
    assert "is not read" in directions.notes()[1]
    directions.take(answer(directive(left_alone_for=VPA)))
    assert directions.notes() == ()
    assert not room.open().is_awaited


def test_a_disk_that_refuses_is_told_and_tried_again(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    assert room.path is not None
    blocked = room.path.with_name("directives.new")
    blocked.mkdir()
    directions = room.open()
    with caplog.at_level(logging.WARNING):
        directions.take(answer(directive(left_alone_for=VPA)))
        directions.take(same())
    assert len(caplog.records) == 1
    assert directions.now().by_workload[WEB].left_alone_for == VPA  # in force all the same
    assert "a restart forgets them" in directions.notes()[0]
    blocked.rmdir()
    directions.take(same())
    assert directions.notes() == ()
    assert not room.open().is_awaited


def test_without_a_state_directory_memory_is_all(room: Room) -> None:
    room.path = None
    directions = room.open()
    directions.take(answer(directive(left_alone_for=VPA)))
    assert directions.notes() == ()
    assert room.open().is_awaited


def test_an_agent_without_a_webhook_does_not_look_at_what_an_earlier_one_left(room: Room) -> None:
    room.open().take(answer(directive(left_alone_for=VPA), pause="upgrade"))
    without = room.open(is_expected=False)
    assert (without.is_awaited, without.notes(), without.pause_reason()) == (False, (), None)
    assert without.now().by_workload == {}


def test_only_its_owner_may_read_the_file(room: Room) -> None:
    room.open().take(answer())
    assert room.path is not None
    assert room.path.stat().st_mode & 0o777 == 0o600
