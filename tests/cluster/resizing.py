"""What tests of the agent's writes share: the agent of one node with the chart's rights, pods there, and steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent.core.cluster.pod import ContainerKind, Pod, PodRef
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.plan.plan import Phase, PlanStep
from agent.core.plan.pod_change import Change, Setting
from agent.core.resize.answer import ResizeAnswer
from agent.kube.calls.resize import resize
from agent.kube.client.api import HttpApi
from agent.kube.client.credentials import Credentials
from agent.kube.objects.pod_json import pod_from_json
from tests.cluster import fence, objects
from tests.cluster.api import Json, is_awaited
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import fresh_name, node_bound_token
from tests.cluster.processes import wait_for

MI = 1 << 20
BURSTABLE: Json = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "128Mi"}}
GUARANTEED: Json = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}}


def client(plane: ControlPlane, token: str) -> HttpApi:
    """Return the agent's own client with a token."""
    return HttpApi(Credentials(server=plane.url, origin="tests", ca_file=plane.authority, token=token))


def cpu(after: int, setting: Setting = Setting.REQUEST, container: str = "app", **kind: Any) -> Change:
    """Return a change of CPU to so many millicores."""
    return _change(Resource.CPU, after, setting, container, **kind)


def memory(after: int, setting: Setting = Setting.REQUEST, container: str = "app", **kind: Any) -> Change:
    """Return a change of memory to so many bytes."""
    return _change(Resource.MEMORY, after, setting, container, **kind)


def _change(
    resource: Resource,
    after: int,
    setting: Setting,
    container: str,
    kind: ContainerKind | None = ContainerKind.REGULAR,
) -> Change:
    return Change(container=container, kind=kind, resource=resource, setting=setting, before=0, after=after)


def step_of(pod: Pod, *changes: Change) -> PlanStep:
    """Return a step of a plan for a pod."""
    return PlanStep(
        ref=PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid),
        workload=Workload(namespace=pod.namespace, kind="Deployment", name="web"),
        phase=Phase.GROW,
        changes=changes,
        reason="a test",
    )


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One node, its agent, and a namespace for pods."""

    plane: ControlPlane
    node: str
    agent: HttpApi
    namespace: str

    def make(self, *containers: Json, node: str | None = None, **fields: Any) -> Pod:
        """Create a pod on the agent's node, or another; fields as of ``objects.pod``."""
        manifest = objects.pod(
            fresh_name("web"), node or self.node, *(containers or [objects.container(**BURSTABLE)]), **fields
        )
        return pod_from_json(self.plane.admin.create(objects.pod_path(self.namespace), manifest))

    def run(self, pod: Pod) -> Pod:
        """Write the status of a pod that runs as its spec says."""
        manifest = self.plane.admin.get(self.path(pod))
        return self.write_status(pod, objects.running_status(manifest))

    def write_status(self, pod: Pod, status: Json) -> Pod:
        """Write parts of a pod's status."""
        return pod_from_json(objects.write_pod_status(self.plane.admin, pod.namespace, pod.name, status))

    def path(self, pod: Pod) -> str:
        """Return the pod's path."""
        return objects.pod_path(pod.namespace, pod.name)

    def read(self, pod: Pod) -> Pod:
        """Read the pod anew."""
        return pod_from_json(self.plane.admin.get(self.path(pod)))

    def send(
        self, pod: Pod, *changes: Change, api: HttpApi | None = None, **options: Any
    ) -> tuple[ResizeAnswer, Pod | None]:
        """Resize as the agent does, on the pod as it was read; the answer, and the pod that came with it."""
        answer, document = resize(api or self.agent, step_of(pod, *changes), pod.resource_version, pod=pod, **options)
        return answer, None if document is None else pod_from_json(document)

    def remove(self, pod: Pod) -> None:
        """Delete a pod at once."""
        self.plane.admin.delete(self.path(pod), gracePeriodSeconds="0")


def wait_resizable(plane: ControlPlane, namespace: str, name: str, *, cpu: str = "101m") -> None:
    """Wait until the server would take a resize of a pod; store none. Admission goes by a watch of nodes of its own."""
    body = objects.resize_body(app={"requests": {"cpu": cpu}})
    wait_for(
        lambda: is_awaited(lambda: objects.resize(plane.admin, namespace, name, body, dryRun="All"), 403),
        f"admission knows the node of {namespace}/{name}",
    )


def wait_node_known(plane: ControlPlane, namespace: str, node: str) -> None:
    """Wait until the server's admission knows a node that was just made; it refuses resizes before."""
    probe = fresh_name("probe")
    plane.admin.create(objects.pod_path(namespace), objects.pod(probe, node))
    wait_resizable(plane, namespace, probe)
    plane.admin.delete(objects.pod_path(namespace, probe), gracePeriodSeconds="0")


def scene_of(plane: ControlPlane, namespace: str, node: str, **status: Any) -> Scene:
    """Make the node and its agent; ``fence.install`` has been called before."""
    objects.create_node(plane.admin, node, cpu="4", memory="8Gi", **status)
    wait_node_known(plane, namespace, node)
    token = node_bound_token(plane, fence.NAMESPACE, fence.ACCOUNT, node)
    return Scene(plane=plane, node=node, agent=client(plane, token), namespace=namespace)
