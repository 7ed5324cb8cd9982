"""core/history/minute/table.py: which row stands for which key, and how much is known of it."""

from __future__ import annotations

import numpy as np
import pytest

from agent.core.history.minute.key import HistoryKey, KeyKind
from agent.core.history.minute.minutes import OutOfMemory
from agent.core.history.minute.table import (
    BLOCK_ROWS,
    KILL_SECONDS_KEPT,
    KILLS_KEPT,
    RING_MINUTES,
    HistoryTable,
    KeyRow,
)
from agent.core.numbers.arrays import Bools

MIB = 1 << 20


def key(name: object) -> HistoryKey:
    return HistoryKey(KeyKind.CGROUP, (f"/{name}",))


def full_table(newest: int | None = None) -> HistoryTable:
    """Return a table of one block whose rows 0 to 63 stand for the keys 0 to 63."""
    table = HistoryTable()
    for number in range(BLOCK_ROWS):
        assert table.adopt(key(number), newest, max_rows=BLOCK_ROWS) == number
    return table


def known(table: HistoryTable, *rows: int) -> Bools:
    mask = np.zeros((1, table.rows), dtype=np.bool_)
    mask[0, list(rows)] = True
    return mask


def test_first_key_makes_a_block_and_gets_its_first_row() -> None:
    table = HistoryTable()
    assert table.find(key("a")) is None
    assert table.adopt(key("a"), None, max_rows=BLOCK_ROWS) == 0
    assert table.find(key("a")) == 0
    assert (table.rows, dict(table.keys())) == (BLOCK_ROWS, {key("a"): 0})
    assert table.changed() == [(0, KeyRow(key=key("a"), since_unix_minute=0))]
    table.is_saved(0)
    assert table.changed() == []
    assert table.take_reused().size == 0


def test_key_after_the_last_free_row_makes_another_block_while_there_may_be_one() -> None:
    table = full_table()
    assert table.adopt(key("new"), None, max_rows=2 * BLOCK_ROWS) == BLOCK_ROWS
    assert table.rows == 2 * BLOCK_ROWS


def test_row_longest_without_data_is_reused_when_there_may_be_no_more() -> None:
    table = full_table()
    everyone = tuple(range(BLOCK_ROWS))
    table.learn(1000, known(table, *everyone))
    table.learn(1001, known(table, *(row for row in everyone if row not in (5, 9))))
    table.learn(1002, known(table, *(row for row in everyone if row != 9)))
    # Row 9 has had nothing since 1000; row 5 was without data once and has it again.
    assert table.adopt(key("new"), 1002, max_rows=BLOCK_ROWS) == 9
    assert table.take_reused().tolist() == [9]
    assert table.take_reused().size == 0
    assert table.find(key(9)) is None
    assert table.since[9] == 1003
    assert table.known().minutes[9] == 0
    assert table.entries[9] == KeyRow(key=key("new"), since_unix_minute=1003)


def test_no_row_is_taken_from_a_key_with_data_in_the_newest_minute() -> None:
    table = full_table()
    table.learn(1000, known(table, *range(BLOCK_ROWS)))
    assert table.adopt(key("new"), 1000, max_rows=BLOCK_ROWS) is None
    assert HistoryTable().adopt(key("new"), None, max_rows=BLOCK_ROWS - 1) is None


def test_row_given_just_now_is_not_given_to_the_next_key() -> None:
    table = full_table(newest=1000)
    assert table.adopt(key("new"), 1000, max_rows=BLOCK_ROWS) is None
    # A minute later all but row 3 have data; it has had its chance.
    table.learn(1001, known(table, *(row for row in range(BLOCK_ROWS) if row != 3)))
    assert table.adopt(key("new"), 1001, max_rows=BLOCK_ROWS) == 3


def test_row_of_which_the_ring_holds_nothing_goes_before_a_new_block() -> None:
    table = full_table()
    table.learn(1000, known(table, *range(BLOCK_ROWS)))
    newest = 1000 + RING_MINUTES
    table.learn(newest, known(table, *range(1, BLOCK_ROWS)))
    assert table.adopt(key("new"), newest - 1, max_rows=2 * BLOCK_ROWS) == BLOCK_ROWS
    table = full_table()
    table.learn(1000, known(table, *range(BLOCK_ROWS)))
    table.learn(newest, known(table, *range(1, BLOCK_ROWS)))
    assert table.adopt(key("new"), newest, max_rows=2 * BLOCK_ROWS) == 0


def test_block_from_a_file_gives_its_entries_back_and_frees_the_rest() -> None:
    table = HistoryTable()
    entries: list[KeyRow | None] = [None] * BLOCK_ROWS
    entries[3] = KeyRow(key=key("a"), since_unix_minute=500)
    entries[4] = KeyRow(key=key("a"), since_unix_minute=600)  # no program writes a key twice
    table.add_block(entries)
    assert dict(table.keys()) == {key("a"): 3}
    assert table.since[3] == 500
    assert table.since[4] > 2**31
    assert [table.adopt(key(name), 700, max_rows=64) for name in "bcde"] == [0, 1, 2, 4]
    assert table.changed()[0][1].since_unix_minute == 701


def test_free_rows_of_earlier_blocks_go_first() -> None:
    table = HistoryTable()
    table.add_block([None] * BLOCK_ROWS)
    table.add_block([None] * BLOCK_ROWS)
    rows = [table.adopt(key(number), None, max_rows=128) for number in range(128)]
    assert rows == list(range(128))


def test_known_minutes_are_counted_and_the_oldest_named() -> None:
    table = full_table()
    mask = np.zeros((4, BLOCK_ROWS), dtype=np.bool_)
    mask[[0, 2], 7] = True
    mask[3, 8] = True
    table.learn(1000, mask)
    table.learn(1004, known(table, 7), is_kept=False)
    assert table.known().minutes[[6, 7, 8]].tolist() == [0, 2, 1]
    assert table.known().first_unix_minute[[6, 7, 8]].tolist() == [0, 1000, 1003]


def test_minutes_that_leave_the_ring_are_counted_out() -> None:
    table = full_table()
    mask = np.zeros((4, BLOCK_ROWS), dtype=np.bool_)
    mask[:, 7] = True
    table.learn(1000, mask)
    table.unlearn(1002, mask[:2])
    assert table.known().minutes[7] == 2
    assert table.known().first_unix_minute[[6, 7]].tolist() == [0, 1002]
    table.unlearn(1004, mask)  # one too many, as when the file did not keep a minute
    assert table.known().minutes[7] == 0
    assert table.known().first_unix_minute[7] == 0


def test_kills_are_kept_oldest_first_and_written_again() -> None:
    table = full_table()
    for row in range(BLOCK_ROWS):
        table.is_saved(row)
    table.keep_kill(2, OutOfMemory(unix_seconds=20.0, usage_bytes=1))
    table.keep_kill(2, OutOfMemory(unix_seconds=10.0, usage_bytes=2))
    ((row, entry),) = table.changed()
    assert row == 2
    assert [kill.unix_seconds for kill in entry.kills] == [10.0, 20.0]


def test_of_more_kills_than_can_be_kept_the_smallest_goes() -> None:
    table = full_table()
    # What is known tells the size: 3 and 5 are the smallest, by their limit and their request.
    for number in range(KILLS_KEPT):
        table.keep_kill(2, OutOfMemory(unix_seconds=100.0 + number, usage_bytes=(10 + number) * MIB))
    table.keep_kill(2, OutOfMemory(unix_seconds=200.0, limit_bytes=3 * MIB))
    table.keep_kill(2, OutOfMemory(unix_seconds=201.0, request_bytes=5 * MIB))
    table.keep_kill(2, OutOfMemory(unix_seconds=202.0))
    table.keep_kill(2, OutOfMemory(unix_seconds=203.0, usage_bytes=11 * MIB))
    entry = table.entries[2]
    assert entry is not None
    # 17 with 10 to 25 MiB and another 11: the one of 10 MiB at 100 s goes too.
    assert [kill.unix_seconds for kill in entry.kills] == [*(100.0 + number for number in range(1, KILLS_KEPT)), 203.0]


def test_kill_older_than_any_policy_remembers_goes_first() -> None:
    table = full_table()
    table.keep_kill(2, OutOfMemory(unix_seconds=0.0, usage_bytes=100 * MIB))
    table.keep_kill(2, OutOfMemory(unix_seconds=KILL_SECONDS_KEPT, usage_bytes=MIB))
    entry = table.entries[2]
    assert entry is not None
    assert [kill.usage_bytes for kill in entry.kills] == [MIB]


@pytest.mark.parametrize("row", [-1, 1, BLOCK_ROWS])
def test_kill_of_a_row_that_stands_for_nobody_is_refused(row: int) -> None:
    table = HistoryTable()
    table.adopt(key("a"), None, max_rows=BLOCK_ROWS)
    with pytest.raises(ValueError, match=rf"row {row} of the history stands for nobody"):
        table.keep_kill(row, OutOfMemory(unix_seconds=1.0))
