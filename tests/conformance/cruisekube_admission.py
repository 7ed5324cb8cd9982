"""Adapters from cases of cruisekube.json about admission to the real rules: they hold no rule.

Cores and the MB of one million bytes exist here only.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from agent.calendar import SystemCalendar
from agent.core.admission.answer import AdmissionFacts
from agent.core.admission.estimate import Estimate, EstimateSource, NoEstimate
from agent.core.admission.options import AdmissionSettings
from agent.core.admission.pod_admission import admit
from agent.core.cluster.hpa import (
    UTILIZATION,
    HpaMetric,
    frozen_axes,
    frozen_resources,
    is_whole_workload_left,
    moved_target,
)
from agent.core.cluster.node import Namespace
from agent.core.cluster.resource import Resource
from agent.core.orders import annotations as names
from agent.core.orders.order import Mode
from agent.core.orders.plan_options import ActOptions, DaemonSetGrowth, PlanOptions
from agent.core.orders.policy_options import BoundsOptions, PolicyName
from agent.core.orders.windows import Disruption, parse_windows, wait_of
from agent.core.plan.pod_change import Setting
from tests.pods import container, make_pod

_MB = 1_000_000
_DAY_MINUTES = 24 * 60
_NAMESPACE = "case"
_NOW_UNIX_SECONDS = 1_800_000_000.0
_WEEK_SECONDS = 7 * 86_400.0


def _unix_seconds(moment: float | str) -> float:
    if not isinstance(moment, str):
        return float(moment)
    parsed = datetime.fromisoformat(moment)
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def _amounts(stated: dict[str, Any], what: str) -> dict[str, str] | None:
    cpu, memory = stated.get(f"cpu_{what}_cores"), stated.get(f"mem_{what}_mb")
    amounts = {} if cpu is None else {"cpu": str(cpu)}
    return (amounts if memory is None else amounts | {"memory": f"{round(memory * _MB)}"}) or None


def _figure(stats: dict[str, Any], peak: str, largest: str, scale: float) -> int | None:
    """Return the peak, else the largest seen: an estimate's own largest is that of seven days."""
    value = stats.get(peak) or stats.get(largest)
    return None if value is None else round(value * scale)


def _estimate(case: dict[str, Any]) -> Estimate | NoEstimate:
    stats = case.get("stats")
    if stats is None:
        return NoEstimate.UNKNOWN_WORKLOAD
    week, kill = stats.get("mem_7d"), stats.get("oom")
    base_cpu, base_memory = stats.get("cpu_p75", stats.get("cpu_base")), stats.get("mem_p75", stats.get("mem_base"))
    return Estimate(
        source=EstimateSource.WORKLOAD,
        policy=PolicyName.CRUISE,
        cpu_request_millicores=_figure(stats, "cpu_peak", "cpu_max", 1000),
        memory_request_bytes=_figure(stats, "mem_peak", "mem_max", _MB),
        cpu_max_millicores=None,
        memory_max_bytes=round(week * _MB) if week else None,
        oom_memory_bytes=round(kill * _MB) if kill else None,
        cpu_base_millicores=None if base_cpu is None else round(base_cpu * 1000),
        memory_base_bytes=None if base_memory is None else round(base_memory * _MB),
        history_seconds=0.0 if case.get("new_workload") else _WEEK_SECONDS,
        pods=1,
        newest_age_seconds=0.0,
    )


def _kind(case: dict[str, Any]) -> str:
    kind = next((str(case[key]) for key in ("kind", "workload_kind", "owner_kind") if case.get(key)), "Deployment")
    return "DaemonSet" if kind.lower() == "daemonset" else kind


def _webhook(case: dict[str, Any]) -> dict[str, Any]:
    orders = {names.MODE: "off" if case.get("excluded") else str(case.get("mode") or Mode.ENFORCE)}
    kind = "DaemonSet" if case.get("daemonset") or case.get("is_daemonset") else _kind(case)
    requests = _amounts(case["container"], "request")
    limits = requests if case.get("qos") == "Guaranteed" else _amounts(case["container"], "limit")
    pod = make_pod(
        container("app", requests, limits),
        *([container("bare")] if case.get("qos") == "Burstable" else []),  # what makes it so whatever the other states
        metadata={
            "namespace": _NAMESPACE,
            "annotations": orders,
            "ownerReferences": [{"kind": kind, "name": "web", "uid": "owner", "controller": True}],
        },
    )
    hpa = [HpaMetric(type="Resource", resource=resource) for resource in case.get("hpa_frozen", ())]
    answer = admit(
        pod,
        facts=AdmissionFacts(namespace=Namespace(name=_NAMESPACE), frozen=frozen_axes("HorizontalPodAutoscaler", hpa)),
        estimates=lambda _container, _policy: _estimate(case),
        settings=AdmissionSettings(
            act=ActOptions(excluded_namespaces=_NAMESPACE if case.get("namespace_excluded") else "kube-system"),
            plan=PlanOptions(
                memory_applied=case.get("memory_applied", True),
                daemon_set_growth=DaemonSetGrowth(case.get("daemonset_growth", "never")),
            ),
            bounds=BoundsOptions(round_memory_bytes=1),
        ),
        now_unix_seconds=_NOW_UNIX_SECONDS,
    )
    moved = {(move.resource, move.setting): move.after for move in answer.moves}
    cpu, memory = moved.get((Resource.CPU, Setting.REQUEST)), moved.get((Resource.MEMORY, Setting.REQUEST))
    limit = moved.get((Resource.MEMORY, Setting.LIMIT))
    is_removed = moved.get((Resource.CPU, Setting.LIMIT), "kept") is None
    return {
        "cpu_request": None if cpu is None else cpu / 1000,
        "memory_request": None if memory is None else memory / _MB,
        "cpu_limit": "remove" if is_removed else "keep",
        "memory_limit": None if limit is None else limit / _MB,
    }


def _hpa_freeze(case: dict[str, Any]) -> dict[str, Any]:
    blank = HpaMetric(type="")
    metrics = [
        replace(
            blank,
            type=metric["type"],
            resource=metric.get("resource"),
            target_type=metric.get("target_type", UTILIZATION),
        )
        for metric in case["metrics"]
    ]
    frozen = frozen_axes("HorizontalPodAutoscaler", metrics)
    switches = [value for key, value in case.items() if key != "metrics" and isinstance(value, bool)]
    freezes_axes = all(switches)
    return {
        "frozen": sorted(resource.value for resource in frozen_resources(metrics)) if freezes_axes else [],
        "skip": is_whole_workload_left(frozen, freezes_axes=freezes_axes),
    }


def _hpa_target(case: dict[str, Any]) -> dict[str, Any]:
    moved = moved_target(case["target_percent"], old_request=case["old_request"], new_request=case["new_request"])
    if moved is None:
        return {"ok": False}
    return {"ok": True, "target_percent": moved.percent, "clamped": moved.is_clamped}


def _disruption_window(case: dict[str, Any]) -> dict[str, Any]:
    """Write a window from one time of the day to another as ours: a beginning, and how long it lasts.

    Equal ones are a window that never ends, whatever they are; one that cannot be read is never open.
    """
    start, end = case["start_cron"], case["end_cron"]
    try:
        if start == end and start.strip():
            windows = parse_windows(f"evict: UTC 0 0 * * * for {_DAY_MINUTES}m", SystemCalendar())
        else:
            minutes = (_minute_of_day(end) - _minute_of_day(start)) % _DAY_MINUTES or _DAY_MINUTES
            windows = parse_windows(f"evict: UTC {start} for {minutes}m", SystemCalendar())
    except ValueError:
        return {"inside": [False] * len(case["at"])}
    waits = [wait_of(windows, Disruption.EVICT, _unix_seconds(moment), 1.0) for moment in case["at"]]
    return {"inside": [wait is None for wait in waits]}


def _minute_of_day(cron: str) -> int:
    minute, hour, *_ = cron.split()
    return int(hour) * 60 + int(minute)


ADAPTERS = {
    "webhook": _webhook,
    "hpa_freeze": _hpa_freeze,
    "hpa_target": _hpa_target,
    "disruption_window": _disruption_window,
}
