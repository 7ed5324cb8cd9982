from __future__ import annotations

from dataclasses import replace

import pytest

from agent.core.cluster.resource import Resource
from agent.core.plan.needs.demand import KeptReason
from agent.core.plan.plan import Phase
from agent.core.plan.pod_change import Setting
from agent.core.resize.answer import AnswerKind
from agent.core.resize.decision import Action
from tests.ledgers import MI, WEB, Amounts, Desk, FakePod, step


def shrunk(*, memory: int = 128, limit: int = 300) -> Desk:
    """A pod whose memory request fell from 256 and whose limit fell from 512 MiB, in force for a second."""
    desk = Desk()
    desk.resize(Phase.SHRINK, cpu=400, memory=memory)
    desk.resize(Phase.LIMIT_DOWN, limit=limit)
    return desk


@pytest.mark.parametrize("why", ["killed", "pressed"])
def test_a_kill_or_pressure_soon_after_a_shrink_puts_memory_back_and_bars_the_workload(why: str) -> None:
    desk = shrunk()
    desk.look(598.0)
    assert desk.ledger.is_shrunk_lately(desk.fake.uid, "app", desk.now)
    report = desk.ledger.killed if why == "killed" else desk.ledger.pressed
    back = report(desk.fake.uid, "app", desk.now)
    assert back is not None
    assert (back.phase, back.is_urgent) == (Phase.GROW, True)
    assert {(change.setting, change.before, change.after) for change in back.changes} == {
        (Setting.REQUEST, 128 * MI, 256 * MI),
        (Setting.LIMIT, 300 * MI, 512 * MI),
    }  # CPU stays as it is
    assert desk.ledger.is_shrink_barred(WEB, desk.now)
    # No cool-down holds it up, and nothing else comes before it.
    assert desk.may(back) is None
    assert desk.ledger.wanted(desk.now) == (back,)
    # Where there is no room for all of it, a plan may help with what there is; it must not shrink the pod meanwhile.
    assert (desk.constraint.shrink, desk.constraint.urgent_grow) == (KeptReason.IN_FLIGHT, None)
    desk.send(back)  # whoever sends it under whatever name
    desk.fake.actuate()
    assert [news.action for news in desk.look(1.0)] == [Action.REVERT]
    assert desk.ledger.wanted(desk.now) == ()
    assert desk.fake.in_force == Amounts(cpu=400)


def test_a_kill_long_after_a_shrink_or_without_one_takes_nothing_back() -> None:
    desk = shrunk()
    assert desk.ledger.killed(desk.fake.uid, "other", desk.now) is None
    assert desk.ledger.killed("nobody", "app", desk.now) is None
    assert not desk.ledger.is_shrunk_lately(desk.fake.uid, "other", desk.now)
    assert not desk.ledger.is_shrunk_lately("nobody", "app", desk.now)
    assert not desk.ledger.is_shrunk_lately(desk.fake.uid, "app", desk.now + 601.0)
    # The last shrink came into force 600 s and a second ago.
    assert desk.ledger.killed(desk.fake.uid, "app", desk.now + 601.0) is None
    assert not desk.ledger.is_shrink_barred(WEB, desk.now)
    grown = Desk()
    grown.resize(memory=400)
    assert grown.ledger.killed(grown.fake.uid, "app", grown.now) is None


def test_of_several_shrinks_the_largest_value_comes_back_and_what_is_larger_stays() -> None:
    desk = Desk()
    for memory in (200, 150):
        desk.resize(Phase.SHRINK, memory=memory)
    desk.look(100.0)
    desk.resize(memory=220, cpu=700)
    back = desk.ledger.killed(desk.fake.uid, "app", desk.now)
    assert back is not None
    assert [(change.before, change.after) for change in back.changes] == [(220 * MI, 256 * MI)]
    desk.fake.take(Amounts(memory=300))  # somebody was quicker
    desk.fake.actuate()
    desk.look(1.0)
    assert desk.ledger.wanted(desk.now) == ()
    assert desk.ledger.killed(desk.fake.uid, "app", desk.now) is None
    assert desk.ledger.is_shrink_barred(WEB, desk.now)


def test_a_shrink_is_taken_back_though_somebody_else_has_resized_the_pod_since() -> None:
    desk = shrunk()
    desk.ledger.killed(desk.fake.uid, "app", desk.now)
    desk.fake.take(Amounts(cpu=550, memory=200))
    desk.fake.actuate()
    desk.look(1.0)
    (back,) = desk.ledger.wanted(desk.now)
    assert [(change.before, change.after) for change in back.changes] == [(200 * MI, 256 * MI)]


def test_a_kill_while_the_shrink_is_not_answered_yet_waits_for_the_answer() -> None:
    desk = Desk()
    wish = step(desk.fake, Phase.SHRINK, memory=128)
    desk.send(wish, AnswerKind.UNKNOWN)
    assert desk.ledger.is_shrunk_lately(desk.fake.uid, "app", desk.now)  # it may be in force by now
    assert desk.ledger.killed(desk.fake.uid, "app", desk.now) is None  # nothing of it stands in the pod so far
    assert desk.look(1.0) == []
    assert desk.ledger.wanted(desk.now) == ()
    desk.fake.take(Amounts(memory=128))
    desk.look(1.0)
    (back,) = desk.ledger.wanted(desk.now)
    assert [(change.before, change.after) for change in back.changes] == [(128 * MI, 256 * MI)]
    assert desk.ledger.is_shrink_barred(WEB, desk.now)


def test_what_is_to_be_put_back_waits_for_the_answer_to_what_was_sent_before() -> None:
    desk = Desk()
    desk.resize(Phase.SHRINK, memory=200)
    desk.look(300.0)
    desk.send(step(desk.fake, cpu=600), AnswerKind.UNKNOWN)
    back = desk.ledger.killed(desk.fake.uid, "app", desk.now)
    assert back is not None
    assert desk.may(back) is KeptReason.IN_FLIGHT
    assert desk.ledger.wanted(desk.now) == ()
    desk.look(120.0)  # it was not done
    assert desk.ledger.wanted(desk.now) == (back,)


def test_a_kill_while_a_shrink_is_failing_puts_it_back_at_once() -> None:
    desk = Desk()
    desk.send(step(desk.fake, Phase.SHRINK, memory=128))
    desk.fake.say("PodResizeInProgress", "")
    desk.look(1.0)
    back = desk.ledger.killed(desk.fake.uid, "app", desk.now)
    assert back is not None
    assert desk.may(back) is None  # over the shrink that is still on its way
    desk.send(back)
    assert desk.may(back) is KeptReason.IN_FLIGHT  # once


def test_a_limit_is_put_back_alone_over_a_shrink_that_gets_on() -> None:
    desk = Desk()
    desk.send(step(desk.fake, Phase.SHRINK, memory=128, limit=300))
    desk.look(1.0)
    back = desk.ledger.killed(desk.fake.uid, "app", desk.now)
    assert back is not None
    # There is no room for the request.
    limit = replace(back, changes=tuple(change for change in back.changes if change.setting is Setting.LIMIT))
    assert desk.may(limit, Action.REVERT) is None
    assert desk.may(step(desk.fake, cpu=600, urgent=True), Action.REVERT) is KeptReason.IN_FLIGHT


def test_a_revert_that_is_refused_is_tried_again_later() -> None:
    desk = shrunk()
    back = desk.ledger.killed(desk.fake.uid, "app", desk.now)
    assert back is not None
    desk.send(back, AnswerKind.REJECTED)
    assert desk.may(back) is KeptReason.LIMIT_RANGE
    assert desk.ledger.wanted(desk.now) == ()
    desk.look(60.0)
    assert desk.ledger.wanted(desk.now) == (back,)


def test_a_revert_that_is_infeasible_is_given_up() -> None:
    desk = shrunk()
    back = desk.ledger.killed(desk.fake.uid, "app", desk.now)
    assert back is not None
    desk.send(back, AnswerKind.INFEASIBLE)
    desk.look(1.0)
    assert desk.ledger.wanted(desk.now) == ()
    assert desk.constraint.memory_below_bytes == 256 * MI


def test_a_revert_outlives_a_restart_and_waits_for_the_first_look() -> None:
    desk = shrunk()
    desk.restart()
    assert desk.ledger.killed(desk.fake.uid, "app", desk.now) is None  # the pod has not been seen yet
    assert desk.ledger.wanted(desk.now) == ()
    desk.look(1.0)
    assert len(desk.ledger.wanted(desk.now)) == 1


def test_a_bar_is_over_after_its_time_and_outlives_its_pod() -> None:
    desk = shrunk()
    desk.ledger.killed(desk.fake.uid, "app", desk.now)
    desk.fakes = [FakePod(name="next")]
    desk.look(86_399.0)
    assert desk.ledger.is_shrink_barred(WEB, desk.now)
    assert [bar.workload for bar in desk.ledger.kept().bars] == [WEB]
    desk.look(1.0)
    assert not desk.ledger.is_shrink_barred(WEB, desk.now)
    assert desk.ledger.kept().bars == ()


def test_withdrawing_a_wish_that_never_was_in_force_is_no_shrink() -> None:
    desk = Desk()
    desk.send(step(desk.fake, memory=400))
    desk.fake.defer()
    desk.look(1.0)
    desk.look(600.0)
    desk.send(desk.ledger.wanted(desk.now)[0])
    desk.fake.actuate()
    desk.look(1.0)
    assert desk.ledger.killed(desk.fake.uid, "app", desk.now) is None


def test_a_pod_that_fares_worse_gets_both_resources_back_and_the_workload_is_barred() -> None:
    desk = shrunk()
    ((pod, shrink),) = desk.ledger.shrunk_lately(desk.now)
    assert (pod.uid, shrink.restarts, shrink.was_ready) == (desk.fake.uid, 0, False)
    back = desk.ledger.fared_worse(desk.fake.uid, "throttled 30 % of the time", desk.now)
    assert back is not None
    assert back.reason == "throttled 30 % of the time: taken back"
    assert {(change.resource, change.setting, change.before, change.after) for change in back.changes} == {
        (Resource.CPU, Setting.REQUEST, 400, 500),
        (Resource.MEMORY, Setting.REQUEST, 128 * MI, 256 * MI),
        (Resource.MEMORY, Setting.LIMIT, 300 * MI, 512 * MI),
    }
    assert desk.ledger.is_shrink_barred(WEB, desk.now)
    assert desk.ledger.shrunk_lately(desk.now) == (), "it is being taken back already"
    assert desk.ledger.wanted(desk.now) == (back,)


def test_what_only_lowers_cpu_is_put_back_by_how_a_pod_fares_and_not_by_a_kill() -> None:
    desk = Desk()
    desk.resize(Phase.SHRINK, cpu=300)
    assert desk.ledger.killed(desk.fake.uid, "app", desk.now) is None
    desk.restart()
    desk.look()
    assert len(desk.ledger.shrunk_lately(desk.now)) == 1, "a restart forgets nothing"
    back = desk.ledger.fared_worse(desk.fake.uid, "restarts", desk.now)
    assert back is not None
    assert [(change.before, change.after) for change in back.changes] == [(300, 500)]


def test_who_was_not_shrunk_lately_has_nothing_to_get_back() -> None:
    desk = Desk()
    assert desk.ledger.shrunk_lately(desk.now) == ()
    assert desk.ledger.fared_worse(desk.fake.uid, "restarts", desk.now) is None
    desk.resize(cpu=700)
    assert desk.ledger.shrunk_lately(desk.now) == ()
    assert desk.ledger.fared_worse(desk.fake.uid, "restarts", desk.now) is None
    old = shrunk()
    assert old.ledger.shrunk_lately(old.now + 601.0) == ()
    assert old.ledger.fared_worse(old.fake.uid, "restarts", old.now + 601.0) is None


def test_what_a_person_wants_back_is_not_judged() -> None:
    desk = Desk()
    desk.send(step(desk.fake, Phase.SHRINK, cpu=300, memory=128), action=Action.RESTORE)
    desk.fake.actuate()
    desk.look(1.0)
    assert desk.ledger.shrunk_lately(desk.now) == ()
