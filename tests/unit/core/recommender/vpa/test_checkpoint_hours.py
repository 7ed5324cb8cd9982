from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import CPU_BUCKETS
from agent.core.history.workloads.imported import ImportedHour
from agent.core.recommender.vpa.checkpoint import Checkpoint, CheckpointError, StateCheckpoint
from agent.core.recommender.vpa.checkpoint_hours import hours_of_checkpoint

HOUR = 3600
NOW = 500_000 * HOUR + 100.0
WEB = Workload(namespace="shop", kind="Deployment", name="web")
STATE = StateCheckpoint(
    first_sample_unix_seconds=NOW - 8 * 24 * HOUR,
    last_sample_unix_seconds=NOW - 60,
    samples=1000,
    cpu=Checkpoint(bucket_weights={0: 9000, 20: 1000}, total_weight=40.0),
    memory=Checkpoint(bucket_weights={5: 7}, total_weight=2.0),
)
EMPTY = Checkpoint(bucket_weights={}, total_weight=0.0)


def hours_of(**changes: Any) -> list[ImportedHour]:
    return hours_of_checkpoint(replace(STATE, **changes), WEB, "app", now_unix_seconds=NOW)


def test_each_hour_of_the_last_day_has_all_of_the_checkpoint() -> None:
    hours = hours_of()

    assert [hour.unix_hour for hour in hours] == list(range(500_000 - 24, 500_000))
    assert {(hour.workload, hour.container, hour.covered_seconds, hour.pods) for hour in hours} == {
        (WEB, "app", 3600.0, 1)
    }
    cpu, memory = hours[0].cpu, hours[0].memory
    assert cpu is not None
    # Bucket 0 ends at 10m, bucket 20 at 0.01 x (1.05^21 - 1) / 0.05 = 357.19m: a tenth of an hour's seconds.
    first, twentieth = (int(bucket) for bucket in CPU_BUCKETS.find(np.array([10.0, 357.1925])))
    assert cpu.buckets == {first: 3240, twentieth: 360}
    assert cpu.max == pytest.approx(357.1925, abs=0.01)
    assert cpu.sum == pytest.approx(3240 * 10 + 360 * 357.1925, rel=1e-4)
    assert memory is not None
    # Bucket 5 ends at 1e7 x (1.05^6 - 1) / 0.05 bytes; one in ten seconds.
    assert memory.count == 360
    assert memory.max == pytest.approx(68_019_128.1, rel=1e-6)
    assert hours[0].cpu_adjusted is None


def test_a_young_checkpoint_has_the_hours_that_it_saw_and_one_at_least() -> None:
    assert [hour.unix_hour for hour in hours_of(first_sample_unix_seconds=NOW - 2 * HOUR)] == [499_998, 499_999]
    assert [hour.unix_hour for hour in hours_of(first_sample_unix_seconds=NOW - 70)] == [499_999]
    old = hours_of(last_sample_unix_seconds=NOW - 3 * 24 * HOUR)
    assert (old[-1].unix_hour, len(old)) == (500_000 - 72, 24)


def test_what_counts_little_counts_once() -> None:
    (hour, *_) = hours_of(cpu=Checkpoint(bucket_weights={0: 10_000, 20: 1}, total_weight=40.0), memory=EMPTY)

    assert hour.memory is None
    assert hour.cpu is not None
    assert (hour.cpu.count, sorted(hour.cpu.buckets.values())) == (3600, [1, 3599])


def test_amounts_are_no_larger_than_can_be_told() -> None:
    last = Checkpoint(bucket_weights={175: 1}, total_weight=1.0)
    (hour, *_) = hours_of(cpu=last, memory=EMPTY)

    assert hour.cpu is not None
    assert hour.cpu.max <= CPU_BUCKETS.max_value


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"samples": 0}, "no sample in it yet"),
        ({"first_sample_unix_seconds": None}, "no sample in it yet"),
        ({"last_sample_unix_seconds": None}, "no sample in it yet"),
        ({"last_sample_unix_seconds": NOW + 1}, "not in order, or lie ahead"),
        ({"first_sample_unix_seconds": NOW - 10}, "not in order"),
        (
            {"first_sample_unix_seconds": 0.0, "last_sample_unix_seconds": NOW - 8 * 24 * HOUR},
            "last sample is older than eight days",
        ),
        ({"cpu": EMPTY, "memory": EMPTY}, "both its histograms are empty"),
        (
            {"cpu": Checkpoint(bucket_weights={0: 0}, total_weight=1.0), "memory": EMPTY},
            "both its histograms are empty",
        ),
        ({"cpu": Checkpoint(bucket_weights={900: 1}, total_weight=1.0)}, "bucket 900"),
        ({"version": "v2"}, "version 'v2'"),
    ],
)
def test_a_checkpoint_that_tells_nothing_is_refused_in_one_line(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(CheckpointError, match=words) as refused:
        hours_of(**changes)
    assert "\n" not in str(refused.value)
