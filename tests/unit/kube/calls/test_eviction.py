"""Refusals in the server's words that tests/cluster/test_evicting.py cannot bring about at will."""

from __future__ import annotations

import pytest

from agent.core.cluster.pod import PodRef
from agent.kube.calls.eviction import CONTENTION_RETRY_SECONDS, EvictionKind, answer_of, evict
from agent.kube.client.errors import ApiError, Cause, CredentialsError, KubeError, Unreachable
from tests.fake_api import FakeApi, raising

REF = PodRef(namespace="shop", name="web", uid="u")


def error(status: int, message: str = "", *causes: Cause, retry: float | None = None) -> ApiError:
    return ApiError("POST /x", status=status, message=message, causes=causes, retry_after_seconds=retry)


BUDGET = Cause(reason="DisruptionBudget", message="The disruption budget b needs 3 healthy pods and has 3 currently")


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (error(429, "would violate", BUDGET), EvictionKind.BUDGET),
        (error(429, "would violate", BUDGET, retry=10.0), EvictionKind.STALE_BUDGET),
        (error(429, "too many requests", retry=1.0), EvictionKind.THROTTLED),
        (error(500, "This pod has more than one PodDisruptionBudget, which ..."), EvictionKind.SEVERAL_BUDGETS),
        (error(500, "etcdserver: request timed out"), EvictionKind.UNKNOWN),
        (error(503, "apiserver is shutting down"), EvictionKind.UNAVAILABLE),
        (error(503, "etcdserver: leader changed"), EvictionKind.UNKNOWN),
        (error(504, 'couldn\'t update PodDisruptionBudget "b" due to conflicts'), EvictionKind.CONTENDED),
        (error(504, "Timeout: request did not complete"), EvictionKind.UNKNOWN),
        (error(502), EvictionKind.UNKNOWN),
        (error(403, 'User "u" cannot create resource "pods/eviction"'), EvictionKind.FORBIDDEN),
        (
            error(403, 'poddisruptionbudgets.policy "b" is forbidden: pdb disruption allowance is negative'),
            EvictionKind.BROKEN_BUDGET,
        ),
        (error(404, 'pods "web" not found'), EvictionKind.GONE),
        (error(409, "the UID in the precondition (u) does not match the UID in record (v)"), EvictionKind.REPLACED),
        (error(409, "the object has been modified"), EvictionKind.CONTENDED),
        (error(401, "Unauthorized"), EvictionKind.UNAVAILABLE),
        (error(400, "name in URL does not match name in Eviction object"), EvictionKind.INVALID),
    ],
)
def test_refusals_are_told_apart(refusal: ApiError, kind: EvictionKind) -> None:
    answer = answer_of(refusal)
    assert answer.kind is kind
    assert answer.message


def test_budget_is_named_in_its_own_words() -> None:
    answer = answer_of(error(429, "Cannot evict pod as it would violate the pod's disruption budget.", BUDGET))
    assert answer.message == BUDGET.message
    assert answer.budget == "b"
    assert answer.retry_after_seconds is None
    assert answer_of(error(429, "cannot", Cause(reason="DisruptionBudget"))).budget is None


def test_contention_asks_for_ten_seconds_unless_the_server_says_otherwise() -> None:
    assert answer_of(error(409, "modified")).retry_after_seconds == CONTENTION_RETRY_SECONDS
    assert answer_of(error(409, "modified", retry=3.0)).retry_after_seconds == 3.0


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Unreachable("timed out", may_have_been_done=True), EvictionKind.UNKNOWN),
        (Unreachable("refused"), EvictionKind.UNAVAILABLE),
        (CredentialsError("token: missing"), EvictionKind.UNAVAILABLE),
    ],
)
def test_no_answer_is_an_answer_and_is_not_tried_again(failure: KubeError, kind: EvictionKind) -> None:
    api = FakeApi(raising(failure))
    answer = evict(api, REF)
    assert answer.kind is kind
    assert answer.message == str(failure)
    assert len(api.calls) == 1
