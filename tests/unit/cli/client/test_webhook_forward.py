"""The way to the webhook while several ask at once, and its pod is replaced."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from agent.cli.client.webhook import PassedAnswer, WebhookReader
from agent.cli.client.webhook_forward import WebhookForward
from agent.kube.client.credentials import Credentials
from agent.kube.client.pod_forward import Forward
from tests.fake_api import FakeApi

POD = {
    "metadata": {"name": "webhook-x"},
    "spec": {"containers": [{"ports": [{"name": "https", "containerPort": 8443}]}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}
ASKED = 4


class Reader(WebhookReader):
    """Asks by a forward whose first way leads to a pod that is gone: all find that out at the same time."""

    def __init__(self, forward: WebhookForward, ended: list[Forward]) -> None:
        self._forward, self._url = forward, "https://webhook"  # type: ignore[misc]
        self._gone, self._ended, self._all_ask = forward._forward, ended, threading.Barrier(ASKED)

    def _good_token(self) -> str:
        return "token"

    def _passed(self, target: str, headers: Mapping[str, str]) -> PassedAnswer:
        way = self._forward._forward if self._forward is not None else None
        self._all_ask.wait(60.0)  # at the first way, and again at the one that was chosen
        if way is self._gone or way in self._ended:
            raise OSError("the connection was cut")
        return PassedAnswer(status=200, headers={}, body=b"")


def test_of_several_whose_pod_went_one_chooses_another_and_all_ask_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page asks several things at once: each that chose anew would end the way on which the others ask again."""
    ended: list[Forward] = []
    monkeypatch.setattr(Forward, "close", lambda way: ended.append(way))
    api = FakeApi(lambda _: {"items": [POD]})
    forward = WebhookForward(api, Credentials(server="", origin=""), "plimsoll")
    gone, reader, answers = forward._forward, Reader(forward, ended), list[int]()
    threads = [
        threading.Thread(target=lambda: answers.append(reader.passed("/v1/workloads", {}).status)) for _ in range(ASKED)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * ASKED
    assert (ended, len(api.calls)) == ([gone], 2)
