"""What a webhook tells, for tests."""

from __future__ import annotations

from typing import Any, Final

from agent.core.cluster.workload import Workload
from agent.core.history.reports.directive import ContainerDirective, Directives, WorkloadDirective
from agent.core.plan.needs.directives import NodeDirectives, by_workload

WEB: Final = Workload(namespace="shop", kind="Deployment", name="web")


def directive(workload: Workload = WEB, **fields: Any) -> WorkloadDirective:
    """Return what holds for one workload."""
    return WorkloadDirective(workload=workload, **fields)


def peaks(container: str = "app", *, hours: dict[int, tuple[int, int]] | None = None, **fields: Any) -> Any:
    """Return what other nodes saw of a container: CPU in millicores and memory in bytes by hour."""
    known = hours or {}
    return ContainerDirective(
        container=container,
        cpu_hour_peaks_millicores=tuple(known[hour][0] if hour in known else None for hour in range(24)),
        memory_hour_peaks_bytes=tuple(known[hour][1] if hour in known else None for hour in range(24)),
        **fields,
    )


def directed(
    *workloads: WorkloadDirective, age: float = 0.0, told_seconds: float = 0.0, pause: str | None = None
) -> NodeDirectives:
    """Return what a node was told, so long ago."""
    directives = Directives(etag="e", pause_reason=pause, workloads=workloads)
    return NodeDirectives(
        directives=directives, age_seconds=age, told_seconds=told_seconds, by_workload=by_workload(directives)
    )
