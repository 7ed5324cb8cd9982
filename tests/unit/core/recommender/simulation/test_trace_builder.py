"""Rows as they come -> one grid of minutes, and the rule a wrong row breaks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.recommender.simulation import trace_builder
from agent.core.recommender.simulation.trace import TraceSet
from agent.core.recommender.simulation.trace_builder import TraceBuilder, TraceFault, TraceRows, TraceTooLargeError

START = 1_700_006_400
"""A full hour."""

Row = tuple[float, str, float | None, float | None, float | None]


def rows_of(rows: list[Row]) -> TraceRows:
    def column(place: int) -> Any:
        values = [row[place] for row in rows]
        return (
            np.array([0.0 if value is None else value for value in values], dtype=np.float64),
            np.array([value is not None for value in values], dtype=np.bool_),
        )

    (cpu, has_cpu), (memory, has_memory), (psi, has_psi) = (column(place) for place in (2, 3, 4))
    return TraceRows(
        time_seconds=np.array([row[0] for row in rows], dtype=np.float64),
        containers=[row[1] for row in rows],
        cpu_millicores=cpu,
        has_cpu=has_cpu,
        memory_bytes=memory,
        has_memory=has_memory,
        psi=psi,
        has_psi=has_psi,
    )


def row(minute: float, container: str = "a", cpu: Any = 1.0, memory: Any = 2.0, psi: Any = None) -> Row:
    return (START + 60 * minute, container, cpu, memory, psi)


def built(*pieces: list[Row]) -> TraceSet:
    builder = TraceBuilder("made")
    for piece in pieces:
        builder.add(rows_of(piece))
    return builder.build()


def column(trace: TraceSet, what: str, container: str = "a") -> list[float | None]:
    place = trace.containers.index(container)
    if what == "cpu":
        values, has = trace.cpu_millicores[:, place].tolist(), trace.has_cpu[:, place].tolist()
    else:
        values, has = trace.memory_bytes[:, place].tolist(), trace.has_memory[:, place].tolist()
    return [value if there else None for value, there in zip(values, has, strict=True)]


def test_rows_of_each_minute_stand_in_the_grid() -> None:
    trace = built([row(0, "a", 1.0), row(0, "b", 5.0), row(1, "a", 2.0), row(1, "b", 6.0)])

    assert (trace.containers, trace.start_unix_minute, trace.minutes) == (("a", "b"), START // 60, 2)
    assert (column(trace, "cpu", "a"), column(trace, "cpu", "b")) == ([1.0, 2.0], [5.0, 6.0])
    assert (trace.psi, trace.notes, trace.pod_containers) == (None, (), None)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_rows_sorted_by_container_come_out_the_same_in_pieces_of_any_size(size: int) -> None:
    # The second container begins earlier and ends later than the first: the grid grows on both sides.
    rows = [row(minute, "a", 10.0 + minute) for minute in range(3, 6)]
    rows += [row(minute, "b", 20.0 + minute) for minute in range(9)]
    rows += [row(minute, "c", 30.0 + minute) for minute in (4, 5)]

    trace = built(*[rows[at : at + size] for at in range(0, len(rows), size)])

    assert (trace.start_unix_minute, trace.minutes) == (START // 60, 9)
    assert column(trace, "cpu", "a") == [None] * 3 + [13.0, 14.0, 15.0] + [None] * 3
    assert column(trace, "cpu", "b") == [20.0 + minute for minute in range(9)]
    assert column(trace, "cpu", "c") == [None] * 4 + [34.0, 35.0] + [None] * 3


def test_rows_of_one_minute_give_the_mean_of_cpu_and_the_largest_memory() -> None:
    trace = built(
        [row(0, cpu=100.0, memory=10.0, psi=0.2), row(0.25, cpu=200.0, memory=30.0, psi=0.4)],
        [row(0.5, cpu=600.0, memory=20.0, psi=0.6), row(0.75, cpu=None, memory=None)],
    )
    assert (column(trace, "cpu"), column(trace, "memory")) == ([300.0], [30.0])
    assert trace.psi is not None
    assert trace.psi[0, 0] == pytest.approx(0.4)


def test_memory_is_rounded_up_to_whole_bytes() -> None:
    assert column(built([row(0, memory=10.2)]), "memory") == [11.0]


def test_rows_every_five_minutes_hold_for_five() -> None:
    trace = built([row(0, cpu=1.0), row(5, cpu=2.0), row(10, cpu=3.0)])

    assert column(trace, "cpu") == [1.0] * 5 + [2.0] * 5 + [3.0] * 5
    (note,) = trace.notes
    assert "5 min (1 containers)" in note


def test_row_before_a_pause_of_twice_the_usual_interval_holds_until_the_next() -> None:
    trace = built([row(0, cpu=1.0), row(5, cpu=2.0), row(15, cpu=3.0), row(20, cpu=4.0)])
    assert column(trace, "cpu") == [1.0] * 5 + [2.0] * 10 + [3.0] * 5 + [4.0] * 5


def test_longer_pause_is_a_gap_after_the_usual_interval() -> None:
    trace = built([row(0, cpu=1.0), row(5, cpu=2.0), row(16, cpu=3.0), row(21, cpu=4.0)])
    assert column(trace, "cpu") == [1.0] * 5 + [2.0] * 5 + [None] * 6 + [3.0] * 5 + [4.0] * 5


def test_empty_value_is_a_gap_while_its_row_holds() -> None:
    trace = built([row(0, cpu=1.0), row(5, cpu=None), row(10, cpu=3.0)])
    assert column(trace, "cpu") == [1.0] * 5 + [None] * 5 + [3.0] * 5
    assert column(trace, "memory") == [2.0] * 15


def test_one_missing_minute_is_held_over_and_two_are_a_gap() -> None:
    trace = built([row(minute, cpu=float(minute)) for minute in (0, 1, 3, 4, 7, 8)])
    assert column(trace, "cpu") == [0.0, 1.0, 1.0, 3.0, 4.0, None, None, 7.0, 8.0]


def test_containers_with_different_intervals_each_keep_their_own() -> None:
    trace = built([row(0, "a"), row(0, "b"), row(1, "a"), row(2, "a"), row(2, "b"), row(4, "b")])
    assert column(trace, "cpu", "a") == [1.0, 1.0, 1.0, None, None, None]
    assert column(trace, "cpu", "b") == [1.0] * 6


@pytest.mark.parametrize(
    ("rows", "note"),
    [
        ([row(0, memory=None)], "it tells of no memory"),
        ([row(0, cpu=None)], "it tells of no CPU"),
        ([row(0, psi=0.5), row(1)], "psi is empty in 1 rows with CPU: taken as 0"),
    ],
)
def test_what_is_not_there_is_noted(rows: list[Row], note: str) -> None:
    assert built(rows).notes == (note,)


def test_containers_share_a_pod_when_their_names_say_so() -> None:
    trace = built([row(0, name) for name in ("ns/pod/app", "ns/pod/proxy", "ns/other/app", "loose")])
    assert trace.pod_containers is not None
    assert trace.pod_containers.tolist() == [2, 2, 1, 1]


def test_no_rows_are_no_trace() -> None:
    builder = TraceBuilder("made")
    builder.add(rows_of([]))
    with pytest.raises(ValueError, match="holds nothing"):
        builder.build()


@pytest.mark.parametrize(
    ("rows", "index", "column", "rule"),
    [
        ([row(0), (float("nan"), "a", 1.0, 1.0, None)], 1, "time", "nan is not finite"),
        ([(-1.0, "a", 1.0, 1.0, None)], 0, "time", "-1 is negative"),
        ([row(0), (START * 1000.0, "a", 1.0, 1.0, None)], 1, "time", "1700006400000 is in milliseconds or finer"),
        ([row(0), (5.0, "a", 1.0, 1.0, None)], 1, "time", "5 comes after 1700006400 for container 'a'"),
        ([row(0), (5.0, "b", 1.0, 1.0, None)], 1, "time", "5 lies years away from the rows before"),
        ([row(0), row(1), row(1)], 2, "time", "1700006460 stands twice for container 'a'"),
        ([row(0), row(0, " ")], 1, "container", "' ' is empty"),
        ([row(0, "x" * 1025)], 0, "container", "is too long; allowed: 1024 characters"),
        ([row(0, "a\x1b[2J")], 0, "container", "cannot be printed"),
        ([row(0, cpu=float("inf"))], 0, "cpu_millicores", "inf is not finite"),
        ([row(0), row(1, cpu=-0.5)], 1, "cpu_millicores", "-0.5 is negative; allowed: millicores from 0 to 1000000000"),
        ([row(0, cpu=2e9)], 0, "cpu_millicores", "2000000000 is too large"),
        ([row(0, memory=float("nan"))], 0, "memory_bytes", "nan is not finite"),
        ([row(0, memory=-1.0)], 0, "memory_bytes", "-1 is negative"),
        ([row(0, memory=1e17)], 0, "memory_bytes", "1e+17 is too large; allowed: bytes from 0 to 9007199254740992"),
        ([row(0, psi=12.5)], 0, "psi", "12.5 is too large; allowed: a ratio from 0 to 1"),
        ([row(0, psi=-0.1)], 0, "psi", "-0.1 is negative"),
        # the first row that is wrong is told, whatever is wrong with later ones
        ([row(0), row(1, cpu=-1.0), row(0)], 1, "cpu_millicores", "-1 is negative"),
        ([row(1), row(0), row(2, cpu=-1.0)], 1, "time", "comes after"),
    ],
)
def test_wrong_row_is_told_by_its_place_column_and_rule(rows: list[Row], index: int, column: str, rule: str) -> None:
    with pytest.raises(TraceFault) as fault:
        built(rows)
    assert (fault.value.index, fault.value.column) == (index, column)
    assert rule in fault.value.rule


def test_order_is_watched_over_pieces() -> None:
    builder = TraceBuilder("made")
    builder.add(rows_of([row(0), row(1), row(0, "b")]))
    with pytest.raises(TraceFault, match="stands twice") as fault:
        builder.add(rows_of([row(1, "b"), row(1)]))
    assert fault.value.index == 1


def test_years_are_watched_over_pieces() -> None:
    builder = TraceBuilder("made")
    builder.add(rows_of([row(0)]))
    with pytest.raises(TraceFault, match="years away") as fault:
        builder.add(rows_of([row(1), row(11 * 366 * 1440)]))
    assert fault.value.index == 1


def test_grid_that_would_not_fit_into_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_builder, "MAX_CELLS", 20)
    with pytest.raises(TraceTooLargeError, match="21 minutes of 1 containers are more than 20 container-minutes"):
        built([row(0), row(20)])


@given(
    st.lists(
        st.tuples(
            st.integers(0, 40),
            st.sampled_from("abc"),
            st.none() | st.floats(0, 1e6, width=32),
            st.none() | st.integers(0, 1 << 40),
        ),
        max_size=60,
        unique_by=lambda fields: fields[:2],
    ).map(sorted),
    st.integers(1, 20),
)
def test_every_row_of_a_grid_of_minutes_is_in_it(rows: list[tuple[int, str, float, int]], size: int) -> None:
    given_rows = [row(*fields) for fields in rows]
    if not given_rows:
        return
    trace = built(*[given_rows[at : at + size] for at in range(0, len(given_rows), size)])
    for minute, name, cpu, memory in rows:
        place = minute - (trace.start_unix_minute - START // 60)
        assert column(trace, "cpu", name)[place] == cpu
        assert column(trace, "memory", name)[place] == memory
