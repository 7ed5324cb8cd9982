"""Every counter that a sweep reads is told: in ``top``, in ``why`` or on the metrics page. A column that nothing reads
costs each sweep, and tells nobody."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from agent.cli.recommender.why_figures import memory_lines
from agent.cli.text.paragraphs import Page
from agent.cli.text.spans import ASCII
from agent.cli.top.detail import detail_lines
from agent.core.window.cpu import cpu_window
from agent.core.window.memory import memory_window
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import MEMORY_ROW, SAMPLE, Has
from agent.core.window.snapshot import UnitStatus
from agent.metrics.container_series import ContainerPage, to_container_series
from agent.node.recommender.evaluation_series import totals_of
from agent.sensing.ring_file import RingFile
from agent.sensing.state_file import RingGeometry
from tests.explanations import explanation
from tests.snapshots import container
from tests.subjects import subject

NS = 1_000_000_000
ALL = sum(Has)
INODE = 7
END_SECONDS = 100
NOT_TOLD = {
    "status": "why the others mean nothing",
    "has": "which of the others mean something",
    "monotonic_ns": "when the others were read",
}
URGENCY_ALONE = {"memory_current_bytes": "of each second: for core.window.urgency, which has tests of its own"}
UNREAD_ONCE = {"memory_full_usec", "high_events", "io_some_usec"}
"""These must be told in all three places; so said the issue that found them."""

Rows = NDArray[np.void]


def rows_of(kind: np.dtype[np.void]) -> Rows:
    """Return two rows, the second after all counters have gone on."""
    rows = np.zeros(2, dtype=kind)
    for name in kind.names or ():
        if name not in NOT_TOLD:
            rows[name] = 1_000_000, 1_500_000
    rows["has"] = ALL
    rows["monotonic_ns"] = (END_SECONDS - 10) * NS, END_SECONDS * NS
    return rows


def told(samples: Rows, memory_rows: Rows) -> dict[str, str]:
    """Return what ``top``, ``why`` and the metrics say of a cgroup with these rows."""
    with RingFile.open(None, RingGeometry(max_slots=1), boot_id="b") as rings:
        slot = rings.attach("a", INODE, now_monotonic_ns=1)
        for place in range(2):
            rings.append_raw(slot, samples[place : place + 1])
            rings.append_memory(slot, memory_rows[place : place + 1])
        policy = WindowPolicy(
            capacity_millicores=100_000,
            max_step_seconds=20.0,
            memory_window_seconds=20.0,
            cold_file_window_seconds=20.0,
            page_bytes=1,
        )
        end_ns = END_SECONDS * NS
        cpu = cpu_window((samples,), policy, end_monotonic_ns=end_ns)
        memory = memory_window((memory_rows,), policy, end_monotonic_ns=end_ns)
        status: UnitStatus = replace(container(), cpu=cpu, memory=memory)
        series = to_container_series(status)
        totals = totals_of(rings, {slot: (INODE, series.labels)})
        page, _ = ContainerPage(max_series=100).render([series], totals=totals)
    of_top = detail_lines(status, width=200, glyphs=ASCII, marks=False)
    of_why = memory_lines(explanation(subject(cpu=cpu, memory=memory)), Page(width=200, glyphs=ASCII))
    return {
        "top": "\n".join("".join(span.text for span in line) for line in of_top),
        "why": "\n".join("".join(span.text for span in line) for line in of_why),
        "metrics": page,
    }


def places_of(kind: np.dtype[np.void], column: str) -> set[str]:
    """Return where a column is told: another value there changes what is said."""
    samples, memory_rows = rows_of(SAMPLE), rows_of(MEMORY_ROW)
    before = told(samples, memory_rows)
    changed = samples if kind is SAMPLE else memory_rows
    falls = {"nr_throttled": -250_000, "inactive_file_bytes": -1_000_000, "active_file_bytes": -1_000_000}
    step = {"nr_periods": 500_000, "workingset_refault_file_pages": 400_000, **falls}.get(column, 4_000_000)
    changed[column][1] = int(changed[column][1]) + step
    after = told(samples, memory_rows)
    return {place for place in before if before[place] != after[place]}


@pytest.mark.parametrize("column", [name for name in SAMPLE.names or () if name not in {*NOT_TOLD, *URGENCY_ALONE}])
def test_every_column_of_a_raw_row_is_told(column: str) -> None:
    assert places_of(SAMPLE, column)


@pytest.mark.parametrize("column", [name for name in MEMORY_ROW.names or () if name not in NOT_TOLD])
def test_every_column_of_a_memory_row_is_told(column: str) -> None:
    places = places_of(MEMORY_ROW, column)
    assert places == {"top", "why", "metrics"} if column in UNREAD_ONCE else places


@pytest.mark.parametrize("kind", [SAMPLE, MEMORY_ROW])
def test_no_column_is_left_out_that_is_not_there(kind: np.dtype[np.void]) -> None:
    assert NOT_TOLD.keys() <= set(kind.names or ())
    assert URGENCY_ALONE.keys() <= set(SAMPLE.names or ())
