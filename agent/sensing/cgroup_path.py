"""What a cgroup path says: which pod, container, service or session it is; and the paths the kubelet would choose.

Sensing, pure: takes and gives text, reads no file. Trees are told apart by names, never by position or depth, since
KinD, nested clusters and ``--cgroup-root`` put levels in front. Sources: the kubelet's ``cm/cgroup_manager_linux.go``
(names), ``cm/pod_container_manager_linux.go`` (pods), ``cm/helpers_linux.go`` (root), KEP-5894 (system partition).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agent.core.cluster.pod import Partition, QosClass
from agent.core.cluster.unit import UnitIdentity, UnitKind


class PathKind(StrEnum):
    """What a directory of the cgroup tree is to Kubernetes."""

    CONTAINER = "container"
    POD = "pod"
    QOS = "qos"
    PARTITION = "partition"
    KUBEPODS = "kubepods"
    CONMON = "conmon"
    """CRI-O's or podman's monitor process: beside the container, never one."""
    UNKNOWN_CHILD = "unknown-child"
    """Below a pod, but named by no runtime that is known."""
    OTHER = "other"


class Runtime(StrEnum):
    """A container runtime that its names give away."""

    CONTAINERD = "containerd"
    CRI_O = "cri-o"
    DOCKER = "docker"
    PODMAN = "podman"


class Driver(StrEnum):
    """Who makes the kubelet's cgroups: it shows in the names."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupPath:
    """What a path says. A field that the path does not tell is None; kind ``other`` has None everywhere."""

    kind: PathKind
    partition: Partition | None = None
    qos: QosClass | None = None
    pod_uid: str | None = None
    """As the API shows it (dashes), or a static pod's 32-hex config hash."""
    container_id: str | None = None
    """64 hex digits; of a monitor: those of the container it watches."""
    runtime: Runtime | None = None
    nested: str | None = None
    """What follows the container's directory, or the unknown child itself and what follows it."""


OTHER: Final = CgroupPath(kind=PathKind.OTHER)

_TIERS: Final = {"burstable": QosClass.BURSTABLE, "besteffort": QosClass.BEST_EFFORT}
_CONTAINER_PREFIXES: Final = {
    "cri-containerd": Runtime.CONTAINERD,
    "crio": Runtime.CRI_O,
    "docker": Runtime.DOCKER,
    "libpod": Runtime.PODMAN,
}
_MONITOR_PREFIXES: Final = {"crio-conmon": Runtime.CRI_O, "libpod-conmon": Runtime.PODMAN}
_SCOPE_PREFIX: Final = {runtime: prefix for prefix, runtime in _CONTAINER_PREFIXES.items()}
_CGROUPFS_PREFIX: Final = {
    Runtime.CONTAINERD: "",
    Runtime.CRI_O: "crio-",
    Runtime.DOCKER: "",
    Runtime.PODMAN: "libpod-",
}
_CONTAINER_NAME: Final = re.compile(r"(?:([a-z-]+)-)?([0-9a-f]{64})(?:\.scope)?")
_COLON_NAME: Final = re.compile(r"([^:]+\.slice):([^:]+):([^:]+)")
"""``slice:prefix:id`` left unexpanded: the runtime runs on cgroupfs, the kubelet on systemd."""
_PLAIN_UID: Final = re.compile(r"[0-9a-fA-F]{8}(?:[-_][0-9a-fA-F]{4}){3}[-_][0-9a-fA-F]{12}|[0-9a-f]{32}")
"""What counts as a pod's UID where no ``kubepods`` vouches for it."""
_PROC_LINE: Final = re.compile(r"[0-9]+:([^:/]*):(/.*|)")


@dataclass(frozen=True, slots=True)
class _Container:
    container_id: str
    runtime: Runtime | None
    is_monitor: bool


def parse_cgroup_path(path: str) -> CgroupPath:
    """Return what a cgroup is to Kubernetes.

    Args:
        path: A directory relative to the cgroup root, or a line (or the whole) of /proc/PID/cgroup. Of such a file
            only the ``0::`` line counts: a line of a v1 hierarchy alone is ``other``. A path that starts with ``..``
            was read in a private cgroup namespace; what lies above is unknown there, so "Guaranteed", which is the
            absence of a tier above, is never told.

    Returns:
        What the names say; never raises, whatever the text.
    """
    v2_path = _v2_path(path)
    if v2_path is None:
        return OTHER
    elements = [element for element in v2_path.split("/") if element]
    is_relative = bool(elements) and elements[0] == ".."
    below: list[str] | None = None  # components after `kubepods`; None = none seen yet
    for index, element in enumerate(elements):
        colon = _COLON_NAME.fullmatch(element)
        name = colon[1] if colon else element
        below = _components_below_kubepods(name, below)
        pod = _vouched_pod(below) if below is not None else _plain_pod(name)
        if pod is None:
            continue
        rest = elements[index + 1 :]
        if colon:
            rest = [f"{colon[2]}-{colon[3]}", *rest]
        if is_relative and pod.qos is QosClass.GUARANTEED:
            pod = CgroupPath(kind=PathKind.POD, partition=pod.partition, pod_uid=pod.pod_uid)
        return _below_pod(pod, rest)
    return _level_above_pods(below) if below is not None else OTHER


def pod_cgroup_path(
    *,
    driver: Driver,
    qos: QosClass,
    pod_uid: str,
    cgroup_root: str = "/",
    partition: Partition = Partition.DEFAULT,
) -> str:
    """Return the path of a pod.

    Raises:
        ValueError: The UID is empty or holds ``/`` or ``_``, which the kubelet's names cannot carry.
    """
    return _concrete(Driver(driver), _pod_components(qos, pod_uid, cgroup_root, partition))


def container_cgroup_path(
    *,
    driver: Driver,
    runtime: Runtime,
    qos: QosClass,
    pod_uid: str,
    container_id: str,
    cgroup_root: str = "/",
    partition: Partition = Partition.DEFAULT,
) -> str:
    """Return the path of a container of a pod."""
    pod = _concrete(Driver(driver), _pod_components(qos, pod_uid, cgroup_root, partition))
    if Driver(driver) is Driver.SYSTEMD:
        return f"{pod}/{_SCOPE_PREFIX[Runtime(runtime)]}-{container_id}.scope"
    return f"{pod}/{_CGROUPFS_PREFIX[Runtime(runtime)]}{container_id}"


def cgroup_root_candidates(cgroup_root: str) -> tuple[str, ...]:
    """Return the directories that a ``--cgroup-root`` may stand for: as written, and as systemd unfolds it."""
    components = _root_components(cgroup_root)
    return tuple(dict.fromkeys((_concrete(Driver.CGROUPFS, components), _concrete(Driver.SYSTEMD, components))))


def identify(path: str) -> UnitIdentity | None:
    """Return who stands behind a cgroup that is worth being sampled, by its name alone.

    A service, session or container is one unit, whatever lies below it: its counters are hierarchical.

    Args:
        path: A directory relative to the cgroup root, with a leading slash.

    Returns:
        Who stands behind it; None = not a unit by its name: slices, tiers, pods (their containers are), monitors,
        directories below a unit, and names that say nothing.
    """
    parsed = parse_cgroup_path(path)
    if parsed.kind is PathKind.CONTAINER:
        if parsed.nested is not None:
            return None
        return UnitIdentity(
            cgroup_path=path,
            kind=UnitKind.CONTAINER,
            qos=parsed.qos,
            pod_uid=parsed.pod_uid,
            container_id=parsed.container_id,
            runtime=parsed.runtime,
        )
    if parsed.kind is not PathKind.OTHER:
        return None
    elements = [element for element in path.split("/") if element]
    for index in range(len(elements)):
        unit = _host_unit(elements[: index + 1])
        if unit is None:
            continue
        if index + 1 < len(elements):
            return None
        kind, container = unit
        return UnitIdentity(
            cgroup_path=path,
            kind=kind,
            container_id=container.container_id if container else None,
            runtime=container.runtime if container else None,
        )
    return None


def is_monitor(name: str) -> bool:
    """Return whether a directory holds a container's monitor (conmon, lxc-start): never a container."""
    container = _container_name(name)
    return name.startswith("lxc.monitor") or (container is not None and container.is_monitor)


def driver_of(kubepods_path: str) -> Driver:
    """Return the kubelet's driver by the path of a ``kubepods`` directory."""
    return Driver.SYSTEMD if kubepods_path.endswith(".slice") else Driver.CGROUPFS


def drivers_of(container_path: str) -> tuple[Driver, Driver] | None:
    """Return the kubelet's driver and the runtime's, by the path of a container of a pod; None = it is no such path.

    The pod's name is the kubelet's, the container's the runtime's. A runtime on cgroupfs takes the kubelet's systemd
    name literally: as ``slice:prefix:id``, or as a slice at the root that does not lie below ``kubepods.slice``.
    """
    parsed = parse_cgroup_path(container_path)
    if parsed.kind is not PathKind.CONTAINER or parsed.pod_uid is None:
        return None
    *above, last = [element for element in container_path.split("/") if element]
    if ":" in last:
        return Driver.SYSTEMD, Driver.CGROUPFS
    pod = above[-1] if above else ""
    kubelet = Driver.SYSTEMD if pod.endswith(".slice") else Driver.CGROUPFS
    return kubelet, Driver.SYSTEMD if last.endswith(".scope") else Driver.CGROUPFS


def _v2_path(text: str) -> str | None:
    """Return the path in a directory name or a text of /proc/PID/cgroup; None = that has no cgroup v2 line."""
    lines = text.splitlines()
    matches = [_PROC_LINE.fullmatch(line) for line in lines]
    if any(matches):
        unified = [match[2] for line, match in zip(lines, matches, strict=True) if match and line.startswith("0::")]
        # The kernel marks a removed cgroup so; the names before it still tell who it was.
        return unified[0].removesuffix(" (deleted)") if unified else None
    return text.strip("\n")


def _components_below_kubepods(name: str, below: list[str] | None) -> list[str] | None:
    """Extend what is known to follow ``kubepods`` by one directory name."""
    if name.endswith(".slice"):
        # The last name repeats all levels above it: it replaces what was collected.
        parts = name.removesuffix(".slice").split("-")
        if "kubepods" in parts:
            at = len(parts) - 1 - parts[::-1].index("kubepods")
            return _rejoin_uid(parts[at + 1 :])
    if name == "kubepods":
        return []
    return None if below is None else [*below, name]


def _rejoin_uid(parts: list[str]) -> list[str]:
    """Return a UID whose dashes were left unescaped (seen in colon names)."""
    for index, part in enumerate(parts):
        if part.startswith("pod"):
            return [*parts[:index], "-".join(parts[index:])]
    return parts


def _vouched_pod(below: list[str]) -> CgroupPath | None:
    """Read a pod from the components after ``kubepods``: any UID will do there."""
    rest = list(below)
    partition = Partition.DEFAULT
    if rest and rest[0] == "system":
        partition = Partition.SYSTEM
        rest = rest[1:]
    qos = QosClass.GUARANTEED
    if rest and rest[0] in _TIERS:
        qos = _TIERS[rest[0]]
        rest = rest[1:]
    if len(rest) != 1 or not rest[0].startswith("pod"):
        return None
    # The kubelet's own test: split at "pod" there are exactly two parts. Without a UID it is no pod to us either.
    _, *uids = rest[0].split("pod")
    if len(uids) != 1 or not uids[0]:
        return None
    return CgroupPath(kind=PathKind.POD, partition=partition, qos=qos, pod_uid=uids[0].replace("_", "-"))


def _plain_pod(name: str) -> CgroupPath | None:
    """Read a pod from a name without ``kubepods``: only UIDs that cannot be anything else, and no class."""
    component = name
    if name.endswith(".slice"):
        parts = _rejoin_uid(name.removesuffix(".slice").split("-"))
        component = parts[-1]
    uid = component.removeprefix("pod")
    if uid == component or not _PLAIN_UID.fullmatch(uid):
        return None
    return CgroupPath(kind=PathKind.POD, pod_uid=uid.replace("_", "-"))


def _below_pod(pod: CgroupPath, rest: list[str]) -> CgroupPath:
    if not rest:
        return pod
    first, *deeper = rest
    colon = _COLON_NAME.fullmatch(first)
    container = _container_name(f"{colon[2]}-{colon[3]}" if colon else first)
    if container is None:
        kind, nested = PathKind.UNKNOWN_CHILD, "/".join(rest)
    else:
        kind = PathKind.CONMON if container.is_monitor else PathKind.CONTAINER
        nested = "/".join(deeper)
    return CgroupPath(
        kind=kind,
        partition=pod.partition,
        qos=pod.qos,
        pod_uid=pod.pod_uid,
        container_id=container.container_id if container else None,
        runtime=container.runtime if container else None,
        nested=nested or None,
    )


def _level_above_pods(below: list[str]) -> CgroupPath:
    match below:
        case []:
            return CgroupPath(kind=PathKind.KUBEPODS, partition=Partition.DEFAULT)
        case ["system"]:
            return CgroupPath(kind=PathKind.PARTITION, partition=Partition.SYSTEM)
        case [tier] if tier in _TIERS:
            return CgroupPath(kind=PathKind.QOS, partition=Partition.DEFAULT, qos=_TIERS[tier])
        case ["system", tier] if tier in _TIERS:
            return CgroupPath(kind=PathKind.QOS, partition=Partition.SYSTEM, qos=_TIERS[tier])
        case _:
            return OTHER


def _container_name(name: str) -> _Container | None:
    match = _CONTAINER_NAME.fullmatch(name)
    if match is None:
        return None
    prefix, container_id = match[1], match[2]
    if prefix is None:
        return _Container(container_id, None, is_monitor=False)
    if prefix in _MONITOR_PREFIXES:
        return _Container(container_id, _MONITOR_PREFIXES[prefix], is_monitor=True)
    if prefix in _CONTAINER_PREFIXES:
        return _Container(container_id, _CONTAINER_PREFIXES[prefix], is_monitor=False)
    return None


def _host_unit(elements: list[str]) -> tuple[UnitKind, _Container | None] | None:
    """Return what the last of these names is on a machine, Kubernetes aside."""
    name = elements[-1]
    parent = elements[-2] if len(elements) > 1 else ""
    container = _container_name(name)
    if container is not None:
        if container.is_monitor:
            return None
        if container.runtime is None and parent == "docker":
            container = _Container(container.container_id, Runtime.DOCKER, is_monitor=False)
        return UnitKind.STANDALONE, container
    if name.startswith("lxc.payload") or parent == "lxc":
        return UnitKind.STANDALONE, None
    if re.fullmatch(r"user@[0-9]+\.service", name):
        return UnitKind.SESSION, None
    if name.endswith(".service"):
        return UnitKind.SERVICE, None
    if name.endswith(".scope"):
        return (UnitKind.STANDALONE if parent == "machine.slice" else UnitKind.SESSION), None
    return None


def _root_components(cgroup_root: str) -> list[str]:
    return [component for component in cgroup_root.split("/") if component]


def _kubepods(cgroup_root: str) -> list[str]:
    return [*_root_components(cgroup_root), "kubepods"]


def _pod_components(qos: QosClass, pod_uid: str, cgroup_root: str, partition: Partition) -> list[str]:
    if not pod_uid or "/" in pod_uid or "_" in pod_uid:
        msg = f"pod UID {pod_uid!r}: a component of a cgroup name is not empty and holds neither '/' nor '_'"
        raise ValueError(msg)
    components = _kubepods(cgroup_root)
    if Partition(partition) is Partition.SYSTEM:
        components.append("system")
    tier = qos.lower()
    if tier in _TIERS:  # Guaranteed pods have no level of their own
        components.append(tier)
    return [*components, f"pod{pod_uid}"]


def _concrete(driver: Driver, components: list[str]) -> str:
    """Spell a list of components as the driver does; systemd repeats the parent's name at each level."""
    if driver is Driver.CGROUPFS:
        return "/" + "/".join(components)
    escaped = [component.replace("-", "_") for component in components]
    return "/" + "/".join("-".join(escaped[: depth + 1]) + ".slice" for depth in range(len(escaped)))
