"""One object of the API by its name, watched. Webhook; one thread asks, any may read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from agent.kube.client.api import Api
from agent.kube.watch.reflector import Reflector, WatchPace, WatchSource
from agent.webhook.clocks import REAL_CLOCKS, Clocks

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchMeans:
    """How an object is watched."""

    api: Api
    on_news: Callable[[], None]
    """Called after it changed; from the watching thread."""
    pace: WatchPace | None = None
    """How often and how patiently the server is asked."""
    clocks: Clocks = REAL_CLOCKS


class OneObject(Generic[T]):
    """The object as the API server has it."""

    def __init__(self, means: WatchMeans, name: str, source: WatchSource[T]) -> None:
        """Prepare; nothing is asked yet. ``source`` is the collection: the query by the name is added here."""
        self.name: Final = name
        self._reflector = Reflector(
            means.api,
            replace(source, query={"fieldSelector": f"metadata.name={name}"}),
            clock=means.clocks.monotonic,
            random=means.clocks.random,
            on_news=means.on_news,
            pace=means.pace,
        )

    def start(self) -> None:
        """Begin to watch."""
        self._reflector.start()

    def stop(self) -> None:
        """Ask the watch to end; ``join`` waits."""
        self._reflector.stop()

    def join(self, timeout_seconds: float) -> bool:
        """Wait until its thread has ended."""
        return self._reflector.join(timeout_seconds)

    @property
    def is_listed(self) -> bool:
        """Return whether it is known what there is."""
        return self._reflector.is_listed

    @property
    def trouble(self) -> str | None:
        """Why the server is not heard; None = it is."""
        return self._reflector.trouble

    def current(self) -> T | None:
        """Return the object; None = there is none, or it is not known yet, or not understood."""
        return next(iter(self._reflector.kept.values()), None)

    def fault(self) -> str | None:
        """Return why it is not understood; None = it is, or there is none."""
        return next(iter(self._reflector.kept.faults()), None)
