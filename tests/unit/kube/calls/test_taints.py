"""Taints against answers that a real server does not give; the rest is tests/cluster/test_taints.py."""

from __future__ import annotations

import pytest

from agent.kube.calls.taints import TRIES, NodeFormatError, TaintChange, TaintResult, set_taint
from agent.kube.client.api import JSON
from agent.kube.client.errors import ApiError, KubeError, Unreachable
from tests.fake_api import Call, FakeApi, in_turn

OURS = {"key": "ours", "effect": "NoSchedule"}


def node(*taints: object, version: object = "7") -> dict[str, object]:
    return {"metadata": {"name": "n", "resourceVersion": version}, "spec": {"taints": list(taints)}}


def refusal(status: int) -> ApiError:
    return ApiError("PATCH", status=status)


def put(api: FakeApi, *, wanted: bool = True, name: str = "n") -> TaintResult:
    return set_taint(api, name, key="ours", effect="NoSchedule", wanted=wanted, timeout_seconds=3.0)


def test_the_patch_carries_the_version_that_was_read_and_the_others_unchanged() -> None:
    other = {"key": "theirs", "effect": "NoExecute", "timeAdded": "then", "field of tomorrow": 1}
    api = FakeApi(in_turn(node(other), node(other, OURS)))

    result = put(api)

    assert (result.change, result.conflicts) == (TaintChange.PUT, 0)
    body = {"metadata": {"resourceVersion": "7"}, "spec": {"taints": [other, OURS]}}
    assert api.calls == [
        Call("GET", "/api/v1/nodes/n", None, None, JSON, 3.0),
        Call("PATCH", "/api/v1/nodes/n", None, body, "application/merge-patch+json", 3.0),
    ]


def test_our_taint_with_a_value_of_somebodys_is_as_wanted() -> None:
    api = FakeApi(in_turn(node({**OURS, "value": "x"})))

    assert put(api).change is TaintChange.NONE
    assert len(api.calls) == 1


def test_all_taints_of_our_key_go_at_once() -> None:
    api = FakeApi(in_turn(node(OURS, {"key": "ours", "effect": "NoExecute"}), node()))

    assert put(api, wanted=False).change is TaintChange.TAKEN_AWAY
    assert api.calls[1].body == {"metadata": {"resourceVersion": "7"}, "spec": {"taints": []}}


@pytest.mark.parametrize("spec", [{}, {"taints": None}, None])
def test_a_node_without_taints_is_a_node(spec: object) -> None:
    api = FakeApi(in_turn({"metadata": {"resourceVersion": "7"}, "spec": spec}))

    assert put(api, wanted=False).change is TaintChange.NONE


def test_after_a_conflict_the_node_is_read_anew() -> None:
    api = FakeApi(in_turn(node(version="1"), refusal(409), node(version="2"), node(OURS)))

    assert put(api).conflicts == 1
    assert api.calls[3].body == {"metadata": {"resourceVersion": "2"}, "spec": {"taints": [OURS]}}


def test_conflicts_without_end_are_given_up() -> None:
    api = FakeApi(in_turn(*[node(), refusal(409)] * TRIES))

    with pytest.raises(ApiError):
        put(api)

    assert len(api.calls) == 2 * TRIES


@pytest.mark.parametrize("error", [refusal(403), refusal(422), refusal(500), Unreachable("no answer")])
def test_whatever_is_no_conflict_is_not_tried_again(error: KubeError) -> None:
    api = FakeApi(in_turn(node(), error))

    with pytest.raises(type(error)):
        put(api)

    assert len(api.calls) == 2


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        {"metadata": {"resourceVersion": ""}},
        {"metadata": {"resourceVersion": "7"}, "spec": {"taints": {"a": 1}}},
    ],
)
def test_what_is_no_node_is_not_written_over(answer: object) -> None:
    with pytest.raises(NodeFormatError, match="/api/v1/nodes/n: "):
        put(FakeApi(in_turn(answer)))


def test_a_name_cannot_lead_elsewhere() -> None:
    api = FakeApi(in_turn(node(OURS)))

    put(api, name="a/../b")

    assert api.calls[0].path == "/api/v1/nodes/a%2F..%2Fb"
