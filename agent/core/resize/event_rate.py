"""When a Kubernetes Event is written: at once, counted up in the one that is there, or not at all. Core, pure.

Events are for people and cost the API server a write each. The same (pod, reason, note) within ten minutes is one Event
with a count, which is written up no more than once a minute; and a node has a budget of writes per minute. What is not
written is not lost to operators: the decision log and the metrics have it all.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agent.core.cluster.pod import PodRef
from agent.core.numbers.token_bucket import TokenBucket

SERIES_SECONDS: Final = 600.0
"""The same within this time after its last occurrence is counted; after it, it is news again."""
COUNT_UP_SECONDS: Final = 60.0
"""Between two writes of one count."""
REMEMBERED: Final = 1000
"""Different events kept in mind; of more, the one longest not seen is forgotten and would be news again."""
NOTE_BYTES: Final = 1024
"""The API server counts bytes, whatever its message says."""


class EventReason(StrEnum):
    """What an event says; the word that people filter by."""

    RESIZED = "Resized"
    RESIZE_DEFERRED = "ResizeDeferred"
    RESIZE_INFEASIBLE = "ResizeInfeasible"
    RESIZE_REJECTED = "ResizeRejected"
    RESIZE_REVERTED = "ResizeReverted"
    EVICTION_PROPOSED = "EvictionProposed"
    EVICTION_GRANTED = "EvictionGranted"
    EVICTION_REFUSED = "EvictionRefused"
    ANNOTATION_NOT_UNDERSTOOD = "AnnotationNotUnderstood"
    POD_LIMITS_REFUSED = "PodLimitsRefused"

    @property
    def is_warning(self) -> bool:
        """Return whether a person should look."""
        return self not in _HARMLESS

    @property
    def action(self) -> str:
        """Return what was tried, as the API wants it beside the reason."""
        return _ACTIONS.get(self, "Resize")


_HARMLESS: Final = (
    EventReason.RESIZED,
    EventReason.RESIZE_DEFERRED,
    EventReason.EVICTION_PROPOSED,
    EventReason.EVICTION_GRANTED,
    EventReason.EVICTION_REFUSED,
)
_ACTIONS: Final = {
    EventReason.RESIZE_REVERTED: "Revert",
    EventReason.EVICTION_PROPOSED: "ProposeEviction",
    EventReason.EVICTION_GRANTED: "ProposeEviction",
    EventReason.EVICTION_REFUSED: "ProposeEviction",
    EventReason.ANNOTATION_NOT_UNDERSTOOD: "ReadAnnotations",
    EventReason.POD_LIMITS_REFUSED: "SetPodLimits",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEvent:
    """Something to tell the owner of a pod."""

    ref: PodRef
    reason: EventReason
    note: str
    """One sentence; cut to ``NOTE_BYTES`` when written."""


class EventPace(StrEnum):
    """What to do with an event."""

    WRITE = "write"
    """It is news: make an Event."""
    COUNT_UP = "count_up"
    """Write the count into the Event that is there."""
    COUNTED = "counted"
    """Only counted: the number was written less than a minute ago."""
    NO_BUDGET = "no_budget"
    """Left out: this node has written enough in this minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventVerdict:
    """What to do, and with which Event."""

    paced: EventPace
    name: str = ""
    """Of the Event that is there; of COUNT_UP."""
    count: int = 1
    """How often it has happened, this time included; of COUNT_UP at least 2."""


@dataclass(slots=True, kw_only=True)
class _Series:
    name: str
    count: int
    seen_seconds: float
    written_seconds: float


class EventPacing:
    """Remembers what was written lately, and holds any minute to so many writes.

    Times are seconds of one clock that does not go backwards.
    """

    def __init__(self, *, per_minute: int, now_seconds: float) -> None:
        self._bucket: Final = TokenBucket(per_minute, now_seconds=now_seconds)
        self._series: Final[OrderedDict[PodEvent, _Series]] = OrderedDict()

    def next(self, event: PodEvent, now_seconds: float) -> EventVerdict:
        """Decide about an event; what is decided to be written has been taken off the budget.

        After WRITE the caller says by ``written`` that it worked; otherwise the next occurrence is news again.
        """
        series = self._series.get(event)
        if series is not None and now_seconds - series.seen_seconds <= SERIES_SECONDS:
            series.count += 1
            series.seen_seconds = now_seconds
            self._series.move_to_end(event)
            if now_seconds - series.written_seconds < COUNT_UP_SECONDS:
                return EventVerdict(paced=EventPace.COUNTED)
            if not self._bucket.take(now_seconds):
                return EventVerdict(paced=EventPace.NO_BUDGET)
            series.written_seconds = now_seconds
            return EventVerdict(paced=EventPace.COUNT_UP, name=series.name, count=series.count)
        return EventVerdict(paced=EventPace.WRITE if self._bucket.take(now_seconds) else EventPace.NO_BUDGET)

    def written(self, event: PodEvent, name: str, now_seconds: float) -> None:
        """Remember the Event that was made."""
        self._series[event] = _Series(name=name, count=1, seen_seconds=now_seconds, written_seconds=now_seconds)
        self._series.move_to_end(event)
        while len(self._series) > REMEMBERED:
            self._series.popitem(last=False)

    def forget(self, event: PodEvent) -> None:
        """Treat it as news at its next occurrence: its Event is gone (the API server keeps them for an hour)."""
        self._series.pop(event, None)


def shortened_note(note: str) -> str:
    """Return a note that the API server takes: one line of at most ``NOTE_BYTES`` bytes, cut at a character."""
    # Half a character, which JSON in an annotation may hold and no UTF-8 does, becomes a question mark.
    line = " ".join(note.split()).encode(errors="replace")
    if len(line) <= NOTE_BYTES:
        return line.decode()
    return line[: NOTE_BYTES - 3].decode(errors="ignore") + "..."
