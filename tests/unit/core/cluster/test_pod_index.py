from __future__ import annotations

from typing import Any

import pytest

from agent.core.cluster.pod import ContainerKind, Pod, QosClass, image_hash_of
from agent.core.cluster.pod_index import Belonging, PodIndex, belonging, cgroup_owners, join, resources_of
from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.cluster.workload import Workload
from agent.core.numbers.units import MIB
from tests.pods import container, make_pod, mirror_metadata, sidecar

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
    metadata={"name": "etcd", "uid": "uid-mirror", **mirror_metadata("node-1", HASH)},
    nodeName="node-1",
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


VICTIM_UID = "11111111-aaaa-4000-8000-000000000001"
VICTIM = make_pod(
    container("app"),
    metadata={"namespace": "bank", "name": "victim", "uid": VICTIM_UID},
    status={"containerStatuses": [{"name": "app", "containerID": f"containerd://{APP}"}]},
)


def tenants(config_hash: str, uid: str = "uid-evil", **metadata: Any) -> Pod:
    """Return a pod that says all that a mirror says; of such pods a kubelet reports nothing."""
    mirror = mirror_metadata("node-1", config_hash)
    return make_pod(
        container("app"),
        metadata={"namespace": "tenant", "name": "evil", "uid": uid, **mirror, **metadata},
        nodeName="node-1",
    )


@pytest.mark.parametrize("owners", [{}, {"ownerReferences": []}])
def test_a_pod_that_states_anothers_uid_for_its_hash_does_not_take_its_name(owners: dict[str, Any]) -> None:
    evil = tenants(VICTIM_UID, **owners)
    for pods in ([VICTIM, evil], [evil, VICTIM]):
        named, _ = join(unit(pod_uid=VICTIM_UID, container_id=APP), PodIndex(pods))
        assert (named.namespace, named.pod, named.container, named.kind) == (
            "bank",
            "victim",
            "app",
            UnitKind.CONTAINER,
        )


def test_a_uid_outranks_a_hash_of_the_same_form() -> None:
    kubelets = make_pod(container("app"), metadata={"uid": HASH, "name": "real"})
    evil = tenants(HASH)
    for pods in ([kubelets, evil], [evil, kubelets]):
        assert cgroup_owners(pods)[HASH] is kubelets


def test_a_mirror_of_which_the_kubelet_reports_containers_outranks_one_of_which_it_reports_none() -> None:
    first = "2026-01-01T00:00:00Z"
    evil = tenants(HASH, uid="a", creationTimestamp=first)
    for pods in ([MIRROR, evil], [evil, MIRROR]):
        assert cgroup_owners(pods)[HASH] is MIRROR
        assert cgroup_owners(pods)["a"] is evil
    # Neither is reported yet: the older one, so that nobody takes it over; the order in the source is no matter.
    later, undated = tenants(HASH, uid="b", creationTimestamp="2026-01-01T00:00:01Z"), tenants(HASH, uid="c")
    for pods in ([evil, later, undated], [undated, later, evil]):
        assert cgroup_owners(pods)[HASH] is evil


def test_a_mirror_of_a_node_of_another_uid_has_no_cgroup_by_its_hash() -> None:
    assert PodIndex([MIRROR], node_uid="uid-node").pod(HASH) is MIRROR
    made_anew = PodIndex([MIRROR], node_uid="uid-of-the-node-made-anew")
    assert made_anew.pod(HASH) is None
    assert made_anew.pod("uid-mirror") is MIRROR
    own_copy = make_pod(
        container("etcd"),
        metadata={
            "uid": HASH,
            "annotations": {"kubernetes.io/config.hash": HASH, "kubernetes.io/config.source": "file"},
        },
    )
    assert PodIndex([own_copy], node_uid="uid-node").pod(HASH) is own_copy


def test_join_calls_a_container_that_no_status_names_the_sandbox() -> None:
    named, resources = join(unit(pod_uid="uid-web", container_id=PAUSE), INDEX)
    assert (named.pod, named.container, named.kind) == ("web", None, UnitKind.SANDBOX)
    assert resources == UnitResources()
    # Once its status is there, the next join takes that back.
    again, _ = join(unit(UnitKind.SANDBOX, pod_uid="uid-web", container_id=APP), INDEX)
    assert (again.container, again.kind) == ("app", UnitKind.CONTAINER)


def test_join_names_a_container_that_was_replaced_before_a_status_named_it() -> None:
    def told(last: dict[str, Any]) -> tuple[UnitKind, str | None]:
        status = {"name": "app", "containerID": "containerd://new", "lastState": {"terminated": last}}
        pod = make_pod(container("app"), status={"containerStatuses": [status]})
        former = UnitIdentity(cgroup_path="/x", kind=UnitKind.SANDBOX, pod_uid=pod.uid, container_id="former")
        named, _ = join(former, PodIndex([pod]))
        return named.kind, named.container

    assert told({"exitCode": 1, "containerID": "containerd://former"}) == (UnitKind.CONTAINER, "app")
    assert told({"exitCode": 1}) == (UnitKind.SANDBOX, None)


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
        container("app") | {"image": "registry/app:1"},
        container("helper"),
        initContainers=[container("setup"), sidecar("proxy")],
        metadata={
            "creationTimestamp": "1970-01-01T00:01:00Z",
            "annotations": {"vpa-post-processor.kubernetes.io/app_integerCPU": "true"},
            "ownerReferences": [{"kind": "StatefulSet", "name": "db", "uid": "u", "controller": True}],
        },
    )
    index = PodIndex([pod])
    app = belonging(unit(pod_uid="uid-web", container="app"), index)
    # Two regular containers and the sidecar run side by side; the init container has ended.
    assert app == Belonging(
        workload=Workload(namespace="shop", kind="StatefulSet", name="db"),
        pod_containers=3,
        wants_whole_cores=True,
        container_kind=ContainerKind.REGULAR,
        image_hash=image_hash_of("registry/app:1"),
        pod_created_unix_seconds=60.0,
        container_place=2,
    )
    other = belonging(unit(pod_uid="uid-web", container="proxy"), index)
    assert (other.container_kind, other.wants_whole_cores, other.container_place) == (ContainerKind.SIDECAR, False, 1)
    gone = belonging(unit(pod_uid="uid-web", container="gone"), index)
    assert (gone.container_kind, gone.container_place) == (None, None)


@pytest.mark.parametrize(
    "identity",
    [unit(pod_uid="gone", container="app"), unit(pod_uid="uid-web"), unit(container="app"), unit(UnitKind.SERVICE)],
)
def test_belonging_of_what_no_pod_names_is_nothing(identity: UnitIdentity) -> None:
    assert belonging(identity, INDEX) == Belonging()
