"""What is in a pod's cgroup and in none of its containers': a shim, files in memory of containers that have ended.

Core, pure. It is a difference of counters that were read one right after the other: the pod's less those of all its
containers, the pause container among them. Where one of them is not known, there is no difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.window.ring_rows import Has, Status
from agent.core.window.snapshot import Missing
from agent.core.window.steps import MILLICORES_PER_USEC_PER_NS, NS

MOST_APART_NS: Final = 3 * NS
"""Between the reading of a pod and those of its containers; a full node's sweep takes a tenth of a second."""
_OK: Final = int(Status.OK)
_SIZED: Final = int(Has.MEMORY | Has.MEMORY_STAT)
_MOST: Final = np.iinfo(np.int64).max

OWN_READING: Final = np.dtype(
    [
        ("monotonic_ns", "<i8"),
        ("usage_usec", "<i8"),
        ("working_set_bytes", "<i8"),
        ("current_bytes", "<i8"),
        ("has_usage", "?"),
        ("has_memory", "?"),
    ]
)
"""One slow tick of one pod: its counters less those of its containers. ``monotonic_ns`` 0 = no reading."""

OwnReadings = NDArray[np.void]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodItself:
    """What a pod uses in none of its containers, over the readings that are kept. None has its reason in ``missing``.

    ``held_*`` is the least of all readings: what is there all the time, so that nothing that passes is counted.
    """

    cpu_usage_millicores: float | None = None
    working_set_bytes: int | None = None
    """Newest."""
    held_working_set_bytes: int | None = None
    held_current_bytes: int | None = None
    """Page cache included."""
    missing: Mapping[str, Missing] = field(default_factory=dict)


NOT_MEASURED: Final = PodItself(
    missing=dict.fromkeys(("cpu_usage_millicores", "working_set_bytes"), Missing.TOO_FEW_SAMPLES)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TickRows:
    """The newest rows of some cgroups, shape ``(n,)`` each."""

    raw: NDArray[np.void]
    """SAMPLE rows."""
    memory: NDArray[np.void]
    """MEMORY_ROW rows."""

    @property
    def current_bytes(self) -> NDArray[np.int64]:
        """Return memory.current."""
        current: NDArray[np.int64] = self.memory["memory_current_bytes"].astype(np.int64)
        return current

    @property
    def working_set_bytes(self) -> NDArray[np.int64]:
        """Return memory.current less inactive_file, floor 0."""
        return np.maximum(self.current_bytes - self.memory["inactive_file_bytes"].astype(np.int64), 0)

    def has_usage(self, at_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which have a CPU reading of about this moment."""
        known: NDArray[np.bool_] = (self.raw["status"] == _OK) & self._is_near(self.raw, at_ns)
        return known

    def has_memory(self, at_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which have a working set of about this moment."""
        is_sized = (self.memory["has"] & _SIZED) == _SIZED
        known: NDArray[np.bool_] = (self.memory["status"] == _OK) & is_sized & self._is_near(self.memory, at_ns)
        return known

    @staticmethod
    def _is_near(rows: NDArray[np.void], at_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        is_near: NDArray[np.bool_] = np.abs(rows["monotonic_ns"].astype(np.int64) - at_ns) <= MOST_APART_NS
        return is_near


def own_readings(pods: TickRows, containers: TickRows, pod_of: NDArray[np.intp]) -> OwnReadings:
    """Return what each pod has in none of its containers at one tick, shape ``(pods,)`` of OWN_READING.

    Args:
        pods: Of this tick, shape ``(pods,)``.
        containers: Of the same tick; every container of those pods that has a cgroup, shape ``(containers,)``.
        pod_of: The place of each container's pod, shape ``(containers,)``.
    """
    count = pods.raw.size
    at_ns: NDArray[np.int64] = pods.raw["monotonic_ns"].astype(np.int64)

    def rest(of_pods: NDArray[np.int64], of_containers: NDArray[np.int64]) -> NDArray[np.int64]:
        summed = np.zeros(count, dtype=np.int64)
        np.add.at(summed, pod_of, of_containers)
        return of_pods - summed

    def known(of_pods: NDArray[np.bool_], of_containers: NDArray[np.bool_]) -> NDArray[np.bool_]:
        is_known: NDArray[np.bool_] = of_pods & (np.bincount(pod_of[~of_containers], minlength=count) == 0)
        return is_known

    readings = np.zeros(count, dtype=OWN_READING)
    readings["monotonic_ns"] = at_ns
    readings["usage_usec"] = rest(
        pods.raw["usage_usec"].astype(np.int64), containers.raw["usage_usec"].astype(np.int64)
    )
    readings["has_usage"] = known(pods.has_usage(at_ns), containers.has_usage(at_ns[pod_of]))
    readings["working_set_bytes"] = np.maximum(rest(pods.working_set_bytes, containers.working_set_bytes), 0)
    readings["current_bytes"] = np.maximum(rest(pods.current_bytes, containers.current_bytes), 0)
    readings["has_memory"] = known(pods.has_memory(at_ns), containers.has_memory(at_ns[pod_of]))
    return readings


def pods_itself(readings: OwnReadings) -> list[PodItself]:
    """Return what each of some pods uses in none of its containers.

    The CPU rate is that from the oldest reading to the newest: what falls in between has been too much before (a
    container that was found a moment after its start).

    Args:
        readings: Of each pod in any order, shape ``(pods, n)``; those without a stamp are left out.
    """
    stamps = readings["monotonic_ns"]
    is_there = stamps > 0
    working_sets = readings["working_set_bytes"]
    is_sized = is_there & readings["has_memory"]
    newest = np.where(is_sized, stamps, -1).argmax(axis=1)[:, None]
    usages = _usage_millicores(readings, is_there & readings["has_usage"])
    newest_bytes = np.take_along_axis(working_sets, newest, axis=1)[:, 0].tolist()
    held_bytes, held_current_bytes = _least(working_sets, is_sized), _least(readings["current_bytes"], is_sized)
    has_sizes, has_readings = np.any(is_sized, axis=1).tolist(), np.any(is_there, axis=1).tolist()
    return [
        _pod_itself(
            usage,
            (newest_bytes[pod], held_bytes[pod], held_current_bytes[pod]) if has_sizes[pod] else None,
            has_readings=has_readings[pod],
        )
        for pod, usage in enumerate(usages)
    ]


def _pod_itself(usage: float | None, sizes: tuple[int, int, int] | None, *, has_readings: bool) -> PodItself:
    missing: dict[str, Missing] = {}
    if usage is None:
        missing["cpu_usage_millicores"] = Missing.TOO_FEW_SAMPLES
    if sizes is None:
        missing["working_set_bytes"] = Missing.NO_SIGNAL if has_readings else Missing.TOO_FEW_SAMPLES
        return PodItself(cpu_usage_millicores=usage, missing=missing)
    working_set_bytes, held_working_set_bytes, held_current_bytes = sizes
    return PodItself(
        cpu_usage_millicores=usage,
        working_set_bytes=working_set_bytes,
        held_working_set_bytes=held_working_set_bytes,
        held_current_bytes=held_current_bytes,
        missing=missing,
    )


def _least(amounts: NDArray[np.int64], is_known: NDArray[np.bool_]) -> list[int]:
    """Return the least known amount of each pod; any number where none is known."""
    least: list[int] = np.where(is_known, amounts, _MOST).min(axis=1).tolist()
    return least


def _usage_millicores(readings: OwnReadings, is_known: NDArray[np.bool_]) -> list[float | None]:
    """Return the CPU rate of each pod; None = it has no two readings of different moments."""
    stamps, used = readings["monotonic_ns"], readings["usage_usec"]
    oldest = np.where(is_known, stamps, _MOST).argmin(axis=1)[:, None]
    newest = np.where(is_known, stamps, -1).argmax(axis=1)[:, None]
    used_usec = (np.take_along_axis(used, newest, axis=1) - np.take_along_axis(used, oldest, axis=1))[:, 0]
    elapsed_ns = (np.take_along_axis(stamps, newest, axis=1) - np.take_along_axis(stamps, oldest, axis=1))[:, 0]
    # Below 0 only by the moments between the readings of the pod and of its containers.
    return [
        max(0.0, usec * MILLICORES_PER_USEC_PER_NS / nanoseconds) if count > 1 and nanoseconds > 0 else None
        for usec, nanoseconds, count in zip(
            used_usec.tolist(), elapsed_ns.tolist(), is_known.sum(axis=1).tolist(), strict=True
        )
    ]
