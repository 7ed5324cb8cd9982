from __future__ import annotations

from typing import Any

import pytest

from agent.core.buffers.buffer import INT32_MAX, BufferQuota, Chunk, QuotaAllocation, ScopeTerm
from agent.core.buffers.quotas import QuotaClaim, allocate
from tests.capacity_buffers import cores, gibibytes, make_chunk, make_quota


def claim(wanted: int | None, chunk: Chunk | None = None, **fields: Any) -> QuotaClaim:
    return QuotaClaim(wanted=wanted, chunk=make_chunk() if chunk is None else chunk, **fields)


def allowed(claims: list[QuotaClaim], *quotas: BufferQuota) -> list[int | None]:
    return [None if allocation is None else allocation.allowed for allocation in allocate(claims, quotas).buffers]


@pytest.mark.parametrize(
    ("wanted", "quotas", "expected"),
    [
        ([5], [], [5]),
        ([5, 10], [make_quota()], [5, 5]),
        ([5], [make_quota(used=8)], [2]),
        ([5], [make_quota(cpu=5, used=4), make_quota("q2", used=8)], [1]),
        ([3], [make_quota(cpu=4, used=6)], [0]),
        ([3], [BufferQuota(name="q", hard={"cpu": cores(2)})], [2]),
        ([3], [BufferQuota(name="q", hard={"requests.cpu": cores(2)}, used={"requests.cpu": cores(1)})], [1]),
        ([3], [BufferQuota(name="q", hard={"limits.cpu": 0, "pods": 0, "count/jobs.batch": 0})], [3]),
        ([3], [make_quota(cpu=0, scopes=(ScopeTerm(scope="Terminating"),))], [3]),
        ([INT32_MAX], [make_quota(cpu=1e12)], [INT32_MAX]),
    ],
)
def test_earlier_buffers_take_room_first(
    wanted: list[int], quotas: list[BufferQuota], expected: list[int | None]
) -> None:
    assert allowed([claim(replicas) for replicas in wanted], *quotas) == expected


def test_a_buffer_cut_to_nothing_leaves_the_room_to_the_next() -> None:
    large = claim(2, make_chunk(cpu=cores(4)))
    assert allowed([large, claim(5)], make_quota(cpu=3)) == [0, 3]


def test_what_is_cut_reserves_what_it_got_in_every_quota_that_counts_it() -> None:
    both = make_chunk(cpu=cores(1), memory=gibibytes(1))
    quotas = [make_quota(cpu=2), BufferQuota(name="ram", hard={"memory": gibibytes(5)})]
    # The first gets two by its CPU, so three of five GiB are left to the others.
    assert allowed([claim(4, both), claim(9, make_chunk(memory=gibibytes(1)))], *quotas) == [2, 3]


def test_room_is_counted_exactly() -> None:
    odd = make_chunk(cpu=cores(0.0015))
    assert allowed([claim(9, odd)], make_quota(cpu=0.006)) == [4]
    assert allowed([claim(9, odd)], make_quota(cpu=0.005999999)) == [3]


def test_every_quota_below_the_wish_is_named_in_order_of_names() -> None:
    quotas = [make_quota("q2", cpu=2), make_quota("q9", cpu=9), make_quota("q1", cpu=1), make_quota("q5", cpu=5)]
    (allocation,) = allocate([claim(5)], quotas).buffers
    assert allocation == QuotaAllocation(
        wanted=5, allowed=1, by_quota={"q1": 1, "q2": 2, "q5": 5, "q9": 9}, limiting=("q1", "q2")
    )


def test_a_quota_that_names_nothing_requested_has_no_say() -> None:
    (allocation,) = allocate([claim(5)], [BufferQuota(name="ram", hard={"memory": 0})]).buffers
    assert allocation == QuotaAllocation(wanted=5, allowed=5)


@pytest.mark.parametrize("idle", [claim(None), QuotaClaim(wanted=3, chunk=None), claim(3, Chunk(requests={}))])
def test_what_is_not_sized_or_requests_nothing_is_not_asked(idle: QuotaClaim) -> None:
    assert allowed([idle, claim(9)], make_quota()) == [None, 9]


def test_a_request_of_nothing_is_asked_and_never_cut() -> None:
    assert allowed([claim(7, make_chunk(cpu=0))], make_quota(cpu=0)) == [7]


def test_a_quota_that_is_not_understood_is_left_out_and_told() -> None:
    bad_scope = make_quota("b", cpu=0, scopes=(ScopeTerm(scope="PriorityClass", operator="Like"),))
    result = allocate([claim(5), claim(5)], [bad_scope, make_quota("a", cpu=0, fault="spec: odd"), make_quota("c")])
    assert [allocation.allowed for allocation in result.buffers if allocation is not None] == [5, 5]
    assert result.faults == (
        "ResourceQuota a: spec: odd",
        "ResourceQuota b: its scopes are not understood: unknown operator",
    )


def test_what_a_buffers_own_pods_use_is_its_own_room() -> None:
    # Ten cores, nine in use, five of them by pods that keep this buffer's room: six chunks fit.
    assert allowed([claim(9, held={"cpu": cores(5)})], make_quota(used=9)) == [6]
    # What is given back is there for whoever comes first.
    assert allowed([claim(2), claim(9, held={"cpu": cores(5)})], make_quota(used=9)) == [2, 4]


def test_a_quota_never_has_more_room_than_it_grants() -> None:
    # Its pods were just made, and the quota that is known does not count all of them yet.
    assert allowed([claim(9, held={"cpu": cores(4)})], make_quota(cpu=4, used=1)) == [4]


def test_pods_of_a_buffer_that_is_idle_are_in_use_as_any_others() -> None:
    assert allowed([claim(None, held={"cpu": cores(5)}), claim(9)], make_quota(used=9)) == [None, 1]
