"""One evaluation of the node, step by step: windows, recommendations, what a plan is made of, metrics.

Node. It calls core and holds no rule. On the thread ``control``; the newest result is there for any thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.core.cluster.pod import QosClass
from agent.core.cluster.unit import UnitIdentity
from agent.core.cluster.workload import RUN_KINDS, Workload
from agent.core.plan.needs.demands import Measurements
from agent.core.plan.tier_room import TierMemory
from agent.core.recommender.recommendation import Recommendations
from agent.core.window.cold_file import asked_for
from agent.core.window.pod_itself import NOT_MEASURED, PodItself
from agent.core.window.short_life import short_life_minute
from agent.core.window.snapshot import UnitStatus
from agent.node.history.learner import Learner, is_sized
from agent.node.recommender.decider import Decider, in_short
from agent.node.recommender.evaluation_series import EvaluationSeries
from agent.node.sampling.observer import MINUTE_NS, Observer
from agent.node.sampling.parts import SamplingParts
from agent.node.sampling.pod_observer import PodObserver
from agent.node.sampling.row_source import Rows
from agent.node.sampling.short_lives import ShortLife

if TYPE_CHECKING:
    from agent.node.recommender.pod_orders import PodOrders
    from agent.node.recommender.start_ups import StartUps

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What the newest evaluation gave: the data of a plan."""

    taken_monotonic_ns: int
    """When the readings were; CLOCK_MONOTONIC."""
    recommendations: Recommendations
    measured: Measurements
    waiting_ratios: tuple[float | None, ...]
    """Of every container over the newest seconds, PSI some, throttling taken out; None = not known."""
    tiers: Mapping[QosClass, TierMemory] = field(default_factory=dict)
    """The QoS tiers whose cgroup limits memory."""


class Evaluator:
    """Evaluates the node, and sums up its minutes."""

    def __init__(
        self,
        *,
        sampling: SamplingParts,
        observer: Observer,
        pods: PodObserver,
        learner: Learner,
        decider: Decider,
        series: EvaluationSeries,
        # Knows the policies that pods ask for, besides that of the settings; None = no pod can ask
        orders: PodOrders | None,
        # Knows what was used by pods that started boosted; None = no pod can be
        start_ups: StartUps | None = None,
    ) -> None:
        self._sampling, self._observer, self._pods = sampling, observer, pods
        self._learner, self._decider = learner, decider
        self._series, self._orders, self._start_ups = series, orders, start_ups
        self.newest: Evaluation | None = None
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
        taken_ns = time.monotonic_ns()
        borne = self._decider.sources.borne()
        decided = self._decider.decide(statuses, borne=borne)
        tiers = self._pods.tiers()
        self.newest = Evaluation(
            taken_monotonic_ns=taken_ns,
            recommendations=decided,
            measured=to_measured(statuses, borne),
            waiting_ratios=tuple(status.cpu.last_waiting_ratio for status in statuses),
            tiers=to_tier_memory(tiers),
        )
        self._observer.advice = {
            item.identity.cgroup_path: in_short(item, decided.min_span_seconds) for item in decided.items
        }
        pods = self._pods.pods(is_stopping=is_stopping) if self._series.per_container else ()
        self._series.publish(observed, decided.items, tiers=tiers, pods=pods)

    def _warn_of_gone_root(self) -> None:
        is_gone = self._sampling.discovery.is_root_gone
        if is_gone and not self._was_root_gone:
            log.warning("the cgroup root is gone: nothing is watched until it is back")
        self._was_root_gone = is_gone

    def roll_minutes(self, now_ns: int, is_stopping: Callable[[], bool]) -> None:
        """Sum up the minute that ended, learn it, and count the readings in it that gave no figure."""
        written: list[tuple[UnitIdentity, Rows]] = []

        def write(identity: UnitIdentity, row: Rows) -> None:
            if self._start_ups is not None:
                unix_minute = self._learner.clock.unix_minute(int(row["monotonic_minute"][0]))
                row = self._start_ups.learnt(identity, row, unix_minute)
            written.append((identity, row))

        try:
            gaps = self._observer.roll_minutes(
                now_ns=now_ns, is_stopping=is_stopping, on_row=lambda unit, row: write(unit.identity, row)
            ).gaps
            if not is_stopping():  # a minute of these alone would keep the next start from learning the rest of it
                minute = now_ns // MINUTE_NS - 1
                lives = self._sampling.ends.lives.take_until((minute + 1) * MINUTE_NS)
                written += short_life_rows(lives, self._learner.workload_of, monotonic_minute=minute)
        finally:
            self._learner.learn(written)  # what the rings have is not written again: it is learnt now or never
        self._series.count_gaps(gaps)


def short_life_rows(
    lives: Iterable[ShortLife], workload_of: Callable[[UnitIdentity], Workload | None], *, monotonic_minute: int
) -> list[tuple[UnitIdentity, Rows]]:
    """Return the minute rows of containers that ended young, of which no sweep need have told.

    Those of Jobs are left out, as runs size them, and those whose pod has gone: whose they were is not known any more.

    Args:
        monotonic_minute: The minute that is learnt next: one that was learnt takes nothing more.
    """
    owned_lives = [(life, workload_of(life.unit.identity)) for life in lives]
    return [
        (life.unit.identity, short_life_minute(life.working_set_bytes, monotonic_minute=monotonic_minute))
        for life, workload in owned_lives
        if workload is not None and workload.kind not in RUN_KINDS
    ]


def to_measured(statuses: Iterable[UnitStatus], borne: Mapping[str, PodItself]) -> Measurements:
    """Return the newest figures as they are asked for, by pod uid and container, where both are known.

    Args:
        statuses: Of all containers.
        borne: What pods use in none of their containers, by the path of the container with which it counts.
    """
    current: dict[tuple[str, str], int] = {}
    working_sets: dict[tuple[str, str], int] = {}
    cpu_pressure: set[tuple[str, str]] = set()
    for status in statuses:
        identity, memory = status.identity, asked_for(status.memory)
        if identity.pod_uid is None or identity.container is None:
            continue
        beside = borne.get(identity.cgroup_path, NOT_MEASURED)
        if memory.current_bytes is not None:
            used = memory.current_bytes + (beside.held_current_bytes or 0)
            current[identity.pod_uid, identity.container] = used
        if memory.working_set_bytes is not None:
            used = memory.working_set_bytes + (beside.held_working_set_bytes or 0)
            working_sets[identity.pod_uid, identity.container] = used
        if status.cpu.last_waiting_ratio is not None:
            cpu_pressure.add((identity.pod_uid, identity.container))
    return Measurements(
        memory_current_bytes=current, working_set_bytes=working_sets, cpu_pressure=frozenset(cpu_pressure)
    )


def to_tier_memory(tiers: Iterable[UnitStatus]) -> dict[QosClass, TierMemory]:
    """Return the QoS tiers that limit memory, by class; of a node with a system partition the tightest of a class."""
    by_class: dict[QosClass, TierMemory] = {}
    for tier in tiers:
        qos, limit_bytes = tier.identity.qos, tier.memory_max_bytes
        if qos is None or limit_bytes is None:
            continue
        if qos not in by_class or limit_bytes < by_class[qos].limit_bytes:
            by_class[qos] = TierMemory(limit_bytes=limit_bytes, working_set_bytes=tier.memory.working_set_bytes)
    return by_class
