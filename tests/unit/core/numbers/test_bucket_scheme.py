from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.numbers.bucket_scheme import BucketScheme, ExponentialScheme, LinearScheme

CPU = ExponentialScheme(1000.0, 0.01, 1.05)
MEMORY = ExponentialScheme(1e12, 1e7, 1.05)
TENTHS = LinearScheme(100.0, 0.1)
SCHEMES = [CPU, MEMORY, TENTHS, LinearScheme(5.0, 0.3), ExponentialScheme(100.0, 1.0, 2.0)]


def test_linear_scheme_has_a_bucket_for_the_maximum_and_clamps_both_ends() -> None:
    scheme = LinearScheme(5.0, 0.3)
    # ceil(5 / 0.3) + 1 = 17 + 1
    assert scheme.count == 18
    assert scheme.find(np.array([-1.0, 0.0, 1.3, 100.0, 1e300])).tolist() == [0, 0, 4, 17, 17]
    assert scheme.starts(np.array([0, 1, 17])).tolist() == [0.0, 0.3, 17 * 0.3]


def test_linear_find_keeps_the_plain_quotient() -> None:
    # 0.3 / 0.1 = 2.9999999999999996 in binary floating point
    assert TENTHS.find(np.array([0.3, 0.1, 0.2])).tolist() == [2, 1, 2]


def test_exponential_scheme_of_the_vpa_has_176_buckets() -> None:
    # ln(1000 x 0.05 / 0.01 + 1) / ln 1.05 = 174.57...; its ceiling + 1 = 176
    assert CPU.count == MEMORY.count == 176


def test_exponential_starts_lie_a_hair_below_the_textbook_where_go_says_so() -> None:
    # Textbook: 1e7 x (1, 2.05, 3.1525, 4.310125); the vpa's facts, section 17, name these three.
    assert np.trunc(MEMORY.starts(np.arange(5))).tolist() == [0, 10_000_000, 20_499_999, 31_524_999, 43_101_249]


def test_exponential_find_clamps_both_ends_and_puts_the_first_size_into_bucket_1() -> None:
    values = np.array([-5.0, 0.0, 0.0099, 0.01, 0.032, 0.5, 2000.0, 1e300])
    assert CPU.find(values).tolist() == [0, 0, 0, 1, 3, 25, 175, 175]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_ends_are_the_starts_of_the_next_bucket_and_of_the_last_its_own(scheme: BucketScheme) -> None:
    starts = scheme.starts(np.arange(scheme.count))
    assert scheme.ends.tolist() == [*starts[1:].tolist(), starts[-1]]
    assert scheme.ends[-1] >= scheme.max_value  # type: ignore[attr-defined]  # both schemes have one


@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=st.data())
def test_a_value_lies_in_its_bucket(scheme: BucketScheme, data: st.DataObject) -> None:
    value = data.draw(st.floats(0.0, float(scheme.ends[-1])))
    bucket = int(scheme.find(np.array([value]))[0])
    # At an edge rounding may put a value one bucket off, by nothing but its last bits.
    assert scheme.starts(np.array([bucket]))[0] <= value * (1 + 1e-14)
    assert bucket == scheme.count - 1 or value <= scheme.ends[bucket] * (1 + 1e-14)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_schemes_refuse_what_is_not_positive_and_finite(value: float) -> None:
    for make in (
        lambda: LinearScheme(value, 1.0),
        lambda: LinearScheme(1.0, value),
        lambda: ExponentialScheme(value, 1.0, 1.05),
        lambda: ExponentialScheme(1.0, value, 1.05),
        lambda: ExponentialScheme(1.0, 1.0, value),
    ):
        with pytest.raises(ValueError, match="of a bucket scheme"):
            make()


def test_exponential_scheme_refuses_a_ratio_of_1() -> None:
    with pytest.raises(ValueError, match="ratio 1"):
        ExponentialScheme(100.0, 1.0, 1.0)


def test_schemes_of_equal_parameters_are_equal() -> None:
    assert LinearScheme(5.0, 0.3) == LinearScheme(5.0, 0.3) != LinearScheme(5.0, 0.1)
