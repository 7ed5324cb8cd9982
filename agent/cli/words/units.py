"""What a watched unit is called for people."""

from __future__ import annotations

from agent.cli.text.spans import harmless
from agent.core.cluster.unit import UnitIdentity


def pod_key(identity: UnitIdentity) -> str | None:
    """Return what tells one pod from another; None = the unit belongs to no pod."""
    if identity.pod_uid is not None:
        return f"pod:{identity.pod_uid}"
    return None if identity.pod is None else f"pod:{identity.namespace}/{identity.pod}"


def unit_name(identity: UnitIdentity) -> str:
    """Return the name of one cgroup for people: container, else the short container id, else its path."""
    if pod_key(identity) is None:
        return harmless(identity.cgroup_path.strip("/") or "/")
    name = identity.container or (identity.container_id or "")[:12] or identity.cgroup_path.rpartition("/")[2]
    return harmless(name)
