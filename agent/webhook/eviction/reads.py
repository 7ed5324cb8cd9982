"""What the arbiter reads anew before it decides: the pod, and how many pods its workload has. Webhook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agent.core.cluster.pod import Pod, PodRef
from agent.core.cluster.workload import Workload
from agent.core.eviction.budget import Replicas
from agent.core.eviction.proposal import Reason, Ruling
from agent.kube.client.api import Api
from agent.kube.client.errors import ApiError, KubeError
from agent.kube.client.paths import namespaced_path
from agent.kube.objects.json_reader import ConvertError
from agent.kube.objects.pod_json import pod_from_json

READ_SECONDS: Final = 3.0
_NOT_FOUND: Final = 404
_FORBIDDEN: Final = 403
_PLACES: Final[Mapping[str, tuple[str, str]]] = {
    "Deployment": ("/apis/apps/v1", "deployments"),
    "ReplicaSet": ("/apis/apps/v1", "replicasets"),
    "StatefulSet": ("/apis/apps/v1", "statefulsets"),
    "ReplicationController": ("/api/v1", "replicationcontrollers"),
    "Rollout": ("/apis/argoproj.io/v1alpha1", "rollouts"),
}
"""Where the kinds are whose replicas are known: those that ``plan.managedKinds`` names, DaemonSets apart."""
_REPLICAS_UNSTATED: Final = 1


def read_pod(api: Api, ref: PodRef) -> Pod | Ruling:
    """Read a pod by its name; whose uid it has is for the caller to see."""
    document = _read(api, "/api/v1", "pods", ref.namespace, ref.name)
    if isinstance(document, Ruling):
        return document
    try:
        return pod_from_json(document)
    except ConvertError as error:
        return Ruling(reason=Reason.UNREADABLE, detail=str(error))


def read_replicas(api: Api, workload: Workload) -> Replicas | Ruling:
    """Read how many pods a workload should have, and how many of them are available by its controller's count.

    A replacement that hangs or is not ready yet is not available, so nobody else goes in its time.
    """
    named = f"{workload.kind} {workload.namespace}/{workload.name}"
    place = _PLACES.get(workload.kind)
    if place is None:
        detail = f"how many pods a workload of kind {workload.kind} has is not known ({', '.join(_PLACES)})"
        return Ruling(reason=Reason.REPLICAS_UNKNOWN, detail=detail)
    document = _read(api, *place, workload.namespace, workload.name)
    if isinstance(document, Ruling):
        if document.reason is Reason.GONE:
            return Ruling(reason=Reason.REPLICAS_UNKNOWN, detail=f"there is no {named}")
        return document
    wanted = _number(document, "spec", "replicas", absent=_REPLICAS_UNSTATED)
    available = _number(document, "status", "availableReplicas", absent=0)
    if wanted is None or available is None:
        return Ruling(reason=Reason.REPLICAS_UNKNOWN, detail=f"the replicas of {named} are not understood")
    return Replicas(wanted=wanted, available=available)


def _read(api: Api, group: str, resource: str, namespace: str, name: str) -> object | Ruling:
    path = namespaced_path(namespace, resource, name, group=group)
    try:
        return api.call("GET", path, timeout_seconds=READ_SECONDS)
    except ApiError as error:
        if error.status == _NOT_FOUND:
            return Ruling(reason=Reason.GONE, detail=f"there is no {namespace}/{name} among the {resource}")
        reason = Reason.FORBIDDEN if error.status == _FORBIDDEN else Reason.API_AWAY
        return Ruling(reason=reason, detail=str(error))
    except KubeError as error:
        return Ruling(reason=Reason.API_AWAY, detail=str(error))


def _number(document: object, section: str, key: str, *, absent: int) -> int | None:
    part = document.get(section) if isinstance(document, Mapping) else None
    if not isinstance(part, Mapping):
        return None
    value = part.get(key, absent)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
