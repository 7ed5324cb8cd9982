"""What the control thread's arithmetic costs: all windows of 250 containers, and their minute rows; CPU time."""

from __future__ import annotations

import time

import numpy as np

from agent.core.window.cpu import cpu_window
from agent.core.window.memory import memory_window
from agent.core.window.minute_row import minute_row
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import MEMORY_ROW, SAMPLE, Has

CONTAINERS = 250
NS = 1_000_000_000


def made_up_rings(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a full raw ring and a full memory ring of one container: 662 rows at 1 Hz, 182 rows at 0.1 Hz."""
    random = np.random.default_rng(seed)
    raw = np.zeros(662, SAMPLE)
    raw["monotonic_ns"] = 3600 * NS + np.arange(662) * NS + random.integers(0, 200_000, 662)
    raw["usage_usec"] = np.cumsum(random.integers(50_000, 400_000, 662))
    raw["cpu_some_usec"] = np.cumsum(random.integers(0, 100_000, 662))
    raw["throttled_usec"] = np.cumsum(random.integers(0, 1000, 662))
    raw["nr_periods"] = np.arange(662) * 10
    raw["has"] = int(Has.PRESSURE | Has.THROTTLED | Has.MEMORY)
    memory = np.zeros(182, MEMORY_ROW)
    memory["monotonic_ns"] = raw["monotonic_ns"][-1] - (181 - np.arange(182)) * 10 * NS
    memory["memory_current_bytes"] = random.integers(100 << 20, 200 << 20, 182)
    memory["working_set_peak_bytes"] = memory["memory_current_bytes"]
    memory["has"] = int(Has.MEMORY | Has.MEMORY_STAT | Has.MEMORY_EVENTS)
    return raw, memory


def measure() -> dict[str, float]:
    """Measure; keys as in build/bench.json."""
    policy = WindowPolicy(capacity_millicores=8000)
    rings = [made_up_rings(seed) for seed in range(CONTAINERS)]

    def evaluate() -> None:
        for raw, memory in rings:
            end_ns = int(raw["monotonic_ns"][-1])
            cpu_window((raw,), policy, end_monotonic_ns=end_ns)
            memory_window((memory,), policy, end_monotonic_ns=end_ns)

    def roll_up() -> None:
        for raw, memory in rings:
            minute_row((raw,), (memory,), policy, monotonic_minute=int(raw["monotonic_ns"][-1]) // (60 * NS) - 1)

    figures = {}
    for name, work in ((f"windows_cpu_ms_{CONTAINERS}", evaluate), (f"minute_rows_cpu_ms_{CONTAINERS}", roll_up)):
        work()
        times = []
        for _ in range(5):
            before = time.process_time()
            work()
            times.append((time.process_time() - before) * 1e3)
        figures[name] = round(sorted(times)[2], 2)
    return figures
