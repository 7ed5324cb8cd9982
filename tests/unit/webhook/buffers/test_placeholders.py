"""The shell of placeholder pods where the API server is away, busy or of another opinion; see tests/cluster too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agent.core.buffers.buffer import (
    ACTIVE_CAPACITY,
    Buffer,
    BufferOutcome,
    BufferStatus,
    ChunkExplanation,
    ManagedTemplate,
)
from agent.core.buffers.placeholder_options import PlaceholderOptions
from agent.core.buffers.placeholders import UNSEEN_SECONDS
from agent.core.numbers.units import MIB
from agent.kube.client.errors import ApiError, KubeError, Unreachable
from agent.webhook.buffers.placeholders import READY_REPLICAS, UNLISTED_SECONDS, Placeholders
from agent.webhook.buffers.seams import RoomOutcome, WritePermission
from agent.webhook.clocks import Clocks
from tests.fake_api import Call, FakeApi
from tests.placeholders import BUFFER, OPTIONS, container, content, placeholder_pod, shape_of

Json = dict[str, Any]
PODS = "/api/v1/namespaces/shop/pods"
STEM = "spare-room-0b1d2"
LARGER = content(container("app", cpu="1", memory="64Mi"))


class Server(FakeApi):
    """An API server of one namespace's pods: takes all, or fails as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.fail: Callable[[str, str], Exception | None] = lambda _method, _path: None

    def answer(self, call: Call) -> object:
        error = self.fail(call.method, call.path)
        if error is not None:
            raise error
        if call.method != "POST":
            return {}
        metadata = {**call.body["metadata"], "uid": f"uid-{call.body['metadata']['name']}", "namespace": "shop"}
        return {**call.body, "metadata": metadata, "status": {"phase": "Pending"}}

    @property
    def asked(self) -> list[tuple[str, str]]:
        return [(call.method, call.path) for call in self.calls]

    @property
    def bodies(self) -> list[Any]:
        return [call.body for call in self.calls]

    def take(self) -> list[tuple[str, str]]:
        taken = self.asked
        self.calls = []
        return taken


class Bench:
    """A keeper whose pods the test puts where the watch would."""

    def __init__(self, options: PlaceholderOptions = OPTIONS) -> None:
        self.server = Server()
        self.now = 1_800_000_000.0
        self.leads = True
        self.paused: str | None = None
        self.woken: list[str] = []
        self.keeper = Placeholders(
            self.server,
            options,
            permission=WritePermission(is_leader=lambda: self.leads, pause_reason=lambda: self.paused),
            can_resize=lambda: True,
            clocks=Clocks(wall=lambda: self.now, monotonic=lambda: self.now),
        )
        self.keeper._wake = self.woken.append
        self.keeper._watch._version = "1"

    def see(self, *documents: Json) -> None:
        pods = self.keeper._pods
        pods.replace_all([pods.entry(document) for document in documents], now_seconds=self.now, is_newest=True)

    def keep(self, *outcomes: BufferOutcome, template: Json | None = None) -> RoomOutcome:
        managed_template = ManagedTemplate(
            name="managed", generation=1, content=template or content(), owner_uid=BUFFER.uid
        )
        return self.keeper.keep("shop", outcomes, {"managed": managed_template}, "v1beta1")

    def reason(self, room: RoomOutcome) -> tuple[str, str]:
        return room.provisioning["spare"].reason, room.provisioning["spare"].message


def outcome(replicas: int | None, buffer: Buffer = BUFFER, *, ready: str | None = None) -> BufferOutcome:
    annotations = {} if ready is None else {READY_REPLICAS: ready}
    status = BufferStatus(template_name=None if replicas is None else "managed", replicas=replicas)
    return BufferOutcome(buffer=replace(buffer, annotations=annotations), status=status, explanation=ChunkExplanation())


def pod(number: int, template: Json | None = None, **status: Any) -> Json:
    return placeholder_pod(shape_of(template or content()), f"{STEM}-{number}", **status)


def refused(status: int, message: str) -> ApiError:
    return ApiError("POST", status=status, reason="Forbidden", message=message)


def used(bench: Bench) -> int:
    """The CPU that the buffer's pods use, nanos."""
    usage = bench.keeper.usage("shop")
    assert usage is not None
    return usage["spare"]["cpu"]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_before_the_pods_were_read_nothing_is_done() -> None:
    bench = Bench()
    bench.keeper._watch._version = None
    assert bench.keep(outcome(2)) == RoomOutcome(again_seconds=UNLISTED_SECONDS)
    assert bench.server.asked == []


def test_pods_are_made_with_their_names_and_the_annotation_follows(bench: Bench) -> None:
    bench.see()
    room = bench.keep(outcome(2, ready="0"))
    assert bench.server.asked == [("POST", PODS), ("POST", PODS)]
    assert [body["metadata"]["name"] for body in bench.server.bodies] == [f"{STEM}-0", f"{STEM}-1"]
    assert room.ready == {"spare": 0}
    assert bench.reason(room) == ("PlaceholdersStarting", "0 of 2 placeholder pods keep their room; 2 to be made")
    bench.server.take()
    bench.see(pod(0), pod(1))
    assert bench.woken
    room = bench.keep(outcome(2, ready="0"))
    assert bench.server.asked == [("PATCH", "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/shop/capacitybuffers/spare")]
    assert bench.server.bodies == [{"metadata": {"uid": BUFFER.uid, "annotations": {READY_REPLICAS: "2"}}}]
    assert (room.ready, bench.reason(room)[0], room.again_seconds) == ({"spare": 2}, "RoomKept", None)


def test_who_does_not_lead_writes_nothing(bench: Bench) -> None:
    bench.see(pod(0), pod(1, LARGER), pod(2))
    bench.leads = False
    bench.keep(outcome(5), template=LARGER)
    bench.keep(outcome(0))
    assert bench.server.asked == []


def test_while_the_cluster_is_paused_nothing_is_written_and_it_goes_on_afterwards(bench: Bench) -> None:
    strange = placeholder_pod(shape_of(content(), buffer=replace(BUFFER, uid="gone")), "strange-room-gone-0")
    bench.see(pod(0), pod(1, LARGER), pod(2, phase="Failed"), strange)
    bench.paused = "upgrade"
    for replicas in (0, 5):
        room = bench.keep(outcome(replicas, ready="0"))
        assert bench.reason(room) == ("Paused", "paused: upgrade; the 2 placeholder pods that there are stay")
        assert room.again_seconds is not None
        assert room.again_seconds <= 5.0
    assert bench.server.asked == []
    bench.paused = None
    bench.now += 31
    bench.keep(outcome(5, ready="0"))
    methods = [method for method, _ in bench.server.asked]
    assert (methods.count("DELETE"), methods.count("PATCH"), methods.count("POST")) == (2, 2, 3)


def test_a_pause_in_the_midst_of_a_pass_ends_it(bench: Bench) -> None:
    def pause(_method: str, _path: str) -> None:
        bench.paused = "upgrade"

    bench.see()
    bench.server.fail = pause
    bench.keep(outcome(5))
    assert bench.server.take() == [("POST", PODS)]
    bench.paused, bench.server.fail = None, lambda _method, _path: None
    bench.keep(outcome(5, ready="0"))
    assert [body["metadata"]["name"] for body in bench.server.bodies] == [f"{STEM}-{number}" for number in range(1, 5)]


def test_a_refused_pod_ends_the_pass_and_is_tried_again_later(bench: Bench) -> None:
    bench.see()
    bench.server.fail = lambda method, _: refused(403, "exceeded quota: q") if method == "POST" else None
    room = bench.keep(outcome(3, ready="0"))
    assert bench.server.take() == [("POST", PODS)]
    assert bench.reason(room) == (
        "PlaceholdersRefused",
        "0 of 3 placeholder pods keep their room; 3 refused: exceeded quota: q",
    )
    assert room.again_seconds == OPTIONS.first_back_off_seconds
    bench.server.fail = lambda _method, _path: None
    bench.now += 29
    bench.keep(outcome(3, ready="0"))
    assert bench.server.take() == []
    bench.now += 1
    bench.keep(outcome(3, ready="0"))
    assert len(bench.server.take()) == 3


@pytest.mark.parametrize("error", [refused(429, "busy"), refused(500, "broken"), Unreachable("cut off")])
def test_a_server_that_is_busy_or_away_is_no_refusal(bench: Bench, error: KubeError) -> None:
    bench.see()
    bench.server.fail = lambda _method, _path: error
    with pytest.raises(type(error)):
        bench.keep(outcome(2))
    bench.server.take()
    bench.server.fail = lambda _method, _path: None
    bench.keep(outcome(2, ready="0"))
    assert bench.server.take() == [("POST", PODS)] * 2


def test_a_pod_that_may_have_been_made_is_waited_for(bench: Bench) -> None:
    bench.see()
    bench.server.fail = lambda _method, _path: Unreachable("cut off", may_have_been_done=True)
    with pytest.raises(Unreachable):
        bench.keep(outcome(2))
    bench.server.take()
    bench.server.fail = lambda _method, _path: None
    bench.keep(outcome(2, ready="0"))
    assert [body["metadata"]["name"] for body in bench.server.bodies] == [f"{STEM}-1"]


def test_a_refused_resize_becomes_a_new_pod(bench: Bench) -> None:
    bench.see(pod(0))
    bench.server.fail = lambda _, path: refused(422, "not on this node") if path.endswith("/resize") else None
    room = bench.keep(outcome(1, ready="0"), template=LARGER)
    assert bench.server.take() == [("PATCH", f"{PODS}/{STEM}-0/resize")]
    assert room.ready == {"spare": 0}
    bench.keep(outcome(1, ready="0"), template=LARGER)
    assert bench.server.take() == [("DELETE", f"{PODS}/{STEM}-0")]


def test_a_resize_that_got_no_answer_is_made_again(bench: Bench) -> None:
    bench.see(pod(0))
    bench.server.fail = lambda _method, _path: refused(503, "starting")
    with pytest.raises(ApiError):
        bench.keep(outcome(1, ready="0"), template=LARGER)
    bench.server.fail = lambda _method, _path: None
    bench.server.take()
    bench.keep(outcome(1, ready="0"), template=LARGER)
    assert bench.server.bodies == [
        {
            "metadata": {"uid": f"uid-{STEM}-0"},
            "spec": {"containers": [{"name": "room", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}]},
        }
    ]


def test_a_pod_that_is_gone_already_is_no_trouble_and_one_that_may_not_be_removed_is(bench: Bench) -> None:
    bench.see(pod(0))
    bench.server.fail = lambda _method, _path: refused(404, "gone")
    bench.keep(outcome(0, ready="0"))
    assert bench.server.take() == [("DELETE", f"{PODS}/{STEM}-0")]
    bench.keeper.clear()
    bench.server.fail = lambda _method, _path: refused(403, "cannot delete resource")
    with pytest.raises(ApiError):
        bench.keep(outcome(0, ready="0"))


def test_a_removal_names_the_pod_it_means(bench: Bench) -> None:
    bench.see(pod(0))
    bench.keep(outcome(0, ready="0"))
    assert bench.server.bodies[0]["preconditions"] == {"uid": f"uid-{STEM}-0"}


def test_pods_of_a_buffer_of_another_strategy_go_and_so_does_its_annotation(bench: Bench) -> None:
    bench.see(pod(0))
    room = bench.keep(outcome(3, replace(BUFFER, strategy=ACTIVE_CAPACITY), ready="1"))
    assert [method for method, _ in bench.server.asked] == ["DELETE", "PATCH"]
    assert bench.server.bodies[1]["metadata"]["annotations"] == {READY_REPLICAS: None}
    assert (room.provisioning, room.ready) == ({}, {})


def test_pods_of_a_buffer_that_is_gone_go_and_are_forgotten(bench: Bench) -> None:
    bench.see(pod(0))
    bench.keep()
    assert bench.server.take() == [("DELETE", f"{PODS}/{STEM}-0")]
    bench.see()
    bench.keep()
    assert bench.keeper._states == {"shop": {}}


def test_a_buffer_that_is_being_deleted_keeps_no_pods_and_is_not_written_to(bench: Bench) -> None:
    bench.see(pod(0))
    bench.keep(outcome(3, replace(BUFFER, is_terminating=True)))
    assert bench.server.take() == [("DELETE", f"{PODS}/{STEM}-0")]


def test_where_the_number_is_not_known_pods_stay(bench: Bench) -> None:
    bench.see(pod(0), pod(1))
    room = bench.keep(outcome(None, ready="2"))
    assert bench.server.asked == []
    assert bench.reason(room)[0] == "NotReadyForProvisioning"


def test_an_annotation_that_cannot_be_written_stops_nothing(bench: Bench) -> None:
    bench.see(pod(0))
    bench.server.fail = lambda _method, _path: refused(403, "cannot patch resource")
    room = bench.keep(outcome(1, ready="0"))
    assert (room.ready, bench.reason(room)[0]) == ({"spare": 1}, "RoomKept")


def test_usage_is_what_living_pods_of_each_buffer_request_as_quotas_count_them(bench: Bench) -> None:
    resized = pod(1, containerStatuses=[{"name": "room", "resources": {"requests": {"cpu": "2"}}}])
    strange = placeholder_pod(shape_of(content()), "strange", metadata={"ownerReferences": []})
    bench.see(pod(0), resized, pod(2, phase="Failed"), pod(3, node=None), strange)
    usage = bench.keeper.usage("shop")
    assert usage is not None
    # 500m as asked, 2 as still in force, 500m waiting for a node: quotas count it too.
    assert usage["spare"]["cpu"] == 3 * 10**9
    assert set(usage) == {"spare"}
    assert bench.keeper.usage("other") == {}


def test_pods_that_were_just_made_are_in_use_until_the_watch_shows_them(bench: Bench) -> None:
    bench.see()
    bench.keep(outcome(2, ready="0"))
    assert bench.keeper.usage("shop") == {"spare": {"cpu": 10**9, "memory": 128 * MIB * 10**9}}
    assert bench.keeper.usage("other") == {}
    bench.see(pod(0))
    assert used(bench) == 10**9
    # One gave way at once; the other is never shown.
    bench.see()
    assert used(bench) == 5 * 10**8
    bench.now += UNSEEN_SECONDS
    assert bench.keeper.usage("shop") == {}


def test_a_pod_that_the_watch_showed_before_its_answer_came_is_counted_once(bench: Bench) -> None:
    def show(_method: str, _path: str) -> None:
        bench.see(pod(0))

    bench.see()
    bench.server.fail = show
    bench.keep(outcome(1, ready="0"))
    assert bench.keeper.usage("shop") == {"spare": {"cpu": 5 * 10**8, "memory": 64 * MIB * 10**9}}


def test_a_pod_that_came_before_its_answer_and_went_after_it_is_not_in_use(bench: Bench) -> None:
    def show(_method: str, _path: str) -> None:
        bench.see(pod(0))

    bench.see()
    bench.server.fail = show
    bench.keep(outcome(1, ready="0"))
    bench.see()
    assert bench.keeper.usage("shop") == {}


def test_who_begins_to_lead_knows_of_no_pods_that_were_just_made(bench: Bench) -> None:
    bench.see()
    bench.keep(outcome(2, ready="0"))
    bench.keeper.clear()
    assert bench.keeper.usage("shop") == {}


def test_usage_is_unknown_until_the_pods_were_read(bench: Bench) -> None:
    bench.keeper._watch._version = None
    assert bench.keeper.usage("shop") is None


def test_a_pod_that_only_was_written_again_wakes_nobody(bench: Bench) -> None:
    bench.see(pod(0))
    bench.woken.clear()
    again = pod(0)
    again["metadata"]["resourceVersion"] = "7"
    bench.keeper._pods.put(bench.keeper._pods.entry(again), now_seconds=bench.now)
    assert bench.woken == []
    bench.keeper._pods.put(bench.keeper._pods.entry(pod(0, phase="Failed")), now_seconds=bench.now)
    assert bench.woken == ["shop"]


def test_the_class_is_the_one_that_was_set() -> None:
    assert Bench(replace(OPTIONS, priority_class="low")).keeper.priority_class == "low"
