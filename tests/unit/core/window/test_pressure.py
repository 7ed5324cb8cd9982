from __future__ import annotations

import pytest

from agent.core.window.pressure import adjusted_demand, psi_waiting_rate


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


def test_adjusted_demand_adds_the_wait_and_without_one_is_the_usage() -> None:
    assert adjusted_demand(1000, 0.3) == pytest.approx(1300)
    assert adjusted_demand(800, 0.0) == 800
