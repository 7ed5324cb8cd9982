"""Recommendations made by hand for tests of what draws, writes and reads them."""

from __future__ import annotations

from typing import Any, Final

from agent.core.cluster.pod import ContainerKind, QosClass
from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.cluster.workload import Workload
from agent.core.recommender.recommendation import (
    Advice,
    Basis,
    Bound,
    Recommendation,
    Recommendations,
    RequestSeverity,
    Withheld,
)
from agent.core.recommender.severity import cpu_severity, memory_severity
from tests.snapshots import TAKEN_UNIX_SECONDS

MI: Final = 1 << 20
KEEP: Final = -1
"""An answer that is what is requested now."""


def advice(request: int | None, withheld: Withheld | None = None, **fields: Any) -> Advice:
    """An answer, or why there is none; base and peak below it, so that there is something to tell."""
    known: dict[str, Any] = {
        "request": request,
        "limit": None,
        "withheld": withheld,
        "severity": RequestSeverity.UNKNOWN,
        "base": None if request is None else request * 0.5,
        "peak": None if request is None else request * 1.0,
        "proposed": None if request is None else request * 1.0,
    }
    return Advice(**{**known, **fields})


def recommendation(
    pod: str = "web-7d9c5b8f4-x2x9k",
    name: str = "app",
    *,
    namespace: str | None = "shop",
    workload: tuple[str, str] | None = ("Deployment", "web"),
    cpu: int | Withheld = 250,
    memory: int | Withheld = 128 * MI,
    resources: UnitResources | None = None,
    cpu_fields: dict[str, Any] | None = None,
    memory_fields: dict[str, Any] | None = None,
    basis: dict[str, Any] | None = None,
    **fields: Any,
) -> Recommendation:
    """A container that requests 500m and 256Mi; an amount, or why there is none, for each resource."""
    stated = resources or UnitResources(cpu_request_millicores=500, memory_request_bytes=256 * MI)
    cpu = stated.cpu_request_millicores or 0 if cpu == KEEP else cpu
    memory = stated.memory_request_bytes or 0 if memory == KEEP else memory
    known: dict[str, Any] = {
        "identity": UnitIdentity(
            cgroup_path=f"/kubepods/burstable/poduid-{namespace}-{pod}/{name}",
            kind=UnitKind.CONTAINER,
            qos=QosClass.BURSTABLE,
            pod_uid=f"uid-{namespace}-{pod}",
            container_id=f"{name}-" + "0123456789abcdef" * 3,
            namespace=namespace,
            pod=pod,
            container=name,
        ),
        "workload": None
        if workload is None
        else Workload(namespace=namespace or "", kind=workload[0], name=workload[1]),
        "policy": "cruise",
        "resources": stated,
        "cpu_millicores": advice(None, cpu)
        if isinstance(cpu, Withheld)
        else advice(cpu, severity=cpu_severity(stated.cpu_request_millicores, cpu), **(cpu_fields or {})),
        "memory_bytes": advice(None, memory)
        if isinstance(memory, Withheld)
        else advice(memory, severity=memory_severity(stated.memory_request_bytes, memory), **(memory_fields or {})),
        "basis": Basis(
            **{
                "cpu_readings": 601,
                "cpu_span_seconds": 600.0,
                "memory_readings": 180,
                "memory_span_seconds": 1790.0,
                "sample_age_seconds": 0.4,
                "history_minutes": 2880,
                "history_span_seconds": 2 * 86400.0,
                "oom_kills": 0,
                **(basis or {}),
            }
        ),
        "container_kind": ContainerKind.REGULAR,
    }
    return Recommendation(**{**known, **fields})


def young(pod: str = "young-5", seconds: float = 45.0, **fields: Any) -> Recommendation:
    """A container measured for less than ten minutes."""
    basis = {
        "cpu_readings": int(seconds),
        "cpu_span_seconds": seconds,
        "memory_readings": int(seconds / 10),
        "memory_span_seconds": seconds,
        "history_minutes": 0,
        "history_span_seconds": 0.0,
    }
    return recommendation(pod, cpu=Withheld.TOO_YOUNG, memory=Withheld.TOO_YOUNG, basis=basis, **fields)


def service(path: str = "/system.slice/ssh.service", **fields: Any) -> Recommendation:
    """A service outside of pods, without a memory controller."""
    identity = UnitIdentity(cgroup_path=path, kind=UnitKind.SERVICE)
    known: dict[str, Any] = {"workload": None, "cpu": 12, "memory": Withheld.NO_SIGNAL, "resources": UnitResources()}
    return recommendation(identity=identity, namespace=None, container_kind=None, **{**known, **fields})


def node(*items: Recommendation, **fields: Any) -> Recommendations:
    """The recommendations of one node."""
    known: dict[str, Any] = {
        "taken_unix_seconds": TAKEN_UNIX_SECONDS,
        "source": "agent",
        "node": "worker-7",
        "policy": "cruise",
        "min_span_seconds": 600.0,
        "max_age_seconds": 60.0,
        "items": items,
    }
    return Recommendations(**{**known, **fields})


def mixed_node() -> Recommendations:
    """One of each severity, reason and bound; three namespaces, a workload of two pods, a service, a kill."""
    limited = UnitResources(
        cpu_request_millicores=200,
        cpu_limit_millicores=500,
        memory_request_bytes=128 * MI,
        memory_limit_bytes=256 * MI,
    )
    return node(
        recommendation(cpu=KEEP, memory=KEEP, cpu_fields={"bounds": (Bound.SMALL_CHANGE,)}),
        recommendation(name="istio-proxy", cpu=40, memory=64 * MI, memory_fields={"bounds": (Bound.IN_USE,)}),
        recommendation(
            "web-7d9c5b8f4-zzzzz", cpu=650, memory=KEEP, cpu_fields={"bounds": (Bound.ROUNDED,), "base": 320.4}
        ),
        recommendation(
            "cache-0",
            "redis",
            workload=("StatefulSet", "cache"),
            cpu=KEEP,
            memory=300 * MI,
            memory_fields={"limit": 600 * MI, "bounds": (Bound.LIMIT_RAISED,)},
            resources=limited,
            basis={"oom_kills": 2},
        ),
        young(namespace="jobs", workload=("Job", "young")),
        recommendation(
            "resize-28871235-zz8lp",
            "worker",
            namespace="jobs",
            workload=("CronJob", "resize"),
            cpu=Withheld.STALE,
            memory=Withheld.GAPS,
            basis={"sample_age_seconds": 300.0},
        ),
        recommendation("bare", namespace="jobs", workload=("Pod", "bare"), resources=UnitResources(), cpu=30),
        service(),
        notes=("no memory controller on /system.slice: memory of services is not known",),
    )
