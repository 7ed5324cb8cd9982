"""When the acting thread takes turns: its loop, run on the test's own thread with clocks that only waiting moves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from agent.core.plan.plan import PlanStep
from agent.core.resize.decision import Action
from agent.kube.client.errors import ApiError, Unreachable
from agent.metrics.acting_series import Trigger
from agent.node.recommender.planner import PlannedNode
from agent.node.resize.actor import FAILED_SECONDS, Actor
from tests.turns import BOOTED, Turns, uid_of

INTERVAL, NEWS, PRESSURE, KILL, ORDER = (
    Trigger.INTERVAL,
    Trigger.NEWS,
    Trigger.PRESSURE,
    Trigger.OUT_OF_MEMORY,
    Trigger.ORDER,
)


def asking(turns: Turns, trigger: Trigger) -> Callable[[], None]:
    return lambda: turns.actor.ask(trigger)


def test_quiet_node_is_planned_at_once_and_then_each_minute() -> None:
    turns = Turns()
    assert turns.run(150.0) == [(0.0, INTERVAL), (60.0, INTERVAL), (120.0, INTERVAL)]
    assert turns.keeper.ticks == 3
    assert turns.keeper.closed == 1
    assert turns.figure("plans_total", trigger="interval") == 3


@pytest.mark.parametrize(
    ("trigger", "spacing"), [(NEWS, 5.0), (PRESSURE, 2.0), (KILL, 1.0), (ORDER, 0.0)], ids=lambda trigger: str(trigger)
)
def test_turns_that_are_asked_for_come_at_once_and_no_closer_than_they_may(trigger: Trigger, spacing: float) -> None:
    turns = Turns()
    for seconds in (10.0, 10.25, 10.5, 30.0):
        turns.at(seconds, asking(turns, trigger))
    asked = [seconds for seconds, cause in turns.run(50.0) if cause is trigger]
    assert asked == ([10.0, 10.0 + spacing, 30.0] if spacing else [10.0, 10.25, 10.5, 30.0])


def test_news_come_more_often_while_something_is_under_way() -> None:
    turns = Turns()
    turns.server.add("web", cpu=500)
    turns.need("web", cpu=200)
    for seconds in (10.0, 10.25):
        turns.at(seconds, asking(turns, NEWS))
    assert [seconds for seconds, cause in turns.run(20.0) if cause is NEWS] == [0.0, 10.0, 11.0]


def test_one_kind_does_not_hold_up_another_and_the_most_urgent_names_the_turn() -> None:
    turns = Turns()
    turns.at(10.0, asking(turns, NEWS))
    turns.at(10.25, lambda: turns.actor.killed((uid_of("web"), "app")))
    turns.at(10.5, lambda: turns.starve("web", cpu_millicores=1))

    def all_at_once() -> None:
        for trigger in (NEWS, ORDER, PRESSURE, KILL):
            turns.actor.ask(trigger)

    turns.at(20.0, all_at_once)
    assert turns.run(30.0) == [(0.0, INTERVAL), (10.0, NEWS), (10.25, KILL), (10.5, PRESSURE), (20.0, KILL)]


def test_turn_that_news_asked_for_at_the_interval_is_one_turn() -> None:
    turns = Turns()
    turns.at(60.0, asking(turns, NEWS))
    assert turns.run(90.0)[1:] == [(60.0, NEWS)]


def test_turn_that_fails_does_not_end_the_thread_and_is_not_tried_at_once(caplog: pytest.LogCaptureFixture) -> None:
    turns = Turns()
    plan, failing = turns.planner.plan, [True, True]
    failures: list[str | None] = []

    def fail(*positional: Any, **named: Any) -> PlannedNode:
        if failing:
            failing.pop()
            raise RuntimeError("a fault of Plimsoll's own")
        return plan(*positional, **named)

    turns.planner.plan = fail  # type: ignore[method-assign]
    for seconds in (0.5, 3.0, 12.0):
        turns.at(seconds, asking(turns, NEWS))
    for seconds in (1.0, 20.0):
        turns.at(seconds, lambda: failures.append(turns.actor.failure))
    assert turns.run(30.0) == [(0.0, INTERVAL), (FAILED_SECONDS, NEWS), (2 * FAILED_SECONDS, NEWS), (12.0, NEWS)]
    assert failures == ["RuntimeError: a fault of Plimsoll's own", None]
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 2
    assert turns.keeper.closed == 1


@pytest.mark.parametrize(
    ("answer", "quiet"),
    [
        (ApiError("PATCH", status=429, message="busy", retry_after_seconds=7.0), 7.0),
        (ApiError("PATCH", status=429, message="busy"), 1.0),
        (Unreachable("refused"), 1.0),
    ],
)
def test_server_that_sheds_load_is_left_alone_for_as_long_as_it_asks(answer: Exception, quiet: float) -> None:
    turns = Turns()
    turns.server.add("web", cpu=500)
    turns.need("web", cpu=200)
    turns.server.answers = [answer]
    for seconds in (0.25, 0.5, 0.75):
        turns.at(seconds, lambda: turns.actor.killed((uid_of("web"), "app")))
        turns.at(seconds, asking(turns, ORDER))
    assert [seconds for seconds, _ in turns.run(50.0)][:2] == [0.0, quiet]
    assert turns.server.cpu("web") == "200m"


def test_server_that_goes_on_shedding_load_is_asked_less_and_less() -> None:
    turns = Turns()
    turns.server.add("web", cpu=500)
    turns.need("web", cpu=200)
    turns.server.answers = [ApiError("PATCH", status=429, message="busy") for _ in range(8)]
    tries: list[float] = []
    call = turns.server.call

    def noted(method: str, path: str, **named: Any) -> object:
        if path.endswith("/resize"):
            tries.append(turns.clock - BOOTED)
        return call(method, path, **named)

    turns.server.call = noted  # type: ignore[method-assign]
    turns.run(400.0)
    waits = [after - before for before, after in pairwise(tries)]
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert turns.server.cpu("web") == "200m"


def test_what_asks_for_quiet_without_end_does_not_end_the_thread() -> None:
    turns = Turns()
    turns.server.add("web", cpu=500)
    turns.need("web", cpu=200)
    turns.server.answers = [ApiError("PATCH", status=429, message="busy", retry_after_seconds=1e11)]
    turns.run(1000.0)
    assert turns.server.cpu("web") == "200m"
    assert turns.keeper.closed == 1


def test_a_start_is_followed_by_a_plan_within_a_second_of_the_whole_list_of_pods() -> None:
    turns = Turns()
    turns.server.add("web", cpu=500)
    turns.state_fields["is_complete"] = False

    def told() -> None:
        turns.state_fields["is_complete"] = True
        turns.actor.ask(NEWS)

    turns.at(0.25, asking(turns, NEWS))  # the node alone
    turns.at(0.5, told)
    turns.at(2.0, asking(turns, NEWS))
    assert turns.run(8.0)[:4] == [(0.0, INTERVAL), (0.25, NEWS), (1.25, NEWS), (6.25, NEWS)]


def test_what_no_answer_came_to_is_looked_up_within_seconds() -> None:
    turns = Turns()
    turns.server.add("web", cpu=500)
    turns.need("web", cpu=200)
    turns.server.answers = [Unreachable("timed out", may_have_been_done=True)]
    turns.at(6.0, lambda: turns.server.order("web", policy="cruise"))  # the patch names a version that is past
    turns.run(12.0)
    assert turns.server.cpu("web") == "200m"
    assert turns.server.writes.count("resize web") == 2


def test_what_may_yet_come_through_is_not_sent_again_for_two_minutes() -> None:
    turns = Turns()
    turns.server.add("web", cpu=500)
    turns.need("web", cpu=200)
    turns.server.answers = [Unreachable("timed out", may_have_been_done=True)]
    turns.at(119.0, lambda: turns.triggers.append((turns.server.writes.count("resize web"), ORDER)))
    turns.run(130.0)
    assert (1, ORDER) in turns.triggers
    assert turns.server.cpu("web") == "200m"


def test_resizes_beyond_the_budget_go_on_when_a_minute_is_over() -> None:
    turns = Turns(tokens=2)
    for name in ("a", "b", "c"):
        turns.server.add(name, cpu=500)
        turns.need(name, cpu=200)
    turns.at(59.0, lambda: turns.server.actuate("a"))
    turns.run(59.5)
    assert turns.server.cpu("c") == "500m"
    turns.actor.turns._is_stopping = False
    turns.run(62.0)
    assert turns.server.cpu("c") == "200m"


def test_what_stands_in_the_way_is_still_shown_when_the_budget_is_gone() -> None:
    turns = Turns(tokens=1)
    for name in ("a", "b"):
        turns.server.add(name, cpu=500)
        turns.need(name, cpu=200)
    turns.turn()
    blocked = {reason: turns.figure("resize_blocked", reason=reason) for reason in ("budget", "gaps")}
    assert blocked == {"budget": 1, "gaps": 2}  # of their memory nobody knows


def test_pods_that_are_gone_from_one_turn_to_the_next_disturb_nobody() -> None:
    turns = Turns()
    turns.server.add("web", cpu=500)
    turns.need("web", cpu=200)
    turns.at(5.0, turns.server.pods.clear)
    turns.at(6.0, lambda: turns.actor.killed((uid_of("web"), "app")))
    turns.at(6.0, lambda: turns.starve("web", cpu_millicores=900, memory_waiting_ratio=0.5))
    turns.run(200.0)
    assert turns.actor.failure is None


def test_step_of_another_thread_under_way_holds_up_neither_alarms_nor_the_loop() -> None:
    """A person's restore waits for its answer while the sampling thread tells of starvation and the loop waits."""
    turns = Turns()
    turns.server.add("web", cpu=500)
    turns.need("web", cpu=200)
    is_sending, may_answer = threading.Event(), threading.Event()

    def wait() -> None:
        is_sending.set()
        assert may_answer.wait(60.0)

    turns.turn()
    turns.server.actuate("web")
    turns.turn()
    pod, step = turns.state().pods[0], grown(turns)
    turns.server.answers = [wait]
    sender = threading.Thread(target=lambda: turns.writer.send(pod, step, Action.RESTORE))
    sender.start()
    assert is_sending.wait(60.0)

    def tell() -> None:
        turns.starve("web", cpu_millicores=9)
        turns.actor._trigger()
        turns.actor._due_seconds()

    teller = threading.Thread(target=tell)
    teller.start()
    teller.join(60.0)
    is_held_up = teller.is_alive()
    may_answer.set()
    sender.join(60.0)
    teller.join(60.0)
    assert not is_held_up
    assert not sender.is_alive()
    assert turns.server.cpu("web") == "500m"


def grown(turns: Turns) -> PlanStep:
    """The step that puts back what was asked for before."""
    turns.need("web", cpu=500)
    turns.sleep(400.0)
    actor: Actor = turns.actor
    turns.holds.pause(None, now_unix_seconds=turns.wall)
    actor.turn(INTERVAL)
    turns.holds.resume(now_unix_seconds=turns.wall)
    [step] = turns.plans[-1][1].plan.steps
    return step
