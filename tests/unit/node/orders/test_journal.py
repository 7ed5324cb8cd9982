from __future__ import annotations

import errno
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.resize.decision import Action, Decision, Outcome
from agent.node.files.documents import DECISION
from agent.node.orders.journal import MOST_DETAIL, DecisionFilter, Journal, read_journal
from tests.plans import change, decision, ref

START = 1_700_000_000.0


def add(journal: Journal, at: float = 0.0, **fields: Any) -> Decision:
    """A resize of one pod that is withheld, unless told."""
    known: dict[str, Any] = {
        "action": Action.RESIZE,
        "outcome": Outcome.WITHHELD,
        "reason": "node_full",
        "pod": ref(),
    }
    return journal.add(**{**known, **fields, "unix_seconds": START + at})


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# Order and numbers


def test_newest_comes_first_and_numbers_rise_by_one() -> None:
    journal = Journal(None)
    for at, name in enumerate("abc"):
        add(journal, at, pod=ref(name))
    entries = journal.newest()
    assert [(entry.sequence, entry.pod) for entry in entries] == [(3, ref("c")), (2, ref("b")), (1, ref("a"))]
    assert journal.newest(1) == entries[:1]


def test_memory_holds_the_newest_only() -> None:
    journal = Journal(None, most=3)
    for at in range(10):
        add(journal, at, pod=ref(f"pod-{at}"))
    assert [entry.sequence for entry in journal.newest()] == [10, 9, 8]


def test_a_wording_is_no_longer_than_so_many_characters_in_memory_and_on_disk(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "decisions")
    entry = add(journal, detail="x" * 200_000)
    assert journal.newest() == read_journal(tmp_path / "decisions") == (entry,)
    assert entry.detail == "x" * MOST_DETAIL
    again = add(journal, 1, detail="x" * 200_001)
    assert (again.detail, again.repeats) == (entry.detail, 2)


# Said again


def test_the_same_again_counts_one_more_and_takes_the_new_wording() -> None:
    journal = Journal(None)
    first = add(journal, 0, detail="100m are free", changes=(change(100, 200),))
    again = add(journal, 30, detail="50m are free", changes=(change(100, 300),))
    (entry,) = journal.newest()
    assert entry == again
    assert (again.sequence, again.repeats, again.unix_seconds) == (first.sequence, 2, START + 30)
    assert (again.detail, again.changes) == ("50m are free", (change(100, 300),))


@pytest.mark.parametrize(
    ("later", "fields"),
    [
        (1, {"outcome": Outcome.DEFERRED}),
        (1, {"reason": "cooldown"}),
        (1, {"pod": ref("other")}),
        (1, {"action": Action.EVICTION}),
        (601, {}),
    ],
)
def test_what_differs_or_comes_late_is_a_decision_of_its_own(later: float, fields: dict[str, Any]) -> None:
    journal = Journal(None)
    add(journal, 0)
    assert add(journal, later, **fields).repeats == 1
    assert len(journal.newest()) == 2


def test_in_a_row_is_said_of_one_pod_whatever_comes_between_of_others() -> None:
    journal = Journal(None)
    add(journal, 0, pod=ref("a"))
    add(journal, 1, pod=ref("b"))
    assert add(journal, 2, pod=ref("a")).repeats == 2
    assert [entry.pod for entry in journal.newest()] == [ref("a"), ref("b")]  # said last stands in front
    add(journal, 3, pod=ref("a"), outcome=Outcome.APPLIED)
    assert add(journal, 4, pod=ref("a")).repeats == 1  # not in a row: it was applied between


def test_what_was_done_is_the_same_only_where_it_changed_the_same() -> None:
    journal = Journal(None)
    add(journal, 0, outcome=Outcome.APPLIED, changes=(change(100, 200),))
    assert add(journal, 1, outcome=Outcome.APPLIED, changes=(change(200, 300),)).repeats == 1
    assert add(journal, 2, outcome=Outcome.APPLIED, changes=(change(200, 300),)).repeats == 2


def test_what_a_person_orders_twice_are_two() -> None:
    journal = Journal(None)
    for at in (0, 1):
        add(journal, at, action=Action.PAUSE, outcome=Outcome.DONE, reason="asked for", pod=None)
    assert [entry.repeats for entry in journal.newest()] == [1, 1]


def test_notices_are_told_apart_by_what_they_say() -> None:
    journal = Journal(None)
    for at, text in enumerate(["nodes patch", "pods watch", "nodes patch", "pods watch"]):
        add(journal, at, action=Action.NOTICE, outcome=Outcome.DONE, reason="missing right", detail=text, pod=None)
    assert [(entry.detail, entry.repeats) for entry in journal.newest()] == [("pods watch", 2), ("nodes patch", 2)]


def test_a_clock_that_is_set_back_neither_hides_nor_floods() -> None:
    journal = Journal(None)
    add(journal, 0)
    assert add(journal, -7200).repeats == 1  # two hours back: another one
    assert add(journal, -7190).repeats == 2
    assert [entry.unix_seconds for entry in journal.newest()] == [START - 7190, START]


# Choosing


@pytest.mark.parametrize(
    ("choice", "sequences"),
    [
        (DecisionFilter(), [1, 2, 3]),
        (DecisionFilter(pod="web*"), [1, 2]),
        (DecisionFilter(pod="SHOP/web-1"), [1]),
        (DecisionFilter(pod="uid-team-web-2"), [2]),
        (DecisionFilter(pod="web"), []),
        (DecisionFilter(actions=frozenset({Action.PAUSE, Action.PIN})), [3]),
        (DecisionFilter(outcomes=frozenset({Outcome.REJECTED})), [2]),
        (DecisionFilter(since_unix_seconds=START + 2), [2, 3]),
    ],
)
def test_choice_holds(choice: DecisionFilter, sequences: list[int]) -> None:
    log = [
        replace(decision(1), pod=ref("web-1"), unix_seconds=START + 1),
        replace(decision(2), pod=ref("web-2", "team"), outcome=Outcome.REJECTED, unix_seconds=START + 2),
        replace(decision(3), pod=None, action=Action.PAUSE, outcome=Outcome.DONE, unix_seconds=START + 3),
    ]
    assert [entry.sequence for entry in log if choice.holds(entry)] == sequences


# On disk


def test_a_restart_goes_on_with_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "decisions"
    journal = Journal(path)
    for at, name in enumerate("ab"):
        add(journal, at, pod=ref(name), detail=f'"{name}"\nµ', changes=(change(),), seconds=0.5)
    before = journal.newest()
    journal.close()
    after = Journal(path)
    assert after.newest() == before
    assert add(after, 5, pod=ref("b")).repeats == 2
    assert add(after, 6, pod=ref("c")).sequence == 3
    after.close()
    assert read_journal(path) == after.newest()


def test_repeats_are_written_once_a_minute_and_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "decisions"
    journal = Journal(path)
    for at in range(0, 150, 10):
        add(journal, at)
    # written at 0, and a minute after each write: 60 and 120
    assert [(line["sequence"], line["repeats"]) for line in lines_of(path)] == [(1, 1), (1, 7), (1, 13)]
    journal.close()
    assert [(line["sequence"], line["repeats"]) for line in lines_of(path)][3:] == [(1, 15)]
    (entry,) = read_journal(path)
    assert entry.repeats == 15


def test_the_last_count_is_written_before_another_decision_takes_over(tmp_path: Path) -> None:
    path = tmp_path / "decisions"
    journal = Journal(path)
    for at in range(3):
        add(journal, at)
    add(journal, 3, outcome=Outcome.APPLIED)
    assert [(line["sequence"], line["repeats"]) for line in lines_of(path)] == [(1, 1), (1, 3), (2, 1)]


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_torn_last_line_is_dropped_and_cut_off(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "decisions"
    journal = Journal(path)
    for name in "ab":
        add(journal, pod=ref(name))
    journal.close()
    path.write_bytes(path.read_bytes()[:-cut])
    assert [entry.sequence for entry in read_journal(path)] == [1]
    after = Journal(path)
    assert add(after, pod=ref("c")).sequence == 2
    assert [line["pod"]["name"] for line in lines_of(path)] == ["a", "c"]


@given(st.data())
def test_any_cut_of_the_file_gives_a_prefix_of_what_was_written(data: st.DataObject) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory, "decisions")
        journal = Journal(path)
        for name in "abcd":
            add(journal, pod=ref(name))
        journal.close()
        content = path.read_bytes()
        cut = data.draw(st.integers(0, len(content)))
        path.write_bytes(content[:cut])
        sequences = [entry.sequence for entry in reversed(read_journal(path))]
        assert sequences == [1, 2, 3, 4][: content[:cut].count(b"\n")]
        assert add(Journal(path), pod=ref("z")).sequence == len(sequences) + 1


def test_lines_that_are_not_understood_are_passed_over_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "decisions"
    good = json.dumps(DECISION.to_json(replace(decision(7), repeats=3)))
    alien = json.dumps({**DECISION.to_json(decision(9)), "version": 99})
    path.write_text(f"\x00\x00\nnull\n{good}\n[1]\n{alien}\n")
    with caplog.at_level(logging.WARNING):
        journal = Journal(path)
    assert [entry.sequence for entry in journal.newest()] == [7]
    assert caplog.records[-1].__dict__["lines"] == 4
    assert add(journal).sequence == 10  # past every number that was ever given


def test_the_file_is_bounded_and_numbers_go_on_over_its_exchange(tmp_path: Path) -> None:
    path = tmp_path / "decisions"
    journal = Journal(path, max_bytes=4096, most=5)
    for at in range(200):
        add(journal, at, pod=ref(f"pod-{at}"))
    older = path.with_name("decisions.1")
    assert path.stat().st_size <= 4096
    assert older.stat().st_size <= 4096
    assert len(list(tmp_path.iterdir())) == 2
    entries = read_journal(path)
    assert [entry.sequence for entry in entries] == list(range(200, 200 - len(entries), -1))
    assert len(entries) > 5
    assert [entry.sequence for entry in Journal(path, most=5).newest()] == [200, 199, 198, 197, 196]


def test_a_line_longer_than_the_file_may_be_is_written_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "decisions"
    journal = Journal(path, max_bytes=64)
    for name in "abc":
        add(journal, pod=ref(name))
    assert [entry.sequence for entry in read_journal(path)] == [3, 2]


def test_reading_changes_nothing_and_no_file_is_nothing(tmp_path: Path) -> None:
    assert read_journal(tmp_path / "decisions") == ()
    assert list(tmp_path.iterdir()) == []
    path = tmp_path / "torn"
    path.write_bytes(b'{"torn')
    assert read_journal(path) == ()
    assert path.read_bytes() == b'{"torn'


_KILLED = """
import itertools, os, sys
from pathlib import Path
from agent.core.resize.decision import Action, Outcome
from agent.node.orders.journal import Journal
journal = Journal(Path(sys.argv[1]), max_bytes=20_000)
for number in itertools.count():
    reason = f"{os.getpid()} {'x' * (number % 50)}"
    journal.add(unix_seconds=float(number), action=Action.RESIZE, outcome=Outcome.APPLIED, reason=reason)
    os.write(1, b".")
"""


@pytest.mark.slow
def test_kill_9_in_the_middle_loses_nothing_that_was_written(tmp_path: Path) -> None:
    path, newest = tmp_path / "decisions", 0
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", _KILLED, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        said = len(os.read(process.stdout.fileno(), 1 << 16))
        process.send_signal(signal.SIGKILL)
        said += len(process.stdout.read())
        process.wait()
        process.stdout.close()
        sequences = sorted((entry.sequence for entry in read_journal(path)), reverse=True)
        assert sequences[0] >= newest + said
        assert sequences == list(range(sequences[0], sequences[0] - len(sequences), -1))
        newest = sequences[0]


# A disk that takes nothing


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """A disk of so many bytes for each file, as far as this process goes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_is_said_once_and_made_up_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "decisions"
    journal = Journal(path)
    add(journal, pod=ref("first"))
    size = path.stat().st_size
    with caplog.at_level(logging.WARNING), largest_file(size + 100):
        for at in range(5):
            add(journal, at, pod=ref(f"pod-{at}"))
        assert "kept in memory only" in str(journal.fault)
        assert path.stat().st_size == size  # no half line is left behind
    assert [record.message for record in caplog.records] == ["decision log cannot be written"]
    assert len(journal.newest()) == 6
    add(journal, 9, pod=ref("last"))
    assert journal.fault is None
    assert {entry.sequence for entry in read_journal(path)} == set(range(1, 8))


@pytest.mark.parametrize("max_bytes", [1000, 1 << 20])
def test_a_file_that_somebody_took_away_is_begun_anew(tmp_path: Path, max_bytes: int) -> None:
    path = tmp_path / "decisions"
    journal = Journal(path, max_bytes=max_bytes)
    add(journal, pod=ref("first"))
    path.unlink()
    for at in range(8):
        add(journal, at, pod=ref(f"pod-{at}"))
    assert journal.fault is None
    assert path.stat().st_size <= max_bytes
    assert {entry.sequence for entry in read_journal(path)} >= {7, 8, 9}


def test_a_file_that_somebody_emptied_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "decisions"
    journal = Journal(path)
    add(journal, pod=ref("first"))
    path.write_bytes(b"")
    with largest_file(100):
        add(journal, pod=ref("second"))
    assert path.read_bytes() == b""  # not filled up to the length that it had
    add(journal, pod=ref("third"))
    assert [entry.sequence for entry in read_journal(path)] == [3, 2]


@pytest.mark.parametrize("unreadable", ["decisions", "decisions.1"])
def test_numbers_go_on_where_one_file_cannot_be_read(
    tmp_path: Path, unreadable: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "decisions"
    before = Journal(path, max_bytes=1000)
    for at in range(6):
        add(before, at, pod=ref(f"pod-{at}"))
    before.close()
    numbers = {name: [line["sequence"] for line in lines_of(tmp_path / name)] for name in ("decisions", "decisions.1")}
    (tmp_path / unreadable).unlink()
    (tmp_path / unreadable).mkdir()

    after = Journal(path)

    [other] = numbers.keys() - {unreadable}
    assert [entry.sequence for entry in after.newest()] == numbers[other][::-1]
    assert after.last_sequence == numbers[other][-1]
    [record] = caplog.records
    assert (record.message, vars(record)["path"]) == ("decision log cannot be read", str(tmp_path / unreadable))


def test_no_directory_is_said_and_nobody_is_stopped(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "none" / "decisions")
    assert add(journal).sequence == 1
    assert "No such file" in str(journal.fault)


# What a power cut leaves


def test_both_files_and_their_names_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "decisions", max_bytes=1000)
    assert journal.sync()  # there is no file yet
    for at in range(8):
        add(journal, at, pod=ref(f"pod-{at}"))
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink().name))
    assert journal.sync()
    assert synced == ["decisions", "decisions.1", tmp_path.name]


def test_without_a_file_all_is_synced() -> None:
    journal = Journal(None)
    add(journal)
    assert journal.sync()


def test_what_is_in_memory_only_is_not_synced(tmp_path: Path) -> None:
    path = tmp_path / "none" / "decisions"
    journal = Journal(path)
    add(journal)
    assert not journal.sync()
    path.parent.mkdir()
    journal.flush()
    assert journal.sync()
    journal.close()
    add(journal)
    assert not journal.sync()


def test_an_older_file_of_somebody_else_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "decisions")
    add(journal)

    def refused(file: Path) -> None:
        if file.name == "decisions.1":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("agent.node.orders.journal.sync", refused)
    assert journal.sync()
    assert journal.fault is None


def test_a_disk_that_cannot_be_synced_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path / "decisions")
    add(journal)

    def broken(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", broken)
    assert not journal.sync()
    assert not journal.sync()
    assert [record.message for record in caplog.records] == ["decision log cannot be written"]
    assert "Input/output error" in str(journal.fault)


def test_a_decision_does_not_wait_for_a_slow_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "decisions")
    add(journal, pod=ref("first"))
    is_begun, is_over = threading.Event(), threading.Event()

    def slow(_: int) -> None:
        is_begun.set()
        assert is_over.wait(60)

    monkeypatch.setattr(os, "fsync", slow)
    syncing = threading.Thread(target=journal.sync)
    syncing.start()
    assert is_begun.wait(60)
    acting = threading.Thread(target=lambda: add(journal, pod=ref("second")))
    acting.start()
    acting.join(60)
    is_waiting = acting.is_alive()
    is_over.set()
    syncing.join()
    acting.join()
    assert not is_waiting


# Threads


def test_threads_lose_no_decision_and_share_no_number(tmp_path: Path) -> None:
    path = tmp_path / "decisions"
    journal = Journal(path)

    def work(worker: int) -> None:
        for turn in range(50):
            add(journal, turn, pod=ref(f"pod-{worker}-{turn}"))
            journal.newest(3)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    assert sorted(entry.sequence for entry in read_journal(path)) == list(range(1, 201))
