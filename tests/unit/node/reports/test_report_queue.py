"""The queue of unsent reports: over restarts, kills at any moment, reboots, full disks and clocks that are set."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.node.files.steady_clock import BootClock
from agent.node.reports import report_queue
from agent.node.reports.report_files import NUMBERING_NAME
from agent.node.reports.report_queue import (
    DAY_SECONDS,
    MAX_REPORTS,
    MEMORY_BYTES,
    OLDEST_SECONDS,
    Outgoing,
    ReportQueue,
)

UNIX = 1_800_000_000.0


@dataclass
class Machine:
    """A machine with its two clocks."""

    directory: Path | None
    boot_id: str = "boot-1"
    boot_seconds: float = 5000.0
    unix_seconds: float = UNIX
    max_bytes: int = 1 << 20
    made: int = field(default=0)

    def clock(self) -> BootClock:
        return BootClock(self.boot_id, lambda: self.boot_seconds)

    def open(self) -> ReportQueue:
        return ReportQueue(
            self.directory, max_bytes=self.max_bytes, boot=self.clock(), wall_now=lambda: self.unix_seconds
        )

    def pass_time(self, seconds: float) -> None:
        self.boot_seconds += seconds
        self.unix_seconds += seconds

    def add(self, queue: ReportQueue, *, padding: int = 0) -> None:
        """Make a report of the interval that ends now."""
        self.made += 1
        number, noise = self.made, os.urandom(padding).hex()

        def text_of(incarnation: str, sequence: int) -> str:
            return json.dumps({"incarnation": incarnation, "sequence": sequence, "number": number, "noise": noise})

        queue.add(text_of, end=self.clock().ahead(0.0), end_unix_seconds=self.unix_seconds)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "reports")


def drained(queue: ReportQueue) -> list[Outgoing]:
    """Take everything, oldest first."""
    taken = []
    while (outgoing := queue.oldest()) is not None:
        taken.append(outgoing)
        queue.taken(outgoing)
    return taken


def numbers(outgoing: list[Outgoing]) -> list[int]:
    """Return which reports these are, after checking that each knows its own name."""
    documents = [json.loads(report.kept) for report in outgoing]
    assert [(document["incarnation"], document["sequence"]) for document in documents] == [
        (report.incarnation, report.sequence) for report in outgoing
    ]
    return [document["number"] for document in documents]


def names(machine: Machine) -> list[str]:
    assert machine.directory is not None
    return sorted(os.listdir(machine.directory))


def test_reports_come_out_in_order_and_are_gone_when_taken(machine: Machine) -> None:
    queue = machine.open()
    assert queue.oldest() is None
    for _ in range(3):
        machine.add(queue)
    assert queue.reports == 3
    assert queue.size_bytes == sum(
        (machine.directory or Path()).joinpath(name).stat().st_size for name in names(machine)
    )
    first = queue.oldest()
    assert first == queue.oldest()
    taken = drained(queue)
    assert numbers(taken) == [1, 2, 3]
    assert [report.sequence for report in taken] == [1, 2, 3]
    assert (queue.reports, queue.size_bytes, queue.lost) == (0, 0, 0)
    assert names(machine) == [NUMBERING_NAME]
    queue.taken(taken[0])  # a second time is fine
    assert queue.lost == 0


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_a_restart_goes_on_with_what_waits_and_with_the_numbers(machine: Machine, taken: int) -> None:
    before = machine.open()
    for _ in range(3):
        machine.add(before)
    incarnations = set()
    for _ in range(taken):
        outgoing = before.oldest()
        assert outgoing is not None
        incarnations.add(outgoing.incarnation)
        before.taken(outgoing)
    after = machine.open()
    assert (after.reports, after.size_bytes) == (before.reports, before.size_bytes)
    assert after.newest_end == before.newest_end
    machine.add(after)
    rest = drained(after)
    assert numbers(rest) == [*range(taken + 1, 5)]
    assert [report.sequence for report in rest] == [*range(taken + 1, 5)]
    assert len(incarnations | {report.incarnation for report in rest}) == 1


def test_ages_are_by_the_clock_since_boot_whatever_the_wall_clock_does(machine: Machine) -> None:
    queue = machine.open()
    machine.add(queue)
    machine.pass_time(600)
    for wrong in (0.0, UNIX * 2, UNIX - DAY_SECONDS):
        machine.unix_seconds = wrong
        outgoing = queue.oldest()
        assert outgoing is not None
        assert outgoing.end_age_seconds == 600.0
        assert machine.open().oldest() == outgoing


@pytest.mark.parametrize(
    ("wall_seconds", "age_seconds"),
    [
        (900.0, 900.0),  # ten minutes down, five up
        (-5000.0, 300.0),  # a wall clock that was set back: it is at least as old as this boot
        (OLDEST_SECONDS, OLDEST_SECONDS),
    ],
)
def test_after_a_reboot_the_wall_clock_tells_within_bounds(
    machine: Machine, wall_seconds: float, age_seconds: float
) -> None:
    machine.add(machine.open())
    machine.boot_id, machine.boot_seconds, machine.unix_seconds = "boot-2", 300.0, UNIX + wall_seconds
    queue = machine.open()
    outgoing = queue.oldest()
    assert outgoing is not None
    assert outgoing.end_age_seconds == age_seconds


def test_what_nobody_would_take_any_more_is_lost_and_counted(machine: Machine) -> None:
    queue = machine.open()
    machine.add(queue)
    machine.pass_time(OLDEST_SECONDS - 60)
    machine.add(queue)
    machine.pass_time(61)
    assert numbers(drained(queue)) == [2]
    assert queue.lost == 1
    assert machine.open().lost == 1


def test_the_oldest_go_when_there_is_too_much_and_are_counted(machine: Machine) -> None:
    machine.max_bytes = 65_536
    queue = machine.open()
    for _ in range(40):
        machine.add(queue, padding=2000)  # noise that does not pack: about 2.3 KiB each
        assert queue.size_bytes <= 65_536
    assert queue.reports + queue.lost == 40
    assert 20 < queue.reports < 35
    again = machine.open()
    assert (again.reports, again.lost, again.size_bytes) == (queue.reports, queue.lost, queue.size_bytes)
    rest = drained(again)
    assert numbers(rest) == [*range(queue.lost + 1, 41)]
    assert {report.lost_reports for report in rest} == {queue.lost}
    # all 40 numbers are accounted for: taken or lost
    assert rest[-1].sequence == 40 == len(rest) + again.lost


def test_a_bound_that_was_lowered_holds_at_the_next_start(machine: Machine) -> None:
    queue = machine.open()
    for _ in range(40):
        machine.add(queue, padding=2000)
    machine.max_bytes = 65_536
    queue = machine.open()
    assert queue.size_bytes <= 65_536
    assert queue.lost + queue.reports == 40


def test_there_are_no_more_than_so_many_however_small(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    assert MAX_REPORTS * 300 >= 14 * DAY_SECONDS
    monkeypatch.setattr(report_queue, "MAX_REPORTS", 5)  # four thousand files take a while
    queue = machine.open()
    for _ in range(8):
        machine.add(queue)
    assert (queue.reports, queue.lost) == (5, 3)


def test_refused_reports_are_lost(machine: Machine) -> None:
    queue = machine.open()
    machine.add(queue)
    machine.add(queue)
    outgoing = queue.oldest()
    assert outgoing is not None
    queue.refused(outgoing)
    assert (queue.reports, queue.lost) == (1, 1)
    (rest,) = drained(machine.open())
    assert (rest.sequence, rest.lost_reports) == (2, 1)


def test_without_a_directory_memory_holds_them_within_its_own_bound() -> None:
    machine = Machine(None, max_bytes=1 << 30)
    queue = machine.open()
    for _ in range(300):
        machine.add(queue, padding=8000)
    assert queue.size_bytes <= MEMORY_BYTES
    assert queue.lost > 0
    rest = drained(queue)
    assert numbers(rest) == [*range(queue.lost + 1, 301)]
    assert rest[-1].sequence == 300
    machine.add(queue)
    (last,) = drained(queue)
    assert last.sequence == 301
    assert machine.open().oldest() is None


# --- a disk that does not do as it should


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_a_full_disk_does_not_take_is_sent_from_memory_under_another_name(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = machine.open()
    machine.add(queue)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        machine.add(queue)
        machine.add(queue)
        assert "No space left" in str(queue.fault)
    machine.add(queue)
    assert queue.fault is None
    rest = drained(queue)
    assert numbers(rest) == [1, 2, 3, 4]
    # the numbers of both incarnations rise by one: a restart gives none of them twice
    assert [report.sequence for report in rest] == [1, 1, 2, 2]
    assert rest[0].incarnation == rest[3].incarnation != rest[1].incarnation == rest[2].incarnation
    machine.add(machine.open())
    (after,) = drained(machine.open())
    assert (after.incarnation, after.sequence) == (rest[0].incarnation, 3)


def test_a_report_whose_file_may_be_there_all_the_same_is_sent_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, sync = machine.open(), os.fsync

    def files_alone(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        sync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", files_alone)
        machine.add(queue)  # written and renamed, and yet not known to last
    assert numbers(drained(queue)) == [1]
    assert drained(machine.open()) == [], "a restart would send it under a second name, and it would count twice"


def test_the_newest_number_stays_known_while_it_cannot_be_written(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = machine.open()
    machine.add(queue)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        assert numbers(drained(queue)) == [1]
    assert queue.reports == 0
    # what was sent is sent again after a restart, and known by its number
    repeated = machine.open().oldest()
    assert repeated is not None
    assert repeated.sequence == 1
    machine.add(queue)
    assert names(machine) == ["000000000002.report"]
    assert [report.sequence for report in drained(queue)] == [2]
    assert names(machine) == [NUMBERING_NAME]


def test_a_directory_that_cannot_be_is_said_and_memory_does(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    machine = Machine(tmp_path / "file" / "reports")
    queue = machine.open()
    assert queue.fault is not None
    machine.add(queue)
    assert numbers(drained(queue)) == [1]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"version":1}',
        b'{"version":9,"incarnation":"x"}',
        b'{"version":1,"incarnation":"x","lost":0,"sequence":' + b"9" * 400 + b"}",
        b"\xff\xfe",
    ],
)
def test_a_damaged_numbering_is_read_off_the_newest_file_or_begun_anew(machine: Machine, content: bytes) -> None:
    assert machine.directory is not None
    queue = machine.open()
    machine.add(queue)
    machine.add(queue)
    first = queue.oldest()
    assert first is not None
    (machine.directory / NUMBERING_NAME).write_bytes(content)
    queue = machine.open()
    machine.add(queue)
    rest = drained(queue)
    assert [(report.incarnation, report.sequence) for report in rest] == [
        (first.incarnation, number) for number in (1, 2, 3)
    ]
    (machine.directory / NUMBERING_NAME).write_bytes(content)
    queue = machine.open()
    machine.add(queue)
    (anew,) = drained(queue)
    assert anew.incarnation != first.incarnation
    assert anew.sequence == 1


def spoilt_header(text: bytes) -> bytes:
    return b"x" + text[1:]


def spoilt_number(text: bytes) -> bytes:
    header = json.loads(text.partition(b"\n")[0])
    return json.dumps({**header, "endBootSeconds": float("nan")}).encode() + b"\n" + text.partition(b"\n")[2]


def endless_number(text: bytes) -> bytes:
    header = json.loads(text.partition(b"\n")[0])
    return json.dumps({**header, "endBootSeconds": 10**400}).encode() + b"\n" + text.partition(b"\n")[2]


def renumbered(text: bytes) -> bytes:
    header = json.loads(text.partition(b"\n")[0])
    return json.dumps({**header, "sequence": 1}).encode() + b"\n" + text.partition(b"\n")[2]


def newer(text: bytes) -> bytes:
    return text.replace(b'"version":1', b'"version":2')


def cut(text: bytes) -> bytes:
    return text[:-5]


def flipped(text: bytes) -> bytes:
    return text[:-20] + bytes([text[-20] ^ 1]) + text[-19:]


@pytest.mark.parametrize(
    "spoil", [spoilt_header, spoilt_number, endless_number, renumbered, newer, cut, flipped, lambda _: b""]
)
def test_a_damaged_report_is_dropped_and_counted_and_the_others_go_on(
    machine: Machine, spoil: Callable[[bytes], bytes]
) -> None:
    assert machine.directory is not None
    queue = machine.open()
    for _ in range(3):
        machine.add(queue)
    path = machine.directory / "000000000002.report"
    path.write_bytes(spoil(path.read_bytes()))
    queue = machine.open()
    assert numbers(drained(queue)) == [1, 3]
    assert queue.lost == 1
    assert names(machine) == [NUMBERING_NAME]
    assert machine.open().lost == 1


def test_reports_of_another_numbering_are_sent_under_their_own_name(machine: Machine) -> None:
    assert machine.directory is not None
    queue = machine.open()
    machine.add(queue)
    machine.add(queue)
    document = {"version": 1, "incarnation": "other", "sequence": 5, "lost": 2, "bootId": None, "endBootSeconds": None}
    (machine.directory / NUMBERING_NAME).write_text(json.dumps(document))
    queue = machine.open()
    machine.add(queue)
    rest = drained(queue)
    assert numbers(rest) == [1, 2, 3]
    assert [report.sequence for report in rest] == [1, 2, 6]
    assert [report.lost_reports for report in rest] == [0, 0, 2]
    assert rest[2].incarnation == "other"


def test_other_files_are_left_alone(machine: Machine) -> None:
    assert machine.directory is not None
    machine.directory.mkdir()
    (machine.directory / "notes.txt").write_text("mine")
    (machine.directory / "000000000001.report.new").write_bytes(b"half")
    queue = machine.open()
    machine.add(queue)
    assert numbers(drained(queue)) == [1]
    assert "notes.txt" in names(machine)


KILLED = """
import json, sys
from pathlib import Path
from agent.node.reports.report_queue import ReportQueue
from agent.node.files.steady_clock import BootClock

boot = BootClock("boot-1", lambda: 5000.0)
queue = ReportQueue(Path(sys.argv[1]), max_bytes=1 << 20, boot=boot, wall_now=lambda: 1.8e9)
made = 0
while True:
    made += 1
    queue.add(lambda *name: json.dumps(name), end=boot.ahead(0.0), end_unix_seconds=1.8e9)
    while queue.reports > (0 if made % 5 == 0 else 2):  # now and then all are taken, the newest too
        outgoing = queue.oldest()
        print(outgoing.incarnation, outgoing.sequence, *json.loads(outgoing.kept), flush=True)
        queue.taken(outgoing)
"""


@pytest.mark.slow
def test_killed_at_any_moment_no_number_is_given_twice_and_none_is_left_out(tmp_path: Path) -> None:
    taken: list[tuple[str, int]] = []
    for round_ in range(6):
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path / "reports")], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            lines = [child.stdout.readline() for _ in range(20 + round_)]
            child.send_signal(signal.SIGKILL)
            lines += child.stdout.readlines()
        for line in lines:
            if not line.endswith("\n"):
                continue  # killed while it was written: the report was not taken yet, and comes again
            incarnation, sequence, *name = line.split()
            assert name == [incarnation, sequence]
            taken.append((incarnation, int(sequence)))
    queue = Machine(tmp_path / "reports").open()
    assert queue.lost == 0
    while (outgoing := queue.oldest()) is not None:
        taken.append((outgoing.incarnation, outgoing.sequence))
        queue.taken(outgoing)
    assert len({incarnation for incarnation, _ in taken}) == 1
    sequences = [sequence for _, sequence in taken]
    # each kill may bring one report a second time: the one that was taken and not yet let go
    assert len(sequences) - len(set(sequences)) <= 6
    assert sorted(set(sequences)) == [*range(1, max(sequences) + 1)]
    assert sorted(sequences) == sequences


def test_what_is_kept_is_packed(machine: Machine) -> None:
    assert machine.directory is not None
    queue = machine.open()
    machine.add(queue)
    content = (machine.directory / "000000000001.report").read_bytes()
    header, _, packed = content.partition(b"\n")
    assert json.loads(header)["sequence"] == 1
    assert json.loads(zlib.decompress(packed))["number"] == 1
