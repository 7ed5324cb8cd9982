"""What a keeper is: something beside requests that is looked after on the acting thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from agent.core.cluster.node import NodeState
from agent.core.resize.decision import DecisionLog


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperTerms:
    """Whether a keeper may write, and whom it tells what it did."""

    may_write: Callable[[], str | None]
    """Why nothing may be written now (paused, a stale watch, a missing right); None = it may."""
    tell: DecisionLog
    unix_seconds: Callable[[], float] = time.time
    """Wall clock, for what is told."""


class Keeper(Protocol):
    """Something that is looked after beside the pods' requests: the overload taint, pod limits, reserved memory."""

    def tick(self, state: NodeState, now_seconds: float) -> None:
        """Do what is due; never raises for the API's or the kernel's sake."""

    def close(self) -> None:
        """Undo what must not outlive the agent; never raises."""
