"""Who has credit for seconds: each "no", the node's room, and what is asked for at either price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.node import Node, Taint
from agent.core.cluster.pod import QosClass
from agent.core.orders.order import Mode
from agent.core.orders.plan_options import ActOptions
from agent.core.plan.credit import CreditGrounds, answers_soon, at_prices, credits_of, is_tainted, saved_millicores
from agent.core.plan.needs.demand import Constraint, KeptReason, PodDemand, ReservedReason
from agent.core.plan.needs.demands import Key
from agent.core.plan.pod_facts import PodFactsCache
from agent.core.recommender.credit import CPU_FULL_PRICE, CPU_IN_PLACE, CREDIT_WORDS, Credit
from agent.core.recommender.recommendation import OWN_BASE, OWN_LIMIT, OWN_PEAK, Advice, Recommendation
from agent.core.window.overload import OVERLOAD_TAINT_KEY
from tests.planning import OPEN, container, pod_demand, requirements
from tests.recommendations import recommendation
from tests.subjects import identity

GIB = 1 << 30


def web(name: str = "web", cpu: int | None = 500, **fields: Any) -> PodDemand:
    restarts = fields.pop("restarts_for_cpu", False)
    return pod_demand(name, containers=[container(cpu=cpu, memory=GIB, restarts_for_cpu=restarts)], **fields)


def asked(name: str = "web", full: float = 600.0, in_place: float = 400.0, **fields: Any) -> Recommendation:
    """Return what is recommended at the full price unless told."""
    has_credit = fields.pop("has_credit", False)
    price = in_place if has_credit else full
    return recommendation(
        cpu=int(price),
        cpu_fields={
            "base": 100.0,
            "extra": {CPU_FULL_PRICE: full, CPU_IN_PLACE: in_place, **fields.pop("extra", {})},
            "has_credit": has_credit,
            **fields,
        },
        identity=identity(pod=name),
    )


def decided(
    demands: Sequence[PodDemand],
    items: Sequence[Recommendation],
    *,
    constraints: Mapping[str, Constraint] | None = None,
    **grounds: Any,
) -> dict[Key, Credit]:
    known: dict[str, Any] = {
        "gates": OPEN,
        "allocatable_cpu_millicores": 4000,
        "is_paused": False,
        "is_quick": True,
        "is_overloaded": False,
        "has_pressure": {(demand.pod.cgroup_uid, "app") for demand in demands},
    }
    facts = PodFactsCache().facts_of([demand.pod for demand in demands])
    return credits_of(demands, items, facts, constraints or {}, CreditGrounds(**{**known, **grounds}))


def of_web(demand: PodDemand | None = None, **fields: Any) -> Credit:
    return decided([web() if demand is None else demand], [asked()], **fields)["uid-web", "app"]


def test_an_enforced_pod_whose_pressure_is_read_has_credit_where_there_is_room() -> None:
    assert of_web() is Credit.GRANTED


@pytest.mark.parametrize(
    ("demand", "reason"),
    [
        (web(order={"mode": Mode.RECOMMEND}), Credit.NOT_ENFORCED),
        (web(order={"mode": Mode.OFF}), Credit.NOT_ENFORCED),
        (web(reserved=ReservedReason.RECOMMEND), Credit.NOT_ENFORCED),
        (web(reserved=ReservedReason.EXCLUDED), Credit.NOT_ENFORCED),
        (web(is_cpu_frozen=True), Credit.HPA),
        (web(reserved=ReservedReason.HPA), Credit.HPA),
        (web(reserved=ReservedReason.GUARANTEED), Credit.RESERVED),
        (web(reserved=ReservedReason.EXCLUSIVE_CPUS), Credit.RESERVED),
        (web(reserved=ReservedReason.PINNED), Credit.RESERVED),
        (web(pod={"recorded_qos": QosClass.GUARANTEED}), Credit.RESERVED),
        (web(pod={"resources": requirements(cpu=900)}), Credit.POD_BUDGET),
        (web(restarts_for_cpu=True), Credit.RESTARTS),
        (web(is_memory_frozen=True), Credit.GRANTED),
    ],
)
def test_what_a_pod_is_or_is_ordered_to_be_decides(demand: PodDemand, reason: Credit) -> None:
    assert of_web(demand) is reason


@pytest.mark.parametrize(
    ("constraint", "reason"),
    [
        (Constraint(cpu_below_millicores=900), Credit.REFUSED),
        (Constraint(urgent_grow=KeptReason.INFEASIBLE), Credit.REFUSED),
        (Constraint(urgent_grow=KeptReason.DEFERRED), Credit.REFUSED),
        (Constraint(urgent_grow=KeptReason.LIMIT_RANGE), Credit.REFUSED),
        (
            Constraint(shrink=KeptReason.IN_FLIGHT, grow=KeptReason.IN_FLIGHT, urgent_grow=KeptReason.IN_FLIGHT),
            Credit.GRANTED,
        ),
        (Constraint(shrink=KeptReason.COOL_DOWN, grow=KeptReason.COOL_DOWN), Credit.GRANTED),
    ],
)
def test_a_growth_that_was_refused_decides_and_a_cool_down_does_not(constraint: Constraint, reason: Credit) -> None:
    assert of_web(constraints={"uid-web": constraint}) is reason


@pytest.mark.parametrize(
    ("grounds", "reason"),
    [
        ({"is_paused": True}, Credit.PAUSED),
        ({"is_quick": False}, Credit.SLOW),
        ({"gates": replace(OPEN, resize=False)}, Credit.TOO_OLD),
        ({"is_overloaded": True}, Credit.NODE_PRESSED),
        ({"has_pressure": frozenset()}, Credit.NO_PRESSURE),
        ({"allocatable_cpu_millicores": None}, Credit.NO_ROOM),
        ({"allocatable_cpu_millicores": 599}, Credit.NO_ROOM),  # 500 are held, 100 lack
        ({"allocatable_cpu_millicores": 600}, Credit.GRANTED),
    ],
)
def test_the_node_decides(grounds: dict[str, Any], reason: Credit) -> None:
    assert of_web(**grounds) is reason


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (ActOptions(), True),
        (ActOptions(urgent_interval_seconds=10.0, urgent_waiting_ratio=0.5), True),
        (ActOptions(urgent_interval_seconds=10.1), False),
        (ActOptions(urgent_waiting_ratio=0.51), False),
        (ActOptions(urgent_waiting_ratio=0.0), False),  # it asks for none
    ],
)
def test_settings_that_let_starvation_last_give_no_credit(options: ActOptions, expected: bool) -> None:
    assert answers_soon(options) is expected


def test_a_policy_of_one_price_and_a_pod_that_is_gone_are_left_out() -> None:
    plain = recommendation(identity=identity(pod="web"))
    assert decided([web()], [plain]) == {}
    facts = PodFactsCache().facts_of([])
    grounds = CreditGrounds(
        gates=OPEN,
        allocatable_cpu_millicores=1,
        is_paused=False,
        is_quick=True,
        is_overloaded=False,
        has_pressure=frozenset(),
    )
    assert credits_of([web()], [asked()], facts, {}, grounds) == {}


def test_a_request_at_the_full_price_lacks_nothing_so_a_full_node_gives_credit_too() -> None:
    assert decided([web(cpu=600)], [asked()], allocatable_cpu_millicores=600) == {("uid-web", "app"): Credit.GRANTED}


def test_the_two_largest_lacks_must_fit_and_the_largest_go_without() -> None:
    # Each holds 100; they lack 100, 200 and 300.
    demands = [web(name, cpu=100) for name in ("a", "b", "c")]
    items = [asked("a", 200, 50), asked("b", 300, 50), asked("c", 400, 50)]
    for free, without in ((500, ""), (499, "c"), (300, "c"), (299, "bc"), (100, "bc"), (99, "abc")):
        credits = decided(demands, items, allocatable_cpu_millicores=300 + free)
        assert "".join(uid[-1] for (uid, _), credit in credits.items() if credit is Credit.NO_ROOM) == without


def test_equal_lacks_go_without_in_the_order_of_their_keys() -> None:
    demands = [web(name, cpu=100) for name in ("b", "a")]
    items = [asked(name, 200, 50) for name in ("a", "b")]
    credits = decided(demands, items, allocatable_cpu_millicores=300)
    assert credits == {("uid-a", "app"): Credit.GRANTED, ("uid-b", "app"): Credit.NO_ROOM}


def test_a_wish_that_is_not_granted_covers_no_lack() -> None:
    asking = web(cpu=None)
    assert decided([asking], [asked()], allocatable_cpu_millicores=599)["uid-web", "app"] is Credit.NO_ROOM


Rows = st.lists(st.tuples(st.integers(1, 900), st.integers(0, 900), st.integers(0, 900)), min_size=1, max_size=8)


@given(rows=Rows, free=st.integers(0, 2000))
def test_credit_is_never_given_without_room_nor_takes_its_own_away(rows: list[tuple[int, int, int]], free: int) -> None:
    names = [f"p{place}" for place in range(len(rows))]
    full = {name: float(in_place + more) for name, (_, in_place, more) in zip(names, rows, strict=True)}
    low = {name: float(in_place) for name, (_, in_place, _) in zip(names, rows, strict=True)}
    items = [asked(name, full[name], low[name]) for name in names]
    allocatable = sum(request for request, _, _ in rows) + free

    def judged(requests: Mapping[str, int]) -> set[str]:
        demands = [web(name, cpu=requests[name]) for name in names]
        credits = decided(demands, items, allocatable_cpu_millicores=allocatable)
        granted = {uid.removeprefix("uid-") for (uid, _), credit in credits.items() if credit is Credit.GRANTED}
        lacks = sorted(max(0.0, full[name] - requests[name]) for name in granted)
        assert sum(lacks[-2:]) <= allocatable - sum(requests.values())
        return granted

    before = {name: request for name, (request, _, _) in zip(names, rows, strict=True)}
    granted = judged(before)
    fallen = {name: min(before[name], max(1, int(low[name]))) if name in granted else before[name] for name in names}
    # Falls free as much as the lacks of those that fell have grown: whoever had credit has room still.
    lacks = sorted(max(0.0, full[name] - fallen[name]) for name in granted)
    assert sum(lacks[-2:]) <= allocatable - sum(fallen.values())
    judged(fallen)


# What is asked for.


def cpu_at(item: Recommendation, credit: Credit | None) -> Advice:
    credits = {} if credit is None else {("uid-web", "app"): credit}
    return at_prices([item], credits)[0].cpu_millicores


def test_recommendations_of_the_same_credit_are_the_very_same() -> None:
    items = [asked(), recommendation()]
    assert at_prices(items, {}) is items
    assert at_prices(items, {("uid-web", "app"): Credit.HPA}) is items
    with_credit = [asked(has_credit=True)]
    assert at_prices(with_credit, {("uid-web", "app"): Credit.GRANTED}) is with_credit


def test_credit_given_since_asks_for_less_and_lost_since_for_all() -> None:
    given_since = cpu_at(asked(), Credit.GRANTED)
    assert (given_since.peak, given_since.proposed, given_since.has_credit) == (400.0, 400.0, True)
    lost_since = cpu_at(asked(has_credit=True), Credit.PAUSED)
    assert (lost_since.peak, lost_since.proposed, lost_since.has_credit) == (600.0, 600.0, False)
    assert cpu_at(asked(has_credit=True), None).peak == 600.0


def test_what_this_node_saw_alone_is_priced_anew_too() -> None:
    seen = {f"cpu_{OWN_BASE}": 100.0, f"cpu_{OWN_PEAK}": 400.0, f"cpu_{OWN_LIMIT}": 0.0}
    lost_since = cpu_at(asked(has_credit=True, extra=seen), Credit.PAUSED)
    assert lost_since.extra[f"cpu_{OWN_PEAK}"] == lost_since.peak == 600.0


def test_what_the_pod_itself_uses_stays_in_it() -> None:
    borne = asked(peak=630.0, proposed=630.0)
    assert cpu_at(borne, Credit.GRANTED).peak == 430.0


def test_an_answer_that_is_withheld_has_nothing_to_move() -> None:
    none = asked(peak=None, proposed=None, base=None)
    moved = cpu_at(none, Credit.GRANTED)
    assert (moved.peak, moved.has_credit) == (None, True)
    assert cpu_at(none, Credit.NO_ROOM).extra == none.cpu_millicores.extra


def test_without_room_the_full_price_is_foreseen_so_that_nobody_goes_for_it() -> None:
    advice = cpu_at(asked(has_credit=True), Credit.NO_ROOM)
    assert (advice.peak, advice.has_credit) == (600.0, False)
    own = [advice.extra[f"cpu_{name}"] for name in (OWN_BASE, OWN_PEAK, OWN_LIMIT)]
    assert own == [100.0, 400.0, 0.0]


def test_without_room_what_this_node_saw_alone_stays_the_least() -> None:
    seen = {f"cpu_{OWN_BASE}": 50.0, f"cpu_{OWN_PEAK}": 150.0, f"cpu_{OWN_LIMIT}": 0.0}
    advice = cpu_at(asked(extra=seen), Credit.NO_ROOM)
    assert [advice.extra[f"cpu_{name}"] for name in (OWN_BASE, OWN_PEAK, OWN_LIMIT)] == [50.0, 150.0, 0.0]


def test_what_is_saved_is_counted_of_those_with_credit() -> None:
    assert saved_millicores([asked(has_credit=True), asked(), recommendation()]) == 200.0


def test_a_node_is_tainted_by_its_own_taint_alone() -> None:
    assert not is_tainted(None)
    assert not is_tainted(Node(name="n", taints=(Taint(key="other", effect="NoSchedule"),)))
    assert is_tainted(Node(name="n", taints=(Taint(key=OVERLOAD_TAINT_KEY, effect="NoSchedule"),)))


def test_each_reason_for_none_has_words() -> None:
    assert set(CREDIT_WORDS) == set(Credit) - {Credit.GRANTED}
