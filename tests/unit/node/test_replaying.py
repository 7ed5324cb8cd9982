"""A recording of a node's rings and history: what it holds, and that it answers as the node did."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent.core.model import UnitIdentity
from agent.core.policies.options import PolicyName
from agent.core.recommendation import Recommendations
from agent.node.measured import StateDirectory
from agent.node.pods import NoPods, PodsFile
from agent.node.recorder import Recorder
from agent.node.recording import Recording
from agent.node.recording_format import RecordingError, RowKind
from agent.node.recording_writer import RecordingWriter
from agent.node.replaying import ReplayedNode
from agent.node.resting import RestingNode
from agent.sensing.rings import RingFile, RingGeometry, read_boot_id
from agent.settings import Settings
from tests.unit.node.test_resting import PATH, pods_file, settings, write_state
from tests.window_rows import NS, memory, minute, steady

MIB = 1 << 20


def record(directory: Path, path: Path, chosen: Settings, pods: Path | None = None) -> int:
    measured = StateDirectory(directory)
    with RecordingWriter(path) as writer:
        recorder = Recorder(
            writer=writer,
            measured=measured,
            settings=chosen,
            pods=PodsFile(pods) if pods else NoPods(),
            holds=lambda identity: True,
            node="worker-7",
            cpus=4,
        )
        size = recorder.finish()
    measured.close()
    return size


def comparable(answer: Recommendations) -> Recommendations:
    return replace(answer, source="", node="", notes=())


@pytest.mark.parametrize("policy", list(PolicyName))
def test_a_replay_of_a_state_gives_what_the_state_gives(tmp_path: Path, policy: PolicyName) -> None:
    pods = pods_file(tmp_path)
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=time.monotonic(), pods=pods)
    chosen = settings(tmp_path, policy, pods)
    path = tmp_path / "r.plimsoll"
    record(tmp_path, path, chosen, pods)
    with RestingNode(chosen) as resting, Recording(path) as recording:
        replayed = ReplayedNode(recording, chosen)
        expected, found = resting.recommendations(), replayed.recommendations()
        assert comparable(found) == comparable(expected)
        assert found.items
        assert (found.source, found.node) == ("r.plimsoll", "worker-7")
        replayed.close()
