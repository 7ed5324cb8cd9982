"""The plan of this node, from what the API tells, what was measured and what people have ordered. Node.

It calls core and holds no rule. The acting thread plans to act; the serving thread to answer. Nothing is written here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from agent.core.cluster.node import NodeState
from agent.core.cluster.versions import Gates, gates_of
from agent.core.cluster.workload import Workload
from agent.core.plan.demand import Constraint, PodDemand, Urgent
from agent.core.plan.demands import NOTHING_MEASURED, DemandSettings, Key, Measured, demands
from agent.core.plan.directives import Directed
from agent.core.plan.plan import Plan
from agent.core.plan.planner import build
from agent.core.plan.pod_facts import PodFactsCache
from agent.core.plan.tier_room import NO_TIER_LIMITS
from agent.core.resize.ledger import Ledger
from agent.node.orders.holds import Holds
from agent.node.recommender.evaluation import Evaluated
from agent.settings import Settings

NOTHING_URGENT: Final[Mapping[Key, Urgent]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What people and the ledger say of pods at the moment."""

    pinned: frozenset[str]
    constraints: Mapping[str, Constraint]
    is_barred: Callable[[Workload], bool]
    """The workload may not be shrunk for now."""
    is_limit_held: Callable[[Workload, str], bool]
    """A container's memory limit may not rise again yet."""

    @classmethod
    def of(cls, ledger: Ledger, holds: Holds, state: NodeState, *, now_seconds: float, wall_now: float) -> Holding:
        """Ask both; the caller holds the ledger's lock."""
        return cls(
            pinned=holds.pinned(wall_now),
            constraints=ledger.constraints(state, now_seconds),
            is_barred=lambda workload: ledger.is_shrink_barred(workload, now_seconds),
            is_limit_held=lambda workload, name: ledger.is_memory_limit_held(workload, name, now_seconds),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan with what it was made of."""

    plan: Plan
    state: NodeState
    demands: Mapping[str, PodDemand]
    gates: Gates
    measured: Measured
    directed: Directed
    """What the webhook had told."""


class Planner:
    """Plans; see the module's docstring. Any thread."""

    def __init__(
        self,
        *,
        settings: Settings,
        state: Callable[[], NodeState],
        directed: Callable[[], Directed],
        evaluated: Callable[[], Evaluated | None],  # Returns the newest recommendations; None = there are none yet
        wall_now: Callable[[], float],  # Unix seconds; the pods' ages are counted by it
    ) -> None:
        self._settings, self._state, self._directed = settings, state, directed
        self._evaluated, self._wall_now = evaluated, wall_now
        self._demand_settings = DemandSettings(
            act=settings.act, plan=settings.plan, bounds=settings.bounds, policy=settings.recommend.policy
        )
        self._pod_facts, self._building = PodFactsCache(), threading.Lock()

    def plan(
        self, holding: Holding, *, urgent: Mapping[Key, Urgent] = NOTHING_URGENT, as_enforced: bool = False
    ) -> Planned:
        """Plan by the newest state; ``as_enforced``: as if every pod in mode recommend were enforced."""
        now, state, evaluated = self._wall_now(), self._state(), self._evaluated()
        directed = self._directed()
        measured = evaluated.measured if evaluated is not None else NOTHING_MEASURED
        needs = demands(
            state,
            evaluated.recommendations.items if evaluated is not None else (),
            settings=self._demand_settings,
            pinned=holding.pinned,
            barred=holding.is_barred,
            now_unix_seconds=now,
            urgent=urgent,
            measured=measured,
            directed=directed,
            limit_held=holding.is_limit_held,
            as_enforced=as_enforced,
        )
        gates = gates_of(state.server_version, state.node)
        with self._building:  # the cache is one; ten milliseconds
            plan = build(
                state,
                needs,
                constraints=holding.constraints,
                gates=gates,
                options=self._settings.plan,
                bounds=self._settings.bounds,
                taken_unix_seconds=now,
                cache=self._pod_facts,
                tiers=evaluated.tiers if evaluated is not None else NO_TIER_LIMITS,
            )
        return Planned(
            plan=plan,
            state=state,
            demands={demand.pod.uid: demand for demand in needs},
            gates=gates,
            measured=measured,
            directed=directed,
        )
