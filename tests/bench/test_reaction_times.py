from __future__ import annotations

import pytest

from tests.bench.reaction_times import Odd, Outcome, figures


def test_early_runs_are_left_out_and_late_ones_count_with_all_the_patience() -> None:
    # 0.2, 0.4, and 30 of the late one: the median is 0.4
    outcomes: list[Outcome] = [0.4, Odd.EARLY, Odd.LATE, 0.2]

    assert figures("reaction", outcomes, patience_seconds=30.0) == {
        "reaction_min_seconds": 0.2,
        "reaction_p50_seconds": 0.4,
        "reaction_p99_seconds": 30.0,
        "reaction_max_seconds": 30.0,
        "reaction_runs": 3.0,
        "reaction_runs_left_out": 1.0,
        "reaction_runs_late": 1.0,
    }


@pytest.mark.parametrize("outcomes", [[], [Odd.EARLY]], ids=["none", "only early ones"])
def test_no_run_that_counts_gives_counts_alone(outcomes: list[Outcome]) -> None:
    counts = figures("reaction", outcomes, patience_seconds=30.0)

    assert counts == {
        "reaction_runs": 0.0,
        "reaction_runs_left_out": float(len(outcomes)),
        "reaction_runs_late": 0.0,
    }


def test_p99_of_two_hundred_runs_is_the_second_largest() -> None:
    # Index int(200 * 0.99) = 198 of 0..199
    assert figures("r", [float(number) for number in range(200)], patience_seconds=1.0)["r_p99_seconds"] == 198.0
