"""What the buffer controller's thread schedules; tests/cluster has it whole, on a real API server."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agent.core.buffers.buffer import PLACEHOLDER_PODS, BufferOutcome, ManagedTemplate
from agent.core.buffers.template import managed_template_name
from agent.webhook.buffers.controller import BufferController
from agent.webhook.buffers.namespace_pass import NOT_COUNTED
from agent.webhook.buffers.options import BufferOptions
from agent.webhook.buffers.seams import RoomOutcome, WritePermission
from tests.buffer_collaborators import NoRoomKeeper, asking
from tests.fake_api import Call, FakeApi

BUFFER: dict[str, Any] = {
    "metadata": {"namespace": "shop", "name": "room", "uid": "u2"},
    "spec": {"podTemplateRef": {"name": "small"}, "replicas": 1},
}


class Keeper(NoRoomKeeper):
    """While it removes the pods of the last buffers, somebody makes another."""

    controller: BufferController

    def keep(
        self,
        _namespace: str,
        _outcomes: Sequence[BufferOutcome],
        _templates: Mapping[str, ManagedTemplate],
        _version: str,
        /,
    ) -> RoomOutcome:
        buffers = self.controller.watches.buffers
        buffers.replace_all([buffers.entry(BUFFER)], now_seconds=0.0, is_newest=True)
        return RoomOutcome()


@pytest.mark.parametrize(("others", "waiting"), [(None, 1), ("cluster-autoscaler (of shop/room)", 0)])
def test_a_buffer_that_is_made_while_the_last_ones_are_forgotten_is_looked_after(
    others: str | None, waiting: int
) -> None:
    keeper = Keeper()
    controller = keeper.controller = BufferController(
        FakeApi(),
        options=BufferOptions(),
        permission=WritePermission(is_leader=lambda: True),
        instance="x",
        collaborators=asking(keeper=keeper),
    )
    controller._contested_by = others  # then it is somebody else's to look after
    controller._take("shop")
    assert controller.waiting() == waiting


def test_what_the_last_turn_begins_to_watch_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = BufferController(
        FakeApi(),
        options=BufferOptions(),
        permission=WritePermission(is_leader=lambda: True),
        instance="x",
        collaborators=asking(),
    )
    has_begun, order = threading.Event(), list[str]()

    def begin_watches() -> None:
        has_begun.set()
        while not controller._turns.is_stopping:
            time.sleep(0.001)
        order.append("begun")

    monkeypatch.setattr("agent.webhook.buffers.controller.STOP_SECONDS", 60.0)
    monkeypatch.setattr(controller.watches, "follow_buffers", begin_watches)
    monkeypatch.setattr(controller.watches, "stop", lambda: order.append("ended"))
    controller._turns.start()
    assert has_begun.wait(60.0)
    controller.stop()
    assert order == ["begun", "ended"]


def test_where_placeholder_pods_were_not_read_yet_quotas_cut_nobody() -> None:
    class Unread(NoRoomKeeper):
        is_read = False

        def usage(self, _namespace: str, /) -> Mapping[str, Mapping[str, int]] | None:
            return {"room": {"cpu": 3 * 10**9}} if self.is_read else None

    def answer(call: Call) -> object:
        if call.path.endswith("/status"):
            return {**buffer, **call.body}
        return managed if call.path.endswith(managed_template_name("room")) else template

    pod = {"metadata": {}, "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}}
    template = {"metadata": {"namespace": "shop", "name": "small", "uid": "t", "generation": 1}, "template": pod}
    owner = {"kind": "CapacityBuffer", "name": "room", "uid": "u2", "controller": True}
    managed = {
        "metadata": {
            "namespace": "shop",
            "name": managed_template_name("room"),
            "uid": "m",
            "generation": 1,
            "ownerReferences": [owner],
        },
        "template": pod,
    }
    status = {"replicas": 3, "podTemplateRef": {"name": managed_template_name("room")}}
    buffer = {
        "metadata": {"namespace": "shop", "name": "room", "uid": "u2"},
        "spec": {"podTemplateRef": {"name": "small"}, "replicas": 3, "provisioningStrategy": PLACEHOLDER_PODS},
        "status": status,
    }
    full = {
        "metadata": {"namespace": "shop", "name": "full"},
        "spec": {"hard": {"cpu": "3"}},
        "status": {"hard": {"cpu": "3"}, "used": {"cpu": "3"}},
    }
    keeper, api = Unread(), FakeApi(answer)
    controller = BufferController(
        api,
        options=BufferOptions(dry_run=False),
        permission=WritePermission(is_leader=lambda: True),
        instance="x",
        collaborators=asking(keeper=keeper),
    )
    watches = controller.watches
    watches.buffers.replace_all([watches.buffers.entry(buffer)], now_seconds=0.0, is_newest=True)
    seen = [watches.templates.entry(document) for document in (template, managed)]
    watches.templates.replace_all(seen, now_seconds=0.0, is_newest=True)
    watches.quotas.replace_all([watches.quotas.entry(full)], now_seconds=0.0, is_newest=True)

    def look() -> tuple[int | None, str | None]:
        controller._take("shop")
        view = controller.view("shop")
        assert view is not None
        return view.outcomes[0].status.replicas, view.troubles.get("room")

    assert look() == (3, NOT_COUNTED)
    assert {call.method for call in api.calls} == {"GET"}
    keeper.is_read = True
    assert look() == (3, None)
