"""Limits of whole pods on real cgroups. Where this hierarchy has no controllers: said, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.core.cluster.node import Node, NodeState
from agent.core.orders.annotations import POD_LIMITS
from agent.core.orders.plan_options import PodLimitsOptions
from agent.node.keepers.cgroup_limits import CgroupLimits
from agent.node.keepers.keeper import KeeperTerms
from agent.node.keepers.pod_limits import PodLimitsWriter
from tests.kernel.cgroups import CgroupTree
from tests.pods import container, make_pod, mirror_metadata

UID = "11111111-aaaa-4000-8000-000000000001"


def test_a_cgroup_without_controllers_is_told_once_and_left_alone(tree: CgroupTree, tmp_path: Path) -> None:
    directory = tree.make(f"kubepods-pod{UID}")
    if (directory / "memory.max").exists():
        pytest.skip("this kernel's cgroups have the memory controller; the guest tests write there")
    decisions: list[tuple[str, str]] = []
    writer = PodLimitsWriter(
        limits=CgroupLimits(tree.base.parent, tmp_path / "limits"),
        options=PodLimitsOptions(write_cgroups=True),
        pod_paths=lambda: {UID: f"/{tree.base.name}/kubepods-pod{UID}"},
        margin_ratio=1.25,
        terms=KeeperTerms(
            may_write=lambda: None,
            tell=lambda **decision: decisions.append((str(decision["outcome"]), decision["reason"])),
        ),
    )
    pod = make_pod(
        container(),
        metadata={"uid": UID, "annotations": {POD_LIMITS: '{"limits": {"memory": "64Mi"}}'}},
        status={"phase": "Running"},
    )
    state = NodeState(node=Node(name="n", kubelet_version="v1.33.0"), pods=(pod,), server_version="v1.33.0")

    for second in (0.0, 100.0):
        writer.tick(state, second)

    assert decisions == [("withheld", "no_file")]
    assert not (tmp_path / "limits").exists()


@pytest.mark.parametrize("owners", [{}, {"ownerReferences": []}])
def test_a_pod_that_calls_itself_static_reaches_no_cgroup_of_another(
    tree: CgroupTree, tmp_path: Path, owners: dict[str, object]
) -> None:
    victim_path = f"/{tree.base.name}/kubepods/burstable/pod{UID}"
    directory = tree.make(f"kubepods/burstable/pod{UID}")
    files = ("cpu.max", "memory.max")
    before = {file: (directory / file).read_text() for file in files if (directory / file).exists()}
    decisions: list[object] = []
    writer = PodLimitsWriter(
        limits=CgroupLimits(tree.base.parent, tmp_path / "limits"),
        options=PodLimitsOptions(write_cgroups=True),
        pod_paths=lambda: {UID: victim_path},
        margin_ratio=1.25,
        terms=KeeperTerms(may_write=lambda: None, tell=lambda **decision: decisions.append(decision)),
    )
    victim = make_pod(
        container("app", {"cpu": "100m"}),
        metadata={"namespace": "kube-system", "uid": UID},
        status={"phase": "Running", "qosClass": "Burstable"},
    )
    evil = make_pod(
        container("app", {"cpu": "1m"}),
        metadata={
            "namespace": "tenant",
            "uid": "22222222-bbbb-4000-8000-000000000002",
            **mirror_metadata("n", UID, **{POD_LIMITS: '{"limits": {"cpu": "1m", "memory": "126Mi"}}'}),
            **owners,
        },
        nodeName="n",
        status={"phase": "Running", "qosClass": "Burstable"},
    )
    node = Node(name="n", kubelet_version="v1.33.0")

    for second, pods in ((0.0, (victim, evil)), (100.0, (evil, victim)), (200.0, (evil,))):
        writer.tick(NodeState(node=node, pods=pods, server_version="v1.33.0"), second)

    assert decisions == []  # not even that there are no such files: they are not looked for
    assert {file: (directory / file).read_text() for file in before} == before
    assert not (tmp_path / "limits").exists()
