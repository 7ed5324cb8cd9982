"""``plimsoll audit`` with a percentage of memory kept for higher QoS classes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.cli.main import main
from agent.core.cluster.pod import QosClass
from agent.core.numbers.units import GIB
from tests.kubelet_files import KubeletFiles
from tests.pods import container, pod_json

PERCENT = ("--set", "podLimits.qosReservedMemoryPercent=50")


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The verb on a node of 16Gi with a Guaranteed pod of 4Gi and a Burstable one of 2Gi."""
    monkeypatch.setenv("NODE_NAME", "here")
    files = KubeletFiles(tmp_path / "cgroup")
    files.kubepods({"memory.max": str(16 * GIB)})
    files.tiers({"memory.max": str(14 * GIB)})
    pods: list[dict[str, Any]] = []
    for qos, memory in ((QosClass.GUARANTEED, "4Gi"), (QosClass.BURSTABLE, "2Gi")):
        pods.append(
            pod_json(
                container("app", {"memory": memory}),
                metadata={"name": qos.lower(), "uid": qos},
                status={"phase": "Pending", "qosClass": qos},
                nodeName="here",
            )
        )
    file = tmp_path / "pods.json"
    file.write_text(json.dumps({"kind": "List", "items": pods}))
    return ["audit", "--pods", str(file), "--cgroup-mount", str(files.mount)]


def test_what_the_classes_might_use_stands_beside_what_limits_them(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main([*command, *PERCENT])

    # 16Gi less half of 4Gi, and less half of 2Gi
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "50% of memory requests kept for higher QoS classes, of 16.0GiB allocatable",
        "  tier burstable: at most 14.0GiB; memory.max is 14.0GiB",
        "  tier besteffort: at most 13.0GiB; memory.max is max",
    ]


def test_programs_get_bytes(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main([*command, *PERCENT, "-o", "json", "--node-allocatable-memory", "15Gi"])

    assert json.loads(capsys.readouterr().out)["qos_reserved"] == {
        "percent": 50,
        "allocatable_memory_bytes": 15 * GIB,
        "tiers": [
            {
                "qos_class": "Burstable",
                "at_most_bytes": 13 * GIB,
                "memory_max_bytes": 14 * GIB,
                "is_limited": True,
            },
            {"qos_class": "BestEffort", "at_most_bytes": 12 * GIB, "memory_max_bytes": None, "is_limited": False},
        ],
    }


def test_without_the_nodes_memory_it_says_what_is_missing(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cgroup" / "kubepods" / "memory.max").write_text("max\n")

    main([*command, *PERCENT])

    assert "not computed: the node's allocatable memory is not known" in capsys.readouterr().out


def test_without_a_percentage_nothing_is_said(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(command)
    assert "kept for higher" not in capsys.readouterr().out

    main([*command, "-o", "json"])
    assert "qos_reserved" not in json.loads(capsys.readouterr().out)
