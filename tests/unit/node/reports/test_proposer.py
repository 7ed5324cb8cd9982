"""What of the node's plans is proposed to the webhook, and what people hear of its answers."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from agent.core.cluster.node import NodeState
from agent.core.cluster.resource import Resource
from agent.core.eviction.proposal import Verdict
from agent.core.eviction.proposals import ProposeOptions
from agent.core.orders.order import Ranking
from agent.core.plan.plan import Eviction, Plan
from agent.core.resize.decision import Action, Outcome
from agent.core.resize.event_rate import EventReason
from agent.kube.client.errors import CredentialsError
from agent.node.reports.client import WebhookAnswer, WebhookAway, WebhookClient
from agent.node.reports.proposer import ProposalAudience, Proposer, ProposerClocks, unless_scheduler_makes_room
from tests import plans
from tests.fakes import FakeClock
from tests.unit.core.plan.test_room_maker import NODE, NOW, deferred

OPTIONS = ProposeOptions(turns=2, standing_seconds=60.0, interval_seconds=30.0, again_seconds=600.0)


def plan_with(*names: str, resource: Resource = Resource.CPU) -> Plan:
    """A plan that wants these pods evicted."""
    evictions = tuple(
        Eviction(
            ref=plans.ref(name),
            workload=plans.pod(name).workload,
            resource=resource,
            ranking=Ranking.LOW,
            spike=1,
            reason="lacking",
        )
        for name in names
    )
    return plans.plan(*(plans.pod(name) for name in names), evictions=evictions)


class Webhook(WebhookClient):
    """A webhook that is a function of what is proposed."""

    def __init__(self) -> None:
        self.posts: list[dict[str, Any]] = []
        self.verdicts: dict[str, tuple[str, str]] = {}
        self.answer: Callable[[], WebhookAnswer] | None = None
        self.posted = threading.Event()

    def post(self, path: str, text: str, headers: Mapping[str, str] | None = None) -> WebhookAnswer:
        assert path == "/v1/evictions"
        body = json.loads(text)
        self.posts.append(body)
        self.posted.set()
        if self.answer is not None:
            return self.answer()
        answers = [
            {"podUid": proposal["podUid"], "verdict": verdict, "reason": reason}
            for proposal in body["proposals"]
            for verdict, reason in [self.verdicts.get(proposal["pod"], ("later", "cluster_budget: 6 evictions"))]
        ]
        return WebhookAnswer(status=200, body=json.dumps({"answers": answers}).encode(), retry_after_seconds=None)


class Scene:
    def __init__(self) -> None:
        self.clock, self.webhook = FakeClock(), Webhook()
        self.barrier: str | None = None
        self.told: list[tuple[str, str, str, str]] = []
        self.events: list[tuple[str, EventReason, str]] = []
        self.counted: list[Verdict] = []
        self.reported_until: float | None = 1e9
        self.hastened: list[float] = []
        self.proposer = Proposer(
            options=OPTIONS,
            node="node-a",
            poster=self.webhook,
            may_propose=lambda: self.barrier,
            audience=ProposalAudience(
                tell=self._tell,
                event=lambda ref, reason, note: self.events.append((ref.name, reason, note)),
                count=self.counted.append,
            ),
            reports=Reports(lambda: self.reported_until, self.hastened.append),
            clocks=ProposerClocks(wall_now=lambda: 1e9, monotonic=lambda: self.clock.seconds, lot=lambda: 0.0),
        )

    def _tell(self, **decision: Any) -> None:
        assert decision["action"] is Action.EVICTION
        assert decision["unix_seconds"] == 1e9
        self.told.append((decision["pod"].name, decision["outcome"], decision["reason"], decision["detail"]))

    def plan(self, *names: str, after: float = 60.0, resource: Resource = Resource.CPU) -> None:
        """One turn of the acting thread, and one of this one."""
        self.clock.advance(after)
        self.proposer.take(plan_with(*names, resource=resource))
        self.proposer.turn()

    @property
    def proposed(self) -> list[list[str]]:
        return [[proposal["pod"] for proposal in body["proposals"]] for body in self.webhook.posts]


class Reports:
    """What the webhook knows already, and who asks for more."""

    def __init__(self, reported_until_seconds: Callable[[], float | None], hasten: Callable[[float], None]) -> None:
        self.reported_until_seconds, self.hasten = reported_until_seconds, hasten


def at_once(
    webhook: Webhook,
    *,
    reported_until_seconds: Callable[[], float | None] = time.monotonic,
    hasten: Callable[[float], None] = lambda _: None,
) -> Proposer:
    """One that proposes what one plan asks for, by the machine's own clock."""
    return Proposer(
        options=ProposeOptions(turns=1, standing_seconds=0.0),
        node="node-a",
        poster=webhook,
        may_propose=lambda: None,
        audience=ProposalAudience(tell=lambda **_: None, event=lambda *_: None, count=lambda _: None),
        reports=Reports(reported_until_seconds, hasten),
    )


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_proposal_that_stood_goes_out_with_the_node(scene: Scene) -> None:
    scene.plan("a")
    assert scene.proposed == []
    scene.plan("a", "b")
    assert scene.proposed == [["a"]]
    assert scene.webhook.posts[0]["node"] == "node-a"
    scene.plan("a", "b")
    assert scene.proposed == [["a"], ["a", "b"]]


def test_what_it_is_about_is_reported_first(scene: Scene) -> None:
    scene.reported_until = scene.clock.seconds
    scene.plan("a")
    assert scene.hastened == []
    scene.plan("a")
    ripe = scene.clock.seconds
    assert (scene.proposed, scene.hastened) == ([], [ripe])
    scene.plan("a", after=1.0)
    assert (scene.proposed, scene.hastened) == ([], [ripe])  # once is enough for a while
    assert scene.proposer.notes() == ()
    scene.plan("a", after=OPTIONS.interval_seconds)
    assert (scene.proposed, scene.hastened) == ([], [ripe, ripe])
    (note,) = scene.proposer.notes()
    assert note == "evictions are not proposed: they wait until the webhook has taken a report of what they are about"
    scene.reported_until = ripe
    scene.proposer.reported()
    scene.proposer.turn()
    assert scene.proposed == [["a"]]
    assert scene.proposer.notes() == ()


def test_nobody_waits_for_a_report_of_what_is_not_wanted_any_more(scene: Scene) -> None:
    scene.reported_until = None
    scene.plan("a")
    scene.plan("a")
    scene.plan(after=2 * OPTIONS.interval_seconds)
    assert scene.proposer.notes() == ()


def test_no_report_is_hastened_while_nothing_may_be_written(scene: Scene) -> None:
    scene.reported_until = None
    scene.plan("a")
    scene.proposer.take(plan_with("a"))
    scene.clock.advance(60.0)
    scene.barrier = "paused"
    scene.proposer.turn()
    assert scene.hastened == []


def test_thread_proposes_when_the_report_was_taken() -> None:
    webhook, asked = Webhook(), threading.Event()
    until: list[float | None] = [None]
    proposer = at_once(webhook, reported_until_seconds=lambda: until[0], hasten=lambda _: asked.set())
    proposer.turns.start()
    proposer.take(plan_with("a"))
    assert asked.wait(60.0)
    assert webhook.posts == []
    until[0] = time.monotonic()
    proposer.reported()
    assert webhook.posted.wait(60.0)
    proposer.stop()
    assert proposer.turns.join(60.0)  # stop itself waits for less than a busy machine may take


def test_noise_goes_nowhere(scene: Scene) -> None:
    for names in (("a",), (), ("a",), (), ("a",)):
        scene.plan(*names)
    assert scene.proposed == []


def test_nothing_is_proposed_while_nothing_may_be_written(scene: Scene) -> None:
    scene.plan("a")
    scene.barrier = "paused"
    scene.plan("a")
    assert scene.proposed == []
    # It begins anew afterwards.
    scene.barrier = None
    scene.plan("a")
    assert scene.proposed == []
    scene.plan("a")
    assert scene.proposed == [["a"]]


def test_pause_that_comes_before_the_call_holds(scene: Scene) -> None:
    scene.plan("a")
    scene.clock.advance(60.0)
    scene.proposer.take(plan_with("a"))
    scene.barrier = "paused"
    scene.proposer.turn()
    assert scene.proposed == []


def test_calls_are_spaced(scene: Scene) -> None:
    scene.plan("a")
    scene.plan("a")
    scene.plan("a", after=29.0)
    assert len(scene.proposed) == 1
    scene.plan("a", after=1.0)
    assert len(scene.proposed) == 2


def test_granted_pod_is_not_proposed_again_soon(scene: Scene) -> None:
    scene.webhook.verdicts["a"] = ("granted", "evicted")
    for _ in range(5):
        scene.plan("a", "b")
    assert scene.proposed == [["a", "b"], ["b"], ["b"], ["b"]]


def test_answers_are_told_to_the_log_the_metrics_and_the_owner(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.webhook.verdicts = {
        "a": ("granted", "evicted"),
        "b": ("refused", "not_more: it has 200m"),
        "c": ("recommended", "would_evict: the webhook only recommends"),
    }
    with caplog.at_level(logging.INFO, "agent.node.reports.proposer"):
        for _ in range(2):
            scene.plan("a", "b", "c", "d")
    assert scene.told == [
        ("a", Outcome.ACCEPTED, "evicted", "granted"),
        ("b", Outcome.REJECTED, "not_more", "refused: it has 200m"),
        ("c", Outcome.PROPOSED, "would_evict", "recommended: the webhook only recommends"),
        ("d", Outcome.WITHHELD, "cluster_budget", "later: 6 evictions"),
    ]
    assert scene.counted == [Verdict.GRANTED, Verdict.REFUSED, Verdict.RECOMMENDED, Verdict.LATER]
    assert scene.events == [
        ("a", EventReason.EVICTION_GRANTED, "evicted"),
        ("b", EventReason.EVICTION_REFUSED, "not_more: it has 200m"),
    ]
    assert [record.__dict__["verdict"] for record in caplog.records] == ["granted", "refused", "recommended", "later"]


def test_same_answer_is_told_once_in_a_while_and_counted_each_time(scene: Scene) -> None:
    for _ in range(4):
        scene.plan("a")
    assert len(scene.told) == 1
    assert len(scene.counted) == 3
    scene.webhook.verdicts["a"] = ("later", "paused: release")
    scene.plan("a")
    assert [entry[2] for entry in scene.told] == ["cluster_budget", "paused"]
    scene.plan("a", after=599.0)
    assert len(scene.told) == 2
    scene.plan("a", after=60.0)
    assert len(scene.told) == 3


@pytest.mark.parametrize("error", [WebhookAway("no answer"), CredentialsError("no token")])
def test_webhook_that_is_away_evicts_nobody_and_is_asked_again_later(scene: Scene, error: Exception) -> None:
    def away() -> WebhookAnswer:
        raise error

    scene.webhook.answer = away
    scene.plan("a")
    scene.plan("a")
    assert scene.told == []
    assert scene.proposer.notes() == (f"evictions are not proposed: {error}",)
    scene.plan("a", after=29.0)
    assert len(scene.proposed) == 1
    scene.webhook.answer = None
    scene.plan("a", after=1.0)
    assert len(scene.proposed) == 2
    assert scene.proposer.notes() == ()


def test_webhook_that_asks_for_rest_gets_it(scene: Scene) -> None:
    scene.webhook.answer = lambda: WebhookAnswer(status=503, body=b'{"error":"away"}', retry_after_seconds=300.0)
    scene.plan("a")
    scene.plan("a")
    assert scene.proposer.notes() == ('evictions are not proposed: the webhook answered 503: {"error":"away"}',)
    scene.plan("a", after=299.0)
    assert len(scene.proposed) == 1
    scene.plan("a", after=1.0)
    assert len(scene.proposed) == 2


def test_answer_that_is_none_is_a_trouble_and_no_verdict(scene: Scene) -> None:
    scene.webhook.answer = lambda: WebhookAnswer(status=200, body=b"<html>", retry_after_seconds=None)
    scene.plan("a")
    scene.plan("a")
    assert scene.counted == []
    assert scene.proposer.notes() == ("evictions are not proposed: the webhook answered 200: <html>",)


def test_answer_about_somebody_else_is_passed_over(scene: Scene) -> None:
    body = json.dumps({"answers": [{"podUid": "uid-else", "verdict": "granted", "reason": "evicted"}]}).encode()
    scene.webhook.answer = lambda: WebhookAnswer(status=200, body=body, retry_after_seconds=None)
    scene.plan("a")
    scene.plan("a")
    assert scene.told == []


def test_thread_proposes_when_a_plan_comes_and_ends_when_told() -> None:
    webhook = Webhook()
    proposer = at_once(webhook)
    proposer.turns.start()
    proposer.take(plan_with("a"))
    assert webhook.posted.wait(60.0)
    proposer.stop()
    assert proposer.turns.join(60.0)  # stop itself waits for less than a busy machine may take
    assert not any(thread.name == "proposing" for thread in threading.enumerate())


def test_fault_of_its_own_is_told_and_does_not_end_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    webhook, failed = Webhook(), threading.Event()

    def fail() -> WebhookAnswer:
        failed.set()
        raise RuntimeError("a fault")

    webhook.answer = fail
    proposer = at_once(webhook)
    proposer.turns.start()
    proposer.take(plan_with("a"))
    assert failed.wait(60.0)
    proposer.stop()
    assert proposer.turns.join(60.0)  # stop itself waits for less than a busy machine may take
    assert not any(thread.name == "proposing" for thread in threading.enumerate())
    assert "proposing evictions failed" in caplog.text


def test_proposer_that_was_never_started_stops(scene: Scene) -> None:
    scene.proposer.stop()


def test_while_the_scheduler_may_make_room_nothing_is_proposed() -> None:
    now = [NOW + 30.0]
    states = [NodeState(node=NODE, pods=(deferred(0.0),))]
    writes: list[str | None] = [None]
    held = unless_scheduler_makes_room(lambda: writes[0], lambda: states[0], lambda: now[0])
    reason = held()
    assert reason is not None
    assert "the scheduler may make it for another 30 s" in reason
    now[0] += 30.0
    assert held() is None
    writes[0] = "the cluster is paused"
    now[0] -= 30.0
    assert held() == "the cluster is paused"
    writes[0], states[0] = None, NodeState(node=NODE, pods=())
    assert held() is None
