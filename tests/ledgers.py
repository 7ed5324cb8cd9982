"""A pod as API server and kubelet would tell of it while it is resized, and a ledger that looks at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent.core.cluster.node import Node, NodeState
from agent.core.cluster.pod import ContainerKind, Pod, PodRef
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.numbers.units import NANOS_PER_UNIT
from agent.core.orders.plan_options import ActOptions
from agent.core.plan.needs.demand import Constraint, KeptReason
from agent.core.plan.plan import Phase, PlanStep
from agent.core.plan.pod_change import Change, Setting
from agent.core.resize.answer import AnswerKind, ResizeAnswer
from agent.core.resize.decision import Action
from agent.core.resize.ledger import Ledger
from agent.core.resize.record import NOTHING_KEPT, LedgerState, News
from tests.pods import container, make_pod

MI = 1 << 20
WEB = Workload(namespace="shop", kind="Deployment", name="web")
ACT = ActOptions()
"""Cool-downs of 300 s (shrink) and 30 s (grow), patience 600 s, reverts within 600 s, bars of a day."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """Of the one container: CPU request in millicores, memory request and limit in MiB."""

    cpu: int = 500
    memory: int = 256
    limit: int = 512


@dataclass(slots=True)
class FakePod:
    """What the API has: the wish, what the kubelet made of it, and what it says."""

    spec: Amounts = Amounts()
    in_force: Amounts = Amounts()
    generation: int = 1
    seen_generation: int = 1
    conditions: list[dict[str, str]] = field(default_factory=list)
    is_running: bool = True
    name: str = "web"

    @property
    def uid(self) -> str:
        return f"uid-{self.name}"

    def take(self, spec: Amounts) -> None:
        """The API server takes a wish."""
        self.spec = spec
        self.generation += 1

    def actuate(self) -> None:
        """The kubelet does all of it."""
        self.in_force, self.seen_generation, self.conditions = self.spec, self.generation, []

    def say(self, type_: str, reason: str, message: str = "") -> None:
        """The kubelet has seen the wish, and says this of it."""
        self.seen_generation = self.generation
        self.conditions = [{"type": type_, "status": "True", "reason": reason, "message": message}]

    def defer(self) -> None:
        self.say("PodResizePending", "Deferred", "Node didn't have enough resource: cpu")

    def refuse(self) -> None:
        self.say("PodResizePending", "Infeasible", "Node didn't have enough capacity")

    def fail(self) -> None:
        self.say("PodResizeInProgress", "Error", "cannot decrease memory limits")

    @property
    def pod(self) -> Pod:
        requests, limits = _requests(self.spec), _limits(self.spec)
        held = {"requests": _requests(self.in_force), "limits": _limits(self.in_force)}
        status: dict[str, Any] = {
            "phase": "Running",
            "observedGeneration": self.seen_generation,
            "conditions": self.conditions,
            "containerStatuses": [
                {
                    "name": "app",
                    "containerID": "containerd://app",
                    "state": {"running": {}} if self.is_running else {"waiting": {}},
                    "allocatedResources": held["requests"],
                    "resources": held,
                }
            ],
        }
        label = "7c5ddbdf54"
        metadata = {
            "name": self.name,
            "uid": self.uid,
            "generation": self.generation,
            "labels": {"pod-template-hash": label},
            "ownerReferences": [{"kind": "ReplicaSet", "name": f"web-{label}", "uid": "o", "controller": True}],
        }
        return make_pod(container("app", requests, limits), metadata=metadata, status=status)


def _requests(amounts: Amounts) -> Mapping[str, str]:
    return {"cpu": f"{amounts.cpu}m", "memory": f"{amounts.memory}Mi"}


def _limits(amounts: Amounts) -> Mapping[str, str]:
    return {"memory": f"{amounts.limit}Mi"}


def step(fake: FakePod, phase: Phase = Phase.GROW, *, urgent: bool = False, **after: int) -> PlanStep:
    """Return the step to other amounts."""
    return PlanStep(
        ref=PodRef(namespace="shop", name=fake.name, uid=fake.uid),
        workload=WEB,
        phase=phase,
        changes=tuple(
            Change(
                container="app",
                kind=ContainerKind.REGULAR,
                resource=Resource.CPU if name == "cpu" else Resource.MEMORY,
                setting=Setting.LIMIT if name == "limit" else Setting.REQUEST,
                before=getattr(fake.spec, name) * (1 if name == "cpu" else MI),
                after=amount * (1 if name == "cpu" else MI),
            )
            for name, amount in after.items()
        ),
        reason="test",
        is_urgent=urgent,
    )


def amounts_after(spec: Amounts, wish: PlanStep) -> Amounts:
    """Return the amounts with a step's wish."""
    for change in wish.changes:
        name = "cpu" if change.resource is Resource.CPU else "memory"
        name = "limit" if change.setting is Setting.LIMIT else name
        spec = replace(spec, **{name: change.after if name == "cpu" else change.after // MI})
    return spec


def node(cpu_cores: int = 4, memory_mi: int = 8192) -> Node:
    return Node(name="n", allocatable={"cpu": cpu_cores * NANOS_PER_UNIT, "memory": memory_mi * MI * NANOS_PER_UNIT})


class Desk:
    """A ledger, its clock and the pods it looks at."""

    def __init__(self, *fakes: FakePod, kept: LedgerState = NOTHING_KEPT, now: float = 1000.0) -> None:
        self.fakes = list(fakes or (FakePod(),))
        self.now = now
        self.node: Node | None = node()
        self.state_fields: dict[str, Any] = {}
        self.ledger = Ledger(ACT, kept, now_seconds=now)
        self.look()

    @property
    def fake(self) -> FakePod:
        return self.fakes[0]

    @property
    def state(self) -> NodeState:
        return NodeState(node=self.node, pods=tuple(fake.pod for fake in self.fakes), **self.state_fields)

    def look(self, after: float = 0.0) -> list[News]:
        self.now += after
        return list(self.ledger.observe(self.state, self.now))

    def send(self, wish: PlanStep, answer: AnswerKind | None = AnswerKind.ACCEPTED, **fields: Any) -> None:
        """Send a step; where it is accepted the pod has it. None = no word from the server, nothing done."""
        action = fields.pop("action", Action.RESIZE)
        self.ledger.sent(wish, self.fake.pod, self.now, action)
        if answer is AnswerKind.ACCEPTED:
            self.fake.take(amounts_after(self.fake.spec, wish))
        if answer is not None:
            self.ledger.answered(self.fake.uid, ResizeAnswer(kind=answer, **fields), self.now)

    def resize(self, phase: Phase = Phase.GROW, **after: Any) -> None:
        """A resize from the patch to its end."""
        self.send(step(self.fake, phase, **after))
        self.fake.actuate()
        assert [news.reason for news in self.look(1.0)] == ["applied"]

    def may(self, wish: PlanStep, action: Action = Action.RESIZE) -> KeptReason | None:
        return self.ledger.may_send(wish, self.fake.pod, self.now, action)

    @property
    def constraint(self) -> Constraint:
        return self.ledger.constraints(self.state, self.now)[self.fake.uid]

    def restart(self) -> None:
        self.ledger = Ledger(ACT, self.ledger.kept(), now_seconds=self.now)
