"""The loop of a thread: what a turn returns, what a fault does, who wakes it, how it ends."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from agent.metrics.loop_series import LoopSeries
from agent.turns import Turns

PATIENCE_SECONDS = 60.0
"""For a thread that must come round at once; nothing asserts it, a loop that hangs fails by it."""
AGES_SECONDS = 3600.0
"""A wait that a test which works never sits through."""


class Script:
    """A turn that does what a list says, one entry a turn: returns seconds or raises; at its end it stops the loop."""

    def __init__(self, *entries: float | None | Exception) -> None:
        self._entries: Iterator[float | None | Exception] = iter(entries)
        self.turns = Turns("script", self.turn, failed=self.failed)
        self.taken = 0
        self.faults: list[Exception] = []
        self.threads: set[str] = set()
        self.back_off_seconds = 0.0
        self.at_turn: Callable[[int], None] = lambda _: None
        self.has_turned = threading.Event()

    def turn(self) -> float | None:
        self.taken += 1
        self.threads.add(threading.current_thread().name)
        self.at_turn(self.taken)
        self.has_turned.set()
        for entry in self._entries:
            if isinstance(entry, Exception):
                raise entry
            return entry
        self.turns.stop()
        return None

    def failed(self, error: Exception) -> float:
        self.faults.append(error)
        return self.back_off_seconds


def test_a_turn_that_returns_nought_is_followed_at_once_until_stop() -> None:
    script = Script(0.0, 0.0, 0.001)
    script.turns.run()
    assert script.taken == 4  # three entries, and the one that stops
    assert script.turns.is_stopping


def test_a_fault_is_told_to_the_owner_and_the_loop_goes_on() -> None:
    fault = ValueError("a fault")
    script = Script(0.0, fault, 0.0)
    script.turns.run()
    assert script.faults == [fault]
    assert script.taken == 4


def test_the_owner_is_told_inside_the_except_block() -> None:
    seen: list[BaseException | None] = []

    def failed(error: Exception) -> float:
        seen.append(sys.exception())
        turns.stop()
        return 0.0

    def turn() -> float:
        raise OSError("gone")

    turns = Turns("owner", turn, failed=failed)
    turns.run()
    assert [type(exception) for exception in seen] == [OSError]  # so that log.exception has the traceback


def test_done_and_failed_turns_are_counted() -> None:
    now = 0.0

    def tick(_: int) -> None:
        nonlocal now
        now += 1.0

    script = Script(0.0, ValueError("one"), ValueError("two"), 0.0)
    counts = LoopSeries(lambda: now).begin("script")
    script.at_turn = tick
    turns = Turns("script", script.turn, failed=script.failed, counts=counts)
    script.turns = turns
    turns.run()
    assert counts.failures == 2
    assert counts.ended_seconds == 5.0  # five turns, each a second by this clock; the newest of them ended


def test_what_is_no_fault_of_a_turn_ends_the_loop() -> None:
    def turn() -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Turns("interrupted", turn, failed=lambda _: 0.0).run()


def test_wake_ends_the_wait_for_the_next_turn() -> None:
    script = Script(AGES_SECONDS, None)
    script.turns.start()
    assert script.has_turned.wait(PATIENCE_SECONDS)
    for _ in range(2):
        script.has_turned.clear()
        script.turns.wake()
        assert script.has_turned.wait(PATIENCE_SECONDS)
    assert script.turns.join(PATIENCE_SECONDS)
    assert script.taken == 3


def test_woken_again_and_again_a_loop_with_a_spacing_begins_no_turn_before_it_is_over() -> None:
    script = Script(10.0, 0.1, 0.0, None)
    turns = script.turns = Turns("spaced", script.turn, failed=script.failed, spacing_seconds=0.25)
    script.at_turn = lambda _: turns.wake()
    asked: list[tuple[float | None, bool]] = []

    def wait_for(predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        asked.append((timeout, predicate()))
        return asked[-1][1]

    turns._condition.wait_for = wait_for  # type: ignore[method-assign, assignment]
    turns.run()
    # Within the spacing the wake does not count, and is not lost; a turn that was due earlier, or at once, is not late.
    assert asked == [(0.25, False), (9.75, True), (0.1, False), (0.0, True), (0.25, False), (None, True)]
    assert script.taken == 5


def test_stop_does_not_wait_for_the_spacing() -> None:
    script = Script(None)
    turns = script.turns = Turns("spaced", script.turn, failed=script.failed, spacing_seconds=AGES_SECONDS)
    turns.start()
    assert script.has_turned.wait(PATIENCE_SECONDS)
    turns.stop()
    assert turns.join(PATIENCE_SECONDS)
    assert script.taken == 1


def test_wake_during_a_turn_is_followed_by_another_turn() -> None:
    script = Script(AGES_SECONDS)
    script.at_turn = lambda number: script.turns.wake() if number == 1 else None
    script.turns.run()
    assert script.taken == 2


def test_wake_does_not_cut_a_back_off_short_but_is_not_lost() -> None:
    script = Script(ValueError("a fault"), AGES_SECONDS)
    script.back_off_seconds = 0.02
    waits: list[bool] = []
    wait = script.turns._wait

    def watched(seconds: float | None, *, is_wakeable: bool) -> bool:
        waits.append(is_wakeable)
        return wait(seconds, is_wakeable=is_wakeable)

    script.turns._wait = watched  # type: ignore[method-assign]
    script.at_turn = lambda number: script.turns.wake() if number < 3 else None
    script.turns.run()
    # The fault's wait took no wake, and the turn after it came by the time; that turn's own wake ended its long wait.
    assert waits == [False, True]
    assert script.taken == 3


def test_stop_ends_a_wait_and_a_back_off() -> None:
    for entry in (AGES_SECONDS, None, ValueError("a fault")):
        script = Script(entry)
        script.back_off_seconds = AGES_SECONDS
        script.turns.start()
        assert script.has_turned.wait(PATIENCE_SECONDS)
        script.turns.stop()
        assert script.turns.join(PATIENCE_SECONDS)
        assert script.taken == 1


def test_the_first_turn_comes_after_its_time_or_at_wake() -> None:
    script = Script()
    script.turns.start(AGES_SECONDS)
    assert not script.turns.join(0.0)
    assert script.taken == 0
    script.turns.wake()
    assert script.turns.join(PATIENCE_SECONDS)
    assert script.taken == 1


def test_a_loop_stopped_before_its_start_takes_no_turn_and_does_what_is_last() -> None:
    ended: list[str] = []
    script = Script()
    turns = Turns(
        "ended", script.turn, failed=script.failed, last=lambda: ended.append(threading.current_thread().name)
    )
    turns.stop()
    turns.start()
    assert turns.join(PATIENCE_SECONDS)
    assert (script.taken, ended) == (0, ["ended"])


def test_join_tells_of_a_thread_that_hangs_in_its_turn() -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    def turn() -> None:
        has_begun.set()
        may_end.wait(PATIENCE_SECONDS)

    turns = Turns("hanging", turn, failed=lambda _: 0.0)
    assert turns.join(0.0)  # was never started
    turns.start()
    assert has_begun.wait(PATIENCE_SECONDS)
    turns.stop()
    assert not turns.join(0.0)
    may_end.set()
    assert turns.join(PATIENCE_SECONDS)


def test_who_ends_a_loop_while_another_starts_it_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script()
    start, joined = threading.Thread.start, list[bool]()

    def slow_start(thread: threading.Thread) -> None:
        script.turns.stop()
        joined.append(script.turns.join(0.0))
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", slow_start)
    script.turns.start()
    assert script.turns.join(PATIENCE_SECONDS)
    assert (joined, script.taken) == ([True], 0)


def test_the_thread_is_a_daemon_under_its_name() -> None:
    threads: list[tuple[str, bool]] = []

    def turn() -> None:
        thread = threading.current_thread()
        threads.append((thread.name, thread.daemon))
        turns.stop()

    turns = Turns("watch-pods", turn, failed=lambda _: 0.0)
    turns.start()
    assert turns.join(PATIENCE_SECONDS)
    assert threads == [("watch-pods", True)]
