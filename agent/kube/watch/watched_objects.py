"""The objects of one list and watch, as values of the house. No I/O; for any thread.

Objects are found by namespace and name, which the API keeps unique, and told from their successors of the same name by
uid. One that is not understood affects only itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from agent.kube.objects.json_reader import ConvertError

T = TypeVar("T")

HELD_SECONDS: Final = 30.0
"""How long an object from a patch's answer is defended against older ones; a watch is behind by milliseconds."""
UNKNOWN: Final = "(an object without a name)"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedEntry(Generic[T]):
    """One object."""

    key: str
    """``namespace/name``, or the name alone."""
    uid: str | None
    version: str | None
    generation: int | None
    value: T | None
    """None = it is not understood."""
    fault: str | None = None
    held_until_seconds: float | None = None
    """It came by ``put``: until then what is older does not replace it. On the caller's clock."""


class Gathering(Protocol):
    """A list on its way in; nothing holds before it has come to its end."""

    def take(self, document: object) -> None:
        """Add the next object."""

    def finish(self, *, now_seconds: float, is_newest: bool) -> bool:
        """Replace all before by what was taken; as ``ReflectedObjects.replace_all``."""


class ReflectedObjects(Generic[T]):
    """What a reflector knows."""

    def __init__(self, read: Callable[[object], T], is_same: Callable[[T, T], bool]) -> None:
        self.read: Final = read
        self.is_same: Final = is_same
        self._lock = threading.Lock()
        self._entries: dict[str, WatchedEntry[T]] = {}

    def entry(self, document: object) -> WatchedEntry[T]:
        """Read one object; one that is not understood gives an entry that says why."""
        metadata = document.get("metadata") if isinstance(document, Mapping) else None
        metadata = metadata if isinstance(metadata, Mapping) else {}
        name, namespace = metadata.get("name"), metadata.get("namespace")
        uid, version, generation = metadata.get("uid"), metadata.get("resourceVersion"), metadata.get("generation")
        key = UNKNOWN
        if isinstance(name, str) and name:
            key = f"{namespace}/{name}" if isinstance(namespace, str) and namespace else name
        value, fault = None, None
        try:
            value = self.read(document)
        except ConvertError as error:
            fault = str(error)
        return WatchedEntry(
            key=key,
            uid=uid if isinstance(uid, str) else None,
            version=version if isinstance(version, str) else None,
            generation=generation if isinstance(generation, int) else None,
            value=value,
            fault=fault,
        )

    def gather(self) -> Gathering:
        """Start to collect a list."""
        return _Gathered(self)

    def replace_all(self, entries: Iterable[WatchedEntry[T]], *, now_seconds: float, is_newest: bool) -> bool:
        """Replace all objects by those of a list.

        Args:
            is_newest: The list is of the moment, and not of a server's cache: nothing is defended against it.
        """
        with self._lock:
            before, after = self._entries, dict[str, WatchedEntry[T]]()
            for entry in entries:
                old = before.get(entry.key)
                keeps = not is_newest and old is not None and _is_defended(old, entry, now_seconds)
                after[entry.key] = old if keeps and old is not None else entry
            self._entries = after
            return before.keys() != after.keys() or any(
                not self._is_as_before(before[key], entry) for key, entry in after.items()
            )

    def put(self, entry: WatchedEntry[T], *, now_seconds: float) -> bool:
        """Store an object of a watch; return whether anything changed for those who use it."""
        with self._lock:
            old = self._entries.get(entry.key)
            if old is not None and _is_defended(old, entry, now_seconds):
                return False
            self._entries[entry.key] = entry
            return old is None or not self._is_as_before(old, entry)

    def put_answer(self, entry: WatchedEntry[T], *, now_seconds: float) -> bool:
        """Store the object that a patch was answered with, unless it is not newer than what is known.

        An object that the watch has not shown, or has shown to be gone or another of the same name, is left to it.
        """
        with self._lock:
            old = self._entries.get(entry.key)
            if old is None or entry.value is None or old.uid != entry.uid or not _is_newer(entry, old):
                return False
            self._entries[entry.key] = WatchedEntry(
                key=entry.key,
                uid=entry.uid,
                version=entry.version,
                generation=entry.generation,
                value=entry.value,
                held_until_seconds=now_seconds + HELD_SECONDS,
            )
            return not self._is_as_before(old, entry)

    def remove(self, entry: WatchedEntry[T]) -> bool:
        """Remove an object, unless its successor is here already; return whether it was there."""
        with self._lock:
            old = self._entries.get(entry.key)
            if old is None or (old.uid is not None and entry.uid is not None and old.uid != entry.uid):
                return False
            del self._entries[entry.key]
            return True

    def values(self) -> tuple[T, ...]:
        """Return what is understood, by namespace and name."""
        with self._lock:
            ordered = sorted(self._entries.items())
        return tuple(entry.value for _, entry in ordered if entry.value is not None)

    def faults(self) -> tuple[str, ...]:
        """Return ``namespace/name: why`` of what is not."""
        with self._lock:
            ordered = sorted(self._entries.items())
        return tuple(f"{key}: {entry.fault}" for key, entry in ordered if entry.fault is not None)

    def values_and_faults(self) -> tuple[tuple[T, ...], tuple[str, ...]]:
        """Return both, of one moment: an object that turns from one into the other is never missing from both."""
        with self._lock:
            ordered = sorted(self._entries.items())
        return (
            tuple(entry.value for _, entry in ordered if entry.value is not None),
            tuple(f"{key}: {entry.fault}" for key, entry in ordered if entry.fault is not None),
        )

    def __len__(self) -> int:
        with self._lock:
            return len(self._entries)

    def _is_as_before(self, old: WatchedEntry[T], new: WatchedEntry[T]) -> bool:
        if old is new:
            return True
        if old.value is None or new.value is None:
            return old.value is new.value and old.fault == new.fault
        return self.is_same(old.value, new.value)


class _Gathered(Generic[T]):
    def __init__(self, objects: ReflectedObjects[T]) -> None:
        self._kept = objects
        self._entries: list[WatchedEntry[T]] = []

    def take(self, document: object) -> None:
        self._entries.append(self._kept.entry(document))

    def finish(self, *, now_seconds: float, is_newest: bool) -> bool:
        return self._kept.replace_all(self._entries, now_seconds=now_seconds, is_newest=is_newest)


def _is_defended(old: WatchedEntry[T], new: WatchedEntry[T], now_seconds: float) -> bool:
    held = old.held_until_seconds is not None and now_seconds < old.held_until_seconds
    return held and old.uid == new.uid and _is_newer(old, new)


def _is_newer(entry: WatchedEntry[T], other: WatchedEntry[T]) -> bool:
    """Compare two writings of one object: by resourceVersion where both are numbers, else by generation."""
    order = compare_versions(entry.version, other.version)
    if order is not None:
        return order > 0
    return entry.generation is not None and other.generation is not None and entry.generation > other.generation


def compare_versions(version: str | None, other: str | None) -> int | None:
    """Compare two resourceVersions: below 0, 0, above 0 as the first is older, the same, newer; None = no telling.

    Source:
        KEP-5504: those of the API server's own types are whole numbers that rise. An extension's may be any text.
    """
    if (
        version is None
        or other is None
        or not (version.isascii() and other.isascii() and version.isdigit() and other.isdigit())
    ):
        return None
    return int(version) - int(other)
