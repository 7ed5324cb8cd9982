"""Containers to recommend for, and a policy that answers what it is told to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from agent.core.cluster.pod import QosClass
from agent.core.cluster.runtime_profile import LanguageRuntime
from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.cluster.workload import Workload
from agent.core.history.minute.minutes import Minutes, OutOfMemory
from agent.core.numbers.arrays import Floats, Rows
from agent.core.recommender.policy import CurrentAmounts, LimitRule, Present, Proposals, Steps
from agent.core.recommender.subject import Subject
from agent.core.window.cpu import absent_cpu_window
from agent.core.window.memory import absent_memory_window
from agent.core.window.snapshot import CpuWindow, MemoryWindow, Missing

MI: Final = 1 << 20


def floats(*values: float) -> Floats:
    """Return an array."""
    return np.array(values, dtype=np.float64)


def bools(*values: bool) -> Any:
    """Return a mask."""
    return np.array(values, dtype=np.bool_)


def proposals(
    *,
    cpu: float | None = None,
    memory: float | None = None,
    memory_limit: float | None = None,
    memory_seen: float | None = None,
    rule: LimitRule = LimitRule.KEEP,
    upward_only: bool = False,
    extra: Mapping[str, float] | None = None,
) -> Proposals:
    """Return a policy's answer for one row; None = it cannot say. Base and peak are the request."""
    cpu_known, memory_known = floats(cpu or 0.0), floats(memory or 0.0)
    return Proposals(
        cpu_request_millicores=cpu_known,
        has_cpu=bools(cpu is not None),
        memory_request_bytes=memory_known,
        has_memory=bools(memory is not None),
        memory_limit_bytes=floats(memory_limit or 0.0),
        has_memory_limit=bools(memory_limit is not None),
        cpu_base_millicores=cpu_known,
        cpu_peak_millicores=cpu_known,
        memory_base_bytes=memory_known,
        memory_peak_bytes=memory_known,
        cpu_upward_only=bools(upward_only),
        memory_upward_only=bools(upward_only),
        limit_rule=rule,
        memory_seen_bytes=None if memory_seen is None else floats(memory_seen),
        extra={name: floats(value) for name, value in (extra or {}).items()},
    )


def stated(
    *,
    cpu: float | None = None,
    cpu_limit: float | None = None,
    memory: float | None = None,
    memory_limit: float | None = None,
    working_set: float | None = None,
    current: float | None = None,
    is_guaranteed: bool = False,
    keeps_limit: bool = False,
    heap_floor: float | None = None,
    limit_reader: LanguageRuntime | None = None,
) -> CurrentAmounts:
    """Return what one row states and uses; None = not stated, not known."""
    return CurrentAmounts(
        cpu_request_millicores=floats(cpu or 0.0),
        has_cpu_request=bools(cpu is not None),
        cpu_limit_millicores=floats(cpu_limit or 0.0),
        has_cpu_limit=bools(cpu_limit is not None),
        memory_request_bytes=floats(memory or 0.0),
        has_memory_request=bools(memory is not None),
        memory_limit_bytes=floats(memory_limit or 0.0),
        has_memory_limit=bools(memory_limit is not None),
        working_set_bytes=floats(working_set or 0.0),
        has_working_set=bools(working_set is not None),
        memory_current_bytes=floats(current or 0.0),
        has_memory_current=bools(current is not None),
        is_guaranteed=bools(is_guaranteed),
        keeps_memory_limit=bools(keeps_limit),
        heap_floor_bytes=None if heap_floor is None else floats(heap_floor),
        limit_readers=None if limit_reader is None else [limit_reader],
    )


def cpu_window(p75: float | None = 200.0, *, adjusted: float | None = None, **fields: Any) -> CpuWindow:
    """Return ten minutes of CPU at one reading a second; without PSI unless ``adjusted`` says so."""
    window = replace(
        absent_cpu_window(Missing.NO_SIGNAL),
        readings=600,
        span_seconds=600.0,
        coverage_ratio=1.0,
        usage_p75_millicores=p75,
        adjusted_p75_millicores=adjusted,
    )
    known = {"usage_p75_millicores": p75, "adjusted_p75_millicores": adjusted}
    missing = {name: reason for name, reason in window.missing.items() if known.get(name) is None}
    return replace(window, **{"missing": missing, **fields})


def memory_window(p75: int | None = 100 * MI, *, working_set: int | None = None, **fields: Any) -> MemoryWindow:
    """Return half an hour of memory; the newest working set is the percentile unless told."""
    newest = p75 if working_set is None else working_set
    window = replace(
        absent_memory_window(Missing.NO_SIGNAL),
        readings=180,
        span_seconds=1800.0,
        current_bytes=newest,
        working_set_bytes=newest,
        working_set_p75_bytes=p75,
        missing={} if p75 is not None else {"working_set_p75_bytes": Missing.NO_SIGNAL},
    )
    return replace(window, **fields)


def identity(
    container: str | None = "app", *, pod: str | None = "web", namespace: str | None = "shop", **fields: Any
) -> UnitIdentity:
    """Return a named container of a Burstable pod."""
    known = {
        "cgroup_path": f"/kubepods/{pod}/{container}",
        "kind": UnitKind.CONTAINER,
        "qos": QosClass.BURSTABLE,
        "pod_uid": f"uid-{pod}",
        "namespace": namespace,
        "pod": pod,
        "container": container,
    }
    return UnitIdentity(**{**known, **fields})


def subject(row: int = 0, **fields: Any) -> Subject:
    """Return a container with an hour of history, read a second ago: 500m and 256Mi requested, 200m and 100Mi used."""
    known = {
        "row": row,
        "identity": identity(),
        "workload": Workload(namespace="shop", kind="Deployment", name="web"),
        "resources": UnitResources(cpu_request_millicores=500, memory_request_bytes=256 * MI),
        "cpu": cpu_window(),
        "memory": memory_window(),
        "sample_age_seconds": 1.0,
        "history_minutes": 60,
        "history_span_seconds": 3600.0,
        "oom_kills": 0,
    }
    return Subject(**{**known, **fields})


class TimesPolicy:
    """Answers a multiple of what is present, row by row; knows what it is given and learns nothing."""

    name: Final = "times"

    def __init__(self, factor: float = 2.0, *, rule: LimitRule = LimitRule.KEEP, **fields: Any) -> None:
        self._factor = factor
        self._rule = rule
        self._fields = fields
        self.asked: list[int] = []

    @property
    def rows(self) -> int:
        return 1_000_000

    def grow(self, rows: int) -> None: ...

    def forget(self, rows: Rows) -> None: ...

    def fold(self, minutes: Minutes) -> None: ...

    def record_oom(self, row: int, kill: OutOfMemory) -> None: ...

    def record_image(self, row: int, since_unix_seconds: float) -> None: ...

    def recommend(
        self, rows: Rows, present: Present, *, now_unix_seconds: float, steps: Steps | None = None
    ) -> Proposals:
        self.asked += rows.tolist()
        cpu, memory = present.cpu_base_millicores * self._factor, present.memory_base_bytes * self._factor
        if steps is not None:
            steps.say("cpu", "times", float(cpu[0]), "millicores")
        known: dict[str, Any] = {
            "cpu_request_millicores": cpu,
            "has_cpu": present.has_cpu,
            "memory_request_bytes": memory,
            "has_memory": present.has_memory,
            "memory_limit_bytes": np.zeros_like(memory),
            "has_memory_limit": np.zeros_like(present.has_memory),
            "cpu_base_millicores": present.cpu_base_millicores,
            "cpu_peak_millicores": cpu,
            "memory_base_bytes": present.memory_base_bytes,
            "memory_peak_bytes": memory,
            "cpu_upward_only": np.zeros_like(present.has_cpu),
            "memory_upward_only": np.zeros_like(present.has_cpu),
            "limit_rule": self._rule,
        }
        return Proposals(**{**known, **self._fields})
