"""What the other nodes saw of containers of a node: many of them at once, from copies of their rows. Webhook.

A node has some sixty containers, and an array of numpy costs a microsecond before its first figure: container by
container that was most of what a report cost. The rows are copied under the lock of the histories, a few at a time;
what is made of them holds nobody up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from agent.core.cluster.workload import DAEMON_SET_KIND, Workload
from agent.core.history.minute.minute_codec import Codes
from agent.core.history.reports.directive import HOURS, ContainerDirective
from agent.core.history.workloads.node_claims import Most, NodeClaim, claim_of
from agent.core.history.workloads.peak_rings import CPU, MEMORY, PEAKS, RING_HOURS, leaders_of, peaks_without
from agent.core.numbers.arrays import Bools
from agent.core.orders.policy_options import CruiseOptions
from agent.webhook.workloads.entries import ContainerEntry
from agent.webhook.workloads.estimates import HistoryRows, RememberedKills, bytes_of, millicores_of, remembered_kills

Bounds = Callable[[Workload, str, NodeClaim, NodeClaim], Most]
"""Up to what claims of CPU and of memory count, of a container of a workload."""
_RESOURCES: Final = (CPU, MEMORY)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenContainer:
    """What is known of a container, as of one moment."""

    workload: Workload
    container: str
    cpus: tuple[int, ...]
    """Of the classes of nodes that it runs on: one for each of its rows."""
    kills: RememberedKills
    imported: Codes | None = None
    """Imported values by hour up to what counts of them, shape ``(2, 192)``; None = there are none."""


def seen_container(
    workload: Workload, entry: ContainerEntry, history: HistoryRows, options: CruiseOptions, now_unix_seconds: float
) -> SeenContainer:
    """Copy what others are told of a container, but for its rows; ``history``: all rows. Under the histories' lock."""
    return SeenContainer(
        workload=workload,
        container=entry.name,
        cpus=tuple(node_class.cpus for node_class, _ in entry.classes),
        kills=remembered_kills(history, options, now_unix_seconds),
        imported=None if history.imported is None else history.imported_peaks(),
    )


def others_saw(
    containers: Sequence[SeenContainer], planes: Codes, *, node: int, week: Bools, bounds: Bounds
) -> list[ContainerDirective | None]:
    """Return what nodes other than one saw of each container, up to what counts; None = nothing.

    Imported hours are told where no agent told of the hour, this node's neither.

    Args:
        planes: The rows of all containers, one after the other, shape ``(rows, 6, 192)``.
        node: The number of the node that is left out.
        week: The slots that hold hours of the last seven days.
    """
    places = np.cumsum([0, *(len(container.cpus) for container in containers)]).tolist()
    leaders = leaders_of(planes)
    mosts: list[Most] = []
    for container, (start, end) in zip(containers, pairwise(places), strict=True):
        is_by_size = container.workload.kind == DAEMON_SET_KIND
        cpu, memory = (
            claim_of(
                zip((pair[resource] for pair in leaders[start:end]), container.cpus, strict=True), by_size=is_by_size
            )
            for resource in _RESOURCES
        )
        mosts.append(bounds(container.workload, container.container, cpu, memory))
    seen = _largest(peaks_without(planes, node), places)
    seen = np.minimum(seen, np.array([(most.cpu, most.memory) for most in mosts], dtype=np.uint16)[:, :, None])
    for index, container in enumerate(containers):
        if container.imported is not None:
            is_known = planes[places[index] : places[index + 1], PEAKS].any(axis=0)
            seen[index] = np.where(is_known, seen[index], container.imported)
    seen[:, :, ~week] = 0
    # A slot always stands for the same hour of the day: 192 are eight times 24, and hour 0 was a midnight.
    by_hour = seen.reshape(-1, 2, RING_HOURS // HOURS, HOURS).max(axis=2)
    largest = by_hour.max(axis=2).tolist()
    return [
        _directive(container.container, codes, most_codes, container.kills.largest_bytes(most))
        for container, codes, most_codes, most in zip(containers, by_hour.tolist(), largest, mosts, strict=True)
    ]


def _largest(rows: Codes, places: Sequence[int]) -> Codes:
    """Return the largest values of the rows of each container; 0 = it has no row, or none knows the hour."""
    if len(rows) == len(places) - 1 == places[-1] and all(place == index for index, place in enumerate(places)):
        return rows  # of each container one, as where all nodes are of one class
    largest: Codes = np.zeros((len(places) - 1, *rows.shape[1:]), dtype=np.uint16)
    for index, (start, end) in enumerate(pairwise(places)):
        if end > start:
            largest[index] = rows[start:end].max(axis=0)
    return largest


def _directive(
    container: str, codes: list[list[int]], largest: list[int], killed_bytes: int | None
) -> ContainerDirective | None:
    if killed_bytes is None and not any(largest):
        return None
    return ContainerDirective(
        container=container,
        cpu_peak_millicores=millicores_of(largest[CPU]),
        memory_peak_bytes=bytes_of(largest[MEMORY]),
        cpu_hour_peaks_millicores=tuple(map(millicores_of, codes[CPU])) if largest[CPU] else (),
        memory_hour_peaks_bytes=tuple(map(bytes_of, codes[MEMORY])) if largest[MEMORY] else (),
        oom_memory_bytes=killed_bytes,
    )
