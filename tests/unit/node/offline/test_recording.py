"""A recording as a file: what goes in comes out, and what is wrong with one is said on one line."""

from __future__ import annotations

import io
import json
import os
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from agent.core.cluster.pod_index import Belonging
from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.cluster.workload import Workload
from agent.core.history.minute.minutes import OutOfMemory
from agent.core.window.ring_rows import Has
from agent.node.offline.recording import MAX_COLUMN_ROWS, Recording
from agent.node.offline.recording_format import (
    DTYPES,
    LATER_COLUMNS,
    MANIFEST,
    Manifest,
    RecordedKill,
    RecordedUnit,
    RecordingError,
    RowKind,
    Rows,
    UnitFacts,
    columns_of,
    pack_column,
    pack_rows,
    unpack_column,
    unpack_rows,
)
from agent.node.offline.recording_writer import RecordingWriter
from tests.examples import examples
from tests.window_rows import NS, memory, minute, sample, steady


def facts(path: str = "/a", *, since_ns: int = 0, name: str | None = None) -> UnitFacts:
    return UnitFacts(
        since_monotonic_ns=since_ns,
        identity=UnitIdentity(cgroup_path=path, kind=UnitKind.CONTAINER, container=name),
        resources=UnitResources(cpu_request_millicores=250),
        belonging=Belonging(workload=Workload(namespace="shop", kind="Deployment", name="web"), pod_containers=2),
    )


def manifest(units: int = 2) -> Manifest:
    return Manifest(
        program="1.2.3",
        node="worker-7",
        cpus=4,
        source="agent",
        boot_id="boot",
        begun_unix_seconds=1_800_000_000.25,
        ended_unix_seconds=1_800_000_060.25,
        begun_monotonic_ns=1000 * NS,
        ended_monotonic_ns=1060 * NS,
        history_offset_minutes=29_999_983,
        interval_seconds=1.0,
        slow_interval_seconds=10.0,
        windows={"cpuWindowSeconds": 600.0, "maxStepSeconds": 5.0},
        units=tuple(
            RecordedUnit(inode=number, facts=(facts(f"/{number}"),), gone_monotonic_ns=None) for number in range(units)
        ),
        histories=("cgroup:/0", "cgroup:/1", "cgroup:/2"),
        kills=(RecordedKill(history=1, kill=OutOfMemory(unix_seconds=5.5, usage_bytes=7)),),
        row_chunks=(),
        history_chunks=(),
        notes=("a note",),
    )


READINGS = steady(range(1000, 1061), 250.0, waiting=0.1)
MEMORY = np.concatenate([memory(at, at << 20, set_peak=at << 20) for at in range(1000, 1061, 10)])
MINUTES = np.concatenate([minute(number, 250.5, peak=300.25, set_peak_kib=77) for number in (15, 16)])


def write(path: Path) -> Manifest:
    """Two chunks of two units, and two of the history."""
    with RecordingWriter(path) as writer:
        writer.add_rows({RowKind.RAW: [(0, READINGS[:30]), (1, READINGS[:10])], RowKind.MINUTES: [(1, MINUTES)]})
        writer.add_rows({RowKind.RAW: [(1, READINGS[10:])], RowKind.MEMORY: [(0, MEMORY), (1, MEMORY[:0])]})
        codes = np.arange(12, dtype=np.uint16).reshape(2, 3, 2)
        writer.add_history([0, 2], np.array([100, 105]), codes)
        writer.add_history([1], np.array([105, 106]), np.full((2, 3, 1), 9, dtype=np.uint16))
        writer.finish(manifest())
    with Recording(path) as recording:
        return recording.manifest


def rewrite(path: Path, changed: dict[str, bytes | None]) -> None:
    """Replace members of a recording, or take them out."""
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(path, "w") as new:
        for name, content in {**members, **changed}.items():
            if content is not None:
                new.writestr(name, content)


def joined(recording: Recording, kind: RowKind, unit: int) -> Rows:
    return np.concatenate([rows for index, rows in recording.all_rows(kind) if index == unit])


def test_a_recording_gives_back_rows_history_and_manifest(tmp_path: Path) -> None:
    path = tmp_path / "a.plimsoll"
    written_manifest = write(path)
    assert replace(written_manifest, row_chunks=(), history_chunks=()) == manifest()
    with Recording(path) as recording:
        assert joined(recording, RowKind.RAW, 0).tobytes() == READINGS[:30].tobytes()
        assert joined(recording, RowKind.RAW, 1).tobytes() == READINGS.tobytes()
        assert joined(recording, RowKind.MEMORY, 0).tobytes() == MEMORY.tobytes()
        assert joined(recording, RowKind.MINUTES, 1).tobytes() == MINUTES.tobytes()
        history = recording.history()
    assert history.unix_minutes.tolist() == [100, 105, 106]
    # Keys 0 and 2 have codes 0, 2, 4 and 1, 3, 5 in minute 100; key 1 begins in minute 105.
    assert history.codes[0].tolist() == [[0, 0, 1], [2, 0, 3], [4, 0, 5]]
    assert history.codes[1].tolist() == [[6, 9, 7], [8, 9, 9], [10, 9, 11]]
    assert history.codes[2].tolist() == [[0, 9, 0]] * 3


def test_chunks_outside_the_asked_time_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.plimsoll"
    write(path)
    with Recording(path) as recording:
        # The first chunk ends at 1029 s, the second begins at 1010 s.
        assert [unit for unit, _ in recording.all_rows(RowKind.RAW, last=1009 * NS)] == [0, 1]
        assert [unit for unit, _ in recording.all_rows(RowKind.RAW, first=1030 * NS)] == [1]
        assert [unit for unit, _ in recording.all_rows(RowKind.RAW, first=1061 * NS)] == []


@given(
    kind=st.sampled_from(list(RowKind)),
    content=st.binary(max_size=88 * 20),
)
@settings(deadline=None)
def test_rows_of_any_content_come_back_to_the_bit(kind: RowKind, content: bytes) -> None:
    dtype = DTYPES[kind]
    whole = len(content) // dtype.itemsize * dtype.itemsize
    rows: Rows = np.frombuffer(content[:whole], dtype=dtype)
    packed = dict(pack_rows(kind, rows))
    columns = {name: unpack_column(name, packed[name], rows.size) for name in columns_of(kind)}
    assert unpack_rows(kind, columns).tobytes() == rows.tobytes()


def test_memory_rows_of_an_older_recording_do_not_know_of_refaults() -> None:
    rows: Rows = np.zeros(2, dtype=DTYPES[RowKind.MEMORY])
    rows["has"], rows["anon_bytes"], rows["active_file_bytes"] = Has.MEMORY_STAT | Has.FILE_REFAULTS, 7, 5
    packed = dict(pack_rows(RowKind.MEMORY, rows))
    columns = {name: unpack_column(name, packed[name], 2) for name in packed if name not in LATER_COLUMNS}
    read = unpack_rows(RowKind.MEMORY, columns)
    assert (read["has"].tolist(), read["anon_bytes"].tolist()) == ([Has.MEMORY_STAT] * 2, [7, 7])


def test_an_hour_of_readings_takes_less_than_twelve_bytes_each(tmp_path: Path) -> None:
    """250 containers would be 900,000 readings; five tell as much: columns do not depend on their number."""
    random = np.random.default_rng(7)
    rows = np.zeros(3600, dtype=READINGS.dtype)
    units = []
    for number in range(5):
        own = rows.copy()
        own["monotonic_ns"] = (10**14 + np.arange(3600) * 10**9 + random.gamma(2, 40_000, 3600)).astype(np.uint64)
        used = random.gamma(2, 50_000, 3600).astype(np.int64)  # a tenth of a core, never the same twice
        own["usage_usec"] = 10**12 + used.cumsum()
        own["cpu_some_usec"] = own["cpu_full_usec"] = (used // 10).cumsum()
        own["memory_current_bytes"] = (random.integers(-20, 21, 3600).cumsum() + 50_000) * 4096
        own["has"] = 7
        units.append((number, own))
    path = tmp_path / "a.plimsoll"
    with RecordingWriter(path) as writer:
        writer.add_rows({RowKind.RAW: units})
        size = writer.finish(manifest(5))
    assert size == path.stat().st_size
    assert size / (5 * 3600) < 12


def test_a_recorder_that_does_not_finish_leaves_nothing(tmp_path: Path) -> None:
    with RecordingWriter(tmp_path / "a.plimsoll") as writer:
        writer.add_rows({RowKind.RAW: [(0, READINGS)]})
        assert [file.name for file in tmp_path.iterdir()] == [f".a.plimsoll.{os.getpid()}.part"]
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"recording .*/none/a: cannot be written: No such file or directory"):
        RecordingWriter(tmp_path / "none" / "a")


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / f".a.{os.getpid()}.part").symlink_to("/dev/full")
    with RecordingWriter(tmp_path / "a") as writer:
        with pytest.raises(RecordingError, match=r"recording .*/a: cannot be written: No space left on device"):
            writer.finish(manifest(1000))
        assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_midway_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / f".a.{os.getpid()}.part").symlink_to("/dev/full")
    rows = np.zeros(5000, dtype=READINGS.dtype)
    rows["usage_usec"] = np.random.default_rng(1).integers(0, 2**63, 5000)
    with (
        pytest.raises(RecordingError, match="cannot be written: No space left on device"),
        RecordingWriter(tmp_path / "a") as writer,
    ):
        writer.add_rows({RowKind.RAW: [(0, rows)]})
    assert list(tmp_path.iterdir()) == []


# What is none


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="cannot be read: No such file or directory"):
        Recording(tmp_path / "none")


@pytest.mark.parametrize("content", [b"", b"time,container\n", b"\x7fELF"])
def test_other_files_are_no_recordings(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match="not a recording of plimsoll: it begins with"):
        Recording(path)


def test_another_zip_is_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as members:
        members.writestr("other", "")
    with pytest.raises(RecordingError, match=r"a zip without manifest\.json"):
        Recording(path)


def test_another_version_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path)
    rewrite(path, {MANIFEST: json.dumps({"format": "plimsoll-recording", "version": 2}).encode()})
    with pytest.raises(RecordingError, match="version 2, this program reads 1"):
        Recording(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "damaged: manifest.json"),
        (b"[]", "is not a JSON object"),
        (b"[" * 100_000, "damaged: manifest.json: not JSON: nested more than 64 deep"),
        (b'{"a": NaN}', "damaged: manifest.json: not JSON: NaN is no JSON value"),
        (b'{"a": ' + b"9" * 5000 + b"}", "damaged: manifest.json: not JSON: 9+ is out of range"),
        (b"\xff\xfe{\0}\0", "damaged: manifest.json: not UTF-8 at byte 0"),
        (b'{"format": "plimsoll-snapshot", "version": 1}', "'plimsoll-snapshot' is not 'plimsoll-recording'"),
        (b'{"format": "plimsoll-recording", "version": 1}', "absent fields"),
    ],
)
def test_a_manifest_that_is_none_is_told(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "a"
    write(path)
    rewrite(path, {MANIFEST: content})
    with pytest.raises(RecordingError, match=reason):
        Recording(path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cpus": 0}, "capacity_millicores is 0"),
        ({"ended_monotonic_ns": 0}, "out of order"),
        ({"cpus": 10**9}, "1000000000 CPUs; allowed: 1 to"),
        ({"ended_monotonic_ns": 1 << 63}, "a moment that cannot be"),
        ({"begun_unix_seconds": 1e300}, "a time of day that cannot be"),
        ({"history_offset_minutes": 1 << 40}, "a time of day that cannot be"),
        ({"interval_seconds": 0}, "an interval that cannot be"),
        ({"slow_interval_seconds": 1e9}, "an interval that cannot be"),
        ({"histories": []}, "of a key that is not there"),
        ({"history_chunks": [{"histories": [0], "minutes": -1}]}, "damaged: history/000000: -1 rows"),
        ({"units": [{"inode": 1, "facts": [], "gone_monotonic_ns": None}]}, "a unit has no name"),
        ({"history_chunks": [{"histories": [3], "minutes": 1}]}, "keys that are not there"),
        ({"history_chunks": [{"histories": [0], "minutes": MAX_COLUMN_ROWS}]}, f"{3 * MAX_COLUMN_ROWS} rows"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_told(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    path = tmp_path / "a"
    write(path)
    with zipfile.ZipFile(path) as members:
        document = json.loads(members.read(MANIFEST))
    rewrite(path, {MANIFEST: json.dumps(document | change).encode()})
    with pytest.raises(RecordingError, match=reason):
        Recording(path)


def _asking(tmp_path: Path, *, keys: int, minutes: int, chunks: int = 1) -> Path:
    """Write a small recording that has each key in a few minutes, and all of them in none."""
    path = tmp_path / "large.plimsoll"
    with RecordingWriter(path) as writer:
        for chunk in range(chunks):
            writer.add_history([chunk], np.arange(minutes) + chunk * minutes, np.zeros((minutes, 3, 1), np.uint16))
        writer.finish(replace(manifest(), histories=tuple(f"machine/{key}" for key in range(keys)), kills=()))
    return path


@pytest.mark.parametrize(
    ("keys", "minutes", "chunks", "reason"),
    [
        # 120,000 minutes x 20,000 keys x 3 codes of 2 bytes would be 13 GiB.
        (20_000, 60_000, 2, "7200000000 figures of the history; allowed: up to 67108864; record less with --filter"),
        (20_001, 1, 1, "20001 keys of the history; allowed: up to 20000"),
        (3, 100_000, 2, "200000 minutes of history; allowed: up to 131072"),
    ],
)
def test_a_small_recording_that_asks_for_gigabytes_is_refused_before_they_are_taken(
    tmp_path: Path, keys: int, minutes: int, chunks: int, reason: str
) -> None:
    path = _asking(tmp_path, keys=keys, minutes=minutes, chunks=chunks)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(RecordingError) as refused, Recording(path) as recording:
        recording.history()
    assert reason in str(refused.value)


def test_a_recording_cut_off_anywhere_is_told_as_such(tmp_path: Path) -> None:
    whole = tmp_path / "a"
    write(whole)
    content = whole.read_bytes()
    for length in (5, 100, len(content) // 2, len(content) - 1):
        cut = tmp_path / "cut"
        cut.write_bytes(content[:length])
        with pytest.raises(RecordingError, match="cut off: its end is missing"):
            Recording(cut)


@dataclass(frozen=True, repr=False)
class Whole:
    """A recording to be damaged; told by its kind alone, as it is long."""

    path: Path
    """A file to play with."""
    content: bytes
    expected: list[object]
    """What is in it."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    path = tmp_path_factory.mktemp("recording") / "a"
    write(path)
    with Recording(path) as recording:
        return Whole(path, path.read_bytes(), everything(recording))


@given(place=st.integers(0, 10**6), bit=st.integers(0, 7))
@examples(150)
def test_a_flipped_bit_is_told_on_one_line_or_changes_nothing(whole: Whole, place: int, bit: int) -> None:
    changed = bytearray(whole.content)
    changed[place % len(changed)] ^= 1 << bit
    whole.path.write_bytes(changed)
    assert found_or_told(whole.path) in ([], whole.expected)


@pytest.mark.parametrize("column", sorted(LATER_COLUMNS))
def test_a_column_whose_name_is_damaged_is_not_taken_for_one_of_an_older_recording(whole: Whole, column: str) -> None:
    place = whole.content.rindex(column.encode())  # in the table of contents
    whole.path.write_bytes(whole.content[:place] + b"A" + whole.content[place + 1 :])
    with (
        pytest.raises(RecordingError, match=rf"damaged: .*{column}.npy is missing"),
        Recording(whole.path) as recording,
    ):
        everything(recording)


@pytest.mark.parametrize("offset", range(0, 46, 2))
def test_so_is_one_in_the_table_of_contents(whole: Whole, offset: int) -> None:
    """Where zipfile meets versions, flags and lengths that cannot be; each with an error of its own."""
    place = whole.content.index(b"PK\x01\x02") + offset
    for bit in range(16):
        changed = bytearray(whole.content)
        changed[place + bit // 8] ^= 1 << bit % 8
        whole.path.write_bytes(changed)
        assert found_or_told(whole.path) in ([], whole.expected), bit


def found_or_told(path: Path) -> list[object]:
    """Return what is in a recording; nothing if one line says why not."""
    try:
        with Recording(path) as recording:
            return everything(recording)
    except RecordingError as error:
        return [*str(error).splitlines()[1:]]


def everything(recording: Recording) -> list[object]:
    rows = [(unit, chunk.tobytes()) for kind in RowKind for unit, chunk in recording.all_rows(kind)]
    history = recording.history()
    return [recording.manifest, rows, history.unix_minutes.tolist(), history.codes.tolist()]


def npy(array: NDArray[np.uint8] | NDArray[np.int8]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("member", "content", "reason"),
    [
        ("rows/000000/raw.usage_usec.npy", None, "is missing"),
        ("rows/000000/raw.usage_usec.npy", b"x" * 5000, "5000 bytes; allowed: up to"),
        ("rows/000000/raw.usage_usec.npy", b"not an array", "damaged: rows/000000/raw.usage_usec.npy"),
        ("rows/000000/raw.usage_usec.npy", npy(np.zeros((2, 39), np.uint8)), r"\(2, 39\) of uint8"),
        ("rows/000000/raw.usage_usec.npy", npy(np.zeros((9, 40), np.uint8)), r"\(9, 40\) of uint8"),
        ("rows/000000/raw.usage_usec.npy", npy(np.zeros((2, 40), np.int8)), "of int8"),
        ("rows/000000/raw.usage_usec.npy", npy(np.zeros((2, 40), np.uint8))[:-1], "79 bytes, not 2 x 40"),
        ("rows/000000/raw.counts.npy", pack_column("counts", np.array([30, 11], np.uint64)), "not the 40 rows"),
        ("rows/000000/raw.counts.npy", pack_column("counts", np.array([2**63, 10], np.uint64)), "not the 40 rows"),
        ("rows/000000/raw.units.npy", pack_column("units", np.array([0, 2], np.uint64)), "not the 40 rows"),
        ("history/000000/unix_minutes.npy", pack_column("unix_minutes", np.array([5, 5], np.uint64)), "do not rise"),
    ],
)
def test_a_damaged_member_is_told_by_its_name(tmp_path: Path, member: str, content: bytes | None, reason: str) -> None:
    path = tmp_path / "a"
    write(path)
    rewrite(path, {member: content})
    with Recording(path) as recording, pytest.raises(RecordingError, match=reason):
        everything(recording)


def test_a_pickle_in_place_of_a_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path)
    stream = io.BytesIO()
    np.save(stream, np.array([{}], dtype=object), allow_pickle=True)
    rewrite(path, {"rows/000000/raw.status.npy": stream.getvalue()})
    with Recording(path) as recording, pytest.raises(RecordingError, match="of object"):
        everything(recording)


def test_facts_of_a_unit_are_those_known_at_the_moment() -> None:
    unit = RecordedUnit(inode=1, facts=(facts(since_ns=10), facts(since_ns=20, name="app")), gone_monotonic_ns=None)
    names = [unit.facts_at(at).identity.container for at in (0, 10, 19, 20, 30)]
    assert names == [None, None, None, "app", "app"]


def test_samples_of_a_failed_reading_are_kept() -> None:
    rows = np.concatenate([sample(1.0, 5), sample(2.0, 0, status=-3, has=0), sample(3.0, 9)])
    packed = dict(pack_rows(RowKind.RAW, rows))
    columns = {name: unpack_column(name, packed[name], 3) for name in columns_of(RowKind.RAW)}
    assert unpack_rows(RowKind.RAW, columns)["status"].tolist() == [0, -3, 0]
