from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.pressure import (
    Pressure,
    PressureFormatError,
    PressureLine,
    adjusted_demand,
    parse_pressure,
    psi_waiting_rate,
)

SOME = "some avg10=1.71 avg60=2.36 avg300=2.57 total=230548833\n"
FULL = "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"


def test_parse_pressure_reads_both_lines() -> None:
    parsed = parse_pressure(SOME + FULL)
    assert parsed.some == PressureLine(
        avg10_percent=1.71, avg60_percent=2.36, avg300_percent=2.57, total_usec=230_548_833
    )
    assert parsed.full is not None
    assert parsed.full.total_usec == 7
    assert parsed.is_available


@pytest.mark.parametrize("text", ["", "\n", "other avg10=1\n"])
def test_parse_pressure_without_a_line_is_no_signal(text: str) -> None:
    assert parse_pressure(text) == Pressure()
    assert not parse_pressure(text).is_available


def test_parse_pressure_without_full_line_has_none() -> None:
    assert parse_pressure(SOME).full is None


def test_parse_pressure_passes_over_fields_of_other_names() -> None:
    assert parse_pressure(SOME.replace(" total", " avg900=x total")).is_available


@pytest.mark.parametrize(
    "text",
    [
        "some\n",
        "some avg10\n",
        SOME.replace("1.71", "x"),
        SOME.replace("total=2", "total=-2"),
        SOME.replace("=2.36", "="),
    ],
)
def test_parse_pressure_refuses_what_is_no_number(text: str) -> None:
    with pytest.raises(PressureFormatError, match=r"^pressure, line 'some'"):
        parse_pressure(text)


@given(st.text(alphabet="somefull avg10=.\n3x", max_size=80))
def test_parse_pressure_of_any_text_gives_a_value_or_the_error(text: str) -> None:
    with contextlib.suppress(PressureFormatError):
        parse_pressure(text)


@pytest.mark.parametrize(
    ("t0", "total0", "t1", "total1", "rate"),
    [
        (100.0, 0, 101.0, 300_000, 0.3),  # 0.3 s of 1 s
        (0.0, 0, 2.0, 500_000, 0.25),
        (0.0, 5, 1.0, 5, 0.0),
        (0.0, 0, 1.0, 1_000_500, 1.0),  # stamps jitter: never above 1
        (0.0, 9000, 1.0, 8800, None),  # went back: another cgroup
        (1.0, 0, 1.0, 5, None),
        (2.0, 0, 1.0, 5, None),
    ],
)
def test_psi_waiting_rate_is_the_share_of_time_or_none(
    t0: float, total0: int, t1: float, total1: int, rate: float | None
) -> None:
    assert psi_waiting_rate(t0, total0, t1, total1) == (None if rate is None else pytest.approx(rate))


def test_adjusted_demand_adds_the_wait_and_without_signal_is_the_usage() -> None:
    assert adjusted_demand(1000, 0.3) == pytest.approx(1300)
    assert adjusted_demand(800, None) == 800
