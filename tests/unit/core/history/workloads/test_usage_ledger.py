"""A workload's row of the ledger, from the hour's sketches of its containers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import RollupRow
from agent.core.history.workloads.hour_sketch import HourSketch, ReportInterval, RequestTime
from agent.core.history.workloads.usage_ledger import LedgerContainer, ledger_hour
from tests.webhook.workload_reports import MIB, NOON, row

HOUR = NOON // 3600
NOW = ReportInterval(start_unix_seconds=NOON, end_unix_seconds=NOON + 300, unix_hour=HOUR)
WEB = Workload(namespace="shop", kind="Deployment", name="web")


def sketch(*rows: RollupRow) -> HourSketch:
    hour_sketch = HourSketch()
    for rollup in rows:
        hour_sketch.add(rollup, NOW, 1)
    return hour_sketch


def a_row(**fields: Any) -> RollupRow:
    """Return five minutes of one pod: 100m and 300m used half of the time each, 200 MiB in use."""
    rollup = row(cpu=[100.0, 300.0], memory=[200.0 * MIB, 200.0 * MIB])
    facts: dict[str, Any] = {"cpu_request_millicores": 200, "memory_request_bytes": 100 * MIB, "covered_seconds": 300.0}
    return replace(rollup, **{**facts, **fields})


def amounts(cpu: int | None = 500, memory: int | None = 512 * MIB) -> dict[str, LedgerContainer]:
    return {"app": LedgerContainer(cpu_millicores=cpu, memory_bytes=memory)}


def test_pod_that_ran_for_half_of_the_hour_counts_half() -> None:
    # Six rows of 300 s are half an hour, so everything is half of one pod's: 200m requested are 100m over the hour.
    hour = ledger_hour(
        WEB, HOUR, {"app": sketch(*[a_row()] * 6)}, written=amounts(), recommended=amounts(cpu=300, memory=256 * MIB)
    )
    assert (hour.workload, hour.unix_hour, hour.pods_milli, hour.kills) == (WEB, HOUR, 500, 0)
    assert (hour.cpu.written, hour.cpu.requested, hour.cpu.recommended) == (250, 100, 150)
    assert hour.cpu.used == 100, "200m on average"
    assert hour.cpu.used_p95 is not None
    assert 145 <= hour.cpu.used_p95 <= 150, "300m, to the width of its bucket"
    # 300m of a request of 200m is half of the samples: 900 of 1800 s.
    assert hour.cpu.short_seconds == 900
    assert (hour.memory.written, hour.memory.requested) == (256 * MIB, 50 * MIB)
    assert (hour.memory.recommended, hour.memory.used) == (128 * MIB, 100 * MIB)
    assert hour.memory.short_seconds == 1800


def test_containers_are_added_up_and_pods_are_those_of_the_most() -> None:
    both = {"app": sketch(*[a_row()] * 12), "proxy": sketch(*[a_row(cpu_request_millicores=50)] * 6)}
    written = {**amounts(), "proxy": LedgerContainer(cpu_millicores=100, memory_bytes=0)}
    hour = ledger_hour(WEB, HOUR, both, written=written, recommended={})
    assert hour.pods_milli == 1000
    assert hour.cpu.written == 500 + 50
    assert hour.cpu.requested == 200 + 25
    assert hour.memory.written == 512 * MIB


def test_one_container_that_is_not_known_leaves_the_sum_unknown() -> None:
    both = {"app": sketch(a_row()), "proxy": sketch(a_row())}
    hour = ledger_hour(WEB, HOUR, both, written=amounts(), recommended=amounts(cpu=None))
    assert (hour.cpu.written, hour.memory.written) == (None, None)
    assert (hour.cpu.recommended, hour.memory.recommended) == (None, None)


def test_agents_that_tell_no_requests_leave_them_unknown_and_what_is_short_too() -> None:
    untold = a_row(cpu_request_millicores=None, memory_request_bytes=None)
    hour = ledger_hour(WEB, HOUR, {"app": sketch(untold)}, written={}, recommended={})
    assert (hour.cpu.requested, hour.cpu.short_seconds) == (None, None)
    assert (hour.memory.requested, hour.memory.short_seconds) == (None, None)
    assert hour.cpu.used is not None


def test_where_half_of_the_nodes_tell_their_requests_stand_for_all() -> None:
    untold = a_row(cpu_request_millicores=None)
    hour = ledger_hour(WEB, HOUR, {"app": sketch(*[a_row(), untold] * 6)}, written={}, recommended={})
    assert hour.cpu.requested == 200


def test_what_requests_nothing_is_never_short() -> None:
    hour = ledger_hour(
        WEB, HOUR, {"app": sketch(a_row(cpu_request_millicores=0))}, written=amounts(cpu=0), recommended={}
    )
    assert (hour.cpu.written, hour.cpu.requested, hour.cpu.short_seconds) == (0, 0, 0)


def test_without_samples_use_is_not_known() -> None:
    hour = ledger_hour(WEB, HOUR, {"app": sketch(a_row(cpu=None))}, written={}, recommended={})
    assert (hour.cpu.used, hour.cpu.used_p95) == (None, None)
    assert hour.cpu.short_seconds == 0


def test_kills_are_counted() -> None:
    hour = ledger_hour(
        WEB,
        HOUR,
        {"app": sketch(replace(row(kills=[(5.0, None), (6.0, 7)]), covered_seconds=300.0))},
        written={},
        recommended={},
    )
    assert hour.kills == 2


def test_time_of_a_request_merges_as_one() -> None:
    rollup, other = a_row(), a_row(cpu_request_millicores=400)
    whole = sketch(rollup, other)
    merged = sketch(rollup)
    merged.merge(sketch(other))
    assert merged.cpu_request == whole.cpu_request
    assert whole.cpu_request == RequestTime(600_000_000, 180_000, 150_000_000)
