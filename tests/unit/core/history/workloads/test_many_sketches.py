from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.history.reports.rollup import RollupRow
from agent.core.history.workloads import many_sketches
from agent.core.history.workloads.hour_sketch import HourSketch, ReportInterval
from agent.core.history.workloads.many_sketches import BLOCK, ManySketches
from agent.core.history.workloads.row_columns import RowColumns
from tests.examples import examples
from tests.unit.core.history.workloads.test_hour_sketch import HOUR, rows_seen
from tests.webhook.workload_reports import MIB, NOON, row

Seen = tuple[RollupRow, ReportInterval, int]
NOW = ReportInterval(start_unix_seconds=NOON, end_unix_seconds=NOON + 300, unix_hour=HOUR)


def added(pieces: Sequence[Sequence[tuple[int, Seen]]]) -> dict[int, HourSketch]:
    """Add rows piece by piece; a number that no row has stands for an empty sketch."""
    sketches = ManySketches()
    for piece in pieces:
        sketches.add(
            RowColumns.of([row for _, (row, _, _) in piece]),
            [interval for _, (_, interval, _) in piece],
            [node for _, (_, _, node) in piece],
            [number for number, _ in piece],
        )
    return dict(pair for block in sketches.take() for pair in block)


def expected(pieces: Sequence[Sequence[tuple[int, Seen]]]) -> dict[int, HourSketch]:
    plain: dict[int, HourSketch] = defaultdict(HourSketch)
    for piece in pieces:
        for number, seen in piece:
            plain[number].add(*seen)
    for number in range(max(plain, default=-1)):
        plain[number]
    return dict(plain)


requests = st.none() | st.integers(0, 3000) | st.sampled_from([-1, 10**9, 1 << 44, 1 << 60])


@st.composite
def rows_with_requests(draw: st.DrawFn) -> Seen:
    rollup, interval, node = draw(rows_seen())
    rollup = replace(
        rollup,
        cpu_request_millicores=draw(requests),
        memory_request_bytes=draw(requests),
        covered_seconds=draw(st.sampled_from([300.0, 0.0, 17.25, 1e8])),
    )
    return rollup, interval, node


pieces_of_rows = st.lists(st.lists(st.tuples(st.integers(0, 3), rows_with_requests()), max_size=6), max_size=4)


@examples(100)
@given(pieces_of_rows)
def test_arrays_give_what_rows_added_one_by_one_give(pieces: list[list[tuple[int, Seen]]]) -> None:
    assert added(pieces) == expected(pieces)


@examples(50)
@given(pieces_of_rows)
def test_it_does_not_matter_when_what_waits_is_sorted_in(pieces: list[list[tuple[int, Seen]]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many_sketches, "_LEAST_ENTRIES", 3)
        patch.setattr(many_sketches, "_LEAST_PODS", 1)
        assert added(pieces) == expected(pieces)


def test_sketches_of_many_blocks_keep_apart() -> None:
    numbers = [0, 1, BLOCK - 1, BLOCK, 3 * BLOCK + 5]
    piece = [(number, (row(cpu=float(number + 1), pod=f"p{number}"), NOW, number + 1)) for number in numbers]
    by_number = added([piece, piece[::-1]])
    assert len(by_number) == 3 * BLOCK + 6
    assert {number: sketch for number, sketch in by_number.items() if sketch.rows} == {
        number: sketch for number, sketch in expected([piece, piece]).items() if sketch.rows
    }


def test_of_more_pods_than_are_kept_the_same_are_kept_in_whatever_pieces_they_come() -> None:
    seen = [(pod % 2, (row(cpu=float(pod), memory=pod * MIB, pod=f"pod-{pod}"), NOW, 1 + pod % 3)) for pod in range(60)]
    assert added([seen]) == added([seen[:7], seen[7:31], seen[31:]]) == expected([seen])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many_sketches, "_LEAST_PODS", 1)
        assert added([seen[start : start + 5] for start in range(0, 60, 5)]) == expected([seen])


def test_amounts_without_room_in_an_array_count_all_the_same() -> None:
    huge = row(cpu=100.0, memory=1e19)
    assert huge.memory is not None
    counted = replace(huge, memory=replace(huge.memory, count=1 << 63, buckets={269: 1 << 63}))
    pieces = [[(0, (huge, NOW, 1)), (0, (row(), NOW, 2)), (1, (counted, NOW, 1)), (0, (huge, NOW, 3))]]
    assert added(pieces) == expected(pieces)
    assert added(pieces)[0].memory.total == 2 * 10**19 + 64 * MIB


def test_rows_that_are_in_no_array_alone_and_rows_without_samples_count() -> None:
    killed, bare = row(kills=[(1.0, 64 * MIB)]), replace(row(), cpu=None, cpu_adjusted=None, memory=None)
    for pieces in ([[(0, (killed, NOW, 1))]], [[(0, (bare, NOW, 1))]]):
        assert added(pieces) == expected(pieces)


def test_none_or_no_rows_are_nothing() -> None:
    assert added([]) == added([[]]) == {}


def test_there_is_room_until_sums_might_not_fit() -> None:
    sketches = ManySketches()
    columns = RowColumns.of([row()] * 40_000)
    for _ in range(2):
        assert sketches.has_room
        sketches.add(columns, [NOW] * 40_000, [1] * 40_000, [0] * 40_000)
    assert not sketches.has_room
    (((_, sketch),),) = sketches.take()
    assert (sketch.rows, sketch.memory.total) == (80_000, 80_000 * 64 * MIB)


@pytest.mark.parametrize("part", [1, 3])
def test_sums_of_the_largest_ordinary_rows_are_exact(part: int) -> None:
    # 80,000 rows of 2**45 - 1: more than 2**61, and the counts of one bucket more than 2**30.
    rollup = row(cpu=None, memory=1.0)
    assert rollup.memory is not None
    memory = replace(rollup.memory, count=(1 << 14) - 1, sum=float((1 << 45) - part), buckets={7: (1 << 14) - 1})
    columns = RowColumns.of([replace(rollup, memory=memory)] * 80_000)
    assert not columns.odd
    sketches = ManySketches()
    sketches.add(columns, [NOW] * 80_000, [1] * 80_000, [0] * 80_000)
    (((_, sketch),),) = sketches.take()
    assert sketch.memory.total == 80_000 * ((1 << 45) - part)
    assert sketch.memory.buckets == {7: 80_000 * ((1 << 14) - 1)}


def test_arrays_say_what_is_in_them() -> None:
    columns = RowColumns.of(
        [row(cpu=None), row(cpu=[1.0, 3.0], adjusted=[2.0, 5.0], kills=[(1.0, None)]), row(cpu=2.0)]
    )
    assert (columns.odd, columns.ordinary.tolist()) == ((1,), [0, 2])
    assert columns.largest[:, 0].tolist() == [0, 2000]
    assert np.array_equal(columns.histograms[0].rows, [1])
