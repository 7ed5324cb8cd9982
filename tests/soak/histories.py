"""Whether the histories of node and cluster are whole: what the agent's file and the webhook's database tell."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from agent.node.history.file import HistoryFile


def missing_minutes(minutes: Sequence[int]) -> list[int]:
    """Return how many minutes are missing in each gap of a row's minutes, which rise."""
    return [later - earlier - 1 for earlier, later in pairwise(minutes) if later - earlier > 1]


def why_not_whole(
    minutes: Sequence[int], *, lived_minutes: float, lost_minutes: float, jumps_minutes: Sequence[int]
) -> str | None:
    """Return why the minutes known of a pod are too few or too far apart; None = they are whole.

    Args:
        minutes: Known ones, rising.
        lived_minutes: How long it ran beside an agent.
        lost_minutes: Minutes in which the agent was away, or had no disk to write to.
        jumps_minutes: By how much the wall clock was set forwards: a start of the agent may follow, and leave a gap.
    """
    gaps = sorted(missing_minutes(minutes), reverse=True)
    jumps = sorted(jumps_minutes, reverse=True)
    while gaps and jumps and gaps[0] <= jumps[0] + lost_minutes + 1 and gaps[0] > lost_minutes:
        gaps.pop(0)
        jumps.pop(0)
    if gaps and gaps[0] > lost_minutes:
        return f"a gap of {gaps[0]} minutes, where {lost_minutes:.1f} were lost in all"
    # The first and the last are no whole minutes.
    least = lived_minutes - lost_minutes - 2.0
    if len(minutes) < least:
        return f"{len(minutes)} minutes are known of {lived_minutes:.1f}, {lost_minutes:.1f} of which were lost"
    return None


def node_history(file: Path) -> tuple[Mapping[str, list[int]], str | None]:
    """Read a node's history: the minutes with CPU known of each key, and what is damaged.

    Raises:
        HistoryError: It cannot be read.
    """
    with HistoryFile.open_readonly(file) as history:
        minutes_by_key = {}
        for key, row in history.keys().items():
            known = history.minutes(row)
            minutes_by_key[str(key)] = known.unix_minutes[known.has_cpu].tolist()
        return minutes_by_key, history.damage


def database_fault(file: Path) -> str | None:
    """Return what SQLite finds wrong with a database; None = nothing."""
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        answers = [row[0] for row in database.execute("PRAGMA integrity_check")]
    return None if answers == ["ok"] else f"{file.name}: {'; '.join(answers)[:300]}"
