from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.pod import ContainerKind, PodRef
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.numbers.quantity import parse_quantity
from agent.core.plan.plan import Phase, PlanStep
from agent.core.plan.pod_change import Change, Setting
from agent.core.resize.patch import patch_of, quantity_text
from tests.pods import container, make_pod, sidecar

MI = 1 << 20
CPU, MEMORY = Resource.CPU, Resource.MEMORY
REQUEST, LIMIT = Setting.REQUEST, Setting.LIMIT


def change(
    resource: Resource,
    after: int,
    name: str = "app",
    kind: ContainerKind | None = ContainerKind.REGULAR,
    setting: Setting = REQUEST,
) -> Change:
    return Change(container=name, kind=kind, resource=resource, setting=setting, before=1, after=after)


def step(*changes: Change) -> PlanStep:
    return PlanStep(
        ref=PodRef(namespace="shop", name="web", uid="uid-web"),
        workload=Workload(namespace="shop", kind="Deployment", name="web"),
        phase=Phase.GROW,
        changes=changes,
        reason="a test",
    )


def test_patch_holds_requests_and_limits_by_container_and_the_uid() -> None:
    body = patch_of(
        step(
            change(CPU, 250),
            change(MEMORY, 96 * MI),
            change(CPU, 1000, setting=LIMIT),
            change(MEMORY, 128 * MI, setting=LIMIT),
        )
    )
    assert body == {
        "metadata": {"uid": "uid-web"},
        "spec": {
            "containers": [
                {
                    "name": "app",
                    "resources": {
                        "requests": {"cpu": "250m", "memory": "100663296"},  # 96 x 1,048,576
                        "limits": {"cpu": "1000m", "memory": "134217728"},
                    },
                }
            ]
        },
    }


def test_patch_holds_the_resource_version_that_is_asked_for() -> None:
    assert patch_of(step(change(CPU, 1)), "77")["metadata"] == {"uid": "uid-web", "resourceVersion": "77"}


def test_patch_puts_sidecars_and_init_containers_in_their_list_and_the_budget_on_the_pod() -> None:
    body = patch_of(
        step(
            change(CPU, 10, "proxy", ContainerKind.SIDECAR),
            change(CPU, 20, "setup", ContainerKind.INIT),
            change(CPU, 300, "", None),
            change(MEMORY, 5, "", None, LIMIT),
        )
    )
    assert body["spec"] == {
        "initContainers": [
            {"name": "proxy", "resources": {"requests": {"cpu": "10m"}}},
            {"name": "setup", "resources": {"requests": {"cpu": "20m"}}},
        ],
        "resources": {"requests": {"cpu": "300m"}, "limits": {"memory": "5"}},
    }


def test_patch_names_containers_in_the_order_of_the_pods_spec() -> None:
    # The server refuses any other: a strategic merge would reorder the list.
    pod = make_pod(container("a"), container("b"), container("c"), initContainers=[sidecar("y"), sidecar("x")])
    changes = (
        change(CPU, 1, "c"),
        change(CPU, 1, "x", ContainerKind.SIDECAR),
        change(CPU, 1, "unknown"),
        change(CPU, 1, "a"),
        change(CPU, 1, "y", ContainerKind.SIDECAR),
        change(MEMORY, 1, "c"),
    )
    body = patch_of(step(*changes), pod=pod)
    assert [entry["name"] for entry in body["spec"]["containers"]] == ["a", "c", "unknown"]
    assert [entry["name"] for entry in body["spec"]["initContainers"]] == ["y", "x"]
    unordered = patch_of(step(*changes))
    assert [entry["name"] for entry in unordered["spec"]["containers"]] == ["c", "unknown", "a"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ((), "changes nothing"),
        ((change(CPU, 1), change(CPU, 2)), "sets the cpu request of 'app' twice"),
        ((change(CPU, 1, "", None), change(CPU, 2, "", None)), "sets the cpu request of '' twice"),
        ((change(CPU, 1, "debug", ContainerKind.EPHEMERAL),), "container 'debug' of kind ephemeral"),
        ((change(CPU, 1, ""),), "container '' of kind regular"),
    ],
)
def test_step_that_is_no_patch_is_an_error_that_names_the_pod(changes: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ValueError, match=f"step of shop/web .*{words}|step of shop/web {words}"):
        patch_of(step(*changes))


@given(st.sampled_from(Resource), st.integers(min_value=0, max_value=2**62))
def test_quantity_text_is_read_back_as_the_same_amount(resource: Resource, amount: int) -> None:
    nanos = amount * (10**6 if resource is CPU else 10**9)
    assert parse_quantity(quantity_text(resource, amount)) == nanos
