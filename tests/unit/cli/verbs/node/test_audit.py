"""The verb as a person calls it, on a tree of plain files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.cli.main import main
from agent.cli.verbs.node.audit import NodeError, pods_of_node
from agent.core.cluster.pod import QosClass
from agent.sensing.cgroup_path import Driver
from tests.kubelet_files import KubeletFiles
from tests.pods import container, make_pod, pod_json

UID = "11111111-aaaa-4000-8000-000000000001"
ID = "1a" * 32
PAUSE = "1f" * 32


@pytest.fixture(autouse=True)
def this_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NAME", "here")
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(params=list(Driver))
def files(request: pytest.FixtureRequest, tmp_path: Path) -> KubeletFiles:
    """The tree of a node with the one pod of ``pods_file``; of 100m and 200m, 200Mi."""
    tree = KubeletFiles(tmp_path / "cgroup", request.param)
    # 4 CPUs are 4096 shares: 157
    tree.kubepods({"cpu.weight": "157", "memory.max": str(8 << 30)})
    tree.tiers({"cpu.weight": "4"})
    values = {"cpu.weight": "4", "cpu.max": "20000 100000", "memory.max": "209715200"}
    tree.pod(QosClass.BURSTABLE, UID, values)
    tree.container(QosClass.BURSTABLE, UID, ID, {**values, "cpu.weight": "17"})
    tree.container(QosClass.BURSTABLE, UID, PAUSE, {"cpu.weight": "1"})
    return tree


def write_pods(path: Path, *, node: str = "here", **limits: str) -> Path:
    status = {
        "phase": "Running",
        "qosClass": "Burstable",
        "containerStatuses": [{"name": "app", "containerID": f"containerd://{ID}", "state": {"running": {}}}],
    }
    pod = pod_json(
        container("app", {"cpu": "100m", "memory": "100Mi"}, {"cpu": "200m", "memory": "200Mi", **limits}),
        metadata={"uid": UID},
        status=status,
        nodeName=node,
    )
    path.write_text(json.dumps({"kind": "PodList", "items": [pod]}))
    return path


@pytest.fixture
def pods_file(tmp_path: Path) -> Path:
    return write_pods(tmp_path / "pods.json")


CAPACITY = ("--capacity-cpu", "4", "--capacity-memory", "8Gi")


def run(files: KubeletFiles, pods_file: Path, *options: str) -> int:
    return main(["audit", "--pods", str(pods_file), "--cgroup-mount", str(files.mount), *options])


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_all_equal_is_exit_0_and_says_so(
    files: KubeletFiles, pods_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(files, pods_file, *CAPACITY) == 0

    lines = capsys.readouterr().out.splitlines()
    # 5 of kubepods, 5 of each tier, 9 of the pod, 7 of its container
    assert "31 equal, 0 drifted, 0 not there, 0 unknown" in lines
    assert "cpu.weight of containers by formula: 1 quadratic" in lines
    assert f"  shop/web  {PAUSE[:12]}" in lines
    assert not any("\x1b" in line for line in lines)


def test_all_gives_a_line_to_each_value_within_100_columns(
    files: KubeletFiles, pods_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(files, pods_file, *CAPACITY, "--all") == 0

    lines = capsys.readouterr().out.splitlines()
    equal = [line for line in lines if " equal " in line and "drifted" not in line]
    assert len(equal) == 31
    assert max(map(len, equal)) <= 100
    assert "    cpu.max            equal     200m (20000/100000)    200m (20000/100000)" in lines


def test_drift_is_exit_1_and_tells_value_difference_and_next_writer(
    files: KubeletFiles, pods_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files.container(QosClass.BURSTABLE, UID, ID, {"cpu.weight": "17", "cpu.max": "50000 100000", "memory.max": "max"})

    assert run(files, pods_file, *CAPACITY) == 1

    out = capsys.readouterr().out
    assert "  ! cpu.max            drifted   200m (20000/100000)    500m (50000/100000)    +300m\n" in out
    assert "  ! memory.max         drifted   200MiB                 max\n" in out
    assert "next written by: runtime, at the container's next resize or restart" in out
    assert "29 equal, 2 drifted, 0 not there, 0 unknown" in out


def test_json_has_units_in_names(files: KubeletFiles, pods_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files.container(
        QosClass.BURSTABLE, UID, ID, {"cpu.weight": "5", "cpu.max": "max 100000", "memory.max": "209711104"}
    )

    assert run(files, pods_file, *CAPACITY, "-o", "json") == 1

    said = answer(capsys)
    assert said["summary"] == {"equal": 28, "drifted": 3, "not_there": 0, "unknown": 0}
    assert (said["node"], said["driver"]) == ("here", files.driver)
    off = {finding["value"]: finding for finding in said["findings"] if finding["state"] == "drifted"}
    assert off["memory.max"]["difference_bytes"] == -4096
    assert off["cpu.max"]["expected_millicores"] == 200
    assert (off["cpu.max"]["found"], off["cpu.max"]["found_quota_usec"]) == ("max 100000", None)
    # 102 shares: 4 by the linear formula, 17 by the quadratic
    weight = off["cpu.weight"]
    assert (weight["expected_weight_linear"], weight["expected_weight_quadratic"]) == (4, 17)
    assert (weight["found_weight"], weight["difference_weight"], weight["formula"]) == (5, 1, None)
    assert weight["cgroup_path"].startswith("/kubepods")
    assert weight["container"] == "app"


def test_pod_and_container_that_are_not_there(
    files: KubeletFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = json.loads(write_pods(tmp_path / "pods.json").read_text())
    lost = json.loads(json.dumps(pods["items"][0]).replace(UID, "another-uid").replace('"web"', '"lost"'))
    done = pod_json(container("app"), metadata={"uid": "done", "name": "done"}, status={"phase": "Succeeded"})
    pods["items"] += [lost, {**done, "spec": {**done["spec"], "nodeName": "here"}}]
    pods["items"][0]["status"]["containerStatuses"][0]["containerID"] = "containerd://" + "9" * 64
    both = tmp_path / "both.json"
    both.write_text(json.dumps(pods))

    assert run(files, both) == 1

    out = capsys.readouterr().out
    assert "shop/lost (Burstable)  no cgroup" in out
    assert out.count("! cgroup             not there a cgroup               none") == 2
    assert "    no cgroup, as should be: its phase is Succeeded" in out


def test_pods_of_other_nodes_are_left_out_and_strangers_listed(
    files: KubeletFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stranger = files.pod(QosClass.BEST_EFFORT, "stranger", {"cpu.weight": "1"})
    there = write_pods(tmp_path / "pods.json", node="there")

    assert run(files, there, *CAPACITY, "--node", "there", "-o", "json") == 0

    said = answer(capsys)
    assert [pod["cgroup_path"] for pod in said["not_in_pods_file"]] == [str(stranger).removeprefix(str(files.mount))]


def test_driver_decides_whether_quotas_are_rounded(files: KubeletFiles, tmp_path: Path) -> None:
    # 333m is 33300, which systemd keeps as 34000
    values = {"cpu.weight": "4", "cpu.max": "34000 100000", "memory.max": "209715200"}
    files.pod(QosClass.BURSTABLE, UID, values)
    files.container(QosClass.BURSTABLE, UID, ID, values)
    pods_file = write_pods(tmp_path / "pods.json", cpu="333m")

    assert run(files, pods_file, *CAPACITY) == (0 if files.driver is Driver.SYSTEMD else 1)
    assert run(files, pods_file, *CAPACITY, "--driver", files.driver) == (0 if files.driver is Driver.SYSTEMD else 1)


@pytest.mark.slow
def test_pods_come_from_standard_input_too(files: KubeletFiles, pods_file: Path) -> None:
    words = ("--pods", "-", "--cgroup-mount", str(files.mount), *CAPACITY, "-o", "json")
    child = subprocess.run(
        [sys.executable, "-m", "agent", "audit", *words],
        input=pods_file.read_bytes(),
        capture_output=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    report = json.loads(child.stdout)
    assert (report["pods_file"], report["summary"]["equal"]) == ("stdin", 31)


def test_machine_without_kubepods_says_so(tmp_path: Path, pods_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(KubeletFiles(tmp_path / "bare"), pods_file) == 1

    assert "no kubepods in this tree" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--pods is missing; allowed: --pods FILE"),
        (("--pods", "nowhere.json"), "nowhere.json: cannot be read"),
        (("--pods", "PODS", "--node", "mars"), "--node mars: no pod of the file has this spec.nodeName; allowed: here"),
        (("--pods", "PODS", "--cgroup-mount", "/nowhere"), "cgroup mount /nowhere"),
        (("--pods", "PODS", "--cgroup-root", "/nowhere"), "--cgroup-root /nowhere: no directory"),
        (("--pods", "PODS", "--qos-reserved", "memory=5%"), "--node-allocatable-memory"),
        (("--pods", "PODS", "--qos-reserved", "memory=5"), "not allowed (N%, N a whole number from 0 to 100)"),
        (("--pods", "PODS", "--driver", "podman"), "'podman' is not allowed"),
        (("--pods", "PODS", "--colour"), "unrecognized arguments: --colour"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    options: tuple[str, ...], said: str, tmp_path: Path, pods_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mount = KubeletFiles(tmp_path / "bare").mount
    words = [str(pods_file) if word == "PODS" else word for word in options]

    with pytest.raises(SystemExit) as caught:
        main(["audit", "--cgroup-mount", str(mount), *words])

    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_nodes_pods_are_chosen_by_name_else_all_are_taken() -> None:
    one = make_pod(container(), metadata={"uid": "1"}, nodeName="one")
    two = make_pod(container(), metadata={"uid": "2"}, nodeName="two")
    unscheduled = make_pod(container(), metadata={"uid": "3"})

    assert pods_of_node([one, two, unscheduled], None, "two") == ("two", (two,), ())
    assert pods_of_node([one, two], "one", "two") == ("one", (one,), ())
    assert pods_of_node([one, unscheduled], None, "mars") == (None, (one, unscheduled), ())
    node, pods, notes = pods_of_node([one, two], None, "mars")
    assert (node, pods) == (None, (one, two))
    assert notes == ("pods of 2 nodes (one, two), none is mars: --node chooses",)
    with pytest.raises(NodeError, match="none is named"):
        pods_of_node([unscheduled], "mars", "here")
