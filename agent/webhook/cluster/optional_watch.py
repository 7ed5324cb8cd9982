"""A watch of a kind that a cluster may not have: asked for now and then, begun when it is there, ended when it goes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, Generic, Protocol, TypeVar

from agent.kube.client.api import Api
from agent.kube.client.errors import ApiError, KubeError
from agent.kube.watch.reflector import Reflector, WatchCounts
from agent.kube.watch.watched_objects import ReflectedObjects
from agent.turns import Turns

log = logging.getLogger(__name__)

T = TypeVar("T")

ASK_SECONDS: Final = 60.0
"""Between two questions whether the kind is there."""
ASK_AFTER_TROUBLE_SECONDS: Final = 5.0
_NOT_FOUND: Final = 404


class AnyWatch(Protocol):
    """One of the watches, whatever it watches."""

    @property
    def is_listed(self) -> bool:
        """Return whether all has been read at least once."""

    @property
    def age_seconds(self) -> float | None:
        """How long ago the server was last heard; None = never."""

    @property
    def trouble(self) -> str | None:
        """Why the server is not heard; None = it is."""

    @property
    def counts(self) -> WatchCounts:
        """What happened since the start."""

    def start(self) -> None:
        """Begin, in a thread of its own."""

    def stop(self) -> None:
        """Ask it to end."""

    def join(self, timeout_seconds: float) -> bool:
        """Wait until it has ended."""


class WatchState(Protocol):
    """What one of the watches knows, whatever it is."""

    def faults(self) -> tuple[str, ...]:
        """Return ``namespace/name: why`` of what is not understood."""

    def __len__(self) -> int: ...


class OptionalWatch(Generic[T]):
    """Watches a kind where the server serves it; where it does not, there is none of it, and that is known."""

    def __init__(
        self,
        api: Api,
        *,
        name: str,
        group_path: str,
        resource: str,
        kept: ReflectedObjects[T],
        make: Callable[[], Reflector[T]],
        clock: Callable[[], float],
        ask_seconds: float = ASK_SECONDS,
    ) -> None:
        """Prepare; nothing is asked yet.

        Args:
            group_path: Where the server lists the kinds of the group: ``/apis/autoscaling.k8s.io/v1``.
            resource: The kind's name there, plural.
            kept: Where the objects are kept, the one that ``make`` uses.
            make: Makes a watch, each time the kind appears.
            ask_seconds: Between two questions whether it is there.
        """
        self.kept: Final = kept
        self._api, self._name, self._group_path, self._resource = api, name, group_path, resource
        self._make, self._clock, self._ask_seconds = make, clock, ask_seconds
        self._turns = Turns(f"ask-{name}", self._turn, failed=self._failed)
        self._reflector: Reflector[T] | None = None
        self._absent_seconds: float | None = None
        """When it was last known to be absent; None = it is served, or nothing is known."""
        self._trouble: str | None = None
        self._no_counts = WatchCounts()

    @property
    def is_listed(self) -> bool:
        """Return whether all has been read, or is known not to be there."""
        reflector = self._reflector
        return reflector.is_listed if reflector is not None else self._absent_seconds is not None

    @property
    def is_served(self) -> bool:
        """Return whether the server has the kind, as far as is known."""
        return self._reflector is not None

    @property
    def age_seconds(self) -> float | None:
        """How long ago the server was last heard of it; None = never."""
        reflector, absent_seconds = self._reflector, self._absent_seconds
        if reflector is not None:
            return reflector.age_seconds
        return None if absent_seconds is None else max(self._clock() - absent_seconds, 0.0)

    @property
    def trouble(self) -> str | None:
        """Why the server is not heard; None = it is."""
        reflector = self._reflector
        return reflector.trouble if reflector is not None else self._trouble

    @property
    def counts(self) -> WatchCounts:
        """What happened since the kind appeared."""
        reflector = self._reflector
        return reflector.counts if reflector is not None else self._no_counts

    def start(self) -> None:
        """Begin to ask, in a thread of its own."""
        self._turns.start()

    def stop(self) -> None:
        """Ask it to end; ``join`` waits."""
        self._turns.stop()
        if self._reflector is not None:
            self._reflector.stop()

    def join(self, timeout_seconds: float) -> bool:
        """Wait until its threads have ended; False = one hangs in a connection and dies with the process."""
        has_ended = self._turns.join(timeout_seconds)
        reflector = self._reflector
        return has_ended and (reflector is None or reflector.join(timeout_seconds))

    def _turn(self) -> float:
        try:
            self._set(is_served=self._ask())
        except KubeError as error:
            self._trouble = str(error)
            return ASK_AFTER_TROUBLE_SECONDS
        self._trouble = None
        return self._ask_seconds

    def _failed(self, _: Exception) -> float:
        log.exception("watch failed", extra={"watch": self._name})
        self._trouble = "a fault of this program, see its log"
        return ASK_AFTER_TROUBLE_SECONDS

    def _ask(self) -> bool:
        try:
            answer = self._api.call("GET", self._group_path)
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return False
            raise
        resources = answer.get("resources") if isinstance(answer, Mapping) else None
        return isinstance(resources, list) and any(
            isinstance(resource, Mapping) and resource.get("name") == self._resource for resource in resources
        )

    def _set(self, *, is_served: bool) -> None:
        reflector = self._reflector
        if is_served and reflector is None:
            log.info("the server has it: watching", extra={"watch": self._name})
            self._begin()
        elif not is_served:
            if reflector is not None:
                log.info("the server no longer has it", extra={"watch": self._name})
                reflector.stop()
                reflector.join(1.0)
                self.kept.replace_all((), now_seconds=self._clock(), is_newest=True)
            # Last, and in this order: who finds it known to be absent finds nothing of it.
            self._absent_seconds = self._clock()
            self._reflector = None

    def _begin(self, *, is_renewed: bool = False) -> None:
        reflector = self._make()
        if is_renewed:
            reflector.list_newest()  # a server's cache that is behind has not all that is known
        reflector.start()
        self._reflector, self._absent_seconds = reflector, None
        if self._turns.is_stopping:
            reflector.stop()

    def _renew(self) -> None:
        """Watch anew where the kind is watched; what is known stays until that has listed."""
        if self._reflector is not None:
            self._reflector.stop()
            self._reflector.join(1.0)
            self._begin(is_renewed=True)
