"""What the acting thread tells: evictions proposed, faults of annotations, old kubelets; once, and to whom it may."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.core.resize.event_rate import EventReason
from tests.turns import Turns, two_pods


def crowded() -> Turns:
    """Two pods that need more than the node has."""
    turns = two_pods()
    turns.need("a", cpu=3000, memory=256)
    turns.need("b", cpu=3500, memory=256)
    return turns


def test_eviction_is_proposed_once_and_again_after_ten_minutes_and_never_carried_out() -> None:
    turns = crowded()
    for _ in range(3):
        turns.turn(after=1.0)
    assert turns.figure("evictions_proposed_total", resource="cpu") == 1
    proposed = [entry for entry in turns.journal.newest() if entry.action == "eviction"]
    assert [(entry.outcome, entry.repeats) for entry in proposed] == [("proposed", 1)]
    assert [event[1] for event in turns.server.events].count(EventReason.EVICTION_PROPOSED) == 1
    turns.turn(after=600.0)
    assert turns.figure("evictions_proposed_total", resource="cpu") == 2
    crowd = dict(turns.recommended)
    turns.need("a", cpu=500)
    turns.need("b", cpu=500)
    turns.turn(after=1.0)
    turns.recommended = crowd
    turns.turn(after=1.0)
    assert turns.figure("evictions_proposed_total", resource="cpu") == 3  # it was settled, and came back
    assert not [call for call in turns.server.calls if "eviction" in call.path]


def test_eviction_proposed_behind_a_barrier_is_logged_and_no_event() -> None:
    turns = crowded()
    turns.has_history = False
    turns.turn()
    assert turns.figure("evictions_proposed_total", resource="cpu") == 1
    assert turns.server.writes == []


def test_fault_of_an_annotation_is_told_once_for_each_wording() -> None:
    turns = two_pods()
    turns.server.order("a", mode="loud")
    for _ in range(3):
        turns.turn(after=61.0)
    assert turns.server.writes.count("event") == 1
    faults = [entry for entry in turns.journal.newest() if entry.reason == "faulty_annotation"]
    assert [(entry.pod, entry.repeats) for entry in faults] == [(turns.ref("a"), 1)]
    assert turns.figure("annotation_faults") == 1
    turns.server.order("a", mode="louder")
    turns.turn(after=1.0)
    notes = [note for name, reason, note in turns.server.events if reason == EventReason.ANNOTATION_NOT_UNDERSTOOD]
    assert ["'loud'" in notes[0], "'louder'" in notes[1], len(notes)] == [True, True, 2]
    turns.server.order("a")
    turns.turn(after=1.0)
    assert turns.figure("annotation_faults") == 0
    turns.server.order("a", mode="loud")
    turns.turn(after=1.0)
    faults = [entry for entry in turns.journal.newest() if entry.reason == "faulty_annotation"]
    assert [entry.repeats for entry in faults] == [2, 1]  # it came back


def test_fault_in_an_excluded_namespace_is_put_down_and_no_event_is_tried() -> None:
    turns = two_pods()
    turns.server.pods["a"]["metadata"]["namespace"] = "kube-system"
    turns.server.order("a", mode="loud")
    turns.server.order("b", policy="none such")
    turns.server.add("c", cpu=500)  # somebody whom it may act on: else no owner is told of anything
    turns.turn(after=61.0)
    faulty = [entry.pod for entry in turns.journal.newest() if entry.reason == "faulty_annotation"]
    assert {ref.namespace for ref in faulty if ref is not None} == {"kube-system", "shop"}
    assert [name for name, reason, _ in turns.server.events if reason == EventReason.ANNOTATION_NOT_UNDERSTOOD] == ["b"]


def test_an_annotation_that_nobody_knows_is_told_once_for_each_wording() -> None:
    turns = two_pods()

    def told() -> list[tuple[str, int]]:
        notices = [entry for entry in turns.journal.newest() if entry.reason == "unknown_annotation"]
        assert all(
            (entry.action, entry.outcome, entry.pod) == ("notice", "withheld", turns.ref("a")) for entry in notices
        )
        return [(entry.detail, entry.repeats) for entry in notices]

    turns.server.order("a", mod="off")
    for _ in range(3):
        turns.turn(after=61.0)
    assert told() == [("plimsoll.dev/mod: not known, passed over", 1)]
    assert turns.server.cpu("a") == "200m", "a slip turns nothing off"
    assert turns.figure("annotation_faults") == 0
    assert "event" not in turns.server.writes
    turns.server.order("a", mod="off", polcy="vpa")
    turns.turn(after=1.0)
    assert told()[0] == ("plimsoll.dev/mod, plimsoll.dev/polcy: not known, passed over", 1)
    turns.server.order("a")
    turns.turn(after=1.0)
    turns.server.order("a", mod="off")
    turns.turn(after=1.0)
    assert told()[0] == ("plimsoll.dev/mod: not known, passed over", 2)  # it came back


def test_many_annotations_that_nobody_knows_are_told_in_part(caplog: pytest.LogCaptureFixture) -> None:
    turns = two_pods()
    turns.server.order("a", **{f"slip{number:04}": "off" for number in range(1000)})
    turns.turn(after=61.0)
    (notice,) = (entry for entry in turns.journal.newest() if entry.reason == "unknown_annotation")
    assert notice.detail.startswith("plimsoll.dev/slip0000, plimsoll.dev/slip0001, ")
    assert notice.detail.endswith(": not known, passed over")
    (line,) = (record for record in caplog.records if record.getMessage() == "annotation not known")
    assert len(notice.detail) < len(str(vars(line)["keys"])) + 30 < 500


def test_what_an_old_kubelet_cannot_do_is_told_once() -> None:
    turns = two_pods()
    assert turns.node is not None
    turns.node = replace(turns.node, kubelet_version="v1.35.2")
    for _ in range(3):
        turns.turn(after=1.0)
    notices = [entry for entry in turns.journal.newest() if entry.reason == "versions"]
    assert all((entry.action, entry.repeats) == ("notice", 1) for entry in notices)
    assert any("v1.35.2" in entry.detail for entry in notices)


def test_owner_of_what_happened_during_a_pause_is_told_after_it() -> None:
    turns = two_pods()
    turns.turn()
    turns.holds.pause(None, now_unix_seconds=turns.wall)
    turns.server.actuate("a")
    turns.turn(after=1.0)
    assert "event" not in turns.server.writes
    turns.holds.resume(now_unix_seconds=turns.wall)
    turns.turn(after=1.0)
    assert turns.server.events == [("a", "Resized", "app: cpu 500m -> 200m")]


def test_without_events_nobody_is_told() -> None:
    turns = two_pods(has_events=False)
    turns.turn()
    turns.server.actuate("a")
    turns.turn(after=1.0)
    assert "event" not in turns.server.writes
