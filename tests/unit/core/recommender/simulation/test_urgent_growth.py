"""Growth of who is short, row by row, derived by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from agent.core.recommender.simulation.urgent_growth import UrgentGrowth


def lived(
    usage: Sequence[float | None], request: float | None, *, reaction: float, row: float = 1.0, most: float = 1e9
) -> list[float]:
    """Give the request at the end of each row."""
    growth = UrgentGrowth(1, reaction_seconds=reaction, row_seconds=row, most_millicores=most)
    now, has = np.array([request or 0.0]), np.array([request is not None])
    ends = []
    for used in usage:
        now = growth.live(np.array([used or 0.0]), np.array([used is not None]), now, has)
        ends.append(float(now[0]))
    return ends


@pytest.mark.parametrize(
    ("reaction", "row", "share"),
    [
        (0, 60, 1.0),
        (2, 60, 58 / 60),
        (60, 60, 0.0),
        (90, 60, 0.5),
        (2, 1, 0.0),
        (2.5, 1, 0.5),
        (0.25, 1, 0.75),
    ],
)
def test_grown_share_is_what_the_reaction_leaves_of_its_last_row(reaction: float, row: float, share: float) -> None:
    growth = UrgentGrowth(1, reaction_seconds=reaction, row_seconds=row, most_millicores=1e9)
    assert growth.grown_share == pytest.approx(share)


def test_row_above_the_request_grows_to_its_usage_rounded_up() -> None:
    assert lived([100, 250.4, 200], 200.0, reaction=2, row=60) == [200.0, 251.0, 251.0]


def test_reaction_longer_than_a_row_lands_rows_later_at_the_largest_usage_since() -> None:
    # Two seconds: the shortage begins in row 1, the growth comes with the end of row 2.
    assert lived([100, 300, 250, 100], 200.0, reaction=2) == [200.0, 200.0, 300.0, 300.0]
    assert lived([100, 300, 400, 100], 200.0, reaction=2) == [200.0, 200.0, 400.0, 400.0]


def test_shortage_that_is_over_before_the_answer_is_answered_all_the_same() -> None:
    assert lived([300, 100, None, 100], 200.0, reaction=3) == [200.0, 200.0, 300.0, 300.0]


def test_second_shortage_begins_a_reaction_of_its_own() -> None:
    assert lived([300, 300, 400, 400], 200.0, reaction=2) == [200.0, 300.0, 300.0, 400.0]


def test_unknown_rows_and_unsized_containers_are_not_short() -> None:
    assert lived([None, None], 200.0, reaction=0) == [200.0, 200.0]
    assert lived([300, 300], None, reaction=0) == [0.0, 0.0]


def test_growth_ends_at_the_most_allowed_and_never_lowers_a_request() -> None:
    assert lived([900], 200.0, reaction=0, most=500.0) == [500.0]
    assert lived([900], 600.0, reaction=0, most=500.0) == [600.0]
