from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.numbers.units import INT64_MAX, NANOS_PER_UNIT, divide_truncating, to_millis, to_units


@pytest.mark.parametrize(
    ("nanos", "units", "millis"),
    [
        (0, 0, 0),
        (1, 1, 1),  # whoever asks for anything gets something
        (NANOS_PER_UNIT, 1, 1000),
        (NANOS_PER_UNIT + 1, 2, 1001),
        (1_500_000, 1, 2),  # 1.5 millicores
        (-1, -1, -1),
        (-NANOS_PER_UNIT - 1, -2, -1001),
    ],
)
def test_to_units_and_to_millis_round_away_from_zero(nanos: int, units: int, millis: int) -> None:
    assert (to_units(nanos), to_millis(nanos)) == (units, millis)


def test_to_units_beyond_64_bits_is_cut() -> None:
    assert to_units((INT64_MAX + 5) * NANOS_PER_UNIT) == INT64_MAX


@given(st.integers(), st.integers().filter(bool))
def test_divide_truncating_leaves_a_remainder_of_the_dividends_sign(dividend: int, divisor: int) -> None:
    remainder = dividend - divide_truncating(dividend, divisor) * divisor
    assert abs(remainder) < abs(divisor)
    assert remainder == 0 or (remainder < 0) == (dividend < 0)
