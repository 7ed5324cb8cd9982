"""Who gives way to reviews, and for how long."""

from __future__ import annotations

import threading

import pytest

from agent.webhook.admission.precedence import BREATH_SECONDS, MOST_BREATHS, Precedence


def test_who_gives_way_waits_while_a_review_is_under_way_and_not_for_ever() -> None:
    slept: list[float] = []
    precedence = Precedence(slept.append)
    precedence.give_way()
    assert slept == []

    def review(body: bytes) -> bytes:
        precedence.give_way()
        return body[::-1]

    assert precedence.first(review)(b"ab") == b"ba"
    assert slept == [BREATH_SECONDS] * MOST_BREATHS
    precedence.give_way()
    assert len(slept) == MOST_BREATHS


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

    precedence = Precedence(sleep)
    reviewing = threading.Thread(target=precedence.first(review))
    reviewing.start()
    begun.wait()
    precedence.give_way()
    assert slept == [BREATH_SECONDS]


def test_a_review_that_fails_is_under_way_no_more() -> None:
    slept: list[float] = []
    precedence = Precedence(slept.append)

    def review() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        precedence.first(review)()
    precedence.give_way()
    assert slept == []
