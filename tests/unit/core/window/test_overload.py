"""Overload: both thresholds, every reading of the window, hysteresis, and doubt that changes nothing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.orders.plan_options import OverloadOptions
from agent.core.window.overload import LoadReading, OverloadBasis, OverloadVerdict, judge_overload, pods_waiting_ratio

NOW = 1000.0
EVERY_15_SECONDS = tuple(range(0, 120, 15))
"""Ages: 0 to 105 s of a window of 120."""


def readings(
    load: float = 1.5, waiting: float | None = 0.5, ages: tuple[float, ...] = EVERY_15_SECONDS
) -> list[LoadReading]:
    return [LoadReading(seconds=NOW - age, load_per_cpu=load, waiting_ratio=waiting) for age in ages]


def judge(
    given: list[LoadReading],
    *,
    was: bool = False,
    longest_gap: float | None = 37.5,
    options: OverloadOptions = OverloadOptions(),  # noqa: B008  # frozen
) -> OverloadVerdict:
    return judge_overload(given, options, now_seconds=NOW, was_overloaded=was, longest_gap_seconds=longest_gap)


def test_every_reading_above_both_thresholds_is_overloaded_and_says_by_how_much() -> None:
    verdict = judge(readings())

    assert (verdict.is_overloaded, verdict.basis) == (True, OverloadBasis.ABOVE)
    assert verdict.text == (
        "in all 8 readings of the last 120 s: load per CPU 1.50 or more, 50% or more of the time waiting for CPU: "
        "above 1 and 20%"
    )


def test_without_pressure_the_load_alone_counts() -> None:
    verdict = judge(readings(waiting=None))

    assert verdict.is_overloaded
    assert "waiting" not in verdict.text


def test_high_load_of_tasks_that_wait_for_disks_is_no_overload() -> None:
    assert judge(readings(load=8.0, waiting=0.2)).basis is OverloadBasis.LOW  # exactly the threshold is not above it


def test_pressure_without_load_is_no_overload() -> None:
    verdict = judge(readings(load=1.0, waiting=0.9))

    assert (verdict.is_overloaded, verdict.basis) == (False, OverloadBasis.LOW)
    assert verdict.text == "load per CPU 1.00, 90% of the time waiting for CPU, 0 s ago: not above 1 and 20%"


def test_one_reading_that_is_not_above_keeps_the_node_from_being_overloaded() -> None:
    low = LoadReading(seconds=NOW - 119, load_per_cpu=0.9)

    assert not judge([*readings(), low]).is_overloaded


def test_readings_before_the_window_and_after_now_do_not_count() -> None:
    outside = [LoadReading(seconds=NOW - 120, load_per_cpu=0.1), LoadReading(seconds=NOW + 1, load_per_cpu=0.1)]

    assert judge([*outside, *readings()]).is_overloaded


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_readings_that_are_no_numbers_do_not_count(number: float) -> None:
    assert judge([LoadReading(seconds=NOW - 1, load_per_cpu=number), *readings()]).is_overloaded
    assert judge([LoadReading(seconds=NOW - 1, load_per_cpu=number)]).basis is OverloadBasis.NO_DATA


@pytest.mark.parametrize("was", [False, True])
def test_no_reading_leaves_the_state_as_it_was(was: bool) -> None:
    verdict = judge([], was=was)

    assert (verdict.is_overloaded, verdict.basis) == (was, OverloadBasis.NO_DATA)


@pytest.mark.parametrize(
    "ages",
    [(0.0, 15.0, 30.0), (0.0, 15.0, 100.0), (60.0, 75.0, 90.0, 105.0)],
    ids=["just started", "a hole", "the newest are missing"],
)
def test_a_window_that_is_not_covered_does_not_make_a_node_overloaded(ages: tuple[float, ...]) -> None:
    verdict = judge(readings(ages=ages))

    assert (verdict.is_overloaded, verdict.basis) == (False, OverloadBasis.UNCOVERED)
    assert judge(readings(ages=ages), longest_gap=None).is_overloaded


def test_a_node_that_was_overloaded_stays_so_in_a_window_that_is_not_covered() -> None:
    assert judge(readings(ages=(0.0,)), was=True).basis is OverloadBasis.ABOVE


def test_between_release_and_threshold_the_state_stays() -> None:
    between = readings(load=0.9)

    assert judge(between, was=True).basis is OverloadBasis.BETWEEN
    assert judge(between, was=True).is_overloaded
    assert not judge(between, was=False).is_overloaded


def test_a_reading_at_the_release_ends_it_at_once() -> None:
    low = LoadReading(seconds=NOW - 3, load_per_cpu=0.8, waiting_ratio=0.5)

    verdict = judge([*readings(), low], was=True)

    assert (verdict.is_overloaded, verdict.basis) == (False, OverloadBasis.LOW)
    assert verdict.text == "load per CPU 0.80, 50% of the time waiting for CPU, 3 s ago: not above 0.8 and 10%"


def test_pressure_at_its_release_ends_it_whatever_the_load() -> None:
    assert not judge([*readings(load=9.0), *readings(load=9.0, waiting=0.1, ages=(1.0,))], was=True).is_overloaded
    assert judge(readings(load=9.0, waiting=0.15), was=True).is_overloaded


def test_by_the_load_alone_pressure_neither_keeps_an_overload_from_beginning_nor_ends_it() -> None:
    alone = OverloadOptions(pressure_counts=False, release_load_per_cpu=1.0)  # as the profile ``document`` has it

    verdict = judge(readings(waiting=0.0), options=alone)

    assert (verdict.is_overloaded, verdict.basis) == (True, OverloadBasis.ABOVE)
    assert verdict.text.endswith("load per CPU 1.50 or more: above 1")
    assert judge(readings(waiting=0.0), was=True, options=alone).is_overloaded
    assert not judge([*readings(), *readings(load=1.0, ages=(1.0,))], was=True, options=alone).is_overloaded
    assert not judge(readings(waiting=0.0)).is_overloaded


def test_a_release_above_the_threshold_is_taken_as_the_threshold() -> None:
    options = OverloadOptions(release_load_per_cpu=5.0, release_waiting_ratio=1.0)

    assert judge(readings(), was=True, options=options).is_overloaded
    assert not judge(readings(load=1.0), was=True, options=options).is_overloaded


@given(
    st.lists(st.tuples(st.floats(0, 200), st.floats(0, 3), st.none() | st.floats(0, 1)), max_size=12),
    st.booleans(),
)
def test_a_higher_load_never_ends_an_overload(rows: list[tuple[float, float, float | None]], was: bool) -> None:
    lower = [LoadReading(seconds=NOW - age, load_per_cpu=load, waiting_ratio=wait) for age, load, wait in rows]
    higher = [LoadReading(seconds=NOW - age, load_per_cpu=load + 1, waiting_ratio=wait) for age, load, wait in rows]

    if judge(lower, was=was).is_overloaded:
        assert judge(higher, was=was).is_overloaded


def test_waits_at_a_containers_own_limit_are_taken_out_of_the_pods_pressure() -> None:
    # 80 % of the time somebody waits, but all that the containers wait for others is 5 % + 10 %.
    assert pods_waiting_ratio(0.8, [0.05, 0.1, 0.0]) == pytest.approx(0.15)
    assert pods_waiting_ratio(0.3, [0.2, 0.25]) == 0.3


def test_where_a_containers_part_is_not_known_nothing_is_taken_out() -> None:
    assert pods_waiting_ratio(0.8, [0.05, None]) == 0.8
    assert pods_waiting_ratio(0.8, []) == 0.8
    assert pods_waiting_ratio(None, [0.1]) is None
