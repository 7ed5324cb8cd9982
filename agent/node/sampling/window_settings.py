"""What the settings come to for windows: when one is believed, and rings that are long enough for all of them. Node."""

from __future__ import annotations

import math
from mmap import PAGESIZE
from typing import Final

from agent.core.window.policy import WindowPolicy
from agent.sensing.state_file import RingGeometry
from agent.settings import ColdFileChoice, Settings

LEAST_RAW_SECONDS: Final = 120.0
"""A minute row needs its minute and the rate window before it, however short the windows are set."""
MOST_TIERS: Final = 64
"""``kubepods`` and what lies between it and the pods: three, with a system partition six; a host of KinD nodes has
that for each."""
POD_MARGIN_ROWS: Final = 6
RAW_MARGIN_ROWS: Final = 44
"""Rows beyond the window: early sweeps on contention, and time for a reader before its rows are overwritten."""


def window_policy(settings: Settings, *, capacity_millicores: int, tells_file_use: bool = True) -> WindowPolicy:
    """Return the windows that are configured; ``tells_file_use``: of the kernel that was measured."""
    windows = settings.windows
    return WindowPolicy(
        capacity_millicores=capacity_millicores,
        cpu_window_seconds=windows.cpu_window_seconds,
        memory_window_seconds=windows.memory_window_seconds,
        rate_window_seconds=windows.rate_window_seconds,
        tolerance_ratio=windows.tolerance_ratio,
        max_step_seconds=windows.max_step_seconds,
        memory_max_step_seconds=5 * settings.sampling.slow_interval_seconds,
        percentile=windows.percentile,
        max_gap_ratio=windows.max_gap_ratio,
        cold_file_window_seconds=settings.memory.cold_file_window_seconds,
        memory_waiting_ratio=settings.act.urgent_memory_waiting_ratio,
        page_bytes=PAGESIZE,
        tells_file_use=tells_file_use,
        leaves_out_cold_file=settings.memory.cold_file is ColdFileChoice.EXCLUDE,
    )


def ring_geometry(settings: Settings) -> RingGeometry:
    """Size the rings for the windows that are configured."""
    sampling, windows = settings.sampling, settings.windows
    defaults = RingGeometry()
    raw_seconds = max(windows.cpu_window_seconds + windows.rate_window_seconds, LEAST_RAW_SECONDS)
    if settings.report.url is not None:
        raw_seconds = max(raw_seconds, settings.report.interval_seconds + windows.rate_window_seconds)
    memory_seconds = max(windows.memory_window_seconds, settings.memory.cold_file_window_seconds)
    return RingGeometry(
        max_slots=sampling.max_containers,
        raw_length=int(raw_seconds / sampling.interval_seconds) + RAW_MARGIN_ROWS,
        memory_length=int(memory_seconds / sampling.slow_interval_seconds) + (defaults.memory_length - 180),
        minute_length=defaults.minute_length,
    )


def pod_ring_geometry(settings: Settings) -> RingGeometry:
    """Size the rings of whole pods and tiers: a sample at each slow tick, and no minutes."""
    containers, slow_seconds = ring_geometry(settings), settings.sampling.slow_interval_seconds
    raw_seconds = settings.windows.cpu_window_seconds + settings.windows.rate_window_seconds
    return RingGeometry(
        max_slots=containers.max_slots + MOST_TIERS,
        raw_length=math.ceil(raw_seconds / slow_seconds * 1.1) + POD_MARGIN_ROWS,
        memory_length=containers.memory_length,
        minute_length=2,  # the least there can be; nothing is written there
    )
