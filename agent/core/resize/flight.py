"""Follows a resize from the patch to its end, by looking at the pod. Core, pure; time is an argument.

A look that shows nothing of a wish proves nothing by itself: the view may be older than the patch. What decides is the
pod's spec: the wish in it, or something that neither stood before nor was wished.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from agent.core.cluster.node import Node
from agent.core.cluster.pod import Pod
from agent.core.cluster.resource import Resource
from agent.core.plan.needs.demand import KeptReason
from agent.core.plan.plan import PlanStep
from agent.core.plan.pod_change import Change, Setting, spec_text
from agent.core.resize.decision import Action, Outcome
from agent.core.resize.put_back import lowers_memory_limit, step_of, withdrawal
from agent.core.resize.record import Flight, FlightState, News, PodRecord, PutBack
from agent.core.resize.refusal import LONGEST_DELAY_SECONDS, accepted, infeasible, infeasible_as_stated, refused
from agent.core.resize.status import ResizeState, ResizeStatus, is_granted, resize_status

UNSEEN_SECONDS: Final = 120.0
"""After so long a wish of which the pod shows nothing was not done: twice as long as an API server works at a call."""

_CPU_REQUEST: Final = (Resource.CPU, Setting.REQUEST)

APPLIED: Final = "applied"
SEEN: Final = "seen_in_pod"
"""No answer came, and it was taken all the same."""
NOT_SEEN: Final = "not_done"
"""No answer came, or a good one, and the pod shows nothing of it."""
CHANGED_BY_OTHERS: Final = "changed_by_others"
DEFERRED: Final = "deferred"
WITHDRAWN: Final = "withdrawn"
"""It was deferred, or failing, for longer than ``act.deferredPatienceSeconds``."""
INFEASIBLE: Final = "infeasible"
FAILING: Final = "kubelet_error"
NOT_REPORTED: Final = "not_reported"
"""The pod does not run, or its kubelet does not say what is in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLook:
    """What one look at a pod is judged by."""

    pod: Pod
    node: Node | None
    now_seconds: float
    confirmed_seconds: float | None
    """When the API server last confirmed what the pod shows; None = it was read for this very look."""
    patience_seconds: float
    """For a resize that the kubelet puts off or fails at."""
    revert_seconds: float
    """For how long a shrink is remembered."""


def follow(record: PodRecord, look: PodLook) -> tuple[PodRecord, tuple[News, ...]]:
    """Return a pod's record after a look at the pod, and what there is to tell."""
    news: tuple[News, ...] = ()
    spec = spec_text(look.pod)
    if record.flight is not None:
        record, news = _follow_flight(record, record.flight, spec, look)
    elif record.spec is not None and spec != record.spec:
        record = _changed_by_others(record, look.now_seconds)
    if record.flight is None:
        record = replace(record, spec=spec)
        record = _found_infeasible(record, look)
    is_answered = record.flight is None or record.flight.state is not FlightState.SENT
    if record.wanted is not None and is_answered and step_of(record, look.pod) is None:
        record = replace(record, wanted=None)
    return _aged(record, look), news


def on_top(below: PlanStep, step: PlanStep) -> PlanStep:
    """Return a step that is sent while another one is under way as one with that: they come to their end together."""
    numbers = {change.number for change in step.changes}
    rest = tuple(change for change in below.changes if change.number not in numbers)
    return replace(step, changes=(*rest, *step.changes))


def without_below(flight: Flight, below: Flight | None) -> PlanStep:
    """Return a resize's step without what it was put on top of: what was sent last."""
    others = below.step.changes if below is not None else ()
    return replace(flight.step, changes=tuple(change for change in flight.step.changes if change not in others))


def _follow_flight(record: PodRecord, flight: Flight, spec: str, look: PodLook) -> tuple[PodRecord, tuple[News, ...]]:
    if spec != flight.spec_after:
        return _not_in_spec(record, flight, spec, look)
    news: list[News] = []
    if flight.state is FlightState.SENT:
        record = accepted(record, flight, look.now_seconds)
        flight = replace(flight, state=FlightState.ACCEPTED, since_seconds=look.now_seconds)
        news.append(_news(record, flight, look, Outcome.ACCEPTED, SEEN, "taken, though no answer came"))
    record, more = _by_status(record, flight, resize_status(look.pod), look)
    return record, (*news, *more)


def _not_in_spec(record: PodRecord, flight: Flight, spec: str, look: PodLook) -> tuple[PodRecord, tuple[News, ...]]:
    """Judge a resize of which the spec shows nothing."""
    generation = look.pod.generation
    has_moved = generation is not None and flight.generation is not None and generation > flight.generation
    if spec != flight.spec_before or (has_moved and flight.state is not FlightState.SENT):
        # Also where it was taken and somebody put it back since.
        record = _changed_by_others(record, look.now_seconds)
        detail = "another resize took its place"
        return record, (_news(record, flight, look, Outcome.CONFLICT, CHANGED_BY_OTHERS, detail),)
    # A patch is of one version of the pod: once that is past, it can no longer come through.
    seen_seconds = look.now_seconds if look.confirmed_seconds is None else look.confirmed_seconds
    is_past = look.confirmed_seconds is None and look.pod.resource_version != flight.resource_version
    is_fresh = is_past or seen_seconds - flight.sent_seconds >= UNSEEN_SECONDS
    if not has_moved and not is_fresh:
        return record, ()
    flight = replace(flight, step=without_below(flight, record.below))
    record = replace(record, flight=record.below, below=None)
    detail = "the pod shows nothing of it; decided anew"
    return record, (_news(record, flight, look, Outcome.ERROR, NOT_SEEN, detail),)


def _by_status(
    record: PodRecord, flight: Flight, status: ResizeStatus, look: PodLook
) -> tuple[PodRecord, tuple[News, ...]]:
    """Judge a resize that stands in the spec by what the kubelet says."""
    if status.state is ResizeState.DONE:
        return _done(record, flight, look)
    if status.state is ResizeState.INFEASIBLE:
        why = "not feasible on this node: back to what is allocated"
        is_kept = flight.action in (Action.RESTORE, Action.UNBOOST)
        wanted = _still_wanted(record) if is_kept else withdrawal(flight, why, granted=_granted(flight, look.pod))
        record = replace(record, flight=None, infeasible=infeasible(flight, look.node), wanted=wanted)
        return record, (_news(record, flight, look, Outcome.INFEASIBLE, INFEASIBLE, status.message),)
    if status.state is ResizeState.DEFERRED:
        return _waiting(record, flight, FlightState.DEFERRED, status, look)
    if status.state is ResizeState.ERROR:
        return _waiting(record, flight, FlightState.FAILING, status, look)
    if status.state is ResizeState.UNKNOWN and look.now_seconds - flight.sent_seconds >= look.patience_seconds:
        record = replace(record, flight=None)
        return record, (_news(record, flight, look, Outcome.ERROR, NOT_REPORTED, status.message),)
    # On its way; a deferral or a failure before it is over.
    flight = flight if flight.state is FlightState.ACCEPTED else _in_state(flight, FlightState.ACCEPTED, look)
    return replace(record, flight=flight, wanted=_still_wanted(record)), ()


def _done(record: PodRecord, flight: Flight, look: PodLook) -> tuple[PodRecord, tuple[News, ...]]:
    # What is put back is no answer of a policy.
    changes = flight.step.changes if flight.action is Action.RESIZE else ()
    cpu = [change for change in changes if (change.resource, change.setting) == _CPU_REQUEST]
    fell = any(change.after < change.before for change in cpu)
    grew = flight.step.is_urgent and any(change.after > change.before for change in cpu)
    record = replace(
        record,
        flight=None,
        changed_seconds=look.now_seconds,
        cpu_fell_seconds=look.now_seconds if fell else record.cpu_fell_seconds,
        cpu_grown_seconds=look.now_seconds if grew else record.cpu_grown_seconds,
        wanted=_still_wanted(record),
        refused=tuple(refusal for refusal in record.refused if refusal.phase is not flight.step.phase),
        shrunk=tuple(
            replace(shrink, at_seconds=look.now_seconds) if shrink.sent_seconds == flight.sent_seconds else shrink
            for shrink in record.shrunk
        ),
    )
    return record, (_news(record, flight, look, Outcome.APPLIED, APPLIED, ""),)


def _waiting(
    record: PodRecord, flight: Flight, state: FlightState, status: ResizeStatus, look: PodLook
) -> tuple[PodRecord, tuple[News, ...]]:
    """Judge a resize that the kubelet puts off or fails at: told once, and taken back when patience ends."""
    news: list[News] = []
    if flight.state is not state:
        flight = _in_state(flight, state, look)
        record = replace(record, flight=flight)
        is_deferred = state is FlightState.DEFERRED
        outcome, reason = (Outcome.DEFERRED, DEFERRED) if is_deferred else (Outcome.ERROR, FAILING)
        news.append(_news(record, flight, look, outcome, reason, status.message))
    waited_seconds = look.now_seconds - flight.since_seconds
    # Failing at a lower memory limit it would be tried again at each sync, and one of them may meet a peak.
    is_perilous = state is FlightState.FAILING and lowers_memory_limit(flight)
    has_patience = waited_seconds < look.patience_seconds and not is_perilous
    # What a person wants back stays, however long it takes; and a boost is not given a second time.
    is_to_stay = flight.action in (Action.REVERT, Action.UNBOOST) or (
        flight.action is Action.RESTORE and not is_perilous
    )
    if has_patience or record.wanted is not None or is_to_stay:
        return record, tuple(news)
    # What fails is allocated as a whole, and taken back as a whole.
    granted = _granted(flight, look.pod) if state is FlightState.DEFERRED else ()
    wanted = withdrawal(flight, f"{state} for {waited_seconds:.0f} s: back to what is allocated", granted=granted)
    record = refused(replace(record, wanted=wanted), flight.step.phase, KeptReason.DEFERRED, look.now_seconds)
    news.append(_news(record, flight, look, Outcome.WITHHELD, WITHDRAWN, status.message))
    return record, tuple(news)


def _granted(flight: Flight, pod: Pod) -> tuple[Change, ...]:
    """Return the changes that came in force as an earlier wish, on top of which this one was sent."""
    return tuple(change for change in flight.step.changes if is_granted(pod, change))


def _still_wanted(record: PodRecord) -> PutBack | None:
    """Return what is wanted once a resize gets on, or somebody else's took its place.

    It is not withdrawn any more; but a shrink is still taken back.
    """
    wanted = record.wanted
    return wanted if wanted is not None and wanted.is_floor else None


def _in_state(flight: Flight, state: FlightState, look: PodLook) -> Flight:
    return replace(flight, state=state, since_seconds=look.now_seconds)


def _changed_by_others(record: PodRecord, now_seconds: float) -> PodRecord:
    """Forget what was refused, and what was to be withdrawn, of a pod that somebody else has resized.

    The cool-downs begin anew.
    """
    return replace(
        record,
        flight=None,
        below=None,
        infeasible=None,
        refused=(),
        changed_seconds=now_seconds,
        wanted=_still_wanted(record),
    )


def _found_infeasible(record: PodRecord, look: PodLook) -> PodRecord:
    """Forget a "never" that a larger node may not repeat; take up one that the ledger knows nothing of."""
    node, known = look.node, record.infeasible
    if known is not None and node is not None:
        has_grown = _is_more(node.allocatable_cpu_millicores, known.node_cpu_millicores) or _is_more(
            node.allocatable_memory_bytes, known.node_memory_bytes
        )
        return replace(record, infeasible=None) if has_grown else record
    if known is None and resize_status(look.pod).state is ResizeState.INFEASIBLE:
        return replace(record, infeasible=infeasible_as_stated(look.pod, node))
    return record


def _is_more(now: int | None, then: int | None) -> bool:
    return now is not None and then is not None and now > then


def _aged(record: PodRecord, look: PodLook) -> PodRecord:
    now = look.now_seconds
    refusals = tuple(
        refusal
        for refusal in record.refused
        if now - refusal.since_seconds < refusal.delay_seconds + LONGEST_DELAY_SECONDS
    )
    shrunk = tuple(shrink for shrink in record.shrunk if now - shrink.at_seconds <= look.revert_seconds)
    return replace(record, refused=refusals, shrunk=shrunk)


def _news(record: PodRecord, flight: Flight, look: PodLook, outcome: Outcome, reason: str, detail: str) -> News:
    return News(
        ref=record.ref,
        workload=record.workload,
        action=flight.action,
        outcome=outcome,
        reason=reason,
        detail=detail,
        changes=flight.step.changes,
        seconds=max(look.now_seconds - flight.sent_seconds, 0.0),
    )
