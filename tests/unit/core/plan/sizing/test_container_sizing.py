from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.orders.policy_options import BoundsOptions
from agent.core.plan.needs.demand import KeptReason
from agent.core.plan.sizing.container_sizing import (
    Edges,
    Lowering,
    below_limit,
    bounded,
    cpu_edges,
    is_little,
    is_small,
    limit_wish,
    memory_edges,
    pair,
    why_not_lowered,
)
from tests.conformance.cruisekube_plan import nearest

EDGES = Edges(least=10, most=1000, unit=10, smallest=20, ratio=0.1)


@pytest.mark.parametrize(("amount", "expected"), [(3, 10), (10, 10), (11, 20), (995, 1000), (1000, 1000), (5000, 1000)])
def test_bounded_raises_lowers_and_rounds_up(amount: int, expected: int) -> None:
    assert bounded(amount, EDGES) == expected


def test_the_most_wins_over_the_least_and_over_rounding() -> None:
    assert bounded(5, EDGES.narrowed(500, 105)) == 105
    assert bounded(104, EDGES.narrowed(None, 105)) == 105


def test_a_pod_without_orders_of_its_own_has_the_node_s_bounds() -> None:
    assert EDGES.narrowed(None, None) is EDGES
    assert EDGES.narrowed(50, None).most == 1000


def test_a_least_memory_of_none_is_one_byte() -> None:
    assert memory_edges(BoundsOptions(min_memory_bytes=0)).least == 1
    assert memory_edges(BoundsOptions(max_memory_bytes=77)).most == 77


def test_cpu_without_a_most_is_bounded_by_what_kubernetes_holds() -> None:
    assert cpu_edges(BoundsOptions()).most == (1 << 63) - 1
    assert cpu_edges(BoundsOptions(max_cpu_millicores=500)).most == 500


@pytest.mark.parametrize(("amount", "expected"), [(3.2, 10), (14.9, 10), (15.0, 20), (123.4, 120)])
def test_nearest_rounds_to_the_unit_and_not_below_the_least(amount: float, expected: int) -> None:
    assert nearest(amount, EDGES) == expected


def test_a_change_is_little_by_amount_or_by_share() -> None:
    assert is_little(100, 119, EDGES)
    assert not is_little(100, 120, EDGES)
    assert is_little(500, 451, EDGES)  # 49 of 500 is below a tenth
    assert not is_little(500, 450, EDGES)


def test_a_request_outside_the_bounds_is_not_kept_however_small_the_change() -> None:
    assert is_small(100, 110, EDGES)
    assert not is_small(5, 10, EDGES)
    assert not is_small(1010, 1000, EDGES)


def test_a_request_stays_one_below_a_limit_that_stays() -> None:
    assert below_limit(500) == 499
    assert below_limit(1) == 1


def test_a_pair_holds_the_peak_and_what_the_limit_should_be() -> None:
    assert pair(300, None) == 300
    assert pair(300, 600) == 600
    assert pair(300, 200) == 300


def test_a_limit_is_never_below_the_request_and_differs_where_it_does() -> None:
    assert limit_wish(100, None, 50, differs=True) == 100
    assert limit_wish(100, 40, 50, differs=True) == 51
    assert limit_wish(100, 40, 50, differs=False) == 50
    assert limit_wish(100, 400, 50, differs=True) == 400


def lowering(**fields: object) -> Lowering:
    known: dict[str, object] = {"is_possible": True, "is_wanted": True, "is_pressed": False, "margin_ratio": 1.25}
    return Lowering(**{**known, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("in_use", "fields", "expected"),
    [
        (79, {}, None),
        (80, {}, KeptReason.IN_USE),  # 80 x 1.25 is 100: reached
        (None, {}, KeptReason.IN_USE),
        (10, {"is_pressed": True}, KeptReason.IN_USE),
        (10, {"is_wanted": False}, KeptReason.NOT_APPLIED),
        (10, {"is_possible": False}, KeptReason.TOO_OLD),
        (10, {"is_read_at_start": True}, KeptReason.READ_AT_START),
        (10, {"heap_floor": 101}, KeptReason.HEAP),
        (10, {"heap_floor": 100}, None),
    ],
)
def test_a_memory_limit_falls_to_100_only_with_margin_and_where_it_may(
    in_use: int | None, fields: dict[str, object], expected: KeptReason | None
) -> None:
    assert why_not_lowered(100, in_use, lowering(**fields)) is expected


@given(st.integers(0, (1 << 63) - 1), st.integers(1, (1 << 63) - 1), st.integers(1, (1 << 63) - 1))
def test_whole_amounts_keep_their_bounds_to_the_last_byte(amount: int, one: int, other: int) -> None:
    least, most = sorted((one, other))
    edges = memory_edges(BoundsOptions())
    within = bounded(amount, edges.narrowed(least, most))
    assert least <= within <= most
    assert within >= min(amount, most)
    # A least beyond what a float tells apart is not cut to the next amount that one does.
    assert bounded(amount, edges.narrowed(least, None)) >= least
