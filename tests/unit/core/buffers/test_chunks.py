from __future__ import annotations

from collections.abc import Mapping

import pytest

from agent.core.buffers.buffer import INT32_MAX, BufferSizing, ChunkRule, NotSized, SizeSpec
from agent.core.buffers.chunks import NO_COMMON_RESOURCE, NOTHING_DEFINED, room_in_limits, share, size
from agent.core.numbers.quantity import parse_quantity
from tests.capacity_buffers import cores, gibibytes

ONE_CORE = {"cpu": cores(1)}


def sized(spec: SizeSpec, requests: Mapping[str, int], scalable_replicas: int | None = None) -> BufferSizing:
    result = size(spec, requests, scalable_replicas)
    assert isinstance(result, BufferSizing)
    return result


def refused(spec: SizeSpec, requests: Mapping[str, int]) -> str:
    result = size(spec, requests, None)
    assert isinstance(result, NotSized)
    return result.reason


@pytest.mark.parametrize(
    ("spec", "scalable_replicas", "replicas", "decided_by"),
    [
        (SizeSpec(replicas=5), None, 5, ChunkRule.REPLICAS),
        (SizeSpec(replicas=0), None, 0, ChunkRule.REPLICAS),
        (SizeSpec(replicas=-2), None, 0, ChunkRule.REPLICAS),
        (SizeSpec(percentage=33), 10, 4, ChunkRule.PERCENTAGE),
        (SizeSpec(percentage=50), 0, 0, ChunkRule.PERCENTAGE),
        (SizeSpec(replicas=15, percentage=200), 10, 20, ChunkRule.PERCENTAGE),
        (SizeSpec(replicas=1, percentage=10), 25, 3, ChunkRule.PERCENTAGE),
        (SizeSpec(replicas=5, percentage=50), 10, 5, ChunkRule.REPLICAS),
        (SizeSpec(replicas=3, percentage=50), None, 3, ChunkRule.REPLICAS),
        (SizeSpec(limits={"cpu": cores(20)}), None, 20, ChunkRule.LIMITS),
        (SizeSpec(replicas=3, limits={"cpu": cores(3)}), None, 3, ChunkRule.REPLICAS),
        (SizeSpec(replicas=3, limits={"cpu": cores(2.9)}), None, 2, ChunkRule.LIMITS),
        (SizeSpec(replicas=3, limits={"cpu": cores(0.1)}), None, 0, ChunkRule.LIMITS),
    ],
)
def test_the_number_and_what_settled_it(
    spec: SizeSpec, scalable_replicas: int | None, replicas: int, decided_by: ChunkRule
) -> None:
    result = sized(spec, ONE_CORE, scalable_replicas)
    assert (result.replicas, result.decided_by) == (replicas, decided_by)


def test_each_part_is_told_beside_the_result() -> None:
    # 50 % of 9 is 4.5, so 5 chunks; 9 GiB hold two chunks of 4 GiB, 2 cores hold twenty of 100m.
    limits = {"memory": gibibytes(9), "cpu": cores(2), "nvidia.com/gpu": cores(1)}
    spec = SizeSpec(replicas=3, percentage=50, limits=limits)
    result = sized(spec, {"cpu": cores(0.1), "memory": gibibytes(4)}, 9)
    assert (result.by_replicas, result.by_percentage, result.by_limits) == (3, 5, 2)
    assert result.limiting_resource == "memory"
    assert result.replicas == 2


def test_of_resources_with_equal_room_the_first_by_name_is_told() -> None:
    requests = {"memory": gibibytes(1), "cpu": cores(1)}
    assert room_in_limits({"memory": gibibytes(2), "cpu": cores(2)}, requests) == (2, "cpu")


@pytest.mark.parametrize("spec", [SizeSpec(), SizeSpec(percentage=50)])
def test_without_any_size_there_is_no_number(spec: SizeSpec) -> None:
    assert refused(spec, ONE_CORE) == NOTHING_DEFINED


@pytest.mark.parametrize(
    ("limits", "requests"),
    [
        ({}, ONE_CORE),
        ({"memory": gibibytes(1)}, ONE_CORE),
        ({"cpu": cores(1)}, {"cpu": 0}),
        ({"requests.cpu": cores(1)}, ONE_CORE),
    ],
)
def test_limits_that_name_nothing_the_chunk_requests_are_a_mistake(
    limits: dict[str, int], requests: dict[str, int]
) -> None:
    assert refused(SizeSpec(replicas=1, limits=limits), requests) == NO_COMMON_RESOURCE


def test_a_negative_limit_is_a_mistake_even_where_another_one_fits() -> None:
    spec = SizeSpec(limits={"cpu": cores(4), "memory": -cores(1), "gpu": -1})
    assert refused(spec, ONE_CORE) == "limit -1n of gpu is negative (0 or more is allowed)"


@pytest.mark.parametrize(
    ("limit", "request_", "chunks"),
    [
        ("1500u", "1m", 2),
        ("1u", "1m", 1),
        ("0", "1u", 0),
        ("3m", "1001u", 1),
        ("16Pi", "8Pi", 2),
        ("4Ei", "1", INT32_MAX),
        ("1e40", "1e39", 10),
    ],
)
def test_limits_count_in_thousandths_rounded_up_and_of_any_size(limit: str, request_: str, chunks: int) -> None:
    limits, requests = {"x": parse_quantity(limit)}, {"x": parse_quantity(request_)}
    assert room_in_limits(limits, requests) == (chunks, "x")


@pytest.mark.parametrize(
    ("percentage", "replicas", "chunks"),
    [
        (1, 1, 1),
        (10, 10, 1),
        (101, 100, 101),
        (-5, 10, 0),
        (5, -10, 0),
        (INT32_MAX, 10, 214_748_365),
        (INT32_MAX, INT32_MAX, INT32_MAX),
    ],
)
def test_a_share_is_rounded_up_and_does_not_wrap(percentage: int, replicas: int, chunks: int) -> None:
    assert share(percentage, replicas) == chunks
