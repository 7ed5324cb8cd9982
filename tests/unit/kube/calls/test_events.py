"""What a real server does not do on demand; the rest is in tests/cluster/test_event_writing.py."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from agent.core.cluster.pod import PodRef
from agent.core.resize.event_rate import EventReason, PodEvent
from agent.kube.calls.events import EventWriter
from agent.kube.client.errors import ApiError, KubeError, Unreachable
from tests.fake_api import FakeApi, raising

EVENT = PodEvent(ref=PodRef(namespace="shop", name="web", uid="u"), reason=EventReason.RESIZED, note="a note")


def writer_of(api: FakeApi, now: list[float], per_minute: int = 20) -> EventWriter:
    return EventWriter(
        api, "node-1", unix_seconds=lambda: 1.8e9, monotonic_seconds=lambda: now[0], per_minute=per_minute
    )


@pytest.mark.parametrize(
    "error",
    [
        Unreachable("timed out", may_have_been_done=True),
        ApiError("POST /x", status=403, message="namespace is being terminated"),
        ApiError("POST /x", status=404, message="not found"),
    ],
)
def test_event_that_is_not_taken_is_false_and_said_once(error: KubeError, caplog: pytest.LogCaptureFixture) -> None:
    api, now = FakeApi(raising(error)), [0.0]
    writer = writer_of(api, now)
    with caplog.at_level(logging.WARNING):
        assert not writer.send(EVENT)
        assert not writer.send(EVENT)
    assert (writer.failed, writer.written, len(api.calls)) == (2, 0, 2)
    assert [record.getMessage() for record in caplog.records] == ["event not written"]


def test_budget_left_out_is_false_and_a_count_is_true_without_a_call() -> None:
    api, now = FakeApi(lambda _: {}), [0.0]
    writer = writer_of(api, now, per_minute=1)
    assert writer.send(EVENT)
    assert writer.send(EVENT)
    assert not writer.send(replace(EVENT, note="other"))
    assert (writer.written, writer.held_back, len(api.calls)) == (1, 2, 1)


def test_event_whose_count_finds_it_gone_is_made_anew() -> None:
    gone = ApiError("PATCH /x", status=404, message="not found")
    answers: list[KubeError | None] = [None, gone, None]

    def answer(_: object) -> object:
        error = answers.pop(0)
        if error is not None:
            raise error
        return {}

    api, now = FakeApi(answer), [0.0]
    writer = writer_of(api, now)
    assert writer.send(EVENT)
    now[0] = 100.0
    assert not writer.send(EVENT)
    assert writer.send(EVENT)
    assert [call.method for call in api.calls] == ["POST", "PATCH", "POST"]
