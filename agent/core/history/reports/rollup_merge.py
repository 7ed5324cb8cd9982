"""Several rows of one container in one report made one, and samples made to weigh by the time that they cover.

Core, pure. A container that is started anew within an interval has a row for each of its instances; what counts of a
pod is one row per container. And a row counts for as long as its container was looked at, not by how often: percentiles
over many pods would otherwise be those of who samples, or claims to sample, most often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Final

from agent.core.history.reports.rollup import Distribution, RollupRow, ShareRow

CPU_SAMPLE_SECONDS: Final = 1.0
"""What a CPU sample stands for: the agent's tick."""
MEMORY_SAMPLE_SECONDS: Final = 10.0
"""What a memory sample stands for: the agent's slower tick."""
MOST_KILLS: Final = 100
"""Of one row."""


def merged_row(rows: Sequence[RollupRow]) -> RollupRow:
    """Return the one row for these, at least one, all of the same container of the same pod."""
    if len(rows) == 1:
        return rows[0]
    knows_pressure = any(row.cpu_adjusted is not None for row in rows)
    return replace(
        rows[0],
        pod_age_seconds=max((row.pod_age_seconds for row in rows if row.pod_age_seconds is not None), default=None),
        covered_seconds=sum(row.covered_seconds for row in rows),
        cpu=merged_samples([row.cpu for row in rows]),
        # As ``HourSketch`` takes it: where pressure is not known, the demand is what was used.
        cpu_adjusted=merged_samples([row.cpu_adjusted or row.cpu for row in rows]) if knows_pressure else None,
        memory=merged_samples([row.memory for row in rows]),
        throttled_seconds=_sum([row.throttled_seconds for row in rows]),
        waiting_seconds=_sum([row.waiting_seconds for row in rows]),
        oom_kills=tuple(kill for row in rows for kill in row.oom_kills)[:MOST_KILLS],
        quality=next((row.quality for row in rows if row.quality is not None), None),
        share=_merged_share([row.share for row in rows if row.share is not None]),
        setback=min(
            (row.setback for row in rows if row.setback is not None),
            key=lambda setback: setback.age_seconds,
            default=None,
        ),
    )


def weighed_row(row: RollupRow) -> RollupRow:
    """Return the row with no more samples than the time that it covers has: one a second of CPU, per ten of memory."""
    most_cpu = ceil(row.covered_seconds / CPU_SAMPLE_SECONDS)
    most_memory = ceil(row.covered_seconds / MEMORY_SAMPLE_SECONDS) + 1  # both ends of the time may have one
    cpu, adjusted = thinned(row.cpu, most_cpu), thinned(row.cpu_adjusted, most_cpu)
    memory = thinned(row.memory, most_memory)
    if cpu is row.cpu and adjusted is row.cpu_adjusted and memory is row.memory:
        return row  # the rule
    return replace(row, cpu=cpu, cpu_adjusted=adjusted, memory=memory)


def thinned(samples: Distribution | None, most: int) -> Distribution | None:
    """Return samples distributed as these, but no more than so many; the maximum stays."""
    if samples is None or samples.count <= most:
        return samples
    buckets: dict[int, int] = {}
    reached = given = 0
    # What is reached is rounded, not each count, so that they add up to exactly so many.
    for bucket in sorted(samples.buckets):
        reached += samples.buckets[bucket]
        share = reached * most // samples.count - given
        if share:
            buckets[bucket] = share
            given += share
    return Distribution(count=most, sum=samples.sum * most / samples.count, max=samples.max, buckets=buckets)


def merged_samples(every: Sequence[Distribution | None]) -> Distribution | None:
    """Return all samples of these together; None = there is none."""
    known = [samples for samples in every if samples is not None]
    if not known:
        return None
    buckets: dict[int, int] = {}
    for samples in known:
        for bucket, count in samples.buckets.items():
            buckets[bucket] = buckets.get(bucket, 0) + count
    return Distribution(
        count=sum(samples.count for samples in known),
        sum=sum(samples.sum for samples in known),
        max=max(samples.max for samples in known),
        buckets=buckets,
    )


def _merged_share(every: Sequence[ShareRow]) -> ShareRow | None:
    if not every:
        return None
    return replace(
        every[0],
        restarts=sum(share.restarts for share in every),
        unready_seconds=sum(share.unready_seconds for share in every),
    )


def _sum(every: Sequence[float | None]) -> float | None:
    known = [samples for samples in every if samples is not None]
    return sum(known) if known else None
