"""What a node's plan would set aside for the containers of a trace: their bases and the headroom that they share.

Core, pure. The rule is the plan's (``plan.headroom``): the largest single spike, or what all were seen to demand
together where the policy knows that and it is more, up to all spikes in sum. Bounds, cool-downs and what urgent growth
adds are left out: it is the rule that is judged.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from agent.core.numbers.arrays import Bools
from agent.core.orders.plan_options import HeadroomRule
from agent.core.recommender.policy import JointPolicy, Policy, Proposals

PLAN_MINUTES: Final = 5
"""Between two plans, at the least: what was seen together is kept for each five minutes."""


class NodeHeadroom:
    """Bases, spikes and shares of all containers of one trace. Shape ``(n,)`` each."""

    def __init__(self, policy: Policy, rows: int, rule: HeadroomRule) -> None:
        self._joint = policy if rule is HeadroomRule.JOINT and isinstance(policy, JointPolicy) else None
        self._bases = np.zeros(rows)
        self._spikes = np.zeros(rows)
        self._planned_minute = -PLAN_MINUTES
        self.millicores = np.zeros(rows)
        """What is set aside: base and share of the headroom."""
        self.has = np.zeros(rows, dtype=np.bool_)

    def plan(self, unix_minute: int, is_here: Bools, is_due: Bools, proposals: Proposals) -> None:
        """Plan with the answers of those that are due, at the end of a minute, for those that are here.

        A newcomer is planned for at once.
        """
        taken = is_due & proposals.has_cpu
        is_new = bool((taken & ~self.has).any())
        if not is_new and unix_minute - self._planned_minute < PLAN_MINUTES:
            return
        self._planned_minute = unix_minute
        bases = proposals.cpu_base_millicores
        self._bases = np.where(taken, bases, self._bases)
        self._spikes = np.where(taken, np.maximum(proposals.cpu_peak_millicores - bases, 0.0), self._spikes)
        self.has |= taken
        rows = np.flatnonzero(self.has & is_here)
        spikes, total = self._spikes[rows], float(self._spikes[rows].sum())
        headroom = float(spikes.max(initial=0.0))
        if self._joint is not None:
            seen = self._joint.together(rows, self._bases[rows], now_unix_seconds=(unix_minute + 1) * 60.0)
            if seen is not None:
                headroom = max(headroom, min(seen.demand_millicores - float(self._bases[rows].sum()), total))
        self.millicores[rows] = self._bases[rows] + (headroom / total if total > 0 else 0.0) * spikes
