"""A recording of a node, judged as that node."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.cli.simulate.trace_recording import load_recording
from agent.core.orders.policy_options import BoundsOptions, PolicyName
from agent.core.recommender.registry import make
from agent.core.recommender.simulation.replay import ReplayRules, simulate
from agent.sensing.state_file import read_boot_id
from agent.settings import Settings
from tests.unit.node.offline.test_replay import an_even_moment, record
from tests.unit.node.offline.test_state_directory import pods_file, settings, write_state

pytestmark = pytest.mark.usefixtures("long_since_boot")


def test_the_node_s_figures_are_those_of_the_recording_s_own_pods(tmp_path: Path) -> None:
    chosen = settings(tmp_path, PolicyName.PLIMSOLL, pods_file(tmp_path))
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=an_even_moment(), pods=chosen.pods_file)
    trace = load_recording(record(tmp_path, chosen), on_progress=lambda _: None)
    policy = make(PolicyName.PLIMSOLL, Settings(), len(trace.containers))
    outcome = simulate(trace, policy, BoundsOptions(), ReplayRules(min_span_seconds=0))
    assert all("web" in name for name in outcome.containers)
    for node in (outcome.node_cpu, outcome.node_planned_cpu):
        assert node.used_amount_hours[0] > 0
        assert node.used_amount_hours[0] == pytest.approx(outcome.cpu.used_amount_hours.sum())
    assert outcome.node_planned_cpu.requested_amount_hours[0] > 0
