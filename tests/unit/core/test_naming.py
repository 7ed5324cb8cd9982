from __future__ import annotations

from typing import Any

import pytest

from agent.core.model import QosClass, UnitIdentity, UnitKind, UnitResources
from agent.core.naming import Belonging, PodIndex, belonging, join, resources_of
from agent.core.pod import ContainerKind
from agent.core.recommendation import Workload
from agent.core.units import MIB
from tests.pods import container, make_pod, sidecar

APP, DEBUG, STATIC, PAUSE = "a" * 64, "d" * 64, "5" * 64, "0" * 64
HASH = "9d7115b42254d59b82440ebe8084927f"

WEB = make_pod(
    container("app", {"cpu": "250m"}, {"memory": "64Mi"}),
    container("slow"),
    ephemeralContainers=[{"name": "debug"}],
    status={
        "containerStatuses": [{"name": "app", "containerID": f"containerd://{APP}"}, {"name": "slow"}],
        "ephemeralContainerStatuses": [{"name": "debug", "containerID": f"containerd://{DEBUG}"}],
    },
)
MIRROR = make_pod(
    container("etcd"),
    metadata={
        "name": "etcd",
        "uid": "uid-mirror",
        "annotations": {"kubernetes.io/config.mirror": HASH, "kubernetes.io/config.hash": HASH},
    },
    status={"containerStatuses": [{"name": "etcd", "containerID": f"containerd://{STATIC}"}]},
)
INDEX = PodIndex([WEB, MIRROR])


def unit(kind: UnitKind = UnitKind.CONTAINER, **fields: Any) -> UnitIdentity:
    return UnitIdentity(cgroup_path="/kubepods/x", kind=kind, **fields)


def test_join_names_a_container_and_gives_what_its_spec_states() -> None:
    named, resources = join(unit(pod_uid="uid-web", container_id=APP, qos=QosClass.BURSTABLE), INDEX)
    assert (named.namespace, named.pod, named.container, named.kind) == ("shop", "web", "app", UnitKind.CONTAINER)
    assert resources == UnitResources(cpu_request_millicores=250, memory_limit_bytes=64 * MIB)


def test_join_finds_a_static_pod_by_its_hash() -> None:
    named, _ = join(unit(pod_uid=HASH, container_id=STATIC), INDEX)
    assert (named.pod, named.container, named.pod_uid) == ("etcd", "etcd", HASH)


def test_join_calls_a_container_that_no_status_names_the_sandbox() -> None:
    named, resources = join(unit(pod_uid="uid-web", container_id=PAUSE), INDEX)
    assert (named.pod, named.container, named.kind) == ("web", None, UnitKind.SANDBOX)
    assert resources == UnitResources()
    # Once its status is there, the next join takes that back.
    again, _ = join(unit(UnitKind.SANDBOX, pod_uid="uid-web", container_id=APP), INDEX)
    assert (again.container, again.kind) == ("app", UnitKind.CONTAINER)


def test_join_never_takes_a_container_from_another_pod() -> None:
    named, _ = join(unit(pod_uid="uid-web", container_id=STATIC), INDEX)
    assert (named.pod, named.container, named.kind) == ("web", None, UnitKind.SANDBOX)


def test_join_of_a_debug_container_has_a_name_and_no_resources() -> None:
    named, resources = join(unit(pod_uid="uid-web", container_id=DEBUG), INDEX)
    assert (named.container, resources) == ("debug", UnitResources())


def test_join_without_pod_uid_goes_by_the_container_and_fills_the_rest() -> None:
    named, _ = join(unit(container_id=APP), INDEX)
    assert (named.pod, named.pod_uid, named.qos) == ("web", "uid-web", QosClass.BURSTABLE)


@pytest.mark.parametrize(
    "identity",
    [
        unit(pod_uid="gone", container_id=APP),
        unit(pod_uid="gone", container_id=PAUSE),
        unit(container_id=PAUSE),
        unit(),
        unit(UnitKind.STANDALONE, container_id=APP),
        unit(UnitKind.SERVICE),
    ],
)
def test_join_leaves_what_the_source_does_not_know_as_it_came(identity: UnitIdentity) -> None:
    assert join(identity, INDEX) == (identity, UnitResources())


def test_index_finds_nothing_in_an_empty_source() -> None:
    assert PodIndex().pod("uid-web") is None
    assert PodIndex().container(APP) is None
    assert resources_of(WEB, "nobody") == UnitResources()


def test_belonging_tells_workload_neighbours_and_what_the_pod_asks_for() -> None:
    pod = make_pod(
        container("app"),
        container("helper"),
        initContainers=[container("setup"), sidecar("proxy")],
        metadata={
            "annotations": {"vpa-post-processor.kubernetes.io/app_integerCPU": "true"},
            "ownerReferences": [{"kind": "StatefulSet", "name": "db", "uid": "u", "controller": True}],
        },
    )
    index = PodIndex([pod])
    found = belonging(unit(pod_uid="uid-web", container="app"), index)
    # Two regular containers and the sidecar run side by side; the init container has ended.
    assert found == Belonging(
        workload=Workload(namespace="shop", kind="StatefulSet", name="db"),
        pod_containers=3,
        wants_whole_cores=True,
        container_kind=ContainerKind.REGULAR,
    )
    other = belonging(unit(pod_uid="uid-web", container="proxy"), index)
    assert (other.container_kind, other.wants_whole_cores) == (ContainerKind.SIDECAR, False)
    assert belonging(unit(pod_uid="uid-web", container="gone"), index).container_kind is None


@pytest.mark.parametrize(
    "identity",
    [unit(pod_uid="gone", container="app"), unit(pod_uid="uid-web"), unit(container="app"), unit(UnitKind.SERVICE)],
)
def test_belonging_of_what_no_pod_names_is_nothing(identity: UnitIdentity) -> None:
    assert belonging(identity, INDEX) == Belonging()
