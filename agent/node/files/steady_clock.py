"""Clocks that no one sets: time of the ledger, and ends of orders that outlast a step of the wall clock. Node.

CLOCK_BOOTTIME never goes back, is never set, and counts suspension; it means nothing beyond its boot.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from agent.sensing.state_file import read_boot_id


def boot_seconds() -> float:
    """Return the seconds since this machine has been started, suspension included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyClock:
    """Unix seconds that only go forward, each as long as a second: the wall clock of the start, and what passed since.

    For differences within a process, as the ledger's. A wall clock that is set later changes nothing. For any thread.
    """

    def __init__(
        self,
        start_unix_seconds: float,
        *,
        since_boot: Callable[[], float] = boot_seconds,  # Seconds of a clock that is never set
    ) -> None:
        self._since_boot = since_boot
        self._offset_seconds = start_unix_seconds - since_boot()

    def now(self) -> float:
        """Return the Unix seconds."""
        return self._since_boot() + self._offset_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class BootMoment:
    """A moment of one boot; kept on disk."""

    boot_id: str
    boot_seconds: float


class BootClock:
    """Tells moments of this boot from each other, and from those of other boots."""

    def __init__(
        self,
        boot_id: str,
        since_boot: Callable[[], float],  # Seconds of a clock that is never set
    ) -> None:
        self._boot_id, self._since_boot = boot_id, since_boot

    @classmethod
    def of_machine(cls) -> BootClock:
        """Return that of this machine."""
        return cls(read_boot_id(), boot_seconds)

    def ahead(self, seconds: float) -> BootMoment:
        """Return the moment that comes in so many seconds."""
        return BootMoment(boot_id=self._boot_id, boot_seconds=self._since_boot() + seconds)

    def seconds_since(self, moment: BootMoment) -> float | None:
        """Return how long ago a moment was, negative while it is ahead; None for one of another boot."""
        return self._since_boot() - moment.boot_seconds if moment.boot_id == self._boot_id else None

    def uptime_seconds(self) -> float:
        """Return the seconds since this boot."""
        return self._since_boot()

    def is_ahead(self, moment: BootMoment) -> bool:
        """Return whether a moment is still to come; False for one of another boot, of which nothing is known."""
        return moment.boot_id == self._boot_id and self._since_boot() < moment.boot_seconds
