"""How the sampling goes: what other threads may ask of the sampling thread without waiting for it."""

from __future__ import annotations

from collections import deque
from typing import Final

from agent.core.window.snapshot import SamplerStatus
from agent.sensing.sampler_contract import SweepResult

LATENESS_REMEMBERED: Final = 600
"""Sweeps whose lateness is kept for the p99: ten minutes at 1 Hz."""


class SweepHeartbeat:
    """What other threads may ask of the sampling thread without waiting for it."""

    def __init__(
        self,
        interval_seconds: float,
        *,
        slow_interval_seconds: float,  # Between two readings of what changes slowly, such as memory.stat
        sampler_name: str,
    ) -> None:
        self._sampler_name = sampler_name
        self.slow_interval_seconds: Final = slow_interval_seconds
        self.base_interval_seconds: Final = interval_seconds
        self.interval_seconds = interval_seconds
        self.widest_interval_seconds = interval_seconds
        """The widest that was in force during the last ``LATENESS_REMEMBERED`` sweeps: rows in the rings may lie this
        far apart although the rate has come back."""
        self._sweeps_since_widest = 0
        self.last_sweep_monotonic_ns: int | None = None
        self.last_sweep_seconds: float | None = None
        self.first_sweep_monotonic_ns: int | None = None
        self.sweeps = 0
        self.overruns = 0
        self._lateness_seconds: deque[float] = deque(maxlen=LATENESS_REMEMBERED)

    def beat(self, result: SweepResult, lateness_seconds: float, *, overran: bool, interval_seconds: float) -> None:
        """Note a sweep; the sampling thread only."""
        self.interval_seconds = interval_seconds
        self._sweeps_since_widest += 1
        if interval_seconds >= self.widest_interval_seconds or self._sweeps_since_widest > LATENESS_REMEMBERED:
            self.widest_interval_seconds, self._sweeps_since_widest = interval_seconds, 0
        self.last_sweep_monotonic_ns = result.finished_ns
        self.last_sweep_seconds = (result.finished_ns - result.started_ns) / 1e9
        if self.first_sweep_monotonic_ns is None:
            self.first_sweep_monotonic_ns = result.finished_ns
        self.sweeps += 1
        self.overruns += overran
        self._lateness_seconds.append(lateness_seconds)

    def lateness_p99_seconds(self) -> float | None:
        """Lateness that 99 of 100 of the remembered sweeps kept below; None before the first."""
        ordered = sorted(self._lateness_seconds)
        if not ordered:
            return None
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]

    def status(self, *, units: int) -> SamplerStatus:
        """Return how well the sampling of so many units goes."""
        return SamplerStatus(
            name=self._sampler_name,
            rate_hz=1.0 / self.interval_seconds,
            lateness_p99_seconds=self.lateness_p99_seconds(),
            sweep_seconds=self.last_sweep_seconds,
            sweeps=self.sweeps,
            overruns=self.overruns,
            units=units,
        )
