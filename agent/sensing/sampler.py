"""The compiled sampler behind the `Sampler` contract, and the choice between it and the one in plain Python.

Sensing. It speaks to C (agent.sensing._sampler, native/sampler.h), as only window_reader.py does besides: it checks,
locks, reuses buffers and turns codes into exceptions. What a row means is said in agent/core/window/ring_rows.py.
"""

from __future__ import annotations

import logging
import os
import resource
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

import numpy as np

from agent.core.window.ring_rows import CAUSES, FILES, Status
from agent.sensing.reference_sampler import ReferenceSampler
from agent.sensing.ring_file import RingFile
from agent.sensing.sampler_contract import (
    CgroupGone,
    FilesExhausted,
    LaneReading,
    LaneWait,
    QuietLane,
    Sampler,
    SamplerError,
    SamplerStats,
    SweepResult,
)
from agent.sensing.spot_readings import KernelLimits, parse_limits

if TYPE_CHECKING:
    from agent.sensing._sampler import Handle

logger = logging.getLogger(__name__)

LANE_READING: Final = np.dtype([("monotonic_ns", "<u8"), ("some_usec", "<u8"), ("status", "<i4"), ("lane", "<u4")])
"""pl_lane_reading of native/sampler.h."""

QUIET_LANE: Final = np.dtype(
    [
        ("monotonic_ns", "<u8"),
        ("some_usec", "<u8"),
        ("least_ratio", "<f8"),
        ("most_ratio", "<f8"),
        ("lane", "<u4"),
        ("reserved", "<u4"),
    ]
)
"""pl_quiet_lane of native/sampler.h."""

LIMITS: Final = np.dtype([("cpu_max", "S40"), ("memory_max", "S24"), ("slot", "<u4"), ("status", "<i4")])
"""pl_limits of native/sampler.h."""


class NativeSampler:
    """Reads counters of many cgroups into the rings of a `RingFile`, in C and without the GIL; a `Sampler`.

    One lock per handle: C takes one thread at a time, and a second caller waits for the sweep; not for a wait on lanes.
    """

    def __init__(self, root: Path, rings: RingFile, *, fd_budget: int, max_lanes: int) -> None:
        """Open the root and reserve everything.

        Args:
            rings: Where rows go; kept alive by the sampler.
            fd_budget: Descriptors kept at most; beyond it files are opened anew for each read.
        """
        from agent.sensing._sampler import ffi, lib  # here, because where it is not built the reference serves

        self._ffi = ffi
        self._lib = lib
        self._lock = threading.Lock()
        self.rings: Final = rings
        # Neither goes before the C side is done with it: C keeps the address, this object keeps the memory.
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
        out = ffi.new("pl_sampler **")
        code = lib.pl_open(os.fsencode(root), self._memory, geometry.file_bytes, layout, max_lanes, fd_budget, out)
        if code == lib.PL_E_IO:
            msg = f"cgroup root {root}: it cannot be opened as a directory"
            raise SamplerError(msg)
        if code != lib.PL_OK:
            msg = f"sampler for {root}: {Status(code).name}; lanes {max_lanes}, descriptors {fd_budget}"
            raise SamplerError(msg)
        self._handle: Handle | None = out[0]
        # Also the net for one that is dropped without being closed.
        self._free = weakref.finalize(self, lib.pl_close, out[0])
        # Not at the interpreter's end: a thread may wait in C still.
        self._free.atexit = False  # type: ignore[misc] # a property
        self._result = ffi.new("pl_sweep_result *")
        self._gone = ffi.new("uint32_t[]", geometry.max_slots)
        self._lane = ffi.new("uint32_t *")
        self._lanes = ffi.new("pl_lane_reading[]", max_lanes)
        # Several times a second: field by field through cffi takes twice as long.
        self._lane_rows = np.ndarray((max_lanes,), dtype=LANE_READING, buffer=memoryview(ffi.buffer(self._lanes)))
        self._quiet_rows = np.zeros(max_lanes, dtype=QUIET_LANE)
        self._quiet = ffi.from_buffer("pl_quiet_lane[]", self._quiet_rows.data)
        self._due_ns = ffi.new("int64_t *")
        self._stats = ffi.new("pl_stats *")

    @property
    def name(self) -> str:
        """``native``."""
        return "native"

    def add(self, slot: int, relative_path: str, inode: int) -> None:
        """See `contract.Sampler.add`."""
        if not 0 <= slot < self.rings.geometry.max_slots:
            msg = f"slot {slot}, allowed are 0 to {self.rings.geometry.max_slots - 1}"
            raise ValueError(msg)
        with self._lock:
            handle = self._open_handle()
            code = self._lib.pl_add(handle, slot, os.fsencode(relative_path), inode)
            error = self._lib.pl_last_errno(handle)
        if code == self._lib.PL_OK:
            return
        msg = f"cgroup {relative_path}: {os.strerror(error)}"
        if code == self._lib.PL_E_GONE:
            raise CgroupGone(msg)
        if code == self._lib.PL_E_LIMIT:
            raise FilesExhausted(msg)
        if code == self._lib.PL_E_ARG:
            msg = f"slot {slot} for {relative_path!r}: sampled already, or a path with a leading slash"
            raise ValueError(msg)
        raise SamplerError(msg)

    def remove(self, slot: int) -> None:
        """See `contract.Sampler.remove`."""
        if 0 <= slot < self.rings.geometry.max_slots:
            with self._lock:
                self._lib.pl_remove(self._open_handle(), slot)

    def sweep(self, *, slow: bool, retry_absent: bool) -> SweepResult:
        """See `contract.Sampler.sweep`."""
        what = (self._lib.PL_SWEEP_SLOW if slow else 0) | (self._lib.PL_SWEEP_RETRY if retry_absent else 0)
        with self._lock:
            handle = self._open_handle()
            result = self._result
            self._lib.pl_sweep(handle, what, result)
            count = self._lib.pl_take_gone(handle, self._gone, len(self._gone)) if result.gone else 0
            return SweepResult(
                started_ns=result.started_ns,
                finished_ns=result.finished_ns,
                sampled=result.sampled,
                failed=result.failed,
                memory_rows=result.memory_rows,
                gone=tuple(sorted(self._gone[index] for index in range(count))),
            )

    def read_limits(self) -> dict[int, KernelLimits]:
        """See `contract.Sampler.read_limits`."""
        # Made for each call: once a minute, and kept it would be pages that nobody else needs.
        rows = np.zeros(self.rings.geometry.max_slots, dtype=LIMITS)
        with self._lock:
            texts = self._ffi.from_buffer("pl_limits[]", rows.data)
            count = self._lib.pl_read_limits(self._open_handle(), texts, len(rows))
        return {
            slot: parse_limits(cpu_max, memory_max)
            for cpu_max, memory_max, slot, status in rows[:count].tolist()
            if status == Status.OK
        }

    def add_lane(self, path: str) -> int:
        """See `contract.Sampler.add_lane`."""
        with self._lock:
            handle = self._open_handle()
            code = self._lib.pl_lane_add(handle, os.fsencode(path), self._lane)
            if code == self._lib.PL_OK:
                return self._lane[0]
            error = self._lib.pl_last_errno(handle)
        msg = f"fast lane {path}: {os.strerror(error)}"
        raise SamplerError(msg)

    def remove_lane(self, lane: int) -> None:
        """See `contract.Sampler.remove_lane`."""
        with self._lock:
            self._lib.pl_lane_remove(self._open_handle(), lane)

    def read_lanes(self) -> list[LaneReading]:
        """See `contract.Sampler.read_lanes`."""
        with self._lock:
            count = self._lib.pl_lane_read(self._open_handle(), self._lanes, len(self._lanes))
            return self._readings(count)

    def _readings(self, count: int) -> list[LaneReading]:
        return [
            LaneReading(lane, monotonic_ns, some_usec, Status.OK)
            if status == Status.OK
            else LaneReading(lane, monotonic_ns, None, Status(status))
            for monotonic_ns, some_usec, status, lane in self._lane_rows[:count].tolist()
        ]

    def wait_on_lanes(
        self, lanes: Sequence[QuietLane], *, wake_fd: int, until_ns: int, due_ns: int, step_ns: int
    ) -> LaneWait:
        """See `contract.Sampler.wait_on_lanes`. Without the lock: who asks for counters need not wait for it."""
        count = len(lanes)
        rows = self._quiet_rows[:count]
        rows[:] = [(lane.monotonic_ns, lane.some_usec, *lane.band, lane.lane, 0) for lane in lanes]
        self._due_ns[0] = due_ns
        told = self._lib.pl_lane_wait(
            self._open_handle(), wake_fd, until_ns, self._due_ns, step_ns, self._quiet, count, self._lanes
        )
        if told < 0:
            msg = f"lanes {[lane.lane for lane in lanes]}, each {step_ns} ns: {Status(told).name}"
            raise ValueError(msg)
        quiet = [
            lane._replace(monotonic_ns=monotonic_ns, some_usec=some_usec)
            for lane, (monotonic_ns, some_usec, *_) in zip(lanes, rows.tolist(), strict=True)
        ]
        return LaneWait(self._due_ns[0], quiet, self._readings(told))

    def stats(self) -> SamplerStats:
        """See `contract.Sampler.stats`."""
        with self._lock:
            stats = self._stats
            self._lib.pl_get_stats(self._open_handle(), stats)
            return SamplerStats(
                errors={
                    (file, cause): stats.errors[row][column]
                    for row, file in enumerate(FILES)
                    for column, cause in enumerate(CAUSES)
                },
                open_files=stats.open_files,
                slots=stats.slots,
            )

    def close(self) -> None:
        """See `contract.Sampler.close`."""
        with self._lock:
            self._handle = None
            self._free()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open_handle(self) -> Handle:
        if self._handle is None:
            msg = "the sampler is closed"
            raise ValueError(msg)
        return self._handle


def open_sampler(
    root: Path,
    rings: RingFile,
    *,
    fd_budget: int,
    max_lanes: int,
    force: Literal["native", "reference"] | None = None,
) -> Sampler:
    """Open the compiled sampler; where it is not built, the one in plain Python, which is said in a warning.

    Raises:
        SamplerError: The root cannot be opened, or the compiled one was forced and is not built.
    """
    if force == "reference":
        return ReferenceSampler(root, rings, fd_budget=fd_budget, max_lanes=max_lanes)
    try:
        return NativeSampler(root, rings, fd_budget=fd_budget, max_lanes=max_lanes)
    except ImportError as error:
        if force == "native":
            msg = f"the compiled sampler is not built: {error}"
            raise SamplerError(msg) from error
        logger.warning("compiled sampler not built, sampling in plain Python", extra={"reason": str(error)})
        return ReferenceSampler(root, rings, fd_budget=fd_budget, max_lanes=max_lanes)


def raise_open_files_limit() -> tuple[int, int]:
    """Raise the soft limit of open files to the hard one, as far as allowed; containers often start at 1,024.

    Returns:
        Soft and hard limit now in force.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:
            logger.warning("open-file limit stays", extra={"soft": soft, "hard": hard, "reason": str(error)})
    return resource.getrlimit(resource.RLIMIT_NOFILE)
