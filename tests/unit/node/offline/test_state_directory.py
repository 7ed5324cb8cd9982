"""Answers from the state files of an agent that is not asked."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from agent.core.cluster.workload import Workload
from agent.core.orders.policy_options import PolicyName
from agent.core.recommender.unit_names import NoSuchUnit
from agent.node.history.file import HistoryFile
from agent.node.offline.state_directory import RestingNode, StateError
from agent.sensing.ring_file import RingFile
from agent.sensing.state_file import RingGeometry, read_boot_id
from agent.settings import RecommendSettings, Settings, StateSettings
from tests.pods import container, pod_json
from tests.unit.node.history.test_learner import MIB, learner, row
from tests.window_rows import NS, memory, minute, steady

pytestmark = pytest.mark.usefixtures("long_since_boot")

UID, CONTAINER = "0f0e0d0c-0b0a-4908-8706-050403020100", "c" * 64
PATH = f"kubepods/burstable/pod{UID}/{CONTAINER}"


def settings(directory: Path | None, policy: PolicyName = PolicyName.CRUISE, pods: Path | None = None) -> Settings:
    return Settings(
        state=StateSettings(directory=directory),
        recommend=RecommendSettings(policy=policy, min_span_seconds=60),
        pods_file=pods,
    )


def pods_file(directory: Path) -> Path:
    path = directory / "pods.json"
    pod = pod_json(
        container("app", {"cpu": "250m", "memory": "64Mi"}),
        metadata={
            "uid": UID,
            "ownerReferences": [{"kind": "StatefulSet", "name": "db", "uid": "u", "controller": True}],
        },
        status={"containerStatuses": [{"name": "app", "containerID": f"containerd://{CONTAINER}"}]},
    )
    path.write_text(json.dumps({"kind": "PodList", "items": [pod]}))
    return path


def write_state(directory: Path, *, boot_id: str, newest_seconds: float, pods: Path | None = None) -> None:
    """Leave what an agent leaves: ten minutes of readings of one container at 100 m and 32 MiB, and their history."""
    first = round(newest_seconds) - 600
    with RingFile.open(directory / "rings", RingGeometry(max_slots=2), boot_id=boot_id) as rings:
        slot = rings.attach(PATH, 7, now_monotonic_ns=first * NS)
        for each in steady(range(first, first + 601), 100.0):
            rings.append_raw(slot, each)
        for at in range(first, first + 601, 10):
            rings.append_memory(slot, memory(at, 32 * MIB, set_peak=32 * MIB)[0])
        rings.append_minute(slot, minute(first // 60 + 9, 100.0, peak=300.0))
    with HistoryFile.open(directory / "history", max_rows=64) as history:
        from agent.node.sampling.pods_file import NoPods, PodsFile
        from agent.sensing.cgroup_path import identify

        source = PodsFile(pods) if pods is not None else NoPods()
        identity = identify("/" + PATH)
        assert identity is not None
        taught = learner(history)
        taught._pods = source
        named, _ = source.name(identity)
        taught.learn([(named, row(first // 60 + number, cpu=100.0, peak=300.0, memory_mib=48)) for number in range(10)])


def test_a_directory_that_may_not_be_looked_into_is_a_refusal_and_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Path.stat

    def refused(path: Path, **options: Any) -> os.stat_result:
        if path.parent == tmp_path:  # of another user, 0700, as an agent's is
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return seen(path, **options)

    monkeypatch.setattr(Path, "stat", refused)
    with pytest.raises(StateError, match="rings: Permission denied; allowed: the state directory of an agent"):
        RestingNode(settings(tmp_path))


def test_recommendations_come_from_rings_and_history(tmp_path: Path) -> None:
    pods = pods_file(tmp_path)
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=time.monotonic(), pods=pods)
    with RestingNode(settings(tmp_path, pods=pods)) as node:
        answer = node.recommendations()
        (item,) = answer.items
        assert (answer.source, answer.notes) == ("state", ())
        assert item.workload == Workload(namespace="shop", kind="StatefulSet", name="db")
        # The minutes of the last hour have their peak at 300 m and 48 MiB.
        assert (item.cpu_millicores.proposed, item.memory_bytes.proposed) == (300.0, 48.0 * MIB)
        (explanation,) = node.explanations("web/app", 3600.0).items
        assert explanation.recommendation == item
        assert explanation.trail is not None
        assert node.explanations("db", 0.0).items[0].recommendation == item  # by its workload
        with pytest.raises(NoSuchUnit, match="nothing is called nobody"):
            node.explanations("nobody", 0.0)


@pytest.mark.parametrize("policy", list(PolicyName))
def test_another_policy_is_tried_on_the_same_state(tmp_path: Path, policy: PolicyName) -> None:
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=time.monotonic())
    with RestingNode(settings(tmp_path, policy)) as node:
        (item,) = node.recommendations().items
        assert item.policy == policy
        assert item.cpu_millicores.request is not None
        assert item.cpu_millicores.request >= 100


def test_a_state_of_long_ago_says_so_and_answers_as_of_then(tmp_path: Path) -> None:
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=time.monotonic() - 3600)
    with RestingNode(settings(tmp_path)) as node:
        answer = node.recommendations()
        assert answer.notes == ("no agent is writing here: this is the state of 60 min ago",)
        assert answer.items[0].cpu_millicores.request == 300


def test_a_state_of_an_earlier_boot_is_read_by_its_history(tmp_path: Path) -> None:
    write_state(tmp_path, boot_id="another boot", newest_seconds=100_000)
    with RestingNode(settings(tmp_path)) as node:
        assert node.recommendations().items[0].cpu_millicores.request == 300


def test_without_a_state_directory_there_is_nothing_to_read() -> None:
    with pytest.raises(StateError, match=r"kept in memory only \(state.directory none\)"):
        RestingNode(settings(None))


def test_without_files_the_fault_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"rings: No such file .*; allowed: the state directory of an agent"):
        RestingNode(settings(tmp_path))


def test_a_state_without_a_reading_says_so(tmp_path: Path) -> None:
    RingFile.open(tmp_path / "rings", RingGeometry(max_slots=2), boot_id=read_boot_id()).close()
    HistoryFile.open(tmp_path / "history", max_rows=64).close()
    with pytest.raises(StateError, match="no reading in it"):
        RestingNode(settings(tmp_path))


def test_a_state_of_an_earlier_boot_without_history_says_so(tmp_path: Path) -> None:
    write_state(tmp_path, boot_id="another boot", newest_seconds=100_000)
    (tmp_path / "history").unlink()
    HistoryFile.open(tmp_path / "history", max_rows=64).close()
    with pytest.raises(StateError, match="of an earlier boot, and without a history"):
        RestingNode(settings(tmp_path))


def test_a_history_under_other_names_is_told(tmp_path: Path) -> None:
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=time.monotonic(), pods=pods_file(tmp_path))
    with RestingNode(settings(tmp_path)) as node:  # without the pods that the agent knew
        (note,) = node.recommendations().notes
    assert note.startswith("the history stands under other names")


def test_a_damaged_history_is_told(tmp_path: Path) -> None:
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=time.monotonic())
    content = bytearray((tmp_path / "history").read_bytes())
    for place in range(5000, len(content), 97):
        content[place] ^= 0xFF
    (tmp_path / "history").write_bytes(content)
    with RestingNode(settings(tmp_path)) as node:
        notes = node.recommendations().notes
    assert any(note.startswith("the history was damaged: ") for note in notes)
