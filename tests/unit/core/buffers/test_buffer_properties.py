"""What holds of every namespace: bounds, order, monotony, rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.core.buffers.buffer import (
    INT32_MAX,
    Buffer,
    BufferQuota,
    BufferSizing,
    Chunk,
    ChunkRule,
    NamespaceFacts,
    ScopeTerm,
    SizeSpec,
    Unresolved,
)
from agent.core.buffers.chunks import size
from agent.core.buffers.quotas import QuotaClaim, allocate
from agent.core.numbers.units import NANOS_PER_MILLI
from tests.capacity_buffers import content, make_buffer, make_shape, pass_over, read_again, settled

NAMES = ("cpu", "memory", "nvidia.com/gpu")
AMOUNTS = st.one_of(st.integers(0, 20).map(lambda number: number * 10**9), st.integers(0, 10**22))
RESOURCES = st.dictionaries(st.sampled_from(NAMES), AMOUNTS)
COUNTS = st.one_of(st.integers(0, 30), st.integers(0, INT32_MAX))
SIZES = st.builds(SizeSpec, replicas=st.none() | COUNTS, percentage=st.none() | COUNTS, limits=st.none() | RESOURCES)
SCOPES = st.lists(
    st.sampled_from(
        [
            ScopeTerm(scope="NotTerminating"),
            ScopeTerm(scope="BestEffort"),
            ScopeTerm(scope="NotBestEffort"),
            ScopeTerm(scope="PriorityClass", operator="NotIn", values=("high",)),
            ScopeTerm(scope="PriorityClass", operator="Like"),
        ]
    ),
    max_size=1,
).map(tuple)
QUOTA_NAMES = st.sampled_from([*NAMES, *(f"requests.{name}" for name in NAMES), "limits.cpu", "pods"])
QUOTAS = st.lists(
    st.builds(
        BufferQuota,
        name=st.sampled_from("pqrs"),
        hard=st.dictionaries(QUOTA_NAMES, AMOUNTS),
        used=st.dictionaries(QUOTA_NAMES, AMOUNTS),
        scopes=SCOPES,
    ),
    max_size=3,
    unique_by=lambda quota: quota.name,
)
CHUNKS = st.builds(Chunk, requests=RESOURCES, priority_class=st.sampled_from([None, "high", "low"]))
CLAIMS = st.lists(st.builds(QuotaClaim, wanted=st.none() | COUNTS, chunk=CHUNKS), max_size=5)


def chunks(spec: SizeSpec, requests: dict[str, int], scalable_replicas: int | None) -> int:
    sized = size(spec, requests, scalable_replicas)
    return sized.replicas if isinstance(sized, BufferSizing) else -1


def millis(nanos: int) -> int:
    return -(-nanos // NANOS_PER_MILLI)


@given(SIZES, RESOURCES, st.none() | COUNTS)
def test_a_number_is_never_above_a_limit_nor_above_what_the_api_holds(
    spec: SizeSpec, requests: dict[str, int], scalable_replicas: int | None
) -> None:
    sized = size(spec, requests, scalable_replicas)
    if not isinstance(sized, BufferSizing):
        return
    assert 0 <= sized.replicas <= INT32_MAX
    for name, limit in (spec.limits or {}).items():
        assert sized.replicas * millis(requests.get(name, 0)) <= millis(limit)
    wishes = [wish for wish in (sized.by_replicas, sized.by_percentage) if wish is not None]
    wish = max(wishes, default=INT32_MAX)
    assert sized.replicas == min(wish, INT32_MAX if sized.by_limits is None else sized.by_limits)
    by = {
        ChunkRule.REPLICAS: sized.by_replicas,
        ChunkRule.PERCENTAGE: sized.by_percentage,
        ChunkRule.LIMITS: sized.by_limits,
    }
    assert by[sized.decided_by] == sized.replicas


@given(SIZES, RESOURCES, COUNTS, st.data())
def test_more_of_anything_never_gives_fewer_chunks(
    spec: SizeSpec, requests: dict[str, int], scalable_replicas: int, data: st.DataObject
) -> None:
    before = chunks(spec, requests, scalable_replicas)
    more = data.draw(st.integers(0, INT32_MAX))
    assert chunks(spec, requests, min(scalable_replicas + more, INT32_MAX)) >= before
    if spec.replicas is not None:
        assert chunks(replace(spec, replicas=spec.replicas + more), requests, scalable_replicas) >= before
    if spec.percentage is not None:
        assert chunks(replace(spec, percentage=spec.percentage + more), requests, scalable_replicas) >= before
    for name in spec.limits or {}:
        limits = {**(spec.limits or {}), name: (spec.limits or {})[name] + more}
        assert chunks(replace(spec, limits=limits), requests, scalable_replicas) >= before


def allowed(claims: list[QuotaClaim], quotas: list[BufferQuota]) -> list[int]:
    return [-1 if allocation is None else allocation.allowed for allocation in allocate(claims, quotas).buffers]


@given(CLAIMS, QUOTAS)
def test_all_buffers_together_never_take_more_than_a_quota_has(
    claims: list[QuotaClaim], quotas: list[BufferQuota]
) -> None:
    result = allocate(claims, quotas)
    for quota in quotas:
        for name, hard in quota.hard.items():
            taken = sum(
                allocation.allowed * (claim.chunk.requests.get(name.removeprefix("requests."), 0))
                for claim, allocation in zip(claims, result.buffers, strict=True)
                if allocation is not None and claim.chunk is not None and quota.name in allocation.by_quota
            )
            assert taken <= max(0, hard - quota.used.get(name, 0))
    for claim, allocation in zip(claims, result.buffers, strict=True):
        if allocation is not None:
            assert 0 <= allocation.allowed <= (claim.wanted or 0)
            assert (allocation.allowed < allocation.wanted) is bool(allocation.limiting)
            assert list(allocation.limiting) == sorted(allocation.limiting)


@given(CLAIMS, QUOTAS, st.data())
def test_a_larger_quota_or_less_use_serves_earlier_buffers_no_worse(
    claims: list[QuotaClaim], quotas: list[BufferQuota], data: st.DataObject
) -> None:
    before = allowed(claims, quotas)
    for place, quota in enumerate(quotas):
        for name in quota.hard:
            more = data.draw(AMOUNTS)
            hard = {**quota.hard, name: quota.hard[name] + more}
            used = {**quota.used, name: max(0, quota.used.get(name, 0) - more)}
            for larger in (replace(quota, hard=hard), replace(quota, used=used)):
                # Room that an earlier buffer takes may be missing to a later one: the order of words, not each number.
                assert allowed(claims, [*quotas[:place], larger, *quotas[place + 1 :]]) >= before


@given(CLAIMS, QUOTAS, st.integers(0, 5), st.integers(0, 100))
def test_a_larger_wish_gets_no_less_and_leaves_earlier_buffers_alone(
    claims: list[QuotaClaim], quotas: list[BufferQuota], place: int, more: int
) -> None:
    if place >= len(claims):
        return
    raised = replace(claims[place], wanted=(claims[place].wanted or 0) + more)
    before, after = allowed(claims, quotas), allowed([*claims[:place], raised, *claims[place + 1 :]], quotas)
    assert after[:place] == before[:place]
    assert after[place] >= before[place]


@given(CLAIMS, QUOTAS, st.randoms(use_true_random=False))
def test_the_order_of_quotas_does_not_matter(
    claims: list[QuotaClaim], quotas: list[BufferQuota], shuffler: Any
) -> None:
    shuffled = list(quotas)
    shuffler.shuffle(shuffled)
    assert allocate(claims, shuffled) == allocate(claims, quotas)


@st.composite
def namespaces(draw: st.DrawFn) -> NamespaceFacts:
    names = draw(st.lists(st.sampled_from(["a", "b", "c", "d"]), unique=True))
    buffers: list[Buffer] = []
    shapes: dict[str, Any] = {}
    for name in names:
        buffers.append(
            make_buffer(
                name,
                created_unix_seconds=float(draw(st.integers(0, 2))),
                size=draw(SIZES),
                strategy=draw(st.sampled_from([None, "", "buffer.x-k8s.io/active-capacity", "other"])),
                fault=draw(st.sampled_from([None, None, "odd"])),
            )
        )
        requests = {key: f"{nanos}n" for key, nanos in draw(RESOURCES).items()}
        shape = make_shape(content(requests), scalable_replicas=draw(st.none() | COUNTS))
        shapes[name] = draw(st.sampled_from([shape, shape, Unresolved(reason="gone")]))
    return NamespaceFacts(buffers=tuple(buffers), shapes=shapes, quotas=tuple(draw(QUOTAS)))


@given(namespaces(), st.randoms(use_true_random=False))
def test_the_order_in_which_buffers_are_found_does_not_matter(facts: NamespaceFacts, shuffler: Any) -> None:
    buffers = list(facts.buffers)
    shuffler.shuffle(buffers)
    assert settled(replace(facts, buffers=tuple(buffers)))[0] == settled(facts)[0]


@given(namespaces())
def test_over_its_own_result_a_pass_changes_nothing(facts: NamespaceFacts) -> None:
    result, facts = settled(facts)
    again = pass_over(read_again(facts, result), now_unix_seconds=2_000_000_000.0)
    assert again.orders == ()
    assert [outcome.is_changed for outcome in again.outcomes] == [False] * len(result.outcomes)
    assert [outcome.explanation for outcome in again.outcomes] == [outcome.explanation for outcome in result.outcomes]
    assert again.requeue == result.requeue
