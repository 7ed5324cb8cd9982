"""Adapters from cases of kubelet_cgroups.json to the real functions. They translate names and hold no rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.core.cluster import effective_resources as effective
from agent.core.cluster import qos
from agent.core.cluster.pod import CPU, MEMORY, Container, Partition, Pod, QosClass
from agent.core.machine import cgroup_values, qos_cgroups
from agent.core.machine import cpu_knobs as cpu_values
from agent.core.numbers.units import to_millis, to_units
from agent.core.window import pressure
from agent.kube.objects.pod_json import pod_from_json
from agent.sensing import cgroup_path as layout
from agent.sensing import cgroup_text
from tests.kubepods import kubepods_root_path

TOLERANCES = {"psi_waiting_rate": 1e-9, "adjusted_demand": 1e-9}

_QOS = {qos_class.lower(): qos_class for qos_class in QosClass}
_ERROR = {"error": True}


def _pod(fragment: Mapping[str, Any]) -> Pod:
    """Read the fragment of a pod; cases leave out the identity that real pods always have."""
    return pod_from_json({**fragment, "metadata": {"name": "case", "uid": "case", **fragment.get("metadata", {})}})


def _container(pod: Pod, name: str) -> Container:
    container = pod.container(name)
    assert container is not None, f"no container {name!r} in the pod"
    return container


def _amounts(amounts: Mapping[str, int]) -> dict[str, int]:
    names = {CPU: "cpu_milli", MEMORY: "memory_bytes"}
    return {
        names.get(name, name): to_millis(nanos) if name == CPU else to_units(nanos) for name, nanos in amounts.items()
    }


def _parse_cgroup_path(case: dict[str, Any]) -> dict[str, Any]:
    parsed = layout.parse_cgroup_path(case["path"])
    return {
        "kind": str(parsed.kind),
        "partition": None if parsed.partition is None else str(parsed.partition),
        "qos": None if parsed.qos is None else parsed.qos.lower(),
        "pod_uid": parsed.pod_uid,
        "container_id": parsed.container_id,
        "runtime": None if parsed.runtime is None else str(parsed.runtime),
        "nested": parsed.nested,
    }


def _kubepods_root_path(case: dict[str, Any]) -> dict[str, Any]:
    return {"path": kubepods_root_path(**case)}


def _pod_cgroup_path(case: dict[str, Any]) -> dict[str, Any]:
    return {"path": layout.pod_cgroup_path(**{**case, "qos": _QOS[case["qos"].lower()]})}


def _container_cgroup_path(case: dict[str, Any]) -> dict[str, Any]:
    return {"path": layout.container_cgroup_path(**{**case, "qos": _QOS[case["qos"].lower()]})}


def _milli_cpu_to_shares(case: dict[str, Any]) -> dict[str, Any]:
    return {"shares": cpu_values.millicores_to_shares(case["milli"])}


def _shares_to_milli_cpu(case: dict[str, Any]) -> dict[str, Any]:
    return {"milli": cpu_values.shares_to_millicores(case["shares"])}


def _milli_cpu_to_quota(case: dict[str, Any]) -> dict[str, Any]:
    return {"quota_us": cpu_values.millicores_to_quota(case["milli"], case["period_us"])}


def _quota_to_milli_cpu(case: dict[str, Any]) -> dict[str, Any]:
    return {"milli": cpu_values.quota_to_millicores(case["quota_us"], case["period_us"])}


def _shares_to_weight(case: dict[str, Any]) -> dict[str, Any]:
    formulas = {"linear": cpu_values.shares_to_weight_linear, "quadratic": cpu_values.shares_to_weight_quadratic}
    return {"weight": formulas[case["formula"]](case["shares"])}


def _weight_to_shares_linear(case: dict[str, Any]) -> dict[str, Any]:
    return {"shares": cpu_values.weight_to_shares_linear(case["weight"])}


def _shares_match_after_round_trip(case: dict[str, Any]) -> dict[str, Any]:
    return {"match": cpu_values.shares_match_after_round_trip(case["allocated_shares"], case["read_back_shares"])}


def _systemd_cpu_quota(case: dict[str, Any]) -> dict[str, Any]:
    quota = cpu_values.systemd_quota(case["quota_us"], case["period_us"])
    return {"quota_per_sec_us": quota.quota_per_second_usec, "cpu_max_quota_us": quota.cpu_max_quota_usec}


def _parse_cpu_max(case: dict[str, Any]) -> dict[str, Any]:
    try:
        parsed = cpu_values.parse_cpu_max(case["text"])
    except cpu_values.CpuMaxError:
        return _ERROR
    return {"quota_us": parsed.quota_usec, "period_us": parsed.period_usec, "milli": parsed.millicores}


def _resource_config_for_pod(case: dict[str, Any]) -> dict[str, Any]:
    values = cgroup_values.pod_cgroup(
        _pod(case["pod"]),
        cgroup_values.KubeletRules(
            enforce_cpu_limits=case["enforce_cpu_limits"],
            period_usec=case["period_us"],
            reservation=cgroup_values.ReservationPolicy(case["memory_reservation_policy"]),
            claims=case.get("dra_node_allocatable", False),
        ),
    )
    unified = {"memory.min": values.memory_min_bytes, "memory.low": values.memory_low_bytes}
    return {
        "cpu_shares": values.cpu_shares,
        "cpu_quota_us": values.cpu_quota_usec,
        "cpu_period_us": values.cpu_period_usec,
        "memory_bytes": values.memory_bytes,
        "hugepage_limit_bytes": {str(size): limit for size, limit in values.hugepage_limit_bytes.items()},
        "unified": {name: str(value) for name, value in unified.items() if value is not None} or None,
    }


def _container_resources(case: dict[str, Any]) -> dict[str, Any]:
    pod = _pod(case["pod"])
    values = cgroup_values.container_cgroup(
        pod,
        _container(pod, case["container"]),
        cgroup_values.KubeletRules(
            enforce_cpu_limits=case.get("enforce_cpu_limits", True),
            period_usec=case["period_us"],
            single_process_oom_kill=case["single_process_oom_kill"],
            claims=case.get("dra_node_allocatable", False),
        ),
    )
    return {
        "cpu_shares": values.cpu_shares,
        "cpu_quota_us": values.cpu_quota_usec,
        "memory_bytes": values.memory_bytes,
        "oom_group": values.oom_group,
    }


def _qos_level_cgroups(case: dict[str, Any]) -> dict[str, Any]:
    levels = qos_cgroups.qos_levels(
        [_pod(fragment) for fragment in case["pods"]],
        qos_cgroups.QosRules(
            allocatable_memory_bytes=case["node_allocatable_memory"],
            reserved_memory_percent=case["qos_reserved_memory_percent"],
            reservation=cgroup_values.ReservationPolicy(case["memory_reservation_policy"]),
            partition=Partition(case.get("partition") or "default"),
            system_namespaces=case.get("partition_namespaces") or (),
            claims=case.get("dra_node_allocatable", False),
        ),
    )
    return {
        "kubepods": {"memory_min": levels.root_memory_min_bytes, "memory_low": levels.root_memory_low_bytes},
        "burstable": {
            "cpu_shares": levels.burstable_shares,
            "memory_max": levels.burstable_memory_max_bytes,
            "memory_low": levels.burstable_memory_low_bytes,
        },
        "besteffort": {
            "cpu_shares": levels.best_effort_shares,
            "memory_max": levels.best_effort_memory_max_bytes,
        },
    }


def _qos_reserve_retry(case: dict[str, Any]) -> dict[str, Any]:
    return dict(qos_cgroups.qos_reserve_retry(case["targets"], case["usage"]))


def _parse_qos_reserved(case: dict[str, Any]) -> dict[str, Any]:
    try:
        return dict(qos_cgroups.parse_qos_reserved(case["flag"]))
    except qos_cgroups.QosReservedError:
        return _ERROR


def _kubepods_root_values(case: dict[str, Any]) -> dict[str, Any]:
    def amounts(name: str) -> qos_cgroups.ReservedAmounts:
        return qos_cgroups.ReservedAmounts(
            cpu_millicores=case[name]["cpu_milli"], memory_bytes=case[name]["memory_bytes"]
        )

    root = qos_cgroups.kubepods_root(
        amounts("capacity"), amounts("kube_reserved"), amounts("system_reserved"), enforce_pods=case["enforce_pods"]
    )
    return {"cpu_shares": root.cpu_shares, "memory_bytes": root.memory_bytes}


def _pod_qos_class(case: dict[str, Any]) -> dict[str, Any]:
    return {"qos": str(qos.pod_qos_class(_pod(case["pod"])))}


def _pod_requests(case: dict[str, Any]) -> dict[str, Any]:
    pod = _pod(case["pod"])
    rule = effective.CountingRule(
        use_status=case["use_status"],
        pod_level_resize=case["pod_level_resize"],
        claims=case.get("dra_node_allocatable", False),
    )
    return {
        "requests": _amounts(effective.pod_requests(pod, rule)),
        "limits": _amounts(effective.pod_limits(pod, rule)),
    }


def _psi_waiting_rate(case: dict[str, Any]) -> dict[str, Any]:
    rate = pressure.psi_waiting_rate(case["t0_s"], case["total0_us"], case["t1_s"], case["total1_us"])
    return {"rate": rate}


def _adjusted_demand(case: dict[str, Any]) -> dict[str, Any]:
    return {"demand_milli": pressure.adjusted_demand(case["usage_milli"], case["waiting_rate"] or 0.0)}


def _parse_pressure(case: dict[str, Any]) -> dict[str, Any]:
    # A case tells the lines. In the kernel's file the last one ends in a newline too; without it, it would be cut.
    lines = cgroup_text.parse_pressure_lines(case["text"].removesuffix("\n").encode() + b"\n")
    if lines is None or any(line.averages_percent is None for line in lines.values()):
        return _ERROR

    def line(kind: str) -> dict[str, Any] | None:
        if kind not in lines:
            return None
        averages = dict(zip(("avg10", "avg60", "avg300"), lines[kind].averages_percent or (), strict=True))
        return {**averages, "total_us": lines[kind].total_usec}

    return {"available": bool(lines), "some": line("some"), "full": line("full")}


def _memory_high(case: dict[str, Any]) -> dict[str, Any]:
    high_bytes = cgroup_values.memory_high(
        qos=QosClass(case["qos"]),
        request_bytes=case["request_bytes"],
        limit_bytes=case["limit_bytes"],
        node_allocatable_bytes=case["node_allocatable_bytes"],
        throttling_factor=case["factor"],
        page_size_bytes=case["page_size"],
    )
    return {"memory_high_bytes": high_bytes}


def _oom_score_adj(case: dict[str, Any]) -> dict[str, Any]:
    pod = _pod(case["pod"])
    score = qos.oom_score_adj(
        pod,
        _container(pod, case["container"]),
        case["memory_capacity_bytes"],
        claims=case.get("dra_node_allocatable", False),
    )
    return {"oom_score_adj": score}


ADAPTERS = {
    "parse_cgroup_path": _parse_cgroup_path,
    "kubepods_root_path": _kubepods_root_path,
    "pod_cgroup_path": _pod_cgroup_path,
    "container_cgroup_path": _container_cgroup_path,
    "milli_cpu_to_shares": _milli_cpu_to_shares,
    "shares_to_milli_cpu": _shares_to_milli_cpu,
    "milli_cpu_to_quota": _milli_cpu_to_quota,
    "quota_to_milli_cpu": _quota_to_milli_cpu,
    "shares_to_weight": _shares_to_weight,
    "weight_to_shares_linear": _weight_to_shares_linear,
    "shares_match_after_round_trip": _shares_match_after_round_trip,
    "systemd_cpu_quota": _systemd_cpu_quota,
    "parse_cpu_max": _parse_cpu_max,
    "resource_config_for_pod": _resource_config_for_pod,
    "container_resources": _container_resources,
    "qos_level_cgroups": _qos_level_cgroups,
    "qos_reserve_retry": _qos_reserve_retry,
    "parse_qos_reserved": _parse_qos_reserved,
    "kubepods_root_values": _kubepods_root_values,
    "pod_qos_class": _pod_qos_class,
    "pod_requests": _pod_requests,
    "psi_waiting_rate": _psi_waiting_rate,
    "adjusted_demand": _adjusted_demand,
    "parse_pressure": _parse_pressure,
    "memory_high": _memory_high,
    "oom_score_adj": _oom_score_adj,
}
