"""Whatever happens in whatever order: one calm resize of a pod at a time, and nothing against the ledger's word."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent.core.plan.needs.demand import Constraint, KeptReason
from agent.core.plan.plan import Phase, PlanStep
from agent.core.resize.answer import AnswerKind, ResizeAnswer
from agent.core.resize.decision import Action
from agent.core.resize.put_back import step_of
from agent.core.resize.record import LedgerState
from agent.core.resize.status import ResizeState, resize_status
from agent.node.files.documents import Document
from tests.examples import examples
from tests.ledgers import Amounts, Desk, FakePod, amounts_after, step

IN_FLIGHT = Constraint(shrink=KeptReason.IN_FLIGHT, grow=KeptReason.IN_FLIGHT, urgent_grow=KeptReason.IN_FLIGHT)
DEFERRED = Constraint(shrink=KeptReason.DEFERRED, grow=KeptReason.DEFERRED, urgent_grow=KeptReason.DEFERRED)
CLOSED = (IN_FLIGHT, DEFERRED)
cpus = st.sampled_from([300, 500, 700])
memories = st.sampled_from([128, 256, 384])
limits = st.sampled_from([400, 512, 640])


class Acting(RuleBasedStateMachine):
    """An agent, an API server that answers or does not, a kubelet in any mood, other people, and a view that lags."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk()
        self.server = self.desk.fake
        """The pod as the API server has it; the desk's is the view of it."""
        self.sent: PlanStep | None = None
        """Not answered, and perhaps still on its way to the server."""
        self.in_flight: PlanStep | None = None
        """Sent, and no word yet that it has come to an end."""
        self.rivals = 0
        self.generation_sent = 0

    @rule(cpu=cpus, memory=memories, limit=limits, urgent=st.booleans(), phase=st.sampled_from(Phase))
    def plan(self, cpu: int, memory: int, limit: int, urgent: bool, phase: Phase) -> None:
        view = self.desk.fake
        asked = {"cpu": cpu, "memory": memory, "limit": limit}
        after = {name: value for name, value in asked.items() if value != getattr(view.spec, name)}
        if after:
            self._try(step(view, phase, urgent=urgent, **after), Action.RESIZE)

    @rule()
    def put_back(self) -> None:
        for wish in self.desk.ledger.wanted(self.desk.now):
            self._try(wish, Action.REVERT)

    @rule(cpu=cpus, limit=limits)
    def restore(self, cpu: int, limit: int) -> None:
        """As a person asks for it: nothing but a resize that gets on is in its way."""
        view = self.desk.fake
        after = {key: value for key, value in (("cpu", cpu), ("limit", limit)) if value != getattr(view.spec, key)}
        if not after:
            return
        self._try(step(view, Phase.GROW, urgent=False, **after), Action.RESTORE)

    def _try(self, wish: PlanStep, action: Action) -> None:
        view = self.desk.fake
        constraint = self.desk.constraint
        if self.desk.ledger.may_send(wish, view.pod, self.desk.now, action) is not None:
            return
        assert self.sent is None, "a step is sent while the answer to another is not known"
        if self.in_flight is not None:
            assert wish.changes != self.in_flight.changes, "the same wish is sent twice while in flight"
        # By the view, which the ledger may not have looked at yet since a restart.
        wanted = [step_of(record, view.pod) for record in self.desk.ledger.kept().pods]
        is_wanted = any(revert is not None and revert.changes == wish.changes for revert in wanted)
        if action is Action.RESTORE:
            # What the kubelet puts off or fails at is not under way: what a person asks for comes in its place.
            assert not self._gets_on, "a resize that is under way is overtaken"
        elif not is_wanted:
            assert constraint not in CLOSED, "a pod whose constraint is closed is changed"
            falls = any(change.after < change.before for change in wish.changes)
            rises = any(change.after > change.before for change in wish.changes)
            assert not (falls and constraint.shrink)
            assert not (rises and (constraint.urgent_grow if wish.is_urgent else constraint.grow))
            assert not any(
                change.number in constraint.rising for change in wish.changes if change.after > change.before
            )
        self.desk.ledger.sent(wish, view.pod, self.desk.now, action)
        self.sent = self.in_flight = wish
        self.generation_sent = view.generation

    @property
    def _gets_on(self) -> bool:
        """By the view, a resize is under way, whoever's, that the kubelet neither puts off nor fails at."""
        status = resize_status(self.desk.fake.pod).state
        return self.sent is not None or status in (ResizeState.UNSEEN, ResizeState.IN_PROGRESS)

    @precondition(lambda self: self.sent is not None)
    @rule(kind=st.sampled_from(AnswerKind))
    def answer(self, kind: AnswerKind) -> None:
        assert self.sent is not None
        if kind in (AnswerKind.ACCEPTED, AnswerKind.NO_CHANGE):
            # A patch names the version of the pod that it is for.
            kind = AnswerKind.CONFLICT if self.generation_sent != self.server.generation else AnswerKind.ACCEPTED
        if kind is AnswerKind.ACCEPTED:
            self._land()
        self.desk.ledger.answered(self.server.uid, ResizeAnswer(kind=kind), self.desk.now)
        if kind is not AnswerKind.UNKNOWN:
            if kind is not AnswerKind.ACCEPTED:
                self.in_flight = None
            self.sent = None

    @precondition(lambda self: self.sent is not None)
    @rule()
    def land_unheard(self) -> None:
        if self.generation_sent == self.server.generation:
            self._land()

    def _land(self) -> None:
        assert self.sent is not None
        self.server.take(amounts_after(self.server.spec, self.sent))

    @rule(mood=st.sampled_from(["actuate", "defer", "refuse", "fail"]))
    def kubelet(self, mood: str) -> None:
        getattr(self.server, mood)()

    @precondition(lambda self: self.rivals < 2)
    @rule(cpu=cpus)
    def somebody_else(self, cpu: int) -> None:
        self.rivals += 1
        self.server.take(replace(self.server.spec, cpu=cpu))

    @rule(seconds=st.sampled_from([0.0, 1.0, 31.0, 130.0, 700.0]))
    def look(self, seconds: float) -> None:
        copy = FakePod(
            spec=self.server.spec,
            in_force=self.server.in_force,
            generation=self.server.generation,
            seen_generation=self.server.seen_generation,
            conditions=list(self.server.conditions),
        )
        self.desk.fakes = [copy]
        for news in self.desk.look(seconds):
            assert news.seconds is not None
            assert news.seconds >= 0
            if news.reason in ("applied", "not_done", "changed_by_others", "infeasible"):
                self.in_flight = None
            if news.reason in ("seen_in_pod", "not_done", "changed_by_others"):
                self.sent = None

    @precondition(lambda self: self.in_flight is not None)
    @rule()
    def run_out_of_patience(self) -> None:
        self.server.defer()
        self.look(1.0)
        self.look(700.0)

    @rule(memory=st.sampled_from([100, 90]), is_kill=st.booleans())
    def shrink_too_far(self, memory: int, is_kill: bool) -> None:
        self.look(700.0)
        self.plan(500, memory, 512, urgent=False, phase=Phase.SHRINK)
        if self.sent is not None:
            self.answer(AnswerKind.ACCEPTED)
            self.server.actuate()
            self.look(1.0)
            self.trouble(is_kill)

    @rule(is_kill=st.booleans())
    def trouble(self, is_kill: bool) -> None:
        ledger = self.desk.ledger
        report = ledger.killed if is_kill else ledger.pressed
        report(self.server.uid, "app", self.desk.now)
        self.put_back()

    @rule()
    def restart(self) -> None:
        document = Document(LedgerState, "ledger", 2)
        state = self.desk.ledger.kept()
        assert document.from_json(json.loads(json.dumps(document.to_json(state)))) == state
        fakes, now = self.desk.fakes, self.desk.now
        self.desk.restart()
        self.desk.fakes, self.desk.now = fakes, now

    @invariant()
    def a_plan_step_never_passes_a_closed_constraint(self) -> None:
        desk = self.desk
        if desk.constraint in CLOSED and not desk.ledger.wanted(desk.now):
            wish = step(desk.fake, cpu=desk.fake.spec.cpu + 1)
            assert desk.may(wish) is not None
            if self._gets_on or desk.constraint == DEFERRED:
                assert (desk.may(wish, Action.RESTORE) is not None) is self._gets_on


Acting.TestCase.settings = examples(60, stateful_step_count=40)
TestActing = Acting.TestCase


def test_amounts_are_those_of_the_default_pod() -> None:
    assert FakePod().spec == Amounts(cpu=500, memory=256, limit=512)
