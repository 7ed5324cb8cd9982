"""Percentiles of a workload over all its pods, from the hourly sketches in the store; read when somebody asks. Webhook.

Histograms merge, so a percentile is that of all samples of all pods. The end of its bucket is told: at most 5 % too
high, and at most 1m or 1 MB where that is more.
Imported hours count where no agent told of the hour, with what is added to them (``core.history.workloads.imported``).
The running minutes are not in it: reports lie in the log for a while before they are folded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from math import ceil
from typing import Final, Protocol

from agent.core.cluster.workload import Workload
from agent.core.history.workloads.hour_peaks import hour_of
from agent.core.history.workloads.hour_sketch import (
    HourSketch,
    Samples,
    cpu_percentile_millicores,
    memory_percentile_bytes,
)
from agent.core.history.workloads.imported import is_imported, widen
from agent.core.history.workloads.sketch_key import SketchKey
from agent.webhook.store.entries.sketch_bytes import BadSketchError, decode
from agent.webhook.store.shapes import StoredSketch

log = logging.getLogger(__name__)

HOURS: Final = 168
"""Of the seven days that predictions look at."""
_CPU_UNIT: Final = 1000
"""Microcores in a millicore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalStatistics:
    """One signal: CPU in millicores, memory in bytes."""

    samples: int
    p50: int
    p75: int
    p95: int
    p99: int
    max: int
    mean: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStatistics:
    """One container of a workload, on all nodes; None = not known."""

    hours: int
    """UTC hours with samples, of the last ``HOURS``."""
    cpu: SignalStatistics | None
    cpu_adjusted: SignalStatistics | None
    """With pressure; where it was not known as measured."""
    memory: SignalStatistics | None
    pods: int
    """In the newest of these hours; beyond eight an estimate."""
    pod_cpu_millicores: tuple[int, int] | None
    """The least and the largest mean of one pod in that hour; of eight pods at most, drawn by hash."""
    pod_memory_bytes: tuple[int, int] | None


class SketchSource(Protocol):
    """The store, as far as it is read here."""

    def sketches_of(self, keys: Iterable[str], unix_hours: Iterable[int]) -> Iterator[StoredSketch]:
        """Read the sketches of these keys at these hours."""


class Statistics:
    """Works them out; any thread that may wait."""

    def __init__(self, store: SketchSource, places: Callable[[Workload], tuple[SketchKey, ...]]) -> None:
        """Store the parts; ``places`` returns under which keys a workload has its sketches, by class of nodes."""
        self._store, self._places = store, places

    def of(self, workload: Workload, now_unix_seconds: float) -> dict[str, ContainerStatistics]:
        """Return them by container; one without a sketch is left out."""
        places = {str(place): place for place in self._places(workload)}
        last = hour_of(now_unix_seconds)
        sums: dict[str, _Sum] = {}
        imported: list[tuple[str, int, HourSketch]] = []
        for stored in self._store.sketches_of(list(places), range(last - HOURS + 1, last + 1)):
            try:
                sketch = decode(stored.payload, stored.unix_hour)
            except BadSketchError as error:
                log.warning("sketch unreadable", extra={"reason": str(error)})
                continue
            place = places[stored.key]
            if is_imported(place):
                imported.append((place.container, stored.unix_hour, sketch))
            else:
                sums.setdefault(place.container, _Sum()).add(stored.unix_hour, sketch)
        agent_hours = {container: frozenset(container_sum.hours) for container, container_sum in sums.items()}
        for container, unix_hour, sketch in imported:
            if unix_hour not in agent_hours.get(container, ()):
                widen(sketch)
                sums.setdefault(container, _Sum()).add(unix_hour, sketch)
        return {container: container_sum.statistics() for container, container_sum in sums.items()}


class _Sum:
    """What is merged so far of one container."""

    def __init__(self) -> None:
        self._cpu, self._demand, self._memory = Samples(), Samples(), Samples()
        self._hours: set[int] = set()
        self._newest = HourSketch()

    @property
    def hours(self) -> Set[int]:
        return self._hours

    def add(self, unix_hour: int, sketch: HourSketch) -> None:
        self._cpu.merge(sketch.cpu)
        self._demand.merge(sketch.demand)
        self._memory.merge(sketch.memory)
        newest = max(self._hours, default=unix_hour)
        self._hours.add(unix_hour)
        if unix_hour > newest:
            self._newest = sketch
        elif unix_hour == newest:
            self._newest.merge(sketch)

    def statistics(self) -> ContainerStatistics:
        pods = self._newest.pods
        return ContainerStatistics(
            hours=len(self._hours),
            cpu=_signal(self._cpu, cpu_percentile_millicores, _CPU_UNIT),
            cpu_adjusted=_signal(self._demand, cpu_percentile_millicores, _CPU_UNIT),
            memory=_signal(self._memory, memory_percentile_bytes, 1),
            pods=pods.count,
            pod_cpu_millicores=_whole(pods.cpu_spread_millicores()),
            pod_memory_bytes=_whole(pods.memory_spread_bytes()),
        )


def _signal(
    samples: Samples, percentile: Callable[[Samples, float], float | None], unit: int
) -> SignalStatistics | None:
    if not samples.count:
        return None
    p50, p75, p95, p99 = (ceil(percentile(samples, ratio) or 0.0) for ratio in (0.5, 0.75, 0.95, 0.99))
    return SignalStatistics(
        samples=samples.count,
        p50=p50,
        p75=p75,
        p95=p95,
        p99=p99,
        max=-(-samples.largest // unit),
        mean=round(samples.total / samples.count / unit),
    )


def _whole(spread: tuple[float, float] | None) -> tuple[int, int] | None:
    return None if spread is None else (round(spread[0]), round(spread[1]))
