"""Adapters from cases of capacity_buffer.json to the real rules: they hold no rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agent.core.buffers.buffer import (
    ACTIVE_CAPACITY,
    FALSE,
    LIMITED_BY_QUOTAS,
    PROVISIONING,
    READY_FOR_PROVISIONING,
    TRUE,
    Buffer,
    BufferStatus,
    Chunk,
    Condition,
    Content,
    ManagedTemplate,
    NamespaceFacts,
    NotSized,
    Pass,
    ScopeFault,
    Shape,
    Unresolved,
)
from agent.core.buffers.chunks import size
from agent.core.buffers.provisioning import provision
from agent.core.buffers.quotas import QuotaClaim, allocate, matches_scopes
from agent.core.buffers.reconciliation import is_ours, reconcile, reported_strategy
from agent.core.buffers.resolution import is_known_kind, scalable_shape, template_shape
from agent.core.buffers.template import chunk_of, managed_template_name
from agent.kube.objects.buffer_json import (
    buffer_from_json,
    buffer_quota_from_json,
    live_pod_from_json,
    managed_template_from_json,
    pod_of_template,
    scalable_from_json,
    scale_from_json,
)
from agent.kube.objects.json_reader import Reader
from tests.conformance.capacity_buffer_schema import STORED_VERSION, spec_faults
from tests.label_selectors import matches_selector

_NOW_UNIX_SECONDS = 1_800_000_000.0
_NAMESPACE = "default"


def _buffer_replicas(case: dict[str, Any]) -> dict[str, Any]:
    spec = buffer_from_json({"metadata": {"name": "case"}, "spec": case["spec"]}).size
    sized = size(spec, Reader(case, "").amounts("pod_requests"), case.get("scalable_replicas"))
    return {"error": sized.reason} if isinstance(sized, NotSized) else {"replicas": sized.replicas}


def _translate(case: dict[str, Any]) -> dict[str, Any]:
    buffer = buffer_from_json(case["buffer"])
    cluster = case["cluster"]
    templates = {template["metadata"]["name"]: template for template in cluster.get("podTemplates") or ()}
    managed_name = managed_template_name(buffer.name)
    generation = case.get("managed_template_generation", 1)
    standing = {}
    if managed_name in templates:
        standing = {managed_name: replace(managed_template_from_json(templates[managed_name]), generation=generation)}
    # Translating is asked of any strategy: which buffers are left alone is the pass's matter.
    served = buffer if is_ours(buffer) else replace(buffer, strategy=ACTIVE_CAPACITY)
    shapes = {buffer.name: _shape(buffer, cluster, templates)}
    result, managed = _passed([served], shapes, standing, generation=generation)
    (outcome,) = result.outcomes
    ready = outcome.status.condition(READY_FOR_PROVISIONING)
    content = managed[managed_name].content if managed_name in managed else None
    return {
        "podTemplateRef": outcome.status.template_name and {"name": outcome.status.template_name},
        "podTemplateGeneration": outcome.status.template_generation,
        "replicas": outcome.status.replicas,
        "provisioningStrategy": reported_strategy(buffer.strategy),
        "ReadyForProvisioning": _condition(ready),
        "requeue": result.requeue,
        "managed_requests": None if content is None else _first_requests(content),
    }


def _shape(buffer: Buffer, cluster: dict[str, Any], templates: dict[str, Any]) -> Shape | Unresolved:
    ref = buffer.scalable_ref
    if ref is None:
        name = buffer.template_ref or ""
        return template_shape(name, templates[name]["template"] if name in templates else None)

    def is_meant(entry: dict[str, Any]) -> bool:
        name = entry.get("name") or entry.get("metadata", {}).get("name")
        # Read as a reference is: the core group may be spelt by its word.
        meant = {"apiGroup": entry.get("apiGroup"), "kind": entry["kind"], "name": name}
        return buffer_from_json({"metadata": {"name": "case"}, "spec": {"scalableRef": meant}}).scalable_ref == ref

    document = next(filter(is_meant, cluster.get("scales") or ()), None)
    scale = None if document is None else scale_from_json(document)
    pods = [
        live_pod_from_json(pod)
        for pod in cluster.get("pods") or ()
        if (pod["metadata"].get("namespace") or buffer.namespace) == buffer.namespace
        and scale is not None
        and matches_selector(scale.selector, pod["metadata"].get("labels") or {})
    ]
    known = next(filter(is_meant, cluster.get("scalables") or ()), None)
    is_read = known is not None and is_known_kind(ref.api_group, ref.kind)
    return scalable_shape(
        ref, scale=scale, pods=pods, known=scalable_from_json(known, ref.api_group, ref.kind) if is_read else None
    )


def _passed(
    buffers: list[Buffer],
    shapes: dict[str, Shape | Unresolved],
    templates: dict[str, ManagedTemplate],
    *,
    generation: int = 1,
    quotas: Any = (),
) -> tuple[Pass, dict[str, ManagedTemplate]]:
    """Make a pass as the controller does, against an API that takes every template."""
    facts = NamespaceFacts(buffers=tuple(buffers), shapes=shapes, templates=templates, quotas=tuple(quotas))
    while True:
        result = reconcile(facts, read_pod=pod_of_template, now_unix_seconds=_NOW_UNIX_SECONDS)
        if not result.orders:
            return result, dict(facts.templates)
        written = {
            order.template_name: ManagedTemplate(
                name=order.template_name,
                generation=generation,
                content=order.content,
                owner_uid=order.buffer.uid,
            )
            for order in result.orders
        }
        facts = replace(
            facts,
            templates={**facts.templates, **written},
            written=facts.written | {order.buffer.name for order in result.orders},
        )


def _first_requests(content: Content) -> Any:
    spec: Any = content["spec"]
    containers = spec.get("containers") or [{}]
    return containers[0].get("resources", {}).get("requests", {})


def _condition(condition: Condition | None) -> dict[str, Any] | None:
    if condition is None:
        return None
    return {"status": condition.status, "reason": condition.reason, "message": condition.message}


def _managed_template_name(case: dict[str, Any]) -> dict[str, Any]:
    return {"name": managed_template_name(case["buffer_name"])}


def _chunk(template: Content) -> Chunk:
    return chunk_of(template, pod_of_template)


def _quota(quota: dict[str, Any]) -> Any:
    return buffer_quota_from_json({"metadata": {"name": quota["name"]}, **quota})[1]


def _allocate_quotas(case: dict[str, Any]) -> dict[str, Any]:
    claims = [QuotaClaim(wanted=buffer["replicas"], chunk=_chunk(buffer["template"])) for buffer in case["buffers"]]
    shapes = {
        buffer["name"]: template_shape("case", buffer["template"])
        if buffer["replicas"] is not None
        else Unresolved(reason="")
        for buffer in case["buffers"]
    }
    allocations = allocate(claims, [_quota(quota) for quota in case["quotas"]])
    # The words of the condition are those of a whole pass; it gives the same numbers.
    buffers = [
        buffer_from_json(
            {
                "metadata": {
                    "name": buffer["name"],
                    "creationTimestamp": f"2026-01-01T{place // 60:02}:{place % 60:02}:00Z",
                },
                "spec": {"podTemplateRef": {"name": "case"}, "replicas": buffer["replicas"]},
            }
        )
        for place, buffer in enumerate(case["buffers"])
    ]
    result, _ = _passed(buffers, shapes, {}, quotas=[_quota(quota) for quota in case["quotas"]])
    for outcome, allocation in zip(result.outcomes, allocations.buffers, strict=True):
        assert outcome.explanation.allocation == allocation
    return {
        "buffers": [
            {
                "replicas": outcome.status.replicas,
                "LimitedByQuotas": _condition(outcome.status.condition(LIMITED_BY_QUOTAS)),
            }
            for outcome in result.outcomes
        ],
        "requeue": bool(allocations.faults),
    }


def _pod_matches_quota_scope(case: dict[str, Any]) -> dict[str, Any]:
    _, quota = buffer_quota_from_json({"metadata": {"name": "quota"}, "spec": case["quota_spec"]})
    assert quota.fault is None
    verdict = matches_scopes(_chunk(case["template"]), quota.scopes)
    return {"error": verdict.value} if isinstance(verdict, ScopeFault) else {"matches": verdict}


def _reconcile_sequence(case: dict[str, Any]) -> dict[str, Any]:
    buffers: list[Buffer] = []
    templates: dict[str, ManagedTemplate] = {}
    statuses: dict[str, BufferStatus] = {}
    quota_cpu = case["quota_cpu"]
    after: list[dict[str, Any]] = []
    for step in case["steps"]:
        quota_cpu = step.get("set_quota_cpu", quota_cpu)
        if "set_buffers" in step:
            buffers = [_stepped(buffer) for buffer in step["set_buffers"]]
        result, templates = _passed(
            [replace(buffer, status=statuses.get(buffer.name, BufferStatus())) for buffer in buffers],
            {buffer.name: template_shape("case", case["template"]) for buffer in buffers},
            templates,
            quotas=[_quota({"name": "quota", "status": {"hard": {"cpu": quota_cpu}}})] if quota_cpu else [],
        )
        statuses = {outcome.buffer.name: outcome.status for outcome in result.outcomes}
        after.append(
            {
                buffer.name: _step_result(statuses[buffer.name]) if buffer.name in statuses else _UNTOUCHED
                for buffer in buffers
            }
        )
    return {"after_each_step": after}


_UNTOUCHED: dict[str, Any] = {"replicas": None, "limited": None}


def _stepped(stated: dict[str, Any]) -> Buffer:
    size_keys = ("replicas", "percentage", "limits", "provisioningStrategy")
    spec = {key: stated[key] for key in size_keys if key in stated}
    return buffer_from_json(
        {
            "metadata": {"name": stated["name"], "creationTimestamp": stated.get("creationTimestamp")},
            "spec": {"podTemplateRef": {"name": "case"}, **spec},
        }
    )


def _step_result(status: BufferStatus) -> dict[str, Any]:
    limited = status.condition(LIMITED_BY_QUOTAS)
    return {"replicas": status.replicas, "limited": None if limited is None else limited.status == TRUE}


def _inject_fake_pods(case: dict[str, Any]) -> dict[str, Any]:
    provisions = {}
    for stated in case["buffers"]:
        buffer = _provisioned(stated)
        provisions[buffer.name] = provision(
            buffer,
            template_generation=case["template_generations"].get(buffer.status.template_name),
            strategies=case["allowed_strategies"],
            force_safe_to_evict=case.get("force_safe_to_evict", False),
        )
    pods = [pod for outcome in provisions.values() for pod in outcome.pods]
    return {
        "count": len(pods),
        "provisioning": {
            name: None if outcome.status is None else {"status": outcome.status, "reason": outcome.reason}
            for name, outcome in provisions.items()
        },
        "names": [pod.name for pod in pods],
        "uids": [pod.uid for pod in pods],
        "annotations": next((dict(outcome.annotations) for outcome in provisions.values() if outcome.pods), {}),
    }


def _provisioned(stated: dict[str, Any]) -> Buffer:
    conditions = []
    if stated.get("ready") is not None:
        conditions.append(Condition(type=READY_FOR_PROVISIONING, status=TRUE if stated["ready"] else FALSE, reason="x"))
    if stated.get("provisioning") is not None:
        conditions.append(Condition(type=PROVISIONING, status=stated["provisioning"], reason="x"))
    status = BufferStatus(
        template_name=stated.get("podTemplateRef"),
        template_generation=stated.get("podTemplateGeneration"),
        replicas=stated.get("replicas"),
        strategy=stated.get("provisioningStrategy"),
        conditions=tuple(conditions),
    )
    named = buffer_from_json({"metadata": {"name": stated["name"], "uid": stated["uid"]}})
    return replace(named, status=status)


def _validate_spec(case: dict[str, Any]) -> dict[str, Any]:
    version = case.get("version") or case.get("apiVersion") or STORED_VERSION
    faults = spec_faults(case["spec"], version.rpartition("/")[2])
    if not faults:
        return {"valid": True}
    return {"valid": False, "message": faults[0], "messages": list(faults)}


ADAPTERS = {
    "buffer_replicas": _buffer_replicas,
    "translate": _translate,
    "managed_template_name": _managed_template_name,
    "allocate_quotas": _allocate_quotas,
    "pod_matches_quota_scope": _pod_matches_quota_scope,
    "reconcile_sequence": _reconcile_sequence,
    "inject_fake_pods": _inject_fake_pods,
    "validate_spec": _validate_spec,
}
