from __future__ import annotations

from agent.node.history.clock import HistoryClock

BOOT_UNIX_SECONDS = 1_800_000_025.0
"""No whole minute: the history's axis rounds that off."""


class Clocks:
    def __init__(self) -> None:
        self.monotonic_seconds, self.jump_seconds = 6065.0, 0.0

    def wall(self) -> float:
        return BOOT_UNIX_SECONDS + self.monotonic_seconds + self.jump_seconds

    def monotonic_ns(self) -> int:
        return int(self.monotonic_seconds * 1e9)


def test_what_is_believed_is_the_wall_clock_to_the_second_until_it_jumps_ahead() -> None:
    clocks = Clocks()
    history = HistoryClock(newest_unix_minute=None, wall=clocks.wall, monotonic_ns=clocks.monotonic_ns)
    assert clocks.wall() - history.now() == 25.0
    assert history.believed_now() == clocks.wall()  # a plan of now is no 25 s old
    clocks.jump_seconds = 7200.0
    assert history.believed_now() == history.now()
    clocks.jump_seconds = -7200.0
    assert history.believed_now() == clocks.wall()
