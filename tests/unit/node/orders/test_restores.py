"""A restore that is asked for while a resize is under way: it is promised, and kept, whatever happens until then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.core.cluster.resource import Resource
from agent.core.plan.plan import Phase
from agent.core.plan.pod_change import Change, Setting
from agent.core.resize.decision import Action, Outcome
from agent.core.resize.originals import MOST_STEPS, ref_of
from agent.kube.client.errors import ApiError, Cause
from agent.node.orders.answers import RESTORED, RestoredPod
from agent.node.orders.verbs import LATER, HoldingVerbs
from tests import plans
from tests.turns import MI, NODE, Turns, uid_of

REFUSED = ApiError("PATCH /x", status=422, reason="Invalid", message="no")


def limit(before: int, after: int) -> Change:
    return plans.change(before * MI, after * MI, resource=Resource.MEMORY, setting=Setting.LIMIT)


def request(before: int, after: int) -> Change:
    return plans.change(before * MI, after * MI, resource=Resource.MEMORY)


def one_pod(directory: Path | None = None) -> Turns:
    """A pod of 200m and 256 of at most 1024 MiB, of which 100 are in use."""
    turns = Turns(directory, has_events=False)
    turns.server.add("web", cpu=200, memory=256, limit=1024, mode="off")
    turns.in_use = {"app": 100 * MI, "": 100 * MI}
    turns.turn()
    return turns


def resize(turns: Turns, *changes: Change, phase: Phase = Phase.GROW, is_done: bool = True) -> None:
    """The agent resizes the pod."""
    pod = next(candidate for candidate in turns.state().pods if candidate.name == "web")
    decision, _ = turns.writer.send(pod, plans.step("web", *changes, phase=phase), Action.RESIZE)
    assert decision.outcome is Outcome.ACCEPTED, decision
    if is_done:
        turns.server.actuate("web")
        turns.turn(after=1.0)
        turns.sleep(400.0)


def verbs(turns: Turns) -> HoldingVerbs:
    return HoldingVerbs(
        node=NODE,
        journal=turns.journal,
        holds=turns.holds,
        pods=lambda: turns.state().pods,
        send=lambda pod, step: turns.writer.send(pod, step, Action.RESTORE)[0],
        clock=lambda: turns.wall,
    )


def restore(turns: Turns) -> RestoredPod:
    """A person asks for it."""
    [item] = RESTORED.from_json(verbs(turns).restore({"name": "web"})).items
    return item


def promised(turns: Turns) -> None:
    item = restore(turns)
    assert (item.outcome, item.detail) == (Outcome.ACCEPTED, LATER)


def promise_while_resized(turns: Turns) -> None:
    """Grown once to 500m, and being grown to 600m when a person wants back what it had."""
    resize(turns, plans.change(200, 500))
    resize(turns, plans.change(500, 600), is_done=False)
    promised(turns)


def lacking(turns: Turns) -> tuple[Change, ...]:
    [item] = RESTORED.from_json(verbs(turns).restore({"name": "web", "dry_run": True})).items
    return item.changes


def writes(turns: Turns) -> int:
    return turns.server.writes.count("resize web")


def pass_turns(turns: Turns, count: int = 6, *, is_quick: bool = True) -> None:
    for _ in range(count):
        if is_quick:
            turns.server.actuate("web")
        turns.turn(after=60.0)


def let_go(turns: Turns) -> None:
    """The pod may be sized again; nothing is known of what it needs."""
    verbs(turns).unpin({"name": "web"})
    turns.server.order("web", mode="enforce")
    pass_turns(turns, 3, is_quick=False)


def test_both_steps_of_what_is_promised_are_sent_one_after_the_other() -> None:
    turns = one_pod()
    resize(turns, plans.change(200, 500), limit(1024, 2048))
    resize(turns, plans.change(500, 600), is_done=False)
    promised(turns)
    turns.turn(after=1.0)
    assert writes(turns) == 2, "what is under way comes first"
    turns.server.actuate("web")
    turns.turn(after=1.0)
    assert turns.server.cpu("web") == "200m"
    assert [change.setting for change in lacking(turns)] == [Setting.LIMIT]
    pass_turns(turns)
    assert lacking(turns) == ()
    assert writes(turns) == 4


def test_a_step_is_judged_by_what_the_one_before_it_leaves() -> None:
    """The limit to go back to lies below the request, until that is back."""
    turns = one_pod()
    resize(turns, request(256, 1536), limit(1024, 2048))
    resize(turns, plans.change(200, 300), is_done=False)
    promised(turns)
    pass_turns(turns)
    assert lacking(turns) == ()


def test_rest_is_sent_though_the_kubelet_puts_the_first_step_off_once_memory_allows_it() -> None:
    turns = one_pod()
    resize(turns, plans.change(200, 100), limit(1024, 2048))
    promised(turns)  # its second step, that is; the first is sent
    turns.in_use = {"app": 1100 * MI, "": 1100 * MI}
    turns.server.put_off("web")
    turns.turn(after=1.0)
    turns.turn(after=1.0)
    assert writes(turns) == 2
    assert (turns.newest().outcome, turns.newest().reason) == (Outcome.WITHHELD, "in_use")
    turns.in_use = {"app": 100 * MI, "": 100 * MI}
    turns.turn(after=1.0)
    assert lacking(turns) == ()


@pytest.mark.parametrize("reason", ["Infeasible", "Deferred"])
def test_what_is_promised_stays_so_where_the_kubelet_does_not_do_what_is_under_way(reason: str) -> None:
    turns = one_pod()
    resize(turns, plans.change(200, 500))
    resize(turns, plans.change(500, 3900), is_done=False)
    promised(turns)
    turns.server.put_off("web", reason)
    turns.turn(after=1.0)
    turns.turn(after=1.0)
    assert turns.server.cpu("web") == "200m"
    turns.server.put_off("web")
    turns.turn(after=1.0)
    let_go(turns)
    pass_turns(turns, 3)
    assert turns.server.cpu("web") == "200m", "what was under way is not taken back any more"


def test_a_kill_meanwhile_loses_nothing_of_it() -> None:
    turns = one_pod()
    resize(turns, request(256, 200), phase=Phase.SHRINK)
    resize(turns, plans.change(200, 500), is_done=False)
    promised(turns)
    turns.actor.killed((uid_of("web"), "app"))
    pass_turns(turns)
    assert lacking(turns) == ()


@pytest.mark.parametrize("outcome", [Outcome.DEFERRED, Outcome.INFEASIBLE])
def test_what_the_kubelet_does_not_do_of_it_stands_in_the_spec_also_once_the_pod_is_unpinned(outcome: Outcome) -> None:
    turns = one_pod()
    resize(turns, plans.change(200, 100), phase=Phase.SHRINK)
    assert restore(turns).outcome is Outcome.ACCEPTED
    turns.server.put_off("web", outcome.capitalize())
    pass_turns(turns, 15, is_quick=False)
    assert turns.newest().outcome is outcome
    let_go(turns)
    assert turns.server.cpu("web") == "200m"


def test_what_is_promised_is_written_whether_there_is_room_or_not() -> None:
    """As what is done at once: the kubelet puts it off, and does it when there is."""
    turns = one_pod()
    resize(turns, plans.change(200, 100), phase=Phase.SHRINK)
    turns.server.add("fat", cpu=3900, mode="off")
    resize(turns, request(256, 250), phase=Phase.SHRINK, is_done=False)
    promised(turns)
    pass_turns(turns, 2)
    assert lacking(turns) == ()


def test_refusals_of_plans_before_do_not_hold_it_up() -> None:
    turns = one_pod()
    resize(turns, plans.change(200, 500))
    turns.server.answers = [REFUSED]
    pod = turns.state().pods[0]
    turns.writer.send(pod, plans.step("web", plans.change(500, 400), phase=Phase.SHRINK), Action.RESIZE)
    resize(turns, request(256, 300), is_done=False)
    promised(turns)
    pass_turns(turns, 1)
    assert turns.server.cpu("web") == "200m"


def test_a_no_ends_the_promise_and_a_moments_trouble_does_not() -> None:
    turns = one_pod()
    promise_while_resized(turns)
    turns.server.answers = [ApiError("PATCH", status=503, message="away"), ApiError("PATCH", status=409), REFUSED]
    pass_turns(turns, 8)
    assert writes(turns) == 5
    assert turns.server.cpu("web") == "600m"
    assert (turns.newest().action, turns.newest().outcome) == (Action.RESTORE, Outcome.REJECTED)


def test_whoever_changes_it_back_each_time_is_not_fought() -> None:
    turns = one_pod()
    promise_while_resized(turns)
    for _ in range(8):
        turns.server.pods["web"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "600m"
        pass_turns(turns, 1)
    assert writes(turns) == 4


def test_who_unpins_takes_it_back() -> None:
    turns = one_pod()
    promise_while_resized(turns)
    verbs(turns).unpin({"name": "web"})
    pass_turns(turns)
    assert turns.server.cpu("web") == "600m"


def test_who_pins_it_once_more_does_not() -> None:
    turns = one_pod()
    promise_while_resized(turns)
    verbs(turns).pin({"name": "web", "for_seconds": 3600.0})
    pass_turns(turns, 1)
    assert turns.server.cpu("web") == "200m"


def test_it_outlives_a_restart_of_the_agent(tmp_path: Path) -> None:
    turns = one_pod(tmp_path)
    resize(turns, plans.change(200, 500), limit(1024, 2048))
    resize(turns, plans.change(500, 600), is_done=False)
    promised(turns)
    turns.start()
    pass_turns(turns)
    assert lacking(turns) == ()


@pytest.mark.parametrize("text", ["", "nonsense"])
def test_without_what_the_pod_had_nothing_is_written(text: str) -> None:
    turns = one_pod()
    resize(turns, plans.change(200, 500), is_done=False)
    promised(turns)
    if text:
        turns.server.order("web", mode="off", **{"original-resources": text})
    else:
        turns.holds.forget_gone(set())
        turns.holds.pin(ref_of(turns.state().pods[0]), None, now_unix_seconds=turns.wall)
        turns.holds.promise(uid_of("web"), MOST_STEPS, now_unix_seconds=turns.wall)
    pass_turns(turns)
    assert turns.server.cpu("web") == "500m"


def test_trouble_with_it_holds_up_neither_what_starves_nor_what_was_killed() -> None:
    turns = one_pod()
    turns.server.add("hungry", cpu=300)
    turns.server.add("killed", cpu=300)
    resize(turns, plans.change(200, 500))
    pod = next(candidate for candidate in turns.state().pods if candidate.name == "killed")
    turns.writer.send(pod, plans.step("killed", request(256, 200), phase=Phase.SHRINK), Action.RESIZE)
    turns.server.actuate("killed")
    resize(turns, plans.change(500, 600), is_done=False)
    promised(turns)
    turns.server.actuate("web")
    turns.need("hungry", cpu=300)
    turns.starve("hungry", cpu_millicores=800, cpu_waiting_ratio=0.5)
    turns.actor.killed((uid_of("killed"), "app"))
    before = len(turns.server.writes)
    turns.server.answers = [lambda: None, lambda: None, ApiError("PATCH", status=500, message="failed calling webhook")]
    turns.turn(after=1.0)
    assert turns.server.writes[before:] == ["resize killed", "resize hungry", "resize web"]
    turns.turn(after=5.0)
    assert writes(turns) == 3, "not again at once"
    turns.turn(after=120.0)  # nobody knows of a 500 whether it was done, until the pod has not shown it for so long
    assert turns.server.cpu("web") == "200m"


def test_it_leaves_the_reserve_of_the_budget() -> None:
    turns = one_pod()
    promise_while_resized(turns)
    turns.server.actuate("web")
    while turns.bucket.available(turns.clock) > 12:
        turns.bucket.take(turns.clock)
    turns.turn()
    assert writes(turns) == 2
    assert turns.newest().reason == "budget"


def test_a_pause_of_later_holds_it_up_and_one_that_it_was_asked_for_in_does_not() -> None:
    turns = one_pod()
    promise_while_resized(turns)
    turns.sleep(1.0)
    verbs(turns).pause({})
    pass_turns(turns, 2)
    assert turns.server.cpu("web") == "600m"
    restore(turns)
    assert turns.server.cpu("web") == "200m"
    resize_of_others(turns)
    promised(turns)
    pass_turns(turns, 2)
    assert turns.server.cpu("web") == "200m"


def resize_of_others(turns: Turns) -> None:
    document = turns.server.pods["web"]
    document["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "700m"
    document["metadata"]["generation"] += 1
    document["metadata"]["resourceVersion"] = str(int(document["metadata"]["resourceVersion"]) + 1)


def test_somebody_elses_resize_is_not_overtaken_though_the_one_before_it_was_put_off() -> None:
    turns = one_pod()
    resize(turns, plans.change(200, 500))
    resize(turns, plans.change(500, 3900), is_done=False)
    turns.server.put_off("web")
    turns.turn(after=1.0)
    resize_of_others(turns)
    promised(turns)
    assert turns.server.cpu("web") == "700m"
    pass_turns(turns, 2)
    assert turns.server.cpu("web") == "200m"


def test_a_pod_that_is_unpinned_while_the_turn_is_under_way_is_left() -> None:
    turns = one_pod()
    turns.server.add("hungry", cpu=300)
    promise_while_resized(turns)
    turns.server.actuate("web")
    turns.need("hungry", cpu=300)
    turns.starve("hungry", cpu_millicores=800, cpu_waiting_ratio=0.5)
    turns.server.answers = [lambda: verbs(turns).unpin({"name": "web"})]  # type: ignore[list-item]
    turns.turn(after=1.0)
    assert turns.server.cpu("hungry") == "800m"
    assert turns.server.cpu("web") == "600m"


def test_of_a_pod_that_has_ended_nothing_is_sent() -> None:
    turns = one_pod()
    promise_while_resized(turns)
    turns.server.pods["web"]["status"]["phase"] = "Failed"
    pass_turns(turns, 2)
    assert turns.server.cpu("web") == "600m"
    assert turns.holds.promised(turns.wall) == {}


def test_a_pod_that_is_unpinned_again_is_sized_though_its_restore_is_put_off() -> None:
    turns = one_pod()
    turns.server.order("web", mode="enforce")
    resize(turns, plans.change(200, 100), phase=Phase.SHRINK)
    assert restore(turns).outcome is Outcome.ACCEPTED
    turns.server.put_off("web")
    turns.turn(after=1.0)
    verbs(turns).unpin({"name": "web"})
    turns.need("web", cpu=200)
    turns.starve("web", cpu_millicores=900, cpu_waiting_ratio=0.5)
    turns.turn(after=1.0)
    assert turns.server.cpu("web") == "900m"


def test_a_shrink_is_taken_back_though_a_restore_of_the_pod_was_not_feasible() -> None:
    turns = one_pod()
    turns.server.order("web", mode="enforce")
    resize(turns, request(256, 200), plans.change(200, 100), phase=Phase.SHRINK)
    turns.ledger.killed(uid_of("web"), "app", turns.wall)
    turns.server.answers = [ApiError("PATCH", status=403, message="no", causes=(Cause(reason="NodeCapacity"),))]
    restore(turns)
    turns.turn(after=1.0)
    assert turns.server.requests("web")["memory"] == str(256 * MI)


def test_pins_of_an_agent_that_knew_no_promises_are_read(tmp_path: Path) -> None:
    turns = one_pod(tmp_path)
    resize(turns, plans.change(200, 500))
    verbs(turns).pin({"name": "web"})
    path = tmp_path / "holds"
    held = json.loads(path.read_text())
    for pin in held["pins"]:
        del pin["promised_steps"], pin["promised_unix_seconds"]
    path.write_text(json.dumps(held))
    turns.start()
    assert turns.holds.paused(turns.wall) is None
    assert turns.holds.pinned(turns.wall) == {uid_of("web")}


def test_a_conflict_is_not_answered_by_the_same_at_once() -> None:
    turns = one_pod()
    promise_while_resized(turns)
    turns.server.actuate("web")
    turns.server.answers = [ApiError("PATCH", status=409)] * 9
    for _ in range(40):
        turns.turn(after=1.0)
    assert writes(turns) == 2 + 2


def test_after_a_kill_memory_comes_back_though_a_restore_before_it_is_put_off() -> None:
    turns = one_pod()
    turns.server.order("web", mode="enforce")
    resize(turns, plans.change(200, 100), request(256, 400))
    resize(turns, request(400, 300), phase=Phase.SHRINK)
    assert restore(turns).outcome is Outcome.ACCEPTED
    turns.server.put_off("web")
    turns.turn(after=1.0)
    verbs(turns).unpin({"name": "web"})
    turns.actor.killed((uid_of("web"), "app"))
    turns.turn(after=1.0)
    assert turns.server.requests("web")["memory"] == str(400 * MI)
