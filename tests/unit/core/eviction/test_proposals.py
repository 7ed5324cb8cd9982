"""Which evictions of a plan are proposed, and when; and how they read on the wire."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from agent.core.cluster.pod import ContainerKind, PodRef
from agent.core.cluster.resource import Resource
from agent.core.eviction.proposal import MAX_PROPOSALS, PodAmounts, Proposal, Verdict, Want
from agent.core.eviction.proposal_json import ProposalAnswer, answers_of, proposals_text
from agent.core.eviction.proposals import ProposalStanding, ProposeOptions, proposals_of
from agent.core.orders.order import Ranking
from agent.core.plan.plan import Eviction, Invariant, Plan
from tests import plans
from tests.evictions import proposal

OPTIONS = ProposeOptions(turns=3, standing_seconds=60.0, interval_seconds=30.0, again_seconds=600.0)
REPORTED = 1e9
"""As long as nothing else is said, the webhook knows all."""
A, B = (
    proposal(ref=PodRef(namespace="shop", name=name, uid=f"uid-{name}"), order=order) for order, name in enumerate("ab")
)


def stood(*proposals: Proposal, at: tuple[float, ...] = (0.0, 30.0, 60.0)) -> ProposalStanding:
    """Proposals that stood in a turn at each of these times."""
    standing = ProposalStanding(OPTIONS)
    for now in at:
        standing.take(proposals, now)
    return standing


def test_proposal_goes_out_after_enough_turns_and_time() -> None:
    assert stood(A, B).due(60.0, reported_until_seconds=REPORTED) == (A, B)


def test_it_waits_until_the_webhook_knows_what_was_measured_while_it_stood() -> None:
    standing = stood(A)
    standing.take((A, B), 90.0)
    for until, due, awaited in ((None, (), 60.0), (0.0, (), 60.0), (59.9, (), 60.0), (60.0, (A,), None)):
        assert standing.due(90.0, reported_until_seconds=until) == due
        assert standing.awaited_report_seconds(90.0, reported_until_seconds=until) == awaited
    for now in (120.0, 151.0):
        standing.take((A, B), now)
    # A report for the first is none for one that has stood for long enough since then only.
    assert standing.due(151.0, reported_until_seconds=90.0) == (A,)
    assert standing.awaited_report_seconds(151.0, reported_until_seconds=90.0) == 151.0
    assert standing.due(152.0, reported_until_seconds=151.0) == (A, B)
    assert standing.awaited_report_seconds(152.0, reported_until_seconds=151.0) is None


def test_no_report_is_awaited_for_what_would_not_go_out() -> None:
    assert stood(A, at=(0.0, 30.0)).awaited_report_seconds(59.0, reported_until_seconds=None) is None
    answered = stood(A)
    answered.answered({A.ref.uid: Verdict.REFUSED}, 60.0)
    assert answered.awaited_report_seconds(61.0, reported_until_seconds=None) is None
    resting = stood(A)
    resting.called(60.0)
    assert resting.awaited_report_seconds(89.0, reported_until_seconds=None) is None
    assert resting.awaited_report_seconds(90.0, reported_until_seconds=None) == 60.0


def test_proposal_made_once_goes_nowhere() -> None:
    assert stood(A, at=(0.0,)).due(1e6, reported_until_seconds=REPORTED) == ()


def test_turns_that_follow_each_other_quickly_are_not_enough() -> None:
    assert stood(A, at=(0.0, 1.0, 2.0, 3.0)).due(59.0, reported_until_seconds=REPORTED) == ()
    assert stood(A, at=(0.0, 1.0, 2.0, 3.0)).due(60.0, reported_until_seconds=REPORTED) == (A,)


def test_long_time_in_few_turns_is_not_enough() -> None:
    assert stood(A, at=(0.0, 300.0)).due(300.0, reported_until_seconds=REPORTED) == ()


def test_one_turn_without_it_begins_anew() -> None:
    standing = stood(A)
    standing.take((), 61.0)
    for now in (62.0, 63.0, 64.0):
        standing.take((A,), now)
    assert standing.due(64.0, reported_until_seconds=REPORTED) == ()
    assert standing.due(122.0, reported_until_seconds=REPORTED) == (A,)


def test_pod_asked_for_by_another_resource_begins_anew() -> None:
    standing = stood(A)
    standing.take((replace(A, want=Want.MEMORY),), 61.0)
    assert standing.due(61.0, reported_until_seconds=REPORTED) == ()


def test_newest_words_go_out_in_the_plans_order() -> None:
    standing = stood(A, B)
    newer = replace(A, order=2, needed=PodAmounts(cpu_millicores=7))
    standing.take((newer, B), 61.0)
    assert standing.due(61.0, reported_until_seconds=REPORTED) == (B, newer)


def test_calls_are_spaced_and_a_server_that_asks_for_rest_gets_it() -> None:
    standing = stood(A)
    standing.called(60.0)
    assert standing.due(89.9, reported_until_seconds=REPORTED) == ()
    assert standing.due(90.0, reported_until_seconds=REPORTED) == (A,)
    standing.called(90.0, quiet_seconds=120.0)
    assert standing.due(209.9, reported_until_seconds=REPORTED) == ()
    assert standing.due(210.0, reported_until_seconds=REPORTED) == (A,)
    standing.called(210.0, quiet_seconds=1.0)
    assert standing.due(239.9, reported_until_seconds=REPORTED) == ()


@pytest.mark.parametrize("verdict", list(Verdict))
def test_only_what_was_put_off_is_asked_for_again_soon(verdict: Verdict) -> None:
    standing = stood(A, B)
    standing.answered({A.ref.uid: verdict}, 60.0)
    standing.take((A, B), 61.0)
    assert standing.due(61.0, reported_until_seconds=REPORTED) == ((A, B) if verdict is Verdict.LATER else (B,))
    # Forgotten after its time, if the plan still wants it.
    standing.take((A, B), 660.0)
    assert standing.due(660.0, reported_until_seconds=REPORTED) == (A, B)


def test_answer_outlives_a_turn_without_the_proposal() -> None:
    standing = stood(A)
    standing.answered({A.ref.uid: Verdict.REFUSED}, 60.0)
    for now in (61.0, 62.0):
        standing.take((), now)
    for now in (63.0, 93.0, 123.0):
        standing.take((A,), now)
    assert standing.due(123.0, reported_until_seconds=REPORTED) == ()


def test_no_more_go_out_than_a_call_may_have() -> None:
    many = [
        replace(A, ref=PodRef(namespace="shop", name=f"web-{index}", uid=f"uid-{index}"), order=index)
        for index in range(MAX_PROPOSALS + 1)
    ]
    assert stood(*many).due(60.0, reported_until_seconds=REPORTED) == tuple(many[:MAX_PROPOSALS])


def eviction(name: str, resource: Resource) -> Eviction:
    return Eviction(
        ref=plans.ref(name),
        workload=plans.pod().workload,
        resource=resource,
        ranking=Ranking.LOW,
        spike=1,
        reason="lacking",
    )


def plan_with(*evictions: Eviction, **fields: object) -> Plan:
    base = plans.plan(
        pods=(
            plans.pod(
                "a",
                plans.container("app"),
                plans.container("proxy", kind=ContainerKind.SIDECAR, memory=None),
                plans.container("setup", kind=ContainerKind.INIT),
                plans.container("tail", cpu=plans.share(1, 2, None), memory=None),
            ),
        ),
        evictions=evictions,
    )
    return replace(base, **fields)  # type: ignore[arg-type]


def test_evictions_of_a_plan_become_proposals_with_what_the_pod_has_and_needs() -> None:
    proposals = proposals_of(plan_with(eviction("a", Resource.CPU), eviction("b", Resource.MEMORY)))
    assert [(candidate.ref.name, candidate.want, candidate.order, candidate.ranking) for candidate in proposals] == [
        ("a", Want.CPU, 0, "low"),
        ("b", Want.MEMORY, 1, "low"),
    ]
    # app and proxy request 500m each, and peak at 300m; tail requests nothing and peaks at 2m.
    assert proposals[0].requested == PodAmounts(cpu_millicores=1000, memory_bytes=256 << 20)
    assert proposals[0].needed == PodAmounts(cpu_millicores=602, memory_bytes=140 << 20)
    # A pod that the plan does not have says nothing.
    assert proposals[1].needed == proposals[1].requested == PodAmounts()


def test_plan_that_is_not_sound_proposes_nothing() -> None:
    broken = plan_with(eviction("a", Resource.CPU), invariants=(Invariant(name="x", holds=False),))
    assert proposals_of(broken) == ()


def test_proposals_on_the_wire() -> None:
    oom_proposal = replace(A, want=Want.OUT_OF_MEMORY, ranking="low", requested=PodAmounts(cpu_millicores=5))
    assert json.loads(proposals_text("node-a", [oom_proposal])) == {
        "schema": 1,
        "node": "node-a",
        "proposals": [
            {
                "namespace": "shop",
                "pod": "a",
                "podUid": "uid-a",
                "reason": "oom",
                "ranking": "low",
                "order": 0,
                "requested": {"cpuMillicores": 5},
                "needed": {},
            }
        ],
    }


def test_answers_are_read_one_by_one() -> None:
    text = json.dumps(
        {
            "answers": [
                {"podUid": "a", "verdict": "later", "reason": "paused: the  release\nis on: wait"},
                {"podUid": "b", "verdict": "granted", "reason": "evicted"},
                {"podUid": "c", "verdict": "unheard", "reason": ""},
                {"podUid": 7, "verdict": "later", "reason": ""},
                {"podUid": "d", "verdict": ["later"], "reason": ""},
                {"podUid": "e", "verdict": "later"},
                "f",
            ]
        }
    )
    assert answers_of(text.encode()) == {
        "a": ProposalAnswer(verdict=Verdict.LATER, reason="paused", detail="the release is on: wait"),
        "b": ProposalAnswer(verdict=Verdict.GRANTED, reason="evicted", detail=""),
    }


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"answers": {}}', b"\xff", b"[" * 100_000])
def test_something_else_than_answers_is_none(text: bytes) -> None:
    assert answers_of(text) is None
