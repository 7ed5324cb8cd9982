"""The texts are those of kube-apiserver 1.37.1; tests/cluster/test_resize_refusals.py asks the server itself."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.resource import Resource
from agent.core.resize.answer import LONGEST_MESSAGE, AnswerKind, ResizeAnswer, classify


@dataclass(frozen=True)
class Cause:
    reason: str = ""
    field: str = ""
    message: str = ""


@dataclass(frozen=True)
class Refused:
    status: int
    reason: str = ""
    message: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: float | None = None


NO_ROOM = "node didn't have enough allocatable resources: "
POLICY = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: "


@pytest.mark.parametrize(
    ("refused", "kind"),
    [
        (Refused(403, "Forbidden", NO_ROOM, (Cause("NodeCapacity"),)), AnswerKind.INFEASIBLE),
        (Refused(403, "Forbidden", "not linux", (Cause("UnsupportedPlatform"),)), AnswerKind.FEATURE_MISSING),
        (
            Refused(403, "Forbidden", "pod update requires features X which are not available on node"),
            AnswerKind.FEATURE_MISSING,
        ),
        (
            Refused(403, "Forbidden", 'User "u" cannot patch resource "pods/resize" in API group ""'),
            AnswerKind.FORBIDDEN,
        ),
        (Refused(403, "Forbidden", POLICY + "exceeded quota: x", (Cause(message="..."),)), AnswerKind.FORBIDDEN),
        (Refused(403, "Forbidden", "something new"), AnswerKind.FORBIDDEN),
        (
            Refused(403, "Forbidden", "exceeded quota: rq, requested: requests.cpu=1, used: ..., limited: ..."),
            AnswerKind.REJECTED,
        ),
        (
            Refused(403, "Forbidden", "maximum cpu usage per Container is 600m, but limit is 700m"),
            AnswerKind.REJECTED,
        ),
        (
            Refused(403, "Forbidden", "memory max limit to request ratio per Container is 2, but provided ..."),
            AnswerKind.REJECTED,
        ),
        (Refused(403, "Forbidden", 'pods "web" is forbidden: node "n" not found'), AnswerKind.REJECTED),
        (Refused(400, "", 'admission webhook "w.example.com" denied the request: no'), AnswerKind.REJECTED),
        (Refused(429, "", 'admission webhook "w.example.com" denied the request: slow'), AnswerKind.REJECTED),
        (
            Refused(422, "Invalid", "metadata.uid: field is immutable", (Cause("FieldValueInvalid", "metadata.uid"),)),
            AnswerKind.GONE,
        ),
        (Refused(422, "Invalid", POLICY + "no", (Cause(message="..."),)), AnswerKind.FORBIDDEN),
        (
            Refused(422, "Invalid", "spec: Forbidden: Pod running on node without support for resize"),
            AnswerKind.FEATURE_MISSING,
        ),
        (
            Refused(422, "Invalid", "[]: Forbidden: pods with pod-level resources cannot be resized"),
            AnswerKind.FEATURE_MISSING,
        ),
        (Refused(422, "Invalid", "spec: Pod QOS Class may not change", (Cause("", "spec"),)), AnswerKind.INVALID),
        (Refused(404, "NotFound", 'pods "web" not found'), AnswerKind.GONE),
        (
            Refused(404, "NotFound", "the server could not find the requested resource"),
            AnswerKind.FEATURE_MISSING,
        ),
        (Refused(404, "", "404 page not found"), AnswerKind.FEATURE_MISSING),
        (Refused(405, "MethodNotAllowed", "the server does not allow this method"), AnswerKind.FEATURE_MISSING),
        (Refused(409, "Conflict", "the object has been modified"), AnswerKind.CONFLICT),
        (Refused(401, "Unauthorized", "Unauthorized"), AnswerKind.UNAVAILABLE),
        (Refused(400, "BadRequest", "json: cannot unmarshal array"), AnswerKind.INVALID),
        (Refused(415, "UnsupportedMediaType", "415: Unsupported Media Type"), AnswerKind.INVALID),
        (Refused(429, "TooManyRequests", "too many requests", (), 1.0), AnswerKind.THROTTLED),
        (Refused(500, "InternalError", 'failed calling webhook "w": connection refused'), AnswerKind.UNAVAILABLE),
        (Refused(500, "InternalError", "etcdserver: request timed out"), AnswerKind.UNKNOWN),
        (Refused(503, "ServiceUnavailable", "apiserver is shutting down"), AnswerKind.UNAVAILABLE),
        (Refused(503, "", "etcdserver: leader changed"), AnswerKind.UNKNOWN),
        (Refused(502, "", "<html>Bad Gateway</html>"), AnswerKind.UNKNOWN),
        (Refused(504, "Timeout", "request did not complete within 10s"), AnswerKind.UNKNOWN),
    ],
)
def test_answers_of_the_server_are_told_apart(refused: Refused, kind: AnswerKind) -> None:
    answer = classify(refused)
    assert answer.kind is kind
    assert answer.retry_after_seconds == refused.retry_after_seconds
    assert not answer.is_done


@pytest.mark.parametrize(
    ("words", "resources"),
    [
        ("cpu, requested: 3000, allocatable: 2000", (Resource.CPU,)),
        ("memory, requested: 9, allocatable: 8", (Resource.MEMORY,)),
        ("memory, requested: 9, allocatable: 8; cpu, requested: 2, allocatable: 1", (Resource.CPU, Resource.MEMORY)),
        ("of a kind nobody knows", ()),
    ],
)
def test_infeasible_names_what_the_node_has_too_little_of(words: str, resources: tuple[Resource, ...]) -> None:
    answer = classify(Refused(403, "Forbidden", NO_ROOM + words, (Cause("NodeCapacity"),)))
    assert answer.resources == resources


def test_message_is_one_line_without_the_pods_name() -> None:
    assert classify(Refused(403, "Forbidden", 'pods "web-1" is forbidden: no\n room')).message == "no room"
    assert classify(Refused(422, "Invalid", 'Pod "web-1" is invalid: spec: no')).message == "spec: no"
    assert classify(Refused(404, "NotFound", 'pods "web-1" not found')).message == 'pods "web-1" not found'


def test_message_of_an_empty_refusal_is_its_code() -> None:
    assert classify(Refused(422, "Invalid")).message == "422 Invalid"
    assert classify(Refused(502)).message == "502"


def test_message_that_quotes_everything_is_cut() -> None:
    message = classify(Refused(422, "Invalid", "x" * 5000)).message
    assert len(message) == LONGEST_MESSAGE
    assert message.endswith("x...")


@given(st.integers(400, 599), st.text(), st.text(), st.lists(st.builds(Cause, st.text(), st.text(), st.text())))
def test_no_refusal_is_ever_taken_for_done(status: int, reason: str, message: str, causes: list[Cause]) -> None:
    answer = classify(Refused(status, reason, message, tuple(causes)))
    assert not answer.is_done
    assert answer.message
    assert len(answer.message) <= LONGEST_MESSAGE


def test_only_accepted_and_no_change_are_done() -> None:
    done = {kind for kind in AnswerKind if ResizeAnswer(kind=kind).is_done}
    assert done == {AnswerKind.ACCEPTED, AnswerKind.NO_CHANGE}
