from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.machine.cpu_knobs import (
    MAX_SHARES,
    MIN_SHARES,
    CpuMax,
    CpuMaxError,
    SystemdQuota,
    millicores_to_quota,
    millicores_to_shares,
    parse_cpu_max,
    quota_to_millicores,
    shares_match_after_round_trip,
    shares_to_millicores,
    shares_to_weight_linear,
    shares_to_weight_quadratic,
    systemd_quota,
    weight_to_shares_linear,
)

MILLICORES = st.integers(min_value=-10, max_value=1_000_000)
SHARES = st.integers(min_value=MIN_SHARES, max_value=MAX_SHARES)


@pytest.mark.parametrize(
    ("millicores", "shares"),
    [(-1, 2), (0, 2), (1, 2), (3, 3), (100, 102), (1000, 1024), (256_000, 262_144), (10**18, 262_144)],
)
def test_millicores_to_shares_clamps_and_truncates(millicores: int, shares: int) -> None:
    assert millicores_to_shares(millicores) == shares


@given(MILLICORES, MILLICORES)
def test_millicores_to_shares_never_falls_as_the_request_grows(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert MIN_SHARES <= millicores_to_shares(low) <= millicores_to_shares(high) <= MAX_SHARES


@given(st.integers(min_value=2, max_value=256_000))
def test_shares_to_millicores_rounds_back_to_within_a_millicore(millicores: int) -> None:
    # Truncating to shares loses less than one share, which is less than one millicore.
    assert 0 <= millicores - shares_to_millicores(millicores_to_shares(millicores)) <= 1


@pytest.mark.parametrize(("shares", "millicores"), [(-5, 0), (0, 0), (1, 0), (2, 2), (102, 100), (1024, 1000)])
def test_shares_to_millicores_rounds_up_and_below_the_minimum_is_none(shares: int, millicores: int) -> None:
    assert shares_to_millicores(shares) == millicores


@pytest.mark.parametrize(
    ("millicores", "period_usec", "quota_usec"),
    [(0, 100_000, 0), (5, 100_000, 1000), (200, 100_000, 20_000), (100, 5000, 1000), (-3, 100_000, 1000)],
)
def test_millicores_to_quota_keeps_the_kernels_floor(millicores: int, period_usec: int, quota_usec: int) -> None:
    assert millicores_to_quota(millicores, period_usec) == quota_usec


@pytest.mark.parametrize(
    ("quota_usec", "period_usec", "millicores"),
    [(-1, 100_000, 0), (1, 100_000, 0), (5000, 100_000, 50), (20_000, 10_000, 2000), (-250, 100_000, -2)],
)
def test_quota_to_millicores_truncates_towards_zero(quota_usec: int, period_usec: int, millicores: int) -> None:
    assert quota_to_millicores(quota_usec, period_usec) == millicores


@pytest.mark.parametrize(
    ("shares", "linear", "quadratic"),
    [
        (0, 0, 0),
        (1, 1, 1),
        (2, 1, 1),
        (102, 4, 17),
        (1024, 39, 100),
        (262_144, 10_000, 10_000),
        (300_000, 10_000, 10_000),
    ],
)
def test_shares_to_weight_by_both_formulas(shares: int, linear: int, quadratic: int) -> None:
    assert (shares_to_weight_linear(shares), shares_to_weight_quadratic(shares)) == (linear, quadratic)


@given(SHARES, SHARES)
def test_shares_to_weight_never_falls_as_shares_grow(one: int, other: int) -> None:
    low, high = sorted((one, other))
    for formula in (shares_to_weight_linear, shares_to_weight_quadratic):
        assert 1 <= formula(low) <= formula(high) <= 10_000


@given(SHARES)
def test_shares_read_back_match_what_was_allocated(shares: int) -> None:
    read_back = weight_to_shares_linear(shares_to_weight_linear(shares))
    assert shares_match_after_round_trip(shares, read_back)
    # A step of weight is 262142 / 9999 = 26.2 shares, and both ways round down.
    assert 0 <= shares - read_back <= 27


def test_shares_of_100_millicores_do_not_match_unread() -> None:
    # 102 shares read back as 80.
    assert not shares_match_after_round_trip(102, 102)


@pytest.mark.parametrize(
    ("quota_usec", "period_usec", "per_second_usec", "cpu_max_quota_usec"),
    [
        (-1, 100_000, None, -1),
        (0, 100_000, None, -1),
        (1500, 100_000, 20_000, 2000),  # 1.5 % of a CPU becomes 2 %
        (10_000, 100_000, 100_000, 10_000),
        (409_600, 100_000, 4_100_000, 410_000),
        (1500, 0, 20_000, 2000),  # no period: the default
    ],
)
def test_systemd_quota_rounds_up_to_whole_percents(
    quota_usec: int, period_usec: int, per_second_usec: int | None, cpu_max_quota_usec: int
) -> None:
    expected = SystemdQuota(quota_per_second_usec=per_second_usec, cpu_max_quota_usec=cpu_max_quota_usec)
    assert systemd_quota(quota_usec, period_usec) == expected


@given(st.integers(min_value=1000, max_value=10**9), st.integers(min_value=1000, max_value=10**6))
def test_systemd_quota_adds_at_most_one_percent_of_a_cpu(quota_usec: int, period_usec: int) -> None:
    rounded = systemd_quota(quota_usec, period_usec).cpu_max_quota_usec
    assert quota_usec - 1 <= rounded <= quota_usec + period_usec // 100 + 1


@pytest.mark.parametrize(
    ("text", "quota_usec", "period_usec", "millicores"),
    [
        ("max 100000\n", None, 100_000, None),
        ("20000 100000\n", 20_000, 100_000, 200),
        ("-1 100000", None, 100_000, None),
        ("1 100000", 1, 100_000, 0),
    ],
)
def test_parse_cpu_max_reads_quota_and_period(
    text: str, quota_usec: int | None, period_usec: int, millicores: int | None
) -> None:
    parsed = parse_cpu_max(text)
    assert parsed == CpuMax(quota_usec=quota_usec, period_usec=period_usec)
    assert parsed.millicores == millicores


@pytest.mark.parametrize(
    "text",
    [
        *("", "\n", "50000\n", "max\n", "max\n100000", "x 100000", "1.5 100000", "max -1", "max x", "1_0 5", "max 0"),
        *(f"{1 << 63} 100000", f"20000 {1 << 64}"),
    ],
)
def test_parse_cpu_max_refuses_other_text(text: str) -> None:
    with pytest.raises(CpuMaxError, match=r"^cpu\.max: "):
        parse_cpu_max(text)


@given(st.text(max_size=20))
def test_parse_cpu_max_of_any_text_gives_a_value_or_the_error(text: str) -> None:
    with contextlib.suppress(CpuMaxError):
        parse_cpu_max(text)
