from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.core.cluster.pod import ContainerKind, Pod, PodRef, Requirements
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.numbers.units import MIB
from agent.core.plan.invariants import Broken, SteppedPod
from agent.core.plan.plan import Phase, PlanStep
from agent.core.plan.pod_change import Change, Setting
from tests.planning import amounts, container, requirements

HELD = (100, 64 * MIB)


def pod(*containers: Any, **fields: Any) -> Pod:
    return Pod(uid="u", namespace="shop", name="web", containers=containers or (container(),), **fields)


def change(before: int, after: int, *, what: str = "cpu request", name: str = "app") -> Change:
    resource, setting = what.split()
    return Change(
        container=name,
        kind=ContainerKind.REGULAR if name else None,
        resource=Resource(resource),
        setting=Setting(setting),
        before=before,
        after=after,
    )


def step(*changes: Change) -> PlanStep:
    return PlanStep(
        ref=PodRef(namespace="shop", name="web", uid="u"),
        workload=Workload(namespace="shop", kind="Deployment", name="web"),
        phase=Phase.GROW,
        changes=changes,
        reason="test",
    )


def broken(stepped: SteppedPod, *changes: Change) -> list[Broken]:
    return [what for what, _ in stepped.take(step(*changes))]


def test_requests_that_add_up_are_reckoned_by_the_changes() -> None:
    stepped = SteppedPod(pod(container("app"), container("proxy")), HELD)
    assert stepped.held == HELD
    assert broken(stepped, change(100, 40)) == []
    assert stepped.held == (140, 128 * MIB)
    assert broken(stepped, change(40, 70), change(64 * MIB, MIB, what="memory request", name="proxy")) == []
    assert stepped.held == (170, 65 * MIB)


@pytest.mark.parametrize(
    "wrong",
    [
        change(90, 40),
        change(100, 100),
        change(100, 0),
        change(100, 40, name="other"),
        change(0, 40, what="cpu limit"),
    ],
)
def test_a_change_is_from_what_is_there_to_something_else(wrong: Change) -> None:
    assert Broken.CHANGE in broken(SteppedPod(pod(), HELD), wrong)


def test_a_step_changes_something() -> None:
    assert broken(SteppedPod(pod(), HELD)) == [Broken.CHANGE]


def test_a_request_above_its_limit_is_told_whichever_moves() -> None:
    limited = pod(container(cpu=100, cpu_limit=200, memory=MIB))
    assert Broken.LIMIT in broken(SteppedPod(limited, HELD), change(100, 201))
    assert Broken.LIMIT in broken(SteppedPod(limited, HELD), change(200, 99, what="cpu limit"))


def test_a_class_that_changes_is_told() -> None:
    nearly = pod(container(cpu=100, cpu_limit=200, memory=MIB, memory_limit=MIB))
    assert broken(SteppedPod(nearly, HELD), change(100, 200)) == [Broken.QOS]


def test_a_relation_that_changes_without_the_class_is_fine() -> None:
    burstable = pod(container(cpu=100, cpu_limit=200, memory=MIB), container("proxy"))
    stepped = SteppedPod(burstable, HELD)
    assert broken(stepped, change(100, 200)) == []
    assert stepped.held == (300, 65 * MIB)


def test_guaranteed_pods_move_requests_and_limits_together() -> None:
    guaranteed = pod(container(cpu=100, cpu_limit=100, memory=MIB, memory_limit=MIB))
    assert broken(SteppedPod(guaranteed, HELD), change(100, 50), change(100, 50, what="cpu limit")) == []
    assert broken(SteppedPod(guaranteed, HELD), change(100, 50)) == [Broken.QOS]


def test_a_pod_with_a_budget_and_overhead_is_made_anew() -> None:
    budgeted = pod(resources=requirements(300, MIB, 400), overhead=amounts(10, MIB))
    stepped = SteppedPod(budgeted, HELD)
    assert broken(stepped, change(300, 200, name="")) == []
    assert stepped.held == (210, 2 * MIB)
    assert Broken.LIMIT in broken(stepped, change(200, 500, name=""))


def test_a_request_may_pass_its_limit_by_less_than_a_millicore() -> None:
    # 100.5m of limit count as 101m, as everything is rounded up that is not a whole millicore.
    odd = replace(
        container("app", cpu=50), resources=Requirements(requests={"cpu": 50_000_000}, limits={"cpu": 100_500_000})
    )
    assert broken(SteppedPod(pod(odd), HELD), change(50, 101)) == []
    assert broken(SteppedPod(pod(odd), HELD), change(50, 102)) == [Broken.LIMIT]
