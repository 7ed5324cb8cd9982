"""memory.events: files that come and go.

Plain files cannot wake an epoll, so ``poll`` stands for ``drain`` here; both read the same way. The real thing
is in tests/kernel/test_events_live.py and, with a memory controller, in tests/guest.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.sensing import memory_events
from agent.sensing.memory_events import MemoryEvents, OomKill, WatchResult, _Counts, _read_counts

POD = "/kubepods/burstable/pod0b1d8f52-3f0c-4a64-8d0b-6a1a5d1f6c01"
A, B = f"{POD}/{'a' * 64}", f"{POD}/{'b' * 64}"
SERVICE = "/system.slice/a.service"
EVERYONE = (POD, A, B, SERVICE)
NOW_NS = 5_000_000_000


def write(mount: Path, path: str, oom_kill: int, *, limit_hits: int = 0, high: int = 0) -> None:
    directory = mount / path.lstrip("/")
    directory.mkdir(parents=True, exist_ok=True)
    text = f"low 0\nhigh {high}\nmax 0\noom {limit_hits}\noom_kill {oom_kill}\n"
    (directory / "memory.events").write_bytes(text.encode())


@pytest.fixture
def events(tmp_path: Path) -> Iterator[MemoryEvents]:
    for path in (POD, A, B):
        write(tmp_path, path, 0)
    watched = MemoryEvents(tmp_path, clock_ns=lambda: NOW_NS)
    yield watched
    watched.close()


@pytest.mark.parametrize("order", [(POD, A, B), (A, B, POD)])
def test_memory_events_tells_a_kill_once(events: MemoryEvents, tmp_path: Path, order: tuple[str, ...]) -> None:
    assert [events.add(path) for path in order] == [WatchResult.WATCHED] * 3
    write(tmp_path, A, 2)
    write(tmp_path, POD, 2)
    assert events.poll(EVERYONE) == [OomKill(path=A, kills=2, monotonic_ns=NOW_NS)]
    assert events.poll(EVERYONE) == []


@pytest.mark.parametrize("asked", [POD, A, B])
def test_memory_events_polled_of_one_reads_its_pod_and_neighbours(
    events: MemoryEvents, tmp_path: Path, asked: str
) -> None:
    for path in (POD, A, B):
        events.add(path)
    write(tmp_path, A, 1)
    write(tmp_path, POD, 1)
    assert events.poll(()) == []
    assert events.poll(("/not/watched", f"{POD}/{'c' * 64}")) == []
    assert events.poll((asked,)) == [OomKill(path=A, kills=1, monotonic_ns=NOW_NS)]
    assert events.poll((POD, A, B)) == []


def test_memory_events_gives_the_pod_what_no_container_shows(events: MemoryEvents, tmp_path: Path) -> None:
    events.add(POD)
    events.add(A)
    events.remove(A)
    write(tmp_path, POD, 1)
    assert events.poll(EVERYONE) == [OomKill(path=POD, kills=1, monotonic_ns=NOW_NS)]


def test_memory_events_tells_of_a_container_removed_right_after_its_kill(events: MemoryEvents, tmp_path: Path) -> None:
    events.add(POD)
    events.add(A)
    write(tmp_path, A, 1)
    write(tmp_path, POD, 1)
    events.remove(A)
    assert events.drain() == [OomKill(path=A, kills=1, monotonic_ns=NOW_NS)]
    assert events.poll(EVERYONE) == []


def test_memory_events_of_a_pod_added_late_tells_its_containers_kills_once(
    events: MemoryEvents, tmp_path: Path
) -> None:
    events.add(A)
    write(tmp_path, A, 1)
    write(tmp_path, POD, 1)
    events.add(POD)
    assert events.poll(EVERYONE) == [OomKill(path=A, kills=1, monotonic_ns=NOW_NS)]
    write(tmp_path, POD, 2)
    assert events.poll(EVERYONE) == [OomKill(path=POD, kills=1, monotonic_ns=NOW_NS)]


@pytest.mark.parametrize("is_container_there", [True, False])
def test_memory_events_a_kill_at_a_limit_is_told_as_such(
    events: MemoryEvents, tmp_path: Path, *, is_container_there: bool
) -> None:
    events.add(POD)
    events.add(A)
    if not is_container_there:
        events.remove(A)
    for path in (A, POD):
        write(tmp_path, path, 1, limit_hits=1)  # both counters go up the tree
    (kill,) = events.poll(EVERYONE)
    assert (kill.path, kill.at_limit) == (A if is_container_there else POD, True)
    for path in (A, POD):
        write(tmp_path, path, 2, limit_hits=1)  # this time the node had none left
    (kill,) = events.poll(EVERYONE)
    assert kill.at_limit is False


def test_memory_events_a_kill_at_the_pods_limit_is_told_as_such(events: MemoryEvents, tmp_path: Path) -> None:
    events.add(POD)
    events.add(A)
    write(tmp_path, A, 1)
    write(tmp_path, POD, 1, limit_hits=1)
    (kill,) = events.poll(EVERYONE)
    assert (kill.path, kill.at_limit, kill.at_pod_limit) == (A, False, True)
    write(tmp_path, A, 2, limit_hits=1)
    write(tmp_path, POD, 2, limit_hits=2)  # now the container's own, counted up the tree
    (kill,) = events.poll(EVERYONE)
    assert (kill.at_limit, kill.at_pod_limit) == (True, False)


@pytest.mark.parametrize("is_pods_own", [True, False])
def test_memory_events_a_kill_that_comes_between_two_readings_is_told_as_it_was(
    events: MemoryEvents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_pods_own: bool
) -> None:
    """The kernel counts the limit that was hit, then the kill, while the pod was read and its container not yet."""
    events.add(POD)
    events.add(A)
    events.add(B)
    readings: list[int] = []

    def read_counts(fd: int) -> _Counts | None:
        counts = _read_counts(fd)
        readings.append(fd)
        if len(readings) == 1:  # of the pod
            write(tmp_path, A, 1)
            if not is_pods_own:
                write(tmp_path, B, 0, limit_hits=1)  # a neighbour's, which counts up the tree
            write(tmp_path, POD, 1, limit_hits=1)
        return counts

    monkeypatch.setattr(memory_events, "_read_counts", read_counts)
    (kill,) = events.poll(EVERYONE)
    assert (kill.path, kill.at_limit, kill.at_pod_limit) == (A, False, is_pods_own)
    monkeypatch.undo()
    write(tmp_path, A, 2)
    write(tmp_path, POD, 2, limit_hits=1)  # this time the node had none left
    (kill,) = events.poll(EVERYONE)
    assert (kill.path, kill.at_limit, kill.at_pod_limit) == (A, False, False)


@pytest.mark.parametrize("gone", [POD, B])
def test_memory_events_a_kill_whose_limit_cannot_be_read_again_is_told_as_nobodys(
    events: MemoryEvents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    for path in (POD, A, B):
        events.add(path)
    write(tmp_path, A, 1)
    descriptors = {events._files[path].fd: path for path in (POD, A, B)}
    readings: list[str] = []

    def read_counts(fd: int) -> _Counts | None:
        readings.append(descriptors[fd])
        return None if readings.count(gone) > 1 and descriptors[fd] == gone else _read_counts(fd)

    monkeypatch.setattr(memory_events, "_read_counts", read_counts)
    (kill,) = events.poll(EVERYONE)
    assert (kill.path, kill.at_pod_limit) == (A, False)


def test_memory_events_a_limit_that_is_seen_hit_before_its_kill_is_counted_is_not_forgotten(
    events: MemoryEvents, tmp_path: Path
) -> None:
    events.add(POD)
    events.add(A)
    for path in (A, POD):
        write(tmp_path, path, 0, limit_hits=1)  # as the kernel notifies: first the limit, then the kill
    assert events.poll(EVERYONE) == []
    events.remove(A)
    write(tmp_path, POD, 1, limit_hits=1)
    (kill,) = events.poll(EVERYONE)
    assert (kill.path, kill.at_limit) == (POD, True)


def test_memory_events_watches_a_service_for_itself(events: MemoryEvents, tmp_path: Path) -> None:
    write(tmp_path, SERVICE, 3)
    events.add(SERVICE)
    write(tmp_path, SERVICE, 4)
    assert events.poll(EVERYONE) == [OomKill(path=SERVICE, kills=1, monotonic_ns=NOW_NS)]


def test_memory_events_says_why_a_cgroup_cannot_be_watched(events: MemoryEvents, tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    write(tmp_path, "/odd", 0)
    (tmp_path / "odd/memory.events").write_bytes(b"nonsense\n")
    assert events.add("/none") is WatchResult.GONE
    assert events.add("/bare") is WatchResult.ABSENT
    assert events.add("/odd") is WatchResult.UNREADABLE
    assert len(events) == 0


def test_memory_events_holds_no_more_files_than_allowed(tmp_path: Path) -> None:
    for path in (POD, A, B):
        write(tmp_path, path, 0)
    watched = MemoryEvents(tmp_path, max_files=2)
    try:
        assert [watched.add(path) for path in (POD, A, B, A)] == ["watched", "watched", "limit", "watched"]
        watched.remove(A)
        assert watched.add(B) is WatchResult.WATCHED
        assert len(watched) == 2
    finally:
        watched.close()


def test_memory_events_add_and_remove_twice_are_fine(events: MemoryEvents) -> None:
    assert events.add(A) is WatchResult.WATCHED
    assert events.add(A) is WatchResult.WATCHED
    assert len(events) == 1
    events.remove(A)
    events.remove(A)
    assert len(events) == 0
    assert events.poll(EVERYONE) == []


def test_memory_events_close_twice_is_fine(events: MemoryEvents) -> None:
    events.add(A)
    events.close()
    events.close()


def test_memory_events_tells_once_who_was_held_back_at_memory_high_and_no_pod(
    events: MemoryEvents, tmp_path: Path
) -> None:
    write(tmp_path, B, 0, high=5)  # before it was watched
    for path in (POD, A, B):
        events.add(path)
    write(tmp_path, A, 0, high=3)
    write(tmp_path, POD, 0, high=8)
    assert events.poll(EVERYONE) == []
    assert events.take_held() == (A,)
    assert events.take_held() == ()
    events.poll(EVERYONE)
    assert events.take_held() == ()
    write(tmp_path, B, 0, high=6)
    events.poll(EVERYONE)
    events.remove(B)
    assert events.take_held() == ()
