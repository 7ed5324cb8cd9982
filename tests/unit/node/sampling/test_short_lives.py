"""Containers that ended young: what they used of memory, and who they were, though that is told after their end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from agent.core.cluster.pod_index import Belonging, PodIndex, belonging, join
from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.orders.policy_options import PolicyName
from agent.node.history.clock import HistoryClock
from agent.node.history.file import HistoryFile
from agent.node.history.learner import Learner
from agent.node.recommender.evaluation import short_life_rows
from agent.node.sampling.run_ends import YOUNG_NS, RunEnds
from agent.node.sampling.short_lives import MOST_LIVES, UNNAMED_NS, ShortLife, ShortLives
from agent.node.sampling.unit_table import WatchedUnit
from agent.sensing.ring_file import RingFile
from agent.sensing.state_file import RingGeometry
from agent.settings import Settings
from tests.pods import container, make_pod
from tests.policy_rows import make_present
from tests.window_rows import NS, memory

MIB = 1 << 20
MINUTE = 100
POD = "kubepods/podu1"
REPLICA_SET = {"kind": "ReplicaSet", "name": "web-5d4f8c7b9", "uid": "rs", "apiVersion": "apps/v1", "controller": True}
JOB = {"kind": "Job", "name": "report-29923320", "uid": "job", "controller": True}


def index_of(container_id: str, owner: dict[str, object]) -> PodIndex:
    labels = {"pod-template-hash": "5d4f8c7b9"}
    status = {
        "containerStatuses": [
            {
                "name": "app",
                "containerID": f"containerd://{container_id}",
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            }
        ]
    }
    metadata = {"name": "web-1", "uid": "u1", "labels": labels, "ownerReferences": [owner]}
    return PodIndex([make_pod(container("app"), metadata=metadata, status=status)])


class World:
    """A node whose cgroups are files, so that the moment of each reading is the test's."""

    def __init__(self, mount: Path) -> None:
        self.mount, self.now_ns, self.index = mount, MINUTE * 60 * NS + NS, PodIndex()
        self.rings = RingFile.open(None, RingGeometry(max_slots=4), boot_id="boot")
        self.ends = RunEnds(mount=mount, rings=self.rings, clock_ns=lambda: self.now_ns, tells_runs=False)
        self.ends.lives.report()

    def begin(self, container_id: str = "c1", *, is_new: bool = True) -> WatchedUnit:
        path = f"{POD}/{container_id}"
        (self.mount / path).mkdir(parents=True)
        self.use(container_id, peak_mib=1)
        unit = WatchedUnit(
            slot=self.rings.attach(path, 7, now_monotonic_ns=1),
            inode=7,
            identity=UnitIdentity(
                cgroup_path=f"/{path}", kind=UnitKind.SANDBOX, pod_uid="u1", container_id=container_id
            ),
            resources=UnitResources(),
        )
        self.ends.came(unit, is_new=is_new)
        return unit

    def use(self, container_id: str, *, peak_mib: int, current_mib: int | None = None, cache_mib: int = 0) -> None:
        directory = self.mount / POD / container_id
        (directory / "memory.peak").write_text(f"{peak_mib * MIB}\n")
        current = peak_mib if current_mib is None else current_mib
        (directory / "memory.current").write_text(f"{current * MIB}\n")
        stat = {"anon": 0, "active_file": 0, "inactive_file": cache_mib * MIB, "workingset_refault_file": 0}
        (directory / "memory.stat").write_text("".join(f"{name} {amount}\n" for name, amount in stat.items()))

    def pod_uses(self, *, peak_mib: int, current_mib: int) -> None:
        (self.mount / POD / "memory.peak").write_text(f"{peak_mib * MIB}\n")
        (self.mount / POD / "memory.current").write_text(f"{current_mib * MIB}\n")

    def end(self, unit: WatchedUnit, seconds: float = 0.8) -> None:
        self.now_ns += round(seconds * NS)
        self.ends.went(unit)
        self.rings.release(unit.slot)

    def tell(self, container_id: str, owner: dict[str, object] = REPLICA_SET) -> None:
        self.index = index_of(container_id, owner)
        self.ends.lives.rename(lambda identity: join(identity, self.index))

    def taken(self) -> list[ShortLife]:
        return self.ends.lives.take_until(self.now_ns)

    def amounts_mib(self) -> list[float]:
        return [life.working_set_bytes / MIB for life in self.taken()]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    new_world = World(tmp_path)
    yield new_world
    new_world.ends.close()
    new_world.rings.close()


def test_what_a_container_used_that_was_named_after_its_end_is_learnt(world: World) -> None:
    unit = world.begin()
    world.use("c1", peak_mib=300)
    world.ends.look()
    world.end(unit)
    assert world.taken() == []
    world.tell("c1")
    world.now_ns = (MINUTE + 1) * 60 * NS + 5 * NS
    history = HistoryFile.open(None, max_rows=64)
    learner = Learner(
        history=history,
        policy=PolicyName.CRUISE,
        options=Settings(),
        pods=_Pods(world),
        clock=HistoryClock(
            newest_unix_minute=None, wall=lambda: 1_800_000_000 + world.now_ns / NS, monotonic_ns=lambda: world.now_ns
        ),
    )
    learner.learn(short_life_rows(world.taken(), learner.workload_of, monotonic_minute=MINUTE))
    [(key, row)] = history.keys().items()
    assert key.parts == ("shop", "Deployment", "web", "app")
    minutes = history.minutes(row)
    assert [*minutes.working_set_bytes / MIB] == pytest.approx([300], rel=0.001)
    assert not minutes.has_cpu.any()
    answer = learner.policy.recommend(
        np.array([row], dtype=np.intp), make_present([50.0], [1.0 * MIB]), now_unix_seconds=learner.clock.now()
    )
    assert answer.has_memory[0]
    assert answer.memory_request_bytes[0] >= 300 * MIB
    learner.learn(short_life_rows(world.taken(), learner.workload_of, monotonic_minute=MINUTE + 1))
    assert history.minutes(row).unix_minutes.size == 1  # each life counts once
    history.close()


class _Pods:
    def __init__(self, world: World) -> None:
        self._world = world

    def belonging(self, identity: UnitIdentity) -> Belonging:
        return belonging(identity, self._world.index)


def test_a_run_of_a_job_and_what_has_no_pod_any_more_take_no_row(world: World) -> None:
    world.end(world.begin())
    world.tell("c1", JOB)
    [life] = world.taken()
    assert short_life_rows([life], lambda of: belonging(of, world.index).workload, monotonic_minute=MINUTE) == []
    assert short_life_rows([life], lambda _: None, monotonic_minute=MINUTE) == []


def test_cache_that_was_in_the_peak_is_no_need(world: World) -> None:
    unit = world.begin()
    world.use("c1", peak_mib=200, cache_mib=150)
    world.ends.look()
    world.use("c1", peak_mib=300, current_mib=100, cache_mib=90)  # of the new peak it does not tell
    world.ends.look()
    world.end(unit)
    world.tell("c1")
    assert world.amounts_mib() == [150]


def test_what_a_container_took_after_the_last_look_stays_in_its_pods_peak(world: World) -> None:
    """The pod holds a sandbox of 1 MiB, and 20 MiB of cache that earlier runs left."""
    (world.mount / POD).mkdir(parents=True)
    world.pod_uses(peak_mib=21, current_mib=21)
    world.begin("sandbox")
    world.pod_uses(peak_mib=22, current_mib=22)
    first = world.begin("c1")
    world.use("c1", peak_mib=50)
    world.ends.look()
    world.pod_uses(peak_mib=322, current_mib=22)
    world.end(first)
    world.tell("c1")
    assert world.amounts_mib() == [322 - 20 - 1]
    second = world.begin("c2")  # its pod's peak is the first one's
    world.use("c2", peak_mib=80)
    world.end(second)
    world.tell("c2")
    assert world.amounts_mib() == [80]


@pytest.mark.parametrize("missing", ["memory.peak", "memory.current"])
def test_a_pod_whose_figures_are_not_there_raises_nothing(world: World, missing: str) -> None:
    (world.mount / POD).mkdir(parents=True)
    world.pod_uses(peak_mib=2, current_mib=2)
    (world.mount / POD / missing).unlink()
    unit = world.begin()
    world.pod_uses(peak_mib=300, current_mib=2)
    world.end(unit)
    world.tell("c1")
    assert world.amounts_mib() == [1]


def test_of_a_pods_peak_the_peaks_of_the_others_are_taken_off_and_who_ended_meanwhile_makes_it_nobodys(
    world: World,
) -> None:
    (world.mount / POD).mkdir(parents=True)
    world.pod_uses(peak_mib=2, current_mib=2)
    other, unit = world.begin("other"), world.begin("c1")
    world.use("other", peak_mib=100)
    world.pod_uses(peak_mib=300, current_mib=2)
    world.end(unit)
    world.tell("c1")
    assert world.amounts_mib() == [200]
    # Beside this one c1 was, of which nobody knows what it had at the moment of a later peak.
    world.pod_uses(peak_mib=500, current_mib=2)
    world.end(other)
    world.tell("other")
    assert world.amounts_mib() == [100]
    third, fourth = world.begin("c3"), world.begin("c4")
    (world.mount / POD / "c4" / "memory.peak").unlink()  # it goes at the same moment
    world.pod_uses(peak_mib=900, current_mib=2)
    world.end(third)
    world.end(fourth)
    world.tell("c3")
    assert world.amounts_mib() == [1]


def test_cache_is_read_again_only_when_the_peak_has_grown_by_a_step(world: World) -> None:
    unit = world.begin()
    world.use("c1", peak_mib=160, cache_mib=100)
    world.ends.look()
    world.use("c1", peak_mib=169, cache_mib=0)
    world.ends.look()
    world.use("c1", peak_mib=169, cache_mib=60)
    world.end(unit)
    world.tell("c1")
    assert world.amounts_mib() == [69]


def test_a_kernel_without_peaks_leaves_what_its_slow_rows_tell(world: World) -> None:
    path = world.mount / POD / "c1"
    unit = world.begin()
    world.ends.close()
    (path / "memory.peak").unlink()
    world.ends.came(unit, is_new=True)
    world.rings.append_memory(unit.slot, memory(6001, set_peak=50 * MIB)[0])
    world.end(unit)
    world.tell("c1")
    assert world.amounts_mib() == [50]


def test_a_slot_that_is_anothers_tells_nothing_of_it(world: World) -> None:
    unit = world.begin()
    world.rings.release(unit.slot)
    world.rings.attach(f"{POD}/other", 8, now_monotonic_ns=1)
    world.rings.append_memory(unit.slot, memory(6001, set_peak=50 * MIB)[0])
    world.ends.went(unit)
    world.tell("c1")
    assert world.amounts_mib() == [1]


@pytest.mark.parametrize(("is_new", "seconds", "count"), [(True, 119.0, 1), (True, YOUNG_NS / NS, 0), (False, 1.0, 0)])
def test_only_who_ended_young_and_was_seen_from_the_beginning_counts(
    world: World, is_new: bool, seconds: float, count: int
) -> None:
    world.end(world.begin(is_new=is_new), seconds)
    world.tell("c1")
    assert len(world.taken()) == count
    assert world.ends.take() == []  # nobody tells of runs


def test_each_of_two_takers_gets_each_life_once_and_minutes_wait_for_their_end(world: World) -> None:
    world.end(world.begin())
    world.tell("c1")
    lives = world.ends.lives
    assert lives.take_until(world.now_ns - 1) == []
    [life] = lives.take_until(world.now_ns)
    assert life.unit.identity.container == "app"
    assert lives.take_for_report() == [life]
    assert lives.take_for_report() == lives.take_until(world.now_ns) == []


def test_who_was_not_named_in_time_is_forgotten_and_few_are_kept(world: World) -> None:
    unit = world.begin()
    lives = ShortLives()

    def add(ended_ns: int) -> None:
        lives.add(ShortLife(unit=unit, started_ns=0, ended_ns=ended_ns, working_set_bytes=ended_ns))

    add(0)
    add(UNNAMED_NS + 1)
    lives.rename(lambda identity: join(identity, index_of("c1", REPLICA_SET)))
    assert [life.ended_ns for life in lives.take_until(2 * UNNAMED_NS)] == [UNNAMED_NS + 1]
    for number in range(MOST_LIVES + 1):
        add(number)
    lives.rename(lambda identity: join(identity, index_of("c1", REPLICA_SET)))
    assert len(lives.take_until(UNNAMED_NS)) == MOST_LIVES
    assert lives.take_for_report() == []  # nobody asked for them
