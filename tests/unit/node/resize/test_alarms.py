"""After a sweep: who starves, who is close to its memory limit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.core.orders.plan_options import ActOptions
from agent.core.plan.needs.demand import Urgent
from agent.core.window.memory_shortage import MemoryShort
from agent.core.window.ring_rows import MEMORY_ROW, SAMPLE, Has
from agent.node.resize.alarms import AlarmContainer, Alarms, ContainerKey
from agent.node.resize.memory_shortages import MemoryShortages
from agent.sensing.ring_file import RingFile
from agent.sensing.state_file import RingGeometry

NS = 1_000_000_000
MIB = 1 << 20


class Node:
    """Two containers in rings, and what was told of them."""

    def __init__(self, headroom_ratio: float = 0.0) -> None:
        self.rings = RingFile.open(None, RingGeometry(max_slots=4), boot_id="b")
        self.slots = [self.rings.attach(name, number, now_monotonic_ns=1) for number, name in enumerate("ab", 7)]
        self.told: list[Mapping[ContainerKey, Urgent]] = []
        self.alarms = Alarms(
            rings=self.rings,
            options=ActOptions(urgent_headroom_ratio=headroom_ratio),
            memory_limit_ratio=2.0,
            capacity_millicores=4000,
            on_alarm=self.told.append,
        )

    def watched(self, index: int, **fields: Any) -> AlarmContainer:
        stated = {"cpu_request_millicores": 100, "memory_limit_bytes": 64 * MIB, **fields}
        return AlarmContainer(slot=self.slots[index], inode=7 + index, pod_uid=f"u{index}", container="app", **stated)

    def sweep(self, at_ns: int, *rows: tuple[int, int, int]) -> None:
        """Add a reading for each container: usage and waiting in usec, memory in MiB."""
        for slot, (usage, some, memory_mib) in zip(self.slots, rows, strict=True):
            row = np.zeros(1, dtype=SAMPLE)
            row["has"] = int(Has.PRESSURE | Has.MEMORY)
            row["monotonic_ns"], row["usage_usec"], row["cpu_some_usec"] = at_ns, usage, some
            row["memory_current_bytes"] = memory_mib * MIB
            self.rings.append_raw(slot, row)
        self.alarms.look()

    def slow(self, index: int, inactive_mib: int, *, at_ns: int = NS, some_usec: int = 0) -> None:
        row = np.zeros(1, dtype=MEMORY_ROW)
        row["has"] = int(Has.MEMORY_STAT | Has.MEMORY_PRESSURE)
        row["monotonic_ns"], row["memory_some_usec"] = at_ns, some_usec
        row["inactive_file_bytes"] = inactive_mib * MIB
        self.rings.append_memory(self.slots[index], row)


@pytest.fixture
def node() -> Iterator[Node]:
    new_node = Node()
    yield new_node
    new_node.rings.close()


def test_look_tells_who_starves_and_what_it_wanted(node: Node) -> None:
    node.alarms.follow([node.watched(0), node.watched(1)])
    node.sweep(NS, (0, 0, 1), (0, 0, 1))
    node.sweep(2 * NS, (500_000, 400_000, 1), (500_000, 100_000, 1))
    (alarms,) = node.told
    assert alarms == {("u0", "app"): Urgent(cpu_millicores=700, cpu_waiting_ratio=0.4)}


def test_look_what_starves_is_told_with_headroom_but_only_past_the_request() -> None:
    node = Node(headroom_ratio=0.5)
    node.alarms.follow([node.watched(0), node.watched(1, cpu_request_millicores=700)])
    node.sweep(NS, (0, 0, 1), (0, 0, 1))
    node.sweep(2 * NS, (500_000, 400_000, 1), (500_000, 400_000, 1))
    assert node.told == [{("u0", "app"): Urgent(cpu_millicores=1050, cpu_waiting_ratio=0.4)}]
    node.rings.close()


def test_look_waiting_for_cpu_asks_for_nothing_where_that_is_set(node: Node) -> None:
    for waiting_ratio in (0.0, 1.0):
        options = ActOptions(urgent_waiting_ratio=waiting_ratio)
        node.alarms = Alarms(
            rings=node.rings,
            options=options,
            memory_limit_ratio=2.0,
            capacity_millicores=4000,
            on_alarm=node.told.append,
        )
        node.alarms.follow([node.watched(0)])
        node.sweep(NS, (0, 0, 1), (0, 0, 1))
        node.sweep(2 * NS, (500_000, 1_000_000, 1), (0, 0, 1))
        assert len(node.told) == waiting_ratio


def test_look_what_the_request_covers_already_is_no_alarm(node: Node) -> None:
    node.alarms.follow([node.watched(0, cpu_request_millicores=700), node.watched(1, cpu_request_millicores=None)])
    node.sweep(NS, (0, 0, 1), (0, 0, 1))
    node.sweep(2 * NS, (500_000, 400_000, 1), (500_000, 400_000, 1))
    assert node.told == []


def test_look_an_early_sweep_is_compared_with_what_came_well_before_it(node: Node) -> None:
    node.alarms.follow([node.watched(0)])
    node.sweep(NS, (0, 0, 1), (0, 0, 1))
    node.sweep(NS + 50_000_000, (25_000, 25_000, 1), (0, 0, 1))
    assert node.told == []  # too close together to mean anything
    node.sweep(NS + 300_000_000, (150_000, 150_000, 1), (0, 0, 1))
    assert node.told[0]["u0", "app"].cpu_waiting_ratio == 0.5


def test_look_at_the_beginning_of_contention_counts_waiting_from_there(node: Node) -> None:
    node.alarms.follow([node.watched(0, cpu_request_millicores=50)])
    node.sweep(NS, (0, 0, 1), (0, 0, 1))
    node.alarms.contended(NS // 4)
    node.sweep(2 * NS, (100_000, 100_000, 1), (0, 0, 1))
    assert node.told[0]["u0", "app"].cpu_waiting_ratio == 0.4
    node.sweep(3 * NS, (200_000, 200_000, 1), (0, 0, 1))  # it was for that look alone
    assert len(node.told) == 1


def test_look_memory_close_to_the_limit_counts_without_the_page_cache(node: Node) -> None:
    node.alarms.follow([node.watched(0), node.watched(1)])
    node.slow(0, 2)
    node.slow(1, 30)
    node.sweep(NS, (0, 0, 60), (0, 0, 60))
    (alarms,) = node.told
    assert alarms == {("u0", "app"): Urgent(memory_bytes=58 * MIB, memory_limit_bytes=116 * MIB)}


def test_look_both_can_be_urgent_at_once(node: Node) -> None:
    node.alarms.follow([node.watched(0)])
    node.slow(0, 0)
    node.sweep(NS, (0, 0, 1), (0, 0, 1))
    node.sweep(2 * NS, (500_000, 400_000, 63), (0, 0, 1))
    urgent = node.told[0]["u0", "app"]
    assert (urgent.cpu_millicores, urgent.memory_bytes) == (700, 63 * MIB)


def test_look_waiting_for_memory_is_told_once_for_each_slow_reading(node: Node) -> None:
    node.alarms.follow([node.watched(0)])
    node.slow(0, 0)
    node.sweep(NS, (0, 0, 1), (0, 0, 1))
    node.slow(0, 0, at_ns=11 * NS, some_usec=3_000_000)
    node.sweep(11 * NS, (0, 0, 1), (0, 0, 1))
    node.sweep(12 * NS, (0, 0, 1), (0, 0, 1))
    assert node.told == [{("u0", "app"): Urgent(memory_waiting_ratio=0.3)}]


def test_look_who_is_held_back_or_stalls_is_told_with_what_showed_it(tmp_path: Path) -> None:
    node = Node()
    alarms = Alarms(
        rings=node.rings,
        options=ActOptions(),
        memory_limit_ratio=2.0,
        capacity_millicores=4000,
        on_alarm=node.told.append,
        shortages=MemoryShortages(mount=tmp_path, options=ActOptions(), limit_ratio=2.0, clock_ns=lambda: 5 * NS),
    )
    node.alarms = alarms
    cgroup = tmp_path / "a"
    cgroup.mkdir()
    for name, text in {
        "memory.current": f"{58 * MIB}\n",
        "memory.stat": f"anon 1\ninactive_file {2 * MIB}\n",
        "memory.max": f"{64 * MIB}\n",
        "memory.high": f"{60 * MIB}\n",
        "memory.pressure": "some avg10=0 avg60=0 avg300=0 total=0\nfull avg10=0 avg60=0 avg300=0 total=0\n",
    }.items():
        (cgroup / name).write_text(text)
    alarms.follow([node.watched(0, cgroup_path="/a"), node.watched(1)])
    node.sweep(NS, (0, 0, 1), (0, 0, 1))
    alarms.look_at_memory(is_waited_for=False)
    alarms.held("/b")  # no container that may be resized
    alarms.look_at_memory(is_waited_for=False)
    assert node.told == []
    was_quiet = alarms.is_memory_quiet
    alarms.held("/a")
    assert (was_quiet, alarms.is_memory_quiet) == (True, False)
    alarms.look_at_memory(is_waited_for=False)
    limit_bytes = math.ceil(2 * 58 / 60 * 64 * MIB)
    wanted = Urgent(memory_bytes=56 * MIB, memory_limit_bytes=limit_bytes, memory_short=MemoryShort.HELD)
    assert node.told == [{("u0", "app"): wanted}]
    alarms.look_at_memory(is_waited_for=False)
    assert len(node.told) == 1  # once in a while, until something has come of it
    was_quiet = alarms.is_memory_quiet
    alarms.follow([])  # somebody is held back, and nobody may be resized for it
    assert (was_quiet, alarms.is_memory_quiet) == (False, True)
    node.rings.close()


def test_look_a_slow_reading_that_shows_waiting_asks_who_waits_now(tmp_path: Path) -> None:
    node = Node()
    shortages = MemoryShortages(mount=tmp_path, options=ActOptions(), limit_ratio=2.0, clock_ns=lambda: 5 * NS)
    node.alarms = Alarms(
        rings=node.rings,
        options=ActOptions(),
        memory_limit_ratio=2.0,
        capacity_millicores=4000,
        on_alarm=node.told.append,
        shortages=shortages,
    )
    node.alarms.follow([node.watched(0, cgroup_path="/a")])
    node.slow(0, 0)
    node.sweep(NS, (0, 0, 1), (0, 0, 1))
    quiet = [shortages.is_quiet]
    node.slow(0, 0, at_ns=11 * NS, some_usec=3_000_000)
    node.sweep(11 * NS, (0, 0, 1), (0, 0, 1))
    assert [*quiet, shortages.is_quiet] == [True, False]
    node.rings.close()


def test_follow_the_same_again_forgets_nothing_and_strangers_are_left_out(node: Node) -> None:
    node.alarms.follow([node.watched(0)])
    node.sweep(NS, (0, 0, 1), (0, 0, 1))
    node.alarms.follow([node.watched(0), AlarmContainer(**{**_fields(node.watched(1)), "inode": 99})])
    node.sweep(2 * NS, (500_000, 400_000, 1), (500_000, 400_000, 1))
    assert list(node.told[0]) == [("u0", "app")]
    node.alarms.follow([])
    node.sweep(3 * NS, (900_000, 900_000, 63), (0, 0, 1))
    assert len(node.told) == 1


def test_what_is_followed_anew_while_it_is_looked_at_is_not_told_a_second_time(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The acting thread follows a new plan while the sampling thread looks: a shrink between would be taken back."""
    node.alarms.follow([node.watched(0)])
    node.slow(0, 0)
    node.sweep(NS, (0, 0, 1), (0, 0, 1))
    node.slow(0, 0, at_ns=11 * NS, some_usec=3_000_000)
    read = node.rings.newest_memory_rows

    def followed(slots: Sequence[int]) -> object:
        node.alarms.follow([node.watched(0)])
        return read(slots)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(node.rings, "newest_memory_rows", followed)
        node.sweep(11 * NS, (0, 0, 1), (0, 0, 1))
    node.sweep(12 * NS, (0, 0, 1), (0, 0, 1))
    assert node.told == [{("u0", "app"): Urgent(memory_waiting_ratio=0.3)}]


def test_a_slot_that_went_to_another_container_has_no_last_reading(node: Node) -> None:
    """What the other used in hours, as it waited for a slot, is not what it used since the last look."""
    node.alarms.follow([node.watched(0)])
    node.sweep(NS, (0, 0, 1), (0, 0, 1))
    node.rings.release(node.slots[0])
    assert node.rings.attach("c", 9, now_monotonic_ns=NS) == node.slots[0]
    node.alarms.follow([replace(node.watched(0), inode=9, pod_uid="u2")])
    node.sweep(2 * NS, (3_600_000_000, 1_800_000_000, 1), (0, 0, 1))
    assert node.told == []
    node.sweep(3 * NS, (3_600_500_000, 1_800_400_000, 1), (0, 0, 1))
    assert node.told == [{("u2", "app"): Urgent(cpu_millicores=700, cpu_waiting_ratio=0.4)}]


def _fields(watched: AlarmContainer) -> dict[str, Any]:
    return {name: getattr(watched, name) for name in AlarmContainer.__slots__}
