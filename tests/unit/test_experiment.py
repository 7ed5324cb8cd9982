"""What ``make experiment`` makes of its records: intervals, counters, the page. Without a guest."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.experiment import page, records
from tests.experiment.arms import BUDGET_MIB, BUDGET_MILLICORES, CONTAINERS, SHARED, Arm, shape_of
from tests.experiment.experiment import CPU_SECONDS, LEAST_UNITS, TRIAL, counted, requests_in
from tests.experiment.intervals import Estimate, median, ratio_of_medians
from tests.experiment.records import LOADS, OPERATIONS, Block, Counters, Operation


def operation(arm: str, name: str, seconds: float, *, pod: str = "space-0", is_good: bool = True) -> Operation:
    return Operation(
        arm=arm, block=1, pod=pod, name=name, begun=100.0, ended=100.0 + seconds, cpu_seconds=1.0, is_good=is_good
    )


def block(arm: str, cpu_ratio: float = 0.5) -> Block:
    return Block(
        arm=arm,
        number=1,
        pods=2,
        window_seconds=60.0,
        cpu_ratio=cpu_ratio,
        pods_millicores=900.0,
        throttled_ratio=0.25,
        throttled_seconds=3.0,
        waiting_ratio=0.5,
        memory_peak_bytes=150 << 20,
        oom_kills=0,
    )


# -- intervals ---------------------------------------------------------------------------------------------------------


def test_of_equal_values_the_interval_is_the_value() -> None:
    estimate = median([[4.0, 4.0], [4.0, 4.0, 4.0]])
    assert estimate == Estimate(value=4.0, low=4.0, high=4.0, count=5)


def test_the_median_is_of_all_values_and_lies_in_its_interval() -> None:
    estimate = median([[1.0, 2.0, 3.0], [4.0, 5.0], [6.0]])
    assert estimate is not None
    assert (estimate.value, estimate.count) == (3.5, 6)
    assert 1.0 <= estimate.low < 3.5 < estimate.high <= 6.0


def test_pods_that_differ_widen_the_interval_more_than_repetitions_do() -> None:
    # The same twenty values: pods all alike, or each pod of one value.
    alike = median([[1.0, 2.0, 3.0, 4.0]] * 5)
    apart = median([[1.0] * 5, [2.0] * 5, [3.0] * 5, [4.0] * 5])
    assert alike is not None
    assert apart is not None
    assert apart.high - apart.low > alike.high - alike.low


def test_the_interval_holds_the_true_median_nineteen_times_of_twenty() -> None:
    random = np.random.default_rng(5)
    held = 0
    for _ in range(20):
        estimate = median([list(random.normal(10.0, 1.0, size=8)) for _ in range(8)])
        assert estimate is not None
        held += estimate.low <= 10.0 <= estimate.high
    assert held >= 17  # 19 expected of 20; eight pods are few


def test_a_ratio_has_the_interval_of_both_arms() -> None:
    estimate = ratio_of_medians([[8.0, 8.0]], [[2.0, 2.0], [2.0]])
    assert estimate == Estimate(value=4.0, low=4.0, high=4.0, count=2)
    wide = ratio_of_medians([[6.0, 8.0, 10.0]], [[2.0, 2.5], [1.5]])
    assert wide is not None
    assert wide.value == 4.0
    assert wide.low < 4.0 < wide.high


@pytest.mark.parametrize("groups", [[], [[]], [[], []]])
def test_without_values_there_is_no_figure(groups: list[list[float]]) -> None:
    assert median(groups) is None
    assert ratio_of_medians(groups, [[1.0]]) is None
    assert ratio_of_medians([[1.0]], groups) is None


def test_a_ratio_to_nothing_is_no_figure() -> None:
    assert ratio_of_medians([[1.0]], [[0.0, 0.0]]) is None


# -- records -----------------------------------------------------------------------------------------------------------


def test_of_a_containers_log_the_own_lines_are_read() -> None:
    log = "\n".join(
        (
            '2026-11-22T23:00:00Z stdout F {"event": "begun", "role": "ide"}',
            "2026-11-22T23:00:01Z stderr F Traceback",
            '2026-11-22T23:00:01Z stdout P {"event": "half',
            "nonsense",
        )
    )
    assert records.told(log) == [{"event": "begun", "role": "ide"}]


def test_a_load_is_from_the_first_start_up_to_the_last() -> None:
    lines = [
        {"event": "started", "role": "ide", "begun": 10.0, "ended": 14.0, "cpu_seconds": 1.5, "is_good": True},
        {"event": "started", "role": "lsp", "begun": 14.5, "ended": 19.0, "cpu_seconds": 1.5, "is_good": True},
    ]
    where = {"arm": "A", "pod": "space-1", "name": LOADS[1]}
    (load,) = records.loads(lines, block=1, **where)
    assert (load.seconds, load.cpu_seconds, load.is_good) == (9.0, 3.0, True)
    assert records.loads(lines[:1], block=1, **where) == []


def snapshot(uptime: float, root_usec: int, pod_usec: int, throttled: int) -> records.Snapshot:
    text = "\n".join(
        (
            f"/proc/uptime:{uptime} 3.00",
            f"/sys/fs/cgroup/cpu.stat:usage_usec {root_usec}",
            f"/sys/fs/cgroup/kubepods/pod1/cpu.stat:usage_usec {pod_usec}",
            "/sys/fs/cgroup/kubepods/pod1/cpu.pressure:some avg10=0.00 avg60=0.00 avg300=0.00 total=500000",
            "/sys/fs/cgroup/kubepods/pod1/memory.events:oom_kill 1",
            "/sys/fs/cgroup/kubepods/pod1/memory.peak:4096",
            "/sys/fs/cgroup/kubepods/pod1/abc/cpu.stat:nr_periods 100",
            f"/sys/fs/cgroup/kubepods/pod1/abc/cpu.stat:nr_throttled {throttled}",
            "/sys/fs/cgroup/other/cpu.stat:usage_usec 99",
        )
    )
    places = {
        "/sys/fs/cgroup": "root",
        "/sys/fs/cgroup/kubepods/pod1": "space-0",
        "/sys/fs/cgroup/kubepods/pod1/abc": "space-0/ide",
    }
    return records.parse_snapshot(text, places)


def test_a_snapshot_has_each_cgroups_counters_and_no_strangers() -> None:
    cgroup_snapshot = snapshot(50.0, 7, 5, 3)
    assert cgroup_snapshot.root == Counters(usage_usec=7)
    assert set(cgroup_snapshot.cgroups) == {"space-0", "space-0/ide"}
    pod = cgroup_snapshot.cgroups["space-0"]
    assert (pod.waiting_usec, pod.oom_kills, pod.memory_peak_bytes, pod.nr_throttled) == (500000, 1, 4096, None)


def test_a_snapshot_without_a_time_is_refused() -> None:
    with pytest.raises(ValueError, match="uptime"):
        records.parse_snapshot("cannot open", {})


def test_a_block_is_what_grew_between_two_snapshots() -> None:
    # 12 s of 2 CPUs in 10 s are 60 %; the pod's 5 s are 500m.
    growth = records.block_of(
        snapshot(50.0, 0, 0, 0),
        snapshot(60.0, 12_000_000, 5_000_000, 40),
        arm="A",
        number=3,
        cpus=2,
        containers=["ide"],
    )
    assert (growth.pods, growth.window_seconds, growth.cpu_ratio, growth.pods_millicores) == (1, 10.0, 0.6, 500.0)
    assert growth.throttled_ratio == 0.0  # no period was counted between the two
    assert growth.oom_kills == 0


def test_lines_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    values = ([operation("A", "build", 20.0)], [block("A")])
    records.write_lines(file, values[0])
    records.write_lines(file, values[1])
    with file.open("a") as more:
        more.write(json.dumps({"kind": "Later", "x": 1}) + "\n")
    assert records.read_lines(file) == values


# -- arms --------------------------------------------------------------------------------------------------------------


def test_the_split_limits_add_up_to_the_budget() -> None:
    limits = [requirements["limits"] for requirements in shape_of(Arm.SPLIT).resources.values()]
    assert sum(int(limit["cpu"].removesuffix("m")) for limit in limits) == BUDGET_MILLICORES
    assert sum(int(limit["memory"].removesuffix("Mi")) for limit in limits) == BUDGET_MIB


@pytest.mark.parametrize("arm", list(Arm))
def test_every_arm_requests_the_same_and_has_limits_in_one_place(arm: Arm) -> None:
    shape = shape_of(arm)
    assert requests_in(shape.resources) == requests_in(shape_of(Arm.SPLIT).resources)
    has_own = [name for name in CONTAINERS if "limits" in shape.resources[name]]
    assert has_own == ([] if arm in SHARED else list(CONTAINERS))
    assert ("plimsoll.dev/pod-limits" in shape.annotations) is (arm in SHARED)


def test_operations_are_sized_by_what_a_trial_cost() -> None:
    assert counted("build", CPU_SECONDS["build"]) == TRIAL["build"]
    assert counted("install", CPU_SECONDS["install"] * 2) == TRIAL["install"] // 2
    assert counted("install", 1e6) == 1
    assert counted("build", 1e6) == LEAST_UNITS


# -- page --------------------------------------------------------------------------------------------------------------


def test_the_table_has_a_row_for_each_operation_and_the_proposals_figures() -> None:
    done = [operation("A", "build", 24.0), operation("B1", "build", 6.0), operation("B1", "build", 99.0, is_good=False)]
    lines = page.table(done, [block("A"), block("B1")]).splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in lines[2:]] == [*OPERATIONS, *LOADS]
    assert "| build | 90 s, 29 s | 3.1 | 24.0 (24.0 to 24.0) | 6.0 (6.0 to 6.0) | 4.0 (4.0 to 4.0) |" in lines
    assert "| watch | 5 s, 2 s | 2.5 | - | - | - |" in lines


def test_budgets_that_the_agent_wrote_are_compared_with_split_limits_too() -> None:
    done = [operation("A", "build", 24.0), operation("B2", "build", 6.0)]
    lines = page.table(done, [block("A"), block("B2")]).splitlines()
    assert lines[0].endswith("| A, s | B2, s | A / B2 |")
    assert "| build | 90 s, 29 s | 3.1 | 24.0 (24.0 to 24.0) | 6.0 (6.0 to 6.0) | 4.0 (4.0 to 4.0) |" in lines


def test_work_for_each_cpu_second_is_beside_the_seconds() -> None:
    # 24 s and 6 s for one CPU-second each.
    done = [operation("A", "build", 24.0), operation("B1", "build", 6.0)]
    lines = page.stretch_table(done, [block("A"), block("B1")]).splitlines()
    assert "| build | 24.0 (24.0 to 24.0) | 6.0 (6.0 to 6.0) | 4.0 (4.0 to 4.0) |" in lines


def test_the_nodes_figures_are_the_mean_of_an_arms_blocks() -> None:
    text = page.node_table([operation("A", "build", 24.0)], [block("A", 0.5), block("A", 0.7)])
    assert "| A: limits split over the containers | 2 | 2 | 1 | 60 % | 900m | 25 % | 50 % | 150 MiB | 0 |" in text


def test_bars_are_as_long_as_the_figures() -> None:
    done = [operation("A", "build", 20.0), operation("B1", "build", 5.0)]
    lines = page.picture(done, [block("A"), block("B1")]).splitlines()
    assert lines[0] == "build"
    assert lines[1].count("█") == page.PICTURE_WIDTH
    assert lines[2].count("█") in {page.PICTURE_WIDTH // 4, page.PICTURE_WIDTH // 4 + 1}
    assert lines[2].endswith(" 5.0 s")


def test_the_page_goes_between_its_marks_and_nowhere_else(tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    file.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    page.put(file, "new")
    assert file.read_text() == f"before\n{page.BEGIN}\nnew\n{page.END}\nafter\n"
    file.write_text("no marks")
    with pytest.raises(ValueError, match="no <!-- experiment"):
        page.put(file, "new")
