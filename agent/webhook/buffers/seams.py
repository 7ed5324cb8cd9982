"""What the CapacityBuffer controller is told by others: schedules, placeholder pods, sizes. Webhook; values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agent.core.buffers.buffer import Condition, Content, ScalableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePermission:
    """Whether this replica may write anything now; asked before each write."""

    is_leader: Callable[[], bool]
    pause_reason: Callable[[], str | None] = lambda: None
    """Why nothing may be written in the whole cluster; None = it may."""

    def is_given(self) -> bool:
        """Return whether this replica leads and nothing is paused."""
        return self.is_leader() and self.pause_reason() is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """What a buffer's schedule says at a moment."""

    inactive: str | None = None
    """Why it is to be empty now, in words; None = it is active."""
    changes_in_seconds: float | None = None
    """Until this may be otherwise; None = it stays so."""
    fault: str | None = None
    """What of the schedule is not understood; None = all is, or there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomOutcome:
    """What became of the room of one namespace's buffers."""

    again_seconds: float | None = None
    """When to look again though nothing changes; None = not before."""
    provisioning: Mapping[str, Condition] = field(default_factory=dict)
    """By buffer name: the condition Provisioning of those whose room is kept by pods of ours."""
    ready: Mapping[str, int] = field(default_factory=dict)
    """By buffer name: placeholder pods that run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedChunk:
    """A chunk's content after sizing."""

    content: Content
    words: str
    """What was sized, or why nothing was."""
    is_final: bool = True
    """False = what it goes by is still being read: to be asked again before anything is written."""


Sizer = Callable[[Content, str, ScalableRef | None], SizedChunk]
"""Sizes a chunk for a namespace as a new pod of its workload would be sized; of nobody's that is known, None."""
