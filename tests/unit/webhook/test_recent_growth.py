"""Growth that quotas do not show yet is remembered for seconds, and bounded."""

from __future__ import annotations

import threading

import pytest

from agent.webhook import recent_growth
from agent.webhook.recent_growth import UNSEEN_SECONDS, RecentGrowth
from tests.fakes import FakeClock


def test_growth_is_summed_by_namespace_and_name_until_it_is_old() -> None:
    clock = FakeClock()
    growth = RecentGrowth(lambda: clock.seconds)
    growth.add("shop", {"memory": 5, "cpu": 1})
    clock.advance(UNSEEN_SECONDS)
    growth.add("shop", {"memory": 7})
    growth.add("bank", {"memory": 9})
    assert growth.of("shop") == {"memory": 12, "cpu": 1}
    assert growth.of("bank") == {"memory": 9}
    assert growth.of("nowhere") == {}
    clock.advance(0.001)
    assert growth.of("shop") == {"memory": 7}
    clock.advance(UNSEEN_SECONDS)
    assert growth.of("shop") == growth.of("bank") == {}
    assert (len(growth), growth._sums) == (0, {})


def test_only_so_many_admissions_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_growth, "MOST_ADMISSIONS", 3)
    growth = RecentGrowth(lambda: 1.0)
    for amount in range(10):
        growth.add("shop", {"memory": amount})
    assert (len(growth), growth.of("shop")) == (3, {"memory": 7 + 8 + 9})


def test_several_threads_add_up() -> None:
    growth = RecentGrowth(lambda: 1.0)

    def add() -> None:
        for _ in range(500):
            growth.add("shop", {"memory": 1})

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert growth.of("shop") == {"memory": 2000}
