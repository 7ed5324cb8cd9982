from dataclasses import replace
from math import inf, nan

import pytest

from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS, Distribution, RollupRow
from agent.core.history.workloads.row_columns import RowColumns
from tests.webhook.workload_reports import row

GOOD = Distribution(count=2, sum=1.0, max=1.0, buckets={0: 1, 1: 1})
ODD = {
    "covered never": replace(row(), covered_seconds=nan),
    "covered for a year": replace(row(), covered_seconds=3e7),
    "covered less than nothing": replace(row(), covered_seconds=-1.0),
    "throttled less than nothing": row(throttled=-1.0),
    "throttled by no number": row(throttled=nan),
    "waiting for ever": row(waiting=inf),
    "kills": row(kills=[(1.0, None)]),
    "adjusted alone": replace(row(cpu=None), cpu_adjusted=GOOD),
    "no samples": replace(row(), cpu=replace(GOOD, count=0)),
    "millions of samples": replace(row(), cpu=replace(GOOD, count=1 << 22)),
    "no sum": replace(row(), cpu_adjusted=replace(GOOD, sum=nan)),
    "a huge sum": replace(row(), memory=replace(GOOD, sum=2.0**45)),
    "an endless maximum": replace(row(), memory=replace(GOOD, max=inf)),
    "a negative maximum": replace(row(), cpu=replace(GOOD, max=-1.0)),
    "no buckets": replace(row(), cpu=replace(GOOD, buckets={})),
    "a bucket too many": replace(row(), cpu=replace(GOOD, buckets={CPU_BUCKETS.count: 1})),
    "a bucket of memory too many": replace(row(), memory=replace(GOOD, buckets={MEMORY_BUCKETS.count: 1})),
    "a bucket before the first": replace(row(), cpu=replace(GOOD, buckets={-1: 1})),
    "an empty bucket": replace(row(), memory=replace(GOOD, buckets={0: 0})),
    "a full bucket": replace(row(), memory=replace(GOOD, buckets={0: 1 << 14})),
    "a count of 65 bits": replace(row(), memory=replace(GOOD, count=1 << 64)),
    "a request below nothing": replace(row(), cpu_request_millicores=-1),
    "a huge request": replace(row(), memory_request_bytes=1 << 44),
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_what_is_not_ordinary_is_in_no_array_and_the_others_are(odd: RollupRow) -> None:
    columns = RowColumns.of([row(), odd, row(cpu=7.0)])
    assert (columns.odd, columns.ordinary.tolist()) == ((1,), [0, 2])
    assert len(columns.sums) == len(columns.pods) == 2


def test_more_samples_above_a_request_than_are_multiplied_are_not_ordinary() -> None:
    # 222 buckets of 16,383 each hold almost four millions; the count, which tells of two, is not what is added up.
    full = replace(GOOD, buckets=dict.fromkeys(range(1, CPU_BUCKETS.count), (1 << 14) - 1))
    assert RowColumns.of([replace(row(), cpu=full, cpu_request_millicores=1)]).odd == ()
    wide = replace(GOOD, buckets=dict.fromkeys(range(1, MEMORY_BUCKETS.count), (1 << 14) - 1))
    assert RowColumns.of([replace(row(), memory=wide, memory_request_bytes=1)]).odd == (0,)


def test_no_rows_are_no_arrays() -> None:
    columns = RowColumns.of([])
    assert (columns.odd, len(columns.sums)) == ((), 0)
