"""What a keeper is: something beside requests that is looked after on the acting thread."""

from __future__ import annotations

from typing import Protocol

from agent.core.cluster.node import NodeState


class Keeper(Protocol):
    """Something that is looked after beside the pods' requests: the overload taint, pod limits, reserved memory."""

    def tick(self, state: NodeState, now_seconds: float) -> None:
        """Do what is due; never raises for the API's or the kernel's sake."""
        ...

    def close(self) -> None:
        """Undo what must not outlive the agent; never raises."""
        ...
