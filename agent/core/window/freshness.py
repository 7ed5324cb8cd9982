"""Is what was measured new enough to act by? Core, pure."""

from __future__ import annotations

from typing import Final

OLDEST_SWEEP_SECONDS: Final = 10.0
OLDEST_SWEEPS: Final = 5
OLDEST_EVALUATIONS: Final = 3
"""Older than so many intervals, what was measured is not acted by."""


def measuring_fault(
    *,
    sweep_age_seconds: float | None,
    sweep_interval_seconds: float,
    evaluation_age_seconds: float | None,
    evaluation_interval_seconds: float,
) -> str | None:
    """Return why what was measured must not be acted by; None = it is new enough.

    Args:
        sweep_age_seconds: Since all containers were last read; None = they were not yet.
        sweep_interval_seconds: Between two sweeps.
        evaluation_age_seconds: Since policies were last asked; None = they were not yet.
        evaluation_interval_seconds: Between two evaluations.
    """
    if sweep_age_seconds is None:
        return "nothing is measured yet"
    oldest_seconds = max(OLDEST_SWEEP_SECONDS, OLDEST_SWEEPS * sweep_interval_seconds)
    if sweep_age_seconds > oldest_seconds:
        return f"no sweep within {oldest_seconds:g} s: the sampler does not keep up"
    if evaluation_age_seconds is None:
        return "nothing is evaluated yet"
    oldest_seconds = OLDEST_EVALUATIONS * evaluation_interval_seconds + OLDEST_SWEEP_SECONDS
    if evaluation_age_seconds > oldest_seconds:
        return f"no evaluation within {oldest_seconds:g} s: see the agent's log"
    return None
