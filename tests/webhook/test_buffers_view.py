"""``plimsoll buffers`` as lines: what each number says of itself."""

from __future__ import annotations

from typing import Any

import pytest

from agent.cli.text.spans import ASCII, line_text
from agent.cli.workloads.buffers_view import buffer_lines, list_lines
from agent.core.buffers.buffer import BufferSizing, Chunk, ChunkExplanation, ChunkRule, QuotaAllocation, ShapeSource
from agent.webhook.queries.buffer_bodies import (
    BufferBody,
    BufferConditionBody,
    BufferControllerBody,
    BufferProvisionBody,
    BuffersBody,
    BufferWhyBody,
)
from agent.webhook.queries.buffers import why_body

NANOS = 10**9


def controller(**more: Any) -> BufferControllerBody:
    facts: dict[str, Any] = {
        "mode": "auto",
        "replica": "webhook-0",
        "namespace": "plimsoll",
        "leads": True,
        "leader": "webhook-0",
        "paused": None,
        "contested_by": None,
        "troubles": [],
        "dry_run": True,
    }
    return BufferControllerBody(**{**facts, **more})


def why(explanation: ChunkExplanation, **more: Any) -> BufferWhyBody:
    facts: dict[str, Any] = {"sizing": None, "ready_pods": None, "age_seconds": 3.0}
    return why_body(explanation, **{**facts, **more})


def buffer(why: BufferWhyBody | None, **more: Any) -> BufferBody:
    ready = BufferConditionBody(
        type="ReadyForProvisioning",
        status="True",
        reason="AttributesSetSuccessfully",
        message="ready",
        age_seconds=60.0,
    )
    facts: dict[str, Any] = {
        "namespace": "shop",
        "name": "room",
        "age_seconds": 7200.0,
        "generation": 1,
        "strategy": "buffer.x-k8s.io/active-capacity",
        "reference": "Deployment.apps web",
        "replicas": 1,
        "percentage": 50,
        "limits": {"cpu": "4"},
        "chunks": 2,
        "template": "capacitybuffer-room-pod-template",
        "template_generation": 3,
        "conditions": [ready],
        "others": [],
        "left_alone": None,
        "trouble": None,
        "autoscaler": None,
    }
    return BufferBody(why=why, **{**facts, **more})


CUT = ChunkExplanation(
    decided_by=ChunkRule.QUOTAS,
    shape_source=ShapeSource.LIVE_POD,
    shape_name="pod web-0",
    chunk=Chunk(requests={"cpu": NANOS, "memory": 512 * 2**20 * NANOS}),
    scalable_replicas=6,
    sizing=BufferSizing(
        replicas=3,
        decided_by=ChunkRule.PERCENTAGE,
        by_replicas=1,
        by_percentage=3,
        by_limits=4,
        limiting_resource="cpu",
    ),
    allocation=QuotaAllocation(wanted=3, allowed=2, by_quota={"tight": 2, "wide": 9}, limiting=("tight",)),
)


def shown(answer: BuffersBody, width: int = 110) -> list[str]:
    return [line_text(line).rstrip() for line in buffer_lines(answer, width=width, glyphs=ASCII)]


def body(*buffers: BufferBody, **more: Any) -> BuffersBody:
    return BuffersBody(controller=controller(**more), total=len(buffers), buffers=list(buffers), next=None)


def test_each_number_says_where_it_is_from_and_one_decides() -> None:
    lines = shown(body(buffer(why(CUT))))
    assert lines[0] == "CapacityBuffer shop/room   made 2h00m ago"
    text = "\n".join(" ".join(line.split()) for line in lines)
    assert "asks for Deployment.apps web, 1 replica, 50 % of its replicas, within cpu 4" in text
    assert "shape pod web-0 (newest live pod)" in text
    assert "one chunk cpu 1, memory 512Mi" in text
    assert "replicas 1 a fixed number" in text
    assert "percentage 3 50 % of 6 replicas" in text
    assert "limits 4 fit into the limits; cpu is the tightest" in text
    assert "quotas 2 fit into quota tight decides" in text
    assert "quota 9 fit into quota wide, enough" in text
    assert "chunks 2 of cpu 1, memory 512Mi each" in text
    assert text.count("decides") == 1


def test_a_buffer_that_is_not_ready_says_why_and_no_number() -> None:
    text = "\n".join(shown(body(buffer(why(ChunkExplanation(fault="PodTemplate small does not exist")), chunks=None))))
    assert "not ready" in text
    assert "PodTemplate small does not exist" in text
    assert "decides" not in text


def test_a_schedule_decides() -> None:
    asleep = ChunkExplanation(decided_by=ChunkRule.SCHEDULE, schedule="inactive until Monday", sizing=CUT.sizing)
    text = "\n".join(shown(body(buffer(why(asleep), chunks=0))))
    assert "inactive until Monday   decides" in text


def test_a_follower_says_who_knows_and_how_to_ask() -> None:
    lines = shown(body(buffer(None), leads=False, leader="webhook-1"), width=200)
    assert lines[0] == (
        "webhook-0 does not lead: it has the statuses, and no reasons; "
        "ask webhook-1: kubectl -n plimsoll port-forward pod/webhook-1 8443"
    )
    assert any("2, as the status has it; why is not known here" in line for line in lines)
    (first, *_) = shown(body(buffer(None), leads=False, leader=None), width=200)
    assert first.endswith("no reasons; nobody is known to lead, so nothing is looked after")


def test_a_buffer_that_could_not_be_looked_at_says_so() -> None:
    lines = shown(body(buffer(None, trouble="GET /x: no answer")))
    assert any(line.split() == ["trouble", "GET", "/x:", "no", "answer"] for line in lines)
    assert any("not looked at yet" in line for line in lines)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"contested_by": "cluster-autoscaler (of shop/room)"}, "stepped back: cluster-autoscaler (of shop/room)"),
        ({"mode": "off"}, "is off here"),
        ({"paused": "maintenance"}, "the cluster is paused, nothing is written: maintenance"),
        ({"troubles": ["podtemplates: 403"]}, "not heard: podtemplates: 403"),
    ],
)
def test_what_keeps_the_controller_from_its_work_comes_first(more: dict[str, Any], words: str) -> None:
    assert words in shown(body(buffer(None), **more))[0]


def test_the_list_has_a_line_for_each_buffer() -> None:
    answer = body(buffer(why(CUT)), buffer(None, name="other", conditions=[], chunks=None))
    lines = [line_text(line).rstrip() for line in list_lines(answer, width=140, glyphs=ASCII, has_colour=False)]
    assert lines[0].split()[:3] == ["NAMESPACE", "NAME", "OF"]
    assert lines[1].split()[:2] == ["shop", "room"]
    assert "quotas" in lines[1]
    assert lines[2].split()[:2] == ["shop", "other"]
    assert lines[-1] == "buffers: 2; plimsoll buffers NAMESPACE/NAME says why"


def faulty(number: int, fault: str) -> BufferBody:
    condition = BufferConditionBody(
        type="ReadyForProvisioning",
        status="False",
        reason="error",
        message=f"Buffer not ready for provisioning: {fault}",
        age_seconds=60.0,
    )
    return buffer(why(ChunkExplanation(fault=fault)), name=f"b{number:02}", chunks=None, conditions=[condition])


def test_the_list_says_of_the_first_that_are_not_ready_why() -> None:
    answer = body(*(faulty(number, f"PodTemplate t{number} does not exist") for number in range(12)), buffer(why(CUT)))
    lines = [line_text(line).rstrip() for line in list_lines(answer, width=140, glyphs=ASCII, has_colour=False)]
    said = lines[14:]
    assert said[0] == "shop/b00: PodTemplate t0 does not exist"
    assert said[9:] == [
        "shop/b09: PodTemplate t9 does not exist",
        "2 more are not ready",
        "buffers: 13; plimsoll buffers NAMESPACE/NAME says why",
    ]


def test_a_long_reason_is_told_to_its_end() -> None:
    fault = " ".join(["a pod of PodTemplate small could not be tried out:", *(f"word-{n}" for n in range(40)), "END"])
    lines = shown(body(faulty(0, fault)), width=80)
    assert all(len(line) <= 80 for line in lines)
    text = " ".join(" ".join(lines).split())
    assert text.count(fault) == 2  # as what is not ready, and in the condition
    assert "ReadyForProvisioning False, for 1m00s (error): Buffer not ready" in text


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ((None, "strategy x is not served", 0, None), "cluster-autoscaler passes it over: strategy x is not served"),
        (("False", "BufferIsEmpty", 0, None), "cluster-autoscaler makes no room for it (BufferIsEmpty)"),
        (
            ("True", "FakePodsInjected", 2, "capacity-buffer-room-1"),
            "cluster-autoscaler makes room for 2 virtual pods, capacity-buffer-room-1 and so on (FakePodsInjected)",
        ),
    ],
)
def test_what_an_autoscaler_does_next_is_told(told: tuple[str | None, str, int, str | None], words: str) -> None:
    status, reason, pods, first = told
    next_loop = BufferProvisionBody(status=status, reason=reason, virtual_pods=pods, first_pod=first)
    lines = shown(body(buffer(why(CUT), autoscaler=next_loop)), width=140)
    assert lines[-1].split(maxsplit=1) == ["autoscaler", words]


def test_no_buffers_is_said() -> None:
    lines = [line_text(line) for line in list_lines(body(), width=80, glyphs=ASCII, has_colour=False)]
    assert lines == ["there are no CapacityBuffers"]
