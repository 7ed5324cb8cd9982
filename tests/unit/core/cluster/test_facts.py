"""What nodes have, and what containers a pod's spec has."""

from __future__ import annotations

from agent.core.cluster.facts import NodeAmounts, PodPlace, WrittenContainer, largest_of, smallest_of
from agent.core.cluster.workload import Workload


def test_the_largest_and_the_smallest_of_each_resource() -> None:
    wide, deep = NodeAmounts(cpu_millicores=9, memory_bytes=1), NodeAmounts(cpu_millicores=2, memory_bytes=8)
    assert largest_of([wide, deep]) == NodeAmounts(cpu_millicores=9, memory_bytes=8)
    assert smallest_of([wide, deep]) == NodeAmounts(cpu_millicores=2, memory_bytes=1)
    assert (largest_of([]), smallest_of([])) == (None, None)


def test_a_pod_has_the_containers_of_its_spec_and_any_where_they_are_not_known() -> None:
    def place(*names: str) -> PodPlace:
        return PodPlace(
            uid="u",
            namespace="shop",
            name="web-1",
            node=None,
            workload=Workload(namespace="shop", kind="Pod", name="web-1"),
            is_running=True,
            is_terminating=False,
            containers=tuple(WrittenContainer(name=name) for name in names) or None,
        )

    assert [place("app", "setup").has_container(name) for name in ("app", "setup", "other")] == [True, True, False]
    assert place().has_container("other")
