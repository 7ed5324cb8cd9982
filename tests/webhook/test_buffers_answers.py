"""``/v1/buffers``: what is said of buffers by who looks after them, and by who does not."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from agent.core.buffers.buffer import Buffer, SizeSpec
from agent.metrics.webhook_series import WebhookMetrics
from agent.settings.webhook_sections import AccessSettings
from agent.webhook.buffers.controller import BufferController
from agent.webhook.buffers.namespace_pass import NamespaceView
from agent.webhook.buffers.options import BufferOptions
from agent.webhook.buffers.seams import WritePermission
from agent.webhook.buffers.watches import BufferWatches
from agent.webhook.http.access import Access
from agent.webhook.http.routes import Call, HttpAnswer
from agent.webhook.queries.buffer_bodies import BufferBody, BuffersBody
from agent.webhook.queries.buffers import BufferQuestions
from tests.buffer_collaborators import asking
from tests.capacity_buffers import cores, facts_of, make_buffer, make_quota, settled
from tests.fake_api import FakeApi
from tests.webhook.signed_tokens import AnyWord
from tests.webhook.test_access import Places, Server, user

NOW = 1_800_000_060.0
UNIT = 10**9


def document(buffer: Buffer, *managers: str) -> dict[str, Any]:
    """Return a buffer as the server has it; others wrote its status."""
    written = [
        {"manager": manager, "subresource": "status", "fieldsV1": {"f:status": {"f:replicas": {}}}}
        for manager in managers
    ]
    size = buffer.size
    spec: dict[str, Any] = {
        "provisioningStrategy": buffer.strategy,
        "podTemplateRef": {"name": buffer.template_ref},
        "replicas": size.replicas,
        "percentage": size.percentage,
        "limits": None if size.limits is None else {name: f"{nanos}n" for name, nanos in size.limits.items()},
    }
    return {
        "metadata": {
            "namespace": buffer.namespace,
            "name": buffer.name,
            "uid": buffer.uid,
            "generation": buffer.generation,
            "creationTimestamp": "2027-01-15T08:00:00Z",
            "managedFields": written,
        },
        "spec": spec,
        "status": {
            "replicas": 2,
            "podTemplateRef": {"name": "capacitybuffer-web-pod-template"},
            "podTemplateGeneration": 4,
            "conditions": [
                {
                    "type": "ReadyForProvisioning",
                    "status": "True",
                    "reason": "AttributesSetSuccessfully",
                    "message": "ready",
                    "lastTransitionTime": "2027-01-15T08:00:30Z",
                }
            ],
        },
    }


class Named(Places):
    """Two namespaces, by name."""

    def namespace_names(self) -> tuple[str, ...]:
        return "bank", "shop"


class Replica:
    """One replica's controller, whose watch shows what a test says, and the answers of it."""

    def __init__(self, *, leads: bool = True, leader: str | None = "webhook-0", paused: str | None = None) -> None:
        readable = frozenset({"/v1/buffers", "/v1/buffers/shop/web", "/v1/buffers/shop/nobody"})
        server = Server(
            users={"good": user(), "ann": {"username": "ann", "groups": []}},
            readable=readable,
            denied=frozenset({"ann"}),
            listable={"ann": frozenset({"shop"})},
        )
        api = FakeApi(server.answer)
        self.controller = BufferController(
            api,
            options=BufferOptions(),
            permission=WritePermission(is_leader=lambda: leads, pause_reason=lambda: paused),
            instance="x",
            collaborators=asking(),
        )
        self.metrics = WebhookMetrics(version="0", commit="0", admission_results=[], unread_reasons=[])
        access = Access(
            api, AccessSettings(), namespace="plimsoll", places=Named(), clock=time.monotonic, keys=AnyWord()
        )
        self.questions = BufferQuestions(
            self.controller,
            access,
            self.metrics,
            replica="webhook-1",
            namespace="ops",
            leader=lambda: leader,
            wall_clock=lambda: NOW,
        )

    def see(self, *documents: dict[str, Any]) -> None:
        buffers = self.controller.watches.buffers
        buffers.replace_all([buffers.entry(manifest) for manifest in documents], now_seconds=0.0, is_newest=True)

    def look(self, *buffers: Buffer, **more: Any) -> None:
        """Have looked at the namespace, with a quota of two cores; the watch shows the same."""
        result, _ = settled(facts_of(*buffers, quotas=(make_quota("tight", cpu=2),)))
        view = NamespaceView(outcomes=result.outcomes, at_unix_seconds=NOW - 3, **more)
        self.controller._views["shop"] = view
        self.see(*(document(buffer) for buffer in buffers))

    def list(self, **query: Any) -> BuffersBody:
        return decoded(self.answer("/v1/buffers", **query))

    def one(self, name: str = "web") -> BufferBody:
        answer = self.answer(f"/v1/buffers/shop/{name}", names={"namespace": "shop", "name": name})
        (buffer,) = decoded(answer).buffers
        return buffer

    def answer(
        self,
        path: str,
        *,
        names: dict[str, str] | None = None,
        who: str = "good",
        **query: Any,
    ) -> HttpAnswer:
        call = Call(path=path, authorization=f"Bearer {who}", query=query, names=names or {})
        return self.questions.buffer(call) if names else self.questions.buffers(call)

    def counted(self, result: str) -> bool:
        return f'plimsoll_questions_received_total{{result="{result}"}} 1.0' in self.metrics.page().body.decode()


def decoded(answer: HttpAnswer) -> BuffersBody:
    assert answer.status == 200, answer.body
    return msgspec.json.decode(answer.body, type=BuffersBody)


def said(answer: HttpAnswer) -> tuple[int, str]:
    return answer.status, msgspec.json.decode(answer.body)["error"]


def test_who_leads_says_what_was_asked_what_was_given_and_what_settled_it() -> None:
    replica = Replica()
    replica.look(make_buffer(size=SizeSpec(replicas=3, limits={"cpu": cores(5)})), sizing={"web": "as recommended"})
    buffer = replica.one()
    assert (buffer.namespace, buffer.name, buffer.reference) == ("shop", "web", "PodTemplate small")
    assert (buffer.replicas, buffer.percentage, buffer.limits, buffer.chunks) == (3, None, {"cpu": "5"}, 2)
    assert (buffer.template, buffer.template_generation) == ("capacitybuffer-web-pod-template", 4)
    assert (buffer.age_seconds, buffer.conditions[0].age_seconds) == (NOW - 1_800_000_000, 30.0)
    assert (buffer.left_alone, buffer.trouble) == (None, None)
    why = buffer.why
    assert why is not None
    assert (why.decided_by, why.by_replicas, why.by_limits, why.limiting_resource) == ("quotas", 3, 5, "cpu")
    assert (why.wanted, why.allowed, why.by_quota, why.limiting_quotas) == (3, 2, {"tight": 2}, ["tight"])
    assert (why.chunk, why.sizing, why.age_seconds) == ({"cpu": "1"}, "as recommended", 3.0)
    controller = replica.list().controller
    assert (controller.leads, controller.leader, controller.replica, controller.namespace) == (
        True,
        "webhook-0",
        "webhook-1",
        "ops",
    )


def test_who_does_not_lead_gives_the_statuses_and_names_who_knows() -> None:
    replica = Replica(leads=False)
    replica.see(document(make_buffer()))
    body = replica.list()
    assert (body.controller.leads, body.controller.leader, body.controller.replica) == (
        False,
        "webhook-0",
        "webhook-1",
    )
    (buffer,) = body.buffers
    assert (buffer.chunks, buffer.why, buffer.left_alone) == (2, None, None)
    assert Replica(leads=False, leader=None).list().controller.leader is None


def test_a_namespace_that_could_not_be_looked_at_says_why_with_or_without_an_earlier_look() -> None:
    replica = Replica()
    replica.see(document(make_buffer()))
    replica.controller._faults["shop"] = "GET /x: no answer"
    expected = "its namespace could not be looked at: GET /x: no answer"
    assert (replica.one().trouble, replica.one().why) == (expected, None)
    replica.look(make_buffer(), troubles={"web": "its template: no answer"})
    assert replica.one().trouble == "its template: no answer"  # what is said of it itself comes first
    assert replica.one().why is not None


def test_buffers_that_are_left_alone_say_for_whom() -> None:
    replica = Replica()
    own, other = make_buffer("own", strategy="plimsoll.dev/placeholder-pods"), make_buffer("web")
    replica.see(document(own), document(other, "cluster-autoscaler"), document(make_buffer("x", strategy="other.test")))
    replica.controller._follow_others(replica.controller.seen())
    by_name = {buffer.name: buffer.left_alone for buffer in replica.list().buffers}
    contested = "cluster-autoscaler (of shop/web) writes statuses; buffers.mode: on takes over"
    assert by_name == {"own": None, "web": contested, "x": "its strategy is not served by Plimsoll"}
    assert replica.list().controller.contested_by == "cluster-autoscaler (of shop/web)"


def test_what_an_autoscaler_will_make_of_a_status_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica()
    stated = document(make_buffer())
    stated["status"]["provisioningStrategy"] = "buffer.x-k8s.io/active-capacity"
    replica.see(stated)
    assert replica.one().autoscaler is None  # PodTemplates have not been read
    monkeypatch.setattr(BufferWatches, "is_listed", True)

    def told() -> tuple[str | None, str, int, str | None]:
        autoscaler = replica.one().autoscaler
        assert autoscaler is not None
        return autoscaler.status, autoscaler.reason, autoscaler.virtual_pods, autoscaler.first_pod

    assert told() == ("False", "FailedToGetPodTemplate", 0, None)
    templates = replica.controller.watches.templates
    for generation, expected in (
        (4, ("True", "FakePodsInjected", 2, "capacity-buffer-web-1")),
        (5, (None, "its template has changed since the status was written", 0, None)),
    ):
        name = {"namespace": "shop", "name": "capacitybuffer-web-pod-template", "generation": generation}
        templates.replace_all([templates.entry({"metadata": name})], now_seconds=0.0, is_newest=True)
        assert told() == expected


def test_a_pause_is_told() -> None:
    assert Replica(paused="upgrade").list().controller.paused == "upgrade"


def test_a_list_comes_in_pages_and_by_namespace() -> None:
    replica = Replica()
    replica.see(*(document(make_buffer(name, namespace=where)) for where in ("bank", "shop") for name in ("a", "b")))
    first = replica.list(limit="3")
    assert [(buffer.namespace, buffer.name) for buffer in first.buffers] == [
        ("bank", "a"),
        ("bank", "b"),
        ("shop", "a"),
    ]
    assert (first.total, first.next) == (4, "shop/a")
    rest = replica.list(limit="3", after="shop/a")
    assert ([buffer.name for buffer in rest.buffers], rest.total, rest.next) == (["b"], 4, None)
    assert [buffer.namespace for buffer in replica.list(namespace="bank").buffers] == ["bank", "bank"]
    assert (replica.list(namespace="nobody").buffers, replica.list(after="z/z").buffers) == ([], [])


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"limit": "0"}, "limit: '0' is not allowed; allowed: 1 to 500"),
        ({"limit": "501"}, "limit: '501' is not allowed; allowed: 1 to 500"),
        ({"limit": "many"}, "limit: 'many' is not allowed; allowed: 1 to 500"),
        ({"after": "shop"}, "after: 'shop' is not allowed; allowed: NAMESPACE/NAME"),
        ({"after": "shop/web/c"}, "after: 'shop/web/c' is not allowed; allowed: NAMESPACE/NAME"),
    ],
)
def test_a_question_that_is_not_understood_is_told(query: dict[str, Any], words: str) -> None:
    replica = Replica()
    assert said(replica.answer("/v1/buffers", **query)) == (400, words)
    assert replica.counted("malformed")


def test_a_buffer_that_is_not_there_and_a_reader_who_may_not() -> None:
    replica = Replica()
    names = {"namespace": "shop", "name": "nobody"}
    answer = replica.answer("/v1/buffers/shop/nobody", names=names)
    assert said(answer) == (404, "there is no CapacityBuffer shop/nobody")
    assert replica.answer("/v1/buffers", who="bad").status == 401
    assert replica.answer("/v1/buffers/shop/other", names={"namespace": "shop", "name": "other"}).status == 403


def test_a_fault_of_ours_is_an_answer_too() -> None:
    replica = Replica()
    replica.look(make_buffer())
    replica.controller.seen = None  # type: ignore[assignment,method-assign]
    assert said(replica.answer("/v1/buffers")) == (500, "failed; see the webhook's log")
    assert replica.counted("error")


def test_who_sees_a_part_is_told_of_its_buffers_and_nothing_of_others() -> None:
    replica = Replica(leads=False)
    other = make_buffer("vault", namespace="bank")
    replica.see(document(make_buffer()), document(other, "karpenter"))
    replica.controller._contested_by = "karpenter (of bank/vault)"
    listed = replica.answer("/v1/buffers", who="ann")
    named = {"namespace": "shop", "name": "web"}
    single = replica.answer("/v1/buffers/shop/web", names=named, who="ann")
    for answer in (listed, single, replica.answer("/v1/buffers", who="ann", after="bank/vault")):
        body = decoded(answer)
        assert ([buffer.name for buffer in body.buffers], body.total) == (["web"], 1)
        assert (body.scope.words, body.scope.names) == ("1 of 2 namespaces is yours", ["shop"])  # type: ignore[union-attr]
        assert body.controller.contested_by == "another controller"
        for secret in (b"bank", b"vault", b"karpenter", b"webhook-", b"ops"):
            assert secret not in answer.body, secret
    everything = decoded(replica.answer("/v1/buffers"))
    assert [buffer.namespace for buffer in everything.buffers] == ["bank", "shop"]
    assert everything.controller.contested_by == "karpenter (of bank/vault)"


def test_buffers_of_others_are_refused_whether_they_are_there_or_not() -> None:
    replica = Replica()
    replica.see(document(make_buffer("vault", namespace="bank")))
    for namespace, name in (("bank", "vault"), ("bank", "none"), ("nowhere", "none")):
        names = {"namespace": namespace, "name": name}
        answer = replica.answer(f"/v1/buffers/{namespace}/{name}", names=names, who="ann")
        assert answer.status == 403
        assert said(answer)[1].endswith("and list pods not there either")
    assert replica.answer("/v1/buffers", who="ann", namespace="bank").status == 403
