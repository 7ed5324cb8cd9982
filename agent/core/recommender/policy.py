"""What a policy is given and what it answers: many containers at once, one row each.

Core, pure. Everything is a struct of arrays of shape ``(n,)``. Where something is not known, its mask is False and the
value beside it means nothing (0 is stored); NaN and infinity never stand in an array. Time is an argument, in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

from agent.core.cluster.resource import Resource
from agent.core.cluster.runtime_profile import LanguageRuntime
from agent.core.history.minute.minutes import Minutes, OutOfMemory
from agent.core.numbers.amount_text import amount_text
from agent.core.numbers.arrays import Bools, Floats, Ints, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """What other nodes saw of the rows' containers, as the webhook told. Shape ``(len(rows),)`` unless it says more."""

    cpu_hours_millicores: Floats
    """Peaks by UTC hour of the day over seven days, shape ``(len(rows), 24)``."""
    has_cpu_hours: Bools
    memory_hours_bytes: Floats
    has_memory_hours: Bools
    memory_peak_bytes: Floats
    """Largest of seven days."""
    has_memory_peak: Bools
    oom_bytes: Floats
    """Largest figure of the out-of-memory kills of seven days."""
    has_oom: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The rows asked for as they are at the moment of deciding. Shape ``(len(rows),)`` each.

    Live the windows come from the rings (hundreds of overlapping rates); in a simulation from the trace's samples.
    """

    cpu_base_millicores: Floats
    """The percentile (P75) over the CPU window, PSI-adjusted where PSI is there."""
    has_cpu: Bools
    memory_base_bytes: Floats
    """The percentile (P75) of the working set over the memory window."""
    has_memory: Bools
    pod_containers: Ints
    """How many containers the row's pod has, itself included; at least 1."""
    wants_whole_cores: Bools
    """The pod asks by annotation for whole CPU cores for this container (VPA's integer post-processor)."""
    elsewhere: Elsewhere | None = None
    """None = nothing is known of other nodes, of any row."""
    has_credit: Bools | None = None
    """Whose starvation for CPU is answered within seconds, so that the request may lie lower; None = nobody's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAmounts:
    """What the rows' containers request and may use now. Shape ``(len(rows),)`` each; whole numbers."""

    cpu_request_millicores: Floats
    has_cpu_request: Bools
    cpu_limit_millicores: Floats
    has_cpu_limit: Bools
    memory_request_bytes: Floats
    has_memory_request: Bools
    memory_limit_bytes: Floats
    has_memory_limit: Bools
    working_set_bytes: Floats
    has_working_set: Bools
    memory_current_bytes: Floats
    """Newest; page cache included, which a limit counts too."""
    has_memory_current: Bools
    is_guaranteed: Bools
    """The pod's QoS class is Guaranteed: requests and limits move together or not at all."""
    keeps_memory_limit: Bools | None = None
    """The memory limit is not lowered; None = that of no row is kept."""
    heap_floor_bytes: Floats | None = None
    """What neither memory request nor limit falls below for a fixed heap, 0 = there is none; None = in no row."""
    limit_readers: Sequence[LanguageRuntime | None] | None = None
    """Runtimes that sized their heap by the memory limit at their start: it is not lowered; None = it did not."""


class LimitRule(StrEnum):
    """What becomes of a limit when the request changes and the policy names no limit of its own."""

    KEEP = "keep"
    """It stays as it is (the request is capped by it)."""
    RAISE = "raise"
    """It stays as it is, but is raised to the request where that passes it."""
    PROPORTIONAL = "proportional"
    """It keeps its ratio to the request."""
    NEEDED = "needed"
    """It stays as it is, but a memory limit below what was needed is raised to the request: it was proven too low."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposals:
    """What a policy would have the rows request, before bounds. Shape ``(len(rows),)`` each."""

    cpu_request_millicores: Floats
    has_cpu: Bools
    """False: the policy cannot say yet."""
    memory_request_bytes: Floats
    has_memory: Bools
    memory_limit_bytes: Floats
    has_memory_limit: Bools
    """False: the policy names no limit; ``limit_rule`` holds."""
    cpu_base_millicores: Floats
    cpu_peak_millicores: Floats
    """Base and peak of section 3 of design.md where the policy knows such (``has_cpu``); else both are the request."""
    memory_base_bytes: Floats
    memory_peak_bytes: Floats
    cpu_upward_only: Bools
    """There is no prediction yet: the answer may raise the request, never lower it."""
    memory_upward_only: Bools
    limit_rule: LimitRule
    memory_seen_bytes: Floats | None = None
    """The largest memory that was seen, at kills too, without a margin, 0 where none was; None = the policy does not
    tell, and the peak stands for it."""
    has_credit: Bools | None = None
    """The CPU request lies lower because starvation is answered within seconds; None = nobody's."""
    extra: Mapping[str, Floats] = field(default_factory=dict)
    """More figures of this policy, named with their unit: ``cpu_lower_bound_millicores`` and the like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of an explanation: what was computed, from what, and what came out."""

    resource: str
    """``cpu`` or ``memory``."""
    what: str
    """Short and in the field's terms: ``P75 of 10 min, PSI-adjusted``."""
    value: float | None
    """None = not known; then the note says why."""
    unit: str
    """``millicores``, ``bytes``, ``ratio``, ``samples``, ``seconds`` or empty."""
    note: str = ""
    """Where it comes from."""
    before: float | None = None
    """What a bound made this of; None = it is no bound's doing."""


class Steps:
    """Collects the steps of one row while a policy answers for it; a policy is handed None when nobody asks."""

    def __init__(self) -> None:
        self.taken: list[Step] = []
        self.hours: list[int] = []
        """UTC hours whose peaks the answer goes by, each by its start in Unix seconds; empty = not by single hours."""

    def say(
        self, resource: str, what: str, value: float | None, unit: str, note: str = "", before: float | None = None
    ) -> None:
        """Keep one step, in order."""
        self.taken.append(Step(resource=resource, what=what, value=value, unit=unit, note=note, before=before))


class Narration:
    """Says the steps of one resource, in its unit, of the one row asked for; nothing where nobody asked."""

    def __init__(self, steps: Steps | None, resource: Resource) -> None:
        self._steps = steps
        self._resource = resource

    @property
    def is_wanted(self) -> bool:
        """Return whether anybody asked."""
        return self._steps is not None

    def say(self, what: str, value: float | None, note: str = "", *, unit: str | None = None) -> None:
        """Record one figure; a unit is named where it is no amount of the resource."""
        if self._steps is not None:
            self._steps.say(self._resource.value, what, value, self._resource.unit if unit is None else unit, note)

    def first(self, what: str, values: Floats | Ints, note: str = "", *, unit: str | None = None) -> None:
        """Record the figure of the row."""
        if self._steps is not None:
            self.say(what, float(values[0]), note, unit=unit)

    def known(self, what: str, values: Floats | Ints, has: Bools, note: str = "", otherwise: str = "") -> None:
        """Record the figure of the row where it has one; else that it is not known, and why."""
        if self._steps is not None:
            self.say(what, *((float(values[0]), note) if has[0] else (None, otherwise)))

    def text(self, amount: float) -> str:
        """Write an amount of the resource for a note."""
        return amount_text(amount, self._resource.unit)


class RowPart(Protocol):
    """What holds something of each row of a policy."""

    def grow(self, rows: int) -> None:
        """Grow to at least so many rows; the new ones are empty."""

    def forget(self, rows: Rows) -> None:
        """Clear these rows."""


class MinutePolicy:
    """A policy that learns minute by minute in several parts."""

    def __init__(self, rows: int, *parts: RowPart) -> None:
        self.rows = rows
        self._parts = parts

    def grow(self, rows: int) -> None:
        """Grow to at least so many rows; the new ones are empty."""
        self.rows = max(rows, self.rows)
        for part in self._parts:
            part.grow(rows)

    def forget(self, rows: Rows) -> None:
        """Clear these rows: they will stand for other containers."""
        for part in self._parts:
            part.forget(rows)

    def record_image(self, row: int, since_unix_seconds: float) -> None:
        """Record that a row's containers run another image: nothing to those that go by usage alone."""


class Policy(RowPart, Protocol):
    """A way of sizing. Holds what it has learnt of ``n`` rows; the rest comes as arguments."""

    name: Final[str]  # type: ignore[misc]  # a Protocol's Final: implementations assign it in the class body

    @property
    def rows(self) -> int:
        """Return how many rows it holds."""

    def fold(self, minutes: Minutes) -> None:
        """Add one minute of all rows. Minutes come in rising order; a minute that is skipped is a gap."""

    def record_oom(self, row: int, kill: OutOfMemory) -> None:
        """Record a kill; at equal times usage comes first."""

    def record_image(self, row: int, since_unix_seconds: float) -> None:
        """Record since when a row's containers run another image than before."""

    def recommend(
        self, rows: Rows, present: Present, *, now_unix_seconds: float, steps: Steps | None = None
    ) -> Proposals:
        """Answer for some rows, ``present`` in their order; changes nothing. Steps are asked for with one row only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTogether:
    """What some rows may be expected to demand at once, and when they were seen to."""

    demand_millicores: float
    """Of all of them."""
    unix_seconds: float
    """Start of the five minutes in which they demanded that."""


@runtime_checkable
class JointPolicy(Policy, Protocol):
    """A policy that knows what its rows demanded at the same time."""

    def together(self, rows: Rows, bases: Floats, *, now_unix_seconds: float) -> SeenTogether | None:
        """Return what some rows, each once, may be expected to demand together; None = not known yet.

        ``bases`` is what each counts with where it was not there; millicores, in the order of the rows.
        """
