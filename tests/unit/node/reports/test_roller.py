"""Rows of a report from real rings: who is in them, who has gone, and what was killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from agent.core.cluster.pod import ContainerStatus, Pod, PodCondition
from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import OutOfMemoryKill, RollupRow, Setback, ShareRow
from agent.core.orders.annotations import STARTUP_BOOSTED
from agent.core.orders.enforce_share import EnforceShare
from agent.core.orders.order import Mode
from agent.core.window.policy import WindowPolicy
from agent.node.reports.roller import MAX_KILLS_OF_ROW, OLDEST_KILL_SECONDS, Roller
from agent.node.reports.share_fares import ShareGroup, share_group
from agent.node.sampling.short_lives import ShortLife
from agent.node.sampling.unit_table import UnitTable, WatchedUnit
from agent.sensing.ring_file import RingFile
from agent.sensing.ring_view import RingView
from agent.sensing.state_file import RingGeometry
from tests.pods import CONFIG_HASH, container, make_pod, mirror_metadata
from tests.unit.cli.recommender.test_why_actions import ORDERS
from tests.window_rows import NS, Rows, memory, steady

MIB = 1 << 20
CREATED = "2026-11-21T00:00:00Z"
CREATED_UNIX = 1_795_219_200
OWNER = {"kind": "ReplicaSet", "name": "web-5d4f8c7b9", "uid": "rs", "apiVersion": "apps/v1", "controller": True}


def web_pod(uid: str = "uid-1", name: str = "web-1", node_name: str | None = None, **metadata: object) -> Pod:
    return make_pod(
        container("app"),
        container("proxy"),
        metadata={
            "name": name,
            "uid": uid,
            "creationTimestamp": CREATED,
            "labels": {"pod-template-hash": "5d4f8c7b9"},
            "ownerReferences": [OWNER],
            **metadata,
        },
        ephemeralContainers=[container("debug")],
        nodeName=node_name,
    )


class World:
    """A roller over rings that a test fills. Seconds are of CLOCK_MONOTONIC."""

    def __init__(self) -> None:
        self.rings = RingFile.open(None, RingGeometry(max_slots=4), boot_id="boot")
        self.units = UnitTable()
        self.pods: list[Pod] = [web_pod()]
        self.asked = 0
        self.roller = Roller(
            rings=self.rings,
            units=self.units,
            policy=lambda: WindowPolicy(capacity_millicores=4000),
            pods=self._pods,
            unix_seconds=lambda ns: CREATED_UNIX + ns / NS,
            short_lives=self._taken_lives,
        )
        self.lives: list[ShortLife] = []

    def _taken_lives(self) -> list[ShortLife]:
        taken, self.lives = self.lives, []
        return taken

    def _pods(self) -> list[Pod]:
        self.asked += 1
        return self.pods

    def watch(
        self, name: str | None = "app", *, inode: int = 7, uid: str = "uid-1", kind: UnitKind = UnitKind.CONTAINER
    ) -> WatchedUnit:
        path = f"kubepods/pod{uid}/{name}-{inode}"
        unit = WatchedUnit(
            slot=self.rings.attach(path, inode, now_monotonic_ns=1),
            inode=inode,
            identity=UnitIdentity(
                cgroup_path=f"/{path}", kind=kind, pod_uid=uid, namespace="shop", pod="web-1", container=name
            ),
            resources=UnitResources(),
        )
        self.units.put(unit)
        return unit

    def fill(self, unit: WatchedUnit, seconds: range, millicores: float = 100.0) -> None:
        for row in steady(seconds, millicores, waiting=0.1):
            self.rings.append_raw(unit.slot, row)
        for at in seconds[9::10]:
            self.rings.append_memory(unit.slot, memory(at, 3 * MIB, inactive=MIB)[0])

    def drop(self, unit: WatchedUnit) -> None:
        self.units.drop(unit.identity.cgroup_path)
        self.rings.release(unit.slot)

    def end_young(self, unit: WatchedUnit, ended: float, mib: int, seconds: float = 0.8) -> None:
        """The sampling thread tells of a container's end."""
        self.drop(unit)
        ended_ns = round(ended * NS)
        self.lives.append(
            ShortLife(
                unit=unit, started_ns=ended_ns - round(seconds * NS), ended_ns=ended_ns, working_set_bytes=mib * MIB
            )
        )

    def rows(self, start: int, end: int) -> tuple[RollupRow, ...]:
        return self.roller.rows(start * NS, end * NS)

    def row(self, start: int, end: int) -> RollupRow:
        (row,) = self.rows(start, end)
        return row


@pytest.fixture
def world() -> Iterator[World]:
    new_world = World()
    yield new_world
    new_world.rings.close()


def test_a_row_tells_who_and_how_much(world: World) -> None:
    world.fill(world.watch(), range(900, 1310))
    row = world.row(1000, 1300)
    assert (row.workload.namespace, row.workload.kind, row.workload.name) == ("shop", "Deployment", "web")
    assert (row.container, row.pod, row.pod_uid) == ("app", "web-1", "uid-1")
    assert row.pod_age_seconds == 1300.0
    assert row.covered_seconds == 300.0
    assert row.cpu is not None
    assert row.cpu.count == 300
    assert row.cpu.max == pytest.approx(100.0)
    assert row.cpu_adjusted is not None
    assert row.cpu_adjusted.max == pytest.approx(110.0)
    assert row.memory is not None
    assert (row.memory.count, row.memory.max) == (30, 2 * MIB)
    assert row.waiting_seconds == pytest.approx(30.0)


def test_a_static_pod_is_told_by_the_uid_of_the_api(world: World) -> None:
    world.pods = [web_pod("api-uid", node_name="n", **mirror_metadata("n"))]
    world.fill(world.watch(uid=CONFIG_HASH), range(900, 1301))
    row = world.row(1000, 1300)
    assert (row.pod_uid, row.workload.kind) == ("api-uid", "Pod")


@pytest.mark.parametrize(
    ("name", "uid", "kind"),
    [
        (None, "uid-1", UnitKind.SANDBOX),
        (None, "uid-1", UnitKind.CONTAINER),  # not named yet
        ("app", "uid-9", UnitKind.CONTAINER),  # a pod that the API does not have
        ("other", "uid-1", UnitKind.CONTAINER),
        ("debug", "uid-1", UnitKind.CONTAINER),  # never has resources
        ("app", "uid-1", UnitKind.STANDALONE),
    ],
)
def test_what_is_no_sized_container_of_a_known_pod_has_no_row(
    world: World, name: str | None, uid: str, kind: UnitKind
) -> None:
    world.fill(world.watch(name, uid=uid, kind=kind), range(900, 1301))
    assert world.rows(1000, 1300) == ()


def test_rows_are_in_order_and_pods_are_asked_for_newcomers_alone(world: World) -> None:
    for name, inode in (("proxy", 8), ("app", 7)):
        world.fill(world.watch(name, inode=inode), range(900, 1601))
    assert [row.container for row in world.rows(1000, 1300)] == ["app", "proxy"]
    assert world.asked == 2, "for newcomers, and once a report for groups of enforced shares"
    world.pods = []  # the pod is gone from the API, its containers still run out
    assert [row.container for row in world.rows(1300, 1600)] == ["app", "proxy"]
    assert world.asked == 3


def test_a_container_that_goes_within_the_interval_is_told_though_its_slot_is_anothers(world: World) -> None:
    first = world.watch()
    world.roller.begin(1000 * NS)
    world.fill(first, range(900, 1151))
    world.roller.look(1100 * NS)
    world.drop(first)
    world.roller.look(1160 * NS)
    second = world.watch(inode=8)
    assert second.slot == first.slot
    world.fill(second, range(1180, 1301), 200.0)
    rows = world.rows(1000, 1300)
    assert sorted(round(row.cpu.max) for row in rows if row.cpu is not None) == [100, 200]
    assert sorted(row.covered_seconds for row in rows) == [120.0, 150.0]
    assert {row.container for row in rows} == {"app"}
    assert [row.covered_seconds for row in world.rows(1300, 1310)] == []  # told once


def test_a_slot_that_went_to_another_before_it_was_looked_at_tells_nothing_of_the_first(world: World) -> None:
    first = world.watch()
    world.roller.begin(1000 * NS)
    world.fill(first, range(900, 1151))
    world.roller.look(1100 * NS)
    world.drop(first)
    world.fill(world.watch(inode=8), range(1180, 1301), 200.0)
    row = world.row(1000, 1300)
    assert row.cpu is not None
    assert row.cpu.max == pytest.approx(200.0)


def test_before_an_interval_has_begun_nobody_who_goes_is_told(world: World) -> None:
    first = world.watch()
    world.fill(first, range(900, 1151))
    world.roller.look(1100 * NS)
    world.drop(first)
    world.roller.look(1160 * NS)
    assert world.rows(1000, 1300) == ()


class Overtaken:
    """Rings whose views have always been overtaken: their pieces are another's by now."""

    def __init__(self, rings: RingFile) -> None:
        self._rings = rings

    def raw(self, slot: int, rows: int | None = None) -> OvertakenView:
        return OvertakenView(self._rings.raw(slot, rows))

    def memory(self, slot: int, rows: int | None = None) -> OvertakenView:
        return OvertakenView(self._rings.memory(slot, rows))

    def __getattr__(self, name: str) -> object:
        return getattr(self._rings, name)


class OvertakenView:
    def __init__(self, view: RingView) -> None:
        self._view = view

    @property
    def pieces(self) -> list[Rows]:
        return [np.zeros_like(piece) for piece in self._view.pieces]

    def intact(self) -> bool:
        return False

    def joined(self) -> Rows:
        return self._view.joined()


def test_rows_that_the_sampler_overtakes_are_read_again(world: World) -> None:
    world.fill(world.watch(), range(900, 1301))
    expected = world.row(1000, 1300)
    world.roller._rings = Overtaken(world.rings)  # type: ignore[assignment]  # a sampler cannot be made to come between
    assert world.row(1000, 1300) == expected


def test_kills_are_told_with_age_and_bytes_by_the_newest_instance(world: World) -> None:
    first = world.watch()
    world.roller.begin(1000 * NS)
    world.fill(first, range(900, 1151))
    world.roller.look(1100 * NS)
    world.roller.killed(first.identity, memory_bytes=64 * MIB, monotonic_ns=1150 * NS)
    world.drop(first)
    world.roller.look(1160 * NS)
    world.fill(world.watch(inode=8), range(1180, 1301), 200.0)
    rows = world.rows(1000, 1300)
    assert [row.oom_kills for row in rows if row.cpu is not None and row.cpu.max > 150] == [
        (OutOfMemoryKill(age_seconds=150.0, memory_bytes=64 * MIB),)
    ]
    assert sum(len(row.oom_kills) for row in rows) == 1


def test_a_kill_waits_for_a_row_of_its_container_but_not_for_ever(world: World) -> None:
    unit = world.watch()
    world.roller.killed(unit.identity, memory_bytes=0, monotonic_ns=1250 * NS)  # nothing was known to be in use
    world.roller.killed(unit.identity, memory_bytes=5, monotonic_ns=1301 * NS)  # after the end: the next row's
    assert world.rows(1000, 1300) == ()
    world.fill(unit, range(1500, 1601))
    assert world.row(1300, 1600).oom_kills == (
        OutOfMemoryKill(age_seconds=350.0, memory_bytes=None),
        OutOfMemoryKill(age_seconds=299.0, memory_bytes=5),
    )
    assert world.row(1500, 1600).oom_kills == ()
    late = int(1600 + OLDEST_KILL_SECONDS + 400)
    world.roller.killed(unit.identity, memory_bytes=5, monotonic_ns=1600 * NS)
    world.fill(unit, range(late - 200, late + 1))
    assert world.row(late - 300, late).oom_kills == ()


def test_of_many_kills_a_row_keeps_those_with_the_most_memory(world: World) -> None:
    unit = world.watch()
    world.fill(unit, range(900, 1301))
    for index in range(40):
        world.roller.killed(unit.identity, memory_bytes=index + 1, monotonic_ns=(1200 + index) * NS)
    world.roller.killed(unit.identity, memory_bytes=100, monotonic_ns=1250 * NS, kills=2)
    kills = world.row(1000, 1300).oom_kills
    assert len(kills) == MAX_KILLS_OF_ROW
    assert sorted(kill.memory_bytes or 0 for kill in kills) == [*range(27, 41), 100, 100]
    assert [kill.age_seconds for kill in kills] == sorted((kill.age_seconds for kill in kills), reverse=True)


def test_a_kill_of_what_has_no_name_is_left_out(world: World) -> None:
    world.roller.killed(UnitIdentity(cgroup_path="/x", kind=UnitKind.SERVICE), memory_bytes=1, monotonic_ns=1200 * NS)
    world.fill(world.watch(), range(900, 1301))
    assert world.row(1000, 1300).oom_kills == ()


@pytest.mark.parametrize(("created", "age"), [(None, None), ("2026-11-21T01:00:00Z", None)])
def test_an_age_that_cannot_be_is_not_known(world: World, created: str | None, age: float | None) -> None:
    world.pods = [web_pod(creationTimestamp=created)]
    world.fill(world.watch(), range(900, 1301))
    assert world.row(1000, 1300).pod_age_seconds == age


def test_a_full_node_is_summed_up_within_what_the_rings_hold(world: World) -> None:
    # 703 rows are there at most: what lies before them is not covered, and not made up
    world.fill(world.watch(), range(100, 1301))
    row = world.row(300, 1300)
    assert 690 <= row.covered_seconds < 710
    assert row.cpu is not None
    assert row.cpu.count == pytest.approx(row.covered_seconds, abs=12)
    assert np.isfinite(row.cpu.sum)


def test_how_good_sizing_was_is_told_once_of_a_workload_and_four_times_an_hour(world: World) -> None:
    """Of two pods of a workload the first row tells; the reports between tell nothing of it."""
    figures = np.ones((3, 28))
    world.pods = [web_pod(), web_pod("uid-2", "web-2")]
    world.roller = Roller(
        rings=world.rings,
        units=world.units,
        policy=lambda: WindowPolicy(capacity_millicores=4000),
        pods=world._pods,
        unix_seconds=lambda ns: CREATED_UNIX + ns / NS,
        quality=lambda: {(Workload(namespace="shop", kind="Deployment", name="web"), "app"): figures},
    )
    for number in (1, 2):
        world.fill(world.watch(inode=number, uid=f"uid-{number}"), range(900, 2205))
    qualities = [[row.quality for row in world.rows(end - 300, end)] for end in (1300, 1600, 1900, 2200)]
    assert qualities[0] == [tuple(map(tuple, figures.tolist())), None]
    assert qualities[1] == qualities[2] == [None, None]
    assert qualities[3] == qualities[0]


def test_cpu_of_a_boosted_start_is_not_told_and_memory_is(world: World) -> None:
    boost = {
        "unixSeconds": CREATED_UNIX,
        "afterReadySeconds": 60,
        "timeoutSeconds": 600,
        "containers": {"app": {"requestMillicores": [100, 300]}},
    }
    # Given its boost at second 0 and not ready since: its start is over at second 600.
    world.pods = [web_pod(annotations={STARTUP_BOOSTED: json.dumps(boost)})]
    world.fill(world.watch(), range(300, 1310))
    starting = world.row(300, 590)
    assert starting.cpu is None
    assert starting.memory is not None
    # A hundred seconds after it; the first rates, of ten seconds at least, do not reach back before it.
    half = world.row(590, 700)
    assert half.cpu is not None
    assert 80 <= half.cpu.count <= 90
    world.pods = [web_pod()]
    assert world.row(700, 1000).cpu is not None


def test_groups_of_a_share_are_told_with_restarts_and_how_long_a_pod_was_not_ready(world: World) -> None:
    def seen(restarts: int, *, is_ready: bool) -> list[Pod]:
        pod = web_pod()
        conditions = (PodCondition(type="Ready", status="True"),) if is_ready else ()
        status = ContainerStatus(name="app", restart_count=restarts)
        return [replace(pod, phase="Running", statuses=(status,), conditions=conditions)]

    world.pods = seen(3, is_ready=True)
    world.roller = Roller(
        rings=world.rings,
        units=world.units,
        policy=lambda: WindowPolicy(capacity_millicores=4000),
        pods=world._pods,
        unix_seconds=lambda ns: CREATED_UNIX + ns / NS,
        share_group=lambda pod: ShareGroup("10 %", True),
    )
    world.fill(world.watch(), range(900, 1910))
    assert world.row(1000, 1300).share == ShareRow(share="10 %", is_enforced=True, restarts=0, unready_seconds=0.0)
    world.pods = seen(5, is_ready=False)
    for at in range(1310, 1371, 10):
        world.roller.look(at * NS)
    world.pods = seen(5, is_ready=True)
    world.roller.set_back("uid-1", "restarts", monotonic_ns=1590 * NS)
    world.roller.set_back("uid-2", "of another pod", monotonic_ns=1590 * NS)
    row = world.row(1300, 1600)
    assert row.share == ShareRow(share="10 %", is_enforced=True, restarts=2, unready_seconds=70.0)
    assert row.setback == Setback(age_seconds=10.0, reason="restarts")
    world.roller.set_back("uid-1", "later than the report's end", monotonic_ns=1905 * NS)
    assert world.row(1600, 1900).setback is None


def test_a_pod_is_in_a_group_only_where_a_share_is_enforced() -> None:
    orders = replace(ORDERS, enforce_share=EnforceShare(10_000))
    assert share_group(web_pod(), ORDERS) is None
    assert share_group(web_pod(), orders) == ShareGroup("100 %", True)
    assert share_group(web_pod(), replace(orders, enforce_share=EnforceShare(0))) == ShareGroup("0 %", False)
    assert share_group(web_pod(), replace(orders, mode=Mode.RECOMMEND)) is None


def test_a_container_that_lived_between_two_looks_is_told_by_its_memory(world: World) -> None:
    world.roller.begin(100 * NS)
    for inode, mib in ((7, 300), (8, 200)):  # a crash loop
        world.end_young(world.watch(inode=inode), 110 + inode, mib)
    pod_uid, container_ = "uid-1", "app"
    identity = UnitIdentity(cgroup_path="/a", kind=UnitKind.CONTAINER, pod_uid=pod_uid, container=container_)
    world.roller.killed(identity, memory_bytes=300 * MIB, monotonic_ns=118 * NS)
    newest, first = world.rows(100, 160)
    assert (first.workload, first.pod, first.container) == (
        Workload(namespace="shop", kind="Deployment", name="web"),
        "web-1",
        "app",
    )
    assert (first.memory and first.memory.count, first.memory and first.memory.max) == (1, 300 * MIB)
    assert (first.covered_seconds, first.cpu) == (0.8, None)
    assert newest.memory is not None
    assert newest.memory.max == 200 * MIB
    assert (len(newest.oom_kills), len(first.oom_kills)) == (1, 0)  # a kill is told once, as before
    assert world.rows(160, 220) == ()


def test_the_end_of_a_container_that_was_seen_raises_its_row(world: World) -> None:
    world.roller.begin(100 * NS)
    unit = world.watch()
    world.fill(unit, range(100, 131))
    world.roller.look(125 * NS)
    world.roller.look(130 * NS)
    world.units.drop(unit.identity.cgroup_path)
    world.roller.look(131 * NS)  # its slot is not another's yet
    world.end_young(unit, 131, 300, seconds=31)
    row = world.row(100, 160)
    assert row.memory is not None
    assert (row.memory.count, row.memory.max) == (4, 300 * MIB)
    assert row.cpu is not None
    assert row.covered_seconds == pytest.approx(30.0)


def test_a_short_life_of_a_job_or_of_a_pod_that_has_gone_has_no_row(world: World) -> None:
    job = {"kind": "Job", "name": "report-29923320", "uid": "job", "controller": True}
    world.pods = [web_pod(ownerReferences=[job])]
    world.end_young(world.watch(), 110, 300)
    world.end_young(world.watch(uid="uid-2"), 110, 300)
    assert world.rows(100, 160) == ()
