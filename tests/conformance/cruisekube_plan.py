"""Adapters of cruisekube.json for planning. They translate names and units and hold no rule.

A case's cores and MB become whole billionths, which stand for millicores and bytes of a real plan: what ``plan.build``
does with a node of pods is what is compared, exact to the ninth place.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.core.cluster.node import Node, NodeState
from agent.core.cluster.pod import CPU, MEMORY, Container, ContainerKind, Pod, Requirements
from agent.core.cluster.versions import Gates
from agent.core.cluster.workload import Workload
from agent.core.numbers.units import NANOS_PER_MILLI, NANOS_PER_UNIT
from agent.core.orders.order import Mode, Orders, OrderSource, Ranking
from agent.core.orders.plan_options import DaemonSetGrowth, FitRule, PlanOptions
from agent.core.orders.policy_options import BoundsOptions, PolicyName
from agent.core.plan.needs.demand import ContainerDemand, Demand, PodDemand, ReservedReason
from agent.core.plan.node_room import counted
from agent.core.plan.plan import Plan
from agent.core.plan.planner import build
from agent.core.plan.sizing.container_sizing import Edges, Lowering, limit_wish, pair, why_not_lowered

_PARTS = 10**9
"""Of a core, and of an MB of one million bytes."""
_ABOVE = 2
"""Parts that every amount of a managed container stands above what the case says, and the room with them: a request of
nothing is not one to Kubernetes, to a case it is an amount like others."""
_NO_REQUEST = 1
"""Of a container whose case states none: one that every successor would exceed."""
_MB = 10**6
_GATES = Gates(resize=True, memory_limit_down=True, pod_level_resize=True, init_containers=True)
_EXACT = BoundsOptions(
    min_cpu_millicores=1,
    min_memory_bytes=0,
    round_cpu_millicores=1,
    round_memory_bytes=1,
    smallest_cpu_change_millicores=0,
    smallest_memory_change_bytes=0,
    smallest_change_ratio=0.0,
)


def _parts(amount: object) -> int | None:
    """Return whole billionths; what is no number is missing."""
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not math.isfinite(amount):
        return None
    return round(amount * _PARTS)


def nearest(amount: float, edges: Edges) -> int:
    """Round a case's amount to the nearest multiple of the unit, at least the least; half of one rounds up."""
    return max(int((amount + edges.unit / 2) // edges.unit) * edges.unit, edges.least)


def _first(case: Mapping[str, Any], *names: str) -> Any:
    return next((case[name] for name in names if case.get(name) is not None), None)


@dataclass(frozen=True, kw_only=True)
class _Amounts:
    """One resource of one container of a case."""

    base: int | None
    peak: int | None
    request: int | None

    @property
    def is_broken(self) -> bool:
        return self.base is None

    def stated(self, *, is_daemon: bool, is_reserved: bool) -> int:
        """Return the request of its container."""
        if is_reserved:
            return self.request or 0
        if is_daemon:
            return _ABOVE + (self.request or self.base or 0)
        # A request has no part in what is expected of a container without a prediction: it is only counted.
        return _ABOVE + self.request if self.request and self.peak is not None else _NO_REQUEST

    def demand(self, *, is_daemon: bool) -> Demand:
        base = _ABOVE + (self.base or 0)
        if self.peak is None:
            return Demand(base=base, peak=base, is_upward_only=not is_daemon)
        return Demand(base=base, peak=max(base, _ABOVE + self.peak))


def _amounts(container: Mapping[str, Any], resource: str) -> _Amounts:
    base = _parts(container.get(f"{resource}_base"))
    oom = _parts(container.get(f"{resource}_oom"))
    if base is not None and oom is not None:
        base = max(base, oom)
    return _Amounts(
        base=base,
        peak=_parts(container.get(f"{resource}_peak")),
        request=_parts(container.get(f"{resource}_request")),
    )


def _requirements(cpu: int, memory: int) -> Requirements:
    return Requirements(requests={CPU: cpu * NANOS_PER_MILLI, MEMORY: memory * NANOS_PER_UNIT})


def _floor(pod: Mapping[str, Any]) -> tuple[int, int]:
    floor = pod.get("init_floor")
    said: Mapping[str, Any] = floor if isinstance(floor, Mapping) else {}
    cpu = _first(said, "cpu_cores", "cpu") or _first(pod, "init_floor_cpu_cores", "init_floor_cpu", "init_cpu")
    memory = _first(said, "memory_mb", "mem_mb", "memory", "mem") or _first(
        pod, "init_floor_memory_mb", "init_floor_mem_mb", "init_floor_memory", "init_floor_mem", "init_mem"
    )
    return _parts(cpu) or 0, _parts(memory) or 0


def _kind(container: Mapping[str, Any]) -> ContainerKind:
    said = str(container.get("type") or "")
    if "sidecar" in said:
        return ContainerKind.SIDECAR
    return ContainerKind.INIT if said == "init" else ContainerKind.REGULAR


def _ranking(pod: Mapping[str, Any]) -> Ranking:
    said = pod.get("ranking")
    if said:
        return Ranking(said)
    return Ranking.MEDIUM if pod.get("kind") == "StatefulSet" or pod.get("replicas") == 1 else Ranking.LOW


def _reserved(pod: Mapping[str, Any]) -> ReservedReason | None:
    sized = [container for container in pod["containers"] if _kind(container) is not ContainerKind.INIT]
    if pod.get("excluded"):
        return ReservedReason.EXCLUDED
    if any(_parts(container.get(base)) is None for container in sized for base in ("cpu_base", "mem_base")):
        return ReservedReason.NO_DATA
    if pod.get("phase", "Running") != "Running":
        return ReservedReason.NOT_RUNNING
    return ReservedReason.UNKNOWN_OWNER if pod.get("optimizable") is False else None


def _pod_demand(case: Mapping[str, Any]) -> PodDemand:
    name, kind = case["name"], case.get("kind") or "Deployment"
    is_daemon, reserved = kind == "DaemonSet", _reserved(case)
    sized = [container for container in case["containers"] if _kind(container) is not ContainerKind.INIT]
    above = _ABOVE * len(sized) if reserved is None else 0
    inits: list[Container] = []
    sidecars: list[Container] = []
    regular: list[Container] = []
    demands: list[ContainerDemand] = []
    for container in case["containers"]:
        cpu, memory = _amounts(container, "cpu"), _amounts(container, "mem")
        container_kind = _kind(container)
        if container_kind is ContainerKind.INIT:
            resources = _requirements(above + (cpu.request or 0), above + (memory.request or 0))
            inits.append(Container(name=container["name"], kind=container_kind, resources=resources))
            continue
        cpu_demand, memory_demand = cpu.demand(is_daemon=is_daemon), memory.demand(is_daemon=is_daemon)
        demands.append(
            ContainerDemand(name=container["name"], kind=container_kind, cpu=cpu_demand, memory=memory_demand)
        )
        resources = _requirements(
            cpu.stated(is_daemon=is_daemon, is_reserved=reserved is not None),
            memory.stated(is_daemon=is_daemon, is_reserved=reserved is not None),
        )
        place = sidecars if container_kind is ContainerKind.SIDECAR else regular
        place.append(Container(name=container["name"], kind=container_kind, resources=resources))
    if any(_floor(case)):
        cpu_floor, memory_floor = _floor(case)
        resources = _requirements(above + cpu_floor, above + memory_floor)
        inits.append(Container(name="floor", kind=ContainerKind.INIT, resources=resources))
    orders = Orders(
        mode=Mode.ENFORCE,
        mode_source=OrderSource.CONFIGURATION,
        policy=PolicyName.CRUISE,
        policy_source=OrderSource.CONFIGURATION,
        ranking=_ranking(case),
        ranking_source=OrderSource.CONFIGURATION,
    )
    # Init containers first: beside them only their own request counts, as the cases have it.
    pod = Pod(uid=name, namespace="case", name=name, init_containers=(*inits, *sidecars), containers=tuple(regular))
    workload = Workload(namespace="case", kind=kind, name=name)
    return PodDemand(pod=pod, workload=workload, orders=orders, reserved=reserved, containers=tuple(demands))


def _node(case: Mapping[str, Any], demands: list[PodDemand]) -> Node:
    """Return the node: its total, or what is left for managed pods and what the others hold."""
    total = _first(case, "allocatable", "available")
    cpu, memory = _parts(total["cpu_cores"]) or 0, _parts(total["memory_mb"]) or 0
    if case.get("allocatable") is None:
        for demand in demands:
            if demand.reserved is not None:
                held = counted(demand.pod)
                cpu, memory = cpu + held[0], memory + held[1]
    above = _ABOVE * sum(len(demand.containers) for demand in demands if demand.reserved is None)
    cpu, memory = cpu + above, memory + above
    return Node(name="case", allocatable={CPU: cpu * NANOS_PER_MILLI, MEMORY: memory * NANOS_PER_UNIT})


def _optimize_node(case: dict[str, Any]) -> dict[str, Any]:
    demands = [_pod_demand(pod) for pod in case["pods"]]
    state = NodeState(node=_node(case, demands), pods=tuple(demand.pod for demand in demands))
    options = PlanOptions(
        fit_rule=FitRule(case.get("fit_rule") or FitRule.SHARED),
        daemon_set_growth=DaemonSetGrowth(case.get("daemonset_growth") or DaemonSetGrowth.NEVER),
        memory_applied=case.get("memory_applied", True),
    )
    plan = build(state, demands, constraints={}, gates=_GATES, options=options, bounds=_EXACT, taken_unix_seconds=0.0)
    assert plan.is_sound, plan.notes
    finals = {
        f"{pod.ref.name}/{container.name}": {
            "cpu_cores": (container.cpu.final - _ABOVE) / _PARTS,
            "memory_mb": (container.memory.final - _ABOVE) / _PARTS,
        }
        for pod in plan.pods
        if pod.reserved is None and not pod.is_evicted
        for container in pod.containers
        if container.cpu is not None and container.memory is not None
    }
    reserved = {pod.ref.name for pod in plan.pods if pod.reserved is not None}
    return {
        "evicted": [{"pod": eviction.ref.name, "resource": eviction.resource.value} for eviction in plan.evictions],
        "finals": finals,
        "infeasible": {"cpu": plan.cpu.is_infeasible, "memory": plan.memory.is_infeasible},
        "headroom": {"cpu_cores": plan.cpu.headroom / _PARTS, "memory_mb": plan.memory.headroom / _PARTS},
        "untouched": [pod["name"] for pod in case["pods"] if pod["name"] in reserved],
        "writes": _writes(plan, case),
    }


def _writes(plan: Plan, case: Mapping[str, Any]) -> bool:
    """Return whether the plan changes a request that the case states; what it does not state is not there to change.

    Without a prediction a request is only raised; the plan was not told it, and would raise it always.
    """
    stated: dict[tuple[str, str, str], _Amounts] = {}
    for pod in case["pods"]:
        for container in pod["containers"]:
            for resource, key in (("cpu", "cpu"), ("memory", "mem")):
                amounts = _amounts(container, key)
                if amounts.request is not None:
                    stated[pod["name"], container["name"], resource] = amounts
    for step in plan.steps:
        for amount in step.changes:
            known = stated.get((step.ref.name, amount.container, amount.resource.value))
            if known is None:
                continue
            if known.peak is not None or (amount.after or 0) - _ABOVE > (known.request or 0):
                return True
    return False


def _is_lowering_possible(case: Mapping[str, Any]) -> bool:
    """Read a version or a switch, whichever the case has; without either it is a version before 1.34."""
    switch = _first(case, "limit_decrease_allowed", "limit_decrease", "supports_limit_decrease", "can_lower_limit")
    if switch is not None:
        return bool(switch)
    version = _first(case, "k8s_version", "version", "server_version", "kubernetes", "k8s", "k8s_minor", "minor")
    if version is None:
        return False
    digits = re.findall(r"\d+", str(version))
    minor = int(digits[1] if len(digits) > 1 else digits[0]) if digits else 0
    return minor >= 34


def _runtime_memory(case: dict[str, Any]) -> dict[str, Any]:
    edges = Edges(least=16 * _MB, most=1 << 60, unit=_MB, smallest=0, ratio=0.0)
    request, limit = case.get("current_request_mb"), case.get("current_limit_mb")
    if request is None:
        return {"patch": False}
    after = nearest(case["final_mb"] * _MB, edges)
    largest = max(case.get("mem_7d_mb") or 0, _first(case, "oom_mb", "mem_oom_mb", "mem_oom") or 0)
    wish = nearest(2 * largest * _MB, edges) if largest else None
    request_bytes = round(request * _MB)
    in_use = _first(case, "usage_mb", "current_usage_mb", "in_use_mb", "memory_usage_mb", "working_set_mb")
    lowering = Lowering(is_possible=_is_lowering_possible(case), is_wanted=True, is_pressed=False, margin_ratio=1.0)
    in_use_bytes = None if in_use is None else math.ceil(in_use * _MB)
    limit_bytes = None if limit is None else round(limit * _MB)
    limit_after = limit_bytes
    if limit_bytes is not None and limit_bytes == request_bytes:
        after = limit_after = pair(after, wish)
        if after < limit_bytes and why_not_lowered(after, in_use_bytes, lowering) is not None:
            return {"patch": False}
    elif limit_bytes is not None:
        limit_after = limit_wish(limit_bytes, wish, after, differs=False)
        if limit_after < limit_bytes and why_not_lowered(limit_after, in_use_bytes, lowering) is not None:
            limit_after = max(limit_bytes, after)
    if after == request_bytes and limit_after == limit_bytes:
        return {"patch": False}
    return {"patch": True, "request_mb": after / _MB, "limit_mb": None if limit_after is None else limit_after / _MB}


def _runtime_cpu(case: dict[str, Any]) -> dict[str, Any]:
    edges = Edges(least=1, most=1 << 60, unit=1, smallest=0, ratio=0.0)
    request, limit = case.get("current_request_cores"), case.get("current_limit_cores")
    if request is None:
        return {"patch": False}
    before, after = round(request * 1000), nearest(case["final_cores"] * 1000, edges)
    limit_before = limit_after = None if limit is None else round(limit * 1000)
    if limit_before is not None:
        allocatable = round(case["node_allocatable_cores"] * 1000)
        limit_after = limit_wish(limit_before, max(allocatable, limit_before), after, differs=False)
    if after == before and limit_after == limit_before:
        return {"patch": False}
    limit_cores = None if limit_after is None else limit_after / 1000
    return {"patch": True, "request_milli": after, "limit_cores": limit_cores}


ADAPTERS = {
    "optimize_node": _optimize_node,
    "runtime_memory": _runtime_memory,
    "runtime_cpu": _runtime_cpu,
}
