"""Adapters from cases of vpa.json to the real functions. They translate names and units and hold no rule.

Those about histograms and checkpoints are in ``vpa_histogram``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from agent.core.admission.boost import BoostGrounds, with_boost
from agent.core.admission.fit import Draft
from agent.core.admission.pod_admission import no_starts
from agent.core.admission.sizes import sides_of
from agent.core.autoscalers.vpa_orders import VpaSurroundings, vpa_orders
from agent.core.cluster.pod import Container, ContainerKind, ContainerState, Pod
from agent.core.cluster.pod_index import PodIndex, belonging
from agent.core.cluster.resource import Resource
from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.core.numbers import integer_amounts as vpa_amounts
from agent.core.numbers.arrays import Floats, Rows
from agent.core.orders import annotations as names
from agent.core.orders.container_policies import ContainerPolicies, ContainerPolicy
from agent.core.orders.policy_options import BoundsOptions, ControlledResources, VpaOptions
from agent.core.orders.startup_boost import parse_startup_boost
from agent.core.plan.pod_change import Setting
from agent.core.recommender import bounds
from agent.core.recommender import rounding as vpa_bounds
from agent.core.recommender.policy import CurrentAmounts, LimitRule, Narration, Proposals
from agent.core.recommender.vpa import (
    estimators as vpa_estimators,
)
from agent.core.recommender.vpa import (
    limit_range as vpa_limit_range,
)
from agent.core.recommender.vpa.chain import Estimates
from agent.core.recommender.vpa.estimators import Widening
from agent.core.recommender.vpa.limit_range import FittedAmounts, Range, Rounding
from agent.core.recommender.vpa.oom_observation import ContainerMoment, request_at_oom
from agent.core.recommender.vpa.policy import VpaPolicy
from agent.core.recommender.vpa.samples import CpuSamples, MemoryPeaks
from agent.core.recommender.vpa.state import VpaState
from tests.admissions import NOW_UNIX_SECONDS, PROPORTIONAL_RULES, SHOP
from tests.conformance import vpa_histogram
from tests.conformance.entry_points import NOT_PLIMSOLLS
from tests.pods import container as container_json
from tests.pods import make_pod
from tests.vpas import vpa

LATER = frozenset(NOT_PLIMSOLLS)
"""All of them optional: VPA's updater, which evicts to size."""

_ERROR = {"error": True}
_OPTIONS = {
    "target_cpu_percentile": "target_cpu_percentile",
    "lower_cpu_percentile": "recommendation_lower_bound_cpu_percentile",
    "upper_cpu_percentile": "recommendation_upper_bound_cpu_percentile",
    "target_memory_percentile": "target_memory_percentile",
    "lower_memory_percentile": "recommendation_lower_bound_memory_percentile",
    "upper_memory_percentile": "recommendation_upper_bound_memory_percentile",
    "margin_fraction": "recommendation_margin_fraction",
    "min_cpu_milli": "pod_recommendation_min_cpu_millicores",
    "min_memory_mb": "pod_recommendation_min_memory_mb",
    "confidence_interval_cpu_s": "confidence_interval_cpu_seconds",
    "confidence_interval_memory_s": "confidence_interval_memory_seconds",
    "memory_interval_s": "memory_aggregation_interval_seconds",
    "oom_bump_ratio": "oom_bump_up_ratio",
    "oom_min_bump_bytes": "oom_min_bump_up_bytes",
}
_ROW = np.array([0])


def _options(config: Mapping[str, Any]) -> VpaOptions:
    return VpaOptions(**{_OPTIONS[key]: value for key, value in config.items()})


def _amount(case: dict[str, Any]) -> dict[str, Any]:
    if case["function"] == "scale":
        return {"values": [int(vpa_amounts.scale(amount, factor)) for amount, factor in case["values"]]}
    return {"values": getattr(vpa_amounts, case["function"])(case["values"]).tolist()}


def _rounded(value: int, multiple: int) -> tuple[int, bool]:
    try:
        return int(vpa_bounds.round_up(value, multiple)), False
    except ValueError:
        return value, True


def _round_up(case: dict[str, Any]) -> dict[str, Any]:
    value, error = _rounded(case["value"], case["scale"])
    return {"value": value, "error": error}


def _resource_list(case: dict[str, Any]) -> dict[str, Any]:
    memory_bytes, _ = _rounded(case["memory_bytes"], case.get("round_memory_bytes", 1))
    answer: dict[str, Any] = {
        "cpu_milli": _rounded(case["cpu_milli"], case.get("round_cpu_milli", 1))[0],
        "memory_bytes": memory_bytes,
    }
    return {**answer, "memory_text": vpa_bounds.memory_text(memory_bytes)} if case.get("humanize") else answer


def _humanize(case: dict[str, Any]) -> dict[str, Any]:
    return {"text": [vpa_bounds.memory_text(amount) for amount in case["bytes"]]}


def _steady_milli(case: Mapping[str, Any]) -> tuple[int, int | None]:
    """Return request and limit as they are without a boost: recommended, in ratio, or what the pod came with."""
    original, stated = case["original_milli"], case.get("recommendation_milli") or {}
    request, limit = stated.get("request"), stated.get("limit")
    if not request or case.get("controlled_values") == "RequestsOnly":
        return request or original.get("request") or 0, original.get("limit")
    if limit is None and original.get("limit"):
        limits, _, _ = vpa_bounds.proportional_limits([original["limit"]], [original.get("request") or 0], [request])
        limit = int(limits[0])
    return request, limit


def _startup_boost(case: dict[str, Any]) -> dict[str, Any]:
    """Take an object's boost through its orders to admission; a limit that no change names is left as it is."""
    boost = {**case["boost"]}
    boost["durationSeconds"] = boost.pop("duration_s", 0)
    if "quantity_milli" in boost:
        boost["quantity"] = f"{boost.pop('quantity_milli')}m"
    read = vpa("InPlace", startupBoost={"cpu": boost} if case.get("gate", True) else {})
    ordered = vpa_orders(read, VpaSurroundings())
    if read.fault is not None or any("startupBoost" in fault for fault in ordered.faults):
        return _ERROR
    orders = ordered.at_admission
    order = parse_startup_boost(orders[names.STARTUP_BOOST]) if names.STARTUP_BOOST in orders else None
    if order is not None:
        order = replace(order, most_millicores=case.get("max_boost_milli") or None)  # 0 is none there
    is_kept = case.get("controlled_values") == "RequestsOnly"
    request, limit = _steady_milli(case)
    requests, limits = (
        {"cpu": f"{amount}m"} if (amount := case["original_milli"].get(which)) else {} for which in ("request", "limit")
    )
    pod = make_pod(container_json("c", requests, limits))
    (shown,) = pod.containers
    sides = sides_of(shown)
    sides[Resource.CPU].request, sides[Resource.CPU].limit = request, limit
    boosting = with_boost(
        pod,
        [Draft(container=shown, index=0, sides=sides, estimate=None)],
        order,
        BoostGrounds(
            facts=SHOP,
            rules=PROPORTIONAL_RULES,
            starts=no_starts,
            policies=ContainerPolicies(policies=(ContainerPolicy(are_limits_kept=is_kept),)),
        ),
        now_unix_seconds=NOW_UNIX_SECONDS,
    )
    changes = boosting.boost.changes if boosting.boost is not None else ()
    after = {change.setting: change.after for change in changes}
    # Without a boost the limit that is patched is the recommended one.
    limit_without = (case.get("recommendation_milli") or {}).get("limit") if order is None else None
    return {
        "request_milli": after.get(Setting.REQUEST, request),
        "limit_milli": after.get(Setting.LIMIT, limit_without),
        "annotated": boosting.boost is not None,
    }


def _confidences(case: Mapping[str, Any]) -> Floats:
    first, last = (np.array([case[key] or 0], dtype=np.float64) for key in ("first_ts", "last_ts"))
    return vpa_estimators.confidence(first, last, [case["count"]], interval_seconds=case["interval_s"])


def _factor(confidences: Floats, multiplier: float, exponent: float) -> Floats:
    assert exponent == int(exponent), f"exponent {exponent} is not whole"
    return vpa_estimators.widening_factors(confidences, Widening(multiplier, int(exponent)))


def _confidence(case: dict[str, Any]) -> dict[str, Any]:
    confidences = _confidences(case)
    factors = [float(_factor(confidences, *each)[0]) for each in case.get("multipliers") or ()]
    return {"confidence": float(confidences[0]), "factors": factors}


def _confidence_scale(case: dict[str, Any]) -> dict[str, Any]:
    confidences = _confidences(case)
    amount = vpa_amounts.scale([case["base_amount"]], _factor(confidences, case["multiplier"], case["exponent"]))
    return {"confidence": float(confidences[0]), "amount": int(amount[0])}


def _margin(case: dict[str, Any]) -> dict[str, Any]:
    return {"amount": int(vpa_estimators.with_margin(np.array([case["base_amount"]]), case["fraction"])[0])}


def _min_resources(case: dict[str, Any]) -> dict[str, Any]:
    count = len(case["containers"])
    cpu = int(vpa_estimators.cpu_minimums(case["min_cpu_milli"], count))
    memory = int(vpa_estimators.memory_minimums(case["min_memory_mb"], count))
    return {
        "containers": {
            container["name"]: {
                "cpu_milli": max(container["cpu_milli"], cpu),
                "memory_bytes": max(container["memory_bytes"], memory),
            }
            for container in case["containers"]
        }
    }


def _controlled_resources(case: dict[str, Any]) -> dict[str, Any]:
    controlled = case.get("controlled")
    some, yes, no = np.array([1e9]), np.array([True]), np.array([False])
    proposals = Proposals(
        cpu_request_millicores=some,
        has_cpu=yes,
        memory_request_bytes=some,
        has_memory=yes,
        memory_limit_bytes=some,
        has_memory_limit=no,
        cpu_base_millicores=some,
        cpu_peak_millicores=some,
        memory_base_bytes=some,
        memory_peak_bytes=some,
        cpu_upward_only=no,
        memory_upward_only=no,
        limit_rule=LimitRule.PROPORTIONAL,
    )
    stated = CurrentAmounts(
        cpu_request_millicores=some,
        has_cpu_request=no,
        cpu_limit_millicores=some,
        has_cpu_limit=no,
        memory_request_bytes=some,
        has_memory_request=no,
        memory_limit_bytes=some,
        has_memory_limit=no,
        working_set_bytes=some,
        has_working_set=no,
        memory_current_bytes=some,
        has_memory_current=no,
        is_guaranteed=no,
    )
    # One by one: a list may be empty, which no setting of the agent's is.
    listed = [ControlledResources.BOTH] if controlled is None else [ControlledResources(name) for name in controlled]
    bounded = [bounds.apply(proposals, stated, BoundsOptions(controlled_resources=resources)) for resources in listed]
    has_cpu, has_memory = any(answer.has_cpu[0] for answer in bounded), any(answer.has_memory[0] for answer in bounded)
    return {"resources": ["cpu"] * has_cpu + ["memory"] * has_memory}


def _ordered_list(case: dict[str, Any]) -> dict[str, Any]:
    return {"order": sorted(case["containers"])}


class _Recorded:
    """Takes samples in place of histograms, and tells them."""

    def __init__(self) -> None:
        self.operations: list[list[Any]] = []

    def add(self, rows: Rows, values: Floats, weights: Floats, unix_seconds: Floats) -> None:
        self._record("add", values, weights, unix_seconds)

    def subtract(self, rows: Rows, values: Floats, weights: Floats, unix_seconds: Floats) -> None:
        self._record("subtract", values, weights, unix_seconds)

    def _record(self, operation: str, values: Floats, weights: Floats, unix_seconds: Floats) -> None:
        self.operations.append([operation, float(values[0]), float(weights[0]), float(unix_seconds[0])])


def _memory_window(case: dict[str, Any]) -> dict[str, Any]:
    recorded, options = _Recorded(), VpaOptions()
    peaks = MemoryPeaks(
        recorded,
        1,
        interval_seconds=case["interval_s"],
        oom_bump_up_ratio=case.get("oom_bump_ratio", options.oom_bump_up_ratio),
        oom_min_bump_up_bytes=case.get("oom_min_bump_bytes", options.oom_min_bump_up_bytes),
    )
    accepted = [
        peaks.record_oom(0, event.get("request_bytes") or 0, event["ts"])
        if event["kind"] == "oom"
        else bool(peaks.add_usage(_ROW, [event["bytes"]], event["ts"])[0][0])
        for event in case["events"]
    ]
    return {"accepted": accepted, "histogram_operations": recorded.operations}


def _cpu_samples(case: dict[str, Any]) -> dict[str, Any]:
    recorded = _Recorded()
    samples = CpuSamples(recorded, 1)
    accepted = [bool(samples.add(_ROW, [millicores], time)[0]) for time, millicores in case["samples"]]
    count = int(samples.counts[0])
    return {
        "accepted": accepted,
        "first_ts": float(samples.first_unix_seconds[0]) if count else None,
        "last_ts": float(samples.last_unix_seconds[0]) if count else None,
        "count": count,
        "histogram_operations": recorded.operations,
        "histogram_samples": [operation[1:] for operation in recorded.operations],
    }


def _moment(given: Mapping[str, Any] | None) -> ContainerMoment:
    if given is None:
        return ContainerMoment(state=None)
    in_status = given.get("status_request_bytes")
    last = next((value for key, value in given.items() if key.startswith("last")), None)
    return ContainerMoment(
        state=ContainerState(given["state"]),
        reason=given.get("reason"),
        last_reason=last.get("reason") if isinstance(last, Mapping) else last,
        restart_count=given.get("restarts", 0),
        memory_request_bytes=given.get("spec_request_bytes") if in_status is None else in_status,
    )


def _oom_observation(case: dict[str, Any]) -> dict[str, Any]:
    request = request_at_oom(_moment(case["old"]), _moment(case["new"]))
    return {"oom": False} if request is None else {"oom": True, "memory_bytes": request}


def _expiry(case: dict[str, Any]) -> dict[str, Any]:
    state = VpaState(
        VpaOptions(
            memory_aggregation_interval_seconds=case["interval_s"],
            memory_aggregation_interval_count=case["interval_count"],
        ),
        1,
    )
    state.add_memory(_ROW, np.array([0]), case["created_ts"])
    if case["count"]:
        state.add_cpu(_ROW, np.array([0]), case["last_sample_ts"])
    return {"expired": [bool(state.expired(now)[0]) for now in case["at_ts"]]}


def _integer_cpu(case: dict[str, Any]) -> dict[str, Any]:
    names = [container["name"] for container in case["containers"]]
    containers = tuple(Container(name=name, kind=ContainerKind.REGULAR) for name in names)
    pod = Pod(uid="u", namespace="n", name="p", containers=containers, annotations=case.get("annotations") or {})
    index = PodIndex([pod])

    def wants(name: str) -> bool:
        identity = UnitIdentity(cgroup_path=f"/{name}", kind=UnitKind.CONTAINER, pod_uid="u", container=name)
        return belonging(identity, index).wants_whole_cores

    return {
        "containers": {
            container["name"]: {
                kind: int(vpa_bounds.whole_cores(millicores, wants(container["name"])))
                for kind, millicores in (container.get("cpu_milli") or {}).items()
            }
            for container in case["containers"]
        }
    }


def _per_resource(recommendation: Mapping[str, Any], change: Any, kinds: Iterable[str]) -> dict[str, Any]:
    """Change each amount of these kinds of recommendation by ``change(resource, amount)``."""
    return {
        kind: {key: int(change(key, amount)) if kind in kinds else amount for key, amount in amounts.items()}
        for kind, amounts in recommendation.items()
    }


_CAPPED_KINDS = ("target", "lower", "upper")


def _cap_policy(case: dict[str, Any]) -> dict[str, Any]:
    policy = case.get("policy") or {}
    least, most = policy.get("min_allowed") or {}, policy.get("max_allowed") or {}
    global_most = case.get("global_max") or {}

    def capped(resource: str, amount: int) -> Any:
        return vpa_bounds.cap(
            amount,
            min_allowed=least.get(resource),
            max_allowed=most.get(resource),
            global_max_allowed=global_most.get(resource),
        )

    return {"recommendation": _per_resource(case["recommendation"], capped, _CAPPED_KINDS)}


def _cap_container_limit(case: dict[str, Any]) -> dict[str, Any]:
    limits = case.get("limits") or {}
    if case.get("controlled_values") != "RequestsOnly":
        return {"recommendation": case["recommendation"]}

    def capped(resource: str, amount: int) -> int:
        return vpa_limit_range.cap_to_limit(amount, limits.get(resource))

    return {"recommendation": _per_resource(case["recommendation"], capped, _CAPPED_KINDS)}


def _cap_container_range(case: dict[str, Any]) -> dict[str, Any]:
    bounds_of, requests, limits = (case.get(key) or {} for key in ("limit_range", "requests", "limits"))

    def capped(resource: str, amount: int) -> int:
        container = FittedAmounts(
            request=requests.get(resource, 0), limit=limits.get(resource, 0), recommendation=amount
        )
        allowed = Range(
            **{
                field: (bounds_of.get(key) or {}).get(resource, 0)
                for field, key in (("min_allowed", "min"), ("max_allowed", "max"), ("default_limit", "default"))
            }
        )
        return vpa_limit_range.cap_to_container_range(container, allowed)

    ranged = _per_resource(case["recommendation"], capped, _CAPPED_KINDS)
    return _cap_container_limit({**case, "recommendation": ranged})


def _cap_pod_range(case: dict[str, Any]) -> dict[str, Any]:
    given, recommendations = case["limit_range"] or {}, case["recommendations"]
    containers = [
        FittedAmounts(
            request=container.get("request") or 0,
            limit=container.get("limit") or 0,
            recommendation=recommendations.get(container["name"]),
        )
        for container in case["containers"]
    ]
    if case.get("fill_missing", True):
        containers = vpa_limit_range.with_requests(containers)
    capped = vpa_limit_range.cap_to_pod_range(
        containers,
        Range(
            min_allowed=given.get("min") or 0,
            max_allowed=given.get("max") or 0,
            default_limit=given.get("default") or 0,
        ),
        min_rounding=Rounding.UP if case["resource"] == "cpu" else Rounding.DOWN,
    )
    names = [container["name"] for container in case["containers"]]
    return {"recommendations": {name: amount for name, amount in zip(names, capped, strict=True) if amount is not None}}


def _proportional_limit(case: dict[str, Any]) -> dict[str, Any]:
    limits, is_set, is_beyond = vpa_bounds.proportional_limits(
        [case.get("limit") or 0],
        [case.get("request") or 0],
        [case.get("recommendation") or 0],
        default_limits=[case.get("default_limit") or 0],
    )
    return {"limit": int(limits[0]) if is_set[0] else None, "note": not is_set[0] or bool(is_beyond[0])}


def _scale_proportional(case: dict[str, Any]) -> dict[str, Any]:
    if not case["base"]:
        return {"value": case["scaled"], "division_by_zero": True, "capped": False}
    # The original rounds memory down whatever it is told.
    rounding = Rounding.UP if case.get("rounding") == "up" and case["resource"] == "cpu" else Rounding.DOWN
    value, is_cut = vpa_limit_range.scale_in_proportion(case["scaled"], case["base"], case["result"], rounding)
    return {"value": value, "division_by_zero": False, "capped": is_cut}


def _samples(given: Any) -> list[tuple[float, int]]:
    """Read ``[ts, value]``, a series, or a list of both."""
    if not given:
        return []
    if isinstance(given, Mapping):
        cycle = given["cycle"]
        return [
            (given["start_ts"] + index * given.get("step_s", 60), cycle[index % len(cycle)])
            for index in range(given["count"])
        ]
    if not isinstance(given[0], Sequence | Mapping):
        return [(given[0], given[1])]
    return [sample for part in given for sample in _samples(part)]


def _feed(state: VpaState, row: int, container: Mapping[str, Any]) -> None:
    rows = np.array([row])
    for time, millicores in _samples(container.get("cpu_milli_samples")):
        state.add_cpu(rows, np.array([millicores]), time)
    usage = [(time, 0, amount) for time, amount in _samples(container.get("memory_samples"))]
    kills = [(time, 1, request) for time, request in container.get("oom_events") or ()]
    for time, is_kill, amount in sorted(usage + kills, key=lambda event: event[:2]):
        if is_kill:
            state.add_oom(row, amount, time)
        else:
            state.add_memory(rows, np.array([amount]), time)


def _recommend(case: dict[str, Any]) -> dict[str, Any]:
    containers = case["containers"]
    policy = VpaPolicy(_options(case.get("config") or {}), len(containers))
    for row, container in enumerate(containers):
        _feed(policy.state, row, container)
    rows = np.arange(len(containers))
    pod_containers = np.full(len(containers), len(containers))
    cpu = policy.cpu_estimates(rows, pod_containers, rows < 0, Narration(None, Resource.CPU))
    memory = policy.memory_estimates(rows, pod_containers, Narration(None, Resource.MEMORY))

    def kinds(estimates: Estimates, row: int) -> dict[str, int]:
        assert estimates.bounds is not None
        return {
            "target": int(estimates.target[row]),
            "lower": int(estimates.bounds.lower[row]),
            "upper": int(estimates.bounds.upper[row]),
            "uncapped_target": int(estimates.uncapped_target[row]),
        }

    answer = {}
    for row, container in enumerate(containers):
        cpu_kinds, memory_kinds = kinds(cpu, row), kinds(memory, row)
        answer[container["name"]] = {
            kind: {"cpu_milli": cpu_kinds[kind], "memory_bytes": memory_kinds[kind]} for kind in cpu_kinds
        }
    return {"containers": answer}


ADAPTERS = {
    **vpa_histogram.ADAPTERS,
    "startup_boost": _startup_boost,
    "amount": _amount,
    "round_up": _round_up,
    "resource_list": _resource_list,
    "humanize": _humanize,
    "confidence": _confidence,
    "confidence_scale": _confidence_scale,
    "margin": _margin,
    "min_resources": _min_resources,
    "controlled_resources": _controlled_resources,
    "ordered_list": _ordered_list,
    "memory_window": _memory_window,
    "cpu_samples": _cpu_samples,
    "oom_observation": _oom_observation,
    "expiry": _expiry,
    "integer_cpu": _integer_cpu,
    "cap_policy": _cap_policy,
    "cap_container_limit": _cap_container_limit,
    "cap_container_range": _cap_container_range,
    "cap_pod_range": _cap_pod_range,
    "proportional_limit": _proportional_limit,
    "scale_proportional": _scale_proportional,
    "recommend": _recommend,
}
