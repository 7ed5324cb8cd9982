"""Evictions after an out-of-memory kill: who cannot be given more where it is, and everybody else who stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.core.cluster.versions import Gates
from agent.core.eviction.proposal import Want
from agent.core.eviction.proposals import proposals_of
from agent.core.numbers.units import MIB
from agent.core.orders.order import Ranking
from agent.core.orders.plan_options import PlanOptions
from agent.core.orders.policy_options import BoundsOptions, ControlledResources
from agent.core.plan.needs.demand import Constraint, KeptReason
from agent.core.plan.plan import Plan
from tests.planning import EXACT, Situation, container, needs, node, pod_demand, requirements, wanted

CPU = wanted(100)


def killed(name: str = "web", *, limit: int | None = 80, base: int = 128, **fields: Any) -> Any:
    """Return a pod of 64 MiB that was killed and needs ``base`` MiB, and a limit of twice that."""
    stated: dict[str, Any] = {
        "cpu": 100,
        "memory": 64 * MIB,
        **({} if limit is None else {"memory_limit": limit * MIB}),
    }
    demand = wanted(base * MIB, (base + 64) * MIB, limit=2 * base * MIB, **fields.pop("demand", {}))
    return pod_demand(
        name, containers=[container(**stated, **fields.pop("flags", {}))], demands=[needs("app", CPU, demand)], **fields
    )


def stuck(
    names: str = "app", *, kept: KeptReason | None = KeptReason.INFEASIBLE, below: int | None = None
) -> Constraint:
    return Constraint(grow=kept, urgent_grow=kept, memory_below_bytes=below, killed=frozenset({names}))


def plan_of(*demands: Any, constraint: Constraint | None = None, **fields: Any) -> Plan:
    constraints = {"uid-web": constraint or stuck()}
    return node(*(demands or [killed()]), constraints=constraints, **fields).plan()


def test_who_was_killed_and_cannot_be_given_more_is_proposed_for_that() -> None:
    plan = plan_of()
    (eviction,) = plan.evictions
    assert eviction.is_out_of_memory
    assert eviction.reason == "app was killed for want of memory, needs 192MiB and cannot be given it here (infeasible)"
    assert plan.is_sound
    assert not plan.pods[0].is_evicted, "nobody is sure to let it go: the plan goes on with it"
    (proposal,) = proposals_of(plan)
    assert (proposal.want, proposal.ranking, proposal.needed.memory_bytes) == (Want.OUT_OF_MEMORY, "low", 192 * MIB)


@pytest.mark.parametrize("kept", [KeptReason.DEFERRED, KeptReason.LIMIT_RANGE, KeptReason.INFEASIBLE])
def test_what_does_not_pass_by_itself_counts(kept: KeptReason) -> None:
    assert len(plan_of(constraint=stuck(kept=kept)).evictions) == 1


@pytest.mark.parametrize("kept", [KeptReason.IN_FLIGHT, KeptReason.COOL_DOWN, None])
def test_what_passes_by_itself_is_waited_for(kept: KeptReason | None) -> None:
    assert plan_of(constraint=stuck(kept=kept)).evictions == ()


def test_a_container_that_may_not_be_restarted_is_not_sized_so_nobody_goes_for_it() -> None:
    pod = killed(flags={"restarts_for_memory": True}, order={"is_restart_allowed": False})
    assert plan_of(pod, constraint=stuck(kept=None)).evictions == ()


def test_servers_that_are_too_old_to_raise_anything_count() -> None:
    shut = Gates(resize=False, memory_limit_down=False, pod_level_resize=False, init_containers=False)
    (eviction,) = plan_of(constraint=stuck(kept=None), gates=shut).evictions
    assert eviction.reason.endswith("(too_old)")


def test_a_limit_that_stays_too_low_counts_where_the_base_is_given() -> None:
    # It has its base of 64 MiB; its peak of 128 and a limit of 128 it cannot have.
    assert plan_of(killed(base=64, limit=100)).evictions[0].is_out_of_memory
    assert plan_of(killed(base=64, limit=100), constraint=stuck(kept=KeptReason.COOL_DOWN)).evictions == ()


def test_who_would_come_back_with_as_small_a_request_stays() -> None:
    stated = container(cpu=100, memory=64 * MIB, memory_limit=100 * MIB)
    demand = wanted(64 * MIB, limit=256 * MIB)
    assert plan_of(pod_demand("web", containers=[stated], demands=[needs("app", CPU, demand)])).evictions == ()


def test_without_a_limit_what_the_request_lacks_counts() -> None:
    assert len(plan_of(killed(limit=None)).evictions) == 1
    assert plan_of(killed(limit=None), constraint=stuck(kept=KeptReason.COOL_DOWN)).evictions == ()


@pytest.mark.parametrize(
    "changed",
    [
        {"ranking": Ranking.NO_EVICTION},
        {"kind": "DaemonSet"},
        {"demand": {"is_upward_only": True}},
    ],
    ids=["no-eviction", "DaemonSet", "no prediction"],
)
def test_who_never_goes_does_not_go_for_this_either(changed: dict[str, Any]) -> None:
    assert plan_of(killed(**changed)).evictions == ()


def test_somebody_else_who_was_not_killed_stays() -> None:
    assert plan_of(constraint=stuck("other")).evictions == ()
    assert plan_of(constraint=Constraint(urgent_grow=KeptReason.INFEASIBLE, grow=KeptReason.INFEASIBLE)).evictions == ()


def test_a_kill_in_a_pod_with_a_budget_of_its_own_is_of_the_budget() -> None:
    pod = killed(pod={"resources": requirements(200, 64 * MIB, None, 64 * MIB)})
    plan = plan_of(pod)
    assert [eviction.is_out_of_memory for eviction in plan.evictions] == [True]


def test_nobody_goes_for_memory_that_is_not_applied() -> None:
    assert plan_of(options=PlanOptions(memory_applied=False)).evictions == ()
    assert plan_of(bounds=BoundsOptions(controlled_resources=ControlledResources.CPU)).evictions == ()


def test_who_goes_anyway_is_proposed_once() -> None:
    (eviction,) = plan_of(killed(), memory=100 * MIB).evictions
    assert not eviction.is_out_of_memory


def _given_a_part(*, side: int, free: int, smallest: int = 0) -> Situation:
    """Return a node on which web was killed: app has 64 MiB and needs 200, what is free is too little for that.

    Its side needs 40 and keeps ``side``; another pod needs 40 and keeps what is left of 200.
    """
    web = pod_demand(
        containers=[container(cpu=100, memory=64 * MIB), container("side", cpu=100, memory=side * MIB)],
        demands=[needs("app", CPU, wanted(200 * MIB, is_urgent=True)), needs("side", CPU, wanted(40 * MIB))],
        is_shrink_barred=True,
    )
    other = pod_demand(
        "other",
        containers=[container(cpu=100, memory=(200 - side) * MIB)],
        demands=[needs("app", CPU, wanted(40 * MIB))],
        is_shrink_barred=True,
    )
    return node(
        other,
        web,
        memory=(64 + 200 + free) * MIB,
        constraints={"uid-web": Constraint(killed=frozenset({"app"}))},
        bounds=replace(EXACT, smallest_memory_change_bytes=smallest * MIB),
    )


@pytest.mark.parametrize(("side", "goes"), [(125, True), (126, False)])
def test_who_is_given_as_much_as_its_successor_would_have_is_not_proposed(side: int, goes: bool) -> None:
    """Its successor would have 240 MiB. It is given 64 + 50 beside its side's."""
    situation = _given_a_part(side=side, free=50)
    plan = situation.plan()
    after = situation.after(plan.steps).plan()
    for each in (plan, after):
        assert [eviction.is_out_of_memory for eviction in each.evictions] == [True] * goes
        assert each.is_sound
        share = each.pods[1].containers[0].memory
        assert share is not None
        assert (share.base, share.applied, share.kept) == (200 * MIB, 114 * MIB, KeptReason.NODE_FULL)
    assert after.steps == ()


@pytest.mark.parametrize(("smallest", "goes"), [(36, True), (37, False)])
def test_who_lacks_so_little_beside_a_part_that_nobody_would_ask_for_it_is_not_proposed(
    smallest: int, goes: bool
) -> None:
    """It is given 100 MiB of the 136 it lacks."""
    situation = _given_a_part(side=50, free=100, smallest=smallest)
    plan = situation.plan()
    after = situation.after(plan.steps).plan()
    for each in (plan, after):
        assert [eviction.is_out_of_memory for eviction in each.evictions] == [True] * goes
    assert after.steps == ()
