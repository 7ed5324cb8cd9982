from __future__ import annotations

from agent.core.applying import actuated, applied
from agent.core.planned import Change, Phase, PlanStep, PodRef, Setting
from agent.core.pod import ContainerKind, ContainerStatus, Pod
from agent.core.policies.bounds import Resource
from agent.core.recommendation import Workload
from agent.core.room import counted
from agent.core.units import MIB
from tests.planning import amounts, container

POD = Pod(
    uid="u",
    namespace="shop",
    name="web",
    containers=(container(),),
    statuses=(ContainerStatus(name="app", allocated=amounts(100, 64 * MIB)),),
    allocated=amounts(100, 64 * MIB),
)
STEP = PlanStep(
    ref=PodRef(namespace="shop", name="web", uid="u"),
    workload=Workload(namespace="shop", kind="Deployment", name="web"),
    phase=Phase.SHRINK,
    changes=(
        Change(
            container="app",
            kind=ContainerKind.REGULAR,
            resource=Resource.CPU,
            setting=Setting.REQUEST,
            before=100,
            after=40,
        ),
    ),
    reason="test",
)


def test_a_step_changes_the_spec_and_leaves_the_status() -> None:
    pod = applied(POD, STEP)
    assert pod.containers[0].resources.cpu_request_millicores == 40
    assert pod.statuses == POD.statuses
    assert counted(pod) == (100, 64 * MIB)


def test_once_actuated_only_the_spec_holds_room() -> None:
    assert counted(actuated(applied(POD, STEP))) == (40, 64 * MIB)
