"""Falls of CPU with credit: when the plan holds them, why, and for whom they give way all the same."""

from __future__ import annotations

from typing import Any

import pytest

from agent.core.numbers.units import MIB
from agent.core.orders.plan_options import ActOptions
from agent.core.plan.needs.demand import Constraint, KeptReason, PodDemand
from agent.core.plan.plan import Plan, Share
from agent.core.recommender.calm_falls import calm_falls_of
from tests.planning import container, needs, node, pod_demand, wanted

HELD = {"uid-web": Constraint(calm_until_seconds=7200.0)}


def web(base: int, name: str = "web", *, has_credit: bool = True, **fields: Any) -> PodDemand:
    """Return a pod that requests 1000m."""
    cpu = wanted(base, calm_falls=calm_falls_of(ActOptions()) if has_credit else None, **fields)
    return pod_demand(
        name, containers=[container(cpu=1000, memory=64 * MIB)], demands=[needs("app", cpu, wanted(64 * MIB))]
    )


def cpu_of(plan: Plan, name: str = "web") -> Share:
    [pod] = [pod for pod in plan.pods if pod.ref.name == name]
    share = pod.containers[0].cpu
    assert share is not None
    return share


def outcome(share: Share) -> tuple[int | None, KeptReason | None, float | None]:
    return share.applied, share.kept, share.waits_until_unix_seconds


@pytest.mark.parametrize(
    ("base", "has_credit", "is_held", "expected"),
    [
        (700, True, False, (700, None, None)),
        (701, True, False, (1000, KeptReason.SMALL_FALL, None)),
        (700, True, True, (1000, KeptReason.CALM, 7200.0)),
        (701, False, True, (701, None, None)),
        (1200, True, True, (1200, None, None)),  # a rise waits for nothing
        (1000, True, True, (1000, None, None)),
    ],
)
def test_a_fall_with_credit_waits_for_its_time_and_its_size(
    base: int, has_credit: bool, is_held: bool, expected: tuple[int, KeptReason | None, float | None]
) -> None:
    plan = node(web(base, has_credit=has_credit), constraints=HELD if is_held else {}).plan()
    share = cpu_of(plan)
    assert outcome(share) == expected
    assert share.has_credit is has_credit
    assert plan.is_sound


def test_other_reasons_come_first() -> None:
    held = {"uid-web": Constraint(shrink=KeptReason.COOL_DOWN, calm_until_seconds=7200.0)}
    assert outcome(cpu_of(node(web(100), constraints=held).plan())) == (1000, KeptReason.COOL_DOWN, None)
    assert outcome(cpu_of(node(web(100, is_upward_only=True), constraints=HELD).plan())) == (
        1000,
        KeptReason.UPWARD_ONLY,
        None,
    )


@pytest.mark.parametrize("base", [600, 800])
def test_a_fall_that_is_held_gives_way_where_others_need_its_room(base: int) -> None:
    # 1000 + 1000 are held of 2000; the other needs 1200: of what is held 200 are its.
    other = web(1200, "other", has_credit=False)
    plan = node(web(base), other, cpu=2000, constraints=HELD if base == 600 else {}).plan()
    assert outcome(cpu_of(plan)) == (base, None, None)
    assert cpu_of(plan, "other").applied == 1200
