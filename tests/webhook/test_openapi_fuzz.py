"""The webhook fuzzed by its own OpenAPI document: every answer is one that the document has, and never a fault."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from agent.webhook.openapi import document
from agent.webhook.queries.workload_bodies import WorkloadBody, WorkloadsBody
from agent.webhook.reports.bodies import ReportAnswer
from tests.webhook.report_bodies import packed, report_body, row_body
from tests.webhook.stack import READABLE, Stack, stack
from tests.webhook.test_access import Server, user


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    server = Server(users={"good": user()}, readable=READABLE, creatable=frozenset({"/v1/history"}))
    with stack(tmp_path_factory.mktemp("fuzz"), server=server) as webhook:
        webhook.report(packed(report_body(row_body(0), row_body(1))), content_encoding="gzip")
        webhook.follow()
        yield webhook


CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
OPERATIONS = [(path, method) for path, methods in json.loads(document())["paths"].items() for method in methods]


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_answer_is_one_that_the_document_has(whole: Stack, path: str, method: str) -> None:
    schema = schemathesis.openapi.from_asgi("/openapi.json", whole.app.asgi)
    statuses = set()

    @given(schema[path][method].as_strategy())
    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
    def fuzz(case: Any) -> None:
        case.headers.pop("Content-Encoding", None)  # what is generated is not compressed
        if isinstance(case.body, dict) and "node" in case.body:
            case.body["node"] = "node-a"  # the token's; what is not of it ends at the door
        response = case.call(headers={"Authorization": "Bearer good"})
        statuses.add(response.status_code)
        # A row of a pod that is seconds old and not known yet: the document has that answer, and it is no fault.
        is_put_off = response.status_code == 503 and "retry-after" in response.headers
        case.validate_response(response, checks=CHECKS[1:] if is_put_off else CHECKS)

    fuzz()
    assert 200 in statuses or "{" in path


def test_the_document_stands_for_itself() -> None:
    specification = json.loads(document())
    assert specification["openapi"] == "3.1.0"
    assert sorted(specification["paths"]) == [
        "/healthz",
        "/metrics",
        "/mutate",
        "/readyz",
        "/v1/buffers",
        "/v1/buffers/{namespace}/{name}",
        "/v1/cost",
        "/v1/decisions",
        "/v1/events",
        "/v1/evictions",
        "/v1/history",
        "/v1/nodes",
        "/v1/nodes/{node}",
        "/v1/policy",
        "/v1/report",
        "/v1/runs",
        "/v1/summary",
        "/v1/taint",
        "/v1/workloads",
        "/v1/workloads/{namespace}/{kind}/{name}",
    ]
    row = specification["components"]["schemas"]["RowBody"]
    assert row["properties"]["podUid"]["pattern"]
    assert set(row["required"]) == {
        "namespace",
        "kind",
        "workload",
        "container",
        "pod",
        "podUid",
        "coveredSeconds",
    }


def test_what_is_answered_is_what_its_types_say(whole: Stack) -> None:
    answer = whole.report(packed(report_body(row_body(0), sequence=20)), content_encoding="gzip")
    assert msgspec.json.decode(answer.body, type=ReportAnswer).taken == 1
    listed = msgspec.json.decode(whole.ask("/v1/workloads").body, type=WorkloadsBody)
    assert [line.name for line in listed.workloads] == ["web"]
    names = {"namespace": "shop", "kind": "Deployment", "name": "web"}
    workload = msgspec.json.decode(whole.ask("/v1/workloads/shop/Deployment/web", names=names).body, type=WorkloadBody)
    assert workload.containers[0].container == "app"
