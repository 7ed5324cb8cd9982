"""What a watched cgroup is: a container, a pod, a service; its names, and what is stated for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from agent.core.cluster.pod import QosClass


class UnitKind(StrEnum):
    """What kind of cgroup is watched."""

    CONTAINER = "container"
    POD = "pod"
    """A pod as a whole."""
    TIER = "tier"
    """``kubepods``, or the cgroup of a QoS class below it."""
    SANDBOX = "sandbox"
    """A pod's pause container: known as such only when a pod source names the others."""
    SERVICE = "service"
    SESSION = "session"
    """A systemd session, user slice or scope."""
    STANDALONE = "standalone"
    """A docker or podman container outside Kubernetes."""
    OTHER = "other"
    """Any other cgroup with processes; on a machine without systemd, for instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitIdentity:
    """Who stands behind a cgroup.

    ``cgroup_path`` is relative to the cgroup root and starts with a slash. ``pod``, ``namespace`` and ``container``
    are names from a pod source; without one they are None and ``pod_uid`` and ``container_id`` identify.
    """

    cgroup_path: str
    kind: UnitKind
    qos: QosClass | None = None
    pod_uid: str | None = None
    container_id: str | None = None
    runtime: str | None = None
    namespace: str | None = None
    pod: str | None = None
    container: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitResources:
    """Requests and limits of one container as its pod states them; None = not stated."""

    cpu_request_millicores: int | None = None
    cpu_limit_millicores: int | None = None
    memory_request_bytes: int | None = None
    memory_limit_bytes: int | None = None


def tier_name(path: str) -> str:
    """Return a tier's path from ``kubepods`` on, as the kubelet's own names have it: ``kubepods/burstable``."""
    last = path.rstrip("/").rpartition("/")[2]
    is_slice = last.endswith(".slice")
    parts = last.removesuffix(".slice").split("-") if is_slice else path.strip("/").split("/")
    return "/".join(parts[parts.index("kubepods") :]) if "kubepods" in parts else last
