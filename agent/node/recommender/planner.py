"""The plan of this node, from what the API tells, what was measured and what people have ordered. Node.

It calls core and holds no rule. The acting thread plans to act; the serving thread to answer. Nothing is written here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agent.core.cluster.node import NodeState
from agent.core.cluster.versions import Gates, gates_of
from agent.core.cluster.workload import Workload
from agent.core.orders.order import Mode
from agent.core.orders.resolution import windows_unread
from agent.core.orders.windows import Windows
from agent.core.plan.credit import CreditGrounds, answers_soon, at_prices, credits_of, is_tainted, saved_millicores
from agent.core.plan.needs.demand import Constraint, PodDemand, Urgent
from agent.core.plan.needs.demands import NOTHING_MEASURED, DemandSettings, Key, Measurements, demands
from agent.core.plan.needs.directives import NodeDirectives
from agent.core.plan.plan import Plan
from agent.core.plan.planner import build
from agent.core.plan.pod_facts import PodFactsCache
from agent.core.plan.possible_savings import PossibleSavings, possible_savings
from agent.core.plan.sizing.joint_spike import Together
from agent.core.plan.tier_room import NO_TIER_LIMITS
from agent.core.recommender.credit import Credit
from agent.core.recommender.recommendation import Recommendation
from agent.core.resize.constraint import IN_FLIGHT
from agent.core.resize.ledger import Ledger
from agent.node.orders.holds import Holds
from agent.node.recommender.evaluation import Evaluation
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
    is_paused: bool = False

    @classmethod
    def of(cls, ledger: Ledger, holds: Holds, state: NodeState, *, now_seconds: float, wall_now: float) -> Holding:
        """Ask both; the caller holds the ledger's lock."""
        return cls(
            pinned=holds.pinned(wall_now),
            constraints=ledger.constraints(state, now_seconds),
            is_barred=lambda workload: ledger.is_shrink_barred(workload, now_seconds),
            is_limit_held=lambda workload, name: ledger.is_memory_limit_held(workload, name, now_seconds),
            is_paused=holds.is_paused(wall_now),
        )

    def with_unanswered(self, uids: Collection[str]) -> Holding:
        """Return the same with pods of which a resize has no answer: nothing else is planned for them."""
        return replace(self, constraints={**self.constraints, **dict.fromkeys(uids, IN_FLIGHT)})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNode:
    """A plan with what it was made of."""

    plan: Plan
    holding: Holding
    state: NodeState
    demands: Mapping[str, PodDemand]
    gates: Gates
    measured: Measurements
    directed: NodeDirectives
    """What the webhook had told."""
    credits: Mapping[Key, Credit]
    """Of containers whose policy knows what is answered within seconds."""
    credit_saved_millicores: float
    """By how much those with credit ask for less."""
    possible: Mapping[Mode, PossibleSavings]
    """What pods in modes that lower nothing could do without."""


class Planner:
    """Plans; see the module's docstring. Any thread."""

    def __init__(
        self,
        *,
        settings: Settings,
        state: Callable[[], NodeState],
        directed: Callable[[], NodeDirectives],
        evaluated: Callable[[], Evaluation | None],  # Returns the newest recommendations; None = there are none yet
        wall_now: Callable[[], float],  # Unix seconds; the pods' ages are counted by it
        # Gives who tells what those who are recommended for demanded at the same time; None = nobody does
        together: Callable[[Sequence[Recommendation]], Together | None] = lambda items: None,
        read_windows: Callable[[str], Windows] = windows_unread,  # Reads when a pod may be disturbed
    ) -> None:
        self._settings, self._state, self._directed = settings, state, directed
        self._evaluated, self._wall_now, self._together = evaluated, wall_now, together
        self._read_windows = read_windows
        self._demand_settings = DemandSettings(
            act=settings.act, plan=settings.plan, bounds=settings.bounds, policy=settings.recommend.policy
        )
        self._pod_facts, self._building = PodFactsCache(), threading.Lock()
        self._is_overloaded = False

    def heed_overload(self, is_overloaded: bool) -> None:
        """Record whether the node is overloaded by its readings, whether or not a taint says so."""
        self._is_overloaded = is_overloaded

    def plan(
        self, holding: Holding, *, urgent: Mapping[Key, Urgent] = NOTHING_URGENT, as_enforced: bool = False
    ) -> PlannedNode:
        """Plan by the newest state; ``as_enforced``: as if every pod in mode recommend were enforced."""
        now, state, evaluated = self._wall_now(), self._state(), self._evaluated()
        directed = self._directed()
        measured = evaluated.measured if evaluated is not None else NOTHING_MEASURED
        gates = gates_of(state.server_version, state.node)

        def needs_by(items: Sequence[Recommendation]) -> tuple[PodDemand, ...]:
            return demands(
                state,
                items,
                settings=self._demand_settings,
                pinned=holding.pinned,
                barred=holding.is_barred,
                now_unix_seconds=now,
                urgent=urgent,
                measured=measured,
                directed=directed,
                limit_held=holding.is_limit_held,
                as_enforced=as_enforced,
                read_windows=self._read_windows,
            )

        asked = evaluated.recommendations.items if evaluated is not None else ()
        needs = needs_by(asked)
        with self._building:  # the cache is one; ten milliseconds
            credits = credits_of(
                needs,
                asked,
                self._pod_facts.facts_of(state.pods),
                holding.constraints,
                CreditGrounds(
                    gates=gates,
                    allocatable_cpu_millicores=None if state.node is None else state.node.allocatable_cpu_millicores,
                    is_paused=holding.is_paused,
                    is_quick=answers_soon(self._settings.act),
                    is_overloaded=self._is_overloaded or is_tainted(state.node),
                    has_pressure=measured.cpu_pressure,
                ),
            )
            items = at_prices(asked, credits)
            if items is not asked:
                needs = needs_by(items)
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
                together=self._together(items),
            )
        return PlannedNode(
            plan=plan,
            holding=holding,
            state=state,
            demands={demand.pod.uid: demand for demand in needs},
            gates=gates,
            measured=measured,
            directed=directed,
            credits=credits,
            credit_saved_millicores=saved_millicores(items),
            possible=possible_savings(plan, needs, self._settings.bounds),
        )
