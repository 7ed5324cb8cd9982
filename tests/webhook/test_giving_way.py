"""Placeholder pods give way to what a node proposes, before a real pod goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.core.admission.options import AdmissionSettings
from agent.core.cluster.facts import ClusterRules
from agent.core.cluster.pod import Pod
from agent.core.eviction.options import ArbiterOptions, EvictionMode
from agent.core.eviction.proposal import PodAmounts, Proposal, Reason, Ruling, Verdict, Want
from agent.kube.client.errors import ApiError, Unreachable
from agent.webhook.clocks import Clocks
from agent.webhook.eviction.arbiter import Arbiter
from agent.webhook.eviction.preemption import SPACING_SECONDS, GivingWay
from agent.webhook.store.evictions import EvictionStore
from tests.evictions import NODE, Admissions, Cluster, pod_document, proposal
from tests.fake_api import Call, FakeApi
from tests.fakes import FakeClock
from tests.placeholders import container, content, placeholder_pod, read, shape_of
from tests.webhook.open_store import open_store


def placeholder(name: str, cpu: str = "1", node: str = NODE) -> Pod:
    template = content(container("app", cpu=cpu, memory="64Mi"))
    return read(placeholder_pod(shape_of(template), name, node=node))


class Scene:
    """Placeholders on nodes, and a server that takes them away."""

    def __init__(self, *pods: Pod) -> None:
        self.pods: list[Pod] | None = list(pods)
        self.error: Exception | None = None
        self.on_removal: Callable[[str], None] = lambda _: None
        """Called with the name of a pod before it goes."""
        self.api, self.clock = FakeApi(self.answer), FakeClock()
        self.giving = GivingWay(self.api, pods=lambda: self.pods, clock=lambda: self.clock.seconds)

    def answer(self, call: Call) -> object:
        assert self.pods is not None
        if call.method == "GET":
            return pod_document()
        if self.error is not None:
            raise self.error
        name = call.path.rpartition("/")[2]
        self.on_removal(name)
        self.pods = [pod for pod in self.pods if pod.name != name]
        return {}

    def gone(self) -> list[tuple[str, str]]:
        removals = [
            (call.path.rpartition("/")[2], call.body["preconditions"]["uid"])
            for call in self.api.calls
            if call.method == "DELETE"
        ]
        self.api.calls.clear()
        return removals

    def asked(self, asked: Proposal | None = None, node: str = NODE) -> Ruling | None:
        return self.giving(node, asked or proposal(), lambda: None)


def test_one_goes_and_the_node_is_left_to_use_it() -> None:
    scene = Scene(placeholder("room-0"), placeholder("room-1"), placeholder("other", node="node-b"))
    ruling = scene.asked()
    assert ruling is not None
    assert (ruling.reason, ruling.verdict) == (Reason.PLACEHOLDER, Verdict.LATER)
    assert ruling.detail == "shop/room-0 makes room, a placeholder pod of its node"
    assert scene.gone() == [("room-0", "uid-room-0")]
    ruling = scene.asked()
    assert ruling is not None
    assert (ruling.reason, scene.gone()) == (Reason.PLACEHOLDER, [])
    assert scene.asked(node="node-b") is not None  # each node for itself
    assert scene.gone() == [("other", "uid-other")]
    scene.clock.advance(SPACING_SECONDS)
    scene.asked()
    assert scene.gone() == [("room-1", "uid-room-1")]
    scene.clock.advance(SPACING_SECONDS)
    assert (scene.asked(), scene.gone()) == (None, [])  # nothing of ours is in its way any more


def test_just_after_the_last_one_went_no_real_pod_goes_either() -> None:
    scene = Scene(placeholder("room-0"))
    assert [scene.asked() is not None, scene.asked() is not None] == [True, True]


@pytest.mark.parametrize(
    ("want", "needed", "expected"),
    [
        (Want.CPU, PodAmounts(cpu_millicores=2700), ["room-3", "room-2", "room-0"]),
        (Want.CPU, PodAmounts(memory_bytes=1), ["room-0"]),
        (Want.MEMORY, PodAmounts(memory_bytes=(100 + 65) << 20), ["room-3", "room-0"]),
        (Want.OUT_OF_MEMORY, PodAmounts(memory_bytes=(100 + 64) << 20), ["room-0"]),
    ],
)
def test_as_many_go_as_hold_what_is_said_to_be_lacking(want: Want, needed: PodAmounts, expected: list[str]) -> None:
    scene = Scene(*(placeholder(f"room-{number}") for number in range(4)))
    requested = PodAmounts(cpu_millicores=200, memory_bytes=100 << 20)
    ruling = scene.asked(proposal(want, requested=requested, needed=needed))
    assert ruling is not None
    assert [name for name, _ in scene.gone()] == expected
    if len(expected) > 1:
        assert ruling.detail.endswith("make room, placeholder pods of its node")


def test_before_they_were_read_nobody_goes() -> None:
    scene = Scene()
    scene.pods = None
    ruling = scene.asked()
    assert ruling is not None
    assert (ruling.reason, ruling.detail) == (Reason.FACTS_UNKNOWN, "the placeholder pods have not been read yet")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ApiError("DELETE x", status=403, message="no others"), Reason.FORBIDDEN),
        (ApiError("DELETE x", status=500), Reason.API_AWAY),
        (Unreachable("DELETE x: no answer"), Reason.API_AWAY),
    ],
)
def test_one_that_cannot_be_removed_is_named_and_no_real_pod_goes(error: Exception, reason: Reason) -> None:
    scene = Scene(placeholder("room-0"))
    scene.error = error
    ruling = scene.asked()
    assert ruling is not None
    assert (ruling.reason, ruling.detail) == (reason, f"shop/room-0, a placeholder pod, is in its way: {error}")


def test_one_that_cannot_be_removed_is_told_to_all_proposals_until_it_is_tried_again() -> None:
    scene = Scene(placeholder("room-0"))
    scene.error = ApiError("DELETE x", status=403)
    ruling = scene.asked()
    assert ruling is not None
    assert (ruling.reason, scene.asked()) == (Reason.FORBIDDEN, ruling)
    assert scene.gone() == [("room-0", "uid-room-0")], "asked for once"
    scene.error = None
    scene.clock.advance(SPACING_SECONDS)
    ruling = scene.asked()
    assert ruling is not None
    assert ruling.reason is Reason.PLACEHOLDER


def test_while_they_are_being_removed_other_proposals_of_the_node_wait() -> None:
    scene, rulings = Scene(placeholder("room-0"), placeholder("room-1")), list[Ruling | None]()
    scene.on_removal = lambda _: rulings.append(scene.asked())
    scene.asked()
    (ruling,) = rulings
    assert ruling is not None
    assert ruling.detail == "placeholder pods of its node are making room"


def test_of_several_the_one_that_cannot_be_removed_is_named() -> None:
    scene = Scene(*(placeholder(f"room-{number}") for number in range(3)))

    def refuse(name: str) -> None:
        if name == "room-1":
            raise ApiError("DELETE x", status=500)

    scene.on_removal = refuse
    ruling = scene.asked(of_three())
    assert ruling is not None
    assert ruling.reason is Reason.API_AWAY
    assert ruling.detail.startswith("shop/room-1, a placeholder pod, is in its way")


def of_three() -> Proposal:
    """A proposal that lacks three cores, which three placeholders hold."""
    return proposal(requested=PodAmounts(cpu_millicores=200), needed=PodAmounts(cpu_millicores=3200))


@pytest.mark.parametrize("status", [404, 409])
def test_one_that_is_gone_already_made_room(status: int) -> None:
    scene = Scene(placeholder("room-0"))
    scene.error = ApiError("DELETE x", status=status)
    ruling = scene.asked()
    assert ruling is not None
    assert ruling.reason is Reason.PLACEHOLDER


# -- the arbiter ---------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EvictionStore]:
    opened = open_store(f"sqlite:///{tmp_path / 'plimsoll.db'}")
    yield EvictionStore(opened)
    opened.close()


def decided(scene: Scene, store: EvictionStore, cluster: Cluster, mode: EvictionMode, **fields: Any) -> Reason:
    arbiter = Arbiter(
        api=scene.api,
        store=store,
        facts=cluster,
        admission=Admissions(),
        options=ArbiterOptions(mode=mode),
        sizing=AdmissionSettings(),
        give_way=scene.giving,
        clocks=Clocks(monotonic=lambda: scene.clock.seconds),
    )
    [reply] = arbiter.decide(NODE, [proposal(**fields)])
    return reply.ruling.reason


@pytest.mark.parametrize("mode", EvictionMode)
def test_the_arbiter_has_them_give_way_first_in_either_mode(store: EvictionStore, mode: EvictionMode) -> None:
    scene, cluster = Scene(placeholder("room-0")), Cluster()
    assert decided(scene, store, cluster, mode) is Reason.PLACEHOLDER
    assert scene.gone() == [("room-0", "uid-room-0")]


def test_a_pause_that_begins_after_the_first_went_keeps_the_others(store: EvictionStore) -> None:
    scene, cluster = Scene(*(placeholder(f"room-{number}") for number in range(3))), Cluster()

    def pause(_: str) -> None:
        cluster.cluster_rules = ClusterRules(pause_reason="upgrade")

    scene.on_removal = pause
    asked = of_three()
    fields = {"requested": asked.requested, "needed": asked.needed}
    assert decided(scene, store, cluster, EvictionMode.ENFORCE, **fields) is Reason.PLACEHOLDER
    assert len(scene.gone()) == 1
    assert decided(scene, store, cluster, EvictionMode.ENFORCE, **fields) is Reason.PAUSED


def test_none_gives_way_where_nothing_may_be_written_or_the_pod_is_not_of_that_node(store: EvictionStore) -> None:
    scene = Scene(placeholder("room-0"))
    paused = Cluster(cluster_rules=ClusterRules(pause_reason="upgrade"))
    assert decided(scene, store, paused, EvictionMode.ENFORCE) is Reason.PAUSED
    assert decided(scene, store, Cluster(pods={}), EvictionMode.ENFORCE) is Reason.UNKNOWN_POD
    assert scene.gone() == []
