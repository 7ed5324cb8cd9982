"""The ledger: what a workload's pods requested, used and were recommended over one UTC hour, all of them together.

Core, pure. Amounts are means over the hour: a pod that ran for half of it counts half. A row is worked out from the
hour's sketches, whole and as often as these change, so that a report counts once however often an hour is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from agent.core.cluster.workload import Workload
from agent.core.history.workloads.hour_peaks import HOUR_SECONDS
from agent.core.history.workloads.hour_sketch import (
    CPU_UNIT,
    MICRO,
    HourSketch,
    RequestTime,
    Samples,
    cpu_percentile_millicores,
    memory_percentile_bytes,
)

HOURLY_DAYS: Final = 60
"""For which hours are kept."""
DAILY_DAYS: Final = 400
P95: Final = 0.95
_MILLI: Final = 1000
_HOUR_MICROS: Final = HOUR_SECONDS * MICRO


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerContainer:
    """What one container of one pod has, or should have; None = not known."""

    cpu_millicores: int | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerAmounts:
    """One resource of a workload in one hour, millicores or bytes of all pods together; None = not known."""

    written: int | None
    """As the pods' authors wrote it."""
    requested: int | None
    recommended: int | None
    """By the webhook's policy, when the hour was over."""
    used: int | None
    """Mean."""
    used_p95: int | None
    """Of each container the P95 of all its pods' samples, times the pods."""
    short_seconds: int | None
    """Of containers, with more used than requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerHour:
    """One workload in one hour."""

    workload: Workload
    unix_hour: int
    pods_milli: int
    """Thousandths of a pod: the mean number of instances of the container that has the most."""
    cpu: LedgerAmounts
    memory: LedgerAmounts
    kills: int


def ledger_hour(
    workload: Workload,
    unix_hour: int,
    containers: Mapping[str, HourSketch],
    *,
    written: Mapping[str, LedgerContainer],
    recommended: Mapping[str, LedgerContainer],
) -> LedgerHour:
    """Return a workload's row.

    Args:
        containers: The hour's sketch of each container, over all nodes; at least one.
        written: Of each container as its author wrote it, 0 = nothing was; one that is missing is not known.
        recommended: What each would be given now; one that is missing has no advice.
    """
    parts = [
        _Part(
            share_micros=sketch.covered.micros,
            sketch=sketch,
            written=written.get(name, _UNKNOWN),
            recommended=recommended.get(name, _UNKNOWN),
        )
        for name, sketch in containers.items()
    ]
    return LedgerHour(
        workload=workload,
        unix_hour=unix_hour,
        pods_milli=round(max(part.share_micros for part in parts) * _MILLI / _HOUR_MICROS),
        cpu=LedgerAmounts(
            written=_sum(part.times(part.written.cpu_millicores) for part in parts),
            requested=_sum(part.requested(part.sketch.cpu_request) for part in parts),
            recommended=_sum(part.times(part.recommended.cpu_millicores) for part in parts),
            used=_known_sum(part.times(_mean(part.sketch.cpu, CPU_UNIT)) for part in parts),
            used_p95=_known_sum(part.times(cpu_percentile_millicores(part.sketch.cpu, P95)) for part in parts),
            short_seconds=_short(part.sketch.cpu_request for part in parts),
        ),
        memory=LedgerAmounts(
            written=_sum(part.times(part.written.memory_bytes) for part in parts),
            requested=_sum(part.requested(part.sketch.memory_request) for part in parts),
            recommended=_sum(part.times(part.recommended.memory_bytes) for part in parts),
            used=_known_sum(part.times(_mean(part.sketch.memory, 1)) for part in parts),
            used_p95=_known_sum(part.times(memory_percentile_bytes(part.sketch.memory, P95)) for part in parts),
            short_seconds=_short(part.sketch.memory_request for part in parts),
        ),
        kills=sum(part.sketch.kills.count for part in parts),
    )


_UNKNOWN: Final = LedgerContainer(cpu_millicores=None, memory_bytes=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One container in the hour."""

    share_micros: int
    """How long its instances ran, all together."""
    sketch: HourSketch
    written: LedgerContainer
    recommended: LedgerContainer

    def times(self, amount: float | None) -> float | None:
        """Return an amount of one instance times how many there were on average."""
        return None if amount is None else amount * self.share_micros / _HOUR_MICROS

    def requested(self, request_time: RequestTime) -> float | None:
        """Return what was requested; where some nodes do not tell, by what the others tell."""
        if not request_time.micros:
            return None
        return self.times(request_time.amount_seconds * MICRO / request_time.micros)


def _mean(samples: Samples, unit: int) -> float | None:
    return samples.total / samples.count / unit if samples.count else None


def _sum(amounts: Iterable[float | None]) -> int | None:
    """Add up; None = one of them is not known."""
    total = 0.0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return round(total)


def _known_sum(amounts: Iterable[float | None]) -> int | None:
    """Add up those that are known; None = none is."""
    known = [amount for amount in amounts if amount is not None]
    return round(sum(known)) if known else None


def _short(times: Iterable[RequestTime]) -> int | None:
    known = [time.short_micros for time in times if time.micros]
    return round(sum(known) / MICRO) if known else None
