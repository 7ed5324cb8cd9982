from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.numbers.units import INT64_MAX
from agent.core.recommender.rounding import cap, memory_text, proportional_limits, round_up, whole_cores

AMOUNTS = st.integers(1, INT64_MAX)


def test_round_up_goes_to_the_next_multiple_and_leaves_0() -> None:
    assert round_up([0, 1, 9, 10, 11], 10).tolist() == [0, 10, 10, 10, 20]


@pytest.mark.parametrize("multiple", [0, -5])
def test_round_up_refuses_a_multiple_that_is_not_positive(multiple: int) -> None:
    with pytest.raises(ValueError, match=f"multiple of {multiple}"):
        round_up(100, multiple)


def test_whole_cores_rounds_up_where_wanted() -> None:
    assert whole_cores([8600, 8000, 8600], [True, True, False]).tolist() == [9000, 8000, 8600]


@pytest.mark.parametrize(
    ("least", "most", "global_most", "capped"),
    [
        (None, None, None, [31, 42]),
        (40, None, None, [40, 42]),
        (None, 35, None, [31, 35]),
        (50, 35, None, [35, 35]),  # they conflict: the maximum is applied last
        (None, None, 30, [30, 30]),
        (None, 40, 30, [31, 40]),  # the container's own beats the global one
        (None, 0, 30, [31, 42]),  # even when it is 0, that is, not set
        (0, 0, 0, [31, 42]),
    ],
)
def test_cap_raises_to_the_minimum_then_lowers_to_the_maximum(
    least: int | None, most: int | None, global_most: int | None, capped: list[int]
) -> None:
    assert cap([31, 42], min_allowed=least, max_allowed=most, global_max_allowed=global_most).tolist() == capped


def test_proportional_limits_keep_the_ratio_or_are_not_set() -> None:
    limits, is_set, is_beyond = proportional_limits(
        # ratio 1.5; no limit; no recommendation; no request: the limit counts as one; rounded down: 10 x 5 / 3 = 16.7
        limits=[300, 0, 300, 300, 10],
        requests=[200, 200, 200, 0, 3],
        recommendations=[500, 500, 0, 500, 5],
    )
    assert limits[is_set].tolist() == [750, 500, 16]
    assert is_set.tolist() == [True, False, False, True, True]
    assert not is_beyond.any()


def test_proportional_limits_take_the_default_limit_of_containers_without_one() -> None:
    limits, is_set, _ = proportional_limits([0, 400], [100, 100], [300, 300], default_limits=200)
    assert limits.tolist() == [600, 1200]
    assert is_set.all()


def test_proportional_limits_end_at_63_bits() -> None:
    limits, _, is_beyond = proportional_limits([1 << 50, 1 << 50], [1, 1 << 38], [1 << 50, 1 << 50])
    assert limits.tolist() == [INT64_MAX, 1 << 62]
    assert is_beyond.tolist() == [True, False]


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), min_size=1, max_size=20))
def test_proportional_limits_are_exact_whatever_the_size(triples: list[tuple[int, int, int]]) -> None:
    columns = [np.array(column, dtype=np.int64) for column in zip(*triples, strict=True)]
    limits, is_set, is_beyond = proportional_limits(*columns)
    exact = [limit * recommendation // request for limit, request, recommendation in triples]
    assert limits.tolist() == [min(amount, INT64_MAX) for amount in exact]
    assert is_set.all()
    assert is_beyond.tolist() == [amount > INT64_MAX for amount in exact]


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (1023, "1023"),
        (1536, "1.50Ki"),
        (839500000, "800.61Mi"),
        (4022251530, "3.75Gi"),
        (1 << 50, "1024.00Ti"),
    ],
)
def test_memory_text_has_two_decimals_from_1024_on(amount: int, text: str) -> None:
    assert memory_text(amount) == text
