"""Adapters from cases of cruisekube.json to the real functions. They translate names and units and hold no rule.

Cores and the MB of one million bytes exist here only. A sample without a value (null, or not a number) is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from agent.core.cluster.workload import workload_of
from agent.core.history.minute.minutes import OutOfMemory
from agent.core.numbers.arrays import Floats
from agent.core.numbers.percentile import percentile
from agent.core.orders.policy_options import CruiseOptions
from agent.core.recommender.cruise.oom_memory import OomMemory
from agent.core.recommender.cruise.peak import merge_series, predict_peak
from agent.core.window.policy import WindowPolicy
from agent.core.window.pressure import adjusted_demand
from agent.core.window.ring_rows import Has
from agent.core.window.steps import MILLICORES_PER_USEC_PER_NS, cpu_steps
from agent.kube.objects.pod_json import pod_from_json
from tests.conformance import cruisekube_act, cruisekube_admission, cruisekube_overload, cruisekube_plan
from tests.window_rows import ALL, Rows, sample

LATER: frozenset[str] = frozenset()
"""Nothing is left to build."""

_MILLICORES = 1000.0
_MB = 1e6
_NO_LIMITS = WindowPolicy(capacity_millicores=10**12, max_step_seconds=1e9)
"""The cases' readings lie as far apart as they like, on a node as large as they need."""


def _unix_seconds(moment: float | str) -> float:
    if not isinstance(moment, str):
        return float(moment)
    parsed = datetime.fromisoformat(moment)
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def _known(samples: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
    return [point for point in samples if point[1] is not None and math.isfinite(point[1])]


def _series(samples: Iterable[Sequence[Any]]) -> tuple[Floats, Floats]:
    known = _known(samples)
    moments = np.array([_unix_seconds(point[0]) for point in known], dtype=np.float64)
    return moments, np.array([point[1] for point in known], dtype=np.float64)


def _window_base(case: dict[str, Any]) -> dict[str, Any]:
    samples = _known(case["samples"])
    moments, values = _series(samples)
    if case.get("psi"):
        waiting = [point[2] if len(point) > 2 else None for point in samples]
        values = np.array(
            [adjusted_demand(float(value), wait or 0.0) for value, wait in zip(values, waiting, strict=True)]
        )
    end = _unix_seconds(case["now"])
    values = values[(moments > end - case["window_s"]) & (moments <= end)]
    base = percentile(values, case.get("quantile", 0.75)) if values.size else None
    return {"base": base, "count": values.size}


def _psi_adjust(case: dict[str, Any]) -> dict[str, Any]:
    readings: list[Rows] = []
    waiting = case.get("waiting_us") or [None] * len(case["ts_us"])
    for at_us, usage_us, waiting_us in zip(case["ts_us"], case["usage_us"], waiting, strict=True):
        has = ALL if waiting_us is not None else ALL & ~Has.PRESSURE
        reading = sample(0.0, usage_us, some=waiting_us or 0, has=has)
        reading["monotonic_ns"] = at_us * 1000  # as whole numbers: a float of seconds would lose nanoseconds
        readings.append(reading)
    steps = cpu_steps((np.concatenate(readings),), _NO_LIMITS, until_ns=2**62)
    if not steps.good[0]:
        return {"usage_cores": None, "waiting_rate": None, "adjusted_cores": None}
    usage_millicores = float(steps.usage_millicores[0])
    waiting_ns = int(steps.waiting_ns[0])
    rate = int(steps.waiting_usec[0]) * MILLICORES_PER_USEC_PER_NS / _MILLICORES / waiting_ns if waiting_ns else None
    return {
        "usage_cores": usage_millicores / _MILLICORES,
        "waiting_rate": rate,
        "adjusted_cores": adjusted_demand(usage_millicores, rate or 0.0) / _MILLICORES,
    }


def _predict_peak(case: dict[str, Any]) -> dict[str, Any]:
    moments, values = _series(case["samples"])
    predicted = predict_peak(
        moments,
        values,
        CruiseOptions(neighbour_hours=case.get("neighbour_hours", 1)),
        now_unix_seconds=_unix_seconds(case["now"]),
    )
    return {"same_hour": predicted.same_hour, "last_hour": predicted.last, "peak": predicted.peak}


def _merge_series(case: dict[str, Any]) -> dict[str, Any]:
    spelt = {_unix_seconds(moment): moment for series in case["series"] for moment, _ in series}
    moments, values = merge_series([_series(series) for series in case["series"]])
    return {"merged": [[spelt[moment], value] for moment, value in zip(moments.tolist(), values.tolist(), strict=True)]}


def _oom_memory(case: dict[str, Any]) -> dict[str, Any]:
    memory = OomMemory(1, retention_seconds=CruiseOptions().oom_retention_seconds)
    for event in case["events"]:
        usage, limit = event.get("usage_bytes"), event.get("limit_bytes")
        memory.record(0, OutOfMemory(unix_seconds=_unix_seconds(event["ts"]), usage_bytes=usage, limit_bytes=limit))
    figure_bytes, has = memory.largest(np.zeros(1, dtype=np.intp), _unix_seconds(case["now"]))
    return {"oom_mb": float(figure_bytes[0]) / _MB if has[0] else None}


def _workload_of_pod(case: dict[str, Any]) -> dict[str, Any]:
    kind, template_hash = case.get("owner_kind"), case.get("pod_template_hash")
    owner = {"kind": kind, "name": case.get("owner_name"), "uid": "owner", "controller": True}
    metadata = {
        "name": case.get("pod_name") or case.get("name") or "case",
        "namespace": "case",
        "uid": "case",
        "labels": {"pod-template-hash": template_hash} if template_hash else {},
        "ownerReferences": [owner] if kind else [],
    }
    workload = workload_of(pod_from_json({"metadata": metadata, "spec": {"containers": []}}))
    return {"kind": workload.kind, "name": workload.name}


ADAPTERS = {
    "window_base": _window_base,
    "psi_adjust": _psi_adjust,
    "predict_peak": _predict_peak,
    "merge_series": _merge_series,
    "oom_memory": _oom_memory,
    "workload_of_pod": _workload_of_pod,
    **cruisekube_plan.ADAPTERS,
    **cruisekube_act.ADAPTERS,
    **cruisekube_admission.ADAPTERS,
    **cruisekube_overload.ADAPTERS,
}
