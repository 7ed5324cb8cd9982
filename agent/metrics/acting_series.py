"""The series of planning and acting: what was resized, what stands in the way, how full the node is by the plan.

Metrics. Registered into the page of ``agent_series``; out-of-memory kills are counted there, as they need no API.
Closed label sets stand at 0 from the start; what is measured is not there until it has been.
"""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from agent.core.cluster.resource import Resource
from agent.core.orders.order import Mode
from agent.core.plan.demand import Kept, Reserved
from agent.core.plan.plan import ContainerPlan, Plan, ResourcePlan
from agent.core.plan.pod_change import Change
from agent.core.resize.decision import Outcome

RESIZE_BUCKETS_SECONDS: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""From the patch to the kubelet's answer: it looks at once, and again each minute."""
PLAN_BUCKETS_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)
RESIZE_RESULTS: Final = (
    Outcome.ACCEPTED,
    Outcome.APPLIED,
    Outcome.DEFERRED,
    Outcome.INFEASIBLE,
    Outcome.REJECTED,
    Outcome.CONFLICT,
    Outcome.ERROR,
    Outcome.REVERTED,
)
"""What can come of a resize that was sent. One that is applied was counted as accepted before."""


BARRIERS: Final = ("paused", "api", "pods", "measuring", "history", "directives", "rights", "versions")
"""Why nothing at all is written: the reasons of ``agent.node.resize.barriers``."""


class Direction(StrEnum):
    """Which way a request or limit goes."""

    UP = "up"
    DOWN = "down"


class Trigger(StrEnum):
    """What asked for a plan."""

    INTERVAL = "interval"
    NEWS = "news"
    """The pods or the node object changed."""
    PRESSURE = "pressure"
    OUT_OF_MEMORY = "out_of_memory"
    ORDER = "order"
    """A person: resume, unpin, restore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Amount:
    """One figure of a plan's sums, for CPU and for memory."""

    stem: str
    text: str


_AMOUNTS: Final = (
    _Amount(stem="allocatable", text="the node has for pods"),
    _Amount(stem="reserved", text="is held by pods that may not be optimised"),
    _Amount(stem="available", text="is left for pods that may be optimised: allocatable less reserved"),
    _Amount(stem="planned", text="the plan gives to the pods that may be optimised, headroom included"),
    _Amount(stem="requested_after_plan", text="pods that may be optimised request once all steps are done"),
    _Amount(stem="spike_headroom", text="is shared out beyond sustained demand"),
)


class _PlanGauges:
    """The sums of the newest plan; not on the page before there is one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: Mapping[Resource, ResourcePlan] = {}
        self._pending_seconds: float | None = None

    def take(self, plan: Plan | None) -> None:
        sums = {} if plan is None else {resource: plan.resource(resource) for resource in Resource}
        with self._lock:
            self._sums = sums

    def set_pending(self, seconds: float | None) -> None:
        with self._lock:
            self._pending_seconds = seconds

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            sums, pending = self._sums, self._pending_seconds
        for resource, noun, unit, scale in (
            (Resource.CPU, "CPU", "cores", 1000.0),
            (Resource.MEMORY, "Memory", "bytes", 1.0),
        ):
            for amount in _AMOUNTS:
                name = f"plimsoll_{amount.stem}_{resource}_{unit}"
                family = GaugeMetricFamily(name, f"{noun} that {amount.text}.", unit=unit)
                if resource in sums:
                    family.add_metric((), _figure(sums[resource], amount.stem) / scale)
                yield family
        family = GaugeMetricFamily(
            "plimsoll_resize_pending_oldest_seconds",
            "Age of the oldest resize that the kubelet has put off; absent while there is none.",
            unit="seconds",
        )
        if pending is not None:
            family.add_metric((), pending)
        yield family


def _figure(sums: ResourcePlan, stem: str) -> int:
    figures = {
        "allocatable": sums.allocatable,
        "reserved": sums.reserved,
        "available": sums.available,
        "planned": sums.final_total,
        "requested_after_plan": sums.applied_total,
        "spike_headroom": sums.headroom,
    }
    return figures[stem]


class ActingSeries:
    """All series of planning and acting. Methods may be called from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        resizes = Counter(
            "plimsoll_resizes_total",
            "Resizes by resource, direction and what came of them; accepted ones are counted again when settled.",
            ("resource", "direction", "result"),
            registry=registry,
        )
        self._resizes = {
            (resource, direction, result): resizes.labels(resource, direction, result)
            for resource in Resource
            for direction in Direction
            for result in RESIZE_RESULTS
        }
        self._duration = Histogram(
            "plimsoll_resize_duration_seconds",
            "Time from an accepted patch until the kubelet has it in force.",
            unit="seconds",
            buckets=RESIZE_BUCKETS_SECONDS,
            registry=registry,
        )
        blocked = Gauge(
            "plimsoll_resize_blocked",
            "Requests and limits that the newest plan would move and does not, by reason.",
            ("reason",),
            registry=registry,
        )
        self._blocked = {reason: blocked.labels(reason) for reason in Kept}
        reserved = Gauge(
            "plimsoll_pods_reserved",
            "Pods whose requests stay as they are, by reason.",
            ("reason",),
            registry=registry,
        )
        self._reserved = {reason: reserved.labels(reason) for reason in Reserved}
        modes = Gauge("plimsoll_pods", "Pods of the newest plan by mode.", ("mode",), registry=registry)
        self._modes = {mode: modes.labels(mode) for mode in Mode}
        evictions = Counter(
            "plimsoll_evictions_proposed_total",
            "Evictions proposed, by the resource that is short; the agent itself evicts nobody.",
            ("resource",),
            registry=registry,
        )
        self._evictions = {resource: evictions.labels(resource) for resource in Resource}
        infeasible = Gauge(
            "plimsoll_plan_infeasible",
            "1 = the newest plan does not fit whoever goes: nothing is written for this resource.",
            ("resource",),
            registry=registry,
        )
        self._infeasible = {resource: infeasible.labels(resource) for resource in Resource}
        plans = Counter("plimsoll_plans_total", "Plans made, by what asked for them.", ("trigger",), registry=registry)
        self._plans = {trigger: plans.labels(trigger) for trigger in Trigger}
        self._plan_duration = Histogram(
            "plimsoll_plan_duration_seconds",
            "Time that making one plan took.",
            unit="seconds",
            buckets=PLAN_BUCKETS_SECONDS,
            registry=registry,
        )
        self._unsound = Counter(
            "plimsoll_plans_unsound_total",
            "Plans of which an invariant did not hold: none was carried out; a fault of Plimsoll's own.",
            registry=registry,
        )
        self._paused = Gauge("plimsoll_paused", "1 = nothing is written on this node.", registry=registry)
        self._dry_run = Gauge(
            "plimsoll_dry_run",
            "1 = recommend only: no pod in mode enforce, no right to write, or a token that does not name this node.",
            registry=registry,
        )
        barred = Gauge(
            "plimsoll_writes_barred",
            "1 = nothing at all is written on this node, for this reason.",
            ("reason",),
            registry=registry,
        )
        self._barred = {reason: barred.labels(reason) for reason in BARRIERS}
        self._pinned = Gauge("plimsoll_pinned_pods", "Pods left alone by plimsoll pin.", registry=registry)
        self._overloaded = Gauge("plimsoll_overloaded", "1 = load and pressure are too high.", registry=registry)
        self._tainted = Gauge("plimsoll_overload_tainted", "1 = the node has the overload taint.", registry=registry)
        self._faults = Gauge(
            "plimsoll_annotation_faults",
            "Pods with an annotation that is not understood; each is treated as off.",
            registry=registry,
        )
        self._gauges = _PlanGauges()
        registry.register(self._gauges)

    def count_changes(self, changes: Iterable[Change], result: Outcome) -> None:
        """Count a resize for each resource and direction that it moves, whatever it is called in its pod.

        Raises:
            KeyError: A result that no resize can have: a fault of the caller.
        """
        for resource, direction in {
            (change.resource, Direction.UP if change.after > change.before else Direction.DOWN) for change in changes
        }:
            self._resizes[resource, direction, result].inc()

    def observe_resize(self, seconds: float) -> None:
        """Count how long the kubelet took."""
        self._duration.observe(max(0.0, seconds))

    def set_pending_oldest(self, seconds: float | None) -> None:
        """Say how long the oldest deferred resize waits; None = none does."""
        self._gauges.set_pending(seconds)

    def take_plan(self, plan: Plan, *, trigger: Trigger, seconds: float) -> None:
        """Count a plan and show its figures.

        Args:
            plan: As it was built.
            trigger: What asked for it.
            seconds: What building it took.
        """
        self._plans[trigger].inc()
        self._plan_duration.observe(max(0.0, seconds))
        if not plan.is_sound:
            self._unsound.inc()
        self._gauges.take(plan)
        for resource, infeasible in self._infeasible.items():
            infeasible.set(plan.resource(resource).is_infeasible)
        self.set_blocked(kept_counts(plan))
        reserved = Tally(pod.reserved for pod in plan.pods if pod.reserved is not None)
        for reason, gauge in self._reserved.items():
            gauge.set(reserved[reason])
        modes = Tally(pod.mode for pod in plan.pods)
        for mode, gauge in self._modes.items():
            gauge.set(modes[mode])

    def forget_plan(self) -> None:
        """Take the figures of the newest plan off the page: it is too old to be believed."""
        self._gauges.take(None)

    def set_blocked(self, counts: Mapping[Kept, int]) -> None:
        """Say what stands in the way; a reason that is not there counts 0."""
        for reason, gauge in self._blocked.items():
            gauge.set(counts.get(reason, 0))

    def count_eviction(self, resource: Resource) -> None:
        """Count an eviction that is proposed anew."""
        self._evictions[resource].inc()

    def set_holding(self, *, is_paused: bool, pinned: int) -> None:
        """Say what people have ordered."""
        self._paused.set(is_paused)
        self._pinned.set(pinned)

    def set_dry_run(self, *, is_dry_run: bool) -> None:
        """Say whether this agent only recommends, whatever the pods' modes are."""
        self._dry_run.set(is_dry_run)

    def set_barred(self, reason: str | None) -> None:
        """Say why nothing at all is written, by one of ``BARRIERS``; None = nothing stands in the way."""
        for known, gauge in self._barred.items():
            gauge.set(known == reason)

    def set_overload(self, *, is_overloaded: bool, is_tainted: bool) -> None:
        """Say whether the node is over the red line, and whether others can see it."""
        self._overloaded.set(is_overloaded)
        self._tainted.set(is_tainted)

    def set_annotation_faults(self, pods: int) -> None:
        """Say how many pods have an annotation that is not understood."""
        self._faults.set(pods)


def kept_counts(plan: Plan) -> dict[Kept, int]:
    """Count why requests and limits of a plan are not moved, over containers and budgets of all pods."""
    kept: Tally[Kept] = Tally()
    for pod in plan.pods:
        for container in (*pod.containers, *(() if pod.budget is None else (pod.budget,))):
            kept.update(_kept(container))
    return dict(kept)


def _kept(container: ContainerPlan) -> Iterable[Kept]:
    for share in (container.cpu, container.memory):
        if share is not None:
            yield from (reason for reason in (share.kept, share.limit_kept) if reason is not None)
