"""The agent's own client and words against the webhook's: what one writes the other reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.core.cluster.pod import PodRef
from agent.core.eviction.proposal import PodAmounts, Proposal, Verdict, Want
from agent.core.eviction.proposal_json import EVICTIONS_PATH, answers_of, proposals_text
from agent.core.history.reports.directive_json import directives_from_json, etag_from
from agent.core.history.reports.rollup import NodeClass
from agent.metrics.report_series import PostResult
from agent.node.reports.client import WebhookClient
from agent.node.reports.report_answers import judged
from tests.report_texts import report_text
from tests.webhook.https import running
from tests.webhook.stack import Stack, place, stack
from tests.webhook.workload_reports import report, row


@pytest.fixture
def spoken(tmp_path: Path) -> Iterator[tuple[Stack, WebhookClient]]:
    token = tmp_path / "token"
    token.write_text("good")
    with stack(tmp_path) as webhook:
        webhook.follow()
        webhook.facts.places["uid-web-1"] = replace(place(1), uid="uid-web-1")
        with running(webhook.services, tmp_path) as server:
            host, port = server.address
            client = WebhookClient(
                f"https://{host}:{port}", token_file=token, ca_file=server.authority, timeout_seconds=60.0
            )
            yield webhook, client
            client.close()


def test_a_report_is_taken_and_its_answer_understood(spoken: tuple[Stack, WebhookClient]) -> None:
    webhook, client = spoken
    sent = report(
        row(cpu=[1.0, 20.0, 300.0], memory=[3e7], kills=((3.0, 5_000_000),), throttled=0.5, waiting=1.0),
        node_class=NodeClass(instance_type=None, cpus=8),
        age=2.5,
    )
    text = report_text(sent, agent="0.1.0")
    first = judged(client.post("/v1/report", text), client.url)
    assert first.result is PostResult.TAKEN
    assert first.answer is not None
    assert (first.answer["taken"], first.answer["refused"]) == (1, [])
    etag = etag_from(first.answer["etag"], "etag")
    directives = directives_from_json(first.answer["directives"], etag=etag)
    assert [directive.workload.name for directive in directives.workloads] == ["web"]
    again = judged(client.post("/v1/report", text, {"If-None-Match": f'"{etag}"'}), client.url)
    assert again.result is PostResult.REPEATED
    assert again.answer is not None
    assert again.answer["directives"] is None
    webhook.follow()
    later = replace(sent, sequence=2)
    answer = judged(client.post("/v1/report", report_text(later, agent="")), client.url).answer
    assert answer is not None
    (workload,) = directives_from_json(answer["directives"], etag="x").workloads
    assert workload.stop_shrinking_seconds is not None  # of the kill
    assert workload.containers[0].oom_memory_bytes is not None


def test_a_refusal_is_understood(spoken: tuple[Stack, WebhookClient]) -> None:
    webhook, client = spoken
    elsewhere = report_text(report(node="node-b"), agent="")
    assert judged(client.post("/v1/report", elsewhere), client.url).result is PostResult.FORBIDDEN
    assert judged(client.post("/v1/report", "{}"), client.url).result is PostResult.REFUSED
    webhook.facts.is_complete = False
    away = judged(client.post("/v1/report", report_text(report(), agent="")), client.url)
    assert (away.result, away.retry_after_seconds) == (PostResult.UNAVAILABLE, 5.0)


def test_proposals_are_judged_and_the_verdicts_understood(spoken: tuple[Stack, WebhookClient]) -> None:
    webhook, client = spoken
    webhook.facts.places["uid-9"] = place(9, node="node-b")
    proposals = [
        Proposal(
            ref=PodRef(namespace="shop", name=f"web-{number}", uid=f"uid-{number}"),
            want=Want.MEMORY,
            order=number,
            ranking="low",
            requested=PodAmounts(cpu_millicores=5),
            needed=PodAmounts(memory_bytes=7),
        )
        for number in (9, 99)
    ]
    answer = client.post(EVICTIONS_PATH, proposals_text("node-a", proposals))
    assert answer.status == 200
    answers = answers_of(answer.body)
    assert answers is not None
    assert {uid: (ruling.verdict, str(ruling.reason)) for uid, ruling in answers.items()} == {
        "uid-9": (Verdict.REFUSED, "other_node"),
        "uid-99": (Verdict.REFUSED, "unknown_pod"),
    }
