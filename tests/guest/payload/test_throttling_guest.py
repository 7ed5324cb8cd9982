"""A group slowed down by its own cpu.max, told apart from one that waits because the CPUs are taken."""

from __future__ import annotations

import pytest

from tests.guest.full_tree import FullTree
from tests.guest.watching import Seen, is_held, seen_where

pytestmark = pytest.mark.guest

SECONDS = 5.0


def test_group_held_by_its_own_cpu_max_is_throttled_and_does_not_wait(tree: FullTree) -> None:
    tree.make("c")
    tree.write("c", "cpu.max", "20000 100000")  # 20 of each 100 ms: 200 millicores
    tree.spawn("c", "busy")

    def is_held_and_stalls(seen: Seen) -> bool:  # so there is something to take out of the waiting
        # The kernel counts the throttling when it ends: where the host held the guest up meanwhile, in a later step
        # than the waiting, and more than that step is long; what is more counts for nothing.
        is_counted_in_time = seen.peak_rate("throttled_usec") <= 1.0
        return is_held(seen) and is_counted_in_time and seen.rate("cpu_some_usec") > 0.7

    window = seen_where(tree, "c", is_held_and_stalls, seconds=SECONDS).window

    assert window.throttled_ratio is not None
    assert window.waiting_ratio is not None
    assert window.usage_peak_millicores is not None
    # One loop that may run 20 % of the time is held for 80 %; the waiting that PSI sees meanwhile is just that.
    assert window.throttled_ratio > 0.6
    assert window.waiting_ratio < 0.2
    assert window.throttled_periods_ratio is not None
    assert window.throttled_periods_ratio > 0.8
    assert 100 < window.usage_peak_millicores < 400


def test_group_that_contends_for_the_cpus_waits_and_is_not_throttled(tree: FullTree) -> None:
    for _ in range(4):  # two loops for each of the guest's two CPUs: one always waits
        tree.spawn("c", "busy")

    def contends(seen: Seen) -> bool:
        return seen.rate("cpu_some_usec") > 0.8 and seen.rate("usage_usec") > 1.2

    window = seen_where(tree, "c", contends, seconds=SECONDS).window

    assert window.waiting_ratio is not None
    assert window.usage_peak_millicores is not None
    assert window.throttled_ratio == 0
    assert window.waiting_ratio > 0.7
    assert window.usage_peak_millicores > 1000
