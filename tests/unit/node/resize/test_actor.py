"""Turns of the acting thread, one at a time: what stands in the way, what is sent, what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agent.core.numbers.quantity import parse_quantity
from agent.core.orders.order import Mode
from agent.core.orders.plan_options import ActOptions
from agent.core.plan.needs.demand import Urgent
from agent.core.resize.event_rate import EventReason
from agent.core.window.memory_shortage import MemoryShort
from agent.kube.client.errors import ApiError, Cause, Unreachable
from agent.metrics.acting_series import BARRIERS as BARRED
from agent.metrics.acting_series import Trigger
from agent.node.resize.actor import SEEN_SECONDS
from tests.turns import MI, NODE, Turns, two_pods, uid_of

RESIZE_RIGHT = "patch pods/resize"


def refuse(status: int, message: str = "", *causes: Cause, **fields: Any) -> ApiError:
    return ApiError("PATCH /x", status=status, message=message, causes=causes, **fields)


def test_what_may_be_done_is_done_told_and_counted_and_then_there_is_peace() -> None:
    turns = two_pods()
    turns.turn()
    assert turns.server.writes == ["resize a", "resize b"]
    assert turns.server.cpu("a") == turns.server.cpu("b") == "200m"
    assert [entry[1] for entry in turns.log()] == ["accepted", "accepted"]
    turns.turn(after=1.0)
    assert turns.server.writes == ["resize a", "resize b"]  # in flight
    turns.server.actuate("a")
    turns.server.actuate("b")
    turns.turn(after=1.0)
    assert turns.server.events == [(name, "Resized", "app: cpu 500m -> 200m") for name in ("a", "b")]
    assert turns.newest().seconds == 2.0
    assert turns.figure("resizes_total", resource="cpu", direction="down", result="accepted") == 2
    assert turns.figure("resizes_total", resource="cpu", direction="down", result="applied") == 2
    assert turns.figure("resize_duration_seconds_sum") == 4.0
    assert turns.figure("dry_run") == 0
    changed = {record.ref.uid: record.changed_seconds for record in turns.ledger.kept().pods}
    assert changed == {uid_of("a"): turns.wall, uid_of("b"): turns.wall}
    turns.turn(after=1000.0)
    assert len(turns.server.calls) == len([call for call in turns.server.calls if "reviews" in call.path]) + 4


# Barriers: each by itself, and gone again


def fields(**changed: Any) -> Callable[[Turns], None]:
    def change(turns: Turns) -> None:
        turns.state_fields.update(changed)

    return change


def set_node(**changed: Any) -> Callable[[Turns], None]:
    def change(turns: Turns) -> None:
        assert turns.node is not None
        turns.node = replace(turns.node, **changed)

    return change


BARRIERS: list[tuple[str, str, Callable[[Turns], Any], Callable[[Turns], Any]]] = [
    (
        "paused",
        "paused",
        lambda turns: turns.holds.pause(None, now_unix_seconds=turns.wall),
        lambda turns: turns.holds.resume(now_unix_seconds=turns.wall),
    ),
    ("rights", RESIZE_RIGHT, lambda turns: turns.server.missing.add(RESIZE_RIGHT), lambda t: t.server.missing.clear()),
    (
        "rights",
        "names no node",
        lambda turns: setattr(turns.server, "claim", None),
        lambda t: setattr(t.server, "claim", NODE),
    ),
    (
        "rights",
        "is of node other, but it is told to be on worker-7",
        lambda turns: setattr(turns.server, "claim", "other"),
        lambda turns: setattr(turns.server, "claim", NODE),
    ),
    ("api", "has not told of the node", fields(is_complete=False), fields(is_complete=True)),
    ("api", "for 180 s", fields(age_seconds=None), fields(age_seconds=0.0)),
    ("api", "for 180 s", fields(age_seconds=180.1), fields(age_seconds=180.0)),
    (
        "api",
        "has not said yet what this agent may do",
        lambda turns: setattr(turns.server, "is_away", True),
        lambda turns: setattr(turns.server, "is_away", False),
    ),
    ("versions", "kubelet is v1.32.9", set_node(kubelet_version="v1.32.9"), set_node(kubelet_version="v1.33.0")),
    ("versions", "API server is not known", fields(server_version=None), fields(server_version="v1.35.0")),
    ("pods", "shop/odd: no name", fields(unreadable_pods=("shop/odd: no name",)), fields(unreadable_pods=())),
    (
        "measuring",
        "no sweep within 10 s",
        lambda turns: setattr(turns, "too_old", "no sweep within 10 s"),
        lambda turns: setattr(turns, "too_old", None),
    ),
    (
        "history",
        "history is not read yet",
        lambda turns: setattr(turns, "has_history", False),
        lambda turns: setattr(turns, "has_history", True),
    ),
]


@pytest.mark.parametrize(("reason", "words", "break_", "mend"), BARRIERS)
def test_barrier_lets_nothing_be_written_until_it_is_gone(
    reason: str, words: str, break_: Callable[[Turns], Any], mend: Callable[[Turns], Any]
) -> None:
    turns = two_pods()
    turns.server.order("b", mode="loud")  # something to tell an owner
    break_(turns)
    for _ in range(2):
        turns.turn(after=1.0)
        barrier = turns.barriers.newest
        assert barrier is not None
        assert barrier.reason == turns.barriers.may_write() == reason
        assert words in barrier.sentence
        # A budget that a pod asks for is no resize: what is known of figures and versions does not decide about it.
        assert turns.barriers.may_write_budget() == (None if reason in ("versions", "measuring", "history") else reason)
    assert turns.server.writes == []
    assert turns.server.cpu("a") == "500m"
    assert turns.figure("dry_run") == (reason in ("rights", "versions"))
    assert {label for label in BARRED if turns.figure("writes_barred", reason=label)} == {reason}
    waits = [entry for entry in turns.journal.newest() if entry.action == "resize"]
    assert all((entry.outcome, entry.reason) == ("withheld", reason) for entry in waits)
    has_steps = reason not in ("pods", "versions") and words != "has not told of the node"
    assert [(words in entry.detail, entry.repeats) for entry in waits] == ([(True, 2)] if has_steps else [])
    mend(turns)
    turns.turn(after=100.0)  # rights that are missing are asked for again after a minute
    assert turns.barriers.newest is None
    assert not any(turns.figure("writes_barred", reason=label) for label in BARRED)
    assert turns.barriers.may_write() is None
    assert turns.server.writes == ["resize a", "event"]
    assert turns.server.events[0][1] == EventReason.ANNOTATION_NOT_UNDERSTOOD


def test_node_that_is_not_there_is_a_barrier() -> None:
    turns = two_pods()
    turns.node = None
    turns.turn()
    assert turns.barriers.may_write() == "api"
    assert turns.server.writes == []


def test_figures_of_a_plan_that_nobody_vouches_for_are_taken_off_the_page() -> None:
    turns = two_pods()
    turns.turn()
    assert turns.figure("allocatable_cpu_cores") == 4.0
    turns.state_fields["age_seconds"] = 1000.0
    turns.turn(after=1.0)
    assert turns.figure("allocatable_cpu_cores") is None


def test_pause_that_is_over_is_told() -> None:
    turns = Turns()
    turns.holds.pause(turns.wall + 10.0, now_unix_seconds=turns.wall)
    turns.turn()
    assert turns.barriers.may_write() == "paused"
    turns.turn(after=10.0)
    assert turns.barriers.may_write() is None
    assert ("resume", "done", "time is up", "") in turns.log()
    assert turns.figure("paused") == 0


def test_pin_that_is_over_is_told_and_the_pod_is_sized_again() -> None:
    turns = two_pods()
    turns.holds.pin(turns.ref("a"), turns.wall + 30.0, now_unix_seconds=turns.wall)
    turns.turn()
    assert turns.server.writes == ["resize b"]
    assert turns.figure("pinned_pods") == 1
    turns.turn(after=30.0)
    assert turns.server.writes[-1] == "resize a"
    assert ("unpin", "done", "time is up", "a") in turns.log()


def test_recommend_mode_writes_nothing_not_even_an_event() -> None:
    turns = two_pods(act=ActOptions(mode=Mode.RECOMMEND))
    turns.server.order("b", mode="loud")
    turns.actor.killed((uid_of("a"), "app"))
    turns.starve("a", cpu_millicores=900, memory_waiting_ratio=0.5)
    for _ in range(3):
        turns.turn(after=60.0)
    assert turns.server.writes == []
    assert not turns.barriers.is_enforcing
    assert turns.figure("dry_run") == 1


# The world changes in the middle of a turn


def pause(turns: Turns) -> None:
    turns.holds.pause(None, now_unix_seconds=turns.wall)


def pin(turns: Turns) -> None:
    turns.holds.pin(turns.ref("b"), None, now_unix_seconds=turns.wall)


def recommend(turns: Turns) -> None:
    turns.server.order("b", mode="recommend")


def misspell(turns: Turns) -> None:
    turns.server.order("b", mode="loud")


def resize_by_hand(turns: Turns) -> None:
    turns.server.pods["b"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "450m"


def delete(turns: Turns) -> None:
    del turns.server.pods["b"]


@pytest.mark.parametrize("meanwhile", [pause, pin, recommend, misspell, resize_by_hand, delete])
def test_what_changes_between_plan_and_write_is_heeded(meanwhile: Callable[[Turns], None]) -> None:
    turns = two_pods()
    turns.server.answers = [lambda: meanwhile(turns)]
    turns.turn()
    assert [write for write in turns.server.writes if write != "event"] == ["resize a"]


def test_pod_that_changes_while_it_is_written_is_decided_anew() -> None:
    turns = two_pods()
    turns.server.answers = [lambda: turns.server.order("a", policy="cruise")]
    turns.turn()
    assert turns.server.cpu("a") == "500m"
    assert [entry[1:3] for entry in turns.log()] == [("conflict", "conflict"), ("accepted", turns.newest().reason)]
    turns.turn(after=1.0)
    assert turns.server.cpu("a") == "200m"


# Room and budget


def test_step_that_has_no_room_waits_for_the_kubelet_and_then_goes() -> None:
    turns = Turns()
    turns.server.add("big", cpu=3800)
    turns.server.add("small", cpu=200)
    turns.need("big", cpu=1000)
    turns.need("small", cpu=1000)
    turns.turn()
    assert [step.ref.name for step in turns.plans[-1][1].plan.steps] == ["big", "small"]
    assert turns.server.writes == ["resize big"]  # its spec has fallen, and it still holds what it had
    turns.turn(after=1.0)
    assert turns.server.cpu("small") == "200m"
    turns.server.actuate("big")
    turns.turn(after=1.0)
    assert turns.server.cpu("small") == "1000m"


def test_budget_ends_a_turn_and_is_told_once() -> None:
    turns = two_pods(tokens=1)
    turns.turn()
    turns.turn(after=1.0)
    assert turns.server.writes == ["resize a"]
    withheld = [entry for entry in turns.journal.newest() if entry.reason == "budget"]
    assert [entry.outcome for entry in withheld] == ["withheld"]
    assert [entry.detail for entry in withheld] == ["1 of 1 resizes of this minute are sent; the rest waits"]
    assert turns.figure("resize_blocked", reason="budget") == 1
    turns.turn(after=59.0)
    assert turns.server.writes == ["resize a", "resize b"]
    assert turns.figure("resize_blocked", reason="budget") == 0


# Answers


@pytest.mark.parametrize(
    ("answer", "outcome", "goes_on", "event"),
    [
        (refuse(403, "no", Cause(reason="NodeCapacity")), "infeasible", True, EventReason.RESIZE_INFEASIBLE),
        (refuse(405, "no"), "rejected", True, EventReason.RESIZE_REJECTED),
        (refuse(403, "no right"), "rejected", True, EventReason.RESIZE_REJECTED),
        (refuse(403, "exceeded quota: q"), "rejected", True, EventReason.RESIZE_REJECTED),
        (refuse(422, "no limit may go"), "rejected", True, EventReason.RESIZE_REJECTED),
        (refuse(409, "modified"), "conflict", True, None),
        (refuse(404, 'pods "a" not found', reason="NotFound"), "conflict", True, None),
        (refuse(429, "busy", retry_after_seconds=7.0), "error", False, None),
        (Unreachable("refused"), "error", False, None),
        (Unreachable("timed out", may_have_been_done=True), "error", False, None),
    ],
)
def test_answer_is_put_down_told_and_ends_the_turn_where_the_server_ails(
    answer: Exception, outcome: str, goes_on: bool, event: EventReason | None
) -> None:
    turns = two_pods()
    turns.server.answers = [answer]
    turns.turn()
    first = turns.journal.newest()[-1]
    assert (first.outcome, first.pod) == (outcome, turns.ref("a"))
    assert first.detail
    assert turns.server.cpu("a") == "500m"
    assert (turns.server.cpu("b") == "200m") == goes_on
    assert [server_event[:2] for server_event in turns.server.events] == ([] if event is None else [("a", event)])
    assert turns.figure("resizes_total", resource="cpu", direction="down", result=outcome) == 1


def test_refused_for_a_right_asks_for_rights_at_the_next_turn() -> None:
    turns = two_pods()
    turns.turn()
    turns.server.missing.add(RESIZE_RIGHT)
    turns.turn(after=1.0)
    assert turns.barriers.may_write() is None  # nobody has asked
    turns.server.add("c", cpu=500)
    turns.need("c", cpu=200)
    turns.server.answers = [refuse(403, "no right any more")]
    turns.turn(after=1.0)
    turns.turn(after=1.0)
    assert turns.barriers.may_write() == "rights"


def test_what_no_answer_came_to_is_looked_up_and_not_sent_twice() -> None:
    turns = two_pods()

    def taken_all_the_same() -> None:
        turns.server._resize("a", turns.server.calls[-1].body)
        raise Unreachable("timed out", may_have_been_done=True)

    turns.server.answers = [taken_all_the_same]
    turns.turn()
    assert turns.server.cpu("a") == "200m"
    turns.server.actuate("a")
    turns.turn(after=5.0)
    assert "/api/v1/namespaces/shop/pods/a" in [call.path for call in turns.server.calls if call.method == "GET"]
    assert turns.server.writes.count("resize a") == 1
    assert [entry[1:3] for entry in turns.log() if entry[3] == "a"][-1] == ("applied", "applied")


# Shrinks taken back


def shrunk() -> Turns:
    """A pod whose memory has been shrunk, and one that wants to shrink and comes first."""
    turns = Turns()
    turns.server.add("web", cpu=500, memory=512)
    turns.need("web", memory=256)
    turns.turn()
    turns.server.actuate("web")
    turns.turn(after=1.0)
    assert turns.server.requests("web")["memory"] == f"{256 * MI}"
    turns.server.add("a", cpu=500)
    turns.need("a", cpu=200)
    turns.server.calls.clear()
    return turns


@pytest.mark.parametrize("is_kill", [True, False])
def test_shrink_after_which_memory_lacked_is_taken_back_before_anything_else(is_kill: bool) -> None:
    turns = shrunk()
    if is_kill:
        turns.actor.killed((uid_of("web"), "app"))
    else:
        turns.starve("web", memory_waiting_ratio=0.3)
    turns.turn(Trigger.OUT_OF_MEMORY, after=1.0)
    assert turns.server.writes[:2] == ["resize web", "resize a"]
    assert turns.server.requests("web")["memory"] == f"{512 * MI}"
    assert turns.server.events[0][:2] == ("web", EventReason.RESIZE_REVERTED)
    assert ("revert", "reverted") in {entry[:2] for entry in turns.log()}
    turns.server.actuate("web")
    turns.server.actuate("a")
    turns.turn(after=1.0)
    turns.turn(after=3600.0)
    assert turns.server.requests("web")["memory"] == f"{512 * MI}"  # its workload is left alone for a day


def test_revert_waits_in_a_pause_and_is_not_forgotten() -> None:
    turns = shrunk()
    turns.holds.pause(None, now_unix_seconds=turns.wall)
    turns.actor.killed((uid_of("web"), "app"))
    turns.turn(after=1.0)
    assert turns.server.writes == []
    turns.holds.resume(now_unix_seconds=turns.wall)
    turns.turn(after=1.0)
    assert turns.server.writes[0] == "resize web"


def test_figures_that_are_too_old_hold_up_the_plan_and_no_revert() -> None:
    turns = shrunk()
    turns.too_old = "no sweep within 10 s"
    turns.actor.killed((uid_of("web"), "app"))
    turns.turn(after=1.0)
    assert turns.barriers.may_write() == "measuring"
    assert [write for write in turns.server.writes if write != "event"] == ["resize web"]


def test_waiting_for_memory_before_a_shrink_takes_nothing_back() -> None:
    turns = Turns()
    turns.server.add("web", cpu=500, memory=512)
    turns.starve("web", memory_waiting_ratio=0.5)
    turns.turn()
    turns.need("web", memory=256)
    turns.turn(after=1.0)
    turns.server.actuate("web")
    turns.turn(after=1.0)
    turns.turn(after=1.0)
    assert turns.server.requests("web")["memory"] == f"{256 * MI}"


def test_deferred_resize_is_told_and_its_wait_is_shown() -> None:
    turns = two_pods()
    turns.turn()
    turns.server.put_off("a")
    turns.server.actuate("b")
    turns.turn(after=1.0)
    turns.turn(after=9.0)
    assert turns.figure("resize_pending_oldest_seconds") == 9.0
    assert [event[:2] for event in turns.server.events] == [("a", "ResizeDeferred"), ("b", "Resized")]


# What starves


def test_who_is_held_back_at_memory_high_gets_a_larger_limit_at_once_and_is_told_why() -> None:
    turns = Turns()
    turns.server.add("web", cpu=100, memory=100, limit=128)
    turns.starve("web", memory_bytes=90 * MI, memory_limit_bytes=256 * MI, memory_short=MemoryShort.HELD)
    turns.turn(Trigger.MEMORY)
    [app] = turns.server.pods["web"]["spec"]["containers"]
    assert app["resources"] == {
        "requests": {"cpu": "100m", "memory": "100Mi"},
        "limits": {"memory": f"{256 * MI}"},
    }
    assert "memory.high" in turns.newest().reason
    assert turns.newest().outcome == "accepted"


def test_who_is_held_back_does_not_wait_for_the_kubelet_to_put_its_own_cpu_in_force() -> None:
    turns = Turns()
    turns.server.add("web", cpu=100, memory=100, limit=128)
    turns.starve("web", cpu_millicores=200, cpu_waiting_ratio=0.5)
    turns.turn(Trigger.PRESSURE)
    turns.starve("web", memory_bytes=90 * MI, memory_limit_bytes=256 * MI, memory_short=MemoryShort.HELD)
    turns.turn(Trigger.MEMORY, after=1.0)
    [app] = turns.server.pods["web"]["spec"]["containers"]
    assert app["resources"]["requests"]["cpu"] == "200m"
    assert app["resources"]["limits"] == {"memory": f"{256 * MI}"}
    turns.turn(Trigger.MEMORY, after=1.0)
    assert turns.server.writes == ["resize web", "resize web"]
    turns.server.actuate("web")
    turns.turn(after=1.0)
    assert (turns.newest().outcome, len(turns.newest().changes)) == ("applied", 2)


def test_a_second_shortage_raises_the_limit_no_further_for_five_minutes() -> None:
    turns = Turns()
    turns.server.add("web", cpu=100, memory=100, limit=128)
    limits = []
    for after, mebibytes in ((0.0, 256), (10.0, 512), (301.0, 512)):
        turns.sleep(after)
        fields = {"memory_bytes": 90 * MI, "memory_limit_bytes": mebibytes * MI, "memory_short": MemoryShort.HELD}
        turns.starve("web", **fields)
        turns.turn(Trigger.MEMORY)
        turns.server.actuate("web")
        turns.turn(after=1.0)
        limits.append(turns.server.pods["web"]["spec"]["containers"][0]["resources"]["limits"]["memory"])
    assert limits == [f"{256 * MI}", f"{256 * MI}", f"{512 * MI}"]


def test_starving_pod_grows_at_once_and_what_it_needed_is_remembered_for_the_cool_down() -> None:
    turns = Turns()
    turns.server.add("web", cpu=500)
    turns.need("web", cpu=200)
    key = (uid_of("web"), "app")
    turns.starve("web", cpu_millicores=800, cpu_waiting_ratio=0.5)
    turns.starve("web", cpu_millicores=700, memory_waiting_ratio=0.1)
    turns.turn(Trigger.PRESSURE)
    assert turns.server.cpu("web") == "800m"
    turns.server.actuate("web")
    turns.turn(after=299.0)
    assert turns.actor.remembered()[key] == Urgent(cpu_millicores=800, cpu_waiting_ratio=0.5)
    assert turns.server.cpu("web") == "800m"
    turns.sleep(1.0)
    assert turns.actor.remembered()[key].is_past
    turns.sleep(3600.0)
    assert turns.actor.remembered() == {}
    turns.turn()
    assert turns.server.cpu("web") == "200m"


def test_what_pods_gone_had_is_forgotten_only_by_a_complete_list() -> None:
    turns = two_pods()
    turns.turn()
    assert turns.holds.original(uid_of("a")) is not None
    del turns.server.pods["a"]
    turns.state_fields["is_complete"] = False
    turns.turn(after=SEEN_SECONDS)
    turns.state_fields.update(is_complete=True, unreadable_pods=("shop/a: odd",))
    turns.turn(after=SEEN_SECONDS)
    assert turns.holds.original(uid_of("a")) is not None
    turns.state_fields["unreadable_pods"] = ()
    turns.turn(after=1.0)
    assert turns.holds.original(uid_of("a")) is None


def test_turn_that_takes_long_leaves_the_rest_to_the_next() -> None:
    turns = Turns()
    for name in "abcd":
        turns.server.add(name, cpu=500)
        turns.need(name, cpu=200)
    turns.server.answers = [lambda: turns.sleep(0.75) for _ in range(3)]
    turns.turn()
    assert turns.server.writes == ["resize a", "resize b"]
    turns.turn()
    assert turns.server.writes[2:] == ["resize c", "resize d"]


def test_kill_in_the_middle_of_a_turn_comes_before_its_other_steps() -> None:
    turns = shrunk()
    turns.server.add("b", cpu=500)
    turns.need("b", cpu=200)
    turns.server.answers = [lambda: turns.actor.killed((uid_of("web"), "app"))]
    turns.turn(after=1.0)
    assert turns.server.writes == ["resize a"]
    turns.turn()
    assert turns.server.writes[1:3] == ["resize web", "resize b"]


def test_budget_keeps_a_reserve_for_what_cannot_wait() -> None:
    turns = Turns(tokens=4)
    for name in "abcde":
        turns.server.add(name, cpu=500)
        turns.need(name, cpu=200)
    turns.turn()
    assert turns.server.writes == ["resize a", "resize b", "resize c"]
    turns.starve("e", cpu_millicores=900)
    turns.turn(after=1.0)
    assert turns.server.writes[3:] == ["resize e"]
    [detail] = [entry.detail for entry in turns.journal.newest() if entry.reason == "budget"]
    assert detail == "4 of 4 resizes of this minute are sent (1 of them only for what is urgent); the rest waits"


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_an_agent_that_starts_sends_one_resize_at_once_and_says_why_the_rest_waits(chance: float) -> None:
    turns = Turns(tokens=4, chance=chance)
    for name in "abcde":
        turns.server.add(name, cpu=500)
        turns.need(name, cpu=200)
    turns.turn()
    assert turns.server.writes[:1] == ["resize a"]
    [detail] = [entry.detail for entry in turns.journal.newest() if entry.reason == "budget"]
    assert detail == (
        "the budget of 4 resizes in a minute is filling up after the start (1 of them only for what is urgent); "
        "the rest waits"
    )
    turns.starve("e", cpu_millicores=900)  # the reserve is there from the first moment on
    turns.turn(after=1.0)
    assert "resize e" in turns.server.writes


def test_step_held_back_by_the_ledger_costs_no_budget() -> None:
    turns = Turns(tokens=10)
    turns.server.add("web", cpu=500, memory=256, limit=1024)
    turns.need("web", cpu=200, memory=256, limit=512)
    turns.measured = replace(turns.measured, memory_current_bytes={(uid_of("web"), "app"): 100 * MI})
    turns.in_use = {"app": 100 * MI, "": 100 * MI}
    turns.turn()
    assert [step.phase for step in turns.plans[-1][1].plan.steps] == ["shrink", "limit_down"]
    assert turns.server.writes == ["resize web"]
    assert turns.bucket.available(turns.clock) == 9


def test_a_kill_of_what_nothing_is_recommended_for_raises_request_and_limit_at_once() -> None:
    turns = Turns()
    turns.server.add("web", cpu=100, memory=48, limit=64)
    turns.turn()
    turns.server.calls.clear()
    # It was killed as soon as it ran: its cgroup is gone again, and nothing was measured in it.
    turns.actor.killed((uid_of("web"), "app"), Urgent(memory_bytes=64 * MI, memory_limit_bytes=128 * MI))
    turns.turn(Trigger.OUT_OF_MEMORY, after=1.0)
    resources = turns.server.pods["web"]["spec"]["containers"][0]["resources"]
    assert resources["limits"] == {"memory": str(128 * MI)}
    assert parse_quantity(resources["requests"]["memory"]) >= 64 * MI * 10**9
    assert resources["requests"]["cpu"] == "100m"
