"""What the watches of the CapacityBuffer controller keep, and whom they tell of changes. Webhook; no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from agent.core.buffers.buffer import BufferQuota
from agent.kube.objects.buffer_json import buffer_quota_from_json
from agent.kube.objects.json_reader import Reader
from agent.kube.watch.watched_objects import ReflectedObjects, WatchedEntry
from agent.webhook.cluster.index import ReflectedIndex

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTemplate:
    """A PodTemplate, by its metadata."""

    namespace: str
    name: str
    uid: str
    generation: int


def template_seen(document: object) -> SeenTemplate:
    """Read a PodTemplate's metadata.

    Raises:
        ConvertError: It has not even a name.
    """
    metadata = Reader(document, "").child("metadata")
    return SeenTemplate(
        namespace=metadata.text("namespace") or "default",
        name=metadata.required_text("name"),
        uid=metadata.text("uid") or "",
        generation=metadata.whole("generation") or 0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenQuota:
    """A ResourceQuota."""

    namespace: str
    quota: BufferQuota


def seen_quota(document: object) -> SeenQuota:
    """Read a ResourceQuota.

    Raises:
        ConvertError: It has not even a name.
    """
    namespace, quota = buffer_quota_from_json(document)
    return SeenQuota(namespace=namespace, quota=quota)


class ByNamespace(ReflectedIndex[str, T], Generic[T]):
    """What a reflector knows, by namespace and name; tells which object became another."""

    def __init__(
        self, read: Callable[[object], T], namespace_of: Callable[[T], str], on_change: Callable[[str, str], None]
    ) -> None:
        """Begin empty; ``on_change`` is told namespace and name of what came, went or changed, by a watching thread."""
        super().__init__(read, namespace_of)
        self._on_change = on_change

    def named(self, namespace: str, name: str) -> T | None:
        """Find one object; None = it is not known."""
        return self._found.get(namespace, {}).get(f"{namespace}/{name}")

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces in which there is one."""
        return tuple(self._found)

    def count(self) -> int:
        """Count those that are understood."""
        return sum(len(objects) for objects in tuple(self._found.values()))

    def replace_all(self, entries: Iterable[WatchedEntry[T]], *, now_seconds: float, is_newest: bool) -> bool:
        """Apply a whole list."""
        before = self._by_entry()
        has_news = super().replace_all(entries, now_seconds=now_seconds, is_newest=is_newest)
        after = self._by_entry()
        for key in {**before, **after}:
            if before.get(key) != after.get(key):
                self._tell(key)
        return has_news

    def _by_entry(self) -> dict[str, T]:
        # The outer one as it is now: another thread may take a namespace out of it meanwhile.
        return {key: value for objects in tuple(self._found.values()) for key, value in objects.items()}

    def _tell(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        self._on_change(namespace, name)


class Bell(ReflectedObjects[str]):
    """Keeps nothing of the objects of a kind, and rings for each that changed or went."""

    def __init__(self, ring: Callable[[str, str | None], None], referenced: Callable[[], Iterable[str]]) -> None:
        """Begin; ``ring`` is told ``namespace/name`` and resourceVersion of what changed, None = it is not there."""
        super().__init__(lambda _: "", lambda _one, _other: False)
        self._ring, self._referenced = ring, referenced

    def replace_all(self, entries: Iterable[WatchedEntry[str]], *, now_seconds: float, is_newest: bool) -> bool:
        """Apply a whole list."""
        there = {entry.key: entry.version for entry in entries}
        for key in self._referenced():
            self._ring(key, there.get(key))
        return False

    def put(self, entry: WatchedEntry[str], *, now_seconds: float) -> bool:
        """Apply one object of a watch."""
        self._ring(entry.key, entry.version or "")
        return False

    def remove(self, entry: WatchedEntry[str]) -> bool:
        """Remove an object."""
        self._ring(entry.key, None)
        return False
