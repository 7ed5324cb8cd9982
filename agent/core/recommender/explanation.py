"""Everything behind one recommendation. Core, pure; values only."""

from __future__ import annotations

from dataclasses import dataclass

from agent.core.history.minute.minutes import OutOfMemory
from agent.core.history.minute.quality import QualityWindows
from agent.core.history.workloads.hour_peaks import HourPeak
from agent.core.recommender.policy import Step
from agent.core.recommender.recommendation import Recommendation
from agent.core.window.snapshot import CpuWindow, MemoryWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """What a container used over time, minute by minute, for a picture. All tuples are as long; None = not measured."""

    start_unix_seconds: int
    """Start of the first minute."""
    cpu_usage_millicores: tuple[float | None, ...]
    """Mean of the minute."""
    cpu_peak_millicores: tuple[float | None, ...]
    """Largest PSI-adjusted rate of the minute."""
    waiting_ratio: tuple[float | None, ...]
    """PSI some, throttling taken out; known for the last day only."""
    working_set_bytes: tuple[float | None, ...]
    """Peak of the minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One recommendation with all that led to it."""

    taken_unix_seconds: float
    source: str
    recommendation: Recommendation
    cpu: CpuWindow
    memory: MemoryWindow
    steps: tuple[Step, ...]
    """Of the policy and of the bounds after it, in order."""
    changes: tuple[str, ...]
    """What would change the answer, one sentence each."""
    hours: tuple[HourPeak, ...]
    """Oldest first; only hours in which something was measured."""
    hours_counted: tuple[int, ...]
    """Those that the answer goes by, each by its start in Unix seconds; empty = the policy takes no hours apart."""
    kills: tuple[OutOfMemory, ...]
    trail: Trail | None
    """None = not asked for."""
    notes: tuple[str, ...] = ()
    quality: QualityWindows | None = None
    """How good its sizing was; None = no minute was judged yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanations:
    """Those of all containers asked for: one, or each of a pod."""

    items: tuple[Explanation, ...]
