"""What each container should request: windows and history to policy, bounds and answers; and all behind one answer.

Node. It calls core and holds no rule. Any thread may ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agent.core.cluster.resource import Resource
from agent.core.cluster.unit import UnitIdentity
from agent.core.history.minute.minutes import OutOfMemory
from agent.core.history.minute.quality import QualityWindows
from agent.core.history.workloads.hour_peaks import HourPeak
from agent.core.numbers.arrays import distinct
from agent.core.orders.order import Orders
from agent.core.orders.policy_options import BoundsOptions, PolicyName
from agent.core.orders.profile import profile_notes
from agent.core.plan.needs.directives import NOTHING_TOLD, NodeDirectives
from agent.core.recommender.credit import Credit
from agent.core.recommender.explanation import Explanation, Explanations, Trail
from agent.core.recommender.hpa_advice import with_hpa_advice
from agent.core.recommender.recommendation import Recommendation, Recommendations
from agent.core.recommender.recommender import ReasonedRecommendation, explain, in_spec_order, recommend
from agent.core.recommender.subject import Conditions, Subject
from agent.core.window.cold_file import asked_for, may_leave_out
from agent.core.window.pod_itself import PodItself
from agent.core.window.ring_rows import Has
from agent.core.window.snapshot import CpuWindow, UnitAdvice, UnitStatus
from agent.node.history.clock import MINUTE_SECONDS
from agent.node.history.file import RowMinutes
from agent.node.history.learner import Learner, is_sized
from agent.sensing.ring_view import Rows as RingRows
from agent.settings import ColdFileChoice, Settings

HOUR_MINUTES: Final = 60
_FULL: Final = 255


@dataclass(frozen=True, slots=True)
class UnitSizing:
    """How a unit is sized: one call of the policy answers for all units of which this is the same."""

    policy: PolicyName
    bounds: BoundsOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSources:
    """What a decision asks of others; unless given, they know nothing."""

    orders_of: Callable[[UnitIdentity], Orders | None] = lambda identity: None
    """Returns the orders for a unit's pod; None = the settings hold."""
    directed: Callable[[], NodeDirectives] = lambda: NOTHING_TOLD
    quality_of: Callable[[int], QualityWindows | None] = lambda row: None
    """Returns how good the sizing of a row of the history was; None = not known."""
    borne: Callable[[], Mapping[str, PodItself]] = dict
    """Returns what pods use in none of their containers, by the path of the container that asks for it."""
    cpu_of: Callable[[UnitStatus], CpuWindow] = lambda status: status.cpu
    """Returns CPU as it counts: without a boosted start."""
    credit_of: Callable[[UnitIdentity], Credit | None] = lambda identity: None
    """Returns whether the newest plan gives a unit credit for seconds; None = no plan has said."""


class Decider:
    """Answers for the units of a node; see the module's docstring."""

    def __init__(
        self,
        *,
        settings: Settings,
        learner: Learner,
        node: str,
        source: str,  # What the answers say of where they come from
        sources: DecisionSources | None = None,  # None = nobody knows anything
    ) -> None:
        self.sources: Final = sources or DecisionSources()
        self._learner, self._node, self._source = learner, node, source
        self._bounds = settings.bounds
        self._profile_notes = profile_notes(settings.of_profile())
        self._policy = settings.recommend.policy
        self._leaves_out_cold_file = settings.memory.cold_file is ColdFileChoice.EXCLUDE
        self._sizing = UnitSizing(policy=self._policy, bounds=self._bounds)
        self._conditions = Conditions(
            min_span_seconds=settings.recommend.min_span_seconds, max_age_seconds=settings.recommend.max_age_seconds
        )

    def decide(
        self,
        statuses: Iterable[UnitStatus],
        notes: Sequence[str] = (),
        *,
        borne: Mapping[str, PodItself] | None = None,  # As its ``sources`` give it; None = it is asked
    ) -> Recommendations:
        """Recommend for all units but pause containers."""
        subjects = self.subjects((status for status in statuses if is_sized(status.identity)), borne)
        return Recommendations(
            taken_unix_seconds=self._learner.clock.wall_now(),
            source=self._source,
            node=self._node,
            policy=self._policy,
            min_span_seconds=self._conditions.min_span_seconds,
            max_age_seconds=self._conditions.max_age_seconds,
            items=tuple(with_hpa_advice(self._answers(subjects), subjects, self.sources.directed().hpa_targets)),
            notes=tuple(notes),
        )

    def listing(self, statuses: Iterable[UnitStatus], notes: Sequence[str] = ()) -> Recommendations:
        """Recommend as ``decide`` does, for people: containers of one pod stand in the order of its spec."""
        decided = self.decide(statuses, notes)
        items = in_spec_order(decided.items, lambda item: self._learner.place_of(item).belonging.container_place)
        return replace(decided, items=items)

    def _answers(self, subjects: Sequence[Subject]) -> list[Recommendation]:
        """Recommend for subjects, in their order."""
        now, conditions = self._learner.clock.now(), self._conditions_now()
        groups: dict[UnitSizing, list[int]] = {}
        before: UnitSizing | None = None
        group: list[int] = []
        for index, subject in enumerate(subjects):
            sizing = self._sizing_of(subject.identity)
            if sizing is not before:  # mostly it is one object for all: to hash it for each is a fifth of the time
                before, group = sizing, groups.setdefault(sizing, [])
            group.append(index)
        answers: dict[int, Recommendation] = {}
        for sizing, indices in groups.items():
            with self._learner.lock:
                items = recommend(
                    [subjects[index] for index in indices],
                    self._learner.policy_of(sizing.policy),
                    now_unix_seconds=now,
                    conditions=conditions,
                    options=sizing.bounds,
                )
            answers.update(zip(indices, items, strict=True))
        return [answers[index] for index in range(len(subjects))]

    def explain(
        self,
        statuses: Sequence[UnitStatus],
        *,
        trail_seconds: float = 0.0,
        minutes_of: Callable[[UnitStatus], RingRows] | None = None,
        notes: Sequence[str] = (),
        beside: Sequence[UnitStatus] = (),
    ) -> Explanations:
        """Report everything behind the recommendation of each of some units.

        Args:
            trail_seconds: How far back the picture of usage goes; 0 = none is asked for.
            minutes_of: Gives a unit's minute rows of the rings: waiting is kept there only.
            notes: What is degraded, one sentence each.
            beside: The other units of the same pods: what an HPA divides by is the sum of a pod's requests.
        """
        now = self._learner.clock.now()
        kills = self._learner.history.kills()
        items = []
        subjects = self.subjects(statuses)
        for status, subject in zip(statuses, subjects, strict=True):
            sizing = self._sizing_of(subject.identity)
            with self._learner.lock:
                reasoned = explain(
                    subject,
                    self._learner.policy_of(sizing.policy),
                    now_unix_seconds=now,
                    conditions=self._conditions_now(),
                    options=sizing.bounds,
                )
            minutes = self._minutes(subject.row)
            rows = minutes_of(status) if minutes_of is not None and trail_seconds else None
            trail = to_trail(minutes, self._waiting(rows), now, trail_seconds) if trail_seconds else None
            own = tuple(kill for row, kill in kills if row == subject.row)
            explanation = self._explanation(status, reasoned, minutes, own, trail, notes)
            items.append(replace(explanation, quality=self.sources.quality_of(subject.row)))
        others = self.subjects(beside)
        answers = [*(item.recommendation for item in items), *self._answers(others)]
        advised = with_hpa_advice(answers, [*subjects, *others], self.sources.directed().hpa_targets)
        return Explanations(
            items=tuple(
                replace(item, recommendation=answer) for item, answer in zip(items, advised[: len(items)], strict=True)
            )
        )

    def _sizing_of(self, identity: UnitIdentity) -> UnitSizing:
        orders = self.sources.orders_of(identity)
        if orders is None:
            return self._sizing
        bounds = bounds_by(orders, self._bounds, identity.container or "")
        if orders.policy is self._policy and bounds is self._bounds:
            return self._sizing
        return UnitSizing(policy=orders.policy, bounds=bounds)

    def _conditions_now(self) -> Conditions:
        """Return the conditions as they are: what was learnt before the start comes a moment after it."""
        return replace(self._conditions, is_history_known=self._learner.is_restored)

    def subjects(self, statuses: Iterable[UnitStatus], borne: Mapping[str, PodItself] | None = None) -> list[Subject]:
        """Bring together what is known of units: windows, names, history, and what they bear of their pods."""
        known = self._learner.history.known()
        minutes, first = known.minutes.tolist(), known.first_unix_minute.tolist()
        kills: dict[int, int] = {}
        for row, _ in self._learner.history.kills():
            kills[row] = kills.get(row, 0) + 1
        now, directed = self._learner.clock.now(), self.sources.directed()
        borne = self.sources.borne() if borne is None else borne
        subjects = []
        for status in statuses:
            place = self._learner.place_of(status.identity)
            count = minutes[place.row] if place.row < len(minutes) else 0
            subjects.append(
                Subject(
                    row=place.row,
                    identity=status.identity,
                    workload=place.belonging.workload,
                    resources=status.resources,
                    cpu=self.sources.cpu_of(status),
                    memory=asked_for(status.memory),
                    sample_age_seconds=status.sample_age_seconds,
                    history_minutes=count,
                    history_span_seconds=since(first[place.row], now) if count else 0.0,
                    oom_kills=kills.get(place.row, 0),
                    pod_containers=place.belonging.pod_containers,
                    has_pod_level_requests=place.belonging.has_pod_level_requests,
                    wants_whole_cores=place.belonging.wants_whole_cores,
                    container_kind=place.belonging.container_kind,
                    pod_itself=borne.get(status.identity.cgroup_path),
                    runtime=place.belonging.runtime,
                    keeps_memory_limit=self._leaves_out_cold_file and may_leave_out(status.resources),
                    elsewhere=directed.elsewhere(place.belonging.workload, status.identity.container),
                    credit=self.sources.credit_of(status.identity),
                )
            )
        return subjects

    def _minutes(self, row: int) -> RowMinutes | None:
        return self._learner.history.minutes(row) if row < self._learner.history.rows else None

    def _waiting(self, rows: RingRows | None) -> dict[int, float]:
        """Return UTC minute -> waiting ratio, for the minutes of this boot that the rings still hold."""
        if rows is None:
            return {}
        known = rows[(rows["has"] & int(Has.PRESSURE)) > 0]
        clock = self._learner.clock
        minutes = (clock.unix_minute(int(minute)) for minute in known["monotonic_minute"])
        return dict(zip(minutes, (known["waiting_255"] / _FULL).tolist(), strict=True))

    def _explanation(
        self,
        status: UnitStatus,
        reasoned: ReasonedRecommendation,
        minutes: RowMinutes | None,
        kills: tuple[OutOfMemory, ...],
        trail: Trail | None,
        notes: Sequence[str],
    ) -> Explanation:
        return Explanation(
            taken_unix_seconds=self._learner.clock.wall_now(),
            source=self._source,
            recommendation=reasoned.recommendation,
            cpu=status.cpu,
            memory=status.memory,
            steps=reasoned.steps,
            changes=reasoned.changes,
            hours=() if minutes is None else to_hours(minutes),
            hours_counted=reasoned.hours_counted,
            kills=kills,
            trail=trail,
            notes=(*notes, *self._profile_notes),
        )


def bounds_by(orders: Orders, bounds: BoundsOptions, container: str) -> BoundsOptions:
    """Return the bounds that hold for a container: what is ordered for it, else those of the settings."""
    least_cpu, most_cpu = orders.bounds_of(container, Resource.CPU)
    least_memory, most_memory = orders.bounds_of(container, Resource.MEMORY)
    if least_cpu is most_cpu is least_memory is most_memory is None:
        return bounds
    return replace(
        bounds,
        min_cpu_millicores=bounds.min_cpu_millicores if least_cpu is None else least_cpu,
        max_cpu_millicores=bounds.max_cpu_millicores if most_cpu is None else most_cpu,
        min_memory_bytes=bounds.min_memory_bytes if least_memory is None else least_memory,
        max_memory_bytes=bounds.max_memory_bytes if most_memory is None else most_memory,
    )


def since(first_unix_minute: int, now_unix_seconds: float) -> float:
    """Return how long ago a first minute ended: of that minute itself only a part may have been measured."""
    return max(0.0, now_unix_seconds - (first_unix_minute + 1) * MINUTE_SECONDS)


def in_short(item: Recommendation, min_span_seconds: float) -> UnitAdvice:
    """Return what a table of all units has room for."""
    cpu, memory = item.cpu_millicores, item.memory_bytes
    return UnitAdvice(
        policy=item.policy,
        cpu_request_millicores=cpu.request,
        cpu_withheld=cpu.withheld,
        cpu_bounds=cpu.bounds,
        memory_request_bytes=memory.request,
        memory_withheld=memory.withheld,
        memory_bounds=memory.bounds,
        measured_seconds=max(item.basis.cpu_measured_seconds, item.basis.memory_measured_seconds),
        min_span_seconds=min_span_seconds,
    )


def to_hours(minutes: RowMinutes) -> tuple[HourPeak, ...]:
    """Return the largest demand of each UTC hour of a history."""
    hours = minutes.unix_minutes // HOUR_MINUTES
    hour_peaks: list[HourPeak] = []
    for hour in distinct(hours).tolist():
        hour_mask = hours == hour
        cpu = minutes.cpu_peak_millicores[hour_mask & minutes.has_cpu]
        memory = minutes.working_set_bytes[hour_mask & minutes.has_memory]
        hour_peaks.append(
            HourPeak(
                hour_unix_seconds=hour * HOUR_MINUTES * MINUTE_SECONDS,
                cpu_millicores=float(cpu.max()) if cpu.size else None,
                working_set_bytes=float(memory.max()) if memory.size else None,
            )
        )
    return tuple(hour_peaks)


def to_trail(minutes: RowMinutes | None, waiting: dict[int, float], now: float, seconds: float) -> Trail:
    """Lay the minutes of the last seconds out without holes, for a picture."""
    stop = int(now // MINUTE_SECONDS)
    start = stop - max(1, round(seconds / MINUTE_SECONDS))
    length = stop - start
    usage: list[float | None] = [None] * length
    peak: list[float | None] = [None] * length
    memory: list[float | None] = [None] * length
    if minutes is not None:
        inside = (minutes.unix_minutes >= start) & (minutes.unix_minutes < stop)
        places = (minutes.unix_minutes[inside] - start).tolist()
        for values, has, into in (
            (minutes.cpu_usage_millicores, minutes.has_cpu, usage),
            (minutes.cpu_peak_millicores, minutes.has_cpu, peak),
            (minutes.working_set_bytes, minutes.has_memory, memory),
        ):
            for place, value, is_known in zip(places, values[inside].tolist(), has[inside].tolist(), strict=True):
                into[place] = value if is_known else None
    return Trail(
        start_unix_seconds=start * MINUTE_SECONDS,
        cpu_usage_millicores=tuple(usage),
        cpu_peak_millicores=tuple(peak),
        waiting_ratio=tuple(waiting.get(minute) for minute in range(start, stop)),
        working_set_bytes=tuple(memory),
    )
