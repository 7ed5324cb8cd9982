"""One evaluation of the node, step by step: windows, recommendations, what a plan is made of, metrics.

Node. It calls core and holds no rule. On the thread ``control``; the newest result is there for any thread.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from agent.core.cluster.unit import UnitIdentity
from agent.core.plan.demands import Measured
from agent.core.recommender.recommendation import Recommendation, Recommendations, Withheld
from agent.core.window.ring_rows import Has, Status
from agent.core.window.snapshot import Gap, UnitStatus
from agent.metrics.agent_series import Metrics
from agent.metrics.container_series import Labels, Totals, to_container_series
from agent.node.history.learner import Learner, is_sized
from agent.node.recommender.decider import Decider, in_short
from agent.node.sampling.observer import Observer
from agent.node.sampling.parts import SamplingParts
from agent.node.sampling.row_source import Rows
from agent.node.sampling.unit_table import WatchedUnit

if TYPE_CHECKING:
    from agent.node.recommender.pod_orders import PodOrders

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """What the newest evaluation gave: the data of a plan."""

    taken_monotonic_seconds: float
    recommendations: Recommendations
    measured: Measured
    waiting_ratios: tuple[float | None, ...]
    """Of every container over the newest seconds, PSI some, throttling taken out; None = not known."""


class Evaluator:
    """Evaluates the node, and sums up its minutes."""

    def __init__(
        self,
        *,
        sampling: SamplingParts,
        observer: Observer,
        learner: Learner,
        decider: Decider,
        metrics: Metrics,
        # Knows the policies that pods ask for, besides that of the settings; None = no pod can ask
        orders: PodOrders | None,
        per_container: bool,
    ) -> None:
        self._sampling, self._observer, self._learner, self._decider = sampling, observer, learner, decider
        self._metrics, self._orders, self._per_container = metrics, orders, per_container
        self.newest: Evaluated | None = None
        """None = nothing has been evaluated yet."""
        self._was_root_gone = False

    def waiting_ratios(self) -> tuple[float | None, ...]:
        """Return how much every container waited for CPU, as of the newest evaluation."""
        return () if self.newest is None else self.newest.waiting_ratios

    def evaluate(self, is_stopping: Callable[[], bool]) -> None:
        """Evaluate all units once.

        Args:
            is_stopping: Asked between two containers: a full node takes longer than the end may.
        """
        if self._orders is not None:
            self._learner.require(self._orders.policies(), is_stopping)
        self._warn_of_gone_root()
        units = [unit for unit in self._sampling.units.all() if is_sized(unit.identity)]
        observed = self._observer.observe(units, is_stopping)
        if is_stopping():
            return
        statuses = [status for _, status in observed]
        decided = self._decider.decide(statuses)
        self.newest = Evaluated(
            taken_monotonic_seconds=time.monotonic(),
            recommendations=decided,
            measured=to_measured(statuses),
            waiting_ratios=tuple(status.cpu.last_waiting_ratio for status in statuses),
        )
        self._observer.advice = {
            item.identity.cgroup_path: in_short(item, decided.min_span_seconds) for item in decided.items
        }
        self._publish_sums(statuses, decided.items)
        if self._per_container:
            self._publish_containers(observed, decided.items)

    def _warn_of_gone_root(self) -> None:
        is_gone = self._sampling.discovery.is_root_gone
        if is_gone and not self._was_root_gone:
            log.warning("the cgroup root is gone: nothing is watched until it is back")
        self._was_root_gone = is_gone

    def _publish_sums(self, statuses: list[UnitStatus], items: Sequence[Recommendation]) -> None:
        self._metrics.set_slack(cpu_millicores=_cpu_slack(statuses), memory_bytes=_memory_slack(statuses))
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
            to_container_series(status, waiting_usec_total=None, throttled_usec_total=None, recommendation=item)
            for (_, status), item in zip(observed, items, strict=True)
        ]
        labels = {unit.slot: (unit.inode, row.labels) for (unit, _), row in zip(observed, series, strict=True)}
        self._metrics.publish_containers(series, lambda: self._totals(labels))

    def _totals(self, labels: Mapping[int, tuple[int, Labels]]) -> Totals:
        """Return the counters of all units, read at once for a scrape.

        Args:
            labels: Slot -> the inode of the unit whose slot it was when it was evaluated, and its labels. A slot that
                went to another cgroup since has no counter of that unit.
        """
        rings = self._sampling.rings
        rows = rings.newest_rows(list(labels))
        is_same = [rings.inode(slot) == inode for slot, (inode, _) in labels.items()]  # after the reading
        is_good = (rows["status"] == Status.OK) & np.array(is_same, dtype=np.bool_)
        waiting, throttled = (
            [value if known else None for value, known in zip(rows[name].tolist(), known.tolist(), strict=True)]
            for name, known in (
                ("cpu_some_usec", is_good & (rows["has"] & Has.PRESSURE > 0)),
                ("throttled_usec", is_good & (rows["has"] & Has.THROTTLED > 0)),
            )
        )
        names = (name for _, name in labels.values())
        return dict(zip(names, zip(waiting, throttled, strict=True), strict=True))

    def roll_minutes(self, now_ns: int, is_stopping: Callable[[], bool]) -> None:
        """Sum up the minute that ended, learn it, and count the readings in it that gave no figure."""
        written: list[tuple[UnitIdentity, Rows]] = []
        try:
            gaps = self._observer.roll_minutes(
                now_ns=now_ns, is_stopping=is_stopping, on_row=lambda unit, row: written.append((unit.identity, row))
            ).gaps
        finally:
            self._learner.learn(written)  # what the rings have is not written again: it is learnt now or never
        for reason, count in gaps.items():
            self._metrics.count_dropped_samples(reason, count)
        if gaps.get(Gap.COUNTER_RESET):
            self._metrics.count_counter_reset("cpu.stat", gaps[Gap.COUNTER_RESET])


def to_measured(statuses: Iterable[UnitStatus]) -> Measured:
    """Return the newest memory figures by pod uid and container, of containers of which both are known."""
    current: dict[tuple[str, str], int] = {}
    working_sets: dict[tuple[str, str], int] = {}
    for status in statuses:
        identity, memory = status.identity, status.memory
        if identity.pod_uid is None or identity.container is None:
            continue
        if memory.current_bytes is not None:
            current[identity.pod_uid, identity.container] = memory.current_bytes
        if memory.working_set_bytes is not None:
            working_sets[identity.pod_uid, identity.container] = memory.working_set_bytes
    return Measured(memory_current_bytes=current, working_set_bytes=working_sets)


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


def _memory_slack(statuses: list[UnitStatus]) -> int | None:
    known = [
        s.resources.memory_request_bytes - s.memory.working_set_bytes
        for s in statuses
        if s.resources.memory_request_bytes is not None and s.memory.working_set_bytes is not None
    ]
    return sum(known) if known else None
