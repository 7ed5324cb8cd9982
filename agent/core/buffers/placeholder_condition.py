"""How the room of a buffer is kept, as the condition Provisioning says it. Core, pure."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from agent.core.buffers.buffer import FALSE, PROVISIONING, TRUE, Buffer, Condition
from agent.core.buffers.placeholders import RoomStanding

_LONGEST_QUOTE: Final = 300


class Provisioned(StrEnum):
    """Why the room is kept or not: the reason of the condition."""

    KEPT = "RoomKept"
    """All placeholder pods run."""
    NOT_READY = "NotReadyForProvisioning"
    """How many there should be is not known."""
    EMPTY = "BufferIsEmpty"
    """There should be none."""
    NOTHING_REQUESTED = "NothingRequested"
    PAUSED = "Paused"
    """Plimsoll writes nothing at the moment, in the whole cluster."""
    REFUSED = "PlaceholdersRefused"
    """The API server refused them."""
    GAVE_WAY = "PlaceholdersGaveWay"
    """Some gave way to other pods, and wait to be made again."""
    WAITING = "PlaceholdersWaiting"
    """Some wait for a node."""
    STARTING = "PlaceholdersStarting"
    """Some are being made, started or resized."""
    CAPPED = "TooManyReplicas"
    """As many run as there may be of one buffer."""


def provisioning_of(
    buffer: Buffer, standing: RoomStanding, *, now_unix_seconds: float, pause_reason: str | None = None
) -> Condition:
    """Return how a buffer's room is kept; while its status says the same, the time of change stays."""
    if pause_reason is not None:
        reason, message = Provisioned.PAUSED, f"paused: {_quoted(pause_reason)}{_staying(standing)}"
    else:
        reason, message = _said(standing)
    status = TRUE if reason is Provisioned.KEPT else FALSE
    before = buffer.status.condition(PROVISIONING)
    since = before.last_transition_unix_seconds if before is not None and before.status == status else None
    return Condition(
        type=PROVISIONING,
        status=status,
        reason=reason,
        message=message,
        observed_generation=buffer.generation,
        last_transition_unix_seconds=since if since is not None else float(int(now_unix_seconds)),
    )


def _said(standing: RoomStanding) -> tuple[Provisioned, str]:
    wanted, asked = standing.wanted, standing.asked
    if wanted is None:
        return Provisioned.NOT_READY, f"the buffer is not ready for provisioning{_staying(standing)}"
    if not wanted:
        if asked:
            return Provisioned.NOTHING_REQUESTED, "a chunk requests nothing, so there is no room to keep"
        return Provisioned.EMPTY, "no chunk is asked for"
    words = f"{standing.ready} of {wanted} placeholder pods keep their room"
    if standing.missing and standing.refusal is not None:
        return Provisioned.REFUSED, f"{words}; {standing.missing} refused: {_quoted(standing.refusal)}"
    if standing.missing and standing.hold_until_unix_seconds is not None:
        again = datetime.fromtimestamp(int(standing.hold_until_unix_seconds), UTC)
        return Provisioned.GAVE_WAY, f"{words}; {standing.missing} gave way, made again at {again:%H:%M:%S} UTC"
    if standing.waiting:
        said = f": {_quoted(standing.waiting_words)}" if standing.waiting_words else ""
        return Provisioned.WAITING, f"{words}; {standing.waiting} wait for a node{said}"
    if standing.ready < wanted:
        parts = (
            (standing.missing, "to be made"),
            (standing.starting, "starting"),
            (standing.changing, "being resized or replaced"),
        )
        return Provisioned.STARTING, "; ".join([words, *(f"{count} {what}" for count, what in parts if count)])
    if asked is not None and asked > wanted:
        return Provisioned.CAPPED, f"{words}; {asked} are asked for, more than placeholders.mostPodsPerBuffer allows"
    return Provisioned.KEPT, words


def _staying(standing: RoomStanding) -> str:
    there = standing.ready + standing.changing + standing.starting + standing.waiting
    return f"; the {there} placeholder pods that there are stay" if there else ""


def _quoted(text: str) -> str:
    return text if len(text) <= _LONGEST_QUOTE else f"{text[: _LONGEST_QUOTE - 3]}..."
