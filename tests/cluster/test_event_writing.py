"""Events on a real server, with the agent's own rights: made, counted up, and read as kubectl reads them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent.core.cluster.pod import PodRef
from agent.core.resize.event_rate import NOTE_BYTES, EventReason, PodEvent
from agent.kube.calls.events import CONTROLLER, EventWriter
from tests.cluster import fence
from tests.cluster.api import Json
from tests.cluster.audit import AuditLog
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import fresh_name
from tests.cluster.resizing import Scene, scene_of

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", autouse=True)
def _fenced(cluster: ControlPlane) -> None:
    fence.install(cluster)


@pytest.fixture
def scene(cluster: ControlPlane, namespace: str, node_name: str) -> Iterator[Scene]:
    stage = scene_of(cluster, namespace, node_name)
    yield stage
    stage.agent.close()


class Clock:
    seconds = 1.8e9 + 0.123456

    def __call__(self) -> float:
        return self.seconds


def writer_of(scene: Scene, clock: Clock) -> EventWriter:
    return EventWriter(scene.agent, scene.node, unix_seconds=clock, monotonic_seconds=clock)


def events_of(scene: Scene, ref: PodRef) -> list[Json]:
    path = f"/api/v1/namespaces/{ref.namespace}/events"
    return scene.plane.admin.items(path, fieldSelector=f"involvedObject.uid={ref.uid}")


def ref_of(scene: Scene) -> PodRef:
    pod = scene.make()
    return PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)


def test_event_stands_at_the_pod_with_reason_note_and_reporter(scene: Scene) -> None:
    ref = ref_of(scene)
    assert writer_of(scene, Clock()).send(
        PodEvent(ref=ref, reason=EventReason.RESIZED, note="CPU request of app from 100m to 250m")
    )
    [event] = events_of(scene, ref)
    assert (event["reason"], event["type"], event["action"]) == ("Resized", "Normal", "Resize")
    assert event["message"] == "CPU request of app from 100m to 250m"
    assert (event["reportingComponent"], event["reportingInstance"]) == (CONTROLLER, scene.node)
    assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("Pod", ref.name)
    assert event["eventTime"] == "2027-01-15T08:00:00.123456Z"  # 1.8e9 s after 1970


def test_every_reason_and_the_longest_note_are_taken(scene: Scene) -> None:
    ref, writer = ref_of(scene), writer_of(scene, clock := Clock())
    for reason in EventReason:
        clock.seconds += 1.0
        assert writer.send(PodEvent(ref=ref, reason=reason, note="\u00fc" * 2 * NOTE_BYTES)), reason
    types = {event["reason"]: event["type"] for event in events_of(scene, ref)}
    assert types == {reason.value: "Warning" if reason.is_warning else "Normal" for reason in EventReason}


def test_the_same_again_is_one_event_with_a_count(scene: Scene) -> None:
    ref, writer = ref_of(scene), writer_of(scene, clock := Clock())
    event = PodEvent(ref=ref, reason=EventReason.RESIZE_DEFERRED, note="no room: cpu")
    log = AuditLog(scene.plane.audit_log)
    for _ in range(5):
        assert writer.send(event)
        clock.seconds += 20.0
    [document] = events_of(scene, ref)
    # Written at 0 s; at 20 and 40 s only counted; at 60 s the fourth.
    assert document["series"] == {"count": 4, "lastObservedTime": "2027-01-15T08:01:00.123456Z"}
    assert [write.verb for write in log.writes(fence.USER) if write.node == scene.node] == ["create", "patch"]


def test_event_deleted_meanwhile_is_made_anew(scene: Scene) -> None:
    ref, writer = ref_of(scene), writer_of(scene, clock := Clock())
    event = PodEvent(ref=ref, reason=EventReason.RESIZED, note="a note")
    writer.send(event)
    scene.plane.admin.delete(
        f"/api/v1/namespaces/{ref.namespace}/events", fieldSelector=f"involvedObject.uid={ref.uid}"
    )
    clock.seconds += 100.0
    assert not writer.send(event)
    assert writer.send(event)
    [document] = events_of(scene, ref)
    assert "series" not in document


def test_pod_with_the_longest_name_has_events_too(scene: Scene) -> None:
    ref = PodRef(namespace=scene.namespace, name=f"a{'-' * 218}.{'b' * 33}", uid=fresh_name("uid"))
    assert len(ref.name) == 253
    assert writer_of(scene, Clock()).send(PodEvent(ref=ref, reason=EventReason.RESIZED, note="a note"))
    assert len(events_of(scene, ref)) == 1


def test_no_server_and_no_namespace_are_false_and_raise_nothing(scene: Scene) -> None:
    ref, writer = ref_of(scene), writer_of(scene, Clock())
    with scene.plane.outage():
        assert not writer.send(PodEvent(ref=ref, reason=EventReason.RESIZED, note="a note"))
    nowhere = PodRef(namespace="no-such-namespace", name="web", uid="u")
    assert not writer.send(PodEvent(ref=nowhere, reason=EventReason.RESIZED, note="a note"))
    assert (writer.failed, writer.written) == (2, 0)
