from __future__ import annotations

from typing import Any

from agent.core.resize.decision import Action, Decision, Outcome, newest_outcomes
from tests.plans import change, decision, ref

WHY = "it is short now"


def entry(sequence: int, outcome: Outcome, reason: str = WHY, seconds: float | None = None, **fields: Any) -> Decision:
    return decision(sequence, 1000.0 - sequence, outcome=outcome, reason=reason, seconds=seconds, **fields)


def told(*oldest_first: Decision) -> list[tuple[int, str, str]]:
    """Sequence, outcome and reason, newest first."""
    return [(record.sequence, record.outcome, record.reason) for record in newest_outcomes(oldest_first[::-1])]


def test_newest_outcome_stands_with_the_reason_of_the_first() -> None:
    sent, late = entry(1, Outcome.ACCEPTED), entry(2, Outcome.DEFERRED, "deferred", 2.0, detail="no room")
    done = entry(3, Outcome.APPLIED, "applied", 61.0)
    assert told(sent, late) == [(2, "deferred", WHY)]
    (record,) = newest_outcomes((done, late, sent))
    assert (record.sequence, record.outcome, record.reason, record.seconds) == (3, "applied", WHY, 61.0)
    assert record.unix_seconds == done.unix_seconds


def test_newest_outcome_takes_its_place_in_time() -> None:
    other = entry(2, Outcome.DONE, "asked for", action=Action.PIN, changes=())
    assert told(entry(1, Outcome.ACCEPTED), other) == [(2, "done", "asked for"), (1, "accepted", WHY)]
    done = entry(3, Outcome.APPLIED, "applied", 1.0)
    assert told(entry(1, Outcome.ACCEPTED), other, done) == [(3, "applied", WHY), (2, "done", "asked for")]


def test_resizes_of_other_pods_actions_and_amounts_are_told_apart() -> None:
    others: tuple[dict[str, Any], ...] = (
        {"pod": ref("api")},
        {"action": Action.REVERT},
        {"changes": (change(500, 300),)},
    )
    for other in others:
        log = (entry(1, Outcome.ACCEPTED), entry(2, Outcome.APPLIED, "applied", 1.0, **other))
        assert told(*log) == [(2, "applied", "applied"), (1, "accepted", WHY)]


def test_the_same_again_is_another_resize() -> None:
    log = (
        entry(1, Outcome.ACCEPTED, "first"),
        entry(2, Outcome.APPLIED, "applied", 1.0),
        entry(3, Outcome.ACCEPTED, "second"),
        entry(4, Outcome.APPLIED, "applied", 1.0),
    )
    assert told(*log) == [(4, "applied", "second"), (2, "applied", "first")]


def test_what_was_put_on_top_of_a_resize_is_one_entry_with_it_once_both_came_to_their_end() -> None:
    cpu, memory = change(500, 600), change(100, 200, container="sidecar")
    below, top = entry(1, Outcome.ACCEPTED, "first", changes=(cpu,)), entry(2, Outcome.ACCEPTED, changes=(memory,))
    assert told(below, top) == [(2, "accepted", WHY), (1, "accepted", "first")]
    late = entry(3, Outcome.DEFERRED, "deferred", 1.0, changes=(cpu, memory))
    assert told(below, top, late) == [(3, "deferred", WHY)]
    done = entry(4, Outcome.APPLIED, "applied", 2.0, changes=(cpu, memory))
    assert told(below, top, late, done) == [(4, "applied", WHY)]
    other = entry(0, Outcome.ACCEPTED, "of another pod", changes=(cpu,), pod=ref("api"))
    assert told(other, below, top, done) == [(4, "applied", WHY), (0, "accepted", "of another pod")]
    assert told(below, top, entry(3, Outcome.APPLIED, "applied", 1.0, changes=(cpu,))) == [
        (3, "applied", "first"),
        (2, "accepted", WHY),
    ]


def test_a_revert_that_was_taken_goes_on_too() -> None:
    log = (entry(1, Outcome.REVERTED, action=Action.REVERT), entry(2, Outcome.APPLIED, "x", 1.0, action=Action.REVERT))
    assert told(*log) == [(2, "applied", WHY)]


def test_why_it_was_not_done_stands_before_why_it_was_made() -> None:
    assert told(entry(1, Outcome.ACCEPTED), entry(2, Outcome.WITHHELD, "withdrawn", 300.0)) == [
        (2, "withheld", "withdrawn")
    ]


def test_after_no_answer_what_came_of_it_is_told_with_its_own_reason() -> None:
    assert told(entry(1, Outcome.ERROR, "unknown"), entry(2, Outcome.ACCEPTED, "seen_in_pod", 9.0)) == [
        (2, "accepted", "seen_in_pod")
    ]


def test_what_was_never_sent_has_no_end_and_what_has_no_beginning_stands() -> None:
    cool_down, done = entry(1, Outcome.WITHHELD, "cool_down"), entry(2, Outcome.APPLIED, "applied", 1.0)
    assert told(cool_down, done) == [(2, "applied", "applied"), (1, "withheld", "cool_down")]
    assert told(done) == [(2, "applied", "applied")]


def test_the_node_is_no_resize() -> None:
    waits = entry(1, Outcome.WITHHELD, "paused", pod=None, changes=())
    assert told(waits) == [(1, "withheld", "paused")]
