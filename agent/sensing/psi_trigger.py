"""The kernel's pressure triggers, as an opt-in: an event when tasks waited for longer than a threshold.

Sensing. ``PsiTrigger`` owns a descriptor.
Source: accounting/psi.rst of the kernel.
"""

from __future__ import annotations

import os
import select
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self


class TriggerState(StrEnum):
    """What a look at a pressure trigger showed."""

    QUIET = "quiet"
    FIRED = "fired"
    GONE = "gone"
    """The cgroup was removed, or its pressure files switched off."""

    @classmethod
    def of(cls, mask: int) -> TriggerState:
        """Read the event mask that a poll or an epoll gave for a trigger's descriptor."""
        if mask & select.POLLERR:
            return cls.GONE
        return cls.FIRED if mask & select.POLLPRI else cls.QUIET


class TriggerRefused(Exception):  # noqa: N818 - a state of the world, named as one
    """The kernel does not give this process this trigger; one line that says why."""


class PsiTrigger:
    """A kernel trigger on a pressure file: fires when tasks waited longer than the threshold within a window.

    Opt-in. Under least privilege it is refused or slower than the 1 Hz sweep: cgroup files are 0644 root, and without
    CAP_SYS_RESOURCE the window is a multiple of 2 s, with one event a window at most.

    Being polled clears the kernel's event. So the descriptor goes into the loop's own epoll, with EPOLLPRI, and the
    mask that comes out is what ``TriggerState.of`` reads: an epoll nested in another asks twice, and loses it.
    """

    def __init__(self, pressure_file: Path, *, stall_usec: int = 150_000, window_usec: int = 2_000_000) -> None:
        """Ask the kernel for a trigger on the ``some`` line.

        Args:
            pressure_file: cpu.pressure of a cgroup, or one of /proc/pressure.
            stall_usec: Waiting time within the window that fires; microseconds.
            window_usec: 500 ms to 10 s; microseconds.

        Raises:
            TriggerRefused: Not permitted, a read-only mount, no PSI, or a window that the kernel does not take.
        """
        try:
            self._fd = os.open(pressure_file, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise TriggerRefused(f"{pressure_file}: cannot be opened for writing: {error.strerror}") from error
        try:
            os.write(self._fd, f"some {stall_usec} {window_usec}".encode("ascii"))
        except OSError as error:
            self.close()
            raise TriggerRefused(
                f"{pressure_file}: trigger of {stall_usec} us in {window_usec} us refused: {error.strerror}"
            ) from error

    def fileno(self) -> int:
        """Return the descriptor to be polled for EPOLLPRI."""
        return self._fd

    def wait(self, timeout_seconds: float = 0.0) -> TriggerState:
        """Wait until it fires or its cgroup is gone; for those who have no loop. Close it once it is gone."""
        poller = select.poll()
        poller.register(self._fd, select.POLLPRI)
        return next((TriggerState.of(mask) for _, mask in poller.poll(timeout_seconds * 1000)), TriggerState.QUIET)

    def close(self) -> None:
        """Close the trigger; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
