"""A node that stands still: rows and a history that nobody adds to, and what it should request at one moment of them.

Node. The state files of an agent at rest and a recording are both answered for by this; it calls core and holds no
rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.core.cluster.unit import UnitIdentity
from agent.core.plan.needs.directives import NOTHING_TOLD, NodeDirectives
from agent.core.recommender.explanation import Explanations
from agent.core.recommender.recommendation import Recommendations
from agent.core.recommender.unit_names import chosen_by
from agent.node.history.clock import HistoryClock
from agent.node.history.file import HistoryFile
from agent.node.history.learner import Learner, NamedPods, is_sized
from agent.node.history.quality import QualityKeeper
from agent.node.recommender.decider import Decider, DecisionSources
from agent.node.sampling.heartbeat import SweepHeartbeat
from agent.node.sampling.observer import Observer
from agent.node.sampling.row_source import Rows, RowSource
from agent.node.sampling.unit_table import UnitTable
from agent.node.sampling.window_settings import window_policy
from agent.sensing.machine import Machine
from agent.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class StillMeasured:
    """What was measured on a node up to a moment."""

    rows: RowSource
    units: UnitTable
    history: HistoryFile
    pods: NamedPods
    clock: HistoryClock
    """Of the history; its now is the moment asked about."""
    end_monotonic_ns: int
    """That moment on CLOCK_MONOTONIC."""
    interval_seconds: float
    """Between two samples."""
    slow_interval_seconds: float
    """Between two memory rows."""
    tells_file_use: bool = True
    """Whether the kernel's lists did; of a recording it is not known."""


class StillNode:
    """Answers for its units; see the module's docstring."""

    def __init__(
        self,
        *,
        settings: Settings,
        measured: StillMeasured,
        node: str,
        capacity_millicores: int | None = None,  # CPU of the node; None = that of this machine
        source: str,  # What the answers say of where they come from
        notes: Sequence[str],  # What is degraded, one sentence each
        directed: Callable[[], NodeDirectives] = lambda: NOTHING_TOLD,
    ) -> None:
        self._rows, self._units, self._notes = measured.rows, measured.units, tuple(notes)
        machine = Machine(node)
        self._learner: Final = Learner(
            history=measured.history,
            policy=settings.recommend.policy,
            options=settings,
            pods=measured.pods,
            clock=measured.clock,
        )
        self._learner.restore(lambda: False)
        self._observer: Final = Observer(
            rings=measured.rows,
            units=measured.units,
            machine=machine,
            heartbeat=SweepHeartbeat(
                measured.interval_seconds,
                slow_interval_seconds=measured.slow_interval_seconds,
                sampler_name="none",
            ),
            windows=window_policy(
                settings,
                capacity_millicores=capacity_millicores or machine.capacity_millicores,
                tells_file_use=measured.tells_file_use,
            ),
            source=source,
            clock_ns=lambda: measured.end_monotonic_ns,
        )
        self._decider: Final = Decider(
            settings=settings,
            learner=self._learner,
            node=node,
            source=source,
            sources=DecisionSources(directed=directed, quality_of=QualityKeeper(measured.history).of_row),
        )

    def learn_minutes(self, *, until_monotonic_ns: int) -> None:
        """Learn minutes that are later than the history; those that nobody summed up are made of the readings."""
        self._observer.roll_minutes(now_ns=until_monotonic_ns)
        newest = self._learner.history.newest_unix_minute
        written: list[tuple[UnitIdentity, Rows]] = []
        for unit in self._units.all():
            rows = self._rows.minutes(unit.slot).joined()
            if newest is not None:
                rows = rows[rows["monotonic_minute"].astype(np.int64) + self._learner.clock.unix_minute(0) > newest]
            written += [(unit.identity, rows[place : place + 1]) for place in range(rows.size)]
        self._learner.learn(written)

    def recommendations(self) -> Recommendations:
        """Recommend for every unit."""
        return self._decider.listing(self._observer.statuses(self._units.all()), self._notes)

    def explanations(self, name: str, trail_seconds: float) -> Explanations:
        """Report everything behind the recommendation of one pod, container or other unit.

        Args:
            trail_seconds: How far back the picture of usage goes; 0 = none is asked for.
        """
        known = (unit.identity for unit in self._units.all())
        units = chosen_by(name, known, workload_of=lambda identity: self._learner.place_of(identity).belonging.workload)
        chosen = {identity.cgroup_path for identity in units}
        statuses = self._observer.statuses(unit for unit in self._units.all() if unit.identity.cgroup_path in chosen)
        pods = {identity.pod_uid for identity in units if identity.pod_uid is not None}
        beside = (
            unit
            for unit in self._units.all()
            if unit.identity.pod_uid in pods and unit.identity.cgroup_path not in chosen
        )
        return self._decider.explain(
            statuses,
            trail_seconds=trail_seconds,
            minutes_of=self._observer.minutes_of,
            notes=self._notes,
            beside=self._observer.statuses(unit for unit in beside if is_sized(unit.identity)),
        )
