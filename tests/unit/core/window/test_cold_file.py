from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.unit import UnitResources
from agent.core.history.reports.rollup_figures import rollup_figures
from agent.core.window.cold_file import asked_for, cold_file, left_out_bytes, may_leave_out, policy_of
from agent.core.window.memory import memory_window
from agent.core.window.minute_row import minute_row
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import Has
from agent.core.window.snapshot import ColdFile, Missing
from tests.window_rows import ALL, NS, Rows, memory

KIB = 1024
PAGE = 4096
POLICY = WindowPolicy(capacity_millicores=2000, memory_window_seconds=60, cold_file_window_seconds=120)
EXCLUDE = replace(POLICY, leaves_out_cold_file=True)
END = 130.0


def told(rows: list[Rows], policy: WindowPolicy = POLICY, end: float = END) -> ColdFile | Missing:
    """What is told of rows, after checking that it is the same from two pieces."""
    whole = np.concatenate(rows)
    cache = cold_file((whole,), policy, end_monotonic_ns=round(end * NS))
    for cut in range(len(rows) + 1):
        assert cold_file((whole[:cut], whole[cut:]), policy, end_monotonic_ns=round(end * NS)) == cache
    return cache


def known(rows: list[Rows], policy: WindowPolicy = POLICY, end: float = END) -> tuple[int, int, int]:
    """Total, active and refaulted bytes."""
    cache = told(rows, policy, end)
    assert isinstance(cache, ColdFile)
    return cache.total_bytes, cache.active_bytes, cache.refaulted_bytes


def test_cache_that_stays_as_it_is_for_the_window_is_cold() -> None:
    rows = [memory(10 * i, 900, active=300, inactive=50, anon=500) for i in range(1, 14)]
    assert told(rows) == ColdFile(
        total_bytes=350, active_bytes=300, refaulted_bytes=0, window_seconds=120.0, is_left_out=False
    )
    left_out = told(rows, EXCLUDE)
    assert isinstance(left_out, ColdFile)
    assert left_out.is_left_out


def test_nothing_is_known_where_the_kernels_lists_do_not_tell_use() -> None:
    rows = [memory(10 * i, 900, active=300, inactive=50, anon=500) for i in range(1, 14)]
    blind = replace(EXCLUDE, tells_file_use=False)
    assert told(rows, blind) is Missing.NO_SIGNAL
    assert left_out_bytes(rows, blind, end_monotonic_ns=round(END * NS)) == 0


def test_refaults_within_the_window_are_in_use() -> None:
    # (10, 130]: the row at 10 s is where the count begins; 3 pages came back in the window, 5 before.
    rows = [memory(0, refaults=2), memory(10, refaults=7, active=50_000, inactive=9)]
    rows += [memory(10 * i, active=50_000, inactive=9, refaults=10) for i in range(2, 14)]
    assert known(rows) == (50_009 - 3 * PAGE, 50_000 - 3 * PAGE, 3 * PAGE)
    assert known(rows, replace(POLICY, page_bytes=16_384)) == (50_009 - 3 * 16_384, 50_000 - 3 * 16_384, 3 * 16_384)


def test_more_refaults_than_cache_leave_nothing_cold() -> None:
    rows = [memory(10 * i, active=2 * PAGE, inactive=2 * PAGE, refaults=i) for i in range(1, 14)]
    assert known(rows) == (0, 0, 12 * PAGE)


def test_refaults_that_fall_were_another_cgroups() -> None:
    rows = [memory(10 * i, active=9, refaults=100 if i < 5 else 0) for i in range(1, 14)]
    assert known(rows) == (9, 9, 0)


def test_pages_that_become_active_within_the_window_were_read_again() -> None:
    # Read once before the window, again at 70 s: 400 from the inactive list to the active one. None of it is cold.
    rows = [memory(10 * i, inactive=400 if i < 7 else 0, active=0 if i < 7 else 400) for i in range(1, 14)]
    assert known(rows) == (0, 0, 0)
    # The least of each list is what stayed on it.
    rows = [memory(10 * i, inactive=400 if i < 7 else 100, active=50 if i < 7 else 350) for i in range(1, 14)]
    assert known(rows) == (150, 50, 0)


@pytest.mark.parametrize(("waited_usec", "cold"), [(999_999, 300), (1_000_000, 0)])
def test_nothing_is_cold_once_a_step_waited_for_memory(waited_usec: int, cold: int) -> None:
    # 10 % of 10 s is 1 s.
    rows = [memory(10 * i, active=300, some=0 if i < 7 else waited_usec) for i in range(1, 14)]
    assert known(rows) == (cold, cold, 0)


def test_a_wait_before_the_window_is_no_matter() -> None:
    rows = [memory(10 * i, active=300, some=0 if i < 1 else 5_000_000) for i in range(14)]
    assert known(rows) == (300, 300, 0)
    assert known(rows, end=129.9) == (0, 0, 0)


def test_cold_is_not_known_before_the_window_has_passed() -> None:
    rows = [memory(10 * i, active=300) for i in range(1, 14)]
    # The first row may come up to five slow ticks after the start.
    assert known(rows, end=180.0)[0] == 300
    late = [memory(70 + 10 * i, active=300) for i in range(14)]
    assert told(late, end=139.9) is Missing.TOO_FEW_SAMPLES
    assert isinstance(told(late, end=140.0), ColdFile)


def test_the_window_is_at_least_that_of_memory() -> None:
    longer = replace(POLICY, memory_window_seconds=240, cold_file_window_seconds=120)
    rows = [memory(10 * i, active=300) for i in range(1, 14)]
    assert told(rows, longer) is Missing.TOO_FEW_SAMPLES


def test_gaps_beyond_the_policys_share_leave_it_unknown() -> None:
    rows = [memory(at, active=300) for at in (10, 20, 30, 120, 130)]  # 90 of 120 s in one pause
    assert told(rows) is Missing.GAPS
    assert known(rows, replace(POLICY, max_gap_ratio=0.75)) == (300, 300, 0)


@pytest.mark.parametrize("signal", [Has.FILE_REFAULTS, Has.MEMORY_PRESSURE, Has.MEMORY_STAT, Has.MEMORY])
def test_old_kernels_have_no_signal_and_never_none_cold(signal: Has) -> None:
    rows = [memory(10 * i, 900, active=300, has=ALL & ~signal) for i in range(1, 14)]
    assert told(rows) is Missing.NO_SIGNAL
    assert cold_file((), POLICY, end_monotonic_ns=NS) is Missing.NO_SIGNAL


def test_rows_that_were_not_read_and_later_ones_are_left_out() -> None:
    rows = [memory(10 * i, active=300) for i in range(1, 14)]
    rows.insert(5, memory(55, active=1, status=-4))
    assert known([*rows, memory(140, active=2)]) == (300, 300, 0)


@pytest.mark.parametrize(
    ("request_bytes", "limit_bytes", "may"),
    [(None, None, True), (100, None, True), (100, 200, True), (200, 200, False), (None, 200, False)],
)
def test_cold_is_asked_for_where_the_limit_is_the_request(
    request_bytes: int | None, limit_bytes: int | None, may: bool
) -> None:
    resources = UnitResources(memory_request_bytes=request_bytes, memory_limit_bytes=limit_bytes)
    assert may_leave_out(resources) is may
    assert policy_of(EXCLUDE, resources) == (EXCLUDE if may else POLICY)
    assert policy_of(POLICY, resources) is POLICY


# --- what sizing is given

amounts = st.integers(0, 1 << 40)


@st.composite
def histories(draw: st.DrawFn) -> list[Rows]:
    """Twenty readings of anonymous memory and file cache that come and go, kernel memory beside them."""
    rows = []
    refaults = some = 0
    for i in range(1, 21):
        anon, kernel, active, inactive = draw(amounts), draw(st.integers(0, 1 << 20)), draw(amounts), draw(amounts)
        refaults += draw(st.sampled_from([0, 0, 0, 1, 50, 1 << 20]))
        some += draw(st.sampled_from([0, 0, 0, 0, 5_000_000]))
        current = anon + kernel + active + inactive
        rows.append(
            memory(
                10 * i, current, anon=anon, active=active, inactive=inactive, set_peak=current - inactive,
                refaults=refaults, some=some,
            )
        )  # fmt: skip
    return rows


@given(histories())
def test_what_is_asked_for_holds_all_but_cold_cache_and_report_changes_nothing(rows: list[Rows]) -> None:
    pieces, end_ns = (np.concatenate(rows),), 200 * NS
    reported = memory_window(pieces, POLICY, end_monotonic_ns=end_ns)
    excluded = memory_window(pieces, EXCLUDE, end_monotonic_ns=end_ns)
    assert asked_for(reported) is reported
    assert left_out_bytes(pieces, POLICY, end_monotonic_ns=end_ns) == 0
    cold = excluded.cold_file
    assert cold is not None
    assert replace(excluded, cold_file=replace(cold, is_left_out=False)) == reported
    asked = asked_for(excluded)
    newest = rows[-1][0]
    assert asked.working_set_bytes is not None
    needed = int(newest["anon_bytes"]) + int(newest["active_file_bytes"]) - cold.active_bytes
    assert needed >= int(newest["anon_bytes"])
    assert needed <= asked.working_set_bytes <= int(newest["memory_current_bytes"])
    # At each reading of the memory window what is left is the working set less the cold cache, and that was there.
    inside = [row[0] for row in rows if row["monotonic_ns"][0] > end_ns - 60 * NS]
    left = [int(row["memory_current_bytes"] - row["inactive_file_bytes"]) - cold.active_bytes for row in inside]
    least = [int(row["anon_bytes"] + row["active_file_bytes"]) - cold.active_bytes for row in inside]
    assert all(0 <= floor <= value for floor, value in zip(least, left, strict=True))
    assert asked.working_set_peak_bytes == max(left)
    assert asked.working_set_p75_bytes is not None
    assert sorted(left)[math.floor(0.75 * (len(left) - 1))] - 1 <= asked.working_set_p75_bytes <= max(left)


@given(histories())
def test_a_minutes_peak_holds_all_but_cold_cache_and_report_changes_no_byte(rows: list[Rows]) -> None:
    pieces = (np.concatenate(rows),)
    gross, plain, net = (
        minute_row((), pieces, policy, monotonic_minute=2)
        for policy in (replace(POLICY, cold_file_window_seconds=1.0), POLICY, EXCLUDE)
    )
    assert gross is not None
    assert plain is not None
    assert net is not None
    assert gross.tobytes() == plain.tobytes()
    inside = [row[0] for row in rows if 120 * NS < row["monotonic_ns"][0] <= 180 * NS]
    cold = cold_file(pieces, EXCLUDE, end_monotonic_ns=180 * NS)
    assert isinstance(cold, ColdFile)
    needed = max(int(row["anon_bytes"] + row["active_file_bytes"]) - cold.active_bytes for row in inside)
    most_kib = 2**32 - 1
    assert net["working_set_peak_kib"][0] >= min(needed // KIB, most_kib)
    assert net["working_set_peak_kib"][0] <= gross["working_set_peak_kib"][0]


def test_a_minute_whose_cold_cache_is_not_known_keeps_its_peak() -> None:
    rows = np.concatenate([memory(10 * i, 900 * KIB, set_peak=900 * KIB, active=300 * KIB) for i in range(1, 14)])
    young, old = (minute_row((), (rows[first:],), EXCLUDE, monotonic_minute=1) for first in (7, 0))
    assert young is not None
    assert old is not None
    assert (young["working_set_peak_kib"][0], old["working_set_peak_kib"][0]) == (900, 600)


def test_a_report_tells_of_the_same_memory_as_the_nodes_own_minutes() -> None:
    rows = np.concatenate([memory(10 * i, 900 * KIB, set_peak=900 * KIB, active=300 * KIB) for i in range(1, 14)])
    reports = [rollup_figures((), (rows,), policy, start_ns=60 * NS, end_ns=120 * NS) for policy in (POLICY, EXCLUDE)]
    assert [report.memory.max for report in reports if report is not None and report.memory is not None] == [
        900 * KIB,
        600 * KIB,
    ]


def test_nothing_known_is_nothing_left_out() -> None:
    window = memory_window((memory(10, 500),), EXCLUDE, end_monotonic_ns=10 * NS)
    assert window.missing["cold_file"] is Missing.TOO_FEW_SAMPLES
    assert asked_for(window) is window
    absent = replace(
        window,
        working_set_p75_bytes=None,
        cold_file=ColdFile(
            total_bytes=200, active_bytes=100, refaulted_bytes=0, window_seconds=120.0, is_left_out=True
        ),
    )
    assert (asked_for(absent).working_set_bytes, asked_for(absent).working_set_p75_bytes) == (400, None)
