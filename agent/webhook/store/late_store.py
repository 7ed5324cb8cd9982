"""A store that may not be there yet: the webhook starts, and admits pods, while its database is away. Webhook.

Until it was opened and migrated every call is answered with ``StoreAway``; from then on they are the store's own.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from agent.webhook.store.forgetting_entry import Forgetting
from agent.webhook.store.shapes import (
    Appended,
    ForgetWish,
    Forgotten,
    LoggedReport,
    NewReport,
    NodeDay,
    NodeMark,
    StoreAway,
    StoredSketch,
)
from agent.webhook.store.snapshot import StoreSnapshot
from agent.webhook.store.store import Store

log = logging.getLogger(__name__)


class LateStore:
    """The store, as its users see it. For any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_prepared = threading.Event()

    @property
    def place(self) -> str:
        """The database for people: no password."""
        return self._store.place

    def prepare(self) -> bool:
        """Make or migrate the schema; False = the database is away: try again.

        Raises:
            SchemaTooNew, StoreUnusable: It is no database for this Plimsoll.
        """
        if self._is_prepared.is_set():
            return True
        try:
            self._store.prepare()
        except StoreAway as error:
            log.warning("the database is away: going on without", extra={"cause": str(error)})
            return False
        self._is_prepared.set()
        return True

    @property
    def is_prepared(self) -> bool:
        """Say whether it was opened."""
        return self._is_prepared.is_set()

    def append(self, entry: NewReport) -> Appended:
        """As the store's."""
        return self._opened().append(entry)

    def pods_of(self, node: str) -> bytes | None:
        """As the store's."""
        return self._opened().pods_of(node)

    def last_heard(self, node: str) -> float | None:
        """As the store's."""
        return self._opened().last_heard(node)

    def tail(self, after_id: int, limit: int) -> list[LoggedReport]:
        """As the store's."""
        return self._opened().tail(after_id, limit)

    def nodes(self) -> list[NodeMark]:
        """As the store's."""
        return self._opened().nodes()

    def folded_through(self) -> int:
        """As the store's."""
        return self._opened().folded_through()

    @contextmanager
    def snapshot(self, since_unix_hour: int) -> Iterator[StoreSnapshot]:
        """As the store's."""
        with self._opened().snapshot(since_unix_hour) as snapshot:
            yield snapshot

    def sketches_of(self, keys: Iterable[str], unix_hours: Iterable[int]) -> Iterator[StoredSketch]:
        """As the store's."""
        return self._opened().sketches_of(keys, unix_hours)

    def node_days(self, unix_days: set[int], nodes: set[str]) -> list[NodeDay]:
        """As the store's."""
        return self._opened().node_days(unix_days, nodes)

    def forgettings(self, after_id: int) -> list[Forgetting]:
        """As the store's."""
        return self._opened().forgettings(after_id)

    def would_forget(self, wish: ForgetWish) -> Forgotten:
        """As the store's."""
        return self._opened().would_forget(wish)

    def forget(self, wish: ForgetWish, *, now_unix_seconds: float) -> Forgotten:
        """As the store's."""
        return self._opened().forget(wish, now_unix_seconds=now_unix_seconds)

    def fold(
        self,
        through_id: int,
        changed: Iterable[StoredSketch],
        drop_before_unix_hour: int,
        *,
        base_id: int,
        node_days: Iterable[NodeDay] = (),
        forgotten_id: int | None = None,
    ) -> None:
        """As the store's."""
        self._opened().fold(
            through_id, changed, drop_before_unix_hour, base_id=base_id, node_days=node_days, forgotten_id=forgotten_id
        )

    def size_bytes(self) -> int:
        """As the store's."""
        return self._opened().size_bytes()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """As the store's."""
        with self._opened().transaction() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """As the store's."""
        with self._opened().reading() as connection:
            yield connection

    def close(self) -> None:
        """Close all connections."""
        self._store.close()

    def _opened(self) -> Store:
        if not self._is_prepared.is_set():
            raise StoreAway(f"{self._store.place} was not reached yet")
        return self._store
