"""What of an hour counts where a claim is bounded, and who claims the most."""

from __future__ import annotations

import random

import numpy as np

from agent.core.history.workloads.hour_sketch import HourSketch, ReportInterval, demand_code, largest_demand_code
from agent.core.history.workloads.node_claims import Most, code_within
from agent.core.history.workloads.node_peaks import Leaders
from agent.core.history.workloads.peak_rings import LEADER_PLANES, MEMORY, RING_HOURS, add_leader, leaders_of
from tests.webhook.workload_reports import MIB, NOON, row

INTERVAL = ReportInterval.of(received_unix_seconds=float(NOON), end_age_seconds=0.0, interval_seconds=300.0)


def test_maxima_and_kills_are_cut_and_what_is_below_stays() -> None:
    sketch = HourSketch()
    sketch.add(row(cpu=[100.0, 900.0], memory=500.0 * MIB, kills=[(1.0, 700 * MIB)]), INTERVAL, 1)
    most = Most(code_within(200 * 8), code_within(300 * 1024), kill_most_kib=400 * 1024)
    sketch.cut(most)
    assert (sketch.cpu.largest, sketch.demand.largest) == (200_000, 200_000)
    assert (sketch.memory.largest, sketch.kills.largest_bytes) == (300 * MIB, 400 * MIB)
    sketch.cut(Most())
    assert sketch.cpu.largest == 200_000


def test_what_was_used_is_claimed_though_the_demand_is_told_lower() -> None:
    rollup = row(cpu=900.0, adjusted=10.0)
    assert rollup.cpu is not None
    assert rollup.cpu_adjusted is not None
    assert largest_demand_code(rollup.cpu, rollup.cpu_adjusted) == demand_code(rollup.cpu)
    sketch = HourSketch()
    sketch.add(rollup, INTERVAL, 7)
    assert sketch.demand_leaders == Leaders(demand_code(rollup.cpu), 7, 0)


def test_leaders_of_all_hours_are_those_of_one() -> None:
    lots = random.Random(3)
    planes = np.zeros((100, LEADER_PLANES, RING_HOURS), dtype=np.uint16)
    largest: list[dict[int, int]] = [{} for _ in planes]
    for ring, known in zip(planes, largest, strict=True):
        for _ in range(lots.randrange(1, 60)):
            code, node = lots.randrange(1, 5000), lots.randrange(1, 5)
            add_leader(ring, MEMORY, lots.randrange(RING_HOURS), code, node)
            known[node] = max(known.get(node, 0), code)
    for (cpu, memory), known in zip(leaders_of(planes), largest, strict=True):
        assert memory.top == known[memory.node] == max(known.values())
        assert memory.second == max((code for node, code in known.items() if node != memory.node), default=0)
        assert cpu == Leaders()
    assert leaders_of(planes[:0]) == []
