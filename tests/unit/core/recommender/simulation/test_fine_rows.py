"""Rows of seconds: when a trace has them, and how they agree with its minutes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agent.core.recommender.simulation import fine_rows
from agent.core.recommender.simulation.fine_rows import agreed, row_seconds_of
from agent.core.recommender.simulation.trace import TraceSet
from tests.unit.core.recommender.simulation.test_trace_builder import START, Row, built


def rows(step: float, count: int, cpu: Any, container: str = "a", first: float = 0.0) -> list[Row]:
    """Give rows at a steady distance; ``cpu`` tells the value at a second since the start."""
    return [(START + first + step * index, container, cpu(first + step * index), None, None) for index in range(count)]


def fine_of(trace: TraceSet, column: int = 0) -> list[float | None]:
    assert trace.fine is not None
    values, has = trace.fine.cpu_millicores[:, column].tolist(), trace.fine.has_cpu[:, column].tolist()
    return [value if there else None for value, there in zip(values, has, strict=True)]


@pytest.mark.parametrize(
    ("usual", "step"),
    [(0.1, 1), (1.0, 1), (1.4, 1), (1.98, 2), (7, 6), (10, 10), (29.9, 30), (44.9, 30), (45, None), (60, None)],
)
def test_step_is_a_divisor_of_a_minute(usual: float, step: int | None) -> None:
    assert row_seconds_of(usual) == step


def test_rows_of_seconds_stand_beside_the_minutes() -> None:
    trace = built(sorted(rows(1, 180, lambda at: at) + rows(1, 180, lambda at: 5.0, "b")))

    assert trace.rows_per_minute == 60
    assert fine_of(trace, trace.containers.index("a")) == [float(at) for at in range(180)]
    # 0 + 1 + ... + 59 over 60
    assert trace.cpu_millicores[0, trace.containers.index("a")] == 29.5


def test_rows_come_in_pieces_of_any_size() -> None:
    every = rows(2, 200, lambda at: at)
    assert fine_of(built(*[every[at : at + 7] for at in range(0, 200, 7)])) == fine_of(built(every))


def test_several_rows_of_a_second_are_their_mean_and_rows_further_apart_hold() -> None:
    twice = built(rows(0.5, 240, lambda at: 100.0 if at % 1 else 300.0))
    assert fine_of(twice) == [200.0] * 120
    # Every seven seconds on a grid of six: a cell without a row has the row's before.
    sparse = fine_of(built(rows(7, 40, lambda at: at)))
    assert sparse[:9] == [0.0, 7.0, 14.0, 21.0, 28.0, 35.0, 35.0, 42.0, 49.0]


def test_gap_of_seconds_is_a_gap() -> None:
    every = [row for row in rows(1, 180, lambda at: 10.0) if not 20 <= row[0] - START < 25]
    empty: list[Row] = [
        (time, name, None if 60 <= time - START < 63 else cpu, None, None) for time, name, cpu, _, _ in every
    ]
    fine = fine_of(built(empty))
    assert [at for at, value in enumerate(fine) if value is None] == [20, 21, 22, 23, 24, 60, 61, 62]


def test_rows_of_minutes_have_no_finer_ones() -> None:
    assert built(rows(60, 10, lambda at: at)).fine is None
    assert built(rows(57, 10, lambda at: at)).fine is None
    assert built(rows(300, 10, lambda at: at)).fine is None
    assert built(rows(300, 10, lambda at: at)).row_minutes == 5
    # Not enough of it to be told by its minutes, but by its rows' distance.
    assert built(rows(50, 2, lambda at: at)).fine is None
    assert built([(START, "a", 1.0, None, None)]).fine is None


def test_container_with_a_row_a_minute_among_others_of_seconds_has_its_minutes() -> None:
    trace = built(sorted(rows(1, 240, lambda at: 1.0) + rows(60, 4, lambda at: at, "b", first=30.0)))
    fine = fine_of(trace, trace.containers.index("b"))
    # Its rows stand for their minutes, as those have a value and none of its seconds before the row does.
    assert len(fine) == 240
    assert None not in fine[30:]


def test_too_many_rows_are_judged_as_minutes_and_that_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fine_rows, "MAX_FINE_CELLS", 200)
    # 100 rows of two seconds, with a pause: more cells than rows.
    long = built(rows(2, 60, lambda at: 1.0) + rows(2, 40, lambda at: 1.0, first=400.0))
    assert long.fine is None
    assert [note for note in long.notes if "judged as minutes" in note] == [
        "its rows of 2 s are judged as minutes: 240 of 1 containers are more than 200, which is all that is held at "
        "once; split the trace"
    ]
    assert built(rows(1, 300, lambda at: 1.0)).fine is None


def test_rows_agree_with_their_minutes() -> None:
    minute_cpu = np.array([[5.0], [6.0], [0.0]], np.float32)
    minute_has = np.array([[True], [True], [False]])
    cpu = np.array([[4.0], [6.0], [0.0], [0.0], [9.0], [9.0]], np.float32)
    fine = agreed(cpu, np.array([[True], [False], [False], [False], [True], [True]]), minute_cpu, minute_has)

    # The first minute is known by half, the second by its mean alone, the third not at all.
    assert fine.rows_per_minute == 2
    assert fine.cpu_millicores[:, 0].tolist() == [4.0, 0.0, 6.0, 6.0, 0.0, 0.0]
    assert fine.has_cpu[:, 0].tolist() == [True, False, True, True, False, False]
