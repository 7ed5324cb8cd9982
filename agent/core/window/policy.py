"""How long windows are and which differences of counters may be believed.

Core, pure.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPolicy:
    """How far windows reach and which differences may be believed."""

    capacity_millicores: int
    """CPU of the node; no container can use more."""
    cpu_window_seconds: float = 600.0
    """Base demand of CPU is taken over ten minutes (design.md section 5)."""
    memory_window_seconds: float = 1800.0
    """Base demand of memory is taken over thirty minutes."""
    rate_window_seconds: float = 60.0
    """One rate spans this much, sliding by the tick."""
    min_rate_seconds: float = 10.0
    """A young container's rates span what there is, but no less than this: ten ticks, so that one tick weighs 10 %."""
    tolerance_ratio: float = 0.05
    """Excess over capacity put down to timestamp jitter; 0.05 means +5 %."""
    max_step_seconds: float = 5.0
    """A longer pause between two readings is a gap; 5 steps at the usual 1 Hz."""
    memory_max_step_seconds: float = 50.0
    """The same for memory rows; 5 steps at the usual 10 s."""
    percentile: float = 0.75
    """Rank of the base demand, 0..1."""
    max_gap_ratio: float = 0.2
    """With more of the window in gaps there is no percentile (fault table, row 15)."""
    cold_file_window_seconds: float = 1800.0
    """File cache that nobody came back for in so long is cold; at least the memory window counts."""
    memory_waiting_ratio: float = 0.1
    """Who waits for memory (PSI some) for so large a share of a step has no cold file cache, 0..1."""
    page_bytes: int = 4096
    """Of a page of this machine's memory: refaults are counted in pages."""
    tells_file_use: bool = True
    """The kernel puts a page of a file on another list when it is read again; its multi-generational LRU does not."""
    leaves_out_cold_file: bool = False
    """Cold file cache is left out of what is asked for; else it is told of only."""

    def __post_init__(self) -> None:
        """Refuse what no window can be taken with.

        Raises:
            ValueError: A value out of its range; the message names it.
        """
        for name in (
            "capacity_millicores",
            "cpu_window_seconds",
            "memory_window_seconds",
            "rate_window_seconds",
            "min_rate_seconds",
            "max_step_seconds",
            "memory_max_step_seconds",
            "cold_file_window_seconds",
            "page_bytes",
        ):
            value: float = getattr(self, name)
            if not value > 0:
                msg = f"window policy: {name} is {value}; allowed: more than 0"
                raise ValueError(msg)
        for name in ("tolerance_ratio", "percentile", "max_gap_ratio", "memory_waiting_ratio"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                msg = f"window policy: {name} is {value}; allowed: 0..1"
                raise ValueError(msg)

    @property
    def memory_rows_seconds(self) -> float:
        """How far back memory rows are looked at."""
        return max(self.memory_window_seconds, self.cold_file_window_seconds)

    @property
    def limit_millicores(self) -> float:
        """The largest rate that is believed."""
        return self.capacity_millicores * (1.0 + self.tolerance_ratio)
