"""What a kubelet and the API server may say to a grow but yes: deferred, infeasible, too much for the node.

Pods are made to want more by their annotation ``min-cpu``, which needs no load. The tests share two agents, one that
waits long for what was deferred and one that does not; each has pods of its own, and leaves none.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster import objects
from tests.cluster.acting_node import ActingNode, fresh_node
from tests.cluster.control_plane import ControlPlane
from tests.cluster.kubelet_play import Answer
from tests.kernel.cgroups import why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]


@pytest.fixture(scope="module")
def patient(fenced: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ActingNode]:
    with fresh_node(fenced, tmp_path_factory.mktemp("patient"), cpu="2") as machine:
        machine.start_agent()
        yield machine


@pytest.fixture(scope="module")
def hasty(fenced: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ActingNode]:
    with fresh_node(fenced, tmp_path_factory.mktemp("hasty"), cpu="2") as machine:
        machine.start_agent(act__deferredPatienceSeconds=1)
        yield machine


@pytest.fixture
def node(patient: ActingNode) -> ActingNode:
    """The node whose agent waits for ten minutes, without pods."""
    patient.begin_anew()
    return patient


@pytest.fixture
def hasty_node(hasty: ActingNode) -> ActingNode:
    """The node whose agent waits for a second, without pods."""
    hasty.begin_anew()
    return hasty


def reasons(node: ActingNode, name: str) -> list[tuple[str, str]]:
    """Outcome and reason of all that was decided of a pod, oldest first."""
    return [(event["outcome"], event["reason"]) for event in reversed(node.events(pod=name))]


def test_a_deferred_resize_waits_and_lands_when_room_appears(node: ActingNode) -> None:
    node.kubelet.answer(node.namespace, "late", Answer.DEFER)
    node.run_wanting("late")
    node.run_wanting("other")
    node.wait(lambda: "deferred" in node.outcomes("late"), "it is deferred")
    node.wait(lambda: "applied" in node.outcomes("other"), "the other pod is not held up")
    node.order("late", min_cpu="400m")  # another wish meanwhile waits too
    node.wait_wish("late", 400)
    node.settle()
    assert node.outcomes("late") == ["accepted", "deferred"]
    assert node.kept("late") == "deferred"
    assert (node.metric("plimsoll_resize_pending_oldest_seconds") or 0.0) > 0.0
    assert len(node.resizes("late")) == 1
    node.kubelet.answer(node.namespace, "late", Answer.ACTUATE)
    node.wait(lambda: node.request_of("late") == "400m", "the newer wish follows")
    node.wait(lambda: node.outcomes("late")[3:] == ["accepted", "applied"], "it is applied")
    assert node.outcomes("late") == ["accepted", "deferred", "applied", "accepted", "applied"]
    assert len(node.resizes("late")) == 2
    node.wait(lambda: set(node.told("late")) == {"ResizeDeferred", "Resized"}, "its owner is told of both")


def test_a_resize_deferred_for_too_long_is_withdrawn_and_not_asked_again_at_once(hasty_node: ActingNode) -> None:
    node = hasty_node
    node.kubelet.answer(node.namespace, "tardy", Answer.DEFER)
    node.run_wanting("tardy")
    node.wait(lambda: "accepted" in node.outcomes("tardy"), "it is asked for")
    node.wait(lambda: len(node.resizes("tardy")) == 2 and node.request_of("tardy") == "100m", "it is taken back")
    node.wait(lambda: ("withheld", "withdrawn") in reasons(node, "tardy"), "it is wished for, and held back")
    node.settle()
    assert node.request_of("tardy") == "100m"
    assert len(node.resizes("tardy")) == 2, node.said()


def test_what_the_kubelet_calls_infeasible_is_taken_back_and_never_repeated(node: ActingNode) -> None:
    node.kubelet.answer(node.namespace, "never", Answer.INFEASIBLE)
    node.run_wanting("never")
    node.wait(lambda: "infeasible" in node.outcomes("never"), "it is infeasible")
    node.wait(lambda: node.request_of("never") == "100m", "it is taken back")
    node.wait(lambda: node.kept("never") == "infeasible", "it is wished for, and held back")
    node.settle()
    assert len(node.resizes("never")) == 2, node.said()
    [event] = node.events(pod="never", outcomes=["infeasible"])
    assert "Guaranteed Pods alongside CPU Manager static policy" in event["detail"]
    node.kill_agent()
    node.agent.start()
    node.wait(lambda: node.kept("never") == "infeasible", "it is wished for, and held back")
    node.wait_told()
    node.settle()
    assert len(node.resizes("never")) == 2, "remembered over a restart"
    node.kubelet.answer(node.namespace, "never", Answer.ACTUATE)  # before it can be asked
    node.order("never", min_cpu="200m")  # less than what was infeasible may be tried
    node.wait(lambda: node.request_of("never") == "200m", "less is tried")


def test_a_kubelet_that_fails_at_a_resize_is_given_time_and_then_spared(hasty_node: ActingNode) -> None:
    node = hasty_node
    node.kubelet.answer(node.namespace, "failing", Answer.ERROR)
    node.run_wanting("failing")
    node.wait(lambda: ("error", "kubelet_error") in reasons(node, "failing"), "its failure is told")
    node.wait(lambda: node.request_of("failing") == "100m", "it is taken back")
    node.settle()
    assert len(node.resizes("failing")) == 2, node.said()


def test_a_silent_kubelet_is_asked_once(node: ActingNode) -> None:
    node.run_wanting("silent", then="100m")
    node.kubelet.answer(node.namespace, "silent", Answer.SILENCE)
    node.order("silent", min_cpu="300m")
    node.wait(lambda: node.outcomes("silent") == ["accepted"], "it is asked")
    node.order("silent", min_cpu="500m")
    node.wait_wish("silent", 500)
    node.settle()
    assert len(node.resizes("silent")) == 1
    assert node.kept("silent") == "in_flight"


def test_more_than_the_node_has_is_withheld_without_a_request(node: ActingNode) -> None:
    node.run_wanting("greedy", then="3")
    node.run_wanting("modest", then="300m")
    node.wait_known("greedy", "modest")
    node.wait(lambda: node.kept("greedy") == "node_full", "it does not fit")
    node.settle()
    assert not node.resizes("greedy")
    assert node.request_of("greedy") == "100m"
    assert node.kept("greedy") == "node_full"


def test_growth_waits_while_others_hold_the_room(node: ActingNode) -> None:
    """What the scheduler has given to a pod that nobody may touch is not there for others."""
    node.run_pod("bare", objects.container(requests={"cpu": "1700m", "memory": "64Mi"}), owner=None)
    node.run_wanting("wide", then="400m")
    node.wait(lambda: node.kept("wide") == "node_full", "it does not fit")
    node.settle()
    assert not node.resizes("wide")
    node.plane.admin.delete(objects.pod_path(node.namespace, "bare"), gracePeriodSeconds="0")
    node.wait(lambda: node.request_of("wide") == "400m", "it grows into the room")
    assert len(node.resizes("wide")) == 1


def test_a_node_that_shrank_meanwhile_is_seen_and_the_same_is_not_sent_again(node: ActingNode) -> None:
    node.run_wanting("web", then="300m")
    node.wait(lambda: "applied" in node.outcomes("web"), "it grows")
    # In one step the node becomes too small for what is wished next, before the agent can know.
    objects.write_node_status(node.plane.admin, node.name, {"allocatable": {"cpu": "350m"}})
    node.order("web", min_cpu="1500m")
    node.wait(lambda: node.kept("web") == "node_full", "it does not fit")
    node.settle()
    assert len(node.resizes("web", refused=False)) == 1
    assert len(node.resizes("web")) <= 2, node.write_calls()
    assert node.request_of("web") == "300m"
    objects.write_node_status(node.plane.admin, node.name, {"allocatable": {"cpu": "2"}})
    node.wait(lambda: node.request_of("web") == "1500m", "a larger node takes it")
