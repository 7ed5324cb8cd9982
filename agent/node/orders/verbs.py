"""What people order at the socket: pause, resume, pin, unpin, restore, and the decision log. Node.

Arguments come as JSON from outside; what is wrong with them is said by ControlError. Restoring itself is a callable
that is given: who writes to the API stands elsewhere. Each order is put down in the decision log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from agent.core.cluster.pod import Pod, PodRef, has_ended
from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.core.cluster.workload import Workload, workload_of
from agent.core.orders.annotations import ORIGINAL_RESOURCES
from agent.core.plan.needs.demand import KeptReason
from agent.core.plan.plan import PlanStep
from agent.core.recommender.unit_names import NoSuchUnit, chosen_by
from agent.core.resize.decision import Action, Decision, Decisions, Outcome, newest_outcomes
from agent.core.resize.originals import MOST_STEPS, OriginalError, ref_of, restore_steps
from agent.node.files.documents import DECISIONS
from agent.node.orders.answers import (
    HOLDING,
    ORDERED,
    RESTORED,
    UNPINNED,
    HeldAnswer,
    OrderAnswer,
    Restored,
    RestoredPod,
    Unpinned,
)
from agent.node.orders.arguments import (
    read_age,
    read_all,
    read_flag,
    read_members,
    read_name,
    read_pattern,
    read_until,
    refuse_unknown,
)
from agent.node.orders.holds import Holds
from agent.node.orders.journal import DecisionFilter, Journal
from agent.node.orders.restores import known_original
from agent.node.sockets.control import ControlError, Verb

MOST_DECISIONS: Final = 10_000
"""Of one answer; more than the log holds."""
ASKED: Final = "asked for"
"""The reason in the log where a person ordered it."""


Send = Callable[[Pod, PlanStep], Decision]
"""Carries one step out, pinned and paused pods included, and puts it down in the log; never raises for the API's
sake. Its decision says what came of it."""
_BAD: Final = (
    Outcome.REJECTED,
    Outcome.INFEASIBLE,
    Outcome.ERROR,
    Outcome.CONFLICT,
    Outcome.WITHHELD,
    Outcome.DEFERRED,
)
"""The worst first. After any of these the pod's further steps are not tried."""
_FENCED: Final = "only its original resources may be put back"
"""What the fence of the chart answers for a pod that is not enforced."""
_PAST_FENCE: Final = "restore it while its mode is enforce, or have a person with rights of their own patch it"
LATER: Final = "sent as soon as the kubelet has done the step before it"
_NOT_DONE: Final = (Outcome.REJECTED, Outcome.INFEASIBLE, Outcome.CONFLICT, Outcome.WITHHELD)
"""The pod is as it was, for certain: a pin would keep what nobody asked to keep."""


class HoldingVerbs:
    """The verbs, over the parts that they order about."""

    def __init__(
        self,
        *,
        node: str,
        journal: Journal,
        holds: Holds,
        pods: Callable[[], tuple[Pod, ...]],  # All pods bound to the node, as last known
        send: Send | None,  # Carries out a step; None = this agent has no API server to write to
        clock: Callable[[], float],  # Wall clock, Unix seconds
        changed: Callable[[], None] = lambda: None,  # Called after each order, so that the next plan does not wait
        # Whether the API server has told of the pods: before, none is known, and that is not none
        is_told: Callable[[], bool] = lambda: True,
    ) -> None:
        self._node = node
        self._journal = journal
        self._holds = holds
        self._pods = pods
        self._send = send
        self._clock = clock
        self._changed = changed
        self._is_told = is_told

    def verbs(self) -> dict[str, Verb]:
        """Return them by name, for the control socket."""
        return {
            "pause": self.pause,
            "resume": self.resume,
            "pin": self.pin,
            "unpin": self.unpin,
            "holds": self.holds,
            "restore": self.restore,
            "events": self.events,
        }

    def pause(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """Stop every write: ``{"for_seconds": 1800}``, null or absent = until resumed."""
        refuse_unknown(arguments, "pause", "for_seconds")
        now = self._clock()
        until = read_until(arguments, "pause", now)
        before = self._holds.pause(until, now_unix_seconds=now)
        self._note(now, Action.PAUSE, f"nothing is written {_until_text(until)}")
        return self._ordered(now, None, until, None if before is None else before.since_unix_seconds)

    def resume(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """End the pause."""
        refuse_unknown(arguments, "resume")
        now = self._clock()
        before = self._holds.resume(now_unix_seconds=now)
        if before is not None:
            self._note(now, Action.RESUME, "the pause is over")
        return self._ordered(now, None, None, None if before is None else before.since_unix_seconds)

    def pin(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """Leave a pod alone: ``{"name": "web", "for_seconds": null}``."""
        refuse_unknown(arguments, "pin", "name", "for_seconds")
        now = self._clock()
        until = read_until(arguments, "pin", now)
        ref = ref_of(self._pod(read_name(arguments, "pin"), "pin"))
        before = self._holds.pin(ref, until, now_unix_seconds=now)
        self._note(now, Action.PIN, f"left alone {_until_text(until)}", ref)
        return self._ordered(now, ref, until, None if before is None else before.since_unix_seconds)

    def unpin(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """Let a pod be sized again: ``{"name": "web"}``, also one that is gone; or all: ``{"all": true}``."""
        refuse_unknown(arguments, "unpin", "name", "all")
        now = self._clock()
        if read_all(arguments, "unpin"):
            return self._unpinned_all(now)
        refs = {pin.ref: None for pin in self._holds.pins(now)} | {ref_of(pod): pod for pod in self._pods()}
        ref = _chosen(read_name(arguments, "unpin"), refs, "unpin")
        before = self._holds.unpin(ref.uid, now_unix_seconds=now)
        if before is not None:
            self._note(now, Action.UNPIN, "may be sized again", ref)
        return self._ordered(now, ref, None, None if before is None else before.since_unix_seconds)

    def holds(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """Return what is held."""
        refuse_unknown(arguments, "holds")
        now = self._clock()
        return HOLDING.to_json(
            HeldAnswer(
                node=self._node,
                taken_unix_seconds=now,
                pause=self._holds.paused(now),
                pins=self._holds.pins(now),
                notes=self._faults(),
            )
        )

    def restore(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """Restore original requests: ``{"name": "web"}`` or ``{"all": true}``, with ``"dry_run": true`` only say so.

        What is restored is pinned first, also where nothing differs now: without that the next plan would take it back.
        A pause does not stop it, as it is a wish of its own. All are those that have not ended: what has ended requests
        nothing, and nobody knows any more what memory is in use there, below which a limit must not fall.
        """
        refuse_unknown(arguments, "restore", "name", "all", "dry_run")
        is_all, is_dry_run = read_all(arguments, "restore"), read_flag(arguments, "restore", "dry_run")
        if self._send is None and not is_dry_run:
            raise ControlError("restore: this agent has no API server to write to; allowed: with dry_run")
        if is_all and not self._is_told():
            raise ControlError("restore: the API server has not told yet of this node's pods; ask again in a moment")
        if is_all:
            chosen = tuple(pod for pod in self._pods() if not has_ended(pod))
        else:
            chosen = (self._pod(read_name(arguments, "restore"), "restore"),)
        items: list[RestoredPod] = []
        for pod in sorted(chosen, key=ref_of):
            item = self._restored(pod, is_dry_run=is_dry_run)
            if item is not None:
                items.append(item)
            elif not is_all:
                raise ControlError(f"restore: {ref_of(pod)}: no original requests are known: it was never resized here")
        if not is_dry_run:
            self._changed()
        return RESTORED.to_json(
            Restored(
                node=self._node,
                taken_unix_seconds=self._clock(),
                is_dry_run=is_dry_run,
                items=tuple(items),
                notes=self._faults(),
            )
        )

    def events(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """Report decisions, newest first.

        All optional: ``limit``, ``pod`` and ``namespace`` (``*`` allowed), ``actions``, ``outcomes`` (lists),
        ``since_seconds``; ``newest_outcomes``: one entry of each resize, see ``core.outcomes``.
        """
        known = ("limit", "pod", "namespace", "actions", "outcomes", "since_seconds", "newest_outcomes")
        refuse_unknown(arguments, "events", *known)
        limit, now = arguments.get("limit"), self._clock()
        if limit is not None and (type(limit) is not int or not 1 <= limit <= MOST_DECISIONS):
            raise ControlError(f"events: limit is {limit!r}; allowed: 1 to {MOST_DECISIONS}")
        since = read_age(arguments, "events", "since_seconds")
        choice = DecisionFilter(
            pod=read_pattern(arguments, "pod"),
            namespace=read_pattern(arguments, "namespace"),
            actions=read_members(arguments, "actions", Action),
            outcomes=read_members(arguments, "outcomes", Outcome),
            since_unix_seconds=None if since is None else now - since,
        )
        decisions = self._journal.newest()
        if read_flag(arguments, "events", "newest_outcomes"):
            decisions = newest_outcomes(decisions)
        decisions = tuple(decision for decision in decisions if choice.holds(decision))
        return DECISIONS.to_json(
            Decisions(
                taken_unix_seconds=now,
                node=self._node,
                source="agent",
                items=decisions[: limit if isinstance(limit, int) else None],
                matching=len(decisions),
                notes=self._faults(),
            )
        )

    def _unpinned_all(self, now: float) -> Mapping[str, object]:
        pins = self._holds.pins(now)
        for pin in pins:
            self._holds.unpin(pin.ref.uid, now_unix_seconds=now)
            self._note(now, Action.UNPIN, "may be sized again", pin.ref)
        self._changed()
        return UNPINNED.to_json(Unpinned(node=self._node, taken_unix_seconds=now, pins=pins, notes=self._faults()))

    # -- parts -----------------------------------------------------------------------------------------------------

    def _restored(self, pod: Pod, *, is_dry_run: bool) -> RestoredPod | None:
        """Restore one pod; None = no original is known."""
        ref = ref_of(pod)
        try:
            original = known_original(self._holds, pod)
        except OriginalError as error:
            return RestoredPod(ref=ref, changes=(), outcome=Outcome.WITHHELD, detail=str(error))
        if original is None:
            return None
        steps = restore_steps(pod, original)
        changes = tuple(change for step in steps for change in step.changes)
        decisions = () if is_dry_run else self._sent(pod, steps)
        worst = min(decisions, key=_rank, default=None)
        same = [decision for decision in decisions if worst is not None and decision.outcome is worst.outcome]
        detail = next((decision.detail for decision in same if decision.detail), "")
        if not detail and worst is not None and worst.outcome in _BAD:
            detail = worst.reason.replace("_", " ")
        if _FENCED in detail and original.kept_unix_seconds is not None:
            detail += f"; the fence knows them by {ORIGINAL_RESOURCES} alone, which this pod lacks: {_PAST_FENCE}"
        return RestoredPod(
            ref=ref,
            changes=changes,
            outcome=None if worst is None else worst.outcome,
            detail=detail,
            kept_unix_seconds=original.kept_unix_seconds,
        )

    def _sent(self, pod: Pod, steps: Sequence[PlanStep]) -> tuple[Decision, ...]:
        if self._send is None:
            return ()
        ref, now = ref_of(pod), self._clock()
        was_pinned = ref.uid in self._holds.pinned(now)
        if not was_pinned:
            self._holds.pin(ref, None, now_unix_seconds=now)
            self._note(now, Action.PIN, "left alone until unpinned: its original requests are put back", ref)
        decisions: list[Decision] = []
        for step in steps:
            decision = self._send(pod, step)
            if decision.outcome is Outcome.WITHHELD and decision.reason == KeptReason.IN_FLIGHT:
                decisions.append(self._promised(ref, step))
                break
            decisions.append(decision)
            if decision.outcome in _BAD:
                break
            # The step after is judged by what this one left: a limit may fall below a request that has fallen by now.
            pod = next((known for known in self._pods() if known.uid == ref.uid), pod)
        if not was_pinned and decisions and decisions[0].outcome in _NOT_DONE:
            self._holds.unpin(ref.uid, now_unix_seconds=now)
            self._note(now, Action.UNPIN, "may be sized again: nothing of it was put back", ref)
        return tuple(decisions)

    def _promised(self, ref: PodRef, step: PlanStep) -> Decision:
        """Request what is lacking once what is under way for the pod is done; the acting thread goes on with it."""
        self._holds.promise(ref.uid, MOST_STEPS, now_unix_seconds=self._clock())
        return self._journal.add(
            unix_seconds=self._clock(),
            action=Action.RESTORE,
            outcome=Outcome.ACCEPTED,
            reason=step.reason,
            detail=LATER,
            pod=ref,
            workload=f"{step.workload.kind}/{step.workload.name}",
            changes=step.changes,
        )

    def _pod(self, name: str, verb: str) -> Pod:
        pods = {ref_of(pod): pod for pod in self._pods()}
        return pods[_chosen(name, pods, verb)]

    def _note(self, now: float, action: Action, detail: str, ref: PodRef | None = None) -> None:
        self._journal.add(unix_seconds=now, action=action, outcome=Outcome.DONE, reason=ASKED, detail=detail, pod=ref)

    def _ordered(
        self, now: float, ref: PodRef | None, until: float | None, since: float | None
    ) -> Mapping[str, object]:
        self._changed()
        return ORDERED.to_json(
            OrderAnswer(
                node=self._node,
                taken_unix_seconds=now,
                ref=ref,
                until_unix_seconds=until,
                held_since_unix_seconds=since,
                notes=self._faults(),
            )
        )

    def _faults(self) -> tuple[str, ...]:
        reason = self._holds.cluster_pause()
        of_cluster = None if reason is None else f"the whole cluster is paused, which only its ConfigMap ends: {reason}"
        return tuple(note for note in (of_cluster, self._holds.fault, self._journal.fault) if note is not None)


def _rank(decision: Decision) -> int:
    return _BAD.index(decision.outcome) if decision.outcome in _BAD else len(_BAD)


# Pods


def _chosen(name: str, pods: Mapping[PodRef, Pod | None], verb: str) -> PodRef:
    """Find the pod that a person means.

    Args:
        pods: Those there are; None = it is pinned and gone.
    """

    def workload(identity: UnitIdentity) -> Workload | None:
        pod = pods[units[identity]]
        return None if pod is None else workload_of(pod)

    units = {
        UnitIdentity(
            cgroup_path=str(ref), kind=UnitKind.CONTAINER, namespace=ref.namespace, pod=ref.name, pod_uid=ref.uid
        ): ref
        for ref in pods
    }
    try:
        refs = {units[identity] for identity in chosen_by(name, units, workload_of=workload)}
    except NoSuchUnit as error:
        raise ControlError(f"{verb}: {error}") from error
    if len(refs) > 1:  # one that is pinned and gone, and its successor of the same name
        uids = ", ".join(sorted(ref.uid for ref in refs))
        raise ControlError(f"{verb}: {name} is the name of {len(refs)} pods; allowed: one of the uids {uids}")
    return refs.pop()


def _until_text(until: float | None) -> str:
    if until is None:
        return "until further notice"
    return f"until {datetime.fromtimestamp(until, tz=UTC):%Y-%m-%dT%H:%M:%SZ}"
