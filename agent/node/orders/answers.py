"""What the socket answers to pause, resume, pin, unpin, holds and restore. Node; values and their written form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agent.core.cluster.pod import PodRef
from agent.core.plan.pod_change import Change
from agent.core.resize.decision import Outcome
from agent.node.files.documents import Document
from agent.node.orders.holds import Pause, Pin


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderAnswer:
    """The answer to pause, resume, pin and unpin."""

    node: str
    taken_unix_seconds: float
    ref: PodRef | None
    """The pod; None = the node."""
    until_unix_seconds: float | None
    """Of the pause or pin that is now in force; None = no end, or there is none."""
    held_since_unix_seconds: float | None
    """Since when it had been paused or pinned before; None = it had not been."""
    notes: tuple[str, ...] = ()
    """What is wrong: an order that the disk did not take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpinned:
    """The answer to unpin with all."""

    node: str
    taken_unix_seconds: float
    pins: tuple[Pin, ...]
    """Those that were in force and are no more."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAnswer:
    """The answer to holds: everything that is held."""

    node: str
    taken_unix_seconds: float
    pause: Pause | None
    pins: tuple[Pin, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredPod:
    """One pod of an answer to restore."""

    ref: PodRef
    changes: tuple[Change, ...]
    """What differs from the original; empty = nothing does."""
    outcome: Outcome | None
    """The worst of its steps; None = only tried, or nothing differed."""
    detail: str = ""
    """What the API answered, why nothing was sent, or why its original is not known; one sentence."""
    kept_unix_seconds: float | None = None
    """When its original was kept; None = its annotation has it, or none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The answer to restore."""

    node: str
    taken_unix_seconds: float
    is_dry_run: bool
    items: tuple[RestoredPod, ...]
    notes: tuple[str, ...] = ()


ORDERED: Final = Document(OrderAnswer, "ordered", 1)
UNPINNED: Final = Document(Unpinned, "unpinned", 1)
HOLDING: Final = Document(HeldAnswer, "holding", 1)
RESTORED: Final = Document(Restored, "restored", 1)
