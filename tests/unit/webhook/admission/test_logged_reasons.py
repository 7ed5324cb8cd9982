"""Which reasons are logged, and when again."""

from __future__ import annotations

from agent.webhook.admission.logged_reasons import AGAIN_SECONDS, MOST_REASONS, LoggedReasons


def test_each_is_due_once_an_hour() -> None:
    now = [50.0]
    reasons = LoggedReasons(lambda: now[0])
    assert reasons.is_due("a")
    assert not reasons.is_due("a")
    now[0] += AGAIN_SECONDS - 1.0
    assert reasons.is_due("b")
    assert not reasons.is_due("a")
    now[0] += 1.0
    assert reasons.is_due("a")
    assert not reasons.is_due("b")


def test_no_more_are_due_than_the_log_has_room_for_and_each_makes_room_when_its_hour_is_over() -> None:
    now = [0.0]
    reasons = LoggedReasons(lambda: now[0])
    assert all(reasons.is_due(f"reason {number}") for number in range(MOST_REASONS))
    assert not reasons.is_due("one more")
    now[0] += AGAIN_SECONDS
    assert reasons.is_due("one more")


def test_a_clock_that_is_set_back_silences_nothing() -> None:
    now = [1e9]
    reasons = LoggedReasons(lambda: now[0])
    assert reasons.is_due("a")
    now[0] -= 2 * AGAIN_SECONDS
    assert reasons.is_due("a")
