"""Answers that a real server does not give on demand; the rest is in tests/cluster/test_resizing.py."""

from __future__ import annotations

import pytest

from agent.core.cluster.pod import ContainerKind, PodRef
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.plan.plan import Phase, PlanStep
from agent.core.plan.pod_change import Change, Setting
from agent.core.resize.answer import AnswerKind
from agent.kube.calls.resize import resize
from agent.kube.client.api import STRATEGIC_MERGE_PATCH
from agent.kube.client.errors import ApiError, CredentialsError, KubeError, Unreachable
from tests.fake_api import FakeApi, raising

STEP = PlanStep(
    ref=PodRef(namespace="shop", name="web/odd", uid="u"),
    workload=Workload(namespace="shop", kind="Deployment", name="web"),
    phase=Phase.GROW,
    changes=(
        Change(
            container="app",
            kind=ContainerKind.REGULAR,
            resource=Resource.CPU,
            setting=Setting.REQUEST,
            before=1,
            after=2,
        ),
    ),
    reason="a test",
)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Unreachable("timed out", may_have_been_done=True), AnswerKind.UNKNOWN),
        (Unreachable("refused"), AnswerKind.UNAVAILABLE),
        (CredentialsError("token: missing"), AnswerKind.UNAVAILABLE),
        (ApiError("PATCH /x", status=504, reason="Timeout", message="etcdserver: timed out"), AnswerKind.UNKNOWN),
        (ApiError("PATCH /x", status=429, message="busy", retry_after_seconds=7.0), AnswerKind.THROTTLED),
    ],
)
def test_failure_is_an_answer_and_is_not_tried_again(error: KubeError, kind: AnswerKind) -> None:
    api = FakeApi(raising(error))
    answer, pod = resize(api, STEP, "7")
    assert (answer.kind, pod) == (kind, None)
    assert answer.message
    assert len(api.calls) == 1
    if kind is AnswerKind.THROTTLED:
        assert answer.retry_after_seconds == 7.0


@pytest.mark.parametrize("document", [None, [], "pod", {}, {"metadata": []}, {"metadata": {"uid": "other"}}])
def test_success_that_is_not_the_pod_is_unknown(document: object) -> None:
    answer, pod = resize(FakeApi(lambda _: document), STEP, None)
    assert (answer.kind, pod) == (AnswerKind.UNKNOWN, None)
    assert "not the pod of uid u" in answer.message


def test_names_are_quoted_and_the_time_limit_is_handed_on() -> None:
    document = {"metadata": {"uid": "u", "resourceVersion": "8", "generation": 2}}
    api = FakeApi(lambda _: document)
    answer, pod = resize(api, STEP, "7", timeout_seconds=3.0)
    assert (answer.kind, pod) == (AnswerKind.ACCEPTED, document)
    [call] = api.calls
    assert call.path == "/api/v1/namespaces/shop/pods/web%2Fodd/resize"
    assert (call.method, call.content_type, call.timeout_seconds) == ("PATCH", STRATEGIC_MERGE_PATCH, 3.0)
    assert resize(api, STEP, "8")[0].kind is AnswerKind.NO_CHANGE
