"""Where the cluster's pods are, and whom they belong to: a hundred thousands of them in a few dozen megabytes. No I/O.

A pod is one number (its uid) and one run of bytes (who, where, name), which Python's collector of cycles need not walk:
with an object each, its pauses would be seen in admissions. Lists are taken object by object, never as a whole.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from typing import Final, Generic, TypeVar

from agent.core.cluster.facts import PodPlace, WorkloadRequests, WrittenContainer
from agent.core.cluster.placement import PodPlacement
from agent.core.cluster.workload import Workload
from agent.kube.objects.cluster_json import pod_place_from_json
from agent.kube.watch.watched_objects import Gathering, ReflectedObjects, WatchedEntry

V = TypeVar("V", bound=Hashable)


class InternTable(Generic[V]):
    """Values by number and back; a number is free again when everybody who took it has given it back."""

    def __init__(self) -> None:
        self._numbers: dict[V, int] = {}
        self._values: list[V | None] = []
        self._users: list[int] = []
        self._free: list[int] = []

    def take(self, value: V) -> int:
        """Return the number of a value, one user more."""
        number = self._numbers.get(value)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._values[number], self._users[number] = value, 0
            else:
                number = len(self._values)
                self._values.append(value)
                self._users.append(0)
            self._numbers[value] = number
        self._users[number] += 1
        return number

    def give_back(self, number: int) -> None:
        """Record that one user is gone."""
        self._users[number] -= 1
        if not self._users[number]:
            del self._numbers[self.value(number)]
            self._values[number] = None
            self._free.append(number)

    def number(self, value: V) -> int | None:
        """Find the number of a value; None = nobody uses it."""
        return self._numbers.get(value)

    def value(self, number: int) -> V:
        """Return the value of a number that is in use."""
        value = self._values[number]
        if value is None:
            msg = f"number {number} is not in use"
            raise KeyError(msg)
        return value

    def __len__(self) -> int:
        return len(self._numbers)


GONE_SECONDS: Final = 3600.0
"""How long a pod is remembered that is gone: its node's last reports of it come minutes later, and up to an hour later
where they waited in a queue."""
MOST_GONE: Final = 20_000
"""8 MB, and 18 where pods of one template are never there at once; of more the oldest are forgotten."""

_RECORD: Final = struct.Struct("<IIIHBIIQ")
"""Number of the workload, of the node, of the containers, round of the list, flags, number of the placement, requests
in millicores and bytes; the name follows in UTF-8, and of pods that run to an end that of their controller after a NUL.
"""
_NUMBER: Final = struct.Struct("<I")
"""That of the workload, with which a record begins."""
_PIECE: Final = 2_000
"""Pods, of which half a millisecond is taken up."""
_MOST_MILLICORES: Final = (1 << 32) - 1
_MOST_BYTES: Final = (1 << 64) - 1
MOST_PLACEMENTS: Final = 20_000
"""Half a kilobyte each; pods of one template share theirs, so there are more only where each pod has its own labels."""
_UNKNOWN: Final = PodPlacement(held_for="is placed in ways that are not known", is_written_known=False)
_NOT_KEPT: Final = PodPlacement(
    held_for=f"is of more than {MOST_PLACEMENTS} sorts of pods that differ in labels or placement: its own is not kept",
    is_written_known=False,
)
MOST_PARTS: Final = 250
"""Of one placement. Whoever may create a pod may give it 40,000 labels, ten megabytes here."""
_TOO_MANY_PARTS: Final = PodPlacement(
    held_for=f"has more than {MOST_PARTS} labels and rules of placement: they are not kept", is_written_known=False
)
_NONE: Final = (0, 0, 0)
_NOWHERE: Final = 0xFFFF_FFFF
_ROUNDS: Final = 1 << 16
_RUNNING: Final = 1
_TERMINATING: Final = 2

MOST_TEMPLATES: Final = 64
"""Of one workload that are compared; pods of one template have the same requests as written."""

Containers = tuple[WrittenContainer, ...]
_Template = tuple[Containers | None]
"""The containers alone; None, which they may be, is no value that can be numbered."""
Uid = int | str
"""A uid as a number, which is half as large as its text; a text where it is no UUID."""


class PodTable(ReflectedObjects[PodPlace]):
    """The places of all pods; for any thread."""

    def __init__(
        self,
        clock: Callable[[], float],
        on_pod: Callable[[PodPlace, bool], None] = lambda _place, _is_new: None,
        read: Callable[[object], PodPlace] = pod_place_from_json,
    ) -> None:
        """Begin empty; ``on_pod`` is told of each pod that is brought, and whether it was not known before."""
        super().__init__(read, lambda place, other: place == other)
        self._clock, self._on_pod = clock, on_pod
        self._guard = threading.Lock()
        self._records: dict[Uid, bytes] = {}
        self._workloads: InternTable[Workload] = InternTable()
        self._nodes: InternTable[str] = InternTable()
        self._containers: InternTable[_Template] = InternTable()
        self._placements: InternTable[PodPlacement] = InternTable()
        self._templates: dict[int, dict[int, int]] = {}
        """How many pods have which containers: by the workload's number and that of the containers."""
        self._running: dict[int, tuple[int, int, int]] = {}
        """Pods that run and are to go on running, and their requests in millicores and bytes; by the workload's number.
        """
        self._on: dict[int, set[Uid]] = {}
        """By the node's number."""
        self._gone: OrderedDict[str, tuple[float, PodPlace]] = OrderedDict()
        self._pending: dict[Uid, str] = {}
        """Why a resize waits; few pods have one."""
        self._not_understood: dict[str, str] = {}
        self._round = 0

    # -- what others ask -------------------------------------------------------------------------------------------

    def pod(self, uid: str) -> PodPlace | None:
        """Find a pod; None = there is none."""
        key = _to_key(uid)
        with self._guard:
            record = self._records.get(key)
            return self._place(key, record) if record is not None else None

    def gone_pod(self, uid: str) -> PodPlace | None:
        """Find a pod that went within the last `GONE_SECONDS`, as it was last."""
        with self._guard:
            entry = self._gone.get(uid)
        return entry[1] if entry is not None and self._clock() - entry[0] <= GONE_SECONDS else None

    def pods_on(self, node: str) -> tuple[PodPlace, ...]:
        """Return the pods bound to a node, by namespace and name."""
        with self._guard:
            number = self._nodes.number(node)
            keys = self._on.get(number, ()) if number is not None else ()
            places = [self._place(key, self._records[key]) for key in keys]
        return tuple(sorted(places, key=_order))

    def pods_of(
        self, workload: Workload, most: int, pause: Callable[[], None] = lambda: None
    ) -> tuple[int, tuple[PodPlace, ...]]:
        """Count a workload's pods and return the first of them: those whose resize is pending, then by name.

        All pods are walked, in pieces, with a ``pause`` between them: 100,000 take 25 ms.
        """
        with self._guard:
            number = self._workloads.number(workload)
            keys = list(self._records) if number is not None else []
        if number is None:
            return 0, ()
        begin, candidates = _NUMBER.pack(number), list[tuple[bool, str, Uid]]()
        for start in range(0, len(keys), _PIECE):
            pause()
            with self._guard:
                candidates += [
                    (key not in self._pending, _name(record), key)
                    for key in keys[start : start + _PIECE]
                    if (record := self._records.get(key)) is not None and record.startswith(begin)
                ]
        candidates.sort(key=itemgetter(0, 1))
        with self._guard:
            places = [self._place(key, self._records[key]) for _, _, key in candidates[:most] if key in self._records]
        return len(candidates), tuple(place for place in places if place.workload == workload)

    def running(self, workload: Workload) -> int:
        """Count the pods of a workload that run and are to go on running."""
        with self._guard:
            number = self._workloads.number(workload)
            return self._running.get(number, _NONE)[0] if number is not None else 0

    def requested(self, workload: Workload) -> WorkloadRequests:
        """Return what the pods of a workload that run and are to go on running request together."""
        with self._guard:
            number = self._workloads.number(workload)
            pods, millicores, memory_bytes = self._running.get(number, _NONE) if number is not None else _NONE
        return WorkloadRequests(pods=pods, cpu_millicores=millicores, memory_bytes=memory_bytes)

    def one_of(self, workloads: Iterable[Workload]) -> dict[Workload, PodPlace]:
        """Return a pod of each workload that has one that is to go on: one that runs first, then by uid.

        All pods are walked, outside the guard.
        """
        with self._guard:
            numbers = {
                number: workload for workload in workloads if (number := self._workloads.number(workload)) is not None
            }
            records = list(self._records.items()) if numbers else []
        best: dict[int, tuple[bool, str, Uid]] = {}
        for key, record in records:
            number, _, _, _, flags, *_ = _RECORD.unpack_from(record)
            if number not in numbers or flags & _TERMINATING:
                continue
            rank = not flags & _RUNNING, str(key), key
            if number not in best or rank[:2] < best[number][:2]:
                best[number] = rank
        by_workload = {}
        for _, _, key in best.values():
            with self._guard:
                if key in self._records:
                    place = self._place(key, self._records[key])
                    by_workload[place.workload] = place
        return by_workload

    def in_parts(self, most: int = 500) -> Iterator[list[PodPlace]]:
        """Return all pods, so many at a time: the guard is held for no longer than that takes."""
        with self._guard:
            keys = list(self._records)
        for start in range(0, len(keys), most):
            with self._guard:
                places = [
                    self._place(key, self._records[key]) for key in keys[start : start + most] if key in self._records
                ]
            yield places

    def written(self, workload: Workload) -> Mapping[str, WrittenContainer]:
        """Return a workload's containers by name, with the requests that most of its pods were written with.

        A pod's requests are those with which it was first seen here, or which its annotation keeps: a resize changes
        neither.
        """
        with self._guard:
            number = self._workloads.number(workload)
            templates = self._templates.get(number, {}) if number is not None else {}
            counted = [
                (count, self._containers.value(index)[0]) for index, count in islice(templates.items(), MOST_TEMPLATES)
            ]
        counted.sort(key=_rank)
        return {container.name: container for _, containers in counted for container in containers or ()}

    # -- as the reflector keeps them -------------------------------------------------------------------------------

    def gather(self) -> Gathering:
        """Begin to take a list: what is in it holds at once, what is not goes at its end."""
        self._round = (self._round + 1) % _ROUNDS
        return _Round(self)

    def replace_all(self, entries: Iterable[WatchedEntry[PodPlace]], *, now_seconds: float, is_newest: bool) -> bool:
        """Apply a whole list."""
        self._round = (self._round + 1) % _ROUNDS
        for entry in entries:
            self.put(entry, now_seconds=now_seconds)
        return self.sweep()

    def put(self, entry: WatchedEntry[PodPlace], *, now_seconds: float) -> bool:
        """Apply one pod."""
        place = entry.value
        if place is None:
            with self._guard:
                self._not_understood[entry.key] = entry.fault or "not understood"
                if entry.uid is not None:
                    self._drop(_to_key(entry.uid))
            return True
        key = _to_key(place.uid)
        with self._guard:
            self._not_understood.pop(entry.key, None)
            record = self._records.get(key)
            known = None if record is None else self._containers.value(_RECORD.unpack_from(record)[2])[0]
            was_known = self._drop(key)
            self._add(key, place, _as_first_seen(place.containers, known))
        self._on_pod(place, not was_known)
        return True

    def remove(self, entry: WatchedEntry[PodPlace]) -> bool:
        """Remove a pod; it is remembered for a while."""
        with self._guard:
            was_odd = self._not_understood.pop(entry.key, None) is not None
            return (entry.uid is not None and self._forget(_to_key(entry.uid))) or was_odd

    def sweep(self) -> bool:
        """End a list: take away what it did not have."""
        with self._guard:
            stale = [key for key, record in self._records.items() if _RECORD.unpack_from(record)[3] != self._round]
        for key in stale:
            with self._guard:
                self._forget(key)
        return True

    def clear_faults(self) -> None:
        """Begin a list: what is not understood will be said again."""
        with self._guard:
            self._not_understood.clear()

    def values(self) -> tuple[PodPlace, ...]:
        """Return all pods; only tests ask for them."""
        with self._guard:
            places = [self._place(key, record) for key, record in self._records.items()]
        return tuple(sorted(places, key=_order))

    def faults(self) -> tuple[str, ...]:
        """Return ``namespace/name: why`` of what is not understood."""
        with self._guard:
            return tuple(f"{name}: {why}" for name, why in sorted(self._not_understood.items()))

    def __len__(self) -> int:
        return len(self._records)

    # -- inside; the guard is held ---------------------------------------------------------------------------------

    def _add(self, key: Uid, place: PodPlace, containers: Containers | None) -> None:
        workload = self._workloads.take(place.workload)
        node = _NOWHERE
        if place.node is not None:
            node = self._nodes.take(place.node)
            self._on.setdefault(node, set()).add(key)
        number = self._containers.take((containers,))
        templates = self._templates.setdefault(workload, {})
        templates[number] = templates.get(number, 0) + 1
        flags = _RUNNING * place.is_running | _TERMINATING * place.is_terminating
        names = place.name if place.controller is None else f"{place.name}\0{place.controller}"
        placement = place.placement or _UNKNOWN
        if self._placements.number(placement) is None:
            if placement.parts > MOST_PARTS:
                placement = _TOO_MANY_PARTS
            elif len(self._placements) >= MOST_PLACEMENTS:
                placement = _NOT_KEPT
        self._records[key] = _RECORD.pack(
            workload,
            node,
            number,
            self._round,
            flags,
            self._placements.take(placement),
            min(max(place.cpu_request_millicores, 0), _MOST_MILLICORES),
            min(max(place.memory_request_bytes, 0), _MOST_BYTES),
        ) + names.encode(errors="surrogatepass")
        if place.resize_pending is not None:
            self._pending[key] = place.resize_pending
        if flags == _RUNNING:
            self._count(workload, 1, *_requests_of(self._records[key]))

    def _drop(self, key: Uid) -> bool:
        record = self._records.pop(key, None)
        if record is None:
            return False
        self._pending.pop(key, None)
        workload, node, containers, _, flags, placement, millicores, memory_bytes = _RECORD.unpack_from(record)
        self._placements.give_back(placement)
        templates = self._templates[workload]
        templates[containers] -= 1
        if not templates[containers]:
            del templates[containers]
        if not templates:
            del self._templates[workload]
        self._containers.give_back(containers)
        if flags == _RUNNING:
            self._count(workload, -1, -millicores, -memory_bytes)
        if node != _NOWHERE:
            self._on[node].discard(key)
            if not self._on[node]:
                del self._on[node]
            self._nodes.give_back(node)
        self._workloads.give_back(workload)
        return True

    def _count(self, workload: int, pods: int, millicores: int, memory_bytes: int) -> None:
        was = self._running.pop(workload, _NONE)
        if was[0] + pods:
            self._running[workload] = was[0] + pods, was[1] + millicores, was[2] + memory_bytes

    def _forget(self, key: Uid) -> bool:
        record = self._records.get(key)
        if record is None:
            return False
        place, now_seconds = self._place(key, record), self._clock()
        self._drop(key)
        # Where it might run nobody asks of it any more, and its author may have made that as large as he likes.
        self._gone[place.uid] = now_seconds, replace(place, placement=None)
        self._gone.move_to_end(place.uid)
        while self._gone:
            oldest = next(iter(self._gone))
            if len(self._gone) <= MOST_GONE and now_seconds - self._gone[oldest][0] <= GONE_SECONDS:
                break
            del self._gone[oldest]
        return True

    def _place(self, key: Uid, record: bytes) -> PodPlace:
        workload_number, node, containers, _, flags, placement, cpu, memory = _RECORD.unpack_from(record)
        workload = self._workloads.value(workload_number)
        name, _, controller = _names(record)
        return PodPlace(
            uid=key if isinstance(key, str) else _to_text(key),
            namespace=workload.namespace,
            name=name,
            node=self._nodes.value(node) if node != _NOWHERE else None,
            workload=workload,
            is_running=bool(flags & _RUNNING),
            is_terminating=bool(flags & _TERMINATING),
            containers=self._containers.value(containers)[0],
            controller=controller or None,
            cpu_request_millicores=cpu,
            memory_request_bytes=memory,
            placement=self._placements.value(placement),
            resize_pending=self._pending.get(key),
        )


class _Round:
    """A list on its way in."""

    def __init__(self, table: PodTable) -> None:
        self._table = table
        table.clear_faults()

    def take(self, document: object) -> None:
        self._table.put(self._table.entry(document), now_seconds=0.0)

    def finish(self, *, now_seconds: float, is_newest: bool) -> bool:
        return self._table.sweep()


def _requests_of(record: bytes) -> tuple[int, int]:
    """Return the requests in a record: as they are kept, so that what was added is what is taken away."""
    *_, millicores, memory_bytes = _RECORD.unpack_from(record)
    return millicores, memory_bytes


def _to_key(uid: str) -> Uid:
    try:
        number = int(uid.replace("-", ""), 16)
    except ValueError:
        return uid
    return number if _to_text(number) == uid else uid


def _to_text(number: int) -> str:
    """Return the text of a UUID; ``uuid`` takes five times as long."""
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _names(record: bytes) -> tuple[str, str, str]:
    return record[_RECORD.size :].decode(errors="surrogatepass").partition("\0")


def _name(record: bytes) -> str:
    return _names(record)[0]


def _order(place: PodPlace) -> tuple[str, str]:
    return place.namespace, place.name


def _as_first_seen(containers: Containers | None, known: Containers | None) -> Containers | None:
    """Keep the requests with which a pod was seen first: a resize is not how it was written."""
    if containers is None or known is None or containers == known:
        return containers
    first = {container.name: container for container in known}
    return tuple(first.get(container.name, container) for container in containers)


def _rank(counted: tuple[int, Containers | None]) -> tuple[int, list[tuple[int, int]]]:
    """Order templates such that the one of most pods comes last; of as many, that with the smaller requests."""
    count, containers = counted
    amounts = [(-(spec.cpu_request_millicores or 0), -(spec.memory_request_bytes or 0)) for spec in containers or ()]
    return count, amounts
