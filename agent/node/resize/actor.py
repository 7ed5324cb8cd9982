"""The thread ``acting``: plans, and carries out what may be done now; again and again, from the newest state.

Node. A turn takes the state as it is, so a plan that was cut short is not resumed but made anew, and what is in force
already is no step. Turns come each ``plan.replanSeconds``, after news of pods, and at once (a bounded number of times)
when a container starves, fills its memory limit or was killed for want of it. Whatever is in doubt, nothing is written.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from agent.core.cluster.node import NodeState
from agent.core.cluster.pod import Pod, PodRef
from agent.core.numbers.token_bucket import TokenBucket
from agent.core.plan.demand import Kept, Urgent
from agent.core.plan.demands import Key
from agent.core.plan.plan import PlanStep
from agent.core.plan.urgent_needs import UrgentMemory
from agent.core.resize.decision import Action, Outcome
from agent.core.resize.event_rate import EventReason
from agent.core.resize.ledger import Ledger
from agent.core.resize.record import News
from agent.metrics.acting_series import ActingSeries, Trigger, kept_counts
from agent.metrics.loop_series import LoopTurns
from agent.node.cluster.rights import Rights
from agent.node.keepers.keeper import Keeper
from agent.node.orders.holds import Holds
from agent.node.orders.journal import Journal
from agent.node.orders.restores import RestorePromises
from agent.node.recommender.planner import Holding, Planned, Planner
from agent.node.resize.barriers import DIRECTIVES, HISTORY, NO_API, PAUSED, Barrier, Barriers
from agent.node.resize.step_sender import StepSender
from agent.node.resize.teller import ActTeller, Events, has_enforced
from agent.node.resize.turn_timing import TurnTiming
from agent.node.resize.writer import StepWriter
from agent.settings import Settings

log = logging.getLogger(__name__)

TURN_SECONDS: Final = 1.0
"""For sending, in one turn; a turn that is cut short is made anew at once."""
RESERVE_RATIO: Final = 0.25
"""Of the budget, for reverts and for pods that starve."""
BUDGET_SECONDS: Final = 5.0
"""Until the next try where the budget was used up."""
SEEN_SECONDS: Final = 300.0
"""A pod that was not seen for so long, by a view that is whole, is gone: its pin and its originals are forgotten."""
LONGEST_WAIT_SECONDS: Final = 60.0
FAILED_SECONDS: Final = 2.0
"""After a turn that failed: a fault that repeats at once must not spin."""
FLUSH_SECONDS: Final = 60.0
"""Between two writings of the decision log's counts."""
LOOK_UP_SECONDS: Final = 5.0
"""Between two readings of pods of whose resize no answer came."""
REMEMBERED_SECONDS: Final = 30.0
"""What was seen to be needed is planned with for as long as a cool-down lasts, and for so long at least: by then the
windows know of it too, and a grow that did not fit at once has had its tries."""
MAX_KILLS: Final = 256


class ActingView(Protocol):
    """The view of the API that acting needs; ``node.cluster.ClusterView`` is one."""

    def state(self) -> NodeState:
        """Give what is known."""
        ...


class Actor:
    """Plans and acts; see the module's docstring."""

    def __init__(
        self,
        *,
        settings: Settings,
        node_name: str,
        cluster: ActingView,
        planner: Planner,
        writer: StepWriter,
        ledger: Ledger,
        holds: Holds,
        journal: Journal,
        series: ActingSeries,
        rights: Rights,
        bucket: TokenBucket,
        events: Events | None,
        keepers: Sequence[Keeper],
        keep: Callable[[], bool],
        is_history_known: Callable[[], bool],
        measuring_fault: Callable[[], str | None],
        is_untold: Callable[[], bool],
        memory_in_use: Callable[[Pod], Mapping[str, int]],
        planned: Callable[[Planned], None],
        now: Callable[[], float],
        wall_now: Callable[[], float],
        turns: LoopTurns,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the parts; nothing runs yet.

        Args:
            settings: How to plan and act.
            node_name: Of this node in the cluster.
            cluster: What the API told last.
            planner: Makes plans.
            writer: Sends steps; its lock guards the ledger.
            ledger: Knows what is under way.
            holds: Pauses and pins.
            journal: The decision log.
            series: Metrics.
            rights: Whether this agent may write.
            bucket: The budget of resizes.
            events: Tells pods' owners; None = nobody is told.
            keepers: Looked after in each turn.
            keep: Puts the ledger on disk.
            is_history_known: What was learnt before the start is known by now.
            measuring_fault: Why what was measured is too old to act by; None = it is not.
            is_untold: The webhook that is configured has told nothing yet.
            memory_in_use: Gives memory.current of a pod's containers, read just now; under the empty name of all.
            planned: Is handed each new plan, on this thread.
            now: The ledger's clock: Unix seconds that never go back.
            wall_now: Of people.
            turns: Counts the thread's turns.
            clock: Monotonic seconds, for waiting.
        """
        self._turns = turns
        self._settings, self._cluster, self._planner, self._writer = settings, cluster, planner, writer
        self._ledger, self._holds, self._journal, self._series = ledger, holds, journal, series
        self._rights, self._bucket, self._keepers = rights, bucket, keepers
        self._keep, self._on_planned = keep, planned
        self._now, self._wall_now, self._clock = now, wall_now, clock
        self._barriers = Barriers(
            node_name=node_name,
            holds=holds,
            rights=rights,
            stale_seconds=settings.act.stale_seconds,
            is_history_known=is_history_known,
            measuring_fault=measuring_fault,
            is_untold=is_untold,
        )
        self._teller = ActTeller(
            journal=journal,
            holds=holds,
            series=series,
            events=events,
            options=settings.act,
            may_write=self.may_write,
            now=now,
            wall_now=wall_now,
        )
        self._restoring = RestorePromises(holds, ledger)
        self._sender = StepSender(
            settings=settings,
            state=cluster.state,
            planner=planner,
            writer=writer,
            restoring=self._restoring,
            holds=holds,
            journal=journal,
            rights=rights,
            barriers=self._barriers,
            teller=self._teller,
            memory_in_use=memory_in_use,
            has_budget=self._has_budget,
            spent=self._spend,
            ask_anew=lambda: self.ask(Trigger.NEWS),
            now=now,
            wall_now=wall_now,
        )
        self._condition = threading.Condition()
        self._timing = TurnTiming(
            replan_seconds=settings.plan.replan_seconds,
            urgent_interval_seconds=settings.act.urgent_interval_seconds,
            now_seconds=clock(),
        )
        self._is_stopping = False
        self._flush_due_seconds = clock() + FLUSH_SECONDS
        self._began_seconds = clock()
        self._seen_seconds: dict[str, float] = {}
        self._look_up_due_seconds = 0.0
        self._urgent: dict[Key, UrgentMemory] = {}
        """What was seen to be needed."""
        self._kills: deque[Key] = deque(maxlen=MAX_KILLS)
        self._barrier: Barrier | None = None
        self.failure: str | None = None
        """Why the newest turn came to nothing; None = it did not."""
        self.is_enforcing = False
        """Some pod of the newest plan is in mode enforce; else nothing at all is written, no taint either."""
        self.planned: Planned | None = None
        """The newest plan; None = there is none yet."""

    # -- asked from other threads ----------------------------------------------------------------------------------

    def ask(self, trigger: Trigger) -> None:
        """Ask for a turn; quick, any thread."""
        with self._condition:
            self._timing.ask(trigger)
            self._condition.notify()

    def alarm(self, found: Mapping[Key, Urgent]) -> None:
        """Hear who starves; quick, any thread."""
        now = self._clock()
        with self._condition:
            for key, urgent in found.items():
                self._urgent.setdefault(key, UrgentMemory()).add(urgent, now)
            self._timing.ask(Trigger.PRESSURE)
            self._condition.notify()

    def killed(self, key: Key, needs: Urgent | None = None) -> None:
        """Hear of an out-of-memory kill; quick, any thread.

        Args:
            key: Pod uid and container.
            needs: What it was seen to need. Without this a container that is killed as soon as it runs would be helped
                by chance only: nothing is recommended for one that is not there. None = not known, or not to be sized.
        """
        with self._condition:
            self._kills.append(key)
            if needs is not None:
                self._urgent.setdefault(key, UrgentMemory()).add(needs, self._clock())
            self._timing.ask(Trigger.OUT_OF_MEMORY)
            self._condition.notify()

    def stop(self) -> None:
        """End the thread's loop."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify()

    # -- the thread ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Take turns until ``stop``."""
        while True:
            try:
                trigger = self._wait()
                if trigger is None:
                    break
                self.turn(trigger)
            except Exception as error:  # top of a thread's loop: say it, go on, and not at once
                log.exception("a turn of planning and acting failed")
                self.failure = f"{type(error).__name__}: {error}"
                self._timing.back_off(self._clock() + FAILED_SECONDS)
                self._turns.failed()
            else:
                self.failure = None
                self._turns.done()
        for keeper in self._keepers:
            keeper.close()

    def _wait(self) -> Trigger | None:
        """Wait until a turn is due, and give what asked for it; None = the end."""
        with self._condition:
            while not self._is_stopping:
                now, quiet_seconds = self._clock(), self._quiet_seconds()
                trigger = self._timing.take(now, quiet_seconds=quiet_seconds)
                if trigger is not None:
                    return trigger
                due = self._timing.next_due_seconds(now, quiet_seconds=quiet_seconds)
                self._condition.wait(min(max(0.0, due - now), LONGEST_WAIT_SECONDS))
        return None

    def _quiet_seconds(self) -> float:
        """Give for how long the API server is to be left alone; without the writer's lock, as others wait for us."""
        return max(0.0, self._writer.quiet_until_seconds - self._now())

    # -- one turn --------------------------------------------------------------------------------------------------

    def turn(self, trigger: Trigger) -> None:
        """Take in what happened, plan, and do what may be done now."""
        now, wall_now = self._now(), self._wall_now()
        self._rights.ask(self._clock())
        self._teller.expire(wall_now)
        looked_up = self._look_up()
        promised = self._restoring.promised(wall_now)
        state = self._cluster.state()
        with self._writer.lock:
            for news in (*looked_up, *self._ledger.observe(state, now)):
                self._teller.put_down(news)
            self._take_back(now)
            wanted = self._ledger.wanted(now)
            restores = self._restoring.due(promised, state, now_seconds=now)
            self._keep()
            holding = Holding.of(self._ledger, self._holds, state, now_seconds=now, wall_now=wall_now)
        started = time.perf_counter()
        planned = self._planner.plan(holding, urgent=self.remembered())
        self._series.take_plan(planned.plan, trigger=trigger, seconds=time.perf_counter() - started)
        kept = self._ledger.kept()
        self._series.set_pending_oldest(kept.oldest_pending_seconds(now))
        self.planned = planned
        self._on_planned(planned)
        barrier = self._barriers.barrier_of(planned.state, planned.gates, wall_now)
        self._note_barrier(barrier, planned)
        ordered = _ordered(wanted, planned.plan.steps, restores)
        self._act(planned, [one for one in ordered if barrier is None or barrier.lets_through(one[0])])
        self._teller.propose(planned)
        self._teller.tell_faults(planned)
        self._teller.tell_gates(planned)
        for keeper in self._keepers:
            keeper.tick(state, now)
        self._teller.tell_owners()
        self._timing.is_busy = bool(wanted or planned.plan.steps or kept.has_flights)
        self._forget_gone()
        if self._clock() >= self._flush_due_seconds:
            self._flush_due_seconds = self._clock() + FLUSH_SECONDS
            self._journal.flush()
        if self._writer.unanswered():
            self._timing.replan_by(self._clock() + LOOK_UP_SECONDS)

    def _forget_gone(self) -> None:
        """Forget pins and originals of pods that have been away for some time; never for a view that lacks some."""
        now, state = self._clock(), self._cluster.state()
        self._seen_seconds.update({pod.uid: now for pod in state.pods})
        if not state.is_complete or state.unreadable_pods:
            return
        self._seen_seconds = {uid: seen for uid, seen in self._seen_seconds.items() if now - seen < SEEN_SECONDS}
        if now - self._began_seconds >= SEEN_SECONDS:
            self._holds.forget_gone(self._seen_seconds.keys())

    def _look_up(self) -> tuple[News, ...]:
        """Read the pods of whose resize no answer came, now and then."""
        now = self._clock()
        if now < self._look_up_due_seconds:
            return ()
        self._look_up_due_seconds = now + LOOK_UP_SECONDS
        return self._writer.look_up()

    def _act(self, planned: Planned, steps: Sequence[tuple[Action, PlanStep]]) -> None:
        """Send steps one by one; after a second, or for what is more urgent, the rest is left to the next turn."""
        until = self._clock() + TURN_SECONDS
        for action, step in steps:
            if self._is_interrupted(until):
                self.ask(Trigger.NEWS)
                return
            if not self._sender.send(step, planned, action):
                return

    def _is_interrupted(self, until: float) -> bool:
        with self._condition:
            is_urgent = self._is_stopping or bool(self._kills)  # those that this turn has not taken in
            return is_urgent or self._clock() > until

    def _has_budget(self, step: PlanStep, action: Action, planned: Planned) -> bool:
        """Say whether one more resize may be sent in this minute; what can wait leaves a reserve for what cannot."""
        now = self._clock()
        can_wait = action is Action.RESTORE or (action is Action.RESIZE and not step.is_urgent)
        budget = self._settings.act.resizes_per_minute
        reserve = reserve_of(budget) if can_wait else 0
        available = self._bucket.available(now)
        if available > reserve:
            return True
        if self._bucket.is_filling(now):
            why = f"the budget of {budget} resizes in a minute is filling up after the start"
        else:
            why = f"{budget - available} of {budget} resizes of this minute are sent"
        kept = f" ({reserve} of them only for what is urgent)" if reserve else ""
        self._series.set_blocked({**kept_counts(planned.plan), Kept.BUDGET: 1})
        self._journal.add(
            unix_seconds=self._wall_now(),
            action=action,
            outcome=Outcome.WITHHELD,
            reason=Kept.BUDGET,
            detail=f"{why}{kept}; the rest waits",
        )
        self._timing.replan_by(now + BUDGET_SECONDS)
        return False

    def _spend(self) -> None:
        self._bucket.take(self._clock())

    # -- what stands in the way ------------------------------------------------------------------------------------

    def _note_barrier(self, barrier: Barrier | None, planned: Planned) -> None:
        is_dry_run = barrier is not None and barrier.is_dry_run
        if barrier is not None and barrier.reason == NO_API:
            self._series.forget_plan()  # it is of a state that nobody vouches for
        self._series.set_barred(None if barrier is None else barrier.reason)
        self.is_enforcing = has_enforced(planned.plan)
        self._series.set_dry_run(is_dry_run=is_dry_run or not self.is_enforcing)
        if barrier != self._barrier:
            self._barrier = barrier
            if barrier is not None:
                level = logging.INFO if barrier.reason in (PAUSED, HISTORY, DIRECTIVES) else logging.WARNING
                log.log(level, "nothing is written", extra={"reason": barrier.reason, "detail": barrier.sentence})
        if barrier is not None and planned.plan.steps:
            self._journal.add(
                unix_seconds=self._wall_now(),
                action=Action.RESIZE,
                outcome=Outcome.WITHHELD,
                reason=barrier.reason,
                detail=f"{len(planned.plan.steps)} steps wait: {barrier.sentence}",
            )

    def tell_owner(self, ref: PodRef, reason: EventReason, note: str) -> None:
        """Leave something to tell a pod's owner for the end of the next turn; quick, any thread."""
        self._teller.event(ref, reason, note)

    @property
    def barrier(self) -> Barrier | None:
        """Give what stood in the way of the newest plan; None = nothing."""
        return self._barrier

    def may_write(self) -> str | None:
        """Say why nothing may be written now, for the keepers; None = it may."""
        if self._holds.is_paused(self._wall_now()):
            return PAUSED
        return None if self._barrier is None else self._barrier.reason

    # -- what happened ---------------------------------------------------------------------------------------------

    def remembered(self) -> dict[Key, Urgent]:
        """Give what was seen to be needed lately; any thread."""
        now, fresh_seconds = self._clock(), max(self._settings.act.shrink_cool_down_seconds, REMEMBERED_SECONDS)
        with self._condition:
            found = {key: memory.at(now, fresh_seconds) for key, memory in self._urgent.items()}
            self._urgent = {key: memory for key, memory in self._urgent.items() if found[key] is not None}
            return {key: urgent for key, urgent in found.items() if urgent is not None}

    def _take_back(self, now: float) -> None:
        """Tell the ledger of kills and of waiting for memory: it knows which shrinks are to be taken back."""
        with self._condition:
            kills = list(self._kills)
            self._kills.clear()
            pressed = [key for key, memory in self._urgent.items() if memory.take_pressed()]
        for uid, container in kills:
            self._ledger.killed(uid, container, now)
        for uid, container in pressed:
            self._ledger.pressed(uid, container, now)


def reserve_of(resizes_per_minute: int) -> int:
    """Return how many resizes of a minute are kept for what cannot wait."""
    return int(RESERVE_RATIO * resizes_per_minute)


def _ordered(
    reverts: Sequence[PlanStep], steps: Sequence[PlanStep], restores: Sequence[PlanStep]
) -> list[tuple[Action, PlanStep]]:
    """Put what people wait for behind what is taken back, what somebody starves for, and what that needs."""
    urgent = max((number for number, step in enumerate(steps, 1) if step.is_urgent), default=0)
    named = (
        (Action.REVERT, reverts),
        (Action.RESIZE, steps[:urgent]),
        (Action.RESTORE, restores),
        (Action.RESIZE, steps[urgent:]),
    )
    return [(action, step) for action, every in named for step in every]
