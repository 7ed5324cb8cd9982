"""What was measured too long ago, or not at all, is not acted by, and the words say which."""

from __future__ import annotations

import pytest

from agent.core.window.freshness import measuring_fault


@pytest.mark.parametrize(
    ("sweep_age_seconds", "evaluation_age_seconds", "interval_seconds", "words"),
    [
        (0.5, 30.0, 1.0, None),
        (10.0, 190.0, 1.0, None),
        (None, None, 1.0, "nothing is measured yet"),
        (None, 5.0, 1.0, "nothing is measured yet"),
        (10.1, 5.0, 1.0, "no sweep within 10 s: the sampler does not keep up"),
        (10.1, None, 1.0, "no sweep within 10 s: the sampler does not keep up"),
        (24.9, 5.0, 5.0, None),
        (25.1, 5.0, 5.0, "no sweep within 25 s: the sampler does not keep up"),
        (0.5, None, 1.0, "nothing is evaluated yet"),
        (0.5, 190.1, 1.0, "no evaluation within 190 s: see the agent's log"),
    ],
)
def test_age_decides_and_is_told(
    sweep_age_seconds: float | None, evaluation_age_seconds: float | None, interval_seconds: float, words: str | None
) -> None:
    fault = measuring_fault(
        sweep_age_seconds=sweep_age_seconds,
        sweep_interval_seconds=interval_seconds,
        evaluation_age_seconds=evaluation_age_seconds,
        evaluation_interval_seconds=60.0,
    )
    assert fault == words
