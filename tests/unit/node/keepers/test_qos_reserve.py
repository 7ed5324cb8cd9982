"""Memory kept for higher classes on a kubelet's tree of plain files."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.core.cluster.node import Node, NodeState
from agent.core.cluster.pod import MEMORY, Partition, QosClass
from agent.core.machine.qos_reserve import ROOM_BYTES
from agent.core.numbers.units import GIB, MIB, NANOS_PER_UNIT
from agent.core.orders.plan_options import PodLimitsOptions
from agent.core.resize.decision import Action, Outcome
from agent.node.keepers.cgroup_limits import CgroupLimits
from agent.node.keepers.keeper import KeeperTerms
from agent.node.keepers.qos_reserve import TURN_SECONDS, QosReserver
from agent.sensing.cgroup_path import Driver
from tests.kubelet_files import KubeletFiles
from tests.kubepods import kubepods_root_path
from tests.pods import container, make_pod

BURSTABLE, BEST_EFFORT = QosClass.BURSTABLE, QosClass.BEST_EFFORT
PODS = tuple(
    make_pod(
        container("app", {"memory": memory} if memory else None),
        metadata={"uid": qos},
        status={"phase": "Running", "qosClass": qos},
    )
    for qos, memory in ((QosClass.GUARANTEED, "4Gi"), (BURSTABLE, "2Gi"), (BEST_EFFORT, None))
)
# 16Gi, half of 4Gi and half of 2Gi kept: 14Gi and 13Gi
TARGET = {BURSTABLE: 14 * GIB, BEST_EFFORT: 13 * GIB}


class Scene:
    """A node of 16Gi with both tiers, nothing limited, little in use."""

    def __init__(self, tmp_path: Path, driver: Driver = Driver.SYSTEMD) -> None:
        self.files = KubeletFiles(tmp_path / "cgroup", driver)
        self.files.kubepods()
        self.tiers = {qos: self.files.tier(qos, {"memory.current": str(GIB)}) for qos in (BURSTABLE, BEST_EFFORT)}
        self.file = tmp_path / "limits"
        self.withheld: str | None = None
        self.told: list[tuple[Outcome, str]] = []
        self.now = 0.0
        self.root: str | None = kubepods_root_path(driver=driver)
        self.reserver = self.new()

    def new(self, *, percent: int | None = 50, write: bool = True) -> QosReserver:
        return QosReserver(
            limits=CgroupLimits(self.files.mount, self.file),
            options=PodLimitsOptions(qos_reserved_memory_percent=percent, qos_reserved_write=write),
            mount=self.files.mount,
            kubepods_root=lambda: self.root,
            terms=KeeperTerms(may_write=lambda: self.withheld, tell=self.tell, unix_seconds=lambda: self.now),
        )

    def tell(self, *, action: Action, outcome: Outcome, reason: str, **_: object) -> None:
        assert action is Action.QOS_RESERVE
        self.told.append((outcome, reason))

    def state(self, *, is_complete: bool = True, unreadable: tuple[str, ...] = ()) -> NodeState:
        node = Node(name="n", allocatable={MEMORY: 16 * GIB * NANOS_PER_UNIT})
        return NodeState(node=node, pods=PODS, is_complete=is_complete, unreadable_pods=unreadable)

    def turn(self, state: NodeState | None = None) -> None:
        self.reserver.tick(state or self.state(), self.now)
        self.now += TURN_SECONDS

    def write(self, qos: QosClass, file: str, text: str) -> None:
        (self.tiers[qos] / file).write_text(f"{text}\n")

    @property
    def limits(self) -> dict[QosClass, str]:
        return {qos: (directory / "memory.max").read_text().strip() for qos, directory in self.tiers.items()}


UNLIMITED = {BURSTABLE: "max", BEST_EFFORT: "max"}
RESERVED = {qos: str(limit) for qos, limit in TARGET.items()}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.mark.parametrize("driver", list(Driver))
def test_switched_on_the_tiers_get_what_is_left_to_them(tmp_path: Path, driver: Driver) -> None:
    scene = Scene(tmp_path, driver)

    scene.turn()
    scene.turn()

    assert scene.limits == RESERVED
    assert scene.told == [(Outcome.DONE, "reserved")] * 2
    assert scene.reserver.reservation is not None
    assert scene.reserver.reservation.target_bytes == TARGET
    assert scene.reserver.limit_bytes == TARGET
    assert scene.reserver.usage_bytes == {BURSTABLE: GIB, BEST_EFFORT: GIB}


def test_switched_off_it_is_only_computed(scene: Scene) -> None:
    scene.reserver = scene.new(write=False)

    scene.turn()

    assert scene.limits == UNLIMITED
    assert scene.reserver.reservation is not None
    assert scene.reserver.limit_bytes == {}
    assert scene.told == []


def test_without_a_percentage_there_is_nothing(scene: Scene) -> None:
    scene.reserver = scene.new(percent=None)

    scene.turn()

    assert (scene.reserver.reservation, scene.limits, scene.told) == (None, UNLIMITED, [])


@pytest.mark.parametrize("percent", [None, 50])
def test_when_it_is_switched_off_the_limits_go(scene: Scene, percent: int | None) -> None:
    scene.turn()
    scene.reserver = scene.new(percent=percent, write=False)

    scene.turn()

    assert scene.limits == UNLIMITED
    assert scene.told[2:] == [(Outcome.DONE, "switched off")] * 2


def test_what_the_kubelet_reset_is_written_again(scene: Scene) -> None:
    scene.turn()
    scene.write(BURSTABLE, "memory.max", "max")

    scene.turn()

    assert scene.limits == RESERVED


def test_a_tier_that_uses_more_gets_its_usage_and_comes_down_in_time(scene: Scene) -> None:
    scene.write(BEST_EFFORT, "memory.current", str(15 * GIB))
    scene.turn()
    assert scene.limits[BEST_EFFORT] == str(15 * GIB + ROOM_BYTES)

    scene.write(BEST_EFFORT, "memory.current", str(15 * GIB + 32 * MIB))
    scene.turn()
    assert scene.limits[BEST_EFFORT] == str(15 * GIB + ROOM_BYTES)  # never up with the use

    scene.write(BEST_EFFORT, "memory.current", str(12 * GIB))
    scene.turn()
    assert scene.limits == RESERVED


def test_a_limit_of_somebody_else_is_not_touched(scene: Scene) -> None:
    scene.write(BURSTABLE, "memory.max", str(9 * GIB))

    scene.turn()
    scene.turn()

    assert scene.limits == {BURSTABLE: str(9 * GIB), BEST_EFFORT: "max"}
    assert scene.told == [(Outcome.WITHHELD, "limited_by_others")]
    assert scene.reserver.limit_bytes == {BURSTABLE: 9 * GIB}


def test_a_restarted_agent_knows_its_limits(scene: Scene) -> None:
    scene.turn()
    scene.reserver = scene.new()

    scene.turn()

    assert scene.limits == RESERVED
    assert len(scene.told) == 2


def test_paused_nothing_is_written_or_taken_back_and_it_is_said_once(scene: Scene) -> None:
    scene.withheld = "paused"
    scene.turn()
    scene.turn()
    assert (scene.limits, scene.told) == (UNLIMITED, [(Outcome.WITHHELD, "paused")])

    scene.withheld = None
    scene.turn()
    scene.withheld = "paused"
    scene.turn()
    assert len(scene.told) == 3  # all is as it should be: nothing is withheld
    scene.reserver = scene.new(write=False)
    scene.turn()
    assert scene.limits == RESERVED


def test_pods_that_are_not_all_known_leave_it_as_it_is(scene: Scene) -> None:
    scene.turn(scene.state(is_complete=False))
    assert (scene.limits, scene.told) == (UNLIMITED, [])

    scene.turn(scene.state(unreadable=("shop/odd: why",)))
    assert (scene.limits, scene.told) == (UNLIMITED, [(Outcome.WITHHELD, "not_computed")])


def test_a_system_partition_and_missing_tiers_are_said(scene: Scene) -> None:
    scene.files.pod(BURSTABLE, "x", {}, Partition.SYSTEM)
    scene.turn()
    assert scene.told == [(Outcome.WITHHELD, "system_partition")]

    scene.root = None
    scene.turn()
    scene.root = "/nowhere"
    scene.turn()
    assert scene.told[1:] == [(Outcome.WITHHELD, "no_tiers")]
    assert scene.limits == UNLIMITED


def test_a_tier_whose_usage_is_not_known_is_left_out(scene: Scene) -> None:
    (scene.tiers[BURSTABLE] / "memory.current").unlink()

    scene.turn()

    assert scene.limits == {BURSTABLE: "max", BEST_EFFORT: RESERVED[BEST_EFFORT]}


def test_a_write_that_fails_twice_is_told_once(scene: Scene) -> None:
    scene.file.mkdir()  # it cannot be replaced by a file: what is written cannot be remembered

    scene.turn()
    scene.turn()

    assert scene.limits == UNLIMITED
    assert scene.told == [(Outcome.ERROR, "not_written")]
