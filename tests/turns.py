"""A node on which the agent takes turns: a server that is a function, pods that a kubelet moves when told, fake clocks.

All but the server, the kubelet and the clocks is the real thing: planner, ledger, hand, rights, holds, log, metrics.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry

from agent.calendar import ReadWindows
from agent.core.cluster.node import Node, NodeState
from agent.core.cluster.pod import PodRef
from agent.core.numbers.token_bucket import TokenBucket, filling_bucket
from agent.core.numbers.units import NANOS_PER_UNIT
from agent.core.orders.order import Mode
from agent.core.orders.plan_options import ActOptions, PlanOptions
from agent.core.plan.needs.demand import Urgent
from agent.core.plan.needs.demands import NOTHING_MEASURED, Measurements
from agent.core.recommender.recommendation import Recommendation, Withheld
from agent.core.resize.decision import Decision
from agent.core.window.snapshot import CpuWindow
from agent.kube.calls.events import EventWriter
from agent.kube.client.errors import ApiError
from agent.kube.client.own_rights import NODE_NAME_CLAIM, REVIEWS_PATH, SELF_PATH
from agent.kube.objects.pod_json import pod_from_json
from agent.metrics.acting_series import ActingSeries, Trigger
from agent.metrics.loop_series import LoopSeries
from agent.node.cluster.rights import Rights
from agent.node.orders.holds import FILE_NAME as HOLDS_FILE
from agent.node.orders.holds import Holds
from agent.node.orders.journal import Journal
from agent.node.orders.restores import RestorePromises
from agent.node.recommender.evaluation import Evaluation
from agent.node.recommender.planner import PlannedNode, Planner
from agent.node.recommender.pod_orders import PodOrders
from agent.node.reports.directives_file import FILE_NAME as DIRECTIVES_FILE
from agent.node.reports.directives_file import Directions
from agent.node.resize.acting_parts import ActingClocks, ActingParts
from agent.node.resize.actor import Actor
from agent.node.resize.barriers import Barriers
from agent.node.resize.ledger_file import FILE_NAME as LEDGER_FILE
from agent.node.resize.ledger_file import LedgerFile
from agent.node.resize.startup_boosts import StartupBoosts
from agent.node.resize.step_sender import StepSender, reserve_of
from agent.node.resize.teller import ActTeller
from agent.node.resize.writer import StepWriter
from agent.settings import Settings
from tests import recommendations
from tests.fake_api import Call, FakeApi
from tests.planning import EXACT
from tests.pods import container, pod_json

NODE: Final = "worker-7"
MI: Final = 1 << 20
NOW: Final = 1_700_000_000.0
"""Of the wall and of the ledger, at the start."""
BOOTED: Final = 1000.0
"""Of the monotonic clock, at the start."""

Answer = Exception | Callable[[], None]


def uid_of(name: str) -> str:
    return f"uid-shop-{name}"


class Server(FakeApi):
    """The API server as a function, and the kubelet as its methods."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: dict[str, dict[str, Any]] = {}
        self.missing: set[str] = set()
        """Rights, as ``patch pods/resize``."""
        self.claim: str | None = NODE
        self.is_away = False
        self.answers: list[Answer] = []
        """Of the next resizes: raised, or called before the resize is done."""

    def add(self, name: str, *, cpu: int, memory: int = 256, limit: int | None = None, **annotations: str) -> None:
        """Start a pod of a Deployment; millicores, MiB. Annotations by their last part: ``mode``."""
        label = "7c5ddbdf54"
        requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        limits = None if limit is None else {"memory": f"{limit}Mi"}
        document = pod_json(
            container("app", requests, limits),
            metadata={
                "name": name,
                "uid": uid_of(name),
                "resourceVersion": "1",
                "generation": 1,
                "labels": {"pod-template-hash": label},
                "ownerReferences": [
                    {"kind": "ReplicaSet", "name": f"{name}-{label}", "uid": f"rs-{name}", "controller": True}
                ],
                "annotations": {f"plimsoll.dev/{key}": value for key, value in annotations.items()},
            },
            status={"phase": "Running"},
        )
        self.pods[name] = document
        self.actuate(name)

    def requests(self, name: str) -> dict[str, str]:
        return dict(self.pods[name]["spec"]["containers"][0]["resources"]["requests"])

    def cpu(self, name: str) -> str:
        return self.requests(name)["cpu"]

    def order(self, name: str, **annotations: str) -> None:
        """A person annotates a pod."""
        metadata = self.pods[name]["metadata"]
        metadata["annotations"] = {f"plimsoll.dev/{key}": value for key, value in annotations.items()}
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)

    def actuate(self, name: str) -> None:
        """The kubelet puts the wish in force."""
        document = self.pods[name]
        resources = deepcopy(document["spec"]["containers"][0]["resources"])
        document["status"].update(
            observedGeneration=document["metadata"]["generation"],
            conditions=[],
            containerStatuses=[
                {
                    "name": "app",
                    "containerID": "containerd://app",
                    "state": {"running": {}},
                    "allocatedResources": resources["requests"],
                    "resources": resources,
                }
            ],
        )

    def put_off(self, name: str, reason: str = "Deferred") -> None:
        """The kubelet has no room for it."""
        document = self.pods[name]
        document["status"].update(
            observedGeneration=document["metadata"]["generation"],
            conditions=[{"type": "PodResizePending", "status": "True", "reason": reason, "message": "no room"}],
        )

    def answer(self, call: Call) -> object:
        method, path, body = call.method, call.path, call.body
        if self.is_away:
            raise ApiError(f"{method} {path}", status=503, message="apiserver is shutting down")
        if path == REVIEWS_PATH:
            return {"status": {"allowed": not self._is_missing(body["spec"]["resourceAttributes"])}}
        if path == SELF_PATH:
            extra = {} if self.claim is None else {NODE_NAME_CLAIM: [self.claim]}
            return {"status": {"userInfo": {"username": "agent", "extra": extra}}}
        if path.endswith("/resize"):
            return self._resize(path.split("/")[-2], body)
        if method == "GET":
            return deepcopy(self.pods[path.split("/")[-1]])
        assert path.startswith("/apis/events.k8s.io/"), path
        return {}

    def _is_missing(self, attributes: Mapping[str, str]) -> bool:
        subresource = attributes.get("subresource")
        kind = attributes["resource"] + (f"/{subresource}" if subresource else "")
        return f"{attributes['verb']} {kind}" in self.missing

    def _resize(self, name: str, body: Any) -> object:
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        if answer is not None:
            answer()
        document = self.pods[name]
        metadata = document["metadata"]
        if body["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            raise ApiError("PATCH", status=409, reason="Conflict", message="the object has been modified")
        [wanted], [entry] = body["spec"]["containers"], document["spec"]["containers"]
        before = deepcopy(entry)
        for kind, amounts in wanted["resources"].items():
            entry["resources"][kind].update(amounts)
        if entry == before:
            return deepcopy(document)
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        metadata["generation"] += 1
        return deepcopy(document)

    @property
    def writes(self) -> list[str]:
        """What was written: ``resize web``, ``event``."""
        writes = []
        for call in self.calls:
            if call.method == "GET" or call.path in (REVIEWS_PATH, SELF_PATH):
                continue
            writes.append(f"resize {call.path.split('/')[-2]}" if call.path.endswith("/resize") else "event")
        return writes

    @property
    def events(self) -> list[tuple[str, str, str]]:
        """Pod, reason and note of the Events."""
        return [
            (body["regarding"]["name"], body["reason"], body["note"])
            for body in (call.body for call in self.calls if call.path.endswith("/events"))
        ]


class StubKeeper:
    """Is looked after, and says so."""

    def __init__(self) -> None:
        self.ticks = 0
        self.closed = 0

    def tick(self, state: NodeState, now_seconds: float) -> None:
        self.ticks += 1

    def close(self) -> None:
        self.closed += 1


@dataclass(slots=True)
class _Later:
    at: float
    do: Callable[[], None]


class Hours(threading.Condition):
    """What the acting thread waits on; no time passes but on the fake clocks."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns
        self._waits = 0

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:  # type: ignore[override]
        assert timeout is not None
        until = self._turns.clock + timeout
        while not predicate() and self._turns.clock < until:
            self.wait(until - self._turns.clock)
        return predicate()

    def wait(self, timeout: float | None = None) -> bool:
        self._waits += 1
        assert self._waits < 10_000, "it spins"
        assert timeout is not None
        due = self._turns.clock + timeout
        later = self._turns.later
        if later and later[0].at <= due:
            event = later.pop(0)
            self._turns.sleep(max(0.0, event.at - self._turns.clock))
            event.do()
            return True
        self._turns.sleep(timeout)
        return False


class Turns:
    """The agent's acting on one node of 4 cores and 8 GiB; every pod in mode enforce unless annotated."""

    def __init__(
        self,
        directory: Path | None = None,
        *,
        act: ActOptions | None = None,
        plan: PlanOptions | None = None,
        tokens: int = 60,
        chance: float | None = None,
        needs_claim: bool = True,
        has_events: bool = True,
        has_webhook: bool = False,
    ) -> None:
        self.has_webhook = has_webhook
        self.server = Server()
        self.clock = BOOTED
        self.settings = replace(
            Settings(),
            act=replace(act or ActOptions(mode=Mode.ENFORCE), resizes_per_minute=tokens),
            plan=plan or PlanOptions(min_age_seconds=0.0),
            bounds=EXACT,
        )
        self.node: Node | None = Node(
            name=NODE,
            allocatable={"cpu": 4 * NANOS_PER_UNIT, "memory": 8192 * MI * NANOS_PER_UNIT},
            kubelet_version="v1.37.1",
            declared_features=frozenset({"InPlacePodLevelResourcesVerticalScaling"}),
        )
        self.state_fields: dict[str, Any] = {"server_version": "v1.37.1", "age_seconds": 1.0}
        self.recommended: dict[str, Recommendation] = {}
        self.measured: Measurements = NOTHING_MEASURED
        self.has_history = True
        self.too_old: str | None = None
        self.in_use: dict[str, int] = {}
        self.quiet: set[str] = set()
        """Boosted containers whose CPU has become quiet."""
        self.windows: Callable[[str, float], Sequence[CpuWindow]] = lambda name, ago_seconds: ()
        """CPU of a pod's containers up to so long ago."""
        self.setbacks: list[tuple[str, str]] = []
        """Pods whose shrink was taken back as they fare worse, and why."""
        self.plans: list[tuple[float, PlannedNode]] = []
        self.triggers: list[tuple[float, Trigger]] = []
        self.later: list[_Later] = []
        self.registry = CollectorRegistry()
        self.series = ActingSeries(self.registry)
        self.keeper = StubKeeper()
        self.told: list[str] = []
        self.kept: list[int] = []
        """Of each writing of the ledger, how many resizes had been sent."""
        self._chance = chance
        self.directory, self._tokens, self._needs_claim, self._has_events = directory, tokens, needs_claim, has_events
        self.start()

    def start(self) -> None:
        """Start the agent, or start it anew with what is on disk."""

        def below(name: str) -> Path | None:
            return None if self.directory is None else self.directory / name

        self.journal = Journal(None)
        self.directions = Directions(below(DIRECTIVES_FILE), is_expected=self.has_webhook, now=lambda: self.wall)
        self.holds = Holds(below(HOLDS_FILE), now_unix_seconds=self.wall, of_cluster=self.directions.pause_reason)
        self.ledger_file = LedgerFile(below(LEDGER_FILE))
        self.ledger = self.ledger_file.read(self.settings.act, now_seconds=self.wall)
        self.rights = Rights(self.server, node=NODE, needs_claim=self._needs_claim, tell=self.told.append)
        read_windows = ReadWindows()
        self.orders = PodOrders(
            settings=self.settings, state=self.state, directed=self.directions.now, read_windows=read_windows
        )
        self.planner = Planner(
            settings=self.settings,
            state=self.state,
            directed=self.directions.now,
            evaluated=self.evaluated,
            wall_now=lambda: self.wall,
            read_windows=read_windows,
        )
        parts = ActingParts(
            settings=self.settings,
            api=self.server,
            cluster=self,
            node_name=NODE,
            orders=self.orders,
            planner=self.planner,
            ledger=self.ledger,
            keep_ledger=self.keep,
            holds=self.holds,
            journal=self.journal,
            series=self.series,
            turns=LoopSeries(lambda: self.clock).begin("acting"),
            rights=self.rights,
            clocks=ActingClocks(now=lambda: self.wall, wall_now=lambda: self.wall, monotonic=lambda: self.clock),
            memory_in_use=lambda _: self.in_use,
            quiet_cpu=lambda pod, boost: frozenset(self.quiet),
            cpu_windows=lambda pod, ago_seconds: self.windows(pod.name, ago_seconds),
            set_back=lambda pod, reason: self.setbacks.append((pod.name, reason)),
        )
        self.writer = StepWriter(parts)
        self.barriers = Barriers(parts, self)
        self.teller = ActTeller(parts, self.barriers, self._events())
        restoring = RestorePromises(self.holds, self.ledger)
        boosts = StartupBoosts(ledger=self.ledger, journal=self.journal, series=self.series, quiet=parts.quiet_cpu)
        self.bucket = self._new_bucket()
        self.actor = Actor(
            parts,
            writer=self.writer,
            barriers=self.barriers,
            teller=self.teller,
            sender=StepSender(
                parts,
                writer=self.writer,
                barriers=self.barriers,
                teller=self.teller,
                restoring=restoring,
                bucket=self.bucket,
            ),
            restoring=restoring,
            boosts=boosts,
            keepers=(self.keeper,),
        )
        self.actor.followers.append(self._planned)
        self.actor.turns._condition = Hours(self)

    def _new_bucket(self) -> TokenBucket:
        if self._chance is None:
            return TokenBucket(self._tokens, now_seconds=self.clock)
        reserve = reserve_of(self._tokens)
        return filling_bucket(self._tokens, reserve=reserve, now_seconds=self.clock, chance=self._chance)

    def _events(self) -> EventWriter | None:
        if not self._has_events:
            return None
        return EventWriter(
            self.server, NODE, unix_seconds=lambda: self.wall, monotonic_seconds=lambda: self.clock, per_minute=1000
        )

    # -- what plans stand on ---------------------------------------------------------------------------------------

    def measuring_fault(self) -> str | None:
        return self.too_old

    def is_history_known(self) -> bool:
        return self.has_history

    def is_untold(self) -> bool:
        return self.directions.is_awaited

    def put(self, pod_json: object) -> None:
        self.actor.news()

    # -- what the agent reads --------------------------------------------------------------------------------------

    @property
    def wall(self) -> float:
        return NOW + self.clock - BOOTED

    def state(self) -> NodeState:
        pods = tuple(pod_from_json(deepcopy(document)) for document in self.server.pods.values())
        return NodeState(node=self.node, pods=pods, **self.state_fields)

    def evaluated(self) -> Evaluation:
        sizes = recommendations.node(*self.recommended.values())
        return Evaluation(
            recommendations=sizes, measured=self.measured, waiting_ratios=(), taken_monotonic_ns=round(self.clock * 1e9)
        )

    def keep(self) -> bool:
        self.kept.append(sum(write.startswith("resize") for write in self.server.writes))
        return self.ledger_file.keep(self.ledger)

    def _planned(self, planned: PlannedNode) -> None:
        self.plans.append((self.clock, planned))

    # -- what happens ----------------------------------------------------------------------------------------------

    def need(self, name: str, cpu: int | None = None, memory: int | None = None, *, limit: int | None = None) -> None:
        """A pod needs so much from now on; millicores, MiB; None = nobody knows."""
        fields: dict[str, Any] = {}
        if cpu is not None:
            fields["cpu_fields"] = {"base": float(cpu), "peak": float(cpu)}
        if memory is not None:
            amount = float(memory * MI)
            fields["memory_fields"] = {
                "base": amount,
                "peak": amount,
                "limit": None if limit is None else limit * MI,
            }
        self.recommended[name] = recommendations.recommendation(
            name,
            cpu=Withheld.NO_DATA if cpu is None else cpu,
            memory=Withheld.NO_DATA if memory is None else memory * MI,
            **fields,
        )

    def starve(self, name: str, **urgent: Any) -> None:
        self.actor.alarm({(uid_of(name), "app"): Urgent(**urgent)})

    def sleep(self, seconds: float) -> None:
        self.clock += seconds

    def turn(self, trigger: Trigger = Trigger.INTERVAL, *, after: float = 0.0) -> None:
        self.sleep(after)
        self.actor.turn(trigger)

    def at(self, seconds: float, do: Callable[[], None]) -> None:
        """Have something happen so many seconds after the start, while ``run`` waits."""
        self.later.append(_Later(BOOTED + seconds, do))
        self.later.sort(key=lambda event: event.at)

    def run(self, until: float) -> list[tuple[float, Trigger]]:
        """Run the thread's loop, on this thread, so many seconds from the start; give its turns, seconds from then."""
        turn, turns = self.actor.turn, self.triggers

        def noted(trigger: Trigger) -> None:
            turns.append((self.clock - BOOTED, trigger))
            turn(trigger)

        self.at(until, self.actor.turns.stop)
        self.actor.turn = noted  # type: ignore[method-assign]
        self.actor.turns.run()
        return turns

    # -- what came of it -------------------------------------------------------------------------------------------

    def log(self) -> list[tuple[str, str, str, str]]:
        """Return the decision log, oldest first: action, outcome, reason, pod."""
        return [
            (decision.action, decision.outcome, decision.reason, "" if decision.pod is None else decision.pod.name)
            for decision in reversed(self.journal.newest())
        ]

    def newest(self) -> Decision:
        return self.journal.newest(1)[0]

    def figure(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"plimsoll_{name}", labels)

    def ref(self, name: str) -> PodRef:
        return PodRef(namespace="shop", name=name, uid=uid_of(name))


def two_pods(**fields: Any) -> Turns:
    """Two pods that want to shrink; a comes first."""
    turns = Turns(**fields)
    for name in ("a", "b"):
        turns.server.add(name, cpu=500)
        turns.need(name, cpu=200)
    return turns
