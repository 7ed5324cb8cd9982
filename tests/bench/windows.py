"""What the control thread's arithmetic costs: all windows of 250 containers, and their minute rows; CPU time."""

from __future__ import annotations

import time

import numpy as np

from agent.core.window.cpu import cpu_window, cpu_window_of
from agent.core.window.memory import memory_window, memory_window_of
from agent.core.window.minute_row import MINUTE_NS, minute_row, minute_row_of
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import MEMORY_ROW, SAMPLE, Has
from agent.sensing.ring_file import RingFile
from agent.sensing.state_file import RingGeometry
from agent.sensing.window_reader import WindowReader

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
    """Measure; keys as in build/bench.json, with ``_core`` where C is left out."""
    policy = WindowPolicy(capacity_millicores=8000)
    figures: dict[str, float] = {}
    with RingFile.open(None, RingGeometry(max_slots=CONTAINERS), boot_id="bench") as rings:
        slots = [rings.attach(f"pod{number}", number + 1, now_monotonic_ns=1) for number in range(CONTAINERS)]
        end_ns = 0
        for slot in slots:
            raw, memory = made_up_rings(slot)
            for row in raw:
                rings.append_raw(slot, row)
            for row in memory:
                rings.append_memory(slot, row)
            end_ns = max(end_ns, int(raw["monotonic_ns"][-1]))
        minute = end_ns // MINUTE_NS - 1
        reader = WindowReader(rings)

        def evaluate() -> None:
            for cpu in reader.cpu(slots, 1000, policy, end_ns=end_ns):
                assert cpu is not None
                cpu_window_of(cpu, policy)
            for memory in reader.memory(slots, 1000, policy, end_ns=end_ns):
                assert memory is not None
                memory_window_of(memory, policy, end_ns)

        def roll_up() -> None:
            for sums in reader.minute(slots, 150, 20, policy, monotonic_minute=minute):
                assert sums is not None
                minute_row_of(sums, policy, monotonic_minute=minute)

        def evaluate_in_core() -> None:
            for slot in slots:
                cpu_window(rings.raw(slot).pieces, policy, end_monotonic_ns=end_ns)
                memory_window(rings.memory(slot).pieces, policy, end_monotonic_ns=end_ns)

        def roll_up_in_core() -> None:
            for slot in slots:
                pieces = rings.raw(slot, 150).pieces, rings.memory(slot, 20).pieces
                minute_row(*pieces, policy, monotonic_minute=minute)

        works = {
            f"windows_cpu_ms_{CONTAINERS}": evaluate,
            f"minute_rows_cpu_ms_{CONTAINERS}": roll_up,
            f"windows_cpu_ms_{CONTAINERS}_core": evaluate_in_core,
            f"minute_rows_cpu_ms_{CONTAINERS}_core": roll_up_in_core,
        }
        times: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(6):  # in turn, so that a change of the machine's load falls on all
            for name, work in works.items():
                before = time.process_time()
                work()
                times[name].append((time.process_time() - before) * 1e3)
        for name, durations_ms in times.items():
            figures[name] = round(sorted(durations_ms[1:])[2], 2)  # the first finds caches cold
    return figures
