"""The ledger of acting: what was sent for which pod, what came of it, and so what may be done next.

Core: no clock, no I/O; time is an argument. One resize of a pod is under way at a time, and only what is short now is
put on top of it; a "never" is not asked again; refusals wait longer each time; a shrink that was followed by a kill or
by memory pressure is taken back, and its workload is left alone. Nothing of that is lost over a restart: ``kept`` gives
it all, and a new ledger begins with it.

The clock is any that does not go back, best one that outlives a restart; moments that lie ahead of it when a ledger
begins (the clock was put back, the machine restarted) count as now.
"""

from __future__ import annotations

from dataclasses import replace

from agent.core.cluster.node import Node, NodeState
from agent.core.cluster.pod import Pod
from agent.core.cluster.workload import Workload, workload_of
from agent.core.orders.plan_options import ActOptions
from agent.core.plan.needs.demand import Constraint, KeptReason
from agent.core.plan.plan import PlanStep
from agent.core.plan.pod_change import changed_pod, spec_text
from agent.core.resize.aftermath import READY, own_restarts, restarts_of
from agent.core.resize.answer import AnswerKind, ResizeAnswer
from agent.core.resize.constraint import constraint_of, kept_back, may_be_topped
from agent.core.resize.decision import Action
from agent.core.resize.flight import SEEN, PodLook, follow, on_top, without_below
from agent.core.resize.oom_cool_down import OomCoolDown, raised_memory_limits
from agent.core.resize.originals import ref_of
from agent.core.resize.put_back import memory_falls, revert, revert_all, step_of
from agent.core.resize.record import (
    NOTHING_KEPT,
    Flight,
    FlightState,
    LedgerState,
    News,
    OomAction,
    PodRecord,
    PutBack,
    ShrinkBar,
    Shrunk,
    as_of,
)
from agent.core.resize.refusal import after_answer, requests_in_all
from agent.core.resize.status import resize_status

_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 60.0
_LONGEST_ASKED_SECONDS = 300.0
"""Of what a server may ask for: whoever sits between it and the agent can write the header too."""
KILL_SECONDS = 600.0
"""After a kill for want of memory, for so long what keeps the container from more speaks for another node."""
_BUSY = frozenset({AnswerKind.THROTTLED, AnswerKind.UNAVAILABLE, AnswerKind.UNKNOWN})
"""Answers of a server that has enough to do, or is away: the next pod's step would fare no better."""


class InFlightError(ValueError):
    """A step was to be sent while another one of its pod is under way: a fault of who sends."""


class Ledger:
    """The records of all pods, and what may be done to them next. Not safe for several threads at once."""

    def __init__(self, act: ActOptions, state: LedgerState = NOTHING_KEPT, *, now_seconds: float) -> None:
        state = as_of(state, now_seconds)
        self._act = act
        self._records: dict[str, PodRecord] = {record.ref.uid: record for record in state.pods}
        self._bars: dict[Workload, float] = {bar.workload: bar.since_seconds for bar in state.bars}
        self._oom = OomCoolDown(
            {(action.workload, action.container): action.at_seconds for action in state.oom_actions}
        )
        self._kills: dict[tuple[str, str], float] = {}
        """Of the last minutes, by pod uid and container; a restart forgets them, and the next kill tells again."""
        self._pods: dict[str, Pod] = {}
        self._specs: dict[str, str] = {}
        self._node: Node | None = None
        self._quiet_until_seconds: float | None = None
        self._wait_seconds = 0.0

    # What may be done

    def constraints(self, state: NodeState, now_seconds: float) -> dict[str, Constraint]:
        """Return what stands in the way of changing pods, by uid; a pod that is missing is free."""
        constraints = {
            pod.uid: constraint_of(self._records.get(pod.uid), pod, self._act, now_seconds) for pod in state.pods
        }
        self._kills = {key: at for key, at in self._kills.items() if 0.0 <= now_seconds - at < KILL_SECONDS}
        for uid in constraints.keys() & {uid for uid, _ in self._kills}:
            killed = frozenset(container for of, container in self._kills if of == uid)
            constraints[uid] = replace(constraints[uid], killed=killed)
        return constraints

    def may_send(
        self, step: PlanStep, pod: Pod, now_seconds: float, action: Action = Action.RESIZE
    ) -> KeptReason | None:
        """Return why a step may not be sent now; None = it may. What is wanted back may be sent over what is deferred.

        A restore is held up by a resize under way and by nothing else.
        """
        return kept_back(step, self._records.get(pod.uid), pod, self._act, now_seconds, action)

    def wait_seconds(self, now_seconds: float) -> float:
        """Return for how long nothing at all should be sent because the API server is overloaded or away; 0 = send."""
        return max((self._quiet_until_seconds or now_seconds) - now_seconds, 0.0)

    def wanted(self, now_seconds: float) -> tuple[PlanStep, ...]:
        """Return what must be put back before anything else, by the pods as last seen, and may be sent now."""
        steps: list[PlanStep] = []
        for uid, record in self._records.items():
            pod = self._pods.get(uid)
            step = step_of(record, pod) if pod is not None else None
            if pod is None or step is None:
                continue
            if self.may_send(step, pod, now_seconds) is None:
                steps.append(step)
        return tuple(steps)

    def is_shrink_barred(self, workload: Workload, now_seconds: float) -> bool:
        """Return whether a workload is not to be shrunk on this node, since one of its shrinks was taken back."""
        since = self._bars.get(workload)
        return since is not None and now_seconds - since < self._act.shrink_barred_seconds

    def is_memory_limit_held(self, workload: Workload, container: str, now_seconds: float) -> bool:
        """Return whether a container's memory limit has risen so lately that it must not rise again yet.

        What leaks is stopped by its limit: one that followed each kill or each alarm would let it fill the node. A
        kill after an alarm's raise is answered once more.
        """
        return self._oom.is_cooling(workload, container, now_seconds)

    # What was done

    def sent(self, step: PlanStep, pod: Pod, now_seconds: float, action: Action = Action.RESIZE) -> None:
        """Record that a step is being sent; to be kept before it is, so that a crash in between is no riddle.

        While another resize of the pod is under way, only what puts it back or is urgent is no InFlightError. What is
        put on top of another is followed as one with it.
        """
        record = self._records.get(pod.uid) or _new_record(pod)
        held = kept_back(step, record, pod, self._act, now_seconds, action)
        if held is KeptReason.IN_FLIGHT:
            msg = f"{step.ref}: {held.replace('_', ' ')}, so no further step is sent"
            raise InFlightError(msg)
        wanted = step_of(record, pod)
        if action is Action.RESIZE and wanted is not None and wanted.changes == step.changes:
            action = Action.REVERT
        after = changed_pod(pod, step.changes)
        (cpu_before, memory_before), (cpu_after, memory_after) = requests_in_all(pod), requests_in_all(after)
        cpu_asked = cpu_after if cpu_after > cpu_before else None
        memory_asked = memory_after if memory_after > memory_before else None
        below = record.flight
        if below is None or action is not Action.RESIZE or not may_be_topped(below, resize_status(pod)):
            below = None
        else:
            step = on_top(below.step, step)
            cpu_asked, memory_asked = cpu_asked or below.cpu_asked_millicores, memory_asked or below.memory_asked_bytes
        restarted = own_restarts(pod, step.changes)
        flight = Flight(
            step=step,
            action=action,
            sent_seconds=now_seconds,
            state=FlightState.SENT,
            since_seconds=now_seconds,
            spec_before=spec_text(pod),
            spec_after=spec_text(after),
            generation=pod.generation,
            resource_version=pod.resource_version,
            cpu_asked_millicores=cpu_asked,
            memory_asked_bytes=memory_asked,
            restarts=restarts_of(pod) + restarted,
            was_ready=not restarted and pod.condition(READY) is not None,
        )
        self._records[pod.uid] = replace(record, flight=flight, below=below)
        self._pods[pod.uid] = pod

    def answered(self, uid: str, answer: ResizeAnswer, now_seconds: float) -> None:
        """Record the API server's answer to the step that was sent last for a pod."""
        self._mind_load(answer, now_seconds)
        record = self._records.get(uid)
        if record is None or record.flight is None:
            return
        if answer.kind is AnswerKind.GONE:
            del self._records[uid]
            return
        if answer.is_done:
            self._hold_raised(record, record.flight, now_seconds)
        self._records[uid] = after_answer(record, record.flight, answer, self._node, now_seconds)

    def observe(self, state: NodeState, now_seconds: float) -> tuple[News, ...]:
        """Check all pods, and return what became of their resizes; pods that are gone are forgotten."""
        self._node = state.node
        news: list[News] = []
        seen = {pod.uid: pod for pod in state.pods}
        for uid, pod in seen.items():
            record = self._records.get(uid)
            if record is None:
                spec = spec_text(pod)
                if self._specs.get(uid, spec) == spec:
                    self._specs[uid] = spec
                    continue
                record = replace(_new_record(pod), spec=self._specs[uid])
            self._records[uid] = record
            news.extend(self._look(pod, now_seconds, confirmed_seconds=now_seconds - (state.age_seconds or 0.0)))
        self._pods = seen
        if state.is_complete:
            self._forget(state, now_seconds)
        return tuple(news)

    def confirmed(self, pod: Pod, now_seconds: float) -> tuple[News, ...]:
        """Check one pod that was read just now because no answer came to its resize: what it lacks was not done.

        Should it still be done later, it meets another version of the pod than it names, and changes nothing.
        """
        self._pods[pod.uid] = pod
        return self._look(pod, now_seconds, confirmed_seconds=None) if pod.uid in self._records else ()

    def killed(self, uid: str, container: str, now_seconds: float) -> PlanStep | None:
        """Record an out-of-memory kill; return the step that takes back the shrinks before it; so does ``wanted``.

        None = there were none within ``act.revertSeconds``, or they stand no more.
        """
        self._kills[uid, container] = now_seconds
        record = self._records.get(uid)
        if record is None and uid in self._pods:
            record = _new_record(self._pods[uid])  # never resized so far
        if record is not None:
            self._oom.killed(record.workload, container, now_seconds)
        return self._take_back(uid, container, now_seconds, "an out-of-memory kill after a shrink: taken back")

    def is_shrunk_lately(self, uid: str, container: str, now_seconds: float) -> bool:
        """Return whether a shrink of memory may be to blame for a kill now; any thread: records never change."""
        record = self._records.get(uid)
        return record is not None and revert(self._shrunk(record, now_seconds), container, "") is not None

    def pressed(self, uid: str, container: str, now_seconds: float) -> PlanStep | None:
        """Record memory pressure as high as ``act.revertMemoryWaitingRatio``; as ``killed``."""
        return self._take_back(uid, container, now_seconds, "memory pressure after a shrink: taken back")

    def shrunk_lately(self, now_seconds: float) -> tuple[tuple[Pod, Shrunk], ...]:
        """Return the pods with a plan's shrink of ``act.revertSeconds`` in force, as last seen, each with its newest.

        Of those whose shrink is being taken back already there is nothing to judge.
        """
        shrinks: list[tuple[Pod, Shrunk]] = []
        for uid, record in self._records.items():
            pod = self._pods.get(uid)
            judged = [
                shrink
                for shrink in record.shrunk
                if shrink.restarts is not None and now_seconds - shrink.at_seconds <= self._act.revert_seconds
            ]
            if pod is not None and not pod.is_terminating and judged and record.wanted is None:
                shrinks.append((pod, judged[-1]))
        return tuple(shrinks)

    def fared_worse(self, uid: str, reason: str, now_seconds: float) -> PlanStep | None:
        """Record that a pod fares worse after a shrink; return the step that takes all of it back; so does ``wanted``.

        None = there was none within ``act.revertSeconds``, or it stands no more.
        """
        record = self._records.get(uid)
        wanted = None if record is None else revert_all(self._shrunk(record, now_seconds), f"{reason}: taken back")
        return None if record is None or wanted is None else self._put_back(record, wanted, now_seconds)

    def kept(self) -> LedgerState:
        """Return all that must not be forgotten over a restart; equal when nothing has changed."""
        return LedgerState(
            pods=tuple(self._records.values()),
            bars=tuple(ShrinkBar(workload=workload, since_seconds=since) for workload, since in self._bars.items()),
            oom_actions=tuple(
                OomAction(workload=workload, container=container, at_seconds=at)
                for (workload, container), at in self._oom.acted_seconds.items()
            ),
        )

    def _look(self, pod: Pod, now_seconds: float, *, confirmed_seconds: float | None) -> tuple[News, ...]:
        look = PodLook(
            pod=pod,
            node=self._node,
            now_seconds=now_seconds,
            confirmed_seconds=confirmed_seconds,
            patience_seconds=self._act.deferred_patience_seconds,
            revert_seconds=self._act.revert_seconds,
        )
        before = self._records[pod.uid]
        self._records[pod.uid], news = follow(before, look)
        self._specs[pod.uid] = spec_text(pod)
        if before.flight is not None and any(item.reason == SEEN for item in news):
            self._hold_raised(before, before.flight, now_seconds)
        return news

    def _hold_raised(self, record: PodRecord, flight: Flight, now_seconds: float) -> None:
        """Hold the memory limits that a pod's newest step has raised, now that its spec has them."""
        for container in raised_memory_limits(without_below(flight, record.below)):
            self._oom.take(record.workload, container, now_seconds, sent_seconds=flight.sent_seconds)

    def _take_back(self, uid: str, container: str, now_seconds: float, reason: str) -> PlanStep | None:
        record = self._records.get(uid)
        if record is None:
            return None
        wanted = revert(self._shrunk(record, now_seconds), container, reason)
        return None if wanted is None else self._put_back(record, wanted, now_seconds)

    def _put_back(self, record: PodRecord, wanted: PutBack, now_seconds: float) -> PlanStep | None:
        uid = record.ref.uid
        self._bars[record.workload] = now_seconds
        record = replace(record, wanted=wanted)
        self._records[uid] = record
        pod = self._pods.get(uid)
        return step_of(record, pod) if pod is not None else None

    def _shrunk(self, record: PodRecord, now_seconds: float) -> list[Shrunk]:
        shrunk = [shrink for shrink in record.shrunk if now_seconds - shrink.at_seconds <= self._act.revert_seconds]
        flight = record.flight
        if flight is not None and flight.state is FlightState.SENT and flight.action is not Action.REVERT:
            # Not answered yet, and perhaps in force already.
            shrunk.append(
                Shrunk(
                    sent_seconds=flight.sent_seconds,
                    at_seconds=now_seconds,
                    changes=memory_falls(flight.step.changes),
                )
            )
        return shrunk

    def _mind_load(self, answer: ResizeAnswer, now_seconds: float) -> None:
        """Be quiet for as long as the server asks, or longer each time where it does not say."""
        if answer.kind not in _BUSY:
            self._quiet_until_seconds, self._wait_seconds = None, 0.0
            return
        self._wait_seconds = min(max(2.0 * self._wait_seconds, _FIRST_WAIT_SECONDS), _LONGEST_WAIT_SECONDS)
        asked = min(answer.retry_after_seconds or 0.0, _LONGEST_ASKED_SECONDS)
        self._quiet_until_seconds = now_seconds + max(asked, self._wait_seconds)

    def _forget(self, state: NodeState, now_seconds: float) -> None:
        """Drop the pods that are gone and the bars that are over; a pod that could not be read is still there."""
        unreadable = {text.partition(":")[0] for text in state.unreadable_pods}
        self._records = {
            uid: record for uid, record in self._records.items() if uid in self._pods or str(record.ref) in unreadable
        }
        self._specs = {uid: spec for uid, spec in self._specs.items() if uid in self._pods}
        self._bars = {
            workload: since
            for workload, since in self._bars.items()
            if now_seconds - since < self._act.shrink_barred_seconds
        }


def _new_record(pod: Pod) -> PodRecord:
    return PodRecord(ref=ref_of(pod), workload=workload_of(pod))
