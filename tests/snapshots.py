"""Snapshots made by hand for tests of what draws, writes and reads them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agent.core.cluster.pod import QosClass
from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.window.snapshot import (
    CpuWindow,
    MemoryWindow,
    Missing,
    NodeStatus,
    PodStatus,
    SamplerStatus,
    Snapshot,
    UnitAdvice,
    UnitStatus,
)

MIB = 1024 * 1024
TAKEN_UNIX_SECONDS = 1_795_255_200.0  # 2026-11-21T10:00:00Z


def cpu_window(now: float | None = 250.0, **changes: Any) -> CpuWindow:
    """A full CPU window around one figure; None = no signal at all."""
    reason = {} if now is not None else dict.fromkeys(("last_usage_millicores",), Missing.TOO_FEW_SAMPLES)
    window = CpuWindow(
        readings=601,
        gaps={},
        span_seconds=600.0,
        coverage_ratio=1.0,
        last_usage_millicores=now,
        usage_p75_millicores=None if now is None else now * 1.2,
        usage_peak_millicores=None if now is None else now * 2,
        burst_millicores=None if now is None else now * 3,
        adjusted_p75_millicores=None if now is None else now * 1.3,
        adjusted_peak_millicores=None if now is None else now * 2.2,
        last_waiting_ratio=0.031,
        waiting_ratio=0.02,
        last_throttled_ratio=0.0,
        throttled_ratio=0.001,
        throttled_periods_ratio=0.0,
        missing=reason,
    )
    return replace(window, **changes)


def memory_window(working_set: int | None = 100 * MIB, **changes: Any) -> MemoryWindow:
    """A full memory window around one figure."""
    window = MemoryWindow(
        readings=180,
        span_seconds=1790.0,
        current_bytes=None if working_set is None else working_set + 20 * MIB,
        working_set_bytes=working_set,
        working_set_p75_bytes=working_set,
        working_set_peak_bytes=None if working_set is None else working_set * 2,
        lifetime_peak_bytes=None if working_set is None else working_set * 3,
        pressure_some_ratio=0.0,
        oom_kills=0,
        anon_bytes=None if working_set is None else working_set // 2,
        pressure_full_ratio=0.0,
        high_events=0,
        io_pressure_some_ratio=0.0,
        missing={} if working_set is not None else {"working_set_bytes": Missing.NO_SIGNAL},
    )
    return replace(window, **changes)


def container(
    pod: str = "web-1",
    name: str = "app",
    *,
    namespace: str = "default",
    cpu: CpuWindow | None = None,
    memory: MemoryWindow | None = None,
    resources: UnitResources | None = None,
    **changes: Any,
) -> UnitStatus:
    """A container of a named pod; its uid is made of the names."""
    uid = f"uid-{namespace}-{pod}"
    unit = UnitStatus(
        identity=UnitIdentity(
            cgroup_path=f"/kubepods/burstable/pod{uid}/{name}",
            kind=UnitKind.CONTAINER,
            qos=QosClass.BURSTABLE,
            pod_uid=uid,
            container_id=f"{name}-" + "0123456789abcdef" * 3,
            runtime="containerd",
            namespace=namespace,
            pod=pod,
            container=name,
        ),
        resources=resources or UnitResources(cpu_request_millicores=500, memory_request_bytes=256 * MIB),
        cpu=cpu or cpu_window(),
        memory=memory or memory_window(),
        sample_age_seconds=0.4,
    )
    return replace(unit, **changes)


def advised(
    unit: UnitStatus, cpu: int | str = 250, memory: int | str = 128 * MIB, *, measured_seconds: float = 3600.0
) -> UnitStatus:
    """The same unit with what it should request: an amount, or the reason why there is none."""
    return replace(
        unit,
        advice=UnitAdvice(
            policy="cruise",
            cpu_request_millicores=cpu if isinstance(cpu, int) else None,
            cpu_withheld=cpu if isinstance(cpu, str) else None,
            cpu_bounds=("rounded", "qos") if isinstance(cpu, int) else (),
            memory_request_bytes=memory if isinstance(memory, int) else None,
            memory_withheld=memory if isinstance(memory, str) else None,
            memory_bounds=(),
            measured_seconds=measured_seconds,
            min_span_seconds=600.0,
        ),
    )


def service(path: str = "/system.slice/ssh.service", **changes: Any) -> UnitStatus:
    """A service outside of pods, without a memory controller."""
    unit = UnitStatus(
        identity=UnitIdentity(cgroup_path=path, kind=UnitKind.SERVICE),
        resources=UnitResources(),
        cpu=cpu_window(12.0),
        memory=memory_window(None),
        sample_age_seconds=0.4,
    )
    return replace(unit, **changes)


def whole(pod: str = "web-1", *, itself: float | None = 25.0, **changes: Any) -> PodStatus:
    """What was measured of the pod of ``container(pod)`` as a whole, read ten seconds ago."""
    path = f"/kubepods/burstable/poduid-default-{pod}"
    identity = UnitIdentity(
        cgroup_path=path, kind=UnitKind.POD, qos=QosClass.BURSTABLE, pod_uid=f"uid-default-{pod}", pod=pod
    )
    unit = container(pod, identity=identity, resources=UnitResources(), sample_age_seconds=10.0)
    working_set = None if itself is None else 7 * MIB
    return PodStatus(whole=replace(unit, **changes), itself_cpu_millicores=itself, itself_working_set_bytes=working_set)


def tier(path: str = "/kubepods/burstable", **changes: Any) -> UnitStatus:
    """A QoS tier, read ten seconds ago."""
    identity = UnitIdentity(cgroup_path=path, kind=UnitKind.TIER, qos=QosClass.BURSTABLE)
    return replace(container(identity=identity, resources=UnitResources(), sample_age_seconds=10.0), **changes)


def snapshot(*units: UnitStatus, **changes: Any) -> Snapshot:
    """A node of 4 CPUs and 8 GiB with these units."""
    built = Snapshot(
        taken_unix_seconds=TAKEN_UNIX_SECONDS,
        at_age_seconds=0.0,
        source="agent",
        node=NodeStatus(
            name="worker-7",
            cpus=4,
            cpu_usage_millicores=1640.0,
            memory_total_bytes=8192 * MIB,
            memory_available_bytes=4915 * MIB,
            load_1m=1.87,
            cpu_waiting_ratio=0.062,
            memory_waiting_ratio=0.0,
            uptime_seconds=3 * 86400 + 4 * 3600.0,
        ),
        sampler=SamplerStatus(
            name="native",
            rate_hz=1.0,
            lateness_p99_seconds=0.0004,
            sweep_seconds=0.0003,
            sweeps=4711,
            overruns=0,
            units=len(units),
        ),
        units=units,
    )
    return replace(built, **changes)


def busy_node() -> Snapshot:
    """Pods of several kinds, services, alarms of all sorts, and a note: one of each thing that can be drawn."""
    limit = UnitResources(
        cpu_request_millicores=200,
        cpu_limit_millicores=500,
        memory_request_bytes=128 * MIB,
        memory_limit_bytes=256 * MIB,
    )
    units = [
        container("web-7d9c5b8f4-x2x9k", "app", cpu=cpu_window(812.0, last_waiting_ratio=0.34), resources=limit),
        container("web-7d9c5b8f4-x2x9k", "istio-proxy", cpu=cpu_window(45.0)),
        container(
            "batch-resize-28871235-zz8lp",
            "worker",
            namespace="jobs",
            cpu=cpu_window(498.0, last_throttled_ratio=0.61, throttled_ratio=0.44),
            resources=limit,
        ),
        container("cache-0", "redis", namespace="data", memory=memory_window(245 * MIB, oom_kills=2), resources=limit),
        container("postgres-0", "postgres", namespace="data", cpu=cpu_window(3300.0), memory=memory_window(3000 * MIB)),
        container(
            "young-5",
            "app",
            cpu=cpu_window(
                None,
                missing={
                    "last_usage_millicores": Missing.TOO_FEW_SAMPLES,
                    "usage_p75_millicores": Missing.TOO_FEW_SAMPLES,
                },
            ),
        ),
        service(),
        service("/system.slice/containerd.service"),
        service("/user.slice/user-1000.slice/session-4.scope"),
    ]
    units += [container(f"api-{index:02d}", "server", cpu=cpu_window(30.0 + index)) for index in range(20)]
    return snapshot(*units, notes=("no memory controller on /system.slice: memory of services is not known",))
