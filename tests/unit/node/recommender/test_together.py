"""What containers demanded together, from the learner's own policy."""

from __future__ import annotations

import pytest

from agent.core.orders.policy_options import PolicyName
from agent.core.recommender.policy import SeenTogether
from agent.node.history.file import HistoryFile
from agent.node.history.learner import Learner
from agent.node.recommender.together import together_of
from tests.recommendations import recommendation
from tests.unit.node.history.test_learner import FIRST_MINUTE, Clocks, learner, row, unit

HOURS = 3


def taught(policy: PolicyName) -> Learner:
    clocks = Clocks()
    clocks.monotonic_seconds = (FIRST_MINUTE + 60 * HOURS) * 60.0
    node_learner = learner(HistoryFile.open(None, max_rows=64), clocks, policy=policy)
    for number in range(60 * HOURS):
        rows = [
            (unit(name), row(FIRST_MINUTE + number, cpu=cpu, peak=cpu)) for name, cpu in (("a", 100.0), ("b", 40.0))
        ]
        node_learner.learn(rows)
    return node_learner


def key(name: str) -> tuple[str, str]:
    identity = unit(name)
    assert identity.pod_uid is not None
    assert identity.container is not None
    return identity.pod_uid, identity.container


def asked(node_learner: Learner, bases: dict[tuple[str, str], int]) -> SeenTogether | None:
    return together_of(node_learner, [recommendation(identity=unit(name)) for name in ("a", "b")])(bases)


def test_the_demand_of_containers_together_is_that_of_their_rows() -> None:
    node_learner = taught(PolicyName.PLIMSOLL)
    node_learner.is_restored = True
    seen = asked(node_learner, {key("a"): 80, key("b"): 30})
    assert seen is not None
    assert seen.demand_millicores == pytest.approx(140.0, rel=0.01)
    first = asked(node_learner, {key("a"): 80})
    assert first is not None
    assert first.demand_millicores == pytest.approx(100.0, rel=0.01)


def test_a_container_that_nobody_knows_counts_with_its_base() -> None:
    node_learner = taught(PolicyName.PLIMSOLL)
    node_learner.is_restored = True
    seen = asked(node_learner, {key("a"): 80, ("uid-z", "app"): 500})
    assert seen is not None
    assert seen.demand_millicores == pytest.approx(600.0, rel=0.01)


def test_nothing_is_known_while_the_history_is_learnt_or_under_another_policy() -> None:
    learning, other = taught(PolicyName.PLIMSOLL), taught(PolicyName.CRUISE)
    other.is_restored = True
    assert asked(learning, {key("a"): 80}) is None
    assert asked(other, {key("a"): 80}) is None
