"""Gaps of a history are told from those that the day explains."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np

from agent.core.history.minute.key import parse_history_key
from agent.core.history.minute.minutes import Minutes
from agent.node.history.file import HistoryFile
from tests.soak.histories import database_fault, missing_minutes, node_history, why_not_whole

WHOLE = list(range(100, 160))


def whole(minutes: list[int], *, lost_minutes: float = 2.0, jumps: tuple[int, ...] = ()) -> str | None:
    return why_not_whole(minutes, lived_minutes=60.5, lost_minutes=lost_minutes, jumps_minutes=jumps)


def test_a_history_without_gaps_is_whole_and_so_is_one_that_lacks_what_was_lost() -> None:
    assert missing_minutes(WHOLE) == []
    assert whole(WHOLE) is None
    lacking = [minute for minute in WHOLE if minute not in (120, 121)]
    assert missing_minutes(lacking) == [2]
    assert whole(lacking) is None


def test_a_gap_that_nothing_explains_is_told() -> None:
    assert "a gap of 3 minutes" in str(whole([minute for minute in WHOLE if minute not in (120, 121, 122)]))


def test_a_clock_that_was_set_forwards_leaves_a_gap_of_its_own_once() -> None:
    jumped = [*range(100, 120), *range(180, 220)]
    assert whole(jumped, jumps=(60,)) is None
    assert "a gap of 60 minutes" in str(whole(jumped))
    twice = [*range(100, 120), *range(180, 200), *range(260, 280)]
    assert "a gap of 60 minutes" in str(whole(twice, jumps=(60,)))


def test_a_history_that_begins_late_is_too_short() -> None:
    assert "40 minutes are known of 60.5" in str(whole(WHOLE[20:]))


def test_a_nodes_history_is_read_by_key(tmp_path: Path) -> None:
    key, minutes = "workload:soak/Deployment/web/app", [29_000_000, 29_000_001, 29_000_003]
    with HistoryFile.open(tmp_path / "history", max_rows=64) as history:
        row = history.row_of(parse_history_key(key))
        for minute in minutes:
            known = np.zeros(row + 1, dtype=bool)
            known[row] = True
            amounts = np.where(known, 50.0, 0.0)
            history.append(
                Minutes(
                    unix_minute=minute,
                    cpu_usage_millicores=amounts,
                    cpu_peak_millicores=amounts,
                    has_cpu=known,
                    working_set_bytes=amounts,
                    has_memory=np.zeros(row + 1, dtype=bool),
                )
            )
    assert node_history(tmp_path / "history") == ({key: minutes}, None)


def test_a_sound_database_has_no_fault(tmp_path: Path) -> None:
    file = tmp_path / "webhook.db"
    with sqlite3.connect(file) as database:
        database.execute("create table reports (id integer)")
    database.close()
    assert database_fault(file) is None
