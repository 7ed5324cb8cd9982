"""Expected numbers are the answers of Go 1.26 on amd64, in hexadecimal, since the last bit is what is asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.numbers import go_float


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # The C library answers ...06ed, ...30b and ...1b5 to the first three.
        (1.625, "0x1.f128f5faf06ecp-2"),
        (3.0, "0x1.193ea7aad030ap+0"),
        (5.125, "0x1.a25660ca601b4p+0"),
        (1.05, "0x1.8fb063ef2c7f0p-5"),
        (2.0, "0x1.62e42fefa39efp-1"),
        (1.0, "0x0.0p+0"),
    ],
)
def test_log_gives_gos_last_bit(value: float, expected: str) -> None:
    assert go_float.log(np.array([value]))[0] == float.fromhex(expected)


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [
        # Minutes of a half-life of a day; the C library answers ...1b7 and ...02f to the first two.
        (86 / 1440, "0x1.0ad1e216da1b6p+0"),
        (97 / 1440, "0x1.0c3c836f7b02ep+0"),
        (-0.25, "0x1.ae89f995ad3aep-1"),
        (0.0, "0x1.0p+0"),
        (100.0, "0x1.0p+100"),
        (-1022.5, "0x0.b504f333f9de6p-1022"),
        (-1074.0, "0x0.0000000000001p-1022"),
        (-1074.5, "0x0.0p+0"),
        (-1e9, "0x0.0p+0"),
    ],
)
def test_exp2_gives_gos_last_bit(exponent: float, expected: str) -> None:
    assert go_float.exp2(np.array([exponent]))[0] == float.fromhex(expected)


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [
        (1, "0x1.0cccccccccccdp+0"),
        (3, "0x1.285a1cac08313p+0"),
        # The C library answers ...66e and ...573.
        (4, "0x1.372b6ae7d566dp+0"),
        (175, "0x1.3f28c0b1c2558p+12"),
    ],
)
def test_whole_power_gives_gos_last_bit(exponent: int, expected: str) -> None:
    assert go_float.whole_power(1.05, exponent) == float.fromhex(expected)


def test_whole_power_beyond_64_bits_is_an_overflow() -> None:
    with pytest.raises(OverflowError):
        go_float.whole_power(2.0, 1024)


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=20))
def test_log_is_within_one_bit_of_the_true_logarithm(values: list[float]) -> None:
    got = go_float.log(np.array(values))
    assert got.tolist() == pytest.approx([math.log(value) for value in values], rel=3e-16, abs=1e-300)


@given(st.lists(st.floats(-1000.0, 1000.0), min_size=1, max_size=20))
def test_exp2_is_within_a_bit_or_two_of_the_true_power(exponents: list[float]) -> None:
    got = go_float.exp2(np.array(exponents))
    assert got.tolist() == pytest.approx([2.0**exponent for exponent in exponents], rel=5e-16, abs=0.0)
