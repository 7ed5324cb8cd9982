"""Discovery with real inotify on real cgroups that come and go."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.core.cluster.unit import UnitKind
from agent.sensing.discovery import Changes, Discovery, UnitScope
from tests.kernel.cgroups import CgroupTree

pytestmark = pytest.mark.kernel

A, B = "a" * 64, "b" * 64
POD = "kubepods/burstable/pod0b1d8f52-3f0c-4a64-8d0b-6a1a5d1f6c01"
WAIT_MS = 60_000
"""Events of the same process are there at once; this only bounds a failure."""


class Watched:
    """A discovery of one tree of test cgroups, which is all it may see of the machine."""

    def __init__(self, tree: CgroupTree, scope: UnitScope) -> None:
        self.prefix = f"/{tree.name}/"
        self.discovery = Discovery(tree.mount, cgroup_root=f"/{tree.name}", scope=scope)

    def next(self, condition: Callable[[Changes], bool] = bool) -> Changes:
        """Wait for inotify until an answer meets the condition."""
        fd = self.discovery.fileno()
        assert fd is not None
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        while poller.poll(WAIT_MS):
            changes = self.discovery.poll()
            if condition(changes):
                return changes
        pytest.fail("inotify told nothing more")

    def appeared(self, changes: Changes) -> list[str]:
        return [cgroup.path.removeprefix(self.prefix) for cgroup in changes.appeared]

    def vanished(self, changes: Changes) -> list[str]:
        return [path.removeprefix(self.prefix) for path in changes.vanished]

    def units(self) -> list[str]:
        return [cgroup.path.removeprefix(self.prefix) for cgroup in self.discovery.units()]


@pytest.fixture
def kubernetes(tree: CgroupTree) -> Iterator[Watched]:
    tree.make("kubepods/burstable")
    tree.make("kubepods/besteffort")
    watched = Watched(tree, UnitScope.AUTO)
    watched.discovery.relist("start")
    yield watched
    watched.discovery.close()


def test_a_pod_and_its_containers_are_told_as_they_come_and_go(tree: CgroupTree, kubernetes: Watched) -> None:
    tree.make(f"{POD}/{A}")
    changes = kubernetes.next()
    assert kubernetes.appeared(changes) == [f"{POD}/{A}"]
    assert changes.appeared[0].inode == tree.inode(f"{POD}/{A}")
    assert changes.trigger is None

    tree.make(f"{POD}/{B}")
    assert kubernetes.appeared(kubernetes.next()) == [f"{POD}/{B}"]

    tree.remove(f"{POD}/{A}")
    assert kubernetes.vanished(kubernetes.next()) == [f"{POD}/{A}"]

    tree.remove(POD)
    kubernetes.next(lambda changes: f"{POD}/{B}" in kubernetes.vanished(changes))
    assert kubernetes.units() == []
    # A relist finds nothing that was missed.
    assert not kubernetes.discovery.relist("periodic")


def test_what_inotify_did_not_tell_shows_in_link_counts(tree: CgroupTree, kubernetes: Watched) -> None:
    other = "kubepods/burstable/pod0b1d8f52-3f0c-4a64-8d0b-6a1a5d1f6c02"
    for path in (f"{POD}/{A}", f"{other}/{A}"):
        tree.make(path)
    changes = kubernetes.discovery.compare("periodic")
    assert kubernetes.appeared(changes) == [f"{POD}/{A}", f"{other}/{A}"]

    tree.remove(f"{POD}/{A}")  # as many as before: their pod's link count is the same
    tree.make(f"{POD}/{B}")
    changes = kubernetes.discovery.compare("periodic")
    assert (kubernetes.appeared(changes), kubernetes.vanished(changes)) == ([f"{POD}/{B}"], [f"{POD}/{A}"])

    tree.remove(f"{other}/{A}")
    tree.remove(other)
    assert kubernetes.vanished(kubernetes.discovery.compare("periodic")) == [f"{other}/{A}"]
    assert not kubernetes.discovery.compare("periodic")
    assert not kubernetes.discovery.relist("periodic")
    assert kubernetes.discovery.relists == {"start": 1, "periodic": 1}


def test_a_container_made_again_is_another_unit(tree: CgroupTree, kubernetes: Watched) -> None:
    tree.make(f"{POD}/{A}")
    first = kubernetes.next().appeared[0]
    tree.remove(f"{POD}/{A}")
    tree.make(f"{POD}/{A}")
    changes = kubernetes.next()
    assert kubernetes.vanished(changes) == [f"{POD}/{A}"]
    assert kubernetes.appeared(changes) == [f"{POD}/{A}"]
    assert changes.appeared[0].inode != first.inode
    # The pod's own watch still works after its child was replaced.
    tree.make(f"{POD}/{B}")
    assert kubernetes.appeared(kubernetes.next()) == [f"{POD}/{B}"]


def test_a_pod_made_again_is_watched_again(tree: CgroupTree, kubernetes: Watched) -> None:
    tree.make(f"{POD}/{A}")
    kubernetes.next()
    tree.remove(POD)
    tree.make(f"{POD}/{A}")
    kubernetes.next()
    tree.make(f"{POD}/{B}")
    kubernetes.next(lambda changes: f"{POD}/{B}" in kubernetes.appeared(changes))
    assert kubernetes.units() == [f"{POD}/{A}", f"{POD}/{B}"]


def test_a_storm_of_pods_ends_where_a_relist_ends(tree: CgroupTree, kubernetes: Watched) -> None:
    for number in range(60):
        tree.make(f"kubepods/burstable/podstorm-{number:02}/{A}")
        if number % 3 == 0:
            tree.remove(f"kubepods/burstable/podstorm-{number:02}")
    kubernetes.next(lambda _: f"kubepods/burstable/podstorm-59/{A}" in kubernetes.units())
    # 60 made, every third (20) removed.
    assert len(kubernetes.units()) == 40
    assert len(kubernetes.discovery.pod_paths()) == 40
    assert not kubernetes.discovery.relist("periodic")


def test_watches_and_descriptors_do_not_pile_up(tree: CgroupTree, kubernetes: Watched) -> None:
    open_files = len(os.listdir("/proc/self/fd"))
    watches = kubernetes.discovery.watches
    for _ in range(20):
        tree.make(f"{POD}/{A}")
        kubernetes.next()
        tree.remove(POD)
        kubernetes.next(lambda changes: bool(changes.vanished))
    kubernetes.discovery.poll()
    assert len(os.listdir("/proc/self/fd")) == open_files
    assert kubernetes.discovery.watches == watches


def test_a_cgroup_becomes_a_unit_when_a_process_moves_in(tree: CgroupTree) -> None:
    tree.make("job")
    watched = Watched(tree, UnitScope.MACHINE)
    try:
        watched.discovery.relist("start")
        assert watched.units() == [f"/{tree.name}"]  # the start itself: there is nothing else
        tree.spawn("job")
        changes = watched.next()
        assert watched.appeared(changes) == ["job"]
        assert changes.appeared[0].identity.kind is UnitKind.OTHER
        tree.spawn("new/deep")
        watched.next(lambda changes: "new/deep" in watched.appeared(changes))
        tree.remove("job")
        assert watched.vanished(watched.next()) == ["job"]
    finally:
        watched.discovery.close()


def test_the_whole_machine_can_be_listed() -> None:
    mount = Path("/sys/fs/cgroup/unified")
    if not mount.is_dir():
        mount = Path("/sys/fs/cgroup")
    discovery = Discovery(mount, scope=UnitScope.MACHINE)
    try:
        discovery.relist("start")
        assert discovery.units()
    finally:
        discovery.close()
