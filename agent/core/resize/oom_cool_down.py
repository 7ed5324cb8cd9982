"""How often an out-of-memory kill may lead to an action. Core, pure; time is an argument.

Every kill is recorded elsewhere; here only what is done about it is held back. The key is the workload's container, so
that a replacement pod does not begin anew.

A kill that comes after an action of foresight (a limit that was almost full) is answered at once all the same: the
foresight was not enough. The action after that waits, whatever it is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.plan.plan import PlanStep
from agent.core.plan.pod_change import Setting

COOL_DOWN_SECONDS: Final = 300.0
"""CruiseKube's; at exactly this much later the next action is allowed."""

Key = tuple[Workload, str]
"""Workload and container."""


class OomCoolDown:
    """The moments of the last actions, by a clock that outlives a restart of the agent."""

    def __init__(
        self, acted_seconds: Mapping[Key, float] | None = None, *, cool_down_seconds: float = COOL_DOWN_SECONDS
    ) -> None:
        self._acted: dict[Key, float] = dict(acted_seconds or {})
        self._cool_down_seconds = cool_down_seconds
        self._killed: dict[Key, float] = {}
        """Kills that nothing has been done about yet."""
        self._foreseen: set[Key] = set()
        """Whose last action came before a kill; not kept over a restart: then that action counts as an answer."""

    def killed(self, workload: Workload, container: str, now_seconds: float) -> None:
        """Record a kill."""
        self._killed = {key: at for key, at in self._killed.items() if not self._is_over(at, now_seconds)}
        self._killed[workload, container] = now_seconds

    def take(
        self, workload: Workload, container: str, now_seconds: float, *, sent_seconds: float | None = None
    ) -> bool:
        """Return whether an action may be taken now; if so, that counts as the action.

        Args:
            sent_seconds: When it was sent, if it is only now known to be done: it answers to no later kill.
        """
        key = workload, container
        self._acted = {key: at for key, at in self._acted.items() if not self._is_over(at, now_seconds)}
        if self.is_cooling(workload, container, now_seconds):
            return False
        self._acted[key] = now_seconds
        self._foreseen &= self._acted.keys()
        killed = self._killed.get(key)
        if killed is None or (sent_seconds is not None and killed > sent_seconds):
            self._foreseen.add(key)
        else:
            del self._killed[key]
            self._foreseen.discard(key)
        return True

    def is_cooling(self, workload: Workload, container: str, now_seconds: float) -> bool:
        """Return whether an action was taken so lately that another one has to wait."""
        key = workload, container
        acted = self._acted.get(key)
        if acted is None or self._is_over(acted, now_seconds):
            return False
        return not (key in self._killed and key in self._foreseen)

    @property
    def acted_seconds(self) -> Mapping[Key, float]:
        """Return the moments that are remembered."""
        return self._acted

    def _is_over(self, acted_seconds: float, now_seconds: float) -> bool:
        """Return whether a cool-down has passed, or lies so far ahead that the clock was put back since."""
        return abs(now_seconds - acted_seconds) >= self._cool_down_seconds


def raised_memory_limits(step: PlanStep) -> tuple[str, ...]:
    """Return the containers whose memory limit a step raises for the limit's own sake.

    One that moves only as far as the request that passes it, and stays one byte above it so that the QoS class is kept,
    gives the container no room: that is no answer to a kill, and no foresight. Where request and limit are one amount
    and move together, the limit rises for what the container needs.
    """
    requests = {
        change.container: change
        for change in step.changes
        if change.resource is Resource.MEMORY and change.setting is Setting.REQUEST
    }
    raised = []
    for change in step.changes:
        if change.resource is not Resource.MEMORY or change.setting is not Setting.LIMIT:
            continue
        request = requests.get(change.container)
        is_dragged = request is not None and request.before != change.before and change.after <= request.after + 1
        if change.after > change.before and not is_dragged:
            raised.append(change.container)
    return tuple(raised)
