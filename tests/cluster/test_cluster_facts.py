"""What the webhook knows of a real API server's cluster: followed by watches, as an account with these rights only."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent.core.cluster.facts import ClusterRule, FrozenAxes, PodPlace
from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import NodeClass
from agent.core.numbers.units import NANOS_PER_UNIT
from agent.core.window.overload import OVERLOAD_TAINT_KEY
from agent.kube.client.api import HttpApi
from agent.kube.watch.reflector import WatchPace
from agent.webhook.cluster import facts as cluster_module
from agent.webhook.cluster.facts import NOT_READ, ClusterFacts
from tests.cluster.api import MERGE, ApiError, Json, is_awaited
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fence import set_taints, taint
from tests.cluster.identities import create_namespace, fresh_name, remove_namespace
from tests.cluster.objects import create_node, pod, pod_path, write_pod_status
from tests.cluster.processes import wait_for
from tests.cluster.webhook_rights import CLUSTER_RULES, own_rules, webhook_api

pytestmark = pytest.mark.cluster

QUICK = WatchPace(start_spread_seconds=0.0, first_wait_seconds=0.05, longest_wait_seconds=0.3)
GI = 1 << 30


@pytest.fixture(scope="module")
def own(cluster: ControlPlane) -> Iterator[str]:
    """The webhook's own namespace."""
    name = fresh_name("webhook")
    create_namespace(cluster, name)
    yield name
    remove_namespace(cluster, name)


@pytest.fixture(scope="module")
def api(cluster: ControlPlane, own: str) -> HttpApi:
    return webhook_api(cluster, own, everywhere=CLUSTER_RULES, own=own_rules())


@contextlib.contextmanager
def watching(api: HttpApi, own: str, **more: Any) -> Iterator[ClusterFacts]:
    cluster_facts = ClusterFacts(api, namespace=own, pace=QUICK, ask_seconds=0.1, **more)
    assert cluster_facts.rules().pause_reason == NOT_READ
    cluster_facts.start()
    try:
        yield cluster_facts
    finally:
        cluster_facts.stop()


@pytest.fixture(scope="module")
def facts(api: HttpApi, own: str) -> Iterator[ClusterFacts]:
    with watching(api, own) as cluster_facts:
        wait_for(lambda: cluster_facts.is_complete, "everything has been listed")
        yield cluster_facts


def told(facts: ClusterFacts, condition: Callable[[], bool], what: str) -> None:
    try:
        wait_for(condition, what)
    except TimeoutError as error:
        raise AssertionError(f"{error}; {facts.statuses()} {facts.faults()}") from error


def create_deployment(cluster: ControlPlane, namespace: str, name: str, node: str, replicas: int) -> None:
    cluster.admin.create(
        f"/apis/apps/v1/namespaces/{namespace}/deployments",
        {
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": pod(name, node)["spec"]},
            },
        },
    )


def create_hpa(cluster: ControlPlane, namespace: str, name: str, target: Json, *metrics: Json, api: str = "v2") -> None:
    cluster.admin.create(
        f"/apis/autoscaling/{api}/namespaces/{namespace}/horizontalpodautoscalers",
        {
            "metadata": {"name": name},
            "spec": {"scaleTargetRef": target, "maxReplicas": 3, **({"metrics": metrics} if metrics else {})},
        },
    )


# -- pods and nodes --------------------------------------------------------------------------------------------------


def test_pods_are_followed_from_their_making_to_their_end(
    cluster: ControlPlane, facts: ClusterFacts, namespace: str, node_name: str
) -> None:
    create_node(cluster.admin, node_name)
    create_deployment(cluster, namespace, "web", node_name, 2)
    web = Workload(namespace=namespace, kind="Deployment", name="web")
    told(facts, lambda: len(facts.pods_on(node_name)) == 2, "both pods are known")
    first, second = facts.pods_on(node_name)
    assert first.workload == second.workload == web
    assert (first.is_running, first.is_terminating, facts.replicas(web)) == (False, False, 0)
    for place in (first, second):
        write_pod_status(cluster.admin, namespace, place.name, {"phase": "Running"})
    told(facts, lambda: facts.replicas(web) == 2, "both run")
    assert facts.pod(first.uid) == PodPlace(
        uid=first.uid,
        namespace=namespace,
        name=first.name,
        node=node_name,
        workload=web,
        is_running=True,
        is_terminating=False,
    )
    # A finished pod is one that is gone, though it is still in the API.
    write_pod_status(cluster.admin, namespace, second.name, {"phase": "Succeeded"})
    told(facts, lambda: facts.pod(second.uid) is None, "the finished pod is no longer known")
    gone = facts.gone_pod(second.uid)
    assert gone is not None
    assert gone.node == node_name
    assert facts.gone_pod(first.uid) is None


def test_pods_come_in_pages_and_those_that_go_between_two_lists_are_taken_away(
    cluster: ControlPlane, api: HttpApi, own: str, namespace: str, node_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "PAGE_OBJECTS", 2)
    create_node(cluster.admin, node_name)
    for index in range(5):
        cluster.admin.create(pod_path(namespace), pod(f"one-{index}", node_name))
    with watching(api, own) as facts:
        told(facts, lambda: facts.is_complete, "all pages were read")
        assert [place.name for place in facts.pods_on(node_name)] == [f"one-{index}" for index in range(5)]
        assert facts.pods_on(node_name)[0].workload == Workload(namespace=namespace, kind="Pod", name="one-0")
        counts = next(kind.counts for kind in facts.statuses() if kind.name == "pods")
        # Each page for a list would be three at least; listed anew is what the server no longer could go on from.
        assert 1 <= counts.lists <= 1 + counts.expired
        cluster.admin.delete(pod_path(namespace, "one-3"), gracePeriodSeconds="0")
        told(facts, lambda: len(facts.pods_on(node_name)) == 4, "the removed pod is gone")


def test_a_node_has_a_class_and_its_overload_taint_is_seen(
    cluster: ControlPlane, facts: ClusterFacts, node_name: str
) -> None:
    create_node(cluster.admin, node_name, cpu="8", labels={"node.kubernetes.io/instance-type": "m5.large"})
    told(facts, lambda: facts.node_class(node_name) == NodeClass(instance_type="m5.large", cpus=8), "its class")
    assert facts.node_class("nowhere") is None
    assert node_name not in facts.tainted_nodes()
    set_taints(cluster.admin, node_name, [taint("NoSchedule", "example.com/other"), taint("NoSchedule")])
    told(facts, lambda: node_name in facts.tainted_nodes(), f"its taint {OVERLOAD_TAINT_KEY}")
    set_taints(cluster.admin, node_name, [taint("NoSchedule", "example.com/other")])
    told(facts, lambda: node_name not in facts.tainted_nodes(), "the taint is gone")


def test_a_namespace_is_known_with_its_labels_and_annotations(
    cluster: ControlPlane, facts: ClusterFacts, namespace: str
) -> None:
    def stated() -> list[str | None]:
        entry = facts.namespace(namespace)
        return [] if entry is None else [part.get("plimsoll.dev/mode") for part in (entry.labels, entry.annotations)]

    def change(part: str, mode: str) -> None:
        body = {"metadata": {part: {"plimsoll.dev/mode": mode}}}
        cluster.admin.patch(f"/api/v1/namespaces/{namespace}", body, MERGE)

    told(facts, lambda: stated() == [None, None], "the namespace")
    change("labels", "off")
    told(facts, lambda: stated() == ["off", None], "its label")
    change("annotations", "enforce")
    told(facts, lambda: stated() == ["off", "enforce"], "its annotation")
    assert facts.namespace("nowhere") is None


# -- autoscalers -----------------------------------------------------------------------------------------------------


def utilization(resource: str, kind: str = "Resource") -> Json:
    source: Json = {"name": resource, "target": {"type": "Utilization", "averageUtilization": 60}}
    if kind == "ContainerResource":
        return {"type": kind, "containerResource": {**source, "container": "app"}}
    return {"type": kind, "resource": source}


VALUE = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}}
EXTERNAL = {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "7"}}}


@pytest.mark.parametrize(
    ("metrics", "frozen"),
    [
        ((), {"cpu"}),
        ((utilization("memory"),), {"memory"}),
        ((utilization("cpu", "ContainerResource"), utilization("memory")), {"cpu", "memory"}),
        ((VALUE, EXTERNAL), set()),
    ],
)
def test_an_hpa_freezes_what_it_divides_by(
    cluster: ControlPlane, facts: ClusterFacts, namespace: str, metrics: tuple[Json, ...], frozen: set[str]
) -> None:
    rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web"}
    create_hpa(cluster, namespace, "scaler", rollout, *metrics)
    # What comes after it tells that it was seen, where it freezes nothing.
    create_hpa(cluster, namespace, "seen", {"apiVersion": "apps/v1", "kind": "Deployment", "name": "seen"})
    seen = Workload(namespace=namespace, kind="Deployment", name="seen")
    told(facts, lambda: facts.frozen(seen).cpu_for is not None, "the autoscalers")
    name = f"HorizontalPodAutoscaler {namespace}/scaler"
    web = Workload(namespace=namespace, kind="Rollout", name="web")
    assert facts.frozen(web) == FrozenAxes(
        cpu_for=name if "cpu" in frozen else None,
        memory_for=name if "memory" in frozen else None,
        cpu_containers=("app",) if metrics and "containerResource" in metrics[0] else None,
    )
    shares = [metric for metric in metrics if metric not in (VALUE, EXTERNAL)]
    # Where none are stated the server puts CPU at 80 %.
    assert [target.percent for target in facts.hpa_targets(web)] == ([60] * len(shares) if metrics else [80])
    cluster.admin.delete(f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/seen")
    told(facts, lambda: facts.frozen(seen) == FrozenAxes(), "the removed autoscaler is gone")


CRD: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "verticalpodautoscalers.autoscaling.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/63797"},
    },
    "spec": {
        "group": "autoscaling.k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "VerticalPodAutoscaler", "plural": "verticalpodautoscalers"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def test_a_vpa_that_acts_is_seen_as_soon_as_the_cluster_has_the_kind(
    cluster: ControlPlane, facts: ClusterFacts, namespace: str
) -> None:
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

    def has_none() -> bool:
        status = next(kind for kind in facts.statuses() if kind.name == "vpas")
        return (status.is_listed, status.objects, status.trouble) == (True, 0, None)

    # Of another test's kind that went after these facts began the watch has yet to find that it is gone.
    told(facts, has_none, "there is no such kind, and that is no trouble")
    # The same kind of a file before goes for a while after it was removed.
    wait_for(lambda: is_awaited(lambda: cluster.admin.create(crds, CRD), 409), "another test's kind is gone")
    vpas = f"/apis/autoscaling.k8s.io/v1/namespaces/{namespace}/verticalpodautoscalers"
    try:
        for name, policy in (("web", {}), ("advised", {"updatePolicy": {"updateMode": "Off"}})):
            spec = {"targetRef": {"kind": "Deployment", "name": name}, **policy}
            body = {"metadata": {"name": name}, "spec": spec}
            body |= {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler"}
            wait_for(lambda body=body: _created(cluster, vpas, body), "the kind is served")  # type: ignore[misc]
        web = Workload(namespace=namespace, kind="Deployment", name="web")
        told(facts, lambda: facts.left_alone_for(web) == f"VerticalPodAutoscaler {namespace}/web", "the vpa")
        assert facts.left_alone_for(Workload(namespace=namespace, kind="Deployment", name="advised")) is None
        cluster.admin.patch(f"{vpas}/web", {"spec": {"updatePolicy": {"updateMode": "Off"}}}, MERGE)
        told(facts, lambda: facts.left_alone_for(web) is None, "it no longer acts")
        cluster.admin.patch(f"{vpas}/web", {"spec": {"updatePolicy": {"updateMode": "Initial"}}}, MERGE)
        told(facts, lambda: facts.left_alone_for(web) is not None, "it acts again")
    finally:
        cluster.admin.delete(f"{crds}/{CRD['metadata']['name']}")
    told(facts, lambda: facts.left_alone_for(web) is None and facts.is_complete, "the kind is gone, and its objects")


def _created(cluster: ControlPlane, path: str, body: Json) -> bool:
    return is_awaited(lambda: cluster.admin.create(path, body), 404)


# -- ranges, quotas, rules -------------------------------------------------------------------------------------------


def test_limit_ranges_and_quotas_are_known_by_namespace(
    cluster: ControlPlane, facts: ClusterFacts, namespace: str
) -> None:
    item = {"type": "Container", "max": {"cpu": "2"}, "default": {"memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}}
    ratio = {"type": "Pod", "maxLimitRequestRatio": {"cpu": "4"}}
    body: Json = {"metadata": {"name": "range"}, "spec": {"limits": [item, ratio]}}
    cluster.admin.create(f"/api/v1/namespaces/{namespace}/limitranges", body)
    told(facts, lambda: len(facts.limit_ranges(namespace)) == 2, "the range")
    first, second = facts.limit_ranges(namespace)
    assert (first.name, first.type, first.max["cpu"]) == ("range", "Container", 2 * NANOS_PER_UNIT)
    assert first.default["memory"] == GI * NANOS_PER_UNIT
    assert second.max_limit_request_ratio["cpu"] == 4 * NANOS_PER_UNIT

    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    specs = {
        "all": {"hard": {"requests.cpu": "4", "limits.memory": "8Gi"}},
        "high": {"hard": {"cpu": "1"}, "scopeSelector": selector},
        "running": {"hard": {"cpu": "1"}, "scopes": ["NotTerminating"]},
    }
    for name, spec in specs.items():
        body = {"metadata": {"name": name}, "spec": spec}
        cluster.admin.create(f"/api/v1/namespaces/{namespace}/resourcequotas", body)
    told(facts, lambda: len(facts.quotas(namespace)) == 3, "the quotas")
    everything, high, running = facts.quotas(namespace)
    assert everything.hard == {"requests.cpu": 4 * NANOS_PER_UNIT, "limits.memory": 8 * GI * NANOS_PER_UNIT}
    assert (everything.scopes, high.scopes, running.scopes) == ((), (), ("NotTerminating",))
    large = {"requests": {"cpu": "1"}, "limits": {"cpu": "1", "memory": "9Gi"}}

    def is_enforced() -> bool:
        """Whether admission knows the quota: until it does, a pod is let in and nobody counts it."""
        try:
            body = pod("large", None, {"name": "app", "image": "i", "resources": large})
            cluster.admin.create(pod_path(namespace), body, dryRun="All")
        except ApiError as error:
            return "exceeded quota: all" in error.message
        return False

    wait_for(is_enforced, "admission goes by the quota")
    # The server itself counts what is used, before the pod is stored.
    cluster.admin.create(
        pod_path(namespace),
        pod(
            "one",
            None,
            {
                "name": "app",
                "image": "i",
                "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1", "memory": "1Gi"}},
            },
        ),
    )
    told(facts, lambda: facts.quotas(namespace)[0].used.get("requests.cpu") == NANOS_PER_UNIT, "what is used")
    assert not facts.limit_ranges("nowhere")
    assert not facts.quotas("nowhere")


def test_the_config_map_pauses_and_rules_and_what_is_wrong_in_it_changes_no_rule(
    cluster: ControlPlane, facts: ClusterFacts, own: str
) -> None:
    maps = f"/api/v1/namespaces/{own}/configmaps"

    def patch(**data: str | None) -> None:
        cluster.admin.patch(f"{maps}/plimsoll", {"data": data}, MERGE)

    assert (facts.rules().pause_reason, facts.rules().rules) == (None, ())
    body = {"metadata": {"name": "plimsoll"}, "data": {"rules": "- {namespace: shop, mode: enforce}"}}
    cluster.admin.create(maps, {"metadata": {"name": "other"}, "data": {"pause": "of somebody else"}})
    cluster.admin.create(maps, body)
    rules = (ClusterRule(namespace="shop", mode="enforce"),)
    told(facts, lambda: facts.rules().rules == rules, "the rule")
    patch(pause="the network team asks")
    told(facts, lambda: facts.rules().pause_reason == "the network team asks", "the pause")
    patch(pause=None, rules="- {namespace: shop, mode: enforced}")
    told(facts, lambda: facts.rules().fault is not None, "the fault")
    assert (facts.rules().rules, facts.rules().pause_reason) == (rules, None)
    assert "'enforced' is not allowed" in facts.faults()[0]
    cluster.admin.delete(f"{maps}/plimsoll")
    told(facts, lambda: facts.rules().rules == (), "the removed rules")
    assert (facts.rules().fault, facts.faults()) == (None, ())


# -- the server ------------------------------------------------------------------------------------------------------


def test_server_and_nodes_keep_pod_level_resources_from_1_34_on(
    cluster: ControlPlane, facts: ClusterFacts, node_name: str
) -> None:
    assert facts.server_version == f"v{cluster.version}"
    create_node(cluster.admin, node_name)
    if int(cluster.version.split(".")[1]) < 34:
        told(facts, lambda: facts.node_count() > 0, "a new node")
        assert not facts.knows_pod_level_resources()
        return
    told(facts, facts.knows_pod_level_resources, "a new node; tests/cluster/test_webhook_quota.py has older ones")


def test_a_missing_right_is_named_and_nothing_is_taken_for_complete(cluster: ControlPlane, namespace: str) -> None:
    without = [rule for rule in CLUSTER_RULES if "horizontalpodautoscalers" not in rule.get("resources", ())]
    api = webhook_api(cluster, namespace, everywhere=without, own=own_rules())
    with watching(api, namespace) as facts:

        def listed() -> set[str]:
            return {kind.name for kind in facts.statuses() if kind.is_listed}

        everything = {kind.name for kind in facts.statuses()}
        told(facts, lambda: listed() == everything - {"hpas"}, "all else is listed")
        told(facts, lambda: any("horizontalpodautoscalers" in (kind.trouble or "") for kind in facts.statuses()), "why")
        assert not facts.is_complete
        assert facts.age_seconds is None
