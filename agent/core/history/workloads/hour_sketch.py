"""An hour of one container of a workload, merged from the rows of all its pods on some nodes.

Core, pure. Merging is commutative and associative to the last bit: sums are whole numbers (microcores, bytes,
microseconds), maxima and counts are by nature, the pods' sample is by hash. So rows may come late, in any order, split
over replicas in any way. A row that comes twice counts twice: dropping repeats is for the store.

How outliers count: a row's values were bounded by the receiver; within these bounds one wrong reading raises the
maximum of its hour, and so what is asked for at that hour of the day for a week, and nothing else. Percentiles hardly
move, as it is one sample among hundreds. What a node claims beyond all others is cut where it is asked for
(``node_claims``), as the sketches of one hour do not tell what the others saw in the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final

from agent.core.history.minute.minutes import CPU_STEPS, KIB
from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS, SampledRow, SampledSignal
from agent.core.history.workloads.hour_peaks import HOUR_SECONDS
from agent.core.history.workloads.node_claims import Most
from agent.core.history.workloads.node_peaks import Leaders, code_of
from agent.core.history.workloads.pod_count import Pods, PodSums, pod_number
from agent.core.numbers.bucket_scheme import ExponentialScheme

MICRO: Final = 1_000_000
"""Microseconds in a second."""
CPU_UNIT: Final = 1_000
"""Microcores in a millicore."""
_CPU_STARTS: Final = (0.0, *(float(end) for end in CPU_BUCKETS.ends[:-1]))
_MEMORY_STARTS: Final = (0.0, *(float(end) for end in MEMORY_BUCKETS.ends[:-1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportInterval:
    """When a report's rows were measured, by the receiver's clock."""

    start_unix_seconds: int
    """Rounded down."""
    end_unix_seconds: int
    """Rounded up."""
    unix_hour: int
    """The UTC hour that holds its middle: all of the row counts there."""

    @classmethod
    def of(cls, *, received_unix_seconds: float, end_age_seconds: float, interval_seconds: float) -> ReportInterval:
        """Reckon from the age that the sender tells: its own clock does not matter."""
        end = received_unix_seconds - end_age_seconds
        return cls(
            start_unix_seconds=int((end - interval_seconds) // 1),
            end_unix_seconds=ceil(end),
            unix_hour=int((end - interval_seconds / 2) // HOUR_SECONDS),
        )


@dataclass(slots=True)
class Samples:
    """Samples of one signal. Amounts are whole: microcores for CPU, bytes for memory."""

    count: int = 0
    total: int = 0
    largest: int = 0
    """Rounded up, so that no maximum is told too small."""
    buckets: dict[int, int] = field(default_factory=dict)
    """Count by bucket of the signal's scheme."""

    def add(self, distribution: SampledSignal, unit: int) -> None:
        """Count a row's samples; ``unit``: how many of the whole amounts are one of the row's."""
        self.count += distribution.count
        self.total += round(distribution.sum * unit)
        self.largest = max(self.largest, ceil(distribution.max * unit))
        self._count(distribution.buckets)

    def merge(self, other: Samples) -> None:
        """Count all that the other counted."""
        self.count += other.count
        self.total += other.total
        self.largest = max(self.largest, other.largest)
        self._count(other.buckets)

    def _count(self, buckets: Mapping[int, int]) -> None:
        if not self.buckets:
            self.buckets = dict(buckets)
            return
        known = self.buckets
        for bucket, count in buckets.items():
            known[bucket] = known.get(bucket, 0) + count


@dataclass(slots=True)
class Seconds:
    """A time that is not known everywhere."""

    micros: int = 0
    rows: int = 0
    """In how many rows it was known; 0 = nowhere."""

    def add(self, seconds: float | None) -> None:
        """Count a row's."""
        if seconds is not None:
            self.micros += round(seconds * MICRO)
            self.rows += 1

    def merge(self, other: Seconds) -> None:
        """Count all that the other counted."""
        self.micros += other.micros
        self.rows += other.rows

    @property
    def seconds(self) -> float | None:
        """The sum; None = it was known nowhere."""
        return self.micros / MICRO if self.rows else None


@dataclass(slots=True)
class RequestTime:
    """One request over the time in which it was told; amounts in the row's unit (millicores, bytes)."""

    micros: int = 0
    """In which it was known, of all pods together; 0 = nowhere."""
    amount_seconds: int = 0
    """The request x that time."""
    short_micros: int = 0
    """Of that time, with more used than a request that is not 0; as far as the histogram tells, which is to 5 %."""

    def add(
        self, amount: int | None, covered_seconds: float, used: SampledSignal | None, starts: Sequence[float]
    ) -> None:
        """Count a row's; ``starts``: where each bucket of what was used begins."""
        if amount is None:
            return
        micros = round(covered_seconds * MICRO)
        self.micros += micros
        self.amount_seconds += round(amount * covered_seconds)
        if amount and used is not None:
            above = sum(count for bucket, count in used.buckets.items() if starts[bucket] >= amount)
            self.short_micros += micros * above // used.count

    def merge(self, other: RequestTime) -> None:
        """Count all that the other counted."""
        self.micros += other.micros
        self.amount_seconds += other.amount_seconds
        self.short_micros += other.short_micros


@dataclass(slots=True)
class HourKills:
    """Out-of-memory kills."""

    count: int = 0
    largest_bytes: int = 0
    """Largest figure; 0 = none of them has one."""
    newest_unix_seconds: int = 0
    """Rounded down; means nothing while ``count`` is 0."""
    node: int = 0
    """Of the largest figure, numbered as the leaders are; of two with the same one, the larger. 0 = not known."""

    def merge(self, other: HourKills) -> None:
        """Count all that the other counted."""
        self.count += other.count
        self.largest_bytes, self.node = max((self.largest_bytes, self.node), (other.largest_bytes, other.node))
        self.newest_unix_seconds = max(self.newest_unix_seconds, other.newest_unix_seconds)


@dataclass(slots=True)
class HourSketch:
    """One hour; see the module's docstring."""

    rows: int = 0
    first_unix_seconds: int = 0
    """Start of the earliest row's interval; this and the next mean nothing while there are no rows."""
    last_unix_seconds: int = 0
    """End of the latest row's interval."""
    covered: Seconds = field(default_factory=Seconds)
    """Of all pods together."""
    cpu: Samples = field(default_factory=Samples)
    demand: Samples = field(default_factory=Samples)
    """CPU, pressure-adjusted in the rows that know pressure, as measured in the others."""
    memory: Samples = field(default_factory=Samples)
    throttled: Seconds = field(default_factory=Seconds)
    waiting: Seconds = field(default_factory=Seconds)
    kills: HourKills = field(default_factory=HourKills)
    pods: Pods = field(default_factory=Pods)
    demand_leaders: Leaders = field(default_factory=Leaders)
    """Largest demand by node, as `demand_code` gives it."""
    memory_leaders: Leaders = field(default_factory=Leaders)
    """Largest working set by node, as `memory_code` gives it."""
    cpu_request: RequestTime = field(default_factory=RequestTime)
    memory_request: RequestTime = field(default_factory=RequestTime)

    def add(self, row: SampledRow, interval: ReportInterval, node: int) -> None:
        """Count a row.

        Args:
            row: Of this container; its values are finite and not negative.
            interval: When it was measured; of this hour.
            node: ``node_number`` of the node that measured it.
        """
        self._reach(interval.start_unix_seconds, interval.end_unix_seconds)
        self.rows += 1
        self.covered.add(row.covered_seconds)
        self.throttled.add(row.throttled_seconds)
        self.waiting.add(row.waiting_seconds)
        self.cpu_request.add(row.cpu_request_millicores, row.covered_seconds, row.cpu, _CPU_STARTS)
        self.memory_request.add(row.memory_request_bytes, row.covered_seconds, row.memory, _MEMORY_STARTS)
        sums = PodSums()
        if row.cpu is not None:
            demand = row.cpu_adjusted or row.cpu
            self.cpu.add(row.cpu, CPU_UNIT)
            self.demand.add(demand, CPU_UNIT)
            self.demand_leaders = self.demand_leaders.with_value(largest_demand_code(row.cpu, demand), node)
            sums = PodSums(cpu_count=row.cpu.count, cpu_microcores=round(row.cpu.sum * CPU_UNIT))
        if row.memory is not None:
            self.memory.add(row.memory, 1)
            self.memory_leaders = self.memory_leaders.with_value(memory_code(row.memory), node)
            sums = sums.plus(PodSums(memory_count=row.memory.count, memory_bytes=round(row.memory.sum)))
        self.pods.add(pod_number(row.pod_uid), sums)
        for kill in row.oom_kills:
            killed_unix_seconds = int((interval.end_unix_seconds - kill.age_seconds) // 1)
            self.kills.merge(HourKills(1, kill.memory_bytes or 0, killed_unix_seconds, node))

    def merge(self, other: HourSketch) -> None:
        """Count all that the other counted, of the same container and hour."""
        if not other.rows:
            return
        self._reach(other.first_unix_seconds, other.last_unix_seconds)
        self.rows += other.rows
        self.covered.merge(other.covered)
        self.cpu.merge(other.cpu)
        self.demand.merge(other.demand)
        self.memory.merge(other.memory)
        self.throttled.merge(other.throttled)
        self.waiting.merge(other.waiting)
        self.cpu_request.merge(other.cpu_request)
        self.memory_request.merge(other.memory_request)
        self.kills.merge(other.kills)
        self.pods.merge(other.pods)
        self.demand_leaders = self.demand_leaders.merged(other.demand_leaders)
        self.memory_leaders = self.memory_leaders.merged(other.memory_leaders)

    def cut(self, most: Most) -> None:
        """Let no value count beyond these bounds: maxima fall, and values are read off the histograms up to them."""
        most_microcores = ceil(most.cpu_millicores * CPU_UNIT)
        self.cpu.largest = min(self.cpu.largest, most_microcores)
        self.demand.largest = min(self.demand.largest, most_microcores)
        self.memory.largest = min(self.memory.largest, most.memory_bytes)
        self.kills.largest_bytes = min(self.kills.largest_bytes, most.kill_bytes(self.kills.node))

    def _reach(self, first_unix_seconds: int, last_unix_seconds: int) -> None:
        if self.rows:
            first_unix_seconds = min(first_unix_seconds, self.first_unix_seconds)
            last_unix_seconds = max(last_unix_seconds, self.last_unix_seconds)
        self.first_unix_seconds, self.last_unix_seconds = first_unix_seconds, last_unix_seconds


def demand_code(demand: SampledSignal) -> int:
    """Return the code of the maximum of CPU demand: eighths of a millicore, rounded up."""
    return code_of(ceil(demand.max * CPU_STEPS))


def largest_demand_code(cpu: SampledSignal, demand: SampledSignal) -> int:
    """Return the code of the largest of what was used and of the demand, which is never below it."""
    return code_of(ceil(max(cpu.max, demand.max) * CPU_STEPS))  # codes rise with their amounts


def memory_code(memory: SampledSignal) -> int:
    """Return the code of the maximum of memory: KiB, rounded up."""
    return code_of(ceil(memory.max / KIB))


def cpu_percentile_millicores(samples: Samples, ratio: float) -> float | None:
    """Return a percentile of CPU: the end of its bucket, at most the maximum; None = no samples."""
    return _percentile(samples, ratio, CPU_BUCKETS, CPU_UNIT)


def memory_percentile_bytes(samples: Samples, ratio: float) -> float | None:
    """Return the same of memory."""
    return _percentile(samples, ratio, MEMORY_BUCKETS, 1)


def _percentile(samples: Samples, ratio: float, scheme: ExponentialScheme, unit: int) -> float | None:
    bucket = percentile_bucket(samples.buckets, ratio)
    return None if bucket is None else min(float(scheme.ends[bucket]), samples.largest / unit)


def percentile_bucket(buckets: Mapping[int, int], ratio: float) -> int | None:
    """Return the bucket in which the share of the samples is reached; None = there are none."""
    wanted = ratio * sum(buckets.values())
    reached, last = 0, None
    # There are a dozen: arrays would take ten times as long, and admissions wait for this.
    for bucket in sorted(buckets):
        if not buckets[bucket]:
            continue
        reached += buckets[bucket]
        last = bucket
        if reached >= wanted:
            break
    return last
