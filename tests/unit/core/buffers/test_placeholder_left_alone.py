"""A placeholder pod is left alone by everybody who sizes or moves pods: node, admission and arbiter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.cli.words.plan import RESERVED_WORDS
from agent.core.admission.answer import AdmissionOutcome
from agent.core.cluster.node import Namespace
from agent.core.cluster.pod import Pod
from agent.core.cluster.workload import workload_of
from agent.core.eviction.arbiter import second_look
from agent.core.eviction.proposal import Reason
from agent.core.orders import annotations as names
from agent.core.orders.annotations import PLACEHOLDER, is_placeholder, unknown_keys
from agent.core.orders.order import Mode
from agent.core.orders.plan_options import ActOptions, PlanOptions
from agent.core.orders.policy_options import PolicyName
from agent.core.orders.resolution import orders_of
from agent.core.plan.needs.demand import ReservedReason
from agent.core.plan.needs.reserved_reason import reserved_reason
from tests import evictions
from tests.admissions import admitted, estimate, new_pod
from tests.placeholders import content, placeholder_pod, read, shape_of
from tests.pods import container

BURSTABLE = container("app", {"cpu": "250m", "memory": "64Mi"})


def labelled(labels: dict[str, str], **more: Any) -> dict[str, Any]:
    """A Deployment's pod in mode enforce, with labels."""
    document = new_pod(BURSTABLE, **more)
    document["metadata"]["labels"] = labels
    return document


def standing(pod: Pod, *, plan: PlanOptions | None = None, act: ActOptions | None = None) -> ReservedReason | None:
    plan, act = plan or PlanOptions(min_age_seconds=0.0), act or ActOptions(mode=Mode.ENFORCE)
    return reserved_reason(
        pod,
        orders_of(pod, None, act=act, recommend_policy=PolicyName.CRUISE, plan=plan),
        workload_of(pod),
        now_unix_seconds=1_800_000_000.0,
        plan=plan,
        act=act,
        is_pinned=False,
        is_namespace_known=True,
    )


def running(document: dict[str, Any]) -> Pod:
    return read({**document, "status": {"phase": "Running"}})


def test_a_placeholder_is_reserved_whatever_kinds_are_managed() -> None:
    pod = read(placeholder_pod(shape_of(content()), "a"))
    assert is_placeholder(pod)
    assert standing(pod) is ReservedReason.PLACEHOLDER
    managed = PlanOptions(min_age_seconds=0.0, managed_kinds="Deployment,CapacityBuffer")
    assert standing(pod, plan=managed) is ReservedReason.PLACEHOLDER
    # What a person ordered is told first.
    assert standing(pod, act=ActOptions(mode=Mode.OFF)) is ReservedReason.OFF


@pytest.mark.parametrize("value", ["true", "false", ""])
def test_who_puts_the_label_onto_his_own_pod_has_it_left_alone(value: str) -> None:
    assert standing(running(labelled({}))) is None
    assert standing(running(labelled({PLACEHOLDER: value}))) is ReservedReason.PLACEHOLDER


def test_admission_leaves_a_placeholder_as_it_came() -> None:
    assert admitted(labelled({}), estimate()).outcome is AdmissionOutcome.PATCHED
    answer = admitted(labelled({PLACEHOLDER: "true"}), estimate())
    assert (answer.outcome, answer.why) == (
        AdmissionOutcome.EXCLUDED,
        "a placeholder pod, which keeps room for a CapacityBuffer",
    )
    assert answer.annotations == {}


def test_the_arbiter_evicts_no_placeholder() -> None:
    known, shop = evictions.rules(), Namespace(name="shop")

    def ruled(pod: Pod) -> Reason | None:
        orders = orders_of(pod, shop, act=known.act, recommend_policy=PolicyName.CRUISE, plan=known.plan)
        ruling = second_look(
            evictions.proposal(), evictions.NODE, pod, orders, shop, known, now_unix_seconds=evictions.NOW
        )
        return None if ruling is None else ruling.reason

    pod = evictions.make_pod()
    assert ruled(pod) is None
    assert ruled(replace(pod, labels={**pod.labels, PLACEHOLDER: "true"})) is Reason.NOT_MANAGED


def test_its_workload_is_its_buffer_which_is_nobodys_replica() -> None:
    workload = workload_of(read(placeholder_pod(shape_of(content()), "a")))
    assert (workload.kind, workload.name) == ("CapacityBuffer", "spare")


def test_plans_say_why_in_words_and_its_annotation_is_no_slip() -> None:
    assert RESERVED_WORDS[ReservedReason.PLACEHOLDER] == "keeps room for others"
    pod = read(placeholder_pod(shape_of(content()), "a"))
    assert names.PLACEHOLDER_SHAPE in pod.annotations
    assert unknown_keys(pod.annotations) == ()
