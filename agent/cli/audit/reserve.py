"""Memory kept for higher QoS classes in an audit: what the lower ones might use, and what limits them. Face, pure.

It judges nothing: Plimsoll's own percentage is no option of the kubelet, whose ``--qos-reserved`` the audit compares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.cli.audit.text import JsonValue, target_text
from agent.cli.text.figures import ABSENT, bytes_text
from agent.cli.text.spans import Line, Span, Tone
from agent.core.cluster.pod import Partition, Pod, QosClass
from agent.core.machine.cgroup_files import MEMORY_MAX, Amount, CgroupLevel, LiveTree
from agent.core.machine.qos_reserve import LIMITED_CLASSES, QosReservation, qos_reservation


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveView:
    """What an audit shows of it."""

    percent: int
    allocatable_memory_bytes: int | None
    """As told, else what ``kubepods`` may use; None = neither is known, and nothing is computed."""
    reservation: QosReservation | None
    found: dict[QosClass, Amount | None]
    """memory.max of each class's cgroup; None = it is not there."""


def reserve_view(pods: Sequence[Pod], tree: LiveTree, *, percent: int, told_memory_bytes: int | None) -> ReserveView:
    """Compute what the classes might use; ``told_memory_bytes`` is --node-allocatable-memory, None = not given."""
    root = tree.at(CgroupLevel.KUBEPODS, Partition.DEFAULT)
    limit = None if root is None else root.reading(MEMORY_MAX).amount
    allocatable_bytes = told_memory_bytes or (limit if isinstance(limit, int) else None)
    tiers = {qos: tree.at(CgroupLevel.TIER, Partition.DEFAULT, qos) for qos in LIMITED_CLASSES}
    return ReserveView(
        percent=percent,
        allocatable_memory_bytes=allocatable_bytes,
        reservation=qos_reservation(pods, percent=percent, allocatable_memory_bytes=allocatable_bytes),
        found={qos: None if tier is None else tier.reading(MEMORY_MAX).amount for qos, tier in tiers.items()},
    )


def reserve_lines(view: ReserveView) -> Iterator[Line]:
    """Lay it out for a person."""
    yield ()
    title = f"{view.percent}% of memory requests kept for higher QoS classes"
    if view.reservation is None or view.allocatable_memory_bytes is None:
        yield (Span(title, Tone.TITLE),)
        text = "not computed: the node's allocatable memory is not known (--node-allocatable-memory SIZE)"
        yield (Span(f"  {text}", Tone.NOTE),)
        return
    yield (Span(f"{title}, of {bytes_text(view.allocatable_memory_bytes)} allocatable", Tone.TITLE),)
    for qos, target_bytes in view.reservation.target_bytes.items():
        limit = view.found[qos]
        now = ABSENT if limit is None else target_text(MEMORY_MAX, str(limit) if isinstance(limit, str) else limit)
        yield (Span(f"  tier {qos.lower()}: at most {bytes_text(target_bytes)}; memory.max is {now}"),)


def reserve_json(view: ReserveView) -> dict[str, JsonValue]:
    """Return it for programs."""
    targets = {} if view.reservation is None else view.reservation.target_bytes
    return {
        "percent": view.percent,
        "allocatable_memory_bytes": view.allocatable_memory_bytes,
        "tiers": [
            {
                "qos_class": qos,
                "at_most_bytes": targets.get(qos),
                "memory_max_bytes": limit if isinstance(limit, int) else None,
                "is_limited": isinstance(limit, int),
            }
            for qos, limit in view.found.items()
        ],
    }
