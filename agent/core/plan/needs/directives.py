"""How what the webhook told changes what a node does: orders, pods left alone, frozen axes, peaks. Core, pure.

How long words are believed without being said again:

- what **restrains** (left alone for a VPA, frozen for an HPA, a pause, a mode of off or recommend) holds until told
  otherwise: an HPA does not end because the webhook is away;
- what **lets** (mode protect or enforce by the cluster's rules or a VerticalPodAutoscaler) holds for a day, then the
  agent's own settings do;
- a target of an HPA that moves with the requests frees them for a quarter of an hour: nobody would move it any more;
- peaks and out-of-memory figures of other nodes are of seven days, and are believed as long;
- a stop of shrinking ends with its own time, counted from when it was told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from agent.core.cluster.facts import FrozenAxes
from agent.core.cluster.hpa import UtilizationTarget, is_whole_workload_left
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.history.reports.directive import AutoscalerDirective, ContainerDirective, Directives, WorkloadDirective
from agent.core.orders import annotations as names
from agent.core.orders.enforce_share import EnforceShare, TakenBack
from agent.core.orders.order import Mode
from agent.core.plan.needs.demand import ReservedReason

STALE_SECONDS: Final = 86_400.0
"""Unsaid for longer, directives are old: it is told, and nothing is enforced any more on their word alone."""
PRESERVED_SECONDS: Final = 900.0
"""Nodes report each five minutes; unsaid for longer, requests that an HPA divides by are frozen again."""
PEAKS_BELIEVED_SECONDS: Final = 7 * 86_400.0
_NO_ORDERS: Final[Mapping[str, str]] = {}
_NOTHING_FROZEN: Final = FrozenAxes()
_WORSE: Final = "its pods fared worse than the others"
_RESIZING: Final = frozenset(str(mode) for mode in Mode if mode.resizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDirectives:
    """What a node was told, by workload, and how old it is at the moment."""

    directives: Directives | None = None
    """None = the webhook has told nothing yet, or there is none."""
    age_seconds: float = 0.0
    """Since the webhook last said that they hold."""
    told_seconds: float = 0.0
    """Since these very words came: what counts down, counts from there."""
    by_workload: Mapping[Workload, WorkloadDirective] = field(default_factory=dict)

    @property
    def is_stale(self) -> bool:
        """Return whether the webhook has been silent for too long."""
        return self.directives is not None and self.age_seconds > STALE_SECONDS

    @property
    def pause_reason(self) -> str | None:
        """Return why the cluster is paused; None = it is not."""
        return None if self.directives is None else self.directives.pause_reason

    def rule(self, workload: Workload) -> Mapping[str, str]:
        """Return what the cluster's rules order, by the annotation that would order the same."""
        directive = self.by_workload.get(workload)
        if directive is None:
            return _NO_ORDERS
        rule: dict[str, str] = {}
        if directive.mode is not None and not (self.is_stale and directive.mode.strip() in _RESIZING):
            rule[names.MODE] = directive.mode
        if directive.policy is not None:
            rule[names.POLICY] = directive.policy
        if directive.startup_boost is not None:
            rule[names.STARTUP_BOOST] = directive.startup_boost
        if directive.enforce_share is not None:
            rule[names.ENFORCE_SHARE] = directive.enforce_share
        if directive.windows is not None:
            rule[names.WINDOWS] = directive.windows
        return rule

    def autoscaler(self, workload: Workload) -> Mapping[str, str]:
        """Return what a VerticalPodAutoscaler of ours orders, by the annotation that would order the same."""
        directive = self.by_workload.get(workload)
        if directive is None or directive.autoscaler is None:
            return _NO_ORDERS
        autoscaler = directive.autoscaler
        is_mode_old = autoscaler.mode is not None and self.is_stale and autoscaler.mode.strip() in _RESIZING
        orders = {
            names.MODE: None if is_mode_old else autoscaler.mode,
            names.EVICTION_RANKING: autoscaler.eviction_ranking,
            names.CONTAINER_POLICIES: autoscaler.container_policies,
            names.STARTUP_BOOST: autoscaler.startup_boost,
            names.WINDOWS: autoscaler.windows,
        }
        return {key: text for key, text in orders.items() if text is not None}

    def reserved(self, workload: Workload, share: EnforceShare | None = None) -> ReservedReason | None:
        """Return why a workload is left alone by what the cluster knows; None = it is not.

        ``share`` is the share of it that is to be enforced, None = all of it.
        """
        directive = self.by_workload.get(workload)
        if directive is None:
            return None
        if directive.left_alone_for is not None:
            return ReservedReason.VPA
        taken_back = self.share_taken_back(workload)
        if share is not None and taken_back is not None and taken_back.concerns(share):
            return ReservedReason.SHARE_TAKEN_BACK
        has_both = is_whole_workload_left(self.frozen_axes(workload), freezes_axes=True)
        return ReservedReason.HPA if has_both else None

    def share_taken_back(self, workload: Workload) -> TakenBack | None:
        """Return the share of a workload that is enforced no more; None = there is none."""
        directive = self.by_workload.get(workload)
        if directive is None or directive.share_taken_back is None:
            return None
        return TakenBack(share=directive.share_taken_back, reason=directive.share_taken_back_for or _WORSE)

    def frozen(self, workload: Workload) -> frozenset[Resource]:
        """Return the resources whose requests an HPA divides by, be it those of some containers only."""
        axes = self.frozen_axes(workload)
        return frozenset(resource for resource in Resource if axes.holds(resource, ""))

    def frozen_axes(self, workload: Workload) -> FrozenAxes:
        """Return whose requests an HPA divides by."""
        directive = self.by_workload.get(workload)
        if directive is None:
            return _NOTHING_FROZEN
        frozen = FrozenAxes(
            cpu_for=directive.cpu_frozen_for,
            memory_for=directive.memory_frozen_for,
            cpu_containers=directive.cpu_frozen_containers,
            memory_containers=directive.memory_frozen_containers,
        )
        preserved = self._preserved(directive)
        return frozen.without(preserved) if preserved else frozen

    def _preserved(self, directive: WorkloadDirective) -> Mapping[Resource, str]:
        """Return what is kept of targets that move with the requests, which are free for it."""
        targets = ((Resource.CPU, directive.cpu_preserved), (Resource.MEMORY, directive.memory_preserved))
        if self.age_seconds > PRESERVED_SECONDS:
            return {}
        return {resource: words for resource, words in targets if words is not None}

    def hpa_targets(self, workload: Workload) -> tuple[UtilizationTarget, ...]:
        """Return the shares of requests that autoscalers of a workload want in use; empty = none is known."""
        directive = self.by_workload.get(workload)
        return () if directive is None else directive.hpa_targets

    def shrink_barred_seconds(self, workload: Workload) -> float | None:
        """Return for how much longer a workload may only grow, after a kill somewhere; None = it may shrink."""
        directive = self.by_workload.get(workload)
        if directive is None or directive.stop_shrinking_seconds is None:
            return None
        left_seconds = directive.stop_shrinking_seconds - self.told_seconds
        return left_seconds if left_seconds > 0 else None

    def is_shrink_barred(self, workload: Workload) -> bool:
        """Return whether a workload may only grow for now."""
        return self.shrink_barred_seconds(workload) is not None

    def replicas(self, workload: Workload) -> int | None:
        """Return how many replicas a workload has; None = not known."""
        directive = self.by_workload.get(workload)
        return None if directive is None else directive.replicas

    def elsewhere(self, workload: Workload | None, container: str | None) -> ContainerDirective | None:
        """Return what other nodes saw of a container, where that is still believed."""
        directive = None if workload is None else self.by_workload.get(workload)
        if directive is None or self.age_seconds > PEAKS_BELIEVED_SECONDS:
            return None
        return next((other for other in directive.containers if other.container == container), None)

    def sentences(self, workload: Workload) -> tuple[str, ...]:
        """Return what the webhook told of a workload that changes what is done with it; empty = nothing."""
        directive = self.by_workload.get(workload)
        if directive is None:
            return ()
        sentences = []
        if directive.left_alone_for is not None:
            sentences.append(f"left alone: {directive.left_alone_for} sets its requests")
        taken_back = self.share_taken_back(workload)
        if taken_back is not None:
            sentences.append(f"the enforced share of {taken_back.share} is taken back: {taken_back.reason}")
        preserved = self._preserved(directive)
        for resource, name, owner, containers in (
            (Resource.CPU, "CPU", directive.cpu_frozen_for, directive.cpu_frozen_containers),
            (Resource.MEMORY, "memory", directive.memory_frozen_for, directive.memory_frozen_containers),
        ):
            if owner is not None and resource in preserved:
                sentences.append(f"{name} requests sized: {owner} scales by them, and {preserved[resource]}")
            elif owner is not None:
                whose = "" if containers is None else f" of {', '.join(containers)}"
                sentences.append(f"{name} requests{whose} kept: {owner} scales by them")
        left_seconds = self.shrink_barred_seconds(workload)
        if left_seconds is not None:
            why = directive.stop_shrinking_for or "an out-of-memory kill on some node"
            sentences.append(f"only upward for another {_span(left_seconds)}: {why}")
        if directive.autoscaler is not None and (said := sorted(_said(directive.autoscaler))):
            sentences.append(f"{directive.autoscaler.name} orders {', '.join(said)}")
        if self.is_stale and directive.mode is not None and names.MODE not in self.rule(workload):
            sentences.append(f"mode {directive.mode} of the cluster's rules no longer counts: not said for a day")
        ordered = None if directive.autoscaler is None else directive.autoscaler.mode
        if ordered is not None and names.MODE not in self.autoscaler(workload):
            sentences.append(f"its mode {ordered} no longer counts: not said for a day")
        return tuple(sentences)


NOTHING_TOLD: Final = NodeDirectives()
"""No webhook, or it has not answered yet."""


def by_workload(directives: Directives) -> Mapping[Workload, WorkloadDirective]:
    """Index directives; of two for one workload the first counts."""
    return {directive.workload: directive for directive in reversed(directives.workloads)}


def _said(autoscaler: AutoscalerDirective) -> tuple[str, ...]:
    """Return what an object orders, in words; nothing but the mode and the ranking are short enough to be shown."""
    return (
        *([f"mode {autoscaler.mode}"] if autoscaler.mode is not None else []),
        *([f"ranking {autoscaler.eviction_ranking}"] if autoscaler.eviction_ranking is not None else []),
        *(["container policies"] if autoscaler.container_policies is not None else []),
        *([f"startup boost {autoscaler.startup_boost}"] if autoscaler.startup_boost is not None else []),
        *(["windows"] if autoscaler.windows is not None else []),
    )


def _span(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{max(1, round(seconds / 60))} min"
