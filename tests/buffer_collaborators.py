"""Whom a buffer controller of a test asks: nobody, unless the test says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agent.core.buffers.buffer import BufferOutcome, ManagedTemplate
from agent.webhook.buffers.controller import Collaborators
from agent.webhook.buffers.placeholders import Placeholders
from agent.webhook.buffers.schedules import Schedules
from agent.webhook.buffers.seams import RoomOutcome, Sizer


class NoRoomKeeper(Placeholders):
    """Keeps no room."""

    priority_class = None

    def __init__(self) -> None:
        pass

    def start(self, wake: Callable[[str], None]) -> None:
        pass

    def stop(self) -> None:
        pass

    def keep(
        self,
        _namespace: str,
        _outcomes: Sequence[BufferOutcome],
        _templates: Mapping[str, ManagedTemplate],
        _version: str,
        /,
    ) -> RoomOutcome:
        return RoomOutcome()

    def clear(self) -> None:
        pass

    def usage(self, _namespace: str, /) -> Mapping[str, Mapping[str, int]] | None:
        return {}


def asking(sizer: Sizer | None = None, keeper: Placeholders | None = None) -> Collaborators:
    """Those of a controller without the parts that a test does not name."""
    return Collaborators(sizer=sizer, activities=Schedules(), keeper=keeper or NoRoomKeeper())
