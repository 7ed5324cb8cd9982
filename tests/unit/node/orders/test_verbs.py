from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agent.core.cluster.pod import Pod
from agent.core.orders.annotations import ORIGINAL_RESOURCES
from agent.core.plan.plan import Phase, PlanStep
from agent.core.plan.pod_change import changed_pod
from agent.core.resize.decision import Action, Decision, Outcome
from agent.core.resize.originals import ref_of
from agent.node.files.documents import DECISIONS
from agent.node.orders.answers import HOLDING, ORDERED, RESTORED, UNPINNED, OrderAnswer, Restored
from agent.node.orders.arguments import LONGEST_SECONDS
from agent.node.orders.holds import Holds
from agent.node.orders.journal import Journal
from agent.node.orders.verbs import HoldingVerbs
from agent.node.sockets.control import ControlError
from tests.plans import change
from tests.pods import container, make_pod

FENCE = Path(__file__).parents[4] / "charts/plimsoll/templates/fence/resizes.yaml"
NOW = 1_700_000_000.0


def pod(name: str, namespace: str = "shop", cpu: str = "200m", uid: str | None = None, **metadata: Any) -> Pod:
    known = {"name": name, "namespace": namespace, "uid": uid or f"uid-{namespace}-{name}"}
    return make_pod(container("app", {"cpu": cpu, "memory": "64Mi"}), metadata={**known, **metadata})


def test_resume_says_that_the_whole_cluster_is_paused_all_the_same() -> None:
    room = Room(holds=Holds(None, now_unix_seconds=NOW, of_cluster=lambda: "upgrade"))
    answer = ORDERED.from_json(room.verbs.resume({}))
    assert answer.held_since_unix_seconds is None
    assert answer.notes == ("the whole cluster is paused, which only its ConfigMap ends: upgrade",)
    held = HOLDING.from_json(room.verbs.holds({}))
    assert held.pause is not None


@dataclass
class Room:
    """A node with two pods of one name, and one more; the API answers as told."""

    pods: tuple[Pod, ...] = (pod("web"), pod("api"), pod("web", "team"))
    now: float = NOW
    outcome: Outcome = Outcome.ACCEPTED
    said: str = "what the API said"
    reason: str = "x"
    is_told: bool = True
    sent: list[PlanStep] = field(default_factory=list)
    changed: int = 0
    journal: Journal = field(default_factory=lambda: Journal(None))
    holds: Holds = field(default_factory=lambda: Holds(None, now_unix_seconds=NOW))

    def __post_init__(self) -> None:
        self.verbs = HoldingVerbs(
            node="worker-7",
            journal=self.journal,
            holds=self.holds,
            pods=lambda: self.pods,
            send=self.send,
            clock=lambda: self.now,
            changed=self.news,
            is_told=lambda: self.is_told,
        )

    def news(self) -> None:
        self.changed += 1

    def send(self, pod: Pod, step: PlanStep) -> Decision:
        assert step.ref == ref_of(pod)
        assert pod.uid in self.holds.pinned(self.now)  # before anything is sent
        self.sent.append(step)
        return self.journal.add(
            unix_seconds=self.now,
            action=Action.RESTORE,
            outcome=self.outcome,
            reason=self.reason,
            detail=self.said,
            pod=step.ref,
        )

    def order(self, verb: str, **arguments: object) -> OrderAnswer:
        return ORDERED.from_json(dict(self.verbs.verbs()[verb](arguments)))

    def restore(self, **arguments: object) -> Restored:
        return RESTORED.from_json(dict(self.verbs.restore(arguments)))

    def log(self) -> list[tuple[str, str]]:
        return [(decision.action, str(decision.pod or "")) for decision in self.journal.newest()]


@pytest.fixture
def room() -> Room:
    return Room()


# Pause


def test_pause_holds_at_once_and_is_put_down(room: Room) -> None:
    answer = room.order("pause", for_seconds=1800)
    assert answer == OrderAnswer(
        node="worker-7",
        taken_unix_seconds=NOW,
        ref=None,
        until_unix_seconds=NOW + 1800,
        held_since_unix_seconds=None,
    )
    assert room.holds.is_paused(NOW + 1799)
    assert not room.holds.is_paused(NOW + 1800)
    assert room.log() == [("pause", "")]
    assert "until 2023-11-14T22:43:20Z" in room.journal.newest()[0].detail
    assert room.changed == 1


def test_a_second_pause_tells_of_the_first(room: Room) -> None:
    room.order("pause", for_seconds=60)
    room.now += 10
    answer = room.order("pause")
    assert (answer.until_unix_seconds, answer.held_since_unix_seconds) == (None, NOW)


def test_resume_ends_a_pause_and_says_when_there_was_none(room: Room) -> None:
    assert room.order("resume").held_since_unix_seconds is None
    assert room.log() == []
    room.order("pause")
    assert room.order("resume").held_since_unix_seconds == NOW
    assert not room.holds.is_paused(NOW)
    assert room.log() == [("resume", ""), ("pause", "")]


# Pins


@pytest.mark.parametrize(("name", "pod"), [("api", "shop/api"), ("team/web", "team/web"), ("uid-shop-web", "shop/web")])
def test_pin_finds_the_pod_that_is_meant(room: Room, name: str, pod: str) -> None:
    answer = room.order("pin", name=name)
    assert str(answer.ref) == pod
    assert answer.ref is not None
    assert room.holds.pinned(NOW) == {answer.ref.uid}
    assert room.log() == [("pin", pod)]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("web", "web may be any of 2: shop/web, team/web; allowed: one of them"),
        ("wep", "nothing is called wep; allowed: "),
        ("", "name is ''; allowed: a pod"),
        (None, "name is None"),
    ],
)
@pytest.mark.parametrize("verb", ["pin", "unpin", "restore"])
def test_no_pod_is_guessed(room: Room, verb: str, name: str | None, told: str) -> None:
    arguments = {} if name is None and verb == "pin" else {"name": name}
    if verb != "pin" and name is None:
        told = "allowed: one pod's name, or all"
    with pytest.raises(ControlError) as caught:
        room.verbs.verbs()[verb](arguments)
    assert f"{verb}: {told}" in str(caught.value)
    assert room.holds.pins(NOW) == ()
    assert room.log() == []


def test_no_pods_at_all_is_said() -> None:
    with pytest.raises(ControlError, match="nothing is watched"):
        Room(pods=()).order("pin", name="web")


def test_unpin_finds_pods_that_are_gone(room: Room) -> None:
    room.order("pin", name="api", for_seconds=3600)
    room.pods = ()
    assert room.order("unpin", name="api").held_since_unix_seconds == NOW
    assert room.holds.pins(NOW) == ()
    assert room.log() == [("unpin", "shop/api"), ("pin", "shop/api")]


def test_unpin_of_a_pod_that_was_not_pinned_is_said_and_not_put_down(room: Room) -> None:
    assert room.order("unpin", name="api").held_since_unix_seconds is None
    assert room.log() == []


def test_a_pod_and_its_pinned_predecessor_of_the_same_name_are_told_apart(room: Room) -> None:
    room.order("pin", name="api")
    room.pods = (pod("api", uid="uid-new"),)
    with pytest.raises(ControlError, match="one of the uids uid-new, uid-shop-api"):
        room.order("unpin", name="api")
    assert room.order("unpin", name="uid-shop-api").held_since_unix_seconds == NOW


def test_holds_tells_what_is_in_force(room: Room) -> None:
    room.order("pause", for_seconds=60)
    room.order("pin", name="api")
    held = HOLDING.from_json(dict(room.verbs.holds({})))
    assert held.pause is not None
    assert [str(pin.ref) for pin in held.pins] == ["shop/api"]
    room.now += 60
    assert HOLDING.from_json(dict(room.verbs.holds({}))).pause is None


@pytest.mark.parametrize("name", ["back", "shop/back", "ReplicaSet/back", "back-*", "back-x"])
def test_a_pod_is_ordered_about_by_what_means_no_other(room: Room, name: str) -> None:
    owner = {"kind": "ReplicaSet", "name": "back", "uid": "rs", "controller": True}
    room.pods = (*room.pods, pod("back-x2x9k", ownerReferences=[owner]), pod("backup"))
    for verb in ("pin", "unpin"):
        assert str(room.order(verb, name=name).ref) == "shop/back-x2x9k"
    with pytest.raises(ControlError, match="shop/back-x2x9k: no original requests are known"):
        room.restore(name=name)


def test_unpin_of_all_frees_all_and_puts_each_down(room: Room) -> None:
    room.order("pin", name="api")
    room.order("pin", name="team/web", for_seconds=60)
    room.now += 5
    answer = UNPINNED.from_json(dict(room.verbs.unpin({"all": True})))
    assert [(str(pin.ref), pin.since_unix_seconds) for pin in answer.pins] == [("shop/api", NOW), ("team/web", NOW)]
    assert room.holds.pins(room.now) == ()
    assert [entry for entry in room.log() if entry[0] == "unpin"] == [("unpin", "team/web"), ("unpin", "shop/api")]
    assert room.changed == 3
    assert UNPINNED.from_json(dict(room.verbs.unpin({"all": True}))).pins == ()


# Restore


def resized(room: Room, name: str = "api", namespace: str = "shop") -> None:
    """The pod had 500m before."""
    room.holds.keep_original(pod(name, namespace, cpu="500m"), now_unix_seconds=NOW - 60)


def test_restore_pins_first_and_sends_the_original(room: Room) -> None:
    resized(room)
    (item,) = room.restore(name="api").items
    assert [(pod_change.before, pod_change.after) for pod_change in item.changes] == [(200, 500)]
    assert (item.outcome, item.kept_unix_seconds) == (Outcome.ACCEPTED, NOW - 60)
    assert [(str(step.ref), step.phase) for step in room.sent] == [("shop/api", Phase.GROW)]
    assert room.holds.pinned(NOW) == {"uid-shop-api"}
    assert room.log() == [("restore", "shop/api"), ("pin", "shop/api")]
    assert room.changed == 1


def test_a_sidecar_that_the_annotation_does_not_name_goes_back_to_what_the_agent_kept(room: Room) -> None:
    # Another webhook put it in after ours had written the annotation.
    def made(app: str, late: str) -> Pod:
        named = {"name": "api", "namespace": "shop", "uid": "uid-shop-api"}
        noted = {ORIGINAL_RESOURCES: '{"containers": {"app": {"requests": {"cpu": "500m"}}}}'}
        both = (container("app", {"cpu": app}), container("late", {"cpu": late}))
        return make_pod(*both, metadata={**named, "annotations": noted})

    room.holds.keep_original(made("300m", "900m"), now_unix_seconds=NOW - 60)
    room.pods = (made("200m", "50m"),)
    (item,) = room.restore(name="api").items
    assert [(pod_change.container, pod_change.before, pod_change.after) for pod_change in item.changes] == [
        ("app", 200, 500),
        ("late", 50, 900),
    ]


def test_a_limit_falls_after_the_request_below_it_by_the_pod_as_it_is_then(room: Room) -> None:
    def sized(request: str, limit: str) -> Pod:
        named = {"name": "leaky", "namespace": "shop", "uid": "uid-leaky"}
        return make_pod(container("app", {"memory": request}, {"memory": limit}), metadata=named)

    seen: list[Pod] = []

    def carried_out(now: Pod, step: PlanStep) -> Decision:
        seen.append(now)
        room.pods = (changed_pod(now, step.changes),)
        room.said = "later" if step.phase is Phase.LIMIT_DOWN else ""
        return room.send(now, step)

    room.pods = (sized("250Mi", "350Mi"),)
    room.holds.keep_original(sized("64Mi", "192Mi"), now_unix_seconds=NOW - 60)
    verbs = HoldingVerbs(
        node="worker-7",
        journal=room.journal,
        holds=room.holds,
        pods=lambda: room.pods,
        send=carried_out,
        clock=lambda: room.now,
        changed=room.news,
    )
    [item] = RESTORED.from_json(dict(verbs.restore({"name": "leaky"}))).items
    assert (item.outcome, item.detail) == (
        Outcome.ACCEPTED,
        "later",
    )  # that it is promised is not lost behind the first
    assert [step.phase for step in room.sent] == [Phase.SHRINK, Phase.LIMIT_DOWN]
    # Judged by the pod before the first step, a limit of 192Mi would be below the request of 250Mi.
    assert [room_pod.containers[0].resources.memory_request_bytes for room_pod in seen] == [250 * 1024**2, 64 * 1024**2]
    assert room.pods[0].containers[0].resources.memory_limit_bytes == 192 * 1024**2


def test_restore_goes_on_while_paused(room: Room) -> None:
    resized(room)
    room.order("pause")
    assert room.restore(name="api").items[0].outcome is Outcome.ACCEPTED


def test_a_pin_that_ends_is_kept_as_it_is(room: Room) -> None:
    resized(room)
    room.order("pin", name="api", for_seconds=60)
    room.restore(name="api")
    assert room.holds.pins(NOW)[0].until_unix_seconds == NOW + 60


def test_dry_run_does_nothing(room: Room) -> None:
    resized(room)
    answer = room.restore(name="api", dry_run=True)
    assert answer.is_dry_run
    assert answer.items[0].outcome is None
    assert len(answer.items[0].changes) == 1
    assert (room.sent, room.log(), room.holds.pins(NOW), room.changed) == ([], [], (), 0)


def test_all_restores_those_whose_original_is_known_in_order(room: Room) -> None:
    resized(room, "web", "team")
    resized(room)
    answer = room.restore(all=True)
    assert [str(item.ref) for item in answer.items] == ["shop/api", "team/web"]
    assert Room().restore(all=True).items == ()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_all_leaves_out_what_has_ended_and_a_name_does_not(room: Room, phase: str) -> None:
    resized(room)
    resized(room, "web", "team")
    room.pods = tuple(replace(room_pod, phase=phase) if room_pod.name == "api" else room_pod for room_pod in room.pods)
    assert [str(item.ref) for item in room.restore(all=True).items] == ["team/web"]
    assert [str(item.ref) for item in room.restore(name="api").items] == ["shop/api"]


@pytest.mark.parametrize("is_dry_run", [True, False])
def test_before_pods_are_told_all_is_not_none(room: Room, is_dry_run: bool) -> None:
    room.is_told = False
    with pytest.raises(ControlError, match="has not told yet of this node's pods; ask again"):
        room.restore(all=True, dry_run=is_dry_run)


def test_a_pod_that_has_its_original_requests_is_pinned_all_the_same(room: Room) -> None:
    room.holds.keep_original(pod("api"), now_unix_seconds=NOW)
    (item,) = room.restore(name="api").items
    assert (item.outcome, item.changes) == (None, ())
    assert room.sent == []
    assert room.holds.pinned(NOW) == {"uid-shop-api"}


def test_no_original_known_is_refused(room: Room) -> None:
    with pytest.raises(ControlError, match="shop/api: no original requests are known"):
        room.restore(name="api")


def test_the_annotation_wins_over_what_the_agent_kept(room: Room) -> None:
    resized(room)
    text = '{"containers": {"app": {"requests": {"cpu": "900m"}}}}'
    room.pods = (pod("api", annotations={ORIGINAL_RESOURCES: text}),)
    (item,) = room.restore(name="api").items
    assert [pod_change.after for pod_change in item.changes] == [900]
    assert item.kept_unix_seconds is None


def test_an_annotation_that_is_not_understood_restores_nothing(room: Room) -> None:
    resized(room)
    room.pods = (pod("api", annotations={ORIGINAL_RESOURCES: "{"}),)
    (item,) = room.restore(name="api").items
    assert item.outcome is Outcome.WITHHELD
    assert "not JSON" in item.detail
    assert room.sent == []


def test_after_a_refusal_the_pods_further_steps_are_not_tried(room: Room) -> None:
    big = make_pod(container("app", {"cpu": "1", "memory": "64Mi"}, {"memory": "1Gi"}))
    small = make_pod(container("app", {"cpu": "2", "memory": "64Mi"}, {"memory": "2Gi"}))
    room.pods = (small,)
    room.holds.keep_original(big, now_unix_seconds=NOW)
    room.outcome = Outcome.REJECTED
    (item,) = room.restore(name="web").items
    assert (item.outcome, item.detail) == (Outcome.REJECTED, "what the API said")
    assert len(room.sent) == 1
    room.outcome = Outcome.ACCEPTED
    room.restore(name="web")
    assert len(room.sent) == 3


@pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.INFEASIBLE, Outcome.CONFLICT, Outcome.WITHHELD])
def test_a_pod_of_which_nothing_was_put_back_is_pinned_no_more(room: Room, outcome: Outcome) -> None:
    resized(room)
    room.outcome = outcome
    room.restore(name="api")
    assert room.holds.pins(NOW) == ()
    assert room.log()[0] == ("unpin", "shop/api")
    room.order("pin", name="api")  # of a person: it stays
    room.restore(name="api")
    assert room.holds.pinned(NOW) == {"uid-shop-api"}


def test_a_step_that_was_not_sent_is_answered_with_its_reason(room: Room) -> None:
    resized(room)
    room.outcome, room.reason, room.said = Outcome.WITHHELD, "in_use", ""
    assert room.restore(name="api").items[0].detail == "in use"
    room.outcome, room.reason = Outcome.ACCEPTED, "original requests put back"
    assert room.restore(name="api").items[0].detail == ""


def test_a_restore_of_which_nobody_knows_what_came_stays_pinned(room: Room) -> None:
    resized(room)
    room.outcome = Outcome.ERROR
    room.restore(name="api")
    assert room.holds.pinned(NOW) == {"uid-shop-api"}


def test_what_the_fence_refuses_says_the_way_past_it(room: Room) -> None:
    # as the chart words it
    room.said = "plimsoll: the pod's mode is off, so only its original resources may be put back"
    assert room.said.removeprefix("plimsoll: the pod's mode is off") in FENCE.read_text()
    resized(room)
    room.outcome = Outcome.REJECTED
    (item,) = room.restore(name="api").items
    assert item.detail.endswith(
        "; the fence knows them by plimsoll.dev/original-resources alone, which this pod lacks: restore it while its "
        "mode is enforce, or have a person with rights of their own patch it"
    )
    text = '{"containers": {"app": {"requests": {"cpu": "900m"}}}}'
    room.pods = (pod("api", annotations={ORIGINAL_RESOURCES: text}),)
    assert room.restore(name="api").items[0].detail == room.said


def test_an_agent_without_an_api_server_restores_on_paper_only() -> None:
    room = Room()
    resized(room)
    alone = HoldingVerbs(
        node="worker-7", journal=room.journal, holds=room.holds, pods=lambda: room.pods, send=None, clock=lambda: NOW
    )
    with pytest.raises(ControlError, match="no API server to write to; allowed: with dry_run"):
        alone.restore({"name": "api"})
    assert len(RESTORED.from_json(dict(alone.restore({"name": "api", "dry_run": True}))).items) == 1


# Events


def test_events_are_chosen_counted_and_cut(room: Room) -> None:
    room.order("pause")
    room.now += 100
    room.order("pin", name="api")
    room.order("pin", name="team/web")
    answer = DECISIONS.from_json(dict(room.verbs.events({"limit": 1, "actions": ["pin"], "outcomes": ["done"]})))
    assert ([str(decision.pod) for decision in answer.items], answer.matching) == (["team/web"], 2)
    answer = DECISIONS.from_json(dict(room.verbs.events({"since_seconds": 50, "pod": "a*"})))
    assert [str(decision.pod) for decision in answer.items] == ["shop/api"]
    assert len(DECISIONS.from_json(dict(room.verbs.events({}))).items) == 3
    assert len(DECISIONS.from_json(dict(room.verbs.events({"since_seconds": 1e9}))).items) == 3  # since years ago
    assert len(DECISIONS.from_json(dict(room.verbs.events({"since_seconds": 0}))).items) == 2  # "now"


def test_events_tell_a_resize_once_where_that_is_asked_for(room: Room) -> None:
    about: dict[str, Any] = {"action": Action.RESIZE, "pod": ref_of(pod("web")), "changes": (change(),)}
    room.journal.add(unix_seconds=NOW, outcome=Outcome.ACCEPTED, reason="it is short now", **about)
    room.journal.add(unix_seconds=NOW + 1, outcome=Outcome.APPLIED, reason="applied", seconds=1.0, **about)
    room.order("pin", name="team/web")

    def told(**arguments: object) -> list[tuple[str, str]]:
        answer = DECISIONS.from_json(dict(room.verbs.events(arguments)))
        assert answer.matching == len(answer.items)
        return [(decision.outcome, decision.reason) for decision in answer.items]

    assert len(told()) == 3
    assert told(newest_outcomes=True, namespace="SHOP") == [("applied", "it is short now")]
    # what came of it is told, not what it went through
    assert told(newest_outcomes=True, outcomes=["accepted"]) == []
    assert told(newest_outcomes=True, namespace="team") == [("done", "asked for")]


# Arguments


@pytest.mark.parametrize(
    ("verb", "arguments", "told"),
    [
        ("pause", {"for": 3}, "pause: unknown argument for; allowed: for_seconds"),
        ("resume", {"all": True}, "resume: unknown argument all; allowed: none"),
        ("pause", {"for_seconds": 0}, "pause: for_seconds is 0; allowed: seconds above 0"),
        ("pause", {"for_seconds": True}, "pause: for_seconds is True"),
        ("pin", {"name": "api", "for_seconds": LONGEST_SECONDS + 1}, "pin: for_seconds is"),
        ("pause", {"for_seconds": "1h"}, "pause: for_seconds is '1h'"),
        ("pause", {"for_seconds": float("nan")}, "pause: for_seconds is nan"),
        ("restore", {}, "restore: allowed: one pod's name, or all"),
        ("restore", {"name": "api", "all": True}, "restore: allowed: one pod's name, or all"),
        ("unpin", {}, "unpin: allowed: one pod's name, or all"),
        ("unpin", {"name": "api", "all": True}, "unpin: allowed: one pod's name, or all"),
        ("restore", {"all": 1}, "restore: all is 1; allowed: true, false"),
        ("events", {"limit": 0}, "events: limit is 0; allowed: 1 to 10000"),
        ("events", {"limit": True}, "events: limit is True"),
        ("events", {"pod": 3}, "events: pod is 3"),
        ("events", {"namespace": 3}, "events: namespace is 3"),
        ("events", {"since_seconds": -1}, "events: since_seconds is -1; allowed: seconds from 0 to 1e+11"),
        ("events", {"since_seconds": True}, "events: since_seconds is True"),
        ("events", {"newest_outcomes": 1}, "events: newest_outcomes is 1; allowed: true, false"),
        ("events", {"actions": ["dance"]}, "events: actions is ['dance']; allowed: a list of resize, revert"),
        ("events", {"outcomes": "done"}, "events: outcomes is 'done'; allowed: a list of accepted"),
    ],
)
def test_bad_arguments_are_refused_with_what_is_allowed(
    room: Room, verb: str, arguments: Mapping[str, object], told: str
) -> None:
    with pytest.raises(ControlError) as caught:
        room.verbs.verbs()[verb](arguments)
    assert told in str(caught.value)
    assert room.log() == []


def test_what_the_disk_did_not_take_is_told_with_the_answer(tmp_path: Any) -> None:
    holds = Holds(tmp_path / "none" / "holds", now_unix_seconds=NOW)
    room = Room(holds=holds, journal=Journal(tmp_path / "none" / "decisions"))
    notes = room.order("pause").notes
    assert room.holds.is_paused(NOW)
    assert ["holds" in notes[0], "decision log" in notes[1]] == [True, True]
