from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.core.buffers.buffer import (
    ACTIVE_CAPACITY,
    PLACEHOLDER_PODS,
    Buffer,
    BufferOutcome,
    BufferStatus,
    ChunkRule,
    Condition,
    ManagedTemplate,
    NamespaceFacts,
    OrderKind,
    ScopeTerm,
    ShapeSource,
    SizeSpec,
    TemplateOrder,
    Unresolved,
)
from agent.core.buffers.reconciliation import NO_REFERENCE, is_ours, reported_strategy
from tests.capacity_buffers import (
    NOW_UNIX_SECONDS,
    carried_out,
    content,
    cores,
    facts_of,
    make_buffer,
    make_quota,
    make_shape,
    pass_over,
    read_again,
    settled,
)

NAME = "capacitybuffer-web-pod-template"


def standing(of: Any = None, *, owner_uid: str | None = "uid-web", generation: int = 4) -> dict[str, ManagedTemplate]:
    return {
        NAME: ManagedTemplate(
            name=NAME,
            generation=generation,
            content=content({"cpu": "1"}) if of is None else of,
            owner_uid=owner_uid,
            resource_version="77",
        )
    }


def outcome_of(facts: NamespaceFacts) -> BufferOutcome:
    result, _ = settled(facts)
    (outcome,) = result.outcomes
    assert result.requeue is outcome.requeue
    return outcome


def ready(outcome: BufferOutcome) -> tuple[str, str]:
    condition = outcome.status.condition("ReadyForProvisioning")
    assert condition is not None
    return condition.status, condition.message.removeprefix("Buffer not ready for provisioning: ")


def limited(outcome: BufferOutcome) -> str | None:
    condition = outcome.status.condition("LimitedByQuotas")
    return None if condition is None else condition.status


def assert_nothing_stands(outcome: BufferOutcome, words: str, *, requeue: bool) -> None:
    status = outcome.status
    assert (status.template_name, status.template_generation, status.replicas) == (None, None, None)
    assert status.strategy == ACTIVE_CAPACITY
    assert ready(outcome)[0] == "False"
    assert words in ready(outcome)[1]
    assert outcome.requeue is requeue
    assert limited(outcome) is None
    assert (outcome.explanation.fault, outcome.explanation.decided_by) == (ready(outcome)[1], None)


def test_a_template_is_ordered_first_and_numbers_go_by_what_stands() -> None:
    facts = facts_of(make_buffer(size=SizeSpec(replicas=3)))
    first = pass_over(facts)
    assert first.outcomes == ()
    (order,) = first.orders
    assert order == TemplateOrder(
        kind=OrderKind.CREATE, buffer=facts.buffers[0], template_name=NAME, content=content({"cpu": "1"})
    )
    second = pass_over(carried_out(facts, first))
    (outcome,) = second.outcomes
    assert second.orders == ()
    assert (outcome.status.template_name, outcome.status.template_generation) == (NAME, 1)
    assert (outcome.status.replicas, outcome.status.strategy) == (3, ACTIVE_CAPACITY)
    assert (ready(outcome), limited(outcome), outcome.requeue) == (("True", "ready"), "False", False)
    assert outcome.is_changed


def test_what_the_api_returned_is_what_is_sized() -> None:
    # The template says one core; an admission webhook has made it two.
    facts = facts_of(make_buffer(size=SizeSpec(limits={"cpu": cores(8)})), quotas=(make_quota(cpu=6),))
    changed = replace(facts, templates=standing(content({"cpu": "2"})), written=frozenset({"web"}))
    outcome = outcome_of(changed)
    assert outcome.status.replicas == 3
    sizing = outcome.explanation.sizing
    assert sizing is not None
    assert (sizing.replicas, outcome.explanation.decided_by) == (4, ChunkRule.QUOTAS)


def test_a_template_is_replaced_only_if_it_means_something_else() -> None:
    facts = facts_of(make_buffer(), templates=standing(content({"cpu": "1000m"}, tolerations=[])))
    assert pass_over(facts).orders == ()
    (order,) = pass_over(replace(facts, templates=standing(content({"cpu": "2"})))).orders
    assert (order.kind, order.template_name, order.resource_version) == (OrderKind.REPLACE, NAME, "77")
    assert order.content == content({"cpu": "1"})


def test_a_template_that_may_not_be_rewritten_yet_is_taken_as_it_stands() -> None:
    drifted = facts_of(make_buffer(size=SizeSpec(limits={"cpu": cores(8)})), templates=standing(content({"cpu": "2"})))
    held = replace(drifted, written=frozenset({"web"}))
    assert pass_over(held).orders == ()
    assert (outcome_of(held).status.template_generation, outcome_of(held).status.replicas) == (4, 4)
    assert [order.kind for order in pass_over(drifted).orders] == [OrderKind.REPLACE]


@pytest.mark.parametrize("owner_uid", [None, "uid-other"])
def test_a_template_of_somebody_else_is_not_touched(owner_uid: str | None) -> None:
    facts = facts_of(make_buffer(), templates=standing(owner_uid=owner_uid))
    assert pass_over(facts).orders == ()
    words = f"PodTemplate {NAME} stands already and is not this buffer's"
    assert_nothing_stands(outcome_of(facts), words, requeue=True)


def test_of_two_names_cut_to_the_same_the_older_buffer_has_it() -> None:
    long = "b" * 226
    older = make_buffer(f"{long}x", created_unix_seconds=1.0)
    younger = make_buffer(f"{long}a", created_unix_seconds=2.0)
    facts = facts_of(younger, older)
    assert [order.buffer for order in pass_over(facts).orders] == [older]
    result, _ = settled(facts)
    assert [ready(outcome)[0] for outcome in result.outcomes] == ["True", "False"]


@pytest.mark.parametrize(
    ("buffer", "fields", "words", "requeue"),
    [
        (make_buffer(fault="spec.limits.cpu: odd"), {}, "spec.limits.cpu: odd", False),
        (make_buffer(template_ref=None), {}, NO_REFERENCE, False),
        (make_buffer(), {"shapes": {"web": Unresolved(reason="it is gone")}}, "it is gone", True),
        (make_buffer(), {"shapes": {}}, "its reference has not been looked up", True),
        (make_buffer(), {"write_faults": {"web": "forbidden"}}, f"PodTemplate {NAME} is not written: forbidden", True),
        (make_buffer(), {"written": frozenset({"web"})}, "is gone, and may not be written again yet", True),
        (make_buffer(), {"shapes": {"web": make_shape(content({"cpu": "lots"}))}}, "PodTemplate small is not", True),
        (
            make_buffer(),
            {"templates": standing({"spec": {"containers": 1}}), "written": frozenset({"web"})},
            f"PodTemplate {NAME}: spec.containers",
            True,
        ),
    ],
)
def test_what_cannot_be_had_says_why(buffer: Buffer, fields: dict[str, Any], words: str, requeue: bool) -> None:
    assert_nothing_stands(outcome_of(facts_of(buffer, **fields)), words, requeue=requeue)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (SizeSpec(percentage=10), "replicas, percentage and limits are not defined"),
        (SizeSpec(limits={"memory": 1}), "resources in configured limits not found in the pod template"),
    ],
)
def test_a_mistake_in_the_size_keeps_the_reference_and_is_not_tried_again(size: SizeSpec, words: str) -> None:
    outcome = outcome_of(facts_of(make_buffer(size=size)))
    assert (outcome.status.template_name, outcome.status.template_generation) == (NAME, 1)
    assert outcome.status.replicas is None
    assert ready(outcome) == ("False", f"couldn't get number of replicas for buffer: {words}")
    assert (outcome.requeue, limited(outcome)) == (False, None)
    assert outcome.explanation.chunk is not None


def test_percentages_are_of_the_scalable_objects_replicas() -> None:
    buffer = make_buffer(size=SizeSpec(percentage=20))
    outcome = outcome_of(facts_of(buffer, shapes={"web": make_shape(scalable_replicas=11)}))
    assert outcome.status.replicas == 3
    assert (outcome.explanation.scalable_replicas, outcome.explanation.decided_by) == (11, ChunkRule.PERCENTAGE)


def test_quotas_go_by_age_then_name_whatever_order_buffers_come_in() -> None:
    old = make_buffer("z", created_unix_seconds=1.0, size=SizeSpec(replicas=4))
    twins = [make_buffer(name, size=SizeSpec(replicas=4)) for name in ("b", "a")]
    result, _ = settled(facts_of(*twins, old, quotas=(make_quota(cpu=7),)))
    numbers = [(outcome.buffer.name, outcome.status.replicas, limited(outcome)) for outcome in result.outcomes]
    assert numbers == [("z", 4, "False"), ("a", 3, "True"), ("b", 0, "True")]
    assert [outcome.explanation.decided_by for outcome in result.outcomes] == [
        ChunkRule.REPLICAS,
        ChunkRule.QUOTAS,
        ChunkRule.QUOTAS,
    ]


def test_a_chunk_that_requests_nothing_is_not_judged_by_quotas() -> None:
    outcome = outcome_of(facts_of(make_buffer(), shapes={"web": make_shape(content())}, quotas=(make_quota(cpu=0),)))
    assert (outcome.status.replicas, limited(outcome), ready(outcome)[0]) == (1, None, "True")


def test_a_buffer_that_is_no_longer_ready_loses_what_was_said_of_quotas() -> None:
    result, facts = settled(facts_of(make_buffer(), quotas=(make_quota(cpu=0),)))
    assert [limited(outcome) for outcome in result.outcomes] == ["True"]
    later = replace(read_again(facts, result), shapes={"web": Unresolved(reason="it is gone")})
    assert_nothing_stands(outcome_of(later), "it is gone", requeue=True)


def test_a_quota_that_is_not_understood_makes_the_pass_be_repeated() -> None:
    quota = make_quota(cpu=0, scopes=(ScopeTerm(scope="PriorityClass", operator="Like"),))
    result, _ = settled(facts_of(make_buffer(), quotas=(quota,)))
    assert (result.requeue, [outcome.requeue for outcome in result.outcomes]) == (True, [False])
    assert result.faults == ("ResourceQuota quota: its scopes are not understood: unknown operator",)
    assert result.outcomes[0].status.replicas == 1


@pytest.mark.parametrize(
    ("strategy", "is_served", "reported"),
    [
        (None, True, None),
        ("", True, ACTIVE_CAPACITY),
        (ACTIVE_CAPACITY, True, ACTIVE_CAPACITY),
        (PLACEHOLDER_PODS, True, PLACEHOLDER_PODS),
        ("example.com/warm", False, "example.com/warm"),
    ],
)
def test_strategies(strategy: str | None, is_served: bool, reported: str | None) -> None:
    buffer = make_buffer(strategy=strategy)
    assert is_ours(buffer) is is_served
    assert reported_strategy(strategy) == reported
    result, _ = settled(facts_of(buffer))
    assert [outcome.status.strategy for outcome in result.outcomes] == ([reported] if is_served else [])
    assert result.passed_over == (() if is_served else (buffer,))


def test_buffers_of_others_and_those_being_deleted_take_no_quota() -> None:
    other = make_buffer("a", strategy="example.com/warm", size=SizeSpec(replicas=9))
    leaving = make_buffer("b", is_terminating=True, size=SizeSpec(replicas=9))
    mine = make_buffer("c", size=SizeSpec(replicas=9))
    first = pass_over(facts_of(other, leaving, mine))
    assert ([order.buffer for order in first.orders], first.passed_over) == ([mine], (other,))
    result, _ = settled(facts_of(other, leaving, mine, quotas=(make_quota(cpu=5),)))
    assert [(outcome.buffer.name, outcome.status.replicas) for outcome in result.outcomes] == [("c", 5)]


def test_outside_its_schedule_a_buffer_is_ready_and_empty_and_takes_no_quota() -> None:
    buffers = [make_buffer(name, size=SizeSpec(replicas=4)) for name in ("a", "b")]
    result, _ = settled(facts_of(*buffers, quotas=(make_quota(cpu=4),), inactive={"a": "night"}))
    first, second = result.outcomes
    assert (first.status.replicas, first.explanation.decided_by) == (0, ChunkRule.SCHEDULE)
    assert (ready(first), limited(first)) == (("True", "ready, and kept empty now: night"), None)
    assert second.status.replicas == 4
    mistaken = facts_of(make_buffer(size=SizeSpec()), inactive={"web": "night"})
    assert ready(outcome_of(mistaken))[0] == "False"


def test_placeholder_pods_are_their_buffers_own_room_and_of_their_own_class() -> None:
    buffer = make_buffer(strategy=PLACEHOLDER_PODS, size=SizeSpec(replicas=6))
    quota = make_quota(cpu=8, used=7, scopes=(ScopeTerm(scope="PriorityClass", operator="In", values=("spare",)),))
    facts = facts_of(buffer, quotas=(quota,))
    assert outcome_of(facts).status.replicas == 6
    counted = replace(facts, placeholder_class="spare")
    assert outcome_of(counted).status.replicas == 1
    provided = replace(counted, placeholder_usage={"web": {"cpu": cores(4)}})
    assert outcome_of(provided).status.replicas == 5
    active = replace(provided, buffers=(replace(buffer, strategy=ACTIVE_CAPACITY),))
    assert outcome_of(active).status.replicas == 6


def test_provisioning_is_ours_where_placeholder_pods_are() -> None:
    provisioning = Condition(type="Provisioning", status="True", reason="PlaceholderPodsRunning")
    buffer = make_buffer(strategy=PLACEHOLDER_PODS)
    status = outcome_of(facts_of(buffer, provisioning={"web": provisioning})).status
    assert status.condition("Provisioning") == replace(provisioning, last_transition_unix_seconds=NOW_UNIX_SECONDS)
    autoscalers = replace(provisioning, reason="FakePodsInjected", last_transition_unix_seconds=1.0)
    buffer = make_buffer(status=BufferStatus(conditions=(autoscalers,)))
    status = outcome_of(facts_of(buffer, provisioning={"web": provisioning})).status
    assert status.condition("Provisioning") == autoscalers


def test_an_explanation_tells_all_that_led_to_the_number() -> None:
    outcome = outcome_of(facts_of(make_buffer(size=SizeSpec(replicas=5)), quotas=(make_quota(cpu=2),)))
    why = outcome.explanation
    assert why.chunk is not None
    assert why.sizing is not None
    assert why.allocation is not None
    assert (why.shape_source, why.shape_name) == (ShapeSource.POD_TEMPLATE, "PodTemplate small")
    assert (why.chunk.requests, why.sizing.by_replicas) == ({"cpu": cores(1)}, 5)
    assert (why.allocation.wanted, why.allocation.allowed, why.allocation.limiting) == (5, 2, ("quota",))
    assert (why.decided_by, why.schedule, why.fault) == (ChunkRule.QUOTAS, None, None)


def test_the_sequence_of_the_facts() -> None:
    def step(facts: NamespaceFacts) -> tuple[NamespaceFacts, list[tuple[int | None, str | None]]]:
        result, facts = settled(facts)
        return read_again(facts, result), [(outcome.status.replicas, limited(outcome)) for outcome in result.outcomes]

    b1 = make_buffer("b1", created_unix_seconds=1.0, size=SizeSpec(replicas=2))
    b2 = make_buffer("b2", created_unix_seconds=2.0, size=SizeSpec(replicas=4))
    facts, numbers = step(facts_of(b1, b2, quotas=(make_quota(cpu=5),)))
    assert numbers == [(2, "False"), (3, "True")]
    raised = tuple(replace(buffer, size=SizeSpec(replicas=4)) for buffer in facts.buffers)
    facts, numbers = step(replace(facts, buffers=raised))
    assert numbers == [(4, "False"), (1, "True")]
    facts, numbers = step(replace(facts, quotas=(make_quota(cpu=10),)))
    assert numbers == [(4, "False"), (4, "False")]


# -- held ----------------------------------------------------------------------------------------------------------


def provided(**fields: Any) -> Buffer:
    """A buffer that was given two chunks, whatever it asks for by now."""
    status = BufferStatus(
        template_name=NAME,
        template_generation=4,
        replicas=2,
        strategy=fields.get("strategy", ACTIVE_CAPACITY),
        conditions=(Condition(type="ReadyForProvisioning", status="True", reason="r", message="m"),),
    )
    return make_buffer(size=SizeSpec(replicas=9), status=status, **fields)


def held(*others: Buffer, first: Buffer | None = None, **fields: Any) -> list[BufferOutcome]:
    buffers = (first or provided(), *others)
    shapes = {"web": Unresolved(reason="it cannot be read"), **{buffer.name: make_shape() for buffer in others}}
    facts = facts_of(*buffers, shapes=shapes, held=frozenset({"web"}), **{"templates": standing(), **fields})
    return list(settled(facts)[0].outcomes)


def test_a_buffer_that_is_held_keeps_what_it_was_given_and_is_tried_again() -> None:
    (outcome,) = held()
    assert (outcome.is_changed, outcome.requeue) == (False, True)
    assert outcome.explanation.fault is None
    assert outcome.explanation.chunk is not None


def test_what_is_held_takes_its_part_of_quotas_before_others_do() -> None:
    later = make_buffer("later", size=SizeSpec(replicas=3), created_unix_seconds=1_700_000_001.0)
    first, second = held(later, quotas=(make_quota(cpu=4),))
    assert (first.status.replicas, second.status.replicas) == (2, 2)


@pytest.mark.parametrize(
    "templates",
    [{}, standing(owner_uid="another"), standing({"spec": {"containers": [{"resources": {"requests": 1}}]}})],
)
def test_what_is_held_without_a_template_that_says_how_much_takes_nothing(templates: Any) -> None:
    later = make_buffer("later", size=SizeSpec(replicas=3), created_unix_seconds=1_700_000_001.0)
    first, second = held(later, templates=templates, quotas=(make_quota(cpu=3),))
    assert (first.is_changed, first.explanation.chunk, second.status.replicas) == (False, None, 3)


def test_how_its_placeholders_stand_is_told_of_a_held_buffer_too() -> None:
    provisioning = Condition(type="Provisioning", status="False", reason="PlaceholdersWaiting", message="1 waits")
    (outcome,) = held(first=provided(strategy=PLACEHOLDER_PODS), provisioning={"web": provisioning})
    assert [condition.type for condition in outcome.status.conditions] == ["ReadyForProvisioning", "Provisioning"]
    assert (outcome.status.replicas, outcome.status.template_name) == (2, NAME)
    (other,) = held(provisioning={"web": provisioning})  # of an autoscaler's buffer that is the autoscaler's to say
    assert not other.is_changed
