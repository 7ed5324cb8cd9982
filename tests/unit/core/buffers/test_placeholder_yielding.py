"""Which placeholders of a node make room for its real pods."""

from __future__ import annotations

from typing import Any

import pytest

from agent.core.buffers.placeholders import MOST_AT_ONCE, who_gives_way
from agent.core.cluster.pod import CPU, MEMORY, Pod
from agent.core.numbers.units import NANOS_PER_MILLI
from tests.placeholders import container, content, placeholder_pod, read, shape_of


def placeholder(name: str, cpu: str = "1", **more: Any) -> Pod:
    return read(placeholder_pod(shape_of(content(container("app", cpu=cpu))), name, **more))


def named(*pods: Pod, lacking_millicores: int = 0, resource: str = CPU) -> list[str]:
    lacking = lacking_millicores * NANOS_PER_MILLI
    return [pod.name for pod in who_gives_way(pods, node="node-a", resource=resource, lacking_nanos=lacking)]


SMALL, MIDDLE, LARGE = placeholder("small", "500m"), placeholder("middle", "1"), placeholder("large", "2")


@pytest.mark.parametrize(
    ("lacking_millicores", "expected"),
    [
        (0, ["small"]),  # how much is not known: one, the smallest
        (-300, ["small"]),
        (500, ["small"]),
        (501, ["middle"]),
        (1200, ["large"]),
        (2001, ["large", "small"]),
        (3001, ["large", "middle", "small"]),
        (9000, ["large", "middle", "small"]),
    ],
)
def test_as_few_and_as_small_as_will_do(lacking_millicores: int, expected: list[str]) -> None:
    assert named(LARGE, SMALL, MIDDLE, lacking_millicores=lacking_millicores) == expected


def test_of_the_same_size_the_first_by_name() -> None:
    assert named(placeholder("b"), placeholder("a")) == ["a"]


def test_only_those_that_stand_on_the_node_and_belong_to_a_buffer() -> None:
    assert (
        named(
            placeholder("elsewhere", node="node-b"),
            placeholder("waiting", node=None),
            placeholder("ended", phase="Failed"),
            placeholder("strange", metadata={"ownerReferences": []}),
            placeholder("going", metadata={"deletionTimestamp": "2026-11-21T00:00:00Z"}),
        )
        == []
    )


def test_one_that_holds_nothing_of_it_stays() -> None:
    assert named(SMALL, resource=MEMORY) == []


def test_what_is_still_held_counts_while_it_shrinks() -> None:
    status = {"containerStatuses": [{"name": "room", "resources": {"requests": {"cpu": "3"}}}]}
    assert named(placeholder("shrinking", "100m", **status), LARGE, lacking_millicores=2500) == ["shrinking"]


def test_not_all_at_once() -> None:
    pods = [placeholder(f"room-{number:02}", "10m") for number in range(MOST_AT_ONCE + 5)]
    assert len(named(*pods, lacking_millicores=10_000)) == MOST_AT_ONCE
