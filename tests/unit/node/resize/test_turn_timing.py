"""When the next turn is due: each kind of asking has its spacing, and what bars turns bars all of them."""

from __future__ import annotations

import pytest

from agent.metrics.acting_series import Trigger
from agent.node.resize.turn_timing import IDLE_NEWS_SECONDS, KILL_SECONDS, NEWS_SECONDS, TurnTiming

REPLAN_SECONDS = 60.0
URGENT_SECONDS = 2.0


@pytest.fixture
def timing() -> TurnTiming:
    """One that has had its first turn, at 0."""
    new_timing = TurnTiming(replan_seconds=REPLAN_SECONDS, urgent_interval_seconds=URGENT_SECONDS, now_seconds=0.0)
    assert new_timing.take(0.0, quiet_seconds=0.0) is Trigger.INTERVAL
    return new_timing


@pytest.mark.parametrize(
    ("trigger", "is_busy", "spacing"),
    [
        (Trigger.NEWS, True, NEWS_SECONDS),
        (Trigger.NEWS, False, IDLE_NEWS_SECONDS),
        (Trigger.PRESSURE, True, URGENT_SECONDS),
        (Trigger.OUT_OF_MEMORY, False, KILL_SECONDS),
        (Trigger.ORDER, False, 0.0),
    ],
)
def test_what_asks_again_waits_for_its_spacing(
    timing: TurnTiming, trigger: Trigger, is_busy: bool, spacing: float
) -> None:
    timing.is_busy = is_busy
    timing.ask(trigger)
    assert timing.take(10.0, quiet_seconds=0.0) is trigger
    timing.ask(trigger)
    assert timing.next_due_seconds(10.0, quiet_seconds=0.0) == 10.0 + spacing
    if spacing:
        assert timing.take(10.0 + spacing - 0.01, quiet_seconds=0.0) is None
    assert timing.take(10.0 + spacing, quiet_seconds=0.0) is trigger
    assert timing.take(10.0 + spacing, quiet_seconds=0.0) is None


def test_one_turn_is_for_all_that_is_due_and_called_by_the_most_urgent(timing: TurnTiming) -> None:
    for trigger in (Trigger.NEWS, Trigger.ORDER, Trigger.OUT_OF_MEMORY):
        timing.ask(trigger)
    assert timing.take(1.0, quiet_seconds=0.0) is Trigger.OUT_OF_MEMORY
    assert timing.take(1.0, quiet_seconds=0.0) is None


def test_without_anybody_asking_there_is_a_turn_each_interval(timing: TurnTiming) -> None:
    assert timing.next_due_seconds(1.0, quiet_seconds=0.0) == REPLAN_SECONDS
    assert timing.take(REPLAN_SECONDS - 0.01, quiet_seconds=0.0) is None
    assert timing.take(REPLAN_SECONDS, quiet_seconds=0.0) is Trigger.INTERVAL
    timing.replan_by(65.0)
    timing.replan_by(70.0)  # later than what is due already
    assert timing.next_due_seconds(61.0, quiet_seconds=0.0) == 65.0
    assert timing.take(65.0, quiet_seconds=0.0) is Trigger.INTERVAL


def test_who_asks_at_the_interval_is_named(timing: TurnTiming) -> None:
    timing.ask(Trigger.NEWS)
    assert timing.take(REPLAN_SECONDS, quiet_seconds=0.0) is Trigger.NEWS
    assert timing.next_due_seconds(REPLAN_SECONDS, quiet_seconds=0.0) == 2 * REPLAN_SECONDS


def test_nothing_is_due_while_the_server_is_to_be_left_alone(timing: TurnTiming) -> None:
    timing.ask(Trigger.OUT_OF_MEMORY)
    assert timing.take(1.0, quiet_seconds=3.0) is None
    assert timing.next_due_seconds(1.0, quiet_seconds=3.0) == 4.0
    assert timing.take(4.0, quiet_seconds=0.0) is Trigger.OUT_OF_MEMORY
