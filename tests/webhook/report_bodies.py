"""A node's report as it comes over the wire, sound unless a test bends it."""

from __future__ import annotations

import gzip
import json
from typing import Any

Json = dict[str, Any]


def distribution(largest: float = 50.0, count: int = 300, buckets: tuple[int, ...] = (0, 1, 1, 299)) -> Json:
    return {"count": count, "sum": largest * count / 2, "max": largest, "buckets": list(buckets)}


def row_body(number: int = 0, **changes: Any) -> Json:
    row: Json = {
        "namespace": "shop",
        "kind": "Deployment",
        "workload": "web",
        "container": "app",
        "pod": f"web-{number}",
        "podUid": f"uid-{number}",
        "podAgeSeconds": 900.0,
        "coveredSeconds": 300.0,
        "cpu": distribution(),
        "cpuAdjusted": distribution(60.0),
        "memory": distribution(3e6),
        "throttledSeconds": 0.0,
        "waitingSeconds": 1.2,
        "oomKills": [[12.5, 1048576], [13, None]],
    }
    return {**row, **changes}


def report_body(*rows: Json, **changes: Any) -> Json:
    report: Json = {
        "schema": 1,
        "agent": "0.1.0",
        "node": "node-a",
        "nodeClass": {"instanceType": "m5.large", "cpus": 8},
        "incarnation": "5a0c6c1e-0000-4000-8000-000000000001",
        "sequence": 17,
        "lostReports": 0,
        "endAgeSeconds": 4.2,
        "intervalSeconds": 300.0,
        "rows": list(rows),
    }
    return {**report, **changes}


def packed(body: Json) -> bytes:
    return gzip.compress(json.dumps(body).encode())
