"""core/minute_rows.py: the node's minute from its cgroups'."""

from __future__ import annotations

import numpy as np

from agent.core.minute_rows import merge_rows


def test_cgroups_of_one_row_give_the_largest_of_each_figure() -> None:
    minutes = merge_rows(
        7,
        np.array([2, 0, 2, 2]),
        cpu_usage_millicores=np.array([100.0, 5.0, 80.0, 999.0]),
        cpu_peak_millicores=np.array([120.0, 6.0, 200.0, 999.0]),
        has_cpu=np.array([True, True, True, False]),
        working_set_bytes=np.array([10.0, 999.0, 30.0, 20.0]),
        has_memory=np.array([True, False, True, True]),
        count=4,
    )
    assert minutes.unix_minute == 7
    # Row 2: 100 of the first, 200 of the second; the third of them has no CPU. Row 0 has no memory. 1 and 3: nobody.
    assert minutes.cpu_usage_millicores.tolist() == [5, 0, 100, 0]
    assert minutes.cpu_peak_millicores.tolist() == [6, 0, 200, 0]
    assert minutes.has_cpu.tolist() == [True, False, True, False]
    assert minutes.working_set_bytes.tolist() == [0, 0, 30, 0]
    assert minutes.has_memory.tolist() == [False, False, True, False]


def test_no_cgroup_gives_a_minute_that_knows_nothing() -> None:
    none, nobody = np.zeros(0), np.zeros(0, dtype=np.bool_)
    minutes = merge_rows(
        7,
        np.zeros(0, dtype=np.intp),
        cpu_usage_millicores=none,
        cpu_peak_millicores=none,
        has_cpu=nobody,
        working_set_bytes=none,
        has_memory=nobody,
        count=2,
    )
    assert minutes.has_cpu.tolist() == minutes.has_memory.tolist() == [False, False]
