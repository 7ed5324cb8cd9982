"""The end of the counts, which comes from another thread; what they count is in tests/cluster."""

from __future__ import annotations

import pytest

from agent.core.buffers.buffer import ACTIVE_CAPACITY, Buffer
from agent.core.buffers.dedication import DEDICATED_TO
from agent.kube.watch.reflector import Reflector
from agent.webhook.buffers.dedicated_pods import DedicatedPods, Filling
from tests.fake_api import FakeApi

BUFFER = Buffer(
    namespace="shop",
    name="room",
    uid="u",
    generation=1,
    created_unix_seconds=0.0,
    strategy=ACTIVE_CAPACITY,
    annotations={DEDICATED_TO: "app=web"},
)


def test_nothing_begins_to_count_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a look at the namespace was under way in a call to the server when the end came."""
    begun: list[Reflector[str]] = []
    monkeypatch.setattr(Reflector, "start", lambda watch: begun.append(watch))
    pods = DedicatedPods(FakeApi(), on_change=lambda _: None)
    assert pods.filling(BUFFER) == Filling(is_known=False)
    assert len(begun) == 1
    pods.stop()
    assert pods.filling(BUFFER) == Filling(is_known=False)
    assert len(begun) == 1
