"""The series of planning and acting: what was resized, what stands in the way, how full the node is by the plan.

Metrics. Registered into the page of ``agent_series``; out-of-memory kills are counted there, as they need no API.
Closed label sets stand at 0 from the start; what is measured is not there until it has been.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry

from agent.core.cluster.pod import QosClass
from agent.core.cluster.resource import Resource
from agent.core.machine.pod_limits import PodLimitHeld
from agent.core.orders.order import Mode
from agent.core.plan.needs.demand import KeptReason, ReservedReason, Urgent
from agent.core.plan.needs.given_boost import BoostEnd
from agent.core.plan.plan import ContainerPlan, Plan, ResourcePlan
from agent.core.plan.pod_change import Change
from agent.core.plan.possible_savings import PossibleSavings
from agent.core.recommender.credit import Credit
from agent.core.resize.decision import Outcome
from agent.metrics.families import MeasuredFamily, MeasuredGauges, SeriesTable, counter, gauge, histogram

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
    MEMORY = "memory"
    """Somebody is held back at memory.high, or waits for memory at its limit."""
    OUT_OF_MEMORY = "out_of_memory"
    ORDER = "order"
    """A person: resume, unpin, restore."""


class UrgentCause(StrEnum):
    """What showed that a container cannot wait for the next evaluation."""

    CPU_WAITING = "cpu_waiting"
    MEMORY_LIMIT = "memory_limit"
    """Its working set came close to its memory limit."""
    MEMORY_HIGH = "memory_high"
    """It was held back at its memory.high."""
    MEMORY_WAITING = "memory_waiting"
    """It waited for memory at its memory limit."""


LOWERING_NOTHING: Final = (Mode.RECOMMEND, Mode.PROTECT)
_FAMILIES: Final = (
    counter(
        "plimsoll_resizes_total",
        "Resizes by resource, direction and what came of them; accepted ones are counted again when settled.",
        resource=Resource,
        direction=Direction,
        result=RESIZE_RESULTS,
    ),
    histogram(
        "plimsoll_resize_duration_seconds",
        "Time from an accepted patch until the kubelet has it in force.",
        RESIZE_BUCKETS_SECONDS,
        unit="seconds",
    ),
    gauge(
        "plimsoll_resize_blocked",
        "Requests and limits that the newest plan would move and does not, by reason.",
        reason=KeptReason,
    ),
    gauge("plimsoll_pods_reserved", "Pods whose requests stay as they are, by reason.", reason=ReservedReason),
    gauge("plimsoll_pods", "Pods of the newest plan by mode.", mode=Mode),
    gauge(
        "plimsoll_possible_savings_cpu_cores",
        "CPU that pods could do without, in modes that lower nothing.",
        mode=LOWERING_NOTHING,
    ),
    gauge(
        "plimsoll_possible_savings_memory_bytes",
        "Memory that pods could do without, in modes that lower nothing.",
        mode=LOWERING_NOTHING,
    ),
    counter(
        "plimsoll_evictions_proposed_total",
        "Evictions proposed, by the resource that is short; the agent itself evicts nobody.",
        resource=Resource,
    ),
    gauge(
        "plimsoll_plan_infeasible",
        "1 = the newest plan does not fit whoever goes: nothing is written for this resource.",
        resource=Resource,
    ),
    counter(
        "plimsoll_urgent_total",
        "Times that a look at an enforced container found it short, by what showed it.",
        reason=UrgentCause,
    ),
    counter("plimsoll_plans_total", "Plans made, by what asked for them.", trigger=Trigger),
    histogram(
        "plimsoll_plan_duration_seconds", "Time that making one plan took.", PLAN_BUCKETS_SECONDS, unit="seconds"
    ),
    counter(
        "plimsoll_plans_unsound_total",
        "Plans of which an invariant did not hold: none was carried out; a fault of Plimsoll's own.",
    ),
    gauge("plimsoll_paused", "1 = nothing is written on this node."),
    gauge(
        "plimsoll_dry_run",
        "1 = recommend only: no pod in mode protect or enforce, no right to write, or a token that names another node.",
    ),
    gauge("plimsoll_writes_barred", "1 = nothing at all is written on this node, for this reason.", reason=BARRIERS),
    gauge("plimsoll_pinned_pods", "Pods left alone by plimsoll pin."),
    gauge("plimsoll_startup_boosts", "Pods that have more CPU now, while they start."),
    counter(
        "plimsoll_startup_boosts_ended_total",
        "Boosts of starting pods that were taken back, by why the start was over.",
        reason=BoostEnd,
    ),
    gauge(
        "plimsoll_pod_limits", "Pods whose limits by plimsoll.dev/pod-limits the agent has in force in their cgroups."
    ),
    gauge(
        "plimsoll_pod_limits_held",
        "Pods with plimsoll.dev/pod-limits for which the agent writes nothing, by reason.",
        reason=PodLimitHeld,
    ),
    gauge(
        "plimsoll_credit_containers",
        "Containers whose policy asks for less CPU where starvation is answered within seconds: granted, or why not.",
        reason=Credit,
    ),
    gauge("plimsoll_credit_saved_cpu_cores", "CPU that those with credit ask for less than they would without."),
    gauge("plimsoll_overloaded", "1 = load and pressure are too high."),
    gauge("plimsoll_overload_tainted", "1 = the node has the overload taint."),
    gauge("plimsoll_annotation_faults", "Pods with an annotation that is not understood; each is treated as off."),
)
_AMOUNTS: Final[Mapping[str, tuple[str, Callable[[ResourcePlan], int]]]] = {
    "allocatable": ("the node has for pods", lambda sums: sums.allocatable),
    "reserved": ("is held by pods that may not be optimised", lambda sums: sums.reserved),
    "available": (
        "is left for pods that may be optimised: allocatable less reserved",
        lambda sums: sums.available,
    ),
    "planned": (
        "the plan gives to the pods that may be optimised, headroom included",
        lambda sums: sums.final_total,
    ),
    "requested_after_plan": (
        "pods that may be optimised request once all steps are done",
        lambda sums: sums.applied_total,
    ),
    "spike_headroom": ("is shared out beyond sustained demand", lambda sums: sums.headroom),
    "largest_spike": ("one container is expected above its base: the least headroom", lambda sums: sums.spike_largest),
}
"""Figures of a plan's sums, for CPU and for memory: what they are called, and where they stand."""
_SUMS: Final = ((Resource.CPU, "CPU", "cores", 1000.0), (Resource.MEMORY, "Memory", "bytes", 1.0))
"""Resource, noun, unit on the page, and what of the plan's own unit makes one of it."""
_JOINT: Final = "plimsoll_joint_spike_cpu_cores"
_PENDING: Final = "plimsoll_resize_pending_oldest_seconds"
_WINDOW_WAIT: Final = "plimsoll_window_wait_seconds"
_MEASURED: Final = (
    *(
        MeasuredFamily(f"plimsoll_{stem}_{resource}_{unit}", f"{noun} that {text}.")
        for resource, noun, unit, _ in _SUMS
        for stem, (text, _) in _AMOUNTS.items()
    ),
    MeasuredFamily(
        _JOINT, "CPU that all planned pods are expected above their bases at the same time; absent where not known."
    ),
    MeasuredFamily(
        "plimsoll_qos_reserved_target_bytes",
        "Memory that a QoS tier may use by podLimits.qosReservedMemoryPercent; absent where none is set.",
        ("tier",),
    ),
    MeasuredFamily(
        _WINDOW_WAIT, "Time until the first of what waits for its window may begin; absent while nothing does."
    ),
    MeasuredFamily(_PENDING, "Age of the oldest resize that the kubelet has put off; absent while there is none."),
)


class ActingSeries:
    """All series of planning and acting. Methods may be called from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._series = SeriesTable(_FAMILIES, registry)
        self._measured = MeasuredGauges(_MEASURED)
        """The sums of the newest plan are not on the page before there is one."""
        registry.register(self._measured)

    def count_changes(self, changes: Iterable[Change], result: Outcome) -> None:
        """Count a resize for each resource and direction that it moves, whatever it is called in its pod."""
        for resource, direction in {
            (change.resource, Direction.UP if change.after > change.before else Direction.DOWN) for change in changes
        }:
            self._series.count("plimsoll_resizes_total", resource, direction, result)

    def count_urgent(self, needs: Iterable[Urgent]) -> None:
        """Count who was found short; memory pressure that only bars a shrink is no cause."""
        for urgent in needs:
            if urgent.cpu_millicores is not None:
                self._series.count("plimsoll_urgent_total", UrgentCause.CPU_WAITING)
            if urgent.memory_short is not None:
                self._series.count("plimsoll_urgent_total", UrgentCause(urgent.memory_short.value))
            elif urgent.memory_bytes is not None:
                self._series.count("plimsoll_urgent_total", UrgentCause.MEMORY_LIMIT)

    def observe_resize(self, seconds: float) -> None:
        """Count how long the kubelet took."""
        self._series.observe("plimsoll_resize_duration_seconds", max(0.0, seconds))

    def set_startup_boosts(self, pods: int) -> None:
        """Set how many pods have more CPU while they start."""
        self._series.set("plimsoll_startup_boosts", value=pods)

    def count_startup_boost(self, end: BoostEnd) -> None:
        """Count a boost that was taken back."""
        self._series.count("plimsoll_startup_boosts_ended_total", end)

    def set_pending_oldest(self, seconds: float | None) -> None:
        """Set how long the oldest deferred resize has waited; None = none does."""
        self._measured.set(_PENDING, value=seconds)

    def set_window_wait(self, seconds: float | None) -> None:
        """Set how long it is until something that waits for its window may begin; None = nothing does."""
        self._measured.set(_WINDOW_WAIT, value=seconds)

    def take_plan(self, plan: Plan, *, trigger: Trigger, seconds: float) -> None:
        """Count a plan that took so long to build, and show its figures."""
        self._series.count("plimsoll_plans_total", trigger)
        self._series.observe("plimsoll_plan_duration_seconds", max(0.0, seconds))
        if not plan.is_sound:
            self._series.count("plimsoll_plans_unsound_total")
        self._set_sums({resource: plan.resource(resource) for resource in Resource})
        for resource in Resource:
            self._series.set("plimsoll_plan_infeasible", resource, value=plan.resource(resource).is_infeasible)
        self.set_blocked(kept_counts(plan))
        reserved = Tally(pod.reserved for pod in plan.pods if pod.reserved is not None)
        for reason in ReservedReason:
            self._series.set("plimsoll_pods_reserved", reason, value=reserved[reason])
        modes = Tally(pod.mode for pod in plan.pods)
        for mode in Mode:
            self._series.set("plimsoll_pods", mode, value=modes[mode])

    def set_possible_savings(self, savings: Mapping[Mode, PossibleSavings]) -> None:
        """Set what pods could do without by the newest plan, in modes that lower nothing."""
        for mode in LOWERING_NOTHING:
            saving = savings.get(mode, PossibleSavings())
            self._series.set("plimsoll_possible_savings_cpu_cores", mode, value=saving.cpu_millicores / 1000)
            self._series.set("plimsoll_possible_savings_memory_bytes", mode, value=saving.memory_bytes)

    def forget_plan(self) -> None:
        """Take the figures of the newest plan off the page: it is too old to be believed."""
        self._set_sums({})

    def _set_sums(self, sums: Mapping[Resource, ResourcePlan]) -> None:
        figures = {
            f"plimsoll_{stem}_{resource}_{unit}": figure(sums[resource]) / scale if resource in sums else None
            for resource, _, unit, scale in _SUMS
            for stem, (_, figure) in _AMOUNTS.items()
        }
        joint = sums[Resource.CPU].joint if Resource.CPU in sums else None
        self._measured.set_together({**figures, _JOINT: None if joint is None else joint.amount / 1000.0})

    def set_blocked(self, counts: Mapping[KeptReason, int]) -> None:
        """Set what stands in the way; a reason that is not there counts 0."""
        for reason in KeptReason:
            self._series.set("plimsoll_resize_blocked", reason, value=counts.get(reason, 0))

    def count_eviction(self, resource: Resource) -> None:
        """Count an eviction that is proposed anew."""
        self._series.count("plimsoll_evictions_proposed_total", resource)

    def set_holding(self, *, is_paused: bool, pinned: int) -> None:
        """Set what people have ordered."""
        self._series.set("plimsoll_paused", value=is_paused)
        self._series.set("plimsoll_pinned_pods", value=pinned)

    def set_dry_run(self, *, is_dry_run: bool) -> None:
        """Set whether this agent only recommends, whatever the pods' modes are."""
        self._series.set("plimsoll_dry_run", value=is_dry_run)

    def set_barred(self, reason: str | None) -> None:
        """Set why nothing at all is written, by one of ``BARRIERS``; None = nothing stands in the way."""
        for barrier in BARRIERS:
            self._series.set("plimsoll_writes_barred", barrier, value=barrier == reason)

    def set_credit(self, credits: Iterable[Credit], *, saved_millicores: float) -> None:
        """Set who has credit for seconds by the newest plan, who has not and why, and what it saves."""
        counts = Tally(credits)
        for credit in Credit:
            self._series.set("plimsoll_credit_containers", credit, value=counts[credit])
        self._series.set("plimsoll_credit_saved_cpu_cores", value=saved_millicores / 1000)

    def set_overload(self, *, is_overloaded: bool, is_tainted: bool) -> None:
        """Set whether the node is over the red line, and whether others can see it."""
        self._series.set("plimsoll_overloaded", value=is_overloaded)
        self._series.set("plimsoll_overload_tainted", value=is_tainted)

    def set_pod_limits(self, *, limited: int, held: Mapping[PodLimitHeld, int]) -> None:
        """Set how many pods have their limits from the agent, and why others that ask for limits have none."""
        self._series.set("plimsoll_pod_limits", value=limited)
        for reason in PodLimitHeld:
            self._series.set("plimsoll_pod_limits_held", reason, value=held.get(reason, 0))

    def set_qos_reserved(self, target_bytes: Mapping[QosClass, int]) -> None:
        """Set what the lower QoS tiers may use by the percentage that is set; empty = there is none."""
        for qos in (QosClass.BURSTABLE, QosClass.BEST_EFFORT):
            self._measured.set("plimsoll_qos_reserved_target_bytes", qos.lower(), value=target_bytes.get(qos))

    def set_annotation_faults(self, pods: int) -> None:
        """Set how many pods have an annotation that is not understood."""
        self._series.set("plimsoll_annotation_faults", value=pods)


def kept_counts(plan: Plan) -> dict[KeptReason, int]:
    """Count why requests and limits of a plan are not moved, over containers and budgets of all pods."""
    counts: Tally[KeptReason] = Tally()
    for pod in plan.pods:
        for container in (*pod.containers, *(() if pod.budget is None else (pod.budget,))):
            counts.update(_kept_reasons(container))
    return dict(counts)


def _kept_reasons(container: ContainerPlan) -> Iterable[KeptReason]:
    for share in (container.cpu, container.memory):
        if share is not None:
            yield from (reason for reason in (share.kept, share.limit_kept) if reason is not None)
