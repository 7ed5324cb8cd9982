"""memory.low of limited pods on a kubelet's tree of plain files; tests/guest has the same on a real kernel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.core.cluster.node import Node, NodeState
from agent.core.cluster.pod import Pod, QosClass
from agent.core.orders.annotations import POD_LIMITS
from agent.core.orders.plan_options import PodLimitsOptions
from agent.node.keepers.cgroup_limits import CgroupLimits
from agent.node.keepers.keeper import KeeperTerms
from agent.node.keepers.memory_low import MemoryLowWriter
from agent.node.keepers.pod_limits import TURN_SECONDS, PodLimitsWriter
from agent.sensing.cgroup_path import Driver
from tests.kubelet_files import KubeletFiles
from tests.kubepods import kubepods_root_path
from tests.pods import container, make_pod

WEB, API = "11111111-aaaa-4000-8000-000000000001", "11111111-aaaa-4000-8000-000000000002"
ASKED = '{"limits": {"cpu": "2"}}'
MIB = 1 << 20


def pod(uid: str, memory: str = "64Mi", annotation: str | None = ASKED, **status: Any) -> Pod:
    own = {"name": "app", "containerID": f"containerd://{id_of(uid)}", "state": {"running": {}}}
    return make_pod(
        container("app", {"memory": memory}),
        metadata={"uid": uid, "name": uid[-3:], "annotations": {} if annotation is None else {POD_LIMITS: annotation}},
        status={"phase": "Running", "qosClass": "Burstable", "containerStatuses": [own], **status},
    )


def id_of(uid: str) -> str:
    return uid[-1] * 64


class Scene:
    """Two Burstable pods and both writers."""

    def __init__(self, tmp_path: Path, driver: Driver = Driver.SYSTEMD) -> None:
        self.files = KubeletFiles(tmp_path / "cgroup", driver)
        self.files.kubepods()
        self.files.tiers()
        self.places: dict[str, Path] = {}
        for uid in (WEB, API):
            self.files.pod(QosClass.BURSTABLE, uid, {"memory.current": str(MIB)})
            self.places[uid] = self.files.container(QosClass.BURSTABLE, uid, id_of(uid), {})
        self.root = kubepods_root_path(driver=driver, cgroup_root="/")
        self.file = tmp_path / "limits"
        self.withheld: str | None = None
        self.pinned: frozenset[str] = frozenset()
        self.told: list[tuple[str, str]] = []
        self.now = 0.0
        self.restart()

    def restart(self, **options: Any) -> None:
        limits = CgroupLimits(self.files.mount, self.file)
        chosen = PodLimitsOptions(**{"write_cgroups": True, "memory_low": True, **options})
        terms = KeeperTerms(may_write=lambda: self.withheld, tell=self.tell)
        self.limits = PodLimitsWriter(
            limits=limits,
            options=chosen,
            pod_paths=lambda: {uid: self.files.pod_path(QosClass.BURSTABLE, uid) for uid in (WEB, API)},
            margin_ratio=1.25,
            terms=terms,
            pinned=lambda: self.pinned,
        )
        self.writer = MemoryLowWriter(
            limits=limits,
            options=chosen,
            writer=self.limits,
            container_paths=lambda: {id_of(uid): f"/{self.at(uid)}" for uid in (WEB, API)},
            kubepods_root=lambda: self.root,
            terms=terms,
        )

    def at(self, uid: str) -> Path:
        return self.places[uid].relative_to(self.files.mount)

    def tell(self, *, outcome: str, reason: str, detail: str = "", **_: object) -> None:
        if "memory.low" in detail:
            self.told.append((outcome, reason))

    def turn(self, *pods: Pod, **state: Any) -> None:
        node = Node(name="n", kubelet_version="v1.33.4")
        node_state = NodeState(node=node, pods=pods, server_version="v1.33.4", **state)
        for keeper in (self.limits, self.writer):
            keeper.tick(node_state, self.now)
        self.now += TURN_SECONDS

    def values(self) -> list[int]:
        """Return memory.low of kubepods, the tier, one pod and its container, the other and its."""
        own = self.places[WEB]
        above = [own.parents[2], own.parents[1], own.parents[0], own]
        return [
            int((place / "memory.low").read_text()) for place in (*above, self.places[API].parent, self.places[API])
        ]

    def write(self, place: Path, text: str) -> None:
        (place / "memory.low").write_text(f"{text}\n")


NOTHING = [0] * 6
BOTH = [amount * MIB for amount in (192, 192, 64, 64, 128, 128)]
ONE = [amount * MIB for amount in (64, 64, 64, 64, 0, 0)]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.mark.parametrize("driver", list(Driver))
def test_pods_that_ask_are_protected_with_the_cgroups_above_them(tmp_path: Path, driver: Driver) -> None:
    scene = Scene(tmp_path, driver)
    for _ in range(2):
        scene.turn(pod(WEB), pod(API, "128Mi"))
    assert scene.values() == BOTH
    assert scene.told == [("done", "requests")] * 6


def test_without_the_option_nothing_is_protected_and_what_was_is_put_back(scene: Scene) -> None:
    scene.turn(pod(WEB), pod(API, "128Mi"))
    scene.restart(memory_low=False)
    scene.turn(pod(WEB), pod(API, "128Mi"))
    assert scene.values() == NOTHING
    assert scene.told[-1] == ("done", "switched_off")
    scene.turn(pod(WEB), pod(API, "128Mi"))
    assert scene.values() == NOTHING


def test_when_an_annotation_goes_the_sums_fall_and_at_the_last_all_is_as_before(scene: Scene) -> None:
    scene.turn(pod(WEB), pod(API, "128Mi"))
    scene.restart()  # another agent undoes what this one wrote
    scene.turn(pod(WEB), pod(API, "128Mi", None))
    assert scene.values() == ONE
    scene.turn(pod(WEB, annotation=None), pod(API, "128Mi", None))
    assert scene.values() == NOTHING
    assert scene.told[-1] == ("done", "not_asked_for")


def test_what_the_kubelet_wrote_over_is_written_again(scene: Scene) -> None:
    scene.turn(pod(WEB), pod(API, "128Mi"))
    scene.write(scene.places[WEB].parents[1], "0")
    scene.turn(pod(WEB), pod(API, "128Mi"))
    assert scene.values() == BOTH


def test_what_somebody_else_protects_is_left_and_said_once(scene: Scene) -> None:
    scene.write(scene.places[WEB].parents[1], "4096")
    for _ in range(2):
        scene.turn(pod(WEB))
    assert scene.values()[1] == 4096
    assert scene.told.count(("withheld", "limited_by_others")) == 1
    scene.turn(pod(WEB, annotation=None))
    assert scene.values() == [0, 4096, 0, 0, 0, 0]


def test_a_resize_moves_what_is_protected(scene: Scene) -> None:
    scene.turn(pod(WEB), pod(API, "128Mi"))
    scene.turn(pod(WEB, "96Mi"), pod(API, "128Mi"))
    assert scene.values() == [amount * MIB for amount in (224, 224, 96, 96, 128, 128)]


@pytest.mark.parametrize("uids", [{WEB}, set()])
def test_a_pinned_pod_keeps_what_it_has_and_gets_nothing_new(scene: Scene, uids: set[str]) -> None:
    scene.turn(*[pod(uid) for uid in uids])
    scene.pinned = frozenset({WEB})
    scene.turn(pod(WEB))
    scene.turn(pod(WEB, annotation=None))
    assert scene.values() == (ONE if uids else NOTHING)


def test_a_pause_stops_writing_and_undoing_and_is_said_once(scene: Scene) -> None:
    scene.withheld = "paused"
    for _ in range(2):
        scene.turn(pod(WEB))
    assert scene.values() == NOTHING
    assert scene.told == [("withheld", "paused")] * 4
    scene.withheld = None
    scene.turn(pod(WEB))
    scene.withheld = "paused"
    scene.turn(pod(WEB, annotation=None))
    assert scene.values() == ONE


def test_where_pods_or_kubepods_are_not_known_all_stays(scene: Scene) -> None:
    scene.turn(pod(WEB))
    scene.turn(is_complete=False)
    scene.root, root = None, scene.root  # type: ignore[assignment]
    scene.turn()
    scene.root = root
    assert scene.values() == ONE


def test_a_file_that_is_not_there_or_cannot_be_written_is_said(scene: Scene) -> None:
    (scene.places[WEB] / "memory.low").unlink()
    scene.turn(pod(WEB))
    assert ("withheld", "no_file") in scene.told
    scene.file = scene.file / "no" / "folder"
    scene.restart()
    scene.turn(pod(API))
    assert ("error", "not_written") in scene.told


def test_a_pod_that_requests_no_memory_is_not_protected(scene: Scene) -> None:
    bare: Mapping[str, Any] = container("app", {"cpu": "100m"})
    asks = {"uid": WEB, "annotations": {POD_LIMITS: ASKED}}
    scene.turn(make_pod(bare, metadata=asks, status={"phase": "Running", "qosClass": "Burstable"}))
    assert scene.values() == NOTHING
    assert scene.told == []
