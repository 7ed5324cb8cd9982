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
    namespace_queue, clock = queue()
    namespace_queue.wake("shop")
    namespace_queue.wake("shop")
    assert namespace_queue.take(0.0) is None
    clock.now += GATHER_SECONDS
    assert namespace_queue.take(0.0) == "shop"
    assert namespace_queue.take(0.0) is None
    assert len(namespace_queue) == 0


def test_the_earliest_is_first_and_an_earlier_wish_wins() -> None:
    namespace_queue, clock = queue()
    namespace_queue.later("late", 50.0)
    namespace_queue.later("shop", 20.0)
    namespace_queue.later("shop", 30.0)
    clock.now += 25.0
    assert namespace_queue.take(0.0) == "shop"
    assert namespace_queue.take(0.0) is None
    namespace_queue.wake("late")
    clock.now += 1.0
    assert namespace_queue.take(0.0) == "late"


def test_one_namespace_is_looked_at_once_a_second_however_much_happens_there() -> None:
    namespace_queue, clock = queue()
    namespace_queue.wake("shop")
    clock.now += GATHER_SECONDS
    assert namespace_queue.take(0.0) == "shop"
    namespace_queue.wake("shop")
    clock.now += SPACING_SECONDS / 2
    assert namespace_queue.take(0.0) is None
    clock.now += SPACING_SECONDS / 2
    assert namespace_queue.take(0.0) == "shop"


def test_failures_wait_ever_longer_and_an_event_does_not_wait_for_them() -> None:
    namespace_queue, clock = queue(random=0.5)  # half of the spread: the doubled wait itself
    assert [namespace_queue.retry("shop") for _ in range(4)] == [FIRST_RETRY_SECONDS * 2**n for n in range(4)]
    assert [namespace_queue.retry("shop") for _ in range(20)][-1] == LONGEST_RETRY_SECONDS
    namespace_queue.wake("shop")
    clock.now += GATHER_SECONDS
    assert namespace_queue.take(0.0) == "shop"
    assert namespace_queue.retry("shop") == LONGEST_RETRY_SECONDS  # an event is no success
    namespace_queue.succeeded("shop")
    assert namespace_queue.retry("shop") == FIRST_RETRY_SECONDS


def test_retries_are_spread() -> None:
    assert queue(random=0.0)[0].retry("shop") == 0.5 * FIRST_RETRY_SECONDS
    assert queue(random=1.0)[0].retry("shop") == 1.5 * FIRST_RETRY_SECONDS


def test_what_is_forgotten_leaves_nothing() -> None:
    namespace_queue, clock = queue()
    namespace_queue.retry("shop")
    namespace_queue.forget("shop")
    clock.now += 1000.0
    assert namespace_queue.take(0.0) is None
    assert namespace_queue.retry("shop") == FIRST_RETRY_SECONDS


def test_who_waits_comes_back_when_it_is_closed() -> None:
    namespace_queue, _ = queue()
    answers: list[str | None] = []
    waiting = threading.Thread(target=lambda: answers.append(namespace_queue.take(3600.0)))
    waiting.start()
    namespace_queue.close()
    waiting.join(60.0)
    assert answers == [None]


def test_the_spacing_can_be_set_and_is_a_second_otherwise() -> None:
    assert SPACING_SECONDS == 1.0
    clock = Clock()
    namespace_queue = NamespaceQueue(clock=clock, random=lambda: 0.5, spacing_seconds=10.0)
    namespace_queue.wake("shop")
    clock.now += GATHER_SECONDS
    assert namespace_queue.take(0.0) == "shop"
    namespace_queue.wake("shop")
    clock.now += 9.5
    assert namespace_queue.take(0.0) is None
    clock.now += 0.5
    assert namespace_queue.take(0.0) == "shop"
