"""What tests/cluster/test_cluster_facts.py does not bring from a real server: absent parts, odd values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.core.cluster.facts import FrozenAxes, PodPlace
from agent.core.cluster.hpa import UtilizationTarget
from agent.core.cluster.pod import ContainerKind
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import NodeClass
from agent.kube.objects.cluster_json import (
    autoscaler_from_json,
    config_from_json,
    limit_range_from_json,
    node_facts_from_json,
    pod_place_from_json,
    quota_from_json,
    vertical_autoscaler_from_json,
)
from agent.kube.objects.json_reader import ConvertError


def named(**parts: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "shop", "name": "web"}, **parts}


def pod(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"uid": "u", "namespace": "shop", "name": "web-5d7f9c7bb6-x", **metadata}}


OWNER = {"kind": "ReplicaSet", "name": "web-5d7f9c7bb6", "uid": "r", "controller": True}


def test_a_pod_is_placed_with_the_owner_that_stays_over_rollouts() -> None:
    document = pod(labels={"pod-template-hash": "5d7f9c7bb6"}, ownerReferences=[OWNER], deletionTimestamp="2026-01-01")
    document |= {"spec": {"nodeName": "node-a"}, "status": {"phase": "Running"}}
    assert pod_place_from_json(document) == PodPlace(
        uid="u",
        namespace="shop",
        name="web-5d7f9c7bb6-x",
        node="node-a",
        workload=Workload(namespace="shop", kind="Deployment", name="web"),
        is_running=True,
        is_terminating=True,
    )
    bare = pod_place_from_json(pod())
    assert (bare.node, bare.is_running, bare.is_terminating, bare.workload.kind) == (None, False, False, "Pod")
    mirror = pod(annotations={"kubernetes.io/config.mirror": "x"}, ownerReferences=[{**OWNER, "kind": "Node"}])
    assert pod_place_from_json(mirror).workload.kind == "Pod"


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ({"status": "True", "reason": "Deferred", "message": "not enough cpu"}, "Deferred: not enough cpu"),
        ({"status": "True", "reason": "Infeasible"}, "Infeasible"),
        ({"status": "True"}, "not said why"),
        ({"status": "False", "reason": "Deferred"}, None),
        ({"status": "True", "reason": "Deferred", "message": "m" * 400}, "Deferred: " + "m" * 290),
    ],
)
def test_a_resize_that_is_pending_is_told_in_the_kubelets_words(condition: dict[str, str], said: str | None) -> None:
    ready = {"type": "Ready", "status": "True"}
    document = {**pod(), "status": {"conditions": [ready, {"type": "PodResizePending", **condition}]}}
    assert pod_place_from_json(document).resize_pending == said


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [({"cpu": "8"}, 8), ({"cpu": "7910m"}, 7), ({"cpu": "500m"}, None), ({}, None)],
)
def test_a_node_without_a_capacity_has_no_class(capacity: dict[str, str], expected: int | None) -> None:
    facts = node_facts_from_json(named(status={"capacity": capacity}))
    assert facts.node_class == (None if expected is None else NodeClass(instance_type=None, cpus=expected))


def hpa(*metrics: Any, **spec: Any) -> FrozenAxes:
    target = {"kind": "Deployment", "name": "web"}
    stated = {"metrics": list(metrics)} if metrics else {}
    return autoscaler_from_json(named(spec={"scaleTargetRef": target, **stated, **spec})).frozen


def resource(name: str, target: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": name, "target": target}}


NAME = "HorizontalPodAutoscaler shop/web"
WEB = Workload(namespace="shop", kind="Deployment", name="web")


def test_an_hpa_freezes_by_the_type_of_its_target() -> None:
    assert hpa() == FrozenAxes(cpu_for=NAME)  # before the server has put its default
    assert hpa(resource("cpu", {"type": "Utilization"}), resource("memory", {})) == FrozenAxes(
        cpu_for=NAME, memory_for=NAME
    )
    assert hpa(resource("cpu", {"type": "AverageValue"})) == FrozenAxes()
    assert hpa({"type": "Pods", "pods": {"metric": {"name": "cpu"}, "target": {"type": "Value"}}}) == FrozenAxes()
    assert hpa(metrics=[]) == FrozenAxes()


def test_the_targets_of_an_hpa_are_its_shares_of_requests() -> None:
    def targets(**spec: Any) -> tuple[UtilizationTarget, ...]:
        target = {"kind": "Deployment", "name": "web"}
        return autoscaler_from_json(named(spec={"scaleTargetRef": target, **spec})).targets

    cpu = UtilizationTarget(holder=NAME, resource=Resource.CPU, percent=80)
    assert targets() == (cpu,)
    half = {"type": "Utilization", "averageUtilization": 50}
    app = {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app", "target": half}}
    unstated = resource("memory", {"type": "Utilization"})
    assert targets(metrics=[resource("cpu", half), app, unstated, resource("cpu", {"averageUtilization": 0})]) == (
        replace(cpu, percent=50),
        replace(cpu, percent=50, container="app"),
    )


def test_an_init_container_is_told_from_a_sidecar() -> None:
    spec = {
        "containers": [{"name": "app"}],
        "initContainers": [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}],
    }
    containers = pod_place_from_json({**pod(), "spec": spec}).containers or ()
    assert {container.name: container.kind for container in containers} == {
        "app": ContainerKind.REGULAR,
        "proxy": ContainerKind.SIDECAR,
        "setup": ContainerKind.INIT,
    }


@pytest.mark.parametrize(
    ("spec", "target", "fault"),
    [
        ({}, "shop", "spec.scaleTargetRef.kind: missing"),
        (7, "shop", "spec: 7 is not an object"),
        ({"scaleTargetRef": {"kind": "Deployment"}}, "shop", "spec.scaleTargetRef.name: missing"),
        ({"metrics": [{}]}, WEB, "spec.metrics[0].type: missing"),
        ({"metrics": 7}, WEB, "spec.metrics: 7 is not allowed"),
        ({"metrics": [{"type": "Newer", "newer": {"name": "cpu"}}]}, WEB, "metrics[0].type: 'Newer' is not allowed"),
        ({"metrics": [{"type": "Resource"}]}, WEB, "spec.metrics[0].resource.name: missing"),
        ({"metrics": [resource("cpu", {"type": "Ratio"})]}, WEB, "resource.target.type: 'Ratio' is not allowed"),
        ({"metrics": [{"type": "ContainerResource", "containerResource": []}]}, WEB, "containerResource: [] is not"),
    ],
)
def test_an_hpa_in_doubt_frees_nothing(spec: Any, target: Workload | str, fault: str) -> None:
    if isinstance(target, Workload):
        spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, **spec}
    autoscaler = autoscaler_from_json(named(spec=spec))
    doubted = f"{NAME} (not understood)"
    assert (autoscaler.target, autoscaler.frozen) == (target, FrozenAxes(cpu_for=doubted, memory_for=doubted))
    assert autoscaler.fault is not None
    assert fault in autoscaler.fault


def test_a_vpa_in_doubt_acts() -> None:
    target = {"targetRef": {"kind": "Deployment", "name": "web"}}
    nobody, odd = (
        vertical_autoscaler_from_json(named(spec=spec)) for spec in ({}, {**target, "updatePolicy": {"updateMode": 7}})
    )
    assert (nobody.target, odd.target) == ("shop", WEB)
    for vpa in (nobody, odd):
        assert vpa.acts
        assert vpa.name == "VerticalPodAutoscaler shop/web (not understood)"
    assert nobody.fault is not None
    assert "spec.targetRef.kind: missing" in nobody.fault
    assert odd.fault is not None
    assert "updateMode: 7 is not allowed" in odd.fault


def test_a_vpa_acts_unless_it_says_off() -> None:
    def acts(**policy: Any) -> bool:
        spec = {"targetRef": {"kind": "DaemonSet", "name": "logs"}, **policy}
        vpa = vertical_autoscaler_from_json(named(spec=spec))
        assert vpa.target == Workload(namespace="shop", kind="DaemonSet", name="logs")
        return vpa.acts

    assert acts()
    assert acts(updatePolicy={})
    assert acts(updatePolicy={"updateMode": "InPlaceOrRecreate"})
    assert not acts(updatePolicy={"updateMode": "Off"})


def test_scopes_of_a_quota_come_from_both_places() -> None:
    def scoped(*expressions: dict[str, Any]) -> tuple[str, ...]:
        spec = {"scopes": ["BestEffort"], "scopeSelector": {"matchExpressions": list(expressions)}}
        return quota_from_json(named(spec=spec)).quota.scopes

    assert scoped({"scopeName": "Terminating", "operator": "Exists"}) == ("BestEffort", "Terminating")
    assert scoped({"scopeName": "BestEffort", "operator": "Exists"}) == ("BestEffort",)
    assert scoped({"scopeName": "PriorityClass", "operator": "DoesNotExist"}) == ("BestEffort",)


def test_a_range_or_quota_in_doubt_may_refuse_anything() -> None:
    ranged = limit_range_from_json(named(spec={"limits": [{"type": "Pod", "max": {"cpu": "x"}}]}))
    assert (ranged.namespace, ranged.items) == ("shop", ())
    assert ranged.fault is not None
    assert ranged.fault.startswith("LimitRange web is not understood: spec.limits[0].max.cpu")
    counted = quota_from_json(named(status={"used": {"cpu": []}}))
    assert (counted.namespace, counted.quota.hard) == ("shop", {})
    assert counted.fault is not None
    assert counted.fault.startswith("ResourceQuota web is not understood: status.used.cpu")


@pytest.mark.parametrize(
    ("read", "document", "said"),
    [
        (pod_place_from_json, [], "document: [] is not an object"),
        (pod_place_from_json, {"metadata": {"name": "x"}}, "metadata.uid: missing"),
        (autoscaler_from_json, {"metadata": {"namespace": "shop"}, "spec": {}}, "metadata.name: missing"),
        (vertical_autoscaler_from_json, {"spec": {}}, "metadata.name: missing"),
        (limit_range_from_json, {"spec": {}}, "metadata.name: missing"),
        (quota_from_json, {"metadata": 7}, "metadata: 7 is not an object"),
        (node_facts_from_json, named(status={"capacity": {"cpu": True}}), "status.capacity.cpu"),
        (config_from_json, {"data": {"pause": 7}}, "data.pause: 7 is not allowed"),
    ],
)
def test_what_is_malformed_is_named(read: Any, document: Any, said: str) -> None:
    with pytest.raises(ConvertError) as caught:
        read(document)
    assert said in str(caught.value)
