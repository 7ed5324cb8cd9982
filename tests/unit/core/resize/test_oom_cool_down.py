from __future__ import annotations

import pytest

from agent.core.cluster.pod import ContainerKind, PodRef
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.numbers.units import MIB
from agent.core.plan.plan import Phase, PlanStep
from agent.core.plan.pod_change import Change, Setting
from agent.core.resize.oom_cool_down import OomCoolDown, raised_memory_limits
from tests.planning import container, needs, node, pod_demand, wanted

WEB = Workload(namespace="shop", kind="Deployment", name="web")
API = Workload(namespace="shop", kind="Deployment", name="api")


def test_an_action_is_allowed_again_at_exactly_five_minutes() -> None:
    cool_down = OomCoolDown()
    assert cool_down.take(WEB, "app", 1000.0)
    assert not cool_down.take(WEB, "app", 1299.9)
    # What was refused did not count: five minutes from the action, not from the last kill.
    assert cool_down.take(WEB, "app", 1300.0)


def test_containers_and_workloads_cool_down_apart() -> None:
    cool_down = OomCoolDown()
    assert cool_down.take(WEB, "app", 0.0)
    assert cool_down.take(WEB, "proxy", 0.0)
    assert cool_down.take(API, "app", 0.0)


def test_it_goes_on_over_a_restart_and_forgets_what_is_over() -> None:
    cool_down = OomCoolDown({(WEB, "app"): 100.0, (API, "app"): 350.0})
    assert not cool_down.take(API, "app", 400.0)
    assert cool_down.acted_seconds == {(API, "app"): 350.0}


def test_a_clock_that_was_put_far_back_does_not_bar_for_ever() -> None:
    cool_down = OomCoolDown({(WEB, "app"): 10_000.0})
    assert not OomCoolDown({(WEB, "app"): 1100.0}).take(WEB, "app", 1000.0)  # by a little: still the same kill
    assert cool_down.take(WEB, "app", 1000.0)


def test_a_kill_after_an_action_of_foresight_is_answered_at_once_and_only_once() -> None:
    cool_down = OomCoolDown()
    assert cool_down.take(WEB, "app", 1000.0)
    assert cool_down.is_cooling(WEB, "app", 1010.0)
    cool_down.killed(WEB, "app", 1010.0)
    assert not cool_down.is_cooling(WEB, "app", 1010.0)
    assert cool_down.take(WEB, "app", 1011.0)
    cool_down.killed(WEB, "app", 1020.0)  # that action was the answer to a kill: the next one waits
    assert cool_down.is_cooling(WEB, "app", 1020.0)
    assert cool_down.take(WEB, "app", 1311.0)


def test_an_old_kill_is_no_reason_to_act_twice() -> None:
    cool_down = OomCoolDown()
    cool_down.killed(WEB, "app", 0.0)
    cool_down.killed(API, "app", 400.0)  # by now the first is forgotten
    assert cool_down.take(WEB, "app", 1000.0)
    assert cool_down.is_cooling(WEB, "app", 1000.0)


def change(setting: Setting, before: int, after: int, resource: Resource = Resource.MEMORY) -> Change:
    return Change(
        container="app", kind=ContainerKind.REGULAR, resource=resource, setting=setting, before=before, after=after
    )


REQUEST, LIMIT = Setting.REQUEST, Setting.LIMIT


@pytest.mark.parametrize(
    ("changes", "raised"),
    [
        ((change(LIMIT, 512, 1024),), ("app",)),
        ((change(REQUEST, 256, 600), change(LIMIT, 512, 1024)), ("app",)),
        ((change(REQUEST, 512, 600), change(LIMIT, 512, 600)), ("app",)),  # one amount, and it is what is needed
        ((change(REQUEST, 600, 500), change(LIMIT, 700, 800)), ("app",)),
        ((change(REQUEST, 256, 600), change(LIMIT, 512, 601)), ()),  # QoS: they differ, and go on to
        ((change(REQUEST, 256, 600), change(LIMIT, 512, 600)), ()),
        ((change(LIMIT, 512, 511),), ()),
        ((change(REQUEST, 256, 600),), ()),
        ((change(LIMIT, 500, 1000, Resource.CPU),), ()),
        ((change(REQUEST, 100, 600, Resource.CPU), change(LIMIT, 512, 601)), ("app",)),
        ((), ()),
    ],
)
def test_a_limit_that_only_follows_its_request_is_not_raised_for_its_own_sake(
    changes: tuple[Change, ...], raised: tuple[str, ...]
) -> None:
    web = PodRef(namespace="shop", name="web", uid="u")
    step = PlanStep(ref=web, workload=WEB, phase=Phase.GROW, changes=changes, reason="test", is_urgent=False)
    assert raised_memory_limits(step) == raised


@pytest.mark.parametrize(("limit", "raised"), [(512, ()), (1024, ("app",))])
def test_what_a_plan_does_while_the_limit_is_held_is_no_raise(limit: int, raised: tuple[str, ...]) -> None:
    stated = container(cpu=100, memory=256 * MIB, memory_limit=512 * MIB)
    # Killed at its limit, so that is the base; held, the limit that is wished is the one that stands.
    demand = needs("app", wanted(100), wanted(512 * MIB, limit=limit * MIB))
    (step,) = node(pod_demand(containers=[stated], demands=[demand])).plan().steps
    (after,) = (pod_change.after for pod_change in step.changes if pod_change.setting is LIMIT)
    assert after == max(512 * MIB + 1, limit * MIB)
    assert raised_memory_limits(step) == raised
