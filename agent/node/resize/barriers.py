"""Why nothing may be written at the moment: judged before a turn acts, and again before each write. Node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from agent.core.cluster.node import NodeState
from agent.core.cluster.versions import Gates
from agent.core.resize.decision import Action
from agent.node.cluster.rights import Rights
from agent.node.orders.holds import Holds

PAUSED: Final = "paused"
"""The reason of a barrier that people have put up."""
MEASURING: Final = "measuring"
HISTORY: Final = "history"
DIRECTIVES: Final = "directives"
"""The webhook has told nothing yet: pods that an HPA or a VPA sizes are not known from others."""
_OF_FIGURES: Final = (MEASURING, HISTORY, DIRECTIVES)
NO_API: Final = "api"
"""The API server has not told enough, or not lately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """Why nothing at all is written."""

    reason: str
    """From a closed set: ``paused``, ``api``, ``pods``, ``measuring``, ``history``, ``directives``, ``rights``,
    ``versions``."""
    sentence: str

    def lets_through(self, action: Action) -> bool:
        """Say whether it does not concern an action.

        A pause does not stop what a person has asked for since; figures that are too old are no reason to leave a pod
        in the state in which it was killed.
        """
        if action is Action.RESTORE:
            return self.reason in (PAUSED, *_OF_FIGURES)
        return action is Action.REVERT and self.reason in _OF_FIGURES

    @property
    def is_dry_run(self) -> bool:
        """Say whether this agent only recommends, until an operator mends something."""
        return self.reason in ("rights", "versions")


class Barriers:
    """Judges; any thread."""

    def __init__(
        self,
        *,
        node_name: str,
        holds: Holds,
        rights: Rights,
        stale_seconds: float,
        is_history_known: Callable[[], bool],
        measuring_fault: Callable[[], str | None],
        is_untold: Callable[[], bool],
    ) -> None:
        """Take what is asked.

        Args:
            node_name: Of this node in the cluster.
            holds: Pauses.
            rights: Whether this agent may write.
            stale_seconds: Without news of the API server for so long nothing is written.
            is_history_known: What was learnt before the start is known by now.
            measuring_fault: Why what was measured is too old to act by; None = it is not.
            is_untold: The webhook that is configured has told nothing yet.
        """
        self._is_untold = is_untold
        self._node_name, self._holds, self._rights, self._stale_seconds = node_name, holds, rights, stale_seconds
        self._is_history_known, self._measuring_fault = is_history_known, measuring_fault

    def barrier_of(self, state: NodeState, gates: Gates, wall_now: float) -> Barrier | None:
        """Give what stands in the way; None = nothing does.

        Args:
            state: The newest.
            gates: What API server and kubelet can do.
            wall_now: Unix seconds.
        """
        pause = self._holds.paused(wall_now)
        if pause is not None:
            return Barrier(reason=PAUSED, sentence=pause.reason or "paused")
        faults = self._rights.faults()
        if faults and self._rights.is_known:
            return Barrier(reason="rights", sentence="; ".join(faults))
        if state.node_fault is not None:
            return Barrier(reason=NO_API, sentence=f"the node object is not understood: {state.node_fault}")
        if state.is_complete and state.node is None:
            return Barrier(reason=NO_API, sentence=f"the cluster has no node {self._node_name}: is --node right?")
        if not state.is_complete:
            return Barrier(reason=NO_API, sentence="the API server has not told of the node and its pods yet")
        if state.age_seconds is None or state.age_seconds > self._stale_seconds:
            return Barrier(reason=NO_API, sentence=f"nothing was heard of the API server for {self._stale_seconds:g} s")
        if faults:
            return Barrier(reason=NO_API, sentence="; ".join(faults))
        if not gates.resize:
            return Barrier(reason="versions", sentence="; ".join(gates.reasons))
        if state.unreadable_pods:
            return Barrier(reason="pods", sentence=f"not understood: {'; '.join(state.unreadable_pods)}")
        fault = self._measuring_fault()
        if fault is not None:
            return Barrier(reason=MEASURING, sentence=fault)
        if not self._is_history_known():
            return Barrier(reason=HISTORY, sentence="the history is not read yet")
        if self._is_untold():
            return Barrier(reason=DIRECTIVES, sentence="the webhook has not yet told whom HPAs and VPAs size")
        return None
