"""What labels and taints a pod asks for, and what it requests in all."""

from __future__ import annotations

import pytest

from agent.core.cluster.node import Taint
from agent.core.cluster.placement import (
    NodeAntiAffinity,
    Operator,
    PodPlacement,
    Requirement,
    Selector,
    Toleration,
    WideAntiAffinity,
)


@pytest.mark.parametrize(
    ("operator", "values", "met", "not_met"),
    [
        (Operator.IN, ("a", "b"), ["a", "b"], ["c", None]),
        (Operator.NOT_IN, ("a",), ["b", None], ["a"]),
        (Operator.EXISTS, (), ["", "a"], [None]),
        (Operator.DOES_NOT_EXIST, (), [None], ["", "a"]),
        (Operator.GREATER, ("5",), ["6", "10"], ["5", "-6", "x", "", None, "9" * 19]),
        (Operator.LESS, ("5",), ["4", "-6"], ["5", "6", None]),
        (Operator.LESS, (), [], ["1"]),
    ],
)
def test_a_requirement_is_met_as_the_scheduler_has_it(
    operator: Operator, values: tuple[str, ...], met: list[str | None], not_met: list[str | None]
) -> None:
    asked = Requirement(key="k", operator=operator, values=values)
    for value in met:
        assert asked.is_met({} if value is None else {"k": value}), value
    for value in not_met:
        assert not asked.is_met({} if value is None else {"k": value}), value


def test_a_selector_selects_by_all_it_asks_and_leaves_the_unknown_open() -> None:
    web = Requirement(key="app", operator=Operator.IN, values=("web",))
    own = Requirement(key="statefulset.kubernetes.io/pod-name", operator=Operator.IN, values=("web-0",))
    assert Selector().may_select({})
    assert Selector(requirements=(web, own)).may_select({"app": "web"})
    assert not Selector(requirements=(web, own)).may_select({"app": "db"})


@pytest.mark.parametrize(
    ("toleration", "bears"),
    [
        (Toleration(key="k", value="v"), True),
        (Toleration(key="k", value="w"), False),
        (Toleration(key="k", is_any_value=True), True),
        (Toleration(is_any_value=True), True),
        (Toleration(value="v"), False),
        (Toleration(key="j", is_any_value=True), False),
        (Toleration(key="k", value="v", effect="NoSchedule"), True),
        (Toleration(key="k", value="v", effect="NoExecute"), False),
    ],
)
def test_a_toleration_bears_a_taint(toleration: Toleration, bears: bool) -> None:
    assert toleration.bears(Taint(key="k", effect="NoSchedule", value="v")) is bears


def test_a_pod_requests_its_largest_stage_and_its_overhead() -> None:
    placement = PodPlacement(
        stage_cpu_millicores=500, stage_memory_bytes=10, overhead_cpu_millicores=50, overhead_memory_bytes=5
    )
    assert (placement.cpu_millicores(100), placement.cpu_millicores(600)) == (550, 650)
    assert (placement.memory_bytes(5), placement.memory_bytes(20)) == (15, 25)


def test_the_parts_of_a_placement_are_all_that_its_author_can_make_many_of() -> None:
    one_of = Requirement(key="app", operator=Operator.IN, values=("a", "b"))  # 3
    placement = PodPlacement(
        labels=(("app", "web"),),
        node_selector=(("zone", "a"), ("disk", "ssd")),
        node_terms=((one_of,), (one_of, one_of)),
        tolerations=(Toleration(key="k"),),
        apart_from=(
            NodeAntiAffinity(selector=Selector(requirements=(one_of,)), namespaces=("shop",)),
            NodeAntiAffinity(selector=Selector(), namespace_selector=Selector(requirements=(one_of,))),
        ),
        widely_apart_from=(WideAntiAffinity(selector=Selector(requirements=(one_of,)), is_of_namespace=True),),
        host_ports=(80,),
        other_requests=(("example.com/a", 1),),
    )
    assert placement.parts == 1 + 2 + 3 * 3 + 1 + (1 + 3 + 1) + (1 + 1 + 3) + (1 + 3) + 1 + 1
    assert PodPlacement().parts == 0
