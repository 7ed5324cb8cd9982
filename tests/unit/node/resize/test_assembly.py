"""How long the end of an agent may take."""

from __future__ import annotations

import re
from pathlib import Path

from agent.node import assembly
from agent.node.cluster import view
from agent.node.keepers.overload_taint import EXIT_SECONDS
from agent.node.reports import decision_teller, proposer, reporter, run_teller
from agent.node.resize.assembly import STOP_SECONDS
from agent.node.sockets import loop

DAEMON_SET = Path(__file__).parents[4] / "charts/plimsoll/templates/agent/daemonset.yaml"


def test_the_taint_has_two_fifths_of_the_time_that_a_pod_has_to_end_and_all_that_ends_fits_in_it() -> None:
    """On an overloaded node the last write is slow, and where the agent is taken away no next one makes up for it."""
    [grace_seconds] = map(float, re.findall(r"terminationGracePeriodSeconds: (\d+)", DAEMON_SET.read_text()))
    ending = (
        loop.CLOSE_SECONDS,
        *(part.STOP_SECONDS for part in (reporter, run_teller, decision_teller, view, proposer, assembly)),
        STOP_SECONDS,
    )
    assert sum(ending) <= 0.8 * grace_seconds
    assert 0.4 * grace_seconds <= EXIT_SECONDS < STOP_SECONDS
