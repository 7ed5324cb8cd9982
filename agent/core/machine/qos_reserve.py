"""Memory kept for higher QoS classes: the limits of the lower classes' cgroups. Core, pure.

The arithmetic is the kubelet's own (``--qos-reserved``, an option few clusters have): ``qos_cgroups``. One point is
ours to keep: on cgroup v2 a limit below what is in use is not refused, the kernel reclaims and then kills. So the
kubelet's second attempt (a level that uses more than its target gets its usage as limit) is made the first one here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from agent.core.cluster.pod import Pod, QosClass, has_ended
from agent.core.machine.qos_cgroups import QosRules, qos_levels, qos_reserve_retry
from agent.core.numbers.units import MIB

ROOM_BYTES: Final = 64 * MIB
"""Above what a level uses: a limit that is met the moment it is written would kill for the next page."""
LIMITED_CLASSES: Final = (QosClass.BURSTABLE, QosClass.BEST_EFFORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class QosReservation:
    """What the two lower classes may use at most, by class; bytes."""

    percent: int
    target_bytes: Mapping[QosClass, int]
    """Never below 0: where more is requested than there is, nothing is left."""


def qos_reservation(
    pods: Iterable[Pod], *, percent: int, allocatable_memory_bytes: int | None
) -> QosReservation | None:
    """Compute how much memory is left to the lower classes.

    Args:
        pods: All pods of the node; those that have ended do not count.
        percent: Of the memory requests of higher classes that is kept for them, 0 to 100.
        allocatable_memory_bytes: Of the node; None or 0 = not known.

    Returns:
        None where the node's allocatable memory is not known.

    Source:
        The kubelet's cm/qos_container_manager_linux.go: burstable = allocatable - percent of the Guaranteed requests;
        besteffort = burstable - percent of the Burstable requests.
    """
    active = [pod for pod in pods if not has_ended(pod)]
    rules = QosRules(allocatable_memory_bytes=allocatable_memory_bytes, reserved_memory_percent=percent)
    levels = qos_levels(active, rules)
    burstable_bytes, best_effort_bytes = levels.burstable_memory_max_bytes, levels.best_effort_memory_max_bytes
    if burstable_bytes is None or best_effort_bytes is None:
        return None
    return QosReservation(
        percent=percent,
        target_bytes={
            QosClass.BURSTABLE: max(burstable_bytes, 0),
            QosClass.BEST_EFFORT: max(best_effort_bytes, 0),
        },
    )


def next_limits(
    target_bytes: Mapping[QosClass, int],
    *,
    usage_bytes: Mapping[QosClass, int],
    standing_bytes: Mapping[QosClass, int],
) -> dict[QosClass, int]:
    """Return the limits to have now: the targets, but for a class that uses about as much or more.

    Such a class gets what it uses and some room. From turn to turn that limit falls with the use and never rises with
    it, so it comes down to the target in time.

    Args:
        standing_bytes: The limits of ours that stand now; absent = none does.

    Returns:
        By class; a class whose use is not known is left out.
    """
    with_room = {str(qos): used_bytes + ROOM_BYTES for qos, used_bytes in usage_bytes.items()}
    known = {str(qos): target for qos, target in target_bytes.items() if qos in usage_bytes}
    limits = {QosClass(name): limit for name, limit in qos_reserve_retry(known, with_room).items() if limit is not None}
    return {qos: max(target_bytes[qos], min(limit, standing_bytes.get(qos, limit))) for qos, limit in limits.items()}
