"""What ``why`` is told of acting."""

from __future__ import annotations

import pytest

from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.node.resize.answers import ActingAnswers
from tests.turns import two_pods


@pytest.mark.parametrize("mode", ["recommend", "enforce"])
def test_windows_are_told_of_a_pod_that_is_left_alone_too(mode: str) -> None:
    turns = two_pods()
    turns.server.order("a", mode=mode, windows="evict: UTC 0 0 1 1 * for 1h")
    turns.turn(after=61.0)
    answers = ActingAnswers(
        turns.actor._parts,
        server="https://kubernetes",
        actor=turns.actor,
        writer=turns.writer,
        directions=turns.directions,
        reporting=lambda: None,
        notes=lambda: (),
        runs=lambda workload, container: (),
    )
    acted = answers.acted(
        UnitIdentity(cgroup_path="/a", kind=UnitKind.CONTAINER, pod_uid=turns.ref("a").uid, container="app")
    )
    assert acted is not None
    assert (acted.reserved is None) is (mode == "enforce")
    assert acted.windows is not None
    assert acted.windows.startswith("shrink may be now; evict waits until ")
