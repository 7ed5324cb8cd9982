"""Who says how many nodes may carry the overload taint: nodes ask before they set it. Webhook.

A place is held from the grant on until the watch must have brought the taint: for the grant itself and for as long as
the watch may be silent. So replicas with watches of different ages agree, and the cap holds over all of them.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping

from agent.core.eviction.options import ArbiterOptions
from agent.core.eviction.taint_cap import TaintReason, TaintRuling, cap_ruling
from agent.webhook.cluster.facts import ClusterFacts
from agent.webhook.store.shapes import StoreAway
from agent.webhook.store.taints import TaintStore

log = logging.getLogger(__name__)


class TaintCap:
    """Grants taints within the cap; see the module's docstring. Any thread."""

    def __init__(self, *, store: TaintStore, facts: ClusterFacts, options: ArbiterOptions) -> None:
        self._store, self._facts, self._options = store, facts, options
        self._lock = threading.Lock()
        self._counts: Counter[TaintReason] = Counter()

    def decide(self, node: str) -> TaintRuling:
        """Return whether a node, as the caller's token names it, may taint itself."""
        ruling = self._doubt(node) or self._granted(node)
        with self._lock:
            self._counts[ruling.reason] += 1
        log.info("taint asked for", extra={"node": node, "reason": ruling.reason.value, "detail": ruling.detail})
        return ruling

    def counts(self) -> Mapping[TaintReason, int]:
        """Return how many questions were answered with what since the start, for metrics."""
        with self._lock:
            return dict(self._counts)

    def _granted(self, node: str) -> TaintRuling:
        facts, options = self._facts, self._options

        def judge(granted: frozenset[str]) -> TaintRuling:
            nodes, tainted = facts.node_count(), facts.tainted_nodes()
            return cap_ruling(node, nodes=nodes, tainted=tainted, granted=granted, options=options)

        try:
            return self._store.grant(node, judge, held_seconds=options.taint_grant_seconds + options.stale_seconds)
        except StoreAway as error:
            return TaintRuling(reason=TaintReason.STORE_AWAY, detail=str(error))

    def _doubt(self, node: str) -> TaintRuling | None:
        facts, most_seconds = self._facts, self._options.stale_seconds
        if not facts.is_complete:
            return TaintRuling(reason=TaintReason.FACTS_UNKNOWN, detail="the cluster has not been read as a whole yet")
        age = facts.age_seconds
        if age is None or age > most_seconds:
            heard = "never" if age is None else f"{age:.0f} s ago"
            detail = f"the API server was heard {heard}, at most {most_seconds:g} s"
            return TaintRuling(reason=TaintReason.FACTS_UNKNOWN, detail=detail)
        pause = facts.rules().pause_reason
        if pause is not None:
            return TaintRuling(reason=TaintReason.PAUSED, detail=pause)
        if not facts.has_node(node):
            return TaintRuling(reason=TaintReason.UNKNOWN_NODE, detail=f"no node {node} is known")
        return None
