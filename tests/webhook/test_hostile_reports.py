"""Whatever one node reports, it bends the workloads that it hosts, within bounds, and no others.

Each hostile report goes its whole way in process: JSON, checks of rows, time told before, the index. 10,000 of them are
tried by default; ``PLIMSOLL_HOSTILE_REPORTS=100000`` tries as many as that, in ten minutes of CPU.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.core.admission.estimate import Estimate
from agent.core.cluster.facts import WrittenContainer
from agent.core.cluster.workload import Workload
from agent.core.history.reports.directive import ContainerDirective
from agent.core.history.reports.rollup import Report
from agent.core.orders.policy_options import PolicyName
from agent.webhook.store.entries.report_payload import decode_report
from agent.webhook.store.shapes import AppendOutcome, NewReport
from agent.webhook.store.store import Store
from tests.webhook.report_bodies import distribution, report_body, row_body
from tests.webhook.stack import GOOD, Stack, place, stack
from tests.webhook.test_access import Server, user

REPORTS = int(os.environ.get("PLIMSOLL_HOSTILE_REPORTS", "10000"))
HONEST, LIAR = "node-a", "node-b"
SHARED = Workload(namespace="shop", kind="Deployment", name="web")
DAEMON = Workload(namespace="kube-system", kind="DaemonSet", name="logs")
BANK = Workload(namespace="bank", kind="StatefulSet", name="bank")
OWN = Workload(namespace="shop", kind="Deployment", name="own")
EVERY = (SHARED, DAEMON, BANK, OWN)
CPU_MILLICORES, MEMORY_BYTES = 60, 3_000_000
CODED = 1.001
"""Amounts are kept in codes of 0.05 %; what nodes are told is rounded up to three digits by another part."""


class Log(Store):
    """Keeps reports as the store does, as far as one node's go: in memory, each once."""

    def __init__(self) -> None:
        self.pods: dict[str, bytes] = {}
        self.seen: set[tuple[str, str, int]] = set()
        self.waiting: list[tuple[Report, float]] = []

    def append(self, entry: NewReport) -> AppendOutcome:
        key = entry.node, entry.incarnation, entry.sequence
        if key in self.seen:
            return AppendOutcome(id=None, missing_reports=0, lost_reports=0)
        self.seen.add(key)
        if entry.pods is not None:
            self.pods[entry.node] = entry.pods
        self.waiting.append((decode_report(entry.payload), entry.received_unix_seconds))
        return AppendOutcome(id=len(self.seen), missing_reports=0, lost_reports=0)

    def pods_of(self, node: str) -> bytes | None:
        return self.pods.get(node)

    def last_heard(self, node: str) -> float | None:
        return None


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Stack]:
    # As written they ask for what the honest node sees: below that no lie of having nothing to do gets them.
    names = tuple(
        WrittenContainer(name=name, cpu_request_millicores=CPU_MILLICORES, memory_request_bytes=MEMORY_BYTES)
        for name in ("app", "proxy")
    )
    liar = {**user(), "extra": {"authentication.kubernetes.io/node-name": [LIAR]}}
    with stack(tmp_path, server=Server(users={GOOD: user(), "liar": liar})) as webhook:
        webhook.facts.places = {
            f"uid-{number}": replace(place(number, node, workload), containers=names)
            for number, (node, workload) in enumerate(
                ((HONEST, SHARED), (LIAR, SHARED), (HONEST, DAEMON), (LIAR, DAEMON), (HONEST, BANK), (LIAR, OWN))
            )
        }
        webhook.index.loaded()
        log = Log()
        webhook.posts._parts = replace(webhook.posts._parts, store=log)
        webhook.hostile_log = log  # type: ignore[attr-defined]
        yield webhook


def follow(webhook: Stack) -> None:
    log: Log = webhook.hostile_log  # type: ignore[attr-defined]
    for report, received in log.waiting:
        webhook.index.take(report, received)
    log.waiting.clear()


def sizes(webhook: Stack, now: float) -> dict[tuple[Workload, str], tuple[Estimate, tuple[ContainerDirective, ...]]]:
    answers: dict[tuple[Workload, str], tuple[Estimate, tuple[ContainerDirective, ...]]] = {}
    for workload in EVERY:
        directives = webhook.index.directive_of(workload, node=HONEST, now_unix_seconds=now)
        for container in ("app", "proxy", "invented"):
            answer = webhook.index.estimate(
                workload, container, policy=PolicyName.CRUISE, node=None, node_class=None, now_unix_seconds=now
            )
            if isinstance(answer, Estimate):
                answers[workload, container] = answer, tuple(item for item in directives if item.container == container)
    return answers


def row_of(webhook: Stack, number: int, **changes: Any) -> dict[str, Any]:
    place = webhook.facts.places[f"uid-{number}"]
    named = {"namespace": place.namespace, "kind": place.workload.kind, "workload": place.workload.name}
    return row_body(number, **{**named, "pod": place.name, "oomKills": [], **changes})


def hostile(webhook: Stack, chance: random.Random, sequence: int) -> dict[str, Any]:
    """Make a report of what its node may say, bent in some way at each place."""

    def samples(scale: float) -> Any:
        largest = chance.choice([0.0, 1.0, scale / 3, scale, 4 * scale, 10 * scale, 1e9, 1e13, scale * chance.random()])
        count = chance.choice([1, 30, 300, 5000, 1_000_000])
        return chance.choice([None, distribution(largest, count, (chance.choice([0, 1, 90, 200, 300]), count))])

    rows = []
    for _ in range(chance.choice([1, 1, 2, 3, 6])):
        number = chance.choice([1, 1, 3, 3, 5, 0, 2, 4])
        row = row_of(webhook, number, cpu=samples(8000.0), cpuAdjusted=samples(8000.0), memory=samples(3e10))
        row["container"] = chance.choice(["app", "app", "app", "proxy", "invented", f"c{chance.randrange(10**6)}"])
        row["coveredSeconds"] = chance.choice([0.1, 1.0, 300.0, 315.0, 3600.0])
        size = chance.choice([None, 1, 10**7, 10**10, 10**13])
        row["oomKills"] = chance.choice([[], [[1.0, size]], [[chance.uniform(0, 1e6), size]] * 100])
        if chance.random() < 0.05:
            row[chance.choice(list(row))] = chance.choice([None, -1, 1e300, "x", "bank", [], {}])
        rows.append(row)
    return report_body(
        *rows,
        node=chance.choice([LIAR] * 19 + [HONEST]),
        sequence=sequence,
        incarnation=chance.choice(["one", f"i{chance.randrange(10**9)}"]),
        endAgeSeconds=chance.choice([0.0, 4.2, 290.0, 3600.0, 86_400.0, 1_209_600.0, chance.uniform(0, 1e6)]),
        intervalSeconds=chance.choice([1.0, 300.0, 300.0, 3600.0]),
        nodeClass=chance.choice([{"instanceType": "m5.large", "cpus": 8}, {"instanceType": "big", "cpus": 65_536}]),
    )


def test_whatever_one_node_reports_sizes_elsewhere_stay_and_its_own_change_within_bounds(whole: Stack) -> None:
    chance = random.Random(15)
    for age in (7200.0, 5.0):
        honest = [row_of(whole, number, container=name) for number in (0, 2, 4) for name in ("app", "proxy")]
        answer = whole.report(json.dumps(report_body(*honest, sequence=int(age) + 1, endAgeSeconds=age)).encode())
        assert json.loads(answer.body)["refused"] == []
    follow(whole)
    now = whole.posts._wall_clock()
    before = sizes(whole, now)
    assert {workload for workload, _ in before} == {SHARED, DAEMON, BANK}
    taken = 0
    for number in range(REPORTS):
        text = json.dumps(hostile(whole, chance, number + 1)).encode()
        answer = whole.report(text, "liar")
        assert answer.status in (200, 400, 403, 413), answer.body
        taken += json.loads(answer.body).get("taken", 0)
        follow(whole)
        if number % 100 and number != REPORTS - 1:
            continue
        after = sizes(whole, now)
        assert whole.index.size().containers <= 8
        for name in ("app", "proxy"):
            assert after[BANK, name] == before[BANK, name]
            for workload in (SHARED, DAEMON):
                check(*after[workload, name])
    assert taken > REPORTS / 1000  # some of what was sent is its own to say
    assert max(estimate.cpu_max_millicores or 0 for estimate, _ in sizes(whole, now).values()) > CPU_MILLICORES


def check(estimate: Estimate, directives: tuple[ContainerDirective, ...]) -> None:
    """Hold what is asked for a new pod, and what the honest node is told, against the honest node's own figures."""
    assert CPU_MILLICORES <= (estimate.cpu_max_millicores or 0) <= 4 * CPU_MILLICORES * CODED
    assert MEMORY_BYTES <= (estimate.memory_max_bytes or 0) + 1024 <= 4 * MEMORY_BYTES * CODED
    assert (estimate.cpu_request_millicores or 0) <= 4 * CPU_MILLICORES * CODED
    assert (estimate.memory_request_bytes or 0) <= 4 * MEMORY_BYTES * CODED
    assert (estimate.cpu_base_millicores or 0) <= 4 * CPU_MILLICORES * CODED
    assert (estimate.memory_base_bytes or 0) <= 4 * MEMORY_BYTES * CODED
    assert (estimate.oom_memory_bytes or 0) <= 4 * MEMORY_BYTES * CODED
    for directive in directives:
        assert (directive.cpu_peak_millicores or 0) <= 4 * CPU_MILLICORES * CODED
        assert max((peak or 0 for peak in directive.cpu_hour_peaks_millicores), default=0) <= 4 * CPU_MILLICORES * CODED
        assert (directive.memory_peak_bytes or 0) <= 4 * MEMORY_BYTES * CODED
        assert max((peak or 0 for peak in directive.memory_hour_peaks_bytes), default=0) <= 4 * MEMORY_BYTES * CODED
        assert (directive.oom_memory_bytes or 0) <= 4 * MEMORY_BYTES * CODED
