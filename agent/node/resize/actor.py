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
from typing import Final

from agent.core.plan.needs.demand import KeptReason, Urgent
from agent.core.plan.needs.demands import Key
from agent.core.plan.needs.given_boost import standing_boost
from agent.core.plan.needs.urgent_needs import UrgentNeeds
from agent.core.plan.plan import PlanStep
from agent.core.resize.decision import Action, Outcome
from agent.core.resize.record import News
from agent.metrics.acting_series import Trigger, kept_counts
from agent.node.keepers.keeper import Keeper
from agent.node.orders.restores import RestorePromises
from agent.node.recommender.planner import Holding, PlannedNode
from agent.node.resize.acting_parts import ActingParts
from agent.node.resize.aftermath import Aftermath
from agent.node.resize.barriers import DIRECTIVES, HISTORY, NO_API, PAUSED, Barrier, Barriers
from agent.node.resize.share_restores import ShareRestores
from agent.node.resize.startup_boosts import StartupBoosts
from agent.node.resize.step_sender import StepsEnd, StepSender
from agent.node.resize.teller import ActTeller, has_enforced
from agent.node.resize.turn_timing import TurnTiming
from agent.node.resize.writer import StepWriter
from agent.turns import Turns

log = logging.getLogger(__name__)

TURN_SECONDS: Final = 1.0
"""For sending, in one turn; a turn that is cut short is made anew at once."""
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


class Actor:
    """Takes the turns of the thread ``acting``."""

    def __init__(
        self,
        parts: ActingParts,
        *,
        writer: StepWriter,  # Its lock guards the ledger
        barriers: Barriers,
        teller: ActTeller,
        sender: StepSender,
        restoring: RestorePromises,
        boosts: StartupBoosts,
        keepers: Sequence[Keeper],
    ) -> None:
        self._parts, self._clocks = parts, parts.clocks
        self._writer, self._barriers, self._teller = writer, barriers, teller
        self._sender, self._restoring, self._boosts, self._keepers = sender, restoring, boosts, keepers
        self._aftermath = Aftermath(
            parts.settings.guard, ledger=parts.ledger, windows=parts.cpu_windows, tell=parts.set_back
        )
        self._share_restores = ShareRestores(parts)
        began_seconds = parts.clocks.monotonic()
        self._timing = TurnTiming(
            replan_seconds=parts.settings.plan.replan_seconds,
            urgent_interval_seconds=parts.settings.act.urgent_interval_seconds,
            now_seconds=began_seconds,
        )
        self._lock = threading.Lock()
        """Guards the timing, and what was seen to be needed."""
        self._urgent: dict[Key, UrgentNeeds] = {}
        self._kills: deque[Key] = deque(maxlen=MAX_KILLS)
        self._began_seconds, self._flush_due_seconds = began_seconds, began_seconds + FLUSH_SECONDS
        self._seen_seconds: dict[str, float] = {}
        self._look_up_due_seconds = 0.0
        self.turns: Final = Turns(
            "acting", self._turn_if_due, failed=self._failed, counts=parts.turns, last=self._close_keepers
        )
        self.followers: Final[list[Callable[[PlannedNode], None]]] = []
        """Are handed each new plan, on the thread ``acting``; appended to before it starts."""
        self.failure: str | None = None
        """Why the newest turn came to nothing; None = it did not."""
        self.planned: PlannedNode | None = None
        """The newest plan; None = there is none yet."""

    # -- asked from other threads ----------------------------------------------------------------------------------

    def ask(self, trigger: Trigger) -> None:
        """Ask for a turn; quick, any thread."""
        with self._lock:
            self._timing.ask(trigger)
        self.turns.wake()

    def news(self) -> None:
        """Ask for a turn since pods or orders have changed: soon where a pod starts boosted; quick, any thread."""
        is_starting = self._is_starting()
        with self._lock:
            self._timing.is_busy |= is_starting
            self._timing.ask(Trigger.NEWS)
        self.turns.wake()

    def alarm(self, needs: Mapping[Key, Urgent]) -> None:
        """Record what starving containers need; quick, any thread."""
        now = self._clocks.monotonic()
        with self._lock:
            for key, urgent in needs.items():
                self._urgent.setdefault(key, UrgentNeeds()).add(urgent, now)
        is_short = any(urgent.memory_short is not None for urgent in needs.values())
        self.ask(Trigger.MEMORY if is_short else Trigger.PRESSURE)

    def killed(self, key: Key, needs: Urgent | None = None) -> None:
        """Record an out-of-memory kill; quick, any thread.

        Args:
            needs: What it was seen to need. Without this a container that is killed as soon as it runs would be helped
                by chance only: nothing is recommended for one that is not there. None = not known, or not to be sized.
        """
        with self._lock:
            self._kills.append(key)
            if needs is not None:
                self._urgent.setdefault(key, UrgentNeeds()).add(needs, self._clocks.monotonic())
        self.ask(Trigger.OUT_OF_MEMORY)

    def remembered(self) -> dict[Key, Urgent]:
        """Return what was seen to be needed lately; any thread."""
        now = self._clocks.monotonic()
        fresh_seconds = max(self._parts.settings.act.shrink_cool_down_seconds, REMEMBERED_SECONDS)
        with self._lock:
            fresh = {key: memory.at(now, fresh_seconds) for key, memory in self._urgent.items()}
            self._urgent = {key: memory for key, memory in self._urgent.items() if fresh[key] is not None}
            return {key: urgent for key, urgent in fresh.items() if urgent is not None}

    # -- the thread ------------------------------------------------------------------------------------------------

    def _turn_if_due(self) -> float:
        """Take a turn if one is due; return the seconds until the next one is."""
        trigger = self._trigger()
        if trigger is not None:
            self.turn(trigger)
            self.failure = None
        return self._due_seconds()

    def _trigger(self) -> Trigger | None:
        with self._lock:
            return self._timing.take(self._clocks.monotonic(), quiet_seconds=self._quiet_seconds())

    def _due_seconds(self) -> float:
        with self._lock:
            now = self._clocks.monotonic()
            due = self._timing.next_due_seconds(now, quiet_seconds=self._quiet_seconds())
            return min(max(0.0, due - now), LONGEST_WAIT_SECONDS)

    def _quiet_seconds(self) -> float:
        """Return for how long the API server is to be left alone; without the writer's lock, as others wait for us."""
        return max(0.0, self._writer.quiet_until_seconds - self._clocks.now())

    def _failed(self, error: Exception) -> float:
        log.exception("a turn of planning and acting failed")
        self.failure = f"{type(error).__name__}: {error}"
        return FAILED_SECONDS

    def _close_keepers(self) -> None:
        for keeper in self._keepers:
            keeper.close()

    # -- one turn --------------------------------------------------------------------------------------------------

    def turn(self, trigger: Trigger) -> None:
        """Take in what happened, plan, do what may be done now, and tell of it."""
        parts, now, wall_now = self._parts, self._clocks.now(), self._clocks.wall_now()
        parts.rights.ask(self._clocks.monotonic())
        self._teller.expire(wall_now)
        looked_up = self._look_up()
        promised = self._restoring.promised(wall_now)
        state = parts.cluster.state()
        with self._writer.lock:
            for news in (*looked_up, *parts.ledger.observe(state, now)):
                self._teller.put_down(news)
            self._tell_ledger(now)
            self._aftermath.look(state, now_seconds=now, wall_now=wall_now)
            reverts = (*parts.ledger.wanted(now), *self._share_restores.due(state, now_seconds=now))
            restores = self._restoring.due(promised, state, now_seconds=now)
            unboosts = self._boosts.due(state, now_seconds=now, wall_now=wall_now)
            parts.keep_ledger()
            holding = Holding.of(parts.ledger, parts.holds, state, now_seconds=now, wall_now=wall_now)
            snapshot = parts.ledger.kept()
        planned = self._plan(holding, trigger)
        parts.series.set_pending_oldest(snapshot.oldest_pending_seconds(now))
        for follow in self.followers:
            follow(planned)
        barrier = self._barriers.barrier_of(planned.state, planned.gates, wall_now)
        self._tell_barrier(barrier, planned)
        ordered = _ordered(reverts, unboosts, planned.plan.steps, restores)
        self._send(
            planned, [(action, step) for action, step in ordered if barrier is None or barrier.lets_through(action)]
        )
        self._teller.propose(planned)
        self._teller.tell_faults(planned)
        self._teller.tell_gates(planned)
        self._teller.tell_windows(planned)
        for keeper in self._keepers:
            keeper.tick(state, now)
        self._teller.tell_owners()
        self._forget_gone()
        self._flush_journal()
        # Until all pods are told of, nobody is looked at between plans: what is missing is waited for.
        is_waiting = not planned.state.is_complete
        is_boosting = self._boosts.next_look_seconds is not None
        is_busy = bool(reverts or planned.plan.steps or snapshot.has_flights or is_waiting or is_boosting)
        with self._lock:
            self._timing.is_busy = is_busy
        # A boosted pod that gets ready is news too. One may have come since this turn began; the news of one that comes
        # from here on say so themselves.
        if self._is_starting():
            with self._lock:
                self._timing.is_busy = True
        if self._aftermath.next_look_seconds is not None:
            self._timing.replan_by(self._clocks.monotonic() + self._aftermath.next_look_seconds)
        if self._boosts.next_look_seconds is not None:
            self._timing.replan_by(self._clocks.monotonic() + self._boosts.next_look_seconds)
        if self._writer.unanswered():
            self._timing.replan_by(self._clocks.monotonic() + LOOK_UP_SECONDS)

    def _is_starting(self) -> bool:
        return any(standing_boost(pod) is not None for pod in self._parts.cluster.state().pods)

    def _look_up(self) -> tuple[News, ...]:
        """Read the pods of whose resize no answer came, now and then."""
        now = self._clocks.monotonic()
        if now < self._look_up_due_seconds:
            return ()
        self._look_up_due_seconds = now + LOOK_UP_SECONDS
        return self._writer.look_up()

    def _tell_ledger(self, now: float) -> None:
        """Pass kills and waiting for memory to the ledger: it knows which shrinks are to be taken back."""
        with self._lock:
            kills = list(self._kills)
            self._kills.clear()
            pressed = [key for key, memory in self._urgent.items() if memory.take_pressed()]
        for uid, container in kills:
            self._parts.ledger.killed(uid, container, now)
        for uid, container in pressed:
            self._parts.ledger.pressed(uid, container, now)

    def _plan(self, holding: Holding, trigger: Trigger) -> PlannedNode:
        started = time.perf_counter()
        self.planned = planned = self._parts.planner.plan(holding, urgent=self.remembered())
        self._parts.series.take_plan(planned.plan, trigger=trigger, seconds=time.perf_counter() - started)
        self._parts.series.set_credit(planned.credits.values(), saved_millicores=planned.credit_saved_millicores)
        self._parts.series.set_possible_savings(planned.possible)
        return planned

    def _tell_barrier(self, barrier: Barrier | None, planned: PlannedNode) -> None:
        """Report what stands in the way of the newest plan, here and to whoever asks ``may_write``."""
        barriers, series = self._barriers, self._parts.series
        if barrier is not None and barrier.reason == NO_API:
            series.forget_plan()  # it is of a state that nobody vouches for
        series.set_barred(None if barrier is None else barrier.reason)
        barriers.is_enforcing = has_enforced(planned.plan)
        series.set_dry_run(is_dry_run=(barrier is not None and barrier.is_dry_run) or not barriers.is_enforcing)
        if barrier != barriers.newest:
            barriers.newest = barrier
            if barrier is not None:
                level = logging.INFO if barrier.reason in (PAUSED, HISTORY, DIRECTIVES) else logging.WARNING
                log.log(level, "nothing is written", extra={"reason": barrier.reason, "detail": barrier.sentence})
        if barrier is not None and planned.plan.steps:
            self._parts.journal.add(
                unix_seconds=self._clocks.wall_now(),
                action=Action.RESIZE,
                outcome=Outcome.WITHHELD,
                reason=barrier.reason,
                detail=f"{len(planned.plan.steps)} steps wait: {barrier.sentence}",
            )

    def _send(self, planned: PlannedNode, steps: Sequence[tuple[Action, PlanStep]]) -> None:
        """Send steps one by one; after a second, or for what is more urgent, the rest is left to the next turn."""
        until = self._clocks.monotonic() + TURN_SECONDS
        for action, step in steps:
            # Kills that this turn has not taken in cannot wait.
            if self.turns.is_stopping or self._kills or self._clocks.monotonic() > until:
                self.ask(Trigger.NEWS)
                return
            result = self._sender.send(step, planned, action)
            if result.asks_anew:
                self.ask(Trigger.NEWS)
            if isinstance(result, StepsEnd):
                if result.reason is KeptReason.BUDGET:
                    self._tell_budget(planned, action, result.detail)
                return

    def _tell_budget(self, planned: PlannedNode, action: Action, detail: str) -> None:
        self._parts.series.set_blocked({**kept_counts(planned.plan), KeptReason.BUDGET: 1})
        self._parts.journal.add(
            unix_seconds=self._clocks.wall_now(),
            action=action,
            outcome=Outcome.WITHHELD,
            reason=KeptReason.BUDGET,
            detail=detail,
        )
        self._timing.replan_by(self._clocks.monotonic() + BUDGET_SECONDS)

    def _forget_gone(self) -> None:
        """Forget pins and originals of pods that have been away for some time; never for a view that lacks some."""
        now, state = self._clocks.monotonic(), self._parts.cluster.state()
        self._seen_seconds.update({pod.uid: now for pod in state.pods})
        if not state.is_complete or state.unreadable_pods:
            return
        self._seen_seconds = {uid: seen for uid, seen in self._seen_seconds.items() if now - seen < SEEN_SECONDS}
        if now - self._began_seconds >= SEEN_SECONDS:
            self._parts.holds.forget_gone(self._seen_seconds.keys())

    def _flush_journal(self) -> None:
        now = self._clocks.monotonic()
        if now >= self._flush_due_seconds:
            self._flush_due_seconds = now + FLUSH_SECONDS
            self._parts.journal.flush()


def _ordered(
    reverts: Sequence[PlanStep],
    unboosts: Sequence[PlanStep],
    steps: Sequence[PlanStep],
    restores: Sequence[PlanStep],
) -> list[tuple[Action, PlanStep]]:
    """Order what people wait for behind what is taken back, what somebody starves for, and what that needs."""
    urgent = max((number for number, step in enumerate(steps, 1) if step.is_urgent), default=0)
    named = (
        (Action.REVERT, reverts),
        (Action.UNBOOST, unboosts),
        (Action.RESIZE, steps[:urgent]),
        (Action.RESTORE, restores),
        (Action.RESIZE, steps[urgent:]),
    )
    return [(action, step) for action, every in named for step in every]
