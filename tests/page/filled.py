"""A webhook that knows a small shop, and the door that ``plimsoll ui`` opens to it: for a browser to look at."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Final

from agent.cli.client.page_door import PageDoor
from agent.cli.client.webhook import PassedAnswer, WebhookReader, add_webhook_options
from agent.core.admission.estimate import Estimate, EstimateSource, NoEstimate
from agent.core.cluster.facts import ClusterRules, NodeAmounts, PodPlace, WrittenContainer
from agent.core.cluster.node import Namespace
from agent.core.cluster.workload import Workload
from agent.core.cost.prices import Prices
from agent.core.history.reports.rollup import NodeClass
from agent.core.history.workloads.usage_ledger import LedgerAmounts, LedgerHour
from agent.core.orders.policy_options import PolicyName
from agent.kube.client.own_rights import NODE_NAME_CLAIM
from agent.kube.objects.cluster_json import pod_place_from_json
from agent.settings.webhook_sections import AccessSettings
from agent.webhook.store.records.decisions import DecisionLogState, StoredDecision
from tests.cost_sheet import PRICES, Advice
from tests.webhook.https import Running, running
from tests.webhook.report_bodies import packed, report_body, row_body
from tests.webhook.stack import READABLE, Facts, Stack, place, stack
from tests.webhook.test_access import Server, user
from tests.webhook.test_cost import put_sheet

HOSTILE: Final = '"><img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'
NAME: Final = "plimsoll-webhook.plimsoll.svc"
GIB: Final = 1 << 30
MIB: Final = 1 << 20
LAST_HOUR: Final = int(time.time() // 3600) - 2


@dataclass(frozen=True)
class Role:
    """What a workload of the shop is like; CPU in millicores, memory in MiB, of all its pods."""

    namespace: str
    kind: str
    name: str
    pods: int
    cpu: tuple[int, int, int]
    """Written, recommended, mean use by day."""
    memory: tuple[int, int, int]
    kills: int = 0

    @property
    def workload(self) -> Workload:
        return Workload(namespace=self.namespace, kind=self.kind, name=self.name)


ROLES: Final = (
    Role("shop", "Deployment", "web", 3, (3000, 1150, 640), (3072, 1500, 1200)),
    Role("shop", "Deployment", "cart", 2, (1000, 460, 250), (1024, 640, 500)),
    Role("shop", "StatefulSet", "catalogue", 3, (1500, 2100, 1500), (6144, 6400, 5600)),
    Role("shop", "CronJob", "invoices", 1, (500, 480, 300), (512, 500, 380)),
    Role("payments", "Deployment", "gateway", 4, (4000, 1700, 900), (4096, 2300, 1800)),
    Role("payments", "Deployment", "ledger", 2, (1000, 980, 610), (2048, 2050, 1700)),
    Role("search", "StatefulSet", "index", 3, (6000, 5200, 3600), (24576, 23000, 20100), kills=2),
    Role("search", "Deployment", "suggest", 2, (2000, 540, 300), (2048, 900, 700)),
    Role("platform", "DaemonSet", "logs", 6, (1200, 1190, 700), (1536, 1500, 1200)),
    Role("platform", "Deployment", "mailer", 1, (500, 120, 60), (512, 200, 150)),
)


def ledger_hour(role: Role, unix_hour: int) -> LedgerHour:
    """One of its hours: busier by day; a week ago Plimsoll began to size it."""
    day = 0.55 + 0.45 * math.sin((unix_hour % 24 - 7) / 24 * 2 * math.pi)
    is_sized = LAST_HOUR - unix_hour < 7 * 24 and role.name in ("web", "gateway")

    def amounts(figures: tuple[int, int, int], unit: int, swing: float) -> LedgerAmounts:
        written, recommended, used = (figure * unit for figure in figures)
        mean = int(used * (1 - swing + swing * day))
        return LedgerAmounts(
            written=written,
            requested=int(recommended * 1.15) if is_sized else written,
            recommended=recommended,
            used=mean,
            used_p95=int(mean * (1 + swing * 0.4)),
            short_seconds=900 if used * (1 + swing * 0.4) > written else 0,
        )

    return LedgerHour(
        workload=role.workload,
        unix_hour=unix_hour,
        pods_milli=1000 * role.pods,
        cpu=amounts(role.cpu, 1, 0.6),
        memory=amounts(role.memory, MIB, 0.08),
        kills=role.kills if unix_hour == LAST_HOUR - 5 else 0,
    )


def decisions(detail: str) -> list[StoredDecision]:
    """What the nodes did lately; ``detail`` is put among their words."""
    log: list[StoredDecision] = []

    def add(age_seconds: float, action: str, outcome: str, reason: str, role: Role | None, **more: object) -> None:
        changes = more.pop("changes", [])
        given: dict[str, object] = {"detail": "", "asked_by": None, "seconds": None, **more}
        log.append(
            StoredDecision(
                node="node-a",
                incarnation="i",
                sequence=len(log) + 1,
                unix_seconds=time.time() - age_seconds,
                action=action,
                outcome=outcome,
                reason=reason,
                workload=None if role is None else role.workload,
                pod=None if role is None else f"{role.name}-7c9f-{len(log)}",
                pod_uid=None if role is None else f"uid-of-{len(log)}",
                changes=json.dumps(changes),
                repeats=1,
                **given,  # type: ignore[arg-type]  # the three above
            )
        )

    def cpu(before: int, after: int) -> dict[str, object]:
        return {"container": "app", "resource": "cpu", "field": "request", "before": before, "after": after}

    web, catalogue, gateway = ROLES[0], ROLES[2], ROLES[4]
    for day in range(7, 0, -1):
        add(day * 86_400, "resize", "applied", "requests more than it needs", web, changes=[cpu(480, 450)], seconds=1.2)
    add(50_000, "resize", "applied", "requests more than it needs", gateway, changes=[cpu(1000, 490)], seconds=0.9)
    add(9000, "pause", "done", "upgrade of the kernel", None, asked_by="root (uid 0)")
    add(5400, "resume", "done", "", None, asked_by="root (uid 0)")
    add(700, "resize", "deferred", "starved of CPU", catalogue, changes=[cpu(500, 700)], detail="not enough CPU now")
    add(45, "resize", "applied", "starved of CPU", web, changes=[cpu(450, 520)], seconds=0.4, detail=detail)
    return log


SHOP_PRICES: Final = Prices(cpu_core_hour=Decimal("0.034"), memory_gib_hour=Decimal("0.0045"))
SHOP_NODES: Final = ("node-a", "node-b", "node-c", "node-d")


PENDING: Final = [
    {
        "type": "PodResizePending",
        "status": "True",
        "reason": "Deferred",
        "message": "Node didn't have enough resource: cpu, requested: 700, used: 7600, capacity: 8000",
    }
]


def pods_of(roles: Sequence[Role], nodes: Sequence[str]) -> dict[str, PodPlace]:
    """Return their pods as the API has them, by uid: with what they request now, and what was written."""
    places = {}
    for number, (role, pod) in enumerate((each, index) for each in roles for index in range(each.pods)):
        row = ledger_hour(role, LAST_HOUR)

        def amounts(cpu: int | None, memory: int | None, role: Role = role) -> dict[str, str]:
            return {"cpu": f"{(cpu or 0) // role.pods}m", "memory": str((memory or 0) // role.pods)}

        written = {"containers": {"app": {"requests": amounts(row.cpu.written, row.memory.written), "limits": {}}}}
        now = amounts(row.cpu.requested, row.memory.requested)
        kind, owner = role.kind, role.name
        if kind == "Deployment":
            kind, owner = "ReplicaSet", f"{role.name}-5d4f6b7c8"
        document = {
            "metadata": {
                "uid": f"uid-of-{role.name}-{pod}",
                "namespace": role.namespace,
                "name": f"{owner}-{pod}",
                "labels": {"pod-template-hash": "5d4f6b7c8"} if kind == "ReplicaSet" else {},
                "annotations": {"plimsoll.dev/original-resources": json.dumps(written)},
                "ownerReferences": [{"kind": kind, "name": owner, "uid": owner, "controller": True}],
            },
            "spec": {
                "nodeName": nodes[number % len(nodes)],
                "containers": [{"name": "app", "resources": {"requests": now}}],
            },
            "status": {"phase": "Running", "conditions": PENDING if (role.name, pod) == ("catalogue", 1) else []},
        }
        place_of_it = pod_place_from_json(document)
        places[place_of_it.uid] = place_of_it
    return places


class ShopAdvice:
    """Who says what is recommended for a pod, as the ledger has it for all of a workload's."""

    def __init__(self) -> None:
        self.roles = {role.workload: role for role in ROLES}

    def estimate(self, workload: Workload, container: str, **_: object) -> Estimate | NoEstimate:
        role = self.roles.get(workload)
        if role is None:
            return NoEstimate.UNKNOWN_WORKLOAD
        return Estimate(
            source=EstimateSource.WORKLOAD,
            policy=PolicyName.CRUISE,
            cpu_request_millicores=role.cpu[1] // role.pods,
            memory_request_bytes=role.memory[1] * MIB // role.pods,
            cpu_max_millicores=None,
            memory_max_bytes=None,
            oom_memory_bytes=None,
            cpu_base_millicores=None,
            memory_base_bytes=None,
            history_seconds=1e6,
            pods=role.pods,
            newest_age_seconds=0.0,
        )


def row_of(pod: PodPlace) -> dict[str, object]:
    """Return what a node reports of a pod."""
    return row_body(
        namespace=pod.namespace,
        kind=pod.workload.kind,
        workload=pod.workload.name,
        pod=pod.name,
        podUid=pod.uid,
        oomKills=[],
    )


def plan_body(pods: Sequence[PodPlace], advice: ShopAdvice, amounts: NodeAmounts) -> dict[str, object]:
    """Return what a node of these pods tells of its plan; a tenth of what is recommended is headroom."""
    answers = [advice.estimate(pod.workload, "app") for pod in pods]
    estimates = [answer for answer in answers if isinstance(answer, Estimate)]

    def sums(unit: str, allocatable: int, requested: int, planned: int) -> dict[str, object]:
        reserved = allocatable // 20
        figures = {
            "allocatable": allocatable,
            "requested": requested + reserved,
            "reserved": reserved,
            "base": planned * 9 // 10,
            "planned": planned,
        }
        is_infeasible = reserved + planned > allocatable
        return {**{f"{name}{unit}": figure for name, figure in figures.items()}, "infeasible": is_infeasible}

    return {
        "cpu": sums(
            "Millicores",
            amounts.cpu_millicores,
            sum(pod.cpu_request_millicores for pod in pods),
            sum(estimate.cpu_request_millicores or 0 for estimate in estimates),
        ),
        "memory": sums(
            "Bytes",
            amounts.memory_bytes,
            sum(pod.memory_request_bytes for pod in pods),
            sum(estimate.memory_request_bytes or 0 for estimate in estimates),
        ),
    }


class ShopFacts(Facts):
    """A cluster whose pods are counted, and found by their workload as quickly as the real one finds them."""

    def _of(self, workload: Workload) -> Sequence[PodPlace]:
        if self._found is None or self._found[0] is not self.places or self._found[1] != len(self.places):
            by_workload: dict[Workload, list[PodPlace]] = {}
            for pod in self.places.values():
                by_workload.setdefault(pod.workload, []).append(pod)
            self._found = self.places, len(self.places), by_workload
        return self._found[2].get(workload, ())

    _found: tuple[dict[str, PodPlace], int, dict[Workload, list[PodPlace]]] | None = None

    def replicas(self, workload: Workload) -> int | None:
        return len(self._of(workload))

    def pods_of(
        self, workload: Workload, most: int, pause: Callable[[], None] = lambda: None
    ) -> tuple[int, tuple[PodPlace, ...]]:
        pods = sorted(self._of(workload), key=lambda pod: (pod.resize_pending is None, pod.name))
        return len(pods), tuple(pods[:most])

    def written(self, workload: Workload) -> Mapping[str, WrittenContainer]:
        return {container.name: container for pod in self._of(workload) for container in pod.containers or ()}


class HostileFacts(ShopFacts):
    """A cluster in which people with little right wrote what they could."""

    def _of(self, workload: Workload) -> Sequence[PodPlace]:
        return [replace(pod, name=f"{pod.name}{HOSTILE}", resize_pending=HOSTILE) for pod in super()._of(workload)]

    def node_class(self, node: str) -> NodeClass | None:
        return NodeClass(instance_type=HOSTILE, cpus=8)


def report_of(workloads: Sequence[Workload], facts: Facts, *, sequence: int) -> bytes:
    """A report of a pod each, which the facts then know."""
    rows = []
    for number, workload in enumerate(workloads, 1000 * sequence):
        facts.places[f"uid-{number}"] = place(number, workload=workload)
        rows.append(
            row_body(number, namespace=workload.namespace, kind=workload.kind, workload=workload.name, oomKills=[])
        )
    return packed(report_body(*rows, sequence=sequence))


def report_many(served: Filled, workloads: int, nodes: int = 300) -> None:
    """Let the nodes tell of so many more workloads of two pods each, and the ledger know an hour of each."""
    webhook = served.stack
    roles = [
        Role(
            f"team-{number % 40}",
            "Deployment",
            f"service-{number}",
            2,
            (1000, 400 + number % 700, 300),
            (1024, 600, 500),
        )
        for number in range(workloads)
    ]
    webhook.facts.namespaces |= {role.namespace: Namespace(name=role.namespace) for role in roles}
    for number, start in enumerate(range(0, workloads, 250), 50):
        chosen = [role.workload for role in roles[start : start + 250]]
        answer = webhook.report(report_of(chosen, webhook.facts, sequence=number), content_encoding="gzip")
        assert answer.status == 200, answer.body
    webhook.follow()
    webhook.store.write_ledger_hour(LAST_HOUR, [ledger_hour(role, LAST_HOUR) for role in roles], gone=())
    webhook.facts.node_names = tuple(f"node-{number}" for number in range(nodes))
    webhook.facts.places = pods_of(roles, webhook.facts.node_names)
    assert served.advice is not None
    served.advice.roles |= {role.workload: role for role in roles}


@dataclass
class Way:
    """To the webhook of now, as a door asks."""

    folder: Path
    server: Running

    def __post_init__(self) -> None:
        self.ask("good")

    def __call__(self, target: str, headers: Mapping[str, str]) -> PassedAnswer:
        return self._reader.passed(target, headers)

    def ask(self, token: str, server: Running | None = None) -> None:
        """Ask with this token from now on, and another server."""
        self.server = server or self.server
        self._reader = self._new_reader(token)

    def _new_reader(self, word: str) -> WebhookReader:
        token = self.folder / f"token-of-{word}"
        token.write_text(word)
        parser = argparse.ArgumentParser()
        add_webhook_options(parser)
        host, port = self.server.address
        options = [f"--webhook=https://{host}:{port}", f"--token-file={token}", f"--ca-file={self.server.authority}"]
        arguments = parser.parse_args(options)
        arguments.verb = "ui"
        return WebhookReader(arguments)


@dataclass
class Filled:
    """All of it; ``folder`` is for further servers."""

    stack: Stack
    way: Way
    door: PageDoor
    folder: Path
    advice: ShopAdvice | None
    """Of the shop; None = another cluster is known."""


@contextmanager
def filled(folder: Path, *, days: int, is_hostile: bool = False) -> Iterator[Filled]:
    """Serve a webhook that knows so many days, and a door to it; hostile = people wrote HTML where they could."""
    paths = {f"/v1/workloads/{role.namespace}/{role.kind}/{role.name}" for role in ROLES}
    server = Server(users={"good": user()}, readable=READABLE | paths)
    access = AccessSettings(requests_per_minute=100_000, reviews_per_minute=1_000_000)
    advice = ShopAdvice()
    with stack(folder, server=server, access=access, prices=SHOP_PRICES, advice=advice) as webhook:
        webhook.facts.amounts = NodeAmounts(cpu_millicores=8_000, memory_bytes=32 * GIB)
        webhook.facts.__class__ = HostileFacts if is_hostile else ShopFacts
        webhook.facts.node_names = SHOP_NODES
        if is_hostile:
            webhook.facts.told = ClusterRules(pause_reason=HOSTILE)
        webhook.facts.namespaces = {role.namespace: Namespace(name=role.namespace) for role in ROLES}
        pods = webhook.facts.places = pods_of(ROLES, SHOP_NODES)
        for node in SHOP_NODES:
            # The hostile cluster has nodes that are too small, and one that has not reported to this replica.
            if not (is_hostile and node == SHOP_NODES[-1]):
                amounts = replace(webhook.facts.amounts, cpu_millicores=1500) if is_hostile else webhook.facts.amounts
                here = [pod for pod in pods.values() if pod.node == node]
                server.users[node] = user(**{NODE_NAME_CLAIM: node})
                body = report_body(*map(row_of, here), node=node, plan=plan_body(here, advice, amounts))
                answer = webhook.report(packed(body), token=node, content_encoding="gzip")
                assert json.loads(answer.body)["refused"] == [], answer.body
        webhook.follow()
        webhook.index.loaded()
        for unix_hour in range(LAST_HOUR - 24 * days, LAST_HOUR + 1):
            if not LAST_HOUR - 30 < unix_hour < LAST_HOUR - 24:  # the webhook was away
                webhook.store.write_ledger_hour(unix_hour, [ledger_hour(role, unix_hour) for role in ROLES], gone=())
        for unix_day in range(LAST_HOUR // 24 - days, LAST_HOUR // 24 + 1):
            webhook.store.write_ledger_day(unix_day)
        state = DecisionLogState(
            node="node-a", incarnation="i", agent="0.2.0", dropped=0, received_unix_seconds=time.time()
        )
        webhook.store.take_decisions(state, decisions(HOSTILE if is_hostile else "waited 34 % of the time"))
        with _served(webhook, folder, advice) as served:
            yield served


@contextmanager
def priced(folder: Path) -> Iterator[Filled]:
    """Serve a webhook that knows the sheet worked out by hand, and a door to it."""
    with stack(folder, prices=PRICES, advice=Advice()) as webhook:
        put_sheet(webhook)
        with _served(webhook, folder) as served:
            yield served


@contextmanager
def _served(webhook: Stack, folder: Path, advice: ShopAdvice | None = None) -> Iterator[Filled]:
    with running(webhook.services, folder, names=(NAME,)) as https:
        way = Way(folder, https)
        door = PageDoor(way)
        door.start()
        try:
            yield Filled(webhook, way, door, folder, advice)
        finally:
            door.close()
