"""Which nodes reported, and whose pods each of them had in its newest report.

Webhook; under the lock of the index that owns it.
"""

from __future__ import annotations

from dataclasses import dataclass
from sys import intern

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import NodeClass, NodeSums, SampledReport
from agent.core.history.workloads.hour_sketch import ReportInterval
from agent.webhook.workloads.entries import WorkloadEntry
from agent.webhook.workloads.shapes import NodeSeen


@dataclass(slots=True)
class _Node:
    node_class: NodeClass
    first: int
    newest: tuple[int, int]
    """End and sequence of the newest report."""
    entries: tuple[WorkloadEntry, ...]
    plan: NodeSums | None
    tells_plan: bool


class ReportingNodes:
    """The nodes, by name; in which order their reports come does not matter."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def see(
        self, report: SampledReport, interval: ReportInterval, node_class: NodeClass, entries: tuple[WorkloadEntry, ...]
    ) -> None:
        """Record a report with these workloads in it."""
        newest = interval.end_unix_seconds, report.sequence
        known = self._nodes.get(report.node)
        if known is None:
            self._nodes[intern(report.node)] = _Node(
                node_class, interval.start_unix_seconds, newest, entries, report.plan, report.tells_plan
            )
            return
        known.first = min(known.first, interval.start_unix_seconds)
        if newest > known.newest:
            known.newest, known.node_class, known.entries = newest, node_class, entries
            known.plan, known.tells_plan = report.plan, report.tells_plan

    def forget(self, node: str) -> None:
        """Forget a node until it reports again."""
        self._nodes.pop(node, None)

    def expire(self, oldest_unix_seconds: int) -> None:
        """Forget the nodes whose newest report ended before that."""
        for name in [name for name, node in self._nodes.items() if node.newest[0] < oldest_unix_seconds]:
            del self._nodes[name]

    def workloads_on(self, node: str) -> tuple[Workload, ...]:
        """Return the workloads of a node's newest report, in order; empty = it is not known."""
        seen = self._nodes.get(node)
        return () if seen is None else tuple(sorted(entry.workload for entry in seen.entries))

    def listed(self) -> tuple[NodeSeen, ...]:
        """List them in order of name."""
        return tuple(
            NodeSeen(
                name=name,
                node_class=node.node_class,
                first_unix_seconds=float(node.first),
                last_unix_seconds=float(node.newest[0]),
                workloads=len(node.entries),
                plan=node.plan,
                tells_plan=node.tells_plan,
            )
            for name, node in sorted(self._nodes.items())
        )
