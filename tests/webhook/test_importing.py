"""History that was read elsewhere: into the store and all memories, below what agents tell, by its own right alone."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.core.admission.estimate import Estimate, EstimateSource, NoEstimate
from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS
from agent.core.history.workloads.imported import ImportedHour, ImportedKill, imported_sketch
from agent.core.orders.policy_options import PolicyName
from agent.metrics.call_result import CallKind
from agent.webhook.http.access import Sender
from agent.webhook.http.routes import Call, HttpAnswer
from agent.webhook.store.entries.import_entry import decode_import, is_import
from agent.webhook.store.entries.report_payload import BadPayloadError
from agent.webhook.store.entries.sketch_bytes import encode
from agent.webhook.store.shapes import ForgetWish, ImportOutcome, StoredSketch
from agent.webhook.store.store import Store
from agent.webhook.workloads.folder import Folder
from agent.webhook.workloads.index import WorkloadIndex
from agent.webhook.workloads.percentiles import Statistics
from agent.webhook.workloads.rebuilder import Rebuilder, RebuildOptions
from agent.webhook.workloads.shapes import IndexOptions
from agent.webhook.workloads.tailer import Tailer
from tests.webhook.open_store import open_store
from tests.webhook.stack import Stack, stack
from tests.webhook.test_access import Server, user
from tests.webhook.test_tailing import AT_ONCE, append, follow, replica, sketches_of
from tests.webhook.test_workloads import Policies
from tests.webhook.workload_reports import DNS, HOUR, MIB, NOON, SMALL, WEB, distribution, report, row

DAY = 24 * HOUR
NOW = NOON + 1800.0
NOW_HOUR = NOON // HOUR
WEEK = range(NOW_HOUR - 168, NOW_HOUR)
OVER_HOUR = int(time.time()) // HOUR - 2
"""One that is over by the real clock, the same for all: it may strike between two bodies that are to be of one hour."""


def imported(
    unix_hour: int, workload: Workload = WEB, *, cpu: float = 400.0, memory: float = 200.0, **more: Any
) -> Any:
    return ImportedHour(
        workload=workload,
        container="app",
        unix_hour=unix_hour,
        covered_seconds=3600.0,
        pods=2,
        cpu=distribution([cpu / 2, cpu], CPU_BUCKETS),
        cpu_adjusted=None,
        memory=distribution([memory * MIB], MEMORY_BUCKETS),
        **more,
    )


def take(store: Store, hours: list[ImportedHour]) -> ImportOutcome:
    sketches = [
        StoredSketch(key=str(hour.key), unix_hour=hour.unix_hour, payload=encode(imported_sketch(hour), hour.unix_hour))
        for hour in hours
    ]
    return store.take_imported(sketches, asked_by="me", now_unix_seconds=NOW)


def estimate(
    index: WorkloadIndex,
    workload: Workload = WEB,
    *,
    policy: PolicyName = PolicyName.CRUISE,
    now: float = NOW,
    **more: Any,
) -> Estimate | NoEstimate:
    where = {"node": None, "node_class": None, **more}
    return index.estimate(workload, "app", policy=policy, now_unix_seconds=now, **where)


def cpu_of(index: WorkloadIndex, **more: Any) -> int | None:
    answer = estimate(index, **more)
    assert isinstance(answer, Estimate), answer
    return answer.cpu_request_millicores


def test_what_was_imported_sizes_the_first_pod_in_every_replica_with_a_tenth_more(store: Store) -> None:
    first, second = replica(store), replica(store)
    follow(first[1], NOW)
    assert estimate(first[0]) is NoEstimate.UNKNOWN_WORKLOAD
    kill = ImportedKill(second=30.0, memory_bytes=512 * MIB)
    done = take(store, [imported(hour, kills=(kill,) if hour == WEEK[3] else ()) for hour in WEEK])
    assert (done.id, done.changed) == (1, 168)
    for index, tailer in (first, second):
        follow(tailer, NOW)
        answer = estimate(index)
        assert isinstance(answer, Estimate)
        # 400m and 200 MiB, with a tenth more; what is kept of them is up to 0.05 % above.
        assert answer.cpu_request_millicores == pytest.approx(440, abs=1)
        assert answer.memory_request_bytes == pytest.approx(220 * MIB, rel=0.001)
        assert answer.oom_memory_bytes == 512 * MIB
        assert (answer.source, answer.imported_hours, answer.pods) == (EstimateSource.WORKLOAD, 168, 2)
        assert answer.history_seconds == 168 * HOUR + 1800
        assert answer.cpu_base_millicores is not None
        assert answer.memory_base_bytes is not None
        [directive] = index.directive_of(WEB, node="node-a", now_unix_seconds=NOW)
        assert directive.cpu_peak_millicores == pytest.approx(440, abs=1)
        assert None not in directive.memory_hour_peaks_bytes
        assert index.newest_kill(WEB) == WEEK[3] * HOUR + 30
        [container] = index.merged(WEB).containers  # type: ignore[union-attr]
        assert container.imported is not None
        assert len(container.imported.hours) == len(container.hours) == 168
    late, tailer = replica(store)
    follow(tailer, NOW)
    assert estimate(late) == estimate(first[0])


def test_what_agents_told_replaces_it_hour_by_hour_whichever_came_first(store: Store) -> None:
    index, tailer = replica(store)
    take(store, [imported(hour) for hour in WEEK])
    own = WEEK[-1]
    append(store, report(row(cpu=50.0)), own * HOUR + 900.0)
    follow(tailer, NOW)
    hours = {hour.hour_unix_seconds // HOUR: hour.cpu_millicores for hour in index.merged(WEB).containers[0].hours}  # type: ignore[union-attr]
    assert hours[own] == pytest.approx(50, abs=0.2)
    assert hours[own - 1] == pytest.approx(440, abs=1)
    answer = estimate(index)
    assert isinstance(answer, Estimate)
    assert (answer.imported_hours, answer.cpu_base_millicores) == (167, 50)
    # Of the other days the same hours count.
    assert answer.cpu_request_millicores == pytest.approx(440, abs=1)
    # Once agents told of all hours that count, nothing is left of it.
    for hour in WEEK:
        append(store, report(row(cpu=50.0), sequence=hour), hour * HOUR + 900.0)
    follow(tailer, NOW)
    answer = estimate(index)
    assert isinstance(answer, Estimate)
    assert (answer.imported_hours, answer.cpu_request_millicores) == (0, 50)
    before = estimate(index)
    take(store, [imported(hour, cpu=900.0) for hour in WEEK])
    follow(tailer, NOW)
    assert estimate(index) == before
    [directive] = index.directive_of(WEB, node="elsewhere", now_unix_seconds=NOW)
    assert directive.cpu_peak_millicores == 50


def test_twice_is_as_once_and_a_correction_replaces(store: Store) -> None:
    index, tailer = replica(store)
    hours = [imported(hour) for hour in WEEK]
    assert take(store, hours).changed == 168
    before = sketches_of(store)
    again = take(store, hours)
    assert (again.id, again.changed) == (None, 0)
    assert sketches_of(store) == before
    follow(tailer, NOW)
    assert take(store, [imported(hour, cpu=100.0) for hour in WEEK]).changed == 168
    follow(tailer, NOW)
    assert cpu_of(index) == pytest.approx(110, abs=1)
    assert tailer.imports == 2


def test_a_fold_and_a_restart_leave_it_and_forgetting_takes_it(store_url: str) -> None:
    store = open_store(store_url)
    index, tailer = replica(store)
    take(store, [imported(hour) for hour in WEEK])
    append(store, report(row(cpu=50.0)), NOW - 900.0)
    follow(tailer, NOW)
    known = cpu_of(index)
    assert Folder(store, AT_ONCE).fold_once(True, now_unix_seconds=NOW) == 2
    for workload_index in (index, replica(store)[0]):
        if workload_index is not index:
            late, following = replica(store)
            follow(following, NOW)
            workload_index = late
        assert cpu_of(workload_index) == known
    wish = ForgetWish(asked_by="me", workload=WEB)
    gone = store.forget(wish, now_unix_seconds=NOW)
    assert gone.rows >= 168
    follow(tailer, NOW)
    assert estimate(index) is NoEstimate.UNKNOWN_WORKLOAD
    assert sketches_of(store) == {}
    take(store, [imported(hour) for hour in WEEK])
    follow(tailer, NOW)
    assert cpu_of(index) == pytest.approx(440, abs=1)
    store.forget(ForgetWish(asked_by="me", node="node-a"), now_unix_seconds=NOW)
    follow(tailer, NOW)
    assert cpu_of(index) == pytest.approx(440, abs=1), "no node's word is in it"
    assert index.expire(NOW + 15 * DAY) == 1
    store.close()


@pytest.mark.parametrize("policy", [PolicyName.VPA, PolicyName.CRANE, PolicyName.PLIMSOLL])
def test_other_policies_are_worked_out_from_it_too(tmp_path: Path, policy: PolicyName) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'plimsoll.db'}")
    index, tailer = replica(store)
    take(store, [imported(hour) for hour in WEEK])
    append(store, report(row(cpu=50.0)), WEEK[-1] * HOUR + 900.0)
    follow(tailer, NOW)
    Folder(store, AT_ONCE).fold_once(True, now_unix_seconds=NOW)
    assert index.order(WEB, policy, NOW)
    assert Rebuilder(store, index, Policies(), RebuildOptions()).rebuild(NOW) == 1
    answer = estimate(index, policy=policy)
    assert isinstance(answer, Estimate)
    assert (answer.policy, answer.cpu_request_millicores is not None) == (policy, True)
    assert answer.cpu_request_millicores is not None
    # Up to 440m were demanded, 220m half of the time; each policy leaves a margin of its own.
    assert 200 < answer.cpu_request_millicores < 700
    statistics = Statistics(store, index.places).of(WEB, NOW)["app"]
    assert statistics.hours == 167  # and the running one
    assert statistics.cpu is not None
    assert statistics.cpu.max == 440
    assert statistics.cpu.samples == 166 * 2 + 1
    store.close()


def test_of_a_daemonset_it_counts_until_its_class_is_known(store: Store) -> None:
    """An import does not tell on what nodes it was."""
    index, tailer = replica(store)
    take(store, [imported(hour, DNS) for hour in WEEK])
    follow(tailer, NOW)
    assert cpu_of(index, workload=DNS, node="node-a", node_class=SMALL) == pytest.approx(440, abs=1)
    for hour in WEEK[-48:]:
        append(store, report(row(DNS, cpu=70.0), sequence=hour, node_class=SMALL), hour * HOUR + 900.0)
    follow(tailer, NOW)
    assert cpu_of(index, workload=DNS, node="new", node_class=SMALL) == 70
    assert cpu_of(index, workload=DNS, node="new") == pytest.approx(440, abs=1)


def test_imports_leave_room_for_what_agents_tell(tmp_path: Path) -> None:
    """Of four rows three at most."""
    store = open_store(f"sqlite:///{tmp_path / 'plimsoll.db'}")
    index = WorkloadIndex(IndexOptions(max_rows=4), Policies())
    tailer = Tailer(store, index)
    many = [Workload(namespace="shop", kind="Deployment", name=f"web-{number}") for number in range(6)]
    take(store, [imported(WEEK[-1], workload) for workload in many])
    follow(tailer, NOW)
    assert index.size().rows == 3
    append(store, report(row(cpu=50.0)), NOW - 900.0)
    follow(tailer, NOW)
    assert index.size().rows == 4
    store.close()


def test_an_entry_that_cannot_be_read_is_passed_over(store: Store) -> None:
    take(store, [imported(WEEK[0])])
    [logged] = store.tail(0, 10)
    assert is_import(logged.payload)
    with pytest.raises(BadPayloadError, match="payload of 9 bytes"):
        decode_import(b"import\0xy")


# -- over HTTP ---------------------------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Stack]:
    server = Server(
        users={"good": user(), "importer": user("importer"), "reader": user("reader")},
        creatable=frozenset({"/v1/history"}),
    )
    with stack(tmp_path, server=server) as webhook:
        yield webhook


def samples(largest: float, count: int = 60) -> dict[str, Any]:
    scheme = CPU_BUCKETS if largest < 1e6 else MEMORY_BUCKETS
    return {
        "count": count,
        "sum": largest * count,
        "max": largest,
        "buckets": [int(scheme.find(np.array([largest]))[0]), count],
    }


def hour_body(**changes: Any) -> dict[str, Any]:
    body = {
        "namespace": "shop",
        "kind": "Deployment",
        "workload": "web",
        "container": "app",
        "unixHour": OVER_HOUR,
        "coveredSeconds": 3600.0,
        "pods": 1,
        "cpu": samples(400.0),
        "memory": samples(2e8),
    }
    return {**body, **changes}


def body_of(*rows: Any, **changes: Any) -> bytes:
    return json.dumps({"schema": 1, "source": "prometheus", "rows": list(rows), **changes}).encode()


def post(webhook: Stack, body: bytes, by: str = "importer", **more: Any) -> tuple[int, dict[str, Any]]:
    authorization = f"Bearer {by}"
    door = webhook.services.entering(CallKind.HISTORY, authorization)
    if isinstance(door, HttpAnswer):
        return door.status, json.loads(door.body)
    assert isinstance(webhook.services.known(CallKind.HISTORY, authorization), Sender)
    answer = webhook.services.history(
        Call(path="/v1/history", body=body, authorization=authorization, sender=door, **more)
    )
    return answer.status, json.loads(answer.body)


def test_hours_are_taken_and_known_at_once(served: Stack) -> None:
    served.follow()
    status, reply = post(served, gzip.compress(body_of(hour_body(oomKills=[[5.0, 10**8]]))), content_encoding="gzip")
    assert (status, reply["taken"], reply["changed"], reply["refused"], reply["inMemoryToo"]) == (200, 1, 1, [], True)
    answer = estimate(served.index, now=time.time())
    assert isinstance(answer, Estimate)
    assert answer.cpu_max_millicores == pytest.approx(440, abs=1)
    assert post(served, body_of(hour_body(oomKills=[[5.0, 10**8]])))[1]["changed"] == 0
    assert served.counted('plimsoll_history_imports_received_total{result="accepted"}') == 2


def test_nobody_may_import_without_the_right(served: Stack) -> None:
    served.server.creatable = frozenset()
    for token in ("reader", "good"):
        status, reply = post(served, body_of(hour_body()), token)
        assert (status, "may not create the nonResourceURL /v1/history" in reply["error"]) == (403, True)
        assert isinstance(served.services.known(CallKind.HISTORY, f"Bearer {token}"), HttpAnswer)
    assert post(served, b"", "stranger")[0] == 401
    assert served.services.known(CallKind.HISTORY, "Bearer unheard-of") is None
    assert served.index.workloads() == ()
    assert served.counted('plimsoll_history_imports_received_total{result="forbidden"}') >= 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"unixHour": OVER_HOUR + 3}, "hours that are over and still kept"),
        ({"unixHour": OVER_HOUR - 14 * 24}, "hours that are over and still kept"),
        ({"pods": 0}, "pods: expected"),
        ({"pods": 1, "coveredSeconds": 9000.0}, "coveredSeconds: 9000 of 1 pods in an hour"),
        ({"cpu": None, "memory": None}, "cpu, memory: neither is given"),
        ({"cpu": None, "cpuAdjusted": samples(1.0)}, "cpuAdjusted: without cpu"),
        ({"cpu": {**samples(1.0), "max": -1}}, "cpu.max: expected"),
        ({"cpu": {**samples(1.0), "sum": "much"}}, "cpu.sum: expected"),
        ({"cpu": {**samples(1.0), "count": 3}}, "cpu.count: 3, but the buckets hold 60"),
        ({"cpu": {**samples(1.0), "max": 2e6}}, "cpu.max: 2e+06; allowed: at most 1e+06"),
        ({"memory": {**samples(2e8), "buckets": [5000, 60]}}, "memory.buckets: bucket 5000"),
        ({"memory": samples(2e8, 100_000)}, "memory.count: 100000; allowed: at most 3780"),
        ({"namespace": "Shop"}, "namespace: not such a name as Kubernetes gives"),
        ({"workload": "\ud800"}, "workload"),
        ({"oomKills": [[4000.0, None]]}, "oomKills"),
    ],
)
def test_an_hour_that_cannot_be_is_refused_alone(served: Stack, changes: dict[str, Any], words: str) -> None:
    status, reply = post(served, body_of(hour_body(container="good"), hour_body(**changes)))
    assert (status, reply["taken"]) == (200, 1) if "\\ud" not in json.dumps(changes) else status in (200, 400)
    if status == 200:
        [refused] = reply["refused"]
        assert refused["row"] == 1
        assert words in refused["reason"]


def test_an_hour_twice_in_one_body_is_refused_once(served: Stack) -> None:
    _, reply = post(served, body_of(hour_body(), hour_body(cpu=samples(5.0))))
    assert (reply["taken"], [refusal["row"] for refusal in reply["refused"]]) == (1, [1])


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"<html>", 400, "the body is no JSON"),
        (b"[]", 400, "expected object"),
        (b'{"schema":1,"source":"graphite","rows":[]}', 400, "source"),
        (b'{"schema":99,"source":"prometheus","rows":[]}', 400, "schema"),
        (body_of(*[{}] * 2001), 413, "2001 rows; allowed: at most 2000"),
        (b'{"schema":1,"source":"prometheus","rows":[NaN]}', 400, "no JSON"),
    ],
)
def test_a_body_that_is_none_is_refused_as_a_whole(served: Stack, body: bytes, status: int, words: str) -> None:
    code, reply = post(served, body)
    assert code == status
    assert words in reply["error"]


def test_no_more_than_is_taken_is_unpacked(served: Stack) -> None:
    status, reply = post(served, gzip.compress(b" " * (9 << 20)), content_encoding="gzip")
    assert (status, "when unpacked" in reply["error"]) == (413, True)
    assert post(served, b"x", content_encoding="br")[0] == 400
    assert post(served, b"x", content_encoding="gzip")[0] == 400
