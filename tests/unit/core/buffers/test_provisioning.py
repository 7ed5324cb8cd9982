from __future__ import annotations

from typing import Any

import pytest

from agent.core.buffers.buffer import ACTIVE_CAPACITY, BufferStatus, Condition
from agent.core.buffers.provisioning import FakePod, Provision, provision
from tests.capacity_buffers import make_buffer


def condition(type_name: str, status: str) -> Condition:
    return Condition(type=type_name, status=status, reason="x")


READY = condition("ReadyForProvisioning", "True")
NOT_READY = condition("ReadyForProvisioning", "False")
PROVIDED = condition("Provisioning", "True")


def told(*conditions: Condition, template_generation: int | None = 4, force: bool = False, **fields: Any) -> Provision:
    stated = {"template_name": "t", "template_generation": 4, "replicas": 2, "strategy": ACTIVE_CAPACITY, **fields}
    return provision(
        make_buffer(status=BufferStatus(conditions=conditions, **stated)),
        template_generation=template_generation,
        strategies=[ACTIVE_CAPACITY],
        force_safe_to_evict=force,
    )


def test_a_ready_buffer_gets_its_virtual_pods() -> None:
    result = told(READY)
    assert (result.status, result.reason) == ("True", "FakePodsInjected")
    assert tuple(result.pods) == (
        FakePod(name="capacity-buffer-web-1", uid="uid-web-1"),
        FakePod(name="capacity-buffer-web-2", uid="uid-web-2"),
    )
    assert result.annotations == {"podType": "capacityBufferFakePod"}
    forced = told(READY, force=True).annotations
    assert forced["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "true"


def test_pods_are_made_as_they_are_asked_for() -> None:
    pods = told(READY, replicas=2**31 - 1).pods
    assert len(pods) == 2**31 - 1
    assert pods[-1].name == "capacity-buffer-web-2147483647"
    assert [pod.uid for pod in pods[:2]] == ["uid-web-1", "uid-web-2"]


@pytest.mark.parametrize(
    ("conditions", "fields", "words"),
    [
        ((READY,), {"strategy": "other"}, "strategy other is not served"),
        ((READY,), {"strategy": None}, "strategy none is not served"),
        ((NOT_READY,), {}, "it is not ready, and was not provided before"),
        ((), {}, "it is not ready, and was not provided before"),
        ((NOT_READY, condition("Provisioning", "False")), {}, "it is not ready, and was not provided before"),
        ((READY,), {"template_generation": 5}, "its template has changed since the status was written"),
    ],
)
def test_what_is_passed_over_keeps_its_condition(
    conditions: tuple[Condition, ...], fields: dict[str, Any], words: str
) -> None:
    assert told(*conditions, **fields) == Provision(status=None, reason=words)


@pytest.mark.parametrize(
    ("conditions", "fields", "reason"),
    [
        ((NOT_READY, PROVIDED), {}, "NotReadyForProvisioning"),
        ((READY,), {"template_name": None}, "NotReadyForProvisioning"),
        ((READY,), {"replicas": None}, "NotReadyForProvisioning"),
        ((READY,), {"replicas": 0}, "BufferIsEmpty"),
        ((READY,), {"template_generation": None}, "FailedToGetPodTemplate"),
        ((READY,), {"replicas": 0, "template_generation": None}, "BufferIsEmpty"),
    ],
)
def test_what_cannot_be_provided_is_refused(
    conditions: tuple[Condition, ...], fields: dict[str, Any], reason: str
) -> None:
    assert told(*conditions, **fields) == Provision(status="False", reason=reason)


def test_a_status_without_generation_is_taken_as_it_is() -> None:
    status = BufferStatus(template_name="t", replicas=1, strategy=ACTIVE_CAPACITY, conditions=(PROVIDED,))
    result = provision(
        make_buffer(status=status), template_generation=9, strategies=[ACTIVE_CAPACITY], force_safe_to_evict=False
    )
    assert result.status == "True"
