"""Which workload a pod belongs to: the owner that keeps its name over rollouts. Core, pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from agent.core.cluster.pod import NODE_KIND, Pod

DAEMON_SET_KIND: Final = "DaemonSet"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Workload:
    """The top owner of a pod: what keeps its name over rollouts."""

    namespace: str
    kind: str
    name: str


POD_KIND: Final = "Pod"
REPLICA_SET_KIND: Final = "ReplicaSet"
_OWNER_BY_HASH_LABEL: Final = {
    "pod-template-hash": "Deployment",
    "rollouts-pod-template-hash": "Rollout",  # Argo Rollouts: the same scheme under a label of its own
}
_TEMPLATE_HASH: Final = re.compile(r"[bcdf4-9]{1,10}\Z")
"""A 32-bit number written in decimal, its ten digits spelt as these letters."""


def workload_of(pod: Pod) -> Workload:
    """Name the workload that a pod stands for, from its controller.

    A ReplicaSet's pods carry the hash of their template as a label, and its maker (a Deployment) named the ReplicaSet
    ``<own name>-<hash>``: only what the label says is taken off. A label that is no such hash, or that does not end
    the name, was set by hand, and a ReplicaSet without it stands for itself; a name is never cut at its dashes.

    A CronJob cannot be told from its pod: its workload is the Job of the run.

    Returns:
        The pod itself (kind ``Pod``) when nothing controls it, or a Node does: that is a static pod's mirror.

    Source:
        ``SafeEncodeString`` of k8s.io/apimachinery/pkg/util/rand, as the Deployment controller uses it.
    """
    owner = next((owner for owner in pod.owners if owner.is_controller), None)
    if owner is None or owner.kind == NODE_KIND:
        return Workload(namespace=pod.namespace, kind=POD_KIND, name=pod.name)
    if owner.kind == REPLICA_SET_KIND:
        for label, kind in _OWNER_BY_HASH_LABEL.items():
            template_hash = pod.labels.get(label, "")
            name = owner.name.removesuffix(f"-{template_hash}")
            if _TEMPLATE_HASH.match(template_hash) and name and name != owner.name:
                return Workload(namespace=pod.namespace, kind=kind, name=name)
    return Workload(namespace=pod.namespace, kind=owner.kind, name=owner.name)
