"""Limits of whole pods on a kubelet's tree of plain files; tests/guest has the same on a real kernel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.core.cluster.node import Node, NodeState
from agent.core.cluster.pod import Pod, QosClass
from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.core.machine.pod_limits import PodLimitHeld
from agent.core.orders.annotations import POD_LIMITS
from agent.core.orders.order import Mode, Orders
from agent.core.orders.plan_options import ActOptions, PlanOptions, PodLimitsOptions
from agent.core.orders.policy_options import PolicyName
from agent.core.orders.resolution import orders_of
from agent.core.resize.decision import Action, Outcome
from agent.node.keepers.cgroup_limits import CgroupLimits, LimitOwner
from agent.node.keepers.keeper import KeeperTerms
from agent.node.keepers.pod_limits import NOT_ITS_OWN, TURN_SECONDS, PodLimitsWriter, pod_paths_of
from agent.sensing.cgroup_path import Driver
from tests.kubelet_files import KubeletFiles
from tests.pods import container, make_pod, mirror_metadata

UID = "11111111-aaaa-4000-8000-000000000001"
ID = "1a" * 32
ASKED = '{"limits": {"cpu": "2", "memory": "384Mi"}}'
MIB = 1 << 20


def web(annotation: str | None = ASKED, limits: Mapping[str, str] | None = None, **status: Any) -> Pod:
    return make_pod(
        container("app", {"cpu": "100m", "memory": "64Mi"}, limits),
        metadata={"uid": UID, "annotations": {} if annotation is None else {POD_LIMITS: annotation}},
        status={"phase": "Running", "qosClass": "Burstable", **status},
    )


class Scene:
    """One Burstable pod, a writer, and what it tells."""

    def __init__(self, tmp_path: Path, *, write: bool = True, driver: Driver = Driver.SYSTEMD) -> None:
        self.files = KubeletFiles(tmp_path / "cgroup", driver)
        self.directory = self.files.pod(QosClass.BURSTABLE, UID, {"memory.current": str(100 * MIB)})
        self.file = tmp_path / "limits"
        self.withheld: str | None = None
        self.pinned: frozenset[str] = frozenset()
        self.told: list[tuple[Action, Outcome, str]] = []
        self.details: list[str] = []
        self.now = 0.0
        self.act = ActOptions(mode=Mode.ENFORCE)
        self.unknown_namespaces: Mapping[str, str] = {}
        self.server, self.kubelet = "v1.33.4", "v1.33.4"
        self.writer = self.new_writer(write=write)

    def new_writer(self, *, write: bool = True) -> PodLimitsWriter:
        return PodLimitsWriter(
            limits=CgroupLimits(self.files.mount, self.file),
            options=PodLimitsOptions(write_cgroups=write),
            pod_paths=lambda: {UID: self.files.pod_path(QosClass.BURSTABLE, UID)},
            margin_ratio=1.25,
            terms=KeeperTerms(may_write=lambda: self.withheld, tell=self.tell, unix_seconds=lambda: self.now),
            pinned=lambda: self.pinned,
            orders_of=self.orders_of,
        )

    def orders_of(self, pod: Pod, state: NodeState) -> Orders:
        namespace = state.namespaces.get(pod.namespace)
        return orders_of(pod, namespace, act=self.act, recommend_policy=PolicyName.CRUISE, plan=PlanOptions())

    def tell(self, *, action: Action, outcome: Outcome, reason: str, detail: str = "", **_: object) -> None:
        self.told.append((action, outcome, reason))
        self.details.append(detail)

    def state(self, *pods: Pod, is_complete: bool = True) -> NodeState:
        node = Node(name="n", kubelet_version=self.kubelet)
        return NodeState(
            node=node,
            pods=pods,
            server_version=self.server,
            is_complete=is_complete,
            unknown_namespaces=self.unknown_namespaces,
        )

    def turn(self, *pods: Pod, is_complete: bool = True) -> None:
        self.writer.tick(self.state(*pods, is_complete=is_complete), self.now)
        self.now += TURN_SECONDS

    @property
    def values(self) -> tuple[str, str]:
        return tuple((self.directory / file).read_text().strip() for file in ("cpu.max", "memory.max"))  # type: ignore[return-value]

    def write(self, file: str, text: str) -> None:
        (self.directory / file).write_text(f"{text}\n")


DEFAULTS = ("max 100000", "max")
LIMITED = ("200000 100000", str(384 * MIB))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.mark.parametrize("driver", list(Driver))
def test_a_pod_that_asks_is_limited_and_told_of_once(tmp_path: Path, driver: Driver) -> None:
    scene = Scene(tmp_path, driver=driver)

    scene.turn(web())
    scene.turn(web())

    assert scene.values == LIMITED
    assert scene.told == [(Action.POD_LIMITS, Outcome.DONE, "annotation")] * 2
    assert scene.details == ["cpu.max: 200000 100000, was max 100000", f"memory.max: {384 * MIB}, was max"]
    assert (scene.writer.pods_limited, scene.writer.held) == (1, {})


def test_between_two_turns_nothing_is_looked_at(scene: Scene) -> None:
    scene.turn(web(None))
    scene.now -= TURN_SECONDS / 2

    scene.turn(web())

    assert scene.values == DEFAULTS


def test_what_the_kubelet_wrote_over_is_written_again(scene: Scene) -> None:
    scene.turn(web())
    scene.write("cpu.max", "max 100000")

    scene.turn(web())

    assert scene.values == LIMITED


def test_when_the_annotation_goes_the_kubelets_values_come_back(scene: Scene) -> None:
    scene.turn(web())

    scene.turn(web(None))

    assert scene.values == DEFAULTS
    assert scene.told[2:] == [(Action.POD_LIMITS, Outcome.DONE, "annotation gone")] * 2
    assert scene.writer.pods_limited == 0


def test_the_kubelets_own_limit_comes_back_too(scene: Scene) -> None:
    own = {"cpu": "3", "memory": "1Gi"}
    scene.write("cpu.max", "300000 100000")
    scene.write("memory.max", str(1024 * MIB))
    scene.turn(web(limits=own))
    assert scene.values == LIMITED

    scene.turn(web(None, limits=own))

    assert scene.values == ("300000 100000", str(1024 * MIB))


def test_what_the_annotation_no_longer_names_comes_back(scene: Scene) -> None:
    scene.turn(web())

    scene.turn(web('{"limits": {"cpu": "1"}}'))

    assert scene.values == ("100000 100000", "max")


def test_an_annotation_that_became_faulty_is_told_and_its_limits_go(scene: Scene) -> None:
    scene.turn(web())
    scene.turn(web('{"cpu": 2}'))
    scene.turn(web('{"cpu": 2}'))

    assert scene.values == DEFAULTS
    assert scene.told[2:] == [
        (Action.POD_LIMITS, Outcome.WITHHELD, PodLimitHeld.FAULTY_ANNOTATION),
        *[(Action.POD_LIMITS, Outcome.DONE, PodLimitHeld.FAULTY_ANNOTATION)] * 2,
    ]
    assert scene.writer.held == {PodLimitHeld.FAULTY_ANNOTATION: 1}


def test_limits_are_set_in_mode_recommend_too_and_go_with_mode_off(scene: Scene) -> None:
    scene.act = ActOptions(mode=Mode.RECOMMEND)
    scene.turn(web())
    assert scene.values == LIMITED
    assert (scene.writer.pods_limited, scene.writer.held) == (1, {})

    scene.act = ActOptions(mode=Mode.OFF)
    scene.turn(web())
    assert scene.values == DEFAULTS
    assert scene.told[2:] == [
        (Action.POD_LIMITS, Outcome.WITHHELD, PodLimitHeld.OFF),
        *[(Action.POD_LIMITS, Outcome.DONE, PodLimitHeld.OFF)] * 2,
    ]


@pytest.mark.parametrize(
    "act",
    [
        ActOptions(mode=Mode.OFF),
        ActOptions(mode=Mode.ENFORCE, excluded_namespaces="kube-system, shop"),
    ],
)
def test_a_pod_that_may_not_be_touched_is_not(scene: Scene, act: ActOptions) -> None:
    scene.act = act
    scene.turn(web())
    assert scene.values == DEFAULTS
    assert scene.writer.pods_limited == 0


def test_a_pod_of_an_unknown_namespace_is_left_as_it_is_and_nothing_is_told(scene: Scene) -> None:
    scene.unknown_namespaces = {"shop": "not told"}
    scene.turn(web())
    assert scene.values == DEFAULTS
    scene.unknown_namespaces = {}
    scene.turn(web())
    scene.unknown_namespaces = {"shop": "not told"}
    scene.act = ActOptions(mode=Mode.OFF)
    scene.turn(web())
    assert scene.values == LIMITED
    assert scene.told == [(Action.POD_LIMITS, Outcome.DONE, "annotation")] * 2


def test_a_limit_below_the_requests_is_refused(scene: Scene) -> None:
    scene.turn(web('{"limits": {"memory": "32Mi"}}'))

    assert scene.values == DEFAULTS
    assert scene.told == [(Action.POD_LIMITS, Outcome.WITHHELD, PodLimitHeld.BELOW_REQUESTS)]


def test_a_memory_limit_near_what_is_in_use_waits_and_is_said_once(scene: Scene) -> None:
    scene.write("memory.current", str(320 * MIB))  # x 1.25 = 400 MiB
    scene.turn(web())
    scene.write("memory.current", str(321 * MIB))
    scene.turn(web())

    assert scene.values == (LIMITED[0], "max")
    assert scene.told[1:] == [(Action.POD_LIMITS, Outcome.WITHHELD, "no_room")]
    assert scene.writer.pods_limited == 0

    scene.write("memory.current", str(300 * MIB))
    scene.turn(web())
    assert scene.values == LIMITED
    assert scene.writer.pods_limited == 1


def test_a_limit_is_raised_whatever_is_in_use(scene: Scene) -> None:
    scene.turn(web('{"limits": {"memory": "128Mi"}}'))
    scene.write("memory.current", str(128 * MIB))

    scene.turn(web('{"limits": {"memory": "130Mi"}}'))

    assert scene.values[1] == str(130 * MIB)


def test_paused_means_no_write_of_any_kind(scene: Scene) -> None:
    scene.withheld = "paused"
    scene.turn(web())
    scene.turn(web())
    assert scene.values == DEFAULTS
    assert scene.told == [(Action.POD_LIMITS, Outcome.WITHHELD, "paused")] * 2  # of two files, once each

    scene.withheld = None
    scene.turn(web())
    scene.withheld = "paused"
    scene.turn(web(None))
    assert scene.values == LIMITED


def test_a_pinned_pod_is_left_as_it_is(scene: Scene) -> None:
    scene.pinned = frozenset({UID})
    scene.turn(web())
    assert scene.values == DEFAULTS

    scene.pinned = frozenset()
    scene.turn(web())
    scene.pinned = frozenset({UID})
    scene.turn(web(None))
    assert scene.values == LIMITED


def test_where_the_pods_are_not_all_known_nothing_is_done(scene: Scene) -> None:
    scene.turn(web(), is_complete=False)

    assert scene.values == DEFAULTS


@pytest.mark.parametrize(("server", "kubelet"), [("v1.34.0", "v1.34.0"), ("v1.37.1", "v1.35.2")])
def test_a_cluster_with_pod_level_resources_is_left_to_the_webhook(scene: Scene, server: str, kubelet: str) -> None:
    scene.server, scene.kubelet = server, kubelet

    scene.turn(web())
    scene.turn(web())

    assert scene.values == DEFAULTS
    assert scene.told == [(Action.NOTICE, Outcome.WITHHELD, PodLimitHeld.CLUSTER_KNOWS_THEM)]


def test_limits_in_force_stay_through_an_upgrade_of_the_cluster(scene: Scene) -> None:
    scene.turn(web())
    scene.server = scene.kubelet = "v1.34.0"

    scene.turn(web())

    assert scene.values == LIMITED


def test_switched_off_nothing_is_written_and_what_was_goes(scene: Scene) -> None:
    scene.turn(web())
    scene.writer = scene.new_writer(write=False)  # the agent was restarted with the switch off

    scene.turn(web())
    scene.turn(web())

    assert scene.values == DEFAULTS
    assert scene.told[2:] == [
        (Action.POD_LIMITS, Outcome.WITHHELD, "switched_off"),
        *[(Action.POD_LIMITS, Outcome.DONE, "switched_off")] * 2,
    ]


def test_a_restarted_agent_writes_nothing_twice_and_undoes_what_the_one_before_wrote(scene: Scene) -> None:
    scene.turn(web())
    scene.writer = scene.new_writer()
    scene.turn(web())
    assert len(scene.told) == 2

    scene.turn(web(None))
    assert scene.values == DEFAULTS


def test_a_foreign_value_is_never_undone(scene: Scene) -> None:
    scene.turn(web())
    scene.write("memory.max", "123457536")

    scene.turn(web(None))

    assert scene.values == ("max 100000", "123457536")


def test_init_containers_are_not_limited(scene: Scene) -> None:
    scene.turn(web(phase="Pending"))

    assert scene.values == DEFAULTS
    assert scene.told == []
    assert scene.writer.held == {PodLimitHeld.STARTING: 1}


def test_restore_puts_everything_back_and_a_pin_keeps_it_so(scene: Scene) -> None:
    scene.turn(web())

    assert scene.writer.restore(scene.state(web()), {"another"}) == 0
    assert scene.writer.restore(scene.state(web())) == 2
    assert scene.values == DEFAULTS
    assert scene.told[-1] == (Action.POD_LIMITS, Outcome.DONE, "restore")

    scene.pinned = frozenset({UID})
    scene.turn(web())
    assert scene.values == DEFAULTS


def test_without_a_file_or_a_watched_container_nothing_is_written(scene: Scene) -> None:
    (scene.directory / "memory.max").unlink()
    scene.turn(web())
    assert scene.told[1:] == [(Action.POD_LIMITS, Outcome.WITHHELD, "no_file")]

    other = make_pod(
        container("app"),
        metadata={"uid": "unknown", "annotations": {POD_LIMITS: ASKED}},
        status={"phase": "Running"},
    )
    scene.turn(other)
    assert scene.writer.pods_limited == 0


def test_a_tight_memory_limit_is_warned_of(scene: Scene) -> None:
    scene.turn(web(limits={"memory": "1Gi"}))

    assert (Action.NOTICE, Outcome.DONE, "warning") in scene.told


def test_a_pods_cgroup_is_the_parent_of_its_containers() -> None:
    def unit(path: str, uid: str = UID) -> UnitIdentity:
        return UnitIdentity(cgroup_path=path, kind=UnitKind.CONTAINER, pod_uid=uid, container_id=ID)

    named = UID.replace("-", "_")
    slice_path = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{named}.slice"
    colon = f"/system.slice/containerd.service/kubepods-burstable-pod{named}.slice:cri-containerd:{ID}"

    assert pod_paths_of([unit(f"{slice_path}/cri-containerd-{ID}.scope")]) == {UID: slice_path}
    assert pod_paths_of([unit(f"/kubepods/pod{UID}/{ID}")]) == {UID: f"/kubepods/pod{UID}"}
    assert pod_paths_of([unit(colon), unit("/system.slice/ssh.service"), unit(f"/kubepods/pod{UID}/{ID}", "x")]) == {}


# A pod that calls itself static


VICTIM = make_pod(
    container("app", {"cpu": "100m", "memory": "64Mi"}),
    metadata={"namespace": "kube-system", "name": "victim", "uid": UID},
    status={"phase": "Running", "qosClass": "Burstable"},
)
GRAB = '{"limits": {"cpu": "1m", "memory": "126Mi"}}'
STATIC_HASH = "9d7115b42254d59b82440ebe8084927f"


def tenants(config_hash: str = UID, annotation: str = GRAB, **metadata: Any) -> Pod:
    """Return a tenant's pod that says of itself what a mirror does, up to the owner, in mode enforce."""
    mirror = mirror_metadata("n", config_hash, **{POD_LIMITS: annotation, "plimsoll.dev/mode": "enforce"})
    return make_pod(
        container("app"),
        metadata={"namespace": "tenant", "name": "evil", "uid": "22222222-bbbb-4000-8000-000000000002"}
        | mirror
        | metadata,
        nodeName="n",
        status={"phase": "Running", "qosClass": "Burstable"},
    )


@pytest.mark.parametrize("metadata", [{}, {"ownerReferences": []}])
@pytest.mark.parametrize("is_victim_known", [True, False])
def test_a_pod_that_states_anothers_uid_for_its_hash_writes_nothing(
    scene: Scene, metadata: dict[str, Any], is_victim_known: bool
) -> None:
    evil = tenants(**metadata)

    for pods in ((VICTIM, evil), (evil, VICTIM)):
        scene.turn(*(pods if is_victim_known else (evil,)))
    scene.writer.restore(scene.state(evil))

    assert (scene.values, scene.told) == (DEFAULTS, [])


def test_no_limits_are_written_for_a_static_pod(scene: Scene) -> None:
    directory = scene.files.pod(QosClass.BURSTABLE, STATIC_HASH, {"memory.current": "0"})

    scene.turn(tenants(STATIC_HASH))

    assert (directory / "cpu.max").read_text() == "max 100000\n"
    assert (scene.told, scene.writer.held) == ([], {})


def test_what_was_written_into_a_static_pods_cgroup_is_not_taken_back_by_what_another_pod_says(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    directory = scene.files.pod(QosClass.BURSTABLE, STATIC_HASH, {"memory.current": "0"})
    path = scene.files.pod_path(QosClass.BURSTABLE, STATIC_HASH)
    CgroupLimits(scene.files.mount, scene.file).put(LimitOwner.POD_LIMITS, path, "memory.max", 200 * MIB)
    genuine = make_pod(
        container("etcd", {"memory": "100Mi"}, {"memory": "300Mi"}),
        metadata={"namespace": "kube-system", "name": "etcd", "uid": "uid-mirror", **mirror_metadata("n", STATIC_HASH)},
        nodeName="n",
        status={
            "phase": "Running",
            "qosClass": "Burstable",
            "containerStatuses": [{"name": "etcd", "containerID": f"containerd://{ID}"}],
        },
    )
    evil = tenants(STATIC_HASH)
    scene.writer = scene.new_writer()

    assert scene.writer.restore(scene.state(evil, genuine), {evil.uid}) == 0
    assert (directory / "memory.max").read_text() == f"{200 * MIB}\n"

    scene.turn(evil, genuine)  # as the kubelet has it
    assert (directory / "memory.max").read_text() == f"{300 * MIB}\n"


def test_a_cgroup_of_another_class_than_the_pods_is_told_and_left_alone(scene: Scene) -> None:
    scene.turn(web(qosClass="Guaranteed"))
    scene.turn(web(qosClass="Guaranteed"))

    assert scene.values == DEFAULTS
    assert scene.told == [(Action.POD_LIMITS, Outcome.WITHHELD, NOT_ITS_OWN)] * 2  # once for each file
    assert scene.writer.pods_limited == 0
