"""What nodes told of how good their sizing was, the newest of each; merged when somebody asks. Webhook.

Whoever calls holds the index' lock. Nothing of it is in the database: nodes keep their seven days themselves and tell
them four times an hour. What a node that is gone told last counts for as long as a part of the window is in it. One
container of a workload on one node takes about 400 bytes, the figures 168 of them; there are at most
`MOST_NODE_QUALITIES`, and those beyond are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.core.cluster.workload import Workload
from agent.core.history.minute.minute_codec import decode, encode
from agent.core.history.minute.minutes import CPU_STEPS, KIB
from agent.core.history.minute.quality import (
    PEAK_FIELDS,
    QUALITY_FIELDS,
    REQUEST_FIELDS,
    WINDOWS,
    QualityWindows,
    to_windows,
)
from agent.core.numbers.arrays import Floats

MOST_NODE_QUALITIES: Final = 200_000
"""Containers of workloads by node: 80 MB."""
_AMOUNTS: Final = REQUEST_FIELDS - 2
_UNITS: Final[Floats] = np.array(
    [
        # Thousandths of CPU-seconds and eighths of millicores; KiB-hours and KiB: what the codes are exact to.
        *[1.0, 1.0, *[1e3] * _AMOUNTS] * 2,
        *[1.0, *[float(CPU_STEPS)] * (PEAK_FIELDS - 1)],
        *[1.0, 1.0, *[1.0 / KIB] * _AMOUNTS] * 2,
        *[1.0, *[1.0 / KIB] * (PEAK_FIELDS - 1)],
    ]
)
_SHAPE: Final = (len(WINDOWS), QUALITY_FIELDS)


@dataclass(frozen=True, slots=True)
class NodeQuality:
    """What one node told of one container of a workload."""

    last_unix_seconds: int
    """Until when it was judged."""
    codes: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedQuality:
    """One container of a workload, or a workload, over all nodes."""

    windows: QualityWindows
    nodes: int
    """That told of it within the longest window."""


class NodeQualities:
    """The newest quality report of each node, by workload and container."""

    def __init__(self) -> None:
        self._known: dict[Workload, dict[str, dict[str, NodeQuality]]] = {}
        """By workload, container and node."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def take(
        self, workload: Workload, container: str, node: str, figures: tuple[tuple[float, ...], ...], last: int
    ) -> None:
        """Record what a node tells; what it told of a later time stays."""
        by_node = self._known.setdefault(workload, {}).setdefault(container, {})
        before = by_node.get(node)
        if before is None:
            if self._count >= MOST_NODE_QUALITIES:
                return
            self._count += 1
        elif before.last_unix_seconds > last:
            return
        amounts = np.array([row[:QUALITY_FIELDS] for row in figures]) * _UNITS
        by_node[node] = NodeQuality(last, encode(amounts, np.ones(_SHAPE, dtype=np.bool_)).tobytes())

    def merged(self, workload: Workload, now_unix_seconds: float) -> Mapping[str, MergedQuality]:
        """Return the containers of a workload of which something is known, merged over the nodes."""
        by_container: dict[str, MergedQuality] = {}
        for container, by_node in self._known.get(workload, {}).items():
            figures, nodes = _sum(by_node, now_unix_seconds)
            if nodes:
                by_container[container] = MergedQuality(windows=to_windows(figures), nodes=nodes)
        return by_container

    def of_workload(self, workload: Workload, now_unix_seconds: float) -> MergedQuality | None:
        """Return a workload as a whole, merged over its containers and the nodes; None = nothing is known."""
        every = [_sum(by_node, now_unix_seconds) for by_node in self._known.get(workload, {}).values()]
        nodes = max((nodes for _, nodes in every), default=0)
        if not nodes:
            return None
        total: Floats = np.sum([figures for figures, _ in every], axis=0)
        return MergedQuality(windows=to_windows(total), nodes=nodes)

    def forget(self, workload: Workload) -> None:
        """Forget a workload; it may be unknown."""
        self._count -= sum(map(len, self._known.pop(workload, {}).values()))

    def workloads(self) -> list[Workload]:
        """List the workloads of which something is known, in no order."""
        return list(self._known)

    def forget_node(self, workload: Workload, node: str) -> None:
        """Forget what a node told of a workload."""
        self._keep(workload, lambda name, _: name != node)

    def expire(self, workload: Workload, now_unix_seconds: float) -> None:
        """Forget what was told of a workload before the longest window."""
        oldest = now_unix_seconds - WINDOWS[-1].seconds
        self._keep(workload, lambda _, quality: quality.last_unix_seconds > oldest)

    def _keep(self, workload: Workload, is_kept: Callable[[str, NodeQuality], bool]) -> None:
        containers = self._known.get(workload, {})
        for container, by_node in list(containers.items()):
            left = {node: quality for node, quality in by_node.items() if is_kept(node, quality)}
            self._count -= len(by_node) - len(left)
            if left:
                containers[container] = left
            else:
                del containers[container]
        if not containers:
            self._known.pop(workload, None)


def _sum(by_node: Mapping[str, NodeQuality], now_unix_seconds: float) -> tuple[Floats, int]:
    """Return the figures over nodes, and how many of them count at least in the longest window."""
    ages = np.array([now_unix_seconds - quality.last_unix_seconds for quality in by_node.values()])
    codes = np.frombuffer(b"".join(quality.codes for quality in by_node.values()), dtype=np.uint16)
    amounts, _ = decode(codes.reshape(-1, *_SHAPE))
    counts = ages[:, np.newaxis] < np.array([window.seconds for window in WINDOWS])
    total: Floats = (amounts * counts[:, :, np.newaxis]).sum(axis=0) / _UNITS
    return total, int(counts[:, -1].sum())
