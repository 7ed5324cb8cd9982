from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.core.cluster.facts import FrozenAxes
from agent.core.cluster.pod import ContainerKind, PodRef
from agent.core.cluster.resource import Resource
from agent.core.cluster.versions import Gates
from agent.core.cluster.workload import Workload
from agent.core.orders.order import Mode, Orders, OrderSource, Ranking
from agent.core.orders.plan_options import DaemonSetGrowth, PlanOptions
from agent.core.orders.policy_options import PolicyName
from agent.core.plan.needs.demand import KeptReason, ReservedReason
from agent.core.plan.plan import Phase, PlanStep
from agent.core.plan.pod_change import Change, Setting
from agent.core.resize.decision import Action
from agent.core.resize.write_gate import Refusal, SparedReason, WriteAction, lowers_protected, may_resize, may_write
from tests.pods import container, make_pod

MI = 1 << 20
EVICTIONS = (WriteAction.EVICT_CPU, WriteAction.EVICT_MEMORY, WriteAction.EVICT_OOM)
OPEN = Gates(resize=True, memory_limit_down=True, pod_level_resize=True, init_containers=True)
ORDERS = Orders(
    mode=Mode.ENFORCE,
    mode_source=OrderSource.POD,
    policy=PolicyName.CRUISE,
    policy_source=OrderSource.CONFIGURATION,
    ranking=Ranking.LOW,
    ranking_source=OrderSource.RULE,
)
POLICY = {"resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]}
APP = container("app", {"cpu": "250m", "memory": "64Mi"}, {"memory": "128Mi"})
POD = make_pod(APP)


def write(action: WriteAction, **fields: Any) -> Refusal | None:
    known: dict[str, Any] = {
        "reserved": None,
        "kind": "Deployment",
        "ranking": Ranking.LOW,
        "plan": PlanOptions(),
        "grows": True,
    }
    return may_write(action, **{**known, **fields})


@pytest.mark.parametrize("action", WriteAction)
def test_an_ordinary_pod_may_be_written_to_and_a_paused_or_reserved_one_never(action: WriteAction) -> None:
    assert write(action) is None
    assert write(action, is_paused=True, reserved=ReservedReason.OFF) is KeptReason.PAUSED
    for reserved in ReservedReason:
        assert write(action, reserved=reserved) is reserved


@pytest.mark.parametrize("action", WriteAction)
def test_memory_that_is_not_applied_is_neither_resized_nor_a_reason_to_evict(action: WriteAction) -> None:
    is_of_memory = action in (WriteAction.RESIZE_MEMORY, WriteAction.EVICT_MEMORY, WriteAction.EVICT_OOM)
    refusal = write(action, plan=PlanOptions(memory_applied=False))
    assert refusal is (KeptReason.NOT_APPLIED if is_of_memory else None)


@pytest.mark.parametrize("action", WriteAction)
def test_no_eviction_spares_of_evictions_only(action: WriteAction) -> None:
    is_eviction = action in EVICTIONS
    assert write(action, ranking=Ranking.NO_EVICTION) is (SparedReason.NO_EVICTION if is_eviction else None)
    assert write(action, has_prediction=False) is (SparedReason.NO_PREDICTION if is_eviction else None)


@pytest.mark.parametrize("action", WriteAction)
def test_daemon_sets_are_never_evicted_and_grow_only_where_they_may(action: WriteAction) -> None:
    never = PlanOptions(daemon_set_growth=DaemonSetGrowth.NEVER)
    is_resize = action in (WriteAction.RESIZE_CPU, WriteAction.RESIZE_MEMORY)
    is_eviction = action in EVICTIONS
    assert write(action, kind="DaemonSet") is (SparedReason.DAEMON_SET if is_eviction else None)
    for grows in (True, None):  # what is not known may grow
        refusal = write(action, kind="DaemonSet", plan=never, grows=grows)
        assert refusal is (SparedReason.DAEMON_SET if is_eviction or is_resize else None)
    assert write(action, kind="DaemonSet", plan=never, grows=False) is (
        SparedReason.DAEMON_SET if is_eviction else None
    )


def cpu(before: int, after: int, name: str = "app", setting: Setting = Setting.REQUEST) -> Change:
    return change(name, Resource.CPU, setting, before, after)


def memory(before_mi: int, after_mi: int, name: str = "app", setting: Setting = Setting.REQUEST) -> Change:
    return change(name, Resource.MEMORY, setting, before_mi * MI, after_mi * MI)


def change(name: str, resource: Resource, setting: Setting, before: int, after: int) -> Change:
    kind = {"app": ContainerKind.REGULAR, "": None}.get(name, ContainerKind.INIT)
    return Change(container=name, kind=kind, resource=resource, setting=setting, before=before, after=after)


def step(*changes: Change, uid: str = "uid-web", kind: str = "Deployment") -> PlanStep:
    return PlanStep(
        ref=PodRef(namespace="shop", name="web", uid=uid),
        workload=Workload(namespace="shop", kind=kind, name="web"),
        phase=Phase.GROW,
        changes=changes,
        reason="test",
    )


def resize(*changes: Change, **fields: Any) -> Refusal | None:
    known: dict[str, Any] = {
        "pod": POD,
        "orders": ORDERS,
        "reserved": None,
        "plan": PlanOptions(),
        "gates": OPEN,
        "memory_in_use_bytes": {"app": 40 * MI},
    }
    known |= {key: value for key, value in fields.items() if key not in ("uid", "kind")}
    asked = step(*changes, **{key: value for key, value in fields.items() if key in ("uid", "kind")})
    return may_resize(asked, known.pop("pod"), known.pop("orders"), **known)


def test_a_sound_step_may_be_sent() -> None:
    assert resize(cpu(250, 300), memory(64, 100), memory(128, 160, setting=Setting.LIMIT)) is None


def test_a_step_is_held_to_all_that_any_write_is() -> None:
    assert resize(cpu(250, 300), reserved=ReservedReason.PINNED) is ReservedReason.PINNED
    assert resize(cpu(250, 300), is_paused=True) is KeptReason.PAUSED
    assert resize(cpu(250, 300), memory(64, 80), plan=PlanOptions(memory_applied=False)) is KeptReason.NOT_APPLIED
    never = PlanOptions(daemon_set_growth=DaemonSetGrowth.NEVER)
    assert resize(cpu(250, 300), memory(64, 60), kind="DaemonSet", plan=never) is SparedReason.DAEMON_SET
    assert resize(cpu(250, 200), memory(64, 60), kind="DaemonSet", plan=never) is None


def test_an_axis_that_an_hpa_scales_by_is_put_back_but_never_moved() -> None:
    cpu_alone = FrozenAxes(cpu_for="HPA")
    assert resize(cpu(250, 300), frozen=cpu_alone) is KeptReason.HPA
    assert resize(cpu(250, 300), memory(64, 100), frozen=cpu_alone) is KeptReason.HPA
    assert resize(memory(64, 100), frozen=cpu_alone) is None
    memory_alone = FrozenAxes(memory_for="HPA")
    assert resize(memory(128, 160, setting=Setting.LIMIT), frozen=memory_alone) is KeptReason.HPA
    limited = make_pod(container("app", {"cpu": "250m", "memory": "64Mi"}, {"cpu": "500m"}))
    assert resize(cpu(500, 4000, setting=Setting.LIMIT), pod=limited, frozen=cpu_alone) is None
    assert resize(cpu(500, 400, setting=Setting.LIMIT), pod=limited, frozen=cpu_alone) is KeptReason.HPA
    assert resize(cpu(250, 300), frozen=cpu_alone, is_put_back=True) is None
    assert resize(cpu(250, 300), frozen=FrozenAxes(cpu_for="HPA", cpu_containers=("app",))) is KeptReason.HPA
    assert resize(cpu(250, 300), frozen=FrozenAxes(cpu_for="HPA", cpu_containers=("proxy",))) is None


def test_a_step_for_another_state_of_the_pod_is_not_sent() -> None:
    assert resize(cpu(240, 300)) is SparedReason.POD_CHANGED
    assert resize(cpu(250, 300), uid="uid-before") is SparedReason.POD_CHANGED
    assert resize(cpu(0, 300, setting=Setting.LIMIT)) is SparedReason.POD_CHANGED  # a limit is not added either
    assert resize(cpu(0, 300, "gone")) is SparedReason.POD_CHANGED


@pytest.mark.parametrize("gate", ["resize", "memory_limit_down", "pod_level_resize", "init_containers"])
def test_a_closed_gate_holds_up_the_steps_that_need_it(gate: str) -> None:
    pod = make_pod(APP, initContainers=[container("init", {"cpu": "1"})], resources={"requests": {"cpu": "2"}})
    opened = {"resize": True, "memory_limit_down": True, "pod_level_resize": True, "init_containers": True}
    gates = Gates(**{**opened, gate: False}, reasons=())
    held = {
        "up": resize(memory(128, 160, setting=Setting.LIMIT), pod=pod, gates=gates),
        "down": resize(memory(128, 100, setting=Setting.LIMIT), pod=pod, gates=gates),
        "budget": resize(cpu(2000, 2100, ""), pod=pod, gates=gates),
        "init": resize(cpu(1000, 900, "init"), pod=pod, gates=gates),
    }
    needing = {
        "resize": {"up", "down", "budget", "init"},
        "memory_limit_down": {"down"},
        "pod_level_resize": {"up", "down", "budget", "init"},  # 1.34 refuses every resize of such a pod
        "init_containers": {"init"},
    }
    assert {name for name, refusal in held.items() if refusal is KeptReason.TOO_OLD} == needing[gate]
    assert all(refusal is None for name, refusal in held.items() if name not in needing[gate])


def test_a_container_is_not_restarted_unless_that_is_allowed() -> None:
    pod = make_pod({**APP, **POLICY})
    allowed = replace(ORDERS, is_restart_allowed=True)
    assert resize(cpu(250, 300), pod=pod) is None
    assert resize(memory(64, 80), pod=pod) is KeptReason.RESTART_POLICY
    assert resize(memory(64, 80), pod=pod, orders=allowed) is None
    # Where it restarts anyway, an old server lowers its memory limit as well.
    old = replace(OPEN, memory_limit_down=False)
    assert resize(memory(128, 100, setting=Setting.LIMIT), pod=pod, orders=allowed, gates=old) is None


def test_a_container_that_goes_by_the_pods_limit_restarts_with_it() -> None:
    budget = {"requests": {"memory": "64Mi"}, "limits": {"memory": "256Mi"}}
    own_limit = make_pod({**APP, **POLICY}, resources=budget)
    inheriting = make_pod({**container("app", {"cpu": "250m"}), **POLICY}, resources=budget)
    raised = memory(256, 300, "", Setting.LIMIT)
    assert resize(raised, pod=own_limit) is None
    assert resize(raised, pod=inheriting) is KeptReason.RESTART_POLICY
    assert resize(memory(64, 80, ""), pod=inheriting) is None


def test_a_memory_limit_falls_only_with_margin_over_what_is_in_use() -> None:
    # 40 MiB in use x 1.25 is 50 MiB.
    pod = make_pod(container("app", {"cpu": "250m", "memory": "32Mi"}, {"memory": "128Mi"}))
    assert resize(memory(128, 50, setting=Setting.LIMIT), pod=pod) is None
    assert resize(memory(128, 49, setting=Setting.LIMIT), pod=pod) is KeptReason.IN_USE
    assert resize(memory(128, 50, setting=Setting.LIMIT), pod=pod, memory_in_use_bytes={}) is KeptReason.IN_USE
    off = PlanOptions(memory_limits_lowered=False)
    assert resize(memory(128, 50, setting=Setting.LIMIT), pod=pod, plan=off) is KeptReason.NOT_APPLIED


def test_memory_is_put_back_though_it_is_to_be_resized_no_more() -> None:
    off = PlanOptions(memory_applied=False, memory_limits_lowered=False)
    assert resize(cpu(250, 300), memory(64, 80), plan=off, is_put_back=True) is None
    pod = make_pod(container("app", {"cpu": "250m", "memory": "32Mi"}, {"memory": "128Mi"}))
    assert resize(memory(128, 50, setting=Setting.LIMIT), pod=pod, plan=off, is_put_back=True) is None
    assert resize(memory(128, 49, setting=Setting.LIMIT), pod=pod, plan=off, is_put_back=True) is KeptReason.IN_USE


def test_a_rise_that_never_came_into_force_is_taken_back_without_margin() -> None:
    held = {"name": "app", "resources": {"limits": {"memory": "45Mi"}}}
    pod = make_pod(
        container("app", {"cpu": "250m", "memory": "32Mi"}, {"memory": "128Mi"}),
        status={"containerStatuses": [held]},
    )
    assert resize(memory(128, 45, setting=Setting.LIMIT), pod=pod) is None
    assert resize(memory(128, 44, setting=Setting.LIMIT), pod=pod) is KeptReason.IN_USE


def test_what_no_pod_may_state_is_not_sent() -> None:
    assert resize() is SparedReason.UNSOUND
    assert resize(cpu(250, 0)) is SparedReason.UNSOUND
    assert resize(memory(64, 129)) is SparedReason.UNSOUND  # above its limit of 128
    budget = make_pod(APP, resources={"requests": {"cpu": "1"}, "limits": {"cpu": "2"}})
    assert resize(cpu(1000, 2001, ""), pod=budget) is SparedReason.UNSOUND


def test_the_qos_class_never_changes() -> None:
    pod = make_pod(container("app", {"cpu": "250m", "memory": "64Mi"}, {"cpu": "500m", "memory": "64Mi"}))
    assert resize(cpu(250, 500), pod=pod) is KeptReason.QOS  # it would be Guaranteed
    pair = {"cpu": "250m", "memory": "64Mi"}
    guaranteed = make_pod(container("app", pair, pair))
    assert resize(cpu(250, 300), cpu(250, 301, setting=Setting.LIMIT), pod=guaranteed) is KeptReason.QOS
    assert resize(cpu(250, 300), cpu(250, 300, setting=Setting.LIMIT), pod=guaranteed) is None


@pytest.mark.parametrize(
    ("mode", "action", "after", "expected"),
    [
        (Mode.PROTECT, Action.RESIZE, 200, True),
        (Mode.PROTECT, Action.RESIZE, 300, False),
        (Mode.PROTECT, Action.UNBOOST, 200, True),
        (Mode.PROTECT, Action.REVERT, 200, False),
        (Mode.PROTECT, Action.RESTORE, 200, False),
        (Mode.ENFORCE, Action.RESIZE, 200, False),
    ],
)
def test_in_mode_protect_only_what_was_not_granted_or_a_person_lowers(
    mode: Mode, action: Action, after: int, expected: bool
) -> None:
    plan_step = step(change("app", Resource.CPU, Setting.REQUEST, 250, after))
    assert lowers_protected(plan_step, replace(ORDERS, mode=mode), action) is expected
