"""What an evaluation shows on the metrics page: sums of the node, tiers, and rows of pods and containers. Node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.recommender.recommendation import Recommendation, Withheld
from agent.core.window.ring_rows import Has, Status
from agent.core.window.snapshot import Gap, PodStatus, UnitStatus
from agent.metrics.agent_series import Metrics
from agent.metrics.container_series import ContainerTotals, Labels, Totals, to_container_series
from agent.node.sampling.row_source import Rows
from agent.node.sampling.unit_table import WatchedUnit
from agent.sensing.ring_file import RingFile


class EvaluationSeries:
    """Puts what was evaluated into the agent's series."""

    def __init__(self, metrics: Metrics, rings: RingFile, *, per_container: bool) -> None:
        self._metrics, self._rings = metrics, rings
        self.per_container: Final = per_container
        """Whether pods and containers have series of their own."""

    def publish(
        self,
        observed: Sequence[tuple[WatchedUnit, UnitStatus]],
        items: Sequence[Recommendation],
        *,
        tiers: Sequence[UnitStatus],
        pods: Sequence[PodStatus],
    ) -> None:
        """Show an evaluation.

        Args:
            observed: Containers, each with its unit.
            items: What is recommended for each, in the same order.
            tiers: QoS tiers.
            pods: Whole pods; shown as containers are.
        """
        self._publish_sums([status for _, status in observed], items)
        self._metrics.tiers.publish(tiers)
        if self.per_container:
            self._publish_containers(observed, items)
            self._metrics.publish_pods(pods)

    def count_gaps(self, gaps: Mapping[Gap, int]) -> None:
        """Count the readings of a minute that gave no figure, by reason."""
        for reason, count in gaps.items():
            self._metrics.count_dropped_samples(reason, count)
        if gaps.get(Gap.COUNTER_RESET):
            self._metrics.count_counter_reset("cpu.stat", gaps[Gap.COUNTER_RESET])

    def _publish_sums(self, statuses: list[UnitStatus], items: Sequence[Recommendation]) -> None:
        self._metrics.set_slack(cpu_millicores=_cpu_slack(statuses), memory_bytes=_memory_slack(statuses))
        self._metrics.set_cold_file(_cold_file(statuses))
        cpu, memory = advised(items)
        self._metrics.set_advised(
            cpu_requested_millicores=cpu[0],
            cpu_recommended_millicores=cpu[1],
            memory_requested_bytes=memory[0],
            memory_recommended_bytes=memory[1],
        )
        self._metrics.set_withheld(withheld_counts(items))

    def _publish_containers(
        self, observed: Sequence[tuple[WatchedUnit, UnitStatus]], items: Sequence[Recommendation]
    ) -> None:
        series = [
            to_container_series(status, recommendation=item) for (_, status), item in zip(observed, items, strict=True)
        ]
        labels = {unit.slot: (unit.inode, row.labels) for (unit, _), row in zip(observed, series, strict=True)}
        self._metrics.publish_containers(series, lambda: totals_of(self._rings, labels))


TOTALS: Final = (
    (True, "cpu_some_usec", Has.PRESSURE),
    (True, "throttled_usec", Has.THROTTLED),
    (True, "cpu_full_usec", Has.FULL),
    (False, "memory_some_usec", Has.MEMORY_PRESSURE),
    (False, "memory_full_usec", Has.MEMORY_PRESSURE),
    (False, "high_events", Has.MEMORY_EVENTS),
    (False, "io_some_usec", Has.IO_PRESSURE),
)
"""Of each field of ``ContainerTotals``, in order: whether it stands in raw rows or in memory rows, where, and the flag
without which it means nothing."""


def totals_of(rings: RingFile, labels: Mapping[int, tuple[int, Labels]]) -> Totals:
    """Return the counters of all units, read at once for a scrape.

    Args:
        rings: Of the sampler.
        labels: Slot -> the inode of the unit whose slot it was when it was evaluated, and its labels. A slot that went
            to another cgroup since has no counter of that unit.
    """
    rows, memory_rows = rings.newest_rows(list(labels)), rings.newest_memory_rows(list(labels))
    is_same = [rings.inode(slot) == inode for slot, (inode, _) in labels.items()]  # after the reading
    is_there = np.array(is_same, dtype=np.bool_)
    columns = (_known_totals(rows if is_raw else memory_rows, is_there, name, flag) for is_raw, name, flag in TOTALS)
    names = (name for _, name in labels.values())
    return dict(zip(names, map(ContainerTotals._make, zip(*columns, strict=True)), strict=True))


def _known_totals(rows: Rows, is_there: NDArray[np.bool_], name: str, flag: Has) -> list[int | None]:
    """Return a column of counters; None where it is not known."""
    is_known = is_there & (rows["status"] == Status.OK) & (rows["has"] & np.uint32(flag) > 0)
    return [value if known else None for value, known in zip(rows[name].tolist(), is_known.tolist(), strict=True)]


def withheld_counts(items: Iterable[Recommendation]) -> Counter[tuple[str, Withheld]]:
    """Count what is not recommended, by resource and reason."""
    counts: Counter[tuple[str, Withheld]] = Counter()
    for item in items:
        for resource, advice in (("cpu", item.cpu_millicores), ("memory", item.memory_bytes)):
            if advice.withheld is not None:
                counts[resource, advice.withheld] += 1
    return counts


Sums = tuple[int | None, int | None]
"""Requested, recommended."""


def advised(items: Sequence[Recommendation]) -> tuple[Sums, Sums]:
    """Sum up what is requested and what is recommended, over containers of which both are known.

    Returns:
        Of CPU in millicores, and of memory in bytes; both None where no container counts.
    """
    cpu = [(item.resources.cpu_request_millicores, item.cpu_millicores.request) for item in items]
    memory = [(item.resources.memory_request_bytes, item.memory_bytes.request) for item in items]
    return _sums(cpu), _sums(memory)


def _sums(pairs: Iterable[Sums]) -> Sums:
    known = [(asked, advice) for asked, advice in pairs if asked is not None and advice is not None]
    if not known:
        return None, None
    return sum(asked for asked, _ in known), sum(advice for _, advice in known)


def _cpu_slack(statuses: list[UnitStatus]) -> float | None:
    known = [
        s.resources.cpu_request_millicores - s.cpu.usage_p75_millicores
        for s in statuses
        if s.resources.cpu_request_millicores is not None and s.cpu.usage_p75_millicores is not None
    ]
    return sum(known) if known else None


def _cold_file(statuses: list[UnitStatus]) -> int | None:
    known = [status.memory.cold_file.total_bytes for status in statuses if status.memory.cold_file is not None]
    return sum(known) if known else None


def _memory_slack(statuses: list[UnitStatus]) -> int | None:
    known = [
        s.resources.memory_request_bytes - s.memory.working_set_bytes
        for s in statuses
        if s.resources.memory_request_bytes is not None and s.memory.working_set_bytes is not None
    ]
    return sum(known) if known else None
