from __future__ import annotations

import numpy as np
import pytest

from agent.core.orders.plan_options import ActOptions
from agent.core.recommender.calm_falls import NEVER, CalmFalls, calm_falls_of

HOURLY = CalmFalls(interval_seconds=3600.0, after_growth_seconds=10_800.0, ratio=0.3)


def begin(fell: float, grown: float, rule: CalmFalls = HOURLY) -> float:
    return float(rule.begin_seconds(np.array(fell), np.array(grown)))


def test_what_never_fell_nor_grew_may_fall_at_any_time() -> None:
    assert begin(NEVER, NEVER) == NEVER


@pytest.mark.parametrize(("fell", "allowed"), [(7200.0, 10_800.0), (10_799.0, 10_800.0), (10_800.0, 14_400.0)])
def test_a_fall_waits_for_the_next_hour_of_the_clock(fell: float, allowed: float) -> None:
    assert begin(fell, NEVER) == allowed


def test_a_fall_waits_after_a_growth_whichever_ends_later() -> None:
    assert begin(NEVER, 100.0) == 10_900.0  # three hours later
    assert begin(50_000.0, 100.0) == 50_400.0  # the hour that begins after 50,000


def test_an_interval_of_nothing_leaves_the_growth_alone_to_wait_for() -> None:
    rule = CalmFalls(interval_seconds=0.0, after_growth_seconds=60.0, ratio=0.0)
    assert begin(50_000.0, 100.0, rule) == 160.0
    assert begin(50_000.0, NEVER, rule) == NEVER


def test_a_fall_is_worth_it_from_its_share_on() -> None:
    assert HOURLY.is_worth(1000, 700)
    assert not HOURLY.is_worth(1000, 701)
    worth = HOURLY.is_worth(np.array([100.0, 100.0]), np.array([70.0, 71.0]))
    assert np.asarray(worth).tolist() == [True, False]


def test_rows_are_judged_each_by_itself() -> None:
    fell, grown = np.array([NEVER, 0.0, NEVER]), np.array([NEVER, NEVER, 0.0])
    assert HOURLY.begin_seconds(fell, grown).tolist() == [NEVER, 3600.0, 10_800.0]


def test_the_rule_is_that_of_the_settings() -> None:
    assert calm_falls_of(ActOptions()) == HOURLY
