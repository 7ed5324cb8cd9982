"""What can be set of the guard that takes resizes back; docstrings are the documentation. Core, pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from agent.core.numbers.allowed_range import Between


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardOptions:
    """When a resize is taken back, or the enforced share of a workload, as containers fare worse than without."""

    active: bool = True
    """Compare, and take back; false = only out-of-memory kills and memory pressure after a shrink take it back."""
    window_seconds: Annotated[float, Between(5, 300)] = 120.0
    """Seconds before a shrink, and as many up to now, that a node compares; judged until act.revertSeconds after it."""
    share_window_seconds: Annotated[float, Between(5, 3600)] = 900.0
    """Seconds of reports over which the webhook compares the pods of an enforced share with the others."""
    least_restarts: Annotated[int, Between(1, 100)] = 2
    """Restarts (or out-of-memory kills) count from so many on ..."""
    restart_ratio: Annotated[float, Between(1, 100)] = 3.0
    """... that are this many times as frequent as before, or as in the other pods."""
    unready_margin_ratio: Annotated[float, Between(0.01, 1)] = 0.25
    """Share of the time that pods are not Ready, more than before and than in the others by this, 0..1."""
    waiting_margin_ratio: Annotated[float, Between(0.01, 1)] = 0.2
    """Share of the time that they wait for CPU (PSI some, without throttling), likewise."""
    throttled_margin_ratio: Annotated[float, Between(0.01, 1)] = 0.1
    """Share of the time that their CPU limit holds them back, likewise."""
