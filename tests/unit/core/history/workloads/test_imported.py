"""Hours that were read elsewhere: what they come to, how much they count, and that agents' hours come before them."""

from __future__ import annotations

import numpy as np
import pytest

from agent.core.cluster.workload import Workload
from agent.core.history.minute.minute_codec import encode
from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS, NodeClass
from agent.core.history.reports.rollup_figures import distribution
from agent.core.history.workloads.hour_sketch import cpu_percentile_millicores, memory_percentile_bytes
from agent.core.history.workloads.imported import (
    IMPORTED,
    ImportedHour,
    ImportedKill,
    imported_key,
    imported_sketch,
    is_imported,
    standing_in,
    widen,
    widened,
    wider_amount,
)
from agent.core.history.workloads.node_peaks import amount_of
from agent.core.history.workloads.sketch_key import SketchKey, parse_key

pytestmark = pytest.mark.covers_core
WEB = Workload(namespace="shop", kind="Deployment", name="web")
MIB = 1 << 20
HOUR = 500_000


def hour(**changes: object) -> ImportedHour:
    values = np.array([100.0] * 45 + [200.0] * 15)
    fields = {
        "workload": WEB,
        "container": "app",
        "unix_hour": HOUR,
        "covered_seconds": 3600.0,
        "pods": 2,
        "cpu": distribution(values, CPU_BUCKETS),
        "cpu_adjusted": None,
        "memory": distribution(values * MIB, MEMORY_BUCKETS),
    }
    return ImportedHour(**{**fields, **changes})  # type: ignore[arg-type]


def test_the_key_is_one_that_an_older_webhook_reads_as_a_class_without_cpus() -> None:
    key = imported_key(WEB, "app")
    assert str(key) == "shop/Deployment/web/app/c/0/prometheus"
    assert parse_key(str(key)) == key == hour().key
    assert is_imported(key)
    assert not is_imported(SketchKey(WEB, "app", NodeClass(instance_type="prometheus", cpus=8)))
    assert not is_imported(SketchKey(WEB, "app", "node-a"))
    assert IMPORTED.cpus == 0


def test_an_hour_is_kept_as_it_was_read() -> None:
    kills = (ImportedKill(second=10.5, memory_bytes=300 * MIB), ImportedKill(second=20.0, memory_bytes=None))
    sketch = imported_sketch(hour(kills=kills, cpu_adjusted=distribution(np.array([250.0]), CPU_BUCKETS)))
    assert (sketch.rows, sketch.first_unix_seconds, sketch.last_unix_seconds) == (1, HOUR * 3600, HOUR * 3600 + 3600)
    assert sketch.covered.seconds == 3600.0
    assert sketch.cpu.count == 60
    assert sketch.cpu.largest == 200_000  # microcores
    assert sketch.demand.largest == 250_000
    assert sketch.memory.largest == 200 * MIB
    assert amount_of(sketch.memory_leaders.top) == 200 * 1024  # KiB
    assert amount_of(sketch.demand_leaders.top) == 250 * 8  # eighths of a millicore
    assert sketch.demand_leaders.node == sketch.memory_leaders.node == 0
    assert (sketch.kills.count, sketch.kills.largest_bytes) == (2, 300 * MIB)
    assert sketch.kills.newest_unix_seconds == HOUR * 3600 + 20
    assert sketch.pods.count == 2


def test_an_hour_may_know_one_resource_alone() -> None:
    assert imported_sketch(hour(cpu=None)).cpu.count == 0
    assert imported_sketch(hour(memory=None)).memory.count == 0


@pytest.mark.parametrize(("pods", "least", "most"), [(1, 1, 1), (8, 8, 8), (9, 9, 10), (100, 80, 120)])
def test_pods_are_counted(pods: int, least: int, most: int) -> None:
    assert least <= imported_sketch(hour(pods=pods)).pods.count <= most


def test_imported_figures_count_with_a_tenth_more() -> None:
    # 100 of 60 samples' 45, so P50 is 100 and P99 is 200; with a tenth more 110 and 220, within a bucket of 5 %
    sketch = imported_sketch(hour())
    widen(sketch)
    p50, p99 = (cpu_percentile_millicores(sketch.demand, ratio) for ratio in (0.5, 0.99))
    assert p50 == pytest.approx(110, rel=0.06)
    assert p99 == pytest.approx(220, rel=0.06)
    assert sketch.cpu.largest == 220_000
    assert sketch.cpu.count == sum(sketch.cpu.buckets.values()) == 60
    assert memory_percentile_bytes(sketch.memory, 0.5) == pytest.approx(110 * MIB, rel=0.06)
    assert wider_amount(10) == 11


def test_peaks_count_with_a_tenth_more_where_no_agent_told_of_the_hour() -> None:
    own = encode(np.array([[100.0, 0.0, 0.0]] * 2), np.array([[True, False, False]] * 2))
    imported = encode(np.array([[1000.0, 1000.0, 0.0]] * 2), np.array([[True, True, False]] * 2))
    codes = standing_in(own, widened(imported))
    assert [amount_of(int(code)) for code in codes[0]] == [100, 1100, None]
