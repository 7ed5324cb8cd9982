"""The hand: what is on disk before a step is sent, what is put down after it, what keeps a step from being sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.core.cluster.pod import Pod
from agent.core.plan.plan import PlanStep
from agent.core.resize.answer import AnswerKind
from agent.core.resize.decision import Action, Outcome
from agent.core.resize.record import LedgerState
from agent.kube.client.errors import ApiError, Unreachable
from tests.turns import Turns, uid_of


class Killed(BaseException):
    """The process ends here."""


def wish(turns: Turns, name: str = "web") -> tuple[Pod, PlanStep]:
    """A pod, and the step that the plan has for it; nothing is sent."""
    turns.holds.pause(None, now_unix_seconds=turns.wall)
    turns.turn()
    turns.holds.resume(now_unix_seconds=turns.wall)
    step = next(step for step in turns.plans[-1][1].plan.steps if step.ref.name == name)
    return next(pod for pod in turns.state().pods if pod.name == name), step


def started(directory: Path | None = None) -> Turns:
    turns = Turns(directory)
    turns.server.add("web", cpu=500)
    turns.need("web", cpu=200)
    return turns


def on_disk(turns: Turns) -> tuple[list[str], list[str]]:
    """Return what the files say: states of flights, and pods of which originals are kept."""
    assert turns.directory is not None
    ledger: Any = json.loads((turns.directory / "ledger").read_text())
    holds: Any = json.loads((turns.directory / "holds").read_text())
    flights = [pod["flight"]["state"] for pod in ledger["pods"] if pod["flight"] is not None]
    return flights, [original["ref"]["uid"] for original in holds["originals"]]


def test_step_and_original_are_on_disk_before_anything_is_sent(tmp_path: Path) -> None:
    turns = started(tmp_path)
    seen: list[tuple[list[str], list[str]]] = []
    turns.server.answers = [lambda: seen.append(on_disk(turns))]
    pod, step = wish(turns)
    decision, answer = turns.writer.send(pod, step)
    assert seen == [(["sent"], [uid_of("web")])]
    assert answer is not None
    assert answer.kind is AnswerKind.ACCEPTED
    assert (decision.outcome, decision.reason, decision.pod) == (Outcome.ACCEPTED, step.reason, step.ref)
    assert (decision.workload, decision.changes) == ("Deployment/web", step.changes)


@pytest.mark.parametrize("is_taken", [True, False])
def test_agent_that_dies_in_between_looks_up_what_became_of_it(tmp_path: Path, is_taken: bool) -> None:
    turns = started(tmp_path)

    def die() -> None:
        if is_taken:
            turns.server._resize("web", turns.server.calls[-1].body)
            turns.server.actuate("web")
        raise Killed

    turns.server.answers = [die]
    with pytest.raises(Killed):
        turns.turn()
    turns.start()
    assert turns.writer.unanswered() == (turns.ref("web"),)
    turns.turn(after=60.0)
    turns.turn(after=60.0)
    assert turns.server.cpu("web") == "200m"
    assert turns.server.writes.count("resize web") == (1 if is_taken else 2)


def test_restarted_agent_goes_on_with_cool_downs_and_reverts(tmp_path: Path) -> None:
    turns = Turns(tmp_path)
    turns.server.add("web", cpu=500, memory=512)
    turns.need("web", memory=256)
    turns.turn()
    turns.server.actuate("web")
    turns.turn(after=1.0)
    turns.start()
    turns.need("web", memory=128)
    turns.turn(after=1.0)
    assert turns.server.writes.count("resize web") == 1  # cooling down
    turns.actor.killed((uid_of("web"), "app"))
    turns.turn(after=1.0)
    assert turns.server.requests("web")["memory"] == f"{512 << 20}"


def test_original_that_the_disk_does_not_take_lets_nothing_be_sent(tmp_path: Path) -> None:
    turns = started(tmp_path)
    pod, step = wish(turns)
    (tmp_path / "holds.new").mkdir()
    decision, answer = turns.writer.send(pod, step)
    assert answer is None
    assert (decision.outcome, decision.reason) == (Outcome.WITHHELD, "originals")
    assert turns.server.writes == []
    (tmp_path / "holds.new").rmdir()
    assert turns.writer.send(pod, step)[0].outcome is Outcome.ACCEPTED


def test_ledger_that_the_disk_does_not_take_lets_nothing_be_sent(tmp_path: Path) -> None:
    turns = started(tmp_path)
    pod, step = wish(turns)
    (tmp_path / "ledger.new").mkdir()
    decision, answer = turns.writer.send(pod, step)
    assert answer is None
    assert (decision.outcome, decision.reason) == (Outcome.WITHHELD, "ledger")
    assert turns.server.writes == []
    assert turns.writer.unanswered() == ()
    (tmp_path / "ledger.new").rmdir()
    assert turns.writer.send(pod, step)[0].outcome is Outcome.ACCEPTED


def test_second_step_of_a_pod_waits_for_the_first() -> None:
    turns = started()
    pod, step = wish(turns)
    turns.writer.send(pod, step)
    decision, answer = turns.writer.send(pod, step)
    assert answer is None
    assert (decision.outcome, decision.reason) == (Outcome.WITHHELD, "in_flight")
    assert turns.server.writes == ["resize web"]


def test_pause_that_comes_while_a_step_waits_for_the_hand_is_heeded_but_a_person_may_restore() -> None:
    turns = started()
    pod, step = wish(turns)
    turns.holds.pause(None, now_unix_seconds=turns.wall)
    decision, answer = turns.writer.send(pod, step)
    assert (decision.outcome, decision.reason, answer) == (Outcome.WITHHELD, "paused", None)
    assert turns.writer.send(pod, step, Action.RESTORE)[0].outcome is Outcome.ACCEPTED


def test_pod_that_is_so_already_is_applied_and_free_again() -> None:
    turns = started()
    pod, step = wish(turns)

    def resized_by_hand() -> None:  # in a version of the pod that the server does not count
        turns.server.pods["web"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "200m"

    turns.server.answers = [resized_by_hand]
    decision, answer = turns.writer.send(pod, step)
    assert answer is not None
    assert (decision.outcome, answer.kind) == (Outcome.APPLIED, AnswerKind.NO_CHANGE)
    assert turns.ledger.may_send(step, pod, turns.wall) is None


def test_pod_in_another_version_than_decided_on_is_left() -> None:
    turns = started()
    pod, step = wish(turns)
    turns.server.order("web", policy="cruise")
    decision, answer = turns.writer.send(pod, step)
    assert answer is not None
    assert (decision.outcome, decision.reason) == (Outcome.CONFLICT, "conflict")
    assert decision.detail == answer.message
    assert turns.server.cpu("web") == "500m"


@pytest.mark.parametrize(
    ("answer", "quiet_seconds"),
    [
        (ApiError("PATCH", status=429, retry_after_seconds=7.0), 7.0),
        (ApiError("PATCH", status=409), 0.0),
        (Unreachable("timed out", may_have_been_done=True), 1.0),
    ],
)
def test_quiet_that_the_server_asks_for_is_told_without_the_lock(answer: Exception, quiet_seconds: float) -> None:
    turns = started()
    pod, step = wish(turns)
    turns.server.answers = [answer]
    turns.writer.send(pod, step)
    assert turns.writer.quiet_until_seconds == turns.wall + quiet_seconds


def gone(turns: Turns) -> None:
    del turns.server.pods["web"]


def replaced(turns: Turns) -> None:
    turns.server.pods["web"]["metadata"]["uid"] = "uid-successor"


def unreadable(turns: Turns) -> None:
    turns.server.pods["web"]["spec"] = "odd"


def away(turns: Turns) -> None:
    turns.server.is_away = True


@pytest.mark.parametrize("meanwhile", [replaced, unreadable, away])
def test_pod_that_cannot_be_looked_up_stays_unanswered(meanwhile: Callable[[Turns], None]) -> None:
    turns = started()
    pod, step = wish(turns)
    turns.server.answers = [Unreachable("timed out", may_have_been_done=True)]
    turns.writer.send(pod, step)
    meanwhile(turns)
    assert turns.writer.look_up() == ()
    assert turns.writer.unanswered() == (turns.ref("web"),)


def test_what_was_looked_up_and_is_not_there_was_not_done() -> None:
    turns = started()
    pod, step = wish(turns)
    turns.server.answers = [Unreachable("timed out", may_have_been_done=True)]
    turns.writer.send(pod, step)
    assert turns.writer.look_up() == ()  # it may yet come through
    turns.server.order("web", policy="cruise")  # ... but not in another version
    [news] = turns.writer.look_up()
    assert (news.outcome, news.reason) == (Outcome.ERROR, "not_done")
    assert turns.writer.unanswered() == ()
    assert turns.writer.look_up() == ()


def test_the_ledger_is_looked_through_only_while_nobody_else_may_change_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person's restore is sent by another thread, and puts down what it raised."""
    turns = started()
    kept, lock, taken = turns.ledger.kept, turns.writer.lock, list[bool]()

    def take() -> None:
        taken.append(lock.acquire(blocking=False))
        if taken[-1]:
            lock.release()

    def looked_through() -> LedgerState:
        other = threading.Thread(target=take)
        other.start()
        other.join()
        return kept()

    monkeypatch.setattr(turns.ledger, "kept", looked_through)
    turns.turn()
    assert len(taken) > 1
    assert not any(taken)
