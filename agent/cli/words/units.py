"""What a watched unit is called for people."""

from __future__ import annotations

from agent.cli.text.spans import harmless
from agent.core.cluster.unit import UnitIdentity, UnitKind, tier_name


def pod_key(identity: UnitIdentity) -> str | None:
    """Return what tells one pod from another; None = the unit belongs to no pod."""
    if identity.pod_uid is not None:
        return f"pod:{identity.pod_uid}"
    return None if identity.pod is None else f"pod:{identity.namespace}/{identity.pod}"


def unit_name(identity: UnitIdentity) -> str:
    """Return the name of one cgroup for people: container, else the short container id, else its path.

    A QoS tier goes by its class, a whole pod by its own name.
    """
    if identity.kind is UnitKind.TIER:
        return harmless(tier_name(identity.cgroup_path))
    if identity.kind is UnitKind.POD:
        return harmless(identity.pod or identity.pod_uid or identity.cgroup_path)
    if pod_key(identity) is None:
        return harmless(identity.cgroup_path.strip("/") or "/")
    name = identity.container or (identity.container_id or "")[:12] or identity.cgroup_path.rpartition("/")[2]
    return harmless(name)
