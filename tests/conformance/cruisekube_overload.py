"""Adapter from the cases ``node_overload`` of cruisekube.json to the real rule: translates names, holds no rule."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from agent.core.orders.plan_options import OverloadOptions
from agent.core.window.overload import LoadReading, judge_overload


def _unix_seconds(moment: float | str) -> float:
    if not isinstance(moment, str):
        return float(moment)
    parsed = datetime.fromisoformat(moment)
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def _node_overload(case: dict[str, Any]) -> dict[str, Any]:
    defaults = OverloadOptions()
    threshold = case.get("threshold", defaults.load_per_cpu_threshold)
    verdict = judge_overload(
        # The cases' series come from scrapes a minute apart and know no pressure: each reading speaks for its time.
        [
            LoadReading(seconds=_unix_seconds(sample[0]), load_per_cpu=sample[1])
            for sample in case["samples"]
            if sample[1] is not None
        ],
        OverloadOptions(
            load_per_cpu_threshold=threshold,
            release_load_per_cpu=case.get("release_threshold", threshold),
            window_seconds=case.get("window_s", defaults.window_seconds),
        ),
        now_seconds=_unix_seconds(case["now"]),
        was_overloaded=bool(case.get("tainted", False)),
    )
    return {"tainted": verdict.is_overloaded}


ADAPTERS = {"node_overload": _node_overload}
