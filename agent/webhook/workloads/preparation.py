"""Has policies other than cruise worked out before anybody asks: at the start, and when orders change. Webhook.

Which policy holds for a workload is known from its namespace's annotation, the cluster's rules and the settings. What a
pod orders by an annotation of its own is seen when the watch brings it: the first such pod is admitted as it came, or
under ``plimsoll`` by ``cruise``, and has its workload prepared. A review alone does not: anybody may send one. Only
what another policy holds for takes memory and time.

One thread works (``turn``); any may ask how far it is.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Final

from agent.core.cluster.facts import ClusterRules
from agent.core.cluster.workload import Workload
from agent.core.orders import annotations as names
from agent.core.orders.annotations import ValueNotAllowed
from agent.core.orders.cluster_rules import rule_of
from agent.core.orders.policy_options import PolicyName
from agent.webhook.cluster.facts import ClusterFacts
from agent.webhook.workloads.index import WorkloadIndex
from agent.webhook.workloads.policy_demand import Preparation
from agent.webhook.workloads.rebuilder import Rebuilder

LOOK_SECONDS: Final = 60.0
"""Between two looks at all workloads, as new ones come; changed orders are looked at at once."""
READY_SECONDS: Final = 300.0
"""For so long they may hold up readiness at the start: some 7,000 containers with a fortnight of history on a CPU."""
MOST_ORDERED: Final = 20_000
"""Workloads whose pods order a policy; of more the oldest are forgotten."""
_PIECE: Final = 200


class OrderedPolicies:
    """Policies that pods order by an annotation of their own; any thread."""

    def __init__(self, sized_kinds: Collection[str], excluded_namespaces: Collection[str]) -> None:
        self._sized_kinds, self._excluded = frozenset(sized_kinds), frozenset(excluded_namespaces)
        self._guard = threading.Lock()
        self._ordered: OrderedDict[tuple[Workload, PolicyName], bool] = OrderedDict()
        """True = since the last turn."""

    def is_sized(self, workload: Workload) -> bool:
        """Return whether a workload's pods are sized at all."""
        return workload.kind in self._sized_kinds and workload.namespace not in self._excluded

    def order(self, workload: Workload, text: str) -> None:
        """Record that a pod that is there orders a policy; returns at once."""
        policy = _read(text)
        if policy is None or policy is PolicyName.CRUISE or not self.is_sized(workload):
            return
        with self._guard:
            self._ordered[workload, policy] = True
            if len(self._ordered) > MOST_ORDERED:
                self._ordered.popitem(last=False)

    def waiting(self, *, all_of_them: bool) -> list[tuple[Workload, PolicyName]]:
        """Return the orders that are new since the last turn, or all."""
        with self._guard:
            return [key for key, is_new in self._ordered.items() if is_new or all_of_them]

    def settle(self, workload: Workload, policy: PolicyName, *, is_taken: bool, is_over: bool) -> None:
        """Record what became of an order: it was taken up, or no such pod is there any more."""
        with self._guard:
            if is_over:
                self._ordered.pop((workload, policy), None)
            elif is_taken:
                self._ordered[workload, policy] = False


class Preparing:
    """The policies that must be worked out before readiness, and how far they are."""

    def __init__(
        self,
        facts: ClusterFacts,
        index: WorkloadIndex,
        rebuilder: Rebuilder,
        orders: OrderedPolicies,
        *,
        policy: PolicyName,
        pause: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin; ``policy`` is what holds where nobody has said anything, ``pause`` lets others run now and then."""
        self._facts, self._index, self._rebuilder = facts, index, rebuilder
        self._orders, self._policy, self._clock = orders, policy, clock
        self._pause = pause
        self._rules: ClusterRules | None = None
        self._stated: dict[str, str | None] = {}
        """What namespaces of workloads order, at the last look."""
        self._looked_unix_seconds = 0.0
        self._since_seconds: float | None = None
        self._progress: Preparation | None = None
        self._is_prepared = False

    @property
    def can_begin(self) -> bool:
        """Return whether workloads and orders are known."""
        return self._index.is_loaded and self._facts.is_complete

    @property
    def workloads(self) -> int:
        """Count the workloads for which other policies are worked out."""
        return 0 if self._progress is None else self._progress.required

    def readiness(self) -> tuple[bool, str]:
        """Return whether all was worked out once since the start, or took too long; and in one line why (not).

        Nobody waits for what ``cruise`` stands in for.
        """
        if self._is_prepared:
            return True, "ready"
        if self._since_seconds is None:
            return False, "which policies hold is not looked at yet"
        waited = self._clock() - self._since_seconds
        missing = "which policies hold is not known yet"
        if self._progress is not None:
            done, required = self._progress.done, self._progress.required
            missing = f"policies other than cruise are worked out for {done} of {required} workloads so far"
        if waited < READY_SECONDS:
            return False, f"{missing} ({waited:.0f} s)"
        return True, f"ready, but {missing}"

    def turn(self, now_unix_seconds: float) -> bool:
        """Work out a piece, if one is due; True = somebody may wait for more, else it can wait some seconds."""
        if not self.can_begin:
            return False
        if self._since_seconds is None:
            self._since_seconds = self._clock()
        if self._progress is None or self._is_look_due(now_unix_seconds):
            self._look(now_unix_seconds)
        self._have_ordered(now_unix_seconds)
        worked_out = self._rebuilder.rebuild(now_unix_seconds)
        progress = self._progress = self._index.preparation()
        self._is_prepared = self._is_prepared or not progress.awaited
        return worked_out > 0 and progress.waiting > 0

    def _is_look_due(self, now_unix_seconds: float) -> bool:
        return (
            not 0.0 <= now_unix_seconds - self._looked_unix_seconds < LOOK_SECONDS
            or self._facts.rules() != self._rules
            or any(self._stated_by(name) != text for name, text in self._stated.items())
        )

    def _look(self, now_unix_seconds: float) -> None:
        rules, stated = self._facts.rules(), dict[str, str | None]()
        are_rules_asked = any(rule.policy is not None for rule in rules.rules)
        wanted: dict[Workload, PolicyName] = {}
        for number, workload in enumerate(self._index.known()):
            if number % _PIECE == 0:
                self._pause()
            if not self._orders.is_sized(workload):
                continue
            namespace = workload.namespace
            if namespace not in stated:
                stated[namespace] = self._stated_by(namespace)
            text = stated[namespace]
            if text is None and are_rules_asked:
                text = rule_of(rules, workload).get(names.POLICY)
            policy = self._policy if text is None else _read(text)
            if policy is not None and policy is not PolicyName.CRUISE:
                wanted[workload] = policy
        self._index.require(wanted, now_unix_seconds=now_unix_seconds)
        self._rules, self._stated, self._looked_unix_seconds = rules, stated, now_unix_seconds

    def _have_ordered(self, now_unix_seconds: float) -> None:
        """Require what live pods order: new orders now, and all again at each look, so that they go on."""
        is_looked = self._looked_unix_seconds == now_unix_seconds
        for workload, policy in self._orders.waiting(all_of_them=is_looked):
            is_known = self._index.order(workload, policy, now_unix_seconds)
            is_alive = bool(self._facts.replicas(workload))
            self._orders.settle(workload, policy, is_taken=is_known or not is_alive, is_over=is_looked and not is_alive)

    def _stated_by(self, namespace: str) -> str | None:
        namespace_facts = self._facts.namespace(namespace)
        return None if namespace_facts is None else namespace_facts.annotations.get(names.POLICY)


def _read(text: str) -> PolicyName | None:
    """Read an order; None = it is not understood: its pods are off."""
    try:
        return names.policy_from(text)
    except ValueNotAllowed:
        return None
