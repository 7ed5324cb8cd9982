"""The adapters of cruisekube.json where a case stands at an edge: nothing, a tie, what is missing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance import cruisekube_admission, cruisekube_plan

ROOM = {"cpu_cores": 1.0, "memory_mb": 300}


def planned(*containers: dict[str, Any], available: dict[str, float], **common: Any) -> Any:
    """Plan pods ``a``, ``b`` and so on, each of one container."""
    pods = [
        {"name": name, "kind": "Deployment", "ranking": "low", "containers": [{"name": "c", **container}]}
        for name, container in zip("abc", containers, strict=False)
    ]
    return cruisekube_plan.ADAPTERS["optimize_node"]({"available": available, "pods": pods, **common})


def sized(cpu_base: float, cpu_peak: float | None, mem: float | None = 100, **more: float) -> dict[str, Any]:
    return {"cpu_base": cpu_base, "cpu_peak": cpu_peak, "mem_base": mem or 0, "mem_peak": mem, **more}


def test_a_base_of_nothing_fills_its_room_exactly() -> None:
    plan = planned(sized(0, 1.0), sized(0, 1.0), available=ROOM)
    assert plan["evicted"] == []
    assert {name: final["cpu_cores"] for name, final in plan["finals"].items()} == {"a/c": 0.5, "b/c": 0.5}
    assert plan["headroom"]["cpu_cores"] == 1.0


def test_an_idle_container_takes_no_room() -> None:
    busy, idle = sized(0.5, 1.0, 300), sized(0, 0, 0)
    plan = planned(busy, idle, available=ROOM)
    assert plan["evicted"] == []
    assert plan["finals"]["b/c"] == {"cpu_cores": 0.0, "memory_mb": 0.0}


def test_equal_spikes_over_nothing_and_over_something_are_a_tie() -> None:
    plan = planned(sized(0.0, 1.0), sized(0.5, 1.5), available={"cpu_cores": 1.4, "memory_mb": 4000})
    assert [eviction["pod"] for eviction in plan["evicted"]] == ["a", "b"]


@pytest.mark.parametrize(("request_cores", "is_written"), [(0.5, False), (1.0, False), (0.4, True)])
def test_without_a_prediction_a_request_is_only_raised(request_cores: float, is_written: bool) -> None:
    missing = sized(0.5, None, cpu_request=request_cores)
    plan = planned(missing, available=ROOM)
    assert plan["writes"] is is_written
    assert plan["finals"]["a/c"]["cpu_cores"] == 0.5


@pytest.mark.parametrize(
    ("start", "end", "is_inside"),
    [("* * * * *", "* * * * *", True), ("0 9 * * *", "0 9 * * *", True), ("", "", False), ("soon", "0 9 * * *", False)],
)
def test_windows_that_never_end_and_those_that_cannot_be_read(start: str, end: str, is_inside: bool) -> None:
    case = {"start_cron": start, "end_cron": end, "at": ["2026-02-10T09:29:00Z"]}
    assert cruisekube_admission.ADAPTERS["disruption_window"](case) == {"inside": [is_inside]}


def test_a_guaranteed_pod_is_admitted_as_it_is() -> None:
    case = {
        "container": {"cpu_request_cores": 0.5, "cpu_limit_cores": 1.0, "mem_request_mb": 300, "mem_limit_mb": 600},
        "stats": {"cpu_peak": 0.3, "mem_peak": 200, "mem_7d": 220},
    }
    admit = cruisekube_admission.ADAPTERS["webhook"]
    assert admit(json.loads(json.dumps(case)))["cpu_request"] == 0.3
    assert admit({**case, "qos": "Guaranteed"}) == {
        "cpu_request": None,
        "memory_request": None,
        "cpu_limit": "keep",
        "memory_limit": None,
    }
