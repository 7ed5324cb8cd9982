"""Arrays that fit each other, or a fault that says which does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agent.core.recommender.simulation.trace import FineUsage
from tests.traces import trace_of


def test_trace_of_two_containers_over_three_minutes_tells_its_length() -> None:
    trace = trace_of(cpu=[[1, 2, 3], [4, None, 6]])

    assert (trace.minutes, trace.containers) == (3, ("c0", "c1"))
    assert trace.has_cpu[:, 1].tolist() == [True, False, True]


def fine_usage(rows_per_minute: int, containers: int, *, has_rows: int | None = None) -> FineUsage:
    rows = 3 * rows_per_minute
    return FineUsage(
        rows_per_minute=rows_per_minute,
        cpu_millicores=np.zeros((rows, containers), np.float32),
        has_cpu=np.zeros((has_rows or rows, containers), np.bool_),
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"containers": ("a", "a")}, "stands twice"),
        ({"containers": ()}, "holds nothing"),
        ({"containers": ("a", "b", "c")}, "cpu_millicores has shape"),
        ({"has_memory": np.zeros((2, 2), np.bool_)}, "has_memory has shape"),
        ({"psi": np.zeros((3, 1), np.float32)}, "psi has shape"),
        ({"cpu_peak_millicores": np.zeros((3, 1), np.float32)}, "cpu_peak_millicores has shape"),
        ({"fine": fine_usage(2, 1)}, "fine.cpu_millicores has shape"),
        ({"fine": fine_usage(2, 2, has_rows=5)}, "fine.has_cpu has shape"),
        ({"pod_containers": np.ones(3, np.int64)}, "pod_containers has shape"),
    ],
)
def test_trace_with_arrays_that_do_not_fit_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        trace_of(cpu=[[1, 2, 3], [4, 5, 6]], **more)


def test_trace_takes_arrays_that_fit() -> None:
    fine = np.zeros((3, 2), np.float32)
    pods = np.array([2, 2])
    trace = trace_of(cpu=[[1, 2, 3], [4, 5, 6]], psi=fine, cpu_peak_millicores=fine, pod_containers=pods)
    assert trace.pod_containers is pods
    assert trace.rows_per_minute == 1


def test_trace_with_rows_of_seconds_has_as_many_in_each_minute() -> None:
    trace = trace_of(cpu=[[1, 2, 3], [4, 5, 6]], fine=fine_usage(30, 2))
    assert trace.rows_per_minute == 30
