"""memory.low of pods that ask for limits of their own, from what they request; off unless switched on.

Node. What is protected is ``core.memory_low``'s; whom, the writer of pod limits knows: this one goes with it, in mode,
pins, pauses and undoing. A file that holds what neither the kernel nor this agent wrote is somebody else's (a kubelet
with the gate MemoryQoS) and left alone. One thread drives it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from agent.core.cluster.node import NodeState
from agent.core.cluster.pod import Pod
from agent.core.cluster.unit import UnitIdentity
from agent.core.machine.cgroup_files import MEMORY_LOW
from agent.core.machine.memory_low import MemoryLow, memory_low_by_path, memory_low_of
from agent.core.orders.plan_options import PodLimitsOptions
from agent.core.resize.decision import Action, Outcome
from agent.node.keepers.cgroup_keeper import CgroupKeeper
from agent.node.keepers.cgroup_limits import CgroupLimits, CgroupWriteError, LimitOwner
from agent.node.keepers.keeper import KeeperTerms
from agent.node.keepers.pod_limits import TURN_SECONDS, PodLimitsWriter

log = logging.getLogger(__name__)

SWITCHED_OFF: Final = "switched_off"
NOT_ASKED_FOR: Final = "not_asked_for"
_NOTHING: Final = 0
"""What the kernel has in a new cgroup, and a kubelet without MemoryQoS leaves there."""

_Protected = tuple[str, MemoryLow, Mapping[str, str]]


def container_paths_of(units: Iterable[UnitIdentity]) -> dict[str, str]:
    """Return the cgroups of containers by their id."""
    return {unit.container_id: unit.cgroup_path for unit in units if unit.container_id is not None}


class MemoryLowWriter(CgroupKeeper):
    """Keeps ``memory.low`` of limited pods, of their containers, and of the cgroups above them."""

    def __init__(
        self,
        *,
        limits: CgroupLimits,
        terms: KeeperTerms,
        options: PodLimitsOptions,
        writer: PodLimitsWriter,  # Has had its turn before: it knows whose cgroups are written
        container_paths: Callable[[], Mapping[str, str]],  # Container id -> path below the mount
        kubepods_root: Callable[[], str | None],  # Path of ``kubepods`` relative to the mount; None = there is none
    ) -> None:
        super().__init__(limits, terms, turn_seconds=TURN_SECONDS)
        self._options, self._writer = options, writer
        self._container_paths, self._kubepods_root = container_paths, kubepods_root
        self._complaints: frozenset[tuple[str, str]] = frozenset()
        self._complaining: set[tuple[str, str]] = set()

    def _look(self, state: NodeState) -> None:
        if not state.is_complete or state.node is None:
            return
        self._complaining = set()
        root, is_on = self._kubepods_root(), self._options.write_cgroups and self._options.memory_low
        if is_on and root is None:
            return  # which cgroups are above the pods is not known
        wanted = memory_low_by_path(self._protected(state), f"/{root.strip('/')}") if is_on and root else {}
        standing = self._limits.written(LimitOwner.MEMORY_LOW)
        gone = [(limit, _NOTHING) for limit in standing if limit.cgroup_path not in wanted]
        why = NOT_ASKED_FOR if is_on else SWITCHED_OFF
        for limit, amount in self._taken_back(gone, self._complain):
            self._say(Outcome.DONE, why, f"{self._place(limit)}: {amount}, was {limit.line}")
        for path, amount in wanted.items():
            self._put(path, amount)
        self._complaints = frozenset(self._complaining)

    def _protected(self, state: NodeState) -> Iterator[_Protected]:
        """Yield the pods whose limits the agent writes, and those that it wrote for and may not touch now."""
        standing = {limit.cgroup_path for limit in self._limits.written(LimitOwner.MEMORY_LOW)}
        containers: Mapping[str, str] | None = None
        for pod in state.pods:
            path = self._writer.written_path(pod)
            low = memory_low_of(pod) if path is not None else None
            if path is None or low is None or (pod.uid in self._writer.left and path not in standing):
                continue
            containers = self._container_paths() if containers is None else containers
            yield path, low, dict(_paths_by_name(pod, containers, path))

    def _put(self, path: str, amount: int) -> None:
        reading = self._limits.read(path, MEMORY_LOW)
        if self._limits.is_in_force(path, MEMORY_LOW, amount):
            return
        place = f"{path}/{MEMORY_LOW}"
        if reading is None:
            self._complain(Outcome.WITHHELD, "no_file", f"{place} cannot be read: is the controller on there?")
        elif reading != _NOTHING and not self._limits.is_ours(path, MEMORY_LOW):
            self._complain(Outcome.WITHHELD, "limited_by_others", f"{place} is set by somebody else")
        elif (withheld := self._may_write()) is not None:
            self._complain(Outcome.WITHHELD, withheld, f"{place} {amount}")
        else:
            try:
                self._limits.put(LimitOwner.MEMORY_LOW, path, MEMORY_LOW, amount)
            except CgroupWriteError as error:
                self._complain(Outcome.ERROR, "not_written", f"{MEMORY_LOW}: {error}")
            else:
                self._say(Outcome.DONE, "requests", f"{place}: {amount}, was {reading}")

    # -- words -----------------------------------------------------------------------------------------------------

    def _complain(self, outcome: Outcome, reason: str, detail: str) -> None:
        """Record why a file is not as it should be; the same is said once, until it has been otherwise."""
        key = (reason, detail)
        self._complaining.add(key)
        if key not in self._complaints:
            self._say(outcome, reason, detail)

    def _say(self, outcome: Outcome, reason: str, detail: str) -> None:
        level = logging.INFO if outcome is Outcome.DONE else logging.WARNING
        log.log(level, "protected memory", extra={"outcome": outcome, "reason": reason, "detail": detail})
        self._tell(
            unix_seconds=self._unix_seconds(),
            action=Action.POD_LIMITS,
            outcome=outcome,
            reason=reason,
            detail=detail,
        )


def _paths_by_name(pod: Pod, containers: Mapping[str, str], pod_path: str) -> Iterator[tuple[str, str]]:
    """Yield name and cgroup of a pod's containers that lie in its own cgroup."""
    for status in pod.statuses:
        path = containers.get(status.container_id or "")
        if path is not None and path.startswith(f"{pod_path}/"):
            yield status.name, path
