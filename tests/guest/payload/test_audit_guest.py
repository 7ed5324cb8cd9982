"""``plimsoll audit`` on a real kernel: hierarchies of both drivers with the values a kubelet and a runtime write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from agent.cli.main import main
from agent.core.cluster.pod import QosClass
from agent.sensing.cgroup_path import Driver, Runtime, container_cgroup_path, pod_cgroup_path
from tests.guest.kubelet_tree import MOUNT, make, remove
from tests.kubepods import kubepods_root_path
from tests.pods import container, pod_json

pytestmark = pytest.mark.guest

MIB = 1024 * 1024
GUARANTEED, BURSTABLE, BEST_EFFORT = (f"{number}aaaaaaa-aaaa-4000-8000-00000000000{number}" for number in (1, 2, 3))
DB, WEB, LOG, JOB, PAUSE = (f"{digit}c" * 32 for digit in "12345")

Values = dict[str, str]


@pytest.fixture(params=list(Driver))
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    """A driver; what was made below its root is removed afterwards."""
    chosen = Driver(request.param)
    yield chosen
    remove(kubepods_root_path(driver=chosen))


def status(qos: QosClass, **ids: str) -> dict[str, Any]:
    statuses = [
        {"name": name, "containerID": f"containerd://{container_id}", "state": {"running": {}}}
        for name, container_id in ids.items()
    ]
    return {"phase": "Running", "qosClass": qos, "containerStatuses": statuses}


def pods() -> list[dict[str, Any]]:
    """Return a pod of each class.

    burstable/web: 250m + 100m requested, 333m + 500m and 100M + 64Mi as limits.
    """
    both = {"cpu": "1", "memory": "128Mi"}
    return [
        pod_json(
            container("db", both, both),
            metadata={"name": "db", "uid": GUARANTEED},
            status=status(QosClass.GUARANTEED, db=DB),
        ),
        pod_json(
            container("web", {"cpu": "250m", "memory": "64Mi"}, {"cpu": "333m", "memory": "100M"}),
            container("log", {"cpu": "100m"}, {"cpu": "500m", "memory": "64Mi"}),
            metadata={"name": "web", "uid": BURSTABLE},
            status=status(QosClass.BURSTABLE, web=WEB, log=LOG),
        ),
        pod_json(
            container("job"),
            metadata={"name": "job", "uid": BEST_EFFORT},
            status=status(QosClass.BEST_EFFORT, job=JOB),
        ),
    ]


def make_cgroup(path: str, values: Values) -> None:
    make(path)
    for file, text in values.items():
        (MOUNT / path.strip("/") / file).write_text(text, encoding="ascii")


def container_path(driver: Driver, qos: QosClass, uid: str, container_id: str) -> str:
    return container_cgroup_path(
        driver=driver, runtime=Runtime.CONTAINERD, qos=qos, pod_uid=uid, container_id=container_id
    )


def make_node(driver: Driver) -> None:
    """Make what kubelet and runtime make of ``pods()`` on a node of 4 CPUs and 8Gi, nothing reserved.

    The db container has runc's older weight formula, the others the newer one.
    """
    root = kubepods_root_path(driver=driver)
    tiers = {
        qos: pod_cgroup_path(driver=driver, qos=qos, pod_uid="x").rpartition("/")[0]
        for qos in (QosClass.BURSTABLE, QosClass.BEST_EFFORT)
    }
    # systemd keeps whole percents of a CPU: 33300 becomes 34000 and 83300 becomes 84000 per 100 ms.
    rounded = driver is Driver.SYSTEMD
    # 4000m are 4096 shares: 1 + 4094 * 9999 // 262142 = 157. 8Gi.
    make_cgroup(root, {"cpu.weight": "157", "memory.max": str(8192 * MIB)})
    # 350m are 358 shares: 1 + 356 * 9999 // 262142 = 14
    make_cgroup(tiers[QosClass.BURSTABLE], {"cpu.weight": "14"})
    make_cgroup(tiers[QosClass.BEST_EFFORT], {"cpu.weight": "1"})
    pod_values = {
        # 1024 shares: linear 39, quadratic 100
        (QosClass.GUARANTEED, GUARANTEED): {
            "cpu.weight": "39",
            "cpu.max": "100000 100000",
            "memory.max": str(128 * MIB),
        },
        # 100M is no whole number of pages: the kernel rounds it down
        (QosClass.BURSTABLE, BURSTABLE): {
            "cpu.weight": "14",
            "cpu.max": f"{84000 if rounded else 83300} 100000",
            "memory.max": str(100_000_000 + 64 * MIB),
        },
        (QosClass.BEST_EFFORT, BEST_EFFORT): {"cpu.weight": "1"},
    }
    for (qos, uid), values in pod_values.items():
        make_cgroup(pod_cgroup_path(driver=driver, qos=qos, pod_uid=uid), values)
    container_values = {
        (QosClass.GUARANTEED, GUARANTEED, DB): {
            "cpu.weight": "39",
            "cpu.max": "100000 100000",
            "memory.max": str(128 * MIB),
        },
        # 256 shares: quadratic 35
        (QosClass.BURSTABLE, BURSTABLE, WEB): {
            "cpu.weight": "35",
            "cpu.max": f"{34000 if rounded else 33300} 100000",
            "memory.max": "100000000",
        },
        # 102 shares: quadratic 17
        (QosClass.BURSTABLE, BURSTABLE, LOG): {
            "cpu.weight": "17",
            "cpu.max": "50000 100000",
            "memory.max": str(64 * MIB),
        },
        (QosClass.BEST_EFFORT, BEST_EFFORT, JOB): {"cpu.weight": "1"},
        (QosClass.BURSTABLE, BURSTABLE, PAUSE): {"cpu.weight": "1"},
    }
    for (qos, uid, container_id), values in container_values.items():
        make_cgroup(container_path(driver, qos, uid, container_id), {"memory.oom.group": "1", **values})


def write(path: str, file: str, text: str) -> None:
    (MOUNT / path.strip("/") / file).write_text(text, encoding="ascii")


def audit(tmp_path: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Run the verb; give its exit code and what it says.

    In this process: another one would spend most of its time, minutes on a busy machine, compiling under emulation what
    is here already.
    """
    pods_file = tmp_path / "pods.json"
    pods_file.write_text(json.dumps({"kind": "List", "items": pods()}))
    with redirect_stdout(StringIO()) as out:
        code = main(["audit", "--pods", str(pods_file), "-o", "json", *options])
    assert code in {0, 1}
    return code, json.loads(out.getvalue())


NODE = ("--capacity-cpu", "4", "--capacity-memory", "8Gi")


def off(answer: dict[str, Any]) -> dict[tuple[str | None, str | None, str], tuple[str, str | None, str | None]]:
    """Return what is not equal: (pod or tier, container, value) -> (state, expected, found)."""
    return {
        (finding["pod"] or finding["qos_class"], finding["container"], finding["value"]): (
            finding["state"],
            finding["expected"],
            finding["found"],
        )
        for finding in answer["findings"]
        if finding["state"] != "equal"
    }


def test_values_of_kubelet_and_runtime_are_all_equal(driver: Driver, tmp_path: Path) -> None:
    make_node(driver)

    code, answer = audit(tmp_path, *NODE)

    assert off(answer) == {}
    assert code == 0
    assert answer["driver"] == driver
    # 5 of kubepods, 2 tiers of 5; 3 pods of 9 (class and parent among them), 4 containers of 7; sizes of huge pages, if
    # the kernel has the controller on, come besides.
    values = [finding for finding in answer["findings"] if not finding["value"].startswith("hugetlb")]
    assert len(values) == 5 + 2 * 5 + 3 * 9 + 4 * 7
    assert answer["container_weight_formulas"] == {"linear": 1, "quadratic": 2, "either": 1}
    assert [sandbox["container_id"] for sandbox in answer["sandboxes"]] == [PAUSE]


def test_foreign_writes_are_found_each_with_its_difference(driver: Driver, tmp_path: Path) -> None:
    make_node(driver)
    web = container_path(driver, QosClass.BURSTABLE, BURSTABLE, WEB)
    log = container_path(driver, QosClass.BURSTABLE, BURSTABLE, LOG)
    db_pod = pod_cgroup_path(driver=driver, qos=QosClass.GUARANTEED, pod_uid=GUARANTEED)
    write(web, "cpu.max", "66600 100000")
    write(web, "memory.max", "max")
    write(log, "cpu.weight", "18")
    write(log, "memory.oom.group", "0")
    write(db_pod, "memory.max", str(256 * MIB))
    write(db_pod, "memory.min", str(32 * MIB))
    write(pod_cgroup_path(driver=driver, qos=QosClass.BURSTABLE, pod_uid="x").rpartition("/")[0], "cpu.weight", "79")

    code, answer = audit(tmp_path, *NODE)

    assert off(answer) == {
        ("web", "web", "cpu.max"): ("drifted", "33300 100000", "66600 100000"),
        ("web", "web", "memory.max"): ("drifted", "100000000", "max"),
        ("web", "log", "cpu.weight"): ("drifted", "4", "18"),
        ("web", "log", "memory.oom.group"): ("drifted", "1", "0"),
        ("db", None, "memory.max"): ("drifted", str(128 * MIB), str(256 * MIB)),
        ("db", None, "memory.min"): ("drifted", "0", str(32 * MIB)),
        ("Burstable", None, "cpu.weight"): ("drifted", "14", "79"),
    }
    assert code == 1
    quota = next(f for f in answer["findings"] if f["value"] == "cpu.max" and f["container"] == "web")
    assert quota["difference_millicores"] == 333.0


def test_a_container_that_is_gone_and_a_pod_that_nobody_knows_are_told(driver: Driver, tmp_path: Path) -> None:
    make_node(driver)
    remove(container_path(driver, QosClass.BURSTABLE, BURSTABLE, LOG))
    stranger = pod_cgroup_path(driver=driver, qos=QosClass.BEST_EFFORT, pod_uid="9aaaaaaa-aaaa-4000-8000-000000000009")
    make(stranger)

    code, answer = audit(tmp_path, *NODE)

    assert off(answer) == {("web", "log", "cgroup"): ("not_there", "a cgroup", None)}
    assert code == 1
    assert [pod["cgroup_path"] for pod in answer["not_in_pods_file"]] == [stranger]


def test_reserved_memory_on_the_tiers_is_computed_and_compared(driver: Driver, tmp_path: Path) -> None:
    make_node(driver)
    # Guaranteed pods request 128Mi, Burstable ones 64Mi (a limit that comes without a request is none): at 50 % of 4Gi
    # burstable has 4096 - 64 = 4032Mi and besteffort 4032 - 32 = 4000Mi.
    for qos, mebibytes in ((QosClass.BURSTABLE, 4032), (QosClass.BEST_EFFORT, 4001)):
        tier = pod_cgroup_path(driver=driver, qos=qos, pod_uid="x").rpartition("/")[0]
        write(tier, "memory.max", str(mebibytes * MIB))
    reserve = ("--qos-reserved", "memory=50%", "--node-allocatable-memory", "4Gi")

    code, answer = audit(tmp_path, *NODE, *reserve)
    _, untold = audit(tmp_path, *NODE)

    assert off(answer) == {
        ("BestEffort", None, "memory.max"): ("drifted", str(4000 * MIB), str(4001 * MIB)),
    }
    assert code == 1
    assert {key: state for key, (state, *_) in off(untold).items()} == {
        ("Burstable", None, "memory.max"): "unknown",
        ("BestEffort", None, "memory.max"): "unknown",
    }
