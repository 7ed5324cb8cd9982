"""What every sampler promises: the seam between the C sampler, its plain-Python twin and the node's loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from agent.core.window.ring_rows import Status
from agent.core.window.sweep_pace import QuietBand
from agent.sensing.ring_file import RingFile
from agent.sensing.spot_readings import KernelLimits


class SamplerError(Exception):
    """A sampler could not do what was asked; the family of this boundary."""


class CgroupGone(SamplerError):  # noqa: N818 - a state of the world, named as one
    """The cgroup vanished, or another took its name, before it could be watched: normal."""


class FilesExhausted(SamplerError):  # noqa: N818
    """Not even a directory could be opened: the process is out of file descriptors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """What one sweep did. Times are CLOCK_MONOTONIC nanoseconds."""

    started_ns: int
    finished_ns: int
    sampled: int
    """Slots that got a good sample."""
    failed: int
    """Slots that got a row saying why there is none."""
    memory_rows: int
    gone: Sequence[int]
    """Slots whose cgroup is gone; their files are closed, their rings as they were."""


class LaneReading(NamedTuple):
    """One pressure total of the fast lane."""

    lane: int
    monotonic_ns: int
    some_usec: int | None
    status: Status


class QuietLane(NamedTuple):
    """A lane that is quiet: the reading that its next one is compared with, and what is quiet then."""

    lane: int
    monotonic_ns: int
    some_usec: int
    band: QuietBand


class LaneWait(NamedTuple):
    """What a wait on quiet lanes brought."""

    due_ns: int
    """When they are to be read next, CLOCK_MONOTONIC."""
    quiet: Sequence[QuietLane]
    """As given, with their newest readings that were quiet."""
    news: Sequence[LaneReading]
    """A reading of them all in which one was not quiet or could not be read; empty where all were until the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerStats:
    """Since the sampler was opened."""

    errors: Mapping[tuple[str, str], int]
    """Read errors by (file, cause); file as the kernel names it, or ``directory``; cause gone|absent|io|parse|limit."""
    open_files: int
    slots: int


class Sampler(Protocol):
    """Reads counters of many cgroups into the rings of a ``RingFile``. One thread at a time; close it when done."""

    @property
    def name(self) -> str:
        """``native`` or ``reference``."""

    @property
    def rings(self) -> RingFile:
        """Where its rows go."""

    def add(self, slot: int, relative_path: str, inode: int) -> None:
        """Sample this cgroup into this slot from the next sweep on.

        Args:
            slot: A slot that ``RingFile.attach`` gave.
            relative_path: Below the cgroup root, no leading slash; empty is the root.
            inode: Of the directory, as ``attach`` was told.

        Raises:
            CgroupGone: It is not there any more, or its inode differs.
            FilesExhausted: No file descriptor to be had.
        """

    def remove(self, slot: int) -> None:
        """Close the slot's files; its rings stay. A slot that is not sampled is fine."""

    def sweep(self, *, slow: bool, retry_absent: bool) -> SweepResult:
        """Read every slot once. ``slow`` writes a memory row too; ``retry_absent`` tries absent files again."""

    def read_limits(self) -> dict[int, KernelLimits]:
        """Return what the kernel holds each slot's cgroup to; a slot whose files could not be read now is left out."""

    def add_lane(self, path: str) -> int:
        """Add a pressure file to the fast lane; relative to the root, or absolute.

        Raises:
            SamplerError: The file cannot be opened; the message says which and why.
        """

    def remove_lane(self, lane: int) -> None:
        """Remove it from the fast lane."""

    def read_lanes(self) -> list[LaneReading]:
        """Read every lane once."""

    def wait_on_lanes(
        self, lanes: Sequence[QuietLane], *, wake_fd: int, until_ns: int, due_ns: int, step_ns: int
    ) -> LaneWait:
        """Wait until a moment or until a descriptor can be read, and read these lanes meanwhile while they are quiet.

        At the moment itself nothing is read any more. Other threads may ask for ``stats`` and ``read_limits``
        meanwhile, and may not close.

        Args:
            lanes: Those to read; with one of them not quiet the wait is over.
            wake_fd: The descriptor; one that cannot be waited for ends the wait too.
            until_ns: The moment, CLOCK_MONOTONIC.
            due_ns: When they are read first.
            step_ns: How often after that; readings whose time has passed are not made up for.

        Raises:
            ValueError: A lane that there is not, or no step.
        """

    def stats(self) -> SamplerStats:
        """Return counters since opening."""

    def close(self) -> None:
        """Close all files; a second call is fine. The rings belong to the ``RingFile`` and stay."""
