"""What keepers of cgroup limits share: when they look, how a limit is taken back, what outlives the agent. Node."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator

from agent.core.cluster.node import NodeState
from agent.core.machine.cgroup_files import Amount
from agent.core.resize.decision import Outcome
from agent.node.keepers.cgroup_limits import CgroupLimits, CgroupWriteError, WrittenLimit
from agent.node.keepers.keeper import KeeperTerms


class CgroupKeeper(ABC):
    """A keeper that writes through ``CgroupLimits``, on the acting thread."""

    def __init__(self, limits: CgroupLimits, terms: KeeperTerms, *, turn_seconds: float) -> None:
        self._limits, self._may_write = limits, terms.may_write
        self._tell, self._unix_seconds = terms.tell, terms.unix_seconds
        self._turn_seconds = turn_seconds
        self._due_seconds: float | None = None

    def tick(self, state: NodeState, now_seconds: float) -> None:
        """Write the limits that are due.

        Args:
            state: The node's pods; where they are not all known nothing is written.
            now_seconds: On a clock that only goes forward.
        """
        if self._due_seconds is None or now_seconds >= self._due_seconds:
            self._due_seconds = now_seconds + self._turn_seconds
            self._look(state)

    def close(self) -> None:  # noqa: B027 - to do nothing is what it is for
        """Leave all as it is: what was asked for still is, and the next agent knows what was written."""

    @abstractmethod
    def _look(self, state: NodeState) -> None: ...

    def _taken_back(
        self, limits: Iterable[tuple[WrittenLimit, Amount]], complain: Callable[[Outcome, str, str], None]
    ) -> Iterator[tuple[WrittenLimit, Amount]]:
        """Restore limits to amounts, as far as they may be written, and yield those; the rest is complained of."""
        for limit, amount in limits:
            withheld = self._may_write()
            if withheld is not None:
                complain(Outcome.WITHHELD, withheld, f"{self._place(limit)} is to be put back")
                continue
            try:
                if self._limits.take_back(limit, amount):
                    yield limit, amount
            except CgroupWriteError as error:
                complain(Outcome.ERROR, "not_written", str(error))

    def _place(self, limit: WrittenLimit) -> str:
        return f"{limit.cgroup_path}/{limit.file}"
