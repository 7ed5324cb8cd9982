"""What is written of buffers, and what is not: by an API server of the test's own words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from agent.core.buffers.buffer import Buffer, BufferStatus, Condition, OrderKind, TemplateOrder
from agent.kube.client.errors import ApiError, Cause, TooLong, Unreachable
from agent.webhook.buffers.writer import BufferWriter, OthersStatusError, TugError
from tests.fake_api import FakeApi, Lines, in_turn

BUFFER = Buffer(namespace="shop", name="room", uid="u-1", generation=2, created_unix_seconds=0.0, strategy="other/x")
READY = Condition(
    type="ReadyForProvisioning",
    status="True",
    reason="AttributesSetSuccessfully",
    message="ready",
    last_transition_unix_seconds=0.0,
)
FOREIGN = Condition(type="Provisioning", status="True", reason="FakePodsInjected", last_transition_unix_seconds=0.0)
STATUS = BufferStatus(strategy="buffer.x-k8s.io/active-capacity", conditions=(READY, FOREIGN))


def writer(*answers: object) -> tuple[BufferWriter, FakeApi]:
    api = FakeApi(in_turn(*answers))
    return BufferWriter(api, version=lambda: "v1beta1", instance="me", wall_clock=lambda: 0.0), api


def conflict(*managers: str) -> ApiError:
    causes = tuple(
        Cause(reason="FieldManagerConflict", field=".status.replicas", message=f'conflict with "{manager}" using v1')
        for manager in managers
    )
    return ApiError("PATCH", status=409, reason="Conflict", causes=causes)


def standing(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "room", "resourceVersion": "7"}, "status": status}


class Templates(FakeApi):
    """Lists PodTemplates, or cannot."""

    def __init__(self, listing: object) -> None:
        super().__init__()
        self.listing = listing

    def stream(  # type: ignore[override]  # as the real one's
        self, path: str, *, query: Mapping[str, str] | None = None, **_: object
    ) -> Lines:
        assert (path, query) == (
            "/api/v1/namespaces/shop/podtemplates",
            {"labelSelector": "app.kubernetes.io/managed-by=plimsoll"},
        )
        if isinstance(self.listing, Exception):
            raise self.listing
        return Lines([json.dumps(self.listing).encode()])


def test_the_templates_of_a_namespace_are_listed_without_what_is_not_understood() -> None:
    items = [
        {"metadata": {"name": "a", "generation": 3}, "template": {}},
        {"metadata": {"name": "odd"}},
        {"metadata": {"name": "b"}, "template": {}},
    ]
    buffer_writer = BufferWriter(
        Templates({"kind": "PodTemplateList", "items": items}), version=lambda: "v1beta1", instance="me"
    )
    templates = buffer_writer.list_templates("shop")
    assert [(name, template.generation) for name, template in templates.items()] == [("a", 3), ("b", 0)]


def test_templates_that_are_too_long_to_be_held_together_are_left_to_be_read_one_by_one() -> None:
    buffer_writer = BufferWriter(Templates(TooLong("a list")), version=lambda: "v1beta1", instance="me")
    assert buffer_writer.list_templates("shop") == {}
    buffer_writer = BufferWriter(Templates(Unreachable("no answer")), version=lambda: "v1beta1", instance="me")
    with pytest.raises(Unreachable):
        buffer_writer.list_templates("shop")


def test_a_status_is_applied_with_the_uid_and_our_own_conditions() -> None:
    buffer_writer, api = writer(standing())
    assert buffer_writer.write_status(BUFFER, STATUS, may_take_over=False) == standing()
    (call,) = api.calls
    assert call.path == "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/shop/capacitybuffers/room/status"
    assert call.content_type == "application/apply-patch+yaml"
    assert call.query == {"fieldManager": "plimsoll-buffers"}
    assert call.body["metadata"]["uid"] == "u-1"
    assert [condition["type"] for condition in call.body["status"]["conditions"]] == ["ReadyForProvisioning"]
    assert "replicas" not in call.body["status"]


def test_another_controllers_status_is_not_overwritten() -> None:
    buffer_writer, api = writer(conflict("cluster-autoscaler", "kubectl-edit"))
    with pytest.raises(OthersStatusError, match="cluster-autoscaler writes its status"):
        buffer_writer.write_status(BUFFER, STATUS, may_take_over=False)
    assert len(api.calls) == 1


def test_it_is_where_that_is_wanted() -> None:
    buffer_writer, api = writer(conflict("cluster-autoscaler"), standing())
    buffer_writer.write_status(BUFFER, STATUS, may_take_over=True)
    assert api.calls[1].query == {"fieldManager": "plimsoll-buffers", "force": "true"}


def test_who_takes_it_back_each_time_is_left_to_it_for_ten_minutes() -> None:
    times = [0.0, 1.0, 2.0, 3.0, 599.0, 600.0]
    api = FakeApi(in_turn(*[conflict("karpenter"), standing()] * 4, *[conflict("karpenter")] * 2, standing()))
    buffer_writer = BufferWriter(api, version=lambda: "v1beta1", instance="me", wall_clock=lambda: times.pop(0))
    for _ in range(4):
        buffer_writer.write_status(BUFFER, STATUS, may_take_over=True)
    with pytest.raises(TugError, match="karpenter writes its status anew each time it is taken over"):
        buffer_writer.write_status(BUFFER, STATUS, may_take_over=True)
    buffer_writer.write_status(BUFFER, STATUS, may_take_over=True)
    assert len(api.calls) == 11
    buffer_writer.forget(frozenset())
    assert buffer_writer._taken_over == {}


def test_what_people_wrote_is_overwritten() -> None:
    buffer_writer, api = writer(conflict("kubectl-edit", "kubectl"), standing())
    assert buffer_writer.write_status(BUFFER, STATUS, may_take_over=False) == standing()
    assert api.calls[1].query == {"fieldManager": "plimsoll-buffers", "force": "true"}


def test_a_buffer_that_is_gone_or_another_one_now_is_left() -> None:
    for status in (404, 409):
        buffer_writer, _ = writer(ApiError("PATCH", status=status))
        assert buffer_writer.write_status(BUFFER, STATUS, may_take_over=False) is None


def test_what_others_left_behind_is_taken_away() -> None:
    limited, foreign = {"type": "LimitedByQuotas"}, {"type": "Provisioning"}
    buffer_writer, api = writer(standing(replicas=9, conditions=[limited, foreign]), standing())
    buffer_writer.write_status(BUFFER, STATUS, may_take_over=True)
    assert api.calls[1].content_type == "application/merge-patch+json"
    assert api.calls[1].body == {
        "metadata": {"resourceVersion": "7"},
        "status": {"replicas": None, "conditions": [foreign]},
    }


TEMPLATE = {
    "metadata": {
        "name": "capacitybuffer-room-pod-template",
        "resourceVersion": "5",
        "generation": 1,
        "ownerReferences": [
            {
                "apiVersion": "autoscaling.x-k8s.io/v1beta1",
                "kind": "CapacityBuffer",
                "name": "room",
                "uid": "u-0",
                "controller": True,
            }
        ],
    },
    "template": {"spec": {}},
}


def named(name: str, uid: str) -> dict[str, Any]:
    metadata: Any = TEMPLATE["metadata"]
    (owner,) = metadata["ownerReferences"]
    return {**TEMPLATE, "metadata": {**metadata, "ownerReferences": [{**owner, "name": name, "uid": uid}]}}


def test_a_template_of_a_buffer_of_that_name_that_is_gone_is_taken_over() -> None:
    buffer_writer, api = writer(named("room", "u-0"), named("room", "u-1"))
    template = buffer_writer.read_template(BUFFER, "capacitybuffer-room-pod-template")
    assert template is not None
    assert template.owner_uid == "u-1"
    assert api.calls[1].body[0] == {"op": "replace", "path": "/metadata/resourceVersion", "value": "5"}
    assert api.calls[1].body[1]["value"][0]["uid"] == "u-1"


def test_a_template_of_another_buffer_is_not() -> None:
    buffer_writer, api = writer(named("room-of-a-longer-name", "u-0"))
    template = buffer_writer.read_template(BUFFER, "capacitybuffer-room-pod-template")
    assert template is not None
    assert (template.owner_uid, len(api.calls)) == ("u-0", 1)


@pytest.mark.parametrize(
    ("kind", "status"), [(OrderKind.CREATE, 409), (OrderKind.REPLACE, 409), (OrderKind.REPLACE, 404)]
)
def test_somebody_who_was_quicker_is_no_failure(kind: OrderKind, status: int) -> None:
    buffer_writer, _ = writer(ApiError("x", status=status))
    order = TemplateOrder(kind=kind, buffer=BUFFER, template_name="t", content={"spec": {}}, resource_version="5")
    assert buffer_writer.write_template(order) is None


def test_a_replacement_leaves_the_metadata_to_others() -> None:
    buffer_writer, api = writer(TEMPLATE)
    order = TemplateOrder(
        kind=OrderKind.REPLACE, buffer=BUFFER, template_name="t", content={"spec": {"a": 1}}, resource_version="5"
    )
    buffer_writer.write_template(order)
    assert api.calls[0].body == [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "5"},
        {"op": "replace", "path": "/template", "value": {"spec": {"a": 1}}},
    ]


def test_a_strategy_is_told_of_once_and_again_where_nobody_answered() -> None:
    buffer_writer, api = writer(Unreachable("away"), {}, {})
    buffer_writer.tell_unknown_strategy(BUFFER, "ours")
    buffer_writer.tell_unknown_strategy(BUFFER, "ours")
    buffer_writer.tell_unknown_strategy(BUFFER, "ours")
    assert len(api.calls) == 2
    assert api.calls[0].body["metadata"]["name"] == api.calls[1].body["metadata"]["name"]
    assert "'other/x'" in api.calls[1].body["note"]
    buffer_writer.forget(frozenset())
    buffer_writer.tell_unknown_strategy(BUFFER, "ours")
    assert len(api.calls) == 3
