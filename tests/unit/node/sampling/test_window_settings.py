"""What the settings of cold file cache come to for windows and rings."""

from __future__ import annotations

from mmap import PAGESIZE

from agent.node.sampling.window_settings import ring_geometry, window_policy
from agent.sensing.state_file import RingGeometry
from agent.settings import ColdFileChoice, MemorySettings, Settings


def test_policy_tells_of_cold_file_cache_and_leaves_it_out_where_it_is_told_to() -> None:
    report = window_policy(Settings(), capacity_millicores=1000)
    assert (report.leaves_out_cold_file, report.page_bytes, report.memory_waiting_ratio) == (False, PAGESIZE, 0.1)
    exclude = Settings(memory=MemorySettings(cold_file=ColdFileChoice.EXCLUDE, cold_file_window_seconds=3600.0))
    policy = window_policy(exclude, capacity_millicores=1000)
    assert (policy.leaves_out_cold_file, policy.memory_rows_seconds) == (True, 3600.0)


def test_rings_hold_the_longer_of_both_windows_and_no_more_by_default() -> None:
    assert ring_geometry(Settings()) == RingGeometry()
    hour = Settings(memory=MemorySettings(cold_file_window_seconds=3600.0))
    assert ring_geometry(hour).memory_length == RingGeometry().memory_length + 180
    minute = Settings(memory=MemorySettings(cold_file_window_seconds=60.0))
    assert ring_geometry(minute) == RingGeometry()
