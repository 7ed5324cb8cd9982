"""File cache that nobody came back for is left out of requests, and never lowers a limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.unit import UnitResources
from agent.core.orders.policy_options import BoundsOptions
from agent.core.recommender.bounds import apply
from agent.core.recommender.policy import LimitRule
from agent.core.recommender.recommendation import Bound
from agent.core.recommender.recommender import ReasonedRecommendation, explain, recommend
from agent.core.recommender.subject import Conditions
from agent.core.window.cold_file import asked_for, may_leave_out
from agent.core.window.snapshot import ColdFile
from tests.subjects import MI, TimesPolicy, bools, floats, memory_window, proposals, stated, subject

CONDITIONS = Conditions(min_span_seconds=600.0, max_age_seconds=15.0)
EXACT = BoundsOptions(min_memory_bytes=1, round_memory_bytes=1, smallest_memory_change_bytes=0, smallest_change_ratio=0)
LEFT_OUT = "left out: file cache that nobody came back for"


def cold(active_bytes: int, *, is_left_out: bool) -> ColdFile:
    return ColdFile(
        total_bytes=active_bytes, active_bytes=active_bytes, refaulted_bytes=0, window_seconds=1800.0,
        is_left_out=is_left_out,
    )  # fmt: skip


def told(
    cold_file: ColdFile | None, policy: TimesPolicy, resources: UnitResources, **memory: Any
) -> ReasonedRecommendation:
    """What is recommended for 900 MiB of working set, by both ways that lead there."""
    container = subject(
        memory=asked_for(memory_window(900 * MI, cold_file=cold_file, **memory)),
        resources=resources,
        keeps_memory_limit=cold_file is not None and cold_file.is_left_out and may_leave_out(resources),
    )
    reasoned = explain(container, policy, now_unix_seconds=1e9, conditions=CONDITIONS, options=EXACT)
    (item,) = recommend([container], policy, now_unix_seconds=1e9, conditions=CONDITIONS, options=EXACT)
    assert reasoned.recommendation == item
    return reasoned


def test_exclude_asks_for_the_rest_and_says_so_first() -> None:
    resources = UnitResources(memory_request_bytes=2000 * MI)
    answer = told(cold(300 * MI, is_left_out=True), TimesPolicy(1.0), resources)
    assert answer.recommendation.memory_bytes.request == 600 * MI
    first = next(step for step in answer.steps if step.resource == "memory")
    assert (first.what, first.value) == (LEFT_OUT, 300.0 * MI)


def test_report_changes_nothing_at_all() -> None:
    resources = UnitResources(memory_request_bytes=2000 * MI, memory_limit_bytes=3000 * MI)
    policy = TimesPolicy(1.0, memory_limit_bytes=floats(1000.0 * MI), has_memory_limit=bools(True))
    reported, unknown = (told(cold_file, policy, resources) for cold_file in (cold(300 * MI, is_left_out=False), None))
    assert reported == unknown
    assert reported.recommendation.memory_bytes.limit == 1000 * MI


def test_what_is_in_use_now_holds_the_request_without_the_cold_cache() -> None:
    # The policy would have half of what it sees; 1,200 MiB are in use now, 300 of them cold.
    resources = UnitResources(memory_request_bytes=2000 * MI)
    answer = told(cold(300 * MI, is_left_out=True), TimesPolicy(0.5), resources, working_set=1200 * MI)
    memory = answer.recommendation.memory_bytes
    assert (memory.request, memory.bounds) == (900 * MI, (Bound.IN_USE,))


@pytest.mark.parametrize("rule", list(LimitRule))
def test_the_limit_does_not_fall_and_says_why(rule: LimitRule) -> None:
    resources = UnitResources(memory_request_bytes=2000 * MI, memory_limit_bytes=3000 * MI)
    own: dict[str, Any] = {"memory_limit_bytes": floats(1000.0 * MI), "has_memory_limit": bools(True)}
    policy = TimesPolicy(1.0, rule=rule, **({} if rule is LimitRule.PROPORTIONAL else own))
    answer = told(cold(300 * MI, is_left_out=True), policy, resources)
    memory = answer.recommendation.memory_bytes
    assert (memory.request, memory.limit, memory.bounds) == (600 * MI, None, (Bound.IN_USE,))
    (limit_step,) = [step for step in answer.steps if step.what.startswith("limit ")]
    assert limit_step.note == "not lowered: memory.coldFile is exclude"
    grown = told(cold(0, is_left_out=True), TimesPolicy(4.0, rule=rule), resources).recommendation.memory_bytes
    assert grown.request is not None
    if rule is not LimitRule.KEEP:  # raised as ever
        assert (grown.limit or 0) > 3000 * MI


@given(
    request=st.integers(1, 1 << 40),
    beyond=st.integers(1, 1 << 40),
    current=st.one_of(st.none(), st.integers(0, 1 << 41)),
    proposed=st.integers(0, 1 << 41),
    named=st.one_of(st.none(), st.integers(1, 1 << 41)),
    rule=st.sampled_from(LimitRule),
)
def test_a_limit_that_is_kept_never_falls_and_else_goes_as_it_would(
    request: int, beyond: int, current: int | None, proposed: int, named: int | None, rule: LimitRule
) -> None:
    now = stated(memory=request, memory_limit=request + beyond, current=current, keeps_limit=True)
    asked = proposals(memory=proposed, memory_limit=named, rule=rule)
    limit_keeper, free = (apply(asked, state, EXACT) for state in (now, replace(now, keeps_memory_limit=None)))
    assert limit_keeper.memory_request_bytes[0] == free.memory_request_bytes[0]
    if limit_keeper.has_memory_limit[0]:
        assert limit_keeper.memory_limit_bytes[0] > request + beyond
    if free.has_memory_limit[0] and free.memory_limit_bytes[0] > request + beyond:
        assert limit_keeper.memory_limit_bytes[0] == free.memory_limit_bytes[0]
