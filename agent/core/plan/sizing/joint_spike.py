"""How far the pods of a plan were seen above their bases at the same time. Core, pure.

Of CPU alone: only its demand is remembered together. Who is evicted is not decided by it, as nobody goes for a burst.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from agent.core.cluster.resource import Resource
from agent.core.plan.needs.demands import FLOAT_NOISE, Key
from agent.core.plan.plan import JointSpike
from agent.core.plan.sizing.entry import PodEntry
from agent.core.plan.sizing.fit import Fit
from agent.core.recommender.policy import SeenTogether

Together = Callable[[Mapping[Key, int]], SeenTogether | None]
"""Returns what containers may be expected to demand together in CPU, of their bases in millicores; one that nothing is
known of counts with its base. None = not known."""


def joint_spike(
    fit: Fit, entries: Sequence[PodEntry], together: Together | None, *, is_interim: bool = False
) -> JointSpike | None:
    """Return the spike of all who stay on the node as one; None = what they demanded together is not known.

    Interim: with those who are proposed to go.
    """
    if together is None or fit.resource is not Resource.CPU:
        return None
    bases: dict[Key, int] = {}
    total = 0
    for entry in entries:
        if entry.is_evicted and not is_interim:
            continue
        for unit in entry.cpu.units:
            if unit.request is not None:
                total += unit.sustained
                containers = entry.cpu.inside or (unit,)
                for part in containers:  # those that share a budget are only known one by one
                    bases[entry.pod.cgroup_uid, part.name] = unit.sustained // len(containers)
    seen = together(bases) if bases else None
    if seen is None:
        return None
    return JointSpike(
        amount=max(0, math.ceil(seen.demand_millicores - total - FLOAT_NOISE)), seen_unix_seconds=seen.unix_seconds
    )
