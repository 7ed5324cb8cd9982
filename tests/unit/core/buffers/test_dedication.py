from __future__ import annotations

import pytest

from agent.core.buffers.buffer import BufferSizing, ChunkRule, SizeSpec
from agent.core.buffers.dedication import LONGEST, selector_fault, unfilled
from tests.capacity_buffers import facts_of, make_buffer, make_quota, settled


@pytest.mark.parametrize(
    "text",
    [
        "app=web",
        "app == web",
        "app!=web",
        "app=",
        "app",
        "!app",
        "example.com/tier in (a, b)",
        "tier notin (a,)",
        " app=web , tier in (a),!old ",
    ],
)
def test_selectors_as_kubectl_takes_them(text: str) -> None:
    assert selector_fault(text) is None


@pytest.mark.parametrize(
    "text", ["", " ", ",", "app=web,", "=web", "app=web tier=a", "app in a", "a=b=c", "-a=b", "a\u00e4=b", "app>3"]
)
def test_what_is_no_selector_is_told_with_what_is_allowed(text: str) -> None:
    fault = selector_fault(text)
    assert fault is not None
    assert fault.startswith(f"annotation plimsoll.dev/for: {text!r} is not allowed; allowed: a label selector such as ")


def test_one_that_is_too_long_is_told_in_short() -> None:
    fault = selector_fault("a" * (LONGEST + 1))
    assert fault is not None
    assert len(fault) < 200


@pytest.mark.parametrize("start", ["app in (", "app notin (a", "app", "!app", "app=a,", " "])
@pytest.mark.parametrize("piece", [", ", " ", "a ", "a/", "a,", "a-", ",", "=", "(a", "app in (a),"])
def test_whoever_writes_a_selector_cannot_hold_the_webhook_up(start: str, piece: str) -> None:
    # With a pattern that tries again what it has read, the first of these takes longer than the world has.
    text = start + piece * ((LONGEST - len(start) - 1) // len(piece)) + ";"
    assert len(text) <= LONGEST
    assert selector_fault(text) is not None


def test_pods_fill_a_buffer_and_never_below_nothing() -> None:
    wish = BufferSizing(replicas=3, decided_by=ChunkRule.REPLICAS, by_replicas=3)
    assert unfilled(wish, None) is wish
    sizings = [unfilled(wish, pods) for pods in (0, 2, 3, 9)]
    assert [sizing.replicas for sizing in sizings] == [3, 1, 0, 0]
    assert [sizing.decided_by for sizing in sizings] == [ChunkRule.REPLICAS, *[ChunkRule.FILLED] * 3]
    assert [sizing.filled for sizing in sizings] == [0, 2, 3, 9]


def test_what_is_left_is_what_quotas_are_asked_for() -> None:
    facts = facts_of(
        make_buffer("mine", size=SizeSpec(replicas=5)),
        make_buffer("yours", size=SizeSpec(replicas=5)),
        filled={"mine": 4},
        quotas=(make_quota(cpu=3),),
    )
    result, _ = settled(facts)
    assert [outcome.status.replicas for outcome in result.outcomes] == [1, 2]
    first = result.outcomes[0].explanation
    assert (first.decided_by, first.allocation is not None and first.allocation.wanted) == (ChunkRule.FILLED, 1)
