"""Finds the cgroups worth sampling and keeps up with their coming and going.

Sensing. Walks the cgroup2 mount, then lets inotify tell of directories made and removed; beside it a comparison of
link counts and, more seldom, a full re-list mend whatever was missed. Names are judged by ``layout``; here are only
directories, watches and the difference between what was and what is. One thread at a time.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar

from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.sensing.cgroup_path import (
    Driver,
    PathKind,
    cgroup_root_candidates,
    driver_of,
    identify,
    is_monitor,
    parse_cgroup_path,
)
from agent.sensing.inotify import IN_IGNORED, IN_ISDIR, IN_MODIFY, IN_Q_OVERFLOW, Inotify
from agent.sensing.path_watches import PathWatches

SCAN_DEPTH: Final = 10
"""Levels below the start that are looked at. KinD in rootless podman, the deepest known, has its kubepods at 7 and so
its containers at 10."""


_EVENTS_FILE: Final = "/cgroup.events"
_Value = TypeVar("_Value")


class DiscoveryError(Exception):
    """The tree to be watched is not there: a wrong setting; one line that names it."""


class UnitScope(StrEnum):
    """Which cgroups are units."""

    AUTO = "auto"
    """KUBERNETES as soon as pods are found, else MACHINE."""
    KUBERNETES = "kubernetes"
    """Containers of pods."""
    MACHINE = "machine"
    """Services, sessions, containers; other cgroups with processes; without any of these the machine as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCgroup:
    """A cgroup to be sampled."""

    path: str
    """Relative to the cgroup2 mount, with a leading slash."""
    inode: int
    """Tells it from an earlier or later cgroup of the same path."""
    identity: UnitIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What came and went since the last answer.

    A path in both is a new cgroup under an old name: handle ``vanished`` first.
    """

    appeared: tuple[FoundCgroup, ...] = ()
    """In tree order: neighbours in the tree are read one after the other."""
    vanished: tuple[str, ...] = ()
    trigger: str | None = None
    """Why everything was looked at anew; None = only what inotify told."""
    scope_changed: bool = False
    """AUTO went over to Kubernetes with this answer."""

    def __bool__(self) -> bool:
        return bool(self.appeared or self.vanished or self.scope_changed)


@dataclass(frozen=True, slots=True)
class _Listing:
    """A directory as it was when it was listed; what was made or removed since shows in its link count."""

    inode: int
    links: int
    children: tuple[str, ...]


@dataclass(slots=True)
class _Tree:
    """What a walk of a directory and all below it found, by path."""

    units: dict[str, FoundCgroup] = field(default_factory=dict)
    pods: dict[str, str] = field(default_factory=dict)
    roots: dict[str, None] = field(default_factory=dict)
    tiers: dict[str, None] = field(default_factory=dict)
    """``kubepods`` and what lies between it and the pods."""
    unreadable: dict[str, None] = field(default_factory=dict)
    watched: dict[str, None] = field(default_factory=dict)
    """Directories in which units can come and go, and events files of those that become units with a process."""
    listings: dict[str, _Listing] = field(default_factory=dict)
    """Of the directories whose link counts tell how many directories are in them."""

    def replace_below(self, top: str, new: _Tree) -> None:
        """Replace what was known below ``top`` by what a new walk of it found."""
        _replace_below(self.units, top, new.units)
        _replace_below(self.pods, top, new.pods)
        _replace_below(self.roots, top, new.roots)
        _replace_below(self.tiers, top, new.tiers)
        _replace_below(self.unreadable, top, new.unreadable)
        _replace_below(self.watched, top, new.watched)
        _replace_below(self.listings, top, new.listings)


class Discovery:
    """The units of one cgroup2 mount. Nothing is known before the first ``relist``."""

    def __init__(
        self,
        mount: Path,
        *,
        cgroup_root: str = "/",
        scope: UnitScope = UnitScope.AUTO,
        max_units: int = 1000,
        open_watcher: Callable[[], Inotify] = Inotify,
    ) -> None:
        """Find where to start and open inotify; without it discovery goes on by re-listing.

        Args:
            mount: The cgroup2 mount: /sys/fs/cgroup, or /sys/fs/cgroup/unified on a hybrid machine.
            cgroup_root: Only what lies below counts. As the kubelet's ``--cgroup-root``: the directory itself, or
                its name before systemd unfolds it.
            max_units: Units beyond are counted in ``dropped``; those known already keep their place.

        Raises:
            DiscoveryError: The mount or the root below it is not there.
        """
        self.mount: Final = mount
        self._mount = str(mount).rstrip("/")
        self._base = self._find_base(cgroup_root)
        self._scope = scope
        self._max_units = max_units
        self.scope_in_force = UnitScope.MACHINE if scope is UnitScope.AUTO else scope
        """Never AUTO."""
        self.overflows = 0
        self.relists: dict[str, int] = {}
        """Full walks by trigger."""
        self.dropped = 0
        """Units that are there now but not watched, since there are more than ``max_units``."""
        self._tree = _Tree()
        self._chosen: dict[str, FoundCgroup] = {}
        self._watches = PathWatches(self._mount, open_watcher)

    @property
    def no_watches_reason(self) -> str | None:
        """Why inotify is not used (any more); None = it is."""
        return self._watches.why_none

    @property
    def kubepods_root(self) -> str | None:
        """The first ``kubepods`` in tree order; None = none seen (all others are walked too)."""
        return min(self._tree.roots, key=_tree_order, default=None)

    @property
    def is_root_gone(self) -> bool:
        """Whether the directory below which all is looked for has vanished; any thread may ask."""
        return not Path(self._mount + self._base).is_dir()

    @property
    def driver(self) -> Driver | None:
        """The kubelet's cgroup driver, told by the name of ``kubepods_root``."""
        root = self.kubepods_root
        return None if root is None else driver_of(root)

    @property
    def watches(self) -> int:
        """Watches of inotify held now."""
        return len(self._watches)

    @property
    def unreadable(self) -> int:
        """Directories that may not be listed, at the last look."""
        return len(self._tree.unreadable)

    def units(self) -> tuple[FoundCgroup, ...]:
        """Return all units of now, in tree order."""
        return tuple(self._chosen.values())

    def pod_paths(self) -> dict[str, str]:
        """Return the pods' cgroups: UID -> path.

        A UID may be there twice for a moment after a change of partition; the first in tree order counts.
        """
        paths: dict[str, str] = {}
        for path in sorted(self._tree.pods, key=_tree_order):
            paths.setdefault(self._tree.pods[path], path)
        return paths

    def tier_paths(self) -> tuple[str, ...]:
        """Return ``kubepods`` and the levels between it and the pods, in tree order."""
        return tuple(sorted(self._tree.tiers, key=_tree_order))

    def fileno(self) -> int | None:
        """Return the inotify descriptor for the loop's epoll; None = re-list only.

        Ask again after each answer: when the user's watches run out the descriptor is closed.
        """
        return self._watches.fileno()

    def poll(self) -> Changes:
        """Handle what inotify has to tell; an overflow means that something was lost, so all is listed anew."""
        dirty: dict[str, None] = {}
        for event in self._watches.read():
            if event.mask & IN_Q_OVERFLOW:
                self.overflows += 1
                return self.relist("overflow")
            path = self._watches.path_of(event.watch)
            if path is None:
                continue
            if event.mask & IN_IGNORED:
                self._watches.forget(event.watch)
            elif event.mask & IN_MODIFY:
                dirty[path.removesuffix(_EVENTS_FILE)] = None
            elif event.mask & IN_ISDIR:
                dirty[_join(path, event.name)] = None
        if not dirty:
            return Changes()
        self._walk_again(dirty)
        return self._choose(None)

    def compare(self, trigger: str, *, read: Mapping[str, int] = MappingProxyType({})) -> Changes:
        """Walk what has another inode or link count than when it was listed, and return what came and went.

        What it cannot see is a directory that came where one that is no unit went, so that the count is the same: that
        inotify has told, or the next ``relist`` finds it. Without inotify, or where units are told by their processes,
        it is a ``relist``.

        Args:
            trigger: Why, for whoever is told.
            read: Path -> inode of units whose files were read just now: those are still there, and not asked for.

        Source: a cgroup's directory has two links and one for each directory in it, as kernfs counts; a file system
        that does not count says one.
        """
        if self._watches.fileno() is None or self.scope_in_force is not UnitScope.KUBERNETES:
            return self.relist(trigger)
        dirty: dict[str, None] = {}
        # What has gone from a directory may have made way for something else, so that there are as many as before.
        suspects = {
            _parent(known.path): None
            for known in self._tree.units.values()
            if read.get(known.path) != known.inode and self._is_other(known)
        }
        for path, listing in self._tree.listings.items():
            stat = self._stat(path)
            if stat is None or stat.st_ino != listing.inode:
                dirty[path] = None
                if path != self._base:
                    suspects[_parent(path)] = None
            elif stat.st_nlink != listing.links or listing.links < 2:
                suspects[path] = None
        for path in suspects:
            before = self._tree.listings.get(path)
            if path in self._tree.tiers and before is not None:
                # Hundreds of pods are below, and of most of those that came inotify has told: only these are walked.
                dirty |= dict.fromkeys(set(before.children) ^ set(self._children(path, self._tree) or ()))
            else:
                dirty[path] = None
        if not dirty:
            return Changes(trigger=trigger)
        self._walk_again(dirty)
        return self._choose(trigger)

    def relist(self, trigger: str) -> Changes:
        """Walk everything and return the difference to what was known.

        A periodic walk tries inotify again where it had failed: watches may have come free. ``fileno`` is another then.

        Args:
            trigger: Why, for counters: ``start``, ``periodic``, ``overflow``, ``no_watches``.
        """
        if trigger == "periodic":
            self._watches.open()
        self.relists[trigger] = self.relists.get(trigger, 0) + 1
        scope_changed = False
        # No way back: an empty answer in passing must not exchange all units and lose their history.
        if (
            self._scope is UnitScope.AUTO
            and self.scope_in_force is UnitScope.MACHINE
            and self._has_kubernetes(self._base)
        ):
            self.scope_in_force = UnitScope.KUBERNETES
            scope_changed = True
        self._tree = self._walk(self._base)
        self._watches.keep(self._tree.watched)
        return self._choose(trigger, scope_changed=scope_changed)

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        self._watches.close()

    def _walk_again(self, tops: Iterable[str]) -> None:
        """Replace what was known below these by what is there now."""
        for top in _outermost(tops):
            self._tree.replace_below(top, self._walk(top))
        self._watches.keep(self._tree.watched)

    def _find_base(self, cgroup_root: str) -> str:
        if not Path(self._mount or "/").is_dir():
            raise DiscoveryError(f"cgroup2 mount {self._mount or '/'}: no such directory")
        candidates = cgroup_root_candidates(cgroup_root)
        for candidate in candidates:
            if Path(self._mount + candidate).is_dir():
                return candidate
        tried = " or ".join(f"{self._mount}{candidate}" for candidate in candidates)
        raise DiscoveryError(f"cgroup root {cgroup_root!r}: no directory {tried}")

    def _walk(self, top: str) -> _Tree:
        tree = _Tree()
        if self.scope_in_force is UnitScope.KUBERNETES:
            self._walk_kubernetes(top, tree)
        else:
            self._walk_machine(top, tree)
        return tree

    def _walk_kubernetes(self, path: str, tree: _Tree) -> None:
        parsed = parse_cgroup_path(path)
        match parsed.kind:
            case PathKind.CONTAINER:
                identity = identify(path)
                if identity is not None:
                    self._add_unit(path, identity, tree)
                return
            case PathKind.CONMON | PathKind.UNKNOWN_CHILD:
                return
            case PathKind.OTHER:
                if self._depth(path) >= SCAN_DEPTH:
                    return
            case PathKind.KUBEPODS | PathKind.PARTITION | PathKind.QOS | PathKind.POD:
                # The watch comes before the listing: what is made in between is told, what was made before is listed.
                self._watch(path, tree)
        children = self._children(path, tree)
        if children is None:
            return
        if parsed.kind in (PathKind.KUBEPODS, PathKind.PARTITION, PathKind.QOS):
            tree.tiers[path] = None
        if parsed.kind is PathKind.KUBEPODS:
            tree.roots[path] = None
        elif parsed.pod_uid is not None:
            tree.pods[path] = parsed.pod_uid
        elif parsed.kind is PathKind.OTHER and any(_is_kubernetes(child) for child in children):
            self._watch(path, tree)
            children = self._children(path, tree)
        for child in children or ():
            self._walk_kubernetes(child, tree)

    def _walk_machine(self, path: str, tree: _Tree) -> None:
        name = path.rsplit("/", 1)[1]
        is_base = path == self._base
        if is_monitor(name):
            return
        identity = None if is_base else identify(path)
        can_hold_processes = not is_base and not name.endswith(".slice")
        if identity is None and can_hold_processes:
            # The watch on its events file comes first, so that a process that moves in meanwhile is told.
            self._watch(path + _EVENTS_FILE, tree)
            if self._has_processes(path) or self._is_chosen(path):
                identity = UnitIdentity(cgroup_path=path, kind=UnitKind.OTHER)
        if identity is not None:
            tree.watched.pop(path + _EVENTS_FILE, None)
            self._add_unit(path, identity, tree)
            return
        if self._depth(path) >= SCAN_DEPTH:
            return
        self._watch(path, tree)
        for child in self._children(path, tree) or ():
            self._walk_machine(child, tree)

    def _has_kubernetes(self, path: str) -> bool:
        if _is_kubernetes(path):
            return True
        if self._depth(path) >= SCAN_DEPTH:
            return False
        return any(self._has_kubernetes(child) for child in self._children(path, _Tree()) or ())

    def _add_unit(self, path: str, identity: UnitIdentity, tree: _Tree) -> None:
        stat = self._stat(path)
        if stat is not None:  # else gone again: normal
            tree.units[path] = FoundCgroup(path=path, inode=stat.st_ino, identity=identity)

    def _stat(self, path: str) -> os.stat_result | None:
        """Return what a directory is; None = it is gone."""
        try:
            return os.stat(self._mount + path)
        except OSError:
            return None

    def _is_other(self, known: FoundCgroup) -> bool:
        """Return whether a unit has vanished or another has its path."""
        stat = self._stat(known.path)
        return stat is None or stat.st_ino != known.inode

    def _children(self, path: str, tree: _Tree) -> list[str] | None:
        """List the directories in one, sorted; None = it is gone. One that may not be read is taken for empty."""
        before = self._stat(path)  # first: what comes while it is listed makes the count another
        try:
            with os.scandir(self._mount + path) as entries:
                children = sorted(_join(path, entry.name) for entry in entries if entry.is_dir(follow_symlinks=False))
        except PermissionError:
            tree.unreadable[path] = None
            return []
        except OSError:  # ENOENT, ENODEV: gone between naming and listing
            return None
        if before is not None:
            tree.listings[path] = _Listing(before.st_ino, before.st_nlink, tuple(children))
        return children

    def _has_processes(self, path: str) -> bool:
        try:
            with open(f"{self._mount}{path}/cgroup.procs", "rb", buffering=0) as procs:
                return bool(procs.read(1))
        except OSError as error:
            return error.errno == errno.EOPNOTSUPP  # a threaded cgroup: its members are threads

    def _is_chosen(self, path: str) -> bool:
        """Return whether it is a unit already: one that idles without a process keeps its history."""
        known = self._chosen.get(path)
        return known is not None and not self._is_other(known)

    def _depth(self, path: str) -> int:
        return path.rstrip("/").count("/") - self._base.rstrip("/").count("/")

    def _choose(self, trigger: str | None, *, scope_changed: bool = False) -> Changes:
        """Keep what is still there, fill up to the cap in tree order, and return the difference."""
        units = self._tree.units
        if not units and self.scope_in_force is UnitScope.MACHINE:
            self._add_unit(self._base, UnitIdentity(cgroup_path=self._base, kind=UnitKind.OTHER), alone := _Tree())
            units = alone.units
        before = self._chosen
        unchanged = {path for path, known in before.items() if path in units and units[path].inode == known.inode}
        room = max(0, self._max_units - len(unchanged))
        chosen: dict[str, FoundCgroup] = {}
        for path in sorted(units, key=_tree_order):
            if path in unchanged:
                chosen[path] = before[path]
            elif room > 0:
                chosen[path] = units[path]
                room -= 1
        self._chosen = chosen
        self.dropped = len(units) - len(chosen)
        return Changes(
            appeared=tuple(unit for path, unit in chosen.items() if path not in unchanged),
            vanished=tuple(path for path in before if path not in unchanged),
            trigger=trigger,
            scope_changed=scope_changed,
        )

    def _watch(self, path: str, tree: _Tree) -> None:
        """Watch a directory, or an events file by its name."""
        if self._watches.add(path, is_file=path.endswith(_EVENTS_FILE)):
            tree.watched[path] = None


def _is_kubernetes(path: str) -> bool:
    return parse_cgroup_path(path).kind is not PathKind.OTHER


def _join(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}"


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _tree_order(path: str) -> list[str]:
    return path.split("/")


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def _outermost(paths: Iterable[str]) -> list[str]:
    """Leave out what lies below another of them: the walk of that one sees it."""
    tops: list[str] = []
    for path in sorted(paths, key=_tree_order):
        if not tops or not _is_below(path, tops[-1]):
            tops.append(path)
    return tops


def _replace_below(known: dict[str, _Value], top: str, new: Mapping[str, _Value]) -> None:
    for path in [path for path in known if _is_below(path, top)]:
        del known[path]
    known.update(new)
