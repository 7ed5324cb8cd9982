"""What a pod is after a step, and once the kubelet has acted on it. Core, pure."""

from __future__ import annotations

from dataclasses import replace

from agent.core.planned import PlanStep
from agent.core.pod import Pod
from agent.core.pod_change import changed_pod


def applied(pod: Pod, step: PlanStep) -> Pod:
    """Give the pod with the step's amounts in its spec; its status stays, as right after the API has taken the step."""
    return changed_pod(pod, step.changes)


def actuated(pod: Pod) -> Pod:
    """Give the pod once the kubelet has acted on its spec: nothing else holds room for it any more."""
    statuses = tuple(replace(status, allocated=None, actual=None) for status in pod.statuses)
    return replace(pod, statuses=statuses, allocated=None, actual=None)
