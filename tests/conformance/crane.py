"""Adapters from cases of crane.json to the real functions. They translate names and units and hold no rule.

A record of a kill names a workload's container; here, as in the agent, each such name has a row of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from agent.core.history.minute.minutes import OutOfMemory
from agent.core.numbers.arrays import Floats
from agent.core.numbers.bucket_scheme import LinearScheme
from agent.core.numbers.histogram import Histograms
from agent.core.orders.policy_options import CraneOptions
from agent.core.recommender.crane import estimate as crane_estimate
from agent.core.recommender.crane.kills import CraneKills, protect
from agent.core.recommender.crane.policy import CranePolicy
from agent.core.recommender.crane.specification import (
    DEFAULT_SPECIFICATIONS,
    SpecificationError,
    Specifications,
    parse_specifications,
)
from tests.histograms import add_series
from tests.policy_rows import make_minutes, make_present

LATER = frozenset(
    {
        "accuracy",
        "autocorrelation",
        "signal",
        "find_period",
        "preprocess",
        "outliers",
        "max_value_estimate",
        "estimator_rank",
        "combine_by_value",
        "combine_by_priority",
        "tolerance",
        "scaling_gate",
        "halve",
        "history_complete",
        "duration",
        "fluctuation",
        "max_replicas",
        "min_replicas",
        "metric_key",
        "watermark",
    }
)
"""All of them optional: acting (dead band, gates, watermarks), and what serves Plimsoll nowhere (replicas, DSP)."""

_ERROR = {"error": True}
_MILLICORES = 1000.0
_NOW_MINUTE = 28_000_000
_NOW_UNIX_SECONDS = _NOW_MINUTE * 60.0


class _Rows:
    """A row for each workload's container."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str], int] = {}

    def of(self, namespace: str, workload: str, container: str) -> int:
        return self._rows.setdefault((namespace, workload, container), len(self._rows))

    def of_records(self, case: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> list[int]:
        """Return the rows of records; one that does not name its workload is of the case's."""
        return [
            self.of(
                record.get("namespace", case["namespace"]),
                record.get("workload", case["workload"]),
                record.get("container", case.get("container", "")),
            )
            for record in records
        ]

    @property
    def count(self) -> int:
        return len(self._rows)


def _percentile_estimate(case: dict[str, Any]) -> dict[str, Any]:
    given = {name: case[name] for name in ("percentile", "margin_fraction", "target_utilization") if name in case}
    least = {"least_weight": case["min_sample_weight"]} if "min_sample_weight" in case else {}
    estimation = crane_estimate.Estimation(**given)
    samples = np.array(case["samples"], dtype=np.float64)
    scheme = LinearScheme(case["histogram"]["max"], case["histogram"]["size"])
    histograms = Histograms(scheme, epsilon=crane_estimate.EPSILON, rows=1)
    add_series(histograms, 0, samples, crane_estimate.weigh(samples, **least))
    percentile_values = histograms.percentile(estimation.percentile)
    estimates = estimation.of_percentile(percentile_values)
    to_amounts = {"cpu": crane_estimate.to_millicores, "memory": crane_estimate.to_bytes}[case["resource"]]
    return {
        "percentile_value": float(percentile_values[0]),
        "estimate": float(estimates[0]),
        "amount": int(to_amounts(estimates)[0]),
    }


def _specification_parse(case: dict[str, Any]) -> dict[str, Any]:
    try:
        parsed = parse_specifications(case["text"])
    except SpecificationError:
        return _ERROR
    return {"specifications": [[specification.cpu_cores, specification.memory_gib] for specification in parsed]}


def _specification_normalise(case: dict[str, Any]) -> dict[str, Any]:
    text = case.get("specifications")
    try:
        specifications = Specifications(DEFAULT_SPECIFICATIONS if text is None else parse_specifications(text))
    except SpecificationError:
        return _ERROR
    millicores, byte_counts, has_fit = specifications.normalise(_one(case["cpu_milli"]), _one(case["memory_bytes"]))
    return {"cpu_milli": int(millicores[0]), "memory_bytes": int(byte_counts[0]), "matched": bool(has_fit[0])}


def _oom_protection(case: dict[str, Any]) -> dict[str, Any]:
    options = CraneOptions(**_options(case))
    rows = _Rows()
    asked = rows.of(case["namespace"], case["workload"], case["container"])
    records = [record for record in case.get("records") or () if record["memory_bytes"] is not None]
    places = rows.of_records(case, records)
    kills = CraneKills(history_seconds=options.oom_history_seconds, bump_ratio=options.oom_bump_ratio, rows=rows.count)
    for place, record in zip(places, records, strict=True):
        kills.record(
            place, unix_seconds=_NOW_UNIX_SECONDS - record["age_s"], requested_bytes=int(record["memory_bytes"])
        )
    needed, has_kill = kills.needed(np.array([asked]), _NOW_UNIX_SECONDS)
    memory = protect(_one(case["recommended_bytes"]), needed, has_kill)
    return {"protected_bytes": int(needed[0]) if has_kill[0] else None, "memory_bytes": int(memory[0])}


def _recommend(case: dict[str, Any]) -> dict[str, Any]:
    containers = case["containers"]
    records = case.get("oom_records") or case.get("records") or case.get("oom") or []
    rows = _Rows()
    asked = [rows.of(case["namespace"], case["workload"], container["name"]) for container in containers]
    places = rows.of_records(case, records)
    policy = CranePolicy(CraneOptions(**_options(case)), len(asked))
    policy.grow(rows.count)
    cpu = [[cores * _MILLICORES for cores in container.get("cpu_cores") or ()] for container in containers]
    memory = [list(container.get("memory_bytes") or ()) for container in containers]
    unknown = [None] * (rows.count - len(asked))
    length = max(map(len, (*cpu, *memory)), default=0)
    for index in range(length):
        now = ([series[index] if index < len(series) else None for series in axis] + unknown for axis in (cpu, memory))
        policy.fold(make_minutes(_NOW_MINUTE - length + index, *now))
    for place, record in zip(places, records, strict=True):
        at = _NOW_UNIX_SECONDS - record["age_s"]
        policy.record_oom(place, OutOfMemory(unix_seconds=at, request_bytes=record["memory_bytes"]))
    answer = policy.recommend(
        np.array(asked, dtype=np.intp), make_present([None] * len(asked)), now_unix_seconds=_NOW_UNIX_SECONDS
    )
    return {
        "containers": {
            container["name"]: {
                "cpu_milli": int(answer.cpu_request_millicores[index]),
                "memory_bytes": int(answer.memory_request_bytes[index]),
            }
            if answer.has_cpu[index] and answer.has_memory[index]
            else None
            for index, container in enumerate(containers)
        }
    }


def _options(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a case says of the options: by their own names or, as vectors spell seconds, ending in ``_s``."""
    given = {**case, **(case.get("config") or {})}
    by_spelling = {spelt: field.name for field in fields(CraneOptions) for spelt in (field.name, _in_short(field.name))}
    return {name: given[spelt] for spelt, name in by_spelling.items() if given.get(spelt) is not None}


def _in_short(name: str) -> str:
    return f"{name.removesuffix('_seconds')}_s" if name.endswith("_seconds") else name


def _one(amount: float) -> Floats:
    return np.array([amount], dtype=np.float64)


ADAPTERS = {
    "percentile_estimate": _percentile_estimate,
    "specification_parse": _specification_parse,
    "specification_normalise": _specification_normalise,
    "oom_protection": _oom_protection,
    "recommend": _recommend,
}
