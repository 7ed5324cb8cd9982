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
_GO_BESIDE_PARTS: Final = 9
"""GOMEMLIMIT counts all that Go itself manages: a ninth is left beside it, so that nine tenths of a limit fit it."""


NEARLY_FULL_RATIO: Final = 0.95
"""Of a limit: who used more of it is short of it. A heap of 85 % of it and what is beside it stay below."""


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
    small_heap_bytes: int = 0
    """What it takes where that share is less, of limits below twice this their half; 0 = the share holds of any."""
    most_heap_bytes: int | None = None
    """What it takes at most, where it goes by its limit; None = no such bound."""
    initial_heap_bytes: int = 0
    """What it takes at its start (-Xms), and so at least; 0 = nothing is stated."""
    hidden: str = ""
    """Where flags may stand that nobody outside can read, and that would win; empty = nowhere in the spec."""
    fault: str = ""
    """A flag that is not understood and what is allowed, without its value, which may be a secret; empty = none."""

    @property
    def reads_limit_at_start(self) -> bool:
        """Return whether it sized its heap by the memory limit as it was at its start, or may have."""
        return self.limit_share_ratio is not None or bool(self.hidden)

    def leaves_unfilled(self, limit_bytes: int, seen_bytes: int) -> bool:
        """Return whether to raise a memory limit would be to hope for use.

        A fixed heap takes nothing of a raise, and one that goes by the limit fills more of any limit, so that each
        start would call for another. Who came close to the limit is short of it, whatever the heap.

        Args:
            limit_bytes: What it may use now.
            seen_bytes: The largest use that was ever seen, at kills too.
        """
        if not self.heap_bytes and not self.reads_limit_at_start:
            return False
        return seen_bytes <= limit_bytes * NEARLY_FULL_RATIO and self.limit_floor_bytes <= limit_bytes

    @property
    def limit_floor_bytes(self) -> int:
        """Return what its memory limit must not fall below: the heap and what is beside it; 0 = no fixed heap."""
        return self._with_rest(self.heap_bytes or 0)

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
        share, small = self.limit_share_ratio, self.small_heap_bytes
        if share is None:
            return self.limit_floor_bytes
        if used_bytes <= small:
            least = 2 * used_bytes
        else:
            heap = used_bytes if self.most_heap_bytes is None else min(used_bytes, self.most_heap_bytes)
            least = max(int(heap / share), 2 * small)
        return max(least, self._with_rest(self.initial_heap_bytes))

    def heap_within(self, limit_bytes: int) -> int | None:
        """Return the heap that it takes with a memory limit; None = that is not known."""
        if self.fault or self.hidden:
            return None
        if self.limit_share_ratio is None:
            return self.heap_bytes
        if limit_bytes < 2 * self.small_heap_bytes:
            return max(limit_bytes // 2, self.initial_heap_bytes)
        heap = max(int(limit_bytes * self.limit_share_ratio), self.small_heap_bytes)
        return max(heap if self.most_heap_bytes is None else min(heap, self.most_heap_bytes), self.initial_heap_bytes)

    def _with_rest(self, heap_bytes: int) -> int:
        """Return a heap and what is beside it at least, rounded up."""
        parts = _GO_BESIDE_PARTS if self.runtime is LanguageRuntime.GO else _NON_HEAP_PARTS
        return heap_bytes + -(-heap_bytes // parts)
