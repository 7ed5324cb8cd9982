"""core/history/minute/minutes.py: the node's minute from its cgroups'."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agent.core.history.minute.minutes import Minutes, as_kept, merge_rows


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


@given(
    st.lists(st.floats(min_value=0, max_value=1e6), min_size=1, max_size=20),
    st.lists(st.integers(min_value=0, max_value=1 << 45), min_size=1, max_size=20),
)
def test_as_kept_never_understates_and_is_within_the_precision_of_the_history(
    cpu: list[float], memory: list[int]
) -> None:
    count = min(len(cpu), len(memory))
    has = np.ones(count, dtype=np.bool_)
    amounts, sizes = np.array(cpu[:count]), np.array(memory[:count], dtype=np.float64)
    minutes = Minutes(
        unix_minute=7,
        cpu_usage_millicores=amounts,
        cpu_peak_millicores=amounts,
        has_cpu=has,
        working_set_bytes=sizes,
        has_memory=has,
    )
    copy = as_kept(minutes)
    assert copy.has_cpu.all()
    assert (copy.cpu_usage_millicores >= amounts).all()
    # An eighth of a millicore, or one in 2,048 where that is more.
    assert (copy.cpu_usage_millicores - amounts <= np.maximum(amounts / 2048, 1 / 8)).all()
    assert (copy.working_set_bytes >= sizes).all()
    assert (copy.working_set_bytes - sizes <= np.maximum(sizes / 2048, 1024)).all()
    # Up to four cores, whole millicores rounded up are the same before and after: what the policy vpa takes.
    small = amounts <= 4096
    assert (np.ceil(copy.cpu_usage_millicores[small]) == np.ceil(amounts[small])).all()
    assert np.array_equal(as_kept(copy).cpu_usage_millicores, copy.cpu_usage_millicores)


def test_a_minute_comes_back_from_the_history_in_eighths_of_a_millicore_and_in_kib() -> None:
    minutes = Minutes(
        unix_minute=7,
        cpu_usage_millicores=np.array([100.3, 5.0]),
        cpu_peak_millicores=np.array([200.0, 6.0]),
        has_cpu=np.array([True, False]),
        working_set_bytes=np.array([4097.0, 10.0]),
        has_memory=np.array([True, False]),
    )
    copy = as_kept(minutes)
    # 100.3 x 8 = 802.4 is rounded up to 803 eighths; 4097 bytes are a little more than 4 KiB, so 5.
    assert copy.cpu_usage_millicores[0] == 803 / 8
    assert copy.cpu_peak_millicores[0] == 200.0
    assert copy.working_set_bytes[0] == 5 * 1024
    assert (copy.unix_minute, copy.has_cpu.tolist(), copy.has_memory.tolist()) == (7, [True, False], [True, False])
