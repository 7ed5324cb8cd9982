"""Who is told to have been killed, on real memory.events: each kill once, whatever goes first, container or file."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.node.sampling.moved_events import MovedEvents
from agent.node.sampling.unit_table import WatchedUnit
from agent.sensing.memory_events import MemoryEvents, WatchResult
from agent.sensing.ring_file import RingFile
from agent.sensing.sampler import open_sampler
from agent.sensing.state_file import RingGeometry
from tests.guest.full_tree import FullTree
from tests.guest.waiting import DEADLINE_SECONDS

pytestmark = pytest.mark.guest

POD = "kubepods/burstable/pod55555555-eeee-4000-8000-000000000005"
A, B = f"{POD}/{'5a' * 32}", f"{POD}/{'5b' * 32}"
HOG = ("dd", "if=/dev/zero", "of=/dev/null", "bs=64M", "count=1")
LIMIT_BYTES = 32 << 20


class Eyes:
    """MemoryEvents of one tree, with the paths cut to those of the test."""

    def __init__(self, tree: FullTree) -> None:
        self.tree = tree
        self.events = MemoryEvents(tree.mount)
        self.paths: list[str] = []

    def add(self, *paths: str) -> None:
        for path in paths:
            self.tree.make(path)
            self.paths.append(f"/{self.tree.relative(path)}")
            assert self.events.add(self.paths[-1]) is WatchResult.WATCHED

    def next_kills(self) -> list[tuple[str, int]]:
        """Wait for the next kills through the descriptor, nested in an epoll as the agent's loop nests it."""
        with select.epoll() as loop:
            loop.register(self.events.fileno(), select.EPOLLIN)
            while loop.poll(DEADLINE_SECONDS):
                kills = [(kill.path.removeprefix(f"/{self.tree.name}/"), kill.kills) for kill in self.events.drain()]
                if kills:
                    return kills
        pytest.fail("no kill was told")

    def is_quiet(self) -> bool:
        """Nothing more to tell, and no descriptor that keeps the loop awake.

        The kernel bundles notices and may hand in a late one of the same kill (`max`, `oom`): that wakes once more and
        tells nothing. A descriptor that stays awake fails at the deadline.
        """
        deadline = time.monotonic() + DEADLINE_SECONDS
        with select.epoll() as loop:
            loop.register(self.events.fileno(), select.EPOLLIN)
            while time.monotonic() < deadline:
                if self.events.drain() or self.events.poll(self.paths):
                    return False
                if not loop.poll(0):
                    return True
        return False


@pytest.fixture
def eyes(tree: FullTree) -> Iterator[Eyes]:
    watcher = Eyes(tree)
    yield watcher
    watcher.events.close()


def hog(tree: FullTree, path: str, *, limited: str) -> None:
    """Run out of memory in one cgroup, against the limit of it or of one above, and wait for the end."""
    tree.make(path)
    tree.write(limited, "memory.max", str(LIMIT_BYTES))
    assert tree.spawn(path, HOG).wait(DEADLINE_SECONDS) == -9


def test_kills_in_two_containers_are_told_once_each_and_never_as_the_pods(tree: FullTree, eyes: Eyes) -> None:
    eyes.add(POD, A, B)
    hog(tree, A, limited=A)
    assert eyes.next_kills() == [(A, 1)]
    hog(tree, B, limited=B)
    assert eyes.next_kills() == [(B, 1)]
    assert eyes.is_quiet()


def test_kill_against_the_pods_limit_is_told_of_the_container_it_hit(tree: FullTree, eyes: Eyes) -> None:
    eyes.add(POD, A, B)
    hog(tree, A, limited=POD)
    assert eyes.next_kills() == [(A, 1)]
    assert eyes.is_quiet()


def test_kill_that_no_event_told_is_told_by_the_rows_of_a_slow_sweep(tree: FullTree, eyes: Eyes) -> None:
    eyes.add(POD, A, B)
    with ExitStack() as stack:
        rings = stack.enter_context(RingFile.open(None, RingGeometry(max_slots=4), boot_id="boot"))
        sampler = stack.enter_context(closing(open_sampler(tree.mount, rings, fd_budget=100, max_lanes=0)))
        units = []
        for path in (POD, A, B):
            relative, inode = tree.relative(path), tree.inode(path)
            slot = rings.attach(relative, inode, now_monotonic_ns=1)
            sampler.add(slot, relative, inode)
            identity = UnitIdentity(cgroup_path=f"/{relative}", kind=UnitKind.CONTAINER)
            units.append(WatchedUnit(slot=slot, inode=inode, identity=identity, resources=UnitResources()))
        moved = MovedEvents(rings)

        def tick() -> list[str]:
            sampler.sweep(slow=True, retry_absent=False)
            return [path.removeprefix(f"/{tree.name}/") for path in moved.paths(tuple(units))]

        assert tick() == [POD, A, B]  # new
        assert tick() == []
        hog(tree, A, limited=A)
        paths = tick()
        assert sorted(paths) == sorted([POD, A])
        kills = eyes.events.poll(f"/{tree.name}/{path}" for path in paths)
        assert [(kill.path, kill.kills) for kill in kills] == [(f"/{tree.relative(A)}", 1)]
        assert tick() == []


def test_kill_below_the_container_is_told_of_the_container(tree: FullTree, eyes: Eyes) -> None:
    eyes.add(POD, A)
    hog(tree, f"{A}/container", limited=A)
    assert eyes.next_kills() == [(A, 1)]
    assert eyes.is_quiet()


def test_kill_of_a_container_removed_at_once_is_told_of_the_pod(tree: FullTree, eyes: Eyes) -> None:
    eyes.add(POD, A, B)
    hog(tree, A, limited=A)
    tree.remove(A)
    assert eyes.next_kills() == [(POD, 1)]
    assert eyes.is_quiet()
    assert len(eyes.events) == 2  # the dead file was dropped without a word


def test_kill_before_the_container_was_watched_is_told_of_it(tree: FullTree, eyes: Eyes) -> None:
    eyes.add(POD)
    hog(tree, A, limited=A)
    eyes.add(A)
    assert eyes.next_kills() == [(A, 1)]
    assert eyes.is_quiet()


def test_kill_of_a_group_is_told_as_often_as_the_kernel_counts_it(tree: FullTree, eyes: Eyes) -> None:
    eyes.add(POD, A)
    tree.write(A, "memory.oom.group", "1")
    sleeper = tree.spawn(A, "sleep")
    hog(tree, A, limited=A)
    assert sleeper.wait(DEADLINE_SECONDS) == -9
    # Both processes, and the first victim once more (the kernel counts it again with its group): seen 3 on 6.1.
    counted = tree.read_flat(A, "memory.events")["oom_kill"]
    assert counted >= 2
    kills = eyes.next_kills()
    while sum(count for _, count in kills) < counted:
        kills += eyes.next_kills()
    assert {path for path, _ in kills} == {A}
    assert sum(count for _, count in kills) == counted
    assert eyes.is_quiet()


def test_end_of_a_pod_without_a_kill_tells_nothing(tree: FullTree, eyes: Eyes) -> None:
    eyes.add(POD, A)
    tree.spawn(A, "sleep")
    tree.remove(POD)
    assert eyes.is_quiet()
    assert len(eyes.events) == 0
