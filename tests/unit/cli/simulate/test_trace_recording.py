"""Raw readings on a grid of seconds, derived by hand."""

from __future__ import annotations

import numpy as np

from agent.cli.simulate.trace_recording import ReadingGrid
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import Status
from tests.window_rows import NS, sample, steady

POLICY = WindowPolicy(capacity_millicores=4000)


def readings(cells: int, first_cell: int = 1000) -> ReadingGrid:
    return ReadingGrid(POLICY, NS, first_cell, (cells, 2))


def told(grid: ReadingGrid, column: int = 1) -> list[float | None]:
    rates, has = grid.rates()
    return [
        round(float(rate), 1) if there else None for rate, there in zip(rates[:, column], has[:, column], strict=True)
    ]


def test_readings_between_seconds_are_spread_over_both() -> None:
    grid = readings(4)
    # 100 m until 1001.5, then 300 m: half of the second cell each.
    rows = [sample(1000.5, 0), sample(1001.5, 100_000), sample(1002.5, 400_000), sample(1003.5, 700_000)]
    grid.add(7, 1, np.concatenate(rows))
    # Of the first cell and of the last one half is known, which is enough.
    assert told(grid) == [100.0, 200.0, 300.0, 300.0]
    assert told(grid, 0) == [None] * 4


def test_pieces_join_where_one_ends_and_a_failed_reading_does_not_spoil_it() -> None:
    grid = readings(4)
    grid.add(7, 1, np.concatenate([sample(1000, 0), sample(1001, 100_000), sample(1001.5, status=Status.IO)]))
    grid.add(7, 1, np.concatenate([sample(1002, 300_000), sample(1003, 600_000), sample(1004, 1_000_000)]))
    assert told(grid) == [100.0, 200.0, 300.0, 400.0]


def test_gap_between_readings_is_a_gap_of_seconds() -> None:
    grid = readings(12)
    grid.add(7, 1, np.concatenate([sample(1000, 0), sample(1001, 100_000), sample(1009, 900_000)]))
    grid.add(7, 1, sample(1010, 1_000_000))
    assert told(grid) == [100.0] + [None] * 8 + [100.0] + [None] * 2


def test_container_that_started_anew_goes_on_in_its_column() -> None:
    grid = readings(4)
    grid.add(7, 1, steady(range(1000, 1003), 100.0))
    grid.add(8, 1, steady(range(1002, 1005), 200.0))
    assert told(grid) == [100.0, 100.0, 200.0, 200.0]


def test_readings_outside_the_minutes_and_single_ones_are_left_out() -> None:
    grid = readings(2)
    grid.add(7, 1, steady(range(990, 996), 100.0))
    grid.add(8, 1, steady(range(1005, 1010), 100.0))
    grid.add(9, 0, sample(1000, 5))
    grid.add(10, 0, sample(1000, 5, status=Status.GONE))
    assert told(grid) == [None, None]
    grid.add(7, 1, steady(range(997, 1010), 100.0, usage0=600_000))
    assert told(grid) == [100.0, 100.0]
