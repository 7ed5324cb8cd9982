"""Limits of whole pods, and memory kept for higher classes, on a real kernel: they bind, and they kill nobody."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from agent.core.cluster.node import Node, NodeState
from agent.core.cluster.pod import MEMORY, Pod, QosClass
from agent.core.machine.qos_reserve import ROOM_BYTES
from agent.core.numbers.units import GIB, MIB, NANOS_PER_UNIT
from agent.core.orders.annotations import POD_LIMITS
from agent.core.orders.plan_options import PodLimitsOptions
from agent.node.keepers.cgroup_limits import CgroupLimits
from agent.node.keepers.keeper import KeeperTerms
from agent.node.keepers.memory_low import MemoryLowWriter
from agent.node.keepers.pod_limits import TURN_SECONDS, PodLimitsWriter
from agent.node.keepers.qos_reserve import QosReserver
from tests.guest.full_tree import FullTree
from tests.guest.waiting import wait_for
from tests.kernel.cgroups import LOADS
from tests.pods import container, make_pod

pytestmark = pytest.mark.guest

UID = "11111111-aaaa-4000-8000-000000000001"
TIER = "kubepods/burstable"
POD = f"{TIER}/pod{UID}"
APP, LOG = (f"{POD}/{digit * 64}" for digit in "ab")
NEIGHBOUR = f"{TIER}/pod22222222-aaaa-4000-8000-000000000002/{'c' * 64}"


def hold(mebibytes: int) -> tuple[str, ...]:
    """Return a load that takes and keeps memory of its own."""
    program = f"held = bytearray(b'x') * ({mebibytes} << 20); import signal; signal.pause()"
    return (sys.executable, "-I", "-S", "-c", program)


def anonymous_bytes(tree: FullTree, path: str) -> int:
    return tree.read_flat(path, "memory.stat")["anon"]


def kills(tree: FullTree, path: str) -> int:
    return tree.read_flat(path, "memory.events")["oom_kill"]


def pod(annotation: str | None) -> Pod:
    annotations = {} if annotation is None else {POD_LIMITS: annotation}
    return make_pod(
        container("app", {"cpu": "50m"}),
        container("log"),
        metadata={"uid": UID, "annotations": annotations},
        status={"phase": "Running", "qosClass": "Burstable"},
    )


class Node133:
    """A node of a cluster without pod-level resources, with both writers, on a tree of its own."""

    def __init__(self, tree: FullTree, state: Path) -> None:
        self.tree, self._state = tree, state
        self.mount = tree.base.parent
        for path in (APP, LOG, "kubepods/besteffort"):
            tree.make(path)
        self.told: list[tuple[str, str]] = []
        self.now = 0.0
        self.restart()

    def restart(self) -> None:
        """Begin with new objects, as a restarted agent does; only the file is left."""
        limits = CgroupLimits(self.mount, self._state)
        options = PodLimitsOptions(write_cgroups=True, qos_reserved_memory_percent=100, qos_reserved_write=True)
        self.writer = PodLimitsWriter(
            limits=limits,
            options=options,
            pod_paths=lambda: {UID: f"/{self.tree.base.name}/{POD}"},
            margin_ratio=1.25,
            terms=KeeperTerms(may_write=lambda: None, tell=self.tell),
        )
        self.reserver = QosReserver(
            limits=limits,
            options=options,
            mount=self.mount,
            kubepods_root=lambda: f"/{self.tree.base.name}/kubepods",
            terms=KeeperTerms(may_write=lambda: None, tell=self.tell),
        )

    def tell(self, *, outcome: str, reason: str, **_: object) -> None:
        self.told.append((outcome, reason))

    def state(self, *pods: Pod, allocatable: Mapping[str, int] | None = None) -> NodeState:
        node = Node(name="n", kubelet_version="v1.33.4", allocatable=allocatable or {})
        return NodeState(node=node, pods=pods, server_version="v1.33.4")

    def turn(self, annotation: str | None) -> None:
        self.writer.tick(self.state(pod(annotation)), self.now)
        self.now += TURN_SECONDS

    def values(self) -> tuple[str, str]:
        return self.tree.read(POD, "cpu.max").strip(), self.tree.read(POD, "memory.max").strip()


@pytest.fixture
def node(tree: FullTree, tmp_path: Path) -> Node133:
    return Node133(tree, tmp_path / "limits")


def test_two_containers_share_the_cpu_of_their_pod(node: Node133) -> None:
    node.turn('{"limits": {"cpu": "200m"}}')
    assert node.values() == ("20000 100000", "max")
    for path in (APP, LOG):
        node.tree.spawn(path, LOADS["busy"])
    wait_for(lambda: node.tree.read_flat(POD, "cpu.stat")["nr_throttled"] >= 5, "the pod is throttled")

    def used_usec() -> int:
        return node.tree.read_flat(POD, "cpu.stat")["usage_usec"]

    began_ns, before = time.monotonic_ns(), used_usec()
    wait_for(lambda: time.monotonic_ns() - began_ns >= 2_000_000_000, "two seconds of load")

    def is_bounded() -> bool:
        elapsed_ns, used = time.monotonic_ns() - began_ns, used_usec() - before
        # Two loops could use two CPUs: 2000 m. One period more or less at each end of the measurement.
        return used * 1e6 / elapsed_ns <= 200 * (1 + 2 * 0.1 / (elapsed_ns / 1e9)) + 10

    # A loop is charged for the time in which the host ran something else on its CPU, and pays in the periods after.
    wait_for(is_bounded, "the pod uses 200m on average")
    print(f"pod limited to 200m: {(used_usec() - before) * 1e6 / (time.monotonic_ns() - began_ns):.0f}m")
    shares = [node.tree.read_flat(path, "cpu.stat")["usage_usec"] for path in (APP, LOG)]
    assert min(shares) > 0


def test_one_container_may_use_what_the_other_leaves_and_the_pod_is_bounded(node: Node133) -> None:
    node.turn('{"limits": {"memory": "100M"}}')
    # 100 MB are no whole number of pages: the kernel rounds down, and the agent takes that for what it wrote.
    assert node.values() == ("max 100000", str(100_000_000 - 100_000_000 % 4096))
    node.turn('{"limits": {"memory": "100M"}}')
    assert node.told == [("done", "annotation")]

    node.tree.spawn(APP, hold(56))
    wait_for(lambda: anonymous_bytes(node.tree, APP) >= 56 * MIB, "56 MiB, more than half of the budget")
    assert kills(node.tree, POD) == 0

    node.tree.spawn(LOG, hold(56))
    wait_for(lambda: kills(node.tree, POD) >= 1, "the pod as a whole is over its budget")


def test_a_limit_too_near_to_what_is_in_use_waits_and_nobody_is_killed(node: Node133) -> None:
    node.tree.spawn(APP, hold(64))
    wait_for(lambda: anonymous_bytes(node.tree, APP) >= 64 * MIB, "64 MiB taken")

    node.turn('{"limits": {"memory": "70Mi"}}')
    assert node.values()[1] == "max"
    assert node.told == [("withheld", "no_room")]

    node.tree.kill(APP)
    wait_for(lambda: int(node.tree.read(POD, "memory.current")) < 50 * MIB, "memory given back")
    node.turn('{"limits": {"memory": "70Mi"}}')
    assert node.values()[1] == str(70 * MIB)
    assert kills(node.tree, POD) == 0


def test_limits_come_back_after_a_foreign_write_and_go_with_the_annotation_across_a_restart(node: Node133) -> None:
    asked = '{"limits": {"cpu": "1", "memory": "128Mi"}}'
    node.turn(asked)
    node.tree.write(POD, "cpu.max", "max 100000")
    node.turn(asked)
    assert node.values() == ("100000 100000", str(128 * MIB))

    node.restart()
    node.turn(None)

    assert node.values() == ("max 100000", "max")


def test_a_tier_above_its_target_is_not_killed_but_held_near_its_usage(node: Node133) -> None:
    node.tree.spawn(APP, hold(160))
    wait_for(lambda: anonymous_bytes(node.tree, APP) >= 160 * MIB, "160 MiB taken")
    guaranteed = make_pod(
        container("db", {"memory": "448Mi"}), metadata={"uid": "g"}, status={"qosClass": QosClass.GUARANTEED}
    )
    # 576 MiB less 448 MiB: 128 MiB are left, and 160 are in use
    state = node.state(guaranteed, allocatable={MEMORY: 576 * MIB * NANOS_PER_UNIT})

    node.reserver.tick(state, 0.0)

    limit_bytes = int(node.tree.read(TIER, "memory.max"))
    assert 160 * MIB + ROOM_BYTES <= limit_bytes < GIB
    assert int(node.tree.read("kubepods/besteffort", "memory.max")) == 128 * MIB
    assert kills(node.tree, TIER) == 0
    node.tree.kill(APP)
    wait_for(lambda: int(node.tree.read(TIER, "memory.current")) < MIB, "memory given back")
    node.reserver.tick(state, 100.0)
    assert int(node.tree.read(TIER, "memory.max")) == 128 * MIB

    assert node.reserver.take_back("restore") == 2
    assert node.tree.read(TIER, "memory.max").strip() == "max"


def read_file(file: str, *, skip: int = 0, count: int, again: bool = False) -> tuple[str, ...]:
    """Return a load that reads part of a file, once or without end: pages of the cache; MiB."""
    read = f"dd if={file} of=/dev/null bs=1M skip={skip} count={count} 2>/dev/null"
    return ("sh", "-c", f"while :; do {read}; done" if again else f"{read}; exec sleep 600")


def cached_bytes(tree: FullTree, path: str) -> int:
    return tree.read_flat(path, "memory.stat")["file"]


@pytest.mark.parametrize("is_protected", [True, False])
def test_a_neighbour_that_reads_without_end_takes_nothing_of_what_a_limited_pod_requests(
    node: Node133, is_protected: bool
) -> None:
    tree = node.tree
    asking = make_pod(
        container("app", {"memory": "8Mi"}),
        metadata={"uid": UID, "annotations": {POD_LIMITS: '{"limits": {"cpu": "1"}}'}},
        status={
            "phase": "Running",
            "qosClass": "Burstable",
            "containerStatuses": [{"name": "app", "containerID": f"containerd://{'a' * 64}", "state": {"running": {}}}],
        },
    )
    tree.make(NEIGHBOUR)
    low = MemoryLowWriter(
        limits=CgroupLimits(node.mount, None),
        options=PodLimitsOptions(write_cgroups=True, memory_low=is_protected),
        writer=node.writer,
        container_paths=lambda: {"a" * 64: f"/{tree.base.name}/{APP}"},
        kubepods_root=lambda: f"/{tree.base.name}/kubepods",
        terms=KeeperTerms(may_write=lambda: None, tell=node.tell),
    )
    for keeper in (node.writer, low):
        keeper.tick(node.state(asking), 0.0)
    expected = str(8 * MIB) if is_protected else "0"
    assert {tree.read(path, "memory.low").strip() for path in (APP, POD, TIER, "kubepods")} == {expected}

    big_file = shutil.which("qemu-system-x86_64")
    assert big_file is not None
    # Pages are charged to whoever reads them first.
    Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")
    tree.spawn(APP, read_file(big_file, count=6))
    wait_for(lambda: cached_bytes(tree, APP) >= 6 * MIB, "6 MiB of the file are the pod's")
    tree.write("kubepods", "memory.max", str(12 * MIB))
    tree.spawn(NEIGHBOUR, read_file(big_file, skip=6, count=11, again=True))
    reclaimed = tree.read_flat(NEIGHBOUR, "memory.stat")["pgscan"]
    wait_for(
        lambda: tree.read_flat(NEIGHBOUR, "memory.stat")["pgscan"] >= reclaimed + 20_000,
        "the neighbour had pages reclaimed, many times what there is",
    )

    page_cache_bytes = cached_bytes(tree, APP)
    print(f"memory.low {expected}: {page_cache_bytes / MIB:.1f} of 6 MiB kept")
    assert page_cache_bytes >= 5.5 * MIB if is_protected else page_cache_bytes <= 3 * MIB
    assert kills(tree, "kubepods") == 0
    for keeper in (node.writer, low):
        keeper.tick(node.state(replace(asking, annotations={})), 100.0)
    assert {tree.read(path, "memory.low").strip() for path in (APP, POD, TIER, "kubepods")} == {"0"}
