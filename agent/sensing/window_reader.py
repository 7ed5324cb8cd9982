"""Sums of many cgroups' windows at once, in C, straight from the rings.

Sensing. It speaks to C as sampler.py does (agent.sensing._sampler, native/windows.h): it checks, locks and makes room.
What the sums are is defined by agent/core/window, which makes the same of one cgroup's rows where C is not built.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from agent.core.window.cpu import CPU_SUMS, CpuSums
from agent.core.window.memory import MEMORY_SUMS, MemorySums, to_memory_sums
from agent.core.window.minute_row import MINUTE_NS, MINUTE_SUMS, MinuteSums
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import Status
from agent.core.window.steps import NS
from agent.sensing.ring_file import RingFile

if TYPE_CHECKING:
    from agent.sensing._sampler import Reader, Rules


class WindowReader:
    """Sums up windows of a `RingFile`, without the GIL; one call at a time, a second caller waits.

    Every answer is None where the sampler overtook the reading, or where the slot went to another cgroup meanwhile.
    """

    def __init__(self, rings: RingFile) -> None:
        """Reserve what is needed.

        Raises:
            ImportError: The C extension is not built.
            ValueError: The rings have a geometry that C cannot read.
        """
        from agent.sensing._sampler import ffi, lib  # here, because where it is not built core serves

        self._ffi, self._lib = ffi, lib
        self._lock = threading.Lock()
        # C keeps the address, this object keeps the memory.
        self._memory = ffi.from_buffer(rings.buffer)
        geometry = rings.geometry
        layout = ffi.new(
            "pl_geometry *",
            {
                "first_slot_offset": geometry.first_slot_offset,
                "slot_stride": geometry.slot_stride,
                "max_slots": geometry.max_slots,
                "raw_offset": geometry.raw_offset,
                "raw_length": geometry.raw_length,
                "memory_offset": geometry.memory_offset,
                "memory_length": geometry.memory_length,
            },
        )
        out = ffi.new("pl_reader **")
        code = lib.pl_reader_open(self._memory, geometry.file_bytes, layout, out)
        if code != lib.PL_OK:
            msg = f"windows in C: {Status(code).name}"
            raise ValueError(msg)
        self._handle: Reader = out[0]
        # Not at the interpreter's end: a thread that answers somebody may still be in C.
        weakref.finalize(self, lib.pl_reader_close, self._handle).atexit = False  # type: ignore[misc] # a property
        self._policy: WindowPolicy | None = None
        self._rules: Rules | None = None

    def cpu(self, slots: Sequence[int], rows: int, policy: WindowPolicy, *, end_ns: int) -> list[CpuSums | None]:
        """Return the sums of CPU windows that end at a moment, over the newest rows of each slot."""
        count, numbers, out, intact = self._buffers(slots, CPU_SUMS)
        with self._lock:
            self._must(
                self._lib.pl_sum_cpu(
                    self._handle,
                    self._ffi.from_buffer("uint32_t[]", numbers.data),
                    count,
                    rows,
                    end_ns,
                    self._rules_of(policy),
                    self._ffi.from_buffer("pl_cpu_sums[]", out.data),
                    self._ffi.from_buffer("uint8_t[]", intact.data),
                )
            )
        return [
            CpuSums._make(sums) if is_intact else None
            for sums, is_intact in zip(out.tolist(), intact.tolist(), strict=True)
        ]

    def memory(self, slots: Sequence[int], rows: int, policy: WindowPolicy, *, end_ns: int) -> list[MemorySums | None]:
        """Return the sums of memory windows that end at a moment, over the newest rows of each slot."""
        count, numbers, out, intact = self._buffers(slots, MEMORY_SUMS)
        with self._lock:
            self._must(
                self._lib.pl_sum_memory(
                    self._handle,
                    self._ffi.from_buffer("uint32_t[]", numbers.data),
                    count,
                    rows,
                    end_ns,
                    self._rules_of(policy),
                    self._ffi.from_buffer("pl_memory_sums[]", out.data),
                    self._ffi.from_buffer("uint8_t[]", intact.data),
                )
            )
        return [
            to_memory_sums(sums[:-4], sums[-4:]) if is_intact else None
            for sums, is_intact in zip(out.tolist(), intact.tolist(), strict=True)
        ]

    def minute(
        self, slots: Sequence[int], raw_rows: int, memory_rows: int, policy: WindowPolicy, *, monotonic_minute: int
    ) -> list[MinuteSums | None]:
        """Return the sums of one minute, over the newest rows of each slot."""
        count, numbers, out, intact = self._buffers(slots, MINUTE_SUMS)
        with self._lock:
            self._must(
                self._lib.pl_sum_minute(
                    self._handle,
                    self._ffi.from_buffer("uint32_t[]", numbers.data),
                    count,
                    raw_rows,
                    memory_rows,
                    monotonic_minute * MINUTE_NS,
                    self._rules_of(policy),
                    self._ffi.from_buffer("pl_minute_sums[]", out.data),
                    self._ffi.from_buffer("uint8_t[]", intact.data),
                )
            )
        return [
            MinuteSums._make(sums) if is_intact else None
            for sums, is_intact in zip(out.tolist(), intact.tolist(), strict=True)
        ]

    def _buffers(
        self, slots: Sequence[int], dtype: np.dtype[np.void]
    ) -> tuple[int, NDArray[np.uint32], NDArray[np.void], NDArray[np.uint8]]:
        """Return the number of slots, their numbers, and room for the sums and for whether they are intact."""
        count = len(slots)
        return count, np.array(slots, dtype=np.uint32), np.zeros(count, dtype), np.zeros(count, dtype=np.uint8)

    def _must(self, code: int) -> None:
        if code != self._lib.PL_OK:
            msg = f"windows in C: {Status(code).name}: a slot that there is not"
            raise ValueError(msg)

    def _rules_of(self, policy: WindowPolicy) -> Rules:
        if self._rules is None or self._policy != policy:
            self._policy, self._rules = policy, self._ffi.new("pl_rules *", _rules(policy))
        return self._rules


def _rules(policy: WindowPolicy) -> dict[str, float]:
    """Return the policy as C has it; seconds become nanoseconds as core makes them, rounded down."""
    return {
        "cpu_window_ns": int(policy.cpu_window_seconds * NS),
        "rate_window_ns": int(policy.rate_window_seconds * NS),
        "min_rate_ns": int(min(policy.min_rate_seconds, policy.rate_window_seconds) * NS),
        "max_step_ns": int(policy.max_step_seconds * NS),
        "memory_window_ns": int(policy.memory_window_seconds * NS),
        "memory_rows_ns": int(policy.memory_rows_seconds * NS),
        "memory_max_step_ns": int(policy.memory_max_step_seconds * NS),
        "capacity_millicores": policy.capacity_millicores,
        "limit_millicores": policy.limit_millicores,
        "percentile": policy.percentile,
        "memory_waiting_ratio": policy.memory_waiting_ratio,
    }


def open_window_reader(rings: RingFile) -> WindowReader | None:
    """Open the reader in C; None where it is not built: then core's own arithmetic serves, which is slower."""
    try:
        return WindowReader(rings)
    except ImportError:
        return None  # the sampler, which comes of the same extension, warns of it
