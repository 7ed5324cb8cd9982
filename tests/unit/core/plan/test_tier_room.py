"""The memory limits of QoS tiers in a plan: requests do not rise past them, nor lower those that are in use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agent.core.cluster.pod import QosClass
from agent.core.numbers.units import GIB, MIB
from agent.core.plan.needs.demand import Constraint, KeptReason, PodDemand
from agent.core.plan.plan import Plan, Share
from agent.core.plan.planner import build
from agent.core.plan.tier_room import TierMemory, TierRoom
from tests.planning import EXACT, OPEN, container, needs, node, pod_demand, wanted

BURSTABLE, BEST_EFFORT, GUARANTEED = QosClass.BURSTABLE, QosClass.BEST_EFFORT, QosClass.GUARANTEED


def tier(limit_mib: int, used_mib: int | None = 0) -> TierMemory:
    return TierMemory(limit_bytes=limit_mib * MIB, working_set_bytes=None if used_mib is None else used_mib * MIB)


@pytest.mark.parametrize(
    ("qos", "growth_mib", "is_granted"),
    [
        (GUARANTEED, 100, True),  # 300 - 100 = 200 of burstable, 150 - 100 = 50 of besteffort, just in use
        (GUARANTEED, 101, False),
        (BURSTABLE, 100, True),  # 200 requested and 100 more is the tier's limit, and lowers besteffort to 50
        (BURSTABLE, 101, False),
        (BEST_EFFORT, 150, True),  # requests nothing today; nobody below it
        (BEST_EFFORT, 151, False),
        (GUARANTEED, 0, True),
        (GUARANTEED, -1, True),
    ],
)
def test_growth_is_granted_up_to_the_limit_and_down_to_what_is_in_use(
    qos: QosClass, growth_mib: int, is_granted: bool
) -> None:
    room = TierRoom({BURSTABLE: tier(300, 150), BEST_EFFORT: tier(150, 50)}, {BURSTABLE: 200 * MIB})
    assert room.grant(qos, growth_mib * MIB) is is_granted
    assert (room.note() is None) is is_granted


def test_what_is_granted_is_taken_off_for_the_next_and_what_is_refused_is_not() -> None:
    room = TierRoom({BURSTABLE: tier(300, 100)}, {BURSTABLE: 0})
    assert room.grant(GUARANTEED, 150 * MIB)
    assert not room.grant(GUARANTEED, 60 * MIB)  # 300 - 150 - 60 = 90 < 100 in use
    assert room.grant(GUARANTEED, 50 * MIB)
    assert not room.grant(BURSTABLE, 101 * MIB)  # the limit has come down to 100
    assert room.note() == (
        "memory requests do not rise past the limits of the QoS tiers (Burstable 300MiB with 100MiB in use): 2 wait"
    )


def test_where_the_use_of_a_tier_is_not_known_nothing_lowers_its_limit() -> None:
    room = TierRoom({BEST_EFFORT: tier(300, None)}, {})
    assert not room.grant(BURSTABLE, 1)
    assert room.note() == "memory requests do not rise past the limits of the QoS tiers (BestEffort 300MiB): 1 wait"


def test_without_limits_nothing_is_asked() -> None:
    assert TierRoom({}, {}).grant(GUARANTEED, GIB)


def planned(
    *pods: PodDemand,
    tiers: Mapping[QosClass, TierMemory],
    memory_mib: int = 4096,
    constraints: Mapping[str, Constraint] | None = None,
) -> Plan:
    situation = node(*pods, memory=memory_mib * MIB)
    return build(
        situation.state,
        situation.demands,
        constraints=constraints or {},
        gates=OPEN,
        options=situation.options,
        bounds=EXACT,
        taken_unix_seconds=0.0,
        tiers=tiers,
    )


def growing(name: str, to_mib: int, **fields: Any) -> PodDemand:
    return pod_demand(name, demands=[needs("app", wanted(100), wanted(to_mib * MIB))], **fields)


def memory_of(plan: Plan, name: str) -> Share:
    (share,) = (pod.containers[0].memory for pod in plan.pods if pod.ref.name == name)
    assert share is not None
    return share


def test_of_two_burstable_pods_the_second_waits_for_its_tier() -> None:
    # Each requests 64 MiB and needs 128: the tier's 200 MiB hold 64 + 128, and not twice 128.
    pods = growing("a", 128), growing("b", 128)

    free = planned(*pods, tiers={})
    held = planned(*pods, tiers={BURSTABLE: tier(200)})

    assert [memory_of(free, name).applied for name in "ab"] == [128 * MIB, 128 * MIB]
    assert [memory_of(held, name).applied for name in "ab"] == [128 * MIB, 64 * MIB]
    assert [memory_of(held, name).kept for name in "ab"] == [None, KeptReason.TIER_FULL]
    assert [note for note in held.notes if "QoS tiers" in note] == [
        "memory requests do not rise past the limits of the QoS tiers (Burstable 200MiB with 0B in use): 1 wait"
    ]
    assert not any("QoS tiers" in note for note in free.notes)
    assert held.is_sound


def test_growth_that_the_node_has_no_room_for_takes_none_of_a_tiers() -> None:
    # Of 600 MiB 64 + 64 + 400 are requested, and the 400 do not fall yet: a's 236 more do not fit, b's 64 do. With a's
    # growth the limit of Burstable, 600 - 64, would be 300, and 464 are requested there.
    guaranteed = container(cpu=100, memory=64 * MIB, cpu_limit=100, memory_limit=64 * MIB)
    pods = (
        growing("a", 300, containers=[guaranteed], order={"is_guaranteed_allowed": True}),
        growing("b", 128),
        growing("c", 32, containers=[container(cpu=100, memory=400 * MIB)]),
    )
    plan = planned(
        *pods,
        tiers={BURSTABLE: tier(536, 200)},
        memory_mib=600,
        constraints={"uid-c": Constraint(shrink=KeptReason.COOL_DOWN)},
    )
    assert [memory_of(plan, name).applied for name in "abc"] == [64 * MIB, 128 * MIB, 400 * MIB]
    assert [memory_of(plan, name).kept for name in "abc"] == [KeptReason.NODE_FULL, None, KeptReason.COOL_DOWN]
    assert not any("QoS tiers" in note for note in plan.notes)


def test_a_burstable_pod_does_not_grow_onto_what_besteffort_uses() -> None:
    plan = planned(growing("a", 128), tiers={BEST_EFFORT: tier(300, 250)})
    assert (memory_of(plan, "a").applied, memory_of(plan, "a").kept) == (64 * MIB, KeptReason.TIER_FULL)


def test_requests_that_fall_are_not_asked_about() -> None:
    plan = planned(growing("a", 32, containers=[container(cpu=100, memory=64 * MIB)]), tiers={BURSTABLE: tier(10)})
    assert memory_of(plan, "a").applied == 32 * MIB


def test_a_pod_that_has_ended_holds_nothing_of_its_tier() -> None:
    # 64 MiB requested and 64 more fit into 150 MiB; with the 64 of a pod that has ended they would not.
    plan = planned(growing("a", 128), growing("b", 64, pod={"phase": "Succeeded"}), tiers={BURSTABLE: tier(150)})
    assert memory_of(plan, "a").applied == 128 * MIB
