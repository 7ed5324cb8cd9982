"""When the acting thread takes its next turn, and what asked for it. Node; time is an argument, nothing waits here.

Turns come each ``plan.replanSeconds`` and for what asks in between; of each kind of asking only so many, so that news
of a rollout or a container that starves for minutes does not keep the thread, and the API server, busy.
"""

from __future__ import annotations

from typing import Final

from agent.metrics.acting_series import Trigger

NEWS_SECONDS: Final = 1.0
"""Between two turns that news ask for while something is under way or waits."""
IDLE_NEWS_SECONDS: Final = 5.0
"""... and while nothing does: a rollout brings many, and a turn of a full node costs some 40 ms."""
KILL_SECONDS: Final = 1.0
_LONG_AGO_SECONDS: Final = -1e9
_URGENT_FIRST: Final = (
    Trigger.OUT_OF_MEMORY,
    Trigger.MEMORY,
    Trigger.PRESSURE,
    Trigger.ORDER,
    Trigger.NEWS,
    Trigger.INTERVAL,
)


class TurnTiming:
    """The time of the next turn. In monotonic seconds; ``ask`` and ``take`` under one lock of the caller's."""

    def __init__(self, *, replan_seconds: float, urgent_interval_seconds: float, now_seconds: float) -> None:
        self._replan_seconds, self._urgent_interval_seconds = replan_seconds, urgent_interval_seconds
        self._asked: set[Trigger] = set()
        self._turned_seconds: dict[Trigger, float] = {}
        self._replan_due_seconds = now_seconds
        self.is_busy = True
        """Something is under way or waits: news may be of it."""

    def ask(self, trigger: Trigger) -> None:
        """Ask for a turn."""
        self._asked.add(trigger)

    def replan_by(self, due_seconds: float) -> None:
        """Request a turn by then, whether anything asks for one or not."""
        self._replan_due_seconds = min(self._replan_due_seconds, due_seconds)

    def take(self, now_seconds: float, *, quiet_seconds: float) -> Trigger | None:
        """Take what is due off what is asked for; None = nothing is, or the API server is to be left alone."""
        if quiet_seconds > 0:
            return None
        due = {trigger for trigger in self._asked if self._due_seconds(trigger) <= now_seconds}
        self._asked -= due
        for trigger in due:
            self._turned_seconds[trigger] = now_seconds
        chosen = next((trigger for trigger in _URGENT_FIRST if trigger in due), None)
        if now_seconds >= self._replan_due_seconds:
            self._replan_due_seconds = now_seconds + self._replan_seconds
            chosen = chosen or Trigger.INTERVAL
        return chosen

    def next_due_seconds(self, now_seconds: float, *, quiet_seconds: float) -> float:
        """Return when ``take`` will next have something, if nothing more is asked for; arguments as there."""
        due = min([self._replan_due_seconds, *(self._due_seconds(trigger) for trigger in self._asked)])
        return max(due, now_seconds + quiet_seconds)

    def _due_seconds(self, trigger: Trigger) -> float:
        return self._turned_seconds.get(trigger, _LONG_AGO_SECONDS) + self._spacing_seconds(trigger)

    def _spacing_seconds(self, trigger: Trigger) -> float:
        return {
            Trigger.NEWS: NEWS_SECONDS if self.is_busy else IDLE_NEWS_SECONDS,
            Trigger.PRESSURE: self._urgent_interval_seconds,
            Trigger.OUT_OF_MEMORY: KILL_SECONDS,
            Trigger.MEMORY: KILL_SECONDS,
        }.get(trigger, 0.0)
