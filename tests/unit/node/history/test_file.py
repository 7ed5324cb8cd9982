"""node/history/file.py and what it stands on, on files in a temporary directory."""

from __future__ import annotations

import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.history.minute.key import HistoryKey, KeyKind
from agent.core.history.minute.minute_codec import decode, encode
from agent.core.history.minute.minutes import Minutes, OutOfMemory
from agent.core.history.minute.table import BLOCK_ROWS, RING_MINUTES
from agent.node.history.file import HistoryError, HistoryFile, HistoryFull, HistoryInUse
from agent.node.history.format import BLOCK_BYTES, key_row_offset, record_offset
from tests.examples import examples

NOW = 29_000_000
"""A minute of 2025."""
DAYS_7 = 7 * 1440
MIB = 1 << 20
HEADER_BYTES = 4096


def key(name: object) -> HistoryKey:
    return HistoryKey(KeyKind.CGROUP, (f"/{name}",))


def minute(number: int, rows: int, amount: float | None = None) -> Minutes:
    """Return a minute whose row r uses ``amount + r`` millicores, peaks at the double and holds as many MiB."""
    cpu = np.arange(rows, dtype=np.float64) + (number % 1000 if amount is None else amount)
    has = np.ones(rows, dtype=np.bool_)
    return Minutes(
        unix_minute=number,
        cpu_usage_millicores=cpu,
        cpu_peak_millicores=cpu * 2,
        has_cpu=has,
        working_set_bytes=cpu * MIB,
        has_memory=has,
    )


def only(number: int, rows: int, chosen: list[int], *, cpu: bool = True) -> Minutes:
    """Return a minute in which some rows are known, with 1 MiB and, if so, 7 millicores."""
    has = np.isin(np.arange(rows), chosen)
    none = np.zeros(rows, dtype=np.bool_)
    return Minutes(
        unix_minute=number,
        cpu_usage_millicores=np.where(has, 7.0, 0.0),
        cpu_peak_millicores=np.where(has, 7.0, 0.0),
        has_cpu=has if cpu else none,
        working_set_bytes=np.where(has, float(MIB), 0.0),
        has_memory=has,
    )


def begin(path: Path | None, keys: int, *, max_rows: int = 128) -> HistoryFile:
    history = HistoryFile.open(path, max_rows=max_rows)
    for number in range(keys):
        assert history.row_of(key(number)) == number
    return history


def usage(history: HistoryFile, row: int) -> dict[int, float]:
    known = history.minutes(row)
    return dict(zip(known.unix_minutes.tolist(), known.cpu_usage_millicores.tolist(), strict=True))


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_minutes_and_keys_are_there_after_a_restart(tmp_path: Path) -> None:
    with begin(tmp_path / "history", 3) as history:
        assert history.append(minute(NOW, 3, 100.0))
        assert history.append(only(NOW + 1, 3, [1], cpu=False))
        assert history.append(minute(NOW + 3, 3, 200.0))
    with HistoryFile.open(tmp_path / "history", max_rows=128) as history:
        assert (history.set_aside, history.damaged_rows, history.damaged_records) == (None, 0, 0)
        assert history.newest_unix_minute == NOW + 3
        assert dict(history.keys()) == {key(0): 0, key(1): 1, key(2): 2}
        row = history.minutes(1)
        assert row.unix_minutes.tolist() == [NOW, NOW + 1, NOW + 3]
        assert row.cpu_usage_millicores.tolist() == [101, 0, 201]
        assert row.cpu_peak_millicores.tolist() == [202, 0, 402]
        assert row.has_cpu.tolist() == [True, False, True]
        assert row.working_set_bytes.tolist() == [101 * MIB, MIB, 201 * MIB]
        assert row.has_memory.tolist() == [True, True, True]
        known = history.known()
        assert known.minutes[:4].tolist() == [2, 3, 2, 0]
        assert known.first_unix_minute[:4].tolist() == [NOW, NOW, NOW, 0]


def test_stream_gives_all_rows_in_rising_order_from_a_minute_on(tmp_path: Path) -> None:
    with begin(tmp_path / "history", BLOCK_ROWS + 2) as history:
        numbers = [NOW, NOW + 1, NOW + 5, NOW + 700]
        for number in numbers:
            history.append(minute(number, history.rows))
        assert [each.unix_minute for each in history.stream()] == numbers
        last = list(history.stream(NOW + 2))
        assert [each.unix_minute for each in last] == numbers[2:]
        # Rows that stand for nobody know nothing, whatever was given for them.
        assert last[0].has_cpu.tolist() == [True] * (BLOCK_ROWS + 2) + [False] * (BLOCK_ROWS - 2)
        assert last[0].cpu_usage_millicores[BLOCK_ROWS + 1] == (NOW + 5) % 1000 + BLOCK_ROWS + 1
        assert last[0].cpu_usage_millicores[-1] == 0
        assert last[0].working_set_bytes[0] == (NOW + 5) % 1000 * MIB
        assert last[0].has_memory.size == history.rows


def test_history_without_a_file_keeps_minutes_until_it_is_closed() -> None:
    with begin(None, 1) as history:
        history.append(minute(NOW, 1))
        assert list(usage(history, 0)) == [NOW]
        history.save_state("vpa", {"weights": np.ones(1)})
        assert history.load_state("vpa") == "saved state of vpa: the history is kept in memory"
    with pytest.raises(HistoryError, match="history in memory: closed"):
        history.append(minute(NOW + 1, 1))
    with pytest.raises(HistoryError, match="history in memory: closed"):
        history.minutes(0)
    history.close()


def test_empty_history_has_nothing_to_tell(tmp_path: Path) -> None:
    with HistoryFile.open(tmp_path / "history", max_rows=1) as history:
        assert (history.rows, history.newest_unix_minute, history.keys()) == (0, None, {})
        assert list(history.stream()) == []
        assert history.known().minutes.size == 0
        assert history.kills() == ()
        with pytest.raises(ValueError, match="row 0 of the history, which has 0"):
            history.minutes(0)
        history.row_of(key("a"))
        assert history.minutes(0).unix_minutes.size == 0


@pytest.mark.slow
def test_ring_holds_the_newest_10240_minutes(tmp_path: Path) -> None:
    with begin(tmp_path / "history", 2) as history:
        history.append(only(NOW - 1, 2, [0, 1]))
        for number in range(NOW, NOW + RING_MINUTES):
            history.append(only(number, 2, [0]))
        last = NOW + RING_MINUTES - 1
        assert list(usage(history, 0)) == list(range(NOW, last + 1))
        assert history.known().minutes[:2].tolist() == [RING_MINUTES, 0]
        assert history.known().first_unix_minute[:2].tolist() == [NOW, 0]
        history.append(only(last + 10, 2, [0]))
        # The ring begins at last + 11 - 10,240 = NOW + 10: ten minutes fell out, one came.
        assert history.known().minutes[0] == RING_MINUTES - 9
        assert history.known().first_unix_minute[0] == NOW + 10
        assert sum(1 for _ in history.stream()) == RING_MINUTES - 9
    with HistoryFile.open(tmp_path / "history", max_rows=64) as history:
        assert history.known().minutes[0] == RING_MINUTES - 9
        assert history.known().first_unix_minute[0] == NOW + 10


def test_pause_longer_than_the_ring_is_told_and_nothing_older_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with begin(tmp_path / "history", 1) as history:
        history.append(minute(NOW, 1))
        history.append(minute(NOW + 1, 1))
        history.append(minute(NOW + 1 + 1440, 1))
        assert caplog.records == []
        history.append(minute(NOW + 2 * RING_MINUTES, 1))
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert list(usage(history, 0)) == [NOW + 2 * RING_MINUTES]
        assert history.known().minutes[0] == 1


@pytest.mark.parametrize("late", [NOW, NOW - 1, 5])
def test_minute_not_later_than_the_newest_is_refused_and_changes_nothing(tmp_path: Path, late: int) -> None:
    with begin(tmp_path / "history", 1) as history:
        history.append(minute(NOW, 1, 10.0))
        assert not history.append(minute(late, 1, 20.0))
        assert history.refused_minutes == 1
        assert usage(history, 0) == {NOW: 10.0}
    with HistoryFile.open(tmp_path / "history", max_rows=64) as history:
        assert not history.append(minute(late, 1, 20.0))
        assert usage(history, 0) == {NOW: 10.0}


def test_minute_with_more_rows_than_there_are_is_refused(tmp_path: Path) -> None:
    with begin(tmp_path / "history", 1) as history:
        with pytest.raises(ValueError, match=f"minute {NOW} of 65 rows: the history has 64"):
            history.append(minute(NOW, 65))
        with pytest.raises(ValueError, match="minute -1 of 1 rows"):
            history.append(minute(-1, 1))
    with pytest.raises(ValueError, match="max_rows is 0, allowed are numbers from 1"):
        HistoryFile.open(None, max_rows=0)


AMOUNTS = st.none() | st.floats(0, 1e9)


def _times(figure: float | None, steps: int) -> float | None:
    return None if figure is None else figure * steps


@examples(25)
@given(
    st.lists(
        st.tuples(st.integers(1, 12_000), st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=5), st.booleans()),
        min_size=1,
        max_size=25,
    )
)
@pytest.mark.slow
def test_what_was_added_is_read_back_within_the_codec_s_precision(
    added: list[tuple[int, list[tuple[float | None, float | None]], bool]],
) -> None:
    expected: dict[int, dict[int, tuple[float | None, float | None]]] = {row: {} for row in range(5)}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "history")
        history = begin(path, 5)
        number = NOW
        for ahead, figures, is_restart in added:
            number += ahead
            cpu = np.array([figure[0] or 0.0 for figure in figures])
            memory = np.array([figure[1] or 0.0 for figure in figures])
            history.append(
                Minutes(
                    unix_minute=number,
                    cpu_usage_millicores=cpu,
                    cpu_peak_millicores=cpu,
                    has_cpu=np.array([figure[0] is not None for figure in figures]),
                    working_set_bytes=memory * 1024,
                    has_memory=np.array([figure[1] is not None for figure in figures]),
                )
            )
            for row, figure in enumerate(figures):
                if figure != (None, None):
                    expected[row][number] = figure
            if is_restart:
                history.close()
                history = HistoryFile.open(path, max_rows=128)
        # After a restart that is the newest minute of which anything is known, not of the last that was added.
        newest = history.newest_unix_minute or 0
        for row, minutes in expected.items():
            inside = {at: both for at, both in minutes.items() if at > newest - RING_MINUTES}
            known = history.minutes(row)
            assert known.unix_minutes.tolist() == list(inside)
            assert history.known().minutes[row] == len(inside)
            for place, (cpu_figure, memory_figure) in enumerate(inside.values()):
                for has, back, put in (  # in the units of the codec: eighths of a millicore, KiB
                    (known.has_cpu[place], known.cpu_usage_millicores[place] * 8, _times(cpu_figure, 8)),
                    (known.has_memory[place], known.working_set_bytes[place] / 1024, memory_figure),
                ):
                    assert has == (put is not None)
                    precise, _ = decode(encode(np.array([put or 0.0]), np.array([bool(has)])))
                    assert back == precise[0]
                    assert back >= (put or 0.0)
        history.close()


# -- rows --------------------------------------------------------------------------------------------------------------


def test_full_table_reuses_the_row_longest_without_data_and_tells(tmp_path: Path) -> None:
    with begin(tmp_path / "history", BLOCK_ROWS, max_rows=BLOCK_ROWS) as history:
        history.append(minute(NOW, BLOCK_ROWS))
        history.record_oom(9, OutOfMemory(unix_seconds=1.0, usage_bytes=1))
        with pytest.raises(HistoryFull, match=r"all 64 rows have data of the last minute, none for cgroup:/new"):
            history.row_of(key("new"))
        history.append(only(NOW + 1, BLOCK_ROWS, [row for row in range(BLOCK_ROWS) if row != 9]))
        assert history.row_of(key("new")) == 9
        assert history.take_reused().tolist() == [9]
        # Nothing of the former key is shown under the new one, before and after a restart.
        history.append(only(NOW + 2, BLOCK_ROWS, [9]))
        assert usage(history, 9) == {NOW + 2: 7.0}
        assert history.kills() == ()
    with HistoryFile.open(tmp_path / "history", max_rows=BLOCK_ROWS) as history:
        assert history.keys()[key("new")] == 9
        assert usage(history, 9) == {NOW + 2: 7.0}
        assert history.known().minutes[9] == 1
        assert [bool(each.has_cpu[9]) for each in history.stream()] == [False, False, True]


def test_file_with_more_rows_than_are_allowed_now_keeps_them(tmp_path: Path) -> None:
    with begin(tmp_path / "history", BLOCK_ROWS + 1):
        pass
    with HistoryFile.open(tmp_path / "history", max_rows=1) as history:
        assert history.rows == 2 * BLOCK_ROWS
        assert history.row_of(key("one more")) == BLOCK_ROWS + 1


def test_kills_are_there_after_a_restart_with_what_was_known_of_them(tmp_path: Path) -> None:
    first = OutOfMemory(unix_seconds=1000.5, usage_bytes=5 * MIB, limit_bytes=None, request_bytes=0)
    second = OutOfMemory(unix_seconds=999.0, limit_bytes=2**60, is_told_by_status=True)
    with begin(tmp_path / "history", 2) as history:
        history.record_oom(1, first)
        history.record_oom(0, second)
        assert history.kills() == ((0, second), (1, first))
        with pytest.raises(ValueError, match="row 2 of the history stands for nobody"):
            history.record_oom(2, first)
    with HistoryFile.open(tmp_path / "history", max_rows=64) as history:
        assert history.kills() == ((0, second), (1, first))


# -- files that are damaged, of others, in use -------------------------------------------------------------------------


def patch(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def flip(path: Path, offset: int) -> None:
    patch(path, offset, bytes([path.read_bytes()[offset] ^ 0x10]))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: os.truncate(path, 100), r"truncated: 100 bytes, the header alone has 4096"),
        (lambda path: os.truncate(path, HEADER_BYTES + BLOCK_BYTES - 1), r"truncated: \d+ bytes, that is 4096 and no"),
        (lambda path: patch(path, 0, b"SQLite f"), r"not a history file: it begins with b'SQLite f'"),
        (lambda path: patch(path, 8, struct.pack("<I", 2)), r"version 2, this program reads 1"),
        (lambda path: flip(path, 17), r"bad checksum of the header"),
    ],
)
def test_file_that_cannot_be_gone_on_with_is_set_aside_whole(
    tmp_path: Path, damage: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "history"
    with begin(path, 1) as history:
        history.append(minute(NOW, 1))
    damage(path)
    content = path.read_bytes()
    with pytest.raises(HistoryError, match=rf"history file {path}: {reason}"):
        HistoryFile.open_readonly(path)
    with HistoryFile.open(path, max_rows=64) as history:
        assert history.newest_unix_minute is None
        assert history.set_aside_reason is not None
        assert re.match(reason, history.set_aside_reason)
        assert history.set_aside is not None
        assert history.set_aside.read_bytes() == content
        assert [record.getMessage() for record in caplog.records] == ["history set aside, beginning anew"]
        history.row_of(key("a"))
        history.append(minute(NOW, 1))
    with HistoryFile.open(path, max_rows=64) as history:
        assert history.set_aside is None
        assert history.newest_unix_minute == NOW


def test_other_lengths_under_a_right_checksum_are_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "history"
    begin(path, 1).close()
    fixed = bytearray(path.read_bytes()[: struct.calcsize("<8s5IQ")])
    struct.pack_into("<I", fixed, 12, 32)
    patch(path, 0, bytes(fixed) + struct.pack("<I", zlib.crc32(fixed)))
    with HistoryFile.open(path, max_rows=64) as history:
        assert history.set_aside_reason is not None
        assert history.set_aside_reason.startswith("lengths [32, 10240, 392,")


@pytest.mark.parametrize("offset", [0, 4, 8, 20, 600])
def test_flipped_bit_in_the_table_costs_that_row_alone(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "history"
    with begin(path, 3) as history:
        history.append(minute(NOW, 3, 10.0))
    flip(path, key_row_offset(1) + offset)
    with HistoryFile.open(path, max_rows=64) as history:
        assert history.damaged_rows == 1
        assert dict(history.keys()) == {key(0): 0, key(2): 2}
        assert usage(history, 2) == {NOW: 12.0}
        # Its key begins anew, in the same place, and what lies there is not taken for its own.
        assert history.row_of(key(1)) == 1
        assert usage(history, 1) == {}
    with HistoryFile.open(path, max_rows=64) as history:
        assert history.damaged_rows == 0


def test_entry_of_no_key_under_a_right_checksum_costs_that_row_alone(tmp_path: Path) -> None:
    path = tmp_path / "history"
    begin(path, 1).close()
    entry = bytearray(path.read_bytes()[key_row_offset(0) : key_row_offset(1)])
    entry[16:20] = b"none"
    struct.pack_into("<I", entry, 0, zlib.crc32(entry[4:]))
    patch(path, key_row_offset(0), bytes(entry))
    with HistoryFile.open(path, max_rows=64) as history:
        assert (history.damaged_rows, dict(history.keys())) == (1, {})


@pytest.mark.parametrize("offset", [0, 8, 391])
def test_flipped_bit_in_a_record_costs_that_minute_of_its_block_alone(
    tmp_path: Path, offset: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "history"
    with begin(path, BLOCK_ROWS + 1) as history:
        for number in range(NOW, NOW + 3):
            history.append(minute(number, BLOCK_ROWS + 1, 10.0))
    flip(path, record_offset(0, NOW + 1) + offset)
    with HistoryFile.open(path, max_rows=64) as history:
        assert history.damaged_records == 1
        assert [record.getMessage() for record in caplog.records] == [
            "the history is damaged: what is not whole is not known"
        ]
        assert list(usage(history, 0)) == [NOW, NOW + 2]
        assert list(usage(history, BLOCK_ROWS)) == [NOW, NOW + 1, NOW + 2]


def test_newest_record_cut_off_costs_that_minute_alone(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with begin(path, 1) as history:
        history.append(minute(NOW, 1, 10.0))
        history.append(minute(NOW + 1, 1, 10.0))
    patch(path, record_offset(0, NOW + 1) + 8, b"\0" * 384)  # the first 8 bytes had reached the file
    with HistoryFile.open(path, max_rows=64) as history:
        assert history.newest_unix_minute == NOW
        assert history.append(minute(NOW + 1, 1, 11.0))
        assert usage(history, 0) == {NOW: 10.0, NOW + 1: 11.0}


def test_every_record_damaged_leaves_keys_and_an_empty_history(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with begin(path, 1) as history:
        history.append(minute(NOW, 1))
    flip(path, record_offset(0, NOW) + 8)
    with HistoryFile.open(path, max_rows=64) as history:
        assert history.newest_unix_minute is None
        assert history.row_of(key(0)) == 0


def test_second_writer_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with begin(path, 1), pytest.raises(HistoryInUse, match=rf"history file {path} is in use by pid {os.getpid()} \("):
        HistoryFile.open(path, max_rows=64)
    HistoryFile.open(path, max_rows=64).close()


def test_place_that_cannot_be_used_is_named_with_what_to_do(tmp_path: Path) -> None:
    missing = tmp_path / "none" / "history"
    with pytest.raises(HistoryError, match=rf"history file {missing}: No such file or directory; allowed: a state dir"):
        HistoryFile.open(missing, max_rows=64)
    with pytest.raises(HistoryError, match=rf"history file {missing}: No such file or directory"):
        HistoryFile.open_readonly(missing)
    with pytest.raises(HistoryError, match=r"Is a directory"):
        HistoryFile.open_readonly(tmp_path)


def test_reader_sees_what_is_there_while_another_writes_and_may_not_write(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with begin(path, 2) as writer:
        writer.append(minute(NOW, 2, 10.0))
        writer.save_state("vpa", {"weights": np.arange(64.0)})
        with HistoryFile.open_readonly(path) as reader:
            writer.append(minute(NOW + 1, 2, 20.0))
            assert usage(reader, 1) == {NOW: 11.0}
            assert reader.keys() == writer.keys()
            assert reader.known().minutes[:3].tolist() == [1, 1, 0]
            state = reader.load_state("vpa")
            assert not isinstance(state, str)
            for write in (
                lambda: reader.append(minute(NOW + 2, 2)),
                lambda: reader.row_of(key("new")),
                lambda: reader.record_oom(0, OutOfMemory(unix_seconds=1.0)),
                lambda: reader.save_state("vpa", {}),
            ):
                with pytest.raises(HistoryError, match=rf"history file {path}: opened for reading only"):
                    write()
        with HistoryFile.open_readonly(path) as reader:
            assert usage(reader, 1) == {NOW: 11.0, NOW + 1: 21.0}


def test_reader_that_is_overtaken_by_the_ring_misses_minutes_and_mixes_none(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with begin(path, 1) as writer:
        for number in range(NOW, NOW + 5):
            writer.append(minute(number, 1, 10.0))
        with HistoryFile.open_readonly(path) as reader:
            writer.append(minute(NOW + RING_MINUTES + 2, 1, 99.0))
            assert usage(reader, 0) == {NOW: 10.0, NOW + 1: 10.0, NOW + 3: 10.0, NOW + 4: 10.0}


# -- the end of a process, the end of the disk -------------------------------------------------------------------------

APPENDER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_file import NOW, begin, minute
history = begin(Path({path!r}), 100)
print("ready", flush=True)
number = NOW
while True:
    assert history.append(minute(number, 100, float(number - NOW)))
    number += 1
    if number % 100 == 0:
        print(number - NOW, flush=True)
"""


def child(code: str) -> subprocess.Popen[str]:
    root = Path(__file__).parents[4]
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=root)


@pytest.mark.slow
def test_killed_in_the_middle_of_appends_loses_at_most_the_minute_it_was_at(tmp_path: Path) -> None:
    path = tmp_path / "history"
    process = child(APPENDER.format(tests=str(Path(__file__).parent), path=str(path)))
    assert process.stdout is not None
    said = 0
    for line in process.stdout:
        said = 0 if line.startswith("ready") else int(line)
        if said >= 1500:
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    with HistoryFile.open(path, max_rows=128) as history:
        assert (history.set_aside, history.damaged_rows) == (None, 0)
        assert len(history.keys()) == 100
        newest = history.newest_unix_minute
        assert newest is not None
        assert newest - NOW >= said - 1
        for row in (0, 99):  # one in each block; the second may lack the minute that was being written
            known = usage(history, row)
            minutes = [at for at in range(NOW, newest + 1) if at > newest - RING_MINUTES]
            assert list(known) in (minutes, minutes[:-1])
            # Above 4,096 the codec rounds up, by less than one in 2,048.
            assert all(at - NOW + row <= amount < (at - NOW + row) * (1 + 2**-11) + 1 for at, amount in known.items())
        assert history.append(minute(newest + 1, 100))


DISK_FULL = """
import logging, resource, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_file import BLOCK_BYTES, NOW, begin, key, minute, usage
from agent.core.history.minute.table import BLOCK_ROWS
from agent.core.recommender.policy import OutOfMemory
from agent.node.history.file import HistoryError

class Kept(logging.Handler):
    said = []
    def emit(self, record):
        self.said.append(record.levelname)
logging.getLogger("agent.node.history.file").addHandler(Kept())
logging.getLogger("agent.node.history.file").setLevel(logging.INFO)

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

history = begin(Path({path!r}), BLOCK_ROWS)
history.append(minute(NOW, BLOCK_ROWS, 1.0))
limit(4096)  # from here on no byte may be written past the header
history.append(minute(NOW + 1, BLOCK_ROWS, 2.0))
row = history.row_of(key("new"))
history.record_oom(row, OutOfMemory(unix_seconds=5.0, usage_bytes=7))
history.append(minute(NOW + 2, BLOCK_ROWS + 1, 3.0))
assert history.lost_minutes == 2, history.lost_minutes
assert "File too large: minutes are lost until it can be written" in history.trouble, history.trouble
assert Kept.said == ["WARNING"], Kept.said
assert history.newest_unix_minute == NOW + 2
try:
    history.save_state("vpa", {{"weights": __import__("numpy").zeros(4096)}})
except HistoryError as error:
    print(error)
limit(resource.RLIM_INFINITY)
history.append(minute(NOW + 3, BLOCK_ROWS + 1, 4.0))
assert history.trouble is None
assert Kept.said == ["WARNING", "INFO"], Kept.said
assert usage(history, 0) == {{NOW: 1.0, NOW + 3: 4.0}}, usage(history, 0)
assert usage(history, row) == {{NOW + 3: 4.0 + row}}, usage(history, row)
"""


@pytest.mark.slow
def test_full_disk_loses_minutes_says_so_once_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "history"
    process = child(DISK_FULL.format(tests=str(Path(__file__).parent), path=str(path)))
    said, _ = process.communicate()
    assert process.returncode == 0
    assert said == f"saved state {path}.vpa: File too large: the former one is still there\n"
    assert [file.name for file in tmp_path.iterdir()] == ["history"]
    with HistoryFile.open(path, max_rows=128) as history:
        row = history.keys()[key("new")]
        assert usage(history, row) == {NOW + 3: 4.0 + row}
        assert history.kills() == ((row, OutOfMemory(unix_seconds=5.0, usage_bytes=7)),)
        assert history.known().minutes[0] == 2


def test_device_without_room_gives_one_line_and_no_history() -> None:
    with pytest.raises(
        HistoryError, match=r"history file /dev/full: .*; allowed: a state directory to write in, or none"
    ):
        HistoryFile.open(Path("/dev/full"), max_rows=64)


@pytest.mark.slow
def test_seven_days_of_250_rows_are_within_16_mib_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with begin(path, 250, max_rows=250) as history:
        whole = minute(NOW, 250, 100.0)
        for number in range(NOW, NOW + DAYS_7 + 200):
            history.append(
                Minutes(
                    unix_minute=number,
                    cpu_usage_millicores=whole.cpu_usage_millicores,
                    cpu_peak_millicores=whole.cpu_peak_millicores,
                    has_cpu=whole.has_cpu,
                    working_set_bytes=whole.working_set_bytes,
                    has_memory=whole.has_memory,
                )
            )
    with path.open("r+b") as file:
        os.fsync(file.fileno())  # some file systems count blocks only then
    status = path.stat()
    # 4 blocks of 77,824 + 10,240 x 392 bytes, and the header.
    assert status.st_size == 4 * (77_824 + 10_240 * 392) + 4096 <= 16 * MIB
    assert status.st_blocks * 512 <= 16 * MIB


# -- state of policies -------------------------------------------------------------------------------------------------


def test_saved_state_is_matched_by_key_when_rows_have_moved(tmp_path: Path) -> None:
    with begin(tmp_path / "history", 3) as history:
        history.append(minute(NOW, 3))
        weights = np.arange(6.0).reshape(3, 2)
        history.save_state("vpa", {"weights": weights, "seen": np.array([True, False, True])})
        assert sorted(file.name for file in tmp_path.iterdir()) == ["history", "history.vpa"]
    flip(tmp_path / "history", key_row_offset(0))
    with HistoryFile.open(tmp_path / "history", max_rows=64) as history:
        assert history.row_of(key("other")) == 0
        state = history.load_state("vpa")
        assert not isinstance(state, str)
        assert state.newest_unix_minute == NOW
        assert state.saved_rows.tolist() == state.rows.tolist() == [1, 2]
        assert np.array_equal(state.arrays["weights"], weights)
        assert state.arrays["seen"].tolist() == [True, False, True]
    # Another history with the same keys, since the same time, in other rows.
    (tmp_path / "history").unlink()
    with HistoryFile.open(tmp_path / "history", max_rows=64) as history:
        for name in (2, "other", 0):
            history.row_of(key(name))
        state = history.load_state("vpa")
        assert not isinstance(state, str)
        assert (state.saved_rows.tolist(), state.rows.tolist()) == ([0, 2], [2, 0])


def test_saved_state_of_a_key_that_lost_its_row_meanwhile_is_not_matched(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with begin(path, BLOCK_ROWS, max_rows=BLOCK_ROWS) as history:
        history.append(minute(NOW, BLOCK_ROWS))
        history.save_state("vpa", {})
        for number, name in ((NOW + 1, "new"), (NOW + 2, 9)):
            history.append(only(number, BLOCK_ROWS, [row for row in range(BLOCK_ROWS) if row != 9]))
            assert history.row_of(key(name)) == 9
        state = history.load_state("vpa")
        assert not isinstance(state, str)
        assert state.rows.tolist() == [row for row in range(BLOCK_ROWS) if row != 9]


def test_state_saved_before_the_first_minute_says_that_there_was_none(tmp_path: Path) -> None:
    with HistoryFile.open(tmp_path / "history", max_rows=64) as history:
        history.save_state("vpa", {"weights": np.ones(2)})
        state = history.load_state("vpa")
        assert not isinstance(state, str)
        assert state.newest_unix_minute is None
        assert state.rows.size == state.saved_rows.size == 0


def damaged(content: bytes) -> bytes:
    return content[:100] + bytes([content[100] ^ 1]) + content[101:]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (None, r"there is none"),
        (lambda content: content[:10], r"truncated: 10 bytes"),
        (lambda content: content[:-1], r"damaged: its checksum is not that of its \d+ bytes"),
        (damaged, r"damaged"),
        (lambda content: b"PK\3\4abcd" + content[8:], r"not a saved state: it begins with b'PK"),
        (lambda content: content[:8] + struct.pack("<I", 7) + content[12:], r"version 7, this program reads 1"),
    ],
)
def test_saved_state_that_cannot_be_used_is_none_with_its_reason(tmp_path: Path, change: Any, reason: str) -> None:
    with begin(tmp_path / "history", 1) as history:
        history.save_state("vpa", {"weights": np.ones(100)})
        file = tmp_path / "history.vpa"
        if change is None:
            file.unlink()
        else:
            file.write_bytes(change(file.read_bytes()))
        state = history.load_state("vpa")
        assert isinstance(state, str)
        assert re.match(rf"saved state {file}: {reason}", state)
        history.save_state("vpa", {"weights": np.ones(1)})
        assert not isinstance(history.load_state("vpa"), str)


def test_unreadable_saved_state_is_none_with_its_reason(tmp_path: Path) -> None:
    with begin(tmp_path / "history", 1) as history:
        (tmp_path / "history.vpa").mkdir()
        state = history.load_state("vpa")
        assert isinstance(state, str)
        assert state.endswith("history.vpa: Is a directory")


def test_array_that_is_no_numbers_or_has_the_history_s_own_name_is_refused(tmp_path: Path) -> None:
    with begin(tmp_path / "history", 1) as history:
        with pytest.raises(ValueError, match="history_keys"):
            history.save_state("vpa", {"history_keys": np.ones(1)})
        objects: Any = np.array([{}], dtype=object)
        with pytest.raises(ValueError, match="Object arrays cannot be saved"):
            history.save_state("vpa", {"weights": objects})
        assert [file.name for file in tmp_path.iterdir()] == ["history"]


@pytest.mark.slow
def test_an_agent_that_finds_a_history_imports_no_masked_arrays(tmp_path: Path) -> None:
    with HistoryFile.open(tmp_path / "history", max_rows=8) as history:
        history.row_of(key("web"))
        history.append(minute(NOW, 1))
    program = """
import sys
from pathlib import Path
from agent.node.history.file import HistoryFile
import agent.node.daemon
with HistoryFile.open(Path(sys.argv[1]), max_rows=8) as history:
    print(history.newest_unix_minute, "numpy.ma" in sys.modules)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "history")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{NOW} False\n"
