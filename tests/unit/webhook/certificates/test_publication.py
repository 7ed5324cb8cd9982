"""Agents are told whom to trust: written where it is not known to stand, and what stands in the way is said."""

from __future__ import annotations

from agent.kube.client.errors import ApiError, Unreachable
from agent.webhook.certificates.publication import AGAIN_SECONDS, MISSING_AGAIN_SECONDS, Publication
from tests.fake_api import Call, FakeApi
from tests.fakes import FakeClock

PATH = "/api/v1/namespaces/plimsoll/configmaps/authority"


class Room:
    def __init__(self) -> None:
        self.error: Exception | None = None
        self.stands: object = {}
        self.clock = FakeClock()
        self.api = FakeApi(self.answer)
        self.publication = Publication(self.api, "plimsoll", "authority", clock=lambda: self.clock.seconds)

    def answer(self, _: Call) -> object:
        if self.error is not None:
            raise self.error
        return self.stands

    def look(self, served: bytes = b"leaf") -> str | None:
        self.publication.look(served, lambda bundle: bundle == b"good", "Secret mine has no ca.crt")
        return self.publication.fault


def test_it_is_written_once_and_again_when_it_is_another_or_long_ago() -> None:
    room = Room()
    for bundle in (b"one", b"one", b"two", b"two"):
        room.publication.ensure(bundle)
    assert [(call.method, call.path, call.body) for call in room.api.calls] == [
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


def test_where_nothing_can_be_written_what_others_put_there_is_judged_and_left_alone() -> None:
    room = Room()
    faults = {
        "": "agents are told nobody to trust",
        "another": "ConfigMap authority tells agents to trust somebody else",
    }
    assert room.look() == "Secret mine has no ca.crt: agents are told nobody to trust"
    for bundle, fault in faults.items():
        room.stands = {"data": {"ca.crt": bundle}}
        room.clock.advance(MISSING_AGAIN_SECONDS)
        assert room.look() == f"Secret mine has no ca.crt: {fault}"
    room.stands = {"data": {"ca.crt": 5}}
    room.clock.advance(MISSING_AGAIN_SECONDS)
    assert "what ConfigMap authority tells agents is not understood" in (room.look() or "")
    room.stands = {"data": {"ca.crt": "good"}}
    room.clock.advance(MISSING_AGAIN_SECONDS)
    assert room.look() is None
    assert all(call.body == {} for call in room.api.calls)  # a patch of nothing


def test_it_is_looked_at_again_for_another_certificate_after_a_failure_and_after_a_while() -> None:
    room = Room()
    room.error = Unreachable("no answer")
    assert "authority, from which agents know whom to trust: no answer" in (room.look() or "")
    room.error = None
    for served, calls in ((b"leaf", 2), (b"leaf", 2), (b"next", 3), (b"next", 3)):
        room.look(served)
        assert len(room.api.calls) == calls
    room.clock.advance(MISSING_AGAIN_SECONDS)
    room.look(b"next")
    assert len(room.api.calls) == 4
    room.publication.ensure(b"one")  # the Secret has got one
    assert (room.publication.fault, room.api.calls[-1].body) == (None, {"data": {"ca.crt": "one"}})
    assert room.look(b"next") is not None
    room.publication.ensure(b"one")
    assert room.api.calls[-1].body == {"data": {"ca.crt": "one"}}  # what was looked at meanwhile may be another's


def test_a_fault_goes_with_the_lead_and_comes_with_it() -> None:
    room = Room()
    assert room.look() is not None
    room.publication.forget()
    assert room.publication.fault is None
    assert room.look() is not None


def test_what_is_missing_needs_somebody_to_miss_it() -> None:
    room = Room()
    room.error = ApiError("PATCH", status=404)
    assert (room.look(), room.look(), len(room.api.calls)) == (None, None, 1)
