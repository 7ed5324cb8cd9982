"""What of pods, nodes and budgets is read for cost and fit; and that nothing odd makes a pod unknown."""

from __future__ import annotations

from typing import Any

import pytest

from agent.core.cluster.node import Taint
from agent.core.cluster.placement import (
    NodeAntiAffinity,
    Operator,
    PodPlacement,
    Requirement,
    Selector,
    Toleration,
    WideAntiAffinity,
)
from agent.kube.objects.cluster_json import node_facts_from_json, pod_place_from_json
from agent.kube.objects.json_reader import ConvertError
from agent.kube.objects.placement_json import disruption_budget_from_json

MIB = 1 << 20


def pod(metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    owner = {"kind": "ReplicaSet", "name": "web-5d4", "uid": "r", "controller": True}
    known = {"name": "web-1", "namespace": "shop", "uid": "u", "ownerReferences": [owner], **(metadata or {})}
    return {"metadata": known, "spec": spec, "status": {"phase": "Running"}}


def container(cpu: str, memory: str, **more: Any) -> dict[str, Any]:
    return {"name": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


def placed(document: dict[str, Any]) -> PodPlacement:
    placement = pod_place_from_json(document).placement
    assert placement is not None
    return placement


def test_a_pod_requests_containers_and_sidecars_and_its_largest_stage() -> None:
    document = pod(
        containers=[container("100m", "64Mi"), container("50.5m", "1")],
        initContainers=[
            container("10m", "8Mi", name="mesh", restartPolicy="Always"),
            container("300m", "16Mi", name="setup"),
        ],
        overhead={"cpu": "5m", "memory": "1Mi"},
    )
    place = pod_place_from_json(document)
    # 100 + 51 (rounded up) + 10; before that 10 + 300
    assert place.cpu_request_millicores == 161
    assert place.memory_request_bytes == 72 * MIB + 1
    assert place.placement is not None
    assert place.placement.cpu_millicores(161) == 315
    assert place.placement.memory_bytes(place.memory_request_bytes) == 73 * MIB + 1


def test_a_pods_own_requests_stand_for_all() -> None:
    own = {"requests": {"cpu": "1", "memory": "1Gi"}}
    place = pod_place_from_json(pod(containers=[container("100m", "64Mi")], resources=own))
    assert (place.cpu_request_millicores, place.memory_request_bytes) == (1000, 1 << 30)
    assert place.placement is not None
    assert not place.placement.is_written_known
    original = {"plimsoll.dev/original-resources": '{"containers":{"app":{"requests":{"cpu":"2"},"limits":{}}}}'}
    given = placed(pod({"annotations": original}, containers=[container("100m", "64Mi")], resources=own))
    assert given.is_written_known


def test_what_decides_where_a_pod_runs_is_read() -> None:
    terms = [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}, {"key": "x", "operator": "Exists"}]}
    ]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    placement = placed(
        pod(
            {"labels": {"app": "web", "pod-template-hash": "5d4"}},
            containers=[container("1", "1Mi", ports=[{"containerPort": 80, "hostPort": 80}, {"containerPort": 81}])],
            initContainers=[{"name": "gpu", "resources": {"requests": {"nvidia.com/gpu": "1"}}}],
            nodeSelector={"pool": "blue"},
            tolerations=[
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
                {"key": "k", "value": "v", "effect": "NoSchedule"},
                {"operator": "Exists"},
            ],
            affinity={
                "nodeAffinity": {required: {"nodeSelectorTerms": [*terms, {}]}},
                "podAntiAffinity": {required: [apart, {"topologyKey": "kubernetes.io/hostname"}]},
            },
            volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}],
        )
    )
    assert placement == PodPlacement(
        labels=(("app", "web"),),
        node_selector=(("pool", "blue"),),
        node_terms=(
            (
                Requirement(key="disk", operator=Operator.IN, values=("ssd",)),
                Requirement(key="x", operator=Operator.EXISTS),
            ),
        ),
        tolerations=(Toleration(key="k", value="v", effect="NoSchedule"), Toleration(is_any_value=True)),
        apart_from=(NodeAntiAffinity(selector=_WEB),),
        host_ports=(80,),
        other_requests=(("nvidia.com/gpu", 10**9),),
        stays_in_zone=True,
    )


def test_what_sidecars_request_besides_cpu_and_memory_is_added_to_what_runs_beside_them() -> None:
    def asking(gibibytes: int, **more: Any) -> dict[str, Any]:
        return {"name": "c", "resources": {"requests": {"ephemeral-storage": f"{gibibytes}Gi"}}, **more}

    gib = 2**30 * 10**9
    sidecar = asking(3, restartPolicy="Always")
    for init, total in (([sidecar], 13), ([asking(11), sidecar], 13), ([sidecar, asking(11)], 14), ([asking(11)], 11)):
        placement = placed(pod(containers=[asking(10)], initContainers=init))
        assert placement.other_requests == (("ephemeral-storage", total * gib),)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_HOST = "kubernetes.io/hostname"
_WEB = Selector(requirements=(Requirement(key="app", operator=Operator.IN, values=("web",)),))


@pytest.mark.parametrize(
    ("metadata", "spec", "said"),
    [
        ({"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, {}, "(annotation karpenter.sh/do-not-disrupt)"),
        (
            {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
            {},
            "(annotation cluster-autoscaler.kubernetes.io/safe-to-evict)",
        ),
        ({}, {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, "must be spread"),
        ({}, {"resourceClaims": [{"name": "gpu"}]}, "claims devices"),
        ({}, {"schedulerName": "volcano"}, "is placed by scheduler volcano"),
        ({}, {"affinity": {"podAffinity": {_REQUIRED: [{"topologyKey": _HOST}]}}}, "must be near other pods"),
        ({}, {"affinity": {"podAntiAffinity": {_REQUIRED: [{"topologyKey": "zone"}]}}}, "by more than the node"),
        (
            {},
            {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchFields": [{}]}]}}}},
            "asks for a node by its name",
        ),
        ({}, {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{}]}}}}, "that there cannot be"),
        ({}, {"tolerations": 7}, "is not understood: spec.tolerations: 7 is not allowed (a list)"),
        (
            {},
            {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "x"}]}]}}}},
            "is not understood",
        ),
    ],
)
def test_what_is_not_worked_out_is_said(metadata: dict[str, Any], spec: dict[str, Any], said: str) -> None:
    assert said in placed(pod(metadata, containers=[container("1", "1Mi")], **spec)).held_for


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"podAffinity": {_REQUIRED: [{"topologyKey": _HOST}]}}, "must be near other pods"),
        ({"podAntiAffinity": {_REQUIRED: [{"topologyKey": "zone"}]}}, "by more than the node"),
    ],
)
def test_pods_that_it_must_be_apart_from_are_known_beside_what_is_not_worked_out(
    more: dict[str, Any], said: str
) -> None:
    term = {"topologyKey": _HOST, "labelSelector": {"matchLabels": {"app": "web"}}}
    terms = more.get("podAntiAffinity", {}).get(_REQUIRED, [])
    affinity = more | {"podAntiAffinity": {_REQUIRED: [*terms, term]}}
    placement = placed(pod(containers=[container("1", "1Mi")], affinity=affinity))

    assert said in placement.held_for
    assert placement.apart_from == (NodeAntiAffinity(selector=_WEB),)


@pytest.mark.parametrize(
    ("more", "is_of_namespace"),
    [
        ({"topologyKey": "zone"}, True),
        ({"topologyKey": "zone", "namespaceSelector": {}}, False),
        ({"topologyKey": _HOST, "namespaces": ["bank"], "mismatchLabelKeys": ["app"]}, False),
        ({"topologyKey": _HOST, "matchLabelKeys": ["app"]}, True),
    ],
)
def test_a_wider_term_is_read_beside_those_by_node(more: dict[str, Any], is_of_namespace: bool) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, **more}
    placement = placed(pod(affinity={"podAntiAffinity": {_REQUIRED: [term]}}))

    assert placement.apart_from == ()
    assert placement.widely_apart_from == (WideAntiAffinity(selector=_WEB, is_of_namespace=is_of_namespace),)


@pytest.mark.parametrize(
    ("more", "term"),
    [
        ({"namespaces": [], "namespaceSelector": None}, NodeAntiAffinity(selector=_WEB)),
        ({"namespaces": ["bank", "shop"]}, NodeAntiAffinity(selector=_WEB, namespaces=("bank", "shop"))),
        ({"namespaceSelector": {}}, NodeAntiAffinity(selector=_WEB, namespace_selector=Selector())),
        (
            {"namespaces": ["bank"], "namespaceSelector": {"matchLabels": {"app": "web"}}},
            NodeAntiAffinity(selector=_WEB, namespaces=("bank",), namespace_selector=_WEB),
        ),
    ],
)
def test_of_a_term_by_node_it_is_read_which_namespaces_it_means(more: dict[str, Any], term: NodeAntiAffinity) -> None:
    stated = {"topologyKey": _HOST, "labelSelector": {"matchLabels": {"app": "web"}}, **more}
    placement = placed(pod(affinity={"podAntiAffinity": {_REQUIRED: [stated]}}))

    assert placement == PodPlacement(apart_from=(term,))


def test_a_pods_own_huge_pages_stand_for_all_and_nothing_else_does() -> None:
    requests = {"cpu": "1", "hugepages-2Mi": "16Mi", "ephemeral-storage": "3Gi"}
    stated = {"name": "c", "resources": {"requests": {"hugepages-1Gi": "1Gi", "hugepages-2Mi": "2Mi"}}}
    for containers in ([{"name": "c"}], [stated]):
        others = dict(placed(pod(containers=containers, resources={"requests": requests})).other_requests)
        assert others.pop("hugepages-2Mi") == 16 * MIB * 10**9
        assert others == ({} if containers[0] is not stated else {"hugepages-1Gi": 2**30 * 10**9})


def test_pods_of_a_node_go_with_it_and_pods_of_nobody_are_known() -> None:
    daemon = {"kind": "DaemonSet", "name": "agent", "uid": "d", "controller": True}
    assert placed(pod({"ownerReferences": [daemon]}, schedulerName="x")).is_of_node
    assert placed(pod({"ownerReferences": [daemon]}, schedulerName="x")).held_for == ""
    static = {"kind": "Node", "name": "n", "uid": "n", "controller": True}
    assert placed(pod({"ownerReferences": [static]})).is_of_node
    assert not placed(pod({"ownerReferences": []})).has_controller


def test_a_nodes_placement_is_read() -> None:
    document = {
        "metadata": {"name": "n", "labels": {"zone": "a"}},
        "spec": {
            "providerID": "aws:///a/i-1",
            "taints": [{"key": "k", "effect": "NoSchedule"}, {"key": "soft", "effect": "PreferNoSchedule"}],
        },
        "status": {
            "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"},
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
        },
    }
    placement = node_facts_from_json(document).placement
    assert (placement.labels, placement.provider_id, placement.takes_pods) == ((("zone", "a"),), "aws:///a/i-1", True)
    assert (placement.taints, placement.other_allocatable) == (
        (Taint(key="k", effect="NoSchedule"),),
        (("pods", 10 * 10**9),),
    )
    cordoned = {**document, "spec": {"unschedulable": True}}
    assert not node_facts_from_json(cordoned).placement.takes_pods
    assert not node_facts_from_json({"metadata": {"name": "n"}}).placement.takes_pods


def test_a_budget_whose_status_is_behind_allows_nothing() -> None:
    def budget(generation: int, **spec: Any) -> dict[str, Any]:
        return {
            "metadata": {"name": "web", "namespace": "shop", "generation": generation},
            "spec": spec,
            "status": {"observedGeneration": 2, "disruptionsAllowed": 1},
        }

    pdb = disruption_budget_from_json(budget(2, selector={"matchLabels": {"app": "web"}}))
    assert (pdb.namespace, pdb.name, pdb.allows) == ("shop", "web", 1)
    assert pdb.selector == Selector(requirements=(Requirement(key="app", operator=Operator.IN, values=("web",)),))
    assert disruption_budget_from_json(budget(3)).allows == 0
    assert disruption_budget_from_json(budget(3)).selector is None
    with pytest.raises(ConvertError, match=r"metadata\.name: missing"):
        disruption_budget_from_json({})
