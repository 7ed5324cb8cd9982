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


def pod_itself(readings: OwnReadings) -> PodItself:
    """Return what one pod uses in none of its containers.

    The CPU rate is that from the oldest reading to the newest: what falls in between has been too much before (a
    container that was found a moment after its start).

    Args:
        readings: Of one pod in any order, shape ``(n,)``; those without a stamp are left out.
    """
    stamped = readings[readings["monotonic_ns"] > 0]
    known = stamped[np.argsort(stamped["monotonic_ns"])]  # sorting whole records costs three times as much
    missing: dict[str, Missing] = {}
    usage = _usage_millicores(known[known["has_usage"]])
    if usage is None:
        missing["cpu_usage_millicores"] = Missing.TOO_FEW_SAMPLES
    sized = known[known["has_memory"]]
    if not sized.size:
        missing["working_set_bytes"] = Missing.NO_SIGNAL if known.size else Missing.TOO_FEW_SAMPLES
        return PodItself(cpu_usage_millicores=usage, missing=missing)
    return PodItself(
        cpu_usage_millicores=usage,
        working_set_bytes=int(sized["working_set_bytes"][-1]),
        held_working_set_bytes=int(sized["working_set_bytes"].min()),
        held_current_bytes=int(sized["current_bytes"].min()),
        missing=missing,
    )


def _usage_millicores(readings: OwnReadings) -> float | None:
    if readings.size < 2:
        return None
    oldest, newest = readings[0], readings[-1]
    used_usec, elapsed_ns = newest["usage_usec"] - oldest["usage_usec"], newest["monotonic_ns"] - oldest["monotonic_ns"]
    # Below 0 only by the moments between the readings of the pod and of its containers.
    return max(0.0, float(used_usec * MILLICORES_PER_USEC_PER_NS / elapsed_ns))
