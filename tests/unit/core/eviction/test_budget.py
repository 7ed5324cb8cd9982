"""Whether one more eviction is within the budgets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.core.eviction.budget import EvictionState, Replicas, Spent, back_off_seconds, budget_ruling, missing_ruling
from agent.core.eviction.options import ArbiterOptions
from agent.core.eviction.proposal import Reason
from tests.evictions import NOW

NOTHING = Spent(
    now_unix_seconds=NOW,
    cluster_minute=0,
    namespace_minute=0,
    node_hour=0,
    workload_hour=0,
    workload_missing=0,
    state=None,
    refusals=0,
    back_off_until_unix_seconds=None,
)
OPTIONS = ArbiterOptions(
    evictions_per_minute=4,
    namespace_evictions_per_minute=3,
    node_evictions_per_hour=2,
    workload_evictions_per_hour=5,
    workload_share_ratio=0.5,
)
TEN = Replicas(wanted=10, available=10)


def reason_of(spent: Spent, replicas: Replicas = TEN) -> Reason | None:
    ruling = budget_ruling(spent, replicas, OPTIONS)
    return None if ruling is None else ruling.reason


def test_nothing_spent_leaves_room() -> None:
    assert reason_of(NOTHING) is None


@pytest.mark.parametrize(
    ("one_left", "none_left", "reason"),
    [
        (replace(NOTHING, cluster_minute=3), replace(NOTHING, cluster_minute=4), Reason.CLUSTER_BUDGET),
        (replace(NOTHING, namespace_minute=2), replace(NOTHING, namespace_minute=3), Reason.NAMESPACE_BUDGET),
        (replace(NOTHING, node_hour=1), replace(NOTHING, node_hour=2), Reason.NODE_BUDGET),
        (replace(NOTHING, workload_hour=4), replace(NOTHING, workload_hour=5), Reason.WORKLOAD_BUDGET),
    ],
)
def test_each_budget_is_full_at_its_last_token(one_left: Spent, none_left: Spent, reason: Reason) -> None:
    assert reason_of(one_left) is None
    assert reason_of(none_left) is reason


def test_pod_is_evicted_once() -> None:
    assert reason_of(replace(NOTHING, state=EvictionState.EVICTED)) is Reason.ALREADY_EVICTED
    assert reason_of(replace(NOTHING, state=EvictionState.BEGUN)) is Reason.UNDER_WAY
    assert reason_of(replace(NOTHING, state=EvictionState.REFUSED)) is None
    assert reason_of(replace(NOTHING, state=EvictionState.VOID)) is None


def test_only_what_was_begun_or_made_holds_tokens() -> None:
    assert {state for state in EvictionState if state.holds_tokens} == {EvictionState.BEGUN, EvictionState.EVICTED}


@pytest.mark.parametrize(("until", "reason"), [(NOW + 0.1, Reason.BACKING_OFF), (NOW, None), (NOW - 1, None)])
def test_workload_that_was_refused_is_left_alone_for_a_while(until: float, reason: Reason | None) -> None:
    assert reason_of(replace(NOTHING, refusals=2, back_off_until_unix_seconds=until)) is reason


@pytest.mark.parametrize(
    ("refusals", "detail"),
    [
        (0, "the last eviction of its workload could not be carried out; tried again in 58 s"),
        (2, "its workload was refused 2 times in a row; tried again in 58 s"),
    ],
)
def test_a_wait_says_whether_anybody_refused(refusals: int, detail: str) -> None:
    # A server that is away, or a budget that is not worked out yet, is no refusal: it leaves the count as it was.
    ruling = budget_ruling(replace(NOTHING, refusals=refusals, back_off_until_unix_seconds=NOW + 58), TEN, OPTIONS)
    assert ruling is not None
    assert ruling.detail == detail


@pytest.mark.parametrize(
    ("wanted", "available", "evicted", "may"),
    [
        (10, 10, 4, True),  # the fifth of ten is a half
        (10, 10, 5, False),
        (10, 6, 0, True),
        (10, 5, 0, False),
        (10, 7, 2, False),  # three do not run, two were evicted lately
        (10, 12, 4, True),  # more than wanted, in a rollout, is not less than nothing missing
        (3, 3, 0, True),  # a half of three, rounded down
        (3, 3, 1, False),
        (2, 2, 0, True),
        (2, 1, 0, False),
        (0, 0, 0, False),
    ],
)
def test_no_more_than_a_share_of_a_workload_is_missing(wanted: int, available: int, evicted: int, *, may: bool) -> None:
    ruling = missing_ruling(Replicas(wanted=wanted, available=available), evicted, OPTIONS)
    assert (ruling is None) is may
    assert ruling is None or ruling.reason is Reason.REPLICAS_SHARE


def test_only_pod_of_a_workload_goes_where_that_is_asked_for_alone() -> None:
    single = Replicas(wanted=1, available=1)
    ruling = missing_ruling(single, 0, OPTIONS)
    assert ruling is not None
    assert ruling.reason is Reason.SINGLE_REPLICA
    allowed = replace(OPTIONS, single_replicas=True)
    assert missing_ruling(single, 0, allowed) is None
    ruling = missing_ruling(single, 1, allowed)
    assert ruling is not None
    assert ruling.reason is Reason.REPLICAS_SHARE


def test_share_of_nothing_lets_nobody_go() -> None:
    assert missing_ruling(TEN, 0, replace(OPTIONS, workload_share_ratio=0.0)) is not None


def test_back_off_doubles_up_to_its_most_and_is_never_less_than_asked() -> None:
    options = ArbiterOptions(refused_back_off_seconds=60.0, most_back_off_seconds=300.0)
    assert [back_off_seconds(count, options) for count in (0, 1, 2, 3, 10_000)] == [60.0, 120.0, 240.0, 300.0, 300.0]
    assert back_off_seconds(0, options, asked_seconds=10.0) == 60.0
    assert back_off_seconds(0, options, asked_seconds=900.0) == 900.0
