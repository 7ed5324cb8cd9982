"""Asking the webhook for the overload taint: what is granted for how long, and what comes of no answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping

import pytest

from agent.kube.client.errors import CredentialsError
from agent.node.keepers.taint_permission import GRANTED, TaintPermission
from agent.node.reports.client import WebhookAnswer, WebhookAway, WebhookClient
from agent.node.reports.taint_asker import AWAY, TaintAsker
from tests.fakes import FakeClock

GRANT = {"granted": True, "reason": "granted", "detail": "", "seconds": 120.0}
CAP = {"granted": False, "reason": "taint_cap", "detail": "2 of 20 nodes", "seconds": 0.0}


class Webhook(WebhookClient):
    """Answers as told, and holds its answer back while ``held`` is set."""

    def __init__(self) -> None:
        self.answer: object = GRANT
        self.status = 200
        self.retry_after_seconds: float | None = None
        self.asked: list[tuple[str, object]] = []
        self.go = threading.Event()
        self.go.set()
        self.closed = 0

    def post(self, path: str, text: str, headers: Mapping[str, str] | None = None) -> WebhookAnswer:
        self.asked.append((path, json.loads(text)))
        assert self.go.wait(60)
        if isinstance(self.answer, Exception):
            raise self.answer
        body = self.answer if isinstance(self.answer, bytes) else json.dumps(self.answer).encode()
        return WebhookAnswer(status=self.status, body=body, retry_after_seconds=self.retry_after_seconds)

    def close(self) -> None:
        self.closed += 1


class Scene:
    def __init__(self) -> None:
        self.webhook, self.clock = Webhook(), FakeClock()
        self.counted: list[str] = []
        self.told = threading.Condition()
        self.asker = TaintAsker(
            node="node-a", poster=self.webhook, count=self.count, clock=lambda: self.clock.seconds, lot=lambda: 0.0
        )

    def count(self, result: str) -> None:
        with self.told:
            self.counted.append(result)
            self.told.notify()

    def ask(self) -> TaintPermission:
        """Ask, and give what is said once the answer is there."""
        number = len(self.counted)
        self.asker.permission()
        self.wait(lambda: len(self.counted) > number)
        return self.asker.permission()

    def wait(self, what: Callable[[], bool]) -> None:
        with self.told:
            assert self.told.wait_for(what, 60)


def test_nobody_waits_for_the_answer() -> None:
    scene = Scene()
    scene.webhook.go.clear()
    assert scene.asker.permission() == TaintPermission()
    assert scene.asker.permission() == TaintPermission(), "and no second question is asked meanwhile"
    scene.webhook.go.set()
    scene.wait(lambda: scene.counted == ["granted"])
    assert scene.webhook.asked == [("/v1/taint", {"schema": 1, "node": "node-a"})]


def test_a_grant_holds_for_its_time_less_what_writing_takes() -> None:
    scene = Scene()
    assert scene.ask() == GRANTED
    assert scene.webhook.closed == 1
    scene.clock.advance(109.9)
    assert scene.asker.permission() == GRANTED
    scene.clock.advance(0.1)
    scene.webhook.answer = CAP
    assert scene.ask() == TaintPermission(reason="taint_cap", detail="2 of 20 nodes")
    assert scene.asker.notes() == (), "that the cap is reached is no fault of this agent"


def test_a_refusal_is_asked_again_less_and_less_often() -> None:
    scene = Scene()
    scene.webhook.answer = CAP
    for seconds in (30.0, 60.0, 120.0, 240.0, 300.0, 300.0):
        scene.ask()
        asked = len(scene.webhook.asked)
        scene.clock.advance(seconds - 0.1)
        scene.asker.permission()
        assert len(scene.webhook.asked) == asked
        scene.clock.advance(0.1)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (WebhookAway("no answer from https://x: refused"), 200),
        (CredentialsError("token cannot be read"), 200),
        (ValueError("a fault of ours"), 200),
        (GRANT, 503),
        (GRANT, 404),
        ({"granted": True}, 200),
        (b"<html>", 200),
    ],
)
def test_no_answer_is_no_taint(answer: object, status: int) -> None:
    scene = Scene()
    scene.webhook.answer, scene.webhook.status = answer, status
    permission = scene.ask()
    assert (permission.is_granted, permission.reason) == (False, AWAY)
    assert scene.counted == ["away"]
    assert scene.asker.notes()[0].startswith("no overload taint is set: ")
    scene.webhook.answer, scene.webhook.status = GRANT, 200
    scene.clock.advance(36.0)
    assert scene.ask() == GRANTED
    assert scene.asker.notes() == ()


def test_the_webhook_is_left_alone_for_as_long_as_it_asks() -> None:
    scene = Scene()
    scene.webhook.answer, scene.webhook.status, scene.webhook.retry_after_seconds = b"", 429, 200.0
    scene.ask()
    scene.clock.advance(199.0)
    scene.asker.permission()
    assert len(scene.webhook.asked) == 1
    scene.clock.advance(1.0)
    scene.ask()
    assert len(scene.webhook.asked) == 2
