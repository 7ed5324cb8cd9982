from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.pod import QosClass
from agent.core.cluster.qos import computed_qos_class, oom_score_adj, pod_qos_class
from tests.pods import container, make_pod, sidecar

SMALL = {"cpu": "100m", "memory": "100Mi"}
LARGE = {"cpu": "200m", "memory": "200Mi"}
NODE_BYTES = 1000 * 2**30

AMOUNTS = st.fixed_dictionaries(
    {}, optional={"cpu": st.sampled_from(["0", "1m", "1"]), "memory": st.sampled_from(["0", "1Mi", "1Gi"])}
)


@pytest.mark.parametrize(
    ("containers", "spec", "expected"),
    [
        ([container("a", SMALL, SMALL)], {}, QosClass.GUARANTEED),
        ([container("a")], {}, QosClass.BEST_EFFORT),
        ([container("a", {"cpu": "0"}, {"memory": "0"})], {}, QosClass.BEST_EFFORT),  # zero is absent
        ([container("a", {"ephemeral-storage": "1Gi"})], {}, QosClass.BEST_EFFORT),
        ([container("a", limits=SMALL)], {}, QosClass.BURSTABLE),  # the API server defaults requests, not the kubelet
        ([container("a"), container("b", SMALL, SMALL)], {}, QosClass.BURSTABLE),
        ([container("a", {"memory": "1Mi"}, {"memory": "1Mi"})], {}, QosClass.BURSTABLE),
        ([container("a", SMALL, SMALL)], {"initContainers": [container("i", SMALL, LARGE)]}, QosClass.BURSTABLE),
        ([container("a")], {"resources": {"requests": SMALL, "limits": SMALL}}, QosClass.GUARANTEED),
        ([container("a", SMALL, SMALL)], {"resources": {"requests": SMALL, "limits": LARGE}}, QosClass.BURSTABLE),
        ([container("a", SMALL, SMALL)], {"resources": {}}, QosClass.GUARANTEED),
        ([container("a", SMALL, SMALL)], {"resources": {"requests": {"hugepages-2Mi": "2Mi"}}}, QosClass.BEST_EFFORT),
        ([], {}, QosClass.BEST_EFFORT),
    ],
)
def test_computed_qos_class_follows_the_spec(
    containers: list[dict[str, Any]], spec: dict[str, Any], expected: QosClass
) -> None:
    assert computed_qos_class(make_pod(*containers, **spec)) is expected


def test_pod_qos_class_recorded_at_creation_wins() -> None:
    pod = make_pod(container("a"), status={"qosClass": "Guaranteed"})
    assert pod_qos_class(pod) is QosClass.GUARANTEED
    assert computed_qos_class(pod) is QosClass.BEST_EFFORT


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=3))
def test_computed_qos_class_is_guaranteed_only_if_every_container_is(resources: list[tuple[Any, Any]]) -> None:
    singles = [make_pod(container("a", requests, limits)) for requests, limits in resources]
    pod = make_pod(*(container(f"c{index}", *amounts) for index, amounts in enumerate(resources)))
    classes = {computed_qos_class(single) for single in singles}
    expected = classes.pop() if len(classes) == 1 else QosClass.BURSTABLE
    assert computed_qos_class(pod) is expected


def score(pod_containers: list[dict[str, Any]], name: str, claims: bool = False, **spec: Any) -> int:
    pod = make_pod(*pod_containers, **spec)
    named = pod.container(name)
    assert named is not None
    return oom_score_adj(pod, named, NODE_BYTES, claims=claims)


def test_oom_score_adj_of_guaranteed_best_effort_and_critical_is_fixed() -> None:
    assert score([container("a", SMALL, SMALL)], "a") == -997
    assert score([container("a")], "a") == 1000
    critical: dict[str, Any] = {"priority": 2_000_001_000, "priorityClassName": "system-node-critical"}
    assert score([container("a")], "a", **critical) == -997


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ("100Gi", 900),  # a tenth of the node
        ("1Mi", 999),  # 1000 is BestEffort's
        ("999Gi", 3),  # 1 would be below Guaranteed with all of its memory in use
        ("2000Gi", 3),
    ],
)
def test_oom_score_adj_of_burstable_falls_with_its_share_of_the_node(memory: str, expected: int) -> None:
    assert score([container("a", {"memory": memory})], "a") == expected


def test_oom_score_adj_shares_a_pod_level_request_evenly() -> None:
    # 180Gi for three bare containers of a 1000Gi node: 60 each (KEP-2837).
    bare = [container(name) for name in "abc"]
    assert score(bare, "b", resources={"requests": {"memory": "180Gi"}}) == 940
    # 100Gi asked for inside already; the other 80Gi for two containers.
    mixed = [container("a", {"memory": "100Gi"}), container("b")]
    resources = {"requests": {"memory": "180Gi"}}
    assert score(mixed, "a", resources=resources) == 1000 - 140
    assert score(mixed, "b", resources=resources) == 1000 - 40


def test_oom_score_adj_of_a_sidecar_is_never_above_the_smallest_regular_container() -> None:
    regular = [container("a", {"memory": "100Gi"}), container("b", {"memory": "200Gi"})]
    assert score(regular, "s", initContainers=[sidecar("s", {"memory": "1Gi"})]) == 900
    assert score(regular, "s", initContainers=[sidecar("s", {"memory": "300Gi"})]) == 700
    assert score(regular, "i", initContainers=[container("i", {"memory": "1Gi"})]) == 999


def test_oom_score_adj_counts_a_containers_part_of_its_claims() -> None:
    claims = [
        {
            "containers": ["a", "b"],
            "mapping": [{"name": "memory", "quantity": "100Gi"}, {"name": "cpu", "quantity": "1"}],
            "overhead": [
                {"name": "memory", "perPod": "20Gi", "perContainer": "40Gi"},
                {"name": "cpu", "perPod": "1"},
            ],
        },
        {"containers": ["b"], "mapping": [{"name": "memory", "quantity": "1Gi"}]},
    ]
    status = {"nodeAllocatableResourceClaimStatuses": claims}
    containers = [container("a", {"cpu": "1"}), container("b")]
    # 100 / 2 + 20 / 2 + 40 = 100
    assert score(containers, "a", claims=True, status=status) == 900
    assert score(containers, "a", status=status) == 999
