"""Pods of a node's newest report: known for a day after they were last seen, under their own names alone."""

from __future__ import annotations

import zlib
from dataclasses import replace

import msgspec

from agent.core.history.workloads.hour_sketch import ReportInterval
from agent.webhook.store.entries.remembered_pods import REMEMBERED_SECONDS, RememberedPods
from tests.webhook.workload_reports import WEB, row

NOW = 1_700_000_000.0
ROW = row()


def pods(payload: bytes | None, now: float = NOW, node: str = "node-a") -> RememberedPods:
    return RememberedPods(node, lambda: payload, now_unix_seconds=now)


def test_what_a_report_told_of_is_known_with_name_and_owner() -> None:
    payload = pods(None).with_rows([ROW, replace(ROW, container="other")])
    place = pods(payload, NOW + 3600).place(ROW.pod_uid)
    assert place is not None
    assert (place.uid, place.namespace, place.name, place.node, place.workload) == (
        ROW.pod_uid,
        ROW.workload.namespace,
        ROW.pod,
        "node-a",
        WEB,
    )
    assert not place.is_running
    assert pods(payload).place("another") is None


def test_one_is_known_for_a_day_however_often_it_is_told_of_again() -> None:
    payload: bytes | None = pods(None).with_rows([ROW])
    for hour in range(1, 25):
        memory = pods(payload, NOW + 3600 * hour)
        assert memory.place(ROW.pod_uid) is not None
        payload = memory.with_rows([ROW])
    assert pods(payload, NOW + REMEMBERED_SECONDS + 1).place(ROW.pod_uid) is None


def test_one_that_is_seen_again_is_known_for_another_day() -> None:
    payload = pods(pods(None).with_rows([ROW]), NOW + 80_000).with_rows([ROW])  # nobody had to ask
    assert pods(payload, NOW + 80_000 + 3600).place(ROW.pod_uid) is not None


def test_what_the_newest_report_did_not_tell_of_is_forgotten() -> None:
    payload = pods(pods(None).with_rows([ROW])).with_rows([replace(ROW, pod_uid="uid-2")])
    assert pods(payload).place(ROW.pod_uid) is None


def test_from_the_future_or_unreadable_is_nothing() -> None:
    payload = pods(None, NOW + 60).with_rows([ROW])
    assert pods(payload).place(ROW.pod_uid) is None
    for bad in (b"", b"rubbish", payload[:-5]):
        assert pods(bad).place(ROW.pod_uid) is None


def test_the_store_is_asked_once_and_only_for_what_no_watch_knows() -> None:
    asked: list[int] = []

    def load() -> bytes | None:
        asked.append(1)
        return None

    memory = RememberedPods("node-a", load, now_unix_seconds=NOW)
    memory.with_rows([ROW])
    assert asked == []
    memory.place("one")
    memory.place("two")
    assert asked == [1]


def test_what_an_older_version_wrote_is_read_without_containers_and_times() -> None:
    older = [["uid-1", "web-1", "shop", "Deployment", "web", NOW - 60.0]]
    place = pods(zlib.compress(msgspec.msgpack.encode(older))).place("uid-1")
    assert place is not None
    assert place.containers is None
    assert pods(zlib.compress(msgspec.msgpack.encode(older))).begin(interval(NOW - 86_400)) is None


def test_containers_are_remembered_by_name() -> None:
    payload = pods(None).with_rows([ROW], {ROW.pod_uid: ("app", "proxy")})
    place = pods(payload).place(ROW.pod_uid)
    assert place is not None
    assert [place.has_container(name) for name in ("app", "proxy", "other")] == [True, True, False]


def interval(end_unix_seconds: float) -> ReportInterval:
    return ReportInterval.of(received_unix_seconds=end_unix_seconds, end_age_seconds=0.0, interval_seconds=300.0)


def test_a_clock_that_was_ahead_is_not_believed() -> None:
    ahead = pods(None, NOW + 7200)
    assert ahead.begin(interval(NOW + 7200)) is None
    payload = ahead.with_rows([])
    behind = pods(payload, NOW)
    assert behind.begin(interval(NOW)) is None
    again = pods(behind.with_rows([]), NOW)
    assert again.begin(interval(NOW - 50)) is None
    assert again.begin(interval(NOW - 100)) is not None


def test_hours_told_by_a_clock_that_was_ahead_are_not_over() -> None:
    ahead = pods(None, NOW + 86_400)
    assert ahead.begin(interval(NOW + 86_400)) is None
    assert ahead.cover(ROW) is None
    right = pods(ahead.with_rows([ROW]), NOW)
    assert right.begin(interval(NOW)) is None
    assert right.cover(ROW) is None


def test_an_hour_before_the_newest_told_is_over_for_a_container() -> None:
    hour = NOW // 3600 * 3600
    memory = pods(None, hour + 60)
    assert memory.begin(interval(hour + 200)) is None
    assert memory.cover(ROW) is None
    payload = memory.with_rows([ROW])
    later = pods(payload, hour + 60)
    assert later.begin(interval(hour + 145)) is None
    assert later.cover(ROW) == "coveredSeconds: a later hour of this container was told already"
    assert later.cover(replace(ROW, container="other")) is None
