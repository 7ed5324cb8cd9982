"""What the CapacityBuffer controller asks of others: schedules, placeholder pods, sizes. Webhook; values and Protocols.

Each has a stand-in that says nothing, for a controller without that part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent.core.buffers.buffer import Buffer, BufferOutcome, Condition, Content, ManagedTemplate, ScalableRef


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


class Activities(Protocol):
    """Schedules."""

    def __call__(self, buffer: Buffer, now_unix_seconds: float, /) -> ScheduleState:
        """Return whether a buffer is active."""


def always_active(_buffer: Buffer, _now_unix_seconds: float, /) -> ScheduleState:
    """Every buffer is, at any time."""
    return ScheduleState()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomOutcome:
    """What became of the room of one namespace's buffers."""

    again_seconds: float | None = None
    """When to look again though nothing changes; None = not before."""
    provisioning: Mapping[str, Condition] = field(default_factory=dict)
    """By buffer name: the condition Provisioning of those whose room is kept by pods of ours."""
    ready: Mapping[str, int] = field(default_factory=dict)
    """By buffer name: placeholder pods that run."""


class RoomKeeper(Protocol):
    """Keeps the room of buffers of the strategy placeholder-pods; ``keep`` is called by one thread, of the leader."""

    @property
    def priority_class(self) -> str | None:
        """Return the PriorityClass of the pods that keep room; None = there are none."""

    def start(self, wake: Callable[[str], None]) -> None:
        """Begin to look at the pods that there are; ``wake`` is told of a namespace in which they changed."""

    def stop(self) -> None:
        """End that."""

    def keep(
        self,
        namespace: str,
        outcomes: Sequence[BufferOutcome],
        templates: Mapping[str, ManagedTemplate],
        version: str,
        /,
    ) -> RoomOutcome:
        """Make pods what the outcomes say, all of its buffers'; the statuses are written already.

        Raises:
            KubeError: The namespace is repeated, later each time.
        """

    def clear(self) -> None:
        """Forget what was found out while this replica led."""

    def usage(self, namespace: str, /) -> Mapping[str, Mapping[str, int]]:
        """Return what the pods of each buffer request together, nanos; quotas count it as used."""


class NoRoomKeeper:
    """Keeps no room."""

    priority_class: str | None = None

    def start(self, wake: Callable[[str], None]) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def keep(
        self,
        _namespace: str,
        _outcomes: Sequence[BufferOutcome],
        _templates: Mapping[str, ManagedTemplate],
        _version: str,
        /,
    ) -> RoomOutcome:
        """Do nothing."""
        return RoomOutcome()

    def clear(self) -> None:
        """Do nothing."""

    def usage(self, _namespace: str, /) -> Mapping[str, Mapping[str, int]]:
        """Nothing."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedChunk:
    """A chunk's content after sizing."""

    content: Content
    words: str
    """What was sized, or why nothing was."""
    is_final: bool = True
    """False = what it goes by is still being read: to be asked again before anything is written."""


class Sizer(Protocol):
    """Gives a chunk the size that a new pod of its workload would be given."""

    def __call__(self, content: Content, namespace: str, workload: ScalableRef | None, /) -> SizedChunk:
        """Return a PodTemplateSpec sized for a namespace; ``workload`` None = nobody's that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collaborators:
    """Whom the controller asks; each stand-in says nothing."""

    sizer: Sizer | None = None
    """Sizes chunks as admission would; None = the annotation that asks for it has no effect."""
    activities: Activities = always_active
    keeper: RoomKeeper = field(default_factory=NoRoomKeeper)
    """Keeps room by pods of ours."""
