from __future__ import annotations

import contextlib
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.numbers.quantity import QuantityError, cut_quantity, format_quantity, parse_quantity
from agent.core.numbers.units import INT64_MAX, NANOS_PER_UNIT, to_millis, to_units

NANOS = st.integers(min_value=-(10**30), max_value=10**30)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("1", 10**9),
        ("250m", 250 * 10**6),
        ("0.5", 5 * 10**8),
        (".5", 5 * 10**8),
        ("5.", 5 * 10**9),
        ("+5", 5 * 10**9),
        ("-1.5", -15 * 10**8),
        ("100u", 10**5),
        ("3n", 3),
        ("1k", 10**12),
        ("1Ki", 1024 * 10**9),
        ("1.5Gi", 1_610_612_736 * 10**9),
        ("1E", 10**27),
        ("1Ei", 2**60 * 10**9),
        ("1e3", 10**12),
        ("1E3", 10**12),
        ("1E-2", 10**7),
        (" 1M ", 10**15),
        ("0.0000000001", 1),  # finer than a billionth: up to one
        ("-0.1n", -1),
        ("1e-999", 1),
        ("0.3Mi", 314_572_800_000_000),  # 0.3 x 1048576 = 314572.8
        ("8Ei", INT64_MAX * 10**9),  # 2^63 is one too many
    ],
)
def test_parse_quantity_gives_exact_nanos(text: str, nanos: int) -> None:
    assert parse_quantity(text) == nanos


@pytest.mark.parametrize(
    "text",
    ["", " ", "1x", "abc", "1.2.3", "Mi", "m", ".", "-", "1K", "1mi", "1e", "1e1.5", "1 G", "0x10", "1e1000", "٣"],
)
def test_parse_quantity_refuses_what_is_none(text: str) -> None:
    with pytest.raises(QuantityError, match="is not a quantity"):
        parse_quantity(text)


@given(st.text(max_size=12))
def test_parse_quantity_of_any_text_gives_a_number_or_the_error(text: str) -> None:
    with contextlib.suppress(QuantityError):
        assert isinstance(parse_quantity(text), int)


@given(NANOS)
def test_format_quantity_is_read_back_as_it_was(nanos: int) -> None:
    assert parse_quantity(format_quantity(nanos)) == nanos


@given(st.integers(min_value=-INT64_MAX, max_value=INT64_MAX))
def test_format_quantity_binary_is_read_back_as_it_was(units: int) -> None:
    assert parse_quantity(format_quantity(units * NANOS_PER_UNIT, binary=True)) == units * NANOS_PER_UNIT


@given(st.decimals(min_value=0, max_value=10**6, places=6))
def test_parse_quantity_of_a_decimal_rounds_up_once(value: Decimal) -> None:
    nanos = parse_quantity(str(value))
    assert 0 <= to_millis(nanos) - value * 1000 < 1
    assert 0 <= to_units(nanos) - value < 1


@pytest.mark.parametrize(
    ("nanos", "binary", "text"),
    [
        (0, False, "0"),
        (250 * 10**6, False, "250m"),
        (15 * 10**8, False, "1500m"),
        (2 * 10**9, False, "2"),
        (128 * 2**20 * 10**9, True, "128Mi"),
        (1000 * 10**9, True, "1k"),  # below 1024 binary suffixes do not apply
        (1025 * 10**9, True, "1025"),
        (15 * 10**8, True, "1500m"),
    ],
)
def test_format_quantity_takes_the_largest_suffix_without_fraction(nanos: int, binary: bool, text: str) -> None:
    assert format_quantity(nanos, binary=binary) == text


def test_quantity_of_thousands_of_digits_is_refused_and_shown_in_part() -> None:
    with pytest.raises(QuantityError) as refused:
        parse_quantity("9" * 5000)
    assert str(refused.value).endswith("... of 5000 characters is not a quantity (up to 4000)")


MOST = INT64_MAX * NANOS_PER_UNIT


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1e1002", MOST),
        ("-1e1002", -MOST),
        ("1" * 4500, MOST),
        ("1e" + "9" * 5000, MOST),
        ("1e-1002", 1),
        ("-1e-" + "9" * 5000, -1),
        ("0" * 5000, 0),
        ("0e99999", 0),
        ("0" * 5000 + "1500m", 1_500_000_000),
        ("0." + "0" * 5000 + "1", 1),
        ("0." + "0" * 5000 + "1Ei", 1),
        ("1." + "0" * 5000 + "Gi", 2**30 * NANOS_PER_UNIT),
        ("1" + "0" * 5000 + "e-5000", NANOS_PER_UNIT),
        ("1E", 10**18 * NANOS_PER_UNIT),
        ("10E", MOST),
    ],
)
def test_cut_quantity_reads_what_an_api_server_keeps_whatever_its_size(text: str, nanos: int) -> None:
    assert cut_quantity(text) == nanos


@pytest.mark.parametrize("text", ["", "abc", "1.2.3", "." + " " * 5000, "1" * 4500 + "x", "e1002"])
def test_cut_quantity_refuses_what_is_none(text: str) -> None:
    with pytest.raises(QuantityError):
        cut_quantity(text)


@given(st.from_regex(r"[+-]?[0-9]{1,30}(\.[0-9]{0,30})?([numkMGTPE]|[KMGTPE]i|e-?[0-9]{1,2})?", fullmatch=True))
def test_a_quantity_that_is_long_is_read_as_the_short_one_that_it_is(text: str) -> None:
    sign, rest = (text[0], text[1:]) if text[0] in "+-" else ("", text)
    assert cut_quantity(sign + "0" * 4100 + rest) == cut_quantity(text)
