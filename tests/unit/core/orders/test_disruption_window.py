from __future__ import annotations

import pytest

from agent.core.orders.disruption_window import DisruptionWindow, DisruptionWindowError, window_of

DAY_UNIX_SECONDS = 20_000 * 86_400
"""A midnight."""


def holds(window: DisruptionWindow, hour: float) -> bool:
    return window.holds(DAY_UNIX_SECONDS + hour * 3600)


def test_the_start_belongs_to_the_window_and_the_end_does_not() -> None:
    window = window_of("30 9 * * *", "0 17 * * *")
    assert [holds(window, hour) for hour in (9.49, 9.5, 16.99, 17.0)] == [False, True, True, False]


def test_a_window_may_cross_midnight() -> None:
    window = window_of("0 22 * * *", "0 4 * * *")
    assert [holds(window, hour) for hour in (21.99, 22.0, 0.0, 3.99, 4.0)] == [False, True, True, True, False]


def test_equal_expressions_never_close() -> None:
    window = window_of("0 3 * * *", " 0  3 * * * ")
    assert all(holds(window, hour) for hour in (0.0, 3.0, 23.9))


@pytest.mark.parametrize("cron", ["", "0 3 * *", "60 3 * * *", "0 24 * * *", "* 3 * * *", "0 3 * * 1", "٣ 3 * * *"])
def test_what_is_not_daily_is_refused(cron: str) -> None:
    with pytest.raises(DisruptionWindowError, match="is not understood; allowed: a daily cron expression"):
        window_of("0 3 * * *", cron)
    with pytest.raises(DisruptionWindowError):
        window_of(cron, "0 3 * * *")
