"""What a simulation counts, per container and in sum.

Core, pure. **Slack** is requested and not used, **missing** used and not requested, both as amount x time: core-hours
of CPU, GiB-hours of memory. Only minutes count in which the trace knows the usage; those before the container's first
request are **unsized** and belong to neither.

By four figures policies are compared: slack and **deficit** as shares of what was used, **risk** as the share of time
above the request, and changes a day. The **node** is what all containers of a trace are in sum: what they use against
what is set aside for them, which is less often short than one of them is. That is once their requests, each by itself,
and once what a plan sets aside: their bases and the headroom that they share (``node_headroom``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from agent.core.numbers.arrays import Bools, Floats, Ints
from agent.core.numbers.units import GIB
from agent.core.recommender.simulation.level_steps import StepReactions
from agent.core.recommender.simulation.trace import Floats32, TraceSet

CORE_HOUR: Final = 1000.0 * 60
"""Millicore-minutes in it."""
DAY_MINUTES: Final = 1440.0
GIB_HOUR: Final = float(GIB) * 60
"""Byte-minutes in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceFigures:
    """One resource of each container, shape ``(n,)`` each; amount-hours are core-hours or GiB-hours."""

    known_minutes: Floats
    """Minutes of which the trace tells the usage; rows shorter than a minute are their part of one."""
    unsized_minutes: Floats
    """Of them, before there was any request."""
    under_minutes: Floats
    """Of the sized ones, those with more usage than request; until a reaction, where there is one."""
    requested_amount_hours: Floats
    used_amount_hours: Floats
    """In sized minutes."""
    unused_amount_hours: Floats
    missing_amount_hours: Floats
    """The depth of being under-requested."""
    resizes: Ints
    """Changes of the request or the limit; the first request of all is none."""

    def of(self, row: int) -> SimulatedResourceTotal:
        """Return one container's."""
        return SimulatedResourceTotal(
            **{field.name: getattr(self, field.name)[row].item() for field in fields(SimulatedResourceTotal)}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitFigures:
    """Memory over its limit, shape ``(n,)`` each."""

    over_minutes: Ints
    """Minutes with more memory than the limit."""
    excursions: Ints
    """Unbroken runs of such minutes; a gap does not break one."""
    kills: Ints
    """Would-be out-of-memory kills: at the start of each excursion, and when a limit newly set is passed at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Requests over time, thinned for plots: one value per stretch of minutes, its largest. Shape ``(b, n)`` each."""

    stretch_minutes: int
    cpu_request_millicores: Floats32
    """0 = none yet."""
    memory_request_bytes: Floats32
    memory_limit_bytes: Floats32
    """0 = none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCourse:
    """Usage over time, thinned as ``Course`` is: one value per stretch of minutes, its largest. Shape ``(b, n)``."""

    cpu_millicores: Floats32
    has_cpu: Bools
    memory_bytes: Floats32
    has_memory: Bools


def usage_course(trace: TraceSet, stretch_minutes: int) -> UsageCourse:
    """Thin a trace for plots; the last stretch may be shorter."""
    begins = np.arange(0, trace.minutes, stretch_minutes)
    return UsageCourse(
        cpu_millicores=np.maximum.reduceat(trace.cpu_millicores, begins, axis=0),
        has_cpu=np.logical_or.reduceat(trace.has_cpu, begins, axis=0),
        memory_bytes=np.maximum.reduceat(trace.memory_bytes, begins, axis=0).astype(np.float32),
        has_memory=np.logical_or.reduceat(trace.has_memory, begins, axis=0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedOutcome:
    """How one policy did on one trace."""

    policy: str
    trace: str
    containers: tuple[str, ...]
    start_unix_minute: int
    minutes: int
    cpu: ResourceFigures
    memory: ResourceFigures
    node_cpu: ResourceFigures
    """All containers in sum, shape ``(1,)``: what they used, and what was set aside for them."""
    node_planned_cpu: ResourceFigures
    """The same against what a plan of all of them would set aside; it counts no changes."""
    node_memory: ResourceFigures
    memory_limit: LimitFigures
    resizes: Ints
    """Patches of the container, CPU and memory together; shape ``(n,)``."""
    reactions: StepReactions
    course: Course

    @property
    def span_seconds(self) -> float:
        """Length of the trace."""
        return 60.0 * self.minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedResourceTotal:
    """One resource in sum over containers; amount-hours are core-hours or GiB-hours."""

    known_minutes: float
    unsized_minutes: float
    under_minutes: float
    requested_amount_hours: float
    used_amount_hours: float
    unused_amount_hours: float
    missing_amount_hours: float
    resizes: int

    @property
    def slack_ratio(self) -> float | None:
        """Unused share of what was requested; None = nothing was."""
        return self.unused_amount_hours / self.requested_amount_hours if self.requested_amount_hours > 0 else None

    @property
    def sized_minutes(self) -> float:
        """Minutes that are judged: known, and with a request."""
        return self.known_minutes - self.unsized_minutes

    @property
    def under_ratio(self) -> float | None:
        """Risk: share of the sized minutes that were under-requested; None = there were none."""
        return self.under_minutes / self.sized_minutes if self.sized_minutes > 0 else None

    @property
    def slack_of_used_ratio(self) -> float | None:
        """What was requested and not used, as a share of what was used; None = nothing was."""
        return self.unused_amount_hours / self.used_amount_hours if self.used_amount_hours > 0 else None

    @property
    def deficit_ratio(self) -> float | None:
        """What was used above the request, as a share of what was used; None = nothing was."""
        return self.missing_amount_hours / self.used_amount_hours if self.used_amount_hours > 0 else None

    @property
    def changes_per_day(self) -> float | None:
        """Changes that a container sees in a day; None = no minute was sized."""
        return self.resizes * DAY_MINUTES / self.sized_minutes if self.sized_minutes > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTotal:
    """Reaction to the steps of CPU use that met a sized container."""

    steps: int
    covered: int
    """While they lasted."""
    median_minutes: float | None
    """Of the covered; None = there are none."""
    max_minutes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTotal:
    """One policy in sum: over containers, and over traces if there are several."""

    policy: str
    containers: int
    span_seconds: float
    """Lengths of the traces, added."""
    cpu: SimulatedResourceTotal
    memory: SimulatedResourceTotal
    node_cpu: SimulatedResourceTotal
    """The containers of each trace in sum, as if it were one node."""
    node_planned_cpu: SimulatedResourceTotal
    """Against bases and shared headroom."""
    node_memory: SimulatedResourceTotal
    over_limit_minutes: int
    over_limit_excursions: int
    kills: int
    resizes: int
    steps: StepTotal


def total(outcomes: Sequence[SimulatedOutcome]) -> PolicyTotal:
    """Sum up one policy's outcomes on one or more traces, at least one."""
    judged = [outcome.reactions.is_sized for outcome in outcomes]
    covered = [outcome.reactions.is_covered & sized for outcome, sized in zip(outcomes, judged, strict=True)]
    reactions = np.concatenate(
        [outcome.reactions.reaction_minutes[taken] for outcome, taken in zip(outcomes, covered, strict=True)]
    )
    return PolicyTotal(
        policy=outcomes[0].policy,
        containers=sum(len(outcome.containers) for outcome in outcomes),
        span_seconds=sum(outcome.span_seconds for outcome in outcomes),
        cpu=_resource_total([outcome.cpu for outcome in outcomes]),
        memory=_resource_total([outcome.memory for outcome in outcomes]),
        node_cpu=_resource_total([outcome.node_cpu for outcome in outcomes]),
        node_planned_cpu=_resource_total([outcome.node_planned_cpu for outcome in outcomes]),
        node_memory=_resource_total([outcome.node_memory for outcome in outcomes]),
        over_limit_minutes=sum(int(outcome.memory_limit.over_minutes.sum()) for outcome in outcomes),
        over_limit_excursions=sum(int(outcome.memory_limit.excursions.sum()) for outcome in outcomes),
        kills=sum(int(outcome.memory_limit.kills.sum()) for outcome in outcomes),
        resizes=sum(int(outcome.resizes.sum()) for outcome in outcomes),
        steps=StepTotal(
            steps=sum(int(sized.sum()) for sized in judged),
            covered=reactions.size,
            median_minutes=float(np.median(reactions)) if reactions.size else None,
            max_minutes=int(reactions.max()) if reactions.size else None,
        ),
    )


def _resource_total(parts: Sequence[ResourceFigures]) -> SimulatedResourceTotal:
    names = [field.name for field in fields(SimulatedResourceTotal)]
    return SimulatedResourceTotal(**{name: sum(getattr(part, name).sum().item() for part in parts) for name in names})


def undominated(totals: Sequence[PolicyTotal]) -> frozenset[int]:
    """Return the places of the policies that no other beats in both slack and deficit of CPU: the Pareto front.

    Equal ones stand together; a policy that sized nothing has no place.
    """
    points = {
        place: (policy_total.cpu.slack_of_used_ratio, policy_total.cpu.deficit_ratio)
        for place, policy_total in enumerate(totals)
        if policy_total.cpu.slack_of_used_ratio is not None and policy_total.cpu.deficit_ratio is not None
    }
    return frozenset(
        place
        for place, (slack, deficit) in points.items()
        if not any(other != (slack, deficit) and other[0] <= slack and other[1] <= deficit for other in points.values())
    )


class ResourceAccount:
    """Adds up one resource of ``n`` containers, some rows at a time.

    ``amount_hour`` is how many of the resource's unit x minutes are one amount-hour.
    """

    def __init__(self, rows: int, *, amount_hour: float, rows_per_minute: int = 1) -> None:
        self._rows_per_minute = rows_per_minute
        self._amount_hour = amount_hour * rows_per_minute
        self._known = np.zeros(rows, dtype=np.int64)
        self._unsized = np.zeros(rows, dtype=np.int64)
        self._under = np.zeros(rows)
        self._requested = np.zeros(rows)
        self._used = np.zeros(rows)
        self._missing = np.zeros(rows)

    def add(
        self,
        usage: Floats,
        has_usage: Bools,
        request: Floats,
        has_request: Bools,
        *,
        grown: Floats | None = None,
        grown_share: float = 0.0,
    ) -> None:
        """Count some rows, shape ``(rows, n)`` each, with the requests that were in force in them.

        Args:
            grown: The requests in the last part of each row; None = those of its beginning.
            grown_share: How large that part is, 0..1.
        """
        sized = has_usage & has_request
        known = has_usage.sum(axis=0)
        self._known += known
        self._unsized += known - sized.sum(axis=0)
        self._used += (usage * sized).sum(axis=0)
        self._count(usage, sized, request, 1.0 if grown is None else 1.0 - grown_share)
        if grown is not None and grown_share > 0:
            self._count(usage, sized, grown, grown_share)

    def _count(self, usage: Floats, sized: Bools, request: Floats, share: float) -> None:
        over = np.maximum(usage - request, 0.0) * sized
        self._under += (over > 0).sum(axis=0) * share
        self._requested += (request * sized).sum(axis=0) * share
        self._missing += over.sum(axis=0) * share

    def figures(self, resizes: Ints) -> ResourceFigures:
        """Return what was counted; slack follows from it: requested - used + missing."""
        # Sums of different order: what should be 0 may come out a hair below.
        unused = np.maximum(self._requested - self._used + self._missing, 0.0)
        return ResourceFigures(
            known_minutes=self._known / self._rows_per_minute,
            unsized_minutes=self._unsized / self._rows_per_minute,
            under_minutes=self._under / self._rows_per_minute,
            requested_amount_hours=self._requested / self._amount_hour,
            used_amount_hours=self._used / self._amount_hour,
            unused_amount_hours=unused / self._amount_hour,
            missing_amount_hours=self._missing / self._amount_hour,
            resizes=resizes,
        )


class NodeAccount:
    """Adds up one resource of all containers in sum, as ``ResourceAccount`` does of each."""

    def __init__(self, *, amount_hour: float, rows_per_minute: int = 1) -> None:
        self._account = ResourceAccount(1, amount_hour=amount_hour, rows_per_minute=rows_per_minute)

    def add(
        self,
        usage: Floats,
        has_usage: Bools,
        request: Floats,
        has_request: Bools,
        *,
        grown: Floats | None = None,
        grown_share: float = 0.0,
    ) -> None:
        """Count some rows as ``ResourceAccount.add``: a container belongs to a row's sums where it is known and sized.

        What it uses is not held against a node that was never asked to set anything aside for it.
        """
        sized = has_usage & has_request
        self._account.add(
            (usage * sized).sum(axis=1, keepdims=True),
            has_usage.sum(axis=1, keepdims=True) > 0,
            (request * sized).sum(axis=1, keepdims=True),
            sized.sum(axis=1, keepdims=True) > 0,
            grown=None if grown is None else (grown * sized).sum(axis=1, keepdims=True),
            grown_share=grown_share,
        )

    def figures(self, resizes: Ints) -> ResourceFigures:
        """Return what was counted, shape ``(1,)`` each; ``resizes`` are those of the containers."""
        return self._account.figures(resizes.sum(keepdims=True))
