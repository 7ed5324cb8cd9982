"""What pods just admitted take more from quotas than they came with, until the quotas show it. No I/O.

An API server counts a pod after it asked the webhooks about it, and the count comes back by a watch. Pods that are
created at the same moment would all be given the same room. But anybody may send reviews of pods that nobody creates:
what a review reserves counts for its own address alone, and for others once the watch shows the pod, or where most of
what its address reserved was shown before. Each replica of the webhook knows its own answers only, and what a watch is
behind by more than ``UNSEEN_SECONDS`` is not known: then the room may be given twice.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from agent.core.cluster.workload import Workload

UNSEEN_SECONDS: Final = 5.0
"""For so long growth is added to what a quota shows as used; some of it is counted twice then, and less growth made."""
MOST_ADMISSIONS: Final = 10_000
"""2,000 a second, a few megabytes; of more the oldest are forgotten."""
MOST_OF_ONE: Final = 2000
"""Of one address, unseen; of more nothing is remembered."""
MOST_ADDRESSES: Final = 1000
_REMEMBERED: Final = 200
"""Admissions by which an address is judged; then they count half."""


@dataclass(slots=True)
class _Admission:
    at_seconds: float
    address: str
    workload: Workload
    grown: Mapping[str, int]
    is_seen: bool = False


@dataclass(slots=True)
class _Record:
    """What became of an address' admissions."""

    waiting: int = 0
    came: int = 0
    never_came: int = 0

    @property
    def is_trusted(self) -> bool:
        return self.came > self.never_came

    def end(self, *, came: bool) -> None:
        self.waiting -= 1
        self.came += came
        self.never_came += not came
        if self.came + self.never_came > _REMEMBERED:
            self.came, self.never_came = self.came // 2, self.never_came // 2


class RecentGrowth:
    """The growth of the last seconds, by namespace and the quotas' names; nanos. For any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._admissions: deque[_Admission] = deque()
        self._unseen: dict[Workload, deque[_Admission]] = {}
        self._sums: dict[str, dict[str | None, dict[str, int]]] = {}
        """By namespace: of pods that were seen (None), and of others by address; empty ones are not in it."""
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def add(self, workload: Workload, grown: Mapping[str, int], address: str = "") -> None:
        """Remember a pod that is admitted larger than it came, by a review of an address."""
        with self._guard:
            record = self._record(address)
            if record.waiting >= MOST_OF_ONE:
                return
            record.waiting += 1
            admission = _Admission(self._clock(), address, workload, grown)
            self._admissions.append(admission)
            self._unseen.setdefault(workload, deque()).append(admission)
            self._sum(admission, 1)
            self._forget()

    def see(self, workload: Workload) -> None:
        """Record that a new pod of a workload is there: the oldest of its admissions was of it."""
        with self._guard:
            waiting = self._unseen.get(workload)
            if not waiting:
                return
            self._forget()
            waiting = self._unseen.get(workload)
            if waiting:
                admission = waiting[0]
                self._sum(admission, -1)
                self._settle(admission, came=True)
                admission.is_seen = True
                self._sum(admission, 1)

    def of(
        self, namespace: str, address: str = "", *, own: tuple[Workload, Mapping[str, int]] | None = None
    ) -> dict[str, int]:
        """Return what quotas of a namespace may not show yet, as far as it counts for reviews of an address.

        Args:
            own: The workload and the growth of a pod that is asked about again; where it is known it is left out.
        """
        with self._guard:
            self._forget()
            growth: dict[str, int] = {}
            for whose, sums in self._sums.get(namespace, {}).items():
                if whose is None or whose == address or self._record(whose).is_trusted:
                    for name, more in sums.items():
                        growth[name] = growth.get(name, 0) + more
            if own is not None and self._is_waiting(*own, address):
                left = {name: more - own[1].get(name, 0) for name, more in growth.items()}
                growth = {name: more for name, more in left.items() if more}
            return growth

    def __len__(self) -> int:
        return len(self._admissions)

    # -- inside; the guard is held ---------------------------------------------------------------------------------

    def _is_waiting(self, workload: Workload, grown: Mapping[str, int], address: str) -> bool:
        """Return whether a pod of a workload that grew so much, by a review of an address, was not seen yet."""
        waiting = self._unseen.get(workload, ())
        return any(admission.address == address and admission.grown == grown for admission in waiting)

    def _record(self, address: str) -> _Record:
        record = self._records.setdefault(address, _Record())
        self._records.move_to_end(address)
        if len(self._records) > MOST_ADDRESSES:
            for whose in [whose for whose, entry in self._records.items() if not entry.waiting][: MOST_ADDRESSES // 2]:
                if whose != address:
                    del self._records[whose]
        return record

    def _sum(self, admission: _Admission, sign: int) -> None:
        namespace, whose = admission.workload.namespace, None if admission.is_seen else admission.address
        in_namespace = self._sums.setdefault(namespace, {})
        sums = in_namespace.setdefault(whose, {})
        for name, more in admission.grown.items():
            sums[name] = sums.get(name, 0) + sign * more
            if not sums[name]:
                del sums[name]
        if not sums:
            del in_namespace[whose]
        if not in_namespace:
            del self._sums[namespace]

    def _settle(self, admission: _Admission, *, came: bool) -> None:
        waiting = self._unseen[admission.workload]
        waiting.popleft()  # they are settled in their order
        if not waiting:
            del self._unseen[admission.workload]
        self._record(admission.address).end(came=came)

    def _forget(self) -> None:
        oldest = self._clock() - UNSEEN_SECONDS
        while self._admissions and (self._admissions[0].at_seconds < oldest or len(self._admissions) > MOST_ADMISSIONS):
            admission = self._admissions.popleft()
            self._sum(admission, -1)
            if not admission.is_seen:
                self._settle(admission, came=False)
