from __future__ import annotations

import numpy as np
import pytest

from agent.core.recommender.plimsoll.dead_band import RISE_RATIO, follow


@pytest.mark.parametrize(
    ("said", "wanted", "answer"),
    [
        (0.0, 100.0, 100.0),  # nothing was said before
        (100.0, 100.0, 100.0),
        (100.0, 91.0, 100.0),  # a fall of less than a tenth
        (100.0, 90.0, 90.0),
        (100.0, 101.0, 100.0 * RISE_RATIO),  # too small to be made, so it is made whole
        (100.0, 106.0, 106.0),
        (100.0, 0.0, 0.0),
        (0.0, 0.0, 0.0),
    ],
)
def test_follow(said: float, wanted: float, answer: float) -> None:
    assert follow(np.array([said]), np.array([wanted])).tolist() == [answer]


def test_a_rise_made_whole_is_one_that_the_bounds_make() -> None:
    # 5 % of the request, and rounding up to a millicore on either side.
    assert np.ceil(1000 * RISE_RATIO) - 1000 >= 0.05 * 1000
