"""The kubelet's cgroups of this machine as values: walks the tree, reads the files an audit compares.

Sensing. ``parse_*`` takes text, ``read_*`` does I/O. A file that is missing is a value with a reason; a cgroup that
goes away between listing and reading is normal, and left out.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.core.machine.cgroup_files import (
    CPU_MAX,
    CPU_WEIGHT,
    HUGETLB_PREFIX,
    MEMORY_HIGH,
    MEMORY_LOW,
    MEMORY_MAX,
    MEMORY_MIN,
    MEMORY_OOM_GROUP,
    PIDS_MAX,
    Amount,
    CgroupLevel,
    FileReading,
    LiveCgroup,
    LiveTree,
    Unlimited,
    UnreadFile,
    hugetlb_page_size_bytes,
)
from agent.core.machine.cpu_knobs import CpuMaxError, parse_cpu_max
from agent.core.machine.oom_score import OOM_SCORE_ADJ
from agent.sensing.cgroup_path import CgroupPath, Driver, PathKind, cgroup_root_candidates, driver_of, parse_cgroup_path
from agent.sensing.cgroup_text import parse_u64
from agent.sensing.discovery import SCAN_DEPTH

FILES: Final = (
    CPU_WEIGHT,
    CPU_MAX,
    MEMORY_MAX,
    MEMORY_MIN,
    MEMORY_LOW,
    MEMORY_HIGH,
    MEMORY_OOM_GROUP,
    PIDS_MAX,
)
"""Read in every cgroup; the hugetlb limits besides, as far as they are there."""

_LEVELS: Final = {
    PathKind.KUBEPODS: CgroupLevel.KUBEPODS,
    PathKind.PARTITION: CgroupLevel.PARTITION,
    PathKind.QOS: CgroupLevel.TIER,
    PathKind.POD: CgroupLevel.POD,
    PathKind.CONTAINER: CgroupLevel.CONTAINER,
}
_MOST_BYTES: Final = 4096
"""More than any of the files can hold."""
_GONE: Final = (errno.ENODEV, errno.ESRCH)
_ENDED: Final = (*_GONE, errno.ENOENT)


class LiveTreeError(Exception):
    """The tree cannot be told for one node's: a wrong or missing option; one line that names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletTree:
    """A node's cgroups and where they were found."""

    tree: LiveTree
    kubepods_path: str | None
    """None = there is no ``kubepods``."""
    driver: Driver | None
    """By the name of ``kubepods``."""
    passed_over: tuple[str, ...] = ()
    """Other ``kubepods`` without pods: left from another driver or node."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A cgroup that was found, unread."""

    path: str
    parsed: CgroupPath
    kubepods: str | None
    """The ``kubepods`` it lies below."""


def parse_amount(file: str, text: str) -> Amount | None:
    """Read the content of one of ``FILES`` or of a hugetlb limit.

    Args:
        text: Its content, with the newline at its end: a number cut short would be a smaller number.

    Returns:
        The value; None = not understood.
    """
    if not text.endswith("\n"):
        return None
    if file == CPU_MAX:
        try:
            return parse_cpu_max(text)
        except CpuMaxError:
            return None
    word = text.removesuffix("\n")
    if word == Unlimited.MAX:
        return Unlimited.MAX
    return parse_u64(word.encode(errors="replace"))


def read_cgroup_file(directory: Path, file: str, controllers: frozenset[str] | None) -> FileReading:
    """Read one file of a cgroup.

    Args:
        controllers: What ``cgroup.controllers`` lists there; None = it could not be read.
    """
    try:
        with (directory / file).open("rb", buffering=0) as opened:
            content = opened.read(_MOST_BYTES)
    except FileNotFoundError:
        is_off = controllers is not None and file.partition(".")[0] not in controllers
        return FileReading(unread=UnreadFile.NO_CONTROLLER if is_off else UnreadFile.NO_FILE)
    except OSError as error:
        return FileReading(unread=UnreadFile.GONE if error.errno in _GONE else UnreadFile.UNREADABLE)
    amount = parse_amount(file, content.decode("ascii", errors="replace"))
    return FileReading(unread=UnreadFile.NOT_UNDERSTOOD) if amount is None else FileReading(amount=amount)


def read_values(directory: Path) -> dict[str, FileReading]:
    """Read all that an audit compares of one cgroup: reading by file name."""
    try:
        controllers = frozenset((directory / "cgroup.controllers").read_text(encoding="ascii").split())
    except (OSError, UnicodeDecodeError):
        controllers = None
    try:
        hugetlb = [
            name
            for name in sorted(os.listdir(directory))
            if name.startswith(HUGETLB_PREFIX) and hugetlb_page_size_bytes(name) is not None
        ]
    except OSError:
        return {file: FileReading(unread=UnreadFile.GONE) for file in FILES}
    return {file: read_cgroup_file(directory, file, controllers) for file in (*FILES, *hugetlb)}


def read_oom_score(directory: Path, proc: Path) -> FileReading:
    """Read the oom_score_adj of a container's first process; some runtimes keep processes in a cgroup below it."""
    for place in (directory, *_children(directory)):
        try:
            listed = (place / "cgroup.procs").read_bytes().split()
            # 0 stands for a process of a namespace that this one does not see.
            first = next((process.decode("ascii") for process in listed if process != b"0"), None)
            if first is not None:
                return FileReading(amount=int((proc / first / OOM_SCORE_ADJ).read_bytes()))
        except OSError as error:
            return FileReading(unread=UnreadFile.GONE if error.errno in _ENDED else UnreadFile.UNREADABLE)
        except ValueError:
            return FileReading(unread=UnreadFile.NOT_UNDERSTOOD)
    return FileReading(unread=UnreadFile.NO_FILE)


def _children(directory: Path) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def read_kubelet_tree(
    mount: Path, *, cgroup_root: str = "/", driver: Driver | None = None, proc: Path = Path("/proc")
) -> KubeletTree:
    """Find the kubelet's cgroups of one node and read them, and the scores of its containers' processes.

    Args:
        cgroup_root: Only what lies below counts; as the kubelet's ``--cgroup-root``.
        driver: Only a ``kubepods`` of this driver counts; None = any.

    Raises:
        LiveTreeError: The root is not there, or several ``kubepods`` with pods are, as on a host of KinD nodes.
    """
    cgroups = KubeletCgroups.find(mount, cgroup_root=cgroup_root, driver=driver)
    return KubeletTree(
        tree=LiveTree(cgroups=tuple(cgroups.read(proc))),
        kubepods_path=cgroups.kubepods_path,
        driver=cgroups.driver,
        passed_over=cgroups.passed_over,
    )


class KubeletCgroups:
    """The kubelet's cgroups of one node as they were found, to be read one by one."""

    def __init__(self, mount: Path, places: Sequence[_Place], roots: Sequence[str], chosen: str | None) -> None:
        self._mount, self._places = mount, places
        self.kubepods_path: Final = chosen
        """As in ``KubeletTree``, like the two after it."""
        self.driver: Final = None if chosen is None else driver_of(chosen)
        self.passed_over: Final = tuple(root for root in roots if root != chosen)

    @classmethod
    def find(cls, mount: Path, *, cgroup_root: str = "/", driver: Driver | None = None) -> KubeletCgroups:
        """Find them, as ``read_kubelet_tree`` does; it raises what that raises."""
        base = _base(mount, cgroup_root)
        places = [place for place in _walk(mount, base, None, 0) if driver is None or _is_of(place, driver)]
        roots = list(dict.fromkeys(place.kubepods for place in places if place.kubepods is not None))
        inhabited = [
            root
            for root in roots
            if any(place.kubepods == root and place.parsed.pod_uid is not None for place in places)
        ]
        if len(inhabited) > 1:
            msg = f"several kubepods with pods: {', '.join(inhabited)}; choose one with --cgroup-root or --driver"
            raise LiveTreeError(msg)
        return cls(mount, places, roots, next(iter(inhabited or roots), None))

    def read(self, proc: Path = Path("/proc")) -> Iterator[LiveCgroup]:
        """Read them in tree order, each when it is asked for; one that is gone by then is left out.

        Args:
            proc: As in ``read_kubelet_tree``.
        """
        for place in self._places:
            if place.kubepods in (self.kubepods_path, None):
                cgroup = _live_cgroup(self._mount, place, proc)
                if cgroup is not None:
                    yield cgroup


def _base(mount: Path, cgroup_root: str) -> str:
    candidates = cgroup_root_candidates(cgroup_root)
    for candidate in candidates:
        if Path(f"{mount}{candidate}").is_dir():
            return candidate.rstrip("/")
    tried = " or ".join(f"{mount}{candidate}" for candidate in candidates)
    msg = f"--cgroup-root {cgroup_root}: no directory {tried}; allowed: a cgroup below the mount"
    raise LiveTreeError(msg)


def _walk(mount: Path, path: str, kubepods: str | None, depth: int) -> Iterator[_Place]:
    """Return the kubelet's cgroups at and below a path, in tree order, without what lies inside containers."""
    parsed = parse_cgroup_path(path)
    if parsed.kind is PathKind.KUBEPODS:
        kubepods = path
    if parsed.kind in _LEVELS:
        yield _Place(path, parsed, kubepods)
    if parsed.kind in (PathKind.CONTAINER, PathKind.CONMON, PathKind.UNKNOWN_CHILD) or depth >= SCAN_DEPTH:
        return
    try:
        with os.scandir(f"{mount}{path}") as entries:
            children = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:  # gone meanwhile, or not ours to list
        return
    for child in children:
        yield from _walk(mount, f"{path}/{child}", kubepods, depth + 1)


def _is_of(place: _Place, driver: Driver) -> bool:
    return place.kubepods is None or driver_of(place.kubepods) is driver


def _live_cgroup(mount: Path, place: _Place, proc: Path) -> LiveCgroup | None:
    parsed = place.parsed
    directory = Path(f"{mount}{place.path}")
    readings = read_values(directory)
    if parsed.kind is PathKind.CONTAINER:
        readings[OOM_SCORE_ADJ] = read_oom_score(directory, proc)
    if not directory.is_dir():  # went away while it was read: half of it would look like missing files
        return None
    return LiveCgroup(
        path=place.path,
        level=_LEVELS[parsed.kind],
        partition=parsed.partition,
        qos=parsed.qos,
        pod_uid=parsed.pod_uid,
        container_id=parsed.container_id,
        readings=readings,
    )
