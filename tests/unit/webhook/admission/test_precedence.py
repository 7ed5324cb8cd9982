"""Who gives way to reviews, and for how long."""

from __future__ import annotations

import threading

import pytest

from agent.webhook.admission.precedence import (
    BREATH_SECONDS,
    MOST_BREATHS,
    MOST_REST_SECONDS,
    PIECE_BREATHS,
    REST_RATIO,
    Precedence,
)


def test_who_gives_way_waits_while_a_review_is_under_way_and_not_for_ever() -> None:
    slept: list[float] = []
    precedence = Precedence(slept.append, worked_seconds=float)
    precedence.give_way()
    assert slept == []

    def review(body: bytes) -> bytes:
        precedence.give_way()
        return body[::-1]

    assert precedence.first(review)(b"ab") == b"ba"
    assert slept == [BREATH_SECONDS] * MOST_BREATHS
    precedence.give_way()
    assert len(slept) == MOST_BREATHS


def test_a_turn_begins_when_no_review_is_under_way_and_is_one_thread_s_until_it_ends() -> None:
    slept: list[float] = []
    precedence = Precedence(slept.append, worked_seconds=float)
    order: list[str] = []

    def review() -> None:
        with precedence.turn:
            order.append("a turn that waited long enough")

    def other() -> None:
        with precedence.turn:
            order.append("the next turn")

    with precedence.turn:
        assert slept == []
    precedence.first(review)()
    assert slept == [BREATH_SECONDS] * MOST_BREATHS
    with precedence.turn:
        waiting = threading.Thread(target=other)
        waiting.start()
        waiting.join(0.01)  # it may be anywhere before the turn
        order.append("the turn that was first")
    waiting.join()
    assert order == ["a turn that waited long enough", "the turn that was first", "the next turn"]


def test_a_turn_that_could_not_begin_is_nobody_s() -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    precedence = Precedence(interrupted, worked_seconds=float)

    def review() -> None:
        with pytest.raises(KeyboardInterrupt), precedence.turn:
            raise AssertionError("the turn began")

    precedence.first(review)()
    with precedence.turn:
        pass


def test_who_gives_way_waits_while_the_loop_is_at_work() -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        precedence.loop_works(len(slept) < 3)

    precedence = Precedence(sleep, worked_seconds=float)
    precedence.loop_works(True)
    precedence.give_way()
    assert slept == [BREATH_SECONDS] * 3
    with precedence.turn:
        precedence.breathe()
        assert len(slept) == 3
        slept.clear()
        precedence.loop_works(True)
        precedence.breathe()
        assert slept == [BREATH_SECONDS] * PIECE_BREATHS


def test_a_wait_ends_with_the_review() -> None:
    slept: list[float] = []
    begun, is_to_end = threading.Event(), threading.Event()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        is_to_end.set()
        reviewing.join()

    def review() -> None:
        begun.set()
        is_to_end.wait()

    precedence = Precedence(sleep, worked_seconds=float)
    reviewing = threading.Thread(target=precedence.first(review))
    reviewing.start()
    begun.wait()
    precedence.give_way()
    assert slept == [BREATH_SECONDS]


def test_a_review_that_fails_is_under_way_no_more() -> None:
    slept: list[float] = []
    precedence = Precedence(slept.append, worked_seconds=float)

    def review() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        precedence.first(review)()
    precedence.give_way()
    assert slept == []


def test_long_work_rests_for_longer_than_it_worked_and_short_work_later_for_all_of_it() -> None:
    slept: list[float] = []
    worked = iter((5.0, 5.001, 5.0011, 5.0012, 5.0013, 9.0))  # the first five seconds were for something else
    precedence = Precedence(slept.append, worked_seconds=lambda: next(worked))
    for _ in range(6):
        precedence.give_way()
    assert slept == pytest.approx([REST_RATIO * 0.001, REST_RATIO * 0.0003, MOST_REST_SECONDS])


def test_each_thread_rests_from_its_own_work() -> None:
    slept: list[float] = []
    precedence = Precedence(slept.append, worked_seconds=lambda: clocks[threading.get_ident()])
    clocks = {threading.get_ident(): 1.0}

    def other() -> None:
        clocks[threading.get_ident()] = 7.0
        precedence.give_way()

    precedence.give_way()
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert slept == []
