"""What people are told of acting: ``why`` of a pod, and the plan."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from agent.cli.plan.formats import patch_text
from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.core.plan.plan import Plan
from agent.node.resize import answers as answers_module
from agent.node.resize.answers import ActingAnswers
from agent.node.sockets.control import ControlError
from tests.turns import Turns, two_pods

PATIENCE_SECONDS = 60.0
"""For a loaded machine."""


def answers_of(turns: Turns) -> ActingAnswers:
    return ActingAnswers(
        turns.actor._parts,
        server="https://kubernetes",
        actor=turns.actor,
        writer=turns.writer,
        directions=turns.directions,
        reporting=lambda: None,
        notes=lambda: (),
        runs=lambda workload, container: (),
    )


@pytest.mark.parametrize("mode", ["recommend", "enforce"])
def test_windows_are_told_of_a_pod_that_is_left_alone_too(mode: str) -> None:
    turns = two_pods()
    turns.server.order("a", mode=mode, windows="evict: UTC 0 0 1 1 * for 1h")
    turns.turn(after=61.0)
    answers = answers_of(turns)
    acted = answers.acted(
        UnitIdentity(cgroup_path="/a", kind=UnitKind.CONTAINER, pod_uid=turns.ref("a").uid, container="app")
    )
    assert acted is not None
    assert (acted.reserved is None) is (mode == "enforce")
    assert acted.windows is not None
    assert acted.windows.startswith("shrink may be now; evict waits until ")


def ask_while_sent(turns: Turns, *, as_enforced: bool = False) -> list[Plan | ControlError]:
    """Return what another thread is answered that asks for a plan while the API server has not answered to a step."""
    answers, outcomes = answers_of(turns), list[Plan | ControlError]()

    def ask() -> None:
        try:
            outcomes.append(answers.plan(as_enforced=as_enforced))
        except ControlError as error:
            outcomes.append(error)

    def delay() -> None:
        person = threading.Thread(target=ask, daemon=True)
        person.start()
        person.join(PATIENCE_SECONDS)
        assert outcomes, "the plan waits for the API server"

    turns.server.answers = [delay]
    turns.turn(after=61.0)
    return outcomes


def test_a_plan_leaves_out_the_step_that_the_api_server_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers_module, "PLAN_WAIT_SECONDS", 0.0)
    turns = two_pods()
    (plan,) = ask_while_sent(turns)
    assert isinstance(plan, Plan)
    assert [step.ref.name for step in turns.plans[-1][1].plan.steps] == ["a", "b"]
    assert [step.ref.name for step in plan.steps] == ["b"]
    assert f"# {turns.ref('a')} waits: a resize is under way" in patch_text(plan).splitlines()
    note = "a step waits for the API server's answer: cool-downs, pins and pauses are as of the newest turn"
    assert note in plan.notes
    assert plan.is_sound
    later = answers_of(turns).plan()
    assert note not in later.notes
    assert not turns.writer.unanswered_uids


def test_what_is_planned_as_enforced_while_the_api_server_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers_module, "PLAN_WAIT_SECONDS", 0.0)
    turns = two_pods()
    turns.server.order("b", mode="recommend")
    (plan,) = ask_while_sent(turns, as_enforced=True)
    assert isinstance(plan, Plan)
    assert [step.ref.name for step in plan.steps] == ["b"]


def test_what_cannot_be_planned_before_the_first_turn_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers_module, "PLAN_WAIT_SECONDS", 0.0)
    turns = two_pods()
    with ThreadPoolExecutor(1) as person, turns.writer.lock:
        error = person.submit(answers_of(turns).plan).exception(PATIENCE_SECONDS)
    assert str(error) == "plan: a step waits for the API server's answer; ask again in a moment"
