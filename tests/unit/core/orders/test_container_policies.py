from __future__ import annotations

import json
from typing import Any

import pytest

from agent.core.cluster.resource import Resource
from agent.core.orders.container_policies import (
    LONGEST_POLICIES,
    MOST_POLICIES,
    NO_POLICY,
    ContainerPoliciesError,
    ContainerPolicy,
    container_policies_of,
    container_policies_text,
    parse_container_policies,
)
from agent.core.orders.order import OrderSource
from tests.planning import orders

FULL = {
    "containerName": "app",
    "mode": "Auto",
    "minAllowed": {"cpu": "100m", "memory": "64Mi"},
    "maxAllowed": {"cpu": "2", "memory": "1Gi"},
    "controlledResources": ["memory"],
    "controlledValues": "RequestsOnly",
    "oomBumpUpRatio": 1.5,
    "oomMinBumpUp": "100Mi",
}


def test_a_policy_is_read_with_its_units_and_written_back() -> None:
    policies = parse_container_policies(json.dumps([FULL, {"containerName": "*", "mode": "Off"}]))
    app = policies.of("app")
    assert app == ContainerPolicy(
        container="app",
        min_cpu_millicores=100,
        max_cpu_millicores=2000,
        min_memory_bytes=64 << 20,
        max_memory_bytes=1 << 30,
        resources=(Resource.MEMORY,),
        are_limits_kept=True,
        oom_bump_up_ratio=1.5,
        oom_min_bump_up_bytes=100 << 20,
    )
    assert (app.sizes(Resource.CPU), app.sizes(Resource.MEMORY)) == (False, True)
    assert (app.edges(Resource.CPU), app.edges(Resource.MEMORY)) == ((100, 2000), (64 << 20, 1 << 30))
    assert policies.of("proxy").is_off
    assert not policies.of("proxy").sizes(Resource.MEMORY)
    assert parse_container_policies(container_policies_text(policies)) == policies


def test_without_a_policy_of_all_others_nothing_is_said_of_them() -> None:
    assert parse_container_policies('[{"containerName": "app"}]').of("proxy") is NO_POLICY
    # VPA counts a bound of 0 as none; a policy without a name is that of all others.
    assert parse_container_policies('[{"minAllowed": {"cpu": 0}}]').of("any") == NO_POLICY


def test_after_a_kill_the_larger_of_ratio_and_least_counts() -> None:
    both = ContainerPolicy(oom_bump_up_ratio=1.2, oom_min_bump_up_bytes=100)
    assert (both.after_kill_bytes(1000), both.after_kill_bytes(100)) == (1200, 200)
    assert ContainerPolicy().after_kill_bytes(700) == 700


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "no list"),
        (["app"], r"\[0\]: 'app' is no object"),
        ([{}] * (MOST_POLICIES + 1), "of at most 200"),
        ([{"containerName": "a"}, {"containerName": "a"}], "container 'a' is there twice"),
        ([{"containerName": "a" * 5000}] * 2, "^container 'a{60}' is there twice$"),
        ([{"containerName": 5}], r"\[0\].containerName: '5' is no text"),
        ([{"min": 1}], "'min' is not known"),
        ([{"mode": "off"}], r"\[0\].mode: 'off' is not allowed \(Auto, Off\)"),
        ([{"controlledValues": "Limits"}], "RequestsAndLimits, RequestsOnly"),
        ([{"controlledResources": "cpu"}], "controlledResources: no list"),
        ([{"controlledResources": ["gpu"]}], "'gpu' is not allowed"),
        ([{"controlledResources": ["cpu", ["cpu"]]}], r"Resources: \"\['cpu'\]\" is not allowed \(cpu, memory\)"),
        ([{"controlledResources": [{}]}], r"controlledResources: '{}' is not allowed"),
        ([{"controlledResources": [None]}], "controlledResources: 'None' is not allowed"),
        ([{"minAllowed": {"gpu": "1"}}], "'gpu' is not allowed"),
        ([{"minAllowed": {None: "1"}}], r"minAllowed: 'None' is not allowed \(cpu, memory\)"),
        ([{"minAllowed": {"cpu": "much"}}], "minAllowed.cpu: 'much' is no quantity"),
        ([{"minAllowed": {"cpu": True}}], "no quantity"),
        ([{"minAllowed": {"cpu": "-1"}}], "out of range"),
        ([{"maxAllowed": {"memory": "512m"}}], "maxAllowed.memory: less than 1Mi"),
        ([{"oomBumpUpRatio": "0.5"}], r"oomBumpUpRatio: 0.5 is not allowed \(1 to 100\)"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(document: Any, words: str) -> None:
    with pytest.raises(ContainerPoliciesError, match=words):
        container_policies_of(document)


@pytest.mark.parametrize("text", ["", "[", "[" * 3000, " " * (LONGEST_POLICIES + 1)])
def test_text_that_is_no_json_or_too_long_is_refused(text: str) -> None:
    with pytest.raises(ContainerPoliciesError, match=r"not JSON|characters"):
        parse_container_policies(text)


def test_an_annotation_of_the_pod_wins_over_an_object_and_an_annotation_for_one_container_over_both() -> None:
    policies = parse_container_policies('[{"containerName": "app", "minAllowed": {"cpu": "1", "memory": "1Gi"}}]')
    by_object = orders(
        container_policies=policies, container_policies_source=OrderSource.AUTOSCALER, min_cpu_millicores=200
    )
    assert by_object.bounds_of("app", Resource.CPU) == (200, None)
    assert by_object.bounds_of("app", Resource.MEMORY) == (1 << 30, None)
    assert by_object.bounds_of("proxy", Resource.CPU) == (200, None)
    by_pod = orders(
        container_policies=policies,
        container_policies_source=OrderSource.POD,
        min_cpu_millicores=200,
        max_memory_bytes=2 << 30,
    )
    assert by_pod.bounds_of("app", Resource.CPU) == (1000, None)
    assert by_pod.bounds_of("app", Resource.MEMORY) == (1 << 30, 2 << 30)
    assert orders(max_cpu_millicores=5).bounds_of("app", Resource.CPU) == (None, 5)
