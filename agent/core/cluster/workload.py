"""Which workload a pod belongs to: the owner that keeps its name over rollouts. Core, pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agent.core.cluster.pod import NODE_KIND, OwnerReference, Pod, TopOwner

DAEMON_SET_KIND: Final = "DaemonSet"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Workload:
    """The top owner of a pod: what keeps its name over rollouts."""

    namespace: str
    kind: str
    name: str


POD_KIND: Final = "Pod"
REPLICA_SET_KIND: Final = "ReplicaSet"
STATEFUL_SET_KIND: Final = "StatefulSet"
JOB_KIND: Final = "Job"
CRON_JOB_KIND: Final = "CronJob"
GROUP_KIND: Final = "Group"
"""Pods that a label of theirs holds together (``workloads.groupBy``): those of workflows and of other Jobs."""
RUN_KINDS: Final = frozenset({JOB_KIND, CRON_JOB_KIND, GROUP_KIND})
"""Workloads whose pods end by themselves: each is a run, and the next is sized by the last ones."""
_UNGROUPED_KINDS: Final = frozenset({REPLICA_SET_KIND, DAEMON_SET_KIND, STATEFUL_SET_KIND, "ReplicationController"})
"""Their pods have a name that stays, whatever their labels say."""
_SCHEDULED_NAME: Final = re.compile(r"(?P<cron_job>.+)-(?P<unix_minutes>[0-9]{7,9})\Z")
_EARLIEST_SECONDS: Final = 86_400.0
"""A run may begin so long after its time: a controller that was away, a queue, a second try."""
_LATEST_SECONDS: Final = 300.0
"""... and its pod's clock may be so far behind."""
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

    A CronJob names the Job of a run ``<own name>-<scheduled Unix minutes>``: where these are near the pod's creation,
    all such runs are one workload. Any other Job, one that somebody made of a CronJob by hand too, stands for itself,
    unless ``pod.top_owner`` says whose it is.

    Returns:
        The pod itself (kind ``Pod``) when nothing controls it, or a Node does: that is a static pod's mirror.

    Source:
        ``SafeEncodeString`` of k8s.io/apimachinery/pkg/util/rand, as the Deployment controller uses it; ``getJobName``
        of pkg/controller/cronjob.
    """
    if pod.top_owner is not None:
        return Workload(namespace=pod.namespace, kind=pod.top_owner.kind, name=pod.top_owner.name)
    owner = _controller_of(pod)
    if owner is None or owner.kind == NODE_KIND:
        return Workload(namespace=pod.namespace, kind=POD_KIND, name=pod.name)
    if owner.kind == JOB_KIND:
        cron_job = scheduled_by(owner.name, pod.created_unix_seconds)
        if cron_job is not None:
            return Workload(namespace=pod.namespace, kind=CRON_JOB_KIND, name=cron_job)
    if owner.kind == REPLICA_SET_KIND:
        for label, kind in _OWNER_BY_HASH_LABEL.items():
            template_hash = pod.labels.get(label, "")
            name = owner.name.removesuffix(f"-{template_hash}")
            if _TEMPLATE_HASH.match(template_hash) and name and name != owner.name:
                return Workload(namespace=pod.namespace, kind=kind, name=name)
    return Workload(namespace=pod.namespace, kind=owner.kind, name=owner.name)


def scheduled_by(job: str, created_unix_seconds: float | None) -> str | None:
    """Return the CronJob whose run a Job is by its name; None = the name and the time tell of none.

    Args:
        created_unix_seconds: When the Job or a pod of it was made; None = not known.
    """
    match = _SCHEDULED_NAME.match(job)
    if match is None or created_unix_seconds is None:
        return None
    waited_seconds = created_unix_seconds - int(match["unix_minutes"]) * 60
    return match["cron_job"] if -_LATEST_SECONDS <= waited_seconds <= _EARLIEST_SECONDS else None


def controller_name(pod: Pod) -> str | None:
    """Return the name of what controls a pod; None = nothing does."""
    owner = _controller_of(pod)
    return None if owner is None else owner.name


def run_of(pod: Pod) -> str:
    """Return what one run is known by among those of its workload; see ``run_name``."""
    return run_name(workload_of(pod), pod=pod.name, controller=controller_name(pod))


def run_name(workload: Workload, *, pod: str, controller: str | None) -> str:
    """Return what the run of a pod is known by.

    All pods of one Job are one run of a CronJob or of a group. Of a Job by itself each pod is a run: those of an
    indexed one do the same work on other shares, and there is no next Job to learn for.
    """
    return pod if controller is None or workload.kind == JOB_KIND else controller


def with_top_owner(pod: Pod, *, group_by: Sequence[str], job_owner: Callable[[str, str], TopOwner | None]) -> Pod:
    """Return a pod that knows whom it stands for.

    Args:
        group_by: Keys of labels; the value of the first that a pod has is its group. It goes before its Job's owner.
        job_owner: Whom a Job (namespace, name) belongs to, itself if to nobody; None = that is not known, and its name
            tells.
    """
    owner = _controller_of(pod)
    kind = None if owner is None else owner.kind
    if kind in _UNGROUPED_KINDS or kind == NODE_KIND:
        return pod
    group = next((pod.labels[key] for key in group_by if pod.labels.get(key)), None)
    if group is not None:
        return replace(pod, top_owner=TopOwner(kind=GROUP_KIND, name=group))
    top_owner = job_owner(pod.namespace, owner.name) if owner is not None and kind == JOB_KIND else None
    return pod if top_owner is None else replace(pod, top_owner=top_owner)


def no_job_owner(_namespace: str, _job: str) -> TopOwner | None:
    """Return that nothing is known of a Job: on a node, and where Jobs may not be read."""
    return None


def _controller_of(pod: Pod) -> OwnerReference | None:
    return next((owner for owner in pod.owners if owner.is_controller), None)
