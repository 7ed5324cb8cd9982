"""What each node is told in the answer to its report: of the workloads that run there, and only what it cannot know.

Webhook. Everything is in memory. The ETag is a digest of what is told, made so that it stays while nothing of weight
changes: peaks are rounded up to three digits, the end of a stop of shrinking to ten minutes, and what remains of it is
not in the digest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from typing import Final, Protocol

import msgspec

from agent.core.autoscalers.vpa_orders import VpaOrders, container_policies_in
from agent.core.cluster.facts import ClusterRules, FrozenAxes
from agent.core.cluster.hpa import is_whole_workload_left
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.history.reports.directive import AutoscalerDirective, ContainerDirective, Directives, WorkloadDirective
from agent.core.history.reports.directive_json import LONGEST_TEXT, MOST_CONTAINERS, MOST_TARGETS, MOST_WORKLOADS
from agent.core.history.workloads.workload_setback import WorkloadSetback
from agent.core.orders import annotations as names
from agent.core.orders.cluster_rules import rule_of
from agent.core.orders.container_policies import ContainerPolicies, ContainerPolicy
from agent.core.orders.enforce_share import TakenBack
from agent.webhook.cluster.facts import ClusterFacts
from agent.webhook.workloads.index import WorkloadIndex

SIGNIFICANT_DIGITS: Final = 3
STOP_STEP_SECONDS: Final = 600.0
STOP_SHRINKING_SECONDS: Final = 86_400.0
"""After an out-of-memory kill anywhere the workload only grows for so long; as ``act.shrinkBarredSeconds`` by default.
"""
MOST_BYTES: Final = 4 << 20
"""Of the directives for one node: half of what an agent reads, as what it refused stands in the same answer."""
CONTAINER_BYTES: Final = 1000
"""Of one container's figures at most, without its name: 51 of up to 14 digits, and what they are called."""
NO_REASON: Final = "no reason given"


class NotKnownYet(Exception):  # noqa: N818 - a state of the world, named as one
    """The cluster or the history has not been read as a whole: what the nodes hold is better than half of it.

    Half a list of HPAs would free workloads that are scaled.
    """


def check_read(facts: ClusterFacts, histories: WorkloadIndex) -> None:
    """Return where cluster and history have been read as a whole.

    Raises:
        NotKnownYet: One of them has not.
    """
    if not facts.is_complete:
        raise NotKnownYet("the cluster's pods, HPAs and VPAs are not all read yet")
    if not histories.is_loaded:
        raise NotKnownYet("the history is not loaded yet")


class Setbacks(Protocol):
    """What was taken back of workloads."""

    def taken_back(self, workload: Workload) -> TakenBack | None:
        """Return the share of a workload that is enforced no more; None = there is none."""

    def shrink_setback(self, workload: Workload) -> WorkloadSetback | None:
        """Return the newest shrink of a workload that was taken back; None = there was none."""


class Director:
    """Says what nodes are told; any thread, and nothing is kept between two answers."""

    def __init__(
        self,
        facts: ClusterFacts,
        histories: WorkloadIndex,
        *,
        stop_shrinking_seconds: float = STOP_SHRINKING_SECONDS,
        freezes_axes: bool = True,
        setbacks: Setbacks | None = None,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        """Take whom to ask.

        Args:
            stop_shrinking_seconds: For how long a workload only grows after a kill; 0 = never.
            freezes_axes: ``admission.hpaFreezesAxes``; False = where an HPA holds one axis, nodes leave the other too.
            setbacks: What was taken back of workloads; None = nothing is.
            pause: Is called between pieces of work of less than a millisecond.
        """
        self._pause = pause
        self._setbacks = setbacks
        self._facts, self._histories = facts, histories
        self._stop_shrinking_seconds = stop_shrinking_seconds
        self._freezes_axes = freezes_axes
        self.left_out = 0
        """Containers that nodes were not told of since the start, as the answer would have been too long."""

    def directives_of(self, node: str, now_unix_seconds: float) -> Directives:
        """Return everything that a node is to know, in order of workloads, with its ETag.

        Raises:
            NotKnownYet: Nothing can be said, so what the node holds must stay.
        """
        check_read(self._facts, self._histories)
        rules = self._facts.rules()
        # A pod may be reported before the watch has brought it, and the other way round.
        bound = {place.workload for place in self._facts.pods_on(node)}
        workloads = sorted({*bound, *self._histories.workloads_on(node)})
        workload_directives, ends = [], []
        workloads = workloads[:MOST_WORKLOADS]
        seen = self._histories.directives_of(workloads, node=node, now_unix_seconds=now_unix_seconds, pause=self._pause)
        self._pause()
        for workload, containers in zip(workloads, seen, strict=True):
            directive, end = self._directive(workload, containers, rules, now_unix_seconds)
            workload_directives.append(directive)
            ends.append(end)
        self._pause()
        workload_directives = self._bounded(workload_directives)
        reason = rules.pause_reason
        directives = Directives(
            etag="",
            pause_reason=None if reason is None else (reason.strip() or NO_REASON)[:LONGEST_TEXT],
            workloads=tuple(workload_directives),
        )
        return replace(directives, etag=_digest(directives, ends))

    def _bounded(self, directives: list[WorkloadDirective]) -> list[WorkloadDirective]:
        """Leave out what other nodes saw where it would be too much: what restrains a node is told of all workloads."""
        left_bytes = MOST_BYTES - sum(
            len(msgspec.json.encode(replace(directive, containers=()))) for directive in directives
        )
        bounded_directives: list[WorkloadDirective] = []
        for directive in directives:
            containers = directive.containers[:MOST_CONTAINERS]
            needed_bytes = sum(CONTAINER_BYTES + len(container.container) for container in containers)
            if needed_bytes > left_bytes:
                containers = ()
            else:
                left_bytes -= needed_bytes
            self.left_out += len(directive.containers) - len(containers)
            bounded_directives.append(
                directive if containers is directive.containers else replace(directive, containers=containers)
            )
        return bounded_directives

    def directive_of(self, workload: Workload, now_unix_seconds: float) -> WorkloadDirective:
        """Return what a node without a history of its own would be told of a workload, for people."""
        containers = self._histories.directive_of(workload, node="", now_unix_seconds=now_unix_seconds)
        return self._directive(workload, containers, self._facts.rules(), now_unix_seconds)[0]

    def _directive(
        self,
        workload: Workload,
        containers: Sequence[ContainerDirective],
        rules: ClusterRules,
        now_unix_seconds: float,
    ) -> tuple[WorkloadDirective, float | None]:
        rule, (frozen, preserved) = rule_of(rules, workload), self._frozen(workload)
        end, stopped_for = self._stop_end(workload, now_unix_seconds)
        taken_back = None if self._setbacks is None else self._setbacks.taken_back(workload)
        vpa = self._facts.vpa_orders(workload)
        policies = ContainerPolicies() if vpa is None else container_policies_in(vpa.on_nodes)
        directive = WorkloadDirective(
            workload=workload,
            mode=_clipped(rule.get(names.MODE)),
            policy=_clipped(rule.get(names.POLICY)),
            startup_boost=_clipped(rule.get(names.STARTUP_BOOST)),
            enforce_share=_clipped(rule.get(names.ENFORCE_SHARE)),
            windows=_clipped(rule.get(names.WINDOWS)),
            left_alone_for=_clipped(self._facts.left_alone_for(workload)),
            cpu_frozen_for=_clipped(frozen.cpu_for),
            memory_frozen_for=_clipped(frozen.memory_for),
            cpu_frozen_containers=_bounded_names(frozen.cpu_containers),
            memory_frozen_containers=_bounded_names(frozen.memory_containers),
            cpu_preserved=_clipped(preserved.get(Resource.CPU)),
            memory_preserved=_clipped(preserved.get(Resource.MEMORY)),
            hpa_targets=self._facts.hpa_targets(workload)[:MOST_TARGETS],
            stop_shrinking_seconds=None if end is None else end - now_unix_seconds,
            stop_shrinking_for=_clipped(stopped_for),
            share_taken_back=None if taken_back is None else _clipped(taken_back.share),
            share_taken_back_for=None if taken_back is None else _clipped(taken_back.reason),
            replicas=self._facts.replicas(workload),
            containers=tuple(
                _rounded(container, policies.of(container.container))
                for container in sorted(containers, key=lambda container: container.container)
            ),
            autoscaler=None if vpa is None else _autoscaler(vpa),
        )
        return directive, end

    def _frozen(self, workload: Workload) -> tuple[FrozenAxes, Mapping[Resource, str]]:
        """Return what an HPA holds: both axes where the whole workload is left, so that nodes do as admission does.

        And what is kept of targets that move with requests, which are held for nodes that do not know of that.
        """
        frozen, preserved = self._facts.scaled_by(workload), self._facts.preserved(workload)
        if not is_whole_workload_left(frozen.without(preserved), freezes_axes=self._freezes_axes):
            return frozen, {resource: target.words() for resource, target in preserved.items()}
        both = FrozenAxes(cpu_for=frozen.cpu_for or frozen.memory_for, memory_for=frozen.memory_for or frozen.cpu_for)
        return both, {}

    def _stop_end(self, workload: Workload, now_unix_seconds: float) -> tuple[float | None, str | None]:
        """Return until when a workload only grows, a whole number of steps, and after what if that was no kill.

        None = it may shrink.
        """
        since, reason = self._histories.newest_kill(workload), None
        setback = None if self._setbacks is None else self._setbacks.shrink_setback(workload)
        if setback is not None and (since is None or since < setback.at_unix_seconds):
            since, reason = setback.at_unix_seconds, f"a pod fared worse after a shrink: {setback.reason}"
        if since is None or not self._stop_shrinking_seconds:
            return None, None
        end = math.ceil((since + self._stop_shrinking_seconds) / STOP_STEP_SECONDS) * STOP_STEP_SECONDS
        return (end, reason) if end > now_unix_seconds else (None, None)


@lru_cache(maxsize=8192)  # the index keeps amounts in steps, so that few come again and again; 1 MB
def rounded_up(amount: int | None) -> int | None:
    """Round up to three significant digits: at most 1 % more, and the same for a while; None stays."""
    if amount is None:
        return None
    step = int(10 ** max(0, len(str(amount)) - SIGNIFICANT_DIGITS))
    return -(-amount // step) * step


def _autoscaler(vpa: VpaOrders) -> AutoscalerDirective | None:
    """Return what an object orders of pods that run; None = nothing."""
    orders = vpa.on_nodes
    if not orders:
        return None
    return AutoscalerDirective(
        name=vpa.name[:LONGEST_TEXT],
        mode=orders.get(names.MODE),
        eviction_ranking=orders.get(names.EVICTION_RANKING),
        container_policies=orders.get(names.CONTAINER_POLICIES),
        startup_boost=orders.get(names.STARTUP_BOOST),
        windows=orders.get(names.WINDOWS),
    )


def _rounded(directive: ContainerDirective, policy: ContainerPolicy) -> ContainerDirective:
    """Round up; a kill counts as what its container's policy makes of it."""
    killed = directive.oom_memory_bytes
    return ContainerDirective(
        container=directive.container,
        cpu_peak_millicores=rounded_up(directive.cpu_peak_millicores),
        memory_peak_bytes=rounded_up(directive.memory_peak_bytes),
        cpu_hour_peaks_millicores=tuple(map(rounded_up, directive.cpu_hour_peaks_millicores)),
        memory_hour_peaks_bytes=tuple(map(rounded_up, directive.memory_hour_peaks_bytes)),
        oom_memory_bytes=rounded_up(None if killed is None else policy.after_kill_bytes(killed)),
    )


def _clipped(text: str | None) -> str | None:
    return text[:LONGEST_TEXT] if text else None


def _bounded_names(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return names of containers; too many stand for all."""
    return None if names is None or len(names) > MOST_CONTAINERS else names


def _digest(directives: Directives, ends: list[float | None]) -> str:
    """Digest what is told, the end of a stop instead of what remains of it.

    Container by container: written at once, a node's thousands of figures would hold up an admission for a millisecond.
    """
    digest = blake2b(msgspec.json.encode((directives.pause_reason, ends)), digest_size=16)
    for workload in directives.workloads:
        # Everything in it has its order, and each piece ends where the next one begins.
        digest.update(msgspec.json.encode(replace(workload, stop_shrinking_seconds=None, containers=())))
        for container in workload.containers:
            digest.update(msgspec.json.encode(container))
    return digest.hexdigest()
