"""Why nothing may be written at the moment: judged before a turn acts, and again before each write. Node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from agent.core.cluster.node import NodeState
from agent.core.cluster.versions import Gates
from agent.core.resize.decision import Action
from agent.node.resize.acting_parts import ActingParts

PAUSED: Final = "paused"
"""The reason of a barrier that people have put up."""
MEASURING: Final = "measuring"
HISTORY: Final = "history"
DIRECTIVES: Final = "directives"
"""The webhook has told nothing yet: pods that an HPA or a VPA sizes are not known from others."""
_OF_FIGURES: Final = (MEASURING, HISTORY, DIRECTIVES)
VERSIONS: Final = "versions"
"""The API server or the kubelet knows no resize."""
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
        """Return whether it does not concern an action.

        A pause does not stop what a person has asked for since; figures that are too old are no reason to leave a pod
        in the state in which it was killed.
        """
        if action is Action.RESTORE:
            return self.reason in (PAUSED, *_OF_FIGURES)
        # Nor to leave a boost on: when it ends was ordered at the pod's creation.
        return action in (Action.REVERT, Action.UNBOOST) and self.reason in _OF_FIGURES

    @property
    def is_dry_run(self) -> bool:
        """Return whether this agent only recommends, until an operator mends something."""
        return self.reason in ("rights", VERSIONS)


class Grounds(Protocol):
    """What a plan stands on besides the API server: measured, learnt and told."""

    def measuring_fault(self) -> str | None:
        """Return why what was measured is too old to act by; None = it is not."""

    def is_history_known(self) -> bool:
        """Return whether what was learnt before the start is known by now."""

    def is_untold(self) -> bool:
        """Return whether a webhook is configured and has told nothing yet."""


class Barriers:
    """Judges, and remembers what stood in the way of the newest plan; any thread."""

    def __init__(self, parts: ActingParts, grounds: Grounds) -> None:
        self._node_name, self._holds, self._rights = parts.node_name, parts.holds, parts.rights
        self._stale_seconds, self._wall_now = parts.settings.act.stale_seconds, parts.clocks.wall_now
        self._grounds = grounds
        self.newest: Barrier | None = None
        """What stood in the way of the newest plan; None = nothing, or there is no plan yet."""
        self.is_enforcing = False
        """Some pod of the newest plan is in mode enforce; else only budgets of pods are written, no taint either."""

    def may_write(self) -> str | None:
        """Return why nothing may be written now, whoever wants to; None = it may."""
        if self._holds.is_paused(self._wall_now()):
            return PAUSED
        return None if self.newest is None else self.newest.reason

    def may_write_budget(self) -> str | None:
        """Return why no limit of a whole pod may be written now; None = it may.

        It is no resize: a person states the amounts, and neither versions nor what was measured decide about them.
        """
        reason = self.may_write()
        return None if reason in (VERSIONS, *_OF_FIGURES) else reason

    def barrier_of(self, state: NodeState, gates: Gates, wall_now: float) -> Barrier | None:
        """Return what stands in the way of writing by a state; None = nothing does."""
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
            return Barrier(reason=VERSIONS, sentence="; ".join(gates.reasons))
        if state.unreadable_pods:
            return Barrier(reason="pods", sentence=f"not understood: {'; '.join(state.unreadable_pods)}")
        fault = self._grounds.measuring_fault()
        if fault is not None:
            return Barrier(reason=MEASURING, sentence=fault)
        if not self._grounds.is_history_known():
            return Barrier(reason=HISTORY, sentence="the history is not read yet")
        if self._grounds.is_untold():
            return Barrier(reason=DIRECTIVES, sentence="the webhook has not yet told whom HPAs and VPAs size")
        return None
