from __future__ import annotations

import pytest

from agent.core.cluster.resource import Resource
from agent.core.plan.needs.demand import FREE, Constraint, KeptReason
from agent.core.plan.plan import Phase
from agent.core.resize.answer import AnswerKind
from agent.core.resize.decision import Outcome
from agent.core.resize.refusal import infeasible_as_stated
from tests.ledgers import MI, Amounts, Desk, node, step
from tests.pods import container, make_pod

FULLY = Constraint(shrink=KeptReason.INFEASIBLE, grow=KeptReason.INFEASIBLE, urgent_grow=KeptReason.INFEASIBLE)


@pytest.mark.parametrize("kind", [AnswerKind.CONFLICT, AnswerKind.NO_CHANGE, AnswerKind.GONE])
def test_an_answer_that_settles_nothing_leaves_the_pod_free_to_be_decided_anew(kind: AnswerKind) -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600), kind)
    assert desk.constraint == FREE
    assert desk.look(1.0) == []


def test_a_refusal_waits_twice_as_long_each_time_from_a_minute_to_an_hour() -> None:
    desk = Desk()
    delays = [60, 120, 240, 480, 960, 1920, 3600, 3600]
    for delay in delays:
        desk.send(step(desk.fake, cpu=600), AnswerKind.REJECTED)
        assert desk.constraint == Constraint(grow=KeptReason.LIMIT_RANGE, urgent_grow=KeptReason.LIMIT_RANGE)
        assert desk.may(step(desk.fake, cpu=601, urgent=True)) is KeptReason.LIMIT_RANGE
        desk.look(delay - 1.0)
        assert desk.may(step(desk.fake, cpu=600)) is KeptReason.LIMIT_RANGE
        desk.look(1.0)
        assert desk.may(step(desk.fake, cpu=600)) is None


@pytest.mark.parametrize(
    ("kind", "kept", "delay"),
    [
        (AnswerKind.FORBIDDEN, KeptReason.LIMIT_RANGE, 60),
        (AnswerKind.INVALID, KeptReason.LIMIT_RANGE, 3600),  # the same wish never passes
        (AnswerKind.FEATURE_MISSING, KeptReason.TOO_OLD, 3600),
    ],
)
def test_what_is_refused_decides_how_long_the_wait_is(kind: AnswerKind, kept: KeptReason, delay: int) -> None:
    desk = Desk()
    desk.send(step(desk.fake, Phase.LIMIT_DOWN, limit=400), kind)
    assert desk.constraint == Constraint(shrink=kept)
    assert desk.may(step(desk.fake, cpu=600)) is None  # the other way is open
    desk.look(delay)
    assert desk.constraint == FREE


def test_a_refusal_is_forgotten_when_the_same_way_succeeds_or_others_change_the_pod() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600), AnswerKind.REJECTED)
    desk.look(60.0)
    desk.send(step(desk.fake, cpu=600), AnswerKind.REJECTED)
    desk.look(120.0)
    desk.resize(cpu=600)
    desk.look(30.0)
    desk.send(step(desk.fake, cpu=700), AnswerKind.REJECTED)
    desk.look(60.0)
    assert desk.constraint.grow is None  # a minute again
    desk.send(step(desk.fake, cpu=700), AnswerKind.INVALID)
    desk.fake.take(Amounts(cpu=550))
    desk.fake.actuate()
    desk.look(1.0)
    assert desk.constraint == Constraint(shrink=KeptReason.COOL_DOWN, grow=KeptReason.COOL_DOWN)


def test_a_refusal_long_past_begins_with_a_minute_again() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600), AnswerKind.REJECTED)
    desk.look(3660.0)
    desk.send(step(desk.fake, cpu=600), AnswerKind.REJECTED)
    desk.look(60.0)
    assert desk.constraint == FREE


def test_an_infeasible_wish_is_followed_only_by_less() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=9000, memory=300), AnswerKind.INFEASIBLE, resources=(Resource.CPU,))
    assert desk.constraint == Constraint(cpu_below_millicores=9000)  # memory was not the matter
    assert desk.may(step(desk.fake, cpu=9000)) is KeptReason.INFEASIBLE
    assert desk.may(step(desk.fake, cpu=8999, memory=4000)) is None
    desk.send(step(desk.fake, memory=9000), AnswerKind.INFEASIBLE)
    assert desk.constraint == Constraint(memory_below_bytes=9000 * MI)


def test_an_infeasible_wish_that_does_not_say_why_bounds_all_that_rose() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=9000, memory=200), AnswerKind.INFEASIBLE, resources=(Resource.MEMORY,))
    assert desk.constraint == Constraint(cpu_below_millicores=9000)


def test_a_shrink_that_is_infeasible_is_no_matter_of_amounts() -> None:
    desk = Desk()
    desk.send(step(desk.fake, Phase.SHRINK, memory=200), AnswerKind.INFEASIBLE)
    assert desk.constraint == FULLY
    assert desk.may(step(desk.fake, Phase.SHRINK, cpu=100)) is KeptReason.INFEASIBLE


def test_infeasible_is_forgotten_on_a_larger_node_and_when_others_change_the_pod() -> None:
    for cpu_cores, memory_mi in ((5, 8192), (4, 9000)):
        desk = Desk()
        desk.send(step(desk.fake, cpu=9000), AnswerKind.INFEASIBLE)
        desk.node = None
        desk.look(1.0)
        desk.node = node(3, 8000)
        desk.look(1.0)
        assert desk.constraint.cpu_below_millicores == 9000
        desk.node = node(cpu_cores, memory_mi)
        desk.look(1.0)
        assert desk.constraint == FREE
    desk.send(step(desk.fake, cpu=9000), AnswerKind.INFEASIBLE)
    desk.fake.take(Amounts(cpu=400))
    desk.fake.actuate()
    desk.look(1.0)
    assert desk.constraint.cpu_below_millicores is None


def test_infeasible_as_a_condition_is_remembered_and_the_wish_taken_back() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=9000))
    desk.fake.refuse()
    (news,) = desk.look(1.0)
    assert (news.outcome, news.reason) == (Outcome.INFEASIBLE, "infeasible")
    (back,) = desk.ledger.wanted(desk.now)
    assert [(change.before, change.after) for change in back.changes] == [(9000, 500)]
    assert desk.constraint.grow is KeptReason.IN_FLIGHT  # nothing else until it is back
    desk.send(back)
    desk.fake.actuate()
    desk.look(1.0)
    assert desk.constraint == Constraint(
        shrink=KeptReason.COOL_DOWN, grow=KeptReason.COOL_DOWN, cpu_below_millicores=9000
    )
    desk.restart()
    desk.look(1000.0)
    assert desk.constraint == Constraint(cpu_below_millicores=9000)


def test_an_infeasible_wish_of_others_is_respected_too() -> None:
    desk = Desk()
    desk.fake.take(Amounts(cpu=9000))
    desk.fake.refuse()
    desk.node = None
    assert desk.look(1.0) == []
    assert desk.constraint.cpu_below_millicores == 9000
    desk.fakes[0].spec = Amounts()
    desk.fake.refuse()  # nothing is asked that is not granted: a manager of the node says never
    desk.look(1.0)
    desk.look(1.0)
    assert desk.constraint == FULLY


def test_a_refused_budget_of_a_pod_is_followed_by_less_as_well() -> None:
    amounts = {"cpu": "500m", "memory": "256Mi"}
    status = {
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
        "allocatedResources": amounts,
        "resources": {"requests": amounts},
    }
    pod = make_pod(container("app"), resources={"requests": {"cpu": "8", "memory": "256Mi"}}, status=status)
    infeasible = infeasible_as_stated(pod, None)
    assert (infeasible.cpu_below_millicores, infeasible.memory_below_bytes, infeasible.is_final) == (8000, None, False)


def test_a_server_that_sheds_load_is_left_alone_for_as_long_as_it_asks() -> None:
    desk = Desk()
    desk.send(step(desk.fake, cpu=600), AnswerKind.THROTTLED, retry_after_seconds=7.0)
    assert desk.ledger.wait_seconds(desk.now) == 7.0
    assert desk.ledger.wait_seconds(desk.now + 8.0) == 0.0
    assert desk.may(step(desk.fake, cpu=600)) is None  # it was not done


def test_a_server_that_does_not_say_for_how_long_is_asked_less_and_less() -> None:
    desk = Desk()
    waits = []
    for _ in range(8):
        desk.send(step(desk.fake, cpu=600), AnswerKind.UNAVAILABLE)
        waits.append(desk.ledger.wait_seconds(desk.now))
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    desk.send(step(desk.fake, cpu=600), AnswerKind.CONFLICT)
    assert desk.ledger.wait_seconds(desk.now) == 0.0
