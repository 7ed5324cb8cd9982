from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.effective_resources import CountingRule, container_requests, pod_limits, pod_requests
from agent.core.numbers.units import to_millis, to_units
from tests.pods import container, make_pod, sidecar

CPU_TEXT = st.integers(min_value=0, max_value=5000).map(lambda millis: f"{millis}m")
RESIZE = CountingRule(use_status=True)
POD_RESIZE = CountingRule(use_status=True, pod_level_resize=True)


def cpu_of(amounts: dict[str, int]) -> int:
    return to_millis(amounts["cpu"])


def resize_pending(reason: str) -> list[dict[str, str]]:
    return [{"type": "PodResizePending", "status": "True", "reason": reason}]


def test_requests_of_tiny_parts_are_summed_before_they_are_rounded() -> None:
    # 0.1 m twice is 0.2 m, which is 1 m rounded up; each rounded by itself would be 2 m.
    pod = make_pod(container("a", {"cpu": "100u"}), container("b", {"cpu": "100u"}))
    assert cpu_of(pod_requests(pod)) == 1


def test_an_init_stage_counts_with_the_sidecars_before_it_only() -> None:
    pod = make_pod(
        container("app", {"cpu": "100m"}),
        initContainers=[
            sidecar("first", {"cpu": "10m"}),
            container("setup", {"cpu": "150m"}),
            sidecar("second", {"cpu": "20m"}),
        ],
    )
    # running: 100 + 10 + 20 = 130; stage setup: 150 + 10 = 160
    assert cpu_of(pod_requests(pod)) == 160


def test_a_resource_nobody_names_is_absent_and_a_zero_is_zero() -> None:
    pod = make_pod(container("app", {"cpu": "0", "example.com/gpu": "2"}))
    requests = pod_requests(pod)
    assert requests["cpu"] == 0
    assert to_units(requests["example.com/gpu"]) == 2
    assert "memory" not in requests


def test_pod_level_overrides_each_supported_resource_and_overhead_comes_last() -> None:
    pod = make_pod(
        container("app", {"cpu": "2", "memory": "1Gi", "ephemeral-storage": "1Gi"}),
        resources={"requests": {"cpu": "1", "ephemeral-storage": "9Gi"}, "limits": {"memory": "2Gi", "cpu": "0"}},
        overhead={"cpu": "250m", "memory": "120Mi"},
    )
    requests, limits = pod_requests(pod), pod_limits(pod)
    assert cpu_of(requests) == 1250
    assert to_units(requests["memory"]) == (1024 + 120) * 2**20
    assert to_units(requests["ephemeral-storage"]) == 2**30
    # Overhead joins the limit that is there, not the one that is 0.
    assert limits["cpu"] == 0
    assert to_units(limits["memory"]) == (2048 + 120) * 2**20


def status_of(name: str, allocated: str | None = None, actual: str | None = None) -> dict[str, Any]:
    status: dict[str, Any] = {"name": name}
    if allocated is not None:
        status["allocatedResources"] = {"cpu": allocated}
    if actual is not None:
        status["resources"] = {"requests": {"cpu": actual}, "limits": {"cpu": actual}}
    return status


@pytest.mark.parametrize(
    ("statuses", "reason", "requests", "limits"),
    [
        ([], "Deferred", 1000, 2000),  # nothing reported: the spec
        ([], "Infeasible", None, None),  # ... which does not count when it can never be
        ([status_of("app", "3")], "Deferred", 3000, 2000),
        ([status_of("app", "500m")], "Infeasible", 500, None),
        ([status_of("app", "500m", "700m")], "Infeasible", 700, 700),
        ([status_of("app", "500m", "5")], "Deferred", 5000, 5000),
        ([{"name": "app", "resources": {}}], "Deferred", 1000, 2000),
    ],
)
def test_a_resize_under_way_counts_the_largest_of_desired_allocated_and_actual(
    statuses: list[object], reason: str, requests: int | None, limits: int | None
) -> None:
    pod = make_pod(
        container("app", {"cpu": "1"}, {"cpu": "2"}),
        status={"containerStatuses": statuses, "conditions": resize_pending(reason)},
    )
    found_requests, found_limits = pod_requests(pod, RESIZE).get("cpu"), pod_limits(pod, RESIZE).get("cpu")
    assert (None if found_requests is None else to_millis(found_requests)) == requests
    assert (None if found_limits is None else to_millis(found_limits)) == limits


def test_a_resize_under_way_takes_the_largest_sum_not_the_sum_of_the_largest() -> None:
    pod = make_pod(
        container("a", {"cpu": "1"}),
        container("b", {"cpu": "2"}),
        status={"containerStatuses": [status_of("a", "2"), status_of("b", "1")]},
    )
    assert cpu_of(pod_requests(pod, RESIZE)) == 3000


POD_STATUS = {
    "allocatedResources": {"cpu": "3"},
    "resources": {"requests": {"cpu": "3500m"}, "limits": {"cpu": "5"}},
}


@pytest.mark.parametrize(
    ("resources", "status", "requests", "limits"),
    [
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}, POD_STATUS, 3500, 5000),
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}, {"resources": {}}, 2000, 4000),
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}, {}, 2000, 4000),
        (
            {"requests": {"cpu": "9"}, "limits": {"cpu": "9"}},
            {**POD_STATUS, "conditions": resize_pending("Infeasible")},
            3500,
            5000,
        ),
        (None, POD_STATUS, 3500, 5000),
    ],
)
def test_a_pod_level_resize_counts_the_pods_own_status(
    resources: object, status: dict[str, object], requests: int, limits: int
) -> None:
    pod = make_pod(container("app", {"cpu": "1"}, {"cpu": "2"}), resources=resources, status=status)
    assert cpu_of(pod_requests(pod, POD_RESIZE)) == requests
    assert cpu_of(pod_limits(pod, POD_RESIZE)) == limits


CLAIM = {
    "containers": ["app", "aide"],
    "mapping": [{"name": "cpu", "quantity": "2"}, {"name": "memory"}, {"name": "hugepages-2Mi", "quantity": "4Mi"}],
    "overhead": [{"name": "cpu", "perPod": "100m", "perContainer": "10m"}],
}


@pytest.mark.parametrize("rule", [CountingRule(claims=True), CountingRule(claims=True, use_status=True)])
def test_claims_join_requests_and_only_declared_limits_but_always_huge_pages(rule: CountingRule) -> None:
    pod = make_pod(
        container("app", {"cpu": "1", "memory": "1Gi"}, {"memory": "1Gi"}),
        container("aide"),
        status={"nodeAllocatableResourceClaimStatuses": [CLAIM]},
    )
    # 1 + 2 + 0.1 for the pod + 0.01 for each of two containers
    assert cpu_of(pod_requests(pod, rule)) == 3120
    limits = pod_limits(pod, rule)
    assert "cpu" not in limits
    assert to_units(limits["hugepages-2Mi"]) == 4 * 2**20
    assert cpu_of(pod_requests(pod)) == 1000


def test_claims_join_a_declared_limit() -> None:
    pod = make_pod(container("app", limits={"cpu": "3"}), status={"nodeAllocatableResourceClaimStatuses": [CLAIM]})
    assert cpu_of(pod_limits(pod, CountingRule(claims=True))) == 5120


@given(st.lists(CPU_TEXT, min_size=1, max_size=4), st.lists(st.tuples(CPU_TEXT, st.booleans()), max_size=4))
def test_requests_are_at_least_those_of_every_container(regular: list[str], initial: list[tuple[str, bool]]) -> None:
    pod = make_pod(
        *(container(f"c{index}", {"cpu": cpu}) for index, cpu in enumerate(regular)),
        initContainers=[
            (sidecar if goes_on else container)(f"i{index}", {"cpu": cpu})
            for index, (cpu, goes_on) in enumerate(initial)
        ],
    )
    total = pod_requests(pod)["cpu"]
    everyone = [unit.resources.requests["cpu"] for unit in pod.sized_containers()]
    assert max(everyone) <= total <= sum(everyone)
    assert container_requests(pod)["cpu"] == total


NAMES = st.sampled_from(["cpu", "memory", "example.com/a", "example.com/b"])


@given(
    st.lists(st.dictionaries(NAMES, st.integers(0, 9)), min_size=1, max_size=3),
    st.lists(st.tuples(st.dictionaries(NAMES, st.integers(0, 9)), st.booleans()), max_size=6),
)
def test_a_stage_needs_what_its_container_and_the_sidecars_before_it_do(
    regular: list[dict[str, int]], initial: list[tuple[dict[str, int], bool]]
) -> None:
    """As it is written down in the source of component-helpers: each stage whole, and the largest of all."""

    def texts(amounts: dict[str, int]) -> dict[str, str]:
        return {name: str(amount) for name, amount in amounts.items()}

    pod = make_pod(
        *(container(f"c{index}", texts(amounts)) for index, amounts in enumerate(regular)),
        initContainers=[
            (sidecar if goes_on else container)(f"i{index}", texts(amounts))
            for index, (amounts, goes_on) in enumerate(initial)
        ],
    )
    lasting = [*regular, *(amounts for amounts, goes_on in initial if goes_on)]
    stages = [
        [amounts, *(before for before, goes_on in initial[:index] if goes_on)]
        for index, (amounts, _) in enumerate(initial)
    ]
    expected: dict[str, int] = {}
    for together in (lasting, *stages):
        for name in {name for amounts in together for name in amounts}:
            expected[name] = max(expected.get(name, 0), sum(amounts.get(name, 0) for amounts in together))
    assert container_requests(pod) == {name: amount * 10**9 for name, amount in expected.items()}
