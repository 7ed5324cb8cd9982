"""One row per container, and samples that weigh by time."""

from __future__ import annotations

import random
from dataclasses import replace

from agent.core.history.reports.rollup import Distribution, Setback, ShareRow
from agent.core.history.reports.rollup_merge import MOST_KILLS, merged_row, thinned, weighed_row
from tests.qualities import told
from tests.webhook.workload_reports import row


def test_one_row_stays_as_it_is() -> None:
    rollup = row(adjusted=120.0)
    assert merged_row([rollup]) is rollup


def test_rows_are_added_up_and_maxima_kept() -> None:
    first = row(cpu=[10.0, 20.0], adjusted=None, memory=None, kills=[(1.0, 5)] * 60, throttled=1.0)
    second = row(cpu=[30.0], adjusted=[40.0], memory=[5e6], kills=[(2.0, None)] * 60)
    both = merged_row([first, replace(second, pod_age_seconds=None)])
    assert (both.covered_seconds, both.pod_age_seconds, both.throttled_seconds, both.waiting_seconds) == (
        600.0,
        900.0,
        1.0,
        None,
    )
    assert both.cpu is not None
    assert both.cpu_adjusted is not None
    assert (both.cpu.count, both.cpu.sum, both.cpu.max) == (3, 60.0, 30.0)
    assert (both.cpu_adjusted.count, both.cpu_adjusted.max) == (3, 40.0)  # used, where pressure is not known
    assert both.memory == second.memory
    assert len(both.oom_kills) == MOST_KILLS
    assert merged_row([first, first]).cpu_adjusted is None
    assert merged_row([first, first]).memory is None


def test_how_good_sizing_was_is_told_once_whichever_row_tells_it() -> None:
    """It is of all pods of the workload: two rows that tell it do not add up."""
    silent, telling = row(), replace(row(), quality=told())
    assert merged_row([silent, telling]).quality == merged_row([telling, telling]).quality == told()
    assert merged_row([silent, silent]).quality is None


def test_samples_are_thinned_to_exactly_so_many_in_their_shares() -> None:
    lots = random.Random(5)
    for _ in range(200):
        buckets = {lots.randrange(300): lots.randint(1, 500) for _ in range(lots.randint(1, 40))}
        count = sum(buckets.values())
        samples = Distribution(count=count, sum=count * 2.0, max=9.0, buckets=buckets)
        most = lots.randint(1, 2 * count)
        few = thinned(samples, most)
        assert few is not None
        assert few.count == min(count, most) == sum(few.buckets.values())
        assert few.max == 9.0
        assert abs(few.sum - 2.0 * few.count) < 1e-6
        assert all(abs(few.buckets.get(bucket, 0) - buckets[bucket] * few.count / count) <= 1.0 for bucket in buckets)
    assert thinned(None, 1) is None


def test_a_row_has_a_sample_a_second_and_one_of_memory_in_ten() -> None:
    often = replace(row(cpu=[1.0] * 3000, adjusted=[2.0] * 3000, memory=[5e6] * 3000), covered_seconds=99.5)
    weighed = weighed_row(often)
    assert weighed.cpu is not None
    assert weighed.cpu_adjusted is not None
    assert weighed.memory is not None
    assert (weighed.cpu.count, weighed.cpu_adjusted.count, weighed.memory.count) == (100, 100, 11)
    seldom = row(cpu=None, memory=None)
    assert weighed_row(seldom) == seldom


def test_of_several_rows_restarts_add_up_and_the_newest_setback_is_told() -> None:
    share = ShareRow(share="10 %", is_enforced=True, restarts=1, unready_seconds=2.0)
    first = replace(row(), share=share, setback=Setback(age_seconds=9.0, reason="older"))
    second = replace(row(), share=share, setback=Setback(age_seconds=3.0, reason="newer"))
    both = merged_row([first, row(), second])
    assert both.share == replace(share, restarts=2, unready_seconds=4.0)
    assert both.setback == second.setback
    assert (merged_row([row(), row()]).share, merged_row([row(), row()]).setback) == (None, None)
