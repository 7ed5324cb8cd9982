"""One object of the API by its name, watched. Webhook; one thread asks, any may read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from agent.kube.api import Api
from agent.kube.reflector import Reflector, WatchPace, WatchSource

T = TypeVar("T")


class OneObject(Generic[T]):
    """The object as the API server has it."""

    def __init__(
        self,
        api: Api,
        name: str,
        *,
        watch: str,
        path: str,
        read: Callable[[object], T],
        is_same: Callable[[T, T], bool],
        clock: Callable[[], float],
        random: Callable[[], float],
        on_news: Callable[[], None],
        pace: WatchPace | None,
    ) -> None:
        """Prepare; nothing is asked yet.

        Args:
            api: The server.
            name: Of the object.
            watch: What the watch is called in threads and log lines.
            path: Of its collection.
            read: Makes a value of its JSON; raises ConvertError.
            is_same: Says whether two values are the same to those who use them.
            clock: Monotonic seconds.
            random: Gives 0..1.
            on_news: Called after it changed; from the watching thread.
            pace: How often and how patiently the server is asked.
        """
        self.name: Final = name
        self._reflector = Reflector(
            api,
            WatchSource(
                name=watch, path=path, query={"fieldSelector": f"metadata.name={name}"}, read=read, is_same=is_same
            ),
            clock=clock,
            random=random,
            on_news=on_news,
            pace=pace,
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
        """Say whether it is known what there is."""
        return self._reflector.is_listed

    @property
    def trouble(self) -> str | None:
        """Why the server is not heard; None = it is."""
        return self._reflector.trouble

    def current(self) -> T | None:
        """Give the object; None = there is none, or it is not known yet, or not understood."""
        return next(iter(self._reflector.kept.values()), None)

    def fault(self) -> str | None:
        """Say why it is not understood; None = it is, or there is none."""
        return next(iter(self._reflector.kept.faults()), None)
