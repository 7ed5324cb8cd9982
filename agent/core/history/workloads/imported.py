"""Hours of a workload that were not measured by agents but read elsewhere, and how much they count. Core, pure.

Elsewhere is Prometheus, or a checkpoint of the Vertical Pod Autoscaler.

They have a place of their own beside the classes of nodes, as a scrape does not tell on what kind of node it was. An
hour that any agent told of is the agents': the imported one does not count there, whichever came first. Elsewhere it
counts with 10 % more: rates over two minutes, looked at each minute, hide what is shorter.

The place is written as a class of nodes that there cannot be, without any CPU, so that an older webhook which finds it
in its database reads it as one more class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from agent.core.cluster.workload import Workload
from agent.core.history.minute.minute_codec import Codes, decode, encode
from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS, Distribution, NodeClass
from agent.core.history.workloads.hour_peaks import HOUR_SECONDS
from agent.core.history.workloads.hour_sketch import (
    CPU_UNIT,
    HourKills,
    HourSketch,
    Samples,
    Seconds,
    largest_demand_code,
    memory_code,
)
from agent.core.history.workloads.node_peaks import Leaders
from agent.core.history.workloads.pod_count import PODS_KEPT, Pods, PodSums, pod_number
from agent.core.history.workloads.sketch_key import SketchKey
from agent.core.numbers.bucket_scheme import ExponentialScheme

ImportSource = Literal["prometheus", "vpa-checkpoints"]
"""Where hours are from. Those of a checkpoint, which knows no hours, take the place of no other."""
IMPORTED: Final = NodeClass(instance_type="prometheus", cpus=0)
"""Where imported hours stand; no node is of this class."""
WIDER_PERCENT: Final = 110
"""Of an imported figure count."""
WIDER_RATIO: Final = WIDER_PERCENT / 100
_NOBODY: Final = 0
"""The number of no node: so every node is told of these peaks as of those of others."""
_MOST_PODS: Final = 256
"""Told apart; beyond, the count is an estimate as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedKill:
    """One out-of-memory kill of the hour."""

    second: float
    """Of the hour."""
    memory_bytes: int | None
    """None = neither the usage nor a limit is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedHour:
    """One container of a workload and one UTC hour, all its pods together."""

    workload: Workload
    container: str
    unix_hour: int
    covered_seconds: float
    """Of all pods, with samples; above 0."""
    pods: int
    """At least 1."""
    cpu: Distribution | None
    """Rates, millicores; a sample stands for a second, as an agent's do."""
    cpu_adjusted: Distribution | None
    """The same x (1 + waiting); None = no pressure information."""
    memory: Distribution | None
    """Working set, bytes; a sample stands for ten seconds."""
    kills: tuple[ImportedKill, ...] = ()

    @property
    def key(self) -> SketchKey:
        """Return the name of the history that it belongs to."""
        return imported_key(self.workload, self.container)


def imported_key(workload: Workload, container: str) -> SketchKey:
    """Return the name of a container's imported history."""
    return SketchKey(workload, container, IMPORTED)


def is_imported(key: SketchKey) -> bool:
    """Return whether a history is an imported one."""
    return key.place == IMPORTED


def imported_sketch(hour: ImportedHour) -> HourSketch:
    """Return the hour as reports' hours are kept: the figures as they were read."""
    start = hour.unix_hour * HOUR_SECONDS
    sketch = HourSketch(
        rows=1,
        first_unix_seconds=start,
        last_unix_seconds=start + HOUR_SECONDS,
        covered=_seconds(hour.covered_seconds),
        pods=_pods(hour.pods),
    )
    if hour.cpu is not None:
        demand = hour.cpu_adjusted or hour.cpu
        sketch.cpu.add(hour.cpu, CPU_UNIT)
        sketch.demand.add(demand, CPU_UNIT)
        sketch.demand_leaders = Leaders(largest_demand_code(hour.cpu, demand), _NOBODY, 0)
    if hour.memory is not None:
        sketch.memory.add(hour.memory, 1)
        sketch.memory_leaders = Leaders(memory_code(hour.memory), _NOBODY, 0)
    for kill in hour.kills:
        sketch.kills.merge(HourKills(1, kill.memory_bytes or 0, start + int(kill.second), _NOBODY))
    return sketch


def _seconds(seconds: float) -> Seconds:
    covered = Seconds()
    covered.add(seconds)
    return covered


def _pods(count: int) -> Pods:
    """Return so many pods without a name: they are counted, and nothing else is asked of them."""
    pods = Pods()
    for number in range(min(count, _MOST_PODS)):
        pods.add(pod_number(str(number)), PodSums())
    pods.has_more = count > PODS_KEPT
    return pods


def widened(codes: Codes) -> Codes:
    """Return peaks with what is added to imported ones; any shape."""
    amounts, has = decode(codes)
    return encode(amounts * WIDER_RATIO, has)


def standing_in(own: Codes, imported: Codes) -> Codes:
    """Return peaks of agents, shape ``(2, n)``, and in hours of which they know nothing the imported ones."""
    filled: Codes = np.where(own > 0, own, imported)
    return filled


def wider_amount(amount: int) -> int:
    """Return an imported amount with what is added to it."""
    return -(-amount * WIDER_PERCENT // 100)


def widen(sketch: HourSketch) -> None:
    """Let an imported hour count with what is added to it."""
    for samples, scheme in (
        (sketch.cpu, CPU_BUCKETS),
        (sketch.demand, CPU_BUCKETS),
        (sketch.memory, MEMORY_BUCKETS),
    ):
        samples.total = wider_amount(samples.total)
        samples.largest = wider_amount(samples.largest)
        samples.buckets = _wider_buckets(samples, scheme)


def _wider_buckets(samples: Samples, scheme: ExponentialScheme) -> dict[int, int]:
    known = sorted(samples.buckets)
    starts = scheme.starts(np.array(known, dtype=np.int64))
    buckets: dict[int, int] = {}
    for bucket, wider in zip(known, scheme.find(starts * WIDER_RATIO).tolist(), strict=True):
        buckets[wider] = buckets.get(wider, 0) + samples.buckets[bucket]
    return buckets
