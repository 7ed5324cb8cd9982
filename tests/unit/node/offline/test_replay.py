"""A node as a recording has it: it answers as the node itself did at that moment."""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.core.history.minute.minutes import OutOfMemory
from agent.core.orders.policy_options import PolicyName
from agent.core.recommender.recommendation import Recommendations
from agent.core.recommender.unit_names import NoSuchUnit
from agent.node.history.file import HistoryFile
from agent.node.history.learner import Learner
from agent.node.offline.recorder import RecordedMachine, Recorder
from agent.node.offline.recorder_sources import StateDirectory
from agent.node.offline.recording import Recording
from agent.node.offline.recording_contents import CONTENTS, contents_of
from agent.node.offline.recording_format import MANIFEST, Manifest, RecordingError
from agent.node.offline.recording_writer import RecordingWriter
from agent.node.offline.replay import ReplayedNode, recorded_settings
from agent.node.offline.state_directory import RestingNode
from agent.node.sampling.pods_file import NoPods, PodsFile
from agent.sensing.cgroup_path import identify
from agent.sensing.ring_file import RingFile
from agent.sensing.state_file import RingGeometry, read_boot_id
from agent.settings import Settings
from tests.unit.node.history.test_learner import BOOT_UNIX_SECONDS, MIB, Clocks, row
from tests.unit.node.offline.test_recording import rewrite
from tests.unit.node.offline.test_state_directory import PATH, pods_file, settings, write_state
from tests.window_rows import NS, memory, minute, steady

pytestmark = pytest.mark.usefixtures("long_since_boot")

CLOCKS_APART_SECONDS = 60.0
"""Of moments that are the same; those that are not are five minutes apart."""


@contextmanager
def recording_of(
    directory: Path, chosen: Settings, wall: Callable[[], float] = time.time
) -> Iterator[tuple[Recorder, Path]]:
    """Begin to record a state directory."""
    path = directory / "r.plimsoll"
    with closing(StateDirectory(directory, wall=wall)) as measured, RecordingWriter(path) as writer:
        yield (
            Recorder(
                writer=writer,
                measured=measured,
                settings=chosen,
                pods=PodsFile(chosen.pods_file) if chosen.pods_file else NoPods(),
                holds=lambda identity: True,
                machine=RecordedMachine(name="worker-7", cpus=4),
            ),
            path,
        )


def record(directory: Path, chosen: Settings, wall: Callable[[], float] = time.time) -> Path:
    """Record a state directory at once."""
    with recording_of(directory, chosen, wall) as (recorder, path):
        recorder.finish()
    return path


def comparable(answer: Recommendations) -> Recommendations:
    """Leave out who answers, which is all that may differ, and of what moment, which `same_answer` compares."""
    return replace(answer, source="", node="", notes=(), taken_unix_seconds=0.0)


def same_answer(answer: Recommendations, other: Recommendations) -> bool:
    """Compare two answers; their moments are by readings of two clocks, between which a busy machine may pause."""
    assert answer.taken_unix_seconds == pytest.approx(other.taken_unix_seconds, abs=CLOCKS_APART_SECONDS)
    return comparable(answer) == comparable(other)


def an_even_moment() -> int:
    """Ten seconds after a full minute of CLOCK_MONOTONIC, some minutes ago: what ended then is learnt by then."""
    return int(time.monotonic()) // 60 * 60 - 600 + 10


def go_on(directory: Path, newest_seconds: int, pods: Path) -> None:
    """Have the agent of `write_state` go on for five minutes, at four times the load."""
    with RingFile.open(directory / "rings", RingGeometry(max_slots=2), boot_id=read_boot_id()) as rings:
        slot = rings.retained()[PATH]
        newest = rings.newest(slot)
        assert newest is not None
        begun = int(newest["usage_usec"]) + 400_000
        for each in steady(range(newest_seconds + 1, newest_seconds + 301), 400.0, usage0=begun):
            rings.append_raw(slot, each)
        for at in range(newest_seconds + 10, newest_seconds + 301, 10):
            rings.append_memory(slot, memory(at, 64 * MIB, set_peak=64 * MIB)[0])
        for number in range(newest_seconds // 60, newest_seconds // 60 + 5):
            rings.append_minute(slot, minute(number, 400.0, peak=900.0, set_peak_kib=64 * 1024))
    with HistoryFile.open(directory / "history", max_rows=64) as history:
        source = PodsFile(pods)
        taught = Learner(
            history=history,
            policy=PolicyName.CRUISE,
            options=Settings(),
            pods=source,
            clock=Clocks().history(None),  # the same axis as before: the agent has gone on
        )
        identity = identify("/" + PATH)
        assert identity is not None
        named, _ = source.name(identity)
        numbers = range(newest_seconds // 60, newest_seconds // 60 + 5)
        taught.learn([(named, row(number, cpu=400.0, peak=900.0, memory_mib=64)) for number in numbers])


@pytest.mark.parametrize("policy", list(PolicyName))
def test_a_replay_of_the_newest_reading_answers_as_the_state_does(tmp_path: Path, policy: PolicyName) -> None:
    chosen = settings(tmp_path, policy, pods_file(tmp_path))
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=an_even_moment(), pods=chosen.pods_file)
    with RestingNode(chosen) as resting, Recording(record(tmp_path, chosen)) as recording:
        replayed = ReplayedNode(recording, chosen)
        expected, answer = resting.recommendations(), replayed.recommendations()
        assert same_answer(answer, expected)
        assert answer.items[0].cpu_millicores.request is not None
        assert (answer.source, answer.node) == ("r.plimsoll", "worker-7")
        explanation, told_resting = (node.explanations("web/app", 3600.0).items[0] for node in (replayed, resting))
        assert explanation.taken_unix_seconds == pytest.approx(
            told_resting.taken_unix_seconds, abs=CLOCKS_APART_SECONDS
        )
        nobody: dict[str, Any] = {"source": "", "notes": (), "taken_unix_seconds": 0.0}
        assert replace(explanation, **nobody) == replace(told_resting, **nobody)
        with pytest.raises(NoSuchUnit, match="nothing is called nobody"):
            replayed.explanations("nobody", 0.0)
        replayed.close()


@pytest.mark.parametrize("policy", list(PolicyName))
@pytest.mark.slow
def test_a_replay_of_a_past_moment_answers_as_the_state_did_then(tmp_path: Path, policy: PolicyName) -> None:
    pods = pods_file(tmp_path)
    chosen = settings(tmp_path, policy, pods)
    moment = an_even_moment()
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=moment, pods=pods)
    with RestingNode(chosen) as resting:
        expected = resting.recommendations()
    with recording_of(tmp_path, chosen) as (recorder, path):
        go_on(tmp_path, moment, pods)
        recorder.finish()
    with RestingNode(chosen) as resting, Recording(path) as recording:
        assert comparable(resting.recommendations()).items != comparable(expected).items
        end = ReplayedNode(recording, chosen).recommendations()
        assert same_answer(end, resting.recommendations())
        wall_offset = recording.manifest.wall_offset_seconds
        then = ReplayedNode(recording, chosen, at_unix_seconds=moment + wall_offset).recommendations()
        assert same_answer(then, expected)


def test_minutes_that_the_history_lacks_are_learnt_from_rows_and_readings(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    moment = an_even_moment()
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=moment)
    with RingFile.open(tmp_path / "rings", RingGeometry(max_slots=2), boot_id=read_boot_id()) as rings:
        slot = rings.retained()[PATH]
        newest = rings.newest(slot)
        assert newest is not None
        begun = int(newest["usage_usec"]) + 900_000
        for each in steady(range(moment + 1, moment + 241), 900.0, usage0=begun):
            rings.append_raw(slot, each)
        for number in range(moment // 60, moment // 60 + 3):
            rings.append_minute(slot, minute(number, 800.0, peak=800.0))
    path = record(tmp_path, chosen, wall=lambda: BOOT_UNIX_SECONDS + time.monotonic())
    with Recording(path) as recording:
        assert recording.manifest.history_offset_minutes == BOOT_UNIX_SECONDS // 60
        (item,) = ReplayedNode(recording, chosen).recommendations().items
        # Ten minutes of the history and four since: three have a row, the last one is made of readings at 900 m.
        assert item.basis.history_minutes == 14
        assert item.cpu_millicores.peak == pytest.approx(900, rel=0.01)


def test_kills_after_the_moment_are_not_known_yet(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    moment = an_even_moment()
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=moment)
    with HistoryFile.open(tmp_path / "history", max_rows=64) as history:
        newest = history.newest_unix_minute
        assert newest is not None
        # The newest minute is the one before the moment's own.
        now = (newest + 1) * 60 + 10
        for seconds in (now - 200, now - 5):
            history.record_oom(0, OutOfMemory(unix_seconds=float(seconds), usage_bytes=99 * MIB))
    with Recording(record(tmp_path, chosen)) as recording:
        ended = recording.manifest.ended_unix_seconds
        kills = [
            ReplayedNode(recording, chosen, at_unix_seconds=ended - back).recommendations().items[0].basis.oom_kills
            for back in (300, 100, 0)
        ]
        assert kills == [0, 1, 2]


def test_a_moment_outside_the_recording_names_what_is_inside(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=time.monotonic())
    with Recording(record(tmp_path, chosen)) as recording:
        manifest = recording.manifest
        for at in (manifest.begun_unix_seconds - 2, manifest.ended_unix_seconds + 2):
            with pytest.raises(RecordingError, match=r"lies outside its readings; allowed: 20\S+Z to 20\S+Z"):
                ReplayedNode(recording, chosen, at_unix_seconds=at)


def test_a_moment_soon_after_the_first_reading_says_that_windows_are_short(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=an_even_moment())
    with Recording(record(tmp_path, chosen)) as recording:
        ended = recording.manifest.ended_unix_seconds
        assert ReplayedNode(recording, chosen).recommendations().notes == ()
        (note,) = ReplayedNode(recording, chosen, at_unix_seconds=ended - 200).recommendations().notes
        # Ten minutes of readings in all, 200 s before their end.
        assert note == "the recording has 400 s of readings before this moment: windows are shorter than the 600 s set"


def test_a_unit_that_had_gone_by_then_is_left_out(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=an_even_moment())
    path = record(tmp_path, chosen)
    with Recording(path) as recording:
        ended = recording.manifest.ended_monotonic_ns
        ended_unix = recording.manifest.ended_unix_seconds

    def change(document: dict[str, Any]) -> dict[str, Any]:
        (unit,) = document["units"]
        return document | {"units": [unit | {"gone_monotonic_ns": ended - 30 * NS}]}

    change_manifest(path, change)
    with Recording(path) as recording:
        assert ReplayedNode(recording, chosen).recommendations().items == ()
        then = ReplayedNode(recording, chosen, at_unix_seconds=ended_unix - 60)
        assert len(then.recommendations().items) == 1


def change_manifest(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    with zipfile.ZipFile(path) as members:
        document = json.loads(members.read(MANIFEST))
    rewrite(path, {MANIFEST: json.dumps(change(document)).encode()})


@pytest.mark.parametrize("text", ["nonsense", "workload:a/b"])
def test_a_history_of_no_key_is_damage(tmp_path: Path, text: str) -> None:
    chosen = settings(tmp_path)
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=time.monotonic())
    path = record(tmp_path, chosen)
    change_manifest(path, lambda document: document | {"histories": [text]})
    with Recording(path) as recording, pytest.raises(RecordingError, match="damaged: its history: history key"):
        ReplayedNode(recording, chosen)


def test_settings_of_the_recorder_are_given_back_as_far_as_they_are_known(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=time.monotonic())
    with Recording(record(tmp_path, chosen)) as recording:
        manifest: Manifest = replace(
            recording.manifest, windows={**recording.manifest.windows, "percentile": 0.9, "ofTomorrow": 1.0}
        )
    overrides = recorded_settings(manifest)
    assert overrides["windows__percentile"] == 0.9
    assert overrides["sampling__slowIntervalSeconds"] == 10.0
    assert "windows__ofTomorrow" not in overrides


def test_an_earlier_boot_is_recorded_by_its_history(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    write_state(tmp_path, boot_id="another boot", newest_seconds=100_000)
    with Recording(record(tmp_path, chosen)) as recording, RestingNode(chosen) as resting:
        assert recording.manifest.wall_offset_seconds == recording.manifest.history_offset_minutes * 60
        answer = ReplayedNode(recording, chosen).recommendations()
        assert same_answer(answer, resting.recommendations())


def test_contents_tell_span_rates_and_gaps_across_chunks(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    moment = an_even_moment()
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=moment)
    with RingFile.open(tmp_path / "rings", RingGeometry(max_slots=2), boot_id=read_boot_id()) as rings:
        slot = rings.retained()[PATH]
        # Nine seconds of silence, then a counter that begins anew, then a reading that failed.
        for each in steady(range(moment + 9, moment + 20), 100.0, usage0=10**9):
            rings.append_raw(slot, each)
        for each in steady(range(moment + 20, moment + 30), 100.0):
            rings.append_raw(slot, each)
        failed = np.zeros(1, dtype=rings.raw(slot).joined().dtype)
        failed["monotonic_ns"], failed["status"] = (moment + 30) * NS, -4
        rings.append_raw(slot, failed[0])
    with Recording(record(tmp_path, chosen)) as recording:
        shares: list[float] = []
        contents = contents_of(recording, shares.append)
    assert shares[-1] == 1.0
    (unit,) = contents.units
    assert dict(unit.gaps) == {"too_far_apart": 1, "counter_reset": 1, "read_failed": 1}
    # 601 readings, 11, 10 and the failed one.
    assert (unit.samples, contents.samples, unit.memory_rows, unit.minutes) == (623, 623, 61, 1)
    assert unit.rate_hz == pytest.approx(622 / 630)
    assert contents.ended_unix_seconds - contents.begun_unix_seconds == pytest.approx(630)
    assert (contents.histories, contents.history_minutes, contents.oom_kills) == (1, 10, 0)
    assert CONTENTS.from_json(json.loads(json.dumps(CONTENTS.to_json(contents)))) == contents
