from __future__ import annotations

from agent.core.buffers.buffer import Condition, QuotaAllocation
from agent.core.buffers.conditions import limited, merged, not_ready, ready

FOREIGN = Condition(type="Provisioning", status="True", reason="FakePodsInjected", last_transition_unix_seconds=5.0)


def test_words_and_reasons() -> None:
    condition = ready(7)
    assert (condition.type, condition.status, condition.reason, condition.message) == (
        "ReadyForProvisioning",
        "True",
        "AttributesSetSuccessfully",
        "ready",
    )
    condition = not_ready(7, "no such thing")
    assert (condition.type, condition.status, condition.reason) == ("ReadyForProvisioning", "False", "error")
    assert condition.message == "Buffer not ready for provisioning: no such thing"
    condition = limited(7, QuotaAllocation(wanted=5, allowed=1, limiting=("q1", "q2")))
    assert (condition.type, condition.status, condition.reason) == (
        "LimitedByQuotas",
        "True",
        "ResourceQuotasAllocated",
    )
    assert condition.message == "Buffer replicas limited from 5 to 1 due to quotas: q1, q2"
    condition = limited(7, QuotaAllocation(wanted=5, allowed=5))
    assert (condition.status, condition.reason, condition.message) == ("False", "ResourceQuotasAllocated", "")


def test_each_says_which_generation_it_speaks_of() -> None:
    allocation = QuotaAllocation(wanted=1, allowed=1)
    assert {condition.observed_generation for condition in (ready(7), not_ready(7, ""), limited(7, allocation))} == {7}


def test_a_buffer_kept_empty_is_ready_and_says_so() -> None:
    condition = ready(7, schedule="opens on Monday at 07:00")
    assert (condition.status, condition.message) == ("True", "ready, and kept empty now: opens on Monday at 07:00")


def test_a_message_is_no_longer_than_the_api_takes() -> None:
    assert len(not_ready(7, "x" * 40_000).message) == 32_768
    assert not_ready(7, "x" * 40_000).message.endswith("xxx...")
    longest = 32_768 - len("Buffer not ready for provisioning: ")
    assert not_ready(7, "x" * longest).message.endswith("xxx")


def test_the_time_moves_with_the_status_only() -> None:
    first = merged([], [ready(1)], withdrawn=(), now_unix_seconds=100.9)
    assert [condition.last_transition_unix_seconds for condition in first] == [100.0]
    second = merged(first, [ready(2)], withdrawn=(), now_unix_seconds=200.0)
    assert [(condition.observed_generation, condition.last_transition_unix_seconds) for condition in second] == [
        (2, 100.0)
    ]
    third = merged(second, [not_ready(2, "x")], withdrawn=(), now_unix_seconds=300.0)
    assert [condition.last_transition_unix_seconds for condition in third] == [300.0]


def test_a_condition_without_time_gets_one() -> None:
    (condition,) = merged([ready(1)], [ready(1)], withdrawn=(), now_unix_seconds=9.0)
    assert condition.last_transition_unix_seconds == 9.0


def test_others_conditions_stay_in_their_place_and_what_is_withdrawn_goes() -> None:
    quota = limited(1, QuotaAllocation(wanted=1, allowed=1))
    before = (quota, FOREIGN, ready(1))
    after = merged(before, [not_ready(2, "x")], withdrawn=["LimitedByQuotas"], now_unix_seconds=1.0)
    assert [condition.type for condition in after] == ["Provisioning", "ReadyForProvisioning"]
    assert after[0] == FOREIGN
    assert [condition.type for condition in merged(after, [quota], withdrawn=(), now_unix_seconds=1.0)][
        -1
    ] == "LimitedByQuotas"
