"""The sampler in plain Python: the fallback where no compiled one is, and the oracle for the tests of the C one.

Sensing. Same contract as native/sampler.h, same rows for the same bytes; clear rather than fast. It reads, parses,
stamps and stores; differences and policy are core's.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from agent.core.window.ring_rows import CAUSES, FILES, MEMORY_ROW, SAMPLE, Has, Status
from agent.core.window.sweep_pace import LaneState, is_quiet, next_on_grid
from agent.sensing.cgroup_text import (
    CpuStat,
    MemoryStat,
    parse_cpu_stat,
    parse_memory_events,
    parse_memory_stat,
    parse_number,
    parse_pressure,
)
from agent.sensing.ring_file import RingFile
from agent.sensing.sampler_contract import (
    CgroupGone,
    FilesExhausted,
    LaneReading,
    LaneWait,
    QuietLane,
    SamplerError,
    SamplerStats,
    SweepResult,
)
from agent.sensing.spot_readings import KernelLimits, parse_limits

Parsed = TypeVar("Parsed")

BUFFER_BYTES: Final = 16384
"""As in sampler.c: a read that fills it may be cut and counts as not understood."""
PEAK_STEP_SHARE: Final = 64
PEAK_STEP_BYTES: Final = 1 << 20
"""As in sampler.c: memory.stat is read early when memory.current passes its peak by 1/64 of it and by 1 MiB."""
EARLY_FILES: Final = ("cpu.stat", "cpu.pressure", "memory.current")
"""As in sampler.c: opened when a cgroup is added; the slow ones when they are first read."""
LIMIT_BYTES: Final = {"cpu.max": 40, "memory.max": 24}
"""As in sampler.h: texts of limits that fill this are not understood."""
_U32_MASK: Final = 2**32 - 1
_OUT_OF_FILES: Final = (errno.EMFILE, errno.ENFILE)


def to_status(error: OSError) -> Status:
    """Return what an errno means (facts/node-agent-practice.md section 2); ``GONE`` counts for cpu.stat only."""
    if error.errno in (errno.ENODEV, errno.ENOENT):
        return Status.GONE
    if error.errno == errno.EOPNOTSUPP:
        return Status.ABSENT
    return Status.LIMIT if error.errno in _OUT_OF_FILES else Status.IO


def wait_on_lanes(
    lanes: Sequence[QuietLane],
    *,
    until_ns: int,
    due_ns: int,
    step_ns: int,
    read: Callable[[int], LaneReading],
    is_woken: Callable[[int], bool],  # Waits until a moment; True where the descriptor ended that
    clock_ns: Callable[[], int],
) -> LaneWait:
    """Wait on quiet lanes as `contract.Sampler.wait_on_lanes` says, with what waits and reads given."""
    quiet = lanes
    while True:
        if is_woken(min(due_ns, until_ns)) or clock_ns() >= until_ns:
            return LaneWait(due_ns, quiet, ())
        due_ns = next_on_grid(due_ns, step_ns, clock_ns())
        readings = [read(lane.lane) for lane in quiet]
        followed = [_followed(*pair) for pair in zip(quiet, readings, strict=True)]
        still = [lane for lane in followed if lane is not None]
        if len(still) < len(quiet):
            return LaneWait(due_ns, quiet, readings)
        quiet = still


def _followed(lane: QuietLane, reading: LaneReading) -> QuietLane | None:
    """Return the lane with its newest reading; None = that is not quiet."""
    before = LaneState(lane.monotonic_ns, lane.some_usec)
    if reading.some_usec is None or not is_quiet(before, reading.monotonic_ns, reading.some_usec, lane.band):
        return None
    return lane._replace(monotonic_ns=reading.monotonic_ns, some_usec=reading.some_usec)


def _is_woken(wake_fd: int, until_ns: int) -> bool:
    """Wait until a moment or until the descriptor can be read; return whether that was it."""
    wake = select.poll()
    wake.register(wake_fd, select.POLLIN)
    left_ns = max(until_ns - time.monotonic_ns(), 0)
    while not wake.poll(left_ns / 1e6):
        left_ns = until_ns - time.monotonic_ns()
        if left_ns <= 0:
            return False
    return True


@dataclass(frozen=True, slots=True)
class _ReadStat:
    """What memory.stat said, and what cpu.stat and memory.current then did."""

    stat: MemoryStat
    usage_usec: int
    current_bytes: int


@dataclass(slots=True)
class _WatchedCgroup:
    """One cgroup being sampled."""

    directory: int
    files: dict[str, int] = field(default_factory=dict)
    """Descriptors kept, by file."""
    given_up: set[str] = field(default_factory=set)
    """Files not tried again before a sweep with `retry_absent`."""
    was_given_up: set[str] = field(default_factory=set)
    """The same before the last retry: refused again is no news and not counted."""
    stat: _ReadStat | None = None
    """None = memory.stat is read at the next occasion."""


class ReferenceSampler:
    """Reads counters of many cgroups into the rings of a `RingFile`; a `Sampler`."""

    def __init__(self, root: Path, rings: RingFile, *, fd_budget: int, max_lanes: int) -> None:
        """Open the root.

        Args:
            fd_budget: Descriptors kept at most; beyond it files are opened anew for each read.
        """
        self.rings: Final = rings
        self._fd_budget = fd_budget
        self._fd_limit = fd_budget  # or less, since a descriptor was refused; restored by `retry_absent`
        self._slots: dict[int, _WatchedCgroup] = {}
        self._lanes: list[int | None] = [None] * max_lanes
        self._errors = {(file, cause): 0 for file in FILES for cause in CAUSES}
        self._open_files = 1
        try:
            self._root: int | None = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            msg = f"cgroup root {root}: {error.strerror}"
            raise SamplerError(msg) from error

    @property
    def name(self) -> str:
        """``reference``."""
        return "reference"

    def add(self, slot: int, relative_path: str, inode: int) -> None:
        """See `contract.Sampler.add`."""
        if not 0 <= slot < self.rings.geometry.max_slots or relative_path.startswith("/") or slot in self._slots:
            msg = f"slot {slot} for {relative_path!r}: out of range, sampled already, or a path with a leading slash"
            raise ValueError(msg)
        watched = _WatchedCgroup(self._open_directory(relative_path, inode))
        self._open_files += 1
        self._slots[slot] = watched
        for file in EARLY_FILES:
            if not self._has_room():
                break
            try:
                watched.files[file] = self._open_at(watched.directory, file, file)
                self._open_files += 1
            except OSError as error:
                if file != "cpu.stat":
                    self._note(watched, file, error)
                elif to_status(error) is Status.GONE:
                    self._errors["cpu.stat", "gone"] += 1
                    self.remove(slot)
                    msg = f"cgroup {relative_path}: gone before it was opened"
                    raise CgroupGone(msg) from error
                # Else cpu.stat cannot be opened now: each sweep tries, and writes the reason into its row.

    def remove(self, slot: int) -> None:
        """See `contract.Sampler.remove`."""
        watched = self._slots.pop(slot, None)
        if watched is not None:
            for fd in (*watched.files.values(), watched.directory):
                os.close(fd)
                self._open_files -= 1

    def sweep(self, *, slow: bool, retry_absent: bool) -> SweepResult:
        """See `contract.Sampler.sweep`."""
        started_ns = time.monotonic_ns()
        statuses: list[Status] = []
        memory_rows = 0
        gone: list[int] = []
        if retry_absent:
            self._fd_limit = self._fd_budget
        for slot in sorted(self._slots):
            watched = self._slots[slot]
            if retry_absent:
                watched.was_given_up, watched.given_up = watched.given_up, set()
                watched.stat = None  # as in sampler.c: each minute memory.stat is read in any case
            status, has_memory_row = self._sample(slot, watched, slow=slow)
            if status is Status.GONE:
                gone.append(slot)
                self.remove(slot)
                continue
            statuses.append(status)
            memory_rows += has_memory_row
        return SweepResult(
            started_ns=started_ns,
            finished_ns=time.monotonic_ns(),
            sampled=statuses.count(Status.OK),
            failed=len(statuses) - statuses.count(Status.OK),
            memory_rows=memory_rows,
            gone=tuple(gone),
        )

    def read_limits(self) -> dict[int, KernelLimits]:
        """See `contract.Sampler.read_limits`."""
        limits: dict[int, KernelLimits] = {}
        for slot, watched in sorted(self._slots.items()):
            with contextlib.suppress(OSError):
                texts = {file: _read_text(watched.directory, file) for file in LIMIT_BYTES}
                if all(len(text) < LIMIT_BYTES[file] for file, text in texts.items()):
                    limits[slot] = parse_limits(*texts.values())
        return limits

    def add_lane(self, path: str) -> int:
        """See `contract.Sampler.add_lane`."""
        if None not in self._lanes:
            msg = f"fast lane {path}: all {len(self._lanes)} lanes are taken"
            raise SamplerError(msg)
        lane = self._lanes.index(None)
        try:
            if not self._has_room():
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))  # noqa: TRY301 - the same as a refusal by the kernel
            self._lanes[lane] = self._open_at(self._root, path, "cpu.pressure")
        except OSError as error:
            msg = f"fast lane {path}: {error.strerror}"
            raise SamplerError(msg) from error
        self._open_files += 1
        return lane

    def remove_lane(self, lane: int) -> None:
        """See `contract.Sampler.remove_lane`."""
        fd = self._lanes[lane]
        if fd is not None:
            os.close(fd)
            self._lanes[lane] = None
            self._open_files -= 1

    def read_lanes(self) -> list[LaneReading]:
        """See `contract.Sampler.read_lanes`."""
        return [self._read_lane(lane, fd) for lane, fd in enumerate(self._lanes) if fd is not None]

    def wait_on_lanes(
        self, lanes: Sequence[QuietLane], *, wake_fd: int, until_ns: int, due_ns: int, step_ns: int
    ) -> LaneWait:
        """See `contract.Sampler.wait_on_lanes`."""
        files = {lane: fd for lane, fd in enumerate(self._lanes) if fd is not None}
        if step_ns <= 0 or any(quiet.lane not in files for quiet in lanes):
            msg = f"lanes {[quiet.lane for quiet in lanes]}, there are {[*files]}; each {step_ns} ns"
            raise ValueError(msg)
        return wait_on_lanes(
            lanes,
            until_ns=until_ns,
            due_ns=due_ns,
            step_ns=step_ns,
            read=lambda lane: self._read_lane(lane, files[lane]),
            is_woken=lambda moment_ns: _is_woken(wake_fd, moment_ns),
            clock_ns=time.monotonic_ns,
        )

    def stats(self) -> SamplerStats:
        """See `contract.Sampler.stats`."""
        return SamplerStats(errors=dict(self._errors), open_files=self._open_files, slots=len(self._slots))

    def close(self) -> None:
        """See `contract.Sampler.close`."""
        for slot in list(self._slots):
            self.remove(slot)
        for lane in range(len(self._lanes)):
            self.remove_lane(lane)
        if self._root is not None:
            os.close(self._root)
            self._root = None
            self._open_files -= 1

    def __enter__(self) -> ReferenceSampler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- rows ----

    def _sample(self, slot: int, watched: _WatchedCgroup, *, slow: bool) -> tuple[Status, bool]:
        """Write the rows of one cgroup; return the sample's status and whether a memory row was written."""
        row = np.zeros((), SAMPLE)
        memory_row = np.zeros((), MEMORY_ROW)
        row["monotonic_ns"] = time.monotonic_ns()
        cpu = self._read_cpu_stat(watched)
        if cpu is Status.GONE:
            return cpu, False
        status = cpu if isinstance(cpu, Status) else Status.OK
        has = Has(0)
        if not isinstance(cpu, Status):
            has = self._fill_cpu(row, cpu, watched)
        memory_row["monotonic_ns"] = time.monotonic_ns()
        current = self._fetch(watched, "memory.current", parse_number)
        if not isinstance(current, Status):
            memory_row["memory_current_bytes"] = current
            if status is Status.OK:
                row["memory_current_bytes"] = current
                has |= Has.MEMORY
            if not slow and self._is_new_peak(slot, current):
                stat = self._read_memory_stat(watched, cpu, current)
                if not isinstance(stat, Status):
                    self._raise_peaks(slot, current, inactive_file_bytes=stat.inactive_file_bytes)
        row["status"] = status
        row["has"] = has
        self.rings.append_raw(slot, row)
        has_row = slow and self._sample_slow(
            slot, watched, memory_row, cpu=cpu, current_bytes=None if isinstance(current, Status) else current
        )
        return status, has_row

    def _fill_cpu(self, row: NDArray[np.void], cpu: CpuStat, watched: _WatchedCgroup) -> Has:
        """Read cpu.stat and cpu.pressure into the sample; return what it has now."""
        has = Has(0)
        row["usage_usec"] = cpu.usage_usec
        if cpu.throttled_usec is not None and cpu.nr_periods is not None and cpu.nr_throttled is not None:
            row["throttled_usec"] = cpu.throttled_usec
            row["nr_periods"] = cpu.nr_periods & _U32_MASK
            row["nr_throttled"] = cpu.nr_throttled & _U32_MASK
            has |= Has.THROTTLED
        pressure = self._fetch(watched, "cpu.pressure", parse_pressure)
        if not isinstance(pressure, Status):
            row["cpu_some_usec"] = pressure.some_usec
            has |= Has.PRESSURE
            if pressure.full_usec is not None:
                row["cpu_full_usec"] = pressure.full_usec
                has |= Has.FULL
        return has

    def _read_memory_stat(
        self, watched: _WatchedCgroup, cpu: CpuStat | Status, current_bytes: int
    ) -> MemoryStat | Status:
        """Return what memory.stat says, or said while CPU time and memory were what they are now (see sampler.c)."""
        usage_usec = None if isinstance(cpu, Status) else cpu.usage_usec
        read = watched.stat
        if read is not None and (read.usage_usec, read.current_bytes) == (usage_usec, current_bytes):
            return read.stat
        stat = self._fetch(watched, "memory.stat", parse_memory_stat)
        watched.stat = None
        if not isinstance(stat, Status) and usage_usec is not None:
            watched.stat = _ReadStat(stat, usage_usec, current_bytes)
        return stat

    def _sample_slow(
        self,
        slot: int,
        watched: _WatchedCgroup,
        row: NDArray[np.void],
        *,
        cpu: CpuStat | Status,
        current_bytes: int | None,
    ) -> bool:
        """Read the slow files into one memory row; nothing known, no row."""
        has = Has(0)
        if current_bytes is not None:  # without memory.current the controller is off and its files are not there
            has |= Has.MEMORY
            stat = self._read_memory_stat(watched, cpu, current_bytes)
            if not isinstance(stat, Status):
                self._raise_peaks(slot, current_bytes, inactive_file_bytes=stat.inactive_file_bytes)
                row["anon_bytes"], row["inactive_file_bytes"] = stat.anon_bytes, stat.inactive_file_bytes
                row["working_set_peak_bytes"] = self.rings.peaks(slot)[0]
                has |= Has.MEMORY_STAT
                if stat.active_file_bytes is not None and stat.workingset_refault_file_pages is not None:
                    row["active_file_bytes"] = stat.active_file_bytes
                    row["workingset_refault_file_pages"] = stat.workingset_refault_file_pages
                    has |= Has.FILE_REFAULTS
            peak = self._fetch(watched, "memory.peak", parse_number)
            if not isinstance(peak, Status):
                row["memory_peak_bytes"] = peak
                has |= Has.MEMORY_PEAK
            events = self._fetch(watched, "memory.events", parse_memory_events)
            if not isinstance(events, Status):
                row["oom_kill"], row["high_events"] = (count & _U32_MASK for count in events)
                has |= Has.MEMORY_EVENTS
        memory = self._fetch(watched, "memory.pressure", parse_pressure)
        if not isinstance(memory, Status):
            row["memory_some_usec"] = memory.some_usec
            row["memory_full_usec"] = memory.full_usec or 0  # there with every kernel that has the file
            has |= Has.MEMORY_PRESSURE
        disk = self._fetch(watched, "io.pressure", parse_pressure)
        if not isinstance(disk, Status):
            row["io_some_usec"] = disk.some_usec
            has |= Has.IO_PRESSURE
        if not has:
            return False
        row["has"] = has
        self.rings.append_memory(slot, row)
        if Has.MEMORY_STAT in has:
            self.rings.set_peaks(slot, working_set_pending_bytes=0, memory_peak_seen_bytes=self.rings.peaks(slot)[1])
        return True

    def _is_new_peak(self, slot: int, current_bytes: int) -> bool:
        """Return whether memory.current passed its peak by enough to be worth a memory.stat (see sampler.c)."""
        seen_bytes = self.rings.peaks(slot)[1]
        return current_bytes - seen_bytes >= max(seen_bytes // PEAK_STEP_SHARE, PEAK_STEP_BYTES)

    def _raise_peaks(self, slot: int, current_bytes: int, *, inactive_file_bytes: int) -> None:
        pending, seen = self.rings.peaks(slot)
        self.rings.set_peaks(
            slot,
            working_set_pending_bytes=max(pending, current_bytes - inactive_file_bytes),
            memory_peak_seen_bytes=max(seen, current_bytes),
        )

    def _read_cpu_stat(self, watched: _WatchedCgroup) -> CpuStat | Status:
        """Read the file that every cgroup has: its failure is the sample's, and its absence the cgroup's end."""
        try:
            text = self._read(watched, "cpu.stat")
        except OSError as error:
            status = to_status(error)
            if status is Status.ABSENT:
                status = Status.IO
            if status is not Status.LIMIT:  # counted where the descriptor was refused
                self._errors["cpu.stat", "gone" if status is Status.GONE else "io"] += 1
            return status
        cpu = parse_cpu_stat(text) if len(text) < BUFFER_BYTES else None
        if cpu is None:
            self._errors["cpu.stat", "parse"] += 1
            return Status.PARSE
        return cpu

    def _read_lane(self, lane: int, fd: int) -> LaneReading:
        now_ns = time.monotonic_ns()
        try:
            text = os.pread(fd, BUFFER_BYTES, 0)
        except OSError as error:
            status = to_status(error)
            if status is Status.GONE:  # without cpu.stat one cannot tell gone from off
                status = Status.ABSENT
            return LaneReading(lane=lane, monotonic_ns=now_ns, some_usec=None, status=status)
        pressure = parse_pressure(text) if len(text) < BUFFER_BYTES else None
        if pressure is None:
            return LaneReading(lane=lane, monotonic_ns=now_ns, some_usec=None, status=Status.PARSE)
        return LaneReading(lane=lane, monotonic_ns=now_ns, some_usec=pressure.some_usec, status=Status.OK)

    # ---- files ----

    def _fetch(self, watched: _WatchedCgroup, file: str, parse: Callable[[bytes], Parsed | None]) -> Parsed | Status:
        """Read and parse a file other than cpu.stat; a failure is counted and given as its status."""
        if file in watched.given_up:
            return Status.ABSENT
        try:
            text = self._read(watched, file)
        except OSError as error:
            return self._note(watched, file, error)
        watched.was_given_up.discard(file)
        parsed = parse(text) if len(text) < BUFFER_BYTES else None
        if parsed is None:
            self._errors[file, "parse"] += 1
            return Status.PARSE
        return parsed

    def _note(self, watched: _WatchedCgroup, file: str, error: OSError) -> Status:
        """Count a failure to open or read a file other than cpu.stat; stop trying where trying is no use."""
        status = to_status(error)
        if status in (Status.GONE, Status.ABSENT):
            self._drop(watched, file)
            watched.given_up.add(file)
            if file not in watched.was_given_up:
                self._errors[file, "absent"] += 1
            return Status.ABSENT
        if status is Status.IO:
            is_refused = error.errno in (errno.EACCES, errno.EPERM)  # stays so: ask each minute, not each second
            if is_refused:
                watched.given_up.add(file)
            if not (is_refused and file in watched.was_given_up):
                self._errors[file, "io"] += 1
        return status

    def _read(self, watched: _WatchedCgroup, file: str) -> bytes:
        """Read one file of a slot. Its descriptor is kept if there is room, else closed again."""
        fd = watched.files.get(file)
        if fd is not None:
            return os.pread(fd, BUFFER_BYTES, 0)
        fd = self._open_at(watched.directory, file, file)
        if self._has_room():
            watched.files[file] = fd
            self._open_files += 1
            return os.pread(fd, BUFFER_BYTES, 0)
        try:
            return os.pread(fd, BUFFER_BYTES, 0)
        finally:
            os.close(fd)

    def _has_room(self) -> bool:
        return self._open_files < self._fd_limit

    def _open_directory(self, relative_path: str, inode: int) -> int:
        """Open a cgroup's directory, which is its identity; files make way for it."""
        # The budget, not what is left of it since a refusal: then the kernel says whether there is one more.
        if self._open_files >= self._fd_budget and not self._shed():
            self._errors["directory", "limit"] += 1
            msg = f"cgroup {relative_path}: {self._open_files} descriptors are kept, the budget is {self._fd_budget}"
            raise FilesExhausted(msg)
        try:
            directory = self._open_at(self._root, relative_path or ".", "directory", os.O_PATH | os.O_DIRECTORY)
        except OSError as error:
            msg = f"cgroup {relative_path}: {error.strerror}"
            match to_status(error):
                case Status.GONE:
                    self._errors["directory", "gone"] += 1
                    raise CgroupGone(msg) from error
                case Status.LIMIT:
                    raise FilesExhausted(msg) from error
                case _:
                    self._errors["directory", "io"] += 1
                    raise SamplerError(msg) from error
        inode_now = os.fstat(directory).st_ino
        if inode_now != inode:
            os.close(directory)
            self._errors["directory", "gone"] += 1
            msg = f"cgroup {relative_path}: inode {inode_now}, not {inode}: another took its name"
            raise CgroupGone(msg)
        return directory

    def _open_at(self, directory: int | None, name: str, file: str, flags: int = os.O_RDONLY) -> int:
        """Open below a directory; "no descriptors" is answered by closing kept files and trying once more."""
        try:
            return os.open(name, flags | os.O_CLOEXEC, dir_fd=directory)
        except OSError as error:
            if error.errno not in _OUT_OF_FILES:
                raise
            self._errors[file, "limit"] += 1
            if not self._shed():
                raise
            self._fd_limit = self._open_files
            return os.open(name, flags | os.O_CLOEXEC, dir_fd=directory)

    def _shed(self) -> bool:
        """Close every kept file, no directory. sampler.c chooses which; here simple counts more than fast."""
        before = self._open_files
        for watched in self._slots.values():
            for file in list(watched.files):
                self._drop(watched, file)
        return self._open_files < before

    def _drop(self, watched: _WatchedCgroup, file: str) -> None:
        fd = watched.files.pop(file, None)
        if fd is not None:
            os.close(fd)
            self._open_files -= 1


def _read_text(directory: int, file: str) -> bytes:
    """Read a small file of a cgroup; empty where it has none."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    except OSError as error:
        if to_status(error) is not Status.GONE:
            raise
        return b""
    try:
        return os.pread(fd, BUFFER_BYTES, 0)
    finally:
        os.close(fd)
