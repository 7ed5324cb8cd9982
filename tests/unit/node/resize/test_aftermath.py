"""Shrinks that are taken back as pods fare worse, and enforced shares that are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.core.orders.guard_options import GuardOptions
from agent.core.plan.needs.demand import KeptReason, ReservedReason
from agent.core.resize.decision import Action
from agent.core.window.cpu import absent_cpu_window
from agent.core.window.snapshot import CpuWindow, Missing
from agent.node.resize.aftermath import Aftermath
from tests.turns import Turns, uid_of
from tests.unit.node.reports.test_directives_file import answer
from tests.unit.node.resize.test_act_directed import of

WAITS = 0.0


def window(waiting: float) -> CpuWindow:
    return replace(absent_cpu_window(Missing.NO_SIGNAL), coverage_ratio=1.0, waiting_ratio=waiting, throttled_ratio=0.0)


def shrunk(directory: Path | None = None, **fields: Any) -> Turns:
    """Two pods of one workload, of which the first was shrunk from 500 to 200 millicores a second ago."""
    turns = Turns(directory, **fields)
    turns.server.add("a", cpu=500)
    turns.need("a", cpu=200)
    turns.turn()
    turns.server.actuate("a")
    turns.turn(after=1.0)
    assert turns.server.cpu("a") == "200m"
    return turns


def slow_since(turns: Turns, moment: float, *names: str, waiting: float = 0.5) -> None:
    """Have pods wait for CPU from a moment of the clock on."""
    turns.windows = lambda name, ago: (window(waiting if name in names and turns.clock - ago > moment else 0.0),)


def test_a_pod_that_waits_for_cpu_after_its_shrink_gets_it_back_once_it_can_be_told(tmp_path: Path) -> None:
    turns = shrunk(tmp_path)
    slow_since(turns, turns.clock, "a")
    turns.turn(after=119.0)
    assert turns.server.cpu("a") == "200m"
    turns.turn(after=1.0)
    assert turns.server.cpu("a") == "500m"
    words = "waiting for CPU 50% of the time, 0% before the shrink"
    assert turns.newest().reason == f"{words}: taken back" or turns.newest().detail.startswith(words)
    assert turns.newest().action is Action.REVERT
    assert turns.setbacks == [("a", words)]
    # Its workload is not shrunk any more, after a restart of the agent too.
    turns.server.actuate("a")
    turns.start()
    turns.turn(after=1.0)
    turns.turn(after=3600.0)
    assert turns.server.cpu("a") == "500m"
    (pod,) = turns.plans[-1][1].plan.pods
    assert pod.containers[0].cpu is not None
    assert pod.containers[0].cpu.kept is KeptReason.UPWARD_ONLY


def test_a_pod_that_fares_as_before_keeps_its_size() -> None:
    turns = shrunk()
    slow_since(turns, -1.0, "a")
    for _ in range(12):
        turns.turn(after=60.0)
    assert turns.server.cpu("a") == "200m"
    assert turns.setbacks == []


def test_restarts_after_a_shrink_take_it_back() -> None:
    turns = shrunk()
    status = turns.server.pods["a"]["status"].setdefault("containerStatuses", [{"name": "app"}])[0]
    status["restartCount"] = 1
    turns.turn(after=130.0)
    assert turns.server.cpu("a") == "200m"
    status["restartCount"] = 2
    turns.turn(after=30.0)
    assert turns.server.cpu("a") == "500m"
    assert turns.setbacks[0][1].startswith("restarts: 2 in ")


def test_what_ails_a_pod_of_the_workload_that_was_not_shrunk_too_was_not_the_shrink() -> None:
    turns = shrunk()
    turns.server.add("b", cpu=500)
    turns.server.pods["b"]["metadata"]["ownerReferences"] = turns.server.pods["a"]["metadata"]["ownerReferences"]
    slow_since(turns, turns.clock, "a", "b")
    turns.turn(after=150.0)
    assert turns.server.cpu("a") == "200m"
    slow_since(turns, turns.clock - 150.0, "a")
    turns.turn(after=30.0)
    assert turns.server.cpu("a") == "500m"


def test_turns_come_while_a_shrink_is_young_and_the_guard_can_be_off() -> None:
    turns = shrunk()
    ledger = turns.ledger
    looks = Aftermath(GuardOptions(), ledger=ledger, windows=lambda pod, ago: (), tell=lambda pod, reason: None)
    looks.look(turns.state(), now_seconds=turns.wall, wall_now=turns.wall)
    assert looks.next_look_seconds == 30.0
    off = Aftermath(GuardOptions(active=False), ledger=ledger, windows=lambda pod, ago: (), tell=pytest.fail)  # type: ignore[arg-type]
    off.look(turns.state(), now_seconds=turns.wall + 200.0, wall_now=turns.wall + 200.0)
    assert off.next_look_seconds is None


# -- shares ----------------------------------------------------------------------------------------------------------


def share(directory: Path | None = None) -> Turns:
    """A pod with ticket 5 of which the webhook knows the share; it was shrunk from 500 to 200 millicores."""
    turns = Turns(directory, has_webhook=True)
    turns.directions.take(answer(of("a")))
    ticket = json.dumps({"ticket": 5, "unixSeconds": int(turns.wall)})
    turns.server.add("a", cpu=500)
    turns.server.order("a", **{"enforce-share": "10%", "share-ticket": ticket})
    turns.server.pods["a"]["metadata"]["creationTimestamp"] = "2023-11-14T22:13:20Z"
    turns.need("a", cpu=200)
    turns.turn()
    turns.server.actuate("a")
    turns.turn(after=1.0)
    return turns


def reserved(turns: Turns) -> ReservedReason | None:
    return turns.plans[-1][1].plan.pods[0].reserved


def test_only_who_is_in_the_share_is_resized() -> None:
    turns = share()
    assert turns.server.cpu("a") == "200m"
    turns.server.order("a", **{"enforce-share": "0.05%"})
    turns.need("a", cpu=400)
    turns.turn(after=600.0)
    assert (turns.server.cpu("a"), reserved(turns)) == ("200m", ReservedReason.NOT_IN_SHARE)
    assert turns.plans[-1][1].plan.pods[0].enforce_share == "0.05 %"
    assert turns.figure("pods_reserved", reason="not_in_share") == 1


def test_a_share_that_is_taken_back_gives_its_pods_what_they_had_until_another_is_ordered(tmp_path: Path) -> None:
    turns = share(tmp_path)
    reason = "its pods fared worse: restarts"
    turns.directions.take(answer(of("a", share_taken_back="10 %", share_taken_back_for=reason), etag="two"))
    turns.start()  # an agent that begins anew knows it as well
    turns.turn(after=1.0)
    assert (turns.server.cpu("a"), reserved(turns)) == ("500m", ReservedReason.SHARE_TAKEN_BACK)
    assert turns.newest().action is Action.REVERT
    turns.server.actuate("a")
    for _ in range(3):
        turns.turn(after=600.0)
    assert turns.server.writes.count("resize a") == 2, "nobody of it is enforced"
    turns.server.order("a", **{"enforce-share": "20%"})
    turns.turn(after=600.0)
    assert turns.server.cpu("a") == "200m", "a person's new word"


def test_a_pod_of_which_nobody_knows_what_it_had_stays_as_it_is() -> None:
    turns = share()
    turns.server.order("a", **{"original-resources": "{"})
    turns.directions.take(answer(of("a", share_taken_back="10 %"), etag="two"))
    turns.turn(after=1.0)
    assert turns.server.cpu("a") == "200m"
    assert uid_of("a") in turns.plans[-1][1].demands
