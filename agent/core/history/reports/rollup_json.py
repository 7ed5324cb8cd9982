"""A report as JSON for the wire: what stays the same is written once, what depends on the sending is put in then.

Core, pure. Compressing and sending is ``node.report``'s.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from agent.core.history.reports.rollup import (
    SCHEMA_VERSION,
    Distribution,
    NodeSums,
    OutOfMemoryKill,
    Report,
    RollupRow,
    ShareRow,
)

CPU_DIGITS: Final = 6
"""Of sums and maxima in millicores: a millionth of what was measured is nothing."""
SECOND_DECIMALS: Final = 3


def kept_text(report: Report, *, agent: str) -> str:
    """Return a report without ``endAgeSeconds`` and ``lostReports``: what can be kept until it is sent.

    Args:
        report: Its figures are finite, its distributions hold at least one sample.

    Raises:
        ValueError: A figure is NaN or infinite: a fault of the caller.
    """
    document: dict[str, object] = {
        "schema": SCHEMA_VERSION,
        "agent": agent,
        "node": report.node,
        "nodeClass": {"instanceType": report.node_class.instance_type, "cpus": report.node_class.cpus},
        "incarnation": report.incarnation,
        "sequence": report.sequence,
        "intervalSeconds": round(report.interval_seconds, SECOND_DECIMALS),
        "rows": [_row(row) for row in report.rows],
        **({"plan": None if report.plan is None else _sums(report.plan)} if report.tells_plan else {}),
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def sent_text(report_text: str, *, end_age_seconds: float, lost_reports: int) -> str:
    """Complete what was kept at the moment of sending."""
    now = {"endAgeSeconds": round(end_age_seconds, SECOND_DECIMALS), "lostReports": lost_reports}
    return f"{json.dumps(now, separators=(',', ':'), allow_nan=False)[:-1]},{report_text[1:]}"


def _sums(sums: NodeSums) -> dict[str, object]:
    return {
        name: {
            f"allocatable{unit}": resource_sums.allocatable,
            f"requested{unit}": resource_sums.requested,
            f"reserved{unit}": resource_sums.reserved,
            f"base{unit}": resource_sums.base,
            f"planned{unit}": resource_sums.planned,
            "infeasible": resource_sums.is_infeasible,
        }
        for name, unit, resource_sums in (("cpu", "Millicores", sums.cpu), ("memory", "Bytes", sums.memory))
    }


def _row(row: RollupRow) -> dict[str, object]:
    optional: dict[str, object] = {
        "podAgeSeconds": _rounded(row.pod_age_seconds),
        "cpu": _cpu(row.cpu),
        "cpuAdjusted": _cpu(row.cpu_adjusted),
        "memory": _memory(row.memory),
        "throttledSeconds": _rounded(row.throttled_seconds),
        "waitingSeconds": _rounded(row.waiting_seconds),
        "oomKills": [_kill(kill) for kill in row.oom_kills] or None,
        "share": None if row.share is None else _share(row.share),
        "setback": None if row.setback is None else [_rounded(row.setback.age_seconds), row.setback.reason],
        "cpuRequestMillicores": row.cpu_request_millicores,
        "memoryRequestBytes": row.memory_request_bytes,
        "quality": None if row.quality is None else [[_few_digits(figure) for figure in span] for span in row.quality],
    }
    return {
        "namespace": row.workload.namespace,
        "kind": row.workload.kind,
        "workload": row.workload.name,
        "container": row.container,
        "pod": row.pod,
        "podUid": row.pod_uid,
        "coveredSeconds": _rounded(row.covered_seconds),
        **{name: value for name, value in optional.items() if value is not None},
    }


def _share(share: ShareRow) -> dict[str, object]:
    return {
        "share": share.share,
        "enforced": share.is_enforced,
        "restarts": share.restarts,
        "unreadySeconds": _rounded(share.unready_seconds),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, SECOND_DECIMALS)


def _kill(kill: OutOfMemoryKill) -> list[object]:
    return [round(kill.age_seconds, SECOND_DECIMALS), kill.memory_bytes]


def _cpu(samples: Distribution | None) -> dict[str, object] | None:
    if samples is None:
        return None
    return _distribution(samples, _few_digits(samples.sum), _few_digits(samples.max))


def _memory(samples: Distribution | None) -> dict[str, object] | None:
    return None if samples is None else _distribution(samples, round(samples.sum), round(samples.max))


def _distribution(samples: Distribution, total: float, largest: float) -> dict[str, object]:
    return {"count": samples.count, "sum": total, "max": largest, "buckets": list(_pairs(samples))}


def _pairs(samples: Distribution) -> Iterator[int]:
    """Return index, count, index, count, ..., indices rising."""
    for bucket, count in sorted(samples.buckets.items()):
        yield bucket
        yield count


def _few_digits(amount: float) -> float:
    few = float(f"{amount:.{CPU_DIGITS}g}")
    return int(few) if few.is_integer() else few
