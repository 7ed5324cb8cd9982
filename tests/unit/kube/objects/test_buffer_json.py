from __future__ import annotations

from typing import Any

import pytest

from agent.core.buffers.buffer import (
    ACTIVE_CAPACITY,
    PLACEHOLDER_PODS,
    BufferQuota,
    BufferStatus,
    Condition,
    LivePod,
    ScalableObject,
    ScalableRef,
    ScaleFacts,
    ScopeTerm,
    SizeSpec,
)
from agent.core.cluster.effective_resources import pod_requests
from agent.kube.objects.buffer_json import (
    buffer_from_json,
    buffer_quota_from_json,
    buffer_status_to_json,
    live_pod_from_json,
    managed_template_from_json,
    pod_of_template,
    pod_template_from_json,
    scalable_from_json,
    scale_from_json,
)
from agent.kube.objects.json_reader import ConvertError
from tests.capacity_buffers import content, cores, gibibytes

METADATA = {
    "name": "web",
    "namespace": "shop",
    "uid": "u1",
    "generation": 4,
    "creationTimestamp": "2026-01-31T12:00:00Z",
    "annotations": {"plimsoll.dev/schedule": "x"},
}
READY = {
    "type": "ReadyForProvisioning",
    "status": "True",
    "reason": "AttributesSetSuccessfully",
    "message": "ready",
    "observedGeneration": 4,
    "lastTransitionTime": "2026-01-31T12:00:05Z",
}
LIMITED = {**READY, "type": "LimitedByQuotas", "status": "False", "reason": "ResourceQuotasAllocated", "message": ""}
PROVISIONING = {**READY, "type": "Provisioning", "reason": "FakePodsInjected", "message": ""}
STATUS = {
    "podTemplateRef": {"name": "capacitybuffer-web-pod-template"},
    "podTemplateGeneration": 2,
    "replicas": 0,
    "provisioningStrategy": ACTIVE_CAPACITY,
    "conditions": [READY, LIMITED],
}


def buffer_of(spec: Any = None, **fields: Any) -> Any:
    return buffer_from_json({"kind": "CapacityBuffer", "metadata": METADATA, "spec": spec or {}, **fields})


def test_a_buffer_is_read_whole() -> None:
    spec = {
        "provisioningStrategy": ACTIVE_CAPACITY,
        "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"},
        "replicas": 0,
        "percentage": 20,
        "limits": {"cpu": "1500m", "memory": "1Gi"},
    }
    buffer = buffer_of(spec, apiVersion="autoscaling.x-k8s.io/v1alpha1", status=STATUS)
    assert (buffer.namespace, buffer.name, buffer.uid, buffer.generation) == ("shop", "web", "u1", 4)
    assert (buffer.created_unix_seconds, buffer.is_terminating) == (1_769_860_800.0, False)
    assert buffer.annotations == {"plimsoll.dev/schedule": "x"}
    assert (buffer.strategy, buffer.template_ref, buffer.fault) == (ACTIVE_CAPACITY, None, None)
    assert buffer.scalable_ref == ScalableRef(api_group="apps", kind="Deployment", name="web")
    limits = {"cpu": cores(1.5), "memory": gibibytes(1)}
    assert buffer.size == SizeSpec(replicas=0, percentage=20, limits=limits)
    assert buffer.status.condition("ReadyForProvisioning") == Condition(
        type="ReadyForProvisioning",
        status="True",
        reason="AttributesSetSuccessfully",
        message="ready",
        observed_generation=4,
        last_transition_unix_seconds=1_769_860_805.0,
    )


def test_null_is_absent_and_empty_limits_are_set() -> None:
    spec = {"podTemplateRef": {"name": "t"}, "scalableRef": None, "replicas": None, "limits": None}
    buffer = buffer_of(spec)
    assert (buffer.template_ref, buffer.scalable_ref, buffer.size) == ("t", None, SizeSpec())
    assert buffer_of({"limits": {}}).size == SizeSpec(limits={})


def test_an_empty_strategy_is_not_an_absent_one() -> None:
    assert buffer_of({"provisioningStrategy": ""}).strategy == ""
    assert buffer_of({"provisioningStrategy": None}).strategy is None


def test_the_core_group_has_no_name() -> None:
    for group in ("core", "", None):
        ref = {"apiGroup": group, "kind": "ReplicationController", "name": "rc"}
        assert buffer_of({"scalableRef": ref}).scalable_ref == ScalableRef(
            api_group="", kind="ReplicationController", name="rc"
        )


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ([], "spec: [] is not an object"),
        ({"podTemplateRef": {}}, "spec.podTemplateRef.name: missing (a text that is not empty)"),
        ({"scalableRef": {"name": "d"}}, "spec.scalableRef.kind: missing (a text that is not empty)"),
        ({"replicas": "3"}, "spec.replicas: '3' is not allowed (a whole number)"),
        ({"limits": {"cpu": "lots"}}, "spec.limits.cpu: 'lots' is not a quantity"),
        ({"provisioningStrategy": 3}, "spec.provisioningStrategy: 3 is not allowed (a text)"),
    ],
)
def test_an_odd_spec_is_a_fault_of_that_buffer(spec: Any, fault: str) -> None:
    buffer = buffer_from_json({"metadata": METADATA, "spec": spec})
    assert buffer.fault is not None
    assert buffer.fault.startswith(fault)
    assert (buffer.name, buffer.generation) == ("web", 4)


@pytest.mark.parametrize("document", [{}, {"metadata": {}}, {"kind": "Pod", "metadata": METADATA}, [], None])
def test_only_what_has_no_name_is_refused(document: object) -> None:
    with pytest.raises(ConvertError):
        buffer_from_json(document)


def test_a_bare_buffer_has_what_the_api_would_give() -> None:
    buffer = buffer_from_json({"metadata": {"name": "web", "deletionTimestamp": "2026-01-31T12:00:00Z"}})
    assert (buffer.namespace, buffer.uid, buffer.generation, buffer.created_unix_seconds) == ("default", "", 0, 0.0)
    assert buffer.is_terminating
    assert buffer.status == BufferStatus()


def test_a_status_that_is_not_the_apis_is_not_believed() -> None:
    odd_ones: list[object] = [{"conditions": [{"type": "x"}]}, {"replicas": "3"}, []]
    assert [buffer_of(status=odd).status for odd in odd_ones] == [BufferStatus()] * 3


def test_a_status_comes_back_as_it_was_read() -> None:
    assert buffer_status_to_json(buffer_of(status=STATUS).status) == STATUS
    assert buffer_status_to_json(BufferStatus()) == {"conditions": []}
    bare = BufferStatus(conditions=(Condition(type="LimitedByQuotas", status="False", reason="x"),))
    assert buffer_status_to_json(bare)["conditions"] == [
        {"type": "LimitedByQuotas", "status": "False", "reason": "x", "message": ""}
    ]


def test_only_conditions_of_ours_are_written() -> None:
    conditions = [READY, PROVISIONING, LIMITED]
    active = buffer_of(status={**STATUS, "conditions": conditions}).status
    assert buffer_status_to_json(active)["conditions"] == [READY, LIMITED]
    ours = buffer_of(status={**STATUS, "conditions": conditions, "provisioningStrategy": PLACEHOLDER_PODS}).status
    assert buffer_status_to_json(ours)["conditions"] == conditions


def test_a_quota_is_read_by_its_status() -> None:
    document = {
        "metadata": {"name": "q", "namespace": "shop"},
        "spec": {
            "hard": {"cpu": "99"},
            "scopes": ["NotTerminating"],
            "scopeSelector": {
                "matchExpressions": [
                    {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]},
                    {"scopeName": "PriorityClass"},
                ]
            },
        },
        "status": {"hard": {"requests.cpu": "2"}, "used": {"requests.cpu": "500m"}},
    }
    assert buffer_quota_from_json(document) == (
        "shop",
        BufferQuota(
            name="q",
            hard={"requests.cpu": cores(2)},
            used={"requests.cpu": cores(0.5)},
            scopes=(
                ScopeTerm(scope="NotTerminating"),
                ScopeTerm(scope="PriorityClass", operator="In", values=("high",)),
                ScopeTerm(scope="PriorityClass", operator=""),
            ),
        ),
    )


def test_an_odd_quota_is_left_out_with_its_fault() -> None:
    namespace, quota = buffer_quota_from_json({"metadata": {"name": "q"}, "status": {"hard": {"cpu": "lots"}}})
    assert (namespace, quota.name, quota.hard) == ("default", "q", {})
    assert quota.fault is not None
    assert quota.fault.startswith("status.hard.cpu: 'lots'")
    with pytest.raises(ConvertError):
        buffer_quota_from_json({"metadata": {}})


def test_scopes_that_are_no_list_are_told_by_their_place() -> None:
    _, quota = buffer_quota_from_json({"metadata": {"name": "q"}, "spec": {"scopes": ["BestEffort"]}})
    assert (quota.scopes, quota.fault) == ((ScopeTerm(scope="BestEffort"),), None)
    _, odd = buffer_quota_from_json({"metadata": {"name": "q"}, "spec": {"scopes": "BestEffort"}})
    assert odd.fault is not None
    assert odd.fault.startswith("spec.scopes: 'BestEffort'")


def test_templates_go_on_as_they_are() -> None:
    of = {"metadata": {"odd": 1}, "spec": {"containers": "whatever"}}
    assert pod_template_from_json({"metadata": {"name": "t"}, "template": of}) == ("t", of)
    with pytest.raises(ConvertError, match=r"^template: missing \(a pod template\)$"):
        pod_template_from_json({"metadata": {"name": "t"}})


OWNER = {"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "name": "web", "uid": "u1"}


@pytest.mark.parametrize(
    ("owners", "owner_uid"),
    [
        ([{**OWNER, "controller": True}], "u1"),
        ([{**OWNER, "apiVersion": "autoscaling.x-k8s.io/v1alpha1", "controller": True}], "u1"),
        ([OWNER], None),
        ([{**OWNER, "kind": "Deployment", "controller": True}], None),
        ([{**OWNER, "apiVersion": "autoscaling.x-k8s.io.example/v1", "controller": True}], None),
        ([], None),
    ],
)
def test_a_managed_template_tells_whose_it_is(owners: list[dict[str, Any]], owner_uid: str | None) -> None:
    metadata = {"name": "t", "generation": 3, "resourceVersion": "9", "ownerReferences": owners}
    template = managed_template_from_json({"metadata": metadata, "template": content()})
    assert (template.name, template.generation, template.resource_version) == ("t", 3, "9")
    assert (template.owner_uid, template.content) == (owner_uid, content())


def test_scales() -> None:
    assert scale_from_json({"status": {"replicas": 8, "selector": "app=web"}}) == ScaleFacts(
        replicas=8, selector="app=web"
    )
    assert scale_from_json({}) == ScaleFacts(replicas=0, selector="")
    with pytest.raises(ConvertError):
        scale_from_json({"status": {"replicas": "8"}})


def test_objects_of_known_kinds() -> None:
    spec = {"replicas": 3, "parallelism": 5, "template": content()}
    assert scalable_from_json({"spec": spec}, "apps", "Deployment") == ScalableObject(replicas=3, content=content())
    assert scalable_from_json({"spec": spec}, "batch", "Job") == ScalableObject(replicas=5, content=content())
    assert scalable_from_json({"spec": {}}, "", "ReplicationController") == ScalableObject(replicas=None, content=None)
    with pytest.raises(KeyError):
        scalable_from_json({"spec": spec}, "apps", "DaemonSet")


def test_live_pods() -> None:
    document = {"metadata": {"name": "web-1", "creationTimestamp": "2026-01-31T12:00:00Z"}, **content()}
    assert live_pod_from_json(document) == LivePod(
        name="web-1", created_unix_seconds=1_769_860_800.0, is_terminating=False, content=document
    )
    leaving = live_pod_from_json({"metadata": {"name": "web-1", "deletionTimestamp": "2026-01-31T12:00:00Z"}})
    assert (leaving.is_terminating, leaving.created_unix_seconds) == (True, 0.0)


def test_a_templates_pod_is_read_whatever_its_metadata() -> None:
    pod = pod_of_template({"metadata": {"name": 1}, **content({"cpu": "1"}, priorityClassName="high")})
    assert (pod_requests(pod), pod.priority_class) == ({"cpu": cores(1)}, "high")
    assert pod_requests(pod_of_template({})) == {}
