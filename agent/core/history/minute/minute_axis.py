"""The time axis of the history: which minute of UTC a minute of CLOCK_MONOTONIC is, whatever the wall clock does.

Core, pure. The history lives longer than a boot, so its minutes must be those of a calendar; but wall clocks are set,
and at boot they may be wrong by decades. The axis only ever moves forwards, and moves far only when it is sure:

- Within a boot one offset holds: slewing, and steps of up to `TOLERANCE_MINUTES`, change nothing.
- At a start the wall clock is believed when it says a time after the newest stored minute, and by less than a day.
- Otherwise the axis goes on at the minute after the newest. A clock that is ahead is believed after
  `CONFIRM_MINUTES` of saying so; then there is a gap in the history, and minutes older than seven days no longer count.
- A clock that is behind is never followed: minutes would come twice. The axis then runs ahead of the clock, all its
  distances true, until the clock has caught up. ``ahead_minutes`` tells, and policies are to be given the axis' time.
"""

from __future__ import annotations

from typing import Final

MINUTE_SECONDS: Final = 60
DAY_MINUTES: Final = 1440
TOLERANCE_MINUTES: Final = 2
"""A difference that no hour of the day notices."""
CONFIRM_MINUTES: Final = 15
"""Time synchronisation has set a wrong clock right by then: it starts with the machine and polls every few minutes."""


class MinuteAxis:
    """The offset between CLOCK_MONOTONIC and the history's UTC minutes. One per process, made at its start."""

    def __init__(
        self, *, newest_unix_minute: int | None, first_monotonic_minute: int, wall_offset_minutes: int
    ) -> None:
        """Fix the offset.

        Args:
            newest_unix_minute: Of the history; None = it is empty, and the clock is taken at its word.
            first_monotonic_minute: The earliest minute that will be added: were it too early, the axis would run on
                after a restart as far ahead of the clock as that.
            wall_offset_minutes: Wall clock minus CLOCK_MONOTONIC now, rounded to whole minutes.
        """
        self._offset_minutes = self._wall_offset_minutes = wall_offset_minutes
        self._ahead_since: tuple[int, int] | None = None
        """The offset that the clock has been asking for, and since which monotonic minute."""
        if newest_unix_minute is not None:
            step = self.unix_minute(first_monotonic_minute) - newest_unix_minute
            if not 0 < step <= DAY_MINUTES:
                self._offset_minutes = newest_unix_minute + 1 - first_monotonic_minute

    def observe(self, monotonic_minute: int, wall_offset_minutes: int) -> None:
        """Read the wall clock, once a minute; a step forwards that lasts is followed."""
        self._wall_offset_minutes = wall_offset_minutes
        if wall_offset_minutes - self._offset_minutes <= TOLERANCE_MINUTES:
            self._ahead_since = None
            return
        if self._ahead_since is None or abs(self._ahead_since[0] - wall_offset_minutes) > TOLERANCE_MINUTES:
            self._ahead_since = (wall_offset_minutes, monotonic_minute)
        if monotonic_minute - self._ahead_since[1] >= CONFIRM_MINUTES:
            self._offset_minutes = wall_offset_minutes
            self._ahead_since = None

    def unix_minute(self, monotonic_minute: int) -> int:
        """Return the minute of the axis, UTC seconds // 60, that a monotonic minute is."""
        return monotonic_minute + self._offset_minutes

    def unix_seconds(self, monotonic_seconds: float) -> float:
        """Return the moment on the axis, UTC seconds, of a moment of CLOCK_MONOTONIC: what policies take as now."""
        return monotonic_seconds + self._offset_minutes * MINUTE_SECONDS

    def believed_seconds(self, monotonic_seconds: float, wall_unix_seconds: float) -> float:
        """Return what the wall clock says at a moment; the axis' time of it where that is a step ahead of the axis.

        Such a step is not believed yet. The minutes that are rounded off, and steps of up to `TOLERANCE_MINUTES`, are.
        """
        unix_seconds = self.unix_seconds(monotonic_seconds)
        is_step = wall_unix_seconds - unix_seconds > (TOLERANCE_MINUTES + 0.5) * MINUTE_SECONDS
        return unix_seconds if is_step else wall_unix_seconds

    @property
    def ahead_minutes(self) -> int:
        """How far the axis is ahead of the wall clock; negative: behind, by a step that is not believed yet."""
        difference = self._offset_minutes - self._wall_offset_minutes
        return difference if abs(difference) > TOLERANCE_MINUTES else 0


def offset_of(
    *, newest_unix_minute: int, newest_monotonic_minute: int, wall_offset_minutes: int, is_settled: bool
) -> int:
    """Find the offset that a running axis has, from what it has left behind.

    Args:
        newest_unix_minute: Of the history.
        newest_monotonic_minute: Of the minute rows beside it, which are written just before the history is.
        wall_offset_minutes: As for `MinuteAxis`; it is believed where the other two leave a doubt.
        is_settled: It is known that the newest minute stands in both.

    Returns:
        Minutes of the axis minus monotonic minutes.
    """
    offset = newest_unix_minute - newest_monotonic_minute
    clock_is_ahead_by = wall_offset_minutes - offset
    if clock_is_ahead_by > TOLERANCE_MINUTES:
        # The axis would have followed within `CONFIRM_MINUTES`: so the history could not be written for a while.
        return wall_offset_minutes
    # The history may just lack the newest minute: then the axis is one minute further than it seems.
    return offset + (not is_settled and clock_is_ahead_by == 1)
