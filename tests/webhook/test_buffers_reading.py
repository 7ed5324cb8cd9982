"""Small pure parts of the buffers' shell: who else writes, what calls are about, what is contained in what."""

from __future__ import annotations

from typing import Any

import pytest

from agent.core.buffers.buffer import Shape, ShapeSource, Unresolved
from agent.kube.client.errors import ApiError, Unreachable
from agent.webhook.buffers.counted_api import CountedApi, resource_of
from agent.webhook.buffers.dry_run import REST_SECONDS, SLOW_SECONDS, DryRun, NotTriedError
from agent.webhook.buffers.managed_templates import is_within
from agent.webhook.buffers.seen_buffer import FIELD_MANAGER, seen_buffer
from tests.fake_api import Call, FakeApi, in_turn
from tests.fakes import FakeClock


def buffer(*entries: dict[str, Any], strategy: str = "buffer.x-k8s.io/active-capacity") -> dict[str, Any]:
    return {
        "metadata": {"namespace": "shop", "name": "b", "uid": "u", "managedFields": list(entries)},
        "spec": {"provisioningStrategy": strategy, "replicas": 1},
    }


def entry(manager: str, status: dict[str, Any], subresource: str = "status") -> dict[str, Any]:
    return {"manager": manager, "subresource": subresource, "fieldsV1": {"f:status": status}}


READY: dict[str, Any] = {"f:conditions": {'k:{"type":"ReadyForProvisioning"}': {}}}
PROVISIONING: dict[str, Any] = {"f:conditions": {'k:{"type":"Provisioning"}': {}}}


@pytest.mark.parametrize(
    ("entries", "others"),
    [
        ([], ()),
        ([entry(FIELD_MANAGER, {"f:replicas": {}})], ()),
        ([entry("kubectl-edit", {"f:replicas": {}})], ()),
        ([entry("cluster-autoscaler", PROVISIONING)], ()),
        ([entry("cluster-autoscaler", {"f:replicas": {}})], ("cluster-autoscaler",)),
        ([entry("cluster-autoscaler", {"f:podTemplateRef": {}})], ("cluster-autoscaler",)),
        ([entry("cluster-autoscaler", READY)], ("cluster-autoscaler",)),
        ([entry("helm", {"f:replicas": {}}, subresource="")], ()),
        ([entry("b", READY), entry("a", READY), entry("b", {"f:replicas": {}})], ("a", "b")),
        (["odd", {"subresource": "status", "manager": 7}, {"subresource": "status", "manager": "x"}], ()),
    ],
)
def test_who_else_writes_what_only_a_controller_writes(entries: Any, others: tuple[str, ...]) -> None:
    seen = seen_buffer(buffer(*entries))
    assert seen.others == others
    assert seen.is_contested == bool(others)


def test_our_own_strategy_is_contested_by_nobody() -> None:
    ours = buffer(entry("cluster-autoscaler", READY), strategy="plimsoll.dev/placeholder-pods")
    assert not seen_buffer(ours).is_contested


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/api/v1/namespaces/shop/pods", "pods"),
        ("/api/v1/namespaces/shop/pods/web-0", "pods"),
        ("/api/v1/podtemplates", "podtemplates"),
        ("/apis/apps/v1/namespaces/shop/deployments/web/scale", "deployments/scale"),
        ("/apis/autoscaling.x-k8s.io/v1beta1/namespaces/s/capacitybuffers/b/status", "capacitybuffers/status"),
        ("/apis/autoscaling.x-k8s.io/v1beta1", "discovery"),
        ("/apis/racks.plimsoll.test", "discovery"),
        ("/api/v1", "discovery"),
    ],
)
def test_what_a_call_is_about(path: str, resource: str) -> None:
    assert resource_of(path) == resource


def test_calls_and_refusals_are_counted() -> None:
    api = CountedApi(FakeApi(in_turn({}, ApiError("GET", status=404))))
    api.call("GET", "/api/v1/namespaces/shop/pods/a")
    with pytest.raises(ApiError):
        api.call("GET", "/api/v1/namespaces/shop/pods/b")
    assert api.calls() == {("get", "pods"): 2}
    assert api.errors() == {("get", "pods"): 1}


@pytest.mark.parametrize(
    ("part", "whole", "is_in_it"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {}, False),
        ({"a": None}, {}, True),
        ([{"a": 1}], [{"a": 1, "b": 2}, {"c": 3}], True),
        ([{"a": 1}, {}], [{"a": 1}], False),
        ({"a": [1]}, {"a": 1}, False),
        ({"a": {"b": 1}}, {"a": 1}, False),
    ],
)
def test_what_has_nothing_that_another_lacks(part: Any, whole: Any, is_in_it: bool) -> None:
    assert is_within(part, whole) == is_in_it


SHAPE = Shape(content={"spec": {}}, source=ShapeSource.POD_TEMPLATE, source_name="PodTemplate small")


def dry_run(*answers: object) -> tuple[DryRun, FakeApi]:
    api = FakeApi(in_turn(*answers))
    return DryRun(api, is_wanted=True, clock=lambda: 0.0), api


def refusal(status: int, message: str) -> ApiError:
    return ApiError("POST", status=status, message=message)


def test_without_the_right_it_is_not_tried_again_at_once() -> None:
    words = 'pods is forbidden: User "x" cannot create resource "pods" in API group "" in the namespace "shop"'
    trial, api = dry_run(refusal(403, words))
    assert trial.shaped(SHAPE, "shop").shape == SHAPE
    assert trial.shaped(SHAPE, "shop").shape == SHAPE
    assert (len(api.calls), trial.has_right) == (1, False)


def test_a_full_quota_says_nothing_of_the_shape() -> None:
    trial, _ = dry_run(refusal(403, 'pods "fake-pod-x" is forbidden: exceeded quota: q, requested: cpu=1'))
    shaped = trial.shaped(SHAPE, "shop")
    assert (shaped.shape, shaped.is_whole, trial.has_right) == (SHAPE, False, True)


def test_a_webhook_that_cannot_be_tried_leaves_the_shape() -> None:
    trial, _ = dry_run(refusal(400, "admission webhook x does not support dry run"))
    assert trial.shaped(SHAPE, "shop").shape == SHAPE


@pytest.mark.parametrize("status", [400, 403, 404, 422])
def test_a_refusal_is_told_in_the_servers_words(status: int) -> None:
    trial, _ = dry_run(refusal(status, "no PriorityClass with name x was found"))
    shape = trial.shaped(SHAPE, "shop").shape
    assert isinstance(shape, Unresolved)
    assert shape.reason == "a pod of PodTemplate small is refused: no PriorityClass with name x was found"


@pytest.mark.parametrize("status", [409, 429, 500, 504])
def test_what_says_nothing_of_the_shape_is_raised(status: int) -> None:
    trial, _ = dry_run(refusal(status, "later"))
    with pytest.raises(NotTriedError, match=r"^a pod of PodTemplate small could not be tried out: later$"):
        trial.shaped(SHAPE, "shop")


def test_where_a_dry_run_failed_slowly_none_is_tried_for_a_while() -> None:
    clock = FakeClock()

    def answer(_: Call) -> object:
        clock.advance(SLOW_SECONDS if len(api.calls) == 1 else 0.1)
        raise Unreachable("no answer")

    api = FakeApi(answer)
    trial = DryRun(api, is_wanted=True, clock=lambda: clock.seconds)
    words = []
    for namespace in ("shop", "shop", "other"):
        with pytest.raises(NotTriedError) as raised:
            trial.shaped(SHAPE, namespace)
        words.append(str(raised.value))
    assert len(set(words)) == 1  # they stand in statuses, which are written when they change
    assert [call.path.split("/")[4] for call in api.calls] == ["shop", "other"]
    clock.advance(REST_SECONDS)
    for _ in range(2):  # the next one failed at once: no reason to wait
        with pytest.raises(NotTriedError):
            trial.shaped(SHAPE, "shop")
    assert len(api.calls) == 4
