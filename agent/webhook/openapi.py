"""The OpenAPI document of the webhook: paths written here, bodies from the types of ``wire``. Webhook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

import msgspec

from agent.core.history.minute.quality import QualityWindow
from agent.core.orders.order import Mode
from agent.core.orders.policy_options import PolicyName
from agent.core.resize.decision import Action, Outcome
from agent.version import installed_version
from agent.webhook.http.reader_request import MOST_PAGE
from agent.webhook.queries.buffer_bodies import BuffersBody
from agent.webhook.queries.cost import LONGEST_LABEL, CostBy
from agent.webhook.queries.cost_bodies import CostBody
from agent.webhook.queries.events import RETENTION_DAYS, EventsBody
from agent.webhook.queries.forget import MOST_SINCE_SECONDS
from agent.webhook.queries.import_bodies import HistoryAnswer, HistoryBody
from agent.webhook.queries.policies import PoliciesBody
from agent.webhook.queries.standings import Severity
from agent.webhook.queries.summary import SummaryBody
from agent.webhook.queries.workload_bodies import ForgottenBody, NodesBody, WorkloadBody, WorkloadsBody
from agent.webhook.queries.workload_list import MOST_SOUGHT, SORTS
from agent.webhook.reports.bodies import (
    DecisionsBody,
    DecisionsReplyBody,
    FaultBody,
    ProposalsBody,
    RepliesBody,
    ReportAnswer,
    ReportBody,
    RunsBody,
    RunsReplyBody,
    TaintQuestionBody,
    TaintReplyBody,
)

_Json = dict[str, object]
_TYPES: Final = (
    FaultBody,
    ReportBody,
    ReportAnswer,
    ProposalsBody,
    RepliesBody,
    RunsBody,
    RunsReplyBody,
    DecisionsBody,
    DecisionsReplyBody,
    TaintQuestionBody,
    TaintReplyBody,
    SummaryBody,
    EventsBody,
    PoliciesBody,
    WorkloadsBody,
    WorkloadBody,
    NodesBody,
    ForgottenBody,
    BuffersBody,
    CostBody,
    HistoryBody,
    HistoryAnswer,
)
_WHY_NOT: Final = {
    400: "The body or the query is not understood.",
    401: "No token, or none that is good for the webhook's audience.",
    403: "The token's account, node or rights do not allow this.",
    404: "Nothing is known of it.",
    408: "The request did not come whole in time.",
    413: "Too many bytes.",
    415: "A body of a kind that is not read.",
    429: "Too many calls; Retry-After says when to come again.",
    503: "Not now: the database or the API server is away, not all was read yet, or there is too much to do; "
    "Retry-After says when again.",
}


_TAGGED: Final = ("WorkloadsBody", "WorkloadBody", "NodesBody", "SummaryBody", "EventsBody", "PoliciesBody")
"""Answers with an ETag."""


@cache
def document() -> bytes:
    """Write the document, JSON."""
    references, components = msgspec.json.schema_components(_TYPES, ref_template="#/components/schemas/{name}")
    schemas = dict(zip((kind.__name__ for kind in _TYPES), references, strict=True))
    posts = _posts(schemas)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Plimsoll webhook",
                "version": installed_version(),
                "description": "Histories in, sizes out. Tokens are judged by TokenReview with the webhook's audience; "
                "reading also needs RBAC: verb get on the path as nonResourceURL, or (but for buffers) list on pods of "
                "namespaces, whose part is answered then; forgetting: verb delete; importing: verb create.",
            },
            "components": {
                "schemas": components,
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
            "paths": _joined(posts, _gets(schemas), _deletes(schemas), _open_paths()),
        }
    )


def _posts(schemas: Mapping[str, _Json]) -> _Json:
    refusals = (400, 401, 403, 408, 413, 415, 429, 503)
    encoding = _parameter("header", "Content-Encoding", {"type": "string", "enum": ["gzip", "identity"]})
    held = _parameter("header", "If-None-Match", {"type": "string", "pattern": '^"[!#-~]*"$'})
    return {
        "/v1/report": {
            "post": {
                "operationId": "report",
                "summary": "A node's report of one interval; the answer carries directives that are new to the node.",
                "security": [{"token": []}],
                "parameters": [encoding, held],
                "requestBody": {"required": True, "content": _content(schemas["ReportBody"])},
                "responses": _responses(
                    schemas, "ReportAnswer", "The database has the rows that were taken.", refusals
                ),
            }
        },
        "/v1/history": {
            "post": {
                "operationId": "importHistory",
                "summary": "Hours that were read elsewhere; what agents told of an hour comes before them.",
                "security": [{"token": []}],
                "parameters": [encoding],
                "requestBody": {"required": True, "content": _content(schemas["HistoryBody"])},
                "responses": _responses(
                    schemas, "HistoryAnswer", "The database has the rows that were taken.", (*refusals[:5], 429, 503)
                ),
            }
        },
        "/v1/evictions": {
            "post": {
                "operationId": "propose",
                "summary": "Pods that a node would have evicted; each is judged.",
                "security": [{"token": []}],
                "parameters": [encoding],
                "requestBody": {"required": True, "content": _content(schemas["ProposalsBody"])},
                "responses": _responses(schemas, "RepliesBody", "A verdict for each pod.", refusals),
            }
        },
        "/v1/runs": {
            "post": {
                "operationId": "runs",
                "summary": "Runs of Jobs that have ended on a node, told at once: the next is sized by the last ones.",
                "security": [{"token": []}],
                "parameters": [encoding],
                "requestBody": {"required": True, "content": _content(schemas["RunsBody"])},
                "responses": _responses(schemas, "RunsReplyBody", "How many are kept; why not others.", refusals),
            }
        },
        "/v1/decisions": {
            "post": {
                "operationId": "decisions",
                "summary": "What a node decided and did, and what was ordered there; each by its number, once.",
                "security": [{"token": []}],
                "parameters": [encoding],
                "requestBody": {"required": True, "content": _content(schemas["DecisionsBody"])},
                "responses": _responses(schemas, "DecisionsReplyBody", "How many are kept; why not others.", refusals),
            }
        },
        "/v1/taint": {
            "post": {
                "operationId": "taint",
                "summary": "A node that is overloaded asks whether it may taint itself; the share of nodes is capped.",
                "security": [{"token": []}],
                "parameters": [encoding],
                "requestBody": {"required": True, "content": _content(schemas["TaintQuestionBody"])},
                "responses": _responses(schemas, "TaintReplyBody", "Whether it may, and why.", refusals),
            }
        },
        "/mutate": {
            "post": {
                "operationId": "mutate",
                "summary": "An AdmissionReview (admission.k8s.io/v1), answered with one; whatever comes, it is valid.",
                "requestBody": {"required": True, "content": _content({"type": "object"})},
                "responses": {
                    "200": {"description": "The review with its response.", "content": _content(_REVIEW)},
                    "408": {"description": _WHY_NOT[408], "content": _content(schemas["FaultBody"])},
                },
            }
        },
    }


_REVIEW: Final[_Json] = {
    "type": "object",
    "required": ["apiVersion", "kind", "response"],
    "properties": {
        "apiVersion": {"const": "admission.k8s.io/v1"},
        "kind": {"const": "AdmissionReview"},
        "response": {
            "type": "object",
            "required": ["uid", "allowed"],
            "properties": {
                "uid": {"type": "string"},
                "allowed": {"type": "boolean"},
                "patch": {"type": "string"},
                "patchType": {"const": "JSONPatch"},
            },
            "dependentRequired": {"patch": ["patchType"], "patchType": ["patch"]},
        },
    },
}


def _gets(schemas: Mapping[str, _Json]) -> _Json:
    refusals = (400, 401, 403, 429, 503)
    name: _Json = {"type": "string", "pattern": "^[a-z0-9][-.a-z0-9]{0,60}$"}
    kind: _Json = {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9]{0,60}$"}
    limit = {"type": "integer", "minimum": 1, "maximum": MOST_PAGE}
    after = {"type": "string", "pattern": "^[^/]+/[^/]+/[^/]+$"}
    sought = _parameter("query", "q", {"type": "string", "maxLength": MOST_SOUGHT})
    return {
        "/v1/workloads": _get(
            schemas,
            "workloads",
            "WorkloadsBody",
            "Workloads, in order.",
            refusals,
            (
                sought,
                _parameter("query", "kind", kind),
                _parameter("query", "mode", _words(Mode)),
                _parameter("query", "severity", _words(Severity)),
                _parameter("query", "sort", _words(SORTS)),
                _parameter("query", "reverse", {"type": "boolean"}),
                _parameter("query", "quality", _words(QualityWindow)),
                _parameter("query", "namespace", name),
                _parameter("query", "limit", limit),
                _parameter("query", "after", after),
            ),
        ),
        "/v1/workloads/{namespace}/{kind}/{name}": _get(
            schemas,
            "workload",
            "WorkloadBody",
            "One workload: history by hour, advice, what applies to it, where it runs.",
            (*refusals, 404),
            (
                _parameter("path", "namespace", name),
                _parameter("path", "kind", kind),
                _parameter("path", "name", name),
                _parameter("query", "policy", {"type": "string", "enum": [str(policy) for policy in PolicyName]}),
            ),
        ),
        "/v1/buffers": _get(
            schemas,
            "buffers",
            "BuffersBody",
            "CapacityBuffers, in order: what they ask for, what they were given, and why.",
            refusals,
            (
                _parameter("query", "namespace", name),
                _parameter("query", "limit", limit),
                _parameter("query", "after", {"type": "string", "pattern": "^[^/]+/[^/]+$"}),
            ),
        ),
        "/v1/buffers/{namespace}/{name}": _get(
            schemas,
            "buffer",
            "BuffersBody",
            "One CapacityBuffer, as a list of one.",
            (*refusals, 404),
            (
                _parameter("path", "namespace", name),
                _parameter("path", "name", {"type": "string", "pattern": "^[a-z0-9][-.a-z0-9]{0,252}$"}),
            ),
        ),
        "/v1/cost": _get(
            schemas,
            "cost",
            "CostBody",
            "What nodes and pods cost a month, what sizing is worth, which nodes could go.",
            refusals,
            (
                _parameter("query", "by", {"type": "string", "enum": [str(grouping) for grouping in CostBy]}),
                _parameter("query", "label", {"type": "string", "minLength": 1, "maxLength": LONGEST_LABEL}),
                _parameter("query", "namespace", name),
                _parameter("query", "limit", limit),
                _parameter("query", "after", {"type": "string"}),
                _parameter("header", "If-None-Match", {"type": "string", "pattern": '^(W/)?"[!#-~]*"$'}),
            ),
            is_tagged=True,
        ),
        "/v1/nodes": _get(schemas, "nodes", "NodesBody", "Who reports, since when, how far.", refusals, ()),
        "/v1/summary": _get(
            schemas,
            "summary",
            "SummaryBody",
            "What is wasted, who is short, what is stopped and why, what was done last.",
            refusals,
            (),
        ),
        "/v1/events": _get(
            schemas,
            "events",
            "EventsBody",
            f"What nodes decided and did within {RETENTION_DAYS} days, newest first.",
            refusals,
            (
                _parameter("query", "namespace", name),
                _parameter("query", "workload", {"type": "string", "pattern": "^([A-Za-z0-9]+/)?[^/]{1,200}$"}),
                _parameter("query", "pod", {"type": "string", "maxLength": 253}),
                _parameter("query", "node", {"type": "string", "maxLength": 253}),
                _parameter("query", "action", _words(Action)),
                _parameter("query", "outcome", _words(Outcome)),
                _parameter(
                    "query",
                    "sinceSeconds",
                    {"type": "integer", "minimum": 1, "maximum": RETENTION_DAYS * 86_400},
                ),
                _parameter("query", "limit", limit),
                _parameter("query", "after", {"type": "string", "pattern": "^[0-9]{1,11}[.][0-9]{1,6}-[0-9]{1,15}$"}),
            ),
        ),
        "/v1/policy": _get(
            schemas,
            "policy",
            "PoliciesBody",
            "What applies to each workload, and what said so.",
            refusals,
            (
                sought,
                _parameter("query", "namespace", name),
                _parameter("query", "limit", limit),
                _parameter("query", "after", after),
            ),
        ),
    }


def _deletes(schemas: Mapping[str, _Json]) -> _Json:
    refusals = (400, 401, 403, 404, 429, 503)
    name: _Json = {"type": "string", "pattern": "^[a-z0-9][-.a-z0-9]{0,252}$"}
    kind: _Json = {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9]{0,60}$"}
    dry_run = _parameter("query", "dryRun", {"type": "boolean"})
    since = _parameter("query", "sinceSeconds", {"type": "integer", "minimum": 1, "maximum": MOST_SINCE_SECONDS})
    workload = [_parameter("path", part, kind if part == "kind" else name) for part in ("namespace", "kind", "name")]
    return {
        path: {
            "delete": {
                "operationId": operation,
                "summary": summary,
                "security": [{"token": []}],
                "parameters": parameters,
                "responses": _responses(schemas, "ForgottenBody", "What went, or would go.", refusals),
            }
        }
        for path, operation, summary, parameters in (
            (
                "/v1/workloads/{namespace}/{kind}/{name}",
                "forgetWorkload",
                "Forget all that is known of a workload.",
                [*workload, dry_run],
            ),
            (
                "/v1/nodes/{node}",
                "forgetNode",
                "Forget what a node reported: the hours of each history in which it had a part.",
                [_parameter("path", "node", name), dry_run, since],
            ),
        )
    }


def _joined(*parts: _Json) -> _Json:
    paths: dict[str, dict[str, object]] = {}
    for part in parts:
        for path, methods in part.items():
            if isinstance(methods, dict):
                paths.setdefault(path, {}).update(methods)
    return dict(paths)


def _open_paths() -> _Json:
    text = {"text/plain": {"schema": {"type": "string"}}}
    paths: _Json = {
        path: {
            "get": {
                "operationId": path.strip("/"),
                "summary": summary,
                "responses": {str(code): {"description": words, "content": text} for code, words in codes.items()},
            }
        }
        for path, summary, codes in (
            ("/healthz", "Whether the process answers.", {200: "It does."}),
            ("/readyz", "Whether admissions are answered with history.", {200: "They are.", 503: "Not yet, and why."}),
        )
    }
    paths["/metrics"] = {
        "get": {
            "operationId": "metrics",
            "summary": "Prometheus text format, or OpenMetrics where it is asked for.",
            "responses": {
                "200": {
                    "description": "The page.",
                    "content": {**text, "application/openmetrics-text": {"schema": {"type": "string"}}},
                },
                "503": {"description": "Two scrapes are under way.", "content": _content({"type": "object"})},
            },
        }
    }
    return paths


def _get(
    schemas: Mapping[str, _Json],
    operation: str,
    answer: str,
    summary: str,
    refusals: Sequence[int],
    parameters: Sequence[_Json],
    *,
    is_tagged: bool = False,
) -> _Json:
    responses = _responses(schemas, answer, summary, refusals)
    if is_tagged or answer in _TAGGED:
        responses["304"] = {"description": "As it was when the ETag of If-None-Match was given; no body."}
    return {
        "get": {
            "operationId": operation,
            "summary": summary,
            "security": [{"token": []}],
            "parameters": [*parameters, _HELD] if answer in _TAGGED else list(parameters),
            "responses": responses,
        }
    }


def _responses(schemas: Mapping[str, _Json], answer: str, words: str, refusals: Sequence[int]) -> _Json:
    refused = {
        str(code): {"description": _WHY_NOT[code], "content": _content(schemas["FaultBody"])}
        for code in sorted(refusals)
    }
    return {"200": {"description": words, "content": _content(schemas[answer])}, **refused}


def _content(schema: object) -> _Json:
    return {"application/json": {"schema": schema}}


def _words(allowed: Iterable[str]) -> _Json:
    return {"type": "string", "enum": [str(word) for word in allowed]}


def _parameter(where: str, name: str, schema: object) -> _Json:
    return {"in": where, "name": name, "required": where == "path", "schema": schema}


_HELD: Final = _parameter("header", "If-None-Match", {"type": "string", "pattern": '^(W/)?"[!#-~]*"$'})
