"""Who decides about evictions for the whole cluster: the agents only propose. Webhook.

One proposal after the other: what memory says of it (``core.arbiter``), then the pod and its workload, read anew, then
what the replacement would be admitted with. Who may go is handed to ``evicting``; in mode recommend that is not even
made. Whatever is in doubt, nobody goes.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from agent.core.admission.answer import Admission
from agent.core.admission.options import AdmissionSettings
from agent.core.cluster.node import Namespace
from agent.core.cluster.pod import Pod
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload, workload_of
from agent.core.eviction.arbiter import (
    ArbiterRules,
    Owner,
    first_look,
    gain_ruling,
    requirements_ruling,
    second_look,
    window_ruling,
)
from agent.core.eviction.budget import missing_ruling
from agent.core.eviction.options import ArbiterOptions, EvictionMode
from agent.core.eviction.proposal import MAX_PROPOSALS, EvictionReply, Proposal, Reason, Ruling, Verdict
from agent.core.eviction.replacement import replacement_of, to_be_created
from agent.core.numbers.amount_text import amount_text
from agent.core.numbers.token_bucket import TokenBucket
from agent.core.orders.cluster_rules import rule_of
from agent.core.orders.order import Orders
from agent.core.orders.resolution import orders_of
from agent.kube.client.api import Api
from agent.webhook.clocks import REAL_CLOCKS, Clocks
from agent.webhook.cluster.facts import ClusterFacts
from agent.webhook.eviction.evictions import Evictions
from agent.webhook.eviction.reads import read_pod, read_replicas
from agent.webhook.store.evictions import EvictionStore, EvictionWish

log = logging.getLogger(__name__)

CALL_SECONDS: Final = 4.0
"""For all proposals of one call; the rest is put off. Agents wait ten by default, and one eviction may take five."""


GiveWay = Callable[[str, Proposal, Callable[[], Ruling | None]], Ruling | None]
"""By node, proposal, and what says why nobody may go at the moment, None = somebody may."""


class Arbiter:
    """Decides; see the module's docstring. Any thread."""

    def __init__(
        self,
        *,
        api: Api,
        store: EvictionStore,
        facts: ClusterFacts,
        admission: Callable[[Pod], Admission],
        options: ArbiterOptions,
        sizing: AdmissionSettings,
        give_way: GiveWay = lambda _node, _proposal, _doubt: None,
        clocks: Clocks = REAL_CLOCKS,
    ) -> None:
        """Take the parts.

        Args:
            store: What was evicted, shared by all replicas; not looked at in mode recommend.
            admission: What this webhook would make of a pod that is created now; any thread, from memory.
            sizing: By which pods are sized, at admission and on the nodes.
            give_way: Has placeholder pods of a node make room for what is proposed; None = there are none.
            clocks: Budgets go by the store's clock, where it has one; waits by the monotonic one.
        """
        self._api, self._facts, self._admission = api, facts, admission
        self._options, self._sizing, self._give_way = options, sizing, give_way
        self._wall_now, self._clock = clocks.wall, clocks.monotonic
        self._evictions: Evictions | None = None
        if options.mode is EvictionMode.ENFORCE:
            self._evictions = Evictions(
                api=api, store=store, options=options, doubt=self._doubt, wall_now=clocks.wall, clock=clocks.monotonic
            )
        self._rules = ArbiterRules(arbiter=options, act=sizing.act, plan=sizing.plan, bounds=sizing.bounds)
        self._lock = threading.Lock()
        """Of what follows."""
        self._reads = TokenBucket(options.pod_reads_per_minute, now_seconds=clocks.monotonic())
        self._counts: Counter[tuple[Verdict, Reason]] = Counter()

    def decide(self, node: str, proposals: Sequence[Proposal]) -> tuple[EvictionReply, ...]:
        """Return one reply for each pod that a node (by its token) proposes; in mode enforce evict who may go."""
        until = self._clock() + CALL_SECONDS
        self.settle_old()
        replies: dict[str, EvictionReply] = {}
        for proposal in sorted(proposals, key=lambda candidate: candidate.order):
            uid = proposal.ref.uid
            if uid in replies:
                continue
            if len(replies) >= MAX_PROPOSALS:
                ruling = Ruling(reason=Reason.TOO_MANY, detail=f"at most {MAX_PROPOSALS} proposals in one call")
            elif self._clock() >= until:
                ruling = Ruling(reason=Reason.OUT_OF_TIME, detail="propose it again")
            else:
                ruling = self._decided(node, proposal)
            replies[uid] = EvictionReply(pod_uid=uid, ruling=ruling)
            with self._lock:
                self._counts[ruling.verdict, ruling.reason] += 1
        return tuple(replies.values())

    def counts(self) -> Mapping[tuple[Verdict, Reason], int]:
        """Return how many proposals were answered with what since the start, for metrics."""
        with self._lock:
            return dict(self._counts)

    def settle_old(self) -> None:
        """Check evictions that a killed replica left behind; every few seconds at most. Never raises."""
        if self._evictions is not None:
            self._evictions.settle_old()

    def _decided(self, node: str, proposal: Proposal) -> Ruling:
        try:
            return self._decide(node, proposal)
        except Exception:  # a pod that cannot be judged must not stand in the way of the node's others, nor of answers
            log.exception("a proposal could not be judged", extra={"pod": str(proposal.ref), "node": node})
            return Ruling(reason=Reason.UNREADABLE, detail="judging it failed; see the webhook's log")

    def _decide(self, node: str, proposal: Proposal) -> Ruling:
        # Real pods come first, in mode recommend too: placeholders are ours, and there to give way.
        ruling = self._doubt() or self._first_look(node, proposal) or self._give_way(node, proposal, self._doubt)
        if ruling is not None:
            return ruling
        if not self._may_read():
            most = self._options.pod_reads_per_minute
            return Ruling(
                reason=Reason.READ_BUDGET, detail=f"{most} pods were looked at in this minute, at most {most}"
            )
        pod = read_pod(self._api, proposal.ref)
        return pod if isinstance(pod, Ruling) else self._decide_on(node, proposal, pod)

    def _first_look(self, node: str, proposal: Proposal) -> Ruling | None:
        place, owner = self._facts.pod(proposal.ref.uid), None
        if place is not None:
            owner = self._owner(place.workload)
        return first_look(proposal, node, place, owner, self._rules)

    def _owner(self, workload: Workload) -> Owner:
        vpa = self._facts.vpa_orders(workload)
        owner = Owner(frozen=self._facts.frozen(workload), left_alone_for=self._facts.left_alone_for(workload))
        if vpa is None:
            return owner
        return replace(
            owner,
            autoscaler=vpa.name,
            running=self._facts.replicas(workload),
            min_replicas=vpa.min_replicas,
            requirements=vpa.eviction_requirements,
        )

    def _decide_on(self, node: str, proposal: Proposal, pod: Pod) -> Ruling:
        workload, now, options = workload_of(pod), self._wall_now(), self._options
        namespace, orders = self._orders(pod, workload)
        ruling = second_look(proposal, node, pod, orders, namespace, self._rules, now_unix_seconds=now)
        if ruling is None and orders.windows is not None:
            windows = self._sizing.read_windows(orders.windows)
            ruling = window_ruling(windows, now_unix_seconds=now, rules=self._rules)
        ruling = ruling or self._gain(proposal, pod, self._owner(workload))
        if ruling is not None:
            return ruling
        replicas = read_replicas(self._api, workload)
        if isinstance(replicas, Ruling):
            return replicas
        if self._evictions is None:
            would = Ruling(reason=Reason.WOULD_EVICT, detail="the webhook only recommends (arbiter.mode)")
            return missing_ruling(replicas, 0, options) or would
        wish = EvictionWish(
            ref=proposal.ref, workload=workload, node=node, want=proposal.want, needed=_needed_text(proposal)
        )
        return self._evictions.evict(wish, replicas)

    def _gain(self, proposal: Proposal, pod: Pod, owner: Owner) -> Ruling | None:
        admission = self._admission(to_be_created(pod))
        replacement = replacement_of(pod, admission, proposal.want.resource)
        if isinstance(replacement, Ruling):
            return replacement
        targets = {resource: replacement_of(pod, admission, resource) for resource in Resource}
        return gain_ruling(proposal, pod, replacement) or requirements_ruling(owner, pod, targets)

    def _orders(self, pod: Pod, workload: Workload) -> tuple[Namespace | None, Orders]:
        namespace, vpa = self._facts.namespace(pod.namespace), self._facts.vpa_orders(workload)
        orders = orders_of(
            pod,
            namespace,
            act=self._sizing.act,
            recommend_policy=self._sizing.policy,
            plan=self._sizing.plan,
            rule=rule_of(self._facts.rules(), workload),
            autoscaler={} if vpa is None else vpa.on_nodes,
            read_windows=self._sizing.read_windows,
        )
        return namespace, orders

    def _doubt(self) -> Ruling | None:
        if not self._facts.is_complete:
            return Ruling(reason=Reason.FACTS_UNKNOWN, detail="the cluster has not been read as a whole yet")
        age, most = self._facts.age_seconds, self._options.stale_seconds
        if age is None or age > most:
            heard = "never" if age is None else f"{age:.0f} s ago"
            return Ruling(reason=Reason.FACTS_UNKNOWN, detail=f"the API server was heard {heard}, at most {most:g} s")
        pause = self._facts.rules().pause_reason
        return None if pause is None else Ruling(reason=Reason.PAUSED, detail=pause)

    def _may_read(self) -> bool:
        with self._lock:
            return self._reads.take(self._clock())


def _needed_text(proposal: Proposal) -> str:
    resource = proposal.want.resource
    needed = proposal.needed.of(resource)
    return "" if needed is None else f"its node says that it needs {amount_text(needed, resource.unit)}"
