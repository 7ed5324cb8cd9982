"""Hours of workloads out of series that were scraped: the same hourly figures as agents' reports come to. Core, pure.

A sample stands for the time since the one before it, so it belongs to the hour in which that time lies, and counts as
many samples of an agent as that time has: those take one a second of CPU and one in ten seconds of memory. So an hour
of a scrape weighs no less among others than one of an agent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS, Distribution
from agent.core.history.reports.rollup_figures import distribution
from agent.core.history.reports.rollup_merge import CPU_SAMPLE_SECONDS, MEMORY_SAMPLE_SECONDS, MOST_KILLS
from agent.core.history.workloads.hour_peaks import HOUR_SECONDS
from agent.core.history.workloads.imported import ImportedHour, ImportedKill
from agent.core.numbers.arrays import Floats, Ints
from agent.core.numbers.bucket_scheme import ExponentialScheme

MILLICORES: Final = 1000.0
"""In a core, as scraped rates are in cores."""


class PodContainer(NamedTuple):
    """A container of a pod of the namespace."""

    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class ScrapedSeries:
    """The samples of one signal of one container, each for the step that ends at its time."""

    unix_seconds: Ints
    """Rising, shape ``(n,)``."""
    values: Floats
    """Finite and not negative, shape ``(n,)``."""

    def at(self, unix_seconds: Ints) -> Floats:
        """Return the values at these times; 0 where there is none."""
        if self.unix_seconds.size == 0:
            return np.zeros(unix_seconds.size)
        place = np.minimum(np.searchsorted(self.unix_seconds, unix_seconds), self.unix_seconds.size - 1)
        amounts: Floats = np.where(self.unix_seconds[place] == unix_seconds, self.values[place], 0.0)
        return amounts


Signal = Mapping[PodContainer, ScrapedSeries]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapedNamespace:
    """What was scraped of one namespace over some whole hours."""

    step_seconds: int
    cpu_cores: Signal
    """Rates of use."""
    waiting_ratio: Signal
    """Rates of waiting for CPU; empty = not known."""
    throttled_ratio: Signal
    """Rates of being held back by the own limit: no waiting for others."""
    memory_bytes: Signal
    """Working set."""
    kill_seconds: Mapping[PodContainer, tuple[int, ...]]
    """When out-of-memory kills were first seen, Unix seconds."""
    limit_bytes: Mapping[PodContainer, int]
    """Memory limits of containers that were killed, as far as they are known."""


class _Container:
    """One container of a workload in one hour, all pods together."""

    def __init__(self) -> None:
        self.pods: set[str] = set()
        self.cpu: list[Floats] = []
        self.adjusted: list[Floats] = []
        self.memory: list[Floats] = []
        self.kills: list[ImportedKill] = []


_Place = tuple[Workload, str, int]


def hours_of(scraped: ScrapedNamespace, owners: Mapping[str, Workload]) -> list[ImportedHour]:
    """Return the hours, in order; what belongs to pods without a known owner is left out.

    Args:
        owners: The workload of each pod, by its name.
    """
    by_place: dict[_Place, _Container] = defaultdict(_Container)
    for where, series in scraped.cpu_cores.items():
        for place, part in _by_hour(where, series, owners):
            container = by_place[place]
            container.pods.add(where.pod)
            usage = part.values * MILLICORES
            container.cpu.append(usage)
            container.adjusted.append(usage * (1.0 + _waiting(scraped, where, part.unix_seconds)))
    for where, series in scraped.memory_bytes.items():
        for place, part in _by_hour(where, series, owners):
            by_place[place].pods.add(where.pod)
            by_place[place].memory.append(part.values)
    for where, killed in scraped.kill_seconds.items():
        owner = owners.get(where.pod)
        for second in killed:
            hour = _hour_of(second)
            known = None if owner is None else by_place.get((owner, where.container, hour))
            if known is not None and len(known.kills) < MOST_KILLS:
                since = float(second - 1 - hour * HOUR_SECONDS)
                known.kills.append(ImportedKill(second=since, memory_bytes=_killed_bytes(scraped, where, hour)))
    knows_waiting = bool(scraped.waiting_ratio)
    return [
        _hour(place, by_place[place], scraped.step_seconds, knows_waiting=knows_waiting) for place in sorted(by_place)
    ]


def _hour_of(second: int) -> int:
    """Return the hour of the step that ends at a moment; a full hour ends the one before."""
    return (second - 1) // HOUR_SECONDS


def _by_hour(
    where: PodContainer, series: ScrapedSeries, owners: Mapping[str, Workload]
) -> Iterable[tuple[_Place, ScrapedSeries]]:
    owner = owners.get(where.pod)
    if owner is None or series.unix_seconds.size == 0:
        return
    hours = (series.unix_seconds - 1) // HOUR_SECONDS
    edges = [0, *(np.flatnonzero(np.diff(hours)) + 1).tolist(), hours.size]
    for first, after in pairwise(edges):
        part = ScrapedSeries(series.unix_seconds[first:after], series.values[first:after])
        yield (owner, where.container, int(hours[first])), part


def _waiting(scraped: ScrapedNamespace, where: PodContainer, unix_seconds: Ints) -> Floats:
    waiting, throttled = scraped.waiting_ratio.get(where), scraped.throttled_ratio.get(where)
    if waiting is None:
        return np.zeros(unix_seconds.size)
    held_back = np.zeros(unix_seconds.size) if throttled is None else throttled.at(unix_seconds)
    ratio: Floats = np.clip(waiting.at(unix_seconds) - held_back, 0.0, 1.0)
    return ratio


def _killed_bytes(scraped: ScrapedNamespace, where: PodContainer, hour: int) -> int | None:
    """Return the limit in force, at which it was killed; else the most that was seen of it in that hour."""
    limit = scraped.limit_bytes.get(where)
    series = scraped.memory_bytes.get(where)
    if limit is not None or series is None:
        return limit
    seen = series.values[(series.unix_seconds - 1) // HOUR_SECONDS == hour]
    return int(seen.max()) or None if seen.size else None


def _hour(place: _Place, hour: _Container, step_seconds: int, *, knows_waiting: bool) -> ImportedHour:
    workload, container, unix_hour = place
    samples = max(sum(part.size for part in hour.cpu), sum(part.size for part in hour.memory))
    cpu = _samples(hour.cpu, CPU_BUCKETS, step_seconds / CPU_SAMPLE_SECONDS)
    return ImportedHour(
        workload=workload,
        container=container,
        unix_hour=unix_hour,
        covered_seconds=float(samples * step_seconds),
        pods=len(hour.pods),
        cpu=cpu,
        cpu_adjusted=_samples(hour.adjusted, CPU_BUCKETS, step_seconds / CPU_SAMPLE_SECONDS) if knows_waiting else None,
        memory=_samples(hour.memory, MEMORY_BUCKETS, step_seconds / MEMORY_SAMPLE_SECONDS),
        kills=tuple(hour.kills),
    )


def _samples(parts: list[Floats], scheme: ExponentialScheme, ratio: float) -> Distribution | None:
    weight = max(round(ratio), 1)
    samples = distribution(np.concatenate(parts), scheme) if parts else None
    if samples is None:
        return None
    return Distribution(
        count=samples.count * weight,
        sum=samples.sum * weight,
        max=samples.max,
        buckets={bucket: count * weight for bucket, count in samples.buckets.items()},
    )
