from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.numbers.units import INT64_MAX
from agent.core.recommender.vpa.limit_range import (
    FittedAmounts,
    Range,
    Rounding,
    cap_to_container_range,
    cap_to_limit,
    cap_to_pod_range,
    scale_in_proportion,
    with_requests,
)


def test_scale_in_proportion_rounds_as_told_and_ends_at_63_bits() -> None:
    # 33 x 250 / 100 = 82.5
    assert scale_in_proportion(33, 100, 250) == (82, False)
    assert scale_in_proportion(33, 100, 250, Rounding.UP) == (83, False)
    assert scale_in_proportion(33, 100, 300, Rounding.UP) == (99, False)
    assert scale_in_proportion(1 << 40, 1, 1 << 40) == (INT64_MAX, True)


def test_cap_to_limit_keeps_at_or_below_a_limit_that_is_there() -> None:
    assert [cap_to_limit(700, limit) for limit in (None, 500, 900)] == [700, 500, 700]


@pytest.mark.parametrize(
    ("request_", "limit", "allowed", "capped"),
    [
        # The limit is twice the request, so that a limit of 1000 goes with a request of 500.
        (100, 200, Range(max_allowed=1000), 500),
        (100, 200, Range(min_allowed=4000), 4000),  # the limit asks for 2000, the request itself for 4000
        (200, 100, Range(min_allowed=1000), 2000),  # the limit is half the request
        (100, 0, Range(max_allowed=1000), 700),  # without a limit nothing bounds it from above
        (100, 0, Range(max_allowed=1000, default_limit=200), 500),
        (0, 200, Range(max_allowed=600), 600),  # without a request the limit is the request
        (100, 100, Range(min_allowed=900, max_allowed=800), 800),  # the maximum wins
        (100, 200, Range(), 700),
    ],
)
def test_cap_to_container_range(request_: int, limit: int, allowed: Range, capped: int) -> None:
    assert cap_to_container_range(FittedAmounts(request=request_, limit=limit, recommendation=700), allowed) == capped


def sized(recommendation: int | None, ratio: int = 1) -> FittedAmounts:
    return FittedAmounts(request=100, limit=100 * ratio, recommendation=recommendation)


@pytest.mark.parametrize(
    ("recommendations", "ratio", "allowed", "capped"),
    [
        ([15, 100], 1, Range(max_allowed=90), [11, 78]),  # 15 x 90 / 115 = 11.7 and 100 x 90 / 115 = 78.3
        ([15, 100], 1, Range(max_allowed=115), [15, 100]),
        ([15, 100], 1, Range(min_allowed=150), [20, 131]),  # 19.6 and 130.4, rounded up
        ([100, 100], 2, Range(min_allowed=200), [100, 100]),
        ([100, None], 1, Range(max_allowed=100), [50, None]),  # the other's request of 100 counts and stays
        ([50, 50], 2, Range(min_allowed=80, max_allowed=100), [25, 25]),  # limits of 200 must become 100
        ([30, 30], 1, Range(min_allowed=90, max_allowed=10), [45, 45]),  # a minimum on requests goes first
    ],
)
def test_cap_to_pod_range_shares_in_proportion(
    recommendations: list[int | None], ratio: int, allowed: Range, capped: list[int | None]
) -> None:
    containers = [sized(recommendation, ratio) for recommendation in recommendations]
    assert cap_to_pod_range(containers, allowed, min_rounding=Rounding.UP) == capped


def test_cap_to_pod_range_rounds_memory_minimums_down() -> None:
    assert cap_to_pod_range([sized(15), sized(100)], Range(min_allowed=150), min_rounding=Rounding.DOWN) == [19, 130]


def test_cap_to_pod_range_raises_limits_below_their_requests_to_the_minimum() -> None:
    # Limits are half of what is requested: requests of 200 satisfy the minimum of 150, limits of 100 do not.
    containers = [FittedAmounts(request=100, limit=50, recommendation=100)] * 2
    assert cap_to_pod_range(containers, Range(min_allowed=150), min_rounding=Rounding.UP) == [150, 150]


def test_cap_to_pod_range_leaves_a_pod_without_limits() -> None:
    unlimited = FittedAmounts(request=100, limit=0, recommendation=70)
    assert cap_to_pod_range([unlimited], Range(min_allowed=500), min_rounding=Rounding.UP) == [70]


def test_with_requests_lets_containers_without_a_recommendation_take_part() -> None:
    without = FittedAmounts(request=0, limit=0, recommendation=None)
    assert with_requests([sized(None), sized(7), without]) == [sized(100), sized(7), without]


@given(
    st.lists(st.tuples(st.integers(1, 1 << 40), st.integers(1, 8)), min_size=1, max_size=5),
    st.integers(1, 1 << 42),
)
def test_cap_to_pod_range_keeps_the_sum_of_limits_within_the_maximum(
    containers: list[tuple[int, int]], most: int
) -> None:
    pod = [FittedAmounts(request=10, limit=10 * ratio, recommendation=amount) for amount, ratio in containers]
    capped = cap_to_pod_range(pod, Range(max_allowed=most), min_rounding=Rounding.UP)
    assert sum(amount * ratio for amount, (_, ratio) in zip(capped, containers, strict=True) if amount) <= most
