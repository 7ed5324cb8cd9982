"""What is told at the end: faults by their number, growth with its noise, and the page."""

from __future__ import annotations

import pytest

from tests.e2e.steps import FAILED, OK, Row, Steps
from tests.experiment.intervals import Estimate
from tests.soak.day import jumps_minutes
from tests.soak.flatness import Growth
from tests.soak.schedule import Event, Kind, schedule
from tests.soak.verdicts import TOLD, growth_words, must, page


def test_faults_raise_with_the_first_of_them_and_their_number() -> None:
    must([], "are wrong")
    with pytest.raises(AssertionError, match=r"^1 are wrong: soak/web: lost$"):
        must(["soak/web: lost"], "are wrong")
    with pytest.raises(AssertionError, match=r"and 3 more"):
        must([str(number) for number in range(TOLD + 3)], "are wrong")


def test_each_step_forwards_of_the_clock_is_a_jump_from_where_it_stood() -> None:
    assert jumps_minutes(schedule(seed=1, seconds=600.0, pods=20, kills=2)) == [60, 60]
    events = [
        Event(second=second, kind=Kind.CLOCK_SET, offset_seconds=offset)
        for second, offset in ((1.0, -3600.0), (2.0, 1800.0))
    ]
    assert jumps_minutes(events) == [90]


def test_growth_is_told_with_the_noise_that_it_is_held_against() -> None:
    slope = Estimate(value=120.0, low=60.0, high=180.0, count=30)
    growth = Growth(lives=3, slope_per_hour=slope, life_seconds=120.0, scatter=2.5, least=4.0)
    assert growth_words(growth, 1.0, "descriptors") == (
        "+120.0 (+60.0 to +180.0) descriptors an hour over 3 lives of 120 s, +2.00 of them sure in a life, noise 5.00"
    )


def test_the_page_has_a_verdict_for_each_step_and_the_counts() -> None:
    steps = Steps("a day")
    steps.rows += [
        Row(title="flat", outcome=OK, seconds=0.1, note="no growth"),
        Row(title="whole", outcome=FAILED, seconds=0.1, note="a gap"),
    ]
    text = page(steps, {"agent_away_seconds": 3.5}, "a day")
    assert "| flat | PASS | no growth |" in text
    assert "| whole | FAIL | a gap |" in text
    assert "- agent away seconds: 3.5" in text
