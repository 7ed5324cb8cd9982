"""Limits of one cgroup, read from its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.sensing.spot_readings import KernelLimits, read_limits, read_memory_max_bytes


@pytest.mark.parametrize(
    ("text", "millicores"),
    [
        (b"50000 100000\n", 500),
        (b"250000 100000\n", 2500),
        (b"max 100000\n", None),
        (b"", None),
        (b"nonsense\n", None),
        (b"\xff\xfe 1\n", None),
        (b"50000 100000\n" + b" " * 16_384, None),  # fills the buffer: it may be cut
    ],
)
def test_cpu_max_is_a_quota_in_millicores_or_none(tmp_path: Path, text: bytes, millicores: int | None) -> None:
    (tmp_path / "cpu.max").write_bytes(text)
    assert read_limits(tmp_path) == read_limits(str(tmp_path)) == KernelLimits(millicores, None)


@pytest.mark.parametrize(("text", "limit_bytes"), [(b"134217728\n", 134217728), (b"max\n", None), (b"", None)])
def test_memory_max_is_bytes_or_none(tmp_path: Path, text: bytes, limit_bytes: int | None) -> None:
    (tmp_path / "memory.max").write_bytes(text)
    assert read_memory_max_bytes(tmp_path) == limit_bytes
    assert read_limits(tmp_path) == KernelLimits(None, limit_bytes)


def test_limits_that_are_not_there_or_no_files_are_none(tmp_path: Path) -> None:
    assert read_limits(tmp_path) == (None, None)
    (tmp_path / "memory.max").mkdir()  # opens, and cannot be read
    assert read_memory_max_bytes(tmp_path) is None
    assert read_memory_max_bytes(tmp_path / "gone") is None
