"""Adapters from the cases of vpa.json that are about histograms and checkpoints. They translate names, hold no rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from agent.core.numbers.bucket_scheme import BucketScheme, ExponentialScheme, LinearScheme
from agent.core.numbers.histogram import Histograms
from agent.core.numbers.integer_amounts import cpu_from_cores, memory_from_bytes
from agent.core.recommender.vpa import checkpoint as checkpoints
from agent.core.recommender.vpa.checkpoint import Checkpoint, CheckpointError, StateCheckpoint
from agent.core.recommender.vpa.estimators import with_margin
from agent.core.recommender.vpa.samples import CPU_SAMPLE_WEIGHT, PEAK_WEIGHT
from agent.core.recommender.vpa.state import CPU_SCHEME, EPSILON, MEMORY_SCHEME
from tests.histograms import add_series

_ERROR = {"error": True}
_ROW = np.array([0])
_HALF_LIFE_SECONDS = 86400.0
_AS_JOINT = 1e-15
"""How far upstream's comparison of two histograms lets a weight be off."""


def _scheme(histogram: Mapping[str, Any]) -> BucketScheme:
    if histogram["type"] == "linear":
        return LinearScheme(histogram["max"], histogram["size"])
    return ExponentialScheme(histogram["max"], histogram["first"], histogram["ratio"])


def _histograms(histogram: Mapping[str, Any], rows: int = 1) -> Histograms:
    return Histograms(
        _scheme(histogram),
        epsilon=histogram["epsilon"],
        rows=rows,
        half_life_seconds=histogram.get("half_life_s"),
    )


def _default(resource: str, *, rows: int = 1, half_life_seconds: float | None = _HALF_LIFE_SECONDS) -> Histograms:
    scheme = CPU_SCHEME if resource == "cpu" else MEMORY_SCHEME
    return Histograms(scheme, epsilon=EPSILON, rows=rows, half_life_seconds=half_life_seconds)


def _samples(given: Any) -> list[tuple[float, float, float]]:
    """Read ``[value, weight, unix_ts]``, a series, or a list of both; a time that is left out does not matter."""
    if isinstance(given, Mapping):
        cycle = given["cycle"]
        return [
            (
                cycle[index % len(cycle)],
                given.get("weight", 1.0),
                given.get("start_ts", 0) + index * given.get("step_s", 0),
            )
            for index in range(given["count"])
        ]
    if given and not isinstance(given[0], Sequence | Mapping):
        value, weight, *time = given
        return [(value, weight, time[0] if time else 0)]
    return [sample for part in given for sample in _samples(part)]


def _add(histograms: Histograms, row: int, samples: Iterable[tuple[float, float, float]]) -> None:
    columns = np.array(list(samples), dtype=np.float64).reshape(-1, 3)
    add_series(histograms, row, columns[:, 0], columns[:, 1], columns[:, 2])


def _fed(case: Mapping[str, Any]) -> Histograms:
    histograms = _histograms(case["histogram"])
    for name in ("samples", "series"):
        if case.get(name):
            _add(histograms, 0, _samples(case[name]))
    return histograms


def _percentiles(histograms: Histograms, case: Mapping[str, Any]) -> list[float]:
    return [float(histograms.percentile(p, _ROW)[0]) for p in case.get("percentiles") or ()]


def _reference(histograms: Histograms) -> float | None:
    seconds, has = histograms.references(_ROW)
    return float(seconds[0]) if has[0] else None


def _facts(histograms: Histograms, case: Mapping[str, Any]) -> dict[str, Any]:
    weights = histograms.weights(0)
    return {
        "percentiles": _percentiles(histograms, case),
        "empty": bool(histograms.is_empty(_ROW)[0]),
        "total_weight": float(histograms.total_weights(_ROW)[0]),
        "reference_ts": _reference(histograms),
        "bucket_weights": {str(bucket): float(weights[bucket]) for bucket in np.flatnonzero(weights)},
    }


def _saved(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "bucket_weights": {str(bucket): weight for bucket, weight in checkpoint.bucket_weights.items()},
        "total_weight": checkpoint.total_weight,
        "reference_ts": checkpoint.reference_unix_seconds,
    }


def _checkpoint(given: Mapping[str, Any]) -> Checkpoint:
    return Checkpoint(
        bucket_weights={int(bucket): weight for bucket, weight in (given.get("bucket_weights") or {}).items()},
        total_weight=given.get("total_weight") or 0.0,
        reference_unix_seconds=given.get("reference_ts"),
    )


def _bucket_scheme(case: dict[str, Any]) -> dict[str, Any]:
    try:
        scheme = _histograms(case["histogram"], rows=0).scheme
    except ValueError:
        return _ERROR
    return {
        "num_buckets": scheme.count,
        "find": scheme.find(np.array(case.get("find", []), dtype=np.float64)).tolist(),
        "starts": scheme.starts(np.array(case.get("starts", []), dtype=np.int64)).tolist(),
    }


def _percentile(case: dict[str, Any]) -> dict[str, Any]:
    return _facts(_fed(case), case)


def _histogram_ops(case: dict[str, Any]) -> dict[str, Any]:
    histograms = _fed(case)
    operations = {"add": histograms.add, "subtract": histograms.subtract}
    empty_after = [bool(histograms.is_empty()[0])]
    for operation, value, weight, *time in case["operations"]:
        times = np.array([time[0] if time else 0], dtype=np.float64)
        operations[operation](_ROW, np.array([value], dtype=np.float64), np.array([weight], dtype=np.float64), times)
        empty_after.append(bool(histograms.is_empty()[0]))
    return {"empty_after": empty_after, **_facts(histograms, case)}


def _joint_samples(case: Mapping[str, Any]) -> list[tuple[float, float, float]]:
    """Return all samples in the order of the comparison: samples themselves, or places of samples or of parts."""
    parts = [_samples(part) for part in case["parts"]]
    flat = [sample for part in parts for sample in part]
    order = case.get("joint_order")
    if order is None:
        return flat
    if all(isinstance(place, int) for place in order):
        return [flat[place] for place in order] if len(order) == len(flat) else [s for p in order for s in parts[p]]
    return _samples(order)


def _merge(case: dict[str, Any]) -> dict[str, Any]:
    histograms = _histograms(case["histogram"], rows=len(case["parts"]))
    for row, part in enumerate(case["parts"]):
        _add(histograms, row, _samples(part))
    for row in range(1, len(case["parts"])):
        histograms.merge(0, histograms, row)
    joint = _histograms(case["histogram"])
    _add(joint, 0, _joint_samples(case))
    is_same = (
        histograms.used(0) == joint.used(0)
        and _reference(histograms) == _reference(joint)
        and bool((np.abs(histograms.weights(0) - joint.weights(0))[joint.used(0)] <= _AS_JOINT).all())
    )
    return {"equals_joint": is_same, **_facts(histograms, case)}


def _checkpoint_save(case: dict[str, Any]) -> dict[str, Any]:
    return _saved(checkpoints.save(_fed(case), 0))


def _checkpoint_load(case: dict[str, Any]) -> dict[str, Any]:
    histograms = _histograms(case["histogram"])
    given = case.get("checkpoint")
    try:
        checkpoints.load(histograms, 0, None if given is None else _checkpoint(given))
    except CheckpointError:
        return _ERROR
    _add(histograms, 0, _samples(case.get("then_samples") or []))
    return _facts(histograms, case)


def _checkpoint_roundtrip(case: dict[str, Any]) -> dict[str, Any]:
    before = _fed(case)
    checkpoint = checkpoints.save(before, 0)
    after = _histograms(case["histogram"])
    checkpoints.load(after, 0, checkpoint)
    _add(after, 0, _samples(case.get("then_samples") or []))
    stated = {f"{name}_before": value for name, value in _facts(before, case).items()}
    stated |= {f"{name}_after": value for name, value in _facts(after, case).items()}
    saved = {f"checkpoint_{name.removeprefix('bucket_')}": value for name, value in _saved(checkpoint).items()}
    return {**_facts(after, case), **stated, **saved}


def _state_checkpoint(case: dict[str, Any]) -> dict[str, Any]:
    cpu, memory = _default("cpu"), _default("memory")
    if "load" not in case:
        return _state_saved(case.get("save", case), cpu, memory)
    given = case["load"]
    state = StateCheckpoint(
        version=given.get("version", ""),
        first_sample_unix_seconds=given.get("first_ts"),
        last_sample_unix_seconds=given.get("last_ts"),
        samples=given.get("count", 0),
        cpu=_checkpoint(given.get("cpu_histogram") or {}),
        memory=_checkpoint(given.get("memory_histogram") or {}),
    )
    try:
        checkpoints.load_state(cpu, memory, 0, state)
    except CheckpointError:
        return _ERROR
    facts = {"first_ts": state.first_sample_unix_seconds, "last_ts": state.last_sample_unix_seconds}
    cpu_facts = {f"cpu_{name}": value for name, value in _facts(cpu, case).items()}
    memory_facts = {f"memory_{name}": value for name, value in _facts(memory, case).items()}
    return {"count": state.samples, **facts, **cpu_facts, **memory_facts}


def _state_saved(given: Mapping[str, Any], cpu: Histograms, memory: Histograms) -> dict[str, Any]:
    _add(cpu, 0, _samples(given.get("cpu_samples") or []))
    _add(memory, 0, _samples(given.get("memory_samples") or []))
    state = StateCheckpoint(
        first_sample_unix_seconds=given.get("first_ts"),
        last_sample_unix_seconds=given.get("last_ts"),
        samples=given.get("count", 0),
        cpu=checkpoints.save(cpu, 0),
        memory=checkpoints.save(memory, 0),
    )
    return {
        "version": state.version,
        "first_ts": state.first_sample_unix_seconds,
        "last_ts": state.last_sample_unix_seconds,
        "count": state.samples,
        "cpu_histogram": _saved(state.cpu),
        "memory_histogram": _saved(state.memory),
        "cpu_buckets": len(state.cpu.bucket_weights),
        "memory_buckets": len(state.memory.bucket_weights),
    }


def _amount(histograms: Histograms, resource: str, p: float) -> np.ndarray[Any, np.dtype[np.int64]]:
    to_amounts = cpu_from_cores if resource == "cpu" else memory_from_bytes
    return to_amounts(histograms.percentile(p, _ROW))


def _percentile_estimate(case: dict[str, Any]) -> dict[str, Any]:
    return {"amount": int(_amount(_fed(case), case["resource"], case["percentile"])[0])}


def _single_value(case: dict[str, Any]) -> dict[str, Any]:
    histograms = _default(case["resource"], half_life_seconds=None)
    usage = np.array([case["usage"]], dtype=np.float64)
    histograms.add(_ROW, usage, np.array([CPU_SAMPLE_WEIGHT if case["resource"] == "cpu" else PEAK_WEIGHT]))
    amount = _amount(histograms, case["resource"], 0.9)
    return {
        "bucket": int(histograms.scheme.find(usage)[0]),
        "percentile_amount": int(amount[0]),
        "target_amount": int(with_margin(amount, 0.15)[0]),
    }


def _reaction(case: dict[str, Any]) -> dict[str, Any]:
    is_cpu = case["resource"] == "cpu"
    histograms = _default(case["resource"])

    def samples(series: Mapping[str, Any]) -> list[tuple[float, float, float]]:
        weight = CPU_SAMPLE_WEIGHT if is_cpu else PEAK_WEIGHT
        return [(value / 1000.0 if is_cpu else value, weight, time) for value, _, time in _samples(series)]

    _add(histograms, 0, samples(case["before"]))
    for count, sample in enumerate(samples(case["after"]), start=1):
        _add(histograms, 0, [sample])
        amount = int(_amount(histograms, case["resource"], case["percentile"])[0])
        if amount > case["crosses"] if case["direction"] == "up" else amount < case["crosses"]:
            return {"samples_until_crossed": count}
    return {"samples_until_crossed": None}


ADAPTERS = {
    "bucket_scheme": _bucket_scheme,
    "percentile": _percentile,
    "histogram_ops": _histogram_ops,
    "merge": _merge,
    "checkpoint_save": _checkpoint_save,
    "checkpoint_load": _checkpoint_load,
    "checkpoint_roundtrip": _checkpoint_roundtrip,
    "state_checkpoint": _state_checkpoint,
    "percentile_estimate": _percentile_estimate,
    "single_value": _single_value,
    "reaction": _reaction,
}
