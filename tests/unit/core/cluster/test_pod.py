from __future__ import annotations

from typing import Any

import pytest

from agent.core.cluster.pod import (
    Container,
    ContainerKind,
    Requirements,
    Termination,
    is_pod_level_resource,
)
from tests.pods import container, make_pod, mirror_metadata, sidecar

HASH = "9d7115b42254d59b82440ebe8084927f"


def test_requirements_in_units_are_rounded_up_and_absent_is_none() -> None:
    stated = Requirements(requests={"cpu": 1, "memory": 1}, limits={})
    assert (stated.cpu_request_millicores, stated.memory_request_bytes) == (1, 1)
    assert (stated.cpu_limit_millicores, stated.memory_limit_bytes) == (None, None)


def test_pod_finds_containers_of_any_kind_and_statuses_by_name() -> None:
    pod = make_pod(
        container("app"),
        initContainers=[sidecar("proxy"), container("setup")],
        ephemeralContainers=[{"name": "debug"}],
        status={"containerStatuses": [{"name": "app"}], "initContainerStatuses": [{"name": "setup"}]},
    )
    assert [unit.name for unit in pod.sized_containers()] == ["proxy", "setup", "app"]
    assert pod.container("debug") == Container(name="debug", kind=ContainerKind.EPHEMERAL)
    assert pod.container("nobody") is None
    assert pod.status_of("setup") is not None
    assert pod.status_of("proxy") is None


VICTIM = "11111111-aaaa-4000-8000-000000000001"
MIRROR = mirror_metadata("node-1", HASH)
OWNER = MIRROR["ownerReferences"][0]


def test_cgroup_uid_of_a_static_pod_is_its_hash() -> None:
    pod = make_pod(container(), metadata=MIRROR, nodeName="node-1")
    assert (pod.is_static, pod.cgroup_uid) == (True, HASH)
    only_mirror = {**MIRROR, "annotations": {"kubernetes.io/config.mirror": HASH}}
    assert make_pod(container(), metadata=only_mirror, nodeName="node-1").cgroup_uid == HASH


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"annotations": MIRROR["annotations"]},
        {"ownerReferences": MIRROR["ownerReferences"]},
        *(
            {"annotations": {**MIRROR["annotations"], "kubernetes.io/config.hash": it}, "ownerReferences": [OWNER]}
            for it in (VICTIM, VICTIM.replace("-", "_"), HASH[:-1], f"{HASH}0", HASH.upper(), f"{HASH}\n", "..", "")
        ),
        *(
            {**MIRROR, "ownerReferences": [OWNER | it]}
            for it in ({"name": "node-2"}, {"kind": "StatefulSet"}, {"controller": False})
        ),
        {"annotations": {"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": HASH}},
        {"annotations": {"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "uid-web"}},
        {"annotations": {"kubernetes.io/config.source": "file"}},
    ],
)
def test_a_pod_that_only_says_it_is_static_has_the_cgroup_of_its_own_uid(metadata: dict[str, Any]) -> None:
    pod = make_pod(container(), metadata=metadata, nodeName="node-1")
    assert (pod.is_static, pod.cgroup_uid) == (False, "uid-web")


def test_a_mirror_that_is_bound_to_no_node_is_none() -> None:
    assert not make_pod(container(), metadata=MIRROR).is_static


@pytest.mark.parametrize(("source", "is_static"), [("file", True), ("http", True), ("api", False), (None, False)])
def test_the_kubelets_own_copy_of_a_static_pod_has_the_hash_for_its_uid(source: str | None, is_static: bool) -> None:
    annotations = {"kubernetes.io/config.hash": HASH, **({"kubernetes.io/config.source": source} if source else {})}
    pod = make_pod(container(), metadata={"uid": HASH, "annotations": annotations})
    assert (pod.is_static, pod.cgroup_uid) == (is_static, HASH)


@pytest.mark.parametrize(
    ("priority", "priority_class", "metadata", "is_critical"),
    [
        (2_000_001_000, "system-node-critical", {}, True),
        (2_000_000_000, "system-node-critical", {}, True),
        (1_999_999_999, "system-node-critical", {}, False),
        (None, "system-node-critical", {}, False),
        (None, "system-node-critical", MIRROR, True),
        (None, "system-node-critical", {"annotations": {"kubernetes.io/config.mirror": ""}}, True),
        (None, "system-node-critical", {"annotations": {"kubernetes.io/config.source": "http"}}, True),
        (None, "system-node-critical", {"annotations": {"kubernetes.io/config.source": "api"}}, False),
        (None, "system-cluster-critical", {"annotations": {"kubernetes.io/config.source": "http"}}, False),
        (2_000_000_000, "system-cluster-critical", {}, False),
    ],
)
def test_is_node_critical_needs_the_class_and_a_critical_pod(
    priority: int | None, priority_class: str, metadata: dict[str, Any], is_critical: bool
) -> None:
    pod = make_pod(
        container(), metadata=metadata, priority=priority, priorityClassName=priority_class, nodeName="node-1"
    )
    assert pod.is_node_critical is is_critical


@pytest.mark.parametrize(
    ("resources", "has_resources", "has_requests"),
    [
        (None, False, False),
        ({}, False, False),
        ({"requests": {"storage": "1Gi"}}, False, False),
        ({"limits": {"cpu": "1"}}, True, False),
        ({"requests": {"hugepages-2Mi": "2Mi"}}, True, True),
    ],
)
def test_pod_level_resources_are_set_by_supported_names_only(
    resources: object, has_resources: bool, has_requests: bool
) -> None:
    pod = make_pod(container(), resources=resources)
    assert (pod.has_pod_level_resources, pod.has_pod_level_requests) == (has_resources, has_requests)


def test_is_pod_level_resource_is_cpu_memory_and_huge_pages() -> None:
    names = ["cpu", "memory", "hugepages-1Gi", "ephemeral-storage"]
    assert [is_pod_level_resource(name) for name in names] == [True, True, True, False]


@pytest.mark.parametrize(
    ("conditions", "infeasible"),
    [
        ([], False),
        ([{"type": "Ready", "status": "True", "reason": "Infeasible"}], False),
        ([{"type": "PodResizePending", "status": "True", "reason": "Deferred"}], False),
        ([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}], True),
    ],
)
def test_is_resize_infeasible_reads_the_pending_condition(conditions: list[object], infeasible: bool) -> None:
    assert make_pod(container(), status={"conditions": conditions}).is_resize_infeasible is infeasible


def test_condition_finds_only_what_is_in_force() -> None:
    conditions = [{"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": "True"}]
    pod = make_pod(container(), status={"conditions": conditions})
    scheduled = pod.condition("PodScheduled")
    assert scheduled is not None
    assert scheduled.type == "PodScheduled"
    assert (pod.condition("Ready"), pod.condition("Odd")) == (None, None)


def test_termination_is_an_oom_kill_by_its_reason() -> None:
    assert Termination(exit_code=137, reason="OOMKilled").is_oom_kill
    assert not Termination(exit_code=137, reason="Error").is_oom_kill


def test_is_windows_goes_by_what_the_spec_says() -> None:
    assert make_pod(container(), os={"name": "windows"}).is_windows
    assert not make_pod(container()).is_windows
