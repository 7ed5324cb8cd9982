from __future__ import annotations

from dataclasses import replace
from typing import Any

from agent.core.history.reports.rollup import OutOfMemoryKill, RollupRow, ShareRow
from agent.core.history.workloads.fare import Fare
from agent.core.history.workloads.share_groups import ShareGroups, ShareSample, share_sample
from agent.core.orders.guard_options import GuardOptions
from tests.directives import WEB

OPTIONS = GuardOptions()
"""Of 900 s, so 225 s of each group at least."""
NOON = 1_800_000_000.0


def sample(pod: str, is_enforced: bool, at: float = NOON, share: str = "10 %", **fields: Any) -> ShareSample:
    known: dict[str, Any] = {
        "seconds": 300.0,
        "cpu_seconds": 300.0,
        "waiting_seconds": 0.0,
        "throttled_seconds": 0.0,
    }
    return ShareSample(at, share, is_enforced, pod, Fare(**known | fields))


def groups(*samples: ShareSample) -> ShareGroups:
    pair = ShareGroups()
    for observation in samples:
        pair.take(observation, window_seconds=OPTIONS.share_window_seconds)
    return pair


def test_a_row_of_a_workload_under_a_share_is_a_sample() -> None:
    row = RollupRow(
        workload=WEB,
        container="app",
        pod="web-1",
        pod_uid="u1",
        pod_age_seconds=None,
        covered_seconds=300.0,
        cpu=None,
        cpu_adjusted=None,
        memory=None,
        throttled_seconds=3.0,
        oom_kills=(OutOfMemoryKill(age_seconds=1.0, memory_bytes=None),),
        share=ShareRow(share="10 %", is_enforced=True, restarts=2, unready_seconds=30.0),
    )
    assert share_sample(replace(row, share=None), NOON) is None
    observation = share_sample(row, NOON)
    assert observation == ShareSample(
        NOON,
        "10 %",
        True,
        "u1",
        Fare(seconds=300.0, restarts=2, kills=1, unready_seconds=30.0, cpu_seconds=0.0, throttled_seconds=3.0),
    )


def test_both_groups_stand_side_by_side() -> None:
    pair = groups(sample("a", True, restarts=1), sample("b", False), sample("c", False), sample("b", False, NOON + 300))
    assert (pair.share, pair.last_unix_seconds) == ("10 %", NOON + 300)
    enforced, others = pair.fares()
    assert (enforced.is_enforced, enforced.pods, enforced.fare.restarts) == (True, 1, 1)
    assert (others.is_enforced, others.pods, others.fare.seconds) == (False, 2, 900.0)
    assert (ShareGroups().share, ShareGroups().last_unix_seconds, ShareGroups().fares()) == (None, 0.0, ())


def test_a_slower_enforced_group_is_taken_back_and_slowness_of_all_is_not() -> None:
    slow: dict[str, Any] = {"waiting_seconds": 90.0}
    pair = groups(sample("a", True, **slow), sample("b", False))
    assert pair.why_taken_back(OPTIONS) == "waiting for CPU 30% of the time, 0% in the other pods"
    assert pair.why_taken_back(GuardOptions(active=False)) is None
    assert groups(sample("a", True, **slow), sample("b", False, **slow)).why_taken_back(OPTIONS) is None
    assert groups(sample("a", True), sample("b", False, **slow)).why_taken_back(OPTIONS) is None


def test_without_the_other_group_nothing_is_told() -> None:
    assert groups(sample("a", True, restarts=9)).why_taken_back(OPTIONS) is None
    assert groups().why_taken_back(OPTIONS) is None


def test_old_rows_and_those_of_another_share_are_forgotten() -> None:
    pair = groups(sample("a", True, restarts=9), sample("b", False))
    pair.take(sample("b", False, NOON + 899), window_seconds=900.0)
    assert pair.why_taken_back(OPTIONS) is not None
    pair.take(sample("a", True, NOON + 900), window_seconds=900.0)
    assert pair.why_taken_back(OPTIONS) is None, "what was at noon is too old"
    pair.take(sample("a", True, NOON + 901, share="20 %"), window_seconds=900.0)
    assert (pair.share, len(pair.fares())) == ("20 %", 1)


def test_what_one_node_says_of_the_share_is_of_its_own_pods_alone() -> None:
    """Else one report of another share, every few minutes, keeps one that harms from ever being taken back."""
    slow: dict[str, Any] = {"waiting_seconds": 90.0}
    honest = (sample("a", True, **slow), sample("b", False), sample("c", False))
    lies = (sample("d", False, NOON + 1, share="99 %"), sample("d", False, NOON + 2, share="98 %"))
    pair = groups(*honest, *lies)
    assert pair.share == "10 %"
    assert pair.why_taken_back(OPTIONS) == "waiting for CPU 30% of the time, 0% in the other pods"
    assert pair.fares()[1].pods == 2
    pair = groups(*lies, *honest)
    assert (pair.share, pair.fares()[1].pods) == ("10 %", 2)


def test_another_share_is_in_force_when_most_pods_are_under_it() -> None:
    pair = groups(*(sample(pod, pod == "a", share="10 %") for pod in "abc"))
    for pod, share in (("a", "10 %"), ("b", "20 %"), ("c", "20 %")):
        assert pair.share == "10 %"
        pair.take(sample(pod, pod == "a", NOON + 300, share=share), window_seconds=900.0)
    assert pair.share == "20 %"
    pair.take(sample("c", False, NOON + 100, share="10 %"), window_seconds=900.0)
    assert pair.share == "20 %", "what is told late is of before"


def test_rows_that_waited_somewhere_do_not_turn_back_the_clock() -> None:
    pair = groups(sample("a", True, NOON))
    pair.take(sample("b", False, NOON - 300), window_seconds=900.0)
    assert (len(pair.fares()), pair.last_unix_seconds) == (2, NOON)
    pair.take(sample("c", False, NOON - 900), window_seconds=900.0)
    pair.take(sample("d", False, NOON - 1, share="5 %"), window_seconds=900.0)
    assert pair.fares()[1].pods == 1
