from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.effective_resources import CountingRule, pod_requests
from agent.core.cluster.node import Node, NodeState
from agent.core.cluster.pod import (
    CPU,
    MEMORY,
    ContainerKind,
    ContainerStatus,
    Pod,
    PodCondition,
    PodRef,
    Reported,
    Requirements,
)
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.numbers.units import MIB, to_millis, to_units
from agent.core.plan.node_room import counted, fits_now, granted_pod, holds_room, part_that_fits
from agent.core.plan.plan import Phase, PlanStep
from agent.core.plan.pod_change import Change, Setting, actuated
from tests.examples import examples
from tests.planning import amounts, container, situations


def make(name: str = "web", **fields: Any) -> Pod:
    known: dict[str, Any] = {"uid": f"uid-{name}", "namespace": "shop", "name": name, "containers": (container(),)}
    return Pod(**{**known, **fields})


def status(cpu: int, memory: int = 64 * MIB, actual: int | None = None) -> ContainerStatus:
    reported = None if actual is None else Reported(requests=amounts(actual, memory))
    return ContainerStatus(name="app", allocated=amounts(cpu, memory), actual=reported)


INFEASIBLE = PodCondition(type="PodResizePending", status="True", reason="Infeasible")


@pytest.mark.parametrize(
    ("phase", "expected"), [("Succeeded", False), ("Failed", False), ("Running", True), (None, True)]
)
def test_a_pod_that_has_ended_holds_nothing(phase: str | None, expected: bool) -> None:
    assert holds_room(make(phase=phase, is_terminating=True)) is expected


def test_a_request_that_falls_holds_room_until_it_is_allocated_and_actual() -> None:
    assert counted(make(statuses=(status(300),))) == (300, 64 * MIB)
    assert counted(make(statuses=(status(100, actual=200),))) == (200, 64 * MIB)
    assert counted(make(statuses=(status(100, actual=100),))) == (100, 64 * MIB)


def test_a_request_that_rises_holds_room_at_once() -> None:
    assert counted(make(statuses=(status(50, actual=50),)))[0] == 100


def test_sums_are_compared_not_single_containers() -> None:
    # Asked for: 100 + 100; allocated: 150 + 20. The larger sum counts, not 150 + 100.
    pod = make(
        containers=(container("app"), container("proxy")),
        statuses=(status(150), ContainerStatus(name="proxy", allocated=amounts(20, 64 * MIB))),
    )
    assert counted(pod)[0] == 200


def test_a_container_without_a_status_counts_by_its_spec() -> None:
    assert counted(make(statuses=(ContainerStatus(name="other"),)))[0] == 100
    assert counted(make(statuses=(ContainerStatus(name="app"),)))[0] == 100


def test_what_was_infeasible_is_not_counted() -> None:
    assert counted(make(statuses=(status(40),), conditions=(INFEASIBLE,)))[0] == 40


def test_another_condition_changes_nothing() -> None:
    ready = PodCondition(type="Ready", status="True")
    assert counted(make(statuses=(status(40),), conditions=(ready,)))[0] == 100


def test_the_budget_of_a_pod_counts_with_what_is_allocated_of_it() -> None:
    # The kubelet's figure for the pod holds the overhead of 10 already.
    pod = make(
        resources=Requirements(requests=amounts(200, 128 * MIB)),
        overhead=amounts(10, MIB),
        allocated=amounts(300, 128 * MIB),
        actual=Reported(requests=amounts(999, 256 * MIB)),
    )
    assert counted(pod) == (300, 256 * MIB)


def test_what_is_granted_of_a_budget_is_without_the_overhead_that_is_reported_in_it() -> None:
    fields: dict[str, Any] = {
        "resources": Requirements(requests=amounts(900, 64 * MIB)),
        "overhead": amounts(10, MIB),
    }
    reported = amounts(310, 65 * MIB)
    for pod in (
        make(**fields, allocated=reported, actual=Reported(requests=amounts(300, 65 * MIB))),
        make(**fields, allocated=reported, actual=Reported()),
        make(**fields, actual=Reported(requests=reported)),
    ):
        granted = granted_pod(pod)
        assert granted.resources == Requirements(requests=amounts(300, 64 * MIB))
        assert counted(actuated(granted)) == (310, 65 * MIB)


def test_the_budget_of_a_pod_counts_by_its_spec_where_nothing_is_reported() -> None:
    pod = make(resources=Requirements(requests=amounts(200)), overhead=amounts(10, MIB))
    assert counted(pod) == (210, 65 * MIB)


def test_an_infeasible_budget_counts_as_it_is_allocated() -> None:
    pod = make(
        resources=Requirements(requests=amounts(900)), allocated=amounts(300, 64 * MIB), conditions=(INFEASIBLE,)
    )
    assert counted(pod)[0] == 300


@examples(200)
@given(situations(), st.integers(0, 1000))
def test_counting_fast_is_counting_as_the_scheduler_does(situation: Any, seed: int) -> None:
    random = Random(seed)
    for demand in situation.demands:
        pod = demand.pod
        if pod.resources is not None:
            continue
        statuses = tuple(
            ContainerStatus(
                name=spec.name,
                allocated=random.choice([None, amounts(random.randint(0, 500), random.randint(0, 90) * MIB)]),
                actual=random.choice([None, Reported(), Reported(requests=amounts(random.randint(0, 500), MIB))]),
            )
            for spec in pod.sized_containers()
            if spec.kind is not ContainerKind.EPHEMERAL
        )
        pod = Pod(
            uid="u", namespace="n", name="n", containers=pod.containers, init_containers=pod.init_containers,
            overhead=pod.overhead, statuses=statuses, conditions=random.choice([(), (INFEASIBLE,)]),
        )  # fmt: skip
        held = pod_requests(pod, CountingRule(use_status=True))
        assert counted(pod) == (to_millis(held.get(CPU, 0)), to_units(held.get(MEMORY, 0)))


def step(uid: str = "uid-web", **after: int) -> PlanStep:
    changes = tuple(
        Change(
            container="app",
            kind=ContainerKind.REGULAR,
            resource=resource,
            setting=Setting.REQUEST,
            before=100 if resource is Resource.CPU else 64 * MIB,
            after=after[resource.value],
        )
        for resource in Resource
        if resource.value in after
    )
    return PlanStep(
        ref=PodRef(namespace="shop", name="web", uid=uid),
        workload=Workload(namespace="shop", kind="Deployment", name="web"),
        phase=Phase.GROW,
        changes=changes,
        reason="test",
    )


def state(cpu: int | None, memory: int | None, *others: Pod) -> NodeState:
    return NodeState(node=Node(name="n1", allocatable=amounts(cpu, memory)), pods=(make(), *others))


def test_a_step_fits_exactly_into_what_is_there() -> None:
    assert fits_now(state(400, 200 * MIB, make("other")), step(cpu=300))
    assert not fits_now(state(399, 200 * MIB, make("other")), step(cpu=300))


def test_each_resource_that_rises_must_fit() -> None:
    assert fits_now(state(400, 128 * MIB), step(cpu=300, memory=128 * MIB))
    assert not fits_now(state(400, 127 * MIB), step(cpu=300, memory=128 * MIB))


def test_a_shrink_that_is_not_actual_yet_leaves_no_room() -> None:
    shrunk = make("other", statuses=(status(300),))
    assert not fits_now(state(500, 200 * MIB, shrunk), step(cpu=300))


def test_a_pod_that_has_ended_leaves_room() -> None:
    assert fits_now(state(300, 200 * MIB, make("other", phase="Succeeded")), step(cpu=300))


def test_what_does_not_rise_is_not_asked_about_on_an_overfull_node() -> None:
    assert fits_now(state(50, MIB), step(cpu=80))
    assert fits_now(state(50, 200 * MIB), step(cpu=80, memory=100 * MIB))
    assert fits_now(state(200, MIB), step(cpu=110))


def test_what_takes_the_place_of_a_refused_wish_must_fit() -> None:
    # 8000m were refused, 100m are in force; beside 100m of another pod 300m fit into 400m and not into 399m.
    wished = (replace(container(), resources=Requirements(requests=amounts(8000, 64 * MIB))),)
    stuck = make(containers=wished, statuses=(status(100, actual=100),), conditions=(INFEASIBLE,))
    less = replace(step(cpu=300), changes=(replace(step(cpu=300).changes[0], before=8000),))
    for cpu, fits in ((400, True), (399, False)):
        node = replace(state(cpu, 200 * MIB), pods=(stuck, make("other")))
        assert fits_now(node, less) is fits
    # A step that asks for no CPU leaves that wish as it is.
    full = replace(state(200, 200 * MIB), pods=(stuck, make("other")))
    assert fits_now(full, step(memory=90 * MIB))
    limit = replace(less.changes[0], setting=Setting.LIMIT, before=9000, after=9500)
    assert fits_now(full, replace(less, changes=(limit,)))


def test_nothing_fits_where_the_node_or_the_pod_is_not_known() -> None:
    assert not fits_now(NodeState(node=None, pods=(make(),)), step(cpu=50))
    assert not fits_now(state(None, MIB), step(cpu=50))
    assert not fits_now(state(100, None), step(cpu=50))
    assert not fits_now(state(400, 200 * MIB), step("uid-gone", cpu=50))
    ended = NodeState(node=Node(name="n1", allocatable=amounts(400, MIB)), pods=(make(phase="Failed"),))
    assert not fits_now(ended, step(cpu=50))


def test_of_a_step_that_does_not_fit_the_limits_still_do() -> None:
    def with_limit(wish: PlanStep) -> PlanStep:
        limit = replace(wish.changes[0], resource=Resource.MEMORY, setting=Setting.LIMIT, before=1, after=2)
        return replace(wish, changes=(*wish.changes, limit))

    full = state(100, 64 * MIB)
    both = with_limit(step(cpu=300))
    assert part_that_fits(state(300, 64 * MIB), both) == both
    part = part_that_fits(full, both)
    assert part is not None
    assert [change.setting for change in part.changes] == [Setting.LIMIT]
    assert part_that_fits(full, step(cpu=300)) is None
    assert part_that_fits(NodeState(node=None, pods=()), both) is None
