"""Following rings: every row once, whoever comes, goes or takes a slot over."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.core.history.minute.minutes import OutOfMemory
from agent.node.history.file import HistoryFile
from agent.node.offline.recorder import WAITING_BYTES, NothingToRecord, RecordedMachine, Recorder
from agent.node.offline.recorder_sources import StateDirectory
from agent.node.offline.recording import Recording
from agent.node.offline.recording_format import RowKind, Rows
from agent.node.offline.recording_writer import RecordingWriter
from agent.node.sampling.pods_file import NoPods, PodsFile
from agent.sensing.ring_file import RingFile
from agent.sensing.state_file import RingGeometry, read_boot_id
from agent.settings import Settings
from tests.unit.node.history.test_learner import learner, row, unit
from tests.unit.node.offline.test_state_directory import PATH, pods_file
from tests.window_rows import NS, memory, minute, sample

GEOMETRY = RingGeometry(max_slots=3, raw_length=32, memory_length=200, minute_length=1440)
A, B = "kubepods/a", "kubepods/b"


class Agent:
    """The writing side of a state directory: a reading is its second, a unit's counter ten times that."""

    def __init__(self, directory: Path, geometry: RingGeometry = GEOMETRY) -> None:
        self.directory = directory
        self.now = int(time.monotonic())
        self.rings = RingFile.open(directory / "rings", geometry, boot_id=read_boot_id())
        self.history = HistoryFile.open(directory / "history", max_rows=64)

    def attach(self, path: str, inode: int) -> int:
        return self.rings.attach(path, inode, now_monotonic_ns=1)

    def sweep(self, *paths: str, count: int = 1) -> None:
        for _ in range(count):
            self.now += 1
            for path in paths:
                slot = self.rings.retained()[path]
                self.rings.append_raw(slot, sample(self.now, self.now * 10 + self.rings.inode(slot))[0])

    def close(self) -> None:
        self.rings.close()
        self.history.close()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    new_agent = Agent(tmp_path)
    yield new_agent
    new_agent.close()


@contextmanager
def recording(
    directory: Path,
    *,
    pods: NoPods | PodsFile | None = None,
    holds: Callable[[UnitIdentity], bool] = lambda identity: True,
    waiting_bytes: int = WAITING_BYTES,
) -> Iterator[Recorder]:
    measured = StateDirectory(directory)
    try:
        with RecordingWriter(directory / "r") as writer:
            yield Recorder(
                writer=writer,
                measured=measured,
                settings=Settings(),
                pods=pods or NoPods(),
                holds=holds,
                machine=RecordedMachine(name="n", cpus=2),
                waiting_bytes=waiting_bytes,
            )
    finally:
        measured.close()


def rows_of(directory: Path, kind: RowKind = RowKind.RAW) -> dict[tuple[str, int], Rows]:
    """Rows by path and inode."""
    by_unit: dict[tuple[str, int], list[Rows]] = {}
    with Recording(directory / "r") as read:
        for number, rows in read.all_rows(kind):
            recorded_unit = read.manifest.units[number]
            by_unit.setdefault((recorded_unit.facts[-1].identity.cgroup_path, recorded_unit.inode), []).append(rows)
    return {key: np.concatenate(pieces) for key, pieces in by_unit.items()}


def seconds_of(rows: Rows) -> list[int]:
    return [int(stamp) // NS for stamp in rows["monotonic_ns"]]


def test_every_row_is_taken_once_however_often_one_looks(agent: Agent, tmp_path: Path) -> None:
    agent.attach(A, 1)
    slot = agent.attach(B, 2)
    agent.sweep(A, B, count=10)
    begun = agent.now - 9
    with recording(tmp_path) as recorder:
        for count in (0, 1, 7, 3, 0):
            agent.sweep(A, B, count=count)
            agent.rings.append_memory(slot, memory(agent.now, agent.now)[0])
            agent.rings.append_minute(slot, minute(agent.now))
            recorder.poll()
            agent.now += 1  # so that no two rows have one stamp
        size = recorder.finish()
        assert (recorder.units, recorder.samples, recorder.begun_ns) == (2, 42, begun * NS)
    assert size == (tmp_path / "r").stat().st_size
    by_unit = rows_of(tmp_path)
    assert by_unit.keys() == {("/" + A, 1), ("/" + B, 2)}
    for key, rows in by_unit.items():
        assert rows.tobytes() == agent.rings.raw(agent.rings.retained()[key[0][1:]]).joined().tobytes()
    for kind, ring in ((RowKind.MEMORY, agent.rings.memory), (RowKind.MINUTES, agent.rings.minutes)):
        assert rows_of(tmp_path, kind)["/" + B, 2].tobytes() == ring(slot).joined().tobytes()


def test_rows_that_were_overwritten_before_a_look_are_a_gap_and_none_comes_twice(agent: Agent, tmp_path: Path) -> None:
    agent.attach(A, 1)
    agent.sweep(A, count=5)
    begun = agent.now - 4
    with recording(tmp_path) as recorder:
        agent.sweep(A, count=100)  # the ring shows 31
        recorder.finish()
    assert seconds_of(rows_of(tmp_path)["/" + A, 1]) == [*range(begun, begun + 5), *range(begun + 74, begun + 105)]


def test_what_waits_to_be_written_is_bounded(agent: Agent, tmp_path: Path) -> None:
    agent.attach(A, 1)
    agent.sweep(A, count=10)
    with recording(tmp_path, waiting_bytes=20 * 64) as recorder:
        for _ in range(10):
            agent.sweep(A, count=15)
            recorder.poll()
        recorder.finish()
    with Recording(tmp_path / "r") as read:
        # A chunk is written as soon as more than 20 rows wait: 10 + 15, then each two times 15.
        assert [chunk.raw.rows for chunk in read.manifest.row_chunks][:5] == [25, 30, 30, 30, 30]
    rows = rows_of(tmp_path)["/" + A, 1]
    assert np.diff(rows["monotonic_ns"].astype(np.int64)).tolist() == [NS] * 159


def test_a_unit_that_goes_leaves_its_last_rows(agent: Agent, tmp_path: Path) -> None:
    agent.attach(A, 1)
    agent.attach(B, 2)
    agent.sweep(A, B, count=5)
    with recording(tmp_path) as recorder:
        agent.sweep(A, B, count=3)
        agent.rings.release(agent.rings.retained()[B])
        last = agent.now
        agent.sweep(A, count=2)
        recorder.poll()
        agent.sweep(A, count=2)
        recorder.finish()
    assert seconds_of(rows_of(tmp_path)["/" + B, 2]) == list(range(last - 7, last + 1))
    with Recording(tmp_path / "r") as read:
        gone = {recorded_unit.inode: recorded_unit.gone_monotonic_ns for recorded_unit in read.manifest.units}
    assert gone == {1: None, 2: last * NS}


def test_another_cgroup_of_the_same_name_is_another_unit(agent: Agent, tmp_path: Path) -> None:
    agent.attach(A, 1)
    agent.sweep(A, count=5)
    with recording(tmp_path) as recorder:
        agent.attach(A, 2)
        agent.sweep(A, count=3)
        recorder.finish()
    by_unit = rows_of(tmp_path)
    assert {key: rows.size for key, rows in by_unit.items()} == {("/" + A, 1): 5, ("/" + A, 2): 3}


def test_a_slot_that_was_given_away_lends_no_rows_to_its_former_unit(agent: Agent, tmp_path: Path) -> None:
    slot = agent.attach(A, 1)
    agent.sweep(A, count=5)
    with recording(tmp_path) as recorder:
        agent.sweep(A, count=2)
        agent.rings.release(slot)
        assert agent.attach(B, 2) == slot
        agent.sweep(B, count=4)
        recorder.finish()
    by_unit = rows_of(tmp_path)
    # The two rows between are lost with the slot; no row of B, whose counters are odd by 2, stands under A.
    assert {key: rows.size for key, rows in by_unit.items()} == {("/" + A, 1): 5, ("/" + B, 2): 4}
    assert (by_unit["/" + A, 1]["usage_usec"] % 10).tolist() == [1] * 5


def test_an_agent_that_begins_anew_is_followed_into_its_new_file(agent: Agent, tmp_path: Path) -> None:
    agent.attach(A, 1)
    agent.sweep(A, count=5)
    with recording(tmp_path) as recorder:
        agent.close()
        os.rename(tmp_path / "rings", tmp_path / "rings.aside")
        again = Agent(tmp_path)
        again.now = agent.now
        again.attach(A, 1)
        again.sweep(A, count=4)
        recorder.finish()
        again.close()
    assert seconds_of(rows_of(tmp_path)["/" + A, 1]) == list(range(agent.now - 4, agent.now + 5))


def test_names_that_come_late_hold_from_then_on(agent: Agent, tmp_path: Path) -> None:
    empty = tmp_path / "pods.json"
    empty.write_text('{"kind": "PodList", "items": []}')
    agent.attach(PATH, 1)
    agent.sweep(PATH, count=5)
    with recording(tmp_path, pods=PodsFile(empty)) as recorder:
        agent.sweep(PATH, count=5)
        pods_file(tmp_path)
        recorder.poll()
        recorder.finish()
    with Recording(tmp_path / "r") as read:
        (recorded_unit,) = read.manifest.units
    assert [facts.identity.container for facts in recorded_unit.facts] == [None, "app"]
    assert recorded_unit.facts[1].resources.cpu_request_millicores == 250
    assert recorded_unit.facts[1].belonging.workload is not None
    assert recorded_unit.facts[1].since_monotonic_ns > 0


def test_only_units_that_are_wanted_are_recorded_also_when_that_is_known_later(agent: Agent, tmp_path: Path) -> None:
    path = tmp_path / "pods.json"
    path.write_text('{"kind": "PodList", "items": []}')
    agent.attach(PATH, 1)
    agent.attach(A, 2)
    agent.sweep(PATH, A, count=5)
    with recording(tmp_path, pods=PodsFile(path), holds=lambda identity: identity.container == "app") as recorder:
        assert recorder.units == 0
        pods_file(tmp_path)
        recorder.finish()
    assert {key: rows.size for key, rows in rows_of(tmp_path).items()} == {("/" + PATH, 1): 5}


def test_nothing_at_all_is_said_and_leaves_no_file(agent: Agent, tmp_path: Path) -> None:
    with recording(tmp_path) as recorder, pytest.raises(NothingToRecord, match="not a single reading"):
        recorder.finish()
    assert not (tmp_path / "r").exists()


def test_the_history_is_taken_along_with_what_is_learnt_meanwhile(agent: Agent, tmp_path: Path) -> None:
    for path, inode in ((A, 1), (B, 2)):
        agent.attach(path, inode)
    agent.sweep(A, count=5)
    taught = learner(agent.history)
    own, other = (unit(name) for name in ("a", "nobody"))
    cgroup = [UnitIdentity(cgroup_path="/" + path, kind=own.kind) for path in (A, B)]
    for number in range(100, 110):
        taught.learn([(identity, row(number)) for identity in (*cgroup, other)])
    with recording(tmp_path) as recorder:
        for number in range(110, 113):
            taught.learn([(identity, row(number)) for identity in (*cgroup, other)])
        agent.history.record_oom(taught.place_of(cgroup[0]).row, OutOfMemory(unix_seconds=1.8e9, usage_bytes=5))
        agent.history.record_oom(taught.place_of(other).row, OutOfMemory(unix_seconds=1.8e9, usage_bytes=6))
        agent.attach("kubepods/c", 3)
        agent.sweep(A, count=1)
        recorder.finish()
    with Recording(tmp_path / "r") as read:
        assert read.manifest.histories == (f"cgroup:/{A}", f"cgroup:/{B}", "cgroup:/kubepods/c")
        history = read.history()
        assert [(kill.history, kill.kill.usage_bytes) for kill in read.manifest.kills] == [(0, 5)]
    first = taught.clock.unix_minute(100)
    assert history.unix_minutes.tolist() == list(range(first, first + 13))
    assert (history.codes[:, 0] > 0).tolist() == [[True, True, False]] * 13


def test_a_history_that_begins_during_the_recording_is_taken_along(agent: Agent, tmp_path: Path) -> None:
    agent.attach(A, 1)
    agent.sweep(A, count=5)
    taught = learner(agent.history)
    with recording(tmp_path) as recorder:
        taught.learn([(UnitIdentity(cgroup_path="/" + A, kind=UnitKind.OTHER), row(100))])
        recorder.finish()
    with Recording(tmp_path / "r") as read:
        assert read.history().unix_minutes.tolist() == [taught.clock.unix_minute(100)]


def test_without_a_history_there_is_a_note(agent: Agent, tmp_path: Path) -> None:
    agent.attach(A, 1)
    agent.sweep(A, count=5)
    (tmp_path / "history").unlink()
    with recording(tmp_path) as recorder:
        recorder.finish()
    with Recording(tmp_path / "r") as read:
        (note,) = read.manifest.notes
        assert note.startswith("without what was measured before: history file")
        assert read.history().unix_minutes.size == 0


def test_a_history_under_other_names_gives_a_note(agent: Agent, tmp_path: Path) -> None:
    agent.attach(A, 1)
    agent.sweep(A, count=5)
    learner(agent.history).learn([(unit("web", "shop"), row(100))])
    with recording(tmp_path) as recorder:
        recorder.finish()
    with Recording(tmp_path / "r") as read:
        (note,) = read.manifest.notes
        assert note.startswith("without the history: it stands under other names")


def test_the_rhythm_is_that_of_the_agent_where_it_is_another_than_set_here(agent: Agent, tmp_path: Path) -> None:
    agent.attach(A, 1)
    for _ in range(10):
        agent.now += 2
        agent.sweep(A)
    with recording(tmp_path) as recorder:
        recorder.finish()
    with Recording(tmp_path / "r") as read:
        assert (read.manifest.interval_seconds, read.manifest.slow_interval_seconds) == (3.0, 10.0)


@pytest.mark.parametrize(("late_rows", "seconds"), [(5, 1.0), (50, 3.0)])
def test_the_rhythm_is_that_of_most_rows(agent: Agent, tmp_path: Path, late_rows: int, seconds: float) -> None:
    agent.attach(A, 1)
    for _ in range(10):
        agent.sweep(A)
    with recording(tmp_path) as recorder:
        for number in range(late_rows):
            agent.now += 2
            agent.sweep(A)
            if number % 5 == 0:
                recorder.poll()
        recorder.finish()
    with Recording(tmp_path / "r") as read:
        assert read.manifest.interval_seconds == seconds
