from __future__ import annotations

import numpy as np
import pytest

from agent.core.recommender.vpa.estimators import (
    LOWER_BOUND_WIDENING,
    UPPER_BOUND_WIDENING,
    Widening,
    confidence,
    cpu_minimums,
    memory_minimums,
    widening_factors,
    with_margin,
)

DAY_SECONDS = 86_400.0


def test_with_margin_truncates_the_share_and_adds_it() -> None:
    # 0.15 x 6 = 0.9, truncated to nothing; 0.15 x 125 = 18.75.
    assert with_margin(np.array([6, 125]), 0.15).tolist() == [6, 143]


def test_confidence_is_the_smaller_of_span_and_samples() -> None:
    first, last = np.array([0.0, 0.0, 0.0, 50.0]), np.array([43_200.0, 43_200.0, 86_400.0, 50.0])
    # Half a day each: 721 samples are a little more than half a day's 1440, 360 are a quarter; a day's span with ten
    # days' samples; and one sample has no span.
    confidences = confidence(first, last, [721, 360, 14_400, 1], interval_seconds=DAY_SECONDS)
    assert confidences.tolist() == [0.5, 0.25, 1.0, 0.0]


def test_confidence_counts_minutes_of_the_interval_as_go_does() -> None:
    # 100 s are 1 + 40/60 minutes; added up so, the float is one bit below 100/60.
    confidences = confidence(np.array([0.0]), np.array([1e9]), [1], interval_seconds=100.0)
    assert confidences[0] == 1.0 / (1.0 + 40.0 / 60.0)
    assert confidences[0] != 1.0 / (100.0 / 60.0)


def test_widening_factors_of_the_bounds() -> None:
    confidences = np.array([0.0, 0.5, 1.0, 8.0])
    assert widening_factors(confidences, UPPER_BOUND_WIDENING).tolist() == [np.inf, 3.0, 2.0, 1.125]
    lower = widening_factors(confidences, LOWER_BOUND_WIDENING)
    assert lower[0] == 0.0
    assert lower[1:] == pytest.approx([1.002**-2, 1.001**-2, 1.000125**-2], rel=1e-14)


def test_widening_factors_square_for_an_exponent_of_2() -> None:
    assert widening_factors(np.array([0.5]), Widening(0.5, 2)).tolist() == [4.0]  # (1 + 0.5 / 0.5) ^ 2


def test_widening_factors_leave_all_as_it_is_for_an_exponent_of_0() -> None:
    assert widening_factors(np.array([0.0, 0.5]), Widening(0.5, 0)).tolist() == [1.0, 1.0]


def test_minimums_are_shared_by_the_containers_of_the_pod_and_truncated() -> None:
    # 25 / 3 = 8.33 millicores; 262144000 / 3 = 87381333.3 bytes.
    assert cpu_minimums(25.0, [1, 3]).tolist() == [25, 8]
    assert memory_minimums(250.0, [1, 3]).tolist() == [262_144_000, 87_381_333]


def test_cpu_minimum_goes_through_cores() -> None:
    # 33 x 0.001 is 0.033; x 1000 is 33.0. 9 x 0.001 is 0.009000000000000001, still 9. 19.7 is truncated.
    assert [int(cpu_minimums(minimum, 1)) for minimum in (33.0, 9.0, 19.7)] == [33, 9, 19]
