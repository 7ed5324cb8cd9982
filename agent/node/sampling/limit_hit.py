"""How much memory a container may have had when a limit of memory was hit, its own or its pod's. Node."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from agent.node.sampling.unit_table import WatchedUnit
from agent.sensing.memory_events import OomKill
from agent.sensing.spot_readings import read_memory_max_bytes


def limit_hit(kill: OomKill, unit: WatchedUnit, units: Iterable[WatchedUnit], mount: Path) -> int | None:
    """Return what a container had when it was killed at a limit; None = at none, or none that is known.

    A pod's limit leaves a container what the pod's others do not hold, and never more than its own limit. Where only
    the pod could tell of the kill, nobody knows which of the two was hit, and the smaller is the one.
    """
    own_bytes, path = unit.memory_max_bytes, unit.identity.cgroup_path
    pod_path = path.rpartition("/")[0]
    if kill.path == path and kill.at_limit:
        return own_bytes
    if not kill.at_limit and not kill.at_pod_limit:
        return None
    pod_bytes = read_memory_max_bytes(mount / pod_path.lstrip("/"))
    if pod_bytes is None:
        return own_bytes
    siblings = (other.identity.cgroup_path for other in units)
    siblings = (sibling for sibling in siblings if sibling != path and sibling.rpartition("/")[0] == pod_path)
    held = sum(_current_bytes(mount, sibling) for sibling in siblings)
    room_bytes = pod_bytes - held
    if room_bytes <= 0:
        return own_bytes  # the others have grown since
    return room_bytes if own_bytes is None else min(own_bytes, room_bytes)


def _current_bytes(mount: Path, path: str) -> int:
    """Read memory.current; what cannot be read is gone, and held nothing."""
    try:
        return int((mount / path.lstrip("/") / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
