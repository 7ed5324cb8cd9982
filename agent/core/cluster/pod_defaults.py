"""What an API server fills into a new pod's resources, and the QoS class that it then gives the pod. Core, pure.

The class is frozen at creation, and it is that of the pod after the server's own defaulting, which runs after all
webhooks. What is filled in differs by version; which of them asks is not always known, so that callers compare by each.

Source: ``SetDefaults_Pod`` of pkg/apis/core/v1/defaults.go, ``DefaultPodLevelResources`` of pkg/api/pod/util.go,
``ComputePodQOS`` of pkg/apis/core/helper/qos (1.37.1); tried on real servers by tests/cluster/test_pod_defaulting.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from typing import Final

from agent.core.cluster.effective_resources import container_limits, container_requests
from agent.core.cluster.pod import CPU, HUGEPAGES_PREFIX, MEMORY, Pod, QosClass, Requirements, is_pod_level_resource
from agent.core.cluster.qos import class_of, computed_qos_class


class Defaulting(StrEnum):
    """What a generation of API servers does with resources of a pod as a whole."""

    DROPPED = "dropped"
    """Before 1.34: they are taken out."""
    REQUESTS = "requests"
    """From 1.34: requests that are missing beside pod-level limits are filled in."""
    LIMITS = "limits"
    """From 1.37, gate PodLevelResourcesFixDefaulting: limits too, where every container has one, and all of it after
    the webhooks. (KEP-2837 says 1.36; there the gate can be switched on.)"""


KNOWN_POD_LEVEL: Final = (Defaulting.REQUESTS, Defaulting.LIMITS)
"""Of API servers that know resources of pods."""


def defaulted(pod: Pod, defaulting: Defaulting) -> Pod:
    """Return a new pod with the resources that the API server stores.

    Args:
        pod: As it is after all webhooks. Requests of containers that are not stated are their limits already: that is
            filled in before any webhook is asked.
    """
    if pod.resources is None:
        return pod
    if defaulting is Defaulting.DROPPED:
        return replace(pod, resources=None)
    return replace(pod, resources=_filled(pod, pod.resources, defaulting))


def class_at_creation(pod: Pod, defaulting: Defaulting) -> QosClass:
    """Return the QoS class that the API server writes into the status of a new pod."""
    stored = defaulted(pod, defaulting)
    if stored.resources is not None and defaulting is Defaulting.REQUESTS:
        return class_of(stored.resources)  # an empty section counts there, too
    return computed_qos_class(stored)


def classes_at_creation(pod: Pod, defaultings: Iterable[Defaulting]) -> tuple[QosClass, ...]:
    """Return the class by each of several defaultings, in their order; of a pod without own resources all are one."""
    if pod.resources is None:
        dropped = class_at_creation(pod, Defaulting.DROPPED)
        return tuple(dropped for _ in defaultings)
    return tuple(class_at_creation(pod, defaulting) for defaulting in defaultings)


def _filled(pod: Pod, stated: Requirements, defaulting: Defaulting) -> Requirements:
    requests, limits = dict(stated.requests), dict(stated.limits)
    if not requests and not limits:
        return stated
    asked, limited = container_requests(pod), container_limits(pod)
    for name, amount in limited.items():
        if name.startswith(HUGEPAGES_PREFIX) and name not in requests:
            limits.setdefault(name, amount)
    if limits or defaulting is Defaulting.LIMITS:
        for name in (CPU, MEMORY):  # huge pages cannot be overcommitted: theirs come from their limits
            if name in asked:
                requests.setdefault(name, asked[name])
        for name, amount in limits.items():
            if is_pod_level_resource(name):
                requests.setdefault(name, amount)
    if defaulting is Defaulting.LIMITS:
        for name in [name for name in requests if is_pod_level_resource(name) and name not in limits]:
            if all(name in container.resources.limits for container in pod.sized_containers()):
                limits[name] = max(requests[name], limited.get(name, 0))
    return Requirements(requests=requests, limits=limits)
