"""The objects of one list and watch, found by what admissions ask for. No I/O; for any thread."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Generic, Never, Protocol, TypeVar

from agent.core.cluster.workload import Workload
from agent.kube.watch.watched_objects import ReflectedObjects, WatchedEntry


class Faulty(Protocol):
    """What may be understood in part."""

    @property
    def fault(self) -> str | None:
        """Return what is not understood of it; None = all is."""


class AimedAutoscaler(Faulty, Protocol):
    """An autoscaler of either kind."""

    @property
    def target(self) -> Workload | str:
        """Return whom it is for; a namespace = any workload of it, for all that is understood."""


K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
A = TypeVar("A", bound=AimedAutoscaler)
F = TypeVar("F", bound=Faulty)
S = TypeVar("S")
_NOTHING: Mapping[str, Never] = MappingProxyType({})


class ReflectedIndex(ReflectedObjects[T], Generic[K, T]):
    """What a reflector knows, by a key that a value has; to look one up takes no lock."""

    def __init__(self, read: Callable[[object], T], key_of: Callable[[T], K]) -> None:
        """Begin empty; ``read`` raises ConvertError, and several values may share what ``key_of`` finds them by."""
        super().__init__(read, lambda value, other: value == other)
        self._key_of = key_of
        self._found: dict[K, dict[str, T]] = {}
        """Values by the entry's key. The inner ones are never changed, only replaced: who reads while another writes
        has the old or the new one."""
        self._keys: dict[str, K] = {}
        """By the entry's key: where its value stands."""

    def find(self, key: K) -> tuple[T, ...]:
        """Return the values with a key, by name; empty = there are none."""
        return tuple(self._found.get(key, _NOTHING).values())

    def replace_all(self, entries: Iterable[WatchedEntry[T]], *, now_seconds: float, is_newest: bool) -> bool:
        """Apply a whole list."""
        has_news = super().replace_all(entries, now_seconds=now_seconds, is_newest=is_newest)
        keys: dict[str, K] = {}
        by_key: dict[K, dict[str, T]] = {}
        with self._lock:
            for name, entry in sorted(self._entries.items()):
                if entry.value is not None:
                    keys[name] = key = self._key_of(entry.value)
                    by_key.setdefault(key, {})[name] = entry.value
            self._keys, self._found = keys, by_key
        return has_news

    def put(self, entry: WatchedEntry[T], *, now_seconds: float) -> bool:
        """Apply one object of a watch."""
        has_news = super().put(entry, now_seconds=now_seconds)
        if has_news:
            self._place(entry.key)
            self._tell(entry.key)
        return has_news

    def put_answer(self, entry: WatchedEntry[T], *, now_seconds: float) -> bool:
        """Take the object that a write was answered with; nobody is told: who wrote it knows."""
        has_news = super().put_answer(entry, now_seconds=now_seconds)
        if has_news:
            self._place(entry.key)
        return has_news

    def remove(self, entry: WatchedEntry[T]) -> bool:
        """Remove an object."""
        was_there = super().remove(entry)
        if was_there:
            self._place(entry.key)
            self._tell(entry.key)
        return was_there

    def _tell(self, key: str) -> None:
        """Hook: the object of a key came, went or became another."""

    def _place(self, name: str) -> None:
        """Have an object found as it stands by now: another thread may have stored it anew since the caller did."""
        with self._lock:
            before, entry = self._keys.pop(name, None), self._entries.get(name)
            key: K | None = None
            # The new place first: who reads meanwhile, without the lock, must never find nothing.
            if entry is not None and entry.value is not None:
                self._keys[name] = key = self._key_of(entry.value)
                self._found[key] = dict(sorted({**self._found.get(key, {}), name: entry.value}.items()))
            if before is None or before == key:
                return
            others = {other_name: other for other_name, other in self._found[before].items() if other_name != name}
            if others:
                self._found[before] = others
            else:
                del self._found[before]


class DoubtedIndex(ReflectedIndex[K, F]):
    """Objects that count although they are not wholly understood: each value says what is not, and that is told."""

    def entry(self, document: object) -> WatchedEntry[F]:
        """Read one object; one that is not wholly understood gives a value and a fault."""
        entry = super().entry(document)
        return entry if entry.value is None else replace(entry, fault=entry.value.fault)


class CombinedIndex(DoubtedIndex[K, F], Generic[K, F, S]):
    """Objects of which it is asked what all with a key come to, which is worked out once for each change."""

    def __init__(
        self, read: Callable[[object], F], key_of: Callable[[F], K], combine: Callable[[Iterable[F]], S]
    ) -> None:
        """Begin empty; ``combine`` is given the values with a key, by name."""
        super().__init__(read, key_of)
        self._combine = combine
        self._combined: dict[K, tuple[Mapping[str, F], S]] = {}
        """Each beside the values that it was worked out from."""

    def combined(self, key: K) -> S:
        """Return what the values with a key come to, be it that there are none."""
        values = self._found.get(key, _NOTHING)
        known = self._combined.get(key)
        if known is None or known[0] is not values:
            known = values, self._combine(values.values())
            if values:
                self._combined[key] = known
        return known[1]

    def replace_all(self, entries: Iterable[WatchedEntry[F]], *, now_seconds: float, is_newest: bool) -> bool:
        """Apply a whole list."""
        has_news = super().replace_all(entries, now_seconds=now_seconds, is_newest=is_newest)
        self._combined = {}
        return has_news

    def _place(self, name: str) -> None:
        before = self._keys.get(name)
        super()._place(name)
        if before is not None:
            self._combined.pop(before, None)


class ByTarget(DoubtedIndex[Workload | str, A]):
    """Autoscalers by whom they are for. One that is not understood holds whom it may be for, and is told."""

    def __init__(self, read: Callable[[object], A]) -> None:
        """Begin empty; ``read`` raises ConvertError where not even a namespace is known."""
        super().__init__(read, lambda autoscaler: autoscaler.target)

    def find_for(self, workload: Workload) -> tuple[A, ...]:
        """Return those for a workload, by name, and after them those that may be for it."""
        return (*self.find(workload), *self.find(workload.namespace))
