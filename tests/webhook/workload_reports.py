"""Reports made up for the tests of the index, the fold and the tail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import (
    CPU_BUCKETS,
    MEMORY_BUCKETS,
    Distribution,
    NodeClass,
    OutOfMemoryKill,
    Report,
    RollupRow,
)
from agent.core.numbers.bucket_scheme import ExponentialScheme

MIB = 1 << 20
HOUR = 3600
NOON = 1_800_000_000 // 86_400 * 86_400 + 12 * HOUR
"""A noon in UTC."""
SMALL = NodeClass(instance_type="m5.large", cpus=2)
LARGE = NodeClass(instance_type="m5.4xlarge", cpus=16)
WEB = Workload(namespace="shop", kind="Deployment", name="web")
DNS = Workload(namespace="kube-system", kind="DaemonSet", name="dns")


def distribution(samples: Sequence[float], scheme: ExponentialScheme) -> Distribution:
    values = np.asarray(samples, dtype=np.float64)
    return Distribution(
        count=values.size,
        sum=float(values.sum()),
        max=float(values.max()),
        buckets=dict(sorted(Counter(scheme.find(values).tolist()).items())),
    )


def row(
    workload: Workload = WEB,
    container: str = "app",
    *,
    cpu: Sequence[float] | float | None = 100.0,
    adjusted: Sequence[float] | float | None = None,
    memory: Sequence[float] | float | None = 64.0 * MIB,
    pod: str = "web-1",
    kills: Sequence[tuple[float, int | None]] = (),
    throttled: float | None = None,
    waiting: float | None = None,
) -> RollupRow:
    def made(samples: Sequence[float] | float | None, scheme: ExponentialScheme) -> Distribution | None:
        if samples is None:
            return None
        return distribution([samples] if isinstance(samples, int | float) else samples, scheme)

    return RollupRow(
        workload=workload,
        container=container,
        pod=pod,
        pod_uid=f"uid-{pod}",
        pod_age_seconds=900.0,
        covered_seconds=300.0,
        cpu=made(cpu, CPU_BUCKETS),
        cpu_adjusted=made(adjusted, CPU_BUCKETS),
        memory=made(memory, MEMORY_BUCKETS),
        throttled_seconds=throttled,
        waiting_seconds=waiting,
        oom_kills=tuple(OutOfMemoryKill(age_seconds=age, memory_bytes=figure) for age, figure in kills),
    )


def report(
    *rows: RollupRow, node: str = "node-a", node_class: NodeClass = SMALL, sequence: int = 1, age: float = 0.0
) -> Report:
    return Report(
        node=node,
        node_class=node_class,
        incarnation=f"incarnation-of-{node}",
        sequence=sequence,
        lost_reports=0,
        end_age_seconds=age,
        interval_seconds=300.0,
        rows=rows,
    )
