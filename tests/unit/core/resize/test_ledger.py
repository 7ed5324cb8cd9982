from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from agent.core.cluster.resource import Resource
from agent.core.plan.needs.demand import FREE, Constraint, KeptReason
from agent.core.plan.plan import Phase, PlanStep
from agent.core.plan.pod_change import Setting
from agent.core.resize.answer import AnswerKind, ResizeAnswer
from agent.core.resize.decision import Action, Outcome
from agent.core.resize.ledger import InFlightError
from agent.core.resize.record import LedgerState
from agent.node.files.documents import Document
from tests.ledgers import MI, WEB, Amounts, Desk, FakePod, amounts_after, step

IN_FLIGHT = Constraint(shrink=KeptReason.IN_FLIGHT, grow=KeptReason.IN_FLIGHT, urgent_grow=KeptReason.IN_FLIGHT)
DEFERRED = Constraint(shrink=KeptReason.DEFERRED, grow=KeptReason.DEFERRED, urgent_grow=KeptReason.DEFERRED)
CPU_RISES = Constraint(
    shrink=KeptReason.IN_FLIGHT, grow=KeptReason.IN_FLIGHT, rising=frozenset({("app", Resource.CPU, Setting.REQUEST)})
)
"""Under way: what is short now may be asked for all the same, but for CPU."""


def test_a_pod_that_nobody_resized_is_free() -> None:
    desk = Desk()
    assert desk.constraint == FREE
    assert desk.look() == []
    assert desk.ledger.kept() == LedgerState()


def test_a_resize_is_in_flight_from_the_patch_until_it_is_in_force() -> None:
    desk = Desk()
    wish = step(desk.fake, cpu=600)
    assert desk.may(wish) is None
    desk.send(wish)
    assert desk.constraint == CPU_RISES
    assert desk.may(step(desk.fake, cpu=700)) is KeptReason.IN_FLIGHT
    assert desk.look(0.5) == []  # the kubelet has not looked yet
    desk.fake.say("PodResizeInProgress", "")
    assert desk.look(0.5) == []
    assert desk.constraint == CPU_RISES
    desk.fake.actuate()
    (news,) = desk.look(1.0)
    assert (news.outcome, news.reason, news.action, news.workload) == (
        Outcome.APPLIED,
        "applied",
        Action.RESIZE,
        WEB,
    )
    assert news.seconds == 2.0  # 0.5 + 0.5 + 1.0 from the patch
    assert news.changes == wish.changes
    assert desk.look() == []  # told once


def test_cool_downs_begin_when_a_resize_is_in_force() -> None:
    desk = Desk()
    desk.resize(cpu=600)
    shrink, grow = step(desk.fake, Phase.SHRINK, cpu=400), step(desk.fake, cpu=700)
    urgent = step(desk.fake, cpu=700, urgent=True)
    assert desk.constraint == Constraint(shrink=KeptReason.COOL_DOWN, grow=KeptReason.COOL_DOWN)
    assert (desk.may(shrink), desk.may(grow), desk.may(urgent)) == (KeptReason.COOL_DOWN, KeptReason.COOL_DOWN, None)
    desk.look(30.0)
    assert desk.constraint == Constraint(shrink=KeptReason.COOL_DOWN)
    assert (desk.may(shrink), desk.may(grow)) == (KeptReason.COOL_DOWN, None)
    desk.look(269.0)
    assert desk.may(shrink) is KeptReason.COOL_DOWN
    desk.look(1.0)
    assert desk.constraint == FREE
    assert desk.may(shrink) is None


def test_sending_over_a_resize_that_is_under_way_is_a_fault_of_the_sender() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600))
    with pytest.raises(InFlightError, match="shop/web: in flight, so no further step is sent"):
        desk.ledger.sent(step(desk.fake, cpu=700), desk.fake.pod, desk.now)


def test_a_person_may_restore_through_every_cool_down_but_not_through_a_flight() -> None:
    desk = Desk()
    desk.resize(cpu=600)
    back = step(desk.fake, Phase.SHRINK, cpu=500)
    assert desk.may(back) is KeptReason.COOL_DOWN
    assert desk.may(back, Action.RESTORE) is None
    desk.send(back, action=Action.RESTORE)
    assert desk.may(back, Action.RESTORE) is KeptReason.IN_FLIGHT
    desk.fake.actuate()
    assert [news.action for news in desk.look(1.0)] == [Action.RESTORE]


def test_a_resize_that_somebody_else_began_is_in_flight_too_and_starts_the_cool_downs() -> None:
    desk = Desk()
    desk.fake.take(Amounts(cpu=900))
    assert desk.look(1.0) == []
    assert desk.constraint == IN_FLIGHT
    desk.fake.actuate()
    desk.look(1.0)
    # From the moment in which it was seen, a second ago.
    assert desk.constraint == Constraint(shrink=KeptReason.COOL_DOWN, grow=KeptReason.COOL_DOWN)
    desk.look(300.0)
    assert desk.constraint == FREE


def test_an_unknown_answer_keeps_the_pod_in_flight_until_it_shows_the_wish() -> None:
    desk = Desk()
    wish = step(desk.fake, cpu=600)
    desk.send(wish, AnswerKind.UNKNOWN)
    assert desk.look(60.0) == []
    assert desk.may(wish) is KeptReason.IN_FLIGHT
    desk.fake.take(Amounts(cpu=600))  # it was done after all
    (news,) = desk.look(1.0)
    assert (news.outcome, news.reason) == (Outcome.ACCEPTED, "seen_in_pod")
    desk.fake.actuate()
    (news,) = desk.look(1.0)
    assert (news.reason, news.seconds) == ("applied", 62.0)


def test_an_unknown_answer_of_which_the_pod_shows_nothing_for_two_minutes_was_not_done() -> None:
    desk = Desk()
    wish = step(desk.fake, cpu=600)
    desk.send(wish, AnswerKind.UNKNOWN)
    assert desk.look(119.0) == []
    (news,) = desk.look(1.0)
    assert (news.outcome, news.reason) == (Outcome.ERROR, "not_done")
    assert desk.may(wish) is None


def test_what_an_old_view_lacks_proves_nothing() -> None:
    desk = Desk()
    wish = step(desk.fake, cpu=600)
    desk.send(wish, AnswerKind.UNKNOWN)
    desk.state_fields = {"age_seconds": 600.0}
    assert desk.look(600.0) == []
    assert desk.may(wish) is KeptReason.IN_FLIGHT
    desk.state_fields = {"age_seconds": 0.5}
    assert [news.reason for news in desk.look(0.0)] == ["not_done"]


def test_a_pod_read_anew_tells_at_once_whether_a_wish_was_taken() -> None:
    desk = Desk()
    wish = step(desk.fake, cpu=600)
    assert desk.ledger.confirmed(desk.fake.pod, desk.now) == ()  # nothing was sent
    desk.send(wish, AnswerKind.UNKNOWN)
    # The patch names this very version of the pod: a slow server may still come to it.
    assert desk.ledger.confirmed(desk.fake.pod, desk.now + 1) == ()
    assert desk.may(wish) is KeptReason.IN_FLIGHT
    moved_on = replace(desk.fake.pod, resource_version="another")
    assert [news.reason for news in desk.ledger.confirmed(moved_on, desk.now + 1)] == ["not_done"]
    assert desk.may(wish) is None


def test_a_wish_that_a_pod_read_anew_never_shows_is_given_up_in_the_end() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600), AnswerKind.UNKNOWN)
    assert [news.reason for news in desk.ledger.confirmed(desk.fake.pod, desk.now + 121)] == ["not_done"]


@pytest.mark.parametrize("state", ["defer", "fail"])
def test_what_a_person_asked_for_does_not_wait_for_a_step_that_the_kubelet_does_not_do(state: str) -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600), action=Action.RESTORE)
    desk.look(0.0)
    rest = step(desk.fake, Phase.LIMIT_DOWN, limit=300)
    assert desk.may(rest, Action.RESTORE) is KeptReason.IN_FLIGHT
    getattr(desk.fake, state)()
    desk.look(1.0)
    assert desk.may(rest, Action.RESTORE) is None


def test_what_a_person_asked_for_does_not_wait_for_what_was_refused_before() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600), AnswerKind.INVALID)
    again = step(desk.fake, cpu=600)
    assert desk.may(again) is KeptReason.LIMIT_RANGE
    assert desk.may(again, Action.RESTORE) is None


def test_what_a_person_asks_for_comes_in_the_place_of_what_is_deferred_and_of_nothing_else_under_way() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=900))
    back = step(desk.fake, cpu=400)
    assert desk.may(back, Action.RESTORE) is KeptReason.IN_FLIGHT
    desk.fake.defer()
    desk.look(1.0)
    back = step(desk.fake, cpu=400)
    assert desk.may(back) is KeptReason.DEFERRED
    assert desk.may(back, Action.RESTORE) is None
    desk.send(back, action=Action.RESTORE)
    desk.fake.actuate()
    assert [(news.action, news.reason) for news in desk.look(1.0)] == [(Action.RESTORE, "applied")]


def test_what_a_person_asked_for_waits_for_somebody_elses_resize() -> None:
    desk = Desk()
    desk.look(0.0)
    desk.fake.take(Amounts(cpu=900))
    desk.look(1.0)
    assert desk.may(step(desk.fake, cpu=400), Action.RESTORE) is KeptReason.IN_FLIGHT
    desk.fake.actuate()
    desk.look(1.0)
    assert desk.may(step(desk.fake, cpu=400), Action.RESTORE) is None


def test_a_pod_that_moved_on_without_the_wish_will_not_take_it_any_more() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600), AnswerKind.UNKNOWN)
    desk.fake.generation += 1  # something else than its resources
    desk.fake.actuate()
    assert [news.reason for news in desk.look(1.0)] == ["not_done"]


def test_a_wish_that_others_replaced_is_over() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600))
    desk.fake.take(Amounts(cpu=900))
    (news,) = desk.look(1.0)
    assert (news.outcome, news.reason) == (Outcome.CONFLICT, "changed_by_others")
    desk.fake.actuate()
    desk.look(1.0)
    assert desk.constraint == Constraint(shrink=KeptReason.COOL_DOWN, grow=KeptReason.COOL_DOWN)


def test_a_wish_that_others_put_back_is_over() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600))
    desk.fake.take(Amounts())
    desk.fake.actuate()
    assert [news.reason for news in desk.look(1.0)] == ["changed_by_others"]


def test_an_accepted_wish_is_awaited_in_a_view_that_lags_behind() -> None:
    desk = Desk()
    before = desk.fake.pod
    wish = step(desk.fake, cpu=600)
    desk.send(wish)
    after, desk.fakes = desk.fakes, [FakePod()]
    assert desk.fake.pod == before
    assert desk.look(1.0) == []
    assert desk.may(wish) is KeptReason.IN_FLIGHT
    desk.fakes = after
    desk.fake.actuate()
    assert [news.reason for news in desk.look(1.0)] == ["applied"]


def test_a_deferred_resize_is_told_once_and_lands_by_itself() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600))
    desk.fake.defer()
    (news,) = desk.look(1.0)
    assert (news.outcome, news.reason) == (Outcome.DEFERRED, "deferred")
    assert news.detail == "Node didn't have enough resource: cpu"
    assert desk.constraint == DEFERRED
    assert desk.may(step(desk.fake, cpu=700)) is KeptReason.DEFERRED
    assert desk.look(599.0) == []
    desk.fake.say("PodResizeInProgress", "")
    assert desk.look(0.5) == []
    assert desk.constraint == CPU_RISES
    desk.fake.actuate()
    assert [news.reason for news in desk.look(0.5)] == ["applied"]
    assert desk.ledger.wanted(desk.now) == ()


def test_how_long_the_oldest_deferred_resize_waits_is_known() -> None:
    desk = Desk(FakePod(), FakePod(name="api"))
    assert (desk.ledger.kept().has_flights, desk.ledger.kept().oldest_pending_seconds(desk.now)) == (False, None)
    desk.send(step(desk.fake, cpu=600))
    assert (desk.ledger.kept().has_flights, desk.ledger.kept().oldest_pending_seconds(desk.now)) == (True, None)
    desk.fake.defer()
    desk.look(1.0)
    desk.fakes.reverse()
    desk.send(step(desk.fake, cpu=600))
    desk.fake.defer()
    desk.look(5.0)
    assert desk.ledger.kept().oldest_pending_seconds(desk.now + 4.0) == 9.0  # the first: 5 s until now, and 4 s more


def test_a_deferred_resize_is_taken_back_when_patience_ends() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600, memory=300))
    desk.fake.defer()
    desk.look(1.0)
    assert [news.reason for news in desk.look(600.0)] == ["withdrawn"]
    (back,) = desk.ledger.wanted(desk.now)
    assert back.phase is Phase.SHRINK
    assert [(change.before, change.after) for change in back.changes] == [(600, 500), (300 * MI, 256 * MI)]
    assert back.reason == "deferred for 600 s: back to what is allocated"
    assert desk.look(1.0) == []  # told once
    desk.send(back)
    assert desk.ledger.wanted(desk.now) == ()
    desk.fake.actuate()
    (news,) = desk.look(1.0)
    assert (news.reason, news.action) == ("applied", Action.REVERT)
    # Nothing in that direction for a minute, not even for pressure; later twice as long.
    assert desk.constraint == Constraint(
        shrink=KeptReason.COOL_DOWN, grow=KeptReason.DEFERRED, urgent_grow=KeptReason.DEFERRED
    )
    desk.look(60.0)
    assert desk.constraint == Constraint(shrink=KeptReason.COOL_DOWN)
    desk.send(step(desk.fake, cpu=600))
    desk.fake.defer()
    desk.look(1.0)
    desk.look(600.0)
    desk.send(desk.ledger.wanted(desk.now)[0])
    desk.fake.actuate()
    desk.look(61.0)
    assert desk.constraint.grow is KeptReason.DEFERRED
    desk.look(60.0)
    assert desk.constraint.grow is None


def test_a_deferred_resize_that_lands_while_it_is_to_be_taken_back_stays() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600))
    desk.fake.defer()
    desk.look(1.0)
    desk.look(600.0)
    assert desk.ledger.wanted(desk.now)
    desk.fake.actuate()
    assert [news.reason for news in desk.look(1.0)] == ["applied"]
    assert desk.ledger.wanted(desk.now) == ()


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_wish_that_is_to_be_taken_back_is_not_once_somebody_else_has_resized_the_pod(is_refused: bool) -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600))
    if is_refused:
        desk.fake.refuse()
    else:
        desk.fake.defer()
        desk.look(1.0)
    desk.look(600.0)
    assert desk.ledger.wanted(desk.now)
    desk.fake.take(Amounts(cpu=550))
    desk.fake.actuate()
    desk.look(1.0)
    assert desk.ledger.wanted(desk.now) == ()
    desk.look(300.0)
    assert desk.constraint == FREE


@pytest.mark.parametrize("answer", [AnswerKind.CONFLICT, AnswerKind.REJECTED])
def test_what_takes_a_wish_back_and_is_refused_is_tried_again_and_nobody_else_has_resized_the_pod(
    answer: AnswerKind,
) -> None:
    desk = Desk()
    desk.resize(memory=300)
    desk.send(step(desk.fake, cpu=600, urgent=True))
    desk.fake.defer()
    desk.look(1.0)
    desk.look(600.0)
    (back,) = desk.ledger.wanted(desk.now)
    desk.send(back, answer)
    held = KeptReason.LIMIT_RANGE if answer is AnswerKind.REJECTED else None
    assert desk.may(back) is held
    desk.look(1.0)
    assert desk.may(back) is held
    desk.look(60.0)
    assert desk.ledger.wanted(desk.now) == (back,)


def test_a_memory_limit_that_the_kubelet_cannot_lower_is_raised_again_at_once() -> None:
    desk = Desk()
    desk.send(step(desk.fake, Phase.LIMIT_DOWN, limit=400))
    desk.fake.fail()
    failing, withdrawn = desk.look(1.0)
    assert (failing.outcome, failing.reason, failing.detail) == (
        Outcome.ERROR,
        "kubelet_error",
        "cannot decrease memory limits",
    )
    assert withdrawn.reason == "withdrawn"
    (back,) = desk.ledger.wanted(desk.now)
    assert [(change.before, change.after) for change in back.changes] == [(400 * MI, 512 * MI)]
    assert back.phase is Phase.GROW


def test_another_failure_of_the_kubelet_is_waited_for_like_a_deferral() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600))
    desk.fake.fail()
    assert [news.reason for news in desk.look(1.0)] == ["kubelet_error"]
    assert desk.constraint == IN_FLIGHT
    assert desk.ledger.wanted(desk.now) == ()
    assert [news.reason for news in desk.look(600.0)] == ["withdrawn"]


def test_what_takes_back_is_not_taken_back_itself() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600))
    desk.fake.defer()
    desk.look(1.0)
    desk.look(600.0)
    desk.send(desk.ledger.wanted(desk.now)[0])
    desk.fake.defer()
    assert [news.reason for news in desk.look(1.0)] == ["deferred"]
    assert desk.look(6000.0) == []
    assert desk.ledger.wanted(desk.now) == ()


def test_a_pod_that_no_longer_runs_does_not_stay_in_flight_for_ever() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600))
    desk.fake.is_running = False
    desk.fake.actuate()
    assert desk.look(599.0) == []
    (news,) = desk.look(1.0)
    assert (news.outcome, news.reason, news.detail) == (Outcome.ERROR, "not_reported", "no container of it runs")


def test_pods_that_are_gone_are_forgotten_unless_the_look_was_not_whole() -> None:
    desk = Desk()
    desk.resize(cpu=600)
    gone, desk.fakes = desk.fakes, [FakePod(name="other")]
    for fields in ({"is_complete": False}, {"unreadable_pods": ("shop/web: spec: not an object",)}):
        desk.state_fields = fields
        desk.look(1.0)
        assert [record.ref.name for record in desk.ledger.kept().pods] == ["web"]
    desk.state_fields = {}
    desk.look(1.0)
    assert desk.ledger.kept() == LedgerState()
    desk.fakes = gone
    assert desk.constraint == FREE


def test_an_answer_about_a_pod_that_nobody_asked_for_is_passed_over() -> None:
    desk = Desk()
    desk.ledger.answered("nobody", ResizeAnswer(kind=AnswerKind.ACCEPTED), desk.now)
    desk.resize(cpu=600)
    desk.ledger.answered(desk.fake.uid, ResizeAnswer(kind=AnswerKind.ACCEPTED), desk.now)
    assert desk.look() == []


def test_nothing_is_lost_over_a_restart() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600), answer=None)  # killed before the answer
    desk.restart()
    desk.look(1.0)
    assert desk.constraint == IN_FLIGHT
    desk.fake.take(Amounts(cpu=600))
    desk.fake.defer()
    assert [news.reason for news in desk.look(1.0)] == ["seen_in_pod", "deferred"]
    desk.look(600.0)
    desk.restart()
    desk.look(0.0)
    assert len(desk.ledger.wanted(desk.now)) == 1
    document = Document(LedgerState, "ledger", 2)
    state = desk.ledger.kept()
    assert document.from_json(json.loads(json.dumps(document.to_json(state)))) == state


def test_who_was_killed_lately_is_told_to_the_plan_for_some_minutes() -> None:
    desk = Desk()
    desk.ledger.killed(desk.fake.uid, "app", desk.now)
    desk.ledger.killed("nobody", "app", desk.now)
    assert desk.constraint == Constraint(killed=frozenset({"app"}))
    desk.look(599.0)
    assert desk.constraint.killed == {"app"}
    desk.look(1.0)
    assert desk.constraint == FREE


def test_moments_ahead_of_the_clock_count_as_now() -> None:
    desk = Desk(now=10_000.0)
    desk.resize(Phase.SHRINK, memory=200)
    desk.look(10.0)
    desk.ledger.killed(desk.fake.uid, "app", desk.now)
    desk.send(desk.ledger.wanted(desk.now)[0], AnswerKind.UNKNOWN)
    # The machine was started anew, and its clock with it.
    later = Desk(desk.fake, kept=desk.ledger.kept(), now=5.0)
    (record,) = later.ledger.kept().pods
    assert record.flight is not None
    assert (record.changed_seconds, record.flight.sent_seconds, record.shrunk[0].at_seconds) == (5.0, 5.0, 5.0)
    assert later.ledger.is_shrink_barred(WEB, 5.0)
    assert not later.ledger.is_shrink_barred(WEB, 5.0 + 86_400.0)


def test_a_memory_limit_that_has_risen_is_held_for_a_while_over_restarts_and_whatever_asks() -> None:
    desk = Desk()
    assert not desk.ledger.is_memory_limit_held(WEB, "app", desk.now)
    desk.resize(Phase.GROW, limit=1024)
    assert desk.ledger.is_memory_limit_held(WEB, "app", desk.now)
    later = Desk(desk.fake, kept=desk.ledger.kept(), now=desk.now)
    assert later.ledger.is_memory_limit_held(WEB, "app", desk.now + 290.0)
    assert not later.ledger.is_memory_limit_held(WEB, "app", desk.now + 310.0)
    desk.ledger.killed(desk.fake.uid, "app", desk.now)  # the rise before was not enough
    assert not desk.ledger.is_memory_limit_held(WEB, "app", desk.now)


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("is_looked_up", [False, True])
def test_a_memory_limit_that_has_risen_is_held_though_no_answer_came(is_restarted: bool, is_looked_up: bool) -> None:
    desk = Desk()
    wish = step(desk.fake, limit=1024)
    desk.ledger.killed(desk.fake.uid, "app", desk.now)
    desk.send(wish, None if is_restarted else AnswerKind.UNKNOWN)
    desk.fake.take(amounts_after(desk.fake.spec, wish))
    desk.fake.actuate()
    if is_restarted:
        desk.restart()
    news = desk.ledger.confirmed(desk.fake.pod, desk.now) if is_looked_up else desk.look()
    assert [item.reason for item in news] == ["seen_in_pod", "applied"]
    assert desk.ledger.is_memory_limit_held(WEB, "app", desk.now + 290.0)
    assert not desk.ledger.is_memory_limit_held(WEB, "app", desk.now + 310.0)


def test_a_kill_after_a_raise_without_an_answer_is_answered_once_more() -> None:
    desk = Desk()
    wish = step(desk.fake, limit=1024)  # of foresight
    desk.send(wish, AnswerKind.UNKNOWN)
    desk.fake.take(amounts_after(desk.fake.spec, wish))
    desk.ledger.killed(desk.fake.uid, "app", desk.now + 1.0)
    assert [news.reason for news in desk.look(2.0)] == ["seen_in_pod"]
    assert not desk.ledger.is_memory_limit_held(WEB, "app", desk.now)


def test_a_memory_limit_whose_raise_got_no_answer_and_was_not_done_is_not_held() -> None:
    desk = Desk()
    desk.send(step(desk.fake, limit=1024), AnswerKind.UNKNOWN)
    assert [news.reason for news in desk.look(120.0)] == ["not_done"]
    assert not desk.ledger.is_memory_limit_held(WEB, "app", desk.now)


def test_what_goes_on_top_of_a_raised_limit_and_gets_no_answer_is_no_answer_to_a_kill() -> None:
    desk = Desk()
    desk.send(step(desk.fake, limit=1024))  # of foresight
    desk.ledger.killed(desk.fake.uid, "app", desk.now)
    wish = step(desk.fake, cpu=600, urgent=True)
    desk.send(wish, AnswerKind.UNKNOWN)
    desk.fake.take(amounts_after(desk.fake.spec, wish))
    assert [news.reason for news in desk.look(1.0)] == ["seen_in_pod"]
    assert not desk.ledger.is_memory_limit_held(WEB, "app", desk.now)


def test_the_first_kill_of_a_pod_that_was_never_resized_is_answered_once() -> None:
    desk = Desk()
    desk.ledger.killed(desk.fake.uid, "app", desk.now)
    desk.resize(Phase.GROW, limit=1024)
    desk.ledger.killed(desk.fake.uid, "app", desk.now)
    assert desk.ledger.is_memory_limit_held(WEB, "app", desk.now)


def test_what_goes_on_top_of_a_raised_limit_is_no_answer_to_a_kill() -> None:
    desk = Desk()
    desk.send(step(desk.fake, limit=1024))  # of foresight
    desk.ledger.killed(desk.fake.uid, "app", desk.now)
    assert not desk.ledger.is_memory_limit_held(WEB, "app", desk.now)
    desk.send(step(desk.fake, cpu=600, urgent=True))
    assert not desk.ledger.is_memory_limit_held(WEB, "app", desk.now)


def test_a_limit_that_is_raised_on_top_of_something_else_is_an_answer_to_a_kill() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600))
    desk.ledger.killed(desk.fake.uid, "app", desk.now)
    desk.send(step(desk.fake, limit=1024, urgent=True))
    desk.ledger.killed(desk.fake.uid, "app", desk.now)
    assert desk.ledger.is_memory_limit_held(WEB, "app", desk.now)


def dragged(fake: FakePod, memory: int) -> PlanStep:
    """Return a step in which the request passes the limit, which follows by the one byte that keeps the QoS class."""
    wish = step(fake, memory=memory, limit=memory)
    request, limit = wish.changes
    return replace(wish, changes=(request, replace(limit, after=limit.after + 1)))


def test_a_limit_that_its_request_pushed_up_is_no_answer_to_a_kill() -> None:
    desk = Desk()
    desk.resize(Phase.GROW, limit=600)  # of foresight: it was almost full
    assert desk.ledger.is_memory_limit_held(WEB, "app", desk.now)
    # Planned while the limit was held, and answered after a kill.
    desk.ledger.sent(dragged(desk.fake, 600), desk.fake.pod, desk.now)
    desk.ledger.killed(desk.fake.uid, "app", desk.now)
    desk.ledger.answered(desk.fake.uid, ResizeAnswer(kind=AnswerKind.ACCEPTED), desk.now)
    assert not desk.ledger.is_memory_limit_held(WEB, "app", desk.now)


def test_a_limit_that_its_request_pushed_up_holds_up_no_later_raise() -> None:
    desk = Desk()
    desk.send(dragged(desk.fake, 512))
    assert not desk.ledger.is_memory_limit_held(WEB, "app", desk.now)
    assert desk.ledger.kept().oom_actions == ()


def test_the_api_server_is_left_alone_for_five_minutes_at_most_whatever_it_asks() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600), AnswerKind.THROTTLED, retry_after_seconds=99_999_999.0)
    assert desk.ledger.wait_seconds(desk.now) == 300.0


def test_a_restore_that_the_kubelet_puts_off_holds_up_no_plan() -> None:
    desk = Desk()
    back = step(desk.fake, cpu=600)
    desk.send(back, action=Action.RESTORE)
    assert desk.constraint == IN_FLIGHT
    desk.fake.defer()
    desk.look(0.5)
    # Nothing of a restore is withdrawn; what a plan says of the pod may come in its place.
    assert desk.constraint.urgent_grow is None
    assert desk.may(step(desk.fake, cpu=700, urgent=True)) is None


def calm_until(desk: Desk) -> float | None:
    return desk.constraint.calm_until_seconds


def test_a_fall_of_cpu_holds_the_next_one_with_credit_until_the_next_hour() -> None:
    desk = Desk(now=7000.0)
    desk.resize(Phase.SHRINK, memory=200)
    assert calm_until(desk) is None
    desk.resize(Phase.SHRINK, cpu=400)
    assert calm_until(desk) == 7200.0
    desk.restart()
    desk.look()
    assert calm_until(desk) == 7200.0
    desk.look(7200.0 - desk.now)
    assert calm_until(desk) is None


def test_a_growth_for_starvation_holds_falls_with_credit_for_three_hours_and_another_growth_does_not() -> None:
    desk = Desk(now=7000.0)
    desk.resize(cpu=600)
    assert calm_until(desk) is None
    desk.resize(urgent=True, cpu=700)
    assert calm_until(desk) == desk.now + 10_800.0


def test_what_is_put_back_is_no_fall() -> None:
    desk = Desk(now=7000.0)
    desk.send(step(desk.fake, Phase.SHRINK, cpu=400), action=Action.RESTORE)
    desk.fake.actuate()
    desk.look(1.0)
    assert calm_until(desk) is None


def test_falls_and_growths_ahead_of_the_clock_count_as_now() -> None:
    desk = Desk(now=50_000.0)
    desk.resize(Phase.SHRINK, cpu=400)
    desk.resize(urgent=True, cpu=700)
    desk.now = 100.0  # the clock was put back
    desk.restart()
    desk.look()
    assert calm_until(desk) == 10_900.0


def test_what_is_short_now_goes_on_top_of_a_resize_that_asked_for_something_else() -> None:
    desk = Desk()
    first = step(desk.fake, cpu=600, urgent=True)
    desk.send(first)
    held = step(desk.fake, memory=300, limit=1024, urgent=True)
    assert desk.may(replace(held, is_urgent=False)) is KeptReason.IN_FLIGHT
    assert desk.may(step(desk.fake, cpu=700, urgent=True)) is KeptReason.IN_FLIGHT  # CPU is on its way
    assert desk.may(step(desk.fake, limit=400, urgent=True)) is KeptReason.IN_FLIGHT  # nothing falls on top
    assert desk.may(held) is None
    desk.fake.say("PodResizeInProgress", "")
    assert desk.may(held) is None
    desk.send(held)
    assert desk.may(step(desk.fake, limit=2048, urgent=True)) is KeptReason.IN_FLIGHT  # all of it is on its way by now
    assert desk.look(1.0) == []
    desk.fake.actuate()
    (news,) = desk.look(1.0)
    assert (news.reason, news.changes) == ("applied", (*first.changes, *held.changes))


@pytest.mark.parametrize("answer", [AnswerKind.CONFLICT, AnswerKind.INFEASIBLE, AnswerKind.REJECTED])
def test_what_is_refused_leaves_the_resize_under_way_that_it_was_to_go_on_top_of(answer: AnswerKind) -> None:
    desk = Desk()
    first = step(desk.fake, cpu=600)
    desk.send(first)
    desk.send(step(desk.fake, memory=300, urgent=True), answer)
    assert (desk.constraint.shrink, desk.constraint.rising) == (CPU_RISES.shrink, CPU_RISES.rising)
    desk.fake.actuate()
    (news,) = desk.look(1.0)
    assert (news.reason, news.changes) == ("applied", first.changes)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_went_on_top_and_was_not_done_leaves_the_resize_under_way_below_it(is_restarted: bool) -> None:
    desk = Desk(now=7000.0)
    first = step(desk.fake, cpu=600, urgent=True)
    desk.send(first)
    over = step(desk.fake, limit=1024, urgent=True)
    desk.send(over, None if is_restarted else AnswerKind.UNKNOWN)
    if is_restarted:
        desk.restart()
    (news,) = desk.look(120.0)
    assert (news.outcome, news.reason, news.changes) == (Outcome.ERROR, "not_done", over.changes)
    assert desk.may(over) is None
    desk.fake.actuate()
    (news,) = desk.look(1.0)
    assert (news.reason, news.changes) == ("applied", first.changes)
    assert calm_until(desk) == desk.now + 10_800.0  # it was starved of CPU


def test_what_went_on_top_and_was_done_though_no_answer_came_is_one_with_what_is_below() -> None:
    desk = Desk()
    first, over = step(desk.fake, cpu=600), step(desk.fake, limit=1024, urgent=True)
    desk.send(first)
    desk.send(over, AnswerKind.UNKNOWN)
    desk.fake.take(Amounts(cpu=600, limit=1024))
    desk.fake.actuate()
    assert [(news.reason, news.changes) for news in desk.look(1.0)] == [
        (reason, (*first.changes, *over.changes)) for reason in ("seen_in_pod", "applied")
    ]


def test_what_went_on_top_and_others_replaced_is_over_with_what_is_below() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600))
    desk.send(step(desk.fake, limit=1024, urgent=True), AnswerKind.UNKNOWN)
    desk.fake.take(Amounts(cpu=900))
    desk.fake.actuate()
    assert [news.reason for news in desk.look(1.0)] == ["changed_by_others"]
    assert not desk.ledger.kept().has_flights


def test_what_is_below_an_unanswered_resize_ahead_of_the_clock_was_sent_now() -> None:
    desk = Desk(now=10_000.0)
    desk.send(step(desk.fake, cpu=600))
    desk.send(step(desk.fake, limit=1024, urgent=True), AnswerKind.UNKNOWN)
    later = Desk(desk.fake, kept=desk.ledger.kept(), now=5.0)
    later.look(120.0)
    later.fake.actuate()
    assert [(news.reason, news.seconds) for news in later.look(1.0)] == [("applied", 121.0)]


def test_nothing_goes_on_top_of_what_is_not_answered_put_off_failing_or_somebody_elses() -> None:
    unanswered, deferred, failing, others, restored = Desk(), Desk(), Desk(), Desk(), Desk()
    for desk, action in ((unanswered, None), (deferred, Action.RESIZE), (failing, Action.RESIZE)):
        desk.send(step(desk.fake, cpu=600), None if action is None else AnswerKind.ACCEPTED)
    restored.send(step(restored.fake, cpu=600), action=Action.RESTORE)
    others.fake.take(Amounts(cpu=600))
    deferred.fake.defer()
    failing.fake.fail()
    for desk, reason in (
        (unanswered, KeptReason.IN_FLIGHT),
        (deferred, KeptReason.DEFERRED),
        (failing, KeptReason.IN_FLIGHT),
        (others, KeptReason.IN_FLIGHT),
        (restored, KeptReason.IN_FLIGHT),
    ):
        desk.look(1.0)
        assert desk.may(step(desk.fake, limit=1024, urgent=True)) is reason


def test_what_went_on_top_is_put_off_and_taken_back_together_with_what_it_is_on() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600))
    desk.send(step(desk.fake, memory=300, urgent=True))
    desk.fake.defer()
    desk.look(1.0)
    desk.look(600.0)
    (back,) = desk.ledger.wanted(desk.now)
    assert amounts_after(desk.fake.spec, back) == Amounts()


@pytest.mark.parametrize("is_refused", [False, True])
@pytest.mark.parametrize("amounts", [{"memory": 480}, {"memory": 900, "limit": 1024}], ids=["request", "limit"])
def test_what_is_in_force_already_is_not_taken_back_with_what_went_on_top(amounts: Any, is_refused: bool) -> None:
    desk = Desk()
    desk.send(step(desk.fake, urgent=True, **amounts))
    desk.fake.say("PodResizeInProgress", "")
    desk.look(1.0)
    desk.send(step(desk.fake, cpu=3000, urgent=True))
    desk.fake.in_force = replace(desk.fake.spec, cpu=500)  # the first is there, the second waits for room
    if is_refused:
        desk.fake.refuse()
    else:
        desk.fake.defer()
        desk.look(1.0)
    desk.look(600.0)
    (back,) = desk.ledger.wanted(desk.now)
    assert [(change.resource, change.after) for change in back.changes] == [(Resource.CPU, 500)]


def test_a_never_to_what_went_on_top_is_one_to_all_that_rose() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600))
    desk.send(step(desk.fake, memory=300, urgent=True))
    desk.fake.refuse()
    desk.look(1.0)
    (record,) = desk.ledger.kept().pods
    assert record.infeasible is not None
    assert record.infeasible.cpu_below_millicores == 600
    assert record.infeasible.memory_below_bytes == 300 * MI


def test_a_shrink_under_way_is_grown_over_and_its_number_counted_once() -> None:
    desk = Desk()
    desk.send(step(desk.fake, Phase.SHRINK, cpu=400, memory=128))
    over = step(desk.fake, memory=300, urgent=True)
    desk.send(over)
    desk.fake.actuate()
    (news,) = desk.look(1.0)
    assert [(change.resource, change.after) for change in news.changes] == [
        (Resource.CPU, 400),
        (Resource.MEMORY, 300 * MI),
    ]


def test_what_takes_a_boost_back_waits_for_no_cool_down_but_for_a_flight_and_after_a_refusal() -> None:
    fresh = Desk()
    assert fresh.may(step(fresh.fake, Phase.SHRINK, cpu=400), Action.UNBOOST) is None
    desk = Desk()
    desk.resize(memory=300)
    back = step(desk.fake, Phase.SHRINK, cpu=400)
    assert (desk.may(back), desk.may(back, Action.UNBOOST)) == (KeptReason.COOL_DOWN, None)
    desk.send(back, AnswerKind.INVALID, action=Action.UNBOOST)
    assert desk.may(back, Action.UNBOOST) is not None
    desk.look(3600.0)
    desk.send(back, action=Action.UNBOOST)
    assert desk.may(back, Action.UNBOOST) is KeptReason.IN_FLIGHT
    desk.fake.actuate()
    assert [news.action for news in desk.look(1.0)] == [Action.UNBOOST]


@pytest.mark.parametrize(("action", "cpu"), [(Action.UNBOOST, 400), (Action.REVERT, 600)])
def test_what_takes_back_a_boost_or_a_share_waits_for_a_resize_that_gets_on(action: Action, cpu: int) -> None:
    desk = Desk()
    desk.send(step(desk.fake, memory=300))
    back = step(desk.fake, urgent=True, cpu=cpu)
    assert desk.may(back, action) is KeptReason.IN_FLIGHT
    desk.fake.actuate()
    assert [news.reason for news in desk.look(1.0)] == ["applied"]
    desk.look(300.0)
    assert desk.may(back, action) is None


def test_a_boost_that_a_kubelet_cannot_take_back_is_not_given_a_second_time() -> None:
    never = Desk()
    never.send(step(never.fake, Phase.SHRINK, cpu=400), action=Action.UNBOOST)
    never.fake.refuse()
    assert [news.outcome for news in never.look(1.0)] == ["infeasible"]
    assert never.ledger.wanted(never.now) == ()
    assert never.may(step(never.fake, Phase.SHRINK, cpu=300), Action.UNBOOST) is KeptReason.INFEASIBLE
    later = Desk()
    later.send(step(later.fake, Phase.SHRINK, cpu=400), action=Action.UNBOOST)
    later.fake.defer()
    later.look(1.0)
    later.look(601.0)
    assert later.ledger.wanted(later.now) == ()
