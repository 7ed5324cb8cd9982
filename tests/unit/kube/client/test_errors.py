from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.kube.client.errors import LONGEST_MESSAGE, Cause, Unreachable, api_error, one_line

STATUS = {
    "kind": "Status",
    "code": 403,
    "reason": "Forbidden",
    "message": 'pods "web" is forbidden:\nno room',
    "details": {"causes": [{"reason": "NodeCapacity", "message": "cpu"}, "odd", {"field": "spec"}]},
}


def test_a_status_object_is_read_with_its_causes_on_one_line() -> None:
    error = api_error("PATCH /x", 403, json.dumps(STATUS).encode())
    assert str(error) == 'PATCH /x: 403 Forbidden: pods "web" is forbidden: no room'
    assert (error.status, error.reason, error.retry_after_seconds) == (403, "Forbidden", None)
    assert error.causes == (Cause(reason="NodeCapacity", message="cpu"), Cause(field="spec"))


@pytest.mark.parametrize(
    ("header", "details", "seconds"),
    [
        ("10", {}, 10.0),
        (None, {"retryAfterSeconds": 3}, 3.0),
        ("1", {"retryAfterSeconds": 3}, 1.0),
        ("0", {}, None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", {}, None),
        (None, {"retryAfterSeconds": True}, None),
        (None, {"retryAfterSeconds": "soon"}, None),
        (None, {"retryAfterSeconds": 10**400}, None),
        ("9" * 400, {}, None),
        ("9" * 5000, {"retryAfterSeconds": 3}, 3.0),
    ],
)
def test_retry_after_is_read_from_header_or_details(
    header: str | None, details: dict[str, object], seconds: float | None
) -> None:
    body = json.dumps({"kind": "Status", "details": details}).encode()
    assert api_error("GET /x", 429, body, header).retry_after_seconds == seconds


def test_what_a_proxy_sends_is_cut_and_put_on_one_line() -> None:
    error = api_error("GET /x", 502, b"<html>\r\n\x1b[31m" + b"a" * 5000)
    assert error.reason == ""
    assert len(error.message) == LONGEST_MESSAGE
    assert str(error).startswith("GET /x: 502: <html> [31maaa")
    assert str(error).isprintable()


@given(st.binary(max_size=300), st.integers(min_value=300, max_value=599))
def test_any_answer_gives_an_error_of_one_line(body: bytes, status: int) -> None:
    error = api_error("GET /x", status, body)
    assert error.status == status
    assert str(error).isprintable()


@given(st.text())
def test_one_line_is_printable_and_never_too_long(text: str) -> None:
    assert one_line(text).isprintable()
    assert len(one_line(text)) <= LONGEST_MESSAGE


def test_unreachable_says_whether_it_may_have_been_done() -> None:
    assert Unreachable("PATCH /x: reset\nby peer", may_have_been_done=True).may_have_been_done
    assert str(Unreachable("a\nb")) == "a b"
