"""Autoscalers that are not understood hold whom they may be for; tests/cluster/test_cluster_facts.py has a real server.

A real one checks what it is given, so such objects come only of a newer release or of a CRD without a schema.
"""

from __future__ import annotations

from typing import Any

from agent.core.cluster.facts import FrozenAxes
from agent.core.cluster.workload import Workload
from agent.kube.watch.watched_objects import ReflectedObjects
from agent.webhook.cluster.facts import ClusterFacts
from tests.fake_api import FakeApi

WEB = Workload(namespace="shop", kind="Deployment", name="web")
SIBLING = Workload(namespace="shop", kind="StatefulSet", name="db")
ELSEWHERE = Workload(namespace="bank", kind="Deployment", name="web")
TARGET = {"kind": "Deployment", "name": "web"}
ADVISES = {"updatePolicy": {"updateMode": "Off"}}


def document(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "1"}, "spec": spec}


def put(objects: ReflectedObjects[Any], **spec: Any) -> None:
    objects.put(objects.entry(document(**spec)), now_seconds=0.0)


def listed(objects: ReflectedObjects[Any], **spec: Any) -> None:
    gathering = objects.gather()
    gathering.take(document(**spec))
    gathering.finish(now_seconds=0.0, is_newest=True)


def facts() -> ClusterFacts:
    return ClusterFacts(FakeApi(), namespace="plimsoll")


def frozen(name: str) -> FrozenAxes:
    return FrozenAxes(cpu_for=name, memory_for=name)


def test_an_hpa_whose_metrics_are_not_understood_holds_its_workload_alone() -> None:
    cluster = facts()
    listed(cluster._hpas, scaleTargetRef=TARGET, metrics=[{"type": 7}])
    assert cluster.frozen(WEB) == frozen("HorizontalPodAutoscaler shop/web (not understood)")
    assert cluster.frozen(SIBLING) == cluster.frozen(ELSEWHERE) == FrozenAxes()
    assert cluster.faults() == ("hpas shop/web: spec.metrics[0].type: 7 is not allowed (a text)",)


def test_an_hpa_whose_target_is_not_understood_holds_its_namespace_until_it_is() -> None:
    cluster = facts()
    put(cluster._hpas, scaleTargetRef=TARGET)
    assert cluster.frozen(WEB) == FrozenAxes(cpu_for="HorizontalPodAutoscaler shop/web")
    put(cluster._hpas, scaleTargetRef=[])
    held = frozen("HorizontalPodAutoscaler shop/web (not understood)")
    assert cluster.frozen(WEB) == cluster.frozen(SIBLING) == held
    assert cluster.frozen(ELSEWHERE) == FrozenAxes()
    assert cluster.faults() == ("hpas shop/web: spec.scaleTargetRef: [] is not an object",)
    put(cluster._hpas, scaleTargetRef=TARGET)
    assert (cluster.frozen(SIBLING), cluster.faults()) == (FrozenAxes(), ())
    put(cluster._hpas, scaleTargetRef=[])
    cluster._hpas.remove(cluster._hpas.entry(document()))
    assert (cluster.frozen(WEB), cluster.faults()) == (FrozenAxes(), ())


def test_an_hpa_with_a_metric_of_a_newer_kind_holds_its_workload() -> None:
    cluster = facts()
    put(cluster._hpas, scaleTargetRef=TARGET, metrics=[{"type": "Newer", "newer": {"name": "cpu"}}])
    assert cluster.frozen(WEB) == frozen("HorizontalPodAutoscaler shop/web (not understood)")
    allowed = "Resource, ContainerResource, Pods, Object, External"
    assert cluster.faults() == (f"hpas shop/web: spec.metrics[0].type: 'Newer' is not allowed ({allowed})",)


def test_ranges_and_quotas_that_are_not_understood_are_told_for_their_namespace_alone() -> None:
    cluster = facts()
    put(cluster._limit_ranges, limits=[{"type": "Container", "max": {"cpu": "1"}}])
    assert (cluster.bounds_fault("shop"), len(cluster.limit_ranges("shop"))) == (None, 1)
    put(cluster._limit_ranges, limits=7)
    assert cluster.bounds_fault("shop") == "LimitRange web is not understood: spec.limits: 7 is not allowed (a list)"
    assert cluster.bounds_fault("bank") is None
    put(cluster._limit_ranges, limits=[])
    assert cluster.bounds_fault("shop") is None
    put(cluster._quotas, hard={"cpu": []})
    fault = cluster.bounds_fault("shop")
    assert fault is not None
    assert fault.startswith("ResourceQuota web is not understood: spec.hard.cpu")
    assert cluster.faults() == (f"quotas shop/web: {fault}",)


def test_of_many_ranges_of_a_namespace_those_are_known_that_decide() -> None:
    cluster = facts()
    for number in range(20):
        name = {"namespace": "shop", "name": f"range-{number:02}"}
        spec = {"limits": [{"type": "Pod", "min": {"cpu": f"{number}m"}}] * 50}
        index = cluster._limit_ranges
        index.put(index.entry({"metadata": name, "spec": spec}), now_seconds=0.0)
    assert [item.name for item in cluster.limit_ranges("shop")] == ["range-19"]
    assert cluster.limit_ranges("shop") is cluster.limit_ranges("shop")
    assert cluster.limit_ranges("bank") == ()


def test_a_vpa_that_is_not_understood_leaves_alone_whom_it_may_be_for() -> None:
    cluster = facts()
    put(cluster._vpas, targetRef=TARGET, **ADVISES)
    assert cluster.left_alone_for(WEB) is None
    put(cluster._vpas, **ADVISES)
    name = "VerticalPodAutoscaler shop/web (not understood)"
    assert cluster.left_alone_for(WEB) == cluster.left_alone_for(SIBLING) == name
    assert cluster.left_alone_for(ELSEWHERE) is None
    put(cluster._vpas, targetRef=TARGET, updatePolicy={"updateMode": []})
    assert (cluster.left_alone_for(WEB), cluster.left_alone_for(SIBLING)) == (name, None)
    assert cluster.faults() == ("vpas shop/web: spec.updatePolicy.updateMode: [] is not allowed (a text)",)
