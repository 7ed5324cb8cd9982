"""Replays a trace through a policy and its bounds as the agent would act on it, and counts what came of it.

Core, pure. Every minute runs like this:

1. The minute's usage meets the requests in force, in rows of seconds where the trace has them. Memory above the limit
   is a would-be out-of-memory kill.
2. The policy learns the minute as the agent would have measured it: memory up to the limit, as nobody can use more.
   Then it is told of the kill; again only when a limit newly set is passed as well.
3. Every ``decision_interval_seconds`` of a container's life the windows that end here are taken, the policy answers,
   the bounds have their say (a change too small is not made), and what is left of the change is in force from the next
   minute on. A container in a gap is left alone.

A rise is made at once, as the danger is now. A fall waits until ``cool_down_seconds`` have passed since the
container's last change of any kind, as it only saves. Where a reaction is named, a container that is short of CPU gets
what it uses that much later (``urgent_growth``), whatever the policy says. A policy that knows what that is worth has
its credit then (``Present.has_credit``); falls of rows with credit are asked for calmly, as on a node. Where the policy
names no memory limit, the limit is the request x ``memory_limit_ratio``; there is no CPU limit. A container without
starting requests has none until the first answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.core.cluster.resource import LARGEST
from agent.core.history.minute.minutes import Minutes, OutOfMemory
from agent.core.numbers.arrays import Bools, Floats, Rows
from agent.core.orders.plan_options import ActOptions, HeadroomRule
from agent.core.orders.policy_options import BoundsOptions, ControlledResources
from agent.core.recommender import bounds
from agent.core.recommender.calm_falls import NEVER, CalmFalls
from agent.core.recommender.policy import CurrentAmounts, Policy, Present, Proposals
from agent.core.recommender.simulation.figures import (
    CORE_HOUR,
    GIB_HOUR,
    Course,
    LimitFigures,
    NodeAccount,
    ResourceAccount,
    SimulatedOutcome,
)
from agent.core.recommender.simulation.level_steps import DemandSteps, ReactionWatch, demand_steps
from agent.core.recommender.simulation.node_headroom import NodeHeadroom
from agent.core.recommender.simulation.trace import TraceSet
from agent.core.recommender.simulation.urgent_growth import UrgentGrowth
from agent.core.recommender.simulation.windows import SlidingPercentile

_MINUTE_SECONDS: Final = 60.0
_PIECE_MINUTES: Final = 60
"""Minutes turned into wide numbers and counted together: large enough to be quick, small enough for the cache."""
_COURSE_POINTS: Final = 600
"""Points of a plot at most: about as many as a page has pixels for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRules:
    """How the agent would act, and what the trace does not tell."""

    decision_interval_seconds: float | None = 60.0
    """A multiple of a minute, counted from the container's first; None = at the end of each of its rows, by what is
    usual in the trace, in whole minutes."""
    cool_down_seconds: float = 300.0
    warm_up_seconds: float = 0.0
    """A container's first so many seconds are lived through and not judged."""
    reaction_seconds: float | None = None
    """After so long a container that is short of CPU gets what it uses; None = never."""
    shrink_interval_seconds: float = ActOptions().shrink_interval_seconds
    """A CPU request with credit falls once in each stretch of so long only, counted from midnight UTC; 0 = with any
    decision."""
    shrink_after_growth_seconds: float = ActOptions().shrink_after_growth_seconds
    """Nor does it sooner than this after a reaction made it grow."""
    shrink_ratio: float = ActOptions().shrink_ratio
    """Nor by less than this share of itself."""
    min_span_seconds: float = 600.0
    """A container is left alone until it was measured for so long."""
    cpu_window_seconds: float = 600.0
    memory_window_seconds: float = 1800.0
    percentile: float = 0.75
    max_gap_ratio: float = 0.2
    cpu_request_millicores: int | None = None
    """Every container's request at the start; None = it has none."""
    memory_request_bytes: int | None = None
    headroom: HeadroomRule = HeadroomRule.JOINT
    """What a plan of all containers shares out above their bases; it changes no request here."""
    memory_limit_ratio: float = 1.0
    """Memory limit as a multiple of the request, where the policy names none."""

    @property
    def calm_falls(self) -> CalmFalls:
        """Return the rule of falls under credit."""
        return CalmFalls(
            interval_seconds=self.shrink_interval_seconds,
            after_growth_seconds=self.shrink_after_growth_seconds,
            ratio=self.shrink_ratio,
        )


def simulate(
    trace: TraceSet,
    policy: Policy,
    options: BoundsOptions,
    rules: ReplayRules,
    *,
    steps: DemandSteps | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> SimulatedOutcome:
    """Replay all of a trace through a policy that has learnt nothing yet.

    ``on_progress`` is told how many minutes are done, a few hundred times.
    """
    watch = ReactionWatch(demand_steps(trace) if steps is None else steps)
    run = _Run(trace, policy, options, rules)
    for first in range(0, trace.minutes, _PIECE_MINUTES):
        run.replay(first, min(first + _PIECE_MINUTES, trace.minutes), watch)
        if on_progress is not None:
            on_progress(min(first + _PIECE_MINUTES, trace.minutes))
    return run.outcome(watch)


class _InForce:
    """What all containers request and may use now, and when that was changed last. Shape ``(n,)`` each."""

    def __init__(self, rows: int, rules: ReplayRules) -> None:
        self._rules = rules
        self._calm_falls = rules.calm_falls
        self._cool_down_minutes = rules.cool_down_seconds / _MINUTE_SECONDS
        cpu, memory = rules.cpu_request_millicores, rules.memory_request_bytes
        self.cpu_request = np.full(rows, float(cpu or 0))
        self.has_cpu = np.full(rows, cpu is not None)
        self.memory_request = np.full(rows, float(memory or 0))
        self.has_memory = np.full(rows, memory is not None)
        self.memory_limit = self.memory_request * rules.memory_limit_ratio
        """0 = none."""
        self._is_named = np.zeros(rows, dtype=np.bool_)
        """The limit is one that the policy named."""
        self._changed_minute = np.full(rows, -np.inf)
        self._grown_seconds = np.full(rows, NEVER)
        """When a reaction made it grow; and when its CPU request fell last."""
        self._fell_seconds = np.full(rows, NEVER)
        self.cpu_resizes = np.zeros(rows, dtype=np.int64)
        self.memory_resizes = np.zeros(rows, dtype=np.int64)
        self.resizes = np.zeros(rows, dtype=np.int64)
        self._none = np.zeros(rows)
        self._no = np.zeros(rows, dtype=np.bool_)

    def stated(self, memory_bytes: Floats, has_memory: Bools) -> CurrentAmounts:
        """Return it as the bounds want it.

        A limit that follows from the request is not told: it would cap the request that it has to follow.
        """
        return CurrentAmounts(
            cpu_request_millicores=self.cpu_request,
            has_cpu_request=self.has_cpu,
            cpu_limit_millicores=self._none,
            has_cpu_limit=self._no,
            memory_request_bytes=self.memory_request,
            has_memory_request=self.has_memory,
            memory_limit_bytes=self.memory_limit * self._is_named,
            has_memory_limit=self._is_named,
            working_set_bytes=memory_bytes,
            has_working_set=has_memory,
            memory_current_bytes=memory_bytes,
            has_memory_current=has_memory,
            is_guaranteed=self._no,
        )

    def grow(self, unix_minute: int, cpu_request: Floats, is_judged: Bools) -> None:
        """Make the growths that a reaction brings."""
        grew = cpu_request > self.cpu_request
        if not grew.any():
            return
        self._changed_minute = np.where(grew, unix_minute, self._changed_minute)
        self._grown_seconds = np.where(grew, (unix_minute + 1) * _MINUTE_SECONDS, self._grown_seconds)
        self.cpu_resizes += grew & is_judged
        self.resizes += grew & is_judged
        self.cpu_request = cpu_request

    def _may_shrink(self, now_unix_seconds: float, proposals: Proposals, wanted: Floats) -> Bools:
        """Return whose CPU request may fall to what is wanted: with credit calmly, without at any time."""
        if proposals.has_credit is None:
            return ~self._no
        begin = self._calm_falls.begin_seconds(self._fell_seconds, self._grown_seconds)
        is_due = (now_unix_seconds >= begin) & self._calm_falls.is_worth(self.cpu_request, wanted)
        return is_due | ~proposals.has_credit

    def change(
        self, unix_minute: int, may_change: Bools, is_judged: Bools, proposals: Proposals, answer: bounds.BoundedAnswer
    ) -> None:
        """Make the changes that the answer asks for and the rules let pass."""
        is_cool = unix_minute - self._changed_minute >= self._cool_down_minutes
        had_cpu, had_memory = self.has_cpu, self.has_memory
        may_cpu = may_change & answer.has_cpu
        now_unix_seconds = (unix_minute + 1) * _MINUTE_SECONDS
        may_shrink = is_cool & self._may_shrink(now_unix_seconds, proposals, answer.cpu_request_millicores)
        cpu = self._allowed(self.cpu_request, answer.cpu_request_millicores, had_cpu, may_shrink)
        cpu = np.where(may_cpu, cpu, self.cpu_request)
        memory = self._allowed(self.memory_request, answer.memory_request_bytes, had_memory, is_cool)
        memory = np.where(may_change & answer.has_memory, memory, self.memory_request)
        limit = self._limits(memory, may_change, is_cool, proposals, answer)

        cpu_changed = cpu != self.cpu_request
        memory_changed = (memory != self.memory_request) | (limit != self.memory_limit)
        changed = cpu_changed | memory_changed
        if not changed.any():
            return
        self._changed_minute = np.where(changed, unix_minute, self._changed_minute)
        self._fell_seconds = np.where(cpu < self.cpu_request, now_unix_seconds, self._fell_seconds)
        # What had no request until now is sized, not resized.
        cpu_resized = cpu_changed & had_cpu & is_judged
        memory_resized = memory_changed & had_memory & is_judged
        self.cpu_resizes += cpu_resized
        self.memory_resizes += memory_resized
        self.resizes += cpu_resized | memory_resized
        self.cpu_request, self.memory_request, self.memory_limit = cpu, memory, limit
        self.has_cpu = had_cpu | cpu_changed
        self.has_memory = had_memory | memory_changed

    def _limits(
        self, memory: Floats, may_change: Bools, is_cool: Bools, proposals: Proposals, answer: bounds.BoundedAnswer
    ) -> Floats:
        """Return the memory limits that go with new requests; notes which of them the policy names."""
        follows = np.ceil(memory * self._rules.memory_limit_ratio)
        if not (self._is_named.any() or proposals.has_memory_limit.any()):
            return follows
        may = may_change & answer.has_memory
        first = may & proposals.has_memory_limit & ~self._is_named
        moved = self._allowed(self.memory_limit, answer.memory_limit_bytes, self._is_named, is_cool)
        limit = np.where(may & answer.has_memory_limit, moved, self.memory_limit)
        limit = np.where(first, np.ceil(proposals.memory_limit_bytes), limit)
        self._is_named = self._is_named | first
        return np.where(self._is_named, np.maximum(limit, memory), follows)

    @staticmethod
    def _allowed(now: Floats, wanted: Floats, has_now: Bools, may_fall: Bools) -> Floats:
        return np.where((wanted > now) | may_fall | ~has_now, wanted, now)


class _Run:
    def __init__(self, trace: TraceSet, policy: Policy, options: BoundsOptions, rules: ReplayRules) -> None:
        rows = len(trace.containers)
        self._trace = trace
        self._policy = policy
        self._options = options
        self._rules = rules
        self._rows = np.arange(rows)
        self._in_force = _InForce(rows, rules)
        interval = rules.decision_interval_seconds
        self._decision_minutes = trace.row_minutes if interval is None else max(round(interval / _MINUTE_SECONDS), 1)
        self._warm_up_minutes = rules.warm_up_seconds / _MINUTE_SECONDS
        self._min_span_minutes = rules.min_span_seconds / _MINUTE_SECONDS
        self._age_minutes = np.zeros(rows, dtype=np.int64)
        self._cpu_window = _window(rows, rules, rules.cpu_window_seconds)
        self._memory_window = _window(rows, rules, rules.memory_window_seconds)
        self._pod_containers = np.ones(rows, np.int64) if trace.pod_containers is None else trace.pod_containers
        self._no = np.zeros(rows, dtype=np.bool_)
        self._was_over = self._no
        self._passed_limit = np.zeros(rows)
        self._over_minutes = np.zeros(rows, dtype=np.int64)
        self._excursions = np.zeros(rows, dtype=np.int64)
        self._kills = np.zeros(rows, dtype=np.int64)
        per_minute = trace.rows_per_minute
        self._cpu_accounts = (
            ResourceAccount(rows, amount_hour=CORE_HOUR, rows_per_minute=per_minute),
            NodeAccount(amount_hour=CORE_HOUR, rows_per_minute=per_minute),
        )
        self._headroom = NodeHeadroom(policy, rows, rules.headroom)
        self._planned_account = NodeAccount(amount_hour=CORE_HOUR, rows_per_minute=per_minute)
        self._memory_accounts = ResourceAccount(rows, amount_hour=GIB_HOUR), NodeAccount(amount_hour=GIB_HOUR)
        self._growth = _growth(rows, rules, options, row_seconds=_MINUTE_SECONDS / per_minute)
        self._stretch_minutes = -(-trace.minutes // _COURSE_POINTS)
        points = -(-trace.minutes // self._stretch_minutes)
        self._cpu_course, self._memory_course, self._limit_course = (
            np.zeros((points, rows), dtype=np.float32) for _ in range(3)
        )

    def replay(self, first: int, after: int, watch: ReactionWatch) -> None:
        shape = (after - first, self._rows.size)
        per_minute = self._trace.rows_per_minute
        usage, has_usage = self._cpu_rows(first, after)
        cpu_request, grown = np.empty(usage.shape), None if self._growth is None else np.empty(usage.shape)
        memory_request, covering = np.empty(shape), np.empty(shape)
        planned, is_planned = np.empty(shape), np.empty(shape, np.bool_)
        has_cpu_request, has_memory_request = np.empty(shape, np.bool_), np.empty(shape, np.bool_)
        is_judged = np.empty(shape, np.bool_)
        in_force = self._in_force
        for offset, minute in enumerate(self._minutes(first, after)):
            is_judged[offset] = self._age_minutes >= self._warm_up_minutes
            has_cpu_request[offset] = in_force.has_cpu
            planned[offset], is_planned[offset] = self._headroom.millicores, self._headroom.has
            memory_request[offset], has_memory_request[offset] = in_force.memory_request, in_force.has_memory
            rows = slice(offset * per_minute, (offset + 1) * per_minute)
            if self._growth is None or grown is None:
                cpu_request[rows] = covering[offset] = in_force.cpu_request
            else:
                for row in range(rows.start, rows.stop):
                    cpu_request[row] = covering[offset] = in_force.cpu_request
                    grown[row] = self._growth.live(usage[row], has_usage[row], in_force.cpu_request, in_force.has_cpu)
                    in_force.grow(minute.unix_minute, grown[row], is_judged[offset])
                # Requests only rise within a minute, so the last is the one that may cover a step.
                if self._growth.grown_share > 0:
                    covering[offset] = in_force.cpu_request
            point = (first + offset) // self._stretch_minutes
            for course, now in (
                (self._cpu_course, covering[offset]),
                (self._memory_course, in_force.memory_request),
                (self._limit_course, in_force.memory_limit),
            ):
                np.maximum(course[point], now, out=course[point], casting="same_kind")
            self._live(first + offset, minute, is_judged[offset])
        piece = slice(first, after)
        for account in self._cpu_accounts:
            account.add(
                usage,
                has_usage & np.repeat(is_judged, per_minute, axis=0),
                cpu_request,
                np.repeat(has_cpu_request, per_minute, axis=0),
                grown=grown,
                grown_share=0.0 if self._growth is None else self._growth.grown_share,
            )
        self._planned_account.add(
            usage,
            has_usage & np.repeat(is_judged, per_minute, axis=0),
            np.repeat(planned, per_minute, axis=0),
            np.repeat(is_planned, per_minute, axis=0),
        )
        for account in self._memory_accounts:
            has_memory = self._trace.has_memory[piece] & is_judged
            account.add(self._trace.memory_bytes[piece], has_memory, memory_request, has_memory_request)
        watch.see(first, covering, has_cpu_request & is_judged)

    def _cpu_rows(self, first: int, after: int) -> tuple[Floats, Bools]:
        """Return the CPU of some minutes in the rows in which it is judged."""
        fine = self._trace.fine
        if fine is None:
            return self._trace.cpu_millicores[first:after].astype(np.float64), self._trace.has_cpu[first:after]
        rows = slice(first * fine.rows_per_minute, after * fine.rows_per_minute)
        return fine.cpu_millicores[rows].astype(np.float64), fine.has_cpu[rows]

    def _minutes(self, first: int, after: int) -> Iterator[Minutes]:
        """Return the trace's minutes as a policy learns them, memory not cut to its limit yet."""
        trace, piece = self._trace, slice(first, after)
        usage = trace.cpu_millicores[piece].astype(np.float64)
        peak = usage
        if trace.cpu_peak_millicores is not None:
            peak = np.maximum(trace.cpu_peak_millicores[piece], usage)
        elif trace.psi is not None:
            peak = usage * (1.0 + trace.psi[piece])
        for offset in range(after - first):
            index = first + offset
            yield Minutes(
                unix_minute=trace.start_unix_minute + index,
                cpu_usage_millicores=usage[offset],
                cpu_peak_millicores=peak[offset],
                has_cpu=trace.has_cpu[index],
                working_set_bytes=trace.memory_bytes[index],
                has_memory=trace.has_memory[index],
            )

    def _live(self, index: int, minute: Minutes, is_judged: Bools) -> None:
        """Replay one minute: fold it, and decide when it is time."""
        limit = self._in_force.memory_limit
        is_over = minute.has_memory & (limit > 0) & (minute.working_set_bytes > limit)
        any_over = bool(is_over.any())
        if any_over:
            minute = _cut(minute, np.where(is_over, limit, minute.working_set_bytes))
        is_here = minute.has_cpu | minute.has_memory
        if is_here.any():  # a minute that is skipped is a gap to a policy
            self._policy.fold(minute)
        if any_over or self._was_over.any():
            self._kill(minute, is_over, limit, is_judged)
        adjusted = minute.cpu_usage_millicores
        if self._trace.psi is not None:
            adjusted = adjusted * (1.0 + self._trace.psi[index])
        self._cpu_window.push(adjusted, minute.has_cpu)
        self._memory_window.push(minute.working_set_bytes, minute.has_memory)
        self._age_minutes += (self._age_minutes > 0) | is_here
        may_change = is_here & (self._age_minutes >= self._min_span_minutes)
        is_due = self._age_minutes % self._decision_minutes == 0
        if (may_change & is_due).any():
            self._decide(minute, may_change, is_due)

    def _kill(self, minute: Minutes, is_over: Bools, limit: Floats, is_judged: Bools) -> None:
        """Count memory over its limit and tell the policy of kills."""
        begins = is_over & ~self._was_over
        self._over_minutes += is_over & is_judged
        self._excursions += begins & is_judged
        is_new = begins | (is_over & (limit != self._passed_limit))
        self._kills += is_new & is_judged
        self._passed_limit = np.where(is_new, limit, self._passed_limit)
        self._was_over = np.where(minute.has_memory, is_over, self._was_over)
        for row in np.flatnonzero(is_new).tolist():
            kill = OutOfMemory(
                unix_seconds=minute.unix_minute * _MINUTE_SECONDS,
                usage_bytes=int(limit[row]),
                limit_bytes=int(limit[row]),
                request_bytes=int(self._in_force.memory_request[row]),
            )
            self._policy.record_oom(row, kill)

    def _decide(self, minute: Minutes, may_change: Bools, is_due: Bools) -> None:
        cpu, has_cpu = self._cpu_window.read()
        memory, has_memory = self._memory_window.read()
        # A policy may remember what it said, so only those are asked for whose answer counts.
        rows = self._rows if is_due.all() else np.flatnonzero(is_due)
        present = Present(
            cpu_base_millicores=cpu[rows],
            has_cpu=has_cpu[rows],
            memory_base_bytes=np.ceil(memory[rows]),
            has_memory=has_memory[rows],
            pod_containers=self._pod_containers[rows],
            wants_whole_cores=self._no[rows],
            has_credit=None if self._rules.reaction_seconds is None else ~self._no[rows],
        )
        now_unix_seconds = (minute.unix_minute + 1) * _MINUTE_SECONDS
        proposals = self._policy.recommend(rows, present, now_unix_seconds=now_unix_seconds)
        if rows.size < is_due.size:
            proposals = _spread(proposals, rows, is_due.size)
        self._headroom.plan(minute.unix_minute, minute.has_cpu, may_change & is_due, proposals)
        stated = self._in_force.stated(minute.working_set_bytes, minute.has_memory)
        is_judged = self._age_minutes >= self._warm_up_minutes  # what changes is in force from the next minute on
        answer = bounds.apply(proposals, stated, self._options)
        self._in_force.change(minute.unix_minute, may_change & is_due, is_judged, proposals, answer)

    def outcome(self, watch: ReactionWatch) -> SimulatedOutcome:
        return SimulatedOutcome(
            policy=self._policy.name,
            trace=self._trace.name,
            containers=self._trace.containers,
            start_unix_minute=self._trace.start_unix_minute,
            minutes=self._trace.minutes,
            cpu=self._cpu_accounts[0].figures(self._in_force.cpu_resizes),
            memory=self._memory_accounts[0].figures(self._in_force.memory_resizes),
            node_cpu=self._cpu_accounts[1].figures(self._in_force.cpu_resizes),
            node_planned_cpu=self._planned_account.figures(np.zeros(1, dtype=np.int64)),
            node_memory=self._memory_accounts[1].figures(self._in_force.memory_resizes),
            memory_limit=LimitFigures(over_minutes=self._over_minutes, excursions=self._excursions, kills=self._kills),
            resizes=self._in_force.resizes,
            reactions=watch.reactions(),
            course=Course(
                stretch_minutes=self._stretch_minutes,
                cpu_request_millicores=self._cpu_course,
                memory_request_bytes=self._memory_course,
                memory_limit_bytes=self._limit_course,
            ),
        )


def _growth(rows: int, rules: ReplayRules, options: BoundsOptions, *, row_seconds: float) -> UrgentGrowth | None:
    """Return what makes short containers grow; None = nothing does."""
    if rules.reaction_seconds is None or options.controlled_resources is ControlledResources.MEMORY:
        return None
    return UrgentGrowth(
        rows,
        reaction_seconds=rules.reaction_seconds,
        row_seconds=row_seconds,
        most_millicores=float(options.max_cpu_millicores or LARGEST),
    )


def _spread(proposals: Proposals, rows: Rows, size: int) -> Proposals:
    """Return the answers of some rows among all: of the others there is none."""

    def amounts(of_rows: Floats) -> Floats:
        spread = np.zeros(size)
        spread[rows] = of_rows
        return spread

    def marks(of_rows: Bools) -> Bools:
        spread = np.zeros(size, dtype=np.bool_)
        spread[rows] = of_rows
        return spread

    return Proposals(
        cpu_request_millicores=amounts(proposals.cpu_request_millicores),
        has_cpu=marks(proposals.has_cpu),
        memory_request_bytes=amounts(proposals.memory_request_bytes),
        has_memory=marks(proposals.has_memory),
        memory_limit_bytes=amounts(proposals.memory_limit_bytes),
        has_memory_limit=marks(proposals.has_memory_limit),
        cpu_base_millicores=amounts(proposals.cpu_base_millicores),
        cpu_peak_millicores=amounts(proposals.cpu_peak_millicores),
        memory_base_bytes=amounts(proposals.memory_base_bytes),
        memory_peak_bytes=amounts(proposals.memory_peak_bytes),
        cpu_upward_only=marks(proposals.cpu_upward_only),
        memory_upward_only=marks(proposals.memory_upward_only),
        limit_rule=proposals.limit_rule,
        memory_seen_bytes=None if proposals.memory_seen_bytes is None else amounts(proposals.memory_seen_bytes),
        has_credit=None if proposals.has_credit is None else marks(proposals.has_credit),
    )


def _window(rows: int, rules: ReplayRules, seconds: float) -> SlidingPercentile:
    return SlidingPercentile(
        rows,
        minutes=max(int(seconds // _MINUTE_SECONDS), 1),
        ratio=rules.percentile,
        max_gap_ratio=rules.max_gap_ratio,
    )


def _cut(minute: Minutes, working_set_bytes: Floats) -> Minutes:
    return Minutes(
        unix_minute=minute.unix_minute,
        cpu_usage_millicores=minute.cpu_usage_millicores,
        cpu_peak_millicores=minute.cpu_peak_millicores,
        has_cpu=minute.has_cpu,
        working_set_bytes=working_set_bytes,
        has_memory=minute.has_memory,
    )
