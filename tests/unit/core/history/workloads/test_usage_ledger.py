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
    made = HourSketch()
    for one in rows:
        made.add(one, NOW, 1)
    return made


def a_row(**fields: Any) -> RollupRow:
    """Return five minutes of one pod: 100m and 300m used half of the time each, 200 MiB in use."""
    made = row(cpu=[100.0, 300.0], memory=[200.0 * MIB, 200.0 * MIB])
    told: dict[str, Any] = {"cpu_request_millicores": 200, "memory_request_bytes": 100 * MIB, "covered_seconds": 300.0}
    return replace(made, **{**told, **fields})


def amounts(cpu: int | None = 500, memory: int | None = 512 * MIB) -> dict[str, LedgerContainer]:
    return {"app": LedgerContainer(cpu_millicores=cpu, memory_bytes=memory)}


def test_pod_that_ran_for_half_of_the_hour_counts_half() -> None:
    # Six rows of 300 s are half an hour, so everything is half of one pod's: 200m requested are 100m over the hour.
    found = ledger_hour(
        WEB, HOUR, {"app": sketch(*[a_row()] * 6)}, written=amounts(), recommended=amounts(cpu=300, memory=256 * MIB)
    )
    assert (found.workload, found.unix_hour, found.pods_milli, found.kills) == (WEB, HOUR, 500, 0)
    assert (found.cpu.written, found.cpu.requested, found.cpu.recommended) == (250, 100, 150)
    assert found.cpu.used == 100, "200m on average"
    assert found.cpu.used_p95 is not None
    assert 145 <= found.cpu.used_p95 <= 150, "300m, to the width of its bucket"
    # 300m of a request of 200m is half of the samples: 900 of 1800 s.
    assert found.cpu.short_seconds == 900
    assert (found.memory.written, found.memory.requested) == (256 * MIB, 50 * MIB)
    assert (found.memory.recommended, found.memory.used) == (128 * MIB, 100 * MIB)
    assert found.memory.short_seconds == 1800


def test_containers_are_added_up_and_pods_are_those_of_the_most() -> None:
    both = {"app": sketch(*[a_row()] * 12), "proxy": sketch(*[a_row(cpu_request_millicores=50)] * 6)}
    written = {**amounts(), "proxy": LedgerContainer(cpu_millicores=100, memory_bytes=0)}
    found = ledger_hour(WEB, HOUR, both, written=written, recommended={})
    assert found.pods_milli == 1000
    assert found.cpu.written == 500 + 50
    assert found.cpu.requested == 200 + 25
    assert found.memory.written == 512 * MIB


def test_one_container_that_is_not_known_leaves_the_sum_unknown() -> None:
    both = {"app": sketch(a_row()), "proxy": sketch(a_row())}
    found = ledger_hour(WEB, HOUR, both, written=amounts(), recommended=amounts(cpu=None))
    assert (found.cpu.written, found.memory.written) == (None, None)
    assert (found.cpu.recommended, found.memory.recommended) == (None, None)


def test_agents_that_tell_no_requests_leave_them_unknown_and_what_is_short_too() -> None:
    untold = a_row(cpu_request_millicores=None, memory_request_bytes=None)
    found = ledger_hour(WEB, HOUR, {"app": sketch(untold)}, written={}, recommended={})
    assert (found.cpu.requested, found.cpu.short_seconds) == (None, None)
    assert (found.memory.requested, found.memory.short_seconds) == (None, None)
    assert found.cpu.used is not None


def test_where_half_of_the_nodes_tell_their_requests_stand_for_all() -> None:
    untold = a_row(cpu_request_millicores=None)
    found = ledger_hour(WEB, HOUR, {"app": sketch(*[a_row(), untold] * 6)}, written={}, recommended={})
    assert found.cpu.requested == 200


def test_what_requests_nothing_is_never_short() -> None:
    found = ledger_hour(
        WEB, HOUR, {"app": sketch(a_row(cpu_request_millicores=0))}, written=amounts(cpu=0), recommended={}
    )
    assert (found.cpu.written, found.cpu.requested, found.cpu.short_seconds) == (0, 0, 0)


def test_without_samples_use_is_not_known() -> None:
    found = ledger_hour(WEB, HOUR, {"app": sketch(a_row(cpu=None))}, written={}, recommended={})
    assert (found.cpu.used, found.cpu.used_p95) == (None, None)
    assert found.cpu.short_seconds == 0


def test_kills_are_counted() -> None:
    found = ledger_hour(
        WEB,
        HOUR,
        {"app": sketch(replace(row(kills=[(5.0, None), (6.0, 7)]), covered_seconds=300.0))},
        written={},
        recommended={},
    )
    assert found.kills == 2


def test_time_of_a_request_merges_as_one() -> None:
    one, other = a_row(), a_row(cpu_request_millicores=400)
    whole = sketch(one, other)
    merged = sketch(one)
    merged.merge(sketch(other))
    assert merged.cpu_request == whole.cpu_request
    assert whole.cpu_request == RequestTime(600_000_000, 180_000, 150_000_000)
