"""Patches against decisions: what matches, what witnesses stand in, and that one of either kind alone is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.core.cluster.pod import ContainerKind, PodRef
from agent.core.cluster.resource import Resource
from agent.core.plan.pod_change import Change, Setting
from agent.core.resize.decision import Action, Decision, Outcome
from agent.node.orders.verbs import LATER
from tests.cluster.audit import Call
from tests.soak.matching import Decided, Patch, Witnesses, amounts_of, decided_of, matched, patch_of, under_way_of

AMOUNTS = frozenset({("app", "cpu", "request", 120)})
OTHER = frozenset({("app", "cpu", "request", 90)})
PATCH = Patch(pod="soak/web-1", uid="u-1", amounts=AMOUNTS, code=200, node="soak-node", unix_seconds=100.0)
DECIDED = Decided(pod="soak/web-1", uid="u-1", amounts=AMOUNTS, outcome=Outcome.ACCEPTED)


def witnesses(*decided: Decided, **more: Any) -> Witnesses:
    given: dict[str, Any] = {"under_way": (), "logged": {}, "disk_full": (), **more}
    return Witnesses(decided=decided, **given)


def test_a_patch_and_its_decision_match() -> None:
    tally = matched([PATCH], witnesses(DECIDED))
    assert (tally.by_decision, tally.faults) == (1, ())


def test_a_patch_that_nobody_decided_is_a_fault_and_so_is_a_decision_without_a_patch() -> None:
    (fault,) = matched([PATCH], witnesses()).faults
    assert fault == "soak/web-1: the API server took app cpu request 120m, and nobody decided it"
    (fault,) = matched([], witnesses(DECIDED)).faults
    assert fault == "soak/web-1: decided app cpu request 120m, and no such patch was taken"


@pytest.mark.parametrize("other", [replace(DECIDED, uid="u-2"), replace(DECIDED, amounts=OTHER)])
def test_a_decision_of_another_pod_or_amount_is_no_witness(other: Decided) -> None:
    assert len(matched([PATCH], witnesses(other)).faults) == 2


def test_one_decision_is_one_patch_and_one_said_twice_is_two() -> None:
    assert len(matched([PATCH, PATCH], witnesses(DECIDED)).faults) == 1
    assert matched([PATCH, PATCH], witnesses(replace(DECIDED, count=2))).faults == ()


def test_what_a_killed_agent_had_under_way_stands_in_its_ledger() -> None:
    ledger = {
        "pods": [
            {
                "flight": {
                    "state": "sent",
                    "step": {
                        "ref": {"namespace": "soak", "name": "web-1", "uid": "u-1"},
                        "changes": [{"container": "app", "resource": "cpu", "setting": "request", "after": 120}],
                    },
                }
            },
            {"flight": None},
            {"flight": {"state": "accepted", "step": None}},
        ]
    }
    tally = matched([PATCH], witnesses(under_way=under_way_of(ledger)))
    assert (tally.by_ledger, tally.faults) == (1, ())


def test_a_patch_whose_answer_was_lost_is_put_down_as_an_error() -> None:
    assert matched([PATCH], witnesses(replace(DECIDED, outcome=Outcome.ERROR))).faults == ()
    assert matched([], witnesses(replace(DECIDED, outcome=Outcome.ERROR))).faults == ()


def test_the_log_stands_in_only_while_the_disk_was_full() -> None:
    lines = {("soak/web-1", Outcome.ACCEPTED): 1}
    assert matched([PATCH], witnesses(logged=lines, disk_full=[(90.0, 110.0)])).by_log == 1
    assert len(matched([PATCH], witnesses(logged=lines, disk_full=[(110.0, 120.0)])).faults) == 1


def test_a_server_that_was_killed_noted_only_that_a_patch_came() -> None:
    came = replace(PATCH, uid="", amounts=frozenset(), code=None)
    assert matched([came], witnesses(DECIDED)).faults == ()
    assert len(matched([came], witnesses(DECIDED, DECIDED)).faults) == 1
    assert matched([came], witnesses()).faults == ()


def test_a_patch_of_which_nobody_knows_what_became_must_have_been_decided_too() -> None:
    cut_off = replace(PATCH, code=None)
    assert len(matched([cut_off], witnesses()).faults) == 1
    lost = replace(DECIDED, outcome=Outcome.ERROR)
    assert matched([cut_off], witnesses(under_way=[lost])).faults == ()
    assert matched([replace(PATCH, code=504)], witnesses(lost)).faults == ()
    assert matched([cut_off], witnesses(logged={("soak/web-1", Outcome.ERROR): 1})).faults == ()


def test_what_the_server_refused_must_be_known_to_the_agent() -> None:
    refused = replace(PATCH, code=409)
    known = {("soak/web-1", Outcome.CONFLICT): 1}
    tally = matched([refused], witnesses(logged=known))
    assert (tally.refused, tally.faults) == (1, ())
    assert len(matched([refused], witnesses()).faults) == 1
    assert len(matched([], witnesses(logged=known)).faults) == 1
    assert matched([refused], witnesses(under_way=[replace(DECIDED, outcome=Outcome.ERROR)])).faults == ()


def test_a_call_of_the_audit_log_is_read_with_all_it_states() -> None:
    body = {
        "metadata": {"uid": "u-1", "resourceVersion": "7"},
        "spec": {
            "containers": [{"name": "app", "resources": {"requests": {"cpu": "120m", "memory": "1048576"}}}],
            "initContainers": [{"name": "proxy", "resources": {"limits": {"cpu": "2"}}}],
            "resources": {"limits": {"memory": "1Gi"}},
        },
    }
    assert amounts_of(body) == {
        ("app", "cpu", "request", 120),
        ("app", "memory", "request", 1 << 20),
        ("proxy", "cpu", "limit", 2000),
        ("", "memory", "limit", 1 << 30),
    }
    call = Call(
        user="agent",
        verb="patch",
        resource="pods/resize",
        namespace="soak",
        name="web-1",
        code=0,
        is_denied=False,
        uri="",
        body=body,
        node="soak-node",
        user_agent="",
        received_unix_seconds=5.0,
    )
    patch = patch_of(call)
    assert (patch.pod, patch.uid, patch.code, patch.is_done, patch.is_refused) == (
        "soak/web-1",
        "u-1",
        None,
        False,
        False,
    )


@pytest.mark.parametrize(
    ("changes", "is_answer"),
    [
        ({}, True),
        ({"seconds": 1.5, "outcome": Outcome.APPLIED}, False),  # what became of it later
        ({"outcome": Outcome.WITHHELD}, False),
        ({"action": Action.TAINT, "pod": None}, False),
        ({"action": Action.RESTORE}, True),
        ({"action": Action.RESTORE, "detail": LATER}, False),  # promised: it is put down again when it is sent
    ],
)
def test_a_decision_counts_if_it_answers_a_patch(changes: dict[str, Any], is_answer: bool) -> None:
    change = Change(
        container="app",
        kind=ContainerKind.REGULAR,
        resource=Resource.CPU,
        setting=Setting.REQUEST,
        before=200,
        after=120,
    )
    decision = Decision(
        sequence=1,
        unix_seconds=1.0,
        action=Action.RESIZE,
        outcome=Outcome.ACCEPTED,
        reason="plan",
        pod=PodRef(namespace="soak", name="web-1", uid="u-1"),
        changes=(change,),
    )
    answer = decided_of(replace(decision, **changes))
    assert (answer is not None) == is_answer
    if is_answer and not changes:
        assert answer == DECIDED
