from __future__ import annotations

from agent.core.admission.estimate import is_stood_in_for, standing_in
from agent.core.orders.policy_options import PolicyName
from tests.admissions import estimate


def test_cruise_and_nobody_else_stands_in_and_for_plimsoll_alone() -> None:
    stood_in = {(policy, by) for policy in PolicyName for by in PolicyName if is_stood_in_for(policy, by)}
    assert stood_in == {(PolicyName.PLIMSOLL, PolicyName.CRUISE)}


def test_an_estimate_stands_in_for_no_policy_but_another() -> None:
    assert standing_in(estimate(), PolicyName.CRUISE).stands_in_for is None
    assert standing_in(estimate(), PolicyName.PLIMSOLL).stands_in_for is PolicyName.PLIMSOLL
