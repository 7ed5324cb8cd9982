"""The audit log as tests read it: lines of others' writes that are still to come are waited for, once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import audit
from tests.cluster.audit import AuditLog


class Log:
    """A log that a server would write."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.timers: list[threading.Timer] = []

    def write(self, stage: str, name: str, *, verb: str = "patch", end: str = "\n") -> None:
        event = {
            "kind": "Event",
            "stage": stage,
            "auditID": name,
            "verb": verb,
            "user": {"username": "agent"},
            "objectRef": {"resource": "pods", "namespace": "shop", "name": name},
            "responseStatus": {"code": 200},
            "requestURI": f"/api/v1/namespaces/shop/pods/{name}",
            "requestReceivedTimestamp": "2026-01-01T00:00:01.500000Z",
        }
        with self.file.open("a") as file:
            file.write(json.dumps(event, separators=(",", ":")) + end)

    def write_later(self, stage: str, name: str) -> None:
        """A moment after now: another process has yet to come to its turn."""
        self.timers.append(threading.Timer(0.1, self.write, (stage, name)))
        self.timers[-1].start()


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    writer = Log(tmp_path / "audit.log")
    yield writer
    for timer in writer.timers:
        timer.join()


def names(audit_log: AuditLog) -> list[str]:
    return [call.name for call in audit_log.calls("agent")]


def test_the_line_of_a_write_that_has_come_is_waited_for(log: Log) -> None:
    audit_log = AuditLog(log.file)
    log.write("RequestReceived", "a")
    log.write_later("ResponseComplete", "a")  # its effect is seen by now
    assert names(audit_log) == ["a"]


def test_what_had_come_before_is_no_part_of_a_new_log(log: Log) -> None:
    log.write("RequestReceived", "a")
    log.write_later("ResponseComplete", "a")
    audit_log = AuditLog(log.file)
    assert names(audit_log) == []
    log.write("RequestReceived", "b")
    log.write("ResponseComplete", "b")
    assert names(audit_log) == ["b"]
    assert names(AuditLog(log.file, from_start=True)) == ["a", "b"]


def test_a_line_that_is_being_written_is_neither_lost_nor_cut(log: Log) -> None:
    log.write("ResponseComplete", "a")
    log.write("ResponseComplete", "b", end="")
    audit_log = AuditLog(log.file)
    assert names(audit_log) == []
    with log.file.open("a") as file:
        file.write("\n")
    assert names(audit_log) == ["b"]


def test_a_server_that_was_killed_is_waited_for_once(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "UNANSWERED_SECONDS", 0.05)
    monkeypatch.setattr(audit, "_GIVEN_UP", set())
    audit_log = AuditLog(log.file)
    log.write("RequestReceived", "a")
    assert names(audit_log) == []
    monkeypatch.setattr(audit, "UNANSWERED_SECONDS", 1e9)
    assert names(audit_log) == []
    assert names(AuditLog(log.file, from_start=True)) == [], "nor by anybody else"
    log.write("RequestReceived", "b")
    log.write_later("ResponseComplete", "b")
    assert names(audit_log) == ["b"]


def test_a_line_that_was_cut_when_the_server_was_killed_costs_no_other(log: Log) -> None:
    log.write("ResponseComplete", "a")
    with log.file.open("a") as file:
        file.write('{"kind":"Event","stage":"Respon')
    log.write("ResponseComplete", "b")
    log.write("ResponseComplete", "c")
    assert names(AuditLog(log.file, from_start=True)) == ["a", "b", "c"]
    audit_log = AuditLog(log.file)
    log.write("ResponseComplete", "d")
    assert names(audit_log) == ["d"]


def test_a_watch_counts_when_it_began_and_reads_are_not_waited_for(log: Log) -> None:
    audit_log = AuditLog(log.file, from_start=True)
    log.write("ResponseStarted", "w", verb="watch")
    log.write("ResponseComplete", "w", verb="watch")
    log.write("ResponseComplete", "r", verb="get")
    assert names(audit_log) == ["w", "r"]


def test_a_write_that_came_and_was_never_answered_is_told_apart(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.cluster.audit.UNANSWERED_SECONDS", 0.0)
    log.write("RequestReceived", "a")
    log.write("RequestReceived", "b")
    log.write("ResponseComplete", "a")
    (call,) = AuditLog(log.file, from_start=True).unanswered()
    assert (call.name, call.received_unix_seconds) == ("b", 1767225601.5)
