"""What the kernel holds a cgroup to, as its own files say. Node."""

from __future__ import annotations

from pathlib import Path

from agent.core.machine.cpu_knobs import parse_cpu_max


def read_cpu_max_millicores(directory: Path) -> int | None:
    """Read a cgroup's own cpu.max; None = no limit, no such file, or not understood."""
    try:
        return parse_cpu_max((directory / "cpu.max").read_text()).millicores
    except (OSError, ValueError):
        return None


def read_memory_max_bytes(directory: Path) -> int | None:
    """Read a cgroup's own memory.max; None = no limit, no such file, or not understood."""
    try:
        text = (directory / "memory.max").read_text().strip()
        return None if text == "max" else int(text)
    except (OSError, ValueError):
        return None
