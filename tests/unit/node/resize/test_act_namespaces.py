"""A namespace that is not known stops what is planned, and what was planned before it got lost."""

from __future__ import annotations

from agent.core.plan.needs.demand import ReservedReason
from tests.turns import Turns, two_pods, uid_of

LOST = {"shop": "not understood"}


def test_nothing_is_sent_for_pods_of_a_namespace_that_is_not_known() -> None:
    turns = two_pods()
    turns.state_fields["unknown_namespaces"] = LOST
    turns.turn()
    assert turns.server.writes == []
    demands = turns.plans[-1][1].demands
    assert {demands[uid_of(name)].reserved for name in ("a", "b")} == {ReservedReason.NAMESPACE_UNKNOWN}
    turns.state_fields["unknown_namespaces"] = {}
    turns.turn(after=60.0)
    assert turns.server.writes[:2] == ["resize a", "resize b"]


def test_a_namespace_that_gets_lost_between_plan_and_write_is_heeded() -> None:
    turns = two_pods()

    def lose(turns: Turns = turns) -> None:
        turns.state_fields["unknown_namespaces"] = LOST

    turns.server.answers = [lose]
    turns.turn()
    assert [write for write in turns.server.writes if write != "event"] == ["resize a"]
