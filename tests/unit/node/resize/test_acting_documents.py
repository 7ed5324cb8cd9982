"""Plans and decisions through their written form and back, to the last field and type."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.orders.order import Mode, Ranking
from agent.core.plan.needs.demand import KeptReason, ReservedReason
from agent.core.plan.plan import Phase, Plan, Share
from agent.core.recommender.recommendation import Withheld
from agent.core.resize.decision import Action, Decision, Decisions, Outcome
from agent.node.files.documents import DECISION, DECISIONS, PLAN, Document, DocumentFormatError
from agent.node.orders.answers import HOLDING, ORDERED, RESTORED, HeldAnswer, OrderAnswer, Restored, RestoredPod
from agent.node.orders.holds import Pause, Pin
from tests.plans import change, container, decision, decisions, left_alone, mixed_plan, plan, pod, ref, step

Kind = TypeVar("Kind")


def through_text(document: Document[Kind], value: Kind) -> Kind:
    return document.from_json(json.loads(json.dumps(document.to_json(value), allow_nan=False)))


@pytest.mark.parametrize("original", [mixed_plan(), plan()], ids=["mixed", "empty"])
def test_a_plan_comes_back_equal_with_the_same_types(original: Plan) -> None:
    back = through_text(PLAN, original)
    assert back == original
    assert repr(back) == repr(original)


def test_decisions_come_back_equal() -> None:
    original = decisions(
        decision(2, repeats=7, detail="a\nb", changes=(change(), change(1, 2, ""))),
        decision(1, pod=None, workload=None, changes=(), seconds=None, action=Action.PAUSE, outcome=Outcome.DONE),
        notes=("n",),
    )
    back = through_text(DECISIONS, original)
    assert back == original
    assert repr(back) == repr(original)
    assert through_text(DECISION, original.items[0]) == original.items[0]


def test_answers_of_the_holding_verbs_come_back_equal() -> None:
    now = 1_700_000_000.5
    pause = Pause(since_unix_seconds=now, until_unix_seconds=None, reason="x")
    pin = Pin(ref=ref(), since_unix_seconds=now, until_unix_seconds=now + 1)
    holding = HeldAnswer(node="n", taken_unix_seconds=now, pause=pause, pins=(pin,))
    assert through_text(HOLDING, holding) == holding
    ordered = OrderAnswer(
        node="n", taken_unix_seconds=now, ref=ref(), until_unix_seconds=None, held_since_unix_seconds=now, notes=("a",)
    )
    assert through_text(ORDERED, ordered) == ordered
    item = RestoredPod(ref=ref(), changes=(change(),), outcome=Outcome.REJECTED, detail="d", kept_unix_seconds=now)
    restored = Restored(node="n", taken_unix_seconds=now, is_dry_run=False, items=(item,))
    assert through_text(RESTORED, restored) == restored


amounts = st.integers(-(2**63), 2**63)
shares = st.builds(
    Share,
    base=amounts,
    peak=amounts,
    spike=amounts,
    headroom=amounts,
    final=amounts,
    request=st.none() | amounts,
    applied=st.none() | amounts,
    limit=st.none() | amounts,
    limit_applied=st.none() | amounts,
    kept=st.none() | st.sampled_from(KeptReason),
    limit_kept=st.none() | st.sampled_from(KeptReason),
    withheld=st.none() | st.sampled_from(Withheld),
)


@given(
    cpu=st.none() | shares,
    reserved=st.sampled_from(ReservedReason),
    mode=st.sampled_from(Mode),
    ranking=st.sampled_from(Ranking),
    phase=st.sampled_from(Phase),
    name=st.text(max_size=9),
)
def test_any_plan_comes_back_equal(
    cpu: Share | None, reserved: ReservedReason, mode: Mode, ranking: Ranking, phase: Phase, name: str
) -> None:
    original = plan(
        pod(name, container(name, cpu=cpu), mode=mode, ranking=ranking, budget=container("", memory=cpu)),
        left_alone(name, reserved),
        steps=(step(name, change(1, 2, name), phase=phase),),
        notes=(name,),
    )
    assert through_text(PLAN, original) == original


@given(
    action=st.sampled_from(Action),
    outcome=st.sampled_from(Outcome),
    at=st.floats(allow_nan=False, allow_infinity=False),
    seconds=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    text=st.text(max_size=20),
    repeats=st.integers(1, 2**40),
)
def test_any_decision_comes_back_equal(
    action: Action, outcome: Outcome, at: float, seconds: float | None, text: str, repeats: int
) -> None:
    original: Decision = replace(
        decision(), action=action, outcome=outcome, unix_seconds=at, seconds=seconds, detail=text, repeats=repeats
    )
    assert through_text(DECISION, original) == original


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("steps", 0, "phase"), "jump", "plan.steps[0].phase: 'jump' is not one of shrink, grow, limit_down"),
        (("pods", 0, "reserved"), "tea", "plan.pods[0].reserved: 'tea' is not one of off"),
        (("cpu", "available"), 1.5, "plan.cpu.available: 1.5 is not a whole number"),
        (("version",), 2, "plan.version: 2 is not 1"),
        (("evictions",), None, "plan.evictions: None is not a list"),
    ],
)
def test_a_plan_of_another_shape_is_refused(path: tuple[Any, ...], value: object, told: str) -> None:
    document: Any = json.loads(json.dumps(PLAN.to_json(mixed_plan())))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(DocumentFormatError) as caught:
        PLAN.from_json(document)
    assert told in str(caught.value)


def test_the_socket_carries_a_plan_of_250_pods() -> None:
    whole = plan(*(pod(f"pod-{number}", container("a"), container("b")) for number in range(250)))
    assert len(json.dumps(PLAN.to_json(whole))) < 1 << 20
    assert isinstance(through_text(DECISIONS, decisions(*(decision(index) for index in range(1, 1001)))), Decisions)
