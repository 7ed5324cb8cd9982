"""Which placeholder pods make room for a real pod on their node, before one of the real ones has to go. Core, pure.

A scheduler has placeholders removed for a pod that is new. One that grows in place has nobody who does so: the kubelet
counts placeholders as what they request, and removes nobody for a resize.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from agent.core.buffers.placeholders import buffer_uid_of, is_living
from agent.core.cluster.effective_resources import CountingRule, pod_requests
from agent.core.cluster.pod import Pod

_COUNTED: Final = CountingRule(use_status=True)
MOST_AT_ONCE: Final = 10
"""A proposal comes again in a minute if that was not enough."""


def who_gives_way(pods: Iterable[Pod], *, node: str, resource: str, lacking_nanos: int) -> tuple[Pod, ...]:
    """Choose placeholders of a node that hold what is lacking, as few and as small as will do.

    Args:
        pods: Placeholders, of any node.
        node: Which.
        resource: As pods call it: ``cpu``, ``memory``.
        lacking_nanos: How much is wanted; where it is 0 or less how much is not known, and one goes.

    Returns:
        The smallest that is enough, else the largest and so on; empty = none of that node holds any.
    """
    held = [(pod_requests(pod, _COUNTED).get(resource, 0), pod.name, pod) for pod in pods if _may_go(pod, node)]
    left = sorted((one for one in held if one[0] > 0), key=lambda one: one[:2])
    chosen: list[Pod] = []
    lacking = max(lacking_nanos, 1)
    while left and lacking > 0 and len(chosen) < MOST_AT_ONCE:
        index = next((place for place, one in enumerate(left) if one[0] >= lacking), len(left) - 1)
        amount, _, pod = left.pop(index)
        chosen.append(pod)
        lacking -= amount
    return tuple(chosen)


def _may_go(pod: Pod, node: str) -> bool:
    return pod.node_name == node and buffer_uid_of(pod) is not None and is_living(pod)
