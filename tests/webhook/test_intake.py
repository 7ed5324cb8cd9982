"""What one stolen token may tell: of containers that its pods have, once each, within its node, of no time twice."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select

from agent.core.cluster.facts import NodeAmounts, WrittenContainer
from agent.core.history.reports.rollup import RollupRow
from agent.settings.webhook_sections import AccessSettings
from agent.webhook.store.database.tables import node_pods
from agent.webhook.store.entries.report_payload import decode_report
from tests.webhook.open_store import open_store
from tests.webhook.report_bodies import distribution, packed, report_body, row_body
from tests.webhook.stack import Stack, place, stack

GZIP = {"content_type": "application/json", "content_encoding": "gzip"}
GIB = 1 << 30


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Stack]:
    with stack(tmp_path) as webhook:
        webhook.follow()
        yield webhook


def told(webhook: Stack, *rows: Any, sequence: int = 1, **changes: Any) -> Any:
    answer = webhook.report(packed(report_body(*rows, sequence=sequence, **changes)), **GZIP)
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


def kept(webhook: Stack) -> list[RollupRow]:
    return [row for logged in webhook.store.tail(0, 1000) for row in decode_report(logged.payload).rows]


# Capacity


def test_memory_beyond_the_nodes_own_is_refused(whole: Stack) -> None:
    most = 32 * GIB
    rows = [row_body(number, memory=distribution(size)) for number, size in enumerate((most, most + 1, 1e13))]
    answer = told(whole, *rows)
    assert (answer["taken"], [refusal["row"] for refusal in answer["refused"]]) == (1, [1, 2])
    assert answer["refused"][0]["reason"].startswith("memory.max: ")


def test_a_kill_and_a_demand_beyond_the_nodes_own_are_cut(whole: Stack) -> None:
    high = {"count": 300, "sum": 300 * 17_000.0, "max": 17_000.0, "buckets": [130, 300]}
    told(whole, row_body(0, cpuAdjusted=high, oomKills=[[1.0, 10**13], [2.0, 5], [3.0, None]]))
    (row,) = kept(whole)
    assert [kill.memory_bytes for kill in row.oom_kills] == [32 * GIB, 5, None]
    assert row.cpu_adjusted is not None
    assert row.cpu_adjusted.max == pytest.approx(8800.0)
    assert sum(row.cpu_adjusted.buckets.values()) == row.cpu_adjusted.count


def test_where_no_node_states_its_capacity_a_small_one_bounds_what_is_told(whole: Stack) -> None:
    whole.facts.amounts = None
    answer = told(whole, row_body(0, memory=distribution(17.0 * GIB)), row_body(1, memory=distribution(15.0 * GIB)))
    assert [refusal["row"] for refusal in answer["refused"]] == [0]
    whole.facts.amounts = NodeAmounts(cpu_millicores=500, memory_bytes=GIB)
    assert told(whole, row_body(0, memory=distribution(2.0 * GIB)), sequence=2)["taken"] == 0


# Containers


def test_a_row_names_a_container_that_its_pod_has(whole: Stack) -> None:
    names = ("app", "setup", "proxy")
    whole.facts.places["uid-0"] = replace(place(0), containers=tuple(WrittenContainer(name=name) for name in names))
    answer = told(whole, *(row_body(0, container=name) for name in (*names, "invented")))
    assert answer["taken"] == 3
    assert answer["refused"] == [{"row": 3, "reason": "container: the pod has none named invented"}]
    # The same for a pod that is remembered alone.
    del whole.facts.places["uid-0"]
    later = told(whole, row_body(0, container="proxy"), row_body(0, container="other"), sequence=2)
    assert (later["taken"], [refusal["row"] for refusal in later["refused"]]) == (1, [1])


def test_instances_of_a_container_are_one_row_and_copies_are_refused(whole: Stack) -> None:
    first = row_body(0, coveredSeconds=100.0, cpu=distribution(50.0, count=100, buckets=(1, 100)), oomKills=[])
    first["cpuAdjusted"] = first["memory"] = None
    second = {**first, "coveredSeconds": 190.0, "cpu": distribution(80.0, count=190, buckets=(1, 90, 2, 100))}
    answer = told(whole, first, second, *(first for _ in range(40)))
    assert (answer["taken"], [refusal["row"] for refusal in answer["refused"]]) == (2, list(range(2, 42)))
    (row,) = kept(whole)
    assert row.cpu is not None
    assert (row.covered_seconds, row.cpu.count, row.cpu.max) == (290.0, 290, 80.0)
    assert row.cpu.buckets == {1: 190, 2: 100}


def test_a_row_weighs_by_the_time_that_it_covers(whole: Stack) -> None:
    often = distribution(50.0, count=6000, buckets=(0, 1500, 1, 4500))
    told(whole, row_body(0, cpu=often, memory=distribution(3e6, count=6000, buckets=(1, 6000))))
    (row,) = kept(whole)
    assert row.cpu is not None
    assert row.memory is not None
    assert row.cpu.buckets == {0: 75, 1: 225}
    assert row.cpu.sum == pytest.approx(300 * 25.0)
    assert row.memory.buckets == {1: 31}


# Time


def test_old_hours_are_told_once(whole: Stack) -> None:
    assert told(whole, row_body(0), endAgeSeconds=3 * 3600.0)["taken"] == 1  # waited in a queue
    assert told(whole, row_body(0), sequence=2, endAgeSeconds=2 * 3600.0)["taken"] == 1
    assert told(whole, row_body(0), sequence=3)["taken"] == 1
    for number in range(168):
        answer = told(
            whole, row_body(0), sequence=10 + number, incarnation=f"new-{number}", endAgeSeconds=600.0 + 3600.0 * number
        )
        assert answer["taken"] == 0
        assert answer["refused"][0]["reason"].startswith("endAgeSeconds: the node told of later minutes ")
    assert len(kept(whole)) == 3
    assert told(whole, row_body(0), sequence=4)["taken"] == 1  # and what is new is taken as before


def test_an_hour_of_a_container_holds_an_hour_under_any_incarnation(whole: Stack) -> None:
    at = whole.posts._wall_clock()
    whole.posts._wall_clock = lambda: at  # no hour begins between two of them
    taken = [
        told(whole, row_body(0), row_body(1), incarnation=f"new-{number}", endAgeSeconds=86_400.0)["taken"]
        for number in range(40)
    ]
    assert sum(taken) == 2 * 12
    assert sum(row.covered_seconds for row in kept(whole) if row.pod == "web-0") <= 3600 * 1.05


def test_after_a_day_of_silence_time_that_may_have_been_told_is_not_taken(whole: Stack) -> None:
    told(whole, row_body(0))
    with whole.store.transaction() as connection:
        connection.execute(delete(node_pods))  # dropped as the node was silent
    assert told(whole, row_body(0), sequence=2, endAgeSeconds=7200.0)["taken"] == 0
    assert told(whole, row_body(0), sequence=3)["taken"] == 1
    assert whole.store.last_heard("node-z") is None


class Replicas:
    """The stores of two replicas that read what is known of a node before either of them writes."""

    def __init__(self, url: str) -> None:
        self._both_read = threading.Barrier(2, timeout=60.0)
        self.stores = tuple(_ReadsFirst(url, self._both_read) for _ in range(2))


class _ReadsFirst:
    def __init__(self, url: str, both_read: threading.Barrier) -> None:
        self._store, self._both_read, self._is_first = open_store(url), both_read, True

    def pods_of(self, node: str) -> bytes | None:
        pods = self._store.pods_of(node)
        if self._is_first:
            self._is_first = False
            self._both_read.wait()
        return pods

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_two_replicas_at_once_take_no_time_twice(store_url: str, tmp_path: Path) -> None:
    replicas = Replicas(store_url)
    answers: list[Any] = []
    with contextlib.ExitStack() as opened:
        both = [opened.enter_context(stack(tmp_path, store=store)) for store in replicas.stores]
        at = both[0].posts._wall_clock()
        for webhook in both:
            webhook.posts._wall_clock = lambda: at  # no hour begins between the two
            webhook.follow()
        half = row_body(0, coveredSeconds=2400.0)
        told_at_once = [
            threading.Thread(
                target=lambda webhook=webhook, name=name: answers.append(
                    told(webhook, half, incarnation=name, intervalSeconds=2400.0, endAgeSeconds=86_400.0)
                )
            )
            for webhook, name in zip(both, ("here", "there"), strict=True)
        ]
        for thread in told_at_once:
            thread.start()
        for thread in told_at_once:
            thread.join()
        assert sorted(answer["taken"] for answer in answers) == [0, 1]
        (refused,) = [row for answer in answers for row in answer["refused"]]
        # Which of the two rules stands in the way goes by the second in which each of them arrived.
        assert refused["reason"].startswith(
            ("coveredSeconds: 4800 of one hour of this container", "endAgeSeconds: the node told of later minutes ")
        )
        assert sum(row.covered_seconds for row in kept(both[0])) == 2400.0


def test_a_report_that_other_replicas_are_always_ahead_of_is_put_off(whole: Stack) -> None:
    told(whole, row_body(0))
    with whole.store.transaction() as connection:
        stale: bytes = connection.execute(select(node_pods.c.pods)).scalar_one()
    told(whole, row_body(0), sequence=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole.store, "pods_of", lambda _: stale)
        answer = whole.report(packed(report_body(row_body(0), sequence=3)), **GZIP)
    assert (answer.status, answer.headers.get("Retry-After")) == (503, "5")
    assert len(whole.store.tail(0, 10)) == 2
    assert told(whole, row_body(0), sequence=3)["taken"] == 1


# Cost


def test_a_large_body_counts_as_several_calls(tmp_path: Path) -> None:
    with stack(tmp_path, access=AccessSettings(requests_per_minute=30)) as webhook:
        large = report_body(row_body(0, workload="x" * (6 << 20)))
        first = webhook.report(packed(large), **GZIP)
        assert (first.status, json.loads(first.body)["taken"]) == (200, 0)
        again = webhook.report(packed(report_body(row_body(0), sequence=18)), **GZIP)
        assert again.status == 200
        refused = webhook.report(packed({**large, "sequence": 19}), **GZIP)
        assert refused.status == 429
        assert "count as 25 calls" in json.loads(refused.body)["error"]


# Turns


def test_a_report_is_worked_on_in_turn_and_the_turn_is_nobodys_while_the_database_is_waited_for(whole: Stack) -> None:
    turn, seen = threading.Lock(), list[str]()

    class Watched:
        def __getattr__(self, name: str) -> Any:
            seen.append(f"{name} {turn.locked()}")
            return getattr(whole.store, name)

    parts = whole.posts._parts

    def directives(node: str) -> Any:
        seen.append(f"directives {turn.locked()}")
        return parts.directives(node)

    def encode(report: Any) -> bytes:
        seen.append(f"encode {turn.locked()}")
        return parts.encode(report)

    whole.posts._parts = replace(parts, turn=turn, store=Watched(), directives=directives, encode=encode)  # type: ignore[arg-type]
    told(whole, row_body(0))
    assert not turn.locked()
    assert {"pods_of False", "encode True", "append False", "directives True"} <= set(seen)
    with turn:
        posting = threading.Thread(target=told, args=(whole, row_body(1)), kwargs={"sequence": 2})
        posting.start()
        assert len(kept(whole)) == 1
    posting.join()
    assert len(kept(whole)) == 2
