"""Pods that have more CPU while they start: when it is taken back, and when it is not."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent.core.orders.plan_options import PlanOptions
from agent.core.plan.needs.demand import KeptReason
from agent.core.resize.decision import Action
from agent.core.resize.originals import annotated_original, restore_steps
from agent.kube.client.errors import ApiError, Unreachable
from agent.node.resize.startup_boosts import LONGEST_AGAIN_SECONDS
from tests.turns import Turns, uid_of


def boosted(directory: Path | None = None, *, after_ready: int = 60, **more: Any) -> Turns:
    """A node with a pod ``web`` that runs with 500 millicores and began just now with 1500; it is young for long."""
    turns = Turns(directory, plan=PlanOptions(min_age_seconds=900.0), **more)
    give(turns, after_ready=after_ready)
    return turns


def give(turns: Turns, name: str = "web", *, after_ready: int = 60) -> None:
    document = {
        "unixSeconds": turns.wall,
        "afterReadySeconds": after_ready,
        "timeoutSeconds": 600,
        "containers": {"app": {"requestMillicores": [500, 1500]}},
    }
    turns.server.add(name, cpu=1500)
    turns.server.order(name, **{"startup-boosted": json.dumps(document)})
    turns.server.pods[name]["metadata"]["creationTimestamp"] = time_text(turns)
    turns.server.pods[name]["status"]["startTime"] = time_text(turns)


def time_text(turns: Turns) -> str:
    return datetime.fromtimestamp(turns.wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ready(turns: Turns, name: str = "web") -> None:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": time_text(turns)}]
    turns.server.pods[name]["status"]["conditions"] = conditions


def told(turns: Turns) -> list[tuple[str, str]]:
    return [(action, outcome) for action, outcome, _, _ in turns.log() if action in (Action.BOOST, Action.UNBOOST)]


def test_a_boost_is_taken_back_when_the_pod_has_been_ready_for_as_long_as_was_ordered() -> None:
    turns = boosted()
    turns.turn()
    assert turns.figure("startup_boosts") == 1
    ready(turns)
    turns.turn(after=59.0)
    assert turns.server.cpu("web") == "1500m"
    turns.turn(after=1.0)
    assert turns.server.cpu("web") == "500m"
    assert told(turns) == [("boost", "done"), ("unboost", "accepted")]
    assert turns.newest().reason == "the start is over: the pod is ready"
    turns.server.actuate("web")
    turns.turn(after=1.0)
    assert told(turns)[-1] == ("unboost", "applied")
    assert turns.figure("startup_boosts_ended_total", reason="ready") == 1
    assert turns.figure("startup_boosts") == 0


@pytest.mark.parametrize("after_ready", [0, 30])
def test_it_is_taken_back_within_two_seconds_without_being_asked(after_ready: int) -> None:
    turns = boosted(after_ready=after_ready)
    began = turns.wall

    def gets_ready() -> None:
        ready(turns)
        turns.put(None)  # the watch tells

    turns.at(100.0, gets_ready)
    turns.run(until=200.0)
    [at] = [entry.unix_seconds - began for entry in turns.journal.newest() if entry.action is Action.UNBOOST]
    assert 100.0 + after_ready <= at <= 102.0 + after_ready


@pytest.mark.parametrize("seconds", [0.2, 1.0, 2.5, 4.9])
def test_a_pod_that_gets_ready_at_once_is_not_waited_for_as_on_an_idle_node(seconds: float) -> None:
    """News of an idle node are taken together for five seconds; of one that starts boosted they are not."""
    turns = Turns(plan=PlanOptions(min_age_seconds=900.0, replan_seconds=300.0))
    births: list[float] = []

    def comes() -> None:
        give(turns, after_ready=0)
        births.append(turns.wall)
        turns.put(None)

    def gets_ready() -> None:
        ready(turns)
        turns.put(None)

    turns.at(99.9, lambda: turns.put(None))  # other news, just before
    turns.at(100.0, comes)
    turns.at(100.0 + seconds, gets_ready)
    turns.run(until=120.0)
    [at] = [entry.unix_seconds - births[0] for entry in turns.journal.newest() if entry.action is Action.UNBOOST]
    assert at <= seconds + 2.0


def is_busy(turns: Turns) -> bool:
    return turns.actor._timing.is_busy


def test_a_pod_that_comes_while_a_turn_looks_for_such_pods_is_waited_for_too(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(plan=PlanOptions(min_age_seconds=900.0))
    turns.turn()
    assert not is_busy(turns)
    look, coming = turns.actor._is_starting, [lambda: give(turns)]

    def held_up() -> bool:
        seen = look()
        if coming:
            coming.pop()()
            turns.put(None)  # the watch tells
        return seen

    monkeypatch.setattr(turns.actor, "_is_starting", held_up)
    turns.turn(after=1.0)
    assert is_busy(turns)
    monkeypatch.undo()
    turns.server.pods.clear()
    turns.turn(after=1.0)
    assert not is_busy(turns)


def test_quiet_cpu_and_a_start_that_never_ends_are_reasons_too() -> None:
    turns = boosted()
    turns.turn(after=30.0)
    turns.quiet = {"app"}
    turns.turn(after=1.0)
    assert turns.newest().reason.startswith("the start is over: its CPU stayed below the steady request for 30 s")
    never = boosted()
    never.turn(after=599.0)
    assert never.server.cpu("web") == "1500m"
    never.turn(after=1.0)
    assert never.server.cpu("web") == "500m"
    never.turn(after=1.0)
    assert never.figure("startup_boosts_ended_total", reason="timeout") == 1


def test_a_pod_whose_containers_never_ran_is_given_up_in_time() -> None:
    turns = boosted()
    began = turns.wall
    turns.server.pods["web"]["status"] |= {"phase": "Pending", "containerStatuses": []}
    turns.run(until=620.0)
    [at] = [entry.unix_seconds - began for entry in turns.journal.newest() if entry.action is Action.UNBOOST]
    assert 600.0 <= at <= 602.0
    assert turns.server.cpu("web") == "500m"


def test_an_agent_that_begins_in_the_midst_of_a_boost_takes_it_back(tmp_path: Path) -> None:
    turns = boosted(tmp_path)
    turns.turn()
    turns.start()
    ready(turns)
    turns.turn(after=60.0)
    assert turns.server.cpu("web") == "500m"
    assert told(turns)[-1] == ("unboost", "accepted")


def test_a_boost_is_put_down_once() -> None:
    turns = boosted()
    for _ in range(3):
        turns.turn(after=1.0)
    turns.actor._boosts._told.clear()  # as after a restart
    turns.turn(after=1.0)
    assert told(turns) == [("boost", "done")]


def test_old_figures_and_missing_history_do_not_hold_it_up_and_a_pause_does() -> None:
    turns = boosted(after_ready=0)
    turns.has_history, turns.too_old = False, "no sweep for 60 s"
    ready(turns)
    turns.holds.pause(None, now_unix_seconds=turns.wall)
    turns.turn(after=1.0)
    assert turns.server.cpu("web") == "1500m"
    turns.holds.resume(now_unix_seconds=turns.wall)
    turns.turn(after=1.0)
    assert turns.server.cpu("web") == "500m"


def test_a_pod_that_is_off_or_pinned_by_then_is_left_and_asked_for_ever_less_often() -> None:
    turns = boosted(after_ready=0)
    ready(turns)
    turns.server.pods["web"]["metadata"]["annotations"]["plimsoll.dev/mode"] = "off"
    turns.run(until=600.0)
    assert turns.server.writes == []
    assert next(entry[1:3] for entry in turns.log() if entry[0] == "unboost") == ("withheld", "off")
    late = [at for at, _ in turns.triggers if at > 300.0]
    assert len(late) <= 300.0 / LONGEST_AGAIN_SECONDS + 300.0 / turns.settings.plan.replan_seconds + 1


def test_a_refusal_is_tried_again_later_and_nobody_is_evicted() -> None:
    turns = boosted(after_ready=0)
    ready(turns)
    turns.server.answers = [ApiError("PATCH /x", status=422, message="no")]
    turns.turn(after=1.0)
    assert told(turns)[-1] == ("unboost", "rejected")
    turns.turn(after=1.0)
    assert turns.server.writes.count("resize web") == 1
    turns.turn(after=3600.0)
    assert turns.server.cpu("web") == "500m"
    assert all(not planned.plan.evictions for _, planned in turns.plans)


@pytest.mark.parametrize("held_seconds", [3.0, 17.0, 33.0])
def test_what_held_it_up_is_told_and_adds_a_quarter_of_its_own_time_at_most(held_seconds: float) -> None:
    """A resize that somebody else has begun; that it is over is no news of the watch's here."""
    turns = boosted(after_ready=0)
    began = turns.wall
    ready(turns)
    status = turns.server.pods["web"]["status"]
    is_ready = status["conditions"]
    turns.server.put_off("web")
    status["conditions"] += is_ready
    turns.at(held_seconds, lambda: status.update(conditions=is_ready))
    turns.run(until=100.0)
    entries = [entry for entry in turns.journal.newest() if entry.action is Action.UNBOOST]
    assert ("withheld", "deferred") in {(entry.outcome, entry.reason) for entry in entries}
    at = next(entry.unix_seconds - began for entry in entries if entry.outcome == "accepted")
    # Tried again after two seconds, or a quarter of the time for which it has been due.
    assert held_seconds <= at <= max(held_seconds + 2.0, held_seconds * 1.25) + 1.0


def test_a_boost_that_cannot_be_taken_back_holds_up_nobody_else() -> None:
    turns = boosted(after_ready=0)
    turns.server.add("other", cpu=800)
    turns.server.pods["other"]["status"]["startTime"] = "2020-01-01T00:00:00Z"
    turns.need("other", cpu=200, memory=256)
    ready(turns)
    turns.server.answers = [ApiError("PATCH /x", status=422, message="no")]
    turns.turn(after=1.0)
    assert told(turns)[-1] == ("unboost", "rejected")
    assert turns.server.cpu("other") == "200m"


def test_a_server_that_is_away_is_asked_again() -> None:
    turns = boosted(after_ready=0)
    ready(turns)
    turns.server.answers = [Unreachable("PATCH /x: connection refused")]
    turns.turn(after=1.0)
    turns.turn(after=120.0)
    assert turns.server.cpu("web") == "500m"


def test_a_boost_whose_taking_back_got_no_answer_and_was_done_is_counted_once() -> None:
    turns = boosted(after_ready=0)
    ready(turns)

    def taken_all_the_same() -> None:
        turns.server._resize("web", turns.server.calls[-1].body)
        raise Unreachable("timed out", may_have_been_done=True)

    turns.server.answers = [taken_all_the_same]
    turns.turn(after=1.0)
    assert told(turns)[-1] == ("unboost", "error")
    assert turns.figure("startup_boosts_ended_total", reason="ready") == 0
    for _ in range(2):
        turns.turn(after=1.0)
        assert turns.figure("startup_boosts_ended_total", reason="ready") == 1


def test_the_plan_leaves_a_boost_alone_and_sizes_the_pod_after_it() -> None:
    turns = Turns()
    give(turns)
    turns.need("web", cpu=200)
    turns.turn(after=1.0)
    share = turns.plans[-1][1].plan.pods[0].containers[0].cpu
    assert share is not None
    assert share.kept is KeptReason.BOOSTED
    assert turns.server.writes == []
    ready(turns)
    turns.turn(after=60.0)
    assert turns.server.cpu("web") == "500m"
    turns.server.actuate("web")
    turns.turn(after=1.0)
    turns.turn(after=3600.0)
    assert turns.server.cpu("web") == "200m"


def test_a_boost_to_whole_cores_of_a_guaranteed_pod_is_taken_back() -> None:
    """As it is it would be left alone, for fear of CPUs of its own; it is ours, and was made so by the webhook."""
    turns = boosted(after_ready=0)
    document = turns.server.pods["web"]
    amounts = {"cpu": "2", "memory": "256Mi"}
    document["spec"]["containers"][0]["resources"] = {"requests": dict(amounts), "limits": dict(amounts)}
    document["status"]["qosClass"] = "Guaranteed"
    boost = json.loads(document["metadata"]["annotations"]["plimsoll.dev/startup-boosted"])
    boost["containers"] = {"app": {"requestMillicores": [500, 2000], "limitMillicores": [500, 2000]}}
    turns.server.order("web", **{"startup-boosted": json.dumps(boost), "guaranteed": "true"})
    ready(turns)
    turns.turn(after=1.0)
    assert turns.server.cpu("web") == "500m"


def test_pods_that_have_ended_or_are_ending_keep_their_boost() -> None:
    turns = boosted(after_ready=0)
    ready(turns)
    turns.server.pods["web"]["status"]["phase"] = "Succeeded"
    turns.turn(after=1.0)
    assert turns.server.writes == []
    assert turns.figure("startup_boosts") == 0


def test_what_was_kept_for_restore_is_what_the_pod_came_with() -> None:
    turns = boosted(after_ready=0)
    ready(turns)
    turns.turn(after=1.0)
    original = turns.holds.original(uid_of("web"))
    assert original is not None
    assert original.amounts[0].cpu_request_millicores == 500


def test_restored_in_the_midst_of_its_start_a_pod_has_what_it_came_with_and_is_left() -> None:
    turns = boosted(after_ready=60)
    # Sized by its history from 700 to 500 when it was made, and boosted from there.
    original = {"containers": {"app": {"requests": {"cpu": "700m"}, "limits": {}}}}
    turns.server.order("web", **{"original-resources": json.dumps(original)})
    turns.turn()
    pod = next(pod for pod in turns.state().pods if pod.name == "web")
    first = annotated_original(pod)
    assert first is not None
    [step] = restore_steps(pod, first)
    turns.writer.send(pod, step, Action.RESTORE)
    assert turns.server.cpu("web") == "700m"
    turns.server.actuate("web")
    ready(turns)
    turns.turn(after=61.0)
    assert turns.server.cpu("web") == "700m"
    assert turns.figure("startup_boosts") == 0
