"""Odd answers; the real ones are asked for in tests/cluster/test_watching.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agent.kube.client.api import Stream, server_version
from agent.kube.client.errors import ApiError
from agent.kube.client.own_rights import (
    NEEDED,
    Identity,
    Permission,
    Purpose,
    identity,
    missing_permissions,
    node_claim,
)


class FakeApi:
    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.bodies: list[Any] = []

    def call(self, method: str, path: str, *, body: object | None = None, **_: object) -> object:
        self.bodies.append(body)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stream(self, path: str, **_: object) -> Stream:
        raise AssertionError(path)


def allowed(answer: object, reason: str = "") -> Mapping[str, object]:
    return {"status": {"allowed": answer, "reason": reason}}


def test_permissions_are_asked_for_one_by_one_in_the_servers_words() -> None:
    api = FakeApi(allowed(True))
    assert missing_permissions(api) == ()
    asked = [body["spec"]["resourceAttributes"] for body in api.bodies]
    assert len(asked) == len(NEEDED)
    assert {"verb": "patch", "resource": "pods", "subresource": "resize"} in asked
    assert {"verb": "create", "group": "events.k8s.io", "resource": "events"} in asked


@pytest.mark.parametrize("answer", [allowed(False), allowed("true"), {}, None, {"status": 1}])
def test_anything_but_a_plain_yes_is_a_no(answer: object) -> None:
    wanted = Permission(verb="patch", resource="pods", subresource="resize", purpose=Purpose.RESIZE)
    (missing,) = missing_permissions(FakeApi(answer), [wanted])
    assert str(missing) == "not allowed: patch pods/resize: without it nothing is resized"


def test_a_reason_is_told() -> None:
    wanted = Permission(verb="list", resource="pods", purpose=Purpose.WATCH)
    (missing,) = missing_permissions(FakeApi(allowed(False, "no role")), [wanted])
    assert str(missing).endswith(": without it the API server cannot be the pod source (no role)")


CLAIM = "authentication.kubernetes.io/node-name"


@pytest.mark.parametrize(
    ("extra", "node"),
    [
        ({CLAIM: ["node-1"]}, "node-1"),
        ({CLAIM: ["node-1", "node-2"]}, None),
        ({CLAIM: []}, None),
        ({CLAIM: [""]}, None),
        ({CLAIM: [1]}, None),
        ({CLAIM: "node-1"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_node_claim_is_taken_only_where_it_is_plain(extra: object, node: str | None) -> None:
    api = FakeApi({"status": {"userInfo": {"username": "me", "extra": extra}}})
    assert identity(api) == Identity(username="me", node_name=node)
    assert node_claim(api) == node


def test_a_server_too_old_to_say_knows_nobody() -> None:
    assert identity(FakeApi(ApiError("POST /x", status=404))) == Identity(username=None, node_name=None)
    with pytest.raises(ApiError):
        identity(FakeApi(ApiError("POST /x", status=403)))


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ({"gitVersion": "v1.37.1-gke.5"}, "v1.37.1-gke.5"),
        ({"gitVersion": ""}, None),
        ({"gitVersion": 1}, None),
        (None, None),
    ],
)
def test_the_servers_version_is_its_git_version_or_unknown(answer: object, version: str | None) -> None:
    assert server_version(FakeApi(answer)) == version
