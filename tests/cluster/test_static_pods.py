"""Who is static, on a real API server: what its rules let anybody say of a pod, and what only a node's kubelet can.

The server runs with the admission plugin NodeRestriction, as every cluster that kubeadm or a cloud makes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from agent.core.cluster.pod import Pod, QosClass
from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.core.orders.annotations import POD_LIMITS
from agent.core.orders.plan_options import PodLimitsOptions
from agent.kube.client.api import HttpApi
from agent.kube.client.credentials import Credentials
from agent.kube.watch.reflector import WatchPace
from agent.node.cluster.view import ClusterView
from agent.node.keepers.cgroup_limits import CgroupLimits
from agent.node.keepers.keeper import KeeperTerms
from agent.node.keepers.pod_limits import PodLimitsWriter
from agent.sensing.cgroup_path import Driver
from tests.cluster import fence, objects
from tests.cluster.api import Api, ApiError, Json
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import create_namespace, fresh_name, is_allowed, node_bound_token, remove_namespace
from tests.cluster.processes import wait_for
from tests.kubelet_files import KubeletFiles
from tests.pods import CONFIG_HASH

pytestmark = pytest.mark.cluster

QUICK = WatchPace(start_spread_seconds=0.0, first_wait_seconds=0.05, longest_wait_seconds=0.3)
GRAB = '{"limits": {"cpu": "1m", "memory": "126Mi"}}'
FORBIDDEN = 403


@dataclass
class Scene:
    """A node with a victim in one namespace, and a tenant who may edit all in another."""

    cluster: ControlPlane
    node: Json
    namespace: str
    tenants: str
    tenant: Api
    victim: Json
    view: ClusterView

    @property
    def owner(self) -> Json:
        metadata = self.node["metadata"]
        return {"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"]} | {
            "controller": True
        }

    def says_static(
        self, config_hash: str, *, owner: Json | None = None, mirror: bool = True, grabs: bool = False
    ) -> Json:
        annotations = {"kubernetes.io/config.hash": config_hash, "kubernetes.io/config.source": "file"}
        if grabs:
            annotations |= {"plimsoll.dev/mode": "enforce", POD_LIMITS: GRAB}
        if mirror:
            annotations["kubernetes.io/config.mirror"] = config_hash
        name = self.node["metadata"]["name"]
        app = objects.container(requests={"cpu": "1m", "memory": "64Mi"})
        manifest = objects.pod(
            fresh_name("pod"), name, app, annotations=annotations, automountServiceAccountToken=False
        )
        if owner is not None:
            manifest["metadata"]["ownerReferences"] = [owner]
        return manifest

    def make(self, api: Api, manifest: Json, namespace: str) -> Json:
        document: Json = api.create(objects.pod_path(namespace), manifest)
        return document

    def report(self, pod: Json) -> None:
        """Report the pod's containers, as the kubelet does of what it runs."""
        kubelet = self.cluster.api_of_node(self.node["metadata"]["name"])
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]

        def reported() -> bool:
            # The Node authorizer learns of a pod's node a moment after the pod is there.
            try:
                objects.write_pod_status(kubelet, namespace, name, objects.running_status(pod), pod=pod)
            except ApiError as error:
                if error.status != FORBIDDEN:
                    raise
                return False
            return True

        wait_for(reported, "the kubelet reports")

    def seen(self, document: Json, *, running: bool = False) -> Pod:
        pods: list[Pod] = []

        def is_seen() -> bool:
            pods[:] = [pod for pod in self.view.state().pods if pod.uid == document["metadata"]["uid"]]
            return bool(pods) and (not running or any(status.container_id for status in pods[0].statuses))

        wait_for(is_seen, "the agent sees the pod")
        return pods[0]

    def named(self, uid: str, container_of: Json) -> UnitIdentity:
        """Name a container's cgroup as the agent does: by the id of the pod in its path, and its own."""
        bare = objects.container_id(container_of["metadata"]["uid"], "app").removeprefix("containerd://")
        path = f"/kubepods/burstable/pod{uid}/{bare}"
        return self.view.name(UnitIdentity(cgroup_path=path, kind=UnitKind.CONTAINER, pod_uid=uid, container_id=bare))[
            0
        ]


@pytest.fixture
def scene(fenced: ControlPlane, namespace: str, node_name: str) -> Iterator[Scene]:
    node = objects.create_node(fenced.admin, node_name, kubelet_version="v1.33.4")
    tenants = fresh_name("tenant")
    create_namespace(fenced, tenants)
    fenced.admin.create(
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{tenants}/rolebindings",
        {
            "metadata": {"name": "tenant"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": tenants}],
        },
    )
    victim = fenced.admin.create(objects.pod_path(namespace), objects.pod("victim", node_name))
    token = node_bound_token(fenced, fence.NAMESPACE, fence.ACCOUNT, node_name)
    api = HttpApi(
        Credentials(server=fenced.url, origin="tests", ca_file=fenced.authority, token=token), timeout_seconds=5.0
    )
    view = ClusterView(api, node_name, pace=QUICK)
    view.start()
    tenant_scene = Scene(fenced, node, namespace, tenants, fenced.api_as(tenants), victim, view)
    tenant_scene.report(victim)
    tenant_scene.seen(victim, running=True)
    # The node too: a first list is of the server's cache, and what that lacks comes by the watch.
    wait_for(lambda: view.state().is_complete and view.state().node is not None, "everything has been listed")
    wait_for(lambda: is_allowed(tenant_scene.tenant, "create", "pods", namespace=tenants), "the tenant may make pods")
    try:
        yield tenant_scene
    finally:
        view.stop()
        api.close()
        with contextlib.suppress(ApiError):
            remove_namespace(fenced, tenants)


@pytest.mark.parametrize("how", ["annotations", "mirror", "owner too"])
def test_a_tenants_pod_that_says_it_is_static_is_stored_and_is_a_pod_like_any_other(
    scene: Scene, tmp_path: Path, how: str
) -> None:
    victim_uid = scene.victim["metadata"]["uid"]
    owner = scene.owner if how == "owner too" else None
    manifest = scene.says_static(victim_uid, mirror=how != "annotations", owner=owner, grabs=True)

    evil = scene.make(scene.tenant, manifest, scene.tenants)  # the server takes it as it is

    assert evil["metadata"]["annotations"] == manifest["metadata"]["annotations"]
    if how == "annotations":
        scene.report(evil)  # the kubelet runs it as any other
    seen = scene.seen(evil, running=how == "annotations")
    assert (seen.is_static, seen.cgroup_uid) == (False, evil["metadata"]["uid"])
    named = scene.named(victim_uid, scene.victim)
    assert (named.namespace, named.pod, named.container) == (scene.namespace, "victim", "app")
    assert named.kind is UnitKind.CONTAINER
    assert _written(scene.view, tmp_path, victim_uid) == {"cpu.max": "max 100000\n", "memory.max": "max\n"}


def test_a_mirror_that_the_nodes_kubelet_makes_is_known_and_no_other_can_take_its_cgroup(
    scene: Scene, tmp_path: Path
) -> None:
    name = scene.node["metadata"]["name"]
    forged = scene.make(
        scene.tenant,
        scene.says_static(CONFIG_HASH, owner=scene.owner, grabs=True),
        scene.tenants,
    )
    kubelet = scene.cluster.api_of_node(name)
    mirror = scene.make(kubelet, scene.says_static(CONFIG_HASH, owner=scene.owner), scene.namespace)
    scene.report(mirror)

    seen = scene.seen(mirror, running=True)
    assert (seen.is_static, seen.cgroup_uid) == (True, CONFIG_HASH)
    scene.seen(forged)
    named = scene.named(CONFIG_HASH, mirror)
    assert (named.namespace, named.pod, named.container) == (scene.namespace, seen.name, "app")
    assert _written(scene.view, tmp_path, CONFIG_HASH) == {"cpu.max": "max 100000\n", "memory.max": "max\n"}


@pytest.mark.parametrize(
    "owner",
    [
        None,
        {"name": "another-node"},
        {"kind": "ReplicaSet", "apiVersion": "apps/v1"},
        {"controller": False},
        {"uid": "not-the-nodes-uid"},
    ],
)
def test_a_kubelet_makes_no_mirror_but_its_own_nodes(scene: Scene, owner: Mapping[str, Any] | None) -> None:
    """NodeRestriction: what makes the owner worth reading."""
    kubelet = scene.cluster.api_of_node(scene.node["metadata"]["name"])
    stated = None if owner is None else {**scene.owner, **owner}
    with pytest.raises(ApiError) as refused:
        scene.make(kubelet, scene.says_static(CONFIG_HASH, owner=stated), scene.namespace)
    assert refused.value.status == FORBIDDEN


def test_a_kubelet_makes_neither_mirrors_on_other_nodes_nor_pods_that_are_none(scene: Scene) -> None:
    other = scene.cluster.api_of_node(fresh_name("node"))
    kubelet = scene.cluster.api_of_node(scene.node["metadata"]["name"])
    for api, mirror in ((other, True), (kubelet, False)):
        with pytest.raises(ApiError) as refused:
            scene.make(api, scene.says_static(CONFIG_HASH, owner=scene.owner, mirror=mirror), scene.namespace)
        assert refused.value.status == FORBIDDEN


def _written(view: ClusterView, directory: Path, uid: str) -> dict[str, str]:
    """Let the writer of limits look at what the agent sees, where the id in question has a cgroup; give its files."""
    files = KubeletFiles(directory / "cgroup", Driver.CGROUPFS)
    cgroup = files.pod(QosClass.BURSTABLE, uid, {"memory.current": "0"})
    decisions: list[object] = []
    writer = PodLimitsWriter(
        limits=CgroupLimits(files.mount, directory / "limits"),
        options=PodLimitsOptions(write_cgroups=True),
        pod_paths=lambda: {uid: files.pod_path(QosClass.BURSTABLE, uid)},
        margin_ratio=1.25,
        terms=KeeperTerms(may_write=lambda: None, tell=lambda **decision: decisions.append(decision)),
    )
    state = view.state()
    assert state.node is not None
    # As where neither knows pod-level resources: elsewhere nothing is written at all.
    writer.tick(replace(state, server_version="v1.33.4"), 0.0)
    assert decisions == []
    return {file: (cgroup / file).read_text() for file in ("cpu.max", "memory.max")}
