"""Agents are told whom to trust: written where it is not known to stand, and what stands in the way is said."""

from __future__ import annotations

from agent.kube.errors import ApiError, Unreachable
from agent.webhook.certificate_publishing import AGAIN_SECONDS, Publication
from tests.fake_api import Call, FakeApi
from tests.fakes import FakeClock

PATH = "/api/v1/namespaces/plimsoll/configmaps/authority"


class Room:
    def __init__(self) -> None:
        self.error: Exception | None = None
        self.clock = FakeClock()
        self.api = FakeApi(self.answer)
        self.publication = Publication(self.api, "plimsoll", "authority", clock=lambda: self.clock.seconds)

    def answer(self, _: Call) -> object:
        if self.error is not None:
            raise self.error
        return {}


def test_it_is_written_once_and_again_when_it_is_another_or_long_ago() -> None:
    room = Room()
    for bundle in (b"one", b"one", b"two", b"two"):
        room.publication.ensure(bundle)
    assert [(one.method, one.path, one.body) for one in room.api.calls] == [
        ("PATCH", PATH, {"data": {"ca.crt": "one"}}),
        ("PATCH", PATH, {"data": {"ca.crt": "two"}}),
    ]
    room.clock.advance(AGAIN_SECONDS)
    room.publication.ensure(b"two")
    assert len(room.api.calls) == 3


def test_what_fails_is_told_and_tried_again() -> None:
    room = Room()
    for error in (ApiError("PATCH", status=403, message="not allowed"), Unreachable("no answer")):
        room.error = error
        room.publication.ensure(b"one")
        assert room.publication.fault is not None
        assert "authority, from which agents know whom to trust" in room.publication.fault
    room.error = None
    room.publication.ensure(b"one")
    assert room.publication.fault is None
    assert len(room.api.calls) == 3


def test_without_the_config_map_there_is_nobody_to_tell() -> None:
    room = Room()
    room.error = ApiError("PATCH", status=404)
    room.publication.ensure(b"one")
    room.publication.ensure(b"one")
    assert (room.publication.fault, len(room.api.calls)) == (None, 1)
