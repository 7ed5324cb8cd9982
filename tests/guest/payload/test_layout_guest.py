"""Hierarchies as a kubelet makes them, with either driver, at the real root of the real hierarchy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent.core.cluster.pod import QosClass
from agent.core.cluster.unit import UnitKind
from agent.sensing.cgroup_path import Driver, Runtime, container_cgroup_path, pod_cgroup_path
from agent.sensing.discovery import Discovery, UnitScope
from tests.guest.kubelet_tree import MOUNT, make, remove
from tests.guest.waiting import wait_for
from tests.kubepods import kubepods_root_path

pytestmark = pytest.mark.guest

# A pod of each class: (class, UID, two container ids).
PODS = [
    (QosClass.GUARANTEED, "11111111-aaaa-4000-8000-000000000001", ("1a" * 32, "1b" * 32)),
    (QosClass.BURSTABLE, "22222222-bbbb-4000-8000-000000000002", ("2a" * 32, "2b" * 32)),
    (QosClass.BEST_EFFORT, "33333333-cccc-4000-8000-000000000003", ("3a" * 32, "3b" * 32)),
]


@pytest.fixture(params=list(Driver))
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    """A driver; what was made below its root is removed afterwards."""
    chosen = Driver(request.param)
    yield chosen
    remove(kubepods_root_path(driver=chosen))


def container(driver: Driver, qos: QosClass, pod_uid: str, container_id: str) -> str:
    return container_cgroup_path(
        driver=driver, runtime=Runtime.CONTAINERD, qos=qos, pod_uid=pod_uid, container_id=container_id
    )


def make_node(driver: Driver) -> set[tuple[str, QosClass, str, str]]:
    """Make all pods; returns (path, class, pod UID, container id) of every container."""
    containers = {
        (container(driver, qos, uid, container_id), qos, uid, container_id)
        for qos, uid, ids in PODS
        for container_id in ids
    }
    for path, *_ in containers:
        make(path)
    return containers


def test_discovery_finds_exactly_the_containers_of_every_class(driver: Driver) -> None:
    expected = make_node(driver)
    make(f"{pod_cgroup_path(driver=driver, qos=QosClass.BURSTABLE, pod_uid='no-container-yet')}")

    discovery = Discovery(MOUNT, scope=UnitScope.KUBERNETES)
    try:
        cgroups = discovery.relist("start").appeared
        pods = discovery.pod_paths()
    finally:
        discovery.close()

    identities = {(f.path, f.identity.qos, f.identity.pod_uid, f.identity.container_id) for f in cgroups}
    assert identities == expected
    assert {f.identity.kind for f in cgroups} == {UnitKind.CONTAINER}
    assert {f.inode for f in cgroups} == {(MOUNT / path.strip("/")).stat().st_ino for path, *_ in expected}
    assert discovery.driver == driver
    assert {uid: pod_cgroup_path(driver=driver, qos=qos, pod_uid=uid) for qos, uid, _ in PODS}.items() <= pods.items()


def test_container_made_and_removed_is_noticed_without_a_relist(driver: Driver) -> None:
    make_node(driver)
    qos, uid, _ = PODS[1]
    late = container(driver, qos, uid, "2c" * 32)
    seen: list[str] = []
    gone: list[str] = []

    discovery = Discovery(MOUNT, scope=UnitScope.KUBERNETES)

    def poll() -> None:
        changes = discovery.poll()
        seen.extend(cgroup.path for cgroup in changes.appeared)
        gone.extend(changes.vanished)

    def appeared() -> bool:
        poll()
        return seen == [late]

    def vanished() -> bool:
        poll()
        return gone == [late]

    try:
        discovery.relist("start")
        make(late)
        wait_for(appeared, "the new container")
        remove(late)
        wait_for(vanished, "its end")
    finally:
        discovery.close()
