"""memory.events: parsing, who was killed, and files that come and go.

Plain files cannot wake an epoll, so ``poll_all`` stands for ``drain`` here; both read the same way. The real thing
is in tests/kernel/test_events_live.py and, with a memory controller, in tests/guest.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sensing.events import (
    KillLedger,
    MemoryEventCounts,
    MemoryEvents,
    OomKill,
    PsiTrigger,
    TriggerRefused,
    WatchResult,
    parse_memory_events,
)

POD = "/kubepods/burstable/pod0b1d8f52-3f0c-4a64-8d0b-6a1a5d1f6c01"
A, B = f"{POD}/{'a' * 64}", f"{POD}/{'b' * 64}"
NOW_NS = 5_000_000_000

TEXT = b"low 0\nhigh 12\nmax 345\noom 6\noom_kill 7\noom_group_kill 1\n"


def test_parse_memory_events_of_a_recent_kernel() -> None:
    assert parse_memory_events(TEXT) == MemoryEventCounts(oom=6, oom_kill=7, high=12, max=345, oom_group_kill=1)


def test_parse_memory_events_before_group_kills_were_counted() -> None:
    counts = parse_memory_events(b"low 0\nhigh 1\nmax 2\noom 3\noom_kill 4\n")
    assert counts == MemoryEventCounts(oom=3, oom_kill=4, high=1, max=2, oom_group_kill=None)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"high 1\nmax 2\noom 3\n",
        b"high 1\nmax 2\noom 3\noom_kill 4",
        b"high 1\nmax 2\noom 3\noom_kill -4\n",
        b"high 1\nmax 2\noom 3\noom_kill  4\n",
        b"high 1\nmax 2\noom 3\noom_kill max\n",
        b"high 1\nmax 2\noom 3\noom_kill " + b"9" * 5000 + b"\n",
    ],
)
def test_parse_memory_events_refuses_what_is_not_whole(text: bytes) -> None:
    assert parse_memory_events(text) is None


@given(cut=st.integers(0, len(TEXT) - 1))
def test_parse_memory_events_cut_text_is_never_a_smaller_number(cut: int) -> None:
    counts = parse_memory_events(TEXT[:cut])
    assert counts is None or counts.oom_kill == 7


@given(st.binary(max_size=200))
def test_parse_memory_events_survives_any_bytes(text: bytes) -> None:
    parse_memory_events(text)


def ledger(pod: int | None = 0, **containers: int) -> KillLedger:
    made = KillLedger()
    for path, count in containers.items():
        made.add_container(path, count)
    if pod is not None:
        made.add_pod(pod)
    return made


def test_ledger_counts_a_kill_in_pod_and_container_once_under_the_container() -> None:
    assert ledger(a=0).observe(1, {"a": 1}) == (0, {"a": 1})


def test_ledger_gives_the_pod_the_kill_of_a_container_that_is_gone() -> None:
    assert ledger(a=0).observe(1, {}) == (1, {})


def test_ledger_splits_what_pod_and_containers_show() -> None:
    # The pod rose by 5; containers account for 1 + 2; the remaining 2 are of a container that is not read.
    assert ledger(10, a=3, b=0).observe(15, {"a": 4, "b": 2}) == (2, {"a": 1, "b": 2})


def test_ledger_tells_nothing_twice_when_the_pod_shows_it_later() -> None:
    seen = ledger(a=0)
    # Read between the kernel's two steps: the container first, then the pod.
    assert seen.observe(0, {"a": 1}) == (0, {"a": 1})
    assert seen.observe(1, {"a": 1}) == (0, {})
    assert seen.observe(2, {"a": 1}) == (1, {})


def test_ledger_takes_what_was_there_before_for_the_baseline() -> None:
    assert ledger(9, a=4).observe(9, {"a": 4}) == (0, {})


def test_ledger_gives_a_new_container_the_kill_before_its_first_reading() -> None:
    seen = ledger(0)
    seen.add_container("a", 1)
    assert seen.observe(1, {"a": 1}) == (0, {"a": 1})
    assert seen.observe(1, {"a": 1}) == (0, {})


def test_ledger_gives_a_new_container_no_kill_that_was_told_before() -> None:
    seen = ledger(0)
    assert seen.observe(1, {}) == (1, {})
    seen.add_container("a", 1)
    assert seen.observe(1, {"a": 1}) == (0, {})


def test_ledger_takes_a_fallen_counter_for_a_new_baseline() -> None:
    seen = ledger(5, a=5)
    assert seen.observe(0, {"a": 0}) == (0, {})
    assert seen.observe(1, {"a": 1}) == (0, {"a": 1})


def test_ledger_without_a_pod_counts_containers() -> None:
    assert ledger(None, a=1).observe(None, {"a": 3}) == (0, {"a": 2})


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "pod"]), st.booleans(), st.booleans()), max_size=30
    )  # who is killed, is it read afterwards, does the pod's counter lag
)
def test_ledger_tells_every_kill_exactly_once(steps: list[tuple[str, bool, bool]]) -> None:
    seen = ledger(0, a=0, b=0)
    true = {"a": 0, "b": 0, "pod": 0}
    told = 0
    for who, is_read, lags in steps:
        before = sum(true.values())
        true[who] += 1
        if is_read:
            # Only a kill in a container can be ahead of the pod: the pod is read first.
            pod = before if lags and who != "pod" else before + 1
            of_pod, of_containers = seen.observe(pod, {"a": true["a"], "b": true["b"]})
            told += of_pod + sum(of_containers.values())
    of_pod, of_containers = seen.observe(sum(true.values()), {"a": true["a"], "b": true["b"]})
    assert told + of_pod + sum(of_containers.values()) == sum(true.values())


def write(mount: Path, path: str, oom_kill: int, *, limit_hits: int = 0) -> None:
    directory = mount / path.lstrip("/")
    directory.mkdir(parents=True, exist_ok=True)
    text = f"low 0\nhigh 0\nmax 0\noom {limit_hits}\noom_kill {oom_kill}\n"
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
    assert events.poll_all() == [OomKill(path=A, kills=2, monotonic_ns=NOW_NS)]
    assert events.poll_all() == []


def test_memory_events_gives_the_pod_what_no_container_shows(events: MemoryEvents, tmp_path: Path) -> None:
    events.add(POD)
    events.add(A)
    events.remove(A)
    write(tmp_path, POD, 1)
    assert events.poll_all() == [OomKill(path=POD, kills=1, monotonic_ns=NOW_NS)]


def test_memory_events_tells_of_a_container_removed_right_after_its_kill(events: MemoryEvents, tmp_path: Path) -> None:
    events.add(POD)
    events.add(A)
    write(tmp_path, A, 1)
    write(tmp_path, POD, 1)
    events.remove(A)
    assert events.drain() == [OomKill(path=A, kills=1, monotonic_ns=NOW_NS)]
    assert events.poll_all() == []


def test_memory_events_of_a_pod_added_late_tells_its_containers_kills_once(
    events: MemoryEvents, tmp_path: Path
) -> None:
    events.add(A)
    write(tmp_path, A, 1)
    write(tmp_path, POD, 1)
    events.add(POD)
    assert events.poll_all() == [OomKill(path=A, kills=1, monotonic_ns=NOW_NS)]
    write(tmp_path, POD, 2)
    assert events.poll_all() == [OomKill(path=POD, kills=1, monotonic_ns=NOW_NS)]


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
    (kill,) = events.poll_all()
    assert (kill.path, kill.at_limit) == (A if is_container_there else POD, True)
    for path in (A, POD):
        write(tmp_path, path, 2, limit_hits=1)  # this time the node had none left
    (kill,) = events.poll_all()
    assert kill.at_limit is False


def test_memory_events_a_kill_at_the_pods_limit_is_told_as_such(events: MemoryEvents, tmp_path: Path) -> None:
    events.add(POD)
    events.add(A)
    write(tmp_path, A, 1)
    write(tmp_path, POD, 1, limit_hits=1)
    (kill,) = events.poll_all()
    assert (kill.path, kill.at_limit, kill.at_pod_limit) == (A, False, True)
    write(tmp_path, A, 2, limit_hits=1)
    write(tmp_path, POD, 2, limit_hits=2)  # now the container's own, counted up the tree
    (kill,) = events.poll_all()
    assert (kill.at_limit, kill.at_pod_limit) == (True, False)


def test_memory_events_a_limit_that_is_seen_hit_before_its_kill_is_counted_is_not_forgotten(
    events: MemoryEvents, tmp_path: Path
) -> None:
    events.add(POD)
    events.add(A)
    for path in (A, POD):
        write(tmp_path, path, 0, limit_hits=1)  # as the kernel notifies: first the limit, then the kill
    assert events.poll_all() == []
    events.remove(A)
    write(tmp_path, POD, 1, limit_hits=1)
    (kill,) = events.poll_all()
    assert (kill.path, kill.at_limit) == (POD, True)


def test_memory_events_watches_a_service_for_itself(events: MemoryEvents, tmp_path: Path) -> None:
    write(tmp_path, "/system.slice/a.service", 3)
    events.add("/system.slice/a.service")
    write(tmp_path, "/system.slice/a.service", 4)
    assert events.poll_all() == [OomKill(path="/system.slice/a.service", kills=1, monotonic_ns=NOW_NS)]


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
    assert events.poll_all() == []


def test_memory_events_close_twice_is_fine(events: MemoryEvents) -> None:
    events.add(A)
    events.close()
    events.close()


def test_psi_trigger_on_a_file_that_is_not_there_says_why(tmp_path: Path) -> None:
    with pytest.raises(TriggerRefused, match=r"cpu\.pressure: cannot be opened for writing: No such file"):
        PsiTrigger(tmp_path / "cpu.pressure")
