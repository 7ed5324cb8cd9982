from __future__ import annotations

from dataclasses import replace

from tests.recommendations import recommendation


def test_measured_is_the_longer_of_window_and_history_for_each_resource() -> None:
    basis = replace(
        recommendation().basis, cpu_span_seconds=600.0, memory_span_seconds=1790.0, history_span_seconds=900.0
    )
    assert (basis.cpu_measured_seconds, basis.memory_measured_seconds) == (900.0, 1790.0)
    young = replace(basis, history_span_seconds=0.0)
    assert (young.cpu_measured_seconds, young.memory_measured_seconds) == (600.0, 1790.0)
