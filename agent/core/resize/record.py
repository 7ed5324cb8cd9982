"""What the ledger of acting holds, as values: per pod what was asked for and what came of it. Core, pure.

Seconds are of the ledger's clock, which outlives a restart. All of it has a written form.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from agent.core.cluster.pod import PodRef
from agent.core.cluster.workload import Workload
from agent.core.numbers.later_field import LATER
from agent.core.plan.needs.demand import KeptReason
from agent.core.plan.plan import Phase, PlanStep
from agent.core.plan.pod_change import Change
from agent.core.resize.decision import Action, Outcome


class FlightState(StrEnum):
    """How far a resize has come, as far as the ledger knows."""

    SENT = "sent"
    """Not answered, or with an answer that does not say: it may have been done."""
    ACCEPTED = "accepted"
    DEFERRED = "deferred"
    FAILING = "failing"
    """The kubelet has allocated it and fails to put it in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """The one resize of a pod that is under way."""

    step: PlanStep
    action: Action
    sent_seconds: float
    state: FlightState
    since_seconds: float
    """Since when it is in this state."""
    spec_before: str
    """As ``spec_text`` writes it."""
    spec_after: str
    generation: int | None
    """Of the pod when it was sent; None = not known."""
    cpu_asked_millicores: int | None
    """The pod's requests in all, with the wish; None = they do not rise by it."""
    memory_asked_bytes: int | None
    resource_version: str | None = None
    """Of the pod that the patch names: while the pod still has it, a patch without an answer may yet come through."""
    restarts: int | None = field(default=None, metadata=LATER)
    """Of the pod's containers up to then, and those that it makes by itself; None = not known."""
    was_ready: bool = field(default=False, metadata=LATER)
    """The pod, and it starts no container again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """What was answered with "never"."""

    cpu_below_millicores: int | None
    """Only less than this may be tried; None = CPU was not the matter."""
    memory_below_bytes: int | None
    is_final: bool
    """It was no matter of amounts: nothing is tried any more."""
    node_cpu_millicores: int | None
    """Allocatable of the node at that time; with more it may be feasible."""
    node_memory_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedPhase:
    """Steps of one phase were refused, and wait for another try."""

    phase: Phase
    kept: KeptReason
    since_seconds: float
    delay_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """A shrink that stands in the spec."""

    sent_seconds: float
    """When it was sent: its name among the shrinks of a pod."""
    at_seconds: float
    """When it was last known to come into force."""
    changes: tuple[Change, ...]
    """Of memory, and falling; ``before`` is what to put back."""
    cpu_changes: tuple[Change, ...] = field(default=(), metadata=LATER)
    """The same of CPU, where the plan made it fall; kills and memory pressure do not put it back."""
    restarts: int | None = field(default=None, metadata=LATER)
    """Of the pod's containers up to when it was sent, its own included; None = not known: nobody judges by it."""
    was_ready: bool = field(default=False, metadata=LATER)
    """The pod, when it was sent, and no container was started again for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBack:
    """What must be put back, whatever a plan says."""

    phase: Phase
    targets: tuple[Change, ...]
    """``after`` is what to put back."""
    is_floor: bool
    """What stands above its target stays."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecord:
    """One pod that was resized, or that somebody else resized."""

    ref: PodRef
    workload: Workload
    spec: str | None = None
    """As last seen, with nothing under way; None = not seen yet."""
    changed_seconds: float | None = None
    """When it was last resized, by whomever; None = not known."""
    cpu_fell_seconds: float | None = field(default=None, metadata=LATER)
    """When a CPU request of it was last made to fall; None = not as far as is remembered."""
    cpu_grown_seconds: float | None = field(default=None, metadata=LATER)
    """When starvation last made one grow."""
    flight: Flight | None = None
    below: Flight | None = field(default=None, metadata=LATER)
    """What was under way when the flight was put on top of it; kept until the flight is known to be in the spec."""
    infeasible: Infeasible | None = None
    refused: tuple[RefusedPhase, ...] = ()
    """One for each phase at most."""
    shrunk: tuple[Shrunk, ...] = ()
    wanted: PutBack | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkBar:
    """A workload that is not shrunk on this node."""

    workload: Workload
    since_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OomAction:
    """The last action after an out-of-memory kill of a workload's container."""

    workload: Workload
    container: str
    at_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerState:
    """All that the ledger must not forget over a restart."""

    pods: tuple[PodRecord, ...] = ()
    bars: tuple[ShrinkBar, ...] = ()
    oom_actions: tuple[OomAction, ...] = ()

    @property
    def has_flights(self) -> bool:
        """Return whether any resize is under way."""
        return any(record.flight is not None for record in self.pods)

    def oldest_pending_seconds(self, now_seconds: float) -> float | None:
        """Return how long the oldest deferred resize has waited; None = none waits."""
        flights = (record.flight for record in self.pods)
        waits = [
            now_seconds - flight.since_seconds
            for flight in flights
            if flight is not None and flight.state is FlightState.DEFERRED
        ]
        return max(waits, default=None)


NOTHING_KEPT: Final = LedgerState()


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What became of a resize, as a look at the pods shows: for journal and metrics."""

    ref: PodRef
    workload: Workload
    action: Action
    outcome: Outcome
    reason: str
    """Short, from a closed set: see ``flight``."""
    detail: str
    """The kubelet's words, or a sentence; empty = nothing to add."""
    changes: tuple[Change, ...]
    seconds: float | None
    """From the patch to this."""


def as_of(state: LedgerState, now_seconds: float) -> LedgerState:
    """Return what was kept with every moment that lies ahead put to now: the clock has been put back since.

    So a cool-down or a bar begins anew, rather than lasting for as long as the clock went wrong.
    """
    return replace(
        state,
        pods=tuple(_record(record, now_seconds) for record in state.pods),
        bars=tuple(replace(bar, since_seconds=min(bar.since_seconds, now_seconds)) for bar in state.bars),
        oom_actions=tuple(
            replace(action, at_seconds=min(action.at_seconds, now_seconds)) for action in state.oom_actions
        ),
    )


def _at_most(seconds: float | None, now: float) -> float | None:
    return None if seconds is None else min(seconds, now)


def _flight(flight: Flight | None, now: float) -> Flight | None:
    if flight is None:
        return None
    return replace(flight, sent_seconds=min(flight.sent_seconds, now), since_seconds=min(flight.since_seconds, now))


def _record(record: PodRecord, now: float) -> PodRecord:
    return replace(
        record,
        changed_seconds=_at_most(record.changed_seconds, now),
        cpu_fell_seconds=_at_most(record.cpu_fell_seconds, now),
        cpu_grown_seconds=_at_most(record.cpu_grown_seconds, now),
        flight=_flight(record.flight, now),
        below=_flight(record.below, now),
        refused=tuple(replace(refusal, since_seconds=min(refusal.since_seconds, now)) for refusal in record.refused),
        shrunk=tuple(
            replace(shrink, sent_seconds=min(shrink.sent_seconds, now), at_seconds=min(shrink.at_seconds, now))
            for shrink in record.shrunk
        ),
    )
