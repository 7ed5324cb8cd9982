"""The queue of namespaces: gathered, spaced, ever later after failures. By a clock of the test's own."""

from __future__ import annotations

import threading

from agent.webhook.buffers.queue import (
    FIRST_RETRY_SECONDS,
    GATHER_SECONDS,
    LONGEST_RETRY_SECONDS,
    SPACING_SECONDS,
    NamespaceQueue,
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def queue(random: float = 0.5) -> tuple[NamespaceQueue, Clock]:
    clock = Clock()
    return NamespaceQueue(clock=clock, random=lambda: random), clock


def test_what_changes_together_is_looked_at_once() -> None:
    one, clock = queue()
    one.wake("shop")
    one.wake("shop")
    assert one.take(0.0) is None
    clock.now += GATHER_SECONDS
    assert one.take(0.0) == "shop"
    assert one.take(0.0) is None
    assert len(one) == 0


def test_the_earliest_is_first_and_an_earlier_wish_wins() -> None:
    one, clock = queue()
    one.later("late", 50.0)
    one.later("shop", 20.0)
    one.later("shop", 30.0)
    clock.now += 25.0
    assert one.take(0.0) == "shop"
    assert one.take(0.0) is None
    one.wake("late")
    clock.now += 1.0
    assert one.take(0.0) == "late"


def test_one_namespace_is_looked_at_once_a_second_however_much_happens_there() -> None:
    one, clock = queue()
    one.wake("shop")
    clock.now += GATHER_SECONDS
    assert one.take(0.0) == "shop"
    one.wake("shop")
    clock.now += SPACING_SECONDS / 2
    assert one.take(0.0) is None
    clock.now += SPACING_SECONDS / 2
    assert one.take(0.0) == "shop"


def test_failures_wait_ever_longer_and_an_event_does_not_wait_for_them() -> None:
    one, clock = queue(random=0.5)  # half of the spread: the doubled wait itself
    assert [one.retry("shop") for _ in range(4)] == [FIRST_RETRY_SECONDS * 2**n for n in range(4)]
    assert [one.retry("shop") for _ in range(20)][-1] == LONGEST_RETRY_SECONDS
    one.wake("shop")
    clock.now += GATHER_SECONDS
    assert one.take(0.0) == "shop"
    assert one.retry("shop") == LONGEST_RETRY_SECONDS  # an event is no success
    one.succeeded("shop")
    assert one.retry("shop") == FIRST_RETRY_SECONDS


def test_retries_are_spread() -> None:
    assert queue(random=0.0)[0].retry("shop") == 0.5 * FIRST_RETRY_SECONDS
    assert queue(random=1.0)[0].retry("shop") == 1.5 * FIRST_RETRY_SECONDS


def test_what_is_forgotten_leaves_nothing() -> None:
    one, clock = queue()
    one.retry("shop")
    one.forget("shop")
    clock.now += 1000.0
    assert one.take(0.0) is None
    assert one.retry("shop") == FIRST_RETRY_SECONDS


def test_who_waits_comes_back_when_it_is_closed() -> None:
    one, _ = queue()
    found: list[str | None] = []
    waiting = threading.Thread(target=lambda: found.append(one.take(3600.0)))
    waiting.start()
    one.close()
    waiting.join(10.0)
    assert found == [None]


def test_the_spacing_can_be_set_and_is_a_second_otherwise() -> None:
    assert SPACING_SECONDS == 1.0
    clock = Clock()
    one = NamespaceQueue(clock=clock, random=lambda: 0.5, spacing_seconds=10.0)
    one.wake("shop")
    clock.now += GATHER_SECONDS
    assert one.take(0.0) == "shop"
    one.wake("shop")
    clock.now += 9.5
    assert one.take(0.0) is None
    clock.now += 0.5
    assert one.take(0.0) == "shop"
