"""What a container's language runtime takes of memory by its flags: a fixed heap, or a share of its limit. Core, pure.

A runtime reserves its heap by what it was told at its start, not by what it uses now: usage alone would size it too
small. ``launch`` reads a profile from the container's spec; only sizes and the names of flags are kept of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_NON_HEAP_PARTS: Final = 4
"""Beside a fixed heap at least a quarter of it is asked for: threads, code, classes, buffers."""


class LanguageRuntime(StrEnum):
    """What runs in a container, spelt as the annotation ``plimsoll.dev/runtime`` spells it."""

    JAVA = "java"
    GO = "go"
    NODE = "node"
    PYTHON = "python"
    NONE = "none"
    """None of these, whatever the spec looks like; no profile has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeProfile:
    """What the spec of a container says of its runtime's memory."""

    runtime: LanguageRuntime
    heap_bytes: int | None = None
    """The fixed size of its heap; None = none is stated."""
    heap_source: str = ""
    """Where that, or the share, is stated: ``-Xmx in JAVA_TOOL_OPTIONS``; empty = nowhere, the runtime's default."""
    limit_share_ratio: float | None = None
    """Share of its memory limit that it takes for its heap, 0..1, read at its start; None = it does not go by it."""
    fault: str = ""
    """A flag that is not understood and what is allowed, without its value, which may be a secret; empty = none."""

    @property
    def reads_limit_at_start(self) -> bool:
        """Return whether it sized its heap by the memory limit as it was at its start."""
        return self.limit_share_ratio is not None

    @property
    def limit_floor_bytes(self) -> int:
        """Return what its memory limit must not fall below: the heap and a quarter of it; 0 = no fixed heap."""
        heap = self.heap_bytes or 0
        return heap + -(-heap // _NON_HEAP_PARTS)

    def request_floor_bytes(self, used_bytes: float) -> int:
        """Return what its memory request must not fall below: the heap and what is beside it; 0 = no fixed heap.

        Args:
            used_bytes: The largest use expected, of heap and all else; what of it no heap can hold is beside the heap.
        """
        return max(self.limit_floor_bytes, int(used_bytes)) if self.heap_bytes else 0

    def least_limit_bytes(self, used_bytes: int) -> int:
        """Return the least memory limit with which, after a restart, it could use as much again; 0 = any.

        Of memory in use nobody outside knows what is heap, so all of it has to fit into the heap of a new limit.
        """
        if self.limit_share_ratio is not None:
            return int(used_bytes / self.limit_share_ratio)
        return self.limit_floor_bytes
