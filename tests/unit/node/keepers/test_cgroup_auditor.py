"""The audit that the agent makes by itself: in parts, looked at twice, told once."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.core.cluster.node import Node, NodeState
from agent.core.cluster.pod import Pod, QosClass
from agent.core.machine.cgroup_files import Amount
from agent.metrics.agent_series import Metrics
from agent.node.keepers.cgroup_auditor import AUDIT_SECONDS, FIRST_SECONDS, SETTLE_SECONDS, CgroupAuditor
from tests.kubelet_files import KubeletFiles
from tests.pods import container, make_pod

APP = "a" * 64
UID = "12345678-9abc-4def-8123-456789abcdef"


def pod() -> Pod:
    """A Burstable pod of one running container: 100m is 102 shares, by the linear formula weight 4."""
    status = {"name": "app", "containerID": f"containerd://{APP}", "state": {"running": {}}}
    return make_pod(
        container("app", requests={"cpu": "100m", "memory": "64Mi"}),
        metadata={"uid": UID},
        status={"phase": "Running", "qosClass": "Burstable", "containerStatuses": [status]},
    )


class Rig:
    """An auditor on plain files with a clock by hand."""

    def __init__(self, mount: Path) -> None:
        self.files = KubeletFiles(mount)
        self.files.kubepods({"cpu.weight": "100"})
        self.files.tiers({"cpu.weight": "4"})
        self.directory = self.files.pod(QosClass.BURSTABLE, UID, {"cpu.weight": "4"})
        self.files.container(QosClass.BURSTABLE, UID, APP, {"cpu.weight": "17", "memory.oom.group": "1"})
        self.state = NodeState(node=Node(name="n1"), pods=(pod(),))
        self.now = 1000.0
        self.ours: list[tuple[str, str, Amount]] = []
        self.metrics = Metrics(version="0", commit="0", sampler="native")
        self.auditor = CgroupAuditor(
            mount=mount,
            cgroup_root="/",
            state=lambda: self.state,
            written_by_us=lambda *written: written in self.ours,
            metrics=self.metrics,
            clock_seconds=lambda: self.now,
        )

    def wait(self, seconds: float) -> None:
        """Let time pass, and do all that is due by then."""
        self.now += seconds
        for _ in range(50):
            if self.auditor.turn() > 1.0:
                return
        raise AssertionError("an audit does not come to an end")

    def page(self) -> dict[str, float]:
        lines = self.metrics.page().body.decode().splitlines()
        samples = [line.rpartition(" ") for line in lines if not line.startswith("#")]
        return {name: float(value) for name, _, value in samples}

    def drift(self) -> dict[str, float]:
        by_kind = {name.split('"')[1]: value for name, value in self.page().items() if "cgroup_drift" in name}
        return {kind: value for kind, value in by_kind.items() if value}

    def audits(self) -> float:
        return self.page()["plimsoll_cgroup_audits_total"]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "mount")


def test_what_is_as_it_should_be_is_told_as_no_drift(rig: Rig) -> None:
    rig.wait(FIRST_SECONDS - 5)
    assert rig.audits() == 0
    rig.wait(5)
    assert (rig.audits(), rig.drift()) == (1, {})
    assert 'plimsoll_cgroup_drift{kind="cpu.weight"}' in rig.page()
    rig.wait(AUDIT_SECONDS - 5)
    assert rig.audits() == 1
    rig.wait(5)
    assert rig.audits() == 2


def test_drift_is_told_once_it_was_seen_twice_and_gone_when_it_is_mended(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    (rig.directory / "cpu.weight").write_text("99\n")
    with caplog.at_level(logging.WARNING):
        rig.wait(FIRST_SECONDS)
        assert rig.audits() == 0, "not told before it is looked at again"
        rig.wait(SETTLE_SECONDS)
        assert (rig.audits(), rig.drift()) == (1, {"cpu.weight": 1})
        rig.wait(AUDIT_SECONDS)
        rig.wait(SETTLE_SECONDS)
    assert (rig.audits(), rig.drift()) == (2, {"cpu.weight": 1})
    (record,) = caplog.records
    fields: dict[str, Any] = record.__dict__
    assert (fields["pod"], fields["file"], fields["expected"], fields["found"]) == ("shop/web", "cpu.weight", "4", "99")
    assert fields["next_writer"] == "kubelet, at the pod's next resize"

    (rig.directory / "cpu.weight").write_text("4\n")
    rig.wait(AUDIT_SECONDS)
    assert rig.drift() == {}


def test_what_is_only_being_written_is_no_drift(rig: Rig) -> None:
    (rig.directory / "cpu.weight").write_text("99\n")
    rig.wait(FIRST_SECONDS)
    (rig.directory / "cpu.weight").write_text("4\n")
    (rig.directory / "memory.max").write_text("4096\n")  # another one begins
    rig.wait(SETTLE_SECONDS)
    assert (rig.audits(), rig.drift()) == (1, {})


def test_values_that_changed_are_counted_by_who_wrote_them(rig: Rig) -> None:
    rig.wait(FIRST_SECONDS)
    path = f"/kubepods/burstable/pod{UID}"
    (rig.directory / "memory.max").write_text("8192\n")
    (rig.directory / "pids.max").write_text("77\n")
    rig.ours = [(path, "memory.max", 8192)]
    rig.wait(AUDIT_SECONDS)
    page = rig.page()
    assert page['plimsoll_cgroups_changed_total{writer="plimsoll"}'] == 1
    assert page['plimsoll_cgroups_changed_total{writer="others"}'] == 1


@pytest.mark.parametrize("doubt", [{"is_complete": False}, {"node": None}, {"unreadable_pods": ("a/b: odd",)}])
def test_in_doubt_about_the_pods_nothing_is_told(rig: Rig, doubt: dict[str, Any]) -> None:
    rig.state = replace(rig.state, **doubt)
    rig.wait(FIRST_SECONDS)
    rig.wait(SETTLE_SECONDS)
    assert rig.audits() == 0
    assert not any("cgroup_drift" in name for name in rig.page())


def test_a_tree_that_is_not_one_nodes_is_said_once_and_not_audited(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    KubeletFiles(rig.files.mount, cgroup_root="/other").pod(QosClass.BURSTABLE, "p2", {})
    with caplog.at_level(logging.WARNING):
        rig.wait(FIRST_SECONDS)
        rig.wait(AUDIT_SECONDS)
    assert [record.getMessage() for record in caplog.records] == ["the kubelet's cgroups cannot be audited"]
    assert rig.audits() == 0


def test_without_kubepods_there_is_nothing_to_audit(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "mount")
    empty = tmp_path / "empty"
    empty.mkdir()
    auditor = CgroupAuditor(
        mount=empty,
        cgroup_root="/",
        state=lambda: rig.state,
        written_by_us=lambda *_: False,
        metrics=rig.metrics,
        clock_seconds=lambda: rig.now,
    )
    rig.now += FIRST_SECONDS
    auditor.turn()
    assert auditor.turn() > 1.0
    assert rig.audits() == 0
