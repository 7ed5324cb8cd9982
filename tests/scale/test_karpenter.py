"""CapacityBuffers between Plimsoll and a real autoscaler: Karpenter, with nodes that kwok plays.

Who writes what of a buffer is read from its managed fields, and nothing is awaited by time: Karpenter tells in Events
why it leaves a node be.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent.kube.client.api import HttpApi
from agent.kube.client.kubeconfig import from_kubeconfig
from tests.cluster import chart
from tests.cluster.api import APPLY, Json, path_of
from tests.cluster.binaries import version_under_test
from tests.cluster.buffers import Buffers, content, controller, install_crd
from tests.cluster.control_plane import ControlPlane, control_plane
from tests.cluster.identities import create_namespace, fresh_name
from tests.cluster.objects import pod_path
from tests.cluster.placeholder_room import Room, summary
from tests.cluster.processes import wait_for
from tests.scale.karpenter import (
    CLAIMS,
    SECONDS,
    USER,
    await_nodes,
    await_or_tell,
    bound,
    install,
    is_consolidatable,
    karpenter,
    kubelets,
    nodes,
    remove_all,
    standing,
    why_kept,
    writers,
)

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

OURS, THEIRS = "plimsoll-buffers", "karpenter"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    version = version_under_test()
    directory = tmp_path_factory.mktemp("karpenter")
    with control_plane(version, directory=directory, with_scheduler=True, controllers="*") as cluster:
        install_crd(cluster)
        install(cluster)
        for each in chart.rendered()["cluster/priorities"]:
            path = f"/apis/scheduling.k8s.io/v1/priorityclasses/{each['metadata']['name']}"
            cluster.admin.patch(path, each, APPLY, fieldManager="tests", force="true")
        with kubelets(cluster):
            yield cluster


@pytest.fixture
def room(plane: ControlPlane) -> Iterator[Buffers]:
    """A namespace, in a cluster without nodes."""
    namespace = fresh_name("shop")
    create_namespace(plane, namespace)
    room = Buffers(plane, namespace)
    room.template("small", content(cpu="1", memory="64Mi"))
    yield room
    for buffer in plane.admin.items(f"/apis/autoscaling.x-k8s.io/v1beta1/namespaces/{namespace}/capacitybuffers"):
        room.delete(buffer["metadata"]["name"])
    plane.admin.delete(f"/api/v1/namespaces/{namespace}")
    wait_for(lambda: not plane.admin.items(pod_path(namespace)), "its pods are gone", SECONDS)
    remove_all(plane)


def deploy(room: Buffers, name: str, replicas: int, *, cpu: str = "1") -> None:
    """Have so many real pods, of one chunk's size unless told."""
    labels = {"app": name}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": content(labels=labels, cpu=cpu, memory="64Mi"),
    }
    path = f"/apis/apps/v1/namespaces/{room.namespace}/deployments"
    room.admin.create(path, {"metadata": {"name": name}, "spec": spec})


def provisioning(room: Buffers, name: str) -> tuple[str, str]:
    condition = room.condition(name, "Provisioning") or {}
    return condition.get("status", ""), condition.get("reason", "")


def await_room(room: Buffers, name: str) -> None:
    """Wait until Karpenter says that a buffer's room is there."""
    await_or_tell(
        lambda: provisioning(room, name) == ("True", "FitsExistingCapacity"),
        f"{name} has its room",
        lambda: (room.status(name), nodes(room.cluster)),
    )


def waits(plane: ControlPlane, namespace: str) -> list[str]:
    """Return what the scheduler said of pods that it had no node for."""
    return [event["message"] for event in events(plane, namespace) if event["reason"] == "FailedScheduling"]


def events(plane: ControlPlane, namespace: str) -> list[Json]:
    return plane.admin.items(f"/api/v1/namespaces/{namespace}/events")


def test_where_karpenter_translates_ours_steps_back_and_pods_land_in_its_room(
    plane: ControlPlane, room: Buffers, caplog: pytest.LogCaptureFixture
) -> None:
    with controller(plane) as ours:
        room.create("spare", podTemplateRef={"name": "small"}, replicas=3)
        room.await_replicas("spare", 3)
        assert set(writers(room.get("spare"))) == {OURS}
        with karpenter(plane, buffers=True):
            await_room(room, "spare")
            wait_for(lambda: ours.standing().contested_by == f"karpenter (of {room.namespace}/spare)", "it is told")
            assert any("another controller writes the status" in record.getMessage() for record in caplog.records)
            has = writers(room.get("spare"))
            print(has)
            assert {"podTemplateRef", "ReadyForProvisioning", "Provisioning"} <= has[THEIRS]
            assert room.status("spare")["podTemplateRef"] == {"name": "small"}

            [first] = await_nodes(plane, 1)
            await_or_tell(
                lambda: is_consolidatable(plane, first) and f'Node "{first}" has buffer pods' in why_kept(plane, first),
                "the empty node is kept for the buffer",
                lambda: why_kept(plane, first),
            )
            written = ours.counts.statuses
            deploy(room, "web", 3)
            await_or_tell(
                lambda: len(bound(plane, room.namespace, "app=web")) == 3,
                "the real pods have a node",
                lambda: waits(plane, room.namespace),
            )
            assert set(bound(plane, room.namespace, "app=web").values()) == {first}
            assert waits(plane, room.namespace) == []
            # The room is taken, so there is another node; then it is there again.
            await_nodes(plane, 2)
            await_room(room, "spare")
            assert ours.counts.statuses == written

            room.delete("spare")
            await_or_tell(lambda: nodes(plane) == {first}, "without the buffer its node goes", lambda: standing(plane))


def test_placeholders_have_nodes_made_that_stay_and_are_replaced_with_the_room_kept(
    plane: ControlPlane, room: Buffers
) -> None:
    api = HttpApi(from_kubeconfig(plane.kubeconfig))
    placeholders = Room(plane=plane, api=api, buffers=room, node="")
    with placeholders.kept(), karpenter(plane, buffers=False):
        placeholders.buffer(3)
        await_or_tell(
            lambda: placeholders.provisioning()[1] == "RoomKept", "the room is there", placeholders.provisioning
        )
        assert set(writers(room.get("spare"))) == {OURS}
        [first] = await_nodes(plane, 1)
        await_or_tell(
            lambda: is_consolidatable(plane, first) and bool(why_kept(plane, first)),
            "Karpenter looked at the node and left it",
            lambda: (why_kept(plane, first), standing(plane)),
        )
        assert nodes(plane) == {first}
        print(why_kept(plane, first))

        # One that needs all of it: of several the scheduler may let one wait for what another one drove away.
        deploy(room, "web", 1, cpu="3")
        await_or_tell(
            lambda: len(bound(plane, room.namespace, "app=web")) == 1,
            "the real pod has a node",
            lambda: waits(plane, room.namespace),
        )
        assert set(bound(plane, room.namespace, "app=web").values()) == {first}
        await_nodes(plane, 2)  # the other is for those that gave way
        await_or_tell(
            lambda: placeholders.provisioning()[1] == "RoomKept", "the room is there again", placeholders.provisioning
        )

        [second] = nodes(plane) - {first}
        [claim] = [
            node_claim for node_claim in plane.admin.items(CLAIMS) if node_claim["status"].get("nodeName") == second
        ]
        plane.admin.delete(f"{CLAIMS}/{claim['metadata']['name']}")

        def is_replaced() -> bool:
            where = {pod["spec"]["nodeName"] for pod in placeholders.running()}
            return len(placeholders.running()) == 3 and second not in where | nodes(plane) and where <= nodes(plane)

        await_or_tell(
            lambda: is_replaced() and placeholders.provisioning()[1] == "RoomKept",
            "its node is replaced, and the room is kept",
            lambda: (standing(plane), placeholders.provisioning(), summary(placeholders.pods())),
        )
    api.close()


@pytest.fixture
def policy(plane: ControlPlane) -> Iterator[None]:
    """The chart's policy over what Karpenter writes of a status."""
    documents = chart.rendered({"buffers": {"enabled": True, "keepStatusFrom": [USER]}})["fence/buffer-status"]
    for document in documents:
        plane.admin.apply(document)
    yield
    for document in documents:
        plane.admin.delete(path_of(document))


@pytest.mark.usefixtures("policy")
def test_with_the_policy_karpenter_provides_what_plimsoll_computed(plane: ControlPlane, room: Buffers) -> None:
    """Of quotas and of live pods it knows nothing: what it makes room for can only be read from our status."""
    quotas = f"/api/v1/namespaces/{room.namespace}/resourcequotas"
    room.admin.create(quotas, {"metadata": {"name": "few"}, "spec": {"hard": {"requests.cpu": "2"}}})
    wait_for(lambda: "hard" in plane.admin.get(f"{quotas}/few").get("status", {}), "the quota is counted")
    with controller(plane) as ours:
        room.create("spare", podTemplateRef={"name": "small"}, replicas=5)
        room.await_replicas("spare", 2)
        with karpenter(plane, buffers=True):
            await_room(room, "spare")
            assert (room.condition("spare", "Provisioning") or {})["message"].startswith("All 2 virtual pods")
            [first] = await_nodes(plane, 1)
            await_or_tell(
                lambda: is_consolidatable(plane, first) and f'Node "{first}" has buffer pods' in why_kept(plane, first),
                "the empty node is kept for the buffer",
                lambda: why_kept(plane, first),
            )
            room.admin.patch(f"{quotas}/few", {"spec": {"hard": {"requests.cpu": "7"}}})
            await_or_tell(
                lambda: "All 5 virtual pods" in (room.condition("spare", "Provisioning") or {})["message"],
                "there is room for five",
                lambda: room.status("spare"),
            )
            assert first in await_nodes(plane, 2)
            before = nodes(plane)
            status = room.status("spare")
            assert (status["replicas"], status["podTemplateRef"]["name"]) == (5, "capacitybuffer-spare-pod-template")
            assert ours.standing().contested_by is None
            assert set(writers(room.get("spare"))) == {OURS}
            deploy(room, "web", 2)
            await_or_tell(
                lambda: len(bound(plane, room.namespace, "app=web")) == 2,
                "real pods land in the room",
                lambda: waits(plane, room.namespace),
            )
            assert waits(plane, room.namespace) == []
            assert set(bound(plane, room.namespace, "app=web").values()) <= before
            await_nodes(plane, 3)  # as the quota has room for five more still


def test_with_its_gate_open_placeholders_are_kept_and_its_status_is_left_to_it(
    plane: ControlPlane, room: Buffers, caplog: pytest.LogCaptureFixture
) -> None:
    api = HttpApi(from_kubeconfig(plane.kubeconfig))
    placeholders = Room(plane=plane, api=api, buffers=room, node="")
    with placeholders.kept(), karpenter(plane, buffers=True):
        placeholders.buffer(2)
        await_or_tell(
            lambda: len(placeholders.running()) == 2
            and any("again and again" in record.getMessage() for record in caplog.records),
            "placeholders run, and the status is left to Karpenter",
            lambda: (placeholders.provisioning(), summary(placeholders.pods()), room.status("spare")),
        )
        has = writers(room.get("spare"))
        assert {"podTemplateRef", "ReadyForProvisioning"} <= has[THEIRS]
    api.close()
