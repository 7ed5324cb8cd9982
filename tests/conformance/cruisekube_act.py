"""Adapters from cases of cruisekube.json about orders and writes to the real rules: they hold no rule."""

from __future__ import annotations

import statistics
from datetime import UTC, datetime
from typing import Any

from agent.core.cluster.versions import resize_supported
from agent.core.cluster.workload import Workload, workload_of
from agent.core.orders import annotations as names
from agent.core.orders.order import Mode
from agent.core.orders.plan_options import ActOptions, DaemonSetGrowth, PlanOptions
from agent.core.orders.policy_options import PolicyName
from agent.core.orders.resolution import orders_of
from agent.core.plan.needs.reserved_reason import reserved_reason
from agent.core.resize.oom_cool_down import COOL_DOWN_SECONDS, OomCoolDown
from agent.core.resize.write_gate import WriteAction, may_write
from tests.pods import container, make_pod, mirror_metadata

_NOW_UNIX_SECONDS = 1_800_000_000.0
_NAMESPACE = "case"
_NODE = "node-1"
_REQUESTS = {
    "Guaranteed": ({"cpu": "300m", "memory": "256Mi"}, {"cpu": "300m", "memory": "256Mi"}),
    "Burstable": ({"cpu": "300m", "memory": "256Mi"}, None),
    "BestEffort": (None, None),
}


def _unix_seconds(moment: float | str) -> float:
    if not isinstance(moment, str):
        return float(moment)
    parsed = datetime.fromisoformat(moment)
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def _metadata(kind: str, orders: dict[str, str]) -> dict[str, Any]:
    """Return a pod's metadata as a controller of this kind makes it; a Deployment's through its ReplicaSet."""
    is_static = kind.lower() in ("static", "staticpod", "mirror", "node")
    metadata: dict[str, Any] = {"namespace": _NAMESPACE, "annotations": orders}
    if is_static:
        return metadata | mirror_metadata(_NODE, **orders)
    if kind.lower() in ("pod", "bare", "", "none"):
        return metadata
    owner = {"kind": kind, "name": "web", "uid": "owner", "controller": True}
    if kind in ("Deployment", "Rollout"):
        label = "pod-template-hash" if kind == "Deployment" else "rollouts-pod-template-hash"
        metadata["labels"] = {label: "7c5ddbdf54"}
        owner |= {"kind": "ReplicaSet", "name": "web-7c5ddbdf54"}
    return metadata | {"ownerReferences": [owner]}


def _default_ranking(case: dict[str, Any]) -> dict[str, Any]:
    replicas = case.get("median_replicas")
    if isinstance(replicas, list):
        replicas = statistics.median(replicas) if replicas else None
    if replicas is None:
        given = (case.get(key) for key in ("spec_replicas", "replicas", "specified_replicas"))
        replicas = next((number for number in given if number is not None), None)
    count = None if replicas is None else int(replicas)
    override = case.get("override")
    orders = orders_of(
        make_pod(container(), metadata=_metadata(case["kind"], {names.EVICTION_RANKING: override} if override else {})),
        None,
        act=ActOptions(),
        recommend_policy=PolicyName.CRUISE,
        plan=PlanOptions(),
        replicas=count,
    )
    return {"ranking": orders.ranking.value, "replicas": count}


def _resize_supported(case: dict[str, Any]) -> dict[str, Any]:
    return {"supported": resize_supported(case["git_version"])}


def _write_gate(case: dict[str, Any]) -> dict[str, Any]:
    orders = {names.MODE: "off" if case.get("excluded") else str(case.get("mode", Mode.ENFORCE))}
    if case.get("ranking"):
        orders[names.EVICTION_RANKING] = case["ranking"]
    requests, limits = _REQUESTS[case.get("qos", "Burstable")]
    act = ActOptions(excluded_namespaces=_NAMESPACE if case.get("namespace_excluded") else "kube-system")
    plan = PlanOptions(
        memory_applied=case.get("memory_applied", True),
        daemon_set_growth=DaemonSetGrowth(case.get("daemonset_growth", "never")),
    )
    age_seconds = 0.0 if case.get("new_workload") else plan.min_age_seconds
    started = datetime.fromtimestamp(_NOW_UNIX_SECONDS - age_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    pod = make_pod(
        container("app", requests, limits),
        metadata=_metadata(case.get("kind", "Deployment"), orders),
        nodeName=_NODE,
        status={"phase": "Running", "startTime": started},
    )
    workload = workload_of(pod)
    held = orders_of(pod, None, act=act, recommend_policy=PolicyName.CRUISE, plan=plan)
    reserved = reserved_reason(
        pod,
        held,
        workload,
        now_unix_seconds=_NOW_UNIX_SECONDS,
        plan=plan,
        act=act,
        is_pinned=False,
        is_namespace_known=True,
    )
    refusal = may_write(
        WriteAction(case["action"]),
        reserved=reserved,
        kind=workload.kind,
        ranking=held.ranking,
        plan=plan,
        grows=case.get("grows"),
        has_prediction=case.get("has_prediction", True),
        is_paused=case.get("paused", False),
    )
    return {"allowed": refusal is None}


def _oom_cooldown(case: dict[str, Any]) -> dict[str, Any]:
    cool_down = OomCoolDown(cool_down_seconds=case.get("cooldown_s", COOL_DOWN_SECONDS))
    events = []
    for event in case["events"]:
        workload = Workload(namespace=event.get("namespace", ""), kind="Deployment", name=event["workload"])
        acted = cool_down.take(workload, event["container"], _unix_seconds(event["ts"]))
        events.append({"recorded": True, "acted": acted})
    return {"events": events}


ADAPTERS = {
    "default_ranking": _default_ranking,
    "resize_supported": _resize_supported,
    "write_gate": _write_gate,
    "oom_cooldown": _oom_cooldown,
}
