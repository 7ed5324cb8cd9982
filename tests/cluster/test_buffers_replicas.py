"""Who looks after buffers: the leader of two; with fewer rights and with more wishes; before there are any."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.core.buffers.buffer import ScalableRef
from agent.kube.client.api import HttpApi
from agent.kube.client.kubeconfig import from_kubeconfig
from agent.kube.watch.lease import LeaderLease
from agent.webhook.buffers.controller import BufferController
from agent.webhook.buffers.seams import SizedChunk, WritePermission
from tests import yaml_texts
from tests.buffer_collaborators import asking
from tests.cluster import chart
from tests.cluster.api import Json, is_awaited, kubeconfig
from tests.cluster.buffers import (
    CRD_PATH,
    CRDS,
    Buffers,
    buffers_path,
    content,
    controller,
    install_crd,
    template_json,
    templates_path,
)
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import create_namespace, create_service_account, fresh_name, node_bound_token
from tests.cluster.objects import pod_path
from tests.cluster.processes import wait_for

pytestmark = pytest.mark.cluster

RIGHTS = {"buffers": {"enabled": True}}


@pytest.fixture(scope="module")
def served(cluster: ControlPlane) -> ControlPlane:
    install_crd(cluster)
    return cluster


# Two replicas


@contextlib.contextmanager
def replica(cluster: ControlPlane, namespace: str, name: str) -> Iterator[tuple[LeaderLease, BufferController]]:
    api = HttpApi(from_kubeconfig(cluster.kubeconfig))
    lease = LeaderLease(api, namespace=namespace, name="buffers", identity=name)
    lease.start()
    try:
        with controller(cluster, permission=WritePermission(is_leader=lambda: lease.is_leader)) as loop:
            yield lease, loop
    finally:
        lease.stop()
        api.close()


def told_replicas(loop: BufferController, namespace: str) -> list[int | None]:
    """Return what the last look at a namespace came to, buffer by buffer."""
    view = loop.view(namespace)
    return [] if view is None else [outcome.status.replicas for outcome in view.outcomes]


def test_of_two_replicas_one_writes_and_the_other_takes_over(served: ControlPlane, namespace: str) -> None:
    room = Buffers(served, namespace)
    room.template("shape")
    with contextlib.ExitStack() as both:
        first_lease, first = both.enter_context(replica(served, namespace, "first"))
        wait_for(lambda: first_lease.is_leader, "the first leads")
        second_lease, second = both.enter_context(replica(served, namespace, "second"))
        wait_for(lambda: second.watches.has_looked and second_lease.holder == "first", "the second follows")
        room.create("b", podTemplateRef={"name": "shape"}, replicas=1)
        room.await_replicas("b", 1)
        # The status is there before the first has counted it, and before that look of its is over.
        wait_for(lambda: told_replicas(first, namespace) == [1], "the first has written it, and knows")
        assert (second.counts.statuses, second.view(namespace)) == (0, None)
        first_lease.stop()
        written = first.counts.statuses
        wait_for(lambda: second_lease.is_leader, "the second leads")
        room.change("b", replicas=2)
        room.await_replicas("b", 2)
        assert first.counts.statuses == written
        wait_for(lambda: second.counts.statuses >= 1, "the second counts what the server had answered before it")
        wait_for(lambda: first.view(namespace) is None, "the first has forgotten what it knew")


# With fewer rights, with more wishes, and without buffers


def test_without_the_right_to_create_pods_only_limits_make_requests(
    served: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    create_service_account(served, namespace, "few")
    rules = [
        rule
        for manifest in chart.parts("webhook/rights", "webhook/rights-buffers", values=RIGHTS)
        if manifest["kind"] == "ClusterRole"
        for rule in manifest["rules"]
        if rule.get("resources") != ["pods"]
    ]
    name = fresh_name("few")
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    head: Json = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
    served.admin.apply({**head, "kind": "ClusterRole", "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "few", "namespace": namespace}
    served.admin.apply({**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]})
    api = served.api_with_token(node_bound_token(served, namespace, "few", None))
    room = Buffers(served, namespace)
    template = content()
    template["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "2"}}
    item = {"type": "Container", "defaultRequest": {"memory": "256Mi"}}
    path = f"/api/v1/namespaces/{namespace}/limitranges"
    served.admin.create(path, {"metadata": {"name": "usual"}, "spec": {"limits": [item]}})
    room.template("shape", template)
    with controller(served, kubeconfig=kubeconfig(api, tmp_path / "few.kubeconfig")) as loop:
        room.create("b", podTemplateRef={"name": "shape"}, limits={"cpu": "9"})
        room.await_replicas("b", 4)
        assert room.chunk("b") == {"cpu": "2"}  # no memory: the range was not asked
        assert not loop.standing().has_dry_run
        generation = room.managed("b")["metadata"]["generation"]
        room.change("b", limits={"cpu": "7"})
        room.await_replicas("b", 3)
        assert room.managed("b")["metadata"]["generation"] == generation  # the server's defaults make no difference


def test_a_recommended_size_is_admissions_and_a_new_one_waits_for_the_next_full_look(
    served: ControlPlane, namespace: str
) -> None:
    room = Buffers(served, namespace)
    labels = {"app": "web"}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": content(labels=labels)}
    room.admin.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", {"metadata": {"name": "web"}, "spec": spec})
    # The template of a buffer may become a pod's, or another size, once in each stretch: it has to be a pod's already.
    wait_for(lambda: len(room.admin.items(pod_path(namespace))) == 2, "its pods are there")
    wanted, asked = {"cpu": "300m"}, []

    def sizer(given: Any, where: str, workload: ScalableRef | None, /) -> SizedChunk:
        asked.append((where, workload))
        container = {**given["spec"]["containers"][0], "resources": {"requests": dict(wanted)}}
        return SizedChunk(content={**given, "spec": {**given["spec"], "containers": [container]}}, words="by history")

    with controller(served, collaborators=asking(sizer)) as loop:
        room.create(
            "b",
            annotations={"plimsoll.dev/buffer-sizing": "recommended"},
            scalableRef={"apiGroup": "apps", "kind": "Deployment", "name": "web"},
            limits={"cpu": "3"},
        )
        room.await_replicas("b", 10)
        assert room.chunk("b") == {"cpu": "300m"}
        assert (namespace, ScalableRef(api_group="apps", kind="Deployment", name="web")) in asked
        # The status is written in the midst of a look; what the look came to is told at its end.
        wait_for(lambda: loop.view(namespace) is not None, "the look is over")
        view = loop.view(namespace)
        assert view is not None
        assert view.sizing == {"b": "by history"}
        wanted["cpu"] = "200m"
        room.change("b", limits={"cpu": "6"})
        room.await_status("b", lambda status: status.get("replicas") == 30, "the new size, the first time, at once")
        wanted["cpu"] = "100m"
        room.change("b", limits={"cpu": "4"})
        room.await_replicas("b", 20)  # of 200m: one new size in each stretch
        assert room.chunk("b") == {"cpu": "200m"}


@pytest.fixture
def bare(fragile: ControlPlane) -> Iterator[tuple[ControlPlane, str]]:
    """A server without CapacityBuffers, with a namespace of this test's; the kind is taken away at the end."""
    (document,) = yaml_texts.load_all(CRDS.read_text())
    path = f"{CRD_PATH}/{document['metadata']['name']}"
    assert not fragile.admin.exists(path)
    name = fresh_name("shop")
    create_namespace(fragile, name)
    yield fragile, name
    fragile.admin.delete(path)
    wait_for(lambda: not fragile.admin.exists(path), "the kind is gone")


def test_before_there_are_buffers_only_that_is_asked(bare: tuple[ControlPlane, str]) -> None:
    plane, shop = bare
    with controller(plane, dry_run=False, ask_seconds=0.2) as loop:
        wait_for(lambda: sum(loop.api.calls().values()) >= 6, "it asks now and then")
        assert {resource for _, resource in loop.api.calls()} == {"discovery"}
        install_crd(plane)
        wait_for(lambda: ("list", "capacitybuffers") in loop.api.calls(), "they are watched")
        assert {resource for _, resource in loop.api.calls()} == {"discovery", "capacitybuffers"}
        room = Buffers(plane, shop)
        room.template("shape")
        room.create("b", podTemplateRef={"name": "shape"}, replicas=2)
        room.await_replicas("b", 2)
        room.delete("b")
        wait_for(lambda: loop.view(shop) is None, "it is forgotten")


def test_a_cluster_that_is_paused_is_written_to_by_nobody(served: ControlPlane, namespace: str) -> None:
    room, reasons = Buffers(served, namespace), ["maintenance"]
    room.template("shape")
    with controller(
        served,
        permission=WritePermission(is_leader=lambda: True, pause_reason=lambda: reasons[0] if reasons else None),
    ) as loop:
        room.create("b", podTemplateRef={"name": "shape"}, replicas=2)
        wait_for(lambda: loop.watches.is_listed and len(loop.watches.buffers.find(namespace)) == 1, "it is seen")
        room.template("another")  # something happens there, and is seen as well
        wait_for(lambda: loop.watches.templates.named(namespace, "another") is not None, "that is seen")
        # How often it reads is nothing to a pause: what the server serves is asked now and then.
        reading = {"get", "list", "watch"}
        assert {verb for verb, _ in loop.api.calls()} <= reading
        assert loop.standing().pause_reason == "maintenance"
        reasons.clear()
        room.await_replicas("b", 2)
        assert not {verb for verb, _ in loop.api.calls()} <= reading


def test_without_any_right_it_says_so_once(
    served: ControlPlane, namespace: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    create_service_account(served, namespace, "none")
    api = served.api_with_token(node_bound_token(served, namespace, "none", None))
    room = Buffers(served, namespace)
    room.create("b", replicas=2)
    with controller(served, kubeconfig=kubeconfig(api, tmp_path / "none.kubeconfig")) as loop:
        wait_for(lambda: loop.api.errors().get(("list", "capacitybuffers"), 0) >= 4, "it was refused again and again")
        assert any("403" in trouble for trouble in loop.standing().troubles)
    records = [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    assert len(records) == 1, [record.getMessage() for record in records]


def test_a_server_that_has_the_older_version_alone(bare: tuple[ControlPlane, str]) -> None:
    plane, shop = bare
    (document,) = yaml_texts.load_all(CRDS.read_text())
    (older,) = [version for version in document["spec"]["versions"] if version["name"] == "v1alpha1"]
    document["spec"]["versions"] = [{**older, "storage": True}]
    plane.admin.create(CRD_PATH, document)
    path = buffers_path(shop, version="v1alpha1")
    wait_for(lambda: is_awaited(lambda: plane.admin.get(path), 404, 429), "it is served")
    with controller(plane, dry_run=False):
        plane.admin.create(templates_path(shop), template_json("shape"))
        spec = {"podTemplateRef": {"name": "shape"}, "replicas": 2}
        head = {"apiVersion": "autoscaling.x-k8s.io/v1alpha1", "kind": "CapacityBuffer", "metadata": {"name": "b"}}
        plane.admin.create(path, {**head, "spec": spec})

        def is_counted() -> bool:
            status = plane.admin.get(f"{path}/b").get("status") or {}
            return bool(status.get("replicas") == 2)

        wait_for(is_counted, "it is reconciled")


def test_an_outage_leaves_statuses_and_is_caught_up_with(bare: tuple[ControlPlane, str]) -> None:
    plane, shop = bare
    install_crd(plane)
    room = Buffers(plane, shop)
    room.template("shape")
    with controller(plane, dry_run=False) as loop:
        room.create("b", podTemplateRef={"name": "shape"}, replicas=2)
        status = room.await_replicas("b", 2)
        with plane.outage():
            wait_for(lambda: bool(loop.standing().troubles), "it notices")
            loop.wake(shop)
        assert room.status("b") == status
        room.change("b", replicas=3)
        room.await_replicas("b", 3, 60.0)
