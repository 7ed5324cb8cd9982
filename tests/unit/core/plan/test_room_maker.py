from __future__ import annotations

from dataclasses import replace

import pytest

from agent.core.cluster.node import Node, NodeState
from agent.core.cluster.pod import INFEASIBLE, RESIZE_PENDING, Pod, PodCondition
from agent.core.plan.room_maker import PREEMPTION_DISABLED, RoomMaker, room_maker
from agent.kube.objects.pod_json import node_from_json
from tests.planning import node as situation
from tests.planning import pod_demand
from tests.pods import container, make_pod

NOW = 1_700_000_000.0
NODE = Node(name="node-a", kubelet_version="v1.37.1")


def condition(type_: str, reason: str, *, age_seconds: float | None = 0.0, status: str = "True") -> PodCondition:
    at = None if age_seconds is None else NOW - age_seconds
    return PodCondition(type=type_, status=status, reason=reason, last_transition_unix_seconds=at)


def pod(*conditions: PodCondition, name: str = "web", is_terminating: bool = False) -> Pod:
    bare_pod = make_pod(container("app"), metadata={"name": name, "namespace": "shop", "uid": f"uid-{name}"})
    return replace(bare_pod, conditions=conditions, is_terminating=is_terminating)


def deferred(age_seconds: float | None, *more: PodCondition, name: str = "web") -> Pod:
    return pod(condition(RESIZE_PENDING, "Deferred", age_seconds=age_seconds), *more, name=name)


def maker(*pods: Pod, node: Node | None = NODE, server: str | None = None) -> RoomMaker | None:
    return room_maker(NodeState(node=node, pods=pods, server_version=server), NOW)


@pytest.mark.parametrize(
    "pods",
    [
        (),
        (pod(),),
        (pod(condition(RESIZE_PENDING, INFEASIBLE)),),
        (pod(condition(RESIZE_PENDING, "Deferred", status="False")),),
        (replace(deferred(5), is_terminating=True),),
    ],
)
def test_where_no_resize_waits_nobody_makes_room(pods: tuple[Pod, ...]) -> None:
    assert maker(*pods) is None


@pytest.mark.parametrize(
    ("kubelet", "server", "is_told"),
    [
        ("v1.36.2", None, False),
        (None, None, False),
        ("v1.36.2", "v1.37.0", True),
        ("v1.37.0-alpha.2", None, True),
    ],
)
def test_a_scheduler_that_is_older_makes_none(kubelet: str | None, server: str | None, *, is_told: bool) -> None:
    answer = maker(deferred(5), node=replace(NODE, kubelet_version=kubelet), server=server)
    assert (answer is not None) is is_told


def test_without_a_node_nothing_is_known() -> None:
    assert maker(deferred(5), node=None, server="v1.37.0") is None


def test_the_scheduler_has_a_minute_from_the_newest_deferral() -> None:
    # 60 s less 45 s leaves 15 s.
    assert maker(deferred(45), deferred(300, name="api")) == RoomMaker(
        is_scheduler=True,
        note="shop/api, shop/web wait for room to be resized: the scheduler may make it for another 15 s, "
        "and no eviction is proposed until then",
    )
    assert maker(deferred(60)) == RoomMaker(
        is_scheduler=False,
        note="shop/web waits for room to be resized: evictions make it, as the scheduler made none within 60 s",
    )


def test_a_deferral_of_no_known_age_has_waited_long_enough() -> None:
    answer = maker(deferred(None))
    assert answer is not None
    assert not answer.is_scheduler


def test_owners_on_the_node_leave_it_to_evictions() -> None:
    node = node_from_json(
        {
            "kind": "Node",
            "metadata": {"name": "node-a"},
            "spec": {"podPreemptionPolicy": {"disableResizePreemption": ["example.com/vpa", "plimsoll.dev/arbiter"]}},
            "status": {"nodeInfo": {"kubeletVersion": "v1.37.1"}},
        }
    )
    assert maker(deferred(1), node=node) == RoomMaker(
        is_scheduler=False,
        note="shop/web waits for room to be resized: evictions make it, as example.com/vpa, plimsoll.dev/arbiter "
        "switched the scheduler's preemption off here",
    )


def test_a_pod_that_is_not_preempted_for_leaves_it_to_evictions() -> None:
    off = deferred(1, condition(PREEMPTION_DISABLED, "NodePolicy"))
    answer = maker(off)
    assert answer is not None
    assert (answer.is_scheduler, answer.note) == (
        False,
        "shop/web waits for room to be resized: evictions make it, as the scheduler's preemption is off for them",
    )
    both = maker(off, deferred(1, name="api"))
    assert both is not None
    assert both.is_scheduler


def test_while_preempted_pods_go_it_is_the_schedulers_room() -> None:
    going = pod(condition("DisruptionTarget", "PreemptionByScheduler"), name="low", is_terminating=True)
    assert maker(deferred(300), going) == RoomMaker(
        is_scheduler=True,
        note="shop/web waits for room to be resized: the scheduler makes it (shop/low goes for it), "
        "and no eviction is proposed",
    )
    evicted = pod(condition("DisruptionTarget", "EvictionByEvictionAPI"), name="low", is_terminating=True)
    answer = maker(deferred(300), evicted)
    assert answer is not None
    assert not answer.is_scheduler


def test_a_plan_says_whose_turn_it_is() -> None:
    place = situation(pod_demand())
    state = place.state
    assert state.node is not None
    (waiting,) = state.pods
    waiting = replace(waiting, conditions=(condition(RESIZE_PENDING, "Deferred", age_seconds=None),))
    state = replace(state, node=replace(state.node, kubelet_version="v1.37.1"), pods=(waiting,))
    notes = place.plan_of(state).notes
    assert any("evictions make it, as the scheduler made none within 60 s" in note for note in notes)
